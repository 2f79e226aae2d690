// SPDX-License-Identifier: MIT
// The smallest use of plan and run: a product known by heart, and the errors at the door.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

static void multiplies(void **state)
{
    (void)state;
    weft_context *context;
    weft_plan *plan;
    const float w[6] = {1, 2, 3, 4, 5, 6}, x[3] = {1, 10, 100};
    float y[2] = {0};
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    weft_linear_desc desc = {.size = sizeof desc, .weight_dtype = WEFT_F32, .rows = 2, .cols = 3};
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
    weft_linear_args args = {.size = sizeof args, .batch = 1, .weight = w, .x = x, .y = y};
    assert_int_equal(weft_linear_run(plan, &args), WEFT_OK);
    assert_true(y[0] == 321 && y[1] == 654);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

static void refuses_bad_descriptors(void **state)
{
    (void)state;
    weft_context *context;
    weft_plan *plan = (weft_plan *)&context;
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    weft_linear_desc desc = {
        .size = sizeof desc, .weight_dtype = WEFT_Q4_K, .rows = 2, .cols = 300};
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_EINVAL);
    assert_non_null(strstr(weft_error_text(context), "300"));
    assert_ptr_equal(plan, (weft_plan *)&context); // untouched
    desc.cols = 256;
    desc.variant = "no_such_kernel";
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_EVARIANT);
    desc.size = 4;
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_EINVAL);
    weft_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(multiplies),
        cmocka_unit_test(refuses_bad_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
