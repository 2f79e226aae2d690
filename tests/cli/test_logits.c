// SPDX-License-Identifier: MIT
// The program: `weft logits` writes what transformers computes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/golden_model.h"
#include "tests/support/program.h"

static char model_path[SCRATCH_PATH_BYTES], out_path[SCRATCH_PATH_BYTES];

static int make_paths(void **state)
{
    (void)state;
    scratch_file(model_path, NULL, 0);
    scratch_file(out_path, NULL, 0);
    return 0;
}

static int remove_paths(void **state)
{
    (void)state;
    return scratch_remove(model_path) | scratch_remove(out_path);
}

// "1,2,3"
static char *token_list(const golden *file)
{
    const int32_t *tokens = golden_data(file, "model", "tokens", GOLDEN_I32);
    int64_t count = golden_find(file, "model", "tokens")->elements;
    char *list = malloc((size_t)count * 12);
    assert_non_null(list);
    char *end = list;
    for (int64_t i = 0; i < count; i++) {
        end += sprintf(end, i ? ",%d" : "%d", tokens[i]);
    }
    return list;
}

static void run_program(const char *const words[])
{
    program_result result = program_run(".", words);
    if (result.status != 0)
        fail_msg("weft logits: exit status %d, error '%s'", result.status, result.err);
    program_result_free(&result);
}

static float *read_logits(const golden *file)
{
    size_t count = (size_t)golden_find(file, "model", "tokens")->elements *
                   (size_t)golden_number(file, "model", "vocab", 0);
    float *logits = malloc((count + 1) * sizeof *logits);
    FILE *stream = fopen(out_path, "rb");
    assert_true(logits && stream);
    assert_int_equal(fread(logits, sizeof *logits, count + 1, stream), count);
    fclose(stream);
    return logits;
}

// `options` are two words.
static void expect_golden(const char *name, const char *one, const char *two, float bound)
{
    char path[64];
    snprintf(path, sizeof path, "models/%s.safetensors", name);
    golden *file = golden_open(path);
    assert_true(golden_model_write(file, model_path));
    char *tokens = token_list(file);
    const char *argv[] = {
        WEFT_TEST_PROGRAM, "logits",    model_path, "--tokens", tokens, "--out", out_path,
        "--exact",         "--threads", "2",        one,        two,    NULL};
    run_program(argv);
    float *logits = read_logits(file);
    float allowed = bound * (float)golden_number(file, "model", "max_abs_logit", 0);
    float distance = golden_model_distance(file, logits);
    if (!(distance <= allowed)) {
        fail_msg("%s: off by %g, more than %g", name, (double)distance, (double)allowed);
    }
    assert_int_equal(golden_model_wrong_choice(file, logits), -1);
    free(logits);
    free(tokens);
    golden_close(file);
}

static void in_one_piece(void **state)
{
    (void)state;
    expect_golden("llama_mixed", "--kv-dtype", "f32", 1e-3f);
    expect_golden("qwen3_bf16", "--kv-dtype", "f16", 5e-3f);
}

static void in_chunks(void **state)
{
    (void)state;
    expect_golden("mistral_f32", "--chunk", "64", 1e-3f);
}

static void step_by_step(void **state)
{
    (void)state;
    expect_golden("qwen2_f32", "--step", NULL, 1e-3f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_one_piece),
        cmocka_unit_test(in_chunks),
        cmocka_unit_test(step_by_step),
    };
    return cmocka_run_group_tests(tests, make_paths, remove_paths);
}
