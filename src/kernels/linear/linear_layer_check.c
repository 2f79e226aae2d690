// SPDX-License-Identifier: MIT
// Holds a kernel with all that a layer can have round it - parts, norm, gate, residual, 16-bit results, rounded
// input and output - against the formulas of linear.h in f64.
//
// Where a kernel rounds X, so does the reference; a number that lies so near the middle between two steps that
// the norm's last bits decide may go either way, and the bound says so.
#include <math.h>
#include <string.h>

#include "src/kernels/check.h"
#include "src/kernels/element.h"
#include "src/kernels/linear/linear_check.h"
#include "src/kernels/linear/linear_gemm_cuda.h"
#include "src/kernels/linear/linear_kernel.h"

enum { MOST_BATCH = 35, MOST_ROWS = 128 };

struct layer {
    weft_linear_desc desc;
    weft_linear_args args;
    weft_dtype format;
    bool rounds_x;
    int64_t cols, rows[WEFT_LINEAR_MAX_PARTS];
    int32_t batch, parts;
    const float *x; // with x_gate [batch][2 cols]
    const unsigned char *weights[WEFT_LINEAR_MAX_PARTS];
    void *y[WEFT_LINEAR_MAX_PARTS];
    double *read, *slack; // X as it is multiplied, and what ties may add to it: [batch][cols]
    const float *residual;
    double wide; // of 16-bit weights and activations
    double want[MOST_BATCH][MOST_ROWS], bound[MOST_BATCH][MOST_ROWS];
};

static float *draw_floats(struct check_case *c, int64_t count, float low, float high)
{
    float *values = check_buffer(c, (size_t)count * sizeof *values, sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] = low < high ? check_uniform(c, low, high) : check_normal(c);
    return values;
}

static bool rounds_y(const struct layer *l)
{
    return l->desc.flags & (WEFT_LINEAR_Y_ROUNDED | WEFT_LINEAR_NEXT);
}

// Now and then so many that a GPU's text knows them (WEFT_COLS): fewer tiles than warps, as many, and some more.
static int64_t draw_cols(struct check_case *c, int64_t block)
{
    if (check_range(c, 0, 3) == 0)
        return check_pick(c, 4, 1024, 2048, 4096, 4608);
    return block * check_range(c, 1, 768 / block < 1 ? 1 : 768 / block);
}

static void draw_desc(struct check_case *c, struct layer *l)
{
    const struct weft__linear_kernel *kernel = (const void *)c->kernel;
    int64_t block = weft__linear_check_block(kernel);
    weft_linear_desc *desc = &l->desc;
    int what = (int)check_range(
        c, 0, 3); // 0 Q, K, V; 1 gate; 2 next; 3 one matrix, with a function or without
    const bool function = what == 3 && kernel->base.level < WEFT__ISA_COUNT && check_range(c, 0, 1);
    l->format = kernel->weight;
    l->rounds_x = kernel->acts == WEFT__ACTS_q8;
    l->cols = draw_cols(c, block);
    l->batch = (int32_t)check_pick(c, 7, 1, 1, 2, 5, 9, 18, MOST_BATCH);
    l->parts = what == 0 ? 3 : what == 1 ? 2 : 1;
    // cuBLASLt takes rows at multiples of 16 bytes
    const bool library = kernel->base.level == WEFT__CUDA_cublaslt && check_range(c, 0, 7);
    if (library)
        l->cols = (l->cols + 7) / 8 * 8;
    desc->size = sizeof *desc;
    desc->cols = l->cols;
    desc->max_batch = l->batch;
    desc->flags = kernel->acts == WEFT__ACTS_f32 && !library ? WEFT_LINEAR_EXACT : 0;
    desc->norm = (weft_linear_norm)check_pick(c, 4, 0, 1, 1, 2);
    desc->norm_eps = 1e-5f;
    if (!desc->norm && kernel->base.level < WEFT__ISA_COUNT && check_range(c, 0, 1))
        desc->x_gate = (weft_linear_gate)check_range(c, 1, 3);
    desc->gate =
        what == 1 || function ? (weft_linear_gate)check_range(c, 1, 3) : WEFT_LINEAR_GATE_NONE;
    if (check_range(c, 0, 3) == 0)
        desc->flags |= WEFT_LINEAR_NORM_PLUS_ONE;
    if (what == 2)
        desc->flags |= WEFT_LINEAR_NEXT;
    if (desc->gate && check_range(c, 0, 1))
        desc->flags |= WEFT_LINEAR_Y_ROUNDED;
    if (l->rounds_x && !desc->norm && !desc->x_gate && l->cols % 32 == 0 && check_range(c, 0, 1))
        desc->flags |= WEFT_LINEAR_X_ROUNDED | WEFT_LINEAR_BATCH_INVARIANT;
    if (check_range(c, 0, 5) == 0)
        desc->y_dtype = (weft_dtype)check_range(c, WEFT_F16, WEFT_BF16);
    desc->num_parts = l->parts;
    for (int32_t p = 0; p < l->parts; p++) {
        l->rows[p] = p && what == 1 ? l->rows[0]
                     : rounds_y(l)  ? 32 * check_range(c, 1, MOST_ROWS / 32)
                                    : check_range(c, 1, MOST_ROWS);
        if (library)
            l->rows[p] = (l->rows[p] + 7) / 8 * 8;
        desc->parts[p] = (weft_linear_part){.weight_dtype = l->format, .rows = l->rows[p]};
        if (((const struct weft__linear_kernel *)c->kernel)->groups)
            desc->parts[p].scale_dtype = WEFT_F16; // all of them 1
    }
}

static void draw_buffers(struct check_case *c, struct layer *l)
{
    weft_linear_args *args = &l->args;
    int64_t row_bytes = weft_dtype_row_bytes(l->format, l->cols);
    *args = (weft_linear_args){.size = sizeof *args, .batch = l->batch};
    args->alpha = check_range(c, 0, 1) ? 0 : check_uniform(c, -2, 2);
    l->x = draw_floats(c, l->batch * l->cols * (l->desc.x_gate ? 2 : 1), 0, 0);
    args->x = l->x;
    if (l->desc.norm && check_range(c, 0, 3))
        args->norm_weight = draw_floats(c, l->cols, -1, 2);
    if (l->desc.norm == WEFT_LINEAR_NORM_LAYER && check_range(c, 0, 1))
        args->norm_bias = draw_floats(c, l->cols, -1, 1);
    if (l->desc.flags & WEFT_LINEAR_NEXT && check_range(c, 0, 3))
        args->next_weight = draw_floats(c, l->rows[0], -1, 2);
    for (int32_t p = 0; p < l->parts; p++) {
        unsigned char *weight = check_buffer(c, (size_t)(l->rows[p] * row_bytes), 4);
        for (int64_t row = 0; row < l->rows[p]; row++)
            check_fill_blocks(c, l->format, weight + row * row_bytes, l->cols);
        l->weights[p] = args->parts[p].weight = weight;
        args->parts[p].bias = check_range(c, 0, 2) ? NULL : draw_floats(c, l->rows[p], 0, 0);
        bool rounded = l->desc.flags & WEFT_LINEAR_Y_ROUNDED;
        size_t bytes = rounded ? weft_rounded_bytes(c->context, l->batch, l->rows[p])
                               : (size_t)(l->batch * l->rows[p]) * (l->desc.y_dtype ? 2 : 4);
        l->y[p] = args->parts[p].y = check_buffer(c, bytes, 64);
    }
    if (l->desc.flags & WEFT_LINEAR_NEXT)
        args->next = check_buffer(c, weft_rounded_bytes(c->context, l->batch, l->rows[0]), 64);
    if ((l->parts == 1 || l->desc.gate) && !l->desc.y_dtype && check_range(c, 0, 1))
        args->residual = l->residual = draw_floats(c, l->batch * l->rows[0], 0, 0);
}

static void pack(struct check_case *c, const weft_plan *plan, weft_linear_part_args *part,
                 int32_t p)
{
    const weft_linear_pack_args pack = {.size = sizeof pack,
                                        .part = p,
                                        .weight = part->weight,
                                        .packed =
                                            check_buffer(c, weft_linear_packed_bytes(plan, p), 64)};
    check_ok(c, weft_linear_pack(plan, &pack), "pack");
    part->packed = pack.packed;
    part->weight = NULL;
}

static void round_x(struct check_case *c, struct layer *l)
{
    weft_plan *plan = NULL;
    const weft_round_desc desc = {.size = sizeof desc,
                                  .flags = WEFT_LINEAR_BATCH_INVARIANT,
                                  .cols = l->cols,
                                  .max_rows = l->batch};
    weft_round_args args = {.size = sizeof args, .rows = l->batch, .x = l->x};
    args.rounded = check_buffer(c, weft_rounded_bytes(c->context, l->batch, l->cols), 64);
    l->args.x = args.rounded;
    if (check_ok(c, weft_round_plan(c->context, &desc, &plan), "plan of rounding"))
        check_ok(c, weft_round_run(plan, &args), "rounding");
    weft_plan_destroy(plan);
}

static void run(struct check_case *c, struct layer *l, const char *variant, bool packs)
{
    weft_plan *plan = NULL;
    l->desc.variant = variant;
    if (l->desc.flags & WEFT_LINEAR_X_ROUNDED)
        round_x(c, l);
    if (check_ok(c, weft_linear_plan(c->context, &l->desc, &plan), "plan")) {
        l->args.workspace_bytes = weft_plan_workspace_bytes(plan);
        l->args.workspace = check_buffer(c, l->args.workspace_bytes, 64);
        for (int32_t p = 0; packs && p < l->parts; p++)
            pack(c, plan, &l->args.parts[p], p);
        check_ok(c, weft_linear_run(plan, &l->args), "run");
    }
    weft_plan_destroy(plan);
}

static double gate_of(weft_linear_gate gate, double x)
{
    if (gate == WEFT_LINEAR_GATE_SILU)
        return x / (1 + exp(-x));
    if (gate == WEFT_LINEAR_GATE_GELU)
        return 0.5 * x * (1 + erf(x * 0.70710678118654752));
    return 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
}

// The gate of a row of X by the rest of it.
static void gate_row(const struct layer *l, const float *x, double *to, double *slack)
{
    for (int64_t i = 0; i < l->cols; i++) {
        to[i] = gate_of(l->desc.x_gate, x[i]) * x[l->cols + i];
        slack[i] = 0x1p-24 * fabs((double)x[i] * x[l->cols + i]);
    }
}

// X normed, in f64.
static void norm_row(const struct layer *l, const float *x, double *to)
{
    double mean = 0, square = 0, plus = l->desc.flags & WEFT_LINEAR_NORM_PLUS_ONE ? 1 : 0;
    for (int64_t i = 0; i < l->cols; i++)
        mean += x[i];
    mean = l->desc.norm == WEFT_LINEAR_NORM_LAYER ? mean / (double)l->cols : 0;
    for (int64_t i = 0; i < l->cols; i++)
        square += (x[i] - mean) * (x[i] - mean);
    double scale = 1 / sqrt(square / (double)l->cols + (double)l->desc.norm_eps);
    for (int64_t i = 0; i < l->cols; i++) {
        double weight = l->args.norm_weight ? l->args.norm_weight[i] + plus : 1;
        to[i] = l->desc.norm ? (x[i] - mean) * scale * weight : x[i];
        to[i] += l->args.norm_bias ? l->args.norm_bias[i] : 0;
    }
}

static void round_row(const struct layer *l, double *x, double *slack)
{
    for (int64_t g = 0; g < l->cols; g += 32) {
        double largest = 0;
        for (int i = 0; i < 32; i++)
            largest = fmax(largest, fabs(x[g + i]));
        double scale = largest / 127;
        for (int i = 0; i < 32 && scale > 0; i++) {
            double steps = x[g + i] / scale, middle = fabs(steps - floor(steps) - 0.5);
            slack[g + i] += middle < 1e-3 ? scale : scale * 1e-5;
            x[g + i] = rint(steps) * scale;
        }
    }
}

static void read_x(struct check_case *c, struct layer *l)
{
    size_t bytes = (size_t)(l->batch * l->cols) * sizeof(double);
    l->read = check_room(c, bytes);
    l->slack = check_room(c, bytes);
    memset(l->slack, 0, bytes);
    for (int32_t m = 0; m < l->batch; m++) {
        if (l->desc.x_gate)
            gate_row(l, l->x + 2 * m * l->cols, l->read + m * l->cols, l->slack + m * l->cols);
        else
            norm_row(l, l->x + m * l->cols, l->read + m * l->cols);
        if (l->rounds_x)
            round_row(l, l->read + m * l->cols, l->slack + m * l->cols);
    }
}

// Output `row` of part p: the product with its factor and bias, NaN if nothing is promised of it, and how far it may be off.
static void product(struct check_case *c, const struct layer *l, int32_t p, int64_t row,
                    double *want, double *bound)
{
    float *w = check_room(c, (size_t)l->cols * sizeof *w);
    float *size = check_room(c, (size_t)l->cols * sizeof *size);
    int32_t elems = weft_dtype_block_elems(l->format), bytes = weft_dtype_block_bytes(l->format);
    const unsigned char *from = l->weights[p] + row * weft_dtype_row_bytes(l->format, l->cols);
    double alpha = l->args.alpha != 0 ? (double)l->args.alpha : 1;
    weft_dequantize_row(l->format, from, l->cols, w);
    for (int64_t k = 0; k < l->cols; k += elems)
        weft__linear_magnitudes(l->format, from + k / elems * bytes, size + k);
    const bool excepted = weft__linear_excepted(l->wide, size, l->cols);
    for (int32_t m = 0; m < l->batch; m++) {
        double sum = 0, sizes = 0, slack = 0, x = 0;
        for (int64_t i = 0; i < l->cols; i++) {
            sum += (double)w[i] * l->read[m * l->cols + i];
            sizes += (double)size[i] * fabs(l->read[m * l->cols + i]);
            slack += fabs((double)w[i]) * l->slack[m * l->cols + i];
            x += fabs(l->read[m * l->cols + i]);
        }
        if (l->wide > 0)
            slack += l->wide * sizes + weft__linear_wide_x(c->kernel) * x;
        double bias = l->args.parts[p].bias ? l->args.parts[p].bias[row] : 0;
        want[m] = excepted ? (double)NAN : alpha * sum + bias;
        bound[m] = fabs(alpha) * (slack + 0x1p-23 * (fmax(8, sqrt((double)l->cols)) + 8) * sizes) +
                   0x1p-22 * (fabs(bias) + fabs(want[m])) + 1e-30;
    }
}

// Results of part p (of a gate) before they are stored.
static void results(struct check_case *c, struct layer *l, int32_t p)
{
    double second[MOST_BATCH], second_bound[MOST_BATCH], first[MOST_BATCH], bound[MOST_BATCH];
    for (int32_t m = 0; m < l->batch; m++) {
        second[m] = 1;
        second_bound[m] = 0;
    }
    for (int64_t row = 0; row < l->rows[p]; row++) {
        product(c, l, p, row, first, bound);
        if (l->desc.gate && l->parts > 1)
            product(c, l, 1, row, second, second_bound);
        for (int32_t m = 0; m < l->batch; m++) {
            if (l->desc.gate) {
                double f = gate_of(l->desc.gate, first[m]);
                // f is small beside its terms where it tends to 0
                double off = 1.2 * bound[m] + 0x1p-20 * (fabs(f) + fmin(1, fabs(first[m])));
                bound[m] = off * (fabs(second[m]) + second_bound[m]) + fabs(f) * second_bound[m];
                first[m] = f * second[m];
            }
            double residual = l->residual ? l->residual[m * l->rows[p] + row] : 0;
            l->want[m][row] = first[m] + residual;
            l->bound[m][row] = bound[m] + 0x1p-22 * (fabs(residual) + fabs(first[m]));
        }
    }
}

static void check_results(struct check_case *c, const struct layer *l, int32_t p)
{
    weft_dtype dtype = l->desc.y_dtype ? l->desc.y_dtype : WEFT_F32;
    for (int32_t m = 0; m < l->batch; m++)
        for (int64_t row = 0; row < l->rows[p] && !c->failed; row++) {
            double want = l->want[m][row], bound = l->bound[m][row];
            if (!isfinite(want) || fabs(want) > (dtype == WEFT_F16 ? 60000 : 1e37))
                continue;
            if (dtype != WEFT_F32)
                bound += fabs(want) * (dtype == WEFT_F16 ? 0x1p-10 : 0x1p-7) + 0x1p-24;
            check_close(c, weft__element_load(l->y[p], dtype, m * l->rows[p] + row), want, bound,
                        "y", m * l->rows[p] + row);
        }
}

// What a rounded buffer holds, read by a layer with the identity for weights, with or without a norm. On a GPU it
// must not multiply 16-bit numbers, as it might for so many rows: that adds an eighth of what rounding to 8 bits may
// be off, which is none of the layer's.
static const float *decode(struct check_case *c, const struct layer *l, const void *rounded,
                           weft_linear_norm norm)
{
    const int64_t n = l->rows[0], row_bytes = n / 32 * 34;
    const uint32_t exact = c->kernel->level >= WEFT__CUDA_sm80 ? WEFT_LINEAR_BATCH_INVARIANT : 0;
    weft_plan *plan = NULL;
    const weft_linear_desc desc = {.size = sizeof desc,
                                   .flags = WEFT_LINEAR_X_ROUNDED | exact,
                                   .max_batch = l->batch,
                                   .cols = n,
                                   .norm = norm,
                                   .norm_eps = l->desc.norm_eps,
                                   .num_parts = 1,
                                   .parts = {{.weight_dtype = WEFT_Q8_0, .rows = n}}};
    unsigned char *weight = check_buffer(c, (size_t)(n * row_bytes), 4);
    float *y = check_buffer(c, (size_t)(l->batch * n) * sizeof *y, sizeof *y);
    weft_linear_args args = {.size = sizeof args, .batch = l->batch, .x = rounded};
    memset(weight, 0, (size_t)(n * row_bytes));
    for (int64_t i = 0; i < n; i++) {
        unsigned char *block = weight + i * row_bytes + i / 32 * 34;
        const uint16_t d = 0x2000; // 2^-7
        memcpy(block, &d, sizeof d);
        block[2 + i % 32] = 64; // one half
    }
    args.parts[0] = (weft_linear_part_args){.weight = weight, .y = y};
    args.alpha = 2;
    if (check_ok(c, weft_linear_plan(c->context, &desc, &plan), "plan of the identity")) {
        args.workspace_bytes = weft_plan_workspace_bytes(plan);
        args.workspace = check_buffer(c, args.workspace_bytes, 64);
        pack(c, plan, &args.parts[0], 0);
        check_ok(c, weft_linear_run(plan, &args), "run of the identity");
    }
    weft_plan_destroy(plan);
    return y;
}

static void check_rounded(struct check_case *c, const struct layer *l, const void *rounded)
{
    const bool next = l->desc.flags & WEFT_LINEAR_NEXT;
    const double plus = l->desc.flags & WEFT_LINEAR_NORM_PLUS_ONE ? 1 : 0;
    const float *got = decode(c, l, rounded, WEFT_LINEAR_NORM_NONE);
    const float *normed = next ? decode(c, l, rounded, WEFT_LINEAR_NORM_RMS) : got;
    for (int32_t m = 0; m < l->batch; m++) {
        double square = 0, off_square = 0;
        for (int64_t row = 0; row < l->rows[0]; row++) {
            square += l->desc.y_dtype == WEFT_F16 && fabs(l->want[m][row]) > 60000
                          ? INFINITY
                          : l->want[m][row] * l->want[m][row];
            off_square += l->bound[m][row] * l->bound[m][row];
        }
        double mean = square / (double)l->rows[0] + (double)l->desc.norm_eps, rms = 1 / sqrt(mean);
        // The norm is that of what the kernel made, which may be off by the bounds of the whole row.
        double rms_off = sqrt(off_square / (double)l->rows[0] / mean);
        if (!(square < 1e30))
            continue;
        for (int64_t row = 0; row < l->rows[0] && !c->failed; row++) {
            double largest = 0, off = 0, at = (double)got[m * l->rows[0] + row];
            double weight = l->args.next_weight ? l->args.next_weight[row] + plus : 1;
            for (int64_t i = row / 32 * 32; i < row / 32 * 32 + 32; i++) {
                double factor = l->args.next_weight ? l->args.next_weight[i] + plus : 1;
                largest = fmax(largest, fabs(l->want[m][i] * factor));
                off = fmax(off, l->bound[m][i] * fabs(factor));
            }
            if (l->desc.y_dtype)
                off += largest * 0x1p-7;
            check_close(c, at, l->want[m][row] * weight, largest / 254 * 1.001 + 2 * off + 1e-30,
                        "rounded y", m * l->rows[0] + row);
            if (next && rms_off < 0.1)
                check_close(c, normed[m * l->rows[0] + row], at * rms,
                            ((l->desc.y_dtype ? 0.02 : 1e-3) + 1.2 * rms_off) * fabs(at * rms) +
                                1e-30,
                            "normed y", m * l->rows[0] + row);
        }
    }
}

static void check_layer(struct check_case *c, struct layer *l)
{
    const struct weft__linear_kernel *kernel = (const void *)c->kernel;
    draw_buffers(c, l);
    bool packs = check_range(c, 0, 3) != 0 || weft__linear_reads_packed(kernel);
    check_note(c,
               "layer of %d parts, %s, rows %lld cols %lld batch %d flags 0x%x norm %d gate %d "
               "x_gate %d y %s "
               "packed %d residual %d",
               l->parts, weft_dtype_name(l->format), (long long)l->rows[0], (long long)l->cols,
               l->batch, l->desc.flags, (int)l->desc.norm, (int)l->desc.gate, (int)l->desc.x_gate,
               weft_dtype_name(l->desc.y_dtype ? l->desc.y_dtype : WEFT_F32), packs,
               l->residual != NULL);
    l->wide = weft__linear_wide_error(c->kernel, l->batch, l->desc.flags, packs);
    if (kernel->lay && l->wide > 0)
        l->rounds_x = false;
    if (kernel->acts == WEFT__ACTS_bf16)
        l->wide = 0x1.02p-7; // x and w, each rounded to 8 bits
    run(c, l, c->kernel->name, packs);
    read_x(c, l);
    for (int32_t p = 0; p < (l->desc.gate ? 1 : l->parts) && !c->failed; p++) {
        results(c, l, p);
        if (!(l->desc.flags & WEFT_LINEAR_Y_ROUNDED))
            check_results(c, l, p);
    }
    if (rounds_y(l) && !c->failed)
        check_rounded(c, l, l->desc.flags & WEFT_LINEAR_NEXT ? l->args.next : l->y[0]);
}

void weft__linear_layer_check(struct check_case *c)
{
    static struct layer l, shape;
    shape = (struct layer){0};
    draw_desc(c, &shape);
    for (int32_t i = 0; i < (c->lengths ? c->lengths : 1) && !c->failed; i++) {
        l = shape;
        if (i > 0)
            l.batch = (int32_t)check_range(c, 1, l.desc.max_batch);
        check_layer(c, &l);
        check_problem_done(c);
    }
}
