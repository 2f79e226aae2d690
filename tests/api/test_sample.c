// SPDX-License-Identifier: MIT
#include <math.h>

#include "tests/support/context_fixture.h"

static int32_t sample(weft_context *context, const char *variant, const float *logits,
                      int32_t vocab, weft_sample_params params, float *logprob)
{
    weft_plan *plan;
    int32_t token = -1;
    weft_sample_desc desc = {.size = sizeof desc, .vocab = vocab, .variant = variant};
    assert_int_equal(weft_sample_plan(context, &desc, &plan), WEFT_OK);
    size_t bytes = weft_plan_workspace_bytes(plan);
    void *workspace = aligned_alloc(64, bytes);
    memset(workspace, 0xff, bytes);
    weft_sample_args args = {.size = sizeof args,
                             .rows = 1,
                             .logits = logits,
                             .params = &params,
                             .tokens = &token,
                             .logprobs = logprob,
                             .workspace = workspace,
                             .workspace_bytes = bytes};
    assert_int_equal(weft_sample_run(plan, &args), WEFT_OK);
    free(workspace);
    weft_plan_destroy(plan);
    return token;
}

// Calls a test once for every kernel of the operation that this machine can run.
static void each_variant(weft_context *context, void (*test)(weft_context *, const char *))
{
    weft_kernel_info info;
    int count = 0;
    for (int32_t n = 0; weft_kernel_at(context, n, &info); n++)
        if (info.usable && strcmp(info.op, "sample") == 0) {
            test(context, info.name);
            count++;
        }
    assert_true(count > 0);
}

static void argmax(weft_context *context, const char *variant)
{
    float logits[200], logprob;
    for (int i = 0; i < 200; i++)
        logits[i] = i % 3 ? NAN : -INFINITY;
    assert_int_equal(sample(context, variant, logits, 200, (weft_sample_params){0}, &logprob), 0);
    assert_true(logprob == -INFINITY);
    logits[7] = INFINITY; // not finite either
    assert_int_equal(sample(context, variant, logits, 200, (weft_sample_params){0}, NULL), 0);
    logits[7] = 0;
    logits[150] = logits[70] = logf(3);
    assert_int_equal(sample(context, variant, logits, 200, (weft_sample_params){0}, &logprob), 70);
    assert_true(fabsf(logprob - logf(3 / 7.0f)) < 1e-6f);
    logits[199] = INFINITY;
    assert_int_equal(sample(context, variant, logits, 200, (weft_sample_params){0}, NULL), 199);
}

static void takes_the_likeliest(void **state)
{
    each_variant(*state, argmax);
}

// Draws often; every share must lie within 5 standard deviations of its probability.
static void assert_shares(weft_context *context, const char *variant, const float *logits,
                          int32_t vocab, weft_sample_params params, const double *want)
{
    enum { DRAWS = 4000 };
    int seen[8] = {0};
    for (int i = 0; i < DRAWS; i++) {
        params.step = (uint64_t)i;
        seen[sample(context, variant, logits, vocab, params, NULL)]++;
    }
    for (int32_t i = 0; i < vocab; i++) {
        double deviation = sqrt(DRAWS * want[i] * (1 - want[i]));
        if (fabs(seen[i] - DRAWS * want[i]) > 5 * deviation)
            fail_msg("%s: token %d came %d times of %d, its probability is %g", variant, i, seen[i],
                     DRAWS, want[i]);
    }
}

static void shares(weft_context *context, const char *variant)
{
    const float logits[5] = {logf(0.2f), logf(0.1f), logf(0.5f), -INFINITY, logf(0.2f)};
    const struct {
        weft_sample_params params;
        double want[5];
    } cases[] = {
        {{.temperature = 1}, {0.2, 0.1, 0.5, 0, 0.2}},
        {{.temperature = 1, .top_k = 9, .top_p = 1}, {0.2, 0.1, 0.5, 0, 0.2}},
        // Temperature 1/2 squares the shares: 4 1 25 4.
        {{.temperature = 0.5f, .seed = 1}, {4 / 34.0, 1 / 34.0, 25 / 34.0, 0, 4 / 34.0}},
        {{.temperature = 1, .top_k = 1}, {0, 0, 1, 0, 0}},
        {{.temperature = 1, .top_k = 2}, {2 / 7.0, 0, 5 / 7.0, 0, 0}}, // of a tie the lower id
        {{.temperature = 1, .top_p = 0.49f}, {0, 0, 1, 0, 0}},
        {{.temperature = 1, .top_p = 0.6f}, {2 / 7.0, 0, 5 / 7.0, 0, 0}},
        {{.temperature = 1, .top_p = 0.8f}, {2 / 9.0, 0, 5 / 9.0, 0, 2 / 9.0}},
        {{.temperature = 1, .min_p = 0.41f}, {0, 0, 1, 0, 0}},
        {{.temperature = 1, .min_p = 0.39f}, {2 / 9.0, 0, 5 / 9.0, 0, 2 / 9.0}},
        {{.temperature = 1, .min_p = 1}, {0, 0, 1, 0, 0}},
        // top-p counts what top-k left: 5/7 of it is reached by the first.
        {{.temperature = 1, .top_k = 2, .top_p = 0.7f}, {0, 0, 1, 0, 0}},
        // min-p after temperature: 4/25 at temperature 1/2
        {{.temperature = 0.5f, .min_p = 0.2f}, {0, 0, 1, 0, 0}},
        {{.temperature = 1e-40f}, {0, 0, 1, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_shares(context, variant, logits, 5, cases[i].params, cases[i].want);
}

static void draws_with_the_right_shares(void **state)
{
    each_variant(*state, shares);
}

static void penalties(weft_context *context, const char *variant)
{
    const float logits[4] = {2, -1, 1.9f, 0};
    const int32_t history[3] = {0, 1, 0};
    float logprob;
    weft_sample_params params = {.history = history, .history_len = 3};
    assert_int_equal(sample(context, variant, logits, 4, params, NULL), 0);
    params.presence_penalty = 0.2f;
    assert_int_equal(sample(context, variant, logits, 4, params, NULL), 2);
    params.presence_penalty = 0;
    params.frequency_penalty = 0.06f; // twice 0.06
    assert_int_equal(sample(context, variant, logits, 4, params, NULL), 2);
    params.frequency_penalty = 0.04f;
    assert_int_equal(sample(context, variant, logits, 4, params, NULL), 0);
    // 2 / 2 = 1, -1 * 2 = -2; then each loses 0.5, and 0.25 per occurrence: 0, -2.75.
    params.repetition_penalty = 2;
    params.presence_penalty = 0.5f;
    params.frequency_penalty = 0.25f;
    assert_int_equal(sample(context, variant, logits, 4, params, &logprob), 2);
    double sum = exp(0) + exp(-2.75) + exp((double)1.9f) + exp(0);
    assert_true(fabs(logprob - (1.9 - log(sum))) < 1e-6);
}

static void penalises_the_history(void **state)
{
    each_variant(*state, penalties);
}

// A masked token stays masked whatever the penalties are, and one that is not is never worth more than
// the largest number.
// Weights 8, 4, 2, 1, ...: of the top 3 (sum 14) top-p 0.6 keeps 8 and 4 (12 >= 8.4). Were top-p to count
// only what min-p leaves, 8 alone would do (8 of 12).
static void cuts_follow_each_other(weft_context *context, const char *variant)
{
    float logits[300];
    bool seen[2] = {false, false};
    for (int i = 0; i < 300; i++)
        logits[i] = i < 4 ? (float)(3 - i) * logf(2) : -20;
    weft_sample_params params = {
        .temperature = 1, .top_k = 3, .top_p = 0.6f, .min_p = 0.3f, .seed = 5};
    for (params.step = 0; params.step < 200; params.step++) {
        int32_t token = sample(context, variant, logits, 300, params, NULL);
        assert_in_range(token, 0, 1);
        seen[token] = true;
    }
    assert_true(seen[0] && seen[1]);
}

static void cuts_count_what_is_left(void **state)
{
    each_variant(*state, cuts_follow_each_other);
}

static void penalties_at_the_end_of_f32(weft_context *context, const char *variant)
{
    const float logits[4] = {1, -INFINITY, 0, -1e30f};
    const int32_t history[8] = {1, 1, 1, 1, 3, 3, 3, 3};
    float logprob;
    weft_sample_params params = {.history = history, .history_len = 4, .frequency_penalty = -1e38f};
    assert_int_equal(sample(context, variant, logits, 4, params, &logprob), 0);
    assert_true(isfinite(logprob));
    params.presence_penalty = -3e38f;
    assert_int_equal(sample(context, variant, logits, 4, params, NULL), 0);
    params.history_len = 8; // -1e30 * 1e20 + 4e38 + 3e38: below everything, and a number
    params.repetition_penalty = 1e20f;
    assert_int_equal(sample(context, variant, logits, 4, params, &logprob), 0);
    assert_true(isfinite(logprob));
    params.repetition_penalty = 1;
    assert_int_equal(sample(context, variant, logits, 4, params, &logprob), 3);
    assert_true(logprob == 0);
}

static void penalties_do_not_unmask(void **state)
{
    each_variant(*state, penalties_at_the_end_of_f32);
}

// A row's token depends on nothing but the row: not on the batch, the threads or the executor.
static void rows_are_independent(void **state)
{
    enum { ROWS = 40, VOCAB = 3000, STRIDE = 3001 };
    float *logits = malloc(sizeof *logits * ROWS * STRIDE), logprobs[ROWS];
    weft_sample_params params[ROWS];
    int32_t tokens[ROWS];
    for (int i = 0; i < ROWS * STRIDE; i++)
        logits[i] = 5 * sinf((float)i * 1.7f) + cosf((float)i);
    for (int i = 0; i < ROWS; i++)
        params[i] = (weft_sample_params){.temperature = i % 4 ? 0.9f : 0,
                                         .top_k = i % 3 * 20,
                                         .top_p = i % 2 ? 0.9f : 0,
                                         .seed = 3,
                                         .step = (uint64_t)i};
    weft_plan *plan;
    weft_sample_desc desc = {.size = sizeof desc, .vocab = VOCAB, .max_rows = ROWS};
    assert_int_equal(weft_sample_plan(*state, &desc, &plan), WEFT_OK);
    size_t bytes = weft_plan_workspace_bytes(plan);
    void *workspace = aligned_alloc(64, bytes);
    weft_sample_args args = {.size = sizeof args,
                             .rows = ROWS,
                             .logits = logits,
                             .logits_stride = STRIDE,
                             .params = params,
                             .tokens = tokens,
                             .logprobs = logprobs,
                             .workspace = workspace,
                             .workspace_bytes = bytes};
    assert_int_equal(weft_sample_run(plan, &args), WEFT_OK);
    for (int i = 0; i < ROWS; i++) {
        float logprob;
        assert_int_equal(sample(*state, NULL, logits + i * STRIDE, VOCAB, params[i], &logprob),
                         tokens[i]);
        assert_true(logprob == logprobs[i]);
    }
    free(workspace);
    free(logits);
    weft_plan_destroy(plan);
}

static void refuses_parameters(void **state)
{
    const int32_t outside[1] = {4};
    const struct {
        weft_sample_params params;
        const char *words;
    } bad[] = {
        {{.temperature = -1}, "temperature"},
        {{.temperature = NAN}, "temperature"},
        {{.temperature = INFINITY}, "temperature"},
        {{.top_k = -1}, "top_k"},
        {{.top_p = 1.5f}, "top_p"},
        {{.top_p = -0.5f}, "top_p"},
        {{.min_p = NAN}, "min_p"},
        {{.repetition_penalty = -1}, "repetition_penalty"},
        {{.frequency_penalty = INFINITY}, "frequency_penalty"},
        {{.presence_penalty = NAN}, "presence_penalty"},
        {{.history_len = 1}, "history"},
        {{.history = outside, .history_len = -1}, "history"},
        {{.history = outside, .history_len = 1}, "outside the vocabulary"},
    };
    const float logits[4] = {0};
    weft_sample_params good = {0};
    int32_t token = 42;
    weft_plan *plan;
    weft_sample_desc desc = {.size = sizeof desc, .vocab = 4};
    assert_int_equal(weft_sample_plan(*state, &desc, &plan), WEFT_OK);
    size_t bytes = weft_plan_workspace_bytes(plan);
    char *workspace = aligned_alloc(64, bytes);
    weft_sample_args args = {.size = sizeof args,
                             .rows = 1,
                             .logits = logits,
                             .tokens = &token,
                             .workspace = workspace,
                             .workspace_bytes = bytes};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        args.params = &bad[i].params;
        assert_refused(*state, weft_sample_run(plan, &args), WEFT_EINVAL, bad[i].words);
    }
    args.params = &good;
    args.workspace_bytes = bytes - 1;
    assert_refused(*state, weft_sample_run(plan, &args), WEFT_EWORKSPACE, "bytes of workspace");
    args.workspace_bytes = bytes;
    args.workspace = workspace + 4;
    assert_refused(*state, weft_sample_run(plan, &args), WEFT_EWORKSPACE, "aligned");
    args.workspace = NULL;
    assert_refused(*state, weft_sample_run(plan, &args), WEFT_EWORKSPACE, "workspace");
    args.workspace = workspace;
    args.logits_stride = 3;
    assert_refused(*state, weft_sample_run(plan, &args), WEFT_EINVAL, "stride");
    args.logits = NULL;
    assert_refused(*state, weft_sample_run(plan, &args), WEFT_EINVAL, "NULL");
    args.rows = 2;
    assert_refused(*state, weft_sample_run(plan, &args), WEFT_EINVAL, "rows=2");
    assert_int_equal(token, 42);
    desc.vocab = 0;
    assert_refused(*state, weft_sample_plan(*state, &desc, &plan), WEFT_EINVAL, "vocab");
    free(workspace);
    weft_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_the_likeliest),     cmocka_unit_test(draws_with_the_right_shares),
        cmocka_unit_test(penalises_the_history),   cmocka_unit_test(penalties_do_not_unmask),
        cmocka_unit_test(cuts_count_what_is_left), cmocka_unit_test(rows_are_independent),
        cmocka_unit_test(refuses_parameters),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
