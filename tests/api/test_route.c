// SPDX-License-Identifier: MIT
#include <math.h>

#include "tests/support/context_fixture.h"

static weft_plan *plan_of(weft_context *context, const weft_route_desc *desc)
{
    weft_plan *plan = NULL;
    if (weft_route_plan(context, desc, &plan) != WEFT_OK)
        fail_msg("%s", weft_error_text(context));
    return plan;
}

static void expect_weights(const float *is, const float *should, int n)
{
    for (int i = 0; i < n; i++)
        if (!(fabsf(is[i] - should[i]) < 1e-6f))
            fail_msg("weight %d is %g, not %g", i, (double)is[i], (double)should[i]);
}

// Logarithms of 1, 2, 5, 2: shares of 10.
static void chooses_by_softmax(void **state)
{
    const float logits[8] = {0, 0.69314718f, 1.6094379f, 0.69314718f, 3, 3, 3, 3};
    weft_route_desc desc = {.size = sizeof desc, .experts = 4, .top_k = 2, .max_rows = 2};
    int32_t ids[4], starts[5], order[4];
    float weights[4];
    const weft_route_args args = {.size = sizeof args,
                                  .rows = 2,
                                  .logits = logits,
                                  .ids = ids,
                                  .weights = weights,
                                  .starts = starts,
                                  .order = order};
    weft_plan *plan = plan_of(*state, &desc);
    assert_int_equal(weft_route_run(plan, &args), WEFT_OK);
    assert_memory_equal(ids, ((int32_t[]){2, 1, 0, 1}), sizeof ids); // ties: the lower number
    expect_weights(weights, (const float[]){0.5f, 0.2f, 0.25f, 0.25f}, 4);
    assert_memory_equal(starts, ((int32_t[]){0, 1, 3, 4, 4}), sizeof starts);
    assert_memory_equal(order, ((int32_t[]){2, 1, 3, 0}), sizeof order);
    weft_plan_destroy(plan);
    desc.flags = WEFT_ROUTE_NORMALISE;
    desc.scale = 7;
    plan = plan_of(*state, &desc);
    assert_int_equal(weft_route_run(plan, &args), WEFT_OK);
    expect_weights(weights, (const float[]){5, 2, 3.5f, 3.5f}, 4);
    weft_plan_destroy(plan);
}

// The bias decides who is chosen and has no part in the weights; of two groups that are worth the same the
// first is taken.
static void bias_chooses_and_weighs_nothing(void **state)
{
    const float logits[6] = {0, 0, 0, 0, 0, 0}, bias[6] = {0, 0.5f, 0.25f, 0.25f, 0.125f, 0.375f};
    weft_route_desc desc = {.size = sizeof desc,
                            .experts = 6,
                            .top_k = 2,
                            .score = WEFT_ROUTE_SIGMOID,
                            .groups = 3,
                            .top_groups = 1,
                            .group_best = 2};
    int32_t ids[2];
    float weights[2];
    const weft_route_args args = {.size = sizeof args,
                                  .rows = 1,
                                  .logits = logits,
                                  .bias = bias,
                                  .ids = ids,
                                  .weights = weights};
    weft_plan *plan = plan_of(*state, &desc);
    assert_int_equal(weft_route_run(plan, &args), WEFT_OK);
    assert_memory_equal(ids, ((int32_t[]){1, 0}), sizeof ids);
    expect_weights(weights, (const float[]){0.5f, 0.5f}, 2);
    weft_plan_destroy(plan);
}

static void no_rows_have_empty_lists(void **state)
{
    int32_t starts[4] = {7, 7, 7, 7}, order[1];
    const weft_route_desc desc = {.size = sizeof desc, .experts = 3, .top_k = 1};
    const weft_route_args args = {.size = sizeof args, .starts = starts, .order = order};
    weft_plan *plan = plan_of(*state, &desc);
    assert_int_equal(weft_route_run(plan, &args), WEFT_OK);
    assert_memory_equal(starts, ((int32_t[4]){0}), sizeof starts);
    weft_plan_destroy(plan);
}

static void refuses(void **state)
{
    const weft_route_desc good = {.size = sizeof good, .experts = 8, .top_k = 2};
    weft_route_desc desc;
    weft_plan *plan = NULL;
#define REFUSED(member, value, words)                                                              \
    desc = good;                                                                                   \
    desc.member = value;                                                                           \
    assert_refused(*state, weft_route_plan(*state, &desc, &plan), WEFT_EINVAL, words)
    REFUSED(experts, 0, "experts=0");
    REFUSED(experts, WEFT_ROUTE_MAX_EXPERTS + 1, "experts=");
    REFUSED(top_k, 0, "top_k=0");
    REFUSED(top_k, 9, "top_k=9");
    REFUSED(groups, 3, "groups");
    REFUSED(groups, -1, "groups");
    REFUSED(top_groups, 2, "top_groups=2");
    REFUSED(group_best, 9, "group_best=9");
    REFUSED(scale, NAN, "scale");
    REFUSED(flags, 2, "flags");
    REFUSED(score, (weft_route_score)2, "score");
    REFUSED(max_rows, -1, "max_rows");
    desc = good;
    desc.groups = 4;
    desc.top_groups = 1;
    desc.top_k = 3; // of the two in a group
    assert_refused(*state, weft_route_plan(*state, &desc, &plan), WEFT_EINVAL, "top_k=3");
    plan = plan_of(*state, &good);
    float logits[8] = {0}, weights[2];
    int32_t ids[2], starts[9];
    weft_route_args args = {.size = sizeof args, .rows = 1, .logits = logits, .weights = weights};
    assert_refused(*state, weft_route_run(plan, &args), WEFT_EINVAL, "NULL");
    args.ids = ids;
    args.starts = starts;
    assert_refused(*state, weft_route_run(plan, &args), WEFT_EINVAL, "both");
    args.starts = NULL;
    args.logits_stride = 7;
    assert_refused(*state, weft_route_run(plan, &args), WEFT_EINVAL, "stride");
    weft_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chooses_by_softmax),
        cmocka_unit_test(bias_chooses_and_weighs_nothing),
        cmocka_unit_test(no_rows_have_empty_lists),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
