// SPDX-License-Identifier: MIT
// Embedding on CUDA: which kernel, and how it is launched. Every format has a row.
#include <stdio.h>

#include "src/kernels/cuda/launch.h"
#include "src/kernels/embedding/embedding_device.h"
#include "src/kernels/embedding/embedding_kernel.h"

// As the CPU's rows begin, so that tools read them alike.
static const struct weft__embedding_kernel rows[] = {
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    {.base = {"embedding", "embedding_" name "_sm80", WEFT__CUDA_sm80}, .format = WEFT_##ID},
#include <weft/formats.def>
#undef WEFT_FORMAT
};
static const struct weft__kernel_table table = {"embedding", rows, sizeof rows[0],
                                                sizeof rows / sizeof rows[0]};

#define CONSTANTS(X) X(FORMAT) X(ELEMS) X(BYTES) X(PARTS) X(Y_DTYPE) X(SCALE_DTYPE)
WEFT__CUDA_CONSTANTS(embedding, CONSTANTS)

enum { THREADS = 32 };

struct launch {
    int64_t rows, row_blocks, parts, scale_rows, scale_cols;
    float scale;
};

static bool serves(const struct weft__kernel *row, const void *desc)
{
    return ((const struct weft__embedding_kernel *)(const void *)row)->format ==
           ((const weft_embedding_desc *)desc)->table_dtype;
}

// Of a format block that lanes have: those that token tables often have, and whose groups are decoded alone.
static int32_t parts_of(weft_dtype format)
{
    return format == WEFT_Q4_K || format == WEFT_Q5_K || format == WEFT_Q6_K ? 8 : 1;
}

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_embedding_desc *desc = opaque_desc;
    struct launch *launch = choice->launch;
    weft_status status;
    if (!weft__cuda_choose(&table, limits, desc->variant, serves, desc, choice, &status))
        return status;
    int32_t elems = weft_dtype_block_elems(desc->table_dtype);
    struct weft__embedding_constants constants = {.FORMAT = (int32_t)desc->table_dtype,
                                                  .ELEMS = elems,
                                                  .BYTES =
                                                      weft_dtype_block_bytes(desc->table_dtype),
                                                  .PARTS = parts_of(desc->table_dtype),
                                                  .Y_DTYPE = (int32_t)desc->y_dtype,
                                                  .SCALE_DTYPE = (int32_t)desc->scale_dtype};
    int32_t kernel = weft__cuda_want(choice, "src/kernels/embedding/embedding.cu", "weft_embedding",
                                     WEFT__CUDA_VALUES(embedding, constants));
    choice->kernels[kernel].exact = true;
    launch->rows = desc->rows;
    launch->row_blocks = desc->dim / elems;
    launch->parts = launch->row_blocks * constants.PARTS;
    launch->scale_rows = desc->scale_rows;
    launch->scale_cols = desc->scale_cols;
    launch->scale = desc->scale;
    snprintf(choice->text, sizeof choice->text, " %s %lldx%lld tokens<=%d",
             weft_dtype_name(desc->table_dtype), (long long)desc->rows, (long long)desc->dim,
             desc->max_tokens);
    return WEFT_OK;
}

static int32_t steps(const void *opaque_launch, const void *opaque_args,
                     struct weft__cuda_step *step)
{
    const struct launch *launch = opaque_launch;
    const weft_embedding_args *args = opaque_args;
    struct weft__embedding_device_args device = {.table = args->table,
                                                 .ids = args->ids,
                                                 .y = args->y,
                                                 .residual = args->residual,
                                                 .table_stride_bytes = args->table_stride_bytes,
                                                 .y_stride = args->y_stride,
                                                 .rows = launch->rows,
                                                 .row_blocks = launch->row_blocks,
                                                 .scales = args->scales,
                                                 .biases = args->biases,
                                                 .scale_stride = args->scale_stride,
                                                 .scale_rows = launch->scale_rows,
                                                 .scale_cols = launch->scale_cols,
                                                 .scale = launch->scale};
    weft__cuda_step(step, 0, (uint32_t)((launch->parts + THREADS - 1) / THREADS),
                    (uint32_t)args->tokens, THREADS, &device, sizeof device);
    step->overlap = 1;
    return 1;
}

const struct weft__cuda_op weft__embedding_cuda = {&table, sizeof(struct launch), plan, steps};
