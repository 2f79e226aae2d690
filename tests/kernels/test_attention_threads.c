// SPDX-License-Identifier: MIT
// The number of threads decides who does the work, not how it is divided: contexts of 1, 2, 3, 7 and 16
// threads agree to the bit. And the exponential that all SIMD kernels share, point by point.
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "src/base/half.h"
#include "tests/support/context_fixture.h"

enum {
    DIM = 64,
    KV_HEADS = 2,
    HEADS = 6,
    PAGE = 16,
    MOST_KEYS = 4500,
    MOST_TOKENS = 300,
    SEQS = 4
};
enum { PAGES = SEQS * (MOST_KEYS / PAGE + 1) };

struct batch {
    int32_t seqs, cu[SEQS + 1], kv_lens[SEQS];
};

static uint16_t k[PAGES * PAGE * KV_HEADS * DIM], v[PAGES * PAGE * KV_HEADS * DIM];
static float q[MOST_TOKENS * HEADS * DIM];
static int32_t table[PAGES];

static int fill(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
        k[i] = weft__f16_from_f32(sinf((float)(i * 7919 % 10007)));
        v[i] = weft__f16_from_f32(sinf((float)(i * 104729 % 10009)));
    }
    for (size_t i = 0; i < sizeof q / sizeof *q; i++)
        q[i] = 2 * sinf((float)(i * 31 % 1009));
    for (int32_t i = 0; i < PAGES; i++)
        table[i] = (int32_t)(i * INT64_C(7919) % PAGES);
    return 0;
}

static void attend_in(const weft_kv_plane *strides, int32_t threads,
                      const weft_attention_desc *desc, const struct batch *batch, float *out,
                      float *lse)
{
    const weft_context_desc wanted = {.size = sizeof wanted, .threads = threads};
    weft_context *context;
    weft_plan *plan;
    assert_int_equal(weft_context_create(&wanted, &context), WEFT_OK);
    assert_int_equal(weft_attention_plan(context, desc, &plan), WEFT_OK);
    size_t bytes = weft_plan_workspace_bytes(plan);
    weft_kv_plane keys = *strides, values = *strides;
    keys.data = k;
    values.data = v;
    const weft_attention_args args = {.size = sizeof args,
                                      .num_seqs = batch->seqs,
                                      .q = q,
                                      .out = out,
                                      .lse = lse,
                                      .pool = {.k = keys, .v = values, .num_pages = PAGES},
                                      .cu_q_lens = batch->cu,
                                      .kv_lens = batch->kv_lens,
                                      .page_table = table,
                                      .page_table_stride = PAGES / SEQS,
                                      .workspace = aligned_alloc(64, (bytes + 63) / 64 * 64),
                                      .workspace_bytes = bytes};
    assert_int_equal(weft_attention_run(plan, &args), WEFT_OK);
    free(args.workspace);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

static void attend(int32_t threads, const weft_attention_desc *desc, const struct batch *batch,
                   float *out, float *lse)
{
    attend_in(&(weft_kv_plane){0}, threads, desc, batch, out, lse);
}

static void threads_do_not_change_results(void **state)
{
    static float want[MOST_TOKENS * HEADS * DIM], got[MOST_TOKENS * HEADS * DIM];
    static float want_lse[MOST_TOKENS * HEADS], got_lse[MOST_TOKENS * HEADS];
    const struct batch batches[] = {{1, {0, 1}, {MOST_KEYS}},
                                    {1, {0, 300}, {900}},
                                    {4, {0, 1, 2, 3, 4}, {2900, 257, 1, 700}},
                                    {4, {0, 0, 1, 290, 294}, {5, 2000, 1500, 513}}};
#ifdef WEFT_TEST_SLOW
    const int32_t threads[] = {3, 7};
#else
    const int32_t threads[] = {2, 3, 7, 16};
#endif
    (void)state;
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        for (int window = 0; window < 2; window++) {
            const weft_attention_desc desc = {.size = sizeof desc,
                                              .kv = {.dtype = WEFT_F16,
                                                     .num_kv_heads = KV_HEADS,
                                                     .head_dim = DIM,
                                                     .page_size = PAGE},
                                              .num_q_heads = HEADS,
                                              .window = window * 1000,
                                              .max_seqs = SEQS,
                                              .max_q_tokens = MOST_TOKENS,
                                              .max_kv_len = MOST_KEYS};
            memset(want, 0, sizeof want);
            memset(got, 0, sizeof got);
            attend(1, &desc, &batches[b], want, want_lse);
            for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
                attend(threads[i], &desc, &batches[b], got, got_lse);
                if (memcmp(want, got, sizeof got) != 0 ||
                    memcmp(want_lse, got_lse, sizeof got_lse) != 0)
                    fail_msg("batch %zu, window %d: %d threads differ from one", b, desc.window,
                             threads[i]);
            }
        }
}

// Every batch with heads of a token side by side, each head alone (WEFT_ATTENTION_GENERIC) and as threads claim them.
static void read_together(weft_dtype kv, float scale)
{
    static float want[MOST_TOKENS * HEADS * DIM], got[MOST_TOKENS * HEADS * DIM];
    static float want_lse[MOST_TOKENS * HEADS], got_lse[MOST_TOKENS * HEADS];
    const struct batch batches[] = {{1, {0, 1}, {MOST_KEYS}},
                                    {4, {0, 1, 2, 3, 4}, {2900, 1030, 1, 700}},
                                    {4, {0, 2, 3, 3, 5}, {MOST_KEYS, 2000, 600, 1500}},
                                    {4, {0, 4, 5, 5, 9}, {MOST_KEYS, 2000, 600, 1500}}};
    const int32_t threads[] = {1, 2, 7};
    const weft_kv_plane beside = {
        .token_stride = KV_HEADS * DIM, .head_stride = DIM, .page_stride = PAGE * KV_HEADS * DIM};
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        for (int window = 0; window < 2; window++) {
            weft_attention_desc desc = {
                .size = sizeof desc,
                .flags = WEFT_ATTENTION_NARROW_QUERIES | WEFT_ATTENTION_GENERIC,
                .kv = {.dtype = kv, .num_kv_heads = KV_HEADS, .head_dim = DIM, .page_size = PAGE},
                .scale = scale,
                .num_q_heads = HEADS,
                .window = window * 1000,
                .chunk_keys = 512,
                .max_seqs = SEQS,
                .max_q_tokens = MOST_TOKENS,
                .max_kv_len = MOST_KEYS};
            memset(want, 0, sizeof want);
            memset(got, 0, sizeof got);
            attend_in(&beside, 1, &desc, &batches[b], want, want_lse);
            desc.flags = WEFT_ATTENTION_NARROW_QUERIES;
            for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
                attend_in(&beside, threads[i], &desc, &batches[b], got, got_lse);
                assert_memory_equal(got, want, sizeof got);
                assert_memory_equal(got_lse, want_lse, sizeof got_lse);
            }
        }
}

// A kernel may read the heads of a token together, or some of them.
static void heads_read_together_change_no_bit(void **state)
{
    (void)state;
    read_together(WEFT_BF16, 40); // of halves' bits: below 0.01
    read_together(WEFT_F16, 0);
}

// Two keys, of scores x log2(e) and 0, the first with value 1: out = 2^x / (1 + 2^x). A unit in the last
// place for x, one for the product, one and a half for 2^x, one each for the sum and the quotient.
static void the_exponential_is_precise(void **state)
{
    enum { POINTS = 4096, ROUNDS = 16 };
    static float queries[POINTS * 8], out[POINTS * 8];
    const float keys[2 * 8] = {1}, values[2 * 8] = {1};
    const int32_t cu[2] = {0, POINTS}, kv_len = 2, page = 0;
    const weft_attention_desc desc = {
        .size = sizeof desc,
        .kv = {.dtype = WEFT_F32, .num_kv_heads = 1, .head_dim = 8, .page_size = 2},
        .num_q_heads = 1,
        .mask = WEFT_MASK_FULL,
        .scale = 0.693147182f,
        .max_q_tokens = POINTS,
        .max_kv_len = 2};
    weft_context *context;
    weft_plan *plan;
    (void)state;
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    assert_int_equal(weft_attention_plan(context, &desc, &plan), WEFT_OK);
    size_t bytes = weft_plan_workspace_bytes(plan);
    const weft_attention_args args = {.size = sizeof args,
                                      .num_seqs = 1,
                                      .q = queries,
                                      .out = out,
                                      .pool = {.k.data = (void *)(uintptr_t)keys,
                                               .v.data = (void *)(uintptr_t)values,
                                               .num_pages = 1},
                                      .cu_q_lens = cu,
                                      .kv_lens = &kv_len,
                                      .page_table = &page,
                                      .workspace = aligned_alloc(64, (bytes + 63) / 64 * 64),
                                      .workspace_bytes = bytes};
    double worst = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < POINTS; i++)
            queries[8 * i] = -(float)(round * POINTS + i) / (POINTS * ROUNDS) * 3;
        assert_int_equal(weft_attention_run(plan, &args), WEFT_OK);
        for (int i = 0; i < POINTS; i++) {
            double power = exp(queries[8 * i] * (double)desc.scale), want = power / (1 + power);
            worst = fmax(worst, fabs(out[8 * i] - want) / want);
        }
    }
    if (!(worst <= 8 * 0x1p-24))
        fail_msg("%s: relative error %g x 2^-24", weft_plan_describe(plan), worst * 0x1p24);
    free(args.workspace);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

// With an argument the best level stands for all.
int main(int argc, char **argv)
{
    static const char *const levels[] = {"avx512", "avx2"};
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_do_not_change_results),
                                       cmocka_unit_test(heads_read_together_change_no_bit),
                                       cmocka_unit_test(the_exponential_is_precise)};
    int failed = cmocka_run_group_tests_name("best level", tests, fill, NULL);
    (void)argv;
    for (int i = 0; i < 2 && argc == 1; i++) {
        weft_context *context;
        setenv("WEFT_CPU", levels[i], 1);
        if (weft_context_create(NULL, &context) != WEFT_OK)
            continue; // a level of another architecture
        weft_context_destroy(context);
        failed += cmocka_run_group_tests_name(levels[i], tests, fill, NULL);
    }
    return failed;
}
