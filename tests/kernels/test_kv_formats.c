// SPDX-License-Identifier: MIT
// Appending to caches of every format, layout and scaling: each number comes back as near as the format
// can say it, from where the layout says it lies, and nothing else changes.
#include <math.h>

#include "src/formats/row.h"
#include "tests/support/context_fixture.h"

enum { HEADS = 2, PAGE = 4, PAGES = 3, TOKENS = 5, MOST_DIM = 96, GAP = 32 };
enum { MOST_BYTES = PAGES * (HEADS * PAGE * MOST_DIM + GAP) * 4 };

struct format {
    weft_dtype dtype;
    double step; // the largest error over the largest number of a block, or of the head
};

// A cache, as a test fills it.
struct cache {
    weft_kv_layout layout;
    weft_kv_pool pool;
    unsigned char data[2][MOST_BYTES], before[2][MOST_BYTES];
    float scales[2][PAGES * HEADS * PAGE];
};

static const struct format formats[] = {
    {WEFT_F32, 0},           {WEFT_F16, 0x1p-11},     {WEFT_BF16, 0x1p-8},
    {WEFT_FP8_E4M3, 0x1p-4}, {WEFT_FP8_E5M2, 0x1p-3}, {WEFT_INT8, 0.51 / 127},
    {WEFT_Q8_0, 0.6 / 127},  {WEFT_Q5_1, 1.1 / 31},   {WEFT_Q5_0, 1.1 / 16},
    {WEFT_Q4_1, 1.1 / 15},   {WEFT_Q4_0, 1.1 / 8},    {WEFT_IQ4_NL, 0.14},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static const int32_t slots[TOKENS] = {7, -1, 0, 11, 2};

static float number(int64_t i)
{
    return sinf((float)(i * 7919 % 10007)) * 3;
}

// Strides of a plane: heads first and split in groups, or slots first with gaps between pages.
static weft_kv_plane make_plane(void *data, int32_t dim, int32_t inner, float *scales)
{
    weft_kv_plane plane = {.data = data, .scales = scales};
    if (inner)
        return plane; // packed
    plane.head_stride = dim;
    plane.token_stride = (int64_t)HEADS * dim;
    plane.page_stride = (int64_t)HEADS * dim * PAGE + GAP;
    return plane;
}

// Where element i of a head lies, written down apart from the library.
static int64_t place(int32_t dim, int32_t inner, int32_t slot, int32_t head, int32_t i)
{
    int64_t page = slot / PAGE, in_page = slot % PAGE;
    if (inner == 0)
        return page * (HEADS * dim * PAGE + GAP) + (in_page * HEADS + head) * dim + i;
    return ((page * HEADS + head) * (dim / inner) + i / inner) * PAGE * inner + in_page * inner +
           i % inner;
}

static void verify(struct cache *c, int which, const struct format *format, int32_t dim,
                   int32_t inner, weft_kv_scaling scaling, const float *x)
{
    int32_t group = inner ? inner : dim, block = weft_dtype_block_elems(format->dtype);
    int64_t bytes = weft_dtype_block_bytes(format->dtype);
    for (int32_t t = 0; t < TOKENS; t++)
        for (int32_t head = 0; head < HEADS && slots[t] >= 0; head++) {
            const float *row = x + (t * HEADS + head) * dim;
            float largest = 0, got[MOST_DIM], scale = 1;
            for (int32_t i = 0; i < dim; i++)
                largest = fmaxf(largest, fabsf(row[i]));
            if (scaling)
                scale = c->scales[which]
                                 [scaling == WEFT_KV_SCALING_GIVEN
                                      ? head
                                      : (slots[t] / PAGE * HEADS + head) * PAGE + slots[t] % PAGE];
            for (int32_t i = 0; i < dim; i += group) {
                int64_t at = place(dim, inner, slots[t], head, i) / block * bytes;
                size_t size = (size_t)(group / block * bytes);
                weft__row_decoder(format->dtype)(c->data[which] + at, group, got + i);
                memcpy(c->before[which] + at, c->data[which] + at, size);
            }
            for (int32_t i = 0; i < dim; i++)
                if (!(fabs(got[i] * (double)scale - row[i]) <= format->step * largest + 1e-30))
                    fail_msg("%s, inner %d, scaling %d: token %d head %d [%d] is %g, not %g",
                             weft_dtype_name(format->dtype), inner, (int)scaling, t, head, i,
                             (double)got[i] * scale, (double)row[i]);
        }
    assert_memory_equal(c->before[which], c->data[which], MOST_BYTES);
}

static void append(weft_context *context, const struct format *k, const struct format *v,
                   bool split, weft_kv_scaling scaling)
{
    static struct cache c;
    static float keys[TOKENS * HEADS * MOST_DIM], values[TOKENS * HEADS * MOST_DIM];
    weft_plan *plan;
    const bool narrow = weft_dtype_block_bytes(k->dtype) == 1;
    const weft_kv_scaling k_scaling = narrow ? scaling : WEFT_KV_SCALING_NONE;
    memset(&c, 0xa5, sizeof c);
    c.layout = (weft_kv_layout){.dtype = k->dtype,
                                .num_kv_heads = HEADS,
                                .head_dim = 64,
                                .page_size = PAGE,
                                .v_dtype = v->dtype,
                                .v_dim = MOST_DIM,
                                .inner = split ? 32 : 0,
                                .scaling = k_scaling};
    c.pool = (weft_kv_pool){.k = make_plane(c.data[0], 64, c.layout.inner, c.scales[0]),
                            .v = make_plane(c.data[1], MOST_DIM, 0, NULL),
                            .num_pages = PAGES};
    if (k_scaling == WEFT_KV_SCALING_GIVEN) {
        c.pool.k.scale_head_stride = 1;
        c.scales[0][0] = c.scales[0][1] = k->dtype == WEFT_INT8 ? 3.0f / 127 : 0.25f;
    }
    memcpy(c.before, c.data, sizeof c.data);
    for (int32_t i = 0; i < TOKENS * HEADS * MOST_DIM; i++) {
        keys[i] = number(i);
        values[i] = number(3 * i + 1);
        if (k->dtype == WEFT_INT8 && !k_scaling)
            keys[i] = rintf(keys[i] * 20);
        if (v->dtype == WEFT_INT8)
            values[i] = rintf(values[i] * 20);
    }
    const weft_kv_append_desc desc = {
        .size = sizeof desc, .max_tokens = TOKENS, .layout = c.layout};
    assert_int_equal(weft_kv_append_plan(context, &desc, &plan), WEFT_OK);
    const weft_kv_append_args args = {.size = sizeof args,
                                      .tokens = TOKENS,
                                      .pool = c.pool,
                                      .k = keys,
                                      .v = values,
                                      .slots = slots};
    assert_int_equal(weft_kv_append_run(plan, &args), WEFT_OK);
    verify(&c, 0, k, 64, c.layout.inner, k_scaling, keys);
    verify(&c, 1, v, MOST_DIM, 0, WEFT_KV_SCALING_NONE, values);
    weft_plan_destroy(plan);
}

static void every_format_of_keys_and_values(void **state)
{
    for (int k = 0; k < FORMATS; k++)
        for (int v = 0; v < FORMATS; v++)
            append(*state, &formats[k], &formats[v], (k + v) % 2, WEFT_KV_SCALING_NONE);
}

static void every_scaling(void **state)
{
    for (int k = 0; k < FORMATS; k++)
        for (int scaling = 0; scaling < 3; scaling++)
            for (int split = 0; split < 2; split++)
                append(*state, &formats[k], &formats[0], split, (weft_kv_scaling)scaling);
}

// Latent attention appends keys alone. A token of zeros has a scale of 0.
static void values_may_be_left_alone(void **state)
{
    static struct cache c;
    static float keys[TOKENS * HEADS * 64];
    weft_plan *plan;
    const weft_kv_append_desc desc = {.size = sizeof desc,
                                      .max_tokens = TOKENS,
                                      .layout = {.dtype = WEFT_INT8,
                                                 .num_kv_heads = HEADS,
                                                 .head_dim = 64,
                                                 .page_size = PAGE,
                                                 .v_dim = 32,
                                                 .scaling = WEFT_KV_SCALING_TOKEN,
                                                 .v_scaling = WEFT_KV_SCALING_TOKEN}};
    assert_int_equal(weft_kv_append_plan(*state, &desc, &plan), WEFT_OK);
    memset(&c, 0xa5, sizeof c);
    const weft_kv_append_args args = {.size = sizeof args,
                                      .tokens = TOKENS,
                                      .pool = {.k = {.data = c.data[0], .scales = c.scales[0]},
                                               .v = {.data = c.data[1], .scales = c.scales[1]},
                                               .num_pages = PAGES},
                                      .k = keys,
                                      .slots = slots};
    assert_int_equal(weft_kv_append_run(plan, &args), WEFT_OK);
    for (int32_t i = 0; i < MOST_BYTES; i++)
        assert_int_equal(c.data[1][i], 0xa5);
    assert_true(c.scales[0][2] == 0); // token 4 in slot 2
    weft_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_of_keys_and_values),
        cmocka_unit_test(every_scaling),
        cmocka_unit_test(values_may_be_left_alone),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
