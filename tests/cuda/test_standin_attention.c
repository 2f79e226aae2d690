// SPDX-License-Identifier: MIT
// Attention on the stand-in driver: the grids and the workspace of every kernel.
#define _GNU_SOURCE
#include <stdlib.h>

#include "src/backend/cuda/cuda_backend.h"
#include "src/kernels/attention/attention_cuda.h"
#include "tests/support/standin/standin_attention.h"

// The kernels of one query and head: a block for each, no workspace.
static void case_single(void)
{
    weft_context *context = must_open();
    weft_attention_desc desc = standin_attention_desc(WEFT_BF16, 3);
    desc.variant = "attention_fast_bf16_sm80";
    CHECK(standin_shaped(standin_attention_run(context, &desc, "fast", 0), 3, 8, 32));
    desc.variant = "attention_parallel_bf16_sm80";
    CHECK(standin_shaped(standin_attention_run(context, &desc, "parallel", 0), 3, 8, 1024));
    desc.variant = "attention_standard_bf16_sm80";
    CHECK(standin_shaped(standin_attention_run(context, &desc, "standard", 0), 3, 8, 128));
    desc.kv.head_dim = 80;
    CHECK(standin_shaped(standin_attention_run(context, &desc, "standard", 0), 3, 8, 96));
    desc.kv.head_dim = 1024;
    CHECK(standin_shaped(standin_attention_run(context, &desc, "standard", 0), 3, 8, 1024));
    weft_plan *plan = NULL;
    desc.variant = "attention_fast_bf16_sm80"; // up to 256
    CHECK(weft_attention_plan(context, &desc, &plan) == WEFT_EVARIANT);
    weft_context_destroy(context);
    CHECK(standin->live_allocations == 0);
}

// Two blocks on each of 132 multiprocessors, two places of sixteen rows for each, one of which must be filled,
// and a counter; items that stay whole need none. Prefill: a block per KV head and 128 rows, and one more per
// sequence.
static void case_packed(void)
{
    enum { BLOCKS = 2 * 132, PLACE = 16 * (128 + 2) * 4, PLACES = 2 * BLOCKS * PLACE + 4 * BLOCKS };
    weft_context *context = must_open();
    weft_attention_desc desc = standin_attention_desc(WEFT_BF16, 2);
    desc.variant = "attention_bf16_sm80";
    const struct standin_launch *last =
        standin_attention_run(context, &desc, "begin decode", PLACES);
    CHECK(standin_shaped(last, BLOCKS, 1, 128) && last->overlaps);
    CHECK(standin_shaped(last - 1, (BLOCKS * PLACE / 4 + 255) / 256, 1, 256));
    const struct weft__attention_device_args *shares = (const void *)last->args;
    CHECK(shares->end_tiles == 12); // 96 KB by tiles of 8
    desc.num_splits = 1;
    CHECK(standin_shaped(standin_attention_run(context, &desc, "decode", 0), 3 * 2, 1, 128));
    desc.num_splits = 0, desc.flags = WEFT_ATTENTION_BATCH_INVARIANT;
    CHECK(standin_shaped(standin_attention_run(context, &desc, "decode", 0), 3 * 2, 1, 128));
    desc.max_q_tokens = 64; // sequences of few rows are decode's: an item a KV head
    last = standin_attention_run(context, &desc, "decode prefill",
                                 0); // nobody knows how many queries a recorded run has
    CHECK(standin_shaped(last, (64 * 4 / 128 + 2) * 2, 1, 128));
    CHECK(standin_shaped(last - 1, 2 * 2, 1, 128));
    const struct weft__attention_device_args *few = (const void *)last[-1].args;
    const struct weft__attention_device_args *many = (const void *)last->args;
    CHECK(few->q == many->q && few->page_table == many->page_table);
    weft_context_destroy(context);
}

// Chunks of items, where a descriptor asks for them: a block, a slot and a counter for each. An item has no more chunks
// than tiles of 16 keys.
static void case_chunks(void)
{
    enum { ITEMS = 3 * 2, SLOT = 8 * (128 + 2) * 4 };
    static const struct {
        uint32_t flags;
        int32_t splits, chunk_keys, max_kv_len;
        int32_t chunks, chunk_tiles; // 1: items stay whole
    } wants[] = {
        {0, 7, 0, 4096, 7, 0},
        {0, 1, 0, 4096, 1, 0},
        {0, 1 << 30, 0, 4096, 256, 0},
        {0, 2, 0, 16, 1, 0},
        {0, 0, 100, 4096, 37, 7}, // whole tiles: 112 keys
        {0, 0, 4096, 4096, 1, 0},
        {WEFT_ATTENTION_BATCH_INVARIANT, 0, 0, 4096, 8, 32}, // 512 keys
        {WEFT_ATTENTION_BATCH_INVARIANT, 0, 0, 131072, 16, 512},
        {WEFT_ATTENTION_BATCH_INVARIANT, 0, 512, 131072, 256, 32},
        {WEFT_ATTENTION_BATCH_INVARIANT, 1, 0, 131072, 1, 0},
    };
    weft_context *context = must_open();
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        weft_attention_desc desc = standin_attention_desc(WEFT_BF16, 2);
        desc.flags = wants[i].flags, desc.max_kv_len = wants[i].max_kv_len;
        desc.num_splits = wants[i].splits, desc.chunk_keys = wants[i].chunk_keys;
        const int32_t blocks = ITEMS * wants[i].chunks;
        const bool whole = wants[i].chunks == 1;
        const size_t slots = ((size_t)blocks * SLOT + 255) / 256 * 256;
        const struct standin_launch *last =
            standin_attention_run(context, &desc, whole ? "decode" : "begin decode",
                                  whole ? 0 : slots + (size_t)blocks * sizeof(uint32_t));
        const struct weft__attention_device_args *args = (const void *)last->args;
        CHECK(standin_shaped(last, (uint32_t)blocks, 1, 128));
        CHECK(args->splits == (wants[i].chunk_tiles ? 0 : wants[i].chunks));
        CHECK(args->chunk_tiles == wants[i].chunk_tiles);
    }
    weft_context_destroy(context);
}

// Rows of a tile: 16 are decode's whatever the queries, then a block of 64 or 128; one that is not there is none.
static void case_tile_rows(void)
{
    static const struct {
        int32_t tile_rows, rows; // 16: decode alone
    } wants[] = {{0, 128}, {1, 128}, {16, 16}, {17, 64}, {64, 64}, {65, 128}, {200, 128}};
    weft_context *context = must_open();
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        weft_attention_desc desc = standin_attention_desc(WEFT_BF16, 64);
        desc.num_splits = 1, desc.tile_rows = wants[i].tile_rows;
        desc.variant = "attention_bf16_sm80";
        const uint32_t blocks = (uint32_t)(64 * 4 / wants[i].rows + 2) * 2;
        const char *names = wants[i].rows == 16 ? "decode" : "decode prefill";
        CHECK(standin_shaped(standin_attention_run(context, &desc, names, 0), blocks, 1, 128));
    }
    weft_context_destroy(context);
}

// A run of one sequence whose rows are one tile: chunks of every KV head instead of shares, where all of them fit.
static void case_one_sequence(void)
{
    static const struct weft__cuda_limits h200 = {90, 132, 232448, 233472, 65536, 2048, 60 << 20};
    static const struct {
        int32_t q_heads, kv_heads, max_q_tokens, num_seqs, splits;
    } wants[] = {{8, 2, 1, 1, 132},   {32, 8, 1, 1, 33},   {32, 8, 4, 1, 33},
                 {32, 8, 5, 1, 0},    {32, 8, 4, 2, 0},    {264, 264, 1, 1, 1},
                 {265, 265, 1, 1, 0}, {320, 20, 1, 1, 13}, {340, 20, 1, 1, 0}};
    const struct weft__cuda_op *op = weft__cuda_op(WEFT__OP_attention);
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        weft_attention_desc desc = standin_attention_desc(WEFT_BF16, wants[i].max_q_tokens);
        desc.num_q_heads = wants[i].q_heads, desc.kv.num_kv_heads = wants[i].kv_heads;
        desc.out_dtype = WEFT_F32, desc.scale = 1, desc.max_seqs = wants[i].max_q_tokens;
        desc.max_kv_len = 8192;
        struct weft__cuda_choice choice = {.launch = calloc(1, op->launch_bytes + 64)};
        struct weft__attention_args run = {.base = {.num_seqs = wants[i].num_seqs}};
        static struct weft__cuda_step steps[WEFT__CUDA_MAX_STEPS];
        CHECK(op->plan(&desc, &h200, &choice) == WEFT_OK);
        CHECK(op->steps(choice.launch, &run, steps) == 2);
        const struct weft__attention_device_args *args = (const void *)steps[1].args;
        CHECK(args->splits == wants[i].splits && args->min_share == 4);
        CHECK(steps[1].grid[0] ==
              (uint32_t)(wants[i].splits ? wants[i].splits * wants[i].kv_heads : 264));
        free(choice.launch);
    }
}

// With few keys a cluster of 16 blocks has a KV head, and that is all there is to launch, where so many blocks fit.
static void case_cluster(void)
{
    static const struct weft__cuda_limits h200 = {90, 132, 232448, 233472, 65536, 2048, 60 << 20},
                                          a100 = {80, 108, 166912, 167936, 65536, 2048, 40 << 20};
    static const struct {
        const struct weft__cuda_limits *limits;
        int32_t kv_heads, max_kv_len, num_seqs;
        bool cluster;
    } wants[] = {{&h200, 8, 4096, 1, true},  {&h200, 2, 100, 1, true},  {&h200, 9, 4096, 1, false},
                 {&h200, 8, 4097, 1, false}, {&h200, 8, 100, 2, false}, {&a100, 2, 100, 1, false}};
    const struct weft__cuda_op *op = weft__cuda_op(WEFT__OP_attention);
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        weft_attention_desc desc = standin_attention_desc(WEFT_BF16, 1);
        desc.num_q_heads = 4 * wants[i].kv_heads, desc.kv.num_kv_heads = wants[i].kv_heads;
        desc.out_dtype = WEFT_F32, desc.scale = 1, desc.max_seqs = 2, desc.max_q_tokens = 2;
        desc.max_kv_len = wants[i].max_kv_len;
        struct weft__cuda_choice choice = {.launch = calloc(1, op->launch_bytes + 64)};
        struct weft__attention_args run = {.base = {.num_seqs = wants[i].num_seqs}};
        static struct weft__cuda_step steps[WEFT__CUDA_MAX_STEPS];
        CHECK(op->plan(&desc, wants[i].limits, &choice) == WEFT_OK);
        CHECK(op->steps(choice.launch, &run, steps) == (wants[i].cluster ? 1 : 2));
        CHECK(steps[0].cluster == (wants[i].cluster ? 16 : 0));
        if (wants[i].cluster)
            CHECK(steps[0].grid[0] == (uint32_t)(16 * wants[i].kv_heads) &&
                  steps[0].block[0] == 128);
        free(choice.launch);
    }
}

// The value of a function constant of a plan's decode kernel, -1 if there is none.
static int32_t decode_constant(const weft_attention_desc *like, const char *name)
{
    static const struct weft__cuda_limits h200 = {90, 132, 232448, 233472, 65536, 2048, 60 << 20};
    const struct weft__cuda_op *op = weft__cuda_op(WEFT__OP_attention);
    weft_attention_desc desc = *like; // as the library settles it
    desc.out_dtype = WEFT_F32, desc.scale = 1;
    struct weft__cuda_choice choice = {.launch = calloc(1, op->launch_bytes + 64)};
    int32_t value = -1;
    CHECK(op->plan(&desc, &h200, &choice) == WEFT_OK);
    const struct weft__cuda_kernel *decode = &choice.kernels[WEFT__ATTENTION_DECODE];
    for (int32_t i = 0; i < decode->num_constants; i++)
        if (strcmp(decode->names[i], name) == 0)
            value = decode->values[i];
    free(choice.launch);
    return value;
}

// Bytes are widened in registers for the head dims that this has a layout for; queries of bf16 enter in one part.
static void case_bytes(void)
{
    static const struct {
        int32_t head_dim;
        weft_dtype q;
        int32_t codes, parts;
    } wants[] = {{64, WEFT_F32, 1, 3},   {64, WEFT_BF16, 1, 1}, {128, WEFT_F32, 1, 3},
                 {128, WEFT_BF16, 1, 1}, {128, WEFT_F16, 1, 3}, {256, WEFT_BF16, 1, 1},
                 {256, WEFT_F32, 0, 3},  {96, WEFT_BF16, 0, 1}, {80, WEFT_F32, 0, 3}};
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++)
        for (int kv = WEFT_FP8_E4M3; kv <= WEFT_INT8; kv++) {
            weft_attention_desc desc = standin_attention_desc((weft_dtype)kv, 64);
            desc.kv.head_dim = wants[i].head_dim, desc.q_dtype = wants[i].q;
            CHECK(decode_constant(&desc, "WEFT_CODES") == wants[i].codes);
            CHECK(decode_constant(&desc, "WEFT_PARTS") == wants[i].parts);
        }
    const weft_attention_desc desc = standin_attention_desc(WEFT_BF16, 64);
    CHECK(decode_constant(&desc, "WEFT_CODES") == 0);
}

// Keys and values decoded to f32, rows of 16: as decode, with slots of v_dim.
static void case_any(void)
{
    enum { BLOCKS = 2 * 132, SLOTS = 2 * BLOCKS * 16 * (64 + 2) * 4 };
    weft_context *context = must_open();
    weft_attention_desc desc = standin_attention_desc(WEFT_Q4_0, 2);
    desc.kv.v_dtype = WEFT_INT8, desc.kv.v_dim = 64;
    CHECK(standin_shaped(
        standin_attention_run(context, &desc, "begin any", SLOTS + BLOCKS * sizeof(uint32_t)),
        BLOCKS, 1, 128));
    weft_context_destroy(context);
}

// Prefill by warpgroups: two of 64 rows and one that loads, not more blocks than multiprocessors; what it does not
// serve, or does not lie at multiples of 16 bytes, is the other prefill's.
static void case_warpgroups(void)
{
    static const struct weft__cuda_limits h200 = {90, 132, 232448, 233472, 65536, 2048, 60 << 20};
    const struct weft__cuda_op *op = weft__cuda_op(WEFT__OP_attention);
    weft_context *context = must_open();
    weft_attention_desc desc = standin_attention_desc(WEFT_BF16, 64), other;
    desc.num_splits = 1, desc.variant = "attention_bf16_sm90a";
    CHECK(standin_shaped(standin_attention_run(context, &desc, "decode prefill_wgmma", 0),
                         (64 * 4 / 128 + 2) * 2, 1, 384));
    desc.max_q_tokens = 1 << 16;
    CHECK(standin_shaped(standin_attention_run(context, &desc, "decode prefill_wgmma", 0), 132, 1,
                         384));
#define OTHER(names, ...)                                                                          \
    other = desc, __VA_ARGS__, standin_attention_run(context, &other, names, 0)
    OTHER("decode prefill_wgmma", other.softcap = 30, other.window = 8, other.kv.head_dim = 64);
    OTHER("decode prefill_wgmma", other.mask = WEFT_MASK_FULL, other.kv.head_dim = 256);
    OTHER("decode prefill", other.kv.head_dim = 96);
    OTHER("decode prefill", other.q_dtype = WEFT_F32);
    OTHER("decode prefill", other.q_dtype = WEFT_F32, other.flags |= WEFT_ATTENTION_NARROW_QUERIES);
    OTHER("decode prefill", other.window = 8, other.ring_len = 70000);
    OTHER("decode prefill", other.tile_rows = 64);
    OTHER("decode", other.max_q_tokens = 2);
#undef OTHER
    desc.scale = 1, desc.out_dtype = WEFT_BF16;
    for (int i = 0; i < 2; i++) {
        struct weft__cuda_choice choice = {.launch = calloc(1, op->launch_bytes + 64)};
        struct weft__attention_args args = {
            .base = {.num_seqs = 1, .q_token_stride = 1024 + 4 * i}};
        static struct weft__cuda_step steps[WEFT__CUDA_MAX_STEPS];
        CHECK(op->plan(&desc, &h200, &choice) == WEFT_OK);
        CHECK(op->steps(choice.launch, &args, steps) == 2);
        CHECK_TEXT(choice.kernels[steps[1].kernel].function,
                   i ? "weft_attention_prefill" : "weft_attention_prefill_wgmma");
        CHECK(choice.kernels[steps[1].kernel].lazy == (i == 1));
        free(choice.launch);
    }
    weft_context_destroy(context);
}

// Blocks that few items of prefill are divided among: as many as are resident, whose slots have 128 rows an SM.
// Not of short contexts, chunks, wide heads by warpgroups, or where the workspace would be too large.
static void case_slices(void)
{
    static const struct weft__cuda_limits h200 = {90, 132, 232448, 233472, 65536, 2048, 60 << 20};
    static const struct {
        int32_t max_kv_len, head_dim, num_splits;
        weft_dtype q;
        int64_t max_workspace_bytes;
        int32_t wgmma, warps;
    } wants[] = {
        {1025, 128, 0, WEFT_BF16, 0, 132, 132},     {1024, 128, 0, WEFT_BF16, 0, 0, 0},
        {1025, 128, 2, WEFT_BF16, 0, 0, 0},         {1025, 256, 0, WEFT_BF16, 0, 0, 132},
        {1025, 128, 0, WEFT_F32, 0, 0, 264},        {1025, 64, 0, WEFT_BF16, 4 << 20, 0, 0},
        {1025, 64, 0, WEFT_BF16, 5 << 20, 132, 132}};
    const struct weft__cuda_op *op = weft__cuda_op(WEFT__OP_attention);
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        weft_attention_desc desc = standin_attention_desc(WEFT_BF16, 64);
        desc.kv.head_dim = wants[i].head_dim, desc.q_dtype = wants[i].q;
        desc.max_kv_len = wants[i].max_kv_len, desc.num_splits = wants[i].num_splits;
        desc.max_workspace_bytes = wants[i].max_workspace_bytes;
        desc.out_dtype = WEFT_F32, desc.scale = 1;
        struct weft__cuda_choice choice = {.launch = calloc(1, op->launch_bytes + 64)};
        CHECK(op->plan(&desc, &h200, &choice) == WEFT_OK);
        const struct weft__attention_cuda_launch *launch = choice.launch;
        const int32_t rows = launch->wgmma_slice_blocks ? 128 : launch->prefill_rows,
                      blocks = wants[i].wgmma ? wants[i].wgmma : wants[i].warps;
        const int64_t bytes =
            blocks * weft__attention_slot_floats(wants[i].head_dim, rows) * (int64_t)sizeof(float);
        CHECK(launch->wgmma_slice_blocks == wants[i].wgmma);
        CHECK(launch->slice_blocks == wants[i].warps);
        CHECK((int64_t)choice.workspace_bytes >= bytes && launch->slice_bytes == bytes);
        CHECK(!blocks || launch->prefill_blocks >= (uint32_t)wants[i].warps);
        CHECK(!wants[i].wgmma || launch->wgmma_blocks == 132);
        free(choice.launch);
    }
}

// Keys and values come in boxes where pages are whole sixteens and the cache lies at multiples of 16 bytes, of
// a pool that says how many pages it has: maps of both planes, KV heads side by side. Else the rows' kernel
// runs, compiled when it is first wanted; it reads KV heads side by side where pages are smaller. Long rows of
// such pages are the copy engine's, too.
static void case_boxes(void)
{
    static const struct weft__cuda_limits h200 = {90, 132, 232448, 233472, 65536, 2048, 60 << 20};
    static const struct {
        int64_t num_pages, token_stride;
        int32_t page_size, head_dim;
        bool boxes, rows, lazy; // lazy: the kernel of cp.async
    } wants[] = {{9, 256, 16, 128, true, false, true},  {9, 260, 16, 128, false, false, true},
                 {0, 256, 16, 128, false, false, true}, {9, 256, 8, 256, false, true, true},
                 {9, 260, 8, 256, false, false, true},  {9, 256, 8, 128, false, false, false},
                 {9, 256, 8, 96, false, false, false},  {9, 256, 48, 96, false, false, false},
                 {9, 256, 32, 64, true, false, true}};
    const struct weft__cuda_op *op = weft__cuda_op(WEFT__OP_attention);
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; i++) {
        static struct weft__cuda_step steps[WEFT__CUDA_MAX_STEPS];
        struct weft__cuda_choice choice = {.launch = calloc(1, op->launch_bytes + 64)};
        weft_attention_desc desc = standin_attention_desc(WEFT_BF16, 2);
        desc.kv.page_size = wants[i].page_size, desc.kv.head_dim = wants[i].head_dim;
        desc.scale = 1, desc.out_dtype = WEFT_BF16;
        const weft_kv_plane plane = {
            .page_stride = 1 << 14, .head_stride = 128, .token_stride = wants[i].token_stride};
        const struct weft__attention_args args = {
            .base = {.num_seqs = 2, .pool = {plane, plane, .num_pages = wants[i].num_pages}}};
        CHECK(op->plan(&desc, &h200, &choice) == WEFT_OK);
        CHECK(choice.kernels[WEFT__ATTENTION_DECODE].lazy == wants[i].lazy);
        CHECK(!choice.kernels[WEFT__ATTENTION_BEGIN].lazy);
        CHECK(op->steps(choice.launch, &args, steps) == 2);
        const struct weft__attention_device_args *device = (const void *)steps[1].args;
        CHECK((steps[1].kernel != WEFT__ATTENTION_DECODE) == (wants[i].boxes || wants[i].rows));
        CHECK(device->heads_abreast == (wants[i].boxes || wants[i].page_size < 16 ? 2 : 1));
        CHECK(device->heads_abreast * device->heads_each == 2);
        for (int p = 0; p < 2 && wants[i].boxes; p++) {
            const struct weft__cuda_matrix *map = &steps[1].matrices[p];
            CHECK(map->rows == wants[i].page_size && map->cols == wants[i].head_dim);
            CHECK(map->stride_bytes == 512 && map->piles[0] == 2 && map->piles[1] == 9);
            CHECK(map->pile_stride_bytes[0] == 256 && map->pile_stride_bytes[1] == 1 << 15);
            CHECK(map->at == 128u * (uint32_t)p && map->swizzled);
        }
        free(choice.launch);
        // The next token's own kernel: the others are for caches that lie anyhow.
        choice = (struct weft__cuda_choice){.launch = calloc(1, op->launch_bytes + 64)};
        desc.q_dtype = WEFT_F32;
        desc.flags = WEFT_ATTENTION_APPEND | WEFT_ATTENTION_NARROW_QUERIES;
        CHECK(op->plan(&desc, &h200, &choice) == WEFT_OK && choice.fuses);
        const struct weft__attention_cuda_launch *launch = choice.launch;
        CHECK((launch->token != 0) == (wants[i].head_dim <= 128));
        CHECK(choice.kernels[launch->append].lazy == (launch->token != 0));
        CHECK(!choice.kernels[launch->token].lazy && !choice.kernels[WEFT__ATTENTION_BEGIN].lazy);
        free(choice.launch);
    }
}

static const struct standin_case cases[] = {
    {"single", case_single},         {"packed", case_packed},
    {"chunks", case_chunks},         {"one_sequence", case_one_sequence},
    {"cluster", case_cluster},       {"tile_rows", case_tile_rows},
    {"bytes", case_bytes},           {"any", case_any},
    {"warpgroups", case_warpgroups}, {"boxes", case_boxes},
    {"slices", case_slices},
};

int main(void)
{
    return standin_run(cases, sizeof cases / sizeof *cases);
}
