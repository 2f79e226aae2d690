// SPDX-License-Identifier: MIT
#include <math.h>

#include "tests/support/context_fixture.h"

static weft_plan *plan_of(weft_context *context, weft_norm_desc desc)
{
    weft_plan *plan = NULL;
    desc.size = sizeof desc;
    assert_int_equal(weft_norm_plan(context, &desc, &plan), WEFT_OK);
    return plan;
}

static void computes_by_hand(void **state)
{
    const float x[4] = {1, -3, 1, -3}, weight[4] = {1, 2, 0, -1}, bias[4] = {0, 0, 5, 0};
    float y[4];
    // LayerNorm: mean -1, variance 4
    weft_plan *plan = plan_of(*state, (weft_norm_desc){.kind = WEFT_NORM_LAYER, .dim = 4});
    weft_norm_args args = {
        .size = sizeof args, .rows = 1, .x = x, .y = y, .weight = weight, .bias = bias};
    assert_int_equal(weft_norm_run(plan, &args), WEFT_OK);
    assert_true(y[0] == 1 && y[1] == -2 && y[2] == 5 && y[3] == 1);
    weft_plan_destroy(plan);
    // RMSNorm with the weight stored as w - 1: mean square 5, eps 4
    plan =
        plan_of(*state, (weft_norm_desc){.dim = 4, .eps = 4, .flags = WEFT_NORM_WEIGHT_PLUS_ONE});
    args.bias = NULL;
    assert_int_equal(weft_norm_run(plan, &args), WEFT_OK);
    const float want[4] = {2 / 3.0f, -3, 1 / 3.0f, 0};
    for (int i = 0; i < 4; i++)
        assert_true(fabsf(y[i] - want[i]) < 1e-6f);
    // onto a residual, in its place: 10 + each
    float sum[4] = {10, 10, 10, 10};
    args.y = sum;
    args.residual = sum;
    assert_int_equal(weft_norm_run(plan, &args), WEFT_OK);
    for (int i = 0; i < 4; i++)
        assert_true(fabsf(sum[i] - 10 - want[i]) < 1e-5f);
    weft_plan_destroy(plan);
}

// Many rows go through the executor, few do not: the result is the same, and strides are kept.
static void spreads_rows(void **state)
{
    enum { ROWS = 100, DIM = 700, STRIDE = 703 };
    float *x = malloc(sizeof *x * ROWS * STRIDE), *y = malloc(sizeof *y * ROWS * STRIDE);
    for (int i = 0; i < ROWS * STRIDE; i++) {
        x[i] = sinf((float)i);
        y[i] = -7;
    }
    weft_plan *plan = plan_of(*state, (weft_norm_desc){.dim = DIM, .max_rows = ROWS});
    weft_norm_args args = {
        .size = sizeof args, .rows = ROWS, .x = x, .x_stride = STRIDE, .y = y, .y_stride = STRIDE};
    assert_int_equal(weft_norm_run(plan, &args), WEFT_OK);
    for (int row = 0; row < ROWS; row++) {
        float alone[DIM];
        args.rows = 1;
        args.x = x + row * STRIDE;
        args.y = alone;
        args.y_stride = 0;
        assert_int_equal(weft_norm_run(plan, &args), WEFT_OK);
        assert_memory_equal(alone, y + row * STRIDE, sizeof alone);
        for (int i = DIM; i < STRIDE; i++)
            assert_true(y[row * STRIDE + i] == -7);
    }
    weft_plan_destroy(plan);
    free(x);
    free(y);
}

// RMSNorm makes the size of a row vanish, whatever it is.
static void size_does_not_matter(void **state)
{
    const float sizes[] = {1e-39f, 1e-20f, 1, 1e25f, 1e38f};
    weft_kernel_info info;
    for (int32_t n = 0; weft_kernel_at(*state, n, &info); n++)
        for (int s = 0; s < 5; s++) {
            float x[32], y[32];
            if (strncmp(info.name, "norm_rms", 8) != 0 || !info.usable)
                continue;
            for (int i = 0; i < 32; i++)
                x[i] = i % 2 ? sizes[s] : -sizes[s];
            weft_plan *plan = plan_of(*state, (weft_norm_desc){.dim = 32, .variant = info.name});
            weft_norm_args args = {.size = sizeof args, .rows = 1, .x = x, .y = y};
            assert_int_equal(weft_norm_run(plan, &args), WEFT_OK);
            for (int i = 0; i < 32; i++)
                if (!(fabsf(y[i] - (i % 2 ? 1.0f : -1.0f)) < 1e-6f))
                    fail_msg("%s of %g: y[%d] = %g", info.name, sizes[s], i, y[i]);
            weft_plan_destroy(plan);
        }
}

static void refuses_descriptors(void **state)
{
    weft_plan *plan = NULL;
    const weft_norm_desc good = {.size = sizeof good, .dim = 8};
    weft_norm_desc bad = good;
    assert_int_equal(weft_norm_plan(NULL, &good, &plan), WEFT_EINVAL);
    assert_int_equal(weft_norm_plan(*state, &good, NULL), WEFT_EINVAL);
    assert_refused(*state, weft_norm_plan(*state, NULL, &plan), WEFT_EINVAL, "descriptor");
    bad.dim = 0;
    assert_refused(*state, weft_norm_plan(*state, &bad, &plan), WEFT_EINVAL, "dim");
    bad = good;
    bad.max_rows = -1;
    assert_refused(*state, weft_norm_plan(*state, &bad, &plan), WEFT_EINVAL, "max_rows");
    const float epsilons[] = {-1e-6f, INFINITY, NAN};
    for (int i = 0; i < 3; i++) {
        bad = good;
        bad.eps = epsilons[i];
        assert_refused(*state, weft_norm_plan(*state, &bad, &plan), WEFT_EINVAL, "eps");
    }
    bad = good;
    bad.flags = 8;
    assert_refused(*state, weft_norm_plan(*state, &bad, &plan), WEFT_EINVAL, "flags");
    bad = good;
    bad.kind = (weft_norm_kind)2;
    assert_refused(*state, weft_norm_plan(*state, &bad, &plan), WEFT_EINVAL, "kind");
    bad = good;
    bad.variant = "norm_layer_ref"; // exists, but is of the other kind
    assert_refused(*state, weft_norm_plan(*state, &bad, &plan), WEFT_EVARIANT, "norm_layer_ref");
    assert_null(plan);
}

static void refuses_arguments(void **state)
{
    float x[8] = {0}, y[8] = {42};
    weft_plan *plan = plan_of(*state, (weft_norm_desc){.dim = 4, .max_rows = 2});
    const weft_norm_args good = {.size = sizeof good, .rows = 1, .x = x, .y = y};
    weft_norm_args bad = good;
    bad.rows = 3;
    assert_refused(*state, weft_norm_run(plan, &bad), WEFT_EINVAL, "0..2");
    bad.rows = -1;
    assert_refused(*state, weft_norm_run(plan, &bad), WEFT_EINVAL, "rows=-1");
    bad = good;
    bad.x = NULL;
    assert_refused(*state, weft_norm_run(plan, &bad), WEFT_EINVAL, "NULL");
    bad = good;
    bad.x_stride = 3;
    assert_refused(*state, weft_norm_run(plan, &bad), WEFT_EINVAL, "stride");
    bad = good;
    bad.bias = x;
    assert_refused(*state, weft_norm_run(plan, &bad), WEFT_EINVAL, "bias");
    assert_int_equal(weft_norm_run(NULL, &good), WEFT_EINVAL);
    weft_softmax_args other = {.size = sizeof other};
    assert_refused(*state, weft_softmax_run(plan, &other), WEFT_EINVAL, "another operation");
    assert_true(y[0] == 42);
    bad = (weft_norm_args){.size = sizeof bad}; // no rows: nothing is needed
    assert_int_equal(weft_norm_run(plan, &bad), WEFT_OK);
    weft_plan_destroy(plan);
}

enum { ROWS = 20, DIM = 288, OUT = 32, BLOCK = 18, W_BYTES = OUT * DIM / 32 * BLOCK };

static void fill_in(float *x, float *weight, unsigned char *w)
{
    for (int i = 0; i < ROWS * DIM; i++)
        x[i] = sinf((float)i);
    for (int i = 0; i < DIM; i++)
        weight[i] = 0.5f + (float)(i % 7);
    for (int i = 0; i < W_BYTES; i++)
        w[i] = (unsigned char)(i % BLOCK == 1 ? 0x2c : i % BLOCK ? i * 37 : 0);
}

// A rounded norm is what a norm and weft_round_run() give, to the bit, for few rows and for many; a linear
// layer reads it.
static void rounds(void **state)
{
    weft_context *context = *state;
    float x[ROWS * DIM], y[ROWS * DIM], weight[DIM], got[ROWS * OUT], want[ROWS * OUT];
    static unsigned char w[W_BYTES];
    const weft_linear_desc reader = {.size = sizeof reader,
                                     .flags = WEFT_LINEAR_X_ROUNDED,
                                     .weight_dtype = WEFT_Q4_0,
                                     .rows = OUT,
                                     .cols = DIM,
                                     .max_batch = ROWS};
    fill_in(x, weight, w);
    void *rounded = aligned_alloc(64, weft_rounded_bytes(context, ROWS, DIM));
    weft_norm_desc norm = {.dim = DIM, .max_rows = ROWS};
    weft_plan *linear, *round, *numbers = plan_of(context, norm);
    norm.flags = WEFT_NORM_Y_ROUNDED;
    weft_plan *plan = plan_of(context, norm);
    weft_round_desc round_desc = {.size = sizeof round_desc, .cols = DIM, .max_rows = ROWS};
    assert_int_equal(weft_round_plan(context, &round_desc, &round), WEFT_OK);
    assert_int_equal(weft_linear_plan(context, &reader, &linear), WEFT_OK);
    size_t norm_bytes = weft_plan_workspace_bytes(plan),
           linear_bytes = weft_plan_workspace_bytes(linear);
    void *workspace = aligned_alloc(64, (norm_bytes + linear_bytes + 127) / 64 * 64);
    for (int rows = 1; rows <= ROWS; rows += 19) {
        weft_linear_args run = {.size = sizeof run,
                                .batch = rows,
                                .x = rounded,
                                .weight = w,
                                .y = got,
                                .workspace = workspace,
                                .workspace_bytes = linear_bytes};
        weft_norm_args args = {
            .size = sizeof args, .rows = rows, .x = x, .y = rounded, .weight = weight};
        assert_int_equal(weft_norm_run(plan, &args), WEFT_EWORKSPACE);
        args.workspace = workspace;
        args.workspace_bytes = norm_bytes;
        assert_int_equal(weft_norm_run(plan, &args), WEFT_OK);
        assert_int_equal(weft_linear_run(linear, &run), WEFT_OK);
        args.y = y;
        assert_int_equal(weft_norm_run(numbers, &args), WEFT_OK);
        weft_round_args rounding = {
            .size = sizeof rounding, .rows = rows, .x = y, .rounded = rounded};
        assert_int_equal(weft_round_run(round, &rounding), WEFT_OK);
        run.y = want;
        assert_int_equal(weft_linear_run(linear, &run), WEFT_OK);
        assert_memory_equal(got, want, sizeof *got * (size_t)rows * OUT);
        assert_true(want[0] != 0 && isfinite(want[0]));
    }
    weft_plan_destroy(plan);
    weft_plan_destroy(numbers);
    weft_plan_destroy(round);
    weft_plan_destroy(linear);
    free(rounded);
    free(workspace);
}

static void refuses_rounding(void **state)
{
    weft_plan *plan;
    weft_norm_desc odd = {.size = sizeof odd, .dim = 33, .flags = WEFT_NORM_Y_ROUNDED};
    assert_int_equal(weft_norm_plan(*state, &odd, &plan), WEFT_EINVAL);
    odd.dim = 32;
    odd.y_dtype = WEFT_F16;
    assert_int_equal(weft_norm_plan(*state, &odd, &plan), WEFT_EINVAL);
    odd = (weft_norm_desc){.size = sizeof odd, .dim = 32, .flags = WEFT_NORM_BATCH_INVARIANT};
    assert_int_equal(weft_norm_plan(*state, &odd, &plan), WEFT_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computes_by_hand),     cmocka_unit_test(spreads_rows),
        cmocka_unit_test(size_does_not_matter), cmocka_unit_test(refuses_descriptors),
        cmocka_unit_test(refuses_arguments),    cmocka_unit_test(rounds),
        cmocka_unit_test(refuses_rounding),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
