// SPDX-License-Identifier: MIT
// Prompts by warpgroups on the emulator, more of them than a warp looks through at once, in sets that a small L2 holds, on few blocks of
// which each finds many items: comes to what the CPU makes of them, whatever the lengths (none among them), and where largest scores come late.
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "src/kernels/attention/attention_device.h"
#include "tests/support/standin/standin_case.h"

enum {
    SEQS = 45,
    HEADS = 8,
    KV_HEADS = 2,
    DIM = 64,
    PAGE = 64,
    SEQ_PAGES = 5,
    PAGES = SEQS * SEQ_PAGES,
    CACHE = PAGES * PAGE * KV_HEADS * DIM,
    TOKENS = 2048, // at most
    QUERIES = TOKENS * HEADS * DIM,
};

static struct problem {
    uint16_t k[CACHE], v[CACHE], q[QUERIES];
    int32_t table[SEQS][SEQ_PAGES], each[SEQS + 1], lens[SEQS];
} p;
static float want[QUERIES], out[QUERIES], want_lse[TOKENS * HEADS], lse[TOKENS * HEADS];

static uint32_t next(void)
{
    static uint32_t state = 7;
    return state = state * 1664525u + 1013904223u;
}

// Every other sequence has two keys whose scores are far above those of other keys, one in the midst of its first tile and one in that of the
// second: weights there cannot be measured against what is known before.
static void raise_keys(void)
{
    for (int32_t s = 1; s < SEQS; s += 2)
        for (int32_t i = 0; i <= 2; i += 2) {
            uint16_t *const key = p.k + (p.table[s][i] * PAGE + 60) * KV_HEADS * DIM;
            for (int32_t d = 0; d < KV_HEADS * DIM; d++)
                if (key[d] & 0x7f80)
                    key[d] = (uint16_t)(key[d] + (5 << 7)); // times 32
        }
}

static void fill(void)
{
    uint16_t *const arrays[] = {p.k, p.v, p.q};
    const size_t counts[] = {CACHE, CACHE, QUERIES};
    for (int n = 0; n < 3; n++)
        for (size_t i = 0; i < counts[n]; i++) {
            const float x = (float)(int32_t)next() * 0x1p-31f;
            uint32_t bits;
            memcpy(&bits, &x, 4);
            arrays[n][i] = (uint16_t)(bits >> 16);
        }
    for (int32_t s = 0; s < SEQS; s++) {
        // 0, decode's, a tile of rows, several; up to 36 keys before them
        const int32_t q_len = s % 9 == 4   ? 0
                              : s % 5 == 2 ? (int32_t)(next() >> 16) % 250
                                           : (int32_t)(next() >> 16) % 40;
        p.each[s + 1] = p.each[s] + q_len;
        p.lens[s] = q_len + (s % 3 == 1 ? (int32_t)(next() >> 16) % 37 : 0);
        for (int32_t i = 0; i < SEQ_PAGES; i++)
            p.table[s][i] = (s * SEQ_PAGES + i) * 7 % PAGES; // 7 does not divide PAGES
    }
    CHECK(p.each[SEQS] <= TOKENS);
    raise_keys();
}

static weft_plan *plan_of(weft_context *context)
{
    const weft_attention_desc desc = {
        .size = sizeof desc,
        .kv = {.dtype = WEFT_BF16, .num_kv_heads = KV_HEADS, .head_dim = DIM, .page_size = PAGE},
        .q_dtype = WEFT_BF16,
        .num_q_heads = HEADS,
        .scale = 0.5f,
        .max_seqs = SEQS,
        .max_q_tokens = TOKENS,
        .max_kv_len = SEQ_PAGES * PAGE};
    weft_plan *plan;
    CHECK(weft_attention_plan(context, &desc, &plan) == WEFT_OK);
    return plan;
}

static weft_attention_args args_of(void)
{
    return (weft_attention_args){
        .size = sizeof(weft_attention_args),
        .num_seqs = SEQS,
        .q = p.q,
        .out = want,
        .lse = want_lse,
        .pool = {.k = {.data = p.k}, .v = {.data = p.v}, .num_pages = PAGES},
        .cu_q_lens = p.each,
        .kv_lens = p.lens,
        .page_table = p.table[0],
        .page_table_stride = SEQ_PAGES};
}

static void attend_on_cpu(void)
{
    const weft_context_desc cpu = {.size = sizeof cpu};
    weft_context *context;
    CHECK(weft_context_create(&cpu, &context) == WEFT_OK);
    weft_plan *const plan = plan_of(context);
    const size_t bytes = weft_plan_workspace_bytes(plan);
    weft_attention_args args = args_of();
    args.workspace = aligned_alloc(64, bytes / 64 * 64 + 64), args.workspace_bytes = bytes;
    CHECK(weft_attention_run(plan, &args) == WEFT_OK);
    free(args.workspace);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

// The launch has the blocks of the device, which see several sets.
static void expect_sets(void)
{
    for (int i = 0; i < standin->num_launches; i++) {
        const struct standin_launch *launch = &standin->launches[i];
        if (strcmp(launch->function, "weft_attention_prefill_wgmma") != 0)
            continue;
        const struct weft__attention_device_args *args = (const void *)launch->args;
        CHECK(launch->grid[0] == 3 && args->set_keys == 8);
        return;
    }
    CHECK(!"no prompts by warpgroups");
}

static void case_prompts(void)
{
    setenv("STANDIN_SMS", "3", 1), setenv("STANDIN_L2", "524288", 1);
    fill();
    attend_on_cpu();
    weft_context *const context = must_open();
    weft_plan *const plan = plan_of(context);
    weft_attention_args args = args_of();
    args.workspace_bytes = weft_plan_workspace_bytes(plan);
    void *const buffers[] = {on_device(context, p.q, sizeof p.q),
                             on_device(context, NULL, sizeof out),
                             on_device(context, NULL, sizeof lse),
                             on_device(context, NULL, args.workspace_bytes + 1),
                             on_device(context, p.k, sizeof p.k),
                             on_device(context, p.v, sizeof p.v),
                             on_device(context, p.each, sizeof p.each),
                             on_device(context, p.lens, sizeof p.lens),
                             on_device(context, p.table, sizeof p.table)};
    args.q = buffers[0], args.out = buffers[1], args.lse = buffers[2], args.workspace = buffers[3];
    args.pool.k.data = buffers[4], args.pool.v.data = buffers[5];
    args.cu_q_lens = buffers[6], args.kv_lens = buffers[7], args.page_table = buffers[8];
    CHECK(weft_attention_run(plan, &args) == WEFT_OK);
    CHECK(weft_copy(context, out, buffers[1], sizeof out, NULL) == WEFT_OK);
    CHECK(weft_copy(context, lse, buffers[2], sizeof lse, NULL) == WEFT_OK);
    CHECK(weft_stream_synchronize(context, NULL) == WEFT_OK);
    for (int i = 0; i < p.each[SEQS] * HEADS * DIM; i++)
        CHECK(fabsf(out[i] - want[i]) <= 8e-3f);
    for (int i = 0; i < p.each[SEQS] * HEADS; i++)
        CHECK(fabsf(lse[i] - want_lse[i]) <= 1e-4f);
    expect_sets();
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        weft_memory_free(context, buffers[i]);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

int main(void)
{
    static const struct standin_case cases[] = {{"prompts", case_prompts}};
    return standin_run(cases, sizeof cases / sizeof *cases);
}
