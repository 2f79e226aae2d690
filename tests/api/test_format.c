// SPDX-License-Identifier: MIT
// Rows in every format: what is encoded comes back within the format's grid, rows with planes, refusals.
#include <math.h>

#include "tests/support/context_fixture.h"

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
    case WEFT_FP8_E4M3: return 0x1p-5;
    case WEFT_FP8_E5M2: return 0x1p-4;
    case WEFT_INT8: return 0.5;
    case WEFT_Q4_1: return 0.6 * 2 / 15;
    case WEFT_Q5_0: return 1 / 16.0 + 0.001;
    case WEFT_Q5_1: return 0.6 * 2 / 31;
    case WEFT_Q2_K: return 0.6 * 2 / 3 + 1 / 15.0;
    case WEFT_Q3_K: return 1 / 4.0 + 1 / 32.0;
    case WEFT_Q5_K: return 0.6 * 2 / 31 + 1 / 63.0;
    case WEFT_IQ4_NL:
    case WEFT_IQ4_XS: return 15 / 127.0 + 1 / 32.0;
    case WEFT_IQ3_S: return 0.4;
    case WEFT_IQ2_S: return 0.6;
    case WEFT_IQ3_XXS: // one sign of eight may be forced
    case WEFT_IQ2_XXS:
    case WEFT_IQ2_XS: return 0.8;
    case WEFT_IQ1_S:
    case WEFT_IQ1_M: return 1;
    case WEFT_TQ1_0:
    case WEFT_TQ2_0: return 0.51;
    case WEFT_MXFP4: return 0.26; // up to 8 under the scale of 6
    case WEFT_NVFP4: return 1 / 6.0 + 1 / 16.0;
    default: return 1; // codes of MLX: the scale is 1, and there is no code below 0
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
            if (!(fabs((double)y[i] - z[i]) <= step_bound(dtype)))
                fail_msg("%s: %g became %g", weft_dtype_name(dtype), y[i], z[i]);
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

// Of zeros of both signs the last is the minimum, on every machine.
static void zeros_have_an_order(void **state)
{
    (void)state;
    float x[32] = {1, 0, -0.0f};
    unsigned char row[20];
    x[31] = -0.0f;
    assert_int_equal(weft_quantize_row(WEFT_Q4_1, x, 32, row), WEFT_OK);
    assert_int_equal(row[3], 0x80);
    x[31] = 0;
    assert_int_equal(weft_quantize_row(WEFT_Q4_1, x, 32, row), WEFT_OK);
    assert_int_equal(row[3], 0);
}

static void refuses(void **state)
{
    (void)state;
    float x[256] = {0};
    unsigned char row[1024];
    assert_int_equal(weft_quantize_row(WEFT_Q4_K, x, 32, row), WEFT_EINVAL);
    assert_int_equal(weft_quantize_row(WEFT_F32, x, -1, row), WEFT_EINVAL);
    assert_int_equal(weft_quantize_row(WEFT_F32, NULL, 32, row), WEFT_EINVAL);
    assert_int_equal(weft_dequantize_row(WEFT_Q8_0, row, 32, NULL), WEFT_EINVAL);
    assert_int_equal(weft_dequantize_row((weft_dtype)45, row, 32, x), WEFT_EUNSUPPORTED);
    assert_int_equal(weft_dequantize_row(WEFT_DTYPE_NONE, row, 32, x), WEFT_EUNSUPPORTED);
}

static void applies_planes(void **state)
{
    (void)state;
    const int8_t codes[6] = {1, 2, 3, -4, 5, 127};
    const float scales[3] = {2, -0.5f, 0}, biases[3] = {1, 0, 8};
    float y[6];
    weft_row_planes row = {.size = sizeof row,
                           .dtype = WEFT_INT8,
                           .data = codes,
                           .scales = scales,
                           .biases = biases,
                           .scale_elems = 2,
                           .global_scale = 10};
    assert_int_equal(weft_dequantize_planes(&row, 6, y), WEFT_OK);
    assert_true(y[0] == 30 && y[1] == 50 && y[2] == -15 && y[3] == 20 && y[4] == 80 && y[5] == 80);
    row.scale_elems = 0; // one scale for the row
    row.biases = NULL;
    row.global_scale = 0;
    assert_int_equal(weft_dequantize_planes(&row, 6, y), WEFT_OK);
    assert_true(y[0] == 2 && y[3] == -8 && y[5] == 254);
    row.scale_elems = 4; // the last group is short
    assert_int_equal(weft_dequantize_planes(&row, 6, y), WEFT_OK);
    assert_true(y[3] == -8 && y[4] == -2.5f && y[5] == -63.5f);
    row.scales = NULL;
    assert_int_equal(weft_dequantize_planes(&row, 6, y), WEFT_OK);
    assert_true(y[3] == -4 && y[5] == 127);
    assert_int_equal(weft_dequantize_planes(&row, 0, y), WEFT_OK);
}

static void refuses_planes(void **state)
{
    (void)state;
    const uint8_t codes[32] = {0};
    float y[64] = {42};
    const weft_row_planes good = {.size = sizeof good, .dtype = WEFT_MLX_Q4_G64, .data = codes};
    weft_row_planes bad = good;
    bad.size = 0;
    assert_int_equal(weft_dequantize_planes(&bad, 64, y), WEFT_EINVAL);
    bad = good;
    bad.scale_dtype = WEFT_INT8;
    assert_int_equal(weft_dequantize_planes(&bad, 64, y), WEFT_EINVAL);
    bad = good;
    bad.scale_elems = -1;
    assert_int_equal(weft_dequantize_planes(&bad, 64, y), WEFT_EINVAL);
    bad = good;
    bad.reserved[1] = 1;
    assert_int_equal(weft_dequantize_planes(&bad, 64, y), WEFT_EINVAL);
    bad = good;
    bad.dtype = (weft_dtype)146;
    assert_int_equal(weft_dequantize_planes(&bad, 64, y), WEFT_EUNSUPPORTED);
    assert_int_equal(weft_dequantize_planes(&good, 32, y), WEFT_EINVAL);
    assert_int_equal(weft_dequantize_planes(&good, 64, NULL), WEFT_EINVAL);
    assert_int_equal(weft_dequantize_planes(NULL, 64, y), WEFT_EINVAL);
    assert_true(y[0] == 42);
}

// What fp8 rounds to, at the edges of its range.
static void rounds_fp8(void **state)
{
    (void)state;
    const float x[8] = {448, 463, 1e9f, -INFINITY, 0x1p-10f, 0x1.8p-10f, -0x1p-11f, 17};
    const float e4m3[8] = {448, 448, 448, -448, 0, 0x1p-9f, -0.0f, 16};
    const float e5m2[8] = {448, 448, 57344, -57344, 0x1p-10f, 0x1.8p-10f, -0x1p-11f, 16};
    uint8_t codes[8];
    float y[8];
    assert_int_equal(weft_quantize_row(WEFT_FP8_E4M3, x, 8, codes), WEFT_OK);
    assert_int_equal(weft_dequantize_row(WEFT_FP8_E4M3, codes, 8, y), WEFT_OK);
    assert_memory_equal(y, e4m3, sizeof y);
    assert_int_equal(weft_quantize_row(WEFT_FP8_E5M2, x, 8, codes), WEFT_OK);
    assert_int_equal(weft_dequantize_row(WEFT_FP8_E5M2, codes, 8, y), WEFT_OK);
    assert_memory_equal(y, e5m2, sizeof y);
    const float nan = NAN;
    assert_int_equal(weft_quantize_row(WEFT_FP8_E4M3, &nan, 1, codes), WEFT_OK);
    assert_int_equal(codes[0] & 0x7f, 0x7f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_and_restores_every_format),
        cmocka_unit_test(survives_what_is_not_finite),
        cmocka_unit_test(rounds_as_ggml_does),
        cmocka_unit_test(zeros_have_an_order),
        cmocka_unit_test(rounds_fp8),
        cmocka_unit_test(applies_planes),
        cmocka_unit_test(refuses_planes),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
