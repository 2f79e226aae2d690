// SPDX-License-Identifier: MIT
#include <math.h>

#include "tests/support/context_fixture.h"

static void looks_up(void **state)
{
    const float table[3][2] = {{1, 2}, {3, 4}, {5, 6}};
    const int32_t ids[2] = {2, 0};
    float y[5] = {0, 0, -7, 0, 0};
    weft_plan *plan;
    weft_embedding_desc desc = {.size = sizeof desc,
                                .table_dtype = WEFT_F32,
                                .rows = 3,
                                .dim = 2,
                                .max_tokens = 2,
                                .scale = 10};
    assert_int_equal(weft_embedding_plan(*state, &desc, &plan), WEFT_OK);
    weft_embedding_args args = {
        .size = sizeof args, .tokens = 2, .table = table, .ids = ids, .y = y, .y_stride = 3};
    assert_int_equal(weft_embedding_run(plan, &args), WEFT_OK);
    assert_true(y[0] == 50 && y[1] == 60 && y[2] == -7 && y[3] == 10 && y[4] == 20);
    weft_plan_destroy(plan);
}

// What a format must bring back of 256 numbers in [-1, 1]: half a step of its grid, and the rounding of
// its scales.
static double step_bound(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_F32: return 0;
    case WEFT_F16: return 0x1p-12;
    case WEFT_BF16: return 0x1p-9;
    case WEFT_Q8_0: return 0.6 / 127;
    case WEFT_Q4_0: return 1 / 8.0 + 0.001; // the side opposite to the largest is clipped
    case WEFT_Q4_K: return 0.6 * 2 / 15 + 1 / 63.0;
    case WEFT_Q6_K: return 0.7 / 31;
    default: return 0;
    }
}

static void rounds_and_restores_every_format(void **state)
{
    (void)state;
    float x[512], y[512], z[512];
    unsigned char row[2048], again[2048];
    for (int i = 0; i < 512; i++)
        x[i] = i < 256 ? sinf((float)(i * i)) : 0;
    for (int n = 0; weft_dtype_at(n); n++) {
        weft_dtype dtype = weft_dtype_at(n);
        assert_int_equal(weft_quantize_row(dtype, x, 512, row), WEFT_OK);
        assert_int_equal(weft_dequantize_row(dtype, row, 512, y), WEFT_OK);
        for (int i = 0; i < 512; i++)
            if (fabs((double)x[i] - y[i]) > (i < 256 ? step_bound(dtype) : 0))
                fail_msg("%s: %g became %g", weft_dtype_name(dtype), x[i], y[i]);
        // What a format can say it says again, up to the rounding of its scales.
        assert_int_equal(weft_quantize_row(dtype, y, 512, again), WEFT_OK);
        assert_int_equal(weft_dequantize_row(dtype, again, 512, z), WEFT_OK);
        for (int i = 0; i < 512; i++)
            assert_true(fabs((double)y[i] - z[i]) <= step_bound(dtype));
    }
}

// Numbers that are not finite are no reason to leave the block or to trap.
static void survives_what_is_not_finite(void **state)
{
    (void)state;
    float x[256];
    unsigned char row[2048];
    for (int i = 0; i < 256; i++)
        x[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
    for (int n = 0; weft_dtype_at(n); n++) {
        weft_dtype dtype = weft_dtype_at(n);
        size_t bytes = (size_t)weft_dtype_row_bytes(dtype, 256);
        memset(row, 0x5a, sizeof row);
        assert_int_equal(weft_quantize_row(dtype, x, 256, row), WEFT_OK);
        for (size_t i = bytes; i < sizeof row; i++)
            assert_int_equal(row[i], 0x5a);
    }
}

// ggml's rounding: the largest magnitude of a Q4_0 block is exactly -8 scales, halves of Q8_0 go away
// from zero.
static void rounds_as_ggml_does(void **state)
{
    (void)state;
    float x[32] = {4, -4, 1, 0.25f, -0.25f}, y[32];
    unsigned char row[34];
    assert_int_equal(weft_quantize_row(WEFT_Q4_0, x, 32, row), WEFT_OK);
    assert_int_equal(weft_dequantize_row(WEFT_Q4_0, row, 32, y), WEFT_OK);
    assert_true(y[0] == 4 && y[1] == -3.5f && y[2] == 1); // d = -0.5
    assert_true(y[3] == 0 && y[4] == -0.5f);              // quotients -0.5 and 0.5, both up
    x[0] = 127;
    x[1] = 2.5f;
    x[2] = -2.5f;
    assert_int_equal(weft_quantize_row(WEFT_Q8_0, x, 32, row), WEFT_OK);
    assert_int_equal(weft_dequantize_row(WEFT_Q8_0, row, 32, y), WEFT_OK);
    assert_true(y[0] == 127 && y[1] == 3 && y[2] == -3);
}

static void refuses_rows(void **state)
{
    (void)state;
    float x[256] = {0};
    unsigned char row[1024];
    assert_int_equal(weft_quantize_row(WEFT_Q4_K, x, 32, row), WEFT_EINVAL);
    assert_int_equal(weft_quantize_row(WEFT_F32, x, -1, row), WEFT_EINVAL);
    assert_int_equal(weft_quantize_row(WEFT_F32, NULL, 32, row), WEFT_EINVAL);
    assert_int_equal(weft_dequantize_row(WEFT_Q8_0, row, 32, NULL), WEFT_EINVAL);
    assert_int_equal(weft_dequantize_row((weft_dtype)7, row, 32, x), WEFT_EUNSUPPORTED);
    assert_int_equal(weft_dequantize_row(WEFT_DTYPE_NONE, row, 32, x), WEFT_EUNSUPPORTED);
}

static void refuses(void **state)
{
    weft_plan *plan = NULL;
    const weft_embedding_desc good = {
        .size = sizeof good, .table_dtype = WEFT_F32, .rows = 3, .dim = 2};
    weft_embedding_desc bad = good;
    bad.table_dtype = (weft_dtype)7;
    assert_refused(*state, weft_embedding_plan(*state, &bad, &plan), WEFT_EINVAL, "no format");
    bad.table_dtype = WEFT_Q8_0;
    assert_refused(*state, weft_embedding_plan(*state, &bad, &plan), WEFT_EINVAL, "q8_0");
    bad = good;
    bad.rows = 0;
    assert_refused(*state, weft_embedding_plan(*state, &bad, &plan), WEFT_EINVAL, "rows");
    bad = good;
    bad.scale = INFINITY;
    assert_refused(*state, weft_embedding_plan(*state, &bad, &plan), WEFT_EINVAL, "scale");
    assert_int_equal(weft_embedding_plan(*state, &good, &plan), WEFT_OK);

    const float table[6] = {0};
    float y[2] = {42};
    int32_t ids[1] = {3};
    weft_embedding_args args = {
        .size = sizeof args, .tokens = 1, .table = table, .ids = ids, .y = y};
    assert_refused(*state, weft_embedding_run(plan, &args), WEFT_EINVAL, "ids[0] = 3");
    ids[0] = -1;
    assert_refused(*state, weft_embedding_run(plan, &args), WEFT_EINVAL, "ids[0] = -1");
    args.table_stride_bytes = 7;
    assert_refused(*state, weft_embedding_run(plan, &args), WEFT_EINVAL, "stride");
    args.table = NULL;
    assert_refused(*state, weft_embedding_run(plan, &args), WEFT_EINVAL, "NULL");
    assert_true(y[0] == 42);
    weft_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_up),
        cmocka_unit_test(rounds_and_restores_every_format),
        cmocka_unit_test(survives_what_is_not_finite),
        cmocka_unit_test(rounds_as_ggml_does),
        cmocka_unit_test(refuses_rows),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
