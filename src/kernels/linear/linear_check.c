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
#include "src/kernels/linear/linear_kernel.h"
#include "tools/weft-check/check.h"

struct problem {
    weft_linear_desc desc;
    weft_linear_args args;
    bool residual_is_y;
};

static int64_t random_gap(struct check_case *c, int64_t most)
{
    return check_range(c, 0, 1) ? check_range(c, 1, most) : 0;
}

static void draw_shape(struct check_case *c, struct problem *p)
{
    const struct weft__linear_kernel *kernel = (const void *)c->kernel;
    int64_t block = weft_dtype_block_elems(kernel->weight);
    p->desc.weight_dtype = kernel->weight;
    p->desc.flags = kernel->acts == WEFT__ACTS_f32 ? WEFT_LINEAR_EXACT : 0;
    p->desc.flags |= check_range(c, 0, 2) == 0 ? WEFT_LINEAR_BATCH_INVARIANT : 0;
    p->desc.cols = block * check_length(c, 3000 / block, block > 1 ? 4 : 64);
    p->desc.rows = check_length(c, 100, 16);
    p->args.batch = (int32_t)(check_range(c, 0, 3) ? check_range(c, 1, 9) : check_length(c, 40, 8));
    while (p->args.batch > 1 && p->desc.rows * p->desc.cols * p->args.batch > 600000)
        p->args.batch = (p->args.batch + 1) / 2;
    p->desc.max_batch = p->args.batch + (int32_t)random_gap(c, 3);
}

static const float *draw_vectors(struct check_case *c, int64_t count, int64_t elems, int64_t stride)
{
    float *x = check_buffer(c, (size_t)((count - 1) * stride + elems) * sizeof *x, sizeof *x);
    for (int64_t i = 0; i < count; i++)
        check_fill(c, x + i * stride, elems);
    return x;
}

static struct problem draw(struct check_case *c)
{
    struct problem p = {.desc = {.size = sizeof p.desc}, .args = {.size = sizeof p.args}};
    draw_shape(c, &p);
    weft_dtype dtype = p.desc.weight_dtype;
    int64_t rows = p.desc.rows, cols = p.desc.cols, batch = p.args.batch;
    size_t align = dtype == WEFT_F32 ? 4 : 2;
    int64_t row_bytes = weft_dtype_row_bytes(dtype, cols);
    p.args.weight_stride_bytes = row_bytes + (int64_t)align * random_gap(c, 40);
    unsigned char *weight =
        check_buffer(c, (size_t)((rows - 1) * p.args.weight_stride_bytes + row_bytes), align);
    for (int64_t row = 0; row < rows; row++)
        check_fill_blocks(c, dtype, weight + row * p.args.weight_stride_bytes, cols);
    p.args.weight = weight;
    p.args.x_stride = cols + random_gap(c, 9);
    p.args.x = draw_vectors(c, batch, cols, p.args.x_stride);
    p.args.y_stride = rows + random_gap(c, 9);
    p.args.bias = check_range(c, 0, 2) ? NULL : draw_vectors(c, 1, rows, rows);
    if (check_range(c, 0, 2) == 0) {
        p.residual_is_y = check_range(c, 0, 1);
        p.args.residual_stride = p.residual_is_y ? p.args.y_stride : rows + random_gap(c, 9);
        p.args.residual = draw_vectors(c, batch, rows, p.args.residual_stride);
    }
    p.args.alpha = check_range(c, 0, 2) ? 0 : check_uniform(c, -3, 3);
    check_note(c,
               "%s rows %lld cols %lld batch %d of %d strides w+%lld x+%lld y+%lld alpha %g flags "
               "%u bias %d residual %d (y itself: %d)",
               weft_dtype_name(dtype), (long long)rows, (long long)cols, p.args.batch,
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
    p.args.x += first * p.args.x_stride;
    p.args.y = check_output(c, (count - 1) * p.args.y_stride + p.desc.rows);
    if (p.args.residual)
        p.args.residual += first * p.args.residual_stride;
    if (p.residual_is_y) {
        for (int32_t m = 0; m < count; m++)
            memcpy(p.args.y + m * p.args.y_stride, p.args.residual + m * p.args.residual_stride,
                   (size_t)p.desc.rows * sizeof(float));
        p.args.residual = p.args.y;
    }
    if (check_ok(c, weft_linear_plan(c->context, &p.desc, &plan), "plan")) {
        p.args.workspace_bytes = weft_plan_workspace_bytes(plan);
        p.args.workspace = check_buffer(c, p.args.workspace_bytes, 64);
        check_ok(c, weft_linear_run(plan, &p.args), "run");
    }
    weft_plan_destroy(plan);
    check_written_rows(c, p.args.y, count, p.desc.rows, p.args.y_stride, "y");
    return p.args.y;
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

// sum |w||x| for one output. Rounding an activation to 8 bits can add half a step.
static double sum_of_products(const struct problem *p, int64_t row, int32_t m)
{
    weft_dtype dtype = p->desc.weight_dtype;
    int32_t block_elems = weft_dtype_block_elems(dtype);
    bool rounded = !(p->desc.flags & WEFT_LINEAR_EXACT);
    const unsigned char *block =
        (const unsigned char *)p->args.weight + row * p->args.weight_stride_bytes;
    const float *x = p->args.x + m * p->args.x_stride;
    double sum = 0;
    for (int64_t k = 0; k < p->desc.cols; k += block_elems) {
        float w[256], largest = 0;
        magnitudes(dtype, block + k / block_elems * weft_dtype_block_bytes(dtype), w);
        for (int i = 0; i < block_elems; i++) {
            for (int j = i; rounded && i % 32 == 0 && j < i + 32; j++)
                largest = fmaxf(j == i ? 0 : largest, fabsf(x[k + j]));
            sum += fabs((double)w[i]) * (fabs((double)x[k + i]) + largest / 254);
        }
    }
    return sum;
}

static double bound(const struct problem *p, double want, int64_t row, int32_t m)
{
    double cols = (double)p->desc.cols, alpha = p->args.alpha != 0 ? fabs(p->args.alpha) : 1;
    double sum = alpha * sum_of_products(p, row, m) * fmax(8, sqrt(cols));
    double added = p->args.bias ? fabs(p->args.bias[row]) : 0;
    added += p->args.residual ? fabs(p->args.residual[m * p->args.residual_stride + row]) : 0;
    return 0x1p-23 * (sum + added + fabs(want)) + cols * (1 + alpha) * 0x1p-131;
}

static void check_invariance(struct check_case *c, const struct problem *p, const float *whole)
{
    int32_t m = (int32_t)check_range(c, 0, p->args.batch - 1);
    const float *alone = run(c, *p, c->kernel->name, m, 1);
    if (memcmp(alone, whole + m * p->args.y_stride, (size_t)p->desc.rows * sizeof(float)) != 0)
        check_fail(c, "row %d of the batch differs from the same row alone", m);
}

// How far rounding the activations takes row 0 of the batch from the exact result, over sum |w||x|.
static void measure_distance(struct check_case *c, const struct problem *p, const float *got)
{
    char exact[64];
    struct problem q = *p;
    double alpha = p->args.alpha != 0 ? fabs(p->args.alpha) : 1;
    const char *isa = strrchr(c->kernel->name, '_');
    snprintf(exact, sizeof exact, "%.*sf32_ref", (int)(isa - c->kernel->name) - 2, c->kernel->name);
    q.desc.flags |= WEFT_LINEAR_EXACT;
    const float *want = run(c, q, exact, 0, 1);
    for (int64_t row = 0; row < p->desc.rows && !c->failed; row++) {
        double sum = alpha * sum_of_products(&q, row, 0);
        if (sum > 1e-20)
            c->distance = fmax(c->distance, fabs((double)got[row] - want[row]) / sum);
    }
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
    const float *want = run(c, p, check_reference(c, reference), 0, p.args.batch);
    for (int32_t m = 0; m < p.args.batch; m++)
        for (int64_t row = 0; row < p.desc.rows && !c->failed; row++) {
            int64_t at = m * p.args.y_stride + row;
            check_close(c, got[at], want[at], bound(&p, want[at], row, m), "y", at);
        }
    if (p.desc.flags & WEFT_LINEAR_BATCH_INVARIANT)
        check_invariance(c, &p, got);
    if (kernel->acts == WEFT__ACTS_q8 && c->index % 4 == 0)
        measure_distance(c, &p, got);
}
