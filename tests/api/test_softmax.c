// SPDX-License-Identifier: MIT
#include <float.h>
#include <math.h>

#include "tests/support/context_fixture.h"

static void normalises(void **state)
{
    weft_plan *plan;
    // Logarithms of 1, 2, 5 (scaled by 2, shifted far up), a masked element; then a masked row.
    float x[8] = {500,
                  500 + 0.5f * logf(2),
                  500 + 0.5f * logf(5),
                  -INFINITY,
                  -INFINITY,
                  -INFINITY,
                  -INFINITY,
                  -INFINITY};
    const float want[8] = {0.125f, 0.25f, 0.625f};
    weft_softmax_desc desc = {.size = sizeof desc, .dim = 4, .max_rows = 2, .scale = 2};
    assert_int_equal(weft_softmax_plan(*state, &desc, &plan), WEFT_OK);
    weft_softmax_args args = {.size = sizeof args, .rows = 2, .x = x};
    assert_int_equal(weft_softmax_run(plan, &args), WEFT_OK);
    for (int i = 0; i < 8; i++)
        assert_true(fabsf(x[i] - want[i]) < 1e-4f);
    assert_true(x[3] == 0 && x[7] == 0);
    weft_plan_destroy(plan);
}

// Rows that are finite give probabilities, however large they are: the sentence "x_i - max" is taken
// before the scale.
static void large_rows_are_rows(void **state)
{
    const struct {
        float scale, x[8], want[8];
    } rows[] = {
        {0.0883883461f,
         {-FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX},
         {0.125f, 0.125f, 0.125f, 0.125f, 0.125f, 0.125f, 0.125f, 0.125f}},
        {1,
         {-2.5e10f, -2.5e10f, -2.5e10f, -2.5e10f, -2.5e10f, -2.5e10f, -2.5e10f, -2.5e10f},
         {0.125f, 0.125f, 0.125f, 0.125f, 0.125f, 0.125f, 0.125f, 0.125f}},
        {0.7f, {3e10f, 0, 0, 0, 0, 0, 0, 0}, {1}},
        {20, {3e38f, 3e38f, -3e38f, 0, 1, 2, 3, 4}, {0.5f, 0.5f}},
        {-0.5f, {FLT_MAX, -FLT_MAX, -FLT_MAX, 0, 0, 0, 0, 0}, {0, 0.5f, 0.5f}},
        // From end to end of f32: the difference is beyond it, the scaled one is -8.2.
        {1.2e-38f,
         {FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX},
         {0.998016419f, 0.000283368689f, 0.000283368689f, 0.000283368689f, 0.000283368689f,
          0.000283368689f, 0.000283368689f, 0.000283368689f}},
    };
    weft_kernel_info info;
    for (int32_t n = 0; weft_kernel_at(*state, n, &info); n++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            weft_plan *plan;
            float x[8];
            weft_softmax_desc desc = {
                .size = sizeof desc, .dim = 8, .scale = rows[r].scale, .variant = info.name};
            if (strcmp(info.op, "softmax") != 0 || !info.usable)
                continue;
            memcpy(x, rows[r].x, sizeof x);
            assert_int_equal(weft_softmax_plan(*state, &desc, &plan), WEFT_OK);
            weft_softmax_args args = {.size = sizeof args, .rows = 1, .x = x};
            assert_int_equal(weft_softmax_run(plan, &args), WEFT_OK);
            for (int i = 0; i < 8; i++)
                if (!(fabsf(x[i] - rows[r].want[i]) < 1e-6f))
                    fail_msg("%s row %zu: x[%d] = %g", info.name, r, i, x[i]);
            weft_plan_destroy(plan);
        }
}

static void refuses(void **state)
{
    weft_plan *plan = NULL;
    float x[4] = {0};
    weft_softmax_desc desc = {.size = sizeof desc, .dim = 0};
    assert_refused(*state, weft_softmax_plan(*state, &desc, &plan), WEFT_EINVAL, "dim");
    desc.dim = 4;
    desc.scale = NAN;
    assert_refused(*state, weft_softmax_plan(*state, &desc, &plan), WEFT_EINVAL, "scale");
    desc.scale = 0;
    desc.variant = "norm_rms_ref";
    assert_refused(*state, weft_softmax_plan(*state, &desc, &plan), WEFT_EVARIANT, "norm_rms_ref");
    desc.variant = NULL;
    assert_int_equal(weft_softmax_plan(*state, &desc, &plan), WEFT_OK);
    assert_non_null(strstr(weft_plan_describe(plan), "softmax"));
    weft_softmax_args args = {.size = sizeof args, .rows = 1};
    assert_refused(*state, weft_softmax_run(plan, &args), WEFT_EINVAL, "NULL");
    args.x = x;
    args.x_stride = -4;
    assert_refused(*state, weft_softmax_run(plan, &args), WEFT_EINVAL, "stride");
    args.x_stride = 0;
    args.rows = 2;
    assert_refused(*state, weft_softmax_run(plan, &args), WEFT_EINVAL, "rows=2");
    weft_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normalises),
        cmocka_unit_test(large_rows_are_rows),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
