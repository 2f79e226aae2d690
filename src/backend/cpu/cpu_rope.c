// SPDX-License-Identifier: MIT
// Rotates tokens: cos and sin of a token's position serve all its heads.
#include "src/backend/cpu/cpu_rows.h"
#include "src/kernels/rope/rope_kernel.h"

static void run(const void *opaque, int64_t token0, int64_t token1, int32_t thread)
{
    const struct weft__cpu_run *work = opaque;
    const struct weft__rope_launch *launch = work->launch;
    const weft_rope_args *args = work->args;
    float cosines[WEFT__ROPE_MAX_PAIRS], sines[WEFT__ROPE_MAX_PAIRS];
    (void)thread;
    for (int64_t token = token0; token < token1; token++) {
        weft__rope_angles(&launch->frequencies, args->positions[token], cosines, sines);
        float *head = args->x + token * args->token_stride;
        for (int32_t i = 0; i < launch->num_heads; i++, head += launch->head_dim)
            launch->kernel->rotate(head, head, cosines, sines, launch->frequencies.rotary_dim);
    }
}

weft__submit_fn weft__cpu_submit_rope;
weft_status weft__cpu_submit_rope(const weft_context *context, const void *opaque_launch,
                                  const void *opaque_args)
{
    const struct weft__rope_launch *launch = opaque_launch;
    const weft_rope_args *args = opaque_args;
    weft__cpu_spread_rows(context, args->tokens, launch->rows_per_task, run,
                          &(struct weft__cpu_run){launch, args});
    return WEFT_OK;
}
