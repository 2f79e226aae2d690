// SPDX-License-Identifier: MIT
// Holds softmax against the reference.
//
// Bound: the argument z = scale x - maximum is rounded to 2^-24 |z|, which the exponential turns into a
// relative error of that size; the exponential itself, the inverse of the sum and the product cost a
// few ulp. Sums are f64. Results below the normal range may be flushed to 0.
#include <float.h>
#include <math.h>

#include "src/kernels/check.h"
#include "src/kernels/softmax/softmax_kernel.h"

struct problem {
    weft_softmax_desc desc;
    weft_softmax_args args;
    weft_dtype dtype; // of the kernel under test
};

// Finite rows whose products lie where f32 ends, or far from 0 and close together.
static void fill_large(struct check_case *c, float *x, int64_t count, float scale)
{
    int64_t style = check_range(c, 0, 3);
    float sign = scale < 0 ? -1 : 1, size = ldexpf(1, (int)check_range(c, 20, 127));
    for (int64_t i = 0; i < count; i++)
        switch (style) {
        case 0: x[i] = -sign * FLT_MAX; break; // the usual mask, everywhere
        case 1: x[i] = check_range(c, 0, 3) ? x[i] : -sign * FLT_MAX; break;
        case 2: x[i] = check_range(c, 0, 1) ? sign * size : -sign * size; break;
        default: x[i] = sign * size * (1 - (float)check_range(c, 0, 9) * 0x1p-24f); break;
        }
}

static struct problem draw(struct check_case *c)
{
    struct problem p = {.desc = {.size = sizeof p.desc}, .args = {.size = sizeof p.args}};
    p.desc.dim = check_length(c, check_range(c, 0, 9) ? 3000 : 40000, 64);
    const float scales[] = {0, 1, -3, 20, 0.0883883461f, 0.7f, 1e-30f};
    p.desc.scale = scales[check_range(c, 0, 6)];
    p.desc.max_rows = p.args.rows = (int32_t)check_range(c, 1,
                                                         p.desc.dim > 3000  ? 2
                                                         : p.desc.dim > 500 ? 7
                                                                            : 70);
    p.args.x_stride = p.desc.dim + check_range(c, 0, 1) * check_range(c, 1, 9);
    int64_t elems = (p.args.rows - 1) * p.args.x_stride + p.desc.dim;
    float *x = p.args.x = check_buffer(c, (size_t)elems * sizeof(float), sizeof(float));
    check_fill(c, x, elems);
    if (check_range(c, 0, 3) == 0)
        fill_large(c, x, elems, p.desc.scale);
    p.dtype = check_dtype(c);
    check_round(p.dtype, x, elems);
    // Masked elements, and now and then a row with nothing left.
    int64_t masked = check_range(c, 0, 2) ? 0 : check_range(c, 0, elems);
    for (int64_t i = 0; i < masked; i++)
        x[i] = p.desc.scale < 0 ? INFINITY : -INFINITY;
    check_note(c, "dim %lld rows %d stride %lld scale %g masked %lld %s", (long long)p.desc.dim,
               p.args.rows, (long long)p.args.x_stride, p.desc.scale, (long long)masked,
               weft_dtype_name(p.dtype));
    return p;
}

static const float *run(struct check_case *c, struct problem p, const char *variant)
{
    weft_plan *plan = NULL;
    const float *x = p.args.x;
    p.args.x = check_output(c, (p.args.rows - 1) * p.args.x_stride + p.desc.dim);
    for (int64_t row = 0; row < p.args.rows; row++)
        memcpy((float *)p.args.x + row * p.args.x_stride, x + row * p.args.x_stride,
               (size_t)p.desc.dim * sizeof(float));
    p.desc.variant = variant;
    if (check_ok(c, weft_softmax_plan(check_context(c, p.desc.variant), &p.desc, &plan), "plan"))
        check_ok(c, weft_softmax_run(plan, &p.args), "run");
    weft_plan_destroy(plan);
    check_written_rows(c, p.args.x, p.args.rows, p.desc.dim, p.args.x_stride, "x");
    return p.args.x;
}

// The same in the format of the problem.
static const float *run_format(struct check_case *c, struct problem p)
{
    weft_plan *plan = NULL;
    int64_t elems = (p.args.rows - 1) * p.args.x_stride + p.desc.dim;
    p.args.x = check_narrow(c, p.dtype, p.args.x, elems);
    p.desc.dtype = p.dtype;
    p.desc.variant = c->kernel->name;
    if (check_ok(c, weft_softmax_plan(check_context(c, p.desc.variant), &p.desc, &plan), "plan"))
        check_ok(c, weft_softmax_run(plan, &p.args), "run");
    weft_plan_destroy(plan);
    return check_widen(c, p.dtype, p.args.x, elems);
}

check_fn weft__softmax_check;
void weft__softmax_check(struct check_case *c)
{
    char reference[64];
    if (c->format) {
        check_skip(c);
        return;
    }
    struct problem p = draw(c);
    const float *got = p.dtype == WEFT_F32 ? run(c, p, c->kernel->name) : run_format(c, p);
    const float *want = run(c, p, check_reference(c, reference));
    double scale = p.desc.scale == 0 ? 1 : p.desc.scale;
    for (int64_t row = 0; row < p.args.rows && !c->failed; row++) {
        const float *x = (const float *)p.args.x + row * p.args.x_stride;
        double largest = -INFINITY;
        for (int64_t i = 0; i < p.desc.dim; i++)
            largest = fmax(largest, x[i] * scale);
        for (int64_t i = 0; i < p.desc.dim; i++) {
            int64_t at = row * p.args.x_stride + i;
            double z = want[at] > 0 ? fabs(x[i] * scale - largest) : 0;
            check_close_as(c, p.dtype, got[at], want[at],
                           (2 * z + 8) * 0x1p-24 * want[at] + FLT_MIN, "x", at);
        }
    }
}
