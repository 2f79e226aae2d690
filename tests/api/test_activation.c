// SPDX-License-Identifier: MIT
#include <math.h>
#include <stdio.h>

#include "tests/support/context_fixture.h"

static const char *const names[] = {"silu", "gelu", "gelu_tanh"};

static double exact(weft_activation_kind kind, double x)
{
    double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    if (x == -INFINITY)
        return 0;
    switch (kind) {
    case WEFT_ACTIVATION_SILU: return x / (1 + exp(-x));
    case WEFT_ACTIVATION_GELU: return x / 2 * erfc(-x * 0.70710678118654752440);
    default: return x / (1 + exp(-2 * u));
    }
}

// Every `step`-th bit pattern of f32, NaN and infinities included, within what the header promises.
static void sweep(weft_context *context, weft_activation_kind kind, const char *variant,
                  uint64_t step)
{
    enum { DIM = 4096 };
    static float x[DIM], y[DIM];
    weft_plan *plan;
    weft_activation_desc desc = {.size = sizeof desc, .kind = kind, .dim = DIM, .variant = variant};
    assert_int_equal(weft_activation_plan(context, &desc, &plan), WEFT_OK);
    weft_activation_args args = {.size = sizeof args, .rows = 1, .x = x, .y = y};
    for (uint64_t bits = 0; bits >> 32 == 0;) {
        for (int i = 0; i < DIM; i++, bits += step) {
            uint32_t pattern = (uint32_t)bits;
            memcpy(&x[i], &pattern, sizeof pattern);
        }
        assert_int_equal(weft_activation_run(plan, &args), WEFT_OK);
        for (int i = 0; i < DIM; i++) {
            double want = exact(kind, x[i]);
            double bound = fmax(4 * 0x1p-23 * fabs(want), 0x1p-24 * fabs(x[i])) + 0x1p-149;
            if (isnan(x[i]) ? isnan(y[i]) : y[i] == want || fabs(y[i] - want) <= bound)
                continue;
            fail_msg("%s(%.9g) = %.9g, exactly %.17g", variant, x[i], y[i], want);
        }
    }
    weft_plan_destroy(plan);
}

static void keeps_its_promise_everywhere(void **state)
{
    weft_kernel_info info;
    for (int32_t n = 0; weft_kernel_at(*state, n, &info); n++) {
        if (strcmp(info.op, "activation") != 0 || !info.usable)
            continue;
        for (int kind = 0; kind < 3; kind++) {
            char prefix[32];
            snprintf(prefix, sizeof prefix, "activation_%s_%s", names[kind], info.isa);
            if (strcmp(info.name, prefix) == 0)
                sweep(*state, (weft_activation_kind)kind, info.name, 5003);
        }
    }
}

static void gates(void **state)
{
    weft_plan *plan;
    float x[3] = {0, 100, -100}, up[3] = {7, -2, 5};
    weft_activation_desc desc = {.size = sizeof desc, .dim = 3};
    assert_int_equal(weft_activation_plan(*state, &desc, &plan), WEFT_OK);
    weft_activation_args args = {.size = sizeof args, .rows = 1, .x = x, .up = up, .y = up};
    assert_int_equal(weft_activation_run(plan, &args), WEFT_OK);
    assert_true(up[0] == 0 && up[1] == -200 && fabsf(up[2]) < 1e-30f);
    weft_plan_destroy(plan);
}

// Logits far beyond the cap stay within it, small ones pass.
static void caps(void **state)
{
    weft_plan *plan = NULL;
    float x[4] = {-INFINITY, 1e30f, 1e-3f, 30}, y[4];
    weft_activation_desc desc = {
        .size = sizeof desc, .kind = WEFT_ACTIVATION_SOFTCAP, .dim = 4, .cap = 30};
    assert_int_equal(weft_activation_plan(*state, &desc, &plan), WEFT_OK);
    weft_activation_args args = {.size = sizeof args, .rows = 1, .x = x, .y = y};
    assert_int_equal(weft_activation_run(plan, &args), WEFT_OK);
    assert_float_equal(y[0], -30, 0);
    assert_float_equal(y[1], 30, 0);
    assert_float_equal(y[2], 1e-3f, 1e-9f);
    assert_float_equal(y[3], 22.8478247f, 2e-5f);
    weft_plan_destroy(plan);
}

static void refuses(void **state)
{
    weft_plan *plan = NULL;
    float x[4] = {0};
    weft_activation_desc desc = {.size = sizeof desc};
    assert_refused(*state, weft_activation_plan(*state, &desc, &plan), WEFT_EINVAL, "dim");
    desc.dim = 4;
    desc.kind = (weft_activation_kind)(WEFT_ACTIVATION_NONE + 1);
    assert_refused(*state, weft_activation_plan(*state, &desc, &plan), WEFT_EINVAL, "kind");
    desc.kind = WEFT_ACTIVATION_SOFTCAP;
    const float caps[] = {0, -1, INFINITY, NAN, 0x1p-140f};
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        desc.cap = caps[i];
        assert_refused(*state, weft_activation_plan(*state, &desc, &plan), WEFT_EINVAL, "cap");
    }
    desc.kind = WEFT_ACTIVATION_SILU;
    desc.cap = 30;
    assert_refused(*state, weft_activation_plan(*state, &desc, &plan), WEFT_EINVAL, "cap");
    desc.cap = 0;
    desc.kind = WEFT_ACTIVATION_SILU;
    desc.reserved[0] = 1;
    assert_refused(*state, weft_activation_plan(*state, &desc, &plan), WEFT_EINVAL, "unknown");
    desc.reserved[0] = 0;
    assert_int_equal(weft_activation_plan(*state, &desc, &plan), WEFT_OK);
    weft_activation_args args = {.size = sizeof args, .rows = 2, .x = x, .y = x};
    assert_refused(*state, weft_activation_run(plan, &args), WEFT_EINVAL, "0..1");
    args.rows = 1;
    args.up_stride = 2;
    assert_refused(*state, weft_activation_run(plan, &args), WEFT_EINVAL, "stride");
    args.y = NULL;
    assert_refused(*state, weft_activation_run(plan, &args), WEFT_EINVAL, "NULL");
    weft_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_its_promise_everywhere),
        cmocka_unit_test(gates),
        cmocka_unit_test(caps),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
