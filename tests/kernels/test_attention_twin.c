// SPDX-License-Identifier: MIT
// What attention of f32, f16 and bf16 inputs is off by, beside a twin that is written down plainly and rounds
// every product to the inputs' format: at most twice as much, the largest and the mean. Both against double
// (tests/support/attention_case.h).
#include <math.h>

#include "tests/support/attention_case.h"
#include "tests/support/context_fixture.h"

enum { MOST_KEYS = 4096, MOST_DIM = 256 };

static void round_all(weft_dtype dtype, float *x, int64_t count)
{
    void *narrow = malloc((size_t)weft_dtype_row_bytes(dtype, count));
    assert_int_equal(weft_quantize_row(dtype, x, count, narrow), WEFT_OK);
    assert_int_equal(weft_dequantize_row(dtype, narrow, count, x), WEFT_OK);
    free(narrow);
}

// Element `i` of head `kv_head` of key `t`, of one sequence.
static float element(const attention_case *c, const float *pool, int32_t kv_head, int32_t t,
                     int32_t i)
{
    const weft_kv_layout *kv = &c->desc.kv;
    const int64_t row =
        ((int64_t)c->table[t / kv->page_size] * kv->num_kv_heads + kv_head) * kv->page_size +
        t % kv->page_size;
    return pool[row * kv->head_dim + i];
}

// One row: scores, weights and results in `dtype`, sums in f32, one addition after the other.
static void twin_row(const attention_case *c, weft_dtype dtype, int64_t row, float *out)
{
    static float p[MOST_KEYS];
    const int32_t heads = c->desc.num_q_heads, dim = c->desc.kv.head_dim, keys = c->kv_lens[0];
    const int32_t kv_head = (int32_t)(row % heads) / (heads / c->desc.kv.num_kv_heads);
    const int64_t own = keys - c->q_lens[0] + row / heads;
    const float scale = 1 / sqrtf((float)dim);
    float largest = -INFINITY, sum = 0;
    for (int32_t t = 0; t < keys; t++) {
        p[t] = 0;
        for (int32_t i = 0; i < dim; i++)
            p[t] += c->q[row * dim + i] * element(c, c->keys, kv_head, t, i);
    }
    round_all(dtype, p, keys);
    for (int32_t t = 0; t < keys; t++)
        p[t] = t <= own ? p[t] * scale : -INFINITY;
    round_all(dtype, p, own + 1);
    for (int32_t t = 0; t <= own; t++)
        largest = fmaxf(largest, p[t]);
    for (int32_t t = 0; t <= own; t++)
        sum += p[t] = expf(p[t] - largest);
    for (int32_t t = 0; t <= own; t++)
        p[t] /= sum;
    round_all(dtype, p, own + 1);
    for (int32_t i = 0; i < dim; i++) {
        out[i] = 0;
        for (int32_t t = 0; t <= own; t++)
            out[i] += p[t] * element(c, c->values, kv_head, t, i);
    }
    round_all(dtype, out, dim);
}

typedef struct error {
    double largest, mean;
} error;

static error error_of(const float *got, const float *want, int64_t count)
{
    error e = {attention_case_far(got, want, count), 0};
    for (int64_t i = 0; i < count; i++)
        e.mean += fabs((double)got[i] - want[i]) / (double)count;
    return e;
}

static void compare(weft_context *context, weft_dtype dtype, int32_t dim, int32_t group,
                    int32_t q_len, int32_t kv_len)
{
    attention_case c = {
        .desc = {.kv = {.dtype = dtype, .num_kv_heads = 1, .head_dim = dim, .page_size = 16},
                 .num_q_heads = group},
        .num_seqs = 1,
        .q_lens = {q_len},
        .kv_lens = {kv_len}};
    attention_case_make(&c);
    round_all(dtype, c.q, c.out_elems);
    const size_t bytes = (size_t)c.out_elems * sizeof(float);
    float *out = malloc(bytes), *twin = malloc(bytes), *want = malloc(bytes);
    float *lse = malloc((size_t)c.lse_elems * sizeof *lse);
    weft_attention_desc desc = c.desc;
    desc.q_dtype = dtype;
    if (attention_case_run(context, &c, &desc, out, NULL) != WEFT_OK)
        fail_msg("%s", weft_error_text(context));
    round_all(dtype, out, c.out_elems);
    attention_case_answer(&c, want, lse, 1);
    for (int64_t row = 0; row < c.lse_elems; row++)
        twin_row(&c, dtype, row, twin + row * dim);
    const error ours = error_of(out, want, c.out_elems), plain = error_of(twin, want, c.out_elems);
    if (!(ours.largest <= 2 * plain.largest && ours.mean <= 2 * plain.mean))
        fail_msg(
            "%s, %d queries, %d keys of %d, ratio %d: %g at most and %g in the mean, the twin %g "
            "and %g",
            weft_dtype_name(dtype), (int)q_len, (int)kv_len, (int)dim, (int)group, ours.largest,
            ours.mean, plain.largest, plain.mean);
    free(out);
    free(twin);
    free(want);
    free(lse);
    attention_case_free(&c);
}

static void at_most_twice_the_error_of_a_plain_twin(void **state)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F16, WEFT_BF16};
    static const int32_t dims[] = {64, 128}, groups[] = {1, 4, 12};
    static const int32_t lens[][2] = {{1, 133}, {1, 1024}, {1, MOST_KEYS}, {3, 799}, {64, 256}};
    for (size_t d = 0; d < 3; d++)
        for (size_t i = 0; i < 2; i++)
            for (size_t g = 0; g < 3; g++)
                for (size_t n = 0; n < sizeof lens / sizeof *lens; n++)
                    compare(*state, dtypes[d], dims[i], groups[g], lens[n][0], lens[n][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(at_most_twice_the_error_of_a_plain_twin)};
    return cmocka_run_group_tests(tests, open_context, close_context);
}
