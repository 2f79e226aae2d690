// SPDX-License-Identifier: MIT
// Spreads the tokens that are appended to a KV cache over threads.
#include "src/backend/context.h"
#include "src/base/checked.h"
#include "src/kernels/kv/kv_kernel.h"

struct work {
    const struct weft__kv_launch *launch;
    struct weft__kv_call call;
    int64_t tokens;
};

static void append_task(void *opaque, int32_t index, int32_t thread)
{
    const struct work *work = opaque;
    int64_t token0 = index * work->launch->rows_per_task;
    int64_t token1 = token0 + work->launch->rows_per_task;
    (void)thread;
    weft__kv_append(work->launch, &work->call, token0,
                    token1 < work->tokens ? token1 : work->tokens);
}

weft__submit_fn weft__cpu_submit_kv;
weft_status weft__cpu_submit_kv(const weft_context *context, const void *opaque_launch,
                                const void *opaque_args)
{
    const struct weft__kv_launch *launch = opaque_launch;
    const weft_kv_append_args *args = opaque_args;
    struct work work = {
        .launch = launch,
        .call = {.pool = args->pool,
                 .k = args->k,
                 .v = args->v,
                 .k_token_stride = args->k_token_stride,
                 .v_token_stride = args->v_token_stride,
                 .q = args->q,
                 .q_token_stride = args->q_token_stride,
                 .slots = args->slots,
                 .positions = args->positions},
        .tokens = args->tokens,
    };
    weft__parallel_for(context, (int32_t)weft__ceil_div(args->tokens, launch->rows_per_task),
                       append_task, &work);
    return WEFT_OK;
}
