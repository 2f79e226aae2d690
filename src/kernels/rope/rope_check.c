// SPDX-License-Identifier: MIT
// Holds the rotation against the C library's sin and cos, and the frequencies, which all kernels share,
// against the rules written here once more, in f64.
//
// Bound: cos and sin are within 2^-24 and rounded once more by the attention factor; the rotation
// rounds two products and a sum: together below 4 * 2^-24 (|a| + |b|) * factor.
#include <math.h>

#include "src/kernels/check.h"
#include "src/kernels/rope/rope_kernel.h"

struct problem {
    weft_rope_desc desc;
    weft_rope_args args;
    double frequencies[WEFT__ROPE_MAX_PAIRS];
    float factor;
    weft_dtype dtype;
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
    if (check_range(c, 0, 1)) {
        rope.low_freq_factor = check_uniform(c, 0.5f, 4);
        rope.high_freq_factor = rope.low_freq_factor + check_uniform(c, 0.5f, 8);
        rope.beta_fast = check_uniform(c, 8, 64);
        rope.beta_slow = check_uniform(c, 0.5f, 4);
    }
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
        check_close_as(c, p->dtype, y[ia], a * cosine - b * sine, bound, "x", ia);
        check_close_as(c, p->dtype, y[ib], a * sine + b * cosine, bound, "x", ib);
    }
    for (int32_t i = dim; i < p->desc.head_dim; i++)
        check_close(c, y[i], x[i], 0, "x beyond rotary_dim", i);
}

static double given(float value, double otherwise)
{
    return value != 0 ? (double)value : otherwise;
}

// How far the llama3 rule keeps a wave, by its length: 1 whole, 0 divided by the factor.
static double kept_by_llama3(const weft_rope_params *rope, double wave)
{
    double longest = rope->original_context / given(rope->low_freq_factor, 1);
    double shortest = rope->original_context / given(rope->high_freq_factor, 4);
    if (wave > longest || wave < shortest)
        return wave < shortest;
    return (rope->original_context / wave - rope->original_context / longest) /
           (rope->original_context / shortest - rope->original_context / longest);
}

// The same of YaRN, by the number of the pair: whole up to the pair that turns beta_fast times in the
// original context, divided from the one on that turns beta_slow times.
static double kept_by_yarn(const weft_rope_params *rope, int32_t pair, int32_t dim, double base)
{
    const double two_pi = 2 * acos(-1),
                 turns[2] = {given(rope->beta_fast, 32), given(rope->beta_slow, 1)};
    double border[2];
    for (int i = 0; i < 2; i++)
        border[i] = dim / 2.0 * log(rope->original_context / (turns[i] * two_pi)) / log(base);
    border[0] = fmax(floor(border[0]), 0);
    border[1] = fmin(ceil(border[1]), dim - 1);
    double width = border[1] == border[0] ? 0.001 : border[1] - border[0];
    return 1 - fmin(fmax((pair - border[0]) / width, 0), 1);
}

static void check_frequencies(struct check_case *c, const struct problem *p)
{
    const weft_rope_params *rope = &p->desc.rope;
    int32_t dim = rope->rotary_dim ? rope->rotary_dim : p->desc.head_dim;
    double base = given(rope->base, 10000), factor = given(rope->factor, 1);
    double magnitude =
        rope->scaling == WEFT_ROPE_SCALING_YARN && factor > 1 ? 1 + log(factor) / 10 : 1;
    for (int32_t i = 0; i < dim / 2; i++) {
        double plain = exp(-2.0 * i / dim * log(base)), kept = 1;
        if (rope->scaling == WEFT_ROPE_SCALING_LINEAR)
            kept = 0;
        else if (rope->scaling == WEFT_ROPE_SCALING_LLAMA3)
            kept = kept_by_llama3(rope, 2 * acos(-1) / plain);
        else if (rope->scaling == WEFT_ROPE_SCALING_YARN)
            kept = kept_by_yarn(rope, i, dim, base);
        double wanted = plain * (kept + (1 - kept) / factor);
        if (rope->freq_factors)
            wanted /= rope->freq_factors[i];
        check_close(c, p->frequencies[i], wanted, 0x1p-42 * wanted, "frequencies", i);
    }
    magnitude = given(rope->attention_factor, magnitude);
    check_close(c, p->factor, magnitude, 0x1p-23 * magnitude, "attention_factor", 0);
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
    p.dtype = c->kernel->level < WEFT__ISA_COUNT ? check_dtype(c) : WEFT_F32;
    check_fill(c, x, elems);
    check_round(p.dtype, x, elems);
    for (int32_t i = 0; i < p.args.tokens; i++)
        memcpy(y + i * stride, x + i * stride, (size_t)token * sizeof *x);
    if (p.dtype != WEFT_F32) {
        p.desc.dtype = p.dtype;
        p.args.x = check_narrow(c, p.dtype, x, elems);
    }
    check_ok(c, weft_rope_frequencies(&p.desc.rope, p.desc.head_dim, p.frequencies, &p.factor),
             "frequencies");
    check_frequencies(c, &p);
    if (check_ok(c, weft_rope_plan(check_context(c, p.desc.variant), &p.desc, &plan), "plan"))
        check_ok(c, weft_rope_run(plan, &p.args), "run");
    weft_plan_destroy(plan);
    if (p.dtype != WEFT_F32)
        y = check_widen(c, p.dtype, p.args.x, elems);
    else
        check_written_rows(c, y, p.args.tokens, token, stride, "x");
    for (int64_t i = 0; i < (int64_t)p.args.tokens * p.desc.num_heads && !c->failed; i++) {
        int64_t at = i / p.desc.num_heads * stride + i % p.desc.num_heads * p.desc.head_dim;
        check_head(c, &p, x + at, y + at, p.args.positions[i / p.desc.num_heads]);
    }
}
