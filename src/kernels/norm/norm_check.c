// SPDX-License-Identifier: MIT
// Holds normalisation against the reference.
//
// Bound: the sums are f64 in every kernel, so that what is left are the roundings of the result's own
// arithmetic in f32: the scale, the weight's offset, two products, the bias. Each costs at most half
// an ulp of what it rounds; a result near the subnormals can lose half of 2^-149 times the weight.
// LayerNorm adds the f64 error of the mean, 2^-53 per element, which a tiny variance can magnify.
#include <float.h>
#include <math.h>

#include "src/kernels/check.h"
#include "src/kernels/norm/norm_kernel.h"

struct problem {
    weft_norm_desc desc;
    weft_norm_args args;
    bool in_place;
    weft_dtype x_dtype, y_dtype, weight_dtype; // of the kernel under test
};

// Rows of other formats are the reference's.
static void draw_formats(struct check_case *c, struct problem *p)
{
    p->x_dtype = p->y_dtype = p->weight_dtype = WEFT_F32;
    if (c->kernel->level != WEFT__ISA_ref)
        return;
    p->x_dtype = check_dtype(c);
    p->y_dtype = p->in_place ? p->x_dtype : check_dtype(c);
    p->weight_dtype = check_dtype(c);
}

static struct problem draw(struct check_case *c)
{
    struct problem p = {.desc = {.size = sizeof p.desc}, .args = {.size = sizeof p.args}};
    p.desc.kind = ((const struct weft__norm_kernel *)c->kernel)->kind;
    p.desc.eps = check_range(c, 0, 1) ? 1e-5f : 1e-12f;
    // Without eps a row of LayerNorm may have no variance, and then no result.
    if (p.desc.kind == WEFT_NORM_RMS && check_range(c, 0, 2) == 0)
        p.desc.eps = 0;
    p.desc.dim = check_length(c, 3000, 64);
    p.desc.max_rows = p.args.rows = (int32_t)check_range(c, 1, p.desc.dim > 500 ? 7 : 70);
    p.desc.flags = check_range(c, 0, 3) == 0 ? WEFT_NORM_WEIGHT_PLUS_ONE : 0;
    p.in_place = check_range(c, 0, 1);
    p.args.x_stride = p.desc.dim + check_range(c, 0, 1) * check_range(c, 1, 9);
    p.args.y_stride = p.in_place ? p.args.x_stride : p.desc.dim + check_range(c, 0, 5);
    int64_t elems = (p.args.rows - 1) * p.args.x_stride + p.desc.dim;
    float *x = check_buffer(c, (size_t)elems * sizeof *x, sizeof *x);
    draw_formats(c, &p);
    check_fill(c, x, elems);
    // Squares of f32 numbers need not be numbers of f32.
    int power = p.x_dtype == WEFT_F32 ? (int)check_pick(c, 6, 0, 0, 0, -127, -60, 120) : 0;
    for (int64_t i = 0; i < elems; i++)
        x[i] = ldexpf(x[i], power);
    check_round(p.x_dtype, x, elems);
    p.args.x = x;
    float *parameters[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++)
        if (check_range(c, 0, 3)) {
            parameters[i] = check_buffer(c, (size_t)p.desc.dim * sizeof(float), sizeof(float));
            for (int64_t j = 0; j < p.desc.dim; j++)
                parameters[i][j] = check_normal(c);
            check_round(p.weight_dtype, parameters[i], p.desc.dim);
        }
    p.args.weight = parameters[0];
    p.args.bias = p.desc.kind == WEFT_NORM_LAYER ? parameters[1] : NULL;
    if (p.y_dtype == WEFT_F32 && check_range(c, 0, 2) == 0) {
        p.args.residual_stride = p.desc.dim + check_range(c, 0, 5);
        int64_t room = (p.args.rows - 1) * p.args.residual_stride + p.desc.dim;
        float *residual = check_buffer(c, (size_t)room * sizeof *residual, sizeof *residual);
        check_fill(c, residual, room);
        p.args.residual = residual;
    }
    check_note(c,
               "dim %lld rows %d strides %lld %lld eps %g flags %u weight %d bias %d in place %d "
               "residual %d, "
               "%s to %s by %s",
               (long long)p.desc.dim, p.args.rows, (long long)p.args.x_stride,
               (long long)p.args.y_stride, p.desc.eps, p.desc.flags, p.args.weight != NULL,
               p.args.bias != NULL, p.in_place, p.args.residual != NULL, weft_dtype_name(p.x_dtype),
               weft_dtype_name(p.y_dtype), weft_dtype_name(p.weight_dtype));
    return p;
}

// Runs the problem on a copy of x, as in-place runs change it.
static const float *run(struct check_case *c, struct problem p, const char *variant)
{
    weft_plan *plan = NULL;
    p.args.y = check_output(c, (p.args.rows - 1) * p.args.y_stride + p.desc.dim);
    if (p.in_place) {
        for (int64_t row = 0; row < p.args.rows; row++)
            memcpy((float *)p.args.y + row * p.args.y_stride,
                   (const float *)p.args.x + row * p.args.x_stride,
                   (size_t)p.desc.dim * sizeof(float));
        p.args.x = p.args.y;
    }
    p.desc.variant = variant;
    if (check_ok(c, weft_norm_plan(check_context(c, p.desc.variant), &p.desc, &plan), "plan"))
        check_ok(c, weft_norm_run(plan, &p.args), "run");
    weft_plan_destroy(plan);
    check_written_rows(c, p.args.y, p.args.rows, p.desc.dim, p.args.y_stride, "y");
    return p.args.y;
}

static double bound(const struct problem *p, const float *x, double want, int64_t row, int64_t i,
                    double scale)
{
    const float *weights = p->args.weight, *biases = p->args.bias;
    double weight = fabs(weights ? weights[i] : 1) + 1;
    const float *residuals = p->args.residual;
    double residual = residuals ? residuals[row * p->args.residual_stride + i] : 0;
    double bias = biases ? fabs(biases[i]) : 0, sum = 0;
    bias += fabs(residual);
    want -= residual;
    for (int64_t j = 0; p->desc.kind == WEFT_NORM_LAYER && j < p->desc.dim; j += 1)
        sum += fabs(x[j]);
    return 5 * 0x1p-24 * (fabs(want) + bias) + 0x1p-149 * weight + 0x1p-52 * sum * scale * weight;
}

// Largest factor that a difference can be multiplied with.
static double scale_of(const struct problem *p, const float *x)
{
    double mean = 0, square = 0, dim = (double)p->desc.dim;
    for (int64_t i = 0; p->desc.kind == WEFT_NORM_LAYER && i < p->desc.dim; i++)
        mean += x[i] / dim;
    for (int64_t i = 0; i < p->desc.dim; i++)
        square += (x[i] - mean) * (x[i] - mean) / dim;
    return 1 / sqrt(square + p->desc.eps);
}

// The same in the formats of the problem.
static const float *run_formats(struct check_case *c, struct problem p)
{
    weft_plan *plan = NULL;
    int64_t elems = (p.args.rows - 1) * p.args.y_stride + p.desc.dim;
    int64_t read = (p.args.rows - 1) * p.args.x_stride + p.desc.dim;
    p.args.x = check_narrow(c, p.x_dtype, p.args.x, read);
    p.args.y = p.in_place ? (void *)(uintptr_t)p.args.x
                          : check_buffer(c, (size_t)elems * (p.y_dtype == WEFT_F32 ? 4 : 2), 4);
    if (p.args.weight)
        p.args.weight = check_narrow(c, p.weight_dtype, p.args.weight, p.desc.dim);
    if (p.args.bias)
        p.args.bias = check_narrow(c, p.weight_dtype, p.args.bias, p.desc.dim);
    p.desc.x_dtype = p.x_dtype;
    p.desc.y_dtype = p.y_dtype;
    p.desc.weight_dtype = p.weight_dtype;
    p.desc.variant = c->kernel->name;
    if (check_ok(c, weft_norm_plan(check_context(c, p.desc.variant), &p.desc, &plan), "plan"))
        check_ok(c, weft_norm_run(plan, &p.args), "run");
    weft_plan_destroy(plan);
    return check_widen(c, p.y_dtype, p.args.y, elems);
}

check_fn weft__norm_check;
void weft__norm_check(struct check_case *c)
{
    char reference[64];
    if (c->format) {
        check_skip(c);
        return;
    }
    struct problem p = draw(c);
    bool f32 = p.x_dtype == WEFT_F32 && p.y_dtype == WEFT_F32 && p.weight_dtype == WEFT_F32;
    const float *got = f32 ? run(c, p, c->kernel->name) : run_formats(c, p);
    const float *want = run(c, p, check_reference(c, reference));
    for (int64_t row = 0; row < p.args.rows && !c->failed; row++) {
        const float *x = (const float *)p.args.x + row * p.args.x_stride;
        double scale = scale_of(&p, x);
        for (int64_t i = 0; i < p.desc.dim; i++) {
            int64_t at = row * p.args.y_stride + i;
            check_close_as(c, p.y_dtype, got[at], want[at], bound(&p, x, want[at], row, i, scale),
                           "y", at);
        }
    }
}
