// SPDX-License-Identifier: MIT
// Attention over a paged cache against torch.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

#include "tests/support/golden.h"

typedef struct batch {
    const golden *file;
    const char *name;
    weft_attention_desc desc;
    int32_t num_seqs, q_tokens;
    const int32_t *cu_q_lens, *kv_lens;
    int64_t pages_per_seq, num_pages, pool_bytes;
    weft_kv_pool pool;
    int32_t *page_table;
    float *q, *out, *lse;
} batch;

static int32_t parameter(const batch *b, const char *key)
{
    return (int32_t)golden_number(b->file, b->name, key, 0);
}

static void *allocate(int64_t bytes)
{
    void *memory = aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64);
    assert_non_null(memory);
    return memory;
}

static void read_lengths(batch *b)
{
    b->cu_q_lens = golden_data(b->file, b->name, "cu_q_lens", GOLDEN_I32);
    b->kv_lens = golden_data(b->file, b->name, "kv_lens", GOLDEN_I32);
    b->num_seqs = (int32_t)golden_find(b->file, b->name, "kv_lens")->elements;
    b->q_tokens = b->cu_q_lens[b->num_seqs];
    int32_t page_size = parameter(b, "page_size");
    for (int32_t s = 0; s < b->num_seqs; s++) {
        int64_t pages = (b->kv_lens[s] + page_size - 1) / page_size;
        b->pages_per_seq = pages > b->pages_per_seq ? pages : b->pages_per_seq;
    }
    b->num_pages = b->num_seqs * b->pages_per_seq + 1;
}

static void make_desc(batch *b)
{
    b->desc = (weft_attention_desc){
        .size = sizeof b->desc,
        .kv.dtype = weft_dtype_parse(golden_text(b->file, b->name, "kv_dtype")),
        .kv.num_kv_heads = parameter(b, "num_kv_heads"),
        .kv.head_dim = parameter(b, "head_dim"),
        .kv.page_size = parameter(b, "page_size"),
        .num_q_heads = parameter(b, "num_q_heads"),
        .mask = parameter(b, "causal") ? WEFT_MASK_CAUSAL : WEFT_MASK_FULL,
        .window = parameter(b, "window"),
        .scale = (float)golden_number(b->file, b->name, "scale", 0),
        .softcap = (float)golden_number(b->file, b->name, "softcap", 0),
        .max_seqs = b->num_seqs,
        .max_q_tokens = b->q_tokens,
        .max_kv_len = (int32_t)(b->pages_per_seq * parameter(b, "page_size")),
    };
}

// Deals the keys or values of all sequences out to pages. Sequence s owns every num_seqs-th page,
// from the last to the first; what no token covers stays as it is.
static void fill_pool(const batch *b, const char *tensor, char *pool)
{
    const weft_kv_layout *kv = &b->desc.kv;
    size_t head_bytes = (size_t)weft_dtype_row_bytes(kv->dtype, kv->head_dim);
    const char *from = golden_find(b->file, b->name, tensor)->data;
    for (int32_t s = 0; s < b->num_seqs; s++) {
        for (int32_t t = 0; t < b->kv_lens[s]; t++) {
            int64_t page = b->page_table[s * b->pages_per_seq + t / kv->page_size];
            for (int32_t h = 0; h < kv->num_kv_heads; h++, from += head_bytes) {
                int64_t row = page * b->pool.k.page_stride + h * b->pool.k.head_stride +
                              t % kv->page_size * b->pool.k.token_stride;
                memcpy(pool + (size_t)(row / kv->head_dim) * head_bytes, from, head_bytes);
            }
        }
    }
}

// Pages as [kv_head][slot] or, if slots_first, [slot][kv_head]. Unused slots hold NaN in every
// format; unused entries of the page table hold no page.
static void make_cache(batch *b, bool slots_first)
{
    const weft_kv_layout *kv = &b->desc.kv;
    int64_t dim = kv->head_dim;
    b->pool.num_pages = b->num_pages;
    b->pool.k.page_stride = kv->num_kv_heads * kv->page_size * dim;
    b->pool.k.head_stride = slots_first ? dim : kv->page_size * dim;
    b->pool.k.token_stride = slots_first ? kv->num_kv_heads * dim : dim;
    b->pool_bytes = weft_dtype_row_bytes(kv->dtype, b->num_pages * b->pool.k.page_stride);
    b->pool.v = b->pool.k;
    b->pool.k.data = memset(allocate(b->pool_bytes), 0xff, (size_t)b->pool_bytes);
    b->pool.v.data = memset(allocate(b->pool_bytes), 0xff, (size_t)b->pool_bytes);
    b->page_table = allocate(b->num_seqs * b->pages_per_seq * (int64_t)sizeof(int32_t));
    for (int32_t s = 0; s < b->num_seqs; s++) {
        int64_t used = (b->kv_lens[s] + kv->page_size - 1) / kv->page_size;
        for (int64_t p = 0; p < b->pages_per_seq; p++) {
            int64_t page = b->num_pages - 1 - (p * b->num_seqs + s);
            b->page_table[s * b->pages_per_seq + p] = p < used ? (int32_t)page : INT32_MAX;
        }
    }
    fill_pool(b, "k", b->pool.k.data);
    fill_pool(b, "v", b->pool.v.data);
}

static void make_rows(batch *b)
{
    int64_t rows = (int64_t)b->q_tokens * b->desc.num_q_heads;
    int64_t elements = rows * b->desc.kv.head_dim;
    b->q = allocate(elements * 4);
    b->out = allocate(elements * 4);
    b->lse = allocate(rows * 4);
    const void *q = golden_data(b->file, b->name, "q", GOLDEN_F16);
    assert_int_equal(weft_dequantize_row(WEFT_F16, q, elements, b->q), WEFT_OK);
}

static void free_batch(batch *b)
{
    void *all[] = {b->pool.k.data, b->pool.v.data, b->page_table, b->q, b->out, b->lse};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

static void compare(const batch *b)
{
    const float *out = golden_data(b->file, b->name, "out", GOLDEN_F32);
    const float *lse = golden_data(b->file, b->name, "lse", GOLDEN_F32);
    int32_t dim = b->desc.kv.head_dim;
    for (int64_t r = 0; r < (int64_t)b->q_tokens * b->desc.num_q_heads; r++) {
        // Scores are rounded relative to their size, which the log-sum-exp tells.
        float bound = 2e-6f * (2 + (isinf(lse[r]) ? 0 : fabsf(lse[r])));
        if (isinf(lse[r]) ? b->lse[r] != lse[r] : !(fabsf(b->lse[r] - lse[r]) <= bound)) {
            fail_msg("%s: lse of row %lld is %g, not %g", b->name, (long long)r, (double)b->lse[r],
                     (double)lse[r]);
        }
        for (int32_t i = 0; i < dim; i++) {
            float is = b->out[r * dim + i], should = out[r * dim + i];
            if (!(fabsf(is - should) <= bound)) {
                fail_msg("%s, %d splits: element %d of row %lld is %g, not %g", b->name,
                         b->desc.num_splits, i, (long long)r, (double)is, (double)should);
            }
        }
    }
}

static void run(weft_context *context, batch *b)
{
    weft_plan *plan = NULL;
    weft_status status = weft_attention_plan(context, &b->desc, &plan);
    if (status != WEFT_OK) {
        fail_msg("%s: %s", b->name, weft_error_text(context));
    }
    size_t workspace_bytes = weft_plan_workspace_bytes(plan);
    weft_attention_args args = {
        .size = sizeof args,
        .num_seqs = b->num_seqs,
        .q = b->q,
        .out = b->out,
        .lse = b->lse,
        .pool = b->pool,
        .cu_q_lens = b->cu_q_lens,
        .kv_lens = b->kv_lens,
        .page_table = b->page_table,
        .page_table_stride = b->pages_per_seq,
        .workspace = allocate((int64_t)workspace_bytes),
        .workspace_bytes = workspace_bytes,
    };
    status = weft_attention_run(plan, &args);
    if (status != WEFT_OK) {
        fail_msg("%s: %s", b->name, weft_error_text(context));
    }
    compare(b);
    free(args.workspace);
    weft_plan_destroy(plan);
}

static void agrees_with_torch(void **state)
{
    (void)state;
    const int32_t splits[] = {0, 1, 3};
    weft_context *context = NULL;
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    golden *file = golden_open("attention/attention.safetensors");
    const char *name;
    for (size_t n = 0; (name = golden_case(file, n)); n++) {
        for (int slots_first = 0; slots_first < 2; slots_first++) {
            batch b = {.file = file, .name = name};
            read_lengths(&b);
            make_desc(&b);
            make_cache(&b, slots_first);
            make_rows(&b);
            for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
                b.desc.num_splits = splits[i];
                run(context, &b);
            }
            free_batch(&b);
        }
    }
    golden_close(file);
    weft_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_torch)};
    int failed = cmocka_run_group_tests_name("best level", tests, NULL, NULL);
    setenv("WEFT_CPU", "ref", 1);
    return failed + cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
