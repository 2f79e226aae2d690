// SPDX-License-Identifier: MIT
// How a linear layer is cut into tasks, and the workspace of its rounded activations.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

#include "src/plan/plan_linear.h"
#include "src/plan/tuning.h"

static void tasks_are_whole_steps(void **state)
{
    (void)state;
    const int64_t row_counts[] = {1, 15, 16, 17, 255, 256, 4096, 128256};
    const int32_t steps[] = {1, 16, 32, 64}, threads[] = {1, 2, 3, 64, 1024};
    for (size_t r = 0; r < 8; r++)
        for (size_t s = 0; s < 4; s++)
            for (size_t t = 0; t < 5; t++) {
                const int32_t few_step = steps[s] < 16 ? steps[s] : 16;
                struct weft__linear_split split =
                    weft__plan_linear_split(row_counts[r], 8064, few_step, steps[s], threads[t],
                                            weft__plan_tuning_built_in(0));
                assert_true(split.rows_per_task >= 1 && split.rows_per_batch_task >= 1);
                assert_int_equal(split.rows_per_task % few_step, 0);
                assert_int_equal(split.rows_per_batch_task % steps[s], 0);
                // No more than a thread's share, up to the step.
                assert_true(split.rows_per_task < row_counts[r] / threads[t] + 1 + few_step);
            }
}

static void large_matrices_make_many_tasks(void **state)
{
    (void)state;
    struct weft__linear_split split =
        weft__plan_linear_split(4096, 8064, 16, 64, 2, weft__plan_tuning_built_in(0));
    int64_t tasks = 4096 / split.rows_per_task;
    assert_true(tasks >= 64); // a slow thread holds up the others by a hundredth
    assert_true(split.rows_per_task * 8064 >= 128 * 1024);
}

static void small_matrices_stay_on_one_thread(void **state)
{
    (void)state;
    assert_true(weft__plan_linear_alone(256 * 144, 1, 2)); // 36 KiB: two microseconds
    assert_false(weft__plan_linear_alone(256 * 144, 2, 2));
    assert_false(weft__plan_linear_alone(4096 * 8064, 1, 2)); // 33 MB
    assert_true(weft__plan_linear_alone(4096 * 8064, 1, 1));
}

static weft_status plan_bytes(weft_context *context, int64_t rows, int64_t cols, int32_t batch,
                              size_t *bytes)
{
    weft_plan *plan;
    weft_linear_desc desc = {.size = sizeof desc,
                             .weight_dtype = WEFT_Q4_0,
                             .rows = rows,
                             .cols = cols,
                             .max_batch = batch,
                             .variant = "linear_q4_0_q8_ref"};
    weft_status status = weft_linear_plan(context, &desc, &plan);
    if (status != WEFT_OK)
        return status;
    *bytes = weft_plan_workspace_bytes(plan);
    weft_plan_destroy(plan);
    return WEFT_OK;
}

static void workspace_holds_the_planes(void **state)
{
    (void)state;
    weft_context *context;
    size_t bytes = 0;
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    assert_int_equal(plan_bytes(context, 1, 32, 1, &bytes), WEFT_OK);
    assert_int_equal(bytes, weft_rounded_bytes(context, 1, 32));
    assert_true(bytes >= 256 + 6 * 64); // padded to 256 columns, planes to 64 bytes
    assert_int_equal(plan_bytes(context, 1, 257 * 32, 3, &bytes), WEFT_OK);
    assert_int_equal(bytes, weft_rounded_bytes(context, 3, 257 * 32));
    assert_int_equal(weft_rounded_bytes(context, 1, 0), 0);
    assert_int_equal(weft_rounded_bytes(context, INT64_MAX, 32), 0);
    assert_int_equal(weft_rounded_bytes(context, 1, INT64_MAX), 0);
    // Sizes that do not fit are refused.
    assert_int_equal(plan_bytes(context, 1, INT64_MAX / 32 * 32, 1, &bytes), WEFT_EOVERFLOW);
    assert_int_equal(plan_bytes(context, 1, (int64_t)1 << 50, INT32_MAX, &bytes), WEFT_EOVERFLOW);
    weft_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_are_whole_steps),
        cmocka_unit_test(large_matrices_make_many_tasks),
        cmocka_unit_test(small_matrices_stay_on_one_thread),
        cmocka_unit_test(workspace_holds_the_planes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
