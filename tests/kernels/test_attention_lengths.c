// SPDX-License-Identifier: MIT
// Decode against every length from 1 to 130 keys, in pages of odd sizes: blocks of keys that are whole,
// begun, or end with a page. Buffers are no longer than they must be, for AddressSanitizer; what no
// query sees holds NaN, in the pool and in the page table what would be outside the pool.
#include <float.h>
#include <math.h>

#include "src/base/half.h"
#include "tests/support/context_fixture.h"

enum { KV_HEADS = 2, MOST_KEYS = 130 };

struct decode {
    int32_t head_dim, page_size, kv_len, tokens, group, window;
    bool bf16;          // keys and values; else f16
    int64_t row, elems; // head_dim and a gap, elements of a pool
    int32_t pages;
    uint16_t *k, *v;
    int32_t *table;
    float *q, *out, *lse, *want, *want_lse;
};

static float wave(int64_t i)
{
    return sinf((float)(i * 7919 % 10007));
}

static uint16_t half(const struct decode *d, float x)
{
    return d->bf16 ? weft__bf16_from_f32(x) : weft__f16_from_f32(x);
}

static void *exactly(int64_t count, size_t bytes)
{
    return malloc((size_t)count * bytes);
}

// Slots lie one after the other, the heads of a token together.
static void fill_pool(struct decode *d)
{
    int32_t seen = d->window ? d->kv_len - d->tokens - d->window + 1 : 0;
    for (int64_t i = 0; i < d->elems; i++)
        d->k[i] = d->v[i] = half(d, NAN);
    for (int32_t page = 0; page * d->page_size < d->kv_len; page++)
        d->table[page] = (page + 1) * d->page_size <= seen ? INT32_MIN : d->pages - 1 - page;
    for (int32_t t = seen < 0 ? 0 : seen; t < d->kv_len; t++)
        for (int64_t i = 0; i < KV_HEADS * d->head_dim; i++) {
            int64_t slot = (int64_t)d->table[t / d->page_size] * d->page_size + t % d->page_size;
            int64_t at = (slot * KV_HEADS + i / d->head_dim) * d->row + i % d->head_dim;
            d->k[at] = half(d, wave(i + 31 * t));
            d->v[at] = half(d, wave(i + 57 * t + 1));
        }
}

static void make(struct decode *d)
{
    int64_t rows = (int64_t)d->tokens * d->group * KV_HEADS, elems = rows * d->head_dim;
    int32_t used = (d->kv_len + d->page_size - 1) / d->page_size;
    d->row = d->head_dim + 8;
    d->pages = used + 1;
    d->elems = (int64_t)d->pages * d->page_size * KV_HEADS * d->row - 8;
    d->k = exactly(d->elems, sizeof *d->k);
    d->v = exactly(d->elems, sizeof *d->v);
    d->table = exactly(used, sizeof *d->table);
    d->q = exactly(elems, sizeof *d->q);
    d->out = exactly(elems, sizeof *d->out);
    d->want = exactly(elems, sizeof *d->want);
    d->lse = exactly(rows, sizeof *d->lse);
    d->want_lse = exactly(rows, sizeof *d->want_lse);
    for (int64_t i = 0; i < elems; i++)
        d->q[i] = 2 * wave(i + 5);
    fill_pool(d);
}

static weft_kv_plane plane(const struct decode *d, uint16_t *data)
{
    return (weft_kv_plane){.data = data,
                           .token_stride = KV_HEADS * d->row,
                           .head_stride = d->row,
                           .page_stride = d->page_size * KV_HEADS * d->row};
}

static void run(weft_context *context, const struct decode *d, const char *variant, float *out,
                float *lse)
{
    weft_plan *plan;
    const int32_t cu[2] = {0, d->tokens};
    const weft_attention_desc desc = {.size = sizeof desc,
                                      .kv = {.dtype = d->bf16 ? WEFT_BF16 : WEFT_F16,
                                             .num_kv_heads = KV_HEADS,
                                             .head_dim = d->head_dim,
                                             .page_size = d->page_size},
                                      .num_q_heads = KV_HEADS * d->group,
                                      .window = d->window,
                                      .max_q_tokens = d->tokens,
                                      .max_kv_len = d->kv_len,
                                      .flags = d->bf16 ? WEFT_ATTENTION_NARROW_QUERIES : 0,
                                      .variant = variant};
    assert_int_equal(weft_attention_plan(context, &desc, &plan), WEFT_OK);
    size_t bytes = weft_plan_workspace_bytes(plan);
    void *workspace = aligned_alloc(64, bytes);
    memset(workspace, 0xff, bytes);
    const weft_attention_args args = {
        .size = sizeof args,
        .num_seqs = 1,
        .q = d->q,
        .out = out,
        .lse = lse,
        .pool = {.k = plane(d, d->k), .v = plane(d, d->v), .num_pages = d->pages},
        .cu_q_lens = cu,
        .kv_lens = &d->kv_len,
        .page_table = d->table,
        .workspace = workspace,
        .workspace_bytes = bytes};
    assert_int_equal(weft_attention_run(plan, &args), WEFT_OK);
    weft_plan_destroy(plan);
    free(workspace);
}

static void close_to(const struct decode *d, const float *got, const float *want, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(got[i] - want[i]) < 2e-5f))
            fail_msg("head_dim %d page %d, %d keys, %d x %d rows, window %d: [%d] %g, not %g",
                     d->head_dim, d->page_size, d->kv_len, d->tokens, d->group, d->window, (int)i,
                     got[i], want[i]);
}

static void release(struct decode *d)
{
    void *all[] = {d->k, d->v, d->table, d->q, d->out, d->want, d->lse, d->want_lse};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void try(weft_context *context, struct decode d)
{
    int64_t rows = (int64_t)d.tokens * d.group * KV_HEADS;
    make(&d);
    run(context, &d, NULL, d.out, d.lse);
    run(context, &d, "attention_any_ref", d.want, d.want_lse);
    close_to(&d, d.out, d.want, rows * d.head_dim);
    close_to(&d, d.lse, d.want_lse, rows);
    release(&d);
}

static void every_length_in_every_page(void **state)
{
    static const int32_t dims[] = {64, 128, 80, 8}, page_sizes[] = {1, 3, 64, 100};
    for (int32_t n = 0, kv_len = 1; kv_len <= MOST_KEYS; kv_len++)
        for (int i = 0; i < 4; i++, n++) {
            struct decode d = {.head_dim = dims[(n + n / 4) % 4],
                               .page_size = page_sizes[i],
                               .kv_len = kv_len,
                               .tokens = 1 + n / 2 % 2,
                               .group = 1 + n / 3 % 4,
                               .window = n % 5 == 0 ? 1 + n / 7 % kv_len : 0};
            d.tokens = d.tokens < kv_len ? d.tokens : kv_len;
            try(*state, d);
        }
}

// 1 to 8 rows and more, by tokens and by heads.
static void every_number_of_rows(void **state)
{
    for (int32_t n = 0; n < 12 * 3; n++)
        for (int by_tokens = 0; by_tokens < 2; by_tokens++) {
            struct decode d = {.head_dim = n % 3 ? 64 * (n % 3) : 24,
                               .page_size = 3,
                               .kv_len = 77,
                               .tokens = by_tokens ? 1 + n / 3 : 1,
                               .group = by_tokens ? 1 : 1 + n / 3};
            try(*state, d);
        }
}

// An infinite value of the last key reaches its own column of all heads, and no other becomes NaN by it.
static void the_last_value_may_be_infinite(void **state)
{
    enum { COLUMN = 37 };
    for (int32_t n = 0; n < 2 * 12 * 3; n++) {
        struct decode d = {.bf16 = n % 2,
                           .head_dim = n / 24 ? 64 * (n / 24) : 80,
                           .page_size = 16,
                           .kv_len = 60 + n / 2 % 12,
                           .tokens = 1,
                           .group = 1 << n / 3 % 5};
        make(&d);
        const int64_t last = (int64_t)d.table[(d.kv_len - 1) / 16] * 16 + (d.kv_len - 1) % 16;
        for (int32_t head = 0; head < KV_HEADS; head++)
            d.v[(last * KV_HEADS + head) * d.row + COLUMN] = half(&d, -INFINITY);
        run(*state, &d, NULL, d.out, d.lse);
        for (int64_t i = 0; i < (int64_t)KV_HEADS * d.group * d.head_dim; i++)
            if (i % d.head_dim == COLUMN ? !(d.out[i] < -FLT_MAX) : !isfinite(d.out[i]))
                fail_msg("%s, head_dim %d, %d keys, %d rows: [%d] is %g", d.bf16 ? "bf16" : "f16",
                         d.head_dim, d.kv_len, d.group, (int)i, (double)d.out[i]);
        release(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_in_every_page),
        cmocka_unit_test(every_number_of_rows),
        cmocka_unit_test(the_last_value_may_be_infinite),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
