// SPDX-License-Identifier: MIT
// Softmax on CUDA: how its kernel is launched.
#include <stdio.h>

#include <weft/softmax.h>

#include "src/kernels/cuda/launch.h"
#include "src/kernels/softmax/softmax_device.h"

static const struct weft__kernel rows[] = {{"softmax", "softmax_sm80", WEFT__CUDA_sm80}};
static const struct weft__kernel_table table = {"softmax", rows, sizeof rows[0], 1};

#define CONSTANTS(X) X(X_DTYPE)
WEFT__CUDA_CONSTANTS(softmax, CONSTANTS)

struct launch {
    int64_t dim;
    float scale;
    uint32_t threads;
};

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_softmax_desc *desc = opaque_desc;
    struct launch *launch = choice->launch;
    weft_status status;
    if (!weft__cuda_choose(&table, limits, desc->variant, NULL, desc, choice, &status))
        return status;
    struct weft__softmax_constants constants = {.X_DTYPE = (int32_t)desc->dtype};
    weft__cuda_want(choice, "src/kernels/softmax/softmax.cu", "weft_softmax",
                    WEFT__CUDA_VALUES(softmax, constants));
    launch->dim = desc->dim;
    launch->scale = desc->scale == 0 ? 1 : desc->scale;
    int64_t warps = (desc->dim + 127) / 128;
    launch->threads = 32 * (uint32_t)(warps < 32 ? warps : 32);
    snprintf(choice->text, sizeof choice->text, " dim %lld rows<=%d", (long long)desc->dim,
             desc->max_rows);
    return WEFT_OK;
}

static int32_t steps(const void *opaque_launch, const void *opaque_args,
                     struct weft__cuda_step *step)
{
    const struct launch *launch = opaque_launch;
    const weft_softmax_args *args = opaque_args;
    struct weft__softmax_device_args device = {
        .x = args->x, .x_stride = args->x_stride, .dim = launch->dim, .scale = launch->scale};
    weft__cuda_step(step, 0, (uint32_t)args->rows, 1, launch->threads, &device, sizeof device);
    step->overlap = 1;
    return 1;
}

const struct weft__cuda_op weft__softmax_cuda = {&table, sizeof(struct launch), plan, steps};
