// SPDX-License-Identifier: MIT
// bf16 weights in 12 bits are what they were, whatever stands in their list; and a matrix that 12 bits do not hold is refused.
#include <string.h>

#include "tests/support/linear_layer.h"

enum { MANY_X = 5 };

static const char *const kernels[] = {NULL, "linear_bf16_f32_packed_avx512vnni",
                                      "linear_bf16_bf16_packed_amx"};
// What reads the same weights where they lie.
static const char *const plain_kernels[] = {NULL, "linear_bf16_f32_avx512",
                                            "linear_bf16_bf16_panel_amx"};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static _Alignas(64) unsigned char packed[PARTS][ROWS * COLS * 2];
static float in_place[PARTS][BATCH * ROWS];

static uint16_t random_bits(void)
{
    return (uint16_t)(int32_t)(random_number() * 32768.0f);
}

static uint16_t *row_of(int p, int64_t row)
{
    return (uint16_t *)(void *)weights[p] + row * COLS;
}

// Most weights are as a model's; some of each row have any bits: infinities, NaN, subnormals, zeros of both signs.
static void fill_with_some(int p, int some)
{
    static const uint16_t special[] = {0,      0x8000, 1,      0x807f, 0x0080,
                                       0x7f80, 0xff80, 0x7fc1, 0x7f7f};
    fill_weights(p, WEFT_BF16);
    for (int64_t r = 0; r < ROWS; r++)
        for (int i = 0; i < some; i++) {
            const int64_t col = random_bits() % COLS;
            const int which = random_bits() % 24;
            row_of(p, r)[col] =
                which < (int)(sizeof special / sizeof *special) ? special[which] : random_bits();
        }
}

static bool same(float a, float b)
{
    return a == b || (isnan(a) && isnan(b));
}

// Packs part p of the plan of `desc`; false where it has no layout of its own.
static bool pack(const weft_linear_desc *desc, int32_t p, weft_status *status)
{
    weft_plan *plan;
    if (!weft_linear_supported(context, desc, NULL))
        return false;
    assert_int_equal(weft_linear_plan(context, desc, &plan), WEFT_OK);
    const bool own = weft_linear_packed_layout(plan, p);
    assert_true(weft_linear_packed_bytes(plan, p) <= sizeof packed[p]);
    const weft_linear_pack_args args = {
        .size = sizeof args, .part = p, .weight = weights[p], .packed = packed[p]};
    *status = own ? weft_linear_pack(plan, &args) : WEFT_OK;
    weft_plan_destroy(plan);
    return own;
}

static void run_into(const weft_linear_desc *desc, weft_linear_args args, float to[][BATCH * ROWS])
{
    for (int p = 0; p < desc->num_parts; p++)
        args.parts[p].y = to[p];
    run(desc, args);
}

// By one column at a time a result is a weight: of each unit's groups all columns, of all rows.
static void every_weight_is_itself(void **state)
{
    (void)state;
    bool any = false;
    weft_linear_desc desc = with_parts(WEFT_BF16, 0, 0);
    fill_with_some(0, 3);
    for (int n = 0; n < KERNELS; n++) {
        weft_status status;
        desc.variant = kernels[n];
        if (!pack(&desc, 0, &status))
            continue;
        any = true;
        assert_int_equal(status, WEFT_OK);
        for (int32_t batch = 1; batch <= MANY_X; batch += MANY_X - 1)
            for (int64_t k = 0; k < COLS; k += batch) {
                weft_linear_args args = fused_args(&desc, batch, NULL);
                memset(x, 0, sizeof x);
                for (int32_t m = 0; m < batch; m++)
                    x[m * COLS + (k + m) % COLS] = m % 2 ? -1 : 1;
                desc.variant = plain_kernels[n];
                run_into(&desc, args, in_place);
                desc.variant = kernels[n];
                args.parts[0].packed = packed[0];
                args.parts[0].weight = NULL;
                run_into(&desc, args, y);
                for (int i = 0; i < batch * ROWS; i++)
                    if (!same(y[0][i], in_place[0][i]))
                        fail_msg("%s, %d rows of X, column %d, row %d: %g instead of %g",
                                 kernels[n] ? kernels[n] : "the best", batch, (int)k, i % ROWS,
                                 (double)y[0][i], (double)in_place[0][i]);
            }
    }
    if (!any)
        skip();
}

// A weight of the list is 0 among the codes, and 0 times infinity is not a number: the product is infinite all the same.
static void infinite_activations_meet_listed_weights(void **state)
{
    (void)state;
    weft_linear_desc desc = with_parts(WEFT_BF16, 0, 0);
    weft_status status;
    row_of(0, 3)[70] = 0x7e80; // 2^126
    row_of(0, 4)[70] = 0x0080; // 2^-126
    desc.variant = kernels[1];
    if (!pack(&desc, 0, &status))
        skip();
    assert_int_equal(status, WEFT_OK);
    weft_linear_args args = fused_args(&desc, 1, NULL);
    args.parts[0].packed = packed[0];
    args.parts[0].weight = NULL;
    memset(x, 0, sizeof x);
    x[70] = -INFINITY;
    run_into(&desc, args, y);
    assert_true(y[0][3] == -INFINITY && y[0][4] == -INFINITY);
}

// Random bits have all exponents. Such a part is read beside its packed memory, the other of a gate from there.
static void a_matrix_of_random_bits_is_refused(void **state)
{
    (void)state;
    weft_linear_desc desc = with_parts(WEFT_BF16, WEFT_BF16, 0);
    weft_status status[2];
    weft_plan *plan;
    for (int64_t i = 0; i < (int64_t)ROWS * COLS; i++) // of any exponent to 2^32
        row_of(1, 0)[i] = random_bits() & 0xcfff;
    desc.gate = WEFT_LINEAR_GATE_SILU;
    desc.max_batch = MANY_X;
    if (!pack(&desc, 0, &status[0]) || !pack(&desc, 1, &status[1]))
        skip();
    assert_int_equal(status[0], WEFT_OK);
    assert_int_equal(status[1], WEFT_EUNSUPPORTED);
    fill(x, BATCH * COLS);
    for (int32_t batch = 1; batch <= MANY_X; batch += MANY_X - 1) {
        weft_linear_args args = fused_args(&desc, batch, NULL);
        args.parts[1].y = NULL;
        args.parts[0].y = in_place[0];
        run(&desc, args);
        for (int p = 0; p < 2; p++)
            args.parts[p].packed = packed[p];
        args.parts[0].y = y[0];
        run(&desc, args);
        for (int i = 0; i < batch * ROWS;
             i++) // the function of a sum of 512 products in two orders
            if (!(fabsf(y[0][i] - in_place[0][i]) <= 1e-3f * fabsf(in_place[0][i]) + 1e-3f))
                fail_msg("%d: %g instead of %g", i, (double)y[0][i], (double)in_place[0][i]);
        args.parts[1].weight = NULL;
        args.size = sizeof args;
        args.workspace = workspace;
        args.workspace_bytes = sizeof workspace;
        assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
        assert_int_equal(weft_linear_run(plan, &args), WEFT_EINVAL);
        weft_plan_destroy(plan);
    }
    weft_linear_args args = fused_args(&desc, MANY_X, bias);
    desc.gate = WEFT_LINEAR_GATE_NONE;
    run_into(&desc, args, want);
    args.parts[1].packed = packed[1];
    run_into(&desc, args, y);
    assert_same(1, MANY_X);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_weight_is_itself),
        cmocka_unit_test(infinite_activations_meet_listed_weights),
        cmocka_unit_test(a_matrix_of_random_bits_is_refused),
    };
    return cmocka_run_group_tests(tests, open_layer, close_layer);
}
