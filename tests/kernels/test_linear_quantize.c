// SPDX-License-Identifier: MIT
// Every quantiser of activations agrees with the reference to the bit, in the order and with the sums
// that its kernel asks for.
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

enum { COLS = 32 * 21, STRIDE = 768, BATCH = 40, X_STRIDE = COLS + 3 };

extern const struct weft__kernel_table weft__linear_table;
weft__linear_quantize_fn weft__linear_quantize_ref;

struct planes {
    _Alignas(64) int8_t q[BATCH * STRIDE];
    _Alignas(64) float scale[BATCH * STRIDE / 32];
    _Alignas(64) int32_t sum[BATCH * STRIDE / 16];
};

static const struct weft__q8_layout in_order = {{0, 1, 2, 3, 4, 5, 6, 7}, 16, 1};
static float x[BATCH * X_STRIDE];
static struct planes expected, got;

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
    case 4: return bits % 100 ? (float)bits : NAN;
    case 5: return bits % 100 ? (float)bits : -INFINITY;
    default: return ldexpf((float)bits - 0x1p31f, -30);
    }
}

static void quantize(weft__linear_quantize_fn *function, const struct weft__q8_layout *layout,
                     struct planes *planes)
{
    struct weft__linear_call call = {
        .cols = COLS,
        .batch = BATCH,
        .x = x,
        .x_stride = X_STRIDE,
        .acts = {layout, STRIDE, planes->q, planes->scale, planes->sum},
    };
    memset(planes, 0x5a, sizeof *planes);
    function(&call, 0, 1);
    function(&call, 1, BATCH);
}

static void assert_same_group(int64_t group, const struct weft__q8_layout *layout)
{
    const int8_t *q = expected.q + 32 * group;
    float scale = expected.scale[group];
    int32_t sums[2] = {expected.sum[2 * group], expected.sum[2 * group + 1]};
    assert_memory_equal(&got.scale[group], &scale, sizeof scale);
    for (int64_t i = 0; i < 2; i++) {
        int64_t place = group / 4 * 128 + 16 * layout->place[2 * (group % 4) + i];
        assert_memory_equal(got.q + place, q + 16 * i, 16);
        if (layout->sum_elems == 16)
            assert_int_equal(got.sum[2 * group + i], layout->factor * sums[i]);
    }
    if (layout->sum_elems == 32 && layout->factor)
        assert_int_equal(got.sum[group], layout->factor * (sums[0] + sums[1]));
    float scaled = scale * (float)(sums[0] + sums[1]);
    if (layout->factor == 0)
        assert_memory_equal(&got.sum[group], &scaled, sizeof scaled);
}

static void all_quantisers_agree(void **state)
{
    (void)state;
    const struct weft__linear_kernel *rows = weft__linear_table.rows;
    uint32_t mask = weft__cpu_isa_mask();
    for (int i = 0; i < BATCH * X_STRIDE; i++)
        x[i] = random_number(i / X_STRIDE);
    quantize(weft__linear_quantize_ref, &in_order, &expected);
    for (int32_t i = 0; i < weft__linear_table.count; i++) {
        if (!rows[i].quantize || !weft__cpu_fits(&rows[i].base, mask))
            continue;
        quantize(rows[i].quantize, rows[i].layout, &got);
        for (int64_t group = 0; group < BATCH * STRIDE / 32; group++)
            assert_same_group(group, rows[i].layout);
    }
}

static void the_reference_rounds_as_promised(void **state)
{
    (void)state;
    quantize(weft__linear_quantize_ref, &in_order, &expected);
    for (int64_t m = 0; m < BATCH; m++)
        for (int64_t k = 0; k < STRIDE; k++) {
            float scale = expected.scale[(m * STRIDE + k) / 32];
            int q = expected.q[m * STRIDE + k];
            if (k >= COLS)
                assert_true(q == 0 && scale == 0);
            else if (isfinite(scale) && scale > 0x1p-126f)
                assert_true(fabs((double)x[m * X_STRIDE + k] - (double)q * scale) <=
                            scale * 0.50001);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_quantisers_agree),
        cmocka_unit_test(the_reference_rounds_as_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
