// SPDX-License-Identifier: MIT
// Every rounding function agrees with the reference to the bit in all planes, and the planes hold what
// linear_rounded.h says.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/backend/cpu/cpu.h"
#include "src/kernels/linear/linear_kernel.h"

enum { COLS = 32 * 21, STRIDE = 768, BATCH = 40, X_STRIDE = COLS + 3, MOST_BYTES = 1 << 18 };

static float x[BATCH * X_STRIDE];
static _Alignas(64) unsigned char expected[MOST_BYTES], got[MOST_BYTES];

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

// Rounds the rows of x into `memory`; returns the planes.
static struct weft__rounded round_all(weft__round_fn *function, bool few, unsigned char *memory)
{
    struct weft__rounded_plan plan;
    assert_true(weft__rounded_plan(BATCH, COLS, few, &plan));
    assert_true(plan.stride == STRIDE && plan.bytes <= MOST_BYTES);
    memset(memory, 0x5a, MOST_BYTES);
    struct weft__rounded to = weft__rounded_place(&plan, memory);
    for (int64_t m = 0; m < BATCH; m++)
        function(&to, m, x + m * X_STRIDE, COLS, few);
    return to;
}

static int make_x(void **state)
{
    (void)state;
    for (int i = 0; i < BATCH * X_STRIDE; i++)
        x[i] = random_number(i / X_STRIDE);
    return 0;
}

static void all_functions_agree(void **state)
{
    (void)state;
    uint32_t mask = weft__cpu_isa_mask();
    for (int few = 0; few < 2; few++) {
        round_all(weft__rounder_of(1u << WEFT__ISA_ref), few, expected);
        for (const struct weft__rounder *r = weft__rounders; r->round; r++) {
            if (!(mask >> r->isa & 1))
                continue;
            round_all(r->round, few, got);
            for (int i = 0; i < MOST_BYTES; i++)
                if (got[i] != expected[i])
                    fail_msg("%s differs from the reference in byte %d",
                             weft__cpu_isa_name(1u << r->isa), i);
        }
    }
}

static void the_reference_rounds_as_promised(void **state)
{
    (void)state;
    struct weft__rounded to = round_all(weft__rounder_of(1u << WEFT__ISA_ref), false, expected);
    for (int64_t m = 0; m < BATCH; m++)
        for (int64_t k = 0; k < STRIDE; k++) {
            float scale = to.scale[(m * STRIDE + k) / 32];
            int q = to.q[m * STRIDE + k];
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

static void the_planes_of_sums_hold_sums(void **state)
{
    (void)state;
    struct weft__rounded to = round_all(weft__rounder_of(1u << WEFT__ISA_ref), true, expected);
    for (int64_t at = 0; at < BATCH * STRIDE; at += 32) {
        float scaled = to.scale[at / 32] * (float)sum_of(to.q, at, 32);
        assert_memory_equal(&to.scaled[at / 32], &scaled, sizeof scaled);
        assert_int_equal(to.sum32[at / 32], -8 * sum_of(to.q, at, 32));
        assert_int_equal(to.sum16[at / 16], -32 * sum_of(to.q, at, 16));
        assert_int_equal(to.sum16[at / 16 + 1], -32 * sum_of(to.q, at + 16, 16));
    }
    for (int64_t at = 0; at < BATCH * STRIDE; at += 4)
        assert_int_equal(to.quads[at / 4], -32 * sum_of(to.q, at, 4));
    for (int64_t at = 0; at < BATCH * STRIDE; at += 128)
        for (int i = 0; i < 64; i++) {
            int64_t even = at + 32 * (i / 16) + i % 16;
            assert_int_equal(to.halves[at + i], to.q[even]);
            assert_int_equal(to.halves[at + 64 + i], to.q[even + 16]);
            if (i % 4 == 0)
                assert_int_equal(to.octets[at / 8 + i / 4],
                                 -4 * (sum_of(to.q, even, 4) + sum_of(to.q, even + 16, 4)));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_functions_agree),
        cmocka_unit_test(the_reference_rounds_as_promised),
        cmocka_unit_test(the_planes_of_sums_hold_sums),
    };
    return cmocka_run_group_tests(tests, make_x, NULL);
}
