// SPDX-License-Identifier: MIT
// More threads than a matrix has panels of rows: rows of X are divided too, and no bit of the result changes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

enum { ROWS = 96, COLS = 96, BATCH = 290, PARTS = 2 };

static float wide[PARTS][ROWS * COLS], x[BATCH * COLS], bias[ROWS], residual[BATCH * ROWS];
static float y[2][PARTS][BATCH * ROWS];
static unsigned char weights[PARTS][ROWS * COLS * 4];
static _Alignas(64) unsigned char workspace[1 << 22];

static void fill(float *to, int count)
{
    static uint64_t state = 7;
    for (int i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        to[i] = (float)(int32_t)(state >> 32) * 0x1p-31f;
    }
}

// Two parts of different rows, two with a gate, or one.
enum kind { APART, GATED, ALONE, KINDS };

static weft_linear_desc describe(const weft_dtype dtypes[PARTS], enum kind kind)
{
    return (weft_linear_desc){
        .size = sizeof(weft_linear_desc),
        .cols = COLS,
        .max_batch = BATCH,
        .norm = WEFT_LINEAR_NORM_RMS,
        .gate = kind == GATED ? WEFT_LINEAR_GATE_SILU : WEFT_LINEAR_GATE_NONE,
        .num_parts = kind == ALONE ? 1 : PARTS,
        .parts = {{.weight_dtype = dtypes[0], .rows = ROWS},
                  {.weight_dtype = dtypes[1], .rows = ROWS - 3 * (kind == APART)}}};
}

// The rows of y[with] by `threads` threads.
static void run(const weft_linear_desc *desc, int32_t threads, int with)
{
    const weft_context_desc machine = {.size = sizeof machine, .threads = threads};
    weft_linear_args args = {.size = sizeof args,
                             .batch = BATCH,
                             .x = x,
                             .residual = desc->gate || desc->num_parts == 1 ? residual : NULL,
                             .workspace = workspace,
                             .workspace_bytes = sizeof workspace};
    for (int p = 0; p < PARTS; p++)
        args.parts[p] =
            (weft_linear_part_args){.weight = weights[p], .y = y[with][p], .bias = bias};
    weft_context *context;
    weft_plan *plan;
    assert_int_equal(weft_context_create(&machine, &context), WEFT_OK);
    assert_int_equal(weft_linear_plan(context, desc, &plan), WEFT_OK);
    assert_true(weft_plan_workspace_bytes(plan) <= sizeof workspace);
    if (weft_linear_run(plan, &args) != WEFT_OK)
        fail_msg("%s", weft_error_text(context));
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

static void no_bit_depends_on_the_pieces(void **state)
{
    static const weft_dtype dtypes[][PARTS] = {{WEFT_F32, WEFT_F32},
                                               {WEFT_F16, WEFT_F16},
                                               {WEFT_BF16, WEFT_BF16},
                                               {WEFT_BF16, WEFT_Q8_0}}; // whose X is rounded
    (void)state;
    fill(x, BATCH * COLS);
    fill(bias, ROWS);
    fill(residual, BATCH * ROWS);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        for (int p = 0; p < PARTS; p++) {
            fill(wide[p], ROWS * COLS);
            for (int r = 0; r < ROWS; r++)
                assert_int_equal(
                    weft_quantize_row(dtypes[i][p], wide[p] + r * COLS, COLS,
                                      weights[p] + r * weft_dtype_row_bytes(dtypes[i][p], COLS)),
                    WEFT_OK);
        }
        for (enum kind kind = APART; kind < KINDS; kind++) {
            const weft_linear_desc desc = describe(dtypes[i], kind);
            memset(y, 0x5a, sizeof y);
            run(&desc, 1, 0);
            run(&desc, 7, 1);
            assert_memory_equal(y[0], y[1], sizeof y[0]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_bit_depends_on_the_pieces)};
    return cmocka_run_group_tests_name("linear_pieces", tests, NULL, NULL);
}
