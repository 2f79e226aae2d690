// SPDX-License-Identifier: MIT
#include <math.h>

#include "tests/support/context_fixture.h"

static void assert_near(double got, double want, double relative)
{
    if (!(fabs(got - want) <= relative * fabs(want)))
        fail_msg("%.17g is not %.17g", got, want);
}

static void frequencies_of_every_rule(void **state)
{
    (void)state;
    double f[64];
    float factor;
    weft_rope_params rope = {0};
    assert_int_equal(weft_rope_frequencies(&rope, 128, f, &factor), WEFT_OK);
    assert_near(f[0], 1, 0);
    assert_near(f[32], 0.01, 1e-14);
    assert_true(factor == 1);

    rope.scaling = WEFT_ROPE_SCALING_LINEAR;
    rope.factor = 4;
    assert_int_equal(weft_rope_frequencies(&rope, 128, f, &factor), WEFT_OK);
    assert_near(f[32], 0.0025, 1e-14);

    // llama3: above 4 turns in 8192 tokens kept, below 1 turn divided by 8, between blended.
    rope = (weft_rope_params){
        .scaling = WEFT_ROPE_SCALING_LLAMA3, .base = 500000, .factor = 8, .original_context = 8192};
    assert_int_equal(weft_rope_frequencies(&rope, 128, f, &factor), WEFT_OK);
    for (int i = 0; i < 64; i++) {
        double plain = pow(500000, -i / 64.0), turns = 8192 * plain / (2 * acos(-1));
        double keep = fmin(fmax((turns - 1) / 3, 0), 1);
        assert_near(f[i], plain * (keep + (1 - keep) / 8), 1e-13);
    }

    // YaRN: pairs up to floor(x(32 turns)) kept, from ceil(x(1 turn)) on divided.
    rope = (weft_rope_params){
        .scaling = WEFT_ROPE_SCALING_YARN, .factor = 4, .original_context = 32768, .base = 1e6f};
    assert_int_equal(weft_rope_frequencies(&rope, 128, f, &factor), WEFT_OK);
    assert_near(f[23], pow(1e6, -23 / 64.0), 1e-13);
    assert_near(f[31], pow(1e6, -31 / 64.0) * (1 - 8 / 17.0 * 0.75), 1e-13);
    assert_near(f[40], pow(1e6, -40 / 64.0) / 4, 1e-13);
    assert_near(factor, 0.1 * log(4) + 1, 1e-7);
    rope.attention_factor = 1.5f;
    assert_int_equal(weft_rope_frequencies(&rope, 128, f, &factor), WEFT_OK);
    assert_true(factor == 1.5f);
}

static void turns_both_styles_alike(void **state)
{
    const int32_t positions[2] = {0, 1000003};
    float split[2][6] = {{1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}};
    float interleaved[2][6] = {{1, 3, 2, 4, 5, 6}, {1, 3, 2, 4, 5, 6}};
    weft_plan *plan;
    weft_rope_desc desc = {.size = sizeof desc, .num_heads = 1, .head_dim = 6, .max_tokens = 2};
    desc.rope.rotary_dim = 4;
    assert_int_equal(weft_rope_plan(*state, &desc, &plan), WEFT_OK);
    weft_rope_args args = {.size = sizeof args, .tokens = 2, .x = split[0], .positions = positions};
    assert_int_equal(weft_rope_run(plan, &args), WEFT_OK);
    weft_plan_destroy(plan);
    desc.rope.style = WEFT_ROPE_INTERLEAVED;
    assert_int_equal(weft_rope_plan(*state, &desc, &plan), WEFT_OK);
    args.x = interleaved[0];
    assert_int_equal(weft_rope_run(plan, &args), WEFT_OK);
    weft_plan_destroy(plan);

    const int of_split[6] = {0, 2, 1, 3, 4, 5};
    for (int i = 0; i < 6; i++) {
        assert_true(split[0][i] == (float)(i + 1));
        assert_true(fabsf(interleaved[1][i] - split[1][of_split[i]]) < 1e-6f);
    }
    assert_near(split[1][0], cos(1000003) - 3 * sin(1000003), 1e-6);
    assert_near(split[1][2], sin(1000003) + 3 * cos(1000003), 1e-6);
    assert_true(split[1][4] == 5 && split[1][5] == 6);
}

static void freq_factors_divide(void **state)
{
    (void)state;
    const float factors[2] = {2, 8};
    double f[2];
    float factor;
    weft_rope_params rope = {.freq_factors = factors, .base = 16};
    assert_int_equal(weft_rope_frequencies(&rope, 4, f, &factor), WEFT_OK);
    assert_near(f[0], 0.5, 0);
    assert_near(f[1], 0.25 / 8, 1e-15);
}

static void refuses(void **state)
{
    weft_plan *plan = NULL;
    double f[2];
    float factor;
    const struct {
        weft_rope_params rope;
        const char *words;
    } bad[] = {
        {{.rotary_dim = 3}, "rotary_dim"},
        {{.rotary_dim = 10}, "rotary_dim"},
        {{.rotary_dim = -2}, "rotary_dim"},
        {{.style = (weft_rope_style)2}, "style"},
        {{.scaling = (weft_rope_scaling)4}, "scaling"},
        {{.base = -1}, "base"},
        {{.base = 1}, "base"},
        {{.factor = INFINITY}, "finite"},
        {{.attention_factor = NAN}, "finite"},
        {{.scaling = WEFT_ROPE_SCALING_YARN, .factor = 2}, "original_context"},
        {{.scaling = WEFT_ROPE_SCALING_LLAMA3, .factor = 2}, "original_context"},
        {{.freq_factors = (const float[4]){1, 0, 1, 1}}, "freq_factors"},
    };
    weft_rope_desc desc = {.size = sizeof desc, .num_heads = 1, .head_dim = 8};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        desc.rope = bad[i].rope;
        assert_refused(*state, weft_rope_plan(*state, &desc, &plan), WEFT_EINVAL, bad[i].words);
        assert_int_equal(weft_rope_frequencies(&desc.rope, 8, f, &factor), WEFT_EINVAL);
    }
    desc.rope = (weft_rope_params){0};
    desc.num_heads = 0;
    assert_refused(*state, weft_rope_plan(*state, &desc, &plan), WEFT_EINVAL, "num_heads");
    desc.num_heads = 1;
    assert_int_equal(weft_rope_plan(*state, &desc, &plan), WEFT_OK);

    float x[8] = {1};
    const int32_t positions[1] = {-1};
    weft_rope_args args = {.size = sizeof args, .tokens = 1, .x = x, .positions = positions};
    assert_refused(*state, weft_rope_run(plan, &args), WEFT_EINVAL, "positions[0] = -1");
    args.token_stride = 7;
    assert_refused(*state, weft_rope_run(plan, &args), WEFT_EINVAL, "token_stride");
    args.positions = NULL;
    assert_refused(*state, weft_rope_run(plan, &args), WEFT_EINVAL, "NULL");
    args.tokens = 2;
    assert_refused(*state, weft_rope_run(plan, &args), WEFT_EINVAL, "tokens=2");
    assert_true(x[0] == 1);
    weft_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_of_every_rule),
        cmocka_unit_test(turns_both_styles_alike),
        cmocka_unit_test(freq_factors_divide),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
