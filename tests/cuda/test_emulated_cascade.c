// SPDX-License-Identifier: MIT
// The cascade on the emulator: a long prefix of a few rows of queries is prefill in slices of its keys, whose
// states are merged, and comes to what the CPU makes of prefix and own keys in one list.
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "src/kernels/attention/attention_device.h"
#include "tests/support/standin/standin_case.h"

enum {
    SEQS = 16,
    HEADS = 8,
    KV_HEADS = 2,
    DIM = 64,
    PAGE = 16,
    PREFIX = 72 * PAGE, // nine tiles of 128 keys: slices of two, and one of one
    OWN_PAGES = 2,
    PAGES = PREFIX / PAGE + SEQS * OWN_PAGES,
    ROW_PAGES = PREFIX / PAGE + OWN_PAGES,
    CACHE = PAGES * PAGE * KV_HEADS * DIM,
    QUERIES = SEQS * HEADS * DIM,
};

struct problem {
    uint16_t k[CACHE], v[CACHE], q[QUERIES];
    float wide_q[QUERIES]; // the same
    weft_dtype q_dtype;
    int32_t whole_table[SEQS][ROW_PAGES], own_table[SEQS][OWN_PAGES];
    int32_t each[SEQS + 1], whole_lens[SEQS], own_lens[SEQS];
};

static void fill(struct problem *p)
{
    uint16_t *const arrays[] = {p->k, p->v, p->q};
    const size_t counts[] = {CACHE, CACHE, QUERIES};
    uint32_t state = 7;
    for (int n = 0; n < 3; n++)
        for (size_t i = 0; i < counts[n]; i++) {
            state = state * 1664525u + 1013904223u;
            const float x = (float)(int32_t)state * 0x1p-31f;
            uint32_t bits;
            memcpy(&bits, &x, 4);
            arrays[n][i] = (uint16_t)(bits >> 16);
        }
    CHECK(weft_dequantize_row(WEFT_BF16, p->q, QUERIES, p->wide_q) == WEFT_OK);
    for (int32_t s = 0; s < SEQS; s++) {
        p->each[s + 1] = s + 1;
        p->own_lens[s] = 1 + s * 2, p->whole_lens[s] = PREFIX + p->own_lens[s];
        for (int32_t i = 0; i < ROW_PAGES; i++)
            p->whole_table[s][i] =
                i < PREFIX / PAGE ? i : s * OWN_PAGES + i; // own pages behind the prefix
        memcpy(p->own_table[s], p->whole_table[s] + PREFIX / PAGE, sizeof p->own_table[s]);
    }
}

static weft_attention_desc desc_of(const struct problem *p, int32_t max_kv_len)
{
    return (weft_attention_desc){
        .size = sizeof(weft_attention_desc),
        .kv = {.dtype = WEFT_BF16, .num_kv_heads = KV_HEADS, .head_dim = DIM, .page_size = PAGE},
        .q_dtype = p->q_dtype,
        .num_q_heads = HEADS,
        .scale = 0.5f,
        .max_seqs = SEQS,
        .max_kv_len = max_kv_len};
}

static void attend_on_cpu(struct problem *p, float *out, float *lse)
{
    const weft_context_desc cpu = {.size = sizeof cpu};
    const weft_attention_desc desc = desc_of(p, PREFIX + OWN_PAGES * PAGE);
    weft_context *context;
    weft_plan *plan;
    CHECK(weft_context_create(&cpu, &context) == WEFT_OK);
    CHECK(weft_attention_plan(context, &desc, &plan) == WEFT_OK);
    const size_t bytes = weft_plan_workspace_bytes(plan);
    const weft_attention_args args = {
        .size = sizeof args,
        .num_seqs = SEQS,
        .q = p->q_dtype == WEFT_BF16 ? (const void *)p->q : p->wide_q,
        .out = out,
        .lse = lse,
        .pool = {.k = {.data = p->k}, .v = {.data = p->v}, .num_pages = PAGES},
        .cu_q_lens = p->each,
        .kv_lens = p->whole_lens,
        .page_table = p->whole_table[0],
        .page_table_stride = ROW_PAGES,
        .workspace = aligned_alloc(64, bytes / 64 * 64 + 64),
        .workspace_bytes = bytes};
    CHECK(weft_attention_run(plan, &args) == WEFT_OK);
    free(args.workspace);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

static weft_batch *batch_of(weft_context *context, const weft_cascade *cascade, int32_t level,
                            const struct problem *p)
{
    const weft_plan *const plan = weft_cascade_plan_of(cascade, level);
    const int32_t prefix_cu[] = {0, SEQS}, prefix_len = PREFIX;
    const weft_batch_desc desc = {.size = sizeof desc,
                                  .max_seqs = level ? SEQS : 1,
                                  .max_q_tokens = SEQS,
                                  .max_kv_len = level ? OWN_PAGES * PAGE : PREFIX,
                                  .page_size = PAGE,
                                  .max_pages = PAGES,
                                  .plans = &plan,
                                  .num_plans = 1};
    const weft_batch_args args = {.size = sizeof args,
                                  .num_seqs = level ? SEQS : 1,
                                  .cu_q_lens = level ? p->each : prefix_cu,
                                  .kv_lens = level ? p->own_lens : &prefix_len,
                                  .page_table = level ? p->own_table[0] : p->whole_table[0],
                                  .page_table_stride = level ? OWN_PAGES : ROW_PAGES,
                                  .num_pages = PAGES};
    weft_batch *batch;
    CHECK(weft_batch_create(context, &desc, &batch) == WEFT_OK);
    CHECK(weft_batch_set(batch, &args) == WEFT_OK);
    return batch;
}

// The launch of prefill has all blocks, and says that items may be sliced.
static void expect_slices(const char *function, int32_t blocks)
{
    const struct standin_launch *prefill = NULL;
    for (int i = 0; i < standin->num_launches && !prefill; i++)
        if (strcmp(standin->launches[i].function, function) == 0)
            prefill = &standin->launches[i];
    CHECK(prefill);
    const struct weft__attention_device_args *args = (const void *)prefill->args;
    CHECK(args->slice_blocks == blocks && prefill->grid[0] == (uint32_t)blocks);
}

static void expect_cascade(weft_dtype q_dtype, const char *function, int32_t blocks)
{
    static struct problem p;
    static float whole[QUERIES], out[QUERIES], lse[SEQS * HEADS], out_lse[SEQS * HEADS];
    fill(&p);
    p.q_dtype = q_dtype;
    attend_on_cpu(&p, whole, lse);
    weft_context *context = must_open();
    const weft_attention_desc own = desc_of(&p, OWN_PAGES * PAGE);
    const weft_cascade_desc desc = {
        .size = sizeof desc, .max_prefix_len = PREFIX, .attention = &own};
    weft_cascade *cascade;
    CHECK(weft_cascade_create(context, &desc, &cascade) == WEFT_OK);
    weft_batch *const prefix = batch_of(context, cascade, 0, &p), *const own_batch = batch_of(
                                                                      context, cascade, 1, &p);
    const size_t bytes = weft_cascade_workspace_bytes(cascade);
    void *const buffers[] = {q_dtype == WEFT_BF16 ? on_device(context, p.q, sizeof p.q)
                                                  : on_device(context, p.wide_q, sizeof p.wide_q),
                             on_device(context, NULL, sizeof out),
                             on_device(context, NULL, sizeof lse),
                             on_device(context, NULL, bytes),
                             on_device(context, p.k, sizeof p.k),
                             on_device(context, p.v, sizeof p.v)};
    const weft_attention_args args = {
        .size = sizeof args,
        .q = buffers[0],
        .out = buffers[1],
        .lse = buffers[2],
        .pool = {.k = {.data = buffers[4]}, .v = {.data = buffers[5]}, .num_pages = PAGES},
        .batch = own_batch,
        .workspace = buffers[3],
        .workspace_bytes = bytes};
    const weft_cascade_args cascaded = {
        .size = sizeof cascaded, .attention = &args, .prefix_batch = prefix};
    for (int again = 0; again < 2; again++) { // counters are 0 again
        CHECK(weft_cascade_run(cascade, &cascaded) == WEFT_OK);
        CHECK(weft_copy(context, out, buffers[1], sizeof out, NULL) == WEFT_OK);
        CHECK(weft_copy(context, out_lse, buffers[2], sizeof lse, NULL) == WEFT_OK);
        CHECK(weft_stream_synchronize(context, NULL) == WEFT_OK);
        for (int i = 0; i < QUERIES; i++)
            CHECK(fabsf(out[i] - whole[i]) <= 2e-3f);
        for (int i = 0; i < SEQS * HEADS; i++)
            CHECK(fabsf(out_lse[i] - lse[i]) <= 1e-4f);
    }
    expect_slices(function, blocks);
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        weft_memory_free(context, buffers[i]);
    weft_batch_destroy(prefix);
    weft_batch_destroy(own_batch);
    weft_cascade_destroy(cascade);
    weft_context_destroy(context);
}

static void case_warpgroups(void)
{
    expect_cascade(WEFT_BF16, "weft_attention_prefill_wgmma", 132);
}

static void case_warps(void)
{
    expect_cascade(WEFT_F32, "weft_attention_prefill", 264);
}

int main(void)
{
    static const struct standin_case cases[] = {{"warpgroups", case_warpgroups},
                                                {"warps", case_warps}};
    return standin_run(cases, sizeof cases / sizeof *cases);
}
