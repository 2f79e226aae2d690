// SPDX-License-Identifier: MIT
// Attention on the stand-in driver: which kernel a descriptor gets, on which device, by which thresholds and
// entries of a table.
#define _GNU_SOURCE
#include <stdlib.h>

#include "src/backend/cuda/cuda_backend.h"
#include "src/kernels/attention/attention_cuda.h"
#include "tests/support/standin/standin_attention.h"

// The kernel that a descriptor gets where none is named.
static void expect_kernel(weft_context *context, const weft_attention_desc *desc, const char *name)
{
    weft_plan *plan = NULL;
    CHECK(weft_attention_plan(context, desc, &plan) == WEFT_OK);
    CHECK_TEXT(weft_plan_describe(plan), name);
    weft_plan_destroy(plan);
}

// Whatever the CPU takes has a kernel, with tensor cores where one reads the cache in place.
static void case_every_mode(void)
{
    weft_context *context = must_open();
    weft_attention_desc desc, plain = standin_attention_desc(WEFT_F16, 64);
#define GETS(kernel, ...) desc = plain, __VA_ARGS__, expect_kernel(context, &desc, kernel)
    for (int mask = WEFT_MASK_CAUSAL; mask <= WEFT_MASK_BITS; mask++)
        GETS(mask < WEFT_MASK_TREE ? "attention_f16_sm90a" : "attention_f16_sm80",
             desc.mask = (weft_mask)mask);
    GETS("attention_f16_sm90a", desc.flags = WEFT_ATTENTION_SINKS | WEFT_ATTENTION_ALIBI);
    GETS("attention_f16_sm80", desc.max_q_tokens = 2);
    GETS("attention_f16_sm80", desc.softcap = 30, desc.window = 8, desc.ring_len = 12);
    GETS("attention_f16_sm90a", desc.mask = WEFT_MASK_FULL, desc.window_right = 2);
    GETS("attention_f16_sm80", desc.local_chunk = 8, desc.q_dtype = WEFT_FP8_E4M3);
    GETS("attention_f16_sm80", desc.flags = WEFT_ATTENTION_SPARSE, desc.sparse_block = 16,
         desc.sparse_stride = 4);
    GETS("attention_f16_sm80",
         desc.flags = WEFT_ATTENTION_SPARSE_LISTS | WEFT_ATTENTION_SPARSE_HEADS,
         desc.sparse_queries = 16, desc.sparse_keys = 64);
    GETS("attention_any_sm80", desc.flags = WEFT_ATTENTION_MASK_VALUE, desc.mask_value = -2e38f);
    GETS("attention_any_sm80", desc.kv.dtype = WEFT_F32);
    GETS("attention_any_sm80", desc.kv.v_dtype = WEFT_BF16);
    GETS("attention_any_sm80", desc.kv.head_dim = 576, desc.kv.v_dim = 512);
    GETS("attention_any_sm80", desc.kv.head_dim = 1024);
    GETS("attention_any_sm80", desc.kv.inner = 8);
    GETS("attention_any_sm80", desc.kv.v_inner = 1);
    GETS("attention_any_sm80", desc.kv.scaling = WEFT_KV_SCALING_GIVEN);
    GETS("attention_fp8_e5m2_sm80", desc.kv.dtype = WEFT_FP8_E5M2, desc.q_dtype = WEFT_FP8_E5M2);
    GETS("attention_int8_sm80", desc.kv.dtype = WEFT_INT8, desc.kv.scaling = WEFT_KV_SCALING_GIVEN);
    GETS("attention_any_sm80", desc.kv.dtype = WEFT_IQ4_NL, desc.kv.v_dtype = WEFT_Q8_0);
    GETS("attention_f16_sm90a", desc.max_kv_len = 1 << 30, desc.max_q_tokens = 1 << 20);
#undef GETS
    weft_context_destroy(context);
}

// A GPU of less shared memory gets smaller tiles: an RTX 3090.
static void case_little_memory(void)
{
    static const struct weft__cuda_limits limits = {86, 82, 101376, 102400, 65536, 1536, 6 << 20};
    const struct weft__cuda_op *op = weft__cuda_op(WEFT__OP_attention);
    weft_attention_desc desc = standin_attention_desc(WEFT_F32, 64);
    desc.kv.head_dim = 1024, desc.out_dtype = WEFT_F32, desc.scale = 1;
    struct weft__cuda_choice choice = {.launch = calloc(1, op->launch_bytes + 64)};
    CHECK(op->plan(&desc, &limits, &choice) == WEFT_OK);
    const struct weft__attention_cuda_launch *launch = choice.launch;
    CHECK(launch->any && (int32_t)launch->shared_bytes + 4096 <= limits.shared_per_block);
    free(choice.launch);
}

// One sequence of keys in pages of 16 under queries of their format: what a device and the machine's table say
// decides between two shapes of clusters and none.
static void case_thresholds(void)
{
    static const struct weft__cuda_limits h200 = {90, 132, 232448, 233472, 65536, 2048, 60 << 20};
    static const weft_tuning none = {0}, few = {.few_keys = 2048},
                             no_clusters = {.cluster_keys = 2048};
    static const struct {
        const char *device;
        const weft_tuning *tuned;
        int32_t max_kv_len;
        uint32_t cluster, threads; // 0: none
    } wants[] = {
        {"NVIDIA H200", NULL, 4096, 4, 128},
        {"NVIDIA H200", &none, 4097, 2, 256},
        {"NVIDIA H200", NULL, 32769, 0, 128},
        {"NVIDIA H200", &few, 4096, 2, 256},
        {"NVIDIA H200", &few, 2048, 4, 128},
        {"NVIDIA H200", &no_clusters, 4096, 0, 128},
        {"nobody's device", NULL, 4096, 4, 128},
        {NULL, NULL, 4097, 2, 256},
        // 35 tiles a block: five rounds of eight warps, three of twelve; 27: four and three
        {"NVIDIA H200", NULL, 8192, 2, 384},
        {"NVIDIA H200", NULL, 6000, 2, 256}};
    const struct weft__cuda_op *op = weft__cuda_op(WEFT__OP_attention);
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        weft_attention_desc desc = standin_attention_desc(WEFT_BF16, 1);
        desc.num_q_heads = 32, desc.kv.num_kv_heads = 8, desc.kv.page_size = 16;
        desc.out_dtype = WEFT_BF16, desc.scale = 1, desc.max_seqs = 1;
        desc.max_kv_len = wants[i].max_kv_len;
        struct weft__cuda_choice choice = {.launch = calloc(1, op->launch_bytes + 64),
                                           .device = wants[i].device,
                                           .attention = wants[i].tuned};
        const weft_kv_plane plane = {
            .data = NULL, .page_stride = 16 * 8 * 128, .head_stride = 128, .token_stride = 8 * 128};
        struct weft__attention_args run = {
            .base = {.num_seqs = 1, .pool = {.num_pages = 4096, .k = plane, .v = plane}}};
        static struct weft__cuda_step steps[WEFT__CUDA_MAX_STEPS];
        CHECK(op->plan(&desc, &h200, &choice) == WEFT_OK);
        const int32_t count = op->steps(choice.launch, &run, steps);
        CHECK(steps[count - 1].cluster == wants[i].cluster);
        CHECK(steps[count - 1].block[0] == wants[i].threads);
        // Blocks that merge read 192 KB less, tiles of 8, where they start behind the others, and in filled shares.
        const struct weft__attention_device_args *args = (const void *)steps[count - 1].args;
        CHECK(args->merge_tiles == (wants[i].cluster == 4 ? 0 : 24));
        free(choice.launch);
    }
}

// Pages of few tokens, whose KV heads lie side by side, are read in whole tokens where the kernels of Hopper are named, and on
// an H200 by runs of 6 MB for each multiprocessor: 202752 keys of 4 KB. A plan of fewer has no kernel for it.
static void case_whole_tokens(void)
{
    enum { DECODE = 4 * 32, WHOLE = (8 + 2) * 32 };
    static const struct {
        int32_t page_size, window;
        int64_t keys, head_stride;
        const char *variant, *device;
        uint32_t threads;
        int32_t max_kv_len;
    } wants[] = {
        {1, 0, 0, 128, "attention_bf16_sm90a", NULL, WHOLE, 64},
        {5, 0, 0, 128, "attention_bf16_sm90a", NULL, WHOLE, 64},
        {5, 0, 0, 5 * 128, "attention_bf16_sm90a", NULL, DECODE, 65536},
        {16, 0, 0, 128, "attention_bf16_sm90a", NULL, DECODE, 65536},
        {1, 64, 0, 128, "attention_bf16_sm90a", NULL, DECODE, 65536},
        {1, 0, 1 << 22, 128, NULL, "nobody's device", DECODE, 65536},
        {1, 0, 202752, 128, NULL, "NVIDIA H200", WHOLE, 65536},
        {1, 0, 202751, 128, NULL, "NVIDIA H200", DECODE, 65536},
        {1, 0, 0, 128, NULL, "NVIDIA H200", DECODE, 65536},
        {1, 0, 202752, 128, NULL, "NVIDIA H200", DECODE, 3167},
    };
    static const struct weft__cuda_limits h200 = {90, 132, 232448, 233472, 65536, 2048, 60 << 20};
    const struct weft__cuda_op *op = weft__cuda_op(WEFT__OP_attention);
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        weft_attention_desc desc = standin_attention_desc(WEFT_BF16, 64);
        desc.kv.num_kv_heads = 8, desc.kv.page_size = wants[i].page_size;
        desc.num_q_heads = 32, desc.max_seqs = 64, desc.max_kv_len = wants[i].max_kv_len;
        desc.out_dtype = WEFT_BF16, desc.scale = 1;
        desc.window = wants[i].window, desc.variant = wants[i].variant;
        struct weft__cuda_choice choice = {.launch = calloc(1, op->launch_bytes + 64),
                                           .device = wants[i].device};
        const weft_kv_plane plane = {.page_stride = wants[i].page_size * 8 * 128,
                                     .head_stride = wants[i].head_stride,
                                     .token_stride = 8 * 128};
        const struct weft__attention_args run = {
            .base = {.num_seqs = 64, .pool = {.num_pages = 1 << 22, .k = plane, .v = plane}},
            .batch_keys = wants[i].keys};
        static struct weft__cuda_step steps[WEFT__CUDA_MAX_STEPS];
        CHECK(op->plan(&desc, &h200, &choice) == WEFT_OK);
        const struct weft__attention_cuda_launch *launch = choice.launch;
        CHECK(wants[i].threads == DECODE || launch->abreast.kernel);
        CHECK(wants[i].max_kv_len > 3167 || wants[i].variant || !launch->abreast.kernel);
        const int32_t count = op->steps(choice.launch, &run, steps);
        CHECK(steps[count - 1].block[0] == wants[i].threads);
        free(choice.launch);
    }
}

// Runs of short sequences among long ones get the kernel of filled shares, where the latter are enough: of 33 blocks a KV head, each with a
// short one of 33 tiles, its end of 12, and a tile of a long one for each warp, 1650 tiles. By the lengths that the host knows.
static void case_filled(void)
{
    static const struct {
        struct weft__attention_mix mix;
        int32_t num_seqs, max_kv_len;
        bool filled;
    } wants[] = {
        {{26400, 63, 512}, 64, 32768, true},  {{26399, 63, 512}, 64, 32768, false},
        {{26400, 63, 527}, 64, 32768, true},  {{26400, 63, 528}, 64, 32768, false},
        {{26400, 64, 512}, 65, 32768, false}, {{26400, 0, 0}, 4, 32768, false},
        {{0, 64, 512}, 64, 32768, false},     {{26400, 63, 512}, 64, 2048, false},
    };
    static const struct weft__cuda_limits h200 = {90, 132, 232448, 233472, 65536, 2048, 60 << 20};
    const struct weft__cuda_op *op = weft__cuda_op(WEFT__OP_attention);
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        weft_attention_desc desc = standin_attention_desc(WEFT_BF16, 65);
        desc.kv.num_kv_heads = 8, desc.kv.page_size = 16, desc.num_q_heads = 32;
        desc.max_seqs = 65, desc.max_kv_len = wants[i].max_kv_len;
        desc.out_dtype = WEFT_BF16, desc.scale = 1;
        struct weft__cuda_choice choice = {.launch = calloc(1, op->launch_bytes + 64)};
        const weft_kv_plane plane = {
            .page_stride = 16 * 8 * 128, .head_stride = 128, .token_stride = 8 * 128};
        const struct weft__attention_args run = {
            .base = {.num_seqs = wants[i].num_seqs,
                     .pool = {.num_pages = 4096, .k = plane, .v = plane}},
            .batch_mix = wants[i].mix};
        static struct weft__cuda_step steps[WEFT__CUDA_MAX_STEPS];
        CHECK(op->plan(&desc, &h200, &choice) == WEFT_OK);
        const struct weft__attention_cuda_launch *launch = choice.launch;
        const int32_t count = op->steps(choice.launch, &run, steps);
        CHECK(steps[count - 1].kernel == (wants[i].filled ? launch->filled : launch->boxes));
        CHECK((launch->filled != 0) == (wants[i].max_kv_len > WEFT__ATTENTION_SHORT_KEYS));
        free(choice.launch);
    }
}

// Thresholds are those of the first name that the device's begins with, else of the last line.
static void case_devices(void)
{
    static const struct weft__attention_device list[] = {{"NVIDIA H200 NVL", {.few_keys = 1}},
                                                         {"NVIDIA H200", {.few_keys = 2}},
                                                         {"", {.few_keys = 3}}};
    static const char *const names[] = {"NVIDIA H200 NVL", "NVIDIA H200 MIG 1g", "NVIDIA H100", ""};
    static const int32_t wants[] = {1, 2, 3, 3};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(weft__attention_device_named(list, names[i])->of.few_keys == wants[i]);
}

// An entry names the kernel and the rows of prompts of its problem; a name asked for goes before it, and plans
// that promise bits do not ask.
static void case_tuned(void)
{
    weft_context *context = must_open();
    weft_tuning entry = {.size = sizeof entry,
                         .op = WEFT_TUNING_ATTENTION,
                         .dtype = WEFT_BF16,
                         .head_dim = 128,
                         .tile_rows = 64,
                         .few_keys = 512,
                         .kernel = "attention_bf16_sm80"};
    const weft_tuning decode = {.size = sizeof entry, .op = WEFT_TUNING_ATTENTION, .tile_rows = 16},
                      chunks = {
                          .size = sizeof entry, .op = WEFT_TUNING_ATTENTION, .least_chunk = 64};
    CHECK(weft_tuning_add(context, &entry) == WEFT_OK);
    CHECK(weft_tuning_add(context, &decode) == WEFT_EINVAL);
    CHECK(weft_tuning_add(context, &chunks) == WEFT_EINVAL);
    static const struct {
        int32_t head_dim;
        uint32_t flags;
        const char *variant, *chosen;
    } wants[] = {{128, 0, NULL, "prefill of 64 rows"},
                 {64, 0, NULL, "prefill of 128 rows by warpgroups"},
                 {128, 0, "attention_bf16_sm90a", "prefill of 128 rows by warpgroups"},
                 {128, WEFT_ATTENTION_BATCH_INVARIANT, NULL, "prefill of 128 rows by warpgroups"}};
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        weft_attention_desc desc = standin_attention_desc(WEFT_BF16, 64);
        weft_plan *plan = NULL;
        desc.kv.head_dim = wants[i].head_dim, desc.flags = wants[i].flags;
        desc.variant = wants[i].variant;
        CHECK(weft_attention_plan(context, &desc, &plan) == WEFT_OK);
        CHECK_TEXT(weft_plan_describe(plan), wants[i].chosen);
        weft_plan_destroy(plan);
    }
    weft_context_destroy(context);
}

// What masks are made of may lie on the device while a batch's lengths are known: the host does not look at it there.
static void case_masks_on_the_device(void)
{
    static const int32_t wrong_parents[] = {0, 0}, columns[] = {1, 1};
    weft_context *context = must_open();
    for (int tree = 0; tree < 2; tree++) {
        weft_attention_desc desc = standin_attention_desc(WEFT_BF16, 2);
        weft_plan *plan = NULL;
        weft_batch *batch = NULL;
        char *memory;
        desc.mask = tree ? WEFT_MASK_TREE : WEFT_MASK_BITS;
        CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 32 << 20, (void **)&memory) ==
              WEFT_OK);
        memcpy(memory, tree ? wrong_parents : columns, sizeof columns);
        CHECK(weft_attention_plan(context, &desc, &plan) == WEFT_OK);
        const weft_batch_desc batch_desc = {.size = sizeof batch_desc,
                                            .max_seqs = 2,
                                            .max_q_tokens = 2,
                                            .max_kv_len = 16,
                                            .page_size = 4,
                                            .plans = (const weft_plan *const *)&plan,
                                            .num_plans = 1};
        const weft_batch_args set = {.size = sizeof set,
                                     .num_seqs = 2,
                                     .cu_q_lens = standin_cu_q_lens,
                                     .kv_lens = standin_kv_lens,
                                     .page_table = standin_page_table,
                                     .page_table_stride = 2,
                                     .num_pages = 8};
        CHECK(weft_batch_create(context, &batch_desc, &batch) == WEFT_OK);
        CHECK(weft_batch_set(batch, &set) == WEFT_OK);
        weft_attention_args args = {
            .size = sizeof args,
            .q = memory + 65536,
            .out = memory + 131072,
            .pool = {.k.data = memory + (1 << 20), .v.data = memory + (2 << 20), .num_pages = 8},
            .batch = batch,
            .workspace = memory + (4 << 20),
            .workspace_bytes = 28 << 20};
        if (tree)
            args.tree_parents = (const int32_t *)(const void *)memory;
        else
            args.mask_bits = (const uint32_t *)(const void *)memory,
            args.mask_columns = (const int32_t *)(const void *)memory;
        CHECK(weft_attention_run(plan, &args) == (tree ? WEFT_OK : WEFT_EINVAL));
        args.mask_stride = 1;
        CHECK(weft_attention_run(plan, &args) == WEFT_OK);
        if (tree)
            args.tree_parents = wrong_parents; // on the host they are seen to be wrong
        CHECK(weft_attention_run(plan, &args) == (tree ? WEFT_EINVAL : WEFT_OK));
        weft_batch_destroy(batch);
        weft_plan_destroy(plan);
        weft_memory_free(context, memory);
    }
    weft_context_destroy(context);
}

static const struct standin_case cases[] = {
    {"every_mode", case_every_mode},     {"little_memory", case_little_memory},
    {"thresholds", case_thresholds},     {"tuned", case_tuned},
    {"whole_tokens", case_whole_tokens}, {"filled", case_filled},
    {"devices", case_devices},           {"masks_on_the_device", case_masks_on_the_device},
};

int main(void)
{
    return standin_run(cases, sizeof cases / sizeof *cases);
}
