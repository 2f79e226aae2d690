// SPDX-License-Identifier: MIT
// Linear layers on CUDA: which kernels, and how they are launched.
//
// Block formats run on packed tiles (linear_device.h). Weights that come as a file has them are packed into
// the workspace first, run by run: right, but three times the traffic.
#include <stdio.h>

#include "src/kernels/linear/linear_cuda_shape.h"
#include "src/kernels/linear/linear_kernel.h"

static const struct weft__linear_kernel rows[] = {
#define X(format, name, activations, cuda_level)                                                   \
    {.base = {"linear", "linear_" name "_" #activations "_" #cuda_level, WEFT__CUDA_##cuda_level}, \
     .weight = WEFT_##format,                                                                      \
     .acts = WEFT__ACTS_##activations,                                                             \
     .row_step = 1},
#include "src/kernels/linear/linear_cuda.def"
#undef X
};
static const struct weft__kernel_table table = {"linear", rows, sizeof rows[0],
                                                sizeof rows / sizeof rows[0]};

#define CONSTANTS(X)                                                                               \
    X(WEFT_FORMAT)                                                                                 \
    X(WEFT_BATCH)                                                                                  \
    X(WEFT_EXACT)                                                                                  \
    X(WEFT_ALIGNED)                                                                                \
    X(WEFT_WARPS)                                                                                  \
    X(WEFT_STAGES)                                                                                 \
    X(WEFT_SPLIT)                                                                                  \
    X(WEFT_GATE) X(WEFT_ROUND) X(WEFT_X_DTYPE) X(WEFT_Y_DTYPE) X(WEFT_SCALE_DTYPE) X(WEFT_BLOCKS)
WEFT__CUDA_CONSTANTS(linear, CONSTANTS)

enum { PACK, ROUND, NUM_HELPERS, MOST_SHAPES = 4 };

struct launch {
    struct weft__linear_matter matter;
    struct weft__cuda_limits limits;
    int64_t rows, cols;
    struct weft__linear_shape shapes[MOST_SHAPES]; // of rising columns
    int32_t num_shapes;
    int32_t first_kernel;   // of the shapes, one behind the other
    int32_t unaligned;      // kernel for plain weights that begin anywhere, one row of X a pass
    int64_t rounded_offset; // in the workspace, behind the packed weights
};

static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct weft__linear_kernel *kernel = (const void *)row;
    const weft_linear_desc *desc = opaque_desc;
    bool plain = weft_dtype_block_elems(desc->weight_dtype) == 1;
    bool exact = plain || (desc->flags & WEFT_LINEAR_EXACT);
    return kernel->weight == desc->weight_dtype &&
           kernel->acts == (exact ? WEFT__ACTS_f32 : WEFT__ACTS_q8);
}

static int32_t want(struct weft__cuda_choice *choice, const weft_linear_desc *desc,
                    const struct weft__linear_matter *matter,
                    const struct weft__linear_shape *shape, bool aligned)
{
    const bool plain = matter->block_elems == 1;
    struct weft__linear_constants constants = {.WEFT_FORMAT = (int32_t)desc->weight_dtype,
                                               .WEFT_BATCH = shape->columns,
                                               .WEFT_EXACT = matter->exact,
                                               .WEFT_ALIGNED = aligned,
                                               .WEFT_WARPS = shape->warps,
                                               .WEFT_STAGES = shape->stages,
                                               .WEFT_SPLIT = shape->split,
                                               .WEFT_X_DTYPE = WEFT_F32,
                                               .WEFT_Y_DTYPE = WEFT_F32,
                                               .WEFT_SCALE_DTYPE = WEFT_F16,
                                               .WEFT_BLOCKS = shape->blocks};
    return weft__cuda_want(
        choice, plain ? "src/kernels/linear/linear_numbers.cu" : "src/kernels/linear/linear_few.cu",
        plain ? "weft_linear_numbers" : "weft_linear_few", WEFT__CUDA_VALUES(linear, constants));
}

// The passes that runs of up to max_batch rows of X are made of. When a row must not depend on the batch
// there is one for all, so that sums have one order.
static bool choose_shapes(const weft_linear_desc *desc, struct launch *launch)
{
    static const int32_t rounded[] = {1, 8, 16}, exact[] = {1, 4}, narrow[] = {1, 4, 8, 16},
                         f32[] = {1, 4};
    const struct weft__linear_matter *m = &launch->matter;
    const int32_t *columns = m->exact ? exact : rounded;
    int32_t count = m->exact ? 2 : 3;
    if (m->block_elems == 1)
        columns = m->block_bytes == 4 ? f32 : narrow, count = m->block_bytes == 4 ? 2 : 4;
    for (int32_t i = 0; i < count; i++) {
        struct weft__linear_shape *shape = &launch->shapes[launch->num_shapes];
        if (i > 0 && desc->max_batch <= columns[i - 1] && launch->num_shapes > 0)
            break;
        if (!weft__linear_choose_shape(m, columns[i], &launch->limits, shape))
            break;
        // wider passes pay as long as X stays in the shared memory of one block or two
        if (columns[i] == 16 && shape->split > 2)
            break;
        if (desc->flags & WEFT_LINEAR_BATCH_INVARIANT)
            launch->shapes[0] = *shape, launch->num_shapes = 1;
        else
            launch->num_shapes++;
        if ((desc->flags & WEFT_LINEAR_BATCH_INVARIANT) &&
            (columns[i] >= 4 || desc->max_batch == 1))
            break;
    }
    return launch->num_shapes > 0;
}

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_linear_desc *desc = opaque_desc;
    struct launch *launch = choice->launch;
    weft_status status;
    if (!weft__cuda_choose(&table, limits, desc->variant, serves, desc, choice, &status))
        return status;
    const bool plain = weft_dtype_block_elems(desc->weight_dtype) == 1;
    launch->matter =
        (struct weft__linear_matter){.cols = desc->cols,
                                     .block_elems = weft_dtype_block_elems(desc->weight_dtype),
                                     .block_bytes = weft_dtype_block_bytes(desc->weight_dtype),
                                     .exact = !plain && (desc->flags & WEFT_LINEAR_EXACT)};
    launch->limits = *limits;
    launch->rows = desc->rows, launch->cols = desc->cols;
    if (desc->rows > INT32_MAX - 64 || desc->cols > INT32_MAX / 2) {
        snprintf(choice->text, sizeof choice->text,
                 "linear: rows and cols must fit 31 bits on cuda");
        return WEFT_EUNSUPPORTED;
    }
    if (!choose_shapes(desc, launch)) {
        snprintf(choice->text, sizeof choice->text,
                 "linear: cols=%lld are more than the shared memory of this GPU holds of x",
                 (long long)desc->cols);
        return WEFT_EUNSUPPORTED;
    }
    if (!plain) {
        struct weft__linear_constants constants = {.WEFT_FORMAT = (int32_t)desc->weight_dtype,
                                                   .WEFT_X_DTYPE = WEFT_F32,
                                                   .WEFT_SCALE_DTYPE = WEFT_F16};
        weft__cuda_want(choice, "src/kernels/linear/linear_pack.cu", "weft_linear_pack",
                        WEFT__CUDA_VALUES(linear, constants));
        weft__cuda_want(choice, "src/kernels/linear/linear_round.cu", "weft_linear_round",
                        WEFT__CUDA_VALUES(linear, constants));
        launch->rounded_offset =
            (weft__linear_packed_bytes(desc->rows, desc->cols, launch->matter.block_bytes,
                                       launch->matter.block_elems) +
             255) /
            256 * 256;
        choice->workspace_bytes = (size_t)launch->rounded_offset;
        if (!launch->matter.exact)
            choice->workspace_bytes +=
                (size_t)(desc->max_batch * weft__linear_rounded_stride(desc->cols));
    }
    launch->first_kernel = choice->num_kernels;
    for (int32_t i = 0; i < launch->num_shapes; i++)
        want(choice, desc, &launch->matter, &launch->shapes[i], true);
    launch->unaligned = plain ? want(choice, desc, &launch->matter, &launch->shapes[0], false) : 0;
    snprintf(choice->text, sizeof choice->text, " %s %lldx%lld batch<=%d",
             weft_dtype_name(desc->weight_dtype), (long long)desc->rows, (long long)desc->cols,
             desc->max_batch);
    return WEFT_OK;
}

// Packs the weights and rounds X into the workspace; returns the steps this takes.
static int32_t prepare_steps(const struct launch *launch, const weft_linear_args *args,
                             struct weft__cuda_step *steps)
{
    const weft_linear_part_args *part = &args->parts[0];
    struct weft__linear_pack_args pack = {.weight = part->weight,
                                          .packed = args->workspace,
                                          .weight_stride_bytes = part->weight_stride_bytes,
                                          .rows = (int32_t)launch->rows,
                                          .cols = (int32_t)launch->cols};
    weft__cuda_step(&steps[0], PACK, (uint32_t)((launch->rows + 15) / 16),
                    (uint32_t)((launch->cols + 255) / 256), 128, &pack, sizeof pack);
    if (launch->matter.exact)
        return 1;
    struct weft__linear_round_args round = {.x = args->x,
                                            .x_stride = args->x_stride,
                                            .rounded =
                                                (char *)args->workspace + launch->rounded_offset,
                                            .batch = args->batch,
                                            .cols = (int32_t)launch->cols};
    // not before the weights are packed, and what follows not before either: no overlap here
    weft__cuda_step(&steps[1], ROUND, (uint32_t)(((launch->cols + 63) / 64 * 2 + 7) / 8),
                    (uint32_t)args->batch, 256, &round, sizeof round);
    return 2;
}

static int32_t steps(const void *opaque_launch, const void *opaque_args,
                     struct weft__cuda_step *steps)
{
    const struct launch *launch = opaque_launch;
    const weft_linear_args *args = opaque_args;
    const weft_linear_part_args *part = &args->parts[0]; // the one that api has settled
    const bool plain = launch->matter.block_elems == 1;
    int32_t count = plain ? 0 : prepare_steps(launch, args, steps), which = 0;
    while (which + 1 < launch->num_shapes && args->batch > launch->shapes[which].columns)
        which++;
    int32_t kernel = launch->first_kernel + which;
    if (plain && ((uintptr_t)part->weight | (uintptr_t)part->weight_stride_bytes) % 16 != 0)
        which = 0, kernel = launch->unaligned;
    const struct weft__linear_shape *shape = &launch->shapes[which];
    struct weft__linear_device_args device = {
        .part[0] = {.weight = plain ? part->weight : args->workspace,
                    .bias = part->bias,
                    .y = part->y,
                    .y_stride = part->y_stride,
                    .weight_stride_bytes = part->weight_stride_bytes,
                    .rows = (int32_t)launch->rows},
        .x = plain || launch->matter.exact ? (const void *)args->x
                                           : (char *)args->workspace + launch->rounded_offset,
        .x_stride = args->x_stride,
        .residual = args->residual,
        .residual_stride = args->residual_stride,
        .batch = args->batch,
        .cols = (int32_t)launch->cols,
        .num_parts = 1,
        .num_groups = (int32_t)((launch->rows + 15) / 16),
        .alpha = args->alpha};
    struct weft__cuda_step *step = weft__cuda_step(
        &steps[count], kernel, weft__linear_blocks(shape, &launch->limits, device.num_groups),
        (uint32_t)((args->batch + shape->columns - 1) / shape->columns),
        (uint32_t)shape->warps * 32, &device, sizeof device);
    step->shared_bytes = (uint32_t)shape->shared_bytes;
    step->cluster = shape->split > 1 ? (uint32_t)shape->split : 0;
    // weights of the caller may be asked for before what runs before has ended; packed just now they may not
    step->overlap = plain;
    return count + 1;
}

const struct weft__cuda_op weft__linear_cuda = {&table, sizeof(struct launch), plan, steps};
