// SPDX-License-Identifier: MIT
// Attention as three calls, products with the keys, softmax, products with the values: what the one call gives.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

enum { QUERIES = 13, KEYS = 97, DIM = 64, HEADS = 3 };

static float q[QUERIES * HEADS * DIM], out[QUERIES * HEADS * DIM], kv[2 * HEADS * KEYS * DIM];

// Y = X W^T, W[rows][cols], all f32.
static void product(weft_context *context, const float *w, int64_t rows, int64_t cols,
                    const float *x, int64_t x_stride, float *y, int64_t y_stride)
{
    weft_plan *plan;
    const weft_linear_desc desc = {.size = sizeof desc,
                                   .weight_dtype = WEFT_F32,
                                   .rows = rows,
                                   .cols = cols,
                                   .max_batch = QUERIES};
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
    size_t bytes = weft_plan_workspace_bytes(plan);
    void *workspace = aligned_alloc(64, bytes / 64 * 64 + 64);
    const weft_linear_args args = {.size = sizeof args,
                                   .batch = QUERIES,
                                   .weight = w,
                                   .x = x,
                                   .x_stride = x_stride,
                                   .y = y,
                                   .y_stride = y_stride,
                                   .workspace = workspace,
                                   .workspace_bytes = bytes};
    assert_int_equal(weft_linear_run(plan, &args), WEFT_OK);
    free(workspace);
    weft_plan_destroy(plan);
}

static void softmax(weft_context *context, float *scores, float scale)
{
    weft_plan *plan;
    const weft_softmax_desc desc = {
        .size = sizeof desc, .scale = scale, .dim = KEYS, .max_rows = QUERIES};
    assert_int_equal(weft_softmax_plan(context, &desc, &plan), WEFT_OK);
    assert_int_equal(weft_softmax_run(plan, &(weft_softmax_args){.size = sizeof(weft_softmax_args),
                                                                 .rows = QUERIES,
                                                                 .x = scores}),
                     WEFT_OK);
    weft_plan_destroy(plan);
}

static void attend(weft_context *context, weft_mask mask)
{
    weft_plan *plan;
    const weft_attention_desc desc = {
        .size = sizeof desc,
        .kv = {.dtype = WEFT_F32, .num_kv_heads = HEADS, .head_dim = DIM, .page_size = KEYS},
        .num_q_heads = HEADS,
        .mask = mask,
        .max_q_tokens = QUERIES,
        .max_kv_len = KEYS};
    assert_int_equal(weft_attention_plan(context, &desc, &plan), WEFT_OK);
    size_t bytes = weft_plan_workspace_bytes(plan);
    void *workspace = aligned_alloc(64, bytes / 64 * 64 + 64);
    const int32_t cu_q_lens[] = {0, QUERIES}, kv_lens[] = {KEYS}, pages[] = {0};
    const weft_kv_plane heads_outside = {.page_stride = (int64_t)HEADS * KEYS * DIM,
                                         .head_stride = (int64_t)KEYS * DIM,
                                         .token_stride = DIM};
    weft_kv_plane k = heads_outside, v = heads_outside;
    k.data = kv;
    v.data = kv + HEADS * KEYS * DIM;
    const weft_attention_args args = {.size = sizeof args,
                                      .num_seqs = 1,
                                      .q = q,
                                      .out = out,
                                      .pool = {.k = k, .v = v, .num_pages = 1},
                                      .cu_q_lens = cu_q_lens,
                                      .kv_lens = kv_lens,
                                      .page_table = pages,
                                      .workspace = workspace,
                                      .workspace_bytes = bytes};
    assert_int_equal(weft_attention_run(plan, &args), WEFT_OK);
    free(workspace);
    weft_plan_destroy(plan);
}

static void three_calls_equal_one(void **state)
{
    (void)state;
    static float scores[QUERIES * KEYS], turned[DIM * KEYS], parts[QUERIES * DIM];
    weft_context *context;
    uint32_t seed = 3;
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    for (size_t i = 0; i < sizeof q / sizeof *q; i++)
        q[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-22f - 2;
    for (size_t i = 0; i < sizeof kv / sizeof *kv; i++)
        kv[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-22f - 2;
    for (int causal = 0; causal < 2; causal++) {
        attend(context, causal ? WEFT_MASK_CAUSAL : WEFT_MASK_FULL);
        for (int h = 0; h < HEADS; h++) {
            const float *k = kv + h * KEYS * DIM, *v = kv + (HEADS + h) * KEYS * DIM;
            product(context, k, KEYS, DIM, q + h * DIM, HEADS * DIM, scores, KEYS);
            for (int i = 0; i < QUERIES; i++)
                for (int t = KEYS - QUERIES + i + 1; causal && t < KEYS; t++)
                    scores[i * KEYS + t] = -INFINITY;
            softmax(context, scores, 1 / sqrtf(DIM));
            for (int t = 0; t < KEYS; t++)
                for (int d = 0; d < DIM; d++)
                    turned[d * KEYS + t] = v[t * DIM + d];
            product(context, turned, DIM, KEYS, scores, KEYS, parts, DIM);
            for (int i = 0; i < QUERIES; i++)
                for (int d = 0; d < DIM; d++)
                    assert_float_equal(out[(i * HEADS + h) * DIM + d], parts[i * DIM + d], 2e-5f);
        }
    }
    weft_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(three_calls_equal_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
