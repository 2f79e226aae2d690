// SPDX-License-Identifier: MIT
// Holds the rotation against the C library's sin and cos of weft_rope_frequencies() in f64.
//
// Bound: cos and sin are within 2^-24 and rounded once more by the attention factor; the rotation
// rounds two products and a sum: together below 4 * 2^-24 (|a| + |b|) * factor.
#include <math.h>

#include "src/kernels/rope/rope_kernel.h"
#include "tools/weft-check/check.h"

struct problem {
    weft_rope_desc desc;
    weft_rope_args args;
    double frequencies[WEFT__ROPE_MAX_PAIRS];
    float factor;
};

static weft_rope_params draw_params(struct check_case *c, int32_t head_dim)
{
    weft_rope_params rope = {.base = (float)check_pick(c, 3, 0, 500000, 10),
                             .scaling = (weft_rope_scaling)check_range(c, 0, 3),
                             .style = ((const struct weft__rope_kernel *)c->kernel)->style,
                             .original_context = (int32_t)check_pick(c, 2, 4096, 8192),
                             .factor = (float)check_pick(c, 3, 0, 4, 32)};
    rope.rotary_dim = check_range(c, 0, 1) ? 0 : (int32_t)check_range(c, 1, head_dim / 2) * 2;
    if (check_range(c, 0, 3) == 0)
        rope.attention_factor = check_uniform(c, 0.5f, 2);
    int32_t pairs = (rope.rotary_dim ? rope.rotary_dim : head_dim) / 2;
    if (check_range(c, 0, 2) == 0) {
        float *factors = check_buffer(c, (size_t)pairs * sizeof *factors, sizeof *factors);
        for (int32_t i = 0; i < pairs; i++)
            factors[i] = check_uniform(c, 1, 32);
        rope.freq_factors = factors;
    }
    return rope;
}

static void draw(struct check_case *c, struct problem *p)
{
    int32_t head_dim = (int32_t)check_length(c, 256, 16);
    p->desc = (weft_rope_desc){.size = sizeof p->desc,
                               .head_dim = head_dim + head_dim % 2,
                               .num_heads = (int32_t)check_range(c, 1, 9),
                               .variant = c->kernel->name};
    p->args = (weft_rope_args){.size = sizeof p->args};
    p->desc.rope = draw_params(c, p->desc.head_dim);
    p->desc.max_tokens = p->args.tokens = (int32_t)check_range(c, 1, 40);
    p->args.token_stride = p->desc.num_heads * p->desc.head_dim + check_range(c, 0, 5);
    int32_t *positions = check_buffer(c, (size_t)p->args.tokens * sizeof *positions, 4);
    int64_t most = check_pick(c, 4, 0, 100, 131072, INT32_MAX);
    for (int32_t i = 0; i < p->args.tokens; i++)
        positions[i] = (int32_t)check_range(c, 0, most);
    p->args.positions = positions;
    check_note(c, "tokens %d heads %d of %d, rotary %d scaling %d base %g factor %g",
               p->args.tokens, p->desc.num_heads, p->desc.head_dim, p->desc.rope.rotary_dim,
               (int)p->desc.rope.scaling, p->desc.rope.base, p->desc.rope.factor);
}

// One head: x before, y after.
static void check_head(struct check_case *c, const struct problem *p, const float *x,
                       const float *y, int32_t position)
{
    bool split = p->desc.rope.style == WEFT_ROPE_SPLIT_HALF;
    int32_t dim = p->desc.rope.rotary_dim ? p->desc.rope.rotary_dim : p->desc.head_dim;
    for (int32_t i = 0; i < dim / 2; i++) {
        int32_t ia = split ? i : 2 * i, ib = split ? i + dim / 2 : 2 * i + 1;
        double angle = position * p->frequencies[i], a = x[ia], b = x[ib];
        double cosine = cos(angle) * p->factor, sine = sin(angle) * p->factor;
        // The product position * frequency is itself rounded to 2^-53 of the angle.
        double bound = (fabs(a) + fabs(b)) * p->factor * (4 * 0x1p-24 + angle * 0x1p-51) + 0x1p-148;
        check_close(c, y[ia], a * cosine - b * sine, bound, "x", ia);
        check_close(c, y[ib], a * sine + b * cosine, bound, "x", ib);
    }
    for (int32_t i = dim; i < p->desc.head_dim; i++)
        check_close(c, y[i], x[i], 0, "x beyond rotary_dim", i);
}

check_fn weft__rope_check;
void weft__rope_check(struct check_case *c)
{
    struct problem p;
    weft_plan *plan = NULL;
    if (c->format) {
        check_skip(c);
        return;
    }
    draw(c, &p);
    int64_t stride = p.args.token_stride, token = p.desc.num_heads * p.desc.head_dim;
    int64_t elems = (p.args.tokens - 1) * stride + token;
    float *x = check_buffer(c, (size_t)elems * sizeof *x, sizeof *x);
    float *y = check_output(c, elems);
    p.args.x = y;
    check_fill(c, x, elems);
    for (int32_t i = 0; i < p.args.tokens; i++)
        memcpy(y + i * stride, x + i * stride, (size_t)token * sizeof *x);
    check_ok(c, weft_rope_frequencies(&p.desc.rope, p.desc.head_dim, p.frequencies, &p.factor),
             "frequencies");
    if (check_ok(c, weft_rope_plan(check_context(c, p.desc.variant), &p.desc, &plan), "plan"))
        check_ok(c, weft_rope_run(plan, &p.args), "run");
    weft_plan_destroy(plan);
    check_written_rows(c, y, p.args.tokens, token, stride, "x");
    for (int64_t i = 0; i < (int64_t)p.args.tokens * p.desc.num_heads && !c->failed; i++) {
        int64_t at = i / p.desc.num_heads * stride + i % p.desc.num_heads * p.desc.head_dim;
        check_head(c, &p, x + at, y + at, p.args.positions[i / p.desc.num_heads]);
    }
}
