// SPDX-License-Identifier: MIT
// The lists of cases that the documents of attention have: lengths of prefill, decode and mixed batches,
// ratios, page sizes, model families, heads over two ranks, a pool past 2^31 elements, the worked example of a
// split key layout. Held against plain loops in double (tests/support/attention_case.h). The lists run on the
// device that WEFT_TEST_DEVICE names, what follows them where the host's memory is the device's.
#define _GNU_SOURCE
#include <math.h>
#include <sys/mman.h>

#include "src/base/half.h"
#include "tests/support/attention_case.h"
#include "tests/support/context_fixture.h"

typedef int32_t lengths[2]; // queries, keys

// Rows that are answered are spread over what there is.
static void try(weft_context *context, weft_attention_desc desc, int32_t num_seqs,
                const lengths *lens, const char *what)
{
    enum { ROWS = 400 };
    attention_case c = {.desc = desc, .num_seqs = num_seqs};
    for (int32_t s = 0; s < num_seqs; s++)
        c.q_lens[s] = lens[s][0], c.kv_lens[s] = lens[s][1];
    attention_case_make(&c);
    size_t bytes = (size_t)c.out_elems * sizeof(float), rows = (size_t)c.lse_elems * sizeof(float);
    float *out = malloc(bytes), *want = malloc(bytes), *lse = malloc(rows),
          *want_lse = malloc(rows);
    if (attention_case_run(context, &c, &c.desc, out, lse) != WEFT_OK)
        fail_msg("%s: %s", what, weft_error_text(context));
    attention_case_answer(&c, want, want_lse, c.lse_elems / ROWS + 1);
    double far = attention_case_far(out, want, c.out_elems);
    double lse_far = attention_case_far(lse, want_lse, c.lse_elems);
    if (far > 2e-5 || lse_far > 5e-5)
        fail_msg("%s: %d/%d: %g and %g off", what, (int)lens[0][0], (int)lens[0][1], far, lse_far);
    free(out);
    free(want);
    free(lse);
    free(want_lse);
    attention_case_free(&c);
}

static weft_attention_desc shape(weft_dtype dtype, int32_t heads, int32_t kv_heads, int32_t dim,
                                 int32_t page_size)
{
    return (weft_attention_desc){
        .kv = {.dtype = dtype, .num_kv_heads = kv_heads, .head_dim = dim, .page_size = page_size},
        .num_q_heads = heads};
}

static void mixed_batches_of_the_document(void **state)
{
    static const lengths lens[] = {{1, 128},   {125, 125}, {1024, 1024},
                                   {123, 522}, {1, 511},   {512, 1024}};
    try(*state, shape(WEFT_BF16, 32, 8, 128, 128), 6, lens, "mixed");
    for (int i = 0; i < 6; i++)
        try(*state, shape(WEFT_BF16, 32, 8, 128, 128), 1, &lens[i], "alone");
}

static void decode_around_whole_blocks(void **state)
{
    static const lengths lens[] = {{1, 119},  {1, 127},  {1, 128},  {1, 129}, {1, 133},
                                   {1, 1001}, {1, 1023}, {1, 1024}, {1, 1025}};
    try(*state, shape(WEFT_BF16, 32, 32, 128, 16), 9, lens, "together");
    for (int i = 0; i < 9; i++)
        try(*state, shape(WEFT_BF16, 32, 32, 128, 16), 1, &lens[i], "alone");
}

// Also more queries than keys, which a causal mask refuses.
static void lengths_pages_and_ratios(void **state)
{
    static const lengths lens[] = {{1, 1},     {64, 128},  {128, 192},  {239, 1},   {799, 3},
                                   {113, 203}, {113, 128}, {128, 217},  {113, 211}, {108, 256},
                                   {256, 512}, {384, 256}, {640, 128},  {512, 256}, {1, 339},
                                   {3, 1024},  {64, 800},  {64, 256},   {3, 799},   {64, 2048},
                                   {16, 2000}, {128, 128}, {1023, 1024}};
    static const int32_t pages[] = {2048, 1, 4, 128}, ratios[] = {3, 6, 7, 12};
    for (int i = 0; i < (int)(sizeof lens / sizeof *lens); i++) {
        weft_attention_desc desc =
            shape(i % 2 ? WEFT_F16 : WEFT_BF16, ratios[i / 4 % 4], 1, 64, pages[i % 4]);
        desc.mask = WEFT_MASK_FULL;
        try(*state, desc, 1, &lens[i], "full");
        desc.window = 100;
        try(*state, desc, 1, &lens[i], "window");
        desc.window = 0;
        desc.mask = WEFT_MASK_CAUSAL;
        if (lens[i][0] <= lens[i][1])
            try(*state, desc, 1, &lens[i], "causal");
    }
    for (int i = 0; i < 16; i++)
        try(*state, shape(WEFT_F16, ratios[i / 4], 1, 64, pages[i % 4]), 1,
            &(const lengths){113, 211}, "ratio and page");
}

static void one_configuration_of_every_family(void **state)
{
    static const lengths prompt = {70, 300}, step = {1, 300}, text = {128, 128}, cross = {7, 1500};
    static const struct {
        const char *name;
        int32_t heads, kv_heads, dim, window;
        float softcap, scale;
        weft_mask mask;
        const lengths *lens;
    } families[] = {
        {"Llama", 32, 8, 128, 0, 0, 0, WEFT_MASK_CAUSAL, &prompt},
        {"Llama, a step", 32, 8, 128, 0, 0, 0, WEFT_MASK_CAUSAL, &step},
        {"Mistral", 32, 8, 128, 128, 0, 0, WEFT_MASK_CAUSAL, &prompt},
        {"Gemma 2", 8, 4, 256, 128, 50, 0.0625f, WEFT_MASK_CAUSAL, &prompt},
        {"Gemma 3", 4, 1, 256, 64, 0, 0.0625f, WEFT_MASK_CAUSAL, &step},
        {"BERT", 12, 12, 64, 0, 0, 0, WEFT_MASK_FULL, &text},
        {"Whisper, audio to text", 20, 20, 64, 0, 0, 0, WEFT_MASK_FULL, &cross},
    };
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        weft_attention_desc desc =
            shape(WEFT_F16, families[i].heads, families[i].kv_heads, families[i].dim, 16);
        desc.window = families[i].window;
        desc.softcap = families[i].softcap;
        desc.scale = families[i].scale;
        desc.mask = families[i].mask;
        try(*state, desc, 1, families[i].lens, families[i].name);
    }
}

// A rank has half of the query heads and of the KV heads, as a slice of the same tensors; lengths and pages are the
// same for both. What the two write together is what one writes.
static void two_ranks_over_halves_of_the_heads(void **state)
{
    if (on_gpu())
        skip();
    enum { DIM = 64, HEADS = 8, KV_HEADS = 4, RANKS = 2 };
    attention_case c = {.desc = shape(WEFT_F16, HEADS, KV_HEADS, DIM, 16),
                        .num_seqs = 3,
                        .q_lens = {1, 20, 3},
                        .kv_lens = {2100, 90, 3}};
    c.desc.flags =
        WEFT_ATTENTION_BATCH_INVARIANT; // chunks that are no matter of the number of heads
    attention_case_make(&c);
    float *one = malloc((size_t)c.out_elems * sizeof *one),
          *two = malloc((size_t)c.out_elems * sizeof *two);
    assert_int_equal(attention_case_run(*state, &c, &c.desc, one, NULL), WEFT_OK);
    for (int rank = 0; rank < RANKS; rank++) {
        weft_attention_desc desc = c.desc;
        weft_plan *plan;
        desc.num_q_heads /= RANKS;
        desc.kv.num_kv_heads /= RANKS;
        assert_int_equal(weft_attention_plan(*state, &desc, &plan), WEFT_OK);
        size_t bytes = weft_plan_workspace_bytes(plan);
        const int64_t page = KV_HEADS * 16 * DIM, first = rank * (page / RANKS);
        const weft_kv_plane k = {.data = (uint16_t *)c.k + first, .page_stride = page};
        const weft_kv_plane v = {.data = (uint16_t *)c.v + first, .page_stride = page};
        const weft_attention_args args = {.size = sizeof args,
                                          .num_seqs = c.num_seqs,
                                          .q = c.q + rank * (HEADS / RANKS) * DIM,
                                          .q_token_stride = HEADS * DIM,
                                          .out = two + rank * (HEADS / RANKS) * DIM,
                                          .out_token_stride = HEADS * DIM,
                                          .pool = {.k = k, .v = v, .num_pages = c.pages},
                                          .cu_q_lens = c.cu,
                                          .kv_lens = c.kv_lens,
                                          .page_table = c.table,
                                          .page_table_stride = c.table_stride,
                                          .workspace = aligned_alloc(64, (bytes + 63) / 64 * 64),
                                          .workspace_bytes = bytes};
        if (weft_attention_run(plan, &args) != WEFT_OK)
            fail_msg("%s", weft_error_text(*state));
        free(args.workspace);
        weft_plan_destroy(plan);
    }
    assert_memory_equal(one, two, (size_t)c.out_elems * sizeof *one);
    free(one);
    free(two);
    attention_case_free(&c);
}

// Memory that is touched only where it is used: pools of 2^31 elements and some, keys at both ends.
static void a_pool_of_more_than_2_31_elements(void **state)
{
    if (on_gpu())
        skip();
    enum { DIM = 128, PAGE = 1024, PAGES = (1 << 14) + 9, KEYS = 2 * PAGE };
    const size_t bytes = (size_t)PAGES * PAGE * DIM * 2;
    const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *k = mmap(NULL, bytes, prot, flags, -1, 0), *v = mmap(NULL, bytes, prot, flags, -1, 0);
    if (k == MAP_FAILED || v == MAP_FAILED)
        skip();
    static float q[DIM], far[DIM], near[DIM];
    const int32_t cu[2] = {0, 1}, kv_len = KEYS, far_table[2] = {PAGES - 1, 0};
    const int32_t near_table[2] = {1, 0};
    weft_attention_desc desc = shape(WEFT_BF16, 1, 1, DIM, PAGE);
    weft_plan *plan;
    desc.size = sizeof desc;
    desc.max_kv_len = KEYS;
    assert_true((int64_t)(PAGES - 1) * PAGE * DIM > INT32_MAX);
    for (int i = 0; i < DIM; i++)
        q[i] = (float)(i % 5);
    for (int64_t i = 0; i < (int64_t)PAGE * DIM; i++) {
        const uint16_t x = weft__bf16_from_f32((float)(i * 31 % 199) / 199);
        const size_t at = (size_t)(i + (int64_t)(PAGES - 1) * PAGE * DIM) * 2;
        memcpy(k + at, &x, 2);
        memcpy(v + at, &x, 2);
        memcpy(k + (size_t)(i + PAGE * DIM) * 2, &x, 2);
        memcpy(v + (size_t)(i + PAGE * DIM) * 2, &x, 2);
    }
    assert_int_equal(weft_attention_plan(*state, &desc, &plan), WEFT_OK);
    weft_attention_args args = {.size = sizeof args,
                                .num_seqs = 1,
                                .q = q,
                                .out = far,
                                .pool = {.k.data = k, .v.data = v, .num_pages = PAGES},
                                .cu_q_lens = cu,
                                .kv_lens = &kv_len,
                                .page_table = far_table,
                                .workspace_bytes = weft_plan_workspace_bytes(plan)};
    args.workspace = aligned_alloc(64, (args.workspace_bytes + 63) / 64 * 64);
    assert_int_equal(weft_attention_run(plan, &args), WEFT_OK);
    args.page_table = near_table;
    args.out = near;
    assert_int_equal(weft_attention_run(plan, &args), WEFT_OK);
    assert_memory_equal(far, near, sizeof far);
    assert_true(near[1] != near[2]);
    free(args.workspace);
    weft_plan_destroy(plan);
    munmap(k, bytes);
    munmap(v, bytes);
}

// Keys as [page][head][dim / 8][slot][8], as the document walks them: a thread of a group of 4 takes 2 elements at a
// time, vector number `thread + 4 j`. Stored where its formula says, they are what attention reads.
static void the_worked_example_of_a_split_key(void **state)
{
    if (on_gpu())
        skip();
    enum { GROUP = 4, VEC = 2, X = 8, VECTORS = 8, DIM = GROUP * VEC * VECTORS, PAGE = 16 };
    static const int32_t example[6][3] = {{0, 0, 0}, {1, 0, 2}, {2, 0, 4},
                                          {3, 0, 6}, {4, 1, 0}, {5, 1, 2}};
    static uint16_t k[DIM * PAGE];
    static float v[DIM * PAGE], q[DIM], out[DIM], lse;
    const int32_t cu[2] = {0, 1}, kv_len = 1, table = 0;
    for (int32_t j = 0; j < VECTORS; j++)
        for (int32_t thread = 0; thread < GROUP; thread++) {
            const int32_t vec = thread + j * GROUP, offset1 = vec * VEC / X,
                          offset2 = vec * VEC % X;
            if (vec < 6) {
                assert_int_equal(offset1, example[vec][1]);
                assert_int_equal(offset2, example[vec][2]);
            }
            for (int32_t i = 0; i < VEC; i++)
                k[offset1 * PAGE * X + offset2 + i] =
                    weft__f16_from_f32((float)(vec * VEC + i + 1) / DIM);
        }
    double want = 0;
    for (int32_t i = 0; i < DIM; i++) {
        q[i] = (float)(1 << i % 7); // every element has a weight of its own
        want += q[i] * (double)weft__f16_to_f32(weft__f16_from_f32((float)(i + 1) / DIM));
    }
    weft_plan *plan;
    weft_attention_desc desc = shape(WEFT_F16, 1, 1, DIM, PAGE);
    desc.size = sizeof desc;
    desc.kv.v_dtype = WEFT_F32;
    desc.kv.inner = X;
    desc.max_kv_len = 1;
    desc.scale = 1;
    assert_int_equal(weft_attention_plan(*state, &desc, &plan), WEFT_OK);
    weft_attention_args args = {.size = sizeof args,
                                .num_seqs = 1,
                                .q = q,
                                .out = out,
                                .lse = &lse,
                                .pool = {.k = {.data = k,
                                               .token_stride = X,
                                               .inner_stride = PAGE * X,
                                               .head_stride = DIM * PAGE,
                                               .page_stride = DIM * PAGE},
                                         .v.data = v,
                                         .num_pages = 1},
                                .cu_q_lens = cu,
                                .kv_lens = &kv_len,
                                .page_table = &table,
                                .workspace_bytes = weft_plan_workspace_bytes(plan)};
    args.workspace = aligned_alloc(64, (args.workspace_bytes + 63) / 64 * 64);
    if (weft_attention_run(plan, &args) != WEFT_OK)
        fail_msg("%s", weft_error_text(*state));
    assert_true(fabs(lse - want) < 1e-4);
    free(args.workspace);
    weft_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixed_batches_of_the_document),
        cmocka_unit_test(decode_around_whole_blocks),
        cmocka_unit_test(lengths_pages_and_ratios),
        cmocka_unit_test(one_configuration_of_every_family),
        cmocka_unit_test(two_ranks_over_halves_of_the_heads),
        cmocka_unit_test(a_pool_of_more_than_2_31_elements),
        cmocka_unit_test(the_worked_example_of_a_split_key),
    };
    return cmocka_run_group_tests(tests, open_device, close_context);
}
