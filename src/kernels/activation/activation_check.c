// SPDX-License-Identifier: MIT
// Holds activation functions against the reference, over the whole range of f32.
//
// Bound: what the header promises for f(x), 4 ulp (soft-caps 6) or 2^-24 |x| where f vanishes, times |up|,
// and one rounding of the product. NaN stays NaN; the infinities have their limits.
#include <float.h>
#include <math.h>

#include "src/base/half.h"
#include "src/kernels/activation/activation_kernel.h"
#include "src/kernels/check.h"

enum alias { APART, ON_X, ON_UP };

struct problem {
    weft_activation_desc desc;
    weft_activation_args args;
    enum alias alias;
    weft_dtype x_dtype, y_dtype; // of the kernel under test
};

// Mostly where the functions bend, also any bit pattern and the edges of the exponential's range.
static float any_number(struct check_case *c)
{
    static const float edges[] = {INFINITY,   -INFINITY, NAN,     0.0f,     -0.0f,
                                  FLT_MAX,    -FLT_MAX,  FLT_MIN, -FLT_MIN, 0x1p-149f,
                                  -0x1p-149f, 88.7f,     -88.7f,  -87.3f,   -103.9f,
                                  -104.1f,    128.0f,    -128.0f, 1e20f,    -1e20f};
    switch (check_range(c, 0, 7)) {
    case 0: return weft__f32_from_bits((uint32_t)check_bits(c));
    case 1: return edges[check_range(c, 0, sizeof edges / sizeof *edges - 1)];
    case 2: return check_uniform(c, -110, 110);
    case 3: return check_uniform(c, -0x1p-10f, 0x1p-10f);
    default: return check_uniform(c, -14, 14);
    }
}

static struct problem draw(struct check_case *c)
{
    struct problem p = {.desc = {.size = sizeof p.desc}, .args = {.size = sizeof p.args}};
    p.desc.kind = ((const struct weft__activation_kernel *)c->kernel)->kind;
    if (p.desc.kind == WEFT_ACTIVATION_SOFTCAP)
        p.desc.cap = (float)check_pick(c, 4, 30, 50, 1, 5) * check_uniform(c, 0.5f, 2);
    p.desc.dim = check_length(c, check_range(c, 0, 9) ? 3000 : 40000, 64);
    p.desc.max_rows = p.args.rows = (int32_t)check_range(c, 1,
                                                         p.desc.dim > 3000  ? 2
                                                         : p.desc.dim > 500 ? 7
                                                                            : 70);
    int64_t stride = p.desc.dim + check_range(c, 0, 1) * check_range(c, 1, 9);
    p.args.x_stride = p.args.up_stride = p.args.y_stride = stride;
    bool gated = check_range(c, 0, 1);
    p.alias = (enum alias)check_range(c, APART, gated ? ON_UP : ON_X);
    if (p.alias == APART)
        p.args.y_stride = p.desc.dim + check_range(c, 0, 5);
    int64_t elems = (p.args.rows - 1) * stride + p.desc.dim;
    float *x = check_buffer(c, (size_t)elems * sizeof *x, sizeof *x);
    float *up = check_buffer(c, (size_t)elems * sizeof *x, sizeof *x);
    for (int64_t i = 0; i < elems; i++) {
        x[i] = any_number(c);
        up[i] = check_normal(c);
    }
    p.x_dtype = c->kernel->level < WEFT__ISA_COUNT ? check_dtype(c) : WEFT_F32;
    p.y_dtype = p.alias == APART && c->kernel->level < WEFT__ISA_COUNT ? check_dtype(c) : p.x_dtype;
    check_round(p.x_dtype, x, elems);
    check_round(p.x_dtype, up, elems);
    p.args.x = x;
    p.args.up = gated ? up : NULL;
    check_note(c, "dim %lld rows %d stride %lld gated %d alias %d, %s to %s", (long long)p.desc.dim,
               p.args.rows, (long long)stride, gated, (int)p.alias, weft_dtype_name(p.x_dtype),
               weft_dtype_name(p.y_dtype));
    return p;
}

static const float *run(struct check_case *c, struct problem p, const char *variant)
{
    weft_plan *plan = NULL;
    p.args.y = check_output(c, (p.args.rows - 1) * p.args.y_stride + p.desc.dim);
    const void **alias = p.alias == ON_UP ? &p.args.up : &p.args.x;
    if (p.alias != APART) {
        for (int64_t row = 0; row < p.args.rows; row++)
            memcpy((float *)p.args.y + row * p.args.y_stride,
                   (const float *)*alias + row * p.args.y_stride,
                   (size_t)p.desc.dim * sizeof(float));
        *alias = p.args.y;
    }
    p.desc.variant = variant;
    if (check_ok(c, weft_activation_plan(check_context(c, p.desc.variant), &p.desc, &plan), "plan"))
        check_ok(c, weft_activation_run(plan, &p.args), "run");
    weft_plan_destroy(plan);
    check_written_rows(c, p.args.y, p.args.rows, p.desc.dim, p.args.y_stride, "y");
    return p.args.y;
}

// The same in the formats of the problem.
static const float *run_formats(struct check_case *c, struct problem p)
{
    weft_plan *plan = NULL;
    int64_t elems = (p.args.rows - 1) * p.args.y_stride + p.desc.dim;
    int64_t read = (p.args.rows - 1) * p.args.x_stride + p.desc.dim;
    p.args.x = check_narrow(c, p.x_dtype, p.args.x, read);
    if (p.args.up)
        p.args.up = check_narrow(c, p.x_dtype, p.args.up, read);
    const void *alias = p.alias == ON_UP ? p.args.up : p.args.x;
    p.args.y = p.alias == APART
                   ? check_buffer(c, (size_t)elems * (p.y_dtype == WEFT_F32 ? 4 : 2), 4)
                   : (void *)(uintptr_t)alias;
    p.desc.x_dtype = p.x_dtype;
    p.desc.y_dtype = p.y_dtype;
    p.desc.variant = c->kernel->name;
    if (check_ok(c, weft_activation_plan(check_context(c, p.desc.variant), &p.desc, &plan), "plan"))
        check_ok(c, weft_activation_run(plan, &p.args), "run");
    weft_plan_destroy(plan);
    return check_widen(c, p.y_dtype, p.args.y, elems);
}

static double promise(const weft_activation_desc *desc, double x, double up, double want)
{
    if (desc->kind == WEFT_ACTIVATION_NONE)
        return 0;
    if (desc->kind == WEFT_ACTIVATION_SOFTCAP)
        return fmax(6 * 0x1p-23 * fabs(want), 0x1p-148 * desc->cap * fabs(up));
    return isinf(x) ? 0 : fmax(4 * 0x1p-23 * fabs(want), 0x1p-24 * fabs(x * up));
}

check_fn weft__activation_check;
void weft__activation_check(struct check_case *c)
{
    char reference[64];
    if (c->format) {
        check_skip(c);
        return;
    }
    struct problem p = draw(c);
    bool f32 = p.x_dtype == WEFT_F32 && p.y_dtype == WEFT_F32;
    const float *got = f32 ? run(c, p, c->kernel->name) : run_formats(c, p);
    const float *want = run(c, p, check_reference(c, reference));
    for (int64_t row = 0; row < p.args.rows && !c->failed; row++)
        for (int64_t i = 0; i < p.desc.dim; i++) {
            int64_t at = row * p.args.y_stride + i;
            double x = ((const float *)p.args.x)[row * p.args.x_stride + i];
            const float *ups = p.args.up;
            double up = ups ? ups[row * p.args.up_stride + i] : 1;
            double promised = promise(&p.desc, x, up, want[at]);
            check_close_as(c, p.y_dtype, got[at], want[at],
                           promised + 0x1p-24 * fabs(want[at]) + 0x1p-148 * fmax(1, fabs(up)), "y",
                           at);
        }
}
