// SPDX-License-Identifier: MIT
// Merging attention states on CUDA: how the kernel is launched.
#include <stdio.h>

#include <weft/merge.h>

#include "src/kernels/cuda/launch.h"
#include "src/kernels/merge/merge_device.h"

static const struct weft__kernel rows[] = {{"merge", "merge_sm80", WEFT__CUDA_sm80}};
static const struct weft__kernel_table table = {"merge", rows, sizeof rows[0], 1};

#define CONSTANTS(X) X(DIM) X(X_DTYPE) X(Y_DTYPE)
WEFT__CUDA_CONSTANTS(merge, CONSTANTS)

enum { WARPS = 4 }; // of a block

struct launch {
    int32_t num_heads;
};

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_merge_desc *desc = opaque_desc;
    struct launch *launch = choice->launch;
    weft_status status;
    if (!weft__cuda_choose(&table, limits, desc->variant, NULL, desc, choice, &status))
        return status;
    if ((int64_t)desc->max_tokens * desc->num_heads / WARPS >= INT32_MAX) {
        snprintf(choice->text, sizeof choice->text, "merge: more rows than a launch has blocks");
        return WEFT_EUNSUPPORTED;
    }
    struct weft__merge_constants constants = {
        .DIM = desc->dim, .X_DTYPE = (int32_t)desc->dtype, .Y_DTYPE = (int32_t)desc->out_dtype};
    weft__cuda_want(choice, "src/kernels/merge/merge.cu", "weft_merge",
                    WEFT__CUDA_VALUES(merge, constants));
    launch->num_heads = desc->num_heads;
    snprintf(choice->text, sizeof choice->text, " %s %d heads of %d states<=%d tokens<=%d",
             weft_dtype_name(desc->dtype), desc->num_heads, desc->dim, desc->max_states,
             desc->max_tokens);
    return WEFT_OK;
}

static int32_t steps(const void *opaque_launch, const void *opaque_args,
                     struct weft__cuda_step *step)
{
    const struct launch *launch = opaque_launch;
    const weft_merge_args *args = opaque_args;
    struct weft__merge_device_args device = {.x = args->x,
                                             .lse = args->lse,
                                             .out = args->out,
                                             .out_lse = args->out_lse,
                                             .x_state_stride = args->x_state_stride,
                                             .x_token_stride = args->x_token_stride,
                                             .x_head_stride = args->x_head_stride,
                                             .lse_state_stride = args->lse_state_stride,
                                             .out_token_stride = args->out_token_stride,
                                             .out_head_stride = args->out_head_stride,
                                             .rows = (int64_t)args->tokens * launch->num_heads,
                                             .num_heads = launch->num_heads,
                                             .num_states = args->num_states};
    weft__cuda_step(step, 0, (uint32_t)((device.rows + WARPS - 1) / WARPS), 1, WARPS * 32, &device,
                    sizeof device);
    step->overlap = 1;
    return 1;
}

const struct weft__cuda_op weft__merge_cuda = {&table, sizeof(struct launch), plan, steps};
