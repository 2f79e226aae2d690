// SPDX-License-Identifier: MIT
// Packed weights give what the weights as a file has them give.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

#include "tests/support/linear_layer.h"

// Sums of 2 * 512 / 32 products and a bias in another order: 66 roundings of at most 2^-20, for partial sums stay below
// 32. As random they deviate by 4.5e-6; four of that.
static void assert_close(int32_t p, int32_t batch)
{
    const float *got = y[p], *expected = want[p];
    for (int32_t i = 0; i < batch * ROWS; i++)
        if (!(fabsf(got[i] - expected[i]) <= 2e-5f))
            fail_msg("%d: %g instead of %g", i, (double)got[i], (double)expected[i]);
}

static void count_words(void *user, size_t done, size_t total)
{
    size_t *last = user;
    assert_true(done >= *last && done <= total);
    *last = done;
}

// Packs part p from rows that lie `gap` bytes farther apart than they need, and puts it in the arguments.
static void pack(const weft_plan *plan, int32_t p, weft_dtype dtype, const float *scales,
                 void *packed, size_t room, weft_linear_args *args)
{
    static unsigned char apart[MOST_BYTES + ROWS * 64];
    int64_t row = weft_dtype_row_bytes(dtype, COLS), stride = row + 6;
    size_t bytes = weft_linear_packed_bytes(plan, p), last = 0;
    assert_true(bytes >= (size_t)row * ROWS && bytes <= room);
    for (int r = 0; r < ROWS; r++)
        memcpy(apart + r * stride, weights[p] + r * row, (size_t)row);
    weft_linear_pack_args pack_args = {.size = sizeof pack_args,
                                       .part = p,
                                       .weight = apart,
                                       .weight_stride_bytes = stride,
                                       .scales = scales,
                                       .packed = packed,
                                       .progress = count_words,
                                       .user = &last};
    if (weft_linear_pack(plan, &pack_args) != WEFT_OK)
        fail_msg("%s", weft_error_text(context));
    assert_int_equal(last, bytes);
    if (!weft_linear_packed_layout(plan, p))
        assert_memory_equal(packed, weights[p], (size_t)row * ROWS);
    memset(apart, 0, sizeof apart);
    args->parts[p].packed = packed;
    args->parts[p].weight = args->parts[p].scales = NULL;
}

static void packed_weights_are_the_weights(void **state)
{
    (void)state;
    enum { GROUPS = COLS / 64 };
    static _Alignas(64) unsigned char packed[2][MOST_BYTES / 2];
    static float scales[ROWS * GROUPS];
    weft_plan *plan;
    weft_linear_desc desc = with_parts(WEFT_Q4_K, WEFT_MLX_Q8_G64, 0);
    fill(scales, ROWS * GROUPS);
    weft_linear_args args = fused_args(&desc, BATCH, bias);
    args.parts[1].scales = scales;
    run(&desc, args);
    memcpy(want, y, sizeof y);
    memset(y, 0, sizeof y);
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
    pack(plan, 0, WEFT_Q4_K, NULL, packed[0], sizeof packed[0], &args);
    pack(plan, 1, WEFT_MLX_Q8_G64, scales, packed[1], sizeof packed[1], &args);
    run(&desc, args);
    assert_close(0, BATCH);
    assert_same(1, BATCH);
    assert_int_equal(weft_linear_packed_bytes(plan, 2), 0);
    assert_null(weft_linear_packed_layout(plan, 2));
    assert_null(weft_linear_packed_layout(plan, 1)); // no kernel of the CPU has panels of MLX
    weft_linear_pack_args wrong = {
        .size = sizeof wrong, .weight = weights[0], .packed = packed[0] + 4};
    assert_int_equal(weft_linear_pack(plan, &wrong), WEFT_EINVAL);
    wrong.packed = packed[0];
    wrong.scales = scales;
    assert_int_equal(weft_linear_pack(plan, &wrong), WEFT_EINVAL);
    wrong.part = 2;
    assert_int_equal(weft_linear_pack(plan, &wrong), WEFT_EINVAL);
    weft_plan_destroy(plan);
}

// A kernel of packed weights is given nothing else, and one of weights in rows packs them in rows.
static void packed_kernels_read_packed_weights(void **state)
{
    (void)state;
    static _Alignas(64) unsigned char packed[MOST_BYTES / 2];
    weft_plan *plan;
    weft_linear_desc desc = with_parts(WEFT_Q4_K, 0, 0);
    desc.variant = "linear_q4_k_q8_packed_avx512vnni";
    if (!weft_linear_supported(context, &desc, NULL))
        skip();
    weft_linear_args args = fused_args(&desc, 1, NULL);
    args.size = sizeof args;
    args.workspace = workspace;
    args.workspace_bytes = sizeof workspace;
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
    assert_non_null(weft_linear_packed_layout(plan, 0));
    assert_int_equal(weft_linear_run(plan, &args), WEFT_EINVAL);
    pack(plan, 0, WEFT_Q4_K, NULL, packed, sizeof packed, &args);
    assert_int_equal(weft_linear_run(plan, &args), WEFT_OK);
    weft_linear_pack_args far = {.size = sizeof far,
                                 .weight = weights[0],
                                 .weight_stride_bytes = INT64_C(1) << 28,
                                 .packed = packed};
    assert_int_equal(weft_linear_pack(plan, &far), WEFT_EINVAL);
    weft_plan_destroy(plan);
    desc.variant = "linear_q4_k_q8_avx512vnni";
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
    pack(plan, 0, WEFT_Q4_K, NULL, packed, sizeof packed, &args);
    assert_memory_equal(packed, weights[0], (size_t)weft_dtype_row_bytes(WEFT_Q4_K, COLS) * ROWS);
    weft_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_weights_are_the_weights),
        cmocka_unit_test(packed_kernels_read_packed_weights),
    };
    return cmocka_run_group_tests(tests, open_layer, close_layer);
}
