// SPDX-License-Identifier: MIT
// What blocks of attention hand on to one another in a batch's memory (attention_handed.cuh), with kernels that run on the emulator: after
// every run all bits are set again, and results are those of places that a launch has just filled.
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weft/attention.h>
#include <weft/batch.h>
#include <weft/device.h>

#include "src/kernels/attention/attention_device.h"
#include "tests/support/standin/standin_case.h"

enum {
    HEADS = 4,
    DIM = 64,
    PAGE_SIZE = 16,
    PAGES = 96,
    SEQS = 3, // at most
    BLOCKS = 2 * 132,
    PLACE_FLOATS = WEFT__ATTENTION_ROWS * (DIM + 2),
    ROOM = 16 << 20, // of workspace
};

static uint16_t *f16_numbers(weft_context *context, int64_t count, uint32_t seed)
{
    uint16_t *to = NULL;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, (size_t)count * 2, (void **)&to) ==
          WEFT_OK);
    for (int64_t i = 0; i < count; i++) { // of either sign, 0.25 to 1
        seed = seed * 1664525u + 1013904223u;
        to[i] = (uint16_t)((seed >> 16 & 0x8000) | (0x3400 + (seed >> 12 & 0x7ff)));
    }
    return to;
}

static void *device_memory(weft_context *context, const void *from, size_t bytes, size_t room)
{
    char *to = NULL;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, room, (void **)&to) == WEFT_OK);
    memcpy(memset(to, 0, room), from, bytes);
    return to;
}

static void end(weft_context *context, weft_plan *const plans[2], weft_batch *batch)
{
    weft_batch_destroy(batch);
    weft_plan_destroy(plans[0]);
    weft_plan_destroy(plans[1]);
    weft_context_destroy(context);
}

// Arguments over `pool`, with `count` numbers of queries, and a table of `entries` pages, `stride` a sequence.
static weft_attention_args args_of(weft_context *context, const weft_kv_pool *pool, int32_t count,
                                   const int32_t *cu, int32_t num_seqs, const int32_t *table,
                                   int32_t entries, int32_t stride)
{
    const size_t cu_bytes = (size_t)(num_seqs + 1) * sizeof *cu;
    const size_t table_bytes = (size_t)entries * sizeof *table;
    return (weft_attention_args){.size = sizeof(weft_attention_args),
                                 .q = f16_numbers(context, count, 1),
                                 .pool = *pool,
                                 .workspace = device_memory(context, "", 1, ROOM),
                                 .workspace_bytes = ROOM,
                                 .num_seqs = num_seqs,
                                 .cu_q_lens = device_memory(context, cu, cu_bytes, cu_bytes),
                                 .page_table =
                                     device_memory(context, table, table_bytes, table_bytes),
                                 .page_table_stride = stride};
}

// The arguments of the run's last launch, which is of `kernel`.
static const struct weft__attention_device_args *
run(const weft_plan *plan, const weft_attention_args *args, const char *kernel)
{
    CHECK(weft_attention_run(plan, args) == WEFT_OK);
    const struct standin_launch *last = &standin->launches[standin->num_launches - 1];
    CHECK_TEXT(last->function, kernel);
    return (const void *)last->args;
}

static weft_plan *plan_of(weft_context *context, int32_t seqs, int32_t kv_heads, int32_t page_size,
                          int32_t max_kv_len, int32_t num_splits, const char *variant)
{
    weft_plan *plan = NULL;
    const weft_attention_desc desc = {.size = sizeof desc,
                                      .kv = {.dtype = WEFT_F16,
                                             .num_kv_heads = kv_heads,
                                             .head_dim = DIM,
                                             .page_size = page_size},
                                      .q_dtype = WEFT_F16,
                                      .num_q_heads = kv_heads * HEADS,
                                      .max_seqs = seqs,
                                      .max_q_tokens = seqs,
                                      .max_kv_len = max_kv_len,
                                      .num_splits = num_splits,
                                      .variant = variant};
    CHECK(weft_attention_plan(context, &desc, &plan) == WEFT_OK);
    CHECK(weft_plan_workspace_bytes(plan) <= ROOM);
    return plan;
}

static weft_batch *batch_of(weft_context *context, int32_t seqs, int32_t page_size,
                            int32_t max_kv_len, const weft_plan *plan)
{
    weft_batch *batch = NULL;
    const weft_batch_desc desc = {.size = sizeof desc,
                                  .max_seqs = seqs,
                                  .max_q_tokens = seqs,
                                  .max_kv_len = max_kv_len,
                                  .page_size = page_size,
                                  .plans = &plan,
                                  .num_plans = 1};
    CHECK(weft_batch_create(context, &desc, &batch) == WEFT_OK);
    return batch;
}

// Places where blocks hand states on are as they were: empty.
static void expect_empty(const struct weft__attention_device_args *seen, int32_t blocks)
{
    const uint32_t *handed = (const void *)seen->handed;
    for (int64_t i = 0; i < (int64_t)blocks * WEFT__ATTENTION_HANDED_FLOATS; i++)
        CHECK(handed[i] == UINT32_MAX);
}

// Blocks of the run that kept states of items that began before them.
static int32_t keepers(const uint32_t *places, int32_t place_floats, int32_t blocks)
{
    int32_t count = 0;
    for (int32_t b = 0; b < blocks; b++) {
        bool taken = false;
        for (int32_t i = 0; i < place_floats; i++)
            taken |= places[b * place_floats + i] != 0;
        count += taken;
    }
    return count;
}

// Runs one after the other, of `seqs` sequences of lens[]; in the first `shared` of them blocks share items.
static void places_of(int32_t seqs, int32_t blocks, const int32_t lens[2][SEQS], int shared)
{
    static const int32_t cu[] = {0, 1, 2, 3};
    enum { ELEMS = PAGES * PAGE_SIZE * DIM, COUNT = SEQS * HEADS * DIM };
    weft_context *context = must_open();
    weft_plan *plan = plan_of(context, seqs, 1, PAGE_SIZE, 512, 0, NULL);
    weft_batch *batch = batch_of(context, seqs, PAGE_SIZE, 512, plan);
    int32_t table[PAGES];
    for (int32_t i = 0; i < PAGES; i++)
        table[i] = i * 5 % PAGES;
    weft_attention_args args = {.size = sizeof args,
                                .q = f16_numbers(context, COUNT, 1),
                                .pool = {.k.data = f16_numbers(context, ELEMS, 2),
                                         .v.data = f16_numbers(context, ELEMS, 3),
                                         .num_pages = PAGES},
                                .workspace = device_memory(context, "", 1, ROOM),
                                .workspace_bytes = ROOM};
    float *out[2];
    for (int i = 0; i < 2; i++)
        out[i] = device_memory(context, "", 1, COUNT * sizeof(float));
    for (int round = 0; round < 2; round++) {
        const weft_batch_args set = {.size = sizeof set,
                                     .num_seqs = seqs,
                                     .cu_q_lens = cu,
                                     .kv_lens = lens[round],
                                     .page_table = table,
                                     .page_table_stride = PAGES / SEQS,
                                     .num_pages = PAGES};
        weft_attention_args own = args, lists = args;
        own.batch = batch, own.out = out[0];
        CHECK(weft_batch_set(batch, &set) == WEFT_OK);
        memset(args.workspace, 0, ROOM);
        expect_empty(run(plan, &own, "weft_attention_decode"), blocks);
        CHECK((keepers(args.workspace, PLACE_FLOATS, blocks) > 0) == (round < shared));
        lists.num_seqs = seqs, lists.out = out[1];
        lists.cu_q_lens = device_memory(context, cu, sizeof cu, sizeof cu);
        lists.kv_lens = device_memory(context, lens[round], sizeof lens[round], 64);
        lists.page_table = device_memory(context, table, sizeof table, sizeof table);
        lists.page_table_stride = PAGES / SEQS;
        run(plan, &lists, "weft_attention_decode");
        CHECK(memcmp(out[0], out[1], COUNT * sizeof(float)) == 0);
        CHECK(out[0][0] != 0);
    }
    weft_batch_destroy(batch);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

static void case_places(void)
{
    static const int32_t lens[2][SEQS] = {{300, 70}, {33, 500}};
    places_of(2, BLOCKS, lens, 2);
}

// Where there are blocks enough, and no item is much more than an equal share, blocks have items of their own.
static void case_whole(void)
{
    static const int32_t lens[2][SEQS] = {{512, 16, 16}, {500, 400, 450}};
    setenv("STANDIN_SMS", "2", 1);
    places_of(3, 2 * 2, lens, 1);
}

// Lengths and pages of a run, of the host's memory.
struct round {
    const int32_t *cu_q_lens, *kv_lens, *table;
    int32_t table_stride, num_pages;
};

// Results of plans[0], whose kernel is `kernel`, are those of plans[1], whole items, within what f16 weights differ by; the same to the bit
// with a batch and without; the batch's places are as they were. args: all but the lengths and results.
static void both_ways(weft_context *context, weft_plan *const plans[2], const char *kernel,
                      weft_batch *batch, const weft_attention_args *args, const struct round *round,
                      int32_t places, int32_t count, bool alike)
{
    const int32_t seqs = args->num_seqs;
    const size_t bytes = (size_t)count * sizeof(float), lens = (size_t)seqs * sizeof(int32_t);
    weft_attention_args lists = *args, own = *args;
    float *out[3];
    for (int i = 0; i < 3; i++)
        out[i] = device_memory(context, "", 1, bytes);
    lists.kv_lens = device_memory(context, round->kv_lens, lens, lens);
    lists.out = out[0];
    run(plans[0], &lists, kernel);
    lists.out = out[1];
    run(plans[1], &lists, "weft_attention_decode");
    const weft_batch_args set = {.size = sizeof set,
                                 .num_seqs = seqs,
                                 .cu_q_lens = round->cu_q_lens,
                                 .kv_lens = round->kv_lens,
                                 .page_table = round->table,
                                 .page_table_stride = round->table_stride,
                                 .num_pages = round->num_pages};
    CHECK(weft_batch_set(batch, &set) == WEFT_OK);
    own.batch = batch, own.out = out[2], own.num_seqs = 0;
    own.cu_q_lens = own.page_table = NULL;
    own.page_table_stride = 0;
    expect_empty(run(plans[0], &own, kernel), places);
    CHECK((memcmp(out[0], out[2], bytes) == 0) == alike);
    for (int32_t i = 0; i < count; i++)
        CHECK(fabsf(out[2][i] - out[1][i]) <= 2e-4f && fabsf(out[0][i] - out[1][i]) <= 2e-4f);
    own.out = out[1];
    memset(args->workspace, 0, ROOM);
    run(plans[0], &own, kernel);
    CHECK(memcmp(out[1], out[2], bytes) == 0);
    CHECK(out[0][0] != 0);
}

// Clusters, at every length.
static void case_clusters_of(int32_t kv_heads, int32_t max_kv_len, int32_t blocks,
                             const int32_t *lens, size_t num_lens)
{
    static const int32_t cu[] = {0, 1};
    enum { TABLE = 768, MOST = TABLE * PAGE_SIZE };
    const int32_t elems = MOST * kv_heads * DIM, count = kv_heads * HEADS * DIM;
    weft_context *context = must_open();
    weft_plan *plans[2] = {plan_of(context, 1, kv_heads, PAGE_SIZE, max_kv_len, 0, NULL),
                           plan_of(context, 1, kv_heads, PAGE_SIZE, max_kv_len, 1, NULL)};
    weft_batch *batch = batch_of(context, 1, PAGE_SIZE, max_kv_len, plans[0]);
    int32_t table[TABLE];
    for (int32_t i = 0; i < TABLE; i++)
        table[i] = i * 5 % TABLE;
    const weft_kv_pool pool = {.k.data = f16_numbers(context, elems, 2),
                               .v.data = f16_numbers(context, elems, 3),
                               .num_pages = TABLE};
    weft_attention_args args = args_of(context, &pool, count, cu, 1, table, TABLE, TABLE);
    for (size_t i = 0; i < num_lens; i++) {
        const struct round round = {cu, &lens[i], table, TABLE, TABLE};
        both_ways(context, plans, "weft_attention_cluster", batch, &args, &round, BLOCKS, count,
                  true);
        const struct standin_launch *last = &standin->launches[standin->num_launches - 1];
        CHECK(last->grid[0] == (uint32_t)(132 / (kv_heads * blocks) * kv_heads * blocks));
    }
    end(context, plans, batch);
}

static void case_clusters(void)
{
    // Of many keys, blocks that merge have 48 tiles less than others: of 14 and two a KV head they have three and one of 718. Twelve warps a block.
    static const int32_t few[] = {1, 97, 2500, 4096}, many[] = {15, 1000, 8000},
                         merging[] = {11488};
    case_clusters_of(2, 4096, 4, few, sizeof few / sizeof *few);
    case_clusters_of(2, 8192, 2, many, sizeof many / sizeof *many);
    case_clusters_of(8, 12288, 2, merging, sizeof merging / sizeof *merging);
}

// A plane whose KV heads lie side by side.
static weft_kv_plane whole_tokens(weft_context *context, int32_t kv_heads, int32_t page_size,
                                  int64_t elems, uint32_t seed)
{
    return (weft_kv_plane){.data = f16_numbers(context, elems, seed),
                           .page_stride = (int64_t)page_size * kv_heads * DIM,
                           .head_stride = DIM,
                           .token_stride = (int64_t)kv_heads * DIM};
}

// Blocks that read whole tokens. Of 20, the first sequence has parts in 14, of which the eighth merges eight.
static void abreast_of(int32_t page_size)
{
    static const int32_t cu[] = {0, 1, 2, 3}, lens[][SEQS] = {{2100, 33, 700}, {16, 1, 3000}};
    enum { KV_HEADS = 8, MOST = SEQS * 3072, ELEMS = MOST * KV_HEADS * DIM };
    enum { COUNT = SEQS * KV_HEADS * HEADS * DIM };
    const int32_t pages = MOST / page_size / SEQS * SEQS;
    setenv("STANDIN_SMS", "20", 1);
    weft_context *context = must_open();
    weft_plan *plans[2] = {
        plan_of(context, SEQS, KV_HEADS, page_size, 3072, 0, "attention_f16_sm90a"),
        plan_of(context, SEQS, KV_HEADS, page_size, 3072, 1, NULL)};
    weft_batch *batch = batch_of(context, SEQS, page_size, 3072, plans[0]);
    static int32_t table[MOST];
    for (int32_t i = 0; i < pages; i++)
        table[i] = i * 5 % pages;
    const weft_kv_pool pool = {.k = whole_tokens(context, KV_HEADS, page_size, ELEMS, 2),
                               .v = whole_tokens(context, KV_HEADS, page_size, ELEMS, 3),
                               .num_pages = pages};
    weft_attention_args args = args_of(context, &pool, COUNT, cu, SEQS, table, MOST, pages / SEQS);
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        const struct round round = {cu, lens[i], table, pages / SEQS, pages};
        both_ways(context, plans, "weft_attention_abreast", batch, &args, &round, 20 * KV_HEADS,
                  COUNT, true);
    }
    end(context, plans, batch);
}

static void case_abreast(void)
{
    abreast_of(1);
    abreast_of(12);
}

// Of two files of four blocks, shares of whole short items are filled up with tiles of long ones: of one, which all blocks have a part
// of, of two, and of three, the last of which begins where it does.
static void case_filled(void)
{
    enum { MOST_SEQS = 40, KV_HEADS = 2, TABLE = 512, MOST = MOST_SEQS * TABLE };
    enum { COUNT = MOST_SEQS * KV_HEADS * HEADS * DIM };
    static const int32_t cu[MOST_SEQS + 1] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
        21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40};
    static const int32_t kept[] = {2, 4, 6}; // in either file a long item each
    static int32_t lens[3][MOST_SEQS], table[MOST];
    for (int32_t i = 0; i < MOST_SEQS; i++) {
        lens[0][i] = i == 3 ? 7800 : i < 12 ? 100 + 13 * i : 1;
        lens[1][i] = i == 0 ? 4100 : i == 37 ? 8192 : i % 3 == 0 ? 90 : 17;
        lens[2][i] = i == 5 || i == 6 || i == 39 ? 3500 + 300 * i % 1000 : 4 * i + 1;
    }
    setenv("STANDIN_SMS", "4", 1);
    weft_context *context = must_open();
    weft_plan *plans[2] = {plan_of(context, MOST_SEQS, KV_HEADS, PAGE_SIZE, 8192, 0, NULL),
                           plan_of(context, MOST_SEQS, KV_HEADS, PAGE_SIZE, 8192, 1, NULL)};
    weft_batch *batch = batch_of(context, MOST_SEQS, PAGE_SIZE, 8192, plans[0]);
    for (int32_t i = 0; i < MOST; i++)
        table[i] = i * 5 % TABLE;
    const int64_t elems = (int64_t)TABLE * PAGE_SIZE * KV_HEADS * DIM;
    const weft_kv_pool pool = {.k.data = f16_numbers(context, elems, 2),
                               .v.data = f16_numbers(context, elems, 3),
                               .num_pages = TABLE};
    weft_attention_args args = args_of(context, &pool, COUNT, cu, MOST_SEQS, table, MOST, TABLE);
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        const struct round round = {cu, lens[i], table, TABLE, TABLE};
        both_ways(context, plans, "weft_attention_decode", batch, &args, &round, 8, COUNT, false);
        CHECK(keepers(args.workspace, PLACE_FLOATS, 8) == kept[i]);
    }
    end(context, plans, batch);
}

static const struct standin_case cases[] = {{"abreast", case_abreast},
                                            {"filled", case_filled},
                                            {"places", case_places},
                                            {"clusters", case_clusters},
                                            {"whole", case_whole}};

int main(void)
{
    return standin_run(cases, sizeof cases / sizeof *cases);
}
