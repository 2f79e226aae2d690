// SPDX-License-Identifier: MIT
// Normalisation on CUDA: which kernel, and how it is launched.
#include <stdio.h>

#include <weft/norm.h>

#include "src/kernels/cuda/launch.h"
#include "src/kernels/norm/norm_device.h"
#include "src/kernels/norm/norm_kernel.h"

// As the CPU's rows begin, so that tools read them alike.
static const struct weft__norm_kernel rows[] = {
#define X(name, value, level)                                                                      \
    {.base = {"norm", "norm_" #name "_" #level, WEFT__CUDA_##level}, .kind = value},
#include "src/kernels/norm/norm_cuda.def"
#undef X
};
static const struct weft__kernel_table table = {"norm", rows, sizeof rows[0],
                                                sizeof rows / sizeof rows[0]};

#define CONSTANTS(X) X(CENTRED) X(X_DTYPE) X(Y_DTYPE) X(W_DTYPE) X(DIM)
WEFT__CUDA_CONSTANTS(norm, CONSTANTS)

struct launch {
    int64_t dim;
    float eps, weight_offset;
    uint32_t threads;
};

static bool serves(const struct weft__kernel *row, const void *desc)
{
    const weft_norm_desc *wanted = desc;
    return ((const struct weft__norm_kernel *)(const void *)row)->kind == wanted->kind &&
           !(wanted->flags & WEFT_NORM_Y_ROUNDED);
}

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_norm_desc *desc = opaque_desc;
    struct launch *launch = choice->launch;
    weft_status status;
    if (!weft__cuda_choose(&table, limits, desc->variant, serves, desc, choice, &status))
        return status;
    // Dimensions of models are few: compiled in. Others share one kernel.
    int32_t dim = desc->dim % 64 == 0 && desc->dim <= 65536 ? (int32_t)desc->dim : 0;
    struct weft__norm_constants constants = {.CENTRED = desc->kind == WEFT_NORM_LAYER,
                                             .X_DTYPE = (int32_t)desc->x_dtype,
                                             .Y_DTYPE = (int32_t)desc->y_dtype,
                                             .W_DTYPE = (int32_t)desc->weight_dtype,
                                             .DIM = dim};
    weft__cuda_want(choice, "src/kernels/norm/norm.cu", "weft_norm",
                    WEFT__CUDA_VALUES(norm, constants));
    launch->dim = desc->dim;
    launch->eps = desc->eps;
    launch->weight_offset = desc->flags & WEFT_NORM_WEIGHT_PLUS_ONE ? 1.0f : 0.0f;
    int64_t warps = (desc->dim + 127) / 128; // four elements of a thread
    launch->threads = 32 * (uint32_t)(warps < 32 ? warps : 32);
    snprintf(choice->text, sizeof choice->text, " %s dim %lld rows<=%d",
             desc->kind == WEFT_NORM_RMS ? "rms" : "layer", (long long)desc->dim, desc->max_rows);
    return WEFT_OK;
}

static int32_t steps(const void *opaque_launch, const void *opaque_args,
                     struct weft__cuda_step *step)
{
    const struct launch *launch = opaque_launch;
    const weft_norm_args *args = opaque_args;
    struct weft__norm_device_args device = {.x = args->x,
                                            .y = args->y,
                                            .weight = args->weight,
                                            .bias = args->bias,
                                            .residual = args->residual,
                                            .x_stride = args->x_stride,
                                            .y_stride = args->y_stride,
                                            .residual_stride = args->residual_stride,
                                            .dim = launch->dim,
                                            .eps = launch->eps,
                                            .weight_offset = launch->weight_offset};
    weft__cuda_step(step, 0, (uint32_t)args->rows, 1, launch->threads, &device, sizeof device);
    step->overlap = 1;
    return 1;
}

const struct weft__cuda_op weft__norm_cuda = {&table, sizeof(struct launch), plan, steps};
