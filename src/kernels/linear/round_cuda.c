// SPDX-License-Identifier: MIT
// Rounding of activations on CUDA (linear_device.h draws the rows).
#include <stdio.h>

#include <weft/linear.h>

#include "src/kernels/cuda/launch.h"
#include "src/kernels/linear/linear_device.h"
#include "src/kernels/linear/linear_rounded.h"

static const struct weft__round_kernel rows[] = {
    {.base = {"round", "round_sm80", WEFT__CUDA_sm80}}};
static const struct weft__kernel_table table = {"round", rows, sizeof rows[0],
                                                sizeof rows / sizeof rows[0]};

#define CONSTANTS(X) X(WEFT_X_DTYPE)
WEFT__CUDA_CONSTANTS(round, CONSTANTS)

struct launch {
    int64_t cols;
};

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_round_desc *desc = opaque_desc;
    struct launch *launch = choice->launch;
    weft_status status;
    if (!weft__cuda_choose(&table, limits, desc->variant, NULL, desc, choice, &status))
        return status;
    const struct weft__round_constants constants = {.WEFT_X_DTYPE = (int32_t)desc->x_dtype};
    if (desc->cols > INT32_MAX / 2) {
        snprintf(choice->text, sizeof choice->text, "round: cols must fit 30 bits on cuda");
        return WEFT_EUNSUPPORTED;
    }
    weft__cuda_want(choice, "src/kernels/linear/linear_round.cu", "weft_linear_round",
                    WEFT__CUDA_VALUES(round, constants));
    launch->cols = desc->cols;
    snprintf(choice->text, sizeof choice->text, " %lld columns rows<=%d", (long long)desc->cols,
             desc->max_rows);
    return WEFT_OK;
}

static int32_t steps(const void *opaque_launch, const void *opaque_args,
                     struct weft__cuda_step *step)
{
    const struct launch *launch = opaque_launch;
    const weft_round_args *args = opaque_args;
    const struct weft__linear_round_args round = {.x = args->x,
                                                  .x_stride = args->x_stride,
                                                  .rounded = args->rounded,
                                                  .batch = args->rows,
                                                  .cols = (int32_t)launch->cols};
    weft__cuda_step(step, 0, (uint32_t)(((launch->cols + 63) / 64 * 2 + 7) / 8),
                    (uint32_t)args->rows, 256, &round, sizeof round)
        ->overlap = 1;
    return 1;
}

const struct weft__cuda_op weft__round_cuda = {
    .table = &table, .launch_bytes = sizeof(struct launch), .plan = plan, .steps = steps};
