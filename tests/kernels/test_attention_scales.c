// SPDX-License-Identifier: MIT
// Scales of int8 caches that are not what they should be: one that is infinite has no influence on a query that does not
// see its key, ones that are negative or tiny are multiplied like others.
#include <math.h>

#include "tests/support/context_fixture.h"

enum { KEYS = 130, DIM = 40, HEADS = 2, QUERIES = 2, OUT = QUERIES * HEADS * DIM };

static int8_t k[KEYS * DIM], v[KEYS * DIM];
static float k_scales[KEYS], v_scales[KEYS], q[OUT];

static void fill(void)
{
    for (int i = 0; i < KEYS * DIM; i++) {
        k[i] = (int8_t)(i * 37 % 251 - 125);
        v[i] = (int8_t)(i * 91 % 255 - 127);
    }
    for (int t = 0; t < KEYS; t++) {
        k_scales[t] = 0.002f + 0.0001f * (float)(t % 7);
        v_scales[t] = t % 3 ? 0.01f : -0.02f;
    }
    for (int i = 0; i < OUT; i++)
        q[i] = (float)(i * 53 % 101 - 50) / 32; // of bf16 all
}

// Query i sees keys 0 .. KEYS - QUERIES + i.
static void expect(double want[OUT])
{
    for (int row = 0; row < QUERIES * HEADS; row++) {
        double sum = 0, p[KEYS];
        int seen = KEYS - QUERIES + row / HEADS + 1;
        for (int t = 0; t < seen; t++) {
            double dot = 0;
            for (int i = 0; i < DIM; i++)
                dot += (double)q[row * DIM + i] * k[t * DIM + i] * k_scales[t];
            sum += p[t] = exp(dot / sqrt(DIM));
        }
        for (int i = 0; i < DIM; i++) {
            want[row * DIM + i] = 0;
            for (int t = 0; t < seen; t++)
                want[row * DIM + i] += p[t] / sum * v[t * DIM + i] * v_scales[t];
        }
    }
}

static void attend(weft_context *context, float out[OUT])
{
    weft_plan *plan;
    const int32_t cu[2] = {0, QUERIES}, page = 0, keys = KEYS;
    const weft_attention_desc desc = {.size = sizeof desc,
                                      .flags = WEFT_ATTENTION_NARROW_QUERIES,
                                      .kv = {.dtype = WEFT_INT8,
                                             .num_kv_heads = 1,
                                             .head_dim = DIM,
                                             .page_size = KEYS,
                                             .scaling = WEFT_KV_SCALING_GIVEN,
                                             .v_scaling = WEFT_KV_SCALING_GIVEN},
                                      .num_q_heads = HEADS,
                                      .max_q_tokens = QUERIES,
                                      .max_kv_len = KEYS};
    assert_int_equal(weft_attention_plan(context, &desc, &plan), WEFT_OK);
    const size_t bytes = weft_plan_workspace_bytes(plan);
    const weft_attention_args args = {
        .size = sizeof args,
        .num_seqs = 1,
        .q = q,
        .out = out,
        .pool = {.k = {.data = k, .scales = k_scales, .scale_token_stride = 1},
                 .v = {.data = v, .scales = v_scales, .scale_token_stride = 1},
                 .num_pages = 1},
        .cu_q_lens = cu,
        .kv_lens = &keys,
        .page_table = &page,
        .page_table_stride = 1,
        .workspace = aligned_alloc(64, (bytes + 63) / 64 * 64),
        .workspace_bytes = bytes};
    assert_int_equal(weft_attention_run(plan, &args), WEFT_OK);
    free(args.workspace);
    weft_plan_destroy(plan);
}

static void near_what_is_wanted(const float *got, const double *want, int count)
{
    for (int i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= 2e-3))
            fail_msg("out[%d] = %g, %g is wanted", i, (double)got[i], want[i]);
}

static void negative_and_tiny_scales_multiply(void **state)
{
    float out[OUT];
    double want[OUT];
    fill();
    expect(want);
    attend(*state, out);
    near_what_is_wanted(out, want, OUT);
    for (int t = 0; t < KEYS; t++)
        v_scales[t] *= 0x1p-120f;
    attend(*state, out);
    for (int i = 0; i < OUT; i++)
        out[i] *= 0x1p120f;
    near_what_is_wanted(out, want, OUT);
}

static void an_infinite_scale_meets_only_who_sees_its_key(void **state)
{
    float out[OUT];
    double want[OUT];
    fill();
    expect(want);
    v_scales[KEYS - 1] = INFINITY;
    attend(*state, out);
    near_what_is_wanted(out, want, HEADS * DIM);
    for (int i = HEADS * DIM; i < OUT; i++)
        assert_false(isfinite(out[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(negative_and_tiny_scales_multiply),
        cmocka_unit_test(an_infinite_scale_meets_only_who_sees_its_key),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
