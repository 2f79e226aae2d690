// SPDX-License-Identifier: MIT
#include <weft/probe.h>

#include "src/api/api.h"
#include "src/kernels/probe/probe_kernel.h"

static weft_status check_args(weft_context *context, const weft_probe_args *args)
{
    if (args->kind == WEFT_PROBE_READ) {
        if (!args->memory || (uintptr_t)args->memory % 64 != 0)
            return weft__fail(context, WEFT_EINVAL, "probe: memory must be aligned to 64 bytes");
        if (args->bytes < WEFT_PROBE_UNIT_BYTES || args->bytes % WEFT_PROBE_UNIT_BYTES != 0)
            return weft__fail(context, WEFT_EINVAL,
                              "probe: bytes must be a whole number of units of %d, not %lld",
                              WEFT_PROBE_UNIT_BYTES, (long long)args->bytes);
        return WEFT_OK;
    }
    if (args->kind < WEFT_PROBE_READ || args->kind > WEFT_PROBE_DOT_BF16)
        return weft__fail(context, WEFT_EINVAL, "probe: kind %d is unknown", (int)args->kind);
    if (args->steps < 1 || args->steps > WEFT_PROBE_MAX_STEPS)
        return weft__fail(context, WEFT_EINVAL, "probe: steps must be 1 to %d, not %lld",
                          WEFT_PROBE_MAX_STEPS, (long long)args->steps);
    return WEFT_OK;
}

weft_status weft_probe_run(weft_context *context, const weft_probe_args *user_args,
                           weft_probe_result *out)
{
    weft_probe_args args;
    if (!context)
        return WEFT_EINVAL;
    if (!out)
        return weft__fail(context, WEFT_EINVAL, "probe: out is NULL");
    if (!weft__api_read(&args, WEFT__KNOWN(&args), user_args))
        return weft__fail(
            context, WEFT_EINVAL,
            "probe: args is NULL, lacks its size or sets members unknown to this version");
    WEFT__TRY(check_args(context, &args));
    if (weft__api_recording(context))
        return weft__fail(context, WEFT_EINVAL, "probe: a probe cannot be recorded");
    // The only operation without a plan: what one would keep is a pointer.
    weft_plan plan = {.context = context, .op = WEFT__OP_probe, .desc = &args};
    struct weft__probe_run run = {out};
    return weft__api_submit(&plan, &run, sizeof run, NULL);
}
