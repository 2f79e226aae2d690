// SPDX-License-Identifier: MIT
// What only long contexts and large pools show, on the device that WEFT_TEST_DEVICE names (cpu, cuda): scores
// that rise or fall by 60 over 65536 and 131072 keys against softmax in double, and a pool of more than 2^31
// elements.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/device.h>

#include "src/base/half.h"
#include "tests/support/attention_case.h"
#include "tests/support/context_fixture.h"

enum { DIM = 64, HEADS = 4, PAGE = 16, MOST_KEYS = 131072 };

// What a test took.
static void *rooms[16];
static int num_rooms;

static void free_rooms(weft_context *context)
{
    while (num_rooms > 0)
        weft_memory_free(context, rooms[--num_rooms]);
}

static void *device_room(weft_context *context, size_t bytes)
{
    void *to = NULL;
    assert_true(num_rooms < (int)(sizeof rooms / sizeof *rooms));
    if (weft_memory_allocate(context, WEFT_MEMORY_DEVICE, bytes, &to) != WEFT_OK)
        fail_msg("%s", weft_error_text(context));
    rooms[num_rooms++] = to;
    return to;
}

static void *device_copy(weft_context *context, const void *from, size_t bytes)
{
    void *to = device_room(context, bytes);
    assert_int_equal(weft_copy(context, to, from, bytes, NULL), WEFT_OK);
    return to;
}

static void host_copy(weft_context *context, void *to, const void *from, size_t bytes)
{
    assert_int_equal(weft_copy(context, to, from, bytes, NULL), WEFT_OK);
    if (weft_stream_synchronize(context, NULL) != WEFT_OK)
        fail_msg("%s", weft_error_text(context));
}

// One sequence's keys and values of one KV head, as f16 has them, and what softmax makes of them.
struct sequence {
    int32_t keys;
    int32_t most; // that its plan is for, 0: no more
    uint16_t k[MOST_KEYS * DIM], v[MOST_KEYS * DIM];
    double want[DIM], lse;
};

// Key t scores about steepness * t / keys.
static void sequence_fill(struct sequence *s, int32_t keys, double steepness)
{
    s->keys = keys;
    memset(s->k, 0, sizeof s->k);
    for (int32_t t = 0; t < keys; t++) {
        s->k[t * DIM] = weft__f16_from_f32((float)(steepness * t / keys));
        for (int32_t i = 0; i < DIM; i++)
            s->v[t * DIM + i] = weft__f16_from_f32(sinf((float)(t * 3 + i)));
    }
}

static void sequence_expect(struct sequence *s)
{
    double sum = 0, largest = -INFINITY;
    memset(s->want, 0, sizeof s->want);
    for (int32_t t = 0; t < s->keys; t++)
        largest = fmax(largest, (double)weft__f16_to_f32(s->k[t * DIM]));
    for (int32_t t = 0; t < s->keys; t++) {
        const double weight = exp((double)weft__f16_to_f32(s->k[t * DIM]) - largest);
        sum += weight;
        for (int32_t i = 0; i < DIM; i++)
            s->want[i] += weight * (double)weft__f16_to_f32(s->v[t * DIM + i]);
    }
    for (int32_t i = 0; i < DIM; i++)
        s->want[i] /= sum;
    s->lse = largest + log(sum);
}

// All heads of a query of ones. Weights in one part are rounded to f16, `bound` allows for it.
static void attend(weft_context *context, const struct sequence *s, weft_dtype q_dtype,
                   int32_t splits, double bound)
{
    static float q[HEADS * DIM], out[HEADS * DIM], lse[HEADS];
    static uint16_t narrow[HEADS * DIM];
    static int32_t table[MOST_KEYS / PAGE];
    const int32_t cu[2] = {0, 1}, pages = (s->keys + PAGE - 1) / PAGE;
    weft_plan *plan;
    const weft_attention_desc desc = {
        .size = sizeof desc,
        .kv = {.dtype = WEFT_F16, .num_kv_heads = 1, .head_dim = DIM, .page_size = PAGE},
        .q_dtype = q_dtype,
        .out_dtype = WEFT_F32,
        .num_q_heads = HEADS,
        .scale = 1,
        .max_seqs = 1,
        .max_q_tokens = 1,
        .max_kv_len = s->most ? s->most : s->keys,
        .num_splits = splits};
    for (int32_t i = 0; i < HEADS * DIM; i++)
        q[i] = 1, narrow[i] = weft__f16_from_f32(1);
    for (int32_t i = 0; i < pages; i++)
        table[i] = i;
    if (weft_attention_plan(context, &desc, &plan) != WEFT_OK)
        fail_msg("%s", weft_error_text(context));
    const size_t bytes = weft_plan_workspace_bytes(plan) + 64;
    const size_t cache = (size_t)pages * PAGE * DIM * 2;
    weft_attention_args args = {.size = sizeof args,
                                .num_seqs = 1,
                                .q = q_dtype == WEFT_F32
                                         ? device_copy(context, q, sizeof q)
                                         : device_copy(context, narrow, sizeof narrow),
                                .out = device_room(context, sizeof out),
                                .lse = device_room(context, sizeof lse),
                                .pool = {.k.data = device_copy(context, s->k, cache),
                                         .v.data = device_copy(context, s->v, cache),
                                         .num_pages = pages},
                                .cu_q_lens = device_copy(context, cu, sizeof cu),
                                .kv_lens = device_copy(context, &s->keys, sizeof s->keys),
                                .page_table = device_copy(context, table, sizeof table),
                                .page_table_stride = pages,
                                .workspace = device_room(context, bytes),
                                .workspace_bytes = bytes};
    if (weft_attention_run(plan, &args) != WEFT_OK)
        fail_msg("%s", weft_error_text(context));
    host_copy(context, out, args.out, sizeof out);
    host_copy(context, lse, args.lse, sizeof lse);
    for (int32_t i = 0; i < HEADS * DIM; i++)
        if (!(fabs((double)out[i] - s->want[i % DIM]) <= bound))
            fail_msg("%d keys in %d splits: [%d] %g, not %g (%s)", s->keys, splits, i,
                     (double)out[i], s->want[i % DIM], weft_plan_describe(plan));
    for (int32_t h = 0; h < HEADS; h++)
        assert_true(fabs((double)lse[h] - s->lse) <= 4e-5);
    weft_plan_destroy(plan);
    free_rooms(context);
}

static void scores_rise_and_fall_by_60(void **state)
{
    static struct sequence s;
    static const struct {
        int32_t keys;
        double steepness;
    } cases[] = {{65536, 60}, {65536, -60}, {131072, 60}, {131072, 5}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        sequence_fill(&s, cases[n].keys, cases[n].steepness);
        sequence_expect(&s);
        attend(*state, &s, WEFT_F32, 0, 1e-5);
        attend(*state, &s, WEFT_F16, 0, 2e-3);
        if (n == 0)
            attend(*state, &s, WEFT_F16, 1, 2e-3);
    }
}

// Lengths round those of tiles, of all blocks' tiles and of where a GPU's plans change their shape, in plans for more.
static void one_sequence_of_any_length(void **state)
{
    static struct sequence s;
    static const int32_t lengths[][2] = {{1, 4096},    {16, 4096},   {17, 8192},   {257, 8192},
                                         {2113, 4096}, {4095, 4096}, {4096, 4097}, {5000, 8192},
                                         {8192, 8192}, {8193, 32768}};
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        sequence_fill(&s, lengths[n][0], n % 2 ? 5 : -5);
        s.most = lengths[n][1];
        sequence_expect(&s);
        attend(*state, &s, WEFT_F16, 0, 2e-3);
    }
}

// The answer in double within what weights rounded to 16 bits may differ by.
static void holds(weft_context *context, attention_case *c, double bound)
{
    attention_case_make(c);
    float *want = malloc(2 * (size_t)(c->out_elems + c->lse_elems) * sizeof *want);
    float *got = want + c->out_elems, *want_lse = got + c->out_elems,
          *lse = want_lse + c->lse_elems;
    weft_quantize_row(c->desc.q_dtype, c->q, c->out_elems, got);
    weft_dequantize_row(c->desc.q_dtype, got, c->out_elems, c->q);
    attention_case_answer(c, want, want_lse, 1);
    if (attention_case_run(context, c, &c->desc, got, lse) != WEFT_OK)
        fail_msg("%s", weft_error_text(context));
    const double far = attention_case_far(got, want, c->out_elems);
    const double lse_far = attention_case_far(lse, want_lse, c->lse_elems);
    if (!(far <= bound) || !(lse_far <= 1e-4))
        fail_msg("%d keys in pages of %d, head_dim %d: %g off, LSE %g", c->kv_lens[0],
                 c->desc.kv.page_size, c->desc.kv.head_dim, far, lse_far);
    attention_case_free(c);
    free(want);
}

// Eight KV heads, whose parts end at any tile: of a GPU's clusters those whose blocks merge have less than
// others, or nothing. Sixteen keys more or less are 1e-3 of a sum.
static void one_sequence_of_eight_heads(void **state)
{
    static const int32_t lengths[] = {4097, 5000, 7169, 8144, 8192, 16400};
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        const weft_dtype dtype = n % 2 ? WEFT_BF16 : WEFT_F16;
        attention_case c = {.num_seqs = 1, .q_lens = {1}, .kv_lens = {lengths[n]}};
        c.desc = (weft_attention_desc){.kv = {.dtype = dtype,
                                              .num_kv_heads = 8,
                                              .head_dim = n % 3 ? 128 : 64,
                                              .page_size = 16},
                                       .q_dtype = dtype,
                                       .num_q_heads = 32};
        holds(*state, &c, n % 2 ? 4e-4 : 5e-5);
    }
}

// Prompts whose tiles are whole, cut by a window or by their end, over pages that hold them in one piece or
// not, or beside each other.
static void prompts_over_pages_of_any_size(void **state)
{
    static const int32_t pages[] = {16, 48, 64, 128, 256, 5}, dims[] = {128, 64, 256};
    for (size_t n = 0; n < sizeof pages / sizeof *pages; n++)
        for (int32_t i = 0; i < 3; i++) {
            const weft_dtype dtype = (n + (size_t)i) % 2 ? WEFT_BF16 : WEFT_F16;
            attention_case c = {.num_seqs = 3, .q_lens = {150, 1, 260}, .kv_lens = {650, 20, 260}};
            c.desc = (weft_attention_desc){.kv = {.dtype = dtype,
                                                  .num_kv_heads = 2,
                                                  .head_dim = dims[i],
                                                  .page_size = pages[n]},
                                           .q_dtype = dtype,
                                           .window = n % 3 == 2 ? 300 : 0,
                                           .num_q_heads = 4};
            holds(*state, &c, dtype == WEFT_BF16 ? 1.6e-2 : 2e-3);
        }
}

// Steps of several sequences over pages of no whole sixteens, whose rows come one by one: first and last tiles
// in part, behind a window, of one key.
static void steps_over_small_pages(void **state)
{
    static const int32_t pages[] = {1, 2, 5, 17, 24, 3}, dims[] = {128, 256, 144, 64};
    for (size_t n = 0; n < sizeof pages / sizeof *pages; n++)
        for (int32_t i = 0; i < 4; i++) {
            const weft_dtype dtype = (n + (size_t)i) % 2 ? WEFT_BF16 : WEFT_F16;
            attention_case c = {
                .num_seqs = 4, .q_lens = {1, 1, 1, 1}, .kv_lens = {1111, 1, 33, 400}};
            c.desc = (weft_attention_desc){.kv = {.dtype = dtype,
                                                  .num_kv_heads = 2,
                                                  .head_dim = dims[i],
                                                  .page_size = pages[n]},
                                           .q_dtype = dtype,
                                           .window = n % 2 ? 301 : 0,
                                           .num_q_heads = 8};
            holds(*state, &c, dtype == WEFT_BF16 ? 1.6e-2 : 2e-3);
        }
}

// A key with nearly all the weight among 2000 of 4e-10 each, whose values are the opposite of its own: added
// one by one to it, even those of 64 keys together would be lost. f32 queries, so that weights are exact.
static void weights_beside_one(void **state)
{
    enum { MANY = 2001, SEQ_COUNT = 2 };
    static const int32_t places[] = {MANY - 1, 1000, 0};
    static float out[SEQ_COUNT * DIM];
    for (size_t n = 0; n < sizeof places / sizeof *places; n++) {
        attention_case c = {.num_seqs = SEQ_COUNT, .q_lens = {1, 1}, .kv_lens = {MANY, MANY}};
        c.desc = (weft_attention_desc){
            .kv = {.dtype = WEFT_F16, .num_kv_heads = 1, .head_dim = DIM, .page_size = PAGE},
            .q_dtype = WEFT_F32,
            .scale = 1,
            .num_q_heads = 1};
        attention_case_make(&c);
        memset(c.q, 0, (size_t)c.out_elems * sizeof *c.q);
        for (int32_t s = 0; s < SEQ_COUNT; s++) {
            c.q[s * DIM] = 1;
            for (int32_t t = 0; t < MANY; t++) {
                const int64_t at =
                    (int64_t)(c.table[s * c.table_stride + t / PAGE] * PAGE + t % PAGE) * DIM;
                const bool is_one = t == places[n];
                for (int32_t i = 0; i < DIM; i++) {
                    ((uint16_t *)c.k)[at + i] = weft__f16_from_f32(is_one && i == 0 ? 21.625f : 0);
                    ((uint16_t *)c.v)[at + i] = weft__f16_from_f32(is_one ? 1 : -1);
                }
            }
        }
        const double others = (MANY - 1) * exp(-21.625), want = (1 - others) / (1 + others);
        if (attention_case_run(*state, &c, &c.desc, out, NULL) != WEFT_OK)
            fail_msg("%s", weft_error_text(*state));
        for (int32_t i = 0; i < SEQ_COUNT * DIM; i++)
            if (!(fabs((double)out[i] - want) <= 0x1p-21))
                fail_msg("key %d: [%d] %.9g, not %.9g", places[n], i, (double)out[i], want);
        attention_case_free(&c);
    }
}

// Sequences among short ones that are many shares of a GPU's blocks; of the second round the short ones are less than what the long ones leave
// of a share. The batch's second run finds the shares of its first.
static void some_long_among_short(void **state)
{
    static const int32_t rounds[2][8] = {{300, 1000, 77, 16099, 640, 1, 2000, 2111},
                                         {200, 17, 5000, 160, 16099, 1, 33, 190}};
    for (int i = 0; i < 4; i++) {
        attention_case c = {
            .num_seqs = 8, .q_lens = {1, 1, 1, 1, 1, 1, 1, 1}, .batched = true, .again = i % 2};
        memcpy(c.kv_lens, rounds[i / 2], sizeof rounds[i / 2]);
        c.desc = (weft_attention_desc){
            .kv = {.dtype = WEFT_F16, .num_kv_heads = 8, .head_dim = 128, .page_size = 16},
            .q_dtype = WEFT_F16,
            .num_q_heads = 8};
        holds(*state, &c, 2e-4); // the LSE tells of a tile
    }
}

enum { WIDE = 128, LONG_PAGE = 1024, LONG_PAGES = (1 << 14) + 9 };

// The same numbers in pages 0 and 1 and in the last one.
static void fill_ends(weft_context *context, uint16_t *plane)
{
    static const int64_t page = (int64_t)LONG_PAGE * WIDE, filled[] = {0, 1, LONG_PAGES - 1};
    static uint16_t numbers[LONG_PAGE * WIDE];
    for (int64_t i = 0; i < page; i++)
        numbers[i] = weft__bf16_from_f32((float)(i * 31 % 199) / 199);
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            weft_copy(context, plane + filled[i] * page, numbers, sizeof numbers, NULL), WEFT_OK);
}

// Pages at both ends of a pool of 2^31 elements and some are filled, others are not written: the same keys give
// the same bits.
static void a_pool_of_more_than_2_31_elements(void **state)
{
    enum { KEYS = 2 * LONG_PAGE };
    static const int64_t page = (int64_t)LONG_PAGE * WIDE;
    static uint16_t q[WIDE];
    static float out[2][WIDE];
    const int32_t cu[2] = {0, 1}, kv_len = KEYS;
    const int32_t tables[2][2] = {{LONG_PAGES - 1, 0}, {1, 0}};
    weft_plan *plan;
    weft_memory_kind kind = WEFT_MEMORY_DEVICE;
    void *planes[2] = {NULL, NULL};
    const size_t bytes = (size_t)(LONG_PAGES * page) * 2;
    assert_true((LONG_PAGES - 1) * page > INT32_MAX);
    for (int p = 0; p < 2; p++)
        if (weft_memory_allocate(*state, kind, bytes, &planes[p]) != WEFT_OK)
            skip();
    const weft_attention_desc desc = {
        .size = sizeof desc,
        .kv = {.dtype = WEFT_BF16, .num_kv_heads = 1, .head_dim = WIDE, .page_size = LONG_PAGE},
        .q_dtype = WEFT_BF16,
        .out_dtype = WEFT_F32,
        .num_q_heads = 1,
        .max_seqs = 1,
        .max_q_tokens = 1,
        .max_kv_len = KEYS};
    assert_int_equal(weft_attention_plan(*state, &desc, &plan), WEFT_OK);
    for (int32_t i = 0; i < WIDE; i++)
        q[i] = weft__bf16_from_f32((float)(i % 5));
    for (int p = 0; p < 2; p++)
        fill_ends(*state, planes[p]);
    const size_t workspace_bytes = weft_plan_workspace_bytes(plan) + 64;
    weft_attention_args args = {
        .size = sizeof args,
        .num_seqs = 1,
        .q = device_copy(*state, q, sizeof q),
        .out = device_room(*state, sizeof out[0]),
        .pool = {.k.data = planes[0], .v.data = planes[1], .num_pages = LONG_PAGES},
        .cu_q_lens = device_copy(*state, cu, sizeof cu),
        .kv_lens = device_copy(*state, &kv_len, sizeof kv_len),
        .page_table_stride = 2,
        .workspace = device_room(*state, workspace_bytes),
        .workspace_bytes = workspace_bytes};
    for (int i = 0; i < 2; i++) {
        args.page_table = device_copy(*state, tables[i], sizeof tables[i]);
        if (weft_attention_run(plan, &args) != WEFT_OK)
            fail_msg("%s", weft_error_text(*state));
        host_copy(*state, out[i], args.out, sizeof out[i]);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    assert_true(out[0][1] != out[0][2]);
    weft_plan_destroy(plan);
    free_rooms(*state);
    for (int p = 0; p < 2; p++)
        weft_memory_free(*state, planes[p]);
}

// Arguments: [PATTERN], of the tests to run.
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_rise_and_fall_by_60),
        cmocka_unit_test(one_sequence_of_any_length),
        cmocka_unit_test(one_sequence_of_eight_heads),
        cmocka_unit_test(prompts_over_pages_of_any_size),
        cmocka_unit_test(steps_over_small_pages),
        cmocka_unit_test(some_long_among_short),
        cmocka_unit_test(weights_beside_one),
        cmocka_unit_test(a_pool_of_more_than_2_31_elements),
    };
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, open_device, close_context);
}
