// SPDX-License-Identifier: MIT
// Holds linear kernels against the reference of the same activations: a kernel that rounds its
// activations is compared with a reference that rounds likewise.
//
// Bound, as linear.h promises: 2^-23 max(8, sqrt(cols)) sum |w||x|, where |w| of a format with a
// minimum is the sum of the magnitudes of its two terms, plus the roundings of alpha, bias and
// residual, plus what scales near the subnormals lose.
#include <math.h>
#include <stdio.h>

#include "src/formats/q2_k.h"
#include "src/formats/q4_1.h"
#include "src/formats/q4_k.h"
#include "src/formats/row.h"
#include "src/kernels/check.h"
#include "src/kernels/linear/linear_kernel.h"

struct problem {
    weft_linear_desc desc;
    weft_linear_args args;
    const float *x, *residual; // what args have
    bool residual_is_y;
};

// What a problem is after. Neighbouring seeds take turns, so that twenty cases have met them all.
enum aim {
    ANY,
    LONG_ROWS,
    STEADY_ROWS, // as long as may be, all products alike: every rounding of a sum goes the same way
    LARGE_BATCH,
    SECOND_TILE,
    SMALL_WEIGHTS,
    TINY_X,
    BROKEN_X
};

static enum aim aim_of(const struct check_case *c)
{
    switch (c->seed % 20) {
    case 2: return LARGE_BATCH;
    case 5: return TINY_X;
    case 1:
    case 8:
    case 18: return STEADY_ROWS;
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

static void draw_extents(struct check_case *c, struct problem *p, int64_t block)
{
    enum aim aim = aim_of(c);
    p->desc.cols = block * check_length(c, 3000 / block, block > 1 ? 4 : 64);
    p->desc.rows = check_length(c, 100, 16);
    p->args.batch = (int32_t)(check_range(c, 0, 3) ? check_range(c, 1, 9) : check_length(c, 40, 8));
    if (aim == LONG_ROWS) {
        p->desc.cols = check_range(c, 8192 / block, (int64_t)1 << check_range(c, 14, 18)) / block;
        p->desc.cols = block * (p->desc.cols > 0 ? p->desc.cols : 1);
        p->desc.rows = check_range(c, 1, 5);
        p->args.batch = (int32_t)check_pick(c, 4, 1, 2, 4, 10);
    }
    if (aim == STEADY_ROWS) {
        p->desc.cols = (check_range(c, 190000, 262144) / 256 + 1) * 256;
        p->desc.rows = check_range(c, 1, 2);
        p->args.batch = (int32_t)check_pick(c, 3, 1, 1, 2);
    }
    // Tiles of rows of X end at 48, 96 and 192.
    if (aim == LARGE_BATCH)
        p->args.batch = (int32_t)check_pick(c, 6, 47, 49, 50, 53, 95, 98);
    if (aim == SECOND_TILE)
        p->args.batch = (int32_t)check_range(c, 193, 200);
    if (aim == LARGE_BATCH || aim == SECOND_TILE) {
        p->desc.cols = block * check_range(c, 1, block > 1 ? 512 / block + 1 : 600);
        p->desc.rows = check_range(c, 1, 40);
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
    p->desc.flags |= check_range(c, 0, 2) == 0 ? WEFT_LINEAR_BATCH_INVARIANT : 0;
    if (aim_of(c) == LARGE_BATCH || aim_of(c) == SECOND_TILE)
        p->desc.flags &= ~(uint32_t)WEFT_LINEAR_BATCH_INVARIANT;
    draw_extents(c, p, weft_dtype_block_elems(kernel->weight));
    p->desc.max_batch = p->args.batch + (int32_t)random_gap(c, 3);
}

static float *draw_vectors(struct check_case *c, int64_t count, int64_t elems, int64_t stride)
{
    float *x = check_buffer(c, (size_t)((count - 1) * stride + elems) * sizeof *x, sizeof *x);
    for (int64_t i = 0; i < count; i++)
        check_fill(c, x + i * stride, elems);
    return x;
}

static void draw_x(struct check_case *c, struct problem *p)
{
    int64_t cols = p->desc.cols, batch = p->args.batch;
    enum aim aim = aim_of(c);
    p->args.x_stride = cols + random_gap(c, 9);
    float *x = draw_vectors(c, batch, cols, p->args.x_stride);
    p->args.x = p->x = x;
    for (int64_t m = 0; m < batch; m++, x += p->args.x_stride) {
        bool equal = aim == SMALL_WEIGHTS || aim == STEADY_ROWS;
        float value = check_uniform(c, 0.5f, 2);
        for (int64_t i = 0; equal && i < cols; i++)
            x[i] = value;
        // Not so small that a group becomes zero (linear_rounded.h).
        for (int64_t i = 0; aim == TINY_X && i < cols; i++)
            x[i] = ldexpf(check_normal(c) + copysignf(1, x[i]), -(int)check_range(c, 101, 119));
        if (aim == BROKEN_X && check_range(c, 0, 1))
            x[check_range(c, 0, cols - 1)] =
                check_range(c, 0, 1) ? NAN : copysignf(INFINITY, check_normal(c));
    }
}

// STEADY_ROWS: all weights alike, or all blocks. SMALL_WEIGHTS: one large weight a group of 32, the others small, so that
// the unsigned weights of kernels are mostly offset. Random blocks otherwise.
static void draw_row(struct check_case *c, weft_dtype dtype, void *row, int64_t cols)
{
    weft__row_encode_fn *encode = weft__row_encoder(dtype);
    bool steady = aim_of(c) == STEADY_ROWS, small = aim_of(c) == SMALL_WEIGHTS;
    if (!encode || (!steady && !small)) {
        check_fill_blocks(c, dtype, row, cols);
        return;
    }
    if (steady && check_range(c, 0, 1)) {
        int64_t block = weft_dtype_block_elems(dtype), bytes = weft_dtype_block_bytes(dtype);
        check_fill_blocks(c, dtype, row, block);
        for (int64_t i = 1; i < cols / block; i++)
            memcpy((char *)row + i * bytes, row, (size_t)bytes);
        return;
    }
    float *w = check_buffer(c, (size_t)cols * sizeof *w, sizeof *w);
    float value = check_uniform(c, 0.5f, 2);
    for (int64_t i = 0; i < cols; i++)
        w[i] = steady || i % 32 == 0 ? value : check_uniform(c, 0, 0.08f);
    encode(w, cols, row);
}

static void draw_weights(struct check_case *c, struct problem *p)
{
    weft_dtype dtype = p->desc.weight_dtype;
    int64_t rows = p->desc.rows, cols = p->desc.cols;
    size_t align = dtype == WEFT_F32 ? 4 : 2;
    int64_t row_bytes = weft_dtype_row_bytes(dtype, cols);
    p->args.weight_stride_bytes = row_bytes + (int64_t)align * random_gap(c, 40);
    unsigned char *weight =
        check_buffer(c, (size_t)((rows - 1) * p->args.weight_stride_bytes + row_bytes), align);
    p->args.weight = weight;
    for (int64_t row = 0; row < rows; row++)
        draw_row(c, dtype, weight + row * p->args.weight_stride_bytes, cols);
}

static struct problem draw(struct check_case *c)
{
    struct problem p = {.desc = {.size = sizeof p.desc}, .args = {.size = sizeof p.args}};
    draw_shape(c, &p);
    draw_weights(c, &p);
    draw_x(c, &p);
    int64_t rows = p.desc.rows, cols = p.desc.cols, batch = p.args.batch;
    int64_t row_bytes = weft_dtype_row_bytes(p.desc.weight_dtype, cols);
    p.args.y_stride = rows + random_gap(c, 9);
    p.args.bias = check_range(c, 0, 2) ? NULL : draw_vectors(c, 1, rows, rows);
    if (check_range(c, 0, 2) == 0) {
        p.residual_is_y = check_range(c, 0, 1);
        p.args.residual_stride = p.residual_is_y ? p.args.y_stride : rows + random_gap(c, 9);
        p.args.residual = p.residual = draw_vectors(c, batch, rows, p.args.residual_stride);
    }
    p.args.alpha = check_range(c, 0, 2) ? 0 : check_uniform(c, -3, 3);
    check_note(c,
               "%s rows %lld cols %lld batch %d of %d strides w+%lld x+%lld y+%lld alpha %g flags "
               "%u bias %d residual %d (y itself: %d)",
               weft_dtype_name(p.desc.weight_dtype), (long long)rows, (long long)cols, p.args.batch,
               p.desc.max_batch, (long long)(p.args.weight_stride_bytes - row_bytes),
               (long long)(p.args.x_stride - cols), (long long)(p.args.y_stride - rows),
               p.args.alpha, p.desc.flags, p.args.bias != NULL, p.args.residual != NULL,
               p.residual_is_y);
    return p;
}

// Runs rows [first, first + count) of X.
static const float *run(struct check_case *c, struct problem p, const char *variant, int32_t first,
                        int32_t count)
{
    weft_plan *plan = NULL;
    p.desc.variant = variant;
    p.args.batch = count;
    p.args.x = p.x + first * p.args.x_stride;
    float *y = check_output(c, (count - 1) * p.args.y_stride + p.desc.rows);
    p.args.y = y;
    if (p.residual)
        p.args.residual = p.residual + first * p.args.residual_stride;
    if (p.residual_is_y) {
        const float *residual = p.args.residual;
        for (int32_t m = 0; m < count; m++)
            memcpy(y + m * p.args.y_stride, residual + m * p.args.residual_stride,
                   (size_t)p.desc.rows * sizeof(float));
        p.args.residual = y;
    }
    if (check_ok(c, weft_linear_plan(check_context(c, p.desc.variant), &p.desc, &plan), "plan")) {
        p.args.workspace_bytes = weft_plan_workspace_bytes(plan);
        p.args.workspace = check_buffer(c, p.args.workspace_bytes, 64);
        check_ok(c, weft_linear_run(plan, &p.args), "run");
    }
    weft_plan_destroy(plan);
    check_written_rows(c, y, count, p.desc.rows, p.args.y_stride, "y");
    return y;
}

// What is taken from the product of element i, in formats with a minimum. A format missing here has a
// narrower bound, never a wider one.
static float minimum(weft_dtype dtype, const void *block, int i)
{
    const struct weft__q2_k *q2 = block;
    const struct weft__q4_k *q4 = block; // q5_k begins likewise
    const struct weft__q4_1 *q1 = block; // q5_1 begins likewise
    uint8_t sc, m;
    switch (dtype) {
    case WEFT_Q4_1:
    case WEFT_Q5_1: return -weft__f16_to_f32(q1->m);
    case WEFT_Q2_K: return weft__f16_to_f32(q2->dmin) * (float)(q2->scales[i / 16] >> 4);
    case WEFT_Q4_K:
    case WEFT_Q5_K:
        weft__q4_k_scale_min(q4->scales, i / 32, &sc, &m);
        return weft__f16_to_f32(q4->dmin) * (float)m;
    default: return 0;
    }
}

// |w| of a block; where w is a product less a minimum, the sum of the magnitudes of both.
static void magnitudes(weft_dtype dtype, const void *block, float *w)
{
    int32_t elems = weft_dtype_block_elems(dtype);
    weft_dequantize_row(dtype, block, elems, w);
    for (int32_t i = 0; i < elems; i++) {
        float taken = minimum(dtype, block, i);
        w[i] = fabsf(w[i] + taken) + fabsf(taken);
    }
}

// sum |w||x| for one output. Rounding an activation to 8 bits can add half a step, or all of it in a
// group so small that it becomes zero.
static double sum_of_products(const struct problem *p, int64_t row, int32_t m)
{
    weft_dtype dtype = p->desc.weight_dtype;
    int32_t block_elems = weft_dtype_block_elems(dtype);
    bool rounded = !(p->desc.flags & WEFT_LINEAR_EXACT);
    const unsigned char *block =
        (const unsigned char *)p->args.weight + row * p->args.weight_stride_bytes;
    const float *x = p->x + m * p->args.x_stride;
    double sum = 0;
    for (int64_t k = 0; k < p->desc.cols; k += block_elems) {
        float w[256], largest = 0;
        magnitudes(dtype, block + k / block_elems * weft_dtype_block_bytes(dtype), w);
        for (int i = 0; i < block_elems; i++) {
            for (int j = i; rounded && i % 32 == 0 && j < i + 32; j++)
                largest = fmaxf(j == i ? 0 : largest, fabsf(x[k + j]));
            double step = largest < 0x1p-120f ? largest : largest / 254;
            sum += fabs((double)w[i]) * (fabs((double)x[k + i]) + step);
        }
    }
    return sum;
}

static double bound(const struct problem *p, double want, int64_t row, int32_t m)
{
    double cols = (double)p->desc.cols, alpha = p->args.alpha != 0 ? fabs(p->args.alpha) : 1;
    double sum = alpha * sum_of_products(p, row, m) * fmax(8, sqrt(cols));
    double added = p->args.bias ? fabs(p->args.bias[row]) : 0;
    added += p->residual ? fabs(p->residual[m * p->args.residual_stride + row]) : 0;
    return 0x1p-23 * (sum + added + fabs(want)) + cols * (1 + alpha) * 0x1p-131;
}

static void check_invariance(struct check_case *c, const struct problem *p, const float *whole)
{
    int32_t m = (int32_t)check_range(c, 0, p->args.batch - 1);
    const float *alone = run(c, *p, c->kernel->name, m, 1);
    if (memcmp(alone, whole + m * p->args.y_stride, (size_t)p->desc.rows * sizeof(float)) != 0)
        check_fail(c, "row %d of the batch differs from the same row alone", m);
}

static void reference_name(const struct weft__linear_kernel *kernel, enum weft__linear_acts acts,
                           char name[64])
{
    snprintf(name, 64, "linear_%s_%s_ref", weft_dtype_name(kernel->weight),
             acts == WEFT__ACTS_q8 ? "q8" : "f32");
}

// Holds row m of the batch, whose activations were rounded, against the exact result: each may be wrong
// by half a step of its group. How far they are, over sum |w||x|, is the kernel's distance.
static void check_rounding(struct check_case *c, const struct problem *p, const float *got,
                           int32_t m)
{
    char exact[64];
    struct problem q = *p;
    double alpha = p->args.alpha != 0 ? fabs(p->args.alpha) : 1;
    reference_name((const void *)c->kernel, WEFT__ACTS_f32, exact);
    q.desc.flags |= WEFT_LINEAR_EXACT;
    const float *want = run(c, q, exact, m, 1);
    for (int64_t row = 0; row < p->desc.rows && !c->failed; row++) {
        double sum = alpha * sum_of_products(&q, row, m);
        double steps = alpha * sum_of_products(p, row, m) - sum;
        double error = fabs((double)got[m * p->args.y_stride + row] - want[row]);
        if (sum > 1e-20)
            c->distance = fmax(c->distance, error / sum);
        if (error > 1.01 * steps + bound(p, want[row], row, m))
            check_fail(c, "y[%lld] is %.3g from exact, %.3g would come of rounding x",
                       (long long)row, error, steps);
    }
}

static void check_element(struct check_case *c, const struct problem *p, double got, double want,
                          int64_t row, int32_t m)
{
    if (isfinite(want))
        check_close(c, got, want, bound(p, want, row, m), "y", m * p->args.y_stride + row);
    else if (isnan(want) ? !isnan(got) : got != want)
        check_fail(c, "y[%d][%lld] = %g, reference %g", m, (long long)row, got, want);
}

static bool finite_row(const struct problem *p, int32_t m)
{
    for (int64_t i = 0; i < p->desc.cols; i++)
        if (!isfinite(p->x[m * p->args.x_stride + i]))
            return false;
    return true;
}

check_fn weft__linear_check;
void weft__linear_check(struct check_case *c)
{
    char reference[64];
    const struct weft__linear_kernel *kernel = (const void *)c->kernel;
    if (c->format && c->format != kernel->weight) {
        check_skip(c);
        return;
    }
    struct problem p = draw(c);
    const float *got = run(c, p, c->kernel->name, 0, p.args.batch);
    reference_name(kernel, kernel->acts, reference);
    const float *want = run(c, p, reference, 0, p.args.batch);
    for (int32_t m = 0; m < p.args.batch; m++)
        for (int64_t row = 0; row < p.desc.rows && !c->failed; row++) {
            int64_t at = m * p.args.y_stride + row;
            check_element(c, &p, got[at], want[at], row, m);
        }
    if (p.desc.flags & WEFT_LINEAR_BATCH_INVARIANT)
        check_invariance(c, &p, got);
    int32_t m = (int32_t)check_range(c, 0, p.args.batch - 1);
    if (kernel->acts == WEFT__ACTS_q8 && (c->seed % 4 == 0 || aim_of(c) == TINY_X) &&
        finite_row(&p, m))
        check_rounding(c, &p, got, m);
}
