// SPDX-License-Identifier: MIT
// Holds the merge of attention states against the reference, which has nothing in common with it but the
// formula: states without weight, equal ones, ones far apart, in place.
//
// Bound: the weight of a state is off by what its difference to the largest was rounded by and a few ulp of
// the exponential; sums of n states cost n ulp of what is summed.
#include <math.h>

#include "src/kernels/check.h"
#include "src/kernels/element.h"
#include "src/kernels/merge/merge_kernel.h"

struct problem {
    weft_merge_desc desc;
    weft_merge_args args;
    int64_t x_elems, out_elems;
    int32_t in_place; // the state that out is, or -1
};

static int64_t draw_strides(struct check_case *c, const struct problem *p, int64_t *token_stride,
                            int64_t *head_stride)
{
    int64_t dim = p->desc.dim, heads = p->desc.num_heads, tokens = p->args.tokens;
    int64_t gap = check_range(c, 0, 2) ? 0 : check_range(c, 1, 9);
    bool heads_first = check_range(c, 0, 3) == 0;
    *head_stride = heads_first ? (dim + gap) * tokens : dim + gap;
    *token_stride = heads_first ? dim + gap : (dim + gap) * heads;
    return (dim + gap) * heads * tokens - gap;
}

static void fill(struct check_case *c, struct problem *p)
{
    int64_t rows = (int64_t)p->args.tokens * p->desc.num_heads;
    int64_t style = check_range(c, 0, 2), elems = p->args.num_states * p->x_elems;
    size_t elem = p->desc.dtype == WEFT_F32 ? 4 : 2;
    float *x = check_buffer(c, (size_t)elems * sizeof *x, sizeof *x);
    void *states = check_buffer(c, (size_t)elems * elem, elem);
    float *lse = check_buffer(c, (size_t)(p->args.num_states * rows) * sizeof *lse, sizeof *lse);
    check_fill(c, x, elems);
    for (int64_t i = 0; i < elems; i++)
        weft__element_store(states, p->desc.dtype, i, fminf(fmaxf(x[i], -30000), 30000));
    for (int64_t i = 0; i < p->args.num_states * rows; i++)
        lse[i] = style == 0   ? check_normal(c)
                 : style == 1 ? check_uniform(c, -90, 90)
                              : (float)check_range(c, -1, 1);
    for (int32_t s = 0; s < p->args.num_states; s++) // without weight, whatever they hold
        for (int64_t r = 0; r < rows; r++)
            if (check_range(c, 0, 4) == 0) {
                int64_t at = s * p->x_elems + r / p->desc.num_heads * p->args.x_token_stride +
                             r % p->desc.num_heads * p->args.x_head_stride;
                lse[s * rows + r] = -INFINITY;
                weft__element_store(states, p->desc.dtype, at, NAN);
            }
    p->args.x = states;
    p->args.lse = lse;
}

static struct problem draw(struct check_case *c)
{
    const weft_dtype dtypes[] = {WEFT_F32, WEFT_F32, WEFT_F16, WEFT_BF16};
    struct problem p = {.desc = {.size = sizeof p.desc}, .args = {.size = sizeof p.args}};
    p.desc.dim = (int32_t)check_length(c, 300, 16);
    p.desc.num_heads = (int32_t)check_range(c, 1, 9);
    p.desc.dtype = dtypes[check_range(c, 0, 3)];
    p.desc.out_dtype = dtypes[check_range(c, 0, 3)];
    p.args.tokens = (int32_t)check_range(c, 1, 7);
    p.args.num_states = (int32_t)check_length(c, 40, 8) - 1;
    p.desc.max_tokens = p.args.tokens + (int32_t)check_range(c, 0, 2);
    p.desc.max_states = p.args.num_states + (int32_t)check_range(c, 0, 2);
    p.x_elems = draw_strides(c, &p, &p.args.x_token_stride, &p.args.x_head_stride);
    p.args.x_state_stride = p.x_elems;
    p.args.lse_state_stride = (int64_t)p.args.tokens * p.desc.num_heads;
    p.in_place = -1;
    if (p.args.num_states > 0 && p.desc.dtype == p.desc.out_dtype && check_range(c, 0, 3) == 0)
        p.in_place = (int32_t)check_range(c, 0, p.args.num_states - 1);
    p.out_elems = draw_strides(c, &p, &p.args.out_token_stride, &p.args.out_head_stride);
    fill(c, &p);
    check_note(c, "%s to %s, %d states of %d heads x %d, %d tokens, in place %d",
               weft_dtype_name(p.desc.dtype), weft_dtype_name(p.desc.out_dtype), p.args.num_states,
               p.desc.num_heads, p.desc.dim, p.args.tokens, p.in_place);
    return p;
}

// The results as numbers, [row][dim], and behind them the logarithms.
static const float *run(struct check_case *c, struct problem p, const char *variant, bool in_place)
{
    weft_plan *plan = NULL;
    int64_t rows = (int64_t)p.args.tokens * p.desc.num_heads, dim = p.desc.dim;
    size_t elem = p.desc.out_dtype == WEFT_F32 ? 4 : 2;
    float *y = check_buffer(c, (size_t)(rows * (dim + 1)) * sizeof *y, sizeof *y);
    p.args.out = check_buffer(c, (size_t)p.out_elems * elem, elem);
    p.args.out_lse = check_output(c, rows);
    if (in_place) {
        size_t bytes = (size_t)(p.args.num_states * p.x_elems) * elem;
        p.args.x = memcpy(check_buffer(c, bytes, elem), p.args.x, bytes);
        p.args.out = (char *)(uintptr_t)p.args.x + (size_t)(p.in_place * p.x_elems) * elem;
        p.args.out_token_stride = p.args.x_token_stride;
        p.args.out_head_stride = p.args.x_head_stride;
    }
    p.desc.variant = variant;
    if (check_ok(c, weft_merge_plan(check_context(c, variant), &p.desc, &plan), "plan") &&
        check_ok(c, weft_merge_run(plan, &p.args), "run"))
        for (int64_t r = 0; r < rows; r++) {
            int64_t at = r / p.desc.num_heads * p.args.out_token_stride +
                         r % p.desc.num_heads * p.args.out_head_stride;
            weft__elements_widen(weft__element_at(p.args.out, p.desc.out_dtype, at),
                                 p.desc.out_dtype, dim, y + r * dim);
        }
    weft_plan_destroy(plan);
    memcpy(y + rows * dim, p.args.out_lse, (size_t)rows * sizeof *y);
    return y;
}

static void compare(struct check_case *c, const struct problem *p, const float *got,
                    const float *want)
{
    const double ulp = 0x1p-24;
    int64_t rows = (int64_t)p->args.tokens * p->desc.num_heads, dim = p->desc.dim;
    int32_t n = p->args.num_states;
    double unit = p->desc.out_dtype == WEFT_F16    ? 0x1p-11
                  : p->desc.out_dtype == WEFT_BF16 ? 0x1p-8
                                                   : ulp;
    for (int64_t r = 0; r < rows && !c->failed; r++) {
        double lse = want[rows * dim + r], size[WEFT__MERGE_MAX_DIM] = {0};
        for (int32_t s = 0; s < n; s++) {
            double own = p->args.lse[s * p->args.lse_state_stride + r];
            int64_t at = s * p->x_elems + r / p->desc.num_heads * p->args.x_token_stride +
                         r % p->desc.num_heads * p->args.x_head_stride;
            for (int64_t i = 0; i < dim && own > -INFINITY; i++)
                size[i] += exp(own - lse) * (fabs(own - lse) + n + 8) *
                           fabs((double)weft__element_load(p->args.x, p->desc.dtype, at + i));
        }
        for (int64_t i = 0; i < dim; i++)
            check_close(c, got[r * dim + i], want[r * dim + i],
                        2 * ulp * size[i] + 2 * unit * fabs(want[r * dim + i]) +
                            (p->desc.out_dtype == WEFT_F16 ? 0x1p-24 : 0x1p-126),
                        "out", r * dim + i);
        check_close(c, got[rows * dim + r], lse, (fabs(lse) + n + 8) * ulp * 2, "lse", r);
    }
}

check_fn weft__merge_check;
void weft__merge_check(struct check_case *c)
{
    char reference[64];
    if (c->format) {
        check_skip(c);
        return;
    }
    struct problem p = draw(c);
    const float *want = run(c, p, check_reference(c, reference), false);
    const float *got = run(c, p, c->kernel->name, p.in_place >= 0);
    if (!c->failed)
        compare(c, &p, got, want);
}
