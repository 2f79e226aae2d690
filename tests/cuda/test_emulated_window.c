// SPDX-License-Identifier: MIT
// The next token of a sequence whose window ends within a tile, on the emulator: the values of that tile that nobody sees become zeros, and
// nothing else changes, however far the new key is from it. So far that a row for it, counted from that tile, would be where queries lie.
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weft/attention.h>
#include <weft/batch.h>

#include "src/base/half.h"
#include "tests/support/standin/standin_case.h"

enum {
    HEADS = 4, // of the one KV head
    DIM = 64,
    PAGE = 16,
    RINGS = 512, // rows of the rings of a block: 8 warps, 2 slots, keys and values of 16
    WINDOW = RINGS - 7,
    KEYS = 2 * RINGS - 15, // the first tile of the window begins RINGS keys before the new one
    PAGES = (KEYS + PAGE - 1) / PAGE,
};

static uint16_t keys[KEYS][DIM], values[KEYS][DIM];
static float queries[HEADS][DIM];
static int32_t table[PAGES];

static float number(void)
{
    static uint32_t state = 3;
    state = state * 1664525u + 1013904223u;
    return (float)(int32_t)state * 0x1p-31f;
}

static void fill(void)
{
    for (int32_t t = 0; t < KEYS; t++)
        for (int32_t d = 0; d < DIM; d++) {
            keys[t][d] = weft__f16_from_f32(number());
            values[t][d] = weft__f16_from_f32(number());
        }
    for (int32_t h = 0; h < HEADS; h++)
        for (int32_t d = 0; d < DIM; d++) // what a half has places for
            queries[h][d] = weft__f16_to_f32(weft__f16_from_f32(number()));
    for (int32_t i = 0; i < PAGES; i++)
        table[i] = PAGES - 1 - i;
}

static void expect(int32_t head, const float *out)
{
    double sum = 0, acc[DIM] = {0};
    for (int32_t t = KEYS - WINDOW; t < KEYS; t++) {
        double score = 0;
        for (int32_t d = 0; d < DIM; d++)
            score += (double)queries[head][d] * (double)weft__f16_to_f32(keys[t][d]);
        sum += exp(score / 8);
        for (int32_t d = 0; d < DIM; d++)
            acc[d] += exp(score / 8) * (double)weft__f16_to_f32(values[t][d]);
    }
    for (int32_t d = 0; d < DIM; d++)
        CHECK(fabs((double)out[d] - acc[d] / sum) <= 1e-3);
}

// Every key but the new one, in pages; the new one as a matrix leaves it.
static void fill_device(uint16_t *k, uint16_t *v, float *new_k, float *new_v)
{
    for (int32_t t = 0; t < KEYS - 1; t++) {
        const int32_t at = (table[t / PAGE] * PAGE + t % PAGE) * DIM;
        memcpy(k + at, keys[t], sizeof keys[t]);
        memcpy(v + at, values[t], sizeof values[t]);
    }
    for (int32_t d = 0; d < DIM; d++) {
        new_k[d] = weft__f16_to_f32(keys[KEYS - 1][d]);
        new_v[d] = weft__f16_to_f32(values[KEYS - 1][d]);
    }
}

static void *memory(weft_context *context, size_t bytes)
{
    char *to = NULL;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, bytes, (void **)&to) == WEFT_OK);
    memset(to, 0, bytes);
    return to;
}

static weft_batch *batch_of(weft_context *context, const weft_plan *plan)
{
    weft_batch *batch = NULL;
    const weft_batch_desc desc = {.size = sizeof desc,
                                  .max_seqs = 1,
                                  .max_q_tokens = 1,
                                  .max_kv_len = KEYS,
                                  .page_size = PAGE,
                                  .plans = &plan,
                                  .num_plans = 1};
    const weft_batch_args set = {.size = sizeof set,
                                 .num_seqs = 1,
                                 .cu_q_lens = (const int32_t[]){0, 1},
                                 .kv_lens = (const int32_t[]){KEYS},
                                 .page_table = table,
                                 .page_table_stride = PAGES,
                                 .num_pages = PAGES};
    CHECK(weft_batch_create(context, &desc, &batch) == WEFT_OK);
    CHECK(weft_batch_set(batch, &set) == WEFT_OK);
    return batch;
}

static void case_window(void)
{
    weft_context *const context = must_open();
    weft_plan *plan = NULL;
    const weft_attention_desc desc = {
        .size = sizeof desc,
        .kv = {.dtype = WEFT_F16, .num_kv_heads = 1, .head_dim = DIM, .page_size = PAGE},
        .q_dtype = WEFT_F32,
        .num_q_heads = HEADS,
        .window = WINDOW,
        .flags = WEFT_ATTENTION_APPEND | WEFT_ATTENTION_NARROW_QUERIES,
        .max_seqs = 1,
        .max_q_tokens = 1,
        .max_kv_len = KEYS};
    CHECK(weft_attention_plan(context, &desc, &plan) == WEFT_OK);
    fill();
    const size_t cache = (size_t)PAGES * PAGE * DIM * 2, row = DIM * sizeof(float);
    const size_t workspace = weft_plan_workspace_bytes(plan);
    weft_attention_append append = {.k = memory(context, row), .v = memory(context, row)};
    float *const q = memory(context, sizeof queries);
    weft_attention_args args = {.size = sizeof args,
                                .q = q,
                                .out = memory(context, sizeof queries),
                                .pool = {.k.data = memory(context, cache),
                                         .v.data = memory(context, cache),
                                         .num_pages = PAGES},
                                .workspace = memory(context, workspace + 1),
                                .workspace_bytes = workspace,
                                .append = &append,
                                .batch = batch_of(context, plan)};
    fill_device(args.pool.k.data, args.pool.v.data, (float *)(uintptr_t)append.k,
                (float *)(uintptr_t)append.v);
    memcpy(q, queries, sizeof queries);
    CHECK(weft_attention_run(plan, &args) == WEFT_OK);
    CHECK_TEXT(standin->launches[standin->num_launches - 1].function, "weft_attention_token");
    for (int32_t h = 0; h < HEADS; h++)
        expect(h, (const float *)args.out + (size_t)h * DIM);
    weft_batch_destroy((weft_batch *)(uintptr_t)args.batch);
    void *const buffers[] = {(void *)(uintptr_t)append.k,
                             (void *)(uintptr_t)append.v,
                             q,
                             args.out,
                             args.pool.k.data,
                             args.pool.v.data,
                             args.workspace};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        weft_memory_free(context, buffers[i]);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

int main(void)
{
    static const struct standin_case cases[] = {{"window", case_window}};
    return standin_run(cases, sizeof cases / sizeof *cases);
}
