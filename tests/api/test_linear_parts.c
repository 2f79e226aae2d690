// SPDX-License-Identifier: MIT
// A linear layer with parts, norm, gate, rounded input and output gives what its steps give one by one.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

#include "tests/support/linear_layer.h"

static _Alignas(64) unsigned char rounded[1 << 18], other[1 << 18];
static float next_weight[ROWS], residual[BATCH * ROWS];

static int set_up(void **state)
{
    if (open_layer(state))
        return 1;
    fill(next_weight, ROWS);
    fill(residual, BATCH * ROWS);
    return 0;
}

// One by one: the norm, then every part.
static void steps(const weft_linear_desc *desc, int32_t batch, const float *biases)
{
    static float normed[BATCH * COLS];
    memcpy(normed, x, sizeof x);
    if (desc->norm) {
        weft_plan *plan;
        weft_norm_desc norm = {
            .size = sizeof norm,
            .kind = desc->norm == WEFT_LINEAR_NORM_RMS ? WEFT_NORM_RMS : WEFT_NORM_LAYER,
            .flags = desc->flags & WEFT_LINEAR_NORM_PLUS_ONE ? WEFT_NORM_WEIGHT_PLUS_ONE : 0,
            .eps = desc->norm_eps,
            .dim = COLS,
            .max_rows = BATCH};
        weft_norm_args args = {
            .size = sizeof args, .rows = batch, .x = x, .y = normed, .weight = norm_weight};
        assert_int_equal(weft_norm_plan(context, &norm, &plan), WEFT_OK);
        assert_int_equal(weft_norm_run(plan, &args), WEFT_OK);
        weft_plan_destroy(plan);
    }
    for (int32_t p = 0; p < desc->num_parts; p++) {
        weft_linear_desc one = plain(desc->parts[p].weight_dtype);
        run(&one,
            (weft_linear_args){
                .batch = batch, .weight = weights[p], .x = normed, .y = want[p], .bias = biases});
    }
}

static void parts_share_an_input(void **state)
{
    (void)state;
    weft_linear_desc desc = with_parts(WEFT_Q4_K, WEFT_F16, WEFT_Q6_K);
    for (int32_t norm = 0; norm < 3; norm++)
        for (int32_t batch = 1; batch <= BATCH; batch += 5) {
            desc.norm = (weft_linear_norm)norm;
            desc.norm_eps = norm ? 1e-5f : 0;
            desc.flags = norm == 1 ? WEFT_LINEAR_NORM_PLUS_ONE : 0;
            run(&desc, fused_args(&desc, batch, bias));
            steps(&desc, batch, bias);
            for (int32_t p = 0; p < PARTS; p++)
                assert_same(p, batch);
        }
}

static void apply_gate(weft_activation_kind kind, int32_t batch)
{
    weft_plan *plan;
    weft_activation_desc desc = {.size = sizeof desc, .kind = kind, .dim = ROWS, .max_rows = BATCH};
    weft_activation_args args = {
        .size = sizeof args, .rows = batch, .x = want[0], .up = want[1], .y = want[0]};
    assert_int_equal(weft_activation_plan(context, &desc, &plan), WEFT_OK);
    assert_int_equal(weft_activation_run(plan, &args), WEFT_OK);
    weft_plan_destroy(plan);
}

static void a_gate_follows_two_parts(void **state)
{
    (void)state;
    weft_linear_desc desc = with_parts(WEFT_Q4_0, WEFT_Q8_0, 0);
    for (int32_t gate = 1; gate <= 3; gate++)
        for (int32_t batch = 1; batch <= BATCH; batch += 10) {
            desc.gate = (weft_linear_gate)gate;
            weft_linear_args args = fused_args(&desc, batch, NULL);
            args.residual = gate == 2 ? residual : NULL;
            run(&desc, args);
            steps(&desc, batch, NULL);
            apply_gate((weft_activation_kind)(gate - 1), batch);
            for (int32_t i = 0; args.residual && i < batch * ROWS; i++)
                want[0][i] += residual[i];
            assert_same(0, batch);
        }
}

static void round_rows(const float *from, int64_t cols, int32_t rows, void *to)
{
    weft_plan *plan;
    weft_round_desc desc = {.size = sizeof desc, .cols = cols, .max_rows = BATCH};
    weft_round_args args = {.size = sizeof args, .rows = rows, .x = from, .rounded = to};
    memset(to, 0, weft_rounded_bytes(context, rows, cols));
    assert_int_equal(weft_round_plan(context, &desc, &plan), WEFT_OK);
    assert_int_equal(weft_round_run(plan, &args), WEFT_OK);
    weft_plan_destroy(plan);
}

static void rounded_inputs_serve_every_format(void **state)
{
    (void)state;
    weft_linear_desc desc = with_parts(WEFT_Q4_K, WEFT_Q4_0, WEFT_Q6_K);
    for (int32_t batch = 1; batch <= BATCH; batch += 10) {
        assert_true(weft_rounded_bytes(context, batch, COLS) <= sizeof rounded);
        round_rows(x, COLS, batch, rounded);
        desc.flags = 0;
        steps(&desc, batch, NULL);
        desc.flags = WEFT_LINEAR_X_ROUNDED;
        weft_linear_args args = fused_args(&desc, batch, NULL);
        args.x = rounded;
        run(&desc, args);
        for (int32_t p = 0; p < PARTS; p++)
            assert_same(p, batch);
    }
}

static void results_are_rounded_as_if_by_themselves(void **state)
{
    (void)state;
    weft_linear_desc desc = with_parts(WEFT_Q4_0, WEFT_Q8_0, 0);
    desc.gate = WEFT_LINEAR_GATE_SILU;
    for (int32_t batch = 1; batch <= BATCH; batch += 10) {
        size_t bytes = weft_rounded_bytes(context, batch, ROWS);
        assert_true(bytes <= sizeof other);
        desc.flags = WEFT_LINEAR_Y_ROUNDED;
        memset(rounded, 0, bytes);
        weft_linear_args args = fused_args(&desc, batch, NULL);
        args.parts[0].y = rounded;
        run(&desc, args);
        desc.flags = 0;
        run(&desc, fused_args(&desc, batch, NULL));
        round_rows(y[0], ROWS, batch, other);
        assert_memory_equal(rounded, other, bytes);
    }
}

// The reader of a layer's `next` against norm, rounding and product one by one. The norm's factor
// comes after the rounding, so that a quotient may fall to the other side of a half.
static void the_next_norm_is_applied_by_its_reader(void **state)
{
    (void)state;
    static float first[BATCH * ROWS], second[BATCH * ROWS];
    weft_linear_desc desc = plain(WEFT_Q8_0);
    fill_weights(0, WEFT_Q8_0);
    desc.flags = WEFT_LINEAR_NEXT;
    run(&desc, (weft_linear_args){.batch = BATCH,
                                  .weight = weights[0],
                                  .x = x,
                                  .y = first,
                                  .residual = residual,
                                  .next_weight = next_weight,
                                  .next = rounded});
    weft_linear_desc reader = {.size = sizeof reader,
                               .weight_dtype = WEFT_Q4_0,
                               .rows = ROWS,
                               .cols = ROWS,
                               .max_batch = BATCH,
                               .norm = WEFT_LINEAR_NORM_RMS,
                               .norm_eps = 1e-5f};
    weft_linear_args args = {
        .batch = BATCH, .weight = weights[1], .x = first, .y = second, .norm_weight = next_weight};
    float row[ROWS];
    for (int r = 0; r < ROWS; r++) {
        fill(row, ROWS);
        weft_quantize_row(WEFT_Q4_0, row, ROWS,
                          weights[1] + r * weft_dtype_row_bytes(WEFT_Q4_0, ROWS));
    }
    run(&reader, args);
    reader.flags = WEFT_LINEAR_X_ROUNDED;
    args.x = rounded;
    args.norm_weight = NULL;
    args.y = y[0];
    run(&reader, args);
    for (int i = 0; i < BATCH * ROWS; i++)
        assert_true(fabsf(y[0][i] - second[i]) <= 0.02f);
}

static void narrow_numbers_go_in_and_out(void **state)
{
    (void)state;
    static uint16_t half_x[BATCH * COLS], half_residual[BATCH * ROWS], half_y[BATCH * ROWS];
    static float wide_x[BATCH * COLS], wide_residual[BATCH * ROWS];
    const weft_dtype formats[] = {WEFT_F16, WEFT_BF16};
    for (int f = 0; f < 2; f++) {
        weft_dtype dtype = formats[f];
        weft_linear_desc desc = plain(WEFT_Q4_K);
        fill_weights(0, WEFT_Q4_K);
        weft_quantize_row(dtype, x, BATCH * COLS, half_x);
        weft_dequantize_row(dtype, half_x, BATCH * COLS, wide_x);
        weft_quantize_row(dtype, residual, BATCH * ROWS, half_residual);
        weft_dequantize_row(dtype, half_residual, BATCH * ROWS, wide_residual);
        weft_linear_args args = {.batch = BATCH,
                                 .weight = weights[0],
                                 .x = wide_x,
                                 .y = want[0],
                                 .residual = wide_residual};
        run(&desc, args);
        weft_quantize_row(dtype, want[0], BATCH * ROWS, want[1]);
        desc.x_dtype = desc.y_dtype = dtype;
        args.x = half_x;
        args.y = half_y;
        args.residual = half_residual;
        run(&desc, args);
        assert_memory_equal(half_y, want[1], sizeof half_y);
    }
}

// Scales and biases beside the codes: the product of what weft_dequantize_planes() gives.
static void planes_multiply_the_codes(void **state)
{
    (void)state;
    enum { GROUP = 64, GROUPS = COLS / GROUP };
    static float scales[ROWS * GROUPS], biases[ROWS * GROUPS], w[ROWS * COLS];
    weft_linear_desc desc = with_parts(WEFT_MLX_Q4_G64, 0, 0);
    fill(scales, ROWS * GROUPS);
    fill(biases, ROWS * GROUPS);
    for (int r = 0; r < ROWS; r++) {
        weft_row_planes planes = {.size = sizeof planes,
                                  .dtype = WEFT_MLX_Q4_G64,
                                  .data = weights[0] + r * COLS / 2,
                                  .scales = scales + r * GROUPS,
                                  .biases = biases + r * GROUPS,
                                  .global_scale = 0.5f};
        assert_int_equal(weft_dequantize_planes(&planes, COLS, w + r * COLS), WEFT_OK);
    }
    desc.flags = WEFT_LINEAR_EXACT;
    weft_linear_args args = fused_args(&desc, BATCH, NULL);
    args.parts[0].scales = scales;
    args.parts[0].biases = biases;
    args.parts[0].global_scale = 0.5f;
    run(&desc, args);
    for (int m = 0; m < BATCH; m++)
        for (int r = 0; r < ROWS; r++) {
            double sum = 0, magnitude = 0;
            for (int k = 0; k < COLS; k++) {
                sum += (double)w[r * COLS + k] * x[m * COLS + k];
                magnitude += fabs((double)w[r * COLS + k] * x[m * COLS + k]);
            }
            assert_true(fabs(y[0][m * ROWS + r] - sum) <= 0x1p-18 * (magnitude + 16));
        }
}

// The rounded kernels of every instruction set, with scales and biases, against the reference.
static void planes_of_rounded_kernels(void **state)
{
    (void)state;
    enum { GROUPS = COLS / 32 };
    static float scales[ROWS * GROUPS], biases[ROWS * GROUPS];
    const weft_dtype formats[] = {WEFT_MLX_Q8_G32, WEFT_MLX_Q3_G64, WEFT_MLX_Q4_G128};
    const char *const isas[] = {"q8_any_avx2",    "q8_any_avx512vnni", "q8_any_neon",
                                "q8_any_neondot", "f32_any_avx2",      "f32_any_avx512"};
    fill(scales, ROWS * GROUPS);
    fill(biases, ROWS * GROUPS);
    for (int f = 0; f < 3; f++) {
        weft_linear_desc desc = with_parts(formats[f], 0, 0);
        for (int i = 0; i < 6; i++) {
            char variant[64], reference[64];
            const char *name = weft_dtype_name(formats[f]);
            bool exact = isas[i][0] == 'f';
            desc.flags = exact ? WEFT_LINEAR_EXACT : 0;
            snprintf(variant, sizeof variant, "linear_%s_%s", name, isas[i]);
            snprintf(reference, sizeof reference, "linear_%s_%s_ref", name, exact ? "f32" : "q8");
            desc.variant = variant;
            if (!weft_linear_supported(context, &desc, NULL))
                continue;
            for (int32_t batch = 1; batch <= BATCH; batch += 10) {
                weft_linear_args args = fused_args(&desc, batch, NULL);
                args.parts[0].scales = scales;
                args.parts[0].biases = biases;
                desc.variant = variant;
                run(&desc, args);
                memcpy(want[0], y[0], sizeof y[0]);
                desc.variant = reference;
                run(&desc, args);
                for (int n = 0; n < batch * ROWS; n++)
                    assert_true(fabsf(y[0][n] - want[0][n]) <= 2e-5f * (fabsf(y[0][n]) + 2000));
            }
        }
    }
}

static void runs_that_cannot_be_are_refused(void **state)
{
    (void)state;
    weft_plan *plan;
    weft_linear_desc desc = with_parts(WEFT_Q4_0, WEFT_Q4_K, 0);
    desc.flags = WEFT_LINEAR_X_ROUNDED;
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
    weft_linear_args args = fused_args(&desc, 1, NULL);
    args.size = sizeof args;
    args.workspace = workspace;
    args.workspace_bytes = sizeof workspace;
    memset(rounded, 0, sizeof rounded);
    args.x = rounded;
    assert_int_equal(weft_linear_run(plan, &args), WEFT_EINVAL); // nothing rounded there
    round_rows(x, COLS - 32, 1, rounded);
    assert_int_equal(weft_linear_run(plan, &args), WEFT_EINVAL); // other columns
    round_rows(x, COLS, 1, rounded);
    assert_int_equal(weft_linear_run(plan, &args), WEFT_OK);
    args.parts[1].y = NULL;
    assert_int_equal(weft_linear_run(plan, &args), WEFT_EINVAL);
    args.parts[1].y = y[1];
    args.residual = residual;
    assert_int_equal(weft_linear_run(plan, &args), WEFT_EINVAL);
    args.residual = NULL;
    args.weight = weights[0];
    assert_int_equal(weft_linear_run(plan, &args), WEFT_EINVAL);
    args.weight = NULL;
    args.parts[0].scales = norm_weight;
    assert_int_equal(weft_linear_run(plan, &args), WEFT_EINVAL);
    weft_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_share_an_input),
        cmocka_unit_test(a_gate_follows_two_parts),
        cmocka_unit_test(rounded_inputs_serve_every_format),
        cmocka_unit_test(results_are_rounded_as_if_by_themselves),
        cmocka_unit_test(the_next_norm_is_applied_by_its_reader),
        cmocka_unit_test(narrow_numbers_go_in_and_out),
        cmocka_unit_test(planes_multiply_the_codes),
        cmocka_unit_test(planes_of_rounded_kernels),
        cmocka_unit_test(runs_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, close_layer);
}
