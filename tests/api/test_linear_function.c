// SPDX-License-Identifier: MIT
// What a linear layer does with results and inputs in blocks gives the bits of one step after the other: a
// function behind a single part, results and inputs of 16 bits. Rows of W are more than a block has, whatever
// the batch.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

enum { COLS = 256, ROWS = 1100, BATCH = 150 };

static const weft_dtype formats[] = {WEFT_F32, WEFT_F16, WEFT_BF16, WEFT_Q8_0, WEFT_Q4_K};
static const int32_t batches[] = {1, 9, BATCH};

static weft_context *context;
static _Alignas(64) unsigned char weights[ROWS * COLS * 4], workspace[1 << 23];
static float x[2 * BATCH * COLS], norm_weight[COLS], bias[ROWS], residual[BATCH * ROWS];
static float y[BATCH * ROWS], want[BATCH * ROWS], between[BATCH * ROWS];

static void fill(float *to, int count)
{
    static uint64_t state = 7;
    for (int i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        to[i] = (float)(int32_t)(state >> 32) * 0x1p-30f;
    }
}

static int set_up(void **state)
{
    (void)state;
    const weft_context_desc desc = {.size = sizeof desc, .threads = 3};
    fill(x, 2 * BATCH * COLS);
    fill(norm_weight, COLS);
    fill(bias, ROWS);
    fill(residual, BATCH * ROWS);
    return weft_context_create(&desc, &context) != WEFT_OK;
}

static int tear_down(void **state)
{
    (void)state;
    weft_context_destroy(context);
    return 0;
}

static weft_linear_desc layer(weft_dtype format)
{
    float row[COLS];
    for (int r = 0; r < ROWS; r++) {
        fill(row, COLS);
        assert_int_equal(
            weft_quantize_row(format, row, COLS, weights + r * weft_dtype_row_bytes(format, COLS)),
            WEFT_OK);
    }
    return (weft_linear_desc){.size = sizeof(weft_linear_desc),
                              .flags = WEFT_LINEAR_F32_AS_BF16,
                              .weight_dtype = format,
                              .max_batch = BATCH,
                              .rows = ROWS,
                              .cols = COLS};
}

static void run(const weft_linear_desc *desc, int32_t batch, const void *from, void *to,
                const void *added)
{
    weft_plan *plan;
    assert_int_equal(weft_linear_plan(context, desc, &plan), WEFT_OK);
    assert_true(weft_plan_workspace_bytes(plan) <= sizeof workspace);
    const weft_linear_args args = {.size = sizeof args,
                                   .batch = batch,
                                   .weight = weights,
                                   .x = from,
                                   .y = to,
                                   .bias = bias,
                                   .residual = added,
                                   .norm_weight = desc->norm ? norm_weight : NULL,
                                   .workspace = workspace,
                                   .workspace_bytes = sizeof workspace};
    assert_int_equal(weft_linear_run(plan, &args), WEFT_OK);
    weft_plan_destroy(plan);
}

// Elements of one format become those of another, and a function of theirs.
static void activate(weft_activation_kind kind, const void *from, weft_dtype x_dtype, void *to,
                     weft_dtype y_dtype, int32_t rows, int64_t dim)
{
    weft_plan *plan;
    const weft_activation_desc desc = {.size = sizeof desc,
                                       .kind = kind,
                                       .dim = dim,
                                       .max_rows = rows,
                                       .x_dtype = x_dtype,
                                       .y_dtype = y_dtype};
    const weft_activation_args args = {.size = sizeof args, .rows = rows, .x = from, .y = to};
    assert_int_equal(weft_activation_plan(context, &desc, &plan), WEFT_OK);
    assert_int_equal(weft_activation_run(plan, &args), WEFT_OK);
    weft_plan_destroy(plan);
}

// Rows of a gate and behind it of what it lets through become one.
static void gate_rows(weft_activation_kind kind, const void *from, weft_dtype dtype, float *to,
                      int32_t rows)
{
    weft_plan *plan;
    const weft_activation_desc desc = {
        .size = sizeof desc, .kind = kind, .dim = COLS, .max_rows = rows, .x_dtype = dtype};
    const weft_activation_args args = {.size = sizeof args,
                                       .rows = rows,
                                       .x = from,
                                       .x_stride = 2L * COLS,
                                       .up =
                                           (const char *)from + COLS * (dtype == WEFT_F32 ? 4 : 2),
                                       .up_stride = 2L * COLS,
                                       .y = to};
    assert_int_equal(weft_activation_plan(context, &desc, &plan), WEFT_OK);
    assert_int_equal(weft_activation_run(plan, &args), WEFT_OK);
    weft_plan_destroy(plan);
}

static size_t bytes_of(weft_dtype dtype, int32_t batch)
{
    return (size_t)batch * ROWS * (dtype == WEFT_F32 ? 4 : 2);
}

static void a_function_follows_one_part(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        const weft_linear_desc plain = layer(formats[f]);
        for (int gate = 0; gate <= 3; gate++)
            for (int dtype = WEFT_F32; dtype <= WEFT_BF16; dtype++)
                for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
                    weft_linear_desc desc = plain;
                    desc.gate = (weft_linear_gate)gate;
                    desc.y_dtype = (weft_dtype)dtype;
                    run(&desc, batches[b], x, y, NULL);
                    run(&plain, batches[b], x, between, NULL);
                    activate(gate ? (weft_activation_kind)(gate - 1) : WEFT_ACTIVATION_NONE,
                             between, WEFT_F32, want, (weft_dtype)dtype, batches[b], ROWS);
                    assert_memory_equal(y, want, bytes_of((weft_dtype)dtype, batches[b]));
                }
    }
}

static void a_residual_comes_behind_the_function(void **state)
{
    (void)state;
    const weft_linear_desc plain = layer(WEFT_Q8_0);
    weft_linear_desc desc = plain;
    desc.gate = WEFT_LINEAR_GATE_GELU;
    run(&desc, BATCH, x, y, residual);
    run(&plain, BATCH, x, between, NULL);
    activate(WEFT_ACTIVATION_GELU, between, WEFT_F32, want, WEFT_F32, BATCH, ROWS);
    for (int i = 0; i < BATCH * ROWS; i++)
        want[i] += residual[i];
    assert_memory_equal(y, want, sizeof want);
}

// The same numbers in 16 bits and in 32, with a norm and without.
static void inputs_of_16_bits_are_their_numbers(void **state)
{
    (void)state;
    static uint16_t narrow[BATCH * COLS];
    static float wide[BATCH * COLS];
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        weft_linear_desc desc = layer(formats[f]);
        for (int dtype = WEFT_F16; dtype <= WEFT_BF16; dtype++)
            for (int norm = 0; norm <= 1; norm++)
                for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
                    const int32_t batch = batches[b];
                    activate(WEFT_ACTIVATION_NONE, x, WEFT_F32, narrow, (weft_dtype)dtype, batch,
                             COLS);
                    activate(WEFT_ACTIVATION_NONE, narrow, (weft_dtype)dtype, wide, WEFT_F32, batch,
                             COLS);
                    desc.norm = norm ? WEFT_LINEAR_NORM_RMS : WEFT_LINEAR_NORM_NONE;
                    desc.norm_eps = 1e-5f;
                    desc.x_dtype = (weft_dtype)dtype;
                    run(&desc, batch, narrow, y, NULL);
                    desc.x_dtype = WEFT_F32;
                    run(&desc, batch, wide, want, NULL);
                    assert_memory_equal(y, want, bytes_of(WEFT_F32, batch));
                }
    }
}

// A gate before the product, of rows of gate and up, is the function first and the product then.
static void a_gate_of_the_input_is_applied_as_rows_are_loaded(void **state)
{
    (void)state;
    static uint16_t narrow[2 * BATCH * COLS];
    static float gated[BATCH * COLS];
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        const weft_linear_desc plain = layer(formats[f]);
        for (int kind = 0; kind < 3; kind++)
            for (int dtype = WEFT_F32; dtype <= WEFT_BF16; dtype++)
                for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
                    const int32_t batch = batches[b];
                    const void *from = x;
                    if (dtype != WEFT_F32) {
                        activate(WEFT_ACTIVATION_NONE, x, WEFT_F32, narrow, (weft_dtype)dtype,
                                 2 * batch, COLS);
                        from = narrow;
                    }
                    gate_rows((weft_activation_kind)kind, from, (weft_dtype)dtype, gated, batch);
                    weft_linear_desc desc = plain;
                    desc.x_gate = (weft_linear_gate)(kind + 1);
                    desc.x_dtype = (weft_dtype)dtype;
                    run(&desc, batch, from, y, NULL);
                    run(&plain, batch, gated, want, NULL);
                    assert_memory_equal(y, want, bytes_of(WEFT_F32, batch));
                }
    }
}

// Rows that a plan says it rounds to bf16 give the same bits rounded before.
static void a_plan_says_what_it_rounds_x_to(void **state)
{
    (void)state;
    static uint16_t narrow[BATCH * COLS];
    weft_linear_desc desc = layer(WEFT_BF16);
    weft_plan_info info = {.size = sizeof info};
    weft_plan *plan;
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
    assert_int_equal(weft_plan_query(plan, &info), WEFT_OK);
    weft_plan_destroy(plan);
    const weft_dtype rounds_to = info.rounds_x_to;
    assert_true(rounds_to == WEFT_BF16 || rounds_to == WEFT_F32);
    activate(WEFT_ACTIVATION_NONE, x, WEFT_F32, narrow, WEFT_BF16, BATCH, COLS);
    run(&desc, BATCH, x, want, NULL);
    desc.x_dtype = WEFT_BF16;
    run(&desc, BATCH, narrow, y, NULL);
    const bool same = memcmp(y, want, sizeof want) == 0;
    assert_int_equal(same, rounds_to == WEFT_BF16);
    desc = layer(WEFT_Q8_0);
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
    assert_int_equal(weft_plan_query(plan, &info), WEFT_OK);
    weft_plan_destroy(plan);
    assert_int_equal(info.rounds_x_to, WEFT_INT8);
}

// Its packed kernel is one that the library has, and multiplies as bf16 from a number of rows on that the plan may be given.
static void a_plan_names_what_reads_packed_weights(void **state)
{
    (void)state;
    weft_linear_desc desc = layer(WEFT_Q8_0);
    weft_plan_info info = {.size = sizeof info};
    weft_kernel_info kernel;
    weft_plan *plan;
    bool known = false;
    desc.max_batch = 512;
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
    assert_int_equal(weft_plan_query(plan, &info), WEFT_OK);
    assert_int_equal(info.packed_kernel != NULL, weft_linear_packed_layout(plan, 0) != 0);
    weft_plan_destroy(plan);
    for (int32_t n = 0; info.packed_kernel && weft_kernel_at(context, n, &kernel); n++)
        known |= kernel.usable && strcmp(kernel.name, info.packed_kernel) == 0;
    assert_int_equal(known, info.packed_kernel != NULL);
    const bool tiles = info.packed_kernel && strstr(info.packed_kernel, "_packed_amx");
    assert_int_equal(info.packed_bf16_batch > 0, tiles);
    desc.max_batch = info.packed_bf16_batch - 1;
    if (!tiles)
        return;
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
    assert_int_equal(weft_plan_query(plan, &info), WEFT_OK);
    weft_plan_destroy(plan);
    assert_int_equal(info.packed_bf16_batch, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_follows_one_part),
        cmocka_unit_test(a_residual_comes_behind_the_function),
        cmocka_unit_test(inputs_of_16_bits_are_their_numbers),
        cmocka_unit_test(a_gate_of_the_input_is_applied_as_rows_are_loaded),
        cmocka_unit_test(a_plan_says_what_it_rounds_x_to),
        cmocka_unit_test(a_plan_names_what_reads_packed_weights),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
