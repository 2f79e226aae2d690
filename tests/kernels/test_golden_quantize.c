// SPDX-License-Identifier: MIT
// What files lose: the searching encoders against ggml's quantisers on the same numbers.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <weft/weft.h>

#include "tests/support/golden.h"

enum { ROWS = 16, COLS = 256 };

// Root of the mean squared error, weighted if there are weights.
static double encoding_error(weft_dtype dtype, const float *x, const float *importance)
{
    unsigned char row[COLS * 4];
    float y[COLS];
    double sum = 0;
    for (int r = 0; r < ROWS; r++, x += COLS) {
        assert_int_equal(weft_quantize_row_search(dtype, x, importance, COLS, row), WEFT_OK);
        assert_int_equal(weft_dequantize_row(dtype, row, COLS, y), WEFT_OK);
        for (int i = 0; i < COLS; i++)
            sum += ((double)x[i] - y[i]) * ((double)x[i] - y[i]) * (importance ? importance[i] : 1);
    }
    return sqrt(sum / (ROWS * COLS));
}

static void compare(const golden *file, const char *name, weft_dtype dtype, const float *x,
                    const float *importance)
{
    char key[64];
    snprintf(key, sizeof key, "%s%s", weft_dtype_name(dtype), importance ? "_weighted" : "");
    double ggml = golden_number(file, name, key, 0);
    if (ggml == 0)
        return;
    double error = encoding_error(dtype, x, importance);
    if (!(error <= 1.03 * ggml))
        fail_msg("%s, %s: error %g, that of ggml is %g", name, key, error, ggml);
}

static void loses_no_more_than_ggml(void **state)
{
    (void)state;
    golden *file = golden_open("quantize/quantize.safetensors");
    const char *name;
    for (size_t n = 0; (name = golden_case(file, n)); n++) {
        float x[ROWS * COLS];
        const void *half = golden_data(file, name, "x", GOLDEN_F16);
        const float *importance = golden_data(file, name, "importance", GOLDEN_F32);
        assert_true(golden_number(file, name, "q4_k", 0) > 0);
        assert_int_equal(weft_dequantize_row(WEFT_F16, half, ROWS * COLS, x), WEFT_OK);
        for (int32_t d = 0; weft_dtype_at(d) != WEFT_DTYPE_NONE; d++) {
            compare(file, name, weft_dtype_at(d), x, NULL);
            compare(file, name, weft_dtype_at(d), x, importance);
        }
    }
    golden_close(file);
}

// The search gains on plain rounding wherever there is a scale to choose.
static void gains_on_plain_rounding(void **state)
{
    (void)state;
    static const weft_dtype searched[] = {
        WEFT_Q4_0,  WEFT_Q4_1,    WEFT_Q5_0,   WEFT_Q5_1,   WEFT_Q2_K,    WEFT_Q3_K,  WEFT_Q4_K,
        WEFT_Q5_K,  WEFT_Q6_K,    WEFT_IQ4_NL, WEFT_IQ4_XS, WEFT_IQ3_XXS, WEFT_IQ3_S, WEFT_IQ2_XS,
        WEFT_IQ2_S, WEFT_IQ2_XXS, WEFT_IQ1_S,  WEFT_IQ1_M,  WEFT_MXFP4,   WEFT_NVFP4};
    golden *file = golden_open("quantize/quantize.safetensors");
    float x[COLS], y[COLS];
    assert_int_equal(
        weft_dequantize_row(WEFT_F16, golden_data(file, "normal", "x", GOLDEN_F16), COLS, x),
        WEFT_OK);
    for (size_t n = 0; n < sizeof searched / sizeof *searched; n++) {
        unsigned char row[COLS * 4];
        double error[2] = {0, 0};
        for (int search = 0; search < 2; search++) {
            weft_status status = search ? weft_quantize_row_search(searched[n], x, NULL, COLS, row)
                                        : weft_quantize_row(searched[n], x, COLS, row);
            assert_int_equal(status, WEFT_OK);
            assert_int_equal(weft_dequantize_row(searched[n], row, COLS, y), WEFT_OK);
            for (int i = 0; i < COLS; i++)
                error[search] += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        }
        if (!(error[1] < 0.98 * error[0]))
            fail_msg("%s: %g plain, %g searched", weft_dtype_name(searched[n]), error[0], error[1]);
    }
    golden_close(file);
}

// Zeros, constants, tiny and huge numbers, what is not finite: valid blocks, and zeros stay zeros.
static void survives_odd_rows(void **state)
{
    (void)state;
    static const float values[] = {0, 1, -1, 1e-30f, 1e-38f, 60000, 1e30f, INFINITY, NAN};
    for (int32_t d = 0; weft_dtype_at(d) != WEFT_DTYPE_NONE; d++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            unsigned char row[COLS * 4 + 1];
            float x[COLS], y[COLS];
            weft_dtype dtype = weft_dtype_at(d);
            for (int i = 0; i < COLS; i++)
                x[i] = values[v];
            int64_t bytes = weft_dtype_row_bytes(dtype, COLS);
            row[bytes] = 0x5a;
            assert_int_equal(weft_quantize_row_search(dtype, x, NULL, COLS, row), WEFT_OK);
            assert_int_equal(row[bytes], 0x5a);
            assert_int_equal(weft_dequantize_row(dtype, row, COLS, y), WEFT_OK);
            for (int i = 0; v == 0 && i < COLS; i++)
                assert_true(y[i] == 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loses_no_more_than_ggml),
        cmocka_unit_test(gains_on_plain_rounding),
        cmocka_unit_test(survives_odd_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
