// SPDX-License-Identifier: MIT
// Random problems of linear: extents, formats, weights and activations that kernels are likely to get wrong.
#include <math.h>

#include "src/formats/formats.h"
#include "src/formats/row.h"
#include "src/kernels/cuda/launch.h"
#include "src/kernels/element.h"
#include "src/kernels/linear/linear_check.h"
#include "src/kernels/linear/linear_kernel.h"
#include "src/kernels/linear/linear_problem.h"

// What a problem is after. Neighbouring seeds take turns, so that twenty cases have met them all.
enum aim {
    ANY,
    LONG_ROWS,
    STEADY_ROWS, // as long as may be, all products alike: every rounding of a sum goes the same way
    DROWNED_ROWS, // a sum that has most of its value at once, and millions of products that must not be lost in it
    LARGE_BATCH,
    SECOND_TILE,
    SLICES,      // rows of X that a GPU keeps slices of the columns of
    WHOLE_TILES, // of two row blocks, which a GPU takes at a time
    SMALL_WEIGHTS,
    TINY_X,
    BROKEN_X
};

static enum aim aim_of(const struct check_case *c)
{
    switch (c->seed % 20) {
    case 2: return LARGE_BATCH;
    case 7:
    case 12: return c->kernel->level >= WEFT__CUDA_sm80 ? SLICES : ANY;
    case 4:
    case 15: return c->kernel->level >= WEFT__CUDA_sm80 ? WHOLE_TILES : ANY;
    case 5: return TINY_X;
    case 1:
    case 8: return STEADY_ROWS;
    case 18: return DROWNED_ROWS;
    case 10: return LONG_ROWS;
    case 11: return SECOND_TILE;
    case 14: return BROKEN_X;
    case 16: return SMALL_WEIGHTS;
    default: return ANY;
    }
}

static int64_t random_gap(struct check_case *c, int64_t most)
{
    return check_range(c, 0, 1) ? check_range(c, 1, most) : 0;
}

// Most problems of cuBLASLt are such as it takes: rows of all matrices at multiples of 16 bytes, and no flag.
static bool suits_library(const struct check_case *c)
{
    return c->kernel->level == WEFT__CUDA_cublaslt && c->seed % 8 != 0;
}

static int64_t row_gap(struct check_case *c, int64_t elems, int64_t most)
{
    const int64_t gap = random_gap(c, most);
    return suits_library(c) ? (elems + gap + 7) / 8 * 8 - elems : gap;
}

static bool longest_rows(const struct check_case *c)
{
    return c->seed % 20 == 1;
}

static bool is_of_tiles(const struct weft__kernel *kernel)
{
    return kernel->level == WEFT__ISA_amx || kernel->level >= WEFT__CUDA_sm80;
}

// Every row of X has another value, hence sums that drift otherwise. A drift grows with the columns and the bound with
// their root: n sums of their own a row want over 4 n^2 columns to show it. Tiles keep many, hence a million.
static void draw_steady_extents(struct check_case *c, struct problem *p)
{
    bool longest = longest_rows(c), tiles = is_of_tiles(c->kernel);
    p->desc.cols = longest && tiles ? 1 << 20
                   : longest        ? 1 << 18
                                    : (check_range(c, 190000, 262144) / 256 + 1) * 256;
    p->desc.rows = 1;
    p->args.batch = longest ? 4 : 12;
    p->desc.flags &= ~(uint32_t)WEFT_LINEAR_BATCH_INVARIANT;
    if (longest)
        p->desc.flags |= WEFT_LINEAR_BATCH_INVARIANT;
}

// Slices of one tile and of several, units of which blocks have one and more; now and then few rows of X, so
// long that kernels for few have no room for them.
static void draw_sliced_extents(struct check_case *c, struct problem *p, int64_t block)
{
    const bool few = check_range(c, 0, 2) == 0;
    const int64_t cols = few                    ? check_range(c, 9300, 14336)
                         : check_range(c, 0, 2) ? check_range(c, 4352, 9216)
                                                : check_range(c, 1, 2048);
    p->args.batch = (int32_t)(few ? check_range(c, 9, 16) : check_range(c, 17, 64));
    const int64_t whole = check_range(c, 0, 1) ? 256 : block; // teams of warps have whole tiles
    p->desc.cols = (cols + whole - 1) / whole * whole;
    p->desc.rows = check_pick(c, 3, check_range(c, 1, 64), check_range(c, 65, 200), 144);
}

enum {
    FIRST_COLUMNS = 256,
    CHUNK_COLUMNS = 512
}; // CHUNK_COLUMNS: the longest sum of its own that a panel has

// Many rows of X. Tiles of them end at 48, 96 and 192, of bf16 in vectors at 516. On AMX parts of W end at 256 or 512; tiles of bf16 of packed
// weights have chunks of 512 columns, and 512 rows of X.
static void draw_large_extents(struct check_case *c, struct problem *p, int64_t block, bool second)
{
    const struct weft__linear_kernel *kernel = (const void *)c->kernel;
    const bool bf16 = kernel->acts == WEFT__ACTS_bf16, amx = kernel->base.level == WEFT__ISA_amx,
               vectors = bf16 && kernel->base.level == WEFT__ISA_avx512bf16, parts = bf16 && amx;
    if (second)
        p->args.batch = (int32_t)check_range(c, 193, 200) + (vectors ? 324 : 0);
    else if (kernel->lay)
        p->args.batch = (int32_t)check_pick(c, 6, 47, 63, 64, 65, 80, 98);
    else
        p->args.batch = (int32_t)check_pick(c, 6, 47, 49, 50, 53, 95, 98);
    p->desc.cols = block * check_range(c, 1, block > 1 ? 512 / block + 1 : parts ? 800 : 600);
    p->desc.rows =
        parts && second && check_range(c, 0, 3) ? check_range(c, 129, 280) : check_range(c, 1, 40);
    if (amx) // whole lines of results
        p->desc.rows = (p->desc.rows + 15) / 16 * 16;
    if (kernel->lay && !second)
        p->desc.cols = block * check_range(c, 512 / block, 1280 / block);
    if (kernel->lay && second && check_range(c, 0, 1))
        p->desc.rows = check_pick(c, 3, check_range(c, 240, 300), check_range(c, 500, 550), 528);
    else if (kernel->lay && second)
        p->args.batch += 320;
}

static void draw_extents(struct check_case *c, struct problem *p, int64_t block)
{
    enum aim aim = aim_of(c);
    if (aim == STEADY_ROWS) {
        draw_steady_extents(c, p);
        return;
    }
    if (aim == DROWNED_ROWS) {
        p->desc.cols =
            5
            << 18; // what is lost, 0.49 for every CHUNK_COLUMNS, is over the bound from 1.1 million on
        p->desc.rows = p->args.batch = 1;
        return;
    }
    if (aim == WHOLE_TILES) {
        p->desc.cols = 256 * check_range(c, 4, 9);
        p->desc.rows = 32 * check_range(c, 1, 9);
        p->args.batch = (int32_t)check_pick(c, 3, 1, 1, check_range(c, 5, 8));
        return;
    }
    p->desc.cols = block * check_length(c, 3000 / block, block > 1 ? 4 : 64);
    p->desc.rows = check_length(c, 100, 16);
    p->args.batch = (int32_t)(check_range(c, 0, 3) ? check_range(c, 1, 9) : check_length(c, 40, 8));
    if (aim == LONG_ROWS) {
        p->desc.cols = check_range(c, 8192 / block, (int64_t)1 << check_range(c, 14, 18)) / block;
        p->desc.cols = block * (p->desc.cols > 0 ? p->desc.cols : 1);
        p->desc.rows = check_range(c, 1, 5);
        p->args.batch = (int32_t)check_pick(c, 4, 1, 2, 4, 10);
    }
    if (aim == SLICES) {
        draw_sliced_extents(c, p, block);
        return;
    }
    if (aim == LARGE_BATCH || aim == SECOND_TILE) {
        draw_large_extents(c, p, block, aim == SECOND_TILE);
        return;
    }
    while (p->args.batch > 1 && p->desc.rows * p->desc.cols * p->args.batch > 600000)
        p->args.batch = (p->args.batch + 1) / 2;
}

static void draw_shape(struct check_case *c, struct problem *p)
{
    const struct weft__linear_kernel *kernel = (const void *)c->kernel;
    p->desc.weight_dtype = kernel->weight;
    p->desc.flags = kernel->acts == WEFT__ACTS_f32 ? WEFT_LINEAR_EXACT : 0;
    // plain weights are exact without it, too, but for many rows of X on a GPU
    const bool plain = weft_dtype_block_elems(kernel->weight) == 1;
    if (plain && c->seed % 3 != 0)
        p->desc.flags = 0;
    p->desc.flags |= check_range(c, 0, 2) == 0 ? WEFT_LINEAR_BATCH_INVARIANT : 0;
    if (aim_of(c) == LARGE_BATCH || aim_of(c) == SECOND_TILE || aim_of(c) == SLICES)
        p->desc.flags &= ~(uint32_t)WEFT_LINEAR_BATCH_INVARIANT;
    // a kernel of panels reads whole chunks
    draw_extents(c, p, weft__linear_check_block(kernel));
    if (plain &&
        (c->seed % 3 == 1 || suits_library(c))) // rows that are copied in pieces of 16 bytes
        p->desc.cols = (p->desc.cols + 7) / 8 * 8;
    if (suits_library(c)) {
        p->desc.rows = (p->desc.rows + 3) / 4 * 4;
        p->desc.flags = 0;
    }
    p->desc.max_batch = p->args.batch + (int32_t)random_gap(c, 3);
    p->narrows = kernel->acts == WEFT__ACTS_bf16;
}

static float *draw_vectors(struct check_case *c, int64_t count, int64_t elems, int64_t stride)
{
    float *x = check_buffer(c, (size_t)((count - 1) * stride + elems) * sizeof *x, sizeof *x);
    for (int64_t i = 0; i < count; i++)
        check_fill(c, x + i * stride, elems);
    return x;
}

// For weights that are all alike: the first columns give 1.01, a chunk of the others just less than half of
// what the last bit of that is worth.
static void fill_drowned(struct problem *p, float *x)
{
    float w[WEFT__MAX_BLOCK_ELEMS];
    int32_t elems = weft_dtype_block_elems(p->desc.weight_dtype);
    weft_dequantize_row(p->desc.weight_dtype, p->args.weight, elems, w);
    double mean = 0;
    for (int32_t i = 0; i < elems; i++)
        mean += w[i] / (double)elems;
    mean = fabs(mean) > 1e-6 ? mean : 1;
    for (int64_t i = 0; i < p->desc.cols; i++)
        x[i] = (float)((i < FIRST_COLUMNS ? 1.01 / FIRST_COLUMNS : 0.49 * 0x1p-23 / CHUNK_COLUMNS) /
                       mean);
}

static void draw_x(struct check_case *c, struct problem *p)
{
    int64_t cols = p->desc.cols, batch = p->args.batch;
    enum aim aim = aim_of(c);
    p->args.x_stride = cols + row_gap(c, cols, 9);
    bool equal = aim == SMALL_WEIGHTS || aim == STEADY_ROWS || aim == DROWNED_ROWS;
    size_t bytes = (size_t)((batch - 1) * p->args.x_stride + cols) * sizeof(float);
    float *x =
        equal ? check_buffer(c, bytes, sizeof *x) : draw_vectors(c, batch, cols, p->args.x_stride);
    p->args.x = p->x = x;
    for (int64_t m = 0; m < batch; m++, x += p->args.x_stride) {
        float value = check_uniform(c, 0.5f, 2);
        for (int64_t i = 0; equal && i < cols; i++)
            x[i] = value;
        if (aim == DROWNED_ROWS)
            fill_drowned(p, x);
        // Not so small that a group becomes zero (linear_rounded.h).
        for (int64_t i = 0; aim == TINY_X && i < cols; i++)
            x[i] = ldexpf(check_normal(c) + copysignf(1, x[i]), -(int)check_range(c, 101, 119));
        if (aim == BROKEN_X && check_range(c, 0, 1))
            x[check_range(c, 0, cols - 1)] =
                check_range(c, 0, 1) ? NAN : copysignf(INFINITY, check_normal(c));
        check_round(p->x_dtype, x, cols);
    }
}

// A block of equal weights where the format has an encoder, else any, again and again. Half of the shorter steady
// rows have any block, too.
static void draw_steady_row(struct check_case *c, weft_dtype dtype, char *row, int64_t cols)
{
    weft__row_encode_fn *encode = weft__row_encoder(dtype);
    int64_t block = weft_dtype_block_elems(dtype), bytes = weft_dtype_block_bytes(dtype);
    float w[WEFT__MAX_BLOCK_ELEMS], value = check_uniform(c, 0.5f, 2);
    for (int64_t i = 0; i < block; i++)
        w[i] = value;
    if (encode && (longest_rows(c) || aim_of(c) == DROWNED_ROWS || check_range(c, 0, 1)))
        encode(w, block, row);
    else
        check_fill_blocks(c, dtype, row, block);
    for (int64_t i = 1; i < cols / block; i++)
        memcpy(row + i * bytes, row, (size_t)bytes);
}

// One large weight a group of 32, the others small, so that the unsigned weights of kernels are mostly offset.
static void draw_small_row(struct check_case *c, weft_dtype dtype, void *row, int64_t cols)
{
    float *w = check_buffer(c, (size_t)cols * sizeof *w, sizeof *w);
    float value = check_uniform(c, 0.5f, 2);
    for (int64_t i = 0; i < cols; i++)
        w[i] = i % 32 == 0 ? value : check_uniform(c, 0, 0.08f);
    weft__row_encoder(dtype)(w, cols, row);
}

// Some weights of any exponent, zeros of both signs and subnormals: those that 12 bits have no code for.
static void draw_others(struct check_case *c, uint16_t *row, int64_t cols)
{
    for (int64_t i = check_range(c, 0, 8); i > 0; i--) {
        const uint16_t any = (uint16_t)(check_range(c, 0, 1) << 15 | check_range(c, 0, 127)),
                       exponent = (uint16_t)check_pick(c, 4, 0, 1, check_range(c, 1, 40),
                                                       check_range(c, 100, 150));
        row[check_range(c, 0, cols - 1)] =
            (uint16_t)(check_range(c, 0, 4) ? any | exponent << 7 : any & 0x8000);
    }
}

static void draw_row(struct check_case *c, weft_dtype dtype, void *row, int64_t cols)
{
    if (aim_of(c) == STEADY_ROWS || aim_of(c) == DROWNED_ROWS)
        draw_steady_row(c, dtype, row, cols);
    else if (aim_of(c) == SMALL_WEIGHTS && weft__row_encoder(dtype))
        draw_small_row(c, dtype, row, cols);
    else
        check_fill_blocks(c, dtype, row, cols);
    if (((const struct weft__linear_kernel *)(const void *)c->kernel)->codes &&
        aim_of(c) != STEADY_ROWS && aim_of(c) != DROWNED_ROWS)
        draw_others(c, row, cols);
}

static void draw_weights(struct check_case *c, struct problem *p)
{
    weft_dtype dtype = p->desc.weight_dtype;
    int64_t rows = p->desc.rows, cols = p->desc.cols;
    size_t align = dtype == WEFT_F32 ? 4 : 2;
    int64_t row_bytes = weft_dtype_row_bytes(dtype, cols);
    p->args.weight_stride_bytes =
        row_bytes + (int64_t)align * row_gap(c, row_bytes / (int64_t)align, 40);
    unsigned char *weight =
        check_buffer(c, (size_t)((rows - 1) * p->args.weight_stride_bytes + row_bytes), align);
    p->args.weight = weight;
    for (int64_t row = 0; row < rows; row++)
        draw_row(c, dtype, weight + row * p->args.weight_stride_bytes, cols);
}

// Every third problem of kernels that take them has scales, half of those biases; every problem where tiles have them.
static void draw_planes(struct check_case *c, struct problem *p)
{
    const struct weft__linear_kernel *kernel = (const void *)c->kernel;
    int64_t block = weft_dtype_block_elems(kernel->weight);
    const bool steady = aim_of(c) == DROWNED_ROWS;
    const bool compiled =
        kernel->base.level >= WEFT__ISA_COUNT && kernel->base.level != WEFT__CUDA_cublaslt;
    if (!kernel->groups && (!kernel->planes || compiled || steady || check_range(c, 0, 2) != 0))
        return;
    p->part = (weft_linear_part){.weight_dtype = kernel->weight,
                                 .scale_dtype = check_dtype(c),
                                 .rows = p->desc.rows,
                                 .scale_cols = (block > 32 ? block : 32) * check_range(c, 1, 3),
                                 .scale_rows = check_range(c, 0, 3)};
    if (kernel->groups) {
        p->part.scale_dtype = check_range(c, 0, 1) ? WEFT_F16 : WEFT_BF16;
        p->part.scale_cols = block;
        p->part.scale_rows = 1;
    }
    int64_t rows = p->part.scale_rows ? p->part.scale_rows : 1;
    int64_t row = (p->desc.cols - 1) / p->part.scale_cols + 1,
            count = (p->desc.rows - 1) / rows + 1;
    p->planes.scale_stride = row + check_range(c, 0, 3);
    size_t bytes = (size_t)weft_dtype_block_bytes(p->part.scale_dtype);
    for (int plane = 0; plane < (steady ? 1 : 1 + check_range(c, 0, 1)); plane++) {
        int64_t elements = (count - 1) * p->planes.scale_stride + row;
        void *scales = check_buffer(c, (size_t)elements * bytes, bytes);
        for (int64_t i = 0; i < elements; i++)
            weft__element_store(scales, p->part.scale_dtype, i,
                                steady ? 1 : check_uniform(c, -2, 2));
        *(plane ? &p->planes.biases : &p->planes.scales) = scales;
    }
}

static void draw_formats(struct check_case *c, struct problem *p)
{
    bool other =
        c->kernel->level < WEFT__ISA_COUNT && aim_of(c) != TINY_X && aim_of(c) != DROWNED_ROWS;
    p->x_dtype = other ? check_dtype(c) : WEFT_F32;
    p->y_dtype = other ? check_dtype(c) : WEFT_F32;
}

struct problem weft__linear_problem_draw_shape(struct check_case *c)
{
    struct problem p = {.desc = {.size = sizeof p.desc}, .args = {.size = sizeof p.args}};
    draw_shape(c, &p);
    draw_formats(c, &p);
    return p;
}

int32_t weft__linear_problem_lengths(const struct check_case *c)
{
    const enum aim aim = aim_of(c);
    const bool is_long = aim == STEADY_ROWS || aim == DROWNED_ROWS || aim == LONG_ROWS;
    return c->lengths && !is_long ? c->lengths : 1;
}

struct problem weft__linear_problem_draw(struct check_case *c, const struct problem *shape,
                                         int32_t batch)
{
    struct problem p = *shape;
    p.args.batch = batch ? batch : p.args.batch;
    draw_weights(c, &p);
    draw_x(c, &p);
    p.tiny_x = aim_of(c) == TINY_X;
    int64_t rows = p.desc.rows, cols = p.desc.cols;
    int64_t row_bytes = weft_dtype_row_bytes(p.desc.weight_dtype, cols);
    // Results that are whole lines may pass by the caches.
    const bool lines = p.args.batch >= 64 && rows % 16 == 0 && c->kernel->level == WEFT__ISA_amx;
    p.args.y_stride = rows + (lines ? 0 : row_gap(c, rows, 9));
    p.args.bias = check_range(c, 0, 2) ? NULL : draw_vectors(c, 1, rows, rows);
    if (check_range(c, 0, 2) == 0) {
        p.residual_is_y = check_range(c, 0, 1);
        p.args.residual_stride = p.residual_is_y ? p.args.y_stride : rows + row_gap(c, rows, 9);
        p.args.residual = p.residual = draw_vectors(c, p.args.batch, rows, p.args.residual_stride);
    }
    if (p.residual)
        check_round(p.y_dtype, (float *)(uintptr_t)p.residual,
                    (p.args.batch - 1) * p.args.residual_stride + rows);
    p.args.alpha = check_range(c, 0, 2) ? 0 : check_uniform(c, -3, 3);
    draw_planes(c, &p);
    p.packs = check_range(c, 0, 3) != 0 || weft__linear_reads_packed((const void *)c->kernel);
    check_note(c,
               "%s rows %lld cols %lld batch %d of %d strides w+%lld x+%lld y+%lld alpha %g flags "
               "%u bias %d residual %d (y itself: %d) packed %d %s to %s, scales per %lldx%lld",
               weft_dtype_name(p.desc.weight_dtype), (long long)rows, (long long)cols, p.args.batch,
               p.desc.max_batch, (long long)(p.args.weight_stride_bytes - row_bytes),
               (long long)(p.args.x_stride - cols), (long long)(p.args.y_stride - rows),
               p.args.alpha, p.desc.flags, p.args.bias != NULL, p.args.residual != NULL,
               p.residual_is_y, p.packs, weft_dtype_name(p.x_dtype), weft_dtype_name(p.y_dtype),
               (long long)p.part.scale_rows, (long long)p.part.scale_cols);
    return p;
}
