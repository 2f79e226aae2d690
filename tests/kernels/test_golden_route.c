// SPDX-License-Identifier: MIT
// Routing against transformers' routers. Their rows are sorted by expert.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

#include "tests/support/golden.h"

static weft_context *context;
static golden *file;

static weft_route_desc desc_of(const char *name, int32_t rows)
{
    weft_route_desc desc = {.size = sizeof desc, .max_rows = rows};
    desc.experts = (int32_t)golden_number(file, name, "experts", 0);
    desc.top_k = (int32_t)golden_number(file, name, "top_k", 0);
    desc.groups = (int32_t)golden_number(file, name, "groups", 0);
    desc.top_groups = (int32_t)golden_number(file, name, "top_groups", 0);
    desc.group_best = (int32_t)golden_number(file, name, "group_best", 0);
    desc.scale = (float)golden_number(file, name, "scale", 0);
    if (golden_number(file, name, "normalise", 0) != 0)
        desc.flags |= WEFT_ROUTE_NORMALISE;
    if (golden_number(file, name, "sigmoid", 0) != 0)
        desc.score = WEFT_ROUTE_SIGMOID;
    return desc;
}

static int32_t place_of(const int32_t *ids, int32_t count, int32_t id)
{
    int32_t i = 0;
    while (i < count && ids[i] != id)
        i++;
    return i;
}

static void route_case(const char *name)
{
    const golden_tensor *logits = golden_find(file, name, "logits");
    int32_t rows = (int32_t)logits->shape[0];
    weft_route_desc desc = desc_of(name, rows);
    size_t choices = (size_t)rows * (size_t)desc.top_k;
    int32_t *ids = malloc(choices * sizeof *ids);
    float *weights = malloc(choices * sizeof *weights);
    const int32_t *want_ids = golden_data(file, name, "ids", GOLDEN_I32);
    const float *want = golden_data(file, name, "weights", GOLDEN_F32);
    weft_plan *plan = NULL;
    if (weft_route_plan(context, &desc, &plan) != WEFT_OK)
        fail_msg("%s: %s", name, weft_error_text(context));
    const weft_route_args args = {.size = sizeof args,
                                  .rows = rows,
                                  .logits = golden_data(file, name, "logits", GOLDEN_F32),
                                  .bias = golden_find(file, name, "bias")
                                              ? golden_data(file, name, "bias", GOLDEN_F32)
                                              : NULL,
                                  .ids = ids,
                                  .weights = weights};
    assert_int_equal(weft_route_run(plan, &args), WEFT_OK);
    for (size_t i = 0; i < choices; i++) {
        size_t row = i - i % (size_t)desc.top_k;
        int32_t at = place_of(ids + row, desc.top_k, want_ids[i]);
        if (at == desc.top_k)
            fail_msg("%s: row %zu does not choose expert %d", name, row / (size_t)desc.top_k,
                     want_ids[i]);
        float is = weights[row + (size_t)at];
        if (!(fabsf(is - want[i]) <= 1e-5f * fabsf(want[i]) + 1e-9f))
            fail_msg("%s: weight %zu is %g, not %g", name, i, (double)is, (double)want[i]);
    }
    weft_plan_destroy(plan);
    free(ids);
    free(weights);
}

static void routes_as_transformers(void **state)
{
    static const char *const names[] = {"mixtral",     "qwen_0",      "qwen_1",
                                        "gpt_oss",     "deepseek_v2", "deepseek_v2_lite",
                                        "deepseek_v3", "sigmoid"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        route_case(names[i]);
}

static int open_file(void **state)
{
    (void)state;
    file = golden_open("route/route.safetensors");
    return weft_context_create(NULL, &context) == WEFT_OK ? 0 : -1;
}

static int close_file(void **state)
{
    (void)state;
    golden_close(file);
    weft_context_destroy(context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(routes_as_transformers)};
    return cmocka_run_group_tests(tests, open_file, close_file);
}
