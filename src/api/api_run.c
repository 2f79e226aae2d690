// SPDX-License-Identifier: MIT
// The way to the backend, the same for every operation.
#include "src/api/api.h"

weft_status weft__api_plan(weft_context *context, enum weft__op op, void *desc, size_t desc_bytes,
                           const struct weft__plan_array *arrays, int32_t num_arrays,
                           weft_plan **out)
{
    weft_plan *plan;
    WEFT__TRY(weft__plan_create(context, op, desc, desc_bytes, arrays, num_arrays, &plan));
    weft_status status = context->backend->prepare[op](plan);
    if (status != WEFT_OK) {
        weft_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return WEFT_OK;
}

weft_status weft__api_submit(const weft_plan *plan, const void *args, size_t args_bytes,
                             weft_stream *stream)
{
    weft_program *program = weft__api_recording(plan->context);
    if (program)
        return weft__api_record(
            program, &(struct weft__step){.plan = plan, .args = args, .args_bytes = args_bytes},
            stream);
    WEFT__TRY(weft__api_stream(plan->context, stream));
    atomic_fetch_add_explicit(&plan->context->runs, 1, memory_order_relaxed);
    return plan->context->backend->submit[plan->op](plan, args, stream);
}

bool weft__api_supported(const weft_context *context, weft_status status, weft_plan *plan,
                         const char **reason)
{
    weft_plan_destroy(plan);
    if (reason)
        *reason = status == WEFT_OK ? "" : context ? weft_error_text(context) : "context is NULL";
    return status == WEFT_OK;
}
