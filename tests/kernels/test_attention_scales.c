// SPDX-License-Identifier: MIT
// Scales of int8 caches that are not what they should be: one that is infinite has no influence on a query that
// does not see its key, ones that are negative or tiny are multiplied like others.
#include <math.h>

#include "tests/support/context_fixture.h"

enum {
    KEYS = 130,
    HEADS = 2,
    MOST_QUERIES = 12,
    MOST_DIM = 64,
    MOST_OUT = MOST_QUERIES * HEADS * MOST_DIM
};

typedef struct problem {
    const char *variant;
    int32_t queries, dim;
} problem;

static int8_t k[KEYS * MOST_DIM], v[KEYS * MOST_DIM];
static float k_scales[KEYS], v_scales[KEYS], q[MOST_OUT];

static void fill(void)
{
    for (int i = 0; i < KEYS * MOST_DIM; i++) {
        k[i] = (int8_t)(i * 37 % 251 - 125);
        v[i] = (int8_t)(i * 91 % 255 - 127);
    }
    for (int t = 0; t < KEYS; t++) {
        k_scales[t] = 0.002f + 0.0001f * (float)(t % 7);
        v_scales[t] = t % 3 ? 0.01f : -0.02f;
    }
    for (int i = 0; i < MOST_OUT; i++)
        q[i] = (float)(i * 53 % 101 - 50) / 32; // of bf16 all
}

// Query i sees keys 0 .. KEYS - queries + i.
static void expect(problem p, double *want)
{
    for (int row = 0; row < p.queries * HEADS; row++) {
        double sum = 0, weight[KEYS];
        int seen = KEYS - p.queries + row / HEADS + 1;
        for (int t = 0; t < seen; t++) {
            double dot = 0;
            for (int i = 0; i < p.dim; i++)
                dot += (double)q[row * p.dim + i] * k[t * p.dim + i] * k_scales[t];
            sum += weight[t] = exp(dot / sqrt(p.dim));
        }
        for (int i = 0; i < p.dim; i++) {
            want[row * p.dim + i] = 0;
            for (int t = 0; t < seen; t++)
                want[row * p.dim + i] += weight[t] / sum * v[t * p.dim + i] * v_scales[t];
        }
    }
}

static weft_attention_desc descriptor(problem p)
{
    return (weft_attention_desc){.size = sizeof(weft_attention_desc),
                                 .flags = WEFT_ATTENTION_NARROW_QUERIES,
                                 .kv = {.dtype = WEFT_INT8,
                                        .num_kv_heads = 1,
                                        .head_dim = p.dim,
                                        .page_size = KEYS,
                                        .scaling = WEFT_KV_SCALING_GIVEN,
                                        .v_scaling = WEFT_KV_SCALING_GIVEN},
                                 .num_q_heads = HEADS,
                                 .max_q_tokens = p.queries,
                                 .max_kv_len = KEYS,
                                 .variant = p.variant};
}

static void attend(weft_context *context, problem p, float *out)
{
    weft_plan *plan;
    const int32_t cu[2] = {0, p.queries}, page = 0, keys = KEYS;
    const weft_attention_desc desc = descriptor(p);
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

// Does the kernel multiply values by weights in bf16? Those are off by 2^-9, and below 2^-126 they are 0.
static bool rounds_weights(const char *kernel)
{
    return strstr(kernel, "avx512bf16") || strstr(kernel, "amx");
}

static void near_what_is_wanted(problem p, const float *got, const double *want, int count)
{
    const double bound = rounds_weights(p.variant) ? 2e-2 : 2e-3;
    for (int i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= bound))
            fail_msg("%s, %d queries of %d: out[%d] = %g, %g is wanted", p.variant, (int)p.queries,
                     (int)p.dim, i, (double)got[i], want[i]);
}

static void multiply_by_any(weft_context *context, problem p)
{
    static float out[MOST_OUT];
    static double want[MOST_OUT];
    const int count = p.queries * HEADS * p.dim;
    fill();
    expect(p, want);
    attend(context, p, out);
    near_what_is_wanted(p, out, want, count);
    const int tiny = rounds_weights(p.variant) ? -110 : -120;
    for (int t = 0; t < KEYS; t++)
        v_scales[t] = ldexpf(v_scales[t], tiny);
    attend(context, p, out);
    for (int i = 0; i < count; i++)
        out[i] = ldexpf(out[i], -tiny);
    near_what_is_wanted(p, out, want, count);
}

// The last key is the last query's alone.
static void meet_who_sees(weft_context *context, problem p)
{
    static float out[MOST_OUT];
    static double want[MOST_OUT];
    const int count = p.queries * HEADS * p.dim, last = count - HEADS * p.dim;
    fill();
    expect(p, want);
    v_scales[KEYS - 1] = INFINITY;
    attend(context, p, out);
    near_what_is_wanted(p, out, want, last);
    for (int i = last; i < count; i++)
        assert_false(isfinite(out[i]));
}

// Every kernel that serves int8, few rows and many, heads that are whole vectors and others.
static void with_every_kernel(weft_context *context, void (*test)(weft_context *, problem))
{
    static const int32_t shapes[][2] = {{2, 40}, {2, 64}, {12, 40}, {12, 64}};
    weft_kernel_info kernel;
    for (int32_t i = 0; weft_kernel_at(context, i, &kernel); i++)
        for (int n = 0; n < 4 && kernel.usable; n++) {
            const problem p = {kernel.name, shapes[n][0], shapes[n][1]};
            const weft_attention_desc desc = descriptor(p);
            if (strncmp(p.variant, "attention_", 10) == 0 &&
                weft_attention_supported(context, &desc, NULL))
                test(context, p);
        }
}

static void negative_and_tiny_scales_multiply(void **state)
{
    with_every_kernel(*state, multiply_by_any);
}

static void an_infinite_scale_meets_only_who_sees_its_key(void **state)
{
    with_every_kernel(*state, meet_who_sees);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(negative_and_tiny_scales_multiply),
        cmocka_unit_test(an_infinite_scale_meets_only_who_sees_its_key),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
