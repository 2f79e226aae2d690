// SPDX-License-Identifier: MIT
// A linear layer of up to PARTS matrices for tests: its weights, its inputs and biases, drawn at random, room for its
// results and for those that are expected.
#ifndef TESTS_SUPPORT_LINEAR_LAYER_H
#define TESTS_SUPPORT_LINEAR_LAYER_H

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

enum { COLS = 512, ROWS = 352, BATCH = 11, PARTS = 3, MOST_BYTES = ROWS * COLS * 4 };

static weft_context *context;
static _Alignas(64) unsigned char weights[PARTS][MOST_BYTES], workspace[1 << 21];
static float x[BATCH * COLS], norm_weight[COLS], bias[ROWS];
static float y[PARTS][BATCH * ROWS], want[PARTS][BATCH * ROWS];

static float random_number(void)
{
    static uint64_t state = 99;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(state >> 32) * 0x1p-31f;
}

static void fill(float *to, int count)
{
    for (int i = 0; i < count; i++)
        to[i] = random_number();
}

static void fill_weights(int p, weft_dtype dtype)
{
    float row[COLS];
    for (int r = 0; r < ROWS; r++) {
        fill(row, COLS);
        assert_int_equal(
            weft_quantize_row(dtype, row, COLS, weights[p] + r * weft_dtype_row_bytes(dtype, COLS)),
            WEFT_OK);
    }
}

static int open_layer(void **state)
{
    (void)state;
    weft_context_desc desc = {.size = sizeof desc, .threads = 3};
    if (weft_context_create(&desc, &context) != WEFT_OK)
        return 1;
    fill(x, BATCH * COLS);
    fill(norm_weight, COLS);
    fill(bias, ROWS);
    return 0;
}

static int close_layer(void **state)
{
    (void)state;
    weft_context_destroy(context);
    return 0;
}

static void run(const weft_linear_desc *desc, weft_linear_args args)
{
    weft_plan *plan;
    if (weft_linear_plan(context, desc, &plan) != WEFT_OK)
        fail_msg("%s", weft_error_text(context));
    assert_true(weft_plan_workspace_bytes(plan) <= sizeof workspace);
    args.size = sizeof args;
    args.workspace = workspace;
    args.workspace_bytes = sizeof workspace;
    if (weft_linear_run(plan, &args) != WEFT_OK)
        fail_msg("%s", weft_error_text(context));
    weft_plan_destroy(plan);
}

static weft_linear_desc plain(weft_dtype dtype)
{
    return (weft_linear_desc){.size = sizeof(weft_linear_desc),
                              .weight_dtype = dtype,
                              .rows = ROWS,
                              .cols = COLS,
                              .max_batch = BATCH};
}

static weft_linear_desc with_parts(weft_dtype a, weft_dtype b, weft_dtype c)
{
    weft_linear_desc desc = plain(0);
    weft_dtype dtypes[PARTS] = {a, b, c};
    desc.rows = 0;
    for (; desc.num_parts < PARTS && dtypes[desc.num_parts]; desc.num_parts++) {
        desc.parts[desc.num_parts] =
            (weft_linear_part){.weight_dtype = dtypes[desc.num_parts], .rows = ROWS};
        fill_weights(desc.num_parts, dtypes[desc.num_parts]);
    }
    return desc;
}

static weft_linear_args fused_args(const weft_linear_desc *desc, int32_t batch, const float *biases)
{
    weft_linear_args args = {
        .batch = batch, .x = x, .norm_weight = desc->norm ? norm_weight : NULL};
    for (int32_t p = 0; p < desc->num_parts; p++)
        args.parts[p] = (weft_linear_part_args){.weight = weights[p], .y = y[p], .bias = biases};
    return args;
}

static void assert_same(int32_t p, int32_t batch)
{
    assert_memory_equal(y[p], want[p], (size_t)batch * ROWS * sizeof(float));
}

#endif
