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

enum { LONG = 50021 };

// One long row: all threads work at it, and give what one thread gives.
static void long_rows(void **state)
{
    static const int32_t threads[] = {1, 2, 3, 7};
    static float x[LONG], first[LONG];
    (void)state;
    for (int t = 0; t < 4; t++) {
        weft_context *context;
        weft_plan *plan;
        const weft_context_desc wish = {.size = sizeof wish, .threads = threads[t]};
        const weft_softmax_desc desc = {.size = sizeof desc, .dim = LONG, .scale = -0.3f};
        assert_int_equal(weft_context_create(&wish, &context), WEFT_OK);
        assert_int_equal(weft_softmax_plan(context, &desc, &plan), WEFT_OK);
        double sum = 0, all = 0;
        for (int i = 0; i < LONG; i++) {
            x[i] = (float)(i * 7919 % 1000) * 0.05f - (i < LONG / 2 ? 400 : 100);
            sum += exp(-0.3 * ((double)x[i] + 400));
        }
        const weft_softmax_args args = {.size = sizeof args, .rows = 1, .x = x};
        assert_int_equal(weft_softmax_run(plan, &args), WEFT_OK);
        for (int i = 0; i < LONG; i++) {
            double want = exp(-0.3 * (i * 7919 % 1000 * 0.05 + (i < LONG / 2 ? 0 : 300))) / sum;
            assert_true(fabs(x[i] - want) <= 2e-4 * want + FLT_MIN);
            all += x[i];
        }
        assert_true(fabs(all - 1) < 1e-5);
        if (t == 0)
            memcpy(first, x, sizeof first);
        assert_memory_equal(first, x, sizeof first);
        weft_plan_destroy(plan);
        weft_context_destroy(context);
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
        cmocka_unit_test(long_rows),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
