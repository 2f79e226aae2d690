// SPDX-License-Identifier: MIT
// Linear layers that cannot be are refused by name.
#include "tests/support/context_fixture.h"

enum { ROWS = 352, COLS = 512 };

static weft_linear_desc one_part(weft_dtype dtype)
{
    return (weft_linear_desc){
        .size = sizeof(weft_linear_desc), .weight_dtype = dtype, .rows = ROWS, .cols = COLS};
}

static weft_linear_desc two_parts(void)
{
    weft_linear_desc desc = one_part(0);
    desc.rows = 0;
    for (; desc.num_parts < 2; desc.num_parts++)
        desc.parts[desc.num_parts] = (weft_linear_part){.weight_dtype = WEFT_Q4_0, .rows = ROWS};
    return desc;
}

static void expect_refusal(weft_context *context, weft_linear_desc desc, const char *word)
{
    weft_plan *plan = NULL;
    weft_status status = weft_linear_plan(context, &desc, &plan);
    if (status == WEFT_OK || !strstr(weft_error_text(context), word))
        fail_msg("status %d, '%s' wanted: %s", status, word, weft_error_text(context));
    assert_null(plan);
}

static void combinations_that_cannot_be_are_refused(void **state)
{
    weft_linear_desc desc = two_parts();
    desc.num_parts = 5;
    expect_refusal(*state, desc, "num_parts");
    desc.num_parts = 2;
    desc.rows = 3;
    expect_refusal(*state, desc, "belong to the parts");
    desc.rows = 0;
    desc.gate = WEFT_LINEAR_GATE_SILU;
    desc.parts[1].rows = 32;
    expect_refusal(*state, desc, "equal rows");
    desc.num_parts = 3;
    desc.parts[2] = desc.parts[1] = desc.parts[0];
    expect_refusal(*state, desc, "a function one part");
    desc.num_parts = 2;
    desc.gate = WEFT_LINEAR_GATE_NONE;
    desc.flags = WEFT_LINEAR_Y_ROUNDED;
    expect_refusal(*state, desc, "rounded result");
    desc.flags = WEFT_LINEAR_X_ROUNDED | WEFT_LINEAR_EXACT;
    expect_refusal(*state, desc, "rounded x");
    desc.flags = WEFT_LINEAR_X_ROUNDED;
    desc.norm = WEFT_LINEAR_NORM_LAYER;
    expect_refusal(*state, desc, "RMS");
    desc = one_part(WEFT_Q4_0);
    desc.x_gate = (weft_linear_gate)4;
    expect_refusal(*state, desc, "x_gate 4");
    desc.x_gate = WEFT_LINEAR_GATE_SILU;
    desc.norm = WEFT_LINEAR_NORM_RMS;
    expect_refusal(*state, desc, "x_gate goes with neither a norm");
    desc.norm = WEFT_LINEAR_NORM_NONE;
    desc.flags = WEFT_LINEAR_X_ROUNDED;
    expect_refusal(*state, desc, "x_gate goes with neither a norm");
    desc = one_part(WEFT_F16);
    desc.flags = WEFT_LINEAR_X_ROUNDED;
    expect_refusal(*state, desc, "f16 reads f32");
    desc = one_part(WEFT_Q4_0);
    desc.y_dtype = WEFT_Q4_0;
    expect_refusal(*state, desc, "activations");
    desc = one_part(WEFT_Q4_0);
    desc.parts[0].reserved[3] = 1;
    desc.norm_eps = -1;
    expect_refusal(*state, desc, "norm_eps");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(combinations_that_cannot_be_are_refused)};
    return cmocka_run_group_tests(tests, open_context, close_context);
}
