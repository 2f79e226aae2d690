// SPDX-License-Identifier: MIT
// Holds linear kernels against the reference of the same activations: a kernel that rounds its
// activations is compared with a reference that rounds likewise.
//
// Bound, as linear.h promises: 2^-23 max(8, sqrt(cols)) sum |w||x|, where |w| of a format with a
// minimum is the sum of the magnitudes of its two terms, plus the roundings of alpha, bias and
// residual, plus what scales near the subnormals lose. Where weights and activations have 16 bits (many
// rows of X on a GPU, or of packed weights on AMX) what linear.h says of that comes on top.
#include <math.h>
#include <stdio.h>

#include "src/formats/formats.h"
#include "src/formats/q2_k.h"
#include "src/formats/q4_1.h"
#include "src/formats/q4_k.h"
#include "src/formats/row.h"
#include "src/kernels/element.h"
#include "src/kernels/linear/linear_check.h"
#include "src/kernels/linear/linear_gemm_cuda.h"
#include "src/kernels/linear/linear_kernel.h"
#include "src/kernels/linear/linear_packed.h"
#include "src/kernels/linear/linear_packed_bf16.h"
#include "src/kernels/linear/linear_problem.h"

// A matrix with scales is the only part of its plan.
static void add_planes(struct problem *p)
{
    if (p->part.scale_cols == 0)
        return;
    p->desc.num_parts = 1;
    p->desc.parts[0] = p->part;
    p->desc.weight_dtype = WEFT_DTYPE_NONE;
    p->desc.rows = 0;
    p->args.parts[0] = p->planes;
    p->args.parts[0].weight = p->args.weight;
    p->args.parts[0].weight_stride_bytes = p->args.weight_stride_bytes;
    p->args.parts[0].y = p->args.y;
    p->args.parts[0].y_stride = p->args.y_stride;
    p->args.parts[0].bias = p->args.bias;
    p->args.weight = p->args.y = NULL;
    p->args.weight_stride_bytes = p->args.y_stride = 0;
    p->args.bias = NULL;
}

// Packs the weights; from then on the run has nothing else.
static void pack(struct check_case *c, const weft_plan *plan, struct problem *p)
{
    size_t bytes = weft_linear_packed_bytes(plan, 0);
    weft_linear_args *args = &p->args;
    weft_linear_part_args *part = &args->parts[0];
    bool alone = p->part.scale_cols == 0;
    const weft_linear_pack_args pack = {.size = sizeof pack,
                                        .weight = alone ? args->weight : part->weight,
                                        .weight_stride_bytes = alone ? args->weight_stride_bytes
                                                                     : part->weight_stride_bytes,
                                        .scales = part->scales,
                                        .biases = part->biases,
                                        .scale_stride = part->scale_stride,
                                        .packed = check_buffer(c, bytes, 64)};
    check_ok(c, weft_linear_pack(plan, &pack), "pack");
    *(alone ? &args->packed : &part->packed) = pack.packed;
    args->weight = part->weight = part->scales = part->biases = NULL;
    args->weight_stride_bytes = part->weight_stride_bytes = part->scale_stride = 0;
}

// The same operands give the same bits, run again or recorded and launched. `before`: what y held, all of it.
static void run_again(struct check_case *c, const weft_plan *plan, weft_linear_args args,
                      const void *before, size_t bytes)
{
    weft_program *program = NULL;
    const bool recorded = check_range(c, 0, 2) == 0;
    void **y = args.y ? &args.y : &args.parts[0].y, *first = *y;
    *y = memcpy(check_buffer(c, bytes, 4), before, bytes);
    if (args.residual == first)
        args.residual = *y;
    if (recorded && !check_ok(c, weft_program_begin(c->context, &program), "recording"))
        return;
    check_ok(c, weft_linear_run(plan, &args), "second run");
    if (recorded && check_ok(c, weft_program_end(program), "end of recording"))
        check_ok(c, weft_program_launch(program, NULL), "launch");
    if (!c->failed && weft_stream_synchronize(c->context, NULL) == WEFT_OK &&
        memcmp(*y, first, bytes) != 0)
        check_fail(c, "y differs when run again%s", recorded ? ", recorded" : "");
    weft_program_destroy(program);
}

// X as a rounded buffer.
static void round_x(struct check_case *c, struct problem *p)
{
    weft_plan *plan = NULL;
    const weft_round_desc desc = {
        .size = sizeof desc, .cols = p->desc.cols, .max_rows = p->args.batch};
    weft_round_args args = {
        .size = sizeof args, .rows = p->args.batch, .x = p->args.x, .x_stride = p->args.x_stride};
    args.rounded = check_buffer(c, weft_rounded_bytes(c->context, p->args.batch, p->desc.cols), 64);
    if (check_ok(c, weft_round_plan(c->context, &desc, &plan), "plan of rounding"))
        check_ok(c, weft_round_run(plan, &args), "rounding");
    weft_plan_destroy(plan);
    p->args.x = args.rounded;
    p->args.x_stride = 0;
    p->desc.flags |= WEFT_LINEAR_X_ROUNDED;
}

// Runs the plan in the formats of the problem; y holds the residual where that is y itself.
static void run_formats(struct check_case *c, struct problem p, int32_t first, float *y)
{
    weft_plan *plan = NULL;
    int32_t count = p.args.batch;
    int64_t elems = (count - 1) * p.args.y_stride + p.desc.rows;
    if (p.x_rounded)
        round_x(c, &p);
    else if (p.x_dtype != WEFT_F32)
        p.args.x = check_narrow(c, p.x_dtype, p.x + first * p.args.x_stride,
                                (count - 1) * p.args.x_stride + p.desc.cols);
    if (p.y_dtype != WEFT_F32) {
        p.args.y = check_narrow(c, p.y_dtype, y, elems);
        if (p.residual_is_y)
            p.args.residual = p.args.y;
        else if (p.residual)
            p.args.residual = check_narrow(c, p.y_dtype, p.args.residual,
                                           (count - 1) * p.args.residual_stride + p.desc.rows);
    }
    const void *written = p.args.y;
    const size_t bytes = (size_t)elems * (p.y_dtype == WEFT_F32 ? 4 : 2);
    const void *before = memcpy(check_room(c, bytes), written, bytes);
    p.desc.x_dtype = p.x_rounded ? WEFT_F32 : p.x_dtype;
    p.desc.y_dtype = p.y_dtype;
    add_planes(&p);
    if (check_ok(c, weft_linear_plan(check_context(c, p.desc.variant), &p.desc, &plan), "plan")) {
        p.args.workspace_bytes = weft_plan_workspace_bytes(plan);
        p.args.workspace = check_buffer(c, p.args.workspace_bytes, 64);
        if (p.packs)
            pack(c, plan, &p);
        if (check_ok(c, weft_linear_run(plan, &p.args), "run") &&
            strcmp(p.desc.variant, c->kernel->name) == 0)
            run_again(c, plan, p.args, before, bytes);
    }
    weft_plan_destroy(plan);
    if (p.y_dtype != WEFT_F32)
        memcpy(y, check_widen(c, p.y_dtype, written, elems), (size_t)elems * sizeof *y);
}

// Runs rows [first, first + count) of X.
static const float *run(struct check_case *c, struct problem p, const char *variant, int32_t first,
                        int32_t count)
{
    p.desc.variant = variant;
    p.args.batch = count;
    if (variant != c->kernel->name) {
        p.x_dtype = p.y_dtype = WEFT_F32;
        p.packs = p.x_rounded = false;
    }
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
    run_formats(c, p, first, y);
    if (p.y_dtype == WEFT_F32)
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

void weft__linear_magnitudes(weft_dtype dtype, const void *block, float *w)
{
    int32_t elems = weft_dtype_block_elems(dtype);
    weft_dequantize_row(dtype, block, elems, w);
    for (int32_t i = 0; i < elems; i++) {
        float taken = minimum(dtype, block, i);
        w[i] = fabsf(w[i] + taken) + fabsf(taken);
    }
}

static void scale_magnitudes(const struct problem *p, int64_t row, int64_t count, float *w)
{
    int64_t rows = p->part.scale_rows ? p->part.scale_rows : 1;
    for (int64_t i = 0; p->part.scale_cols && i < count; i++) {
        int64_t at = row / rows * p->planes.scale_stride + i / p->part.scale_cols;
        weft_dtype dtype = p->part.scale_dtype;
        w[i] *= fabsf(weft__element_load(p->planes.scales, dtype, at));
        if (p->planes.biases)
            w[i] += fabsf(weft__element_load(p->planes.biases, dtype, at));
    }
}

// What sums of products are bounded by, per column: |x| of every row of X, and |w| of the row of W at hand.
struct sizes {
    double *x; // [batch][cols]
    float *w;  // [cols]
};

// |x| of row m. Rounding an activation to 8 bits can add half a step, or all of it in a group so small that it
// becomes zero.
static void size_x(const struct problem *p, int32_t m, double *to)
{
    const bool rounded = weft_dtype_block_elems(p->desc.weight_dtype) > 1 &&
                         !(p->desc.flags & WEFT_LINEAR_EXACT) && (!p->lays || p->x_rounded);
    const float *x = p->x + m * p->args.x_stride;
    for (int64_t k = 0; k < p->desc.cols; k++)
        to[k] = fabs((double)x[k]);
    for (int64_t k = 0; rounded && k < p->desc.cols; k += 32) {
        double largest = 0;
        for (int64_t i = k; i < k + 32; i++)
            largest = to[i] > largest ? to[i] : largest;
        const double step = largest < 0x1p-120 ? largest : largest / 254;
        for (int64_t i = k; i < k + 32; i++)
            to[i] += step;
    }
}

static void size_w(const struct problem *p, int64_t row, float *to)
{
    const weft_dtype dtype = p->desc.weight_dtype;
    const int32_t elems = weft_dtype_block_elems(dtype), bytes = weft_dtype_block_bytes(dtype);
    const unsigned char *block =
        (const unsigned char *)p->args.weight + row * p->args.weight_stride_bytes;
    for (int64_t k = 0; k < p->desc.cols; k += elems, block += bytes)
        weft__linear_magnitudes(dtype, block, to + k);
    scale_magnitudes(p, row, p->desc.cols, to);
}

static struct sizes make_sizes(struct check_case *c, const struct problem *p)
{
    const size_t cols = (size_t)p->desc.cols;
    struct sizes sizes = {check_room(c, (size_t)p->args.batch * cols * sizeof(double)),
                          check_room(c, cols * sizeof(float))};
    for (int32_t m = 0; m < p->args.batch; m++)
        size_x(p, m, sizes.x + m * p->desc.cols);
    return sizes;
}

bool weft__linear_excepted(double wide, const float *w, int64_t cols)
{
    for (int64_t k = 0; wide == WEFT__LINEAR_WIDE_F16 && k < cols; k++)
        if (!(w[k] < 65504))
            return true;
    return false;
}

// sum |w||x| for one output.
static double sum_of_products(const struct problem *p, const struct sizes *sizes, int32_t m)
{
    const double *x = sizes->x + m * p->desc.cols;
    double sum = 0;
    for (int64_t k = 0; k < p->desc.cols; k++)
        sum += sizes->w[k] * x[k];
    return sum;
}

int64_t weft__linear_check_block(const struct weft__linear_kernel *kernel)
{
    return kernel->pack    ? weft__packed_shape(kernel->weight).cols
           : kernel->codes ? WEFT__CODES_COLS
                           : weft_dtype_block_elems(kernel->weight);
}

double weft__linear_wide_error(const struct weft__kernel *base, int32_t batch, uint32_t flags,
                               bool packed)
{
    const struct weft__linear_kernel *kernel = (const void *)base;
    const bool plain = weft_dtype_block_elems(kernel->weight) == 1;
    const bool library = base->level == WEFT__CUDA_cublaslt;
    const bool narrow = library || kernel->acts == WEFT__ACTS_q8 || kernel->weight == WEFT_F16 ||
                        kernel->weight == WEFT_BF16;
    const int32_t least = library ? 1 : WEFT__LINEAR_GEMM_MIN_BATCH;
    if (kernel->lay)
        return packed && batch >= kernel->lay_batch &&
                       !(flags & (WEFT_LINEAR_BATCH_INVARIANT | WEFT_LINEAR_EXACT))
                   ? (kernel->weight == WEFT_MXFP4 ? 0x1p-8 : 0x1p-7)
                   : 0;
    if (base->level < WEFT__CUDA_sm80 || (kernel->planes && !library) || !narrow ||
        !(packed || plain || library) || batch < least ||
        flags & (WEFT_LINEAR_BATCH_INVARIANT | WEFT_LINEAR_EXACT))
        return 0;
    return kernel->weight == WEFT_MXFP4 || kernel->weight == WEFT_BF16 ? 0x1p-8
                                                                       : WEFT__LINEAR_WIDE_F16;
}

double weft__linear_wide_x(const struct weft__kernel *kernel)
{
    return kernel->level >= WEFT__CUDA_sm80 ? 0x1p-17 : 0x1p-126;
}

// What 16 bits of weights and activations may change.
static double wide_bound(const struct check_case *c, const struct problem *p, double sum, int32_t m)
{
    double x = 0;
    for (int64_t i = 0; i < p->desc.cols && p->wide > 0; i++)
        x += fabs((double)p->x[m * p->args.x_stride + i]);
    return p->wide * sum + (p->wide > 0 ? weft__linear_wide_x(c->kernel) * x : 0);
}

static bool has_minimum(const struct problem *p)
{
    const weft_dtype w = p->desc.weight_dtype;
    return p->planes.biases || w == WEFT_Q4_1 || w == WEFT_Q5_1 || w == WEFT_Q2_K ||
           w == WEFT_Q4_K || w == WEFT_Q5_K;
}

// What sums of 16 or 32 numbers of X lose near the subnormals, times the minima that they meet: a GPU keeps them 2^17 too
// small, as two numbers of tf32, the smaller of which has steps of 2^-136 then (linear_some.cuh). As bf16 they are zero from 2^-126
// on.
static double lost_sums(const struct problem *p, const struct sizes *sizes)
{
    double w = 0;
    for (int64_t k = 0; k < p->desc.cols && (p->tf32_sums || p->lays); k++)
        w += sizes->w[k];
    return (p->lays ? 0x1p-126 : 0x1p-119 / 16) * w;
}

static double bound(const struct check_case *c, const struct problem *p, const struct sizes *sizes,
                    double want, int64_t row, int32_t m)
{
    double cols = (double)p->desc.cols, alpha = p->args.alpha != 0 ? fabs(p->args.alpha) : 1;
    double products = sum_of_products(p, sizes, m), wide = alpha * wide_bound(c, p, products, m);
    double sum = alpha * products * fmax(8, sqrt(cols));
    double added = p->args.bias ? fabs(p->args.bias[row]) : 0;
    added += p->residual ? fabs(p->residual[m * p->args.residual_stride + row]) : 0;
    // What is rounded to bf16 can grow by a 256th; its products and sums below 2^-126 are lost.
    double lost = p->narrows || p->lays ? 0x1p-125 : 0x1p-131;
    sum *= p->narrows ? 1.01 : 1;
    return 0x1p-23 * (sum + added + fabs(want)) + cols * (1 + alpha) * lost +
           alpha * lost_sums(p, sizes) + wide;
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
             acts == WEFT__ACTS_q8     ? "q8"
             : acts == WEFT__ACTS_bf16 ? "bf16"
                                       : "f32");
}

// Holds row m of the batch, whose activations were rounded, against the exact result: each may be wrong
// by half a step of its group, or each factor by a 256th. How far they are, over sum |w||x|, is the kernel's distance.
static void check_rounding(struct check_case *c, const struct problem *p, const float *got,
                           int32_t m)
{
    char exact[64];
    struct problem q = *p;
    double alpha = p->args.alpha != 0 ? fabs(p->args.alpha) : 1;
    reference_name((const void *)c->kernel, WEFT__ACTS_f32, exact);
    q.desc.flags |= WEFT_LINEAR_EXACT;
    const float *want = run(c, q, exact, m, 1);
    struct sizes sizes = make_sizes(c, p), exact_sizes = {make_sizes(c, &q).x, sizes.w};
    for (int64_t row = 0; row < p->desc.rows && !c->failed; row++) {
        size_w(p, row, sizes.w);
        if (weft__linear_excepted(p->wide, sizes.w, p->desc.cols))
            continue;
        double sum = alpha * sum_of_products(&q, &exact_sizes, m);
        double steps = p->narrows ? sum / 127 : alpha * sum_of_products(p, &sizes, m) - sum;
        double error = fabs((double)got[m * p->args.y_stride + row] - want[row]);
        if (sum > 1e-20)
            c->distance = fmax(c->distance, error / sum);
        if (error > 1.01 * steps + bound(c, p, &sizes, want[row], row, m))
            check_fail(c, "y[%lld] is %.3g from exact, %.3g would come of rounding x",
                       (long long)row, error, steps);
    }
}

static void check_element(struct check_case *c, const struct problem *p, const struct sizes *sizes,
                          double got, double want, int64_t row, int32_t m)
{
    if (isfinite(want))
        check_close_as(c, p->y_dtype, got, want, bound(c, p, sizes, want, row, m), "y",
                       m * p->args.y_stride + row);
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

static void verify(struct check_case *c, const struct problem *p, const float *got,
                   const float *want)
{
    struct sizes sizes = make_sizes(c, p);
    for (int64_t row = 0; row < p->desc.rows; row++) {
        size_w(p, row, sizes.w);
        if (weft__linear_excepted(p->wide, sizes.w, p->desc.cols))
            continue;
        for (int32_t m = 0; m < p->args.batch && !c->failed; m++) {
            int64_t at = m * p->args.y_stride + row;
            check_element(c, p, &sizes, got[at], want[at], row, m);
        }
    }
}

static void check_problem(struct check_case *c, struct problem *p)
{
    char reference[64];
    const struct weft__linear_kernel *kernel = (const void *)c->kernel;
    p->tf32_sums =
        c->kernel->level >= WEFT__CUDA_sm80 && kernel->acts == WEFT__ACTS_q8 && has_minimum(p);
    p->wide = weft__linear_wide_error(c->kernel, p->args.batch, p->desc.flags, p->packs);
    p->lays = kernel->lay && p->wide > 0;
    p->x_rounded = p->lays && check_range(c, 0, 1);
    const bool numbers = p->lays && !p->x_rounded; // which reference kernels of 8 bits do not take
    const float *got = run(c, *p, c->kernel->name, 0, p->args.batch);
    reference_name(kernel, numbers ? WEFT__ACTS_f32 : kernel->acts, reference);
    struct problem same = *p;
    same.desc.flags |= numbers ? WEFT_LINEAR_EXACT : 0;
    const float *want = run(c, same, reference, 0, p->args.batch);
    verify(c, p, got, want);
    if (p->desc.flags & WEFT_LINEAR_BATCH_INVARIANT)
        check_invariance(c, p, got);
    int32_t m = (int32_t)check_range(c, 0, p->args.batch - 1);
    bool rounds = (kernel->acts == WEFT__ACTS_q8 && !numbers) || p->narrows;
    if (rounds && p->y_dtype == WEFT_F32 && (c->seed % 4 == 0 || p->tiny_x) && finite_row(p, m))
        check_rounding(c, p, got, m);
}

check_fn weft__linear_check;
void weft__linear_check(struct check_case *c)
{
    const struct weft__linear_kernel *kernel = (const void *)c->kernel;
    if (c->format && c->format != kernel->weight) {
        check_skip(c);
        return;
    }
    if (c->seed % 20 == 3 || c->seed % 20 == 6 || c->seed % 20 == 13) {
        weft__linear_layer_check(c);
        return;
    }
    const struct problem shape = weft__linear_problem_draw_shape(c);
    for (int32_t i = 0; i < weft__linear_problem_lengths(c) && !c->failed; i++) {
        const int32_t batch = i ? (int32_t)check_range(c, 1, shape.desc.max_batch) : 0;
        struct problem p = weft__linear_problem_draw(c, &shape, batch);
        check_problem(c, &p);
        check_problem_done(c);
    }
}
