// SPDX-License-Identifier: MIT
// Holds sampling against the reference, and every token against what is worked out here.
//
// Without a draw (temperature 0) the tokens are equal. With one, kernels add probabilities in another
// precision or order, so that a draw which falls onto the border of two tokens, or a top-p sum which
// comes within rounding of p, may end differently. A token that differs from the reference's is right
// if some cut within 2^-18 of the exact one gives it an interval within 2^-18 of the draw.
// Bound of ln p: the argument of the exponential is rounded to f32.
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "src/kernels/check.h"
#include "src/kernels/sample/sample_kernel.h"

static const double slack = 0x1p-18;

struct problem {
    weft_sample_desc desc;
    weft_sample_args args;
};

static void fill_logits(struct check_case *c, float *logits, int64_t count)
{
    int64_t ties = check_range(c, 0, 3), odd = check_range(c, 0, 5);
    check_fill(c, logits, count);
    float spread = (float)check_pick(c, 3, 1, 4, 30);
    for (int64_t i = 0; i < count; i++) {
        logits[i] *= spread;
        if (ties == 0)
            logits[i] = rintf(logits[i]);
        if (odd == 0 && check_range(c, 0, 9) == 0)
            logits[i] = check_range(c, 0, 5) ? (check_range(c, 0, 1) ? -INFINITY : NAN) : INFINITY;
        if (odd == 1)
            logits[i] = i == count / 2 ? 1.0f : -INFINITY;
        if (odd == 2)
            logits[i] = -INFINITY;
    }
}

static void draw_params(struct check_case *c, weft_sample_params *params, int32_t vocab)
{
    static const float temperatures[] = {0, 1, 0.7f, 0.01f, 3, 1e-30f};
    *params = (weft_sample_params){
        .temperature = temperatures[check_range(c, 0, 5)],
        .seed = check_bits(c),
        .step = (uint64_t)check_range(c, 0, 1000),
    };
    if (check_range(c, 0, 1))
        params->top_k = (int32_t)check_pick(c, 4, 1, 2, 40, vocab + 1);
    if (check_range(c, 0, 1))
        params->top_p = check_range(c, 0, 4) ? check_uniform(c, 0, 1) : 1;
    if (check_range(c, 0, 1))
        params->min_p = check_range(c, 0, 4) ? check_uniform(c, 0, 0.3f) : 1;
    if (check_range(c, 0, 2))
        return;
    params->repetition_penalty = check_uniform(c, 0, 2);
    params->frequency_penalty = check_uniform(c, -0.5f, 1);
    params->presence_penalty = check_uniform(c, -0.5f, 1);
    if (check_range(c, 0, 3) == 0) { // where f32 ends
        params->frequency_penalty = (float)check_pick(c, 2, -1, 1) * 1e38f;
        params->presence_penalty = (float)check_pick(c, 3, -1, 0, 1) * 3e38f;
        params->repetition_penalty = (float)check_pick(c, 2, 0, 1) * 1e30f;
    }
    params->history_len = check_range(c, 0, 60);
    int32_t *history = check_buffer(c, (size_t)params->history_len * sizeof *history, 4);
    for (int64_t i = 0; i < params->history_len; i++)
        history[i] = (int32_t)check_range(c, 0, vocab - 1);
    params->history = history;
}

// Half of the tokens are just likely enough for min-p, half just not: a cut that is off by more than
// 2^-8 keeps others, and the draw meets another token.
static void fill_border(struct check_case *c, float *logits, weft_sample_params *params,
                        int32_t vocab)
{
    params->temperature = check_uniform(c, 0.5f, 2);
    params->min_p = check_uniform(c, 0.01f, 0.5f);
    params->top_k = 0;
    params->top_p = 0;
    params->history_len = 0;
    for (int32_t i = 0; i < vocab; i++) {
        double side = check_range(c, 0, 1) ? 1 + 0x1p-8 : 1 - 0x1p-8;
        logits[i] = (float)(params->temperature * log(params->min_p * side));
    }
    logits[check_range(c, 0, vocab - 1)] = 0;
}

static struct problem draw(struct check_case *c)
{
    struct problem p = {.desc = {.size = sizeof p.desc}, .args = {.size = sizeof p.args}};
    p.desc.vocab = (int32_t)check_length(c, check_range(c, 0, 19) ? 3000 : 50000, 64);
    p.desc.max_rows = p.args.rows = (int32_t)check_range(c, 1, 5);
    p.args.logits_stride = p.desc.vocab + check_range(c, 0, 5);
    int64_t elems = (p.args.rows - 1) * p.args.logits_stride + p.desc.vocab;
    float *logits = check_buffer(c, (size_t)elems * sizeof *logits, sizeof *logits);
    weft_sample_params *params = check_buffer(c, (size_t)p.args.rows * sizeof *params, 8);
    for (int32_t row = 0; row < p.args.rows; row++) {
        fill_logits(c, logits + row * p.args.logits_stride, p.desc.vocab);
        draw_params(c, &params[row], p.desc.vocab);
        if (check_range(c, 0, 7) == 0)
            fill_border(c, logits + row * p.args.logits_stride, &params[row], p.desc.vocab);
    }
    p.args.logits = logits;
    p.args.params = params;
    return p;
}

static void run(struct check_case *c, struct problem *p, const char *variant)
{
    weft_plan *plan = NULL;
    p->args.tokens = check_buffer(c, (size_t)p->args.rows * sizeof(int32_t), 4);
    p->args.logprobs = check_output(c, p->args.rows);
    p->desc.variant = variant;
    if (!check_ok(c, weft_sample_plan(check_context(c, p->desc.variant), &p->desc, &plan), "plan"))
        return;
    p->args.workspace_bytes = weft_plan_workspace_bytes(plan);
    p->args.workspace = check_buffer(c, p->args.workspace_bytes, 64);
    check_ok(c, weft_sample_run(plan, &p->args), "run");
    weft_plan_destroy(plan);
    check_written(c, p->args.logprobs, p->args.rows, "logprobs");
}

struct token {
    double weight;
    float logit;
    int32_t id;
};

static int by_logit(const void *a, const void *b)
{
    const struct token *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

// Number of ordered tokens whose sum reaches top_p and whose weight reaches min_p.
static int32_t cut(const struct token *tokens, int32_t kept, double top_p, double min_p)
{
    double sum = 0, all = 0;
    int32_t count = 0;
    for (int32_t i = 0; i < kept; i++)
        all += tokens[i].weight;
    while (count < kept && sum < top_p * all && tokens[count].weight >= min_p)
        sum += tokens[count++].weight;
    return count ? count : 1;
}

// Does the draw u fall onto `id` if the first `kept` tokens survive?
static bool hits(const struct token *tokens, int32_t kept, double u, int32_t id)
{
    double before = 0, own = 0, all = 0;
    for (int32_t i = 0; i < kept; i++) {
        all += tokens[i].weight;
        before += tokens[i].id < id ? tokens[i].weight : 0;
        own += tokens[i].id == id ? tokens[i].weight : 0;
    }
    return own > 0 && u * all >= before - slack * all && u * all <= before + own + slack * all;
}

// What the checked token is judged by shares no code with the kernels: penalties and randomness, which
// all of them have in common, are written here once more.

// The logits as the steps behind the penalties see them, each penalty rounded to f32. False if none was
// finite.
static bool oracle_logits(const struct problem *p, int32_t row, struct token *tokens)
{
    const weft_sample_params *params = &p->args.params[row];
    const float *logits = (const float *)p->args.logits + row * p->args.logits_stride;
    bool any = false;
    for (int32_t i = 0; i < p->desc.vocab; i++) {
        any |= isfinite(logits[i]) != 0;
        tokens[i] = (struct token){0, logits[i], i};
        if (isnan(logits[i]))
            tokens[i].logit = -INFINITY;
        else if (logits[i] == INFINITY)
            tokens[i].logit = FLT_MAX;
    }
    for (int64_t i = 0; i < params->history_len; i++)
        tokens[params->history[i]].weight++; // occurrences
    for (int32_t i = 0; i < p->desc.vocab; i++) {
        float x = tokens[i].logit, times = (float)tokens[i].weight;
        tokens[i].weight = 0;
        if (times == 0 || x == -INFINITY)
            continue;
        double ratio = params->repetition_penalty == 0 ? 1 : (double)params->repetition_penalty;
        double wide = x > 0 ? x / ratio : x * ratio;
        float narrow = (float)wide;
        float often = times * params->frequency_penalty;
        narrow = narrow - often;
        narrow = narrow - params->presence_penalty;
        wide -=
            (double)times * (double)params->frequency_penalty + (double)params->presence_penalty;
        if (!isfinite(narrow)) // f32 does not reach, f64 does
            narrow = wide > FLT_MAX ? FLT_MAX : wide < -FLT_MAX ? -FLT_MAX : (float)wide;
        tokens[i].logit = narrow;
    }
    return any;
}

// Philox 4x32-10 with key `seed` and counter `step`: the upper 53 of its first 64 bits as a fraction.
static double oracle_uniform(uint64_t seed, uint64_t step)
{
    static const uint64_t factors[2] = {0xD2511F53, 0xCD9E8D57},
                          bumps[2] = {0x9E3779B9, 0xBB67AE85};
    uint64_t word[4] = {step & UINT32_MAX, step >> 32, 0, 0};
    const uint64_t key[2] = {seed & UINT32_MAX, seed >> 32};
    for (uint64_t round = 0; round < 10; round++) {
        uint64_t products[2] = {factors[0] * word[0], factors[1] * word[2]};
        uint64_t next[4] = {products[1] >> 32 ^ word[1] ^ (key[0] + round * bumps[0]), products[1],
                            products[0] >> 32 ^ word[3] ^ (key[1] + round * bumps[1]), products[0]};
        for (int i = 0; i < 4; i++)
            word[i] = next[i] & UINT32_MAX;
    }
    return ldexp((double)(word[0] >> 11 | word[1] << 21), -53);
}

// Could the token come of exact arithmetic, but for `slack`?
static bool is_explained(struct check_case *c, const struct problem *p, int32_t row, int32_t id)
{
    const weft_sample_params *params = &p->args.params[row];
    int32_t vocab = p->desc.vocab;
    struct token *tokens = check_buffer(c, (size_t)vocab * sizeof *tokens, 8);
    bool any = oracle_logits(p, row, tokens);
    qsort(tokens, (size_t)vocab, sizeof *tokens, by_logit);
    if (!any || params->temperature == 0)
        return id == (any ? tokens[0].id : 0);
    for (int32_t i = vocab; i-- > 0;)
        tokens[i].weight =
            exp(((double)tokens[i].logit - tokens[0].logit) / (double)params->temperature);
    int32_t kept = params->top_k > 0 && params->top_k < vocab ? params->top_k : vocab;
    double top_p = params->top_p > 0 && params->top_p < 1 ? params->top_p : 2;
    int32_t least = cut(tokens, kept, top_p - slack, params->min_p * (1 + slack));
    int32_t most = cut(tokens, kept, top_p + slack, params->min_p * (1 - slack));
    double u = oracle_uniform(params->seed, params->step);
    for (int32_t i = least; i <= most; i++)
        if (hits(tokens, i, u, id))
            return true;
    return false;
}

check_fn weft__sample_check;
void weft__sample_check(struct check_case *c)
{
    if (c->format) {
        check_skip(c);
        return;
    }
    struct problem got = draw(c), want = got;
    run(c, &got, c->kernel->name);
    run(c, &want, "sample_sort_ref");
    for (int32_t row = 0; row < got.args.rows && !c->failed; row++) {
        const weft_sample_params *params = &got.args.params[row];
        int32_t token = got.args.tokens[row], reference = want.args.tokens[row];
        check_note(c, "vocab %d row %d temperature %g top_k %d top_p %g min_p %g history %lld",
                   got.desc.vocab, row, params->temperature, params->top_k, params->top_p,
                   params->min_p, (long long)params->history_len);
        double lp = want.args.logprobs[row];
        if (token < 0 || token >= got.desc.vocab || !is_explained(c, &got, row, token))
            check_fail(c, "tokens[%d] = %d, reference %d", row, token, reference);
        else if (token == reference)
            check_close(c, got.args.logprobs[row], lp, 0x1p-20 * (1 + fabs(lp)), "logprobs", row);
    }
}
