// SPDX-License-Identifier: MIT
// Every switch of attention forced one way and the other, on the device that WEFT_TEST_DEVICE names (cpu,
// cuda): what comes out is the answer in double within what formats round, whichever way. What a way gains is
// measured (NOTES.md), not tested.
#include <math.h>
#include <stdio.h>

#include "tests/support/attention_case.h"
#include "tests/support/context_fixture.h"

// Prefill, decode and drafts in one batch; a sequence of several chunks, one without queries.
static const int32_t lens[][2] = {{1, 700}, {40, 150}, {5, 65}, {1, 1}, {0, 9}};
enum { SEQS = 5 };

// Formats of caches and queries, and how far from the answer they may be: f32, or weights in 16 bits.
static const struct format {
    weft_dtype kv, q;
    double bound;
} formats[] = {
    {WEFT_BF16, WEFT_BF16, 1.6e-2},     {WEFT_F16, WEFT_F16, 2e-3},
    {WEFT_F16, WEFT_F32, 2e-5},         {WEFT_INT8, WEFT_F32, 2e-5},
    {WEFT_FP8_E4M3, WEFT_F32, 2e-5},    {WEFT_F32, WEFT_F32, 2e-5},
    {WEFT_Q8_0, WEFT_F32, 2e-5},        {WEFT_INT8, WEFT_BF16, 1.6e-2},
    {WEFT_FP8_E4M3, WEFT_BF16, 1.6e-2}, {WEFT_FP8_E5M2, WEFT_BF16, 1.6e-2},
};
enum { FORMATS = 10 };

struct problem {
    attention_case c;
    float *want, *want_lse, *got, *got_lse, *again;
    double bound;
};

// Queries are what their format can hold, for the answer too.
static struct problem open_problem(const struct format *format, int32_t head_dim, int32_t page_size)
{
    struct problem p = {.bound = format->bound};
    p.c.num_seqs = SEQS;
    p.c.desc = (weft_attention_desc){.kv = {.dtype = format->kv,
                                            .num_kv_heads = 2,
                                            .head_dim = head_dim,
                                            .page_size = page_size},
                                     .q_dtype = format->q,
                                     .num_q_heads = 8};
    for (int32_t s = 0; s < SEQS; s++)
        p.c.q_lens[s] = lens[s][0], p.c.kv_lens[s] = lens[s][1];
    attention_case_make(&p.c);
    const size_t bytes = (size_t)p.c.out_elems * sizeof(float);
    float **of[] = {&p.want, &p.got, &p.again, &p.want_lse, &p.got_lse};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        *of[i] = malloc(bytes);
    if (format->q != WEFT_F32) {
        weft_quantize_row(format->q, p.c.q, p.c.out_elems, p.got);
        weft_dequantize_row(format->q, p.got, p.c.out_elems, p.c.q);
    }
    attention_case_answer(&p.c, p.want, p.want_lse, 1);
    return p;
}

static void close_problem(struct problem *p)
{
    float *of[] = {p->want, p->got, p->again, p->want_lse, p->got_lse};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        free(of[i]);
    attention_case_free(&p->c);
}

// Runs one way, twice: the answer both times, and to the bit the same. False where no kernel serves it.
static bool one_way(weft_context *context, struct problem *p, const weft_attention_desc *desc,
                    const char *way, int32_t value)
{
    const weft_status status = attention_case_run(context, &p->c, desc, p->got, p->got_lse);
    if (status == WEFT_EVARIANT || status == WEFT_EUNSUPPORTED)
        return false;
    if (status != WEFT_OK)
        fail_msg("%s %d: %s", way, value, weft_error_text(context));
    const double far = attention_case_far(p->got, p->want, p->c.out_elems);
    const double lse = attention_case_far(p->got_lse, p->want_lse, p->c.lse_elems);
    if (!(far <= p->bound) || !(lse <= 1e-4))
        fail_msg("%s, %s %d: %g off, LSE %g", weft_dtype_name(desc->kv.dtype), way, value, far,
                 lse);
    assert_int_equal(attention_case_run(context, &p->c, desc, p->again, p->got_lse), WEFT_OK);
    if (memcmp(p->got, p->again, (size_t)p->c.out_elems * sizeof(float)) != 0)
        fail_msg("%s, %s %d: a second run differs", weft_dtype_name(desc->kv.dtype), way, value);
    return true;
}

// Members of the descriptor that are nothing but ways to work.
static const struct {
    const char *name;
    size_t offset;
    int32_t values[7];
} members[] = {
    {"num_splits", offsetof(weft_attention_desc, num_splits), {0, 1, 2, 7, 200}},
    {"chunk_keys", offsetof(weft_attention_desc, chunk_keys), {16, 64, 100, 1000}},
    {"tile_rows", offsetof(weft_attention_desc, tile_rows), {1, 16, 32, 64, 128}},
    {"tile_heads", offsetof(weft_attention_desc, tile_heads), {1, 2, 4}},
    {"block_keys", offsetof(weft_attention_desc, block_keys), {1, 16, 64}},
    {"stages", offsetof(weft_attention_desc, stages), {1, 2}},
};

static void every_member_both_ways(void **state)
{
    for (int f = 0; f < FORMATS; f++) {
        struct problem p = open_problem(&formats[f], f % 2 ? 64 : 128, 16);
        for (size_t m = 0; m < sizeof members / sizeof *members; m++)
            for (int i = 0; i < 7 && (i == 0 || members[m].values[i]); i++) {
                weft_attention_desc desc = p.c.desc;
                memcpy((char *)&desc + members[m].offset, &members[m].values[i], sizeof(int32_t));
                assert_true(one_way(*state, &p, &desc, members[m].name, members[m].values[i]));
                desc.flags = WEFT_ATTENTION_BATCH_INVARIANT;
                if (m == 0)
                    assert_true(
                        one_way(*state, &p, &desc, "invariant in splits", members[m].values[i]));
            }
        close_problem(&p);
    }
}

static void every_flag_both_ways(void **state)
{
    static const uint32_t flags[] = {WEFT_ATTENTION_BATCH_INVARIANT, WEFT_ATTENTION_GENERIC,
                                     WEFT_ATTENTION_PRECISE};
    for (int f = 0; f < FORMATS; f++) {
        struct problem p = open_problem(&formats[f], 64, 16);
        for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
            weft_attention_desc desc = p.c.desc;
            desc.flags = flags[i];
            // in double, of the CPU
            assert_true(one_way(*state, &p, &desc, "flag", (int32_t)flags[i]) ||
                        flags[i] == WEFT_ATTENTION_PRECISE);
        }
        close_problem(&p);
    }
}

// Keys in pages that are read where they lie, in boxes, or row by row.
static void every_size_of_pages(void **state)
{
    static const int32_t sizes[] = {1, 4, 5, 16, 17, 64, 256};
    for (int f = 0; f < FORMATS; f++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct problem p = open_problem(&formats[f], i % 2 ? 64 : 128, sizes[i]);
            assert_true(one_way(*state, &p, &p.c.desc, "pages of", sizes[i]));
            close_problem(&p);
        }
}

// Every kernel by its name, where it serves; each is met.
static void every_kernel_by_name(void **state)
{
    weft_kernel_info info;
    for (int32_t i = 0; weft_kernel_at(*state, i, &info); i++) {
        int served = 0;
        if (strcmp(info.op, "attention") != 0 || !info.usable ||
            strcmp(info.backend, on_gpu() ? "cuda" : "cpu") != 0)
            continue;
        for (int f = 0; f < FORMATS; f++) {
            struct problem p = open_problem(&formats[f], 64, 16);
            weft_attention_desc desc = p.c.desc;
            desc.variant = info.name;
            served += one_way(*state, &p, &desc, info.name, 0);
            close_problem(&p);
        }
        if (!served)
            fail_msg("%s served nothing", info.name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_both_ways),
        cmocka_unit_test(every_flag_both_ways),
        cmocka_unit_test(every_size_of_pages),
        cmocka_unit_test(every_kernel_by_name),
    };
    return cmocka_run_group_tests(tests, open_device, close_context);
}
