// SPDX-License-Identifier: MIT
#include <math.h>

#include "tests/support/context_fixture.h"

static void looks_up(void **state)
{
    const float table[3][2] = {{1, 2}, {3, 4}, {5, 6}};
    const int32_t ids[2] = {2, 0};
    float y[5] = {0, 0, -7, 0, 0};
    weft_plan *plan;
    weft_embedding_desc desc = {.size = sizeof desc,
                                .table_dtype = WEFT_F32,
                                .rows = 3,
                                .dim = 2,
                                .max_tokens = 2,
                                .scale = 10};
    assert_int_equal(weft_embedding_plan(*state, &desc, &plan), WEFT_OK);
    weft_embedding_args args = {
        .size = sizeof args, .tokens = 2, .table = table, .ids = ids, .y = y, .y_stride = 3};
    assert_int_equal(weft_embedding_run(plan, &args), WEFT_OK);
    assert_true(y[0] == 50 && y[1] == 60 && y[2] == -7 && y[3] == 10 && y[4] == 20);
    weft_plan_destroy(plan);
}

static void refuses(void **state)
{
    weft_plan *plan = NULL;
    const weft_embedding_desc good = {
        .size = sizeof good, .table_dtype = WEFT_F32, .rows = 3, .dim = 2};
    weft_embedding_desc bad = good;
    bad.table_dtype = (weft_dtype)45;
    assert_refused(*state, weft_embedding_plan(*state, &bad, &plan), WEFT_EINVAL, "no format");
    bad.table_dtype = WEFT_Q8_0;
    assert_refused(*state, weft_embedding_plan(*state, &bad, &plan), WEFT_EINVAL, "q8_0");
    bad = good;
    bad.rows = 0;
    assert_refused(*state, weft_embedding_plan(*state, &bad, &plan), WEFT_EINVAL, "rows");
    bad = good;
    bad.scale = INFINITY;
    assert_refused(*state, weft_embedding_plan(*state, &bad, &plan), WEFT_EINVAL, "scale");
    assert_int_equal(weft_embedding_plan(*state, &good, &plan), WEFT_OK);

    const float table[6] = {0};
    float y[2] = {42};
    int32_t ids[1] = {3};
    weft_embedding_args args = {
        .size = sizeof args, .tokens = 1, .table = table, .ids = ids, .y = y};
    assert_refused(*state, weft_embedding_run(plan, &args), WEFT_EINVAL, "ids[0] = 3");
    ids[0] = -1;
    assert_refused(*state, weft_embedding_run(plan, &args), WEFT_EINVAL, "ids[0] = -1");
    args.table_stride_bytes = 7;
    assert_refused(*state, weft_embedding_run(plan, &args), WEFT_EINVAL, "stride");
    args.table = NULL;
    assert_refused(*state, weft_embedding_run(plan, &args), WEFT_EINVAL, "NULL");
    assert_true(y[0] == 42);
    weft_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_up),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
