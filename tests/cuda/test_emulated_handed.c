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
                            int32_t max_kv_len, weft_plan *const *plans, int32_t num_plans)
{
    weft_batch *batch = NULL;
    const weft_batch_desc desc = {.size = sizeof desc,
                                  .max_seqs = seqs,
                                  .max_q_tokens = seqs,
                                  .max_kv_len = max_kv_len,
                                  .page_size = page_size,
                                  .plans = (const weft_plan *const *)plans,
                                  .num_plans = num_plans};
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
    weft_batch *batch = batch_of(context, seqs, PAGE_SIZE, 512, &plan, 1);
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
    weft_batch *batch = batch_of(context, 1, PAGE_SIZE, max_kv_len, plans, 1);
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
    weft_batch *batch = batch_of(context, SEQS, page_size, 3072, plans, 1);
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

// Runs of two files of four blocks.
enum {
    FILLED_SEQS = 40,
    FILLED_HEADS = 2,
    FILLED_TABLE = 512,
    FILLED_BLOCKS = 8,
    FILLED_COUNT = FILLED_SEQS * FILLED_HEADS * HEADS * DIM,
};

struct filled {
    weft_context *context;
    weft_plan *plans[3]; // the second of whole items
    weft_batch *batch;
    weft_attention_args args;
    int32_t cu[FILLED_SEQS + 1], table[FILLED_SEQS * FILLED_TABLE];
};

static struct filled filled_begin(void)
{
    struct filled f = {.context = NULL};
    setenv("STANDIN_SMS", "4", 1);
    f.context = must_open();
    for (int32_t i = 0; i < 3; i++)
        f.plans[i] = plan_of(f.context, FILLED_SEQS, FILLED_HEADS, PAGE_SIZE, 8192, i % 2, NULL);
    f.batch = batch_of(f.context, FILLED_SEQS, PAGE_SIZE, 8192, f.plans, 3);
    for (int32_t i = 0; i <= FILLED_SEQS; i++)
        f.cu[i] = i;
    for (int32_t i = 0; i < FILLED_SEQS * FILLED_TABLE; i++)
        f.table[i] = i * 5 % FILLED_TABLE;
    const int64_t elems = (int64_t)FILLED_TABLE * PAGE_SIZE * FILLED_HEADS * DIM;
    const weft_kv_pool pool = {.k.data = f16_numbers(f.context, elems, 2),
                               .v.data = f16_numbers(f.context, elems, 3),
                               .num_pages = FILLED_TABLE};
    f.args = args_of(f.context, &pool, FILLED_COUNT, f.cu, FILLED_SEQS, f.table,
                     FILLED_SEQS * FILLED_TABLE, FILLED_TABLE);
    return f;
}

static void filled_end(const struct filled *f)
{
    weft_plan_destroy(f->plans[2]);
    end(f->context, f->plans, f->batch);
}

// Shares of whole short items are filled up with tiles of long ones: of one, which all blocks have a part of, of two, and of three, the last of
// which begins where it does.
static void case_filled(void)
{
    static const int32_t kept[] = {2, 4, 6}; // in either file a long item each
    static int32_t lens[3][FILLED_SEQS];
    for (int32_t i = 0; i < FILLED_SEQS; i++) {
        lens[0][i] = i == 3 ? 7800 : i < 12 ? 100 + 13 * i : 1;
        lens[1][i] = i == 0 ? 4100 : i == 37 ? 8192 : i % 3 == 0 ? 90 : 17;
        lens[2][i] = i == 5 || i == 6 || i == 39 ? 3500 + 300 * i % 1000 : 4 * i + 1;
    }
    struct filled f = filled_begin();
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        const struct round round = {f.cu, lens[i], f.table, FILLED_TABLE, FILLED_TABLE};
        both_ways(f.context, f.plans, "weft_attention_decode", f.batch, &f.args, &round,
                  FILLED_BLOCKS, FILLED_COUNT, false);
        CHECK(keepers(f.args.workspace, PLACE_FLOATS, FILLED_BLOCKS) == kept[i]);
    }
    filled_end(&f);
}

// Runs a plan with the batch; returns what the run saw. Results are those of `want`, or not.
static const struct weft__attention_device_args *
kept_run(const struct filled *f, const weft_plan *plan, const float *want, float *out, bool right)
{
    weft_attention_args own = f->args;
    float most = 0;
    own.batch = f->batch, own.out = out, own.num_seqs = 0;
    own.cu_q_lens = own.page_table = NULL, own.page_table_stride = 0;
    const struct weft__attention_device_args *seen = run(plan, &own, "weft_attention_decode");
    CHECK(seen->division && seen->step);
    for (int32_t i = 0; i < FILLED_COUNT; i++)
        most = fmaxf(most, fabsf(out[i] - want[i]));
    CHECK((most <= 2e-4f) == right);
    return seen;
}

// What a plan of whole items says of sequences of `lens` keys, which the batch has now; then the batch, its shares found, kept, and another plan's.
static void kept_step(const struct filled *f, const int32_t *lens, float *const out[3])
{
    enum { KV_HEAD_WORD = 12 }; // of a block's place in its line
    const size_t bytes = FILLED_SEQS * sizeof *lens;
    weft_attention_args lists = f->args;
    lists.kv_lens = device_memory(f->context, lens, bytes, bytes);
    lists.out = out[2];
    run(f->plans[1], &lists, "weft_attention_decode");
    const struct weft__attention_device_args *seen = kept_run(f, f->plans[0], out[2], out[0], true);
    uint64_t *const line = seen->lines;
    const uint64_t found = line[KV_HEAD_WORD];
    line[KV_HEAD_WORD] ^= 1; // it is the line that a run goes by
    kept_run(f, f->plans[0], out[2], out[1], false);
    CHECK(line[KV_HEAD_WORD] == (found ^ 1));
    kept_run(f, f->plans[2], out[2], out[1], true);
    CHECK(line[KV_HEAD_WORD] >> 32 != found >> 32);
    kept_run(f, f->plans[0], out[2], out[1], true);
    CHECK(line[KV_HEAD_WORD] == found && memcmp(out[0], out[1], FILLED_COUNT * 4) == 0);
    line[KV_HEAD_WORD] ^= 1ull << 32 | 1; // a word of another turn: it is none
    kept_run(f, f->plans[0], out[2], out[1], true);
    CHECK(line[KV_HEAD_WORD] == found && memcmp(out[0], out[1], FILLED_COUNT * 4) == 0);
}

// Shares that a step's first run has found serve those after it, until lengths are others; another plan's do not.
static void case_kept(void)
{
    static int32_t lens[FILLED_SEQS], more[FILLED_SEQS];
    struct filled f = filled_begin();
    float *out[3];
    for (int i = 0; i < 3; i++)
        out[i] = device_memory(f.context, "", 1, FILLED_COUNT * sizeof(float));
    for (int32_t i = 0; i < FILLED_SEQS; i++) { // with a key more, many have a tile more
        lens[i] = i == 3 ? 4096 : i < 12 ? 32 + 16 * i : 1 + i % 2 * 15;
        more[i] = lens[i] + 1;
    }
    const weft_batch_args set = {.size = sizeof set,
                                 .num_seqs = FILLED_SEQS,
                                 .cu_q_lens = f.cu,
                                 .kv_lens = lens,
                                 .kv_capacities = more,
                                 .page_table = f.table,
                                 .page_table_stride = FILLED_TABLE,
                                 .num_pages = FILLED_TABLE};
    CHECK(weft_batch_set(f.batch, &set) == WEFT_OK);
    kept_step(&f, lens, out);
    CHECK(weft_batch_advance(f.batch, NULL) == WEFT_OK);
    kept_step(&f, more, out);
    const int32_t first = lens[3]; // another sequence is the long one
    lens[3] = lens[30], lens[30] = first, more[3] = more[30], more[30] = first + 1;
    CHECK(weft_batch_set(f.batch, &set) == WEFT_OK);
    kept_step(&f, lens, out);
    filled_end(&f);
}

static const struct standin_case cases[] = {{"abreast", case_abreast},   {"filled", case_filled},
                                            {"kept", case_kept},         {"places", case_places},
                                            {"clusters", case_clusters}, {"whole", case_whole}};

int main(void)
{
    return standin_run(cases, sizeof cases / sizeof *cases);
}
