// SPDX-License-Identifier: MIT
// Activation functions on CUDA: which kernel, and how it is launched.
#include <stdio.h>

#include <weft/activation.h>

#include "src/kernels/activation/activation_device.h"
#include "src/kernels/activation/activation_kernel.h"
#include "src/kernels/cuda/launch.h"

// As the CPU's rows begin, so that tools read them alike.
static const struct weft__activation_kernel rows[] = {
#define X(name, value, level)                                                                      \
    {.base = {"activation", "activation_" #name "_" #level, WEFT__CUDA_##level}, .kind = value},
#include "src/kernels/activation/activation_cuda.def"
#undef X
};
static const struct weft__kernel_table table = {"activation", rows, sizeof rows[0],
                                                sizeof rows / sizeof rows[0]};

#define CONSTANTS(X) X(KIND) X(X_DTYPE) X(Y_DTYPE)
WEFT__CUDA_CONSTANTS(activation, CONSTANTS)

enum { THREADS = 256 };

struct launch {
    int64_t dim;
    float cap;
};

static bool serves(const struct weft__kernel *row, const void *desc)
{
    return ((const struct weft__activation_kernel *)(const void *)row)->kind ==
           ((const weft_activation_desc *)desc)->kind;
}

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_activation_desc *desc = opaque_desc;
    struct launch *launch = choice->launch;
    weft_status status;
    if (!weft__cuda_choose(&table, limits, desc->variant, serves, desc, choice, &status))
        return status;
    struct weft__activation_constants constants = {.KIND = (int32_t)desc->kind,
                                                   .X_DTYPE = (int32_t)desc->x_dtype,
                                                   .Y_DTYPE = (int32_t)desc->y_dtype};
    weft__cuda_want(choice, "src/kernels/activation/activation.cu", "weft_activation",
                    WEFT__CUDA_VALUES(activation, constants));
    launch->dim = desc->dim;
    launch->cap = desc->cap;
    snprintf(choice->text, sizeof choice->text, " dim %lld rows<=%d", (long long)desc->dim,
             desc->max_rows);
    return WEFT_OK;
}

static int32_t steps(const void *opaque_launch, const void *opaque_args,
                     struct weft__cuda_step *step)
{
    const struct launch *launch = opaque_launch;
    const weft_activation_args *args = opaque_args;
    struct weft__activation_device_args device = {.x = args->x,
                                                  .up = args->up,
                                                  .y = args->y,
                                                  .x_stride = args->x_stride,
                                                  .up_stride = args->up_stride,
                                                  .y_stride = args->y_stride,
                                                  .dim = launch->dim,
                                                  .cap = launch->cap};
    weft__cuda_step(step, 0, (uint32_t)((launch->dim + THREADS - 1) / THREADS),
                    (uint32_t)args->rows, THREADS, &device, sizeof device);
    step->overlap = 1;
    return 1;
}

const struct weft__cuda_op weft__activation_cuda = {&table, sizeof(struct launch), plan, steps};
