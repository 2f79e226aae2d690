// SPDX-License-Identifier: MIT
// The planes of rounded activations hold what linear_rounded.h says. (round_check.c holds the rounding
// functions of all instruction sets against the reference that is tested here.)
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/kernels/linear/linear_kernel.h"

enum { COLS = 32 * 21, STRIDE = 768, BATCH = 40, X_STRIDE = COLS + 3, MOST_BYTES = 1 << 19 };

static float x[BATCH * X_STRIDE];
static _Alignas(64) unsigned char memory[MOST_BYTES];

static uint32_t random_bits(void)
{
    static uint64_t state = 0x9e3779b97f4a7c15u;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

// Rows of ordinary numbers, of all bit patterns, of halves that sit between two steps, of zeros, of
// tiny and of huge numbers.
static float random_number(int style)
{
    float value;
    uint32_t bits = random_bits();
    switch (style % 8) {
    case 0: memcpy(&value, &bits, sizeof value); return value;
    case 1: return ((float)(bits % 255) - 127) / 2;
    case 2: return bits % 50 ? 0.0f : -0.0f;
    case 3: return ldexpf((float)(bits % 2000) - 1000, -140);
    case 7: return ldexpf((float)(bits % 2000) - 1000, -120); // just above what becomes zero
    case 4: return bits % 100 ? (float)bits : NAN;
    case 5: return bits % 100 ? (float)bits : -INFINITY;
    default: return ldexpf((float)bits - 0x1p31f, -30);
    }
}

static struct weft__rounded round_all(void)
{
    struct weft__rounded to = {.rows = memory};
    weft__round_fn *round = weft__rounder_of(1u << WEFT__ISA_ref);
    assert_true(weft__rounded_lay_out(COLS, true, &to.at));
    assert_true(to.at.stride == STRIDE && BATCH * to.at.row_bytes <= MOST_BYTES);
    memset(memory, 0x5a, MOST_BYTES);
    for (int64_t m = 0; m < BATCH; m++) {
        struct weft__rounded_row row = weft__rounded_row(&to, m);
        weft__rounded_begin(&to, m, COLS, true, false);
        assert_true(row.head->cols == COLS && row.head->few && !row.head->squares);
        // In two pieces, as tasks do.
        round(&row, 0, 384, x + m * X_STRIDE, 384, true);
        round(&row, 384, STRIDE, x + m * X_STRIDE + 384, COLS - 384, true);
    }
    return to;
}

static int make_x(void **state)
{
    (void)state;
    for (int i = 0; i < BATCH * X_STRIDE; i++)
        x[i] = random_number(i / X_STRIDE);
    return 0;
}

static void the_reference_rounds_as_promised(void **state)
{
    (void)state;
    struct weft__rounded to = round_all();
    for (int64_t m = 0; m < BATCH; m++)
        for (int64_t k = 0; k < STRIDE; k++) {
            struct weft__rounded_row row = weft__rounded_row(&to, m);
            float scale = row.scale[k / 32];
            int q = row.q[k];
            if (k >= COLS)
                assert_true(q == 0 && scale == 0);
            else if (isfinite(scale) && scale > 0x1p-126f)
                assert_true(fabs((double)x[m * X_STRIDE + k] - (double)q * scale) <=
                            scale * 0.50001);
        }
}

// The sum of `count` of q from `at` on.
static int32_t sum_of(const int8_t *q, int64_t at, int count)
{
    int32_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += q[at + i];
    return sum;
}

static void check_sums(const struct weft__rounded_row *row)
{
    for (int64_t k = 0; k < STRIDE; k += 32) {
        float scaled = row->scale[k / 32] * (float)sum_of(row->q, k, 32);
        assert_memory_equal(&row->scaled[k / 32], &scaled, sizeof scaled);
        assert_int_equal(row->sum32[k / 32], -8 * sum_of(row->q, k, 32));
        assert_int_equal(row->sum16[k / 16], -32 * sum_of(row->q, k, 16));
        assert_int_equal(row->sum16[k / 16 + 1], -32 * sum_of(row->q, k + 16, 16));
    }
    for (int64_t k = 0; k < STRIDE; k += 4)
        assert_int_equal(row->quads[k / 4], -32 * sum_of(row->q, k, 4));
    for (int64_t k = 0; k < STRIDE; k += 128)
        for (int i = 0; i < 64; i++) {
            int64_t even = k + 32 * (i / 16) + i % 16;
            assert_int_equal(row->halves[k + i], row->q[even]);
            assert_int_equal(row->halves[k + 64 + i], row->q[even + 16]);
            if (i % 4 == 0)
                assert_int_equal(row->octets[k / 8 + i / 4],
                                 -4 * (sum_of(row->q, even, 4) + sum_of(row->q, even + 16, 4)));
        }
}

static void the_planes_of_sums_hold_sums(void **state)
{
    (void)state;
    struct weft__rounded to = round_all();
    for (int64_t m = 0; m < BATCH; m++) {
        struct weft__rounded_row row = weft__rounded_row(&to, m);
        check_sums(&row);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_rounds_as_promised),
        cmocka_unit_test(the_planes_of_sums_hold_sums),
    };
    return cmocka_run_group_tests(tests, make_x, NULL);
}
