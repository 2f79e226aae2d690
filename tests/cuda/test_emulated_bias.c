// SPDX-License-Identifier: MIT
// A prompt with ALiBi by warpgroups, on the emulator: weights are measured against a guess from the first tile of keys and the way that the
// bias has yet to go. The last key of that tile is far above all others before the bias and far below after it, so what later rows
// measure against is 2^80 and more too large: f16 has no place for such weights, and these rows are computed again.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weft/attention.h>

#include "src/base/half.h"
#include "tests/support/standin/standin_case.h"

enum {
    HEADS = 2, // of the one KV head
    DIM = 64,
    PAGE = 16,
    TILE = 128, // keys
    TOKENS = 2 * TILE + 40,
    PAGES = (TOKENS + PAGE - 1) / PAGE,
};

static const float slopes[HEADS] = {1.0f, 0.05f};
static uint16_t keys[PAGES * PAGE][DIM], values[PAGES * PAGE][DIM], queries[TOKENS][HEADS][DIM];

static uint16_t number(void)
{
    static uint32_t state = 5;
    state = state * 1664525u + 1013904223u;
    return weft__f16_from_f32((float)(int32_t)state * 0x1p-31f);
}

static void fill(void)
{
    for (int32_t t = 0; t < TOKENS; t++)
        for (int32_t d = 0; d < DIM; d++) {
            keys[t][d] = number(), values[t][d] = number();
            for (int32_t h = 0; h < HEADS; h++)
                queries[t][h][d] = number();
        }
    for (int32_t t = 0; t < TOKENS; t++) {
        keys[t][0] = weft__f16_from_f32(t == TILE - 1 ? 60.0f : 0.0f);
        for (int32_t h = 0; h < HEADS; h++)
            queries[t][h][0] = weft__f16_from_f32(8.0f);
    }
}

static double dot(const uint16_t *a, const uint16_t *b)
{
    double sum = 0;
    for (int32_t d = 0; d < DIM; d++)
        sum += (double)weft__f16_to_f32(a[d]) * (double)weft__f16_to_f32(b[d]);
    return sum;
}

// Row `token` of a head within what f16 weights allow.
static void expect(int32_t token, int32_t head, const uint16_t *out)
{
    double score[TOKENS], largest = -INFINITY, sum = 0, acc[DIM] = {0};
    for (int32_t t = 0; t <= token; t++) {
        score[t] = dot(queries[token][head], keys[t]) / 8 - (double)slopes[head] * (token - t);
        largest = fmax(largest, score[t]);
    }
    for (int32_t t = 0; t <= token; t++) {
        const double weight = exp(score[t] - largest);
        sum += weight;
        for (int32_t d = 0; d < DIM; d++)
            acc[d] += weight * (double)weft__f16_to_f32(values[t][d]);
    }
    for (int32_t d = 0; d < DIM; d++)
        CHECK(fabs((double)weft__f16_to_f32(out[d]) - acc[d] / sum) <= 4e-3);
}

static void *memory(weft_context *context, size_t bytes, const void *from)
{
    void *to = NULL;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, bytes, &to) == WEFT_OK);
    memset(to, 0, bytes);
    if (from)
        memcpy(to, from, bytes);
    return to;
}

static void case_bias(void)
{
    weft_context *const context = must_open();
    weft_plan *plan = NULL;
    int32_t table[PAGES];
    const int32_t cu_q_lens[] = {0, TOKENS}, kv_lens[] = {TOKENS};
    const weft_attention_desc desc = {
        .size = sizeof desc,
        .kv = {.dtype = WEFT_F16, .num_kv_heads = 1, .head_dim = DIM, .page_size = PAGE},
        .q_dtype = WEFT_F16,
        .out_dtype = WEFT_F16,
        .num_q_heads = HEADS,
        .mask = WEFT_MASK_CAUSAL,
        .flags = WEFT_ATTENTION_ALIBI,
        .max_seqs = 1,
        .max_q_tokens = TOKENS,
        .max_kv_len = TOKENS};
    CHECK(weft_attention_plan(context, &desc, &plan) == WEFT_OK);
    fill();
    for (int32_t i = 0; i < PAGES; i++)
        table[i] = i;
    const size_t workspace = weft_plan_workspace_bytes(plan);
    const weft_attention_args args = {.size = sizeof args,
                                      .num_seqs = 1,
                                      .q = memory(context, sizeof queries, queries),
                                      .out = memory(context, sizeof queries, NULL),
                                      .pool = {.k.data = memory(context, sizeof keys, keys),
                                               .v.data = memory(context, sizeof values, values),
                                               .num_pages = PAGES},
                                      .cu_q_lens = memory(context, sizeof cu_q_lens, cu_q_lens),
                                      .kv_lens = memory(context, sizeof kv_lens, kv_lens),
                                      .page_table = memory(context, sizeof table, table),
                                      .page_table_stride = PAGES,
                                      .alibi_slopes = memory(context, sizeof slopes, slopes),
                                      .workspace = memory(context, workspace + 1, NULL),
                                      .workspace_bytes = workspace};
    CHECK(weft_attention_run(plan, &args) == WEFT_OK);
    CHECK_TEXT(standin->launches[standin->num_launches - 1].function,
               "weft_attention_prefill_wgmma");
    for (int32_t t = 0; t < TOKENS; t++)
        for (int32_t h = 0; h < HEADS; h++)
            expect(t, h, (const uint16_t *)args.out + (t * HEADS + h) * DIM);
    const void *const buffers[] = {args.q,           args.out,          args.pool.k.data,
                                   args.pool.v.data, args.cu_q_lens,    args.kv_lens,
                                   args.page_table,  args.alibi_slopes, args.workspace};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        weft_memory_free(context, (void *)(uintptr_t)buffers[i]);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

int main(void)
{
    static const struct standin_case cases[] = {{"bias", case_bias}};
    return standin_run(cases, sizeof cases / sizeof *cases);
}
