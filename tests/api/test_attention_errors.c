// SPDX-License-Identifier: MIT
// Attention and the KV cache at the door: bad descriptors and bad batches are refused by name, before
// anything is written, and odd but legal ones run.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

enum { DIM = 16, HEADS = 4, KV_HEADS = 2, PAGE = 4, PAGES = 3, TOKENS = 2, KEYS = 6 };

struct fixture {
    weft_context *context;
    weft_plan *plan;
    float q[TOKENS * HEADS * DIM], out[TOKENS * HEADS * DIM], lse[TOKENS * HEADS];
    float k[PAGES * PAGE * KV_HEADS * DIM], v[PAGES * PAGE * KV_HEADS * DIM];
    int32_t cu[2], kv_lens[1], table[2];
    void *workspace;
    weft_attention_args args;
};

static weft_attention_desc descriptor(void)
{
    return (weft_attention_desc){
        .size = sizeof(weft_attention_desc),
        .kv = {.dtype = WEFT_F32, .num_kv_heads = KV_HEADS, .head_dim = DIM, .page_size = PAGE},
        .num_q_heads = HEADS,
        .max_q_tokens = TOKENS,
        .max_kv_len = KEYS};
}

static void open_fixture(struct fixture *f)
{
    weft_attention_desc desc = descriptor();
    memset(f, 0, sizeof *f);
    assert_int_equal(weft_context_create(NULL, &f->context), WEFT_OK);
    assert_int_equal(weft_attention_plan(f->context, &desc, &f->plan), WEFT_OK);
    for (size_t i = 0; i < sizeof f->out / sizeof *f->out; i++)
        f->out[i] = 7;
    f->cu[1] = TOKENS;
    f->kv_lens[0] = KEYS;
    f->table[0] = 2;
    size_t bytes = weft_plan_workspace_bytes(f->plan);
    f->workspace = aligned_alloc(64, (bytes + 63) / 64 * 64);
    f->args = (weft_attention_args){.size = sizeof f->args,
                                    .num_seqs = 1,
                                    .q = f->q,
                                    .out = f->out,
                                    .lse = f->lse,
                                    .pool = {.k.data = f->k, .v.data = f->v, .num_pages = PAGES},
                                    .cu_q_lens = f->cu,
                                    .kv_lens = f->kv_lens,
                                    .page_table = f->table,
                                    .page_table_stride = 2,
                                    .workspace = f->workspace,
                                    .workspace_bytes = bytes};
}

static void close_fixture(struct fixture *f)
{
    weft_plan_destroy(f->plan);
    weft_context_destroy(f->context);
    free(f->workspace);
}

// Refused with that status and a text that names the trouble; nothing written.
static void refuses(struct fixture *f, weft_status status, const char *word)
{
    assert_int_equal(weft_attention_run(f->plan, &f->args), status);
    if (!strstr(weft_error_text(f->context), word))
        fail_msg("'%s' does not say '%s'", weft_error_text(f->context), word);
    for (size_t i = 0; i < sizeof f->out / sizeof *f->out; i++)
        assert_true(f->out[i] == 7);
}

#define REFUSES(status, word, ...)                                                                 \
    do {                                                                                           \
        struct fixture f;                                                                          \
        open_fixture(&f);                                                                          \
        __VA_ARGS__;                                                                               \
        refuses(&f, status, word);                                                                 \
        close_fixture(&f);                                                                         \
    } while (0)

static void refuses_bad_runs(void **state)
{
    (void)state;
    REFUSES(WEFT_EINVAL, "num_seqs", f.args.num_seqs = 2);
    REFUSES(WEFT_EINVAL, "num_seqs", f.args.num_seqs = -1);
    REFUSES(WEFT_EINVAL, "NULL", f.args.q = NULL);
    REFUSES(WEFT_EINVAL, "NULL", f.args.out = NULL);
    REFUSES(WEFT_EINVAL, "NULL", f.args.cu_q_lens = NULL);
    REFUSES(WEFT_EINVAL, "NULL", f.args.kv_lens = NULL);
    REFUSES(WEFT_EINVAL, "NULL", f.args.page_table = NULL);
    REFUSES(WEFT_EINVAL, "pool", f.args.pool.k.data = NULL);
    REFUSES(WEFT_EINVAL, "num_pages", f.args.pool.num_pages = -1);
    REFUSES(WEFT_EINVAL, "stride", f.args.q_token_stride = -64);
    REFUSES(WEFT_EINVAL, "stride", f.args.out_head_stride = DIM - 1);
    REFUSES(WEFT_EINVAL, "stride", f.args.pool.k.token_stride = 8);
    REFUSES(WEFT_EOVERFLOW, "extent", f.args.pool.v.page_stride = INT64_MAX / 32);
    REFUSES(WEFT_EINVAL, "too long", f.args.pool.v.page_stride = INT64_MAX / 2);
    REFUSES(WEFT_EINVAL, "too long", f.args.q_token_stride = INT64_MAX);
    REFUSES(WEFT_EINVAL, "page_table_stride", f.args.page_table_stride = -1);
    REFUSES(WEFT_EINVAL, "page_table_stride", f.args.page_table_stride = INT64_MAX);
    REFUSES(WEFT_EINVAL, "aligned", f.args.q = (float *)((uintptr_t)f.q + 2));
    REFUSES(WEFT_EINVAL, "aligned", f.args.pool.v.data = (char *)f.v + 2);
    REFUSES(WEFT_EINVAL, "aligned", f.args.page_table = (int32_t *)((uintptr_t)f.table + 1));
    REFUSES(WEFT_EINVAL, "cu_q_lens[0]", f.cu[0] = 1);
    REFUSES(WEFT_EINVAL, "decreases", f.cu[1] = -1);
    REFUSES(WEFT_EINVAL, "queries", f.cu[1] = TOKENS + 1);
    REFUSES(WEFT_EINVAL, "kv_lens[0]", f.kv_lens[0] = -1);
    REFUSES(WEFT_EINVAL, "kv_lens[0]", f.kv_lens[0] = KEYS + 1);
    REFUSES(WEFT_EINVAL, "causal", f.kv_lens[0] = 1);
    REFUSES(WEFT_EINVAL, "page 3", f.table[1] = PAGES);
    REFUSES(WEFT_EINVAL, "page -1", f.table[0] = -1);
    REFUSES(WEFT_EINVAL, "page -2147483648", f.table[0] = INT32_MIN,
            f.args.pool.num_pages = (INT64_C(1) << 31) + 1);
    REFUSES(WEFT_EINVAL, "sinks", f.args.sinks = f.q);
    REFUSES(WEFT_EINVAL, "alibi_slopes", f.args.alibi_slopes = f.q);
    REFUSES(WEFT_EINVAL, "tree_parents", f.args.tree_parents = f.cu);
    REFUSES(WEFT_EINVAL, "mask_bits", f.args.mask_bits = (const uint32_t *)f.cu);
    REFUSES(WEFT_EINVAL, "sparse_blocks", f.args.sparse_blocks = f.cu);
    REFUSES(WEFT_EINVAL, "only fp8", f.args.q_scales = f.q);
    REFUSES(WEFT_EINVAL, "q_scales", f.args.q_scale_head_stride = -1);
    REFUSES(WEFT_EINVAL, "page_starts", f.args.page_indices = f.table);
    REFUSES(WEFT_EINVAL, "page_table", f.args.page_indices = f.table, f.args.page_starts = f.cu);
    REFUSES(WEFT_EINVAL, "page_starts[0]=-1", f.args.page_indices = f.table, f.table[1] = -1,
            f.args.page_starts = &f.table[1], f.args.page_table = NULL);
    REFUSES(WEFT_EINVAL, "seq_rows[0]=-1", f.table[1] = -1, f.args.seq_rows = &f.table[1]);
    REFUSES(WEFT_EINVAL, "kv_starts[0]=-1", f.table[1] = -1, f.args.kv_starts = &f.table[1]);
    REFUSES(WEFT_EINVAL, "num_seqs_at holds 2", f.table[1] = 2, f.args.num_seqs_at = &f.table[1]);
    REFUSES(WEFT_EINVAL, "num_seqs_at a page_table", f.args.num_seqs_at = &f.cu[0],
            f.args.page_table = NULL);
    REFUSES(WEFT_EWORKSPACE, "workspace", f.args.workspace = NULL);
    REFUSES(WEFT_EWORKSPACE, "workspace", f.args.workspace_bytes -= 1);
    REFUSES(WEFT_EWORKSPACE, "aligned", f.args.workspace = (char *)f.workspace + 4);
}

static void runs_odd_but_legal_batches(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    f.args.num_seqs = 0;
    assert_int_equal(weft_attention_run(f.plan, &f.args), WEFT_OK);
    f.args.num_seqs = 1;
    f.cu[1] = 0; // no query
    assert_int_equal(weft_attention_run(f.plan, &f.args), WEFT_OK);
    assert_true(f.out[0] == 7);
    f.cu[1] = TOKENS;
    f.kv_lens[0] = PAGE; // the second entry of the table is past the end
    f.table[1] = INT32_MIN;
    assert_int_equal(weft_attention_run(f.plan, &f.args), WEFT_OK);
    assert_true(f.out[0] == 0);
    assert_true(fabsf(f.lse[HEADS] - logf(4)) < 1e-6f); // four equal scores
    assert_true(fabsf(f.lse[0] - logf(3)) < 1e-6f);     // the first query sees three
    close_fixture(&f);
}

// A recorded run has as many sequences as memory says when it is launched; what lies behind them is garbage.
static void sequences_are_counted_in_memory(void **state)
{
    enum { SEQS = 3 };
    const int32_t garbage = INT32_MIN + 5;
    struct fixture f;
    weft_program *program;
    int32_t cu[SEQS + 1] = {0, 1, garbage, garbage}, kv_lens[SEQS] = {2, garbage, garbage};
    int32_t table[SEQS * 2] = {0, garbage, garbage, garbage, garbage, garbage}, count = 1;
    (void)state;
    open_fixture(&f);
    weft_attention_desc desc = descriptor();
    desc.max_seqs = SEQS;
    weft_plan_destroy(f.plan);
    assert_int_equal(weft_attention_plan(f.context, &desc, &f.plan), WEFT_OK);
    free(f.workspace);
    f.args.workspace_bytes = weft_plan_workspace_bytes(f.plan);
    f.args.workspace = f.workspace = aligned_alloc(64, (f.args.workspace_bytes + 63) / 64 * 64);
    f.args.num_seqs = SEQS, f.args.num_seqs_at = &count;
    f.args.cu_q_lens = cu, f.args.kv_lens = kv_lens, f.args.page_table = table;
    assert_int_equal(weft_program_begin(f.context, &program), WEFT_OK);
    assert_int_equal(weft_attention_run(f.plan, &f.args), WEFT_OK);
    assert_int_equal(weft_program_end(program), WEFT_OK);
    count = 0;
    assert_int_equal(weft_program_launch(program, NULL), WEFT_OK);
    assert_true(f.out[0] == 7);
    count = 1;
    assert_int_equal(weft_program_launch(program, NULL), WEFT_OK);
    assert_true(f.out[0] == 0 && f.out[HEADS * DIM] == 7);
    assert_true(fabsf(f.lse[0] - logf(2)) < 1e-6f);
    count = 2;
    cu[2] = 2, kv_lens[1] = 5, table[2] = 1, table[3] = 2;
    assert_int_equal(weft_program_launch(program, NULL), WEFT_OK);
    assert_true(fabsf(f.lse[HEADS] - logf(5)) < 1e-6f);
    weft_program_destroy(program);
    close_fixture(&f);
}

static void a_row_that_sees_nothing(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    weft_plan *full;
    weft_attention_desc desc = descriptor();
    desc.mask = WEFT_MASK_FULL;
    assert_int_equal(weft_attention_plan(f.context, &desc, &full), WEFT_OK);
    f.kv_lens[0] = 0;
    f.args.page_table = NULL; // no key, no page
    f.args.workspace_bytes = weft_plan_workspace_bytes(full);
    f.args.workspace = aligned_alloc(64, (f.args.workspace_bytes + 63) / 64 * 64);
    assert_int_equal(weft_attention_run(full, &f.args), WEFT_OK);
    for (size_t i = 0; i < sizeof f.out / sizeof *f.out; i++)
        assert_true(f.out[i] == 0);
    for (size_t i = 0; i < TOKENS * HEADS; i++)
        assert_true(isinf(f.lse[i]) && f.lse[i] < 0);
    free(f.args.workspace);
    weft_plan_destroy(full);
    close_fixture(&f);
}

// Scores over the smallest cap are beyond f32: tanh of them is 1 or -1, never NaN.
static void plan_again(struct fixture *f, const weft_attention_desc *desc)
{
    weft_plan_destroy(f->plan);
    free(f->workspace);
    assert_int_equal(weft_attention_plan(f->context, desc, &f->plan), WEFT_OK);
    f->args.workspace_bytes = weft_plan_workspace_bytes(f->plan);
    f->workspace = aligned_alloc(64, (f->args.workspace_bytes + 63) / 64 * 64);
    f->args.workspace = f->workspace;
}

// Lists that say the same as vLLM's bands, and lists that are none.
static void lists_of_blocks(void **state)
{
    (void)state;
    const int32_t first = 0, blocks[] = {1, 2}, starts[] = {0, 2, 2};
    weft_attention_desc desc = descriptor();
    struct fixture f;
    float bands[TOKENS * HEADS * DIM];
    open_fixture(&f);
    for (size_t i = 0; i < sizeof f.v / sizeof *f.v; i++)
        f.v[i] = (float)(i / DIM); // scores are equal: results are means
    desc.flags = WEFT_ATTENTION_SPARSE;
    desc.sparse_block = 2; // blocks 0 1 2; key 5 sees its own and those with (block + 1) % 2 == 0
    desc.sparse_local = 1;
    desc.sparse_stride = 2;
    plan_again(&f, &desc);
    f.cu[1] = 1;
    assert_int_equal(weft_attention_run(f.plan, &f.args), WEFT_OK);
    // KV head 0: keys 2 and 3 in page 2 (rows 18, 19), 4 and 5 in page 0 (rows 0, 1)
    assert_true(f.out[0] == (18 + 19 + 0 + 1) / 4.0f);
    memcpy(bands, f.out, sizeof bands);
    desc = descriptor();
    desc.flags = WEFT_ATTENTION_SPARSE_LISTS;
    desc.sparse_queries = 1;
    desc.sparse_keys = 2;
    plan_again(&f, &desc);
    f.args.sparse_blocks = blocks;
    f.args.sparse_starts = starts;
    f.args.sparse_first = &first;
    assert_int_equal(weft_attention_run(f.plan, &f.args), WEFT_OK);
    assert_memory_equal(bands, f.out, HEADS * DIM * sizeof *bands);
    for (size_t i = 0; i < sizeof f.out / sizeof *f.out; i++)
        f.out[i] = 7;
    f.args.sparse_blocks = (const int32_t[]){2, 1};
    refuses(&f, WEFT_EINVAL, "ascending");
    f.args.sparse_starts = (const int32_t[]){2, 0, 0};
    refuses(&f, WEFT_EINVAL, "ascending");
    f.args.sparse_first = (const int32_t[]){-1};
    refuses(&f, WEFT_EINVAL, "sparse_first[0]=-1");
    close_fixture(&f);
}

static void soft_caps_at_their_edges(void **state)
{
    const float caps[] = {1e-30f, 1e-20f, 1, 1e30f}, sizes[] = {1e-20f, 1, 1e15f};
    (void)state;
    for (int i = 0; i < 4 * 3; i++) {
        struct fixture f;
        open_fixture(&f);
        weft_plan *plan;
        weft_attention_desc desc = descriptor();
        desc.softcap = caps[i / 3];
        assert_int_equal(weft_attention_plan(f.context, &desc, &plan), WEFT_OK);
        for (size_t j = 0; j < sizeof f.q / sizeof *f.q; j++)
            f.q[j] = sizes[i % 3] * (j % 3 ? 1.0f : -1.0f);
        for (size_t j = 0; j < sizeof f.k / sizeof *f.k; j++) {
            f.k[j] = j % 5 ? sizes[i % 3] : -sizes[i % 3];
            f.v[j] = 1;
        }
        assert_int_equal(weft_attention_run(plan, &f.args), WEFT_OK);
        for (size_t j = 0; j < sizeof f.out / sizeof *f.out; j++)
            if (!(fabsf(f.out[j] - 1) < 1e-6f))
                fail_msg("soft-cap %g, values of %g: out[%zu] = %g", desc.softcap, sizes[i % 3], j,
                         f.out[j]);
        weft_plan_destroy(plan);
        close_fixture(&f);
    }
}

static void refuses_plan(weft_attention_desc desc, weft_status status, const char *word)
{
    weft_context *context;
    weft_plan *plan = NULL;
    const char *reason;
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    assert_int_equal(weft_attention_plan(context, &desc, &plan), status);
    assert_null(plan);
    assert_false(weft_attention_supported(context, &desc, &reason));
    if (!strstr(reason, word))
        fail_msg("'%s' does not say '%s'", reason, word);
    weft_context_destroy(context);
}

#define REFUSES_PLAN(status, word, ...)                                                            \
    do {                                                                                           \
        weft_attention_desc desc = descriptor();                                                   \
        __VA_ARGS__;                                                                               \
        refuses_plan(desc, status, word);                                                          \
    } while (0)

static void refuses_bad_descriptors(void **state)
{
    (void)state;
    REFUSES_PLAN(WEFT_EINVAL, "size", desc.size = 4);
    REFUSES_PLAN(WEFT_EINVAL, "flags", desc.flags = 1u << 31);
    REFUSES_PLAN(WEFT_EUNSUPPORTED, "q_dtype", desc.q_dtype = WEFT_Q8_0);
    REFUSES_PLAN(WEFT_EUNSUPPORTED, "out_dtype", desc.out_dtype = WEFT_INT8);
    REFUSES_PLAN(WEFT_EINVAL, "dtype", desc.kv.dtype = (weft_dtype)99);
    REFUSES_PLAN(WEFT_EUNSUPPORTED, "q4_k", desc.kv.dtype = WEFT_Q4_K);
    REFUSES_PLAN(WEFT_EINVAL, "multiple of 32", desc.kv.v_dtype = WEFT_Q8_0);
    REFUSES_PLAN(WEFT_EINVAL, "v_dim=12", desc.kv.v_dim = 12);
    REFUSES_PLAN(WEFT_EINVAL, "inner=3", desc.kv.inner = 3);
    REFUSES_PLAN(WEFT_EINVAL, "v_scaling", desc.kv.v_scaling = (weft_kv_scaling)7);
    REFUSES_PLAN(WEFT_EINVAL, "int8 and fp8", desc.kv.scaling = WEFT_KV_SCALING_TOKEN);
    REFUSES_PLAN(WEFT_EINVAL, "scales of their own", desc.kv.dtype = WEFT_Q8_0,
                 desc.kv.head_dim = 32, desc.kv.scaling = WEFT_KV_SCALING_GIVEN);
    REFUSES_PLAN(WEFT_EINVAL, "does not know", desc.kv.reserved[2] = 1);
    REFUSES_PLAN(WEFT_EINVAL, "head_dim", desc.kv.head_dim = 20);
    REFUSES_PLAN(WEFT_EUNSUPPORTED, "1024", desc.kv.head_dim = 1032);
    REFUSES_PLAN(WEFT_EINVAL, "page_size", desc.kv.page_size = 0);
    REFUSES_PLAN(WEFT_EINVAL, "num_q_heads", desc.num_q_heads = 3);
    REFUSES_PLAN(WEFT_EINVAL, "num_q_heads", desc.num_q_heads = 0);
    REFUSES_PLAN(WEFT_EINVAL, "window", desc.window = -1);
    REFUSES_PLAN(WEFT_EINVAL, "window", desc.window_right = -1);
    REFUSES_PLAN(WEFT_EINVAL, "window_right", desc.window_right = 1);
    REFUSES_PLAN(WEFT_EINVAL, "local_chunk", desc.local_chunk = -1);
    REFUSES_PLAN(WEFT_EINVAL, "ring_len", desc.ring_len = 8);
    REFUSES_PLAN(WEFT_EINVAL, "ring_len", desc.ring_len = -8, desc.window = 4);
    REFUSES_PLAN(WEFT_EINVAL, "mask_value", desc.flags = WEFT_ATTENTION_MASK_VALUE,
                 desc.mask_value = -INFINITY);
    REFUSES_PLAN(WEFT_EUNSUPPORTED, "ALiBi", desc.flags = WEFT_ATTENTION_ALIBI,
                 desc.mask = WEFT_MASK_TREE);
    REFUSES_PLAN(WEFT_EINVAL, "sparse_block=0", desc.flags = WEFT_ATTENTION_SPARSE);
    REFUSES_PLAN(WEFT_EINVAL, "sparse_block=8", desc.sparse_block = 8);
    REFUSES_PLAN(WEFT_EINVAL, "sparse_queries=0", desc.flags = WEFT_ATTENTION_SPARSE_LISTS);
    REFUSES_PLAN(WEFT_EINVAL, "sparse_queries=1", desc.sparse_queries = 1);
    REFUSES_PLAN(WEFT_EINVAL, "SPARSE_HEADS", desc.flags = WEFT_ATTENTION_SPARSE_HEADS);
    REFUSES_PLAN(WEFT_EUNSUPPORTED, "tree", desc.flags = WEFT_ATTENTION_SPARSE,
                 desc.sparse_block = 8, desc.sparse_stride = 2, desc.mask = WEFT_MASK_TREE);
    REFUSES_PLAN(WEFT_EINVAL, "tile_rows", desc.tile_rows = 5000);
    REFUSES_PLAN(WEFT_EINVAL, "chunk_keys", desc.chunk_keys = -1);
    REFUSES_PLAN(WEFT_EINVAL, "num_splits", desc.chunk_keys = 64, desc.num_splits = 2);
    REFUSES_PLAN(WEFT_EINVAL, "scale", desc.scale = INFINITY);
    REFUSES_PLAN(WEFT_EINVAL, "softcap", desc.softcap = -1);
    REFUSES_PLAN(WEFT_EINVAL, "softcap", desc.softcap = 1e-40f); // scores over it would be infinite
    REFUSES_PLAN(WEFT_EINVAL, "softcap", desc.softcap = 3e38f);
    REFUSES_PLAN(WEFT_EINVAL, "num_splits", desc.num_splits = -1);
    REFUSES_PLAN(WEFT_EINVAL, "mask", desc.mask = (weft_mask)7);
    REFUSES_PLAN(WEFT_EVARIANT, "no_such", desc.variant = "no_such_kernel");
    REFUSES_PLAN(WEFT_EVARIANT, "attention_f16_avx2", desc.variant = "attention_f16_avx2");
}

// What FlashAttention's interfaces take for granted.
static void a_layer_by_its_heads(void **state)
{
    weft_attention_desc desc = {.size = sizeof desc, .window = 3};
    weft_context *context;
    weft_plan *plan;
    (void)state;
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    assert_int_equal(weft_attention_layer(WEFT_BF16, 8, 0, 64, &desc), WEFT_OK);
    assert_int_equal(desc.kv.num_kv_heads, 8);
    assert_int_equal(desc.kv.page_size, 1);
    assert_int_equal(desc.window, 0);
    assert_int_equal(desc.max_workspace_bytes, 32 << 20);
    desc.max_q_tokens = 4096, desc.max_kv_len = 4096;
    assert_int_equal(weft_attention_plan(context, &desc, &plan), WEFT_OK);
    assert_true(weft_plan_workspace_bytes(plan) <= 32 << 20);
    weft_plan_destroy(plan);
    assert_int_equal(weft_attention_layer(WEFT_F16, 8, 2, 64, &desc), WEFT_OK);
    assert_int_equal(desc.kv.num_kv_heads, 2);
    assert_int_equal(weft_attention_layer(WEFT_F16, 8, -1, 64, &desc), WEFT_EINVAL);
    assert_int_equal(weft_attention_layer(WEFT_F16, 8, 2, 64, NULL), WEFT_EINVAL);
    desc.size = 0;
    assert_int_equal(weft_attention_layer(WEFT_F16, 8, 2, 64, &desc), WEFT_EINVAL);
    weft_context_destroy(context);
}

static weft_kv_append_desc append_desc(const weft_rope_params *rope)
{
    return (weft_kv_append_desc){
        .size = sizeof(weft_kv_append_desc),
        .max_tokens = 2,
        .layout = {.dtype = WEFT_F32, .num_kv_heads = KV_HEADS, .head_dim = DIM, .page_size = PAGE},
        .rope = rope};
}

static void refuses_append_descriptors(void **state)
{
    (void)state;
    weft_context *context;
    weft_plan *plan = NULL;
    weft_rope_params rope = {.rotary_dim = DIM + 2};
    weft_kv_append_desc desc = append_desc(&rope);
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    assert_int_equal(weft_kv_page_bytes(&desc.layout), 2 * PAGE * KV_HEADS * DIM * 4);
    assert_int_equal(weft_kv_append_plan(context, &desc, &plan), WEFT_EINVAL);
    assert_non_null(strstr(weft_error_text(context), "rotary_dim"));
    rope.rotary_dim = 0, desc.q_growth_length = 4; // of no queries
    assert_int_equal(weft_kv_append_plan(context, &desc, &plan), WEFT_EINVAL);
    assert_non_null(strstr(weft_error_text(context), "queries grow"));
    desc.num_q_heads = KV_HEADS, desc.q_growth = NAN;
    assert_int_equal(weft_kv_append_plan(context, &desc, &plan), WEFT_EINVAL);
    desc.q_growth_length = -1, desc.q_growth = 0;
    assert_int_equal(weft_kv_append_plan(context, &desc, &plan), WEFT_EINVAL);
    desc.q_growth_length = desc.num_q_heads = 0, desc.q_growth = 1;
    assert_int_equal(weft_kv_append_plan(context, &desc, &plan), WEFT_EINVAL);
    weft_context_destroy(context);
    assert_int_equal(weft_kv_page_bytes(NULL), -1);
    desc.layout.page_size = 0;
    assert_int_equal(weft_kv_page_bytes(&desc.layout), -1);
}

static void appends_only_what_is_sound(void **state)
{
    (void)state;
    weft_context *context;
    weft_plan *plan = NULL;
    float k[2 * KV_HEADS * DIM], pool_k[PAGES * PAGE * KV_HEADS * DIM] = {0},
                                                                  pool_v[sizeof pool_k / 4];
    int32_t slots[2] = {PAGES * PAGE - 1, -1}, positions[2] = {0, 1};
    weft_rope_params rope = {0};
    for (size_t i = 0; i < sizeof k / sizeof *k; i++)
        k[i] = 1;
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    const weft_kv_append_desc desc = append_desc(&rope);
    assert_int_equal(weft_kv_append_plan(context, &desc, &plan), WEFT_OK);
    weft_kv_append_args args = {.size = sizeof args,
                                .tokens = 2,
                                .pool = {.k.data = pool_k, .v.data = pool_v, .num_pages = PAGES},
                                .k = k,
                                .v = k,
                                .slots = slots,
                                .positions = positions};
    slots[1] = PAGES * PAGE;
    assert_int_equal(weft_kv_append_run(plan, &args), WEFT_EINVAL);
    slots[1] = -2;
    assert_int_equal(weft_kv_append_run(plan, &args), WEFT_EINVAL);
    slots[1] = -1;
    positions[1] = -1;
    assert_int_equal(weft_kv_append_run(plan, &args), WEFT_EINVAL);
    positions[1] = 1;
    args.q = k; // the plan knows no query heads
    assert_int_equal(weft_kv_append_run(plan, &args), WEFT_EINVAL);
    args.q = NULL;
    args.tokens = 3;
    assert_int_equal(weft_kv_append_run(plan, &args), WEFT_EINVAL);
    args.tokens = 2;
    for (size_t i = 0; i < sizeof pool_k / sizeof *pool_k; i++)
        assert_true(pool_k[i] == 0);
    assert_int_equal(weft_kv_append_run(plan, &args), WEFT_OK);
    assert_true(pool_k[((PAGES - 1) * KV_HEADS * PAGE + PAGE - 1) * DIM] == 1);
    assert_true(pool_k[0] == 0);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_blocks),
        cmocka_unit_test(soft_caps_at_their_edges),
        cmocka_unit_test(refuses_bad_runs),
        cmocka_unit_test(runs_odd_but_legal_batches),
        cmocka_unit_test(sequences_are_counted_in_memory),
        cmocka_unit_test(a_layer_by_its_heads),
        cmocka_unit_test(a_row_that_sees_nothing),
        cmocka_unit_test(refuses_bad_descriptors),
        cmocka_unit_test(refuses_append_descriptors),
        cmocka_unit_test(appends_only_what_is_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
