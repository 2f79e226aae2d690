// SPDX-License-Identifier: MIT
// What the rope keys of a file mean, as llama.cpp reads them; whole models with scaling are in test_logits.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/model/config.h"
#include "tests/support/gguf_tiny_model.h"
#include "tests/support/scratch.h"

enum { DIM = 16, PAIRS = DIM / 2 };

// A key below "llama.rope."; a text, or a number if that is NULL.
typedef struct key {
    const char *name, *text;
    float number;
} key;

typedef struct reading {
    bool fine;
    engine_error err;
    weft_rope_params params;
    double frequencies[PAIRS];
    float factor; // of cos and sin
} reading;

static reading read_keys(const key *keys)
{
    char path[SCRATCH_PATH_BYTES], name[128];
    reading r = {.fine = false};
    model_config config;
    gguf_writer w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "llama", .dim = DIM});
    for (int i = 0; keys[i].name; i++) {
        snprintf(name, sizeof name, "llama.rope.%s", keys[i].name);
        if (keys[i].text)
            gguf_writer_string(&w, name, keys[i].text);
        else
            gguf_writer_f32(&w, name, keys[i].number);
    }
    scratch_file(path, NULL, 0);
    assert_true(gguf_writer_save(&w, path));
    gguf_file *file = gguf_open(path, &r.err);
    scratch_remove(path);
    assert_non_null(file);
    r.fine = model_config_read(&config, file, &r.err);
    r.params = config.rope;
    gguf_close(file);
    if (r.fine)
        assert_int_equal(weft_rope_frequencies(&r.params, DIM, r.frequencies, &r.factor), WEFT_OK);
    return r;
}

#define KEYS(...) ((const key[]){__VA_ARGS__, {NULL, NULL, 0}})

// Every frequency is the plain one divided by `divisor`; cos and sin are multiplied by `factor`.
static void expect_divided(const key *keys, double divisor, double factor)
{
    reading r = read_keys(keys);
    if (!r.fine)
        fail_msg("%s: %s", keys[0].name, r.err.text);
    for (int i = 0; i < PAIRS; i++) {
        double wanted = pow(10000, -2.0 * i / DIM) / divisor;
        if (!(fabs(r.frequencies[i] - wanted) <= 1e-12))
            fail_msg("%s: pair %d turns by %g, not %g", keys[0].name, i, r.frequencies[i], wanted);
    }
    if (!(fabs(r.factor - factor) <= 1e-6))
        fail_msg("%s: cos and sin times %g, not %g", keys[0].name, (double)r.factor, factor);
}

static void linear(void **state)
{
    (void)state;
    expect_divided(KEYS({"scaling.type", "none", 0}), 1, 1);
    expect_divided(KEYS({"scaling.type", "none", 0}, {"scaling.factor", NULL, 4}), 1, 1);
    expect_divided(KEYS({"scaling.type", "linear", 0}, {"scaling.factor", NULL, 4}), 4, 1);
    expect_divided(KEYS({"scaling.factor", NULL, 4}), 4, 1); // linear is the default
    expect_divided(KEYS({"scaling.factor", NULL, 0}), 1, 1);
    expect_divided(KEYS({"scale_linear", NULL, 2}), 2, 1); // an old name
    expect_divided(KEYS({"scale_linear", NULL, 2}, {"scaling.factor", NULL, 4}), 4, 1);
    expect_divided(KEYS({"scaling.attn_factor", NULL, 1.5f}), 1, 1.5);
    expect_divided(KEYS({"scaling.factor", NULL, 4}, {"scaling.attn_factor", NULL, 0.5f}), 4, 0.5);
}

static void expect_factor(const key *keys, double factor)
{
    reading r = read_keys(keys);
    if (!r.fine)
        fail_msg("%s", r.err.text);
    assert_int_equal(r.params.scaling, WEFT_ROPE_SCALING_YARN);
    if (!(fabs(r.factor - factor) <= 1e-6))
        fail_msg("cos and sin times %g, not %g", (double)r.factor, factor);
}

// attn_factor multiplies yarn's own factor, yarn_attn_factor takes its place.
static void yarn(void **state)
{
    (void)state;
    const key type = {"scaling.type", "yarn", 0}, four = {"scaling.factor", NULL, 4};
    double usual = 0.1 * log(4) + 1;
    expect_factor(KEYS(type, four), usual);
    expect_factor(KEYS(type, four, {"scaling.attn_factor", NULL, 1}), usual);
    expect_factor(KEYS(type, four, {"scaling.attn_factor", NULL, 1.5f}), 1.5 * usual);
    expect_factor(KEYS(type, four, {"scaling.yarn_attn_factor", NULL, 1.25f}), 1.25);
    expect_factor(KEYS(type, four, {"scaling.yarn_attn_factor", NULL, 1.25f},
                       {"scaling.attn_factor", NULL, 2}),
                  2.5);
    expect_factor(KEYS(type, {"scaling.attn_factor", NULL, 1.5f}), 1.5);
}

static void refuses_what_it_does_not_know(void **state)
{
    (void)state;
    reading r = read_keys(KEYS({"scaling.type", "longrope", 0}));
    assert_false(r.fine);
    assert_non_null(strstr(r.err.text, "longrope"));
    assert_false(read_keys(KEYS({"scaling.type", NULL, 1})).fine);
    assert_false(read_keys(KEYS({"scaling.factor", "four", 0})).fine);
    assert_false(read_keys(KEYS({"scale_linear", "four", 0})).fine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear),
        cmocka_unit_test(yarn),
        cmocka_unit_test(refuses_what_it_does_not_know),
    };
    return cmocka_run_group_tests_name("rope_keys", tests, NULL, NULL);
}
