// SPDX-License-Identifier: MIT
// Norms, activations, softmax and rotary embeddings against torch and transformers.
#define _POSIX_C_SOURCE 200809L
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

static const float *floats(const char *name, const char *tensor)
{
    return golden_data(file, name, tensor, GOLDEN_F32);
}

static const float *floats_or_null(const char *name, const char *tensor)
{
    return golden_find(file, name, tensor) ? floats(name, tensor) : NULL;
}

static bool is_kind(const char *name, const char *kind)
{
    return strcmp(golden_text(file, name, "kind"), kind) == 0;
}

static void expect_near(const char *name, int64_t i, float is, float should, double bound)
{
    if (!(fabs((double)is - (double)should) <= bound)) {
        fail_msg("%s: element %lld is %.9g, not %.9g", name, (long long)i, (double)is,
                 (double)should);
    }
}

static float *copy(const float *x, int64_t elements)
{
    float *y = malloc((size_t)elements * sizeof *y);
    assert_non_null(y);
    return memcpy(y, x, (size_t)elements * sizeof *y);
}

static void expect_ok(const char *name, weft_status status)
{
    if (status != WEFT_OK) {
        fail_msg("%s: %s", name, weft_error_text(context));
    }
}

static void norm_case(const char *name)
{
    const golden_tensor *shape = golden_find(file, name, "x");
    int64_t rows = shape->shape[0], dim = shape->shape[1];
    weft_norm_desc desc = {
        .size = sizeof desc,
        .flags = golden_number(file, name, "plus_one", 0) != 0 ? WEFT_NORM_WEIGHT_PLUS_ONE : 0,
        .kind = is_kind(name, "layer") ? WEFT_NORM_LAYER : WEFT_NORM_RMS,
        .eps = (float)golden_number(file, name, "eps", 0),
        .dim = dim,
        .max_rows = (int32_t)rows};
    weft_plan *plan = NULL;
    expect_ok(name, weft_norm_plan(context, &desc, &plan));
    float *y = copy(floats(name, "x"), rows * dim);
    weft_norm_args args = {.size = sizeof args,
                           .rows = (int32_t)rows,
                           .x = y,
                           .y = y,
                           .weight = floats(name, "weight"),
                           .bias = floats_or_null(name, "bias")};
    expect_ok(name, weft_norm_run(plan, &args));
    const float *should = floats(name, "y");
    for (int64_t r = 0; r < rows; r++) {
        double largest = 0;
        for (int64_t i = 0; i < dim; i++) {
            largest = fmax(largest, fabs((double)should[r * dim + i]));
        }
        for (int64_t i = r * dim; i < (r + 1) * dim; i++) {
            expect_near(name, i, y[i], should[i], 1e-6 * largest);
        }
    }
    free(y);
    weft_plan_destroy(plan);
}

static void activation_case(const char *name)
{
    int64_t dim = golden_find(file, name, "x")->elements;
    const float *x = floats(name, "x"), *up = floats_or_null(name, "up");
    weft_activation_desc desc = {.size = sizeof desc,
                                 .kind = is_kind(name, "silu")   ? WEFT_ACTIVATION_SILU
                                         : is_kind(name, "gelu") ? WEFT_ACTIVATION_GELU
                                                                 : WEFT_ACTIVATION_GELU_TANH,
                                 .dim = dim,
                                 .max_rows = 1};
    weft_plan *plan = NULL;
    expect_ok(name, weft_activation_plan(context, &desc, &plan));
    float *y = copy(x, dim);
    weft_activation_args args = {.size = sizeof args, .rows = 1, .x = y, .up = up, .y = y};
    expect_ok(name, weft_activation_run(plan, &args));
    const float *should = floats(name, "y");
    for (int64_t i = 0; i < dim; i++) {
        // The header's promise, and one more rounding for the product.
        double factor = up ? fabs((double)up[i]) : 1;
        double bound =
            5 * 0x1p-23 * fabs((double)should[i]) + 0x1p-24 * fabs((double)x[i]) * factor;
        expect_near(name, i, y[i], should[i], bound);
    }
    free(y);
    weft_plan_destroy(plan);
}

static void softmax_case(const char *name)
{
    const golden_tensor *shape = golden_find(file, name, "x");
    int64_t rows = shape->shape[0], dim = shape->shape[1];
    weft_softmax_desc desc = {.size = sizeof desc,
                              .scale = (float)golden_number(file, name, "scale", 0),
                              .dim = dim,
                              .max_rows = (int32_t)rows};
    weft_plan *plan = NULL;
    expect_ok(name, weft_softmax_plan(context, &desc, &plan));
    float *y = copy(floats(name, "x"), rows * dim);
    weft_softmax_args args = {.size = sizeof args, .rows = (int32_t)rows, .x = y};
    expect_ok(name, weft_softmax_run(plan, &args));
    const float *should = floats(name, "y");
    for (int64_t i = 0; i < rows * dim; i++) {
        // The exponent's argument, up to 150 here, is rounded before exp amplifies it.
        expect_near(name, i, y[i], should[i], 2e-5 * (double)should[i] + 1e-12);
    }
    free(y);
    weft_plan_destroy(plan);
}

static weft_rope_params rope_params(const char *name)
{
    static const struct {
        const char *name;
        weft_rope_scaling scaling;
    } scalings[] = {{"default", WEFT_ROPE_SCALING_NONE},
                    {"linear", WEFT_ROPE_SCALING_LINEAR},
                    {"llama3", WEFT_ROPE_SCALING_LLAMA3},
                    {"yarn", WEFT_ROPE_SCALING_YARN}};
    weft_rope_params params = {
        .style = golden_number(file, name, "interleaved", 0) != 0 ? WEFT_ROPE_INTERLEAVED
                                                                  : WEFT_ROPE_SPLIT_HALF,
        .rotary_dim = (int32_t)golden_number(file, name, "rotary_dim", 0),
        .original_context =
            (int32_t)golden_number(file, name, "original_max_position_embeddings", 0),
        .base = (float)golden_number(file, name, "base", 0),
        .factor = (float)golden_number(file, name, "factor", 0),
        .low_freq_factor = (float)golden_number(file, name, "low_freq_factor", 0),
        .high_freq_factor = (float)golden_number(file, name, "high_freq_factor", 0),
        .beta_fast = (float)golden_number(file, name, "beta_fast", 0),
        .beta_slow = (float)golden_number(file, name, "beta_slow", 0),
        .attention_factor = (float)golden_number(file, name, "attention_factor", 0),
    };
    for (size_t i = 0; i < sizeof scalings / sizeof scalings[0]; i++) {
        if (strcmp(golden_text(file, name, "scaling"), scalings[i].name) == 0) {
            params.scaling = scalings[i].scaling;
        }
    }
    return params;
}

static void expect_frequencies(const char *name, const weft_rope_params *params, int32_t head_dim)
{
    const float *should = floats(name, "frequencies");
    double frequencies[128];
    float attention_factor = 0;
    expect_ok(name, weft_rope_frequencies(params, head_dim, frequencies, &attention_factor));
    for (int32_t i = 0; i < params->rotary_dim / 2; i++) {
        expect_near(name, i, (float)frequencies[i], should[i], 1e-6 * (double)should[i]);
    }
    double factor = golden_number(file, name, "expected_attention_factor", 0);
    expect_near(name, -1, attention_factor, (float)factor, 1e-6);
}

static void expect_rotated(const char *name, const weft_rope_params *params, int32_t head_dim,
                           const float *y)
{
    const golden_tensor *shape = golden_find(file, name, "x");
    const int32_t *positions = golden_data(file, name, "positions", GOLDEN_I32);
    const float *should = floats(name, "y"), *frequencies = floats(name, "frequencies");
    for (int64_t i = 0; i < shape->elements; i++) {
        int32_t d = (int32_t)(i % head_dim), half = params->rotary_dim / 2;
        double bound = 0;
        if (d < params->rotary_dim) {
            // transformers forms the frequencies in f32: the angle is off by a few ulps.
            int32_t pair = params->style == WEFT_ROPE_INTERLEAVED ? d / 2 : d % half;
            double angle = positions[i / (head_dim * shape->shape[1])] * (double)frequencies[pair];
            bound = 4e-6 + 1.5e-6 * angle;
        }
        expect_near(name, i, y[i], should[i], bound);
    }
}

static void rope_case(const char *name)
{
    const golden_tensor *shape = golden_find(file, name, "x");
    int32_t tokens = (int32_t)shape->shape[0], head_dim = (int32_t)shape->shape[2];
    weft_rope_desc desc = {.size = sizeof desc,
                           .num_heads = (int32_t)shape->shape[1],
                           .head_dim = head_dim,
                           .max_tokens = tokens,
                           .rope = rope_params(name)};
    expect_frequencies(name, &desc.rope, head_dim);
    weft_plan *plan = NULL;
    expect_ok(name, weft_rope_plan(context, &desc, &plan));
    float *y = copy(floats(name, "x"), shape->elements);
    weft_rope_args args = {.size = sizeof args,
                           .tokens = tokens,
                           .x = y,
                           .positions = golden_data(file, name, "positions", GOLDEN_I32)};
    expect_ok(name, weft_rope_run(plan, &args));
    expect_rotated(name, &desc.rope, head_dim, y);
    free(y);
    weft_plan_destroy(plan);
}

// Runs the cases whose names contain one of the two texts.
static void run_cases(void run(const char *), const char *one, const char *other)
{
    const char *name;
    int count = 0;
    for (size_t n = 0; (name = golden_case(file, n)); n++) {
        if (strstr(name, one) || strstr(name, other)) {
            run(name);
            count++;
        }
    }
    assert_true(count > 0);
}

static void norms(void **state)
{
    (void)state;
    run_cases(norm_case, "norm", "norm");
}

static void activations(void **state)
{
    (void)state;
    run_cases(activation_case, "silu", "gelu");
}

static void softmaxes(void **state)
{
    (void)state;
    run_cases(softmax_case, "softmax", "softmax");
}

static void ropes(void **state)
{
    (void)state;
    run_cases(rope_case, "rope", "rope");
}

static int open_all(void **state)
{
    (void)state;
    file = golden_open("ops/ops.safetensors");
    return weft_context_create(NULL, &context) != WEFT_OK;
}

static int close_all(void **state)
{
    (void)state;
    golden_close(file);
    weft_context_destroy(context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms),
        cmocka_unit_test(activations),
        cmocka_unit_test(softmaxes),
        cmocka_unit_test(ropes),
    };
    int failed = cmocka_run_group_tests_name("best level", tests, open_all, close_all);
    setenv("WEFT_CPU", "ref", 1);
    return failed + cmocka_run_group_tests_name("reference", tests, open_all, close_all);
}
