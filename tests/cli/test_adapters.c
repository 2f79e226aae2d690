// SPDX-License-Identifier: MIT
// The program with adapters: --lora FILE[=SCALE], and what `weft inspect` shows of one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/support/golden_model.h"
#include "tests/support/program.h"

enum { TOKENS = 5, VOCAB = 320 };

static golden_written base, adapter;
static char *folder;

static int open_both(void **state)
{
    (void)state;
    folder = folder_make();
    return golden_model_open(&base, "models/llama_f32.safetensors") &&
                   golden_model_open(&adapter, "models/llama_lora.safetensors")
               ? 0
               : -1;
}

static int close_both(void **state)
{
    (void)state;
    golden_model_close(&base);
    golden_model_close(&adapter);
    folder_remove(folder);
    return 0;
}

// The logits with up to two adapters; NULL: fewer.
static void logits_with(const char *one, const char *two, float *logits)
{
    char out[256], path[300];
    const char *words[16] = {WEFT_TEST_PROGRAM, "logits", base.path, "--tokens",
                             "5,6,7,8,9",       "--out",  out,       "--exact"};
    int count = 8;
    if (one) {
        words[count++] = "--lora";
        words[count++] = one;
    }
    if (two) {
        words[count++] = "--lora";
        words[count++] = two;
    }
    snprintf(out, sizeof out, "out.f32");
    program_result result = program_run(folder, words);
    if (result.status != 0)
        fail_msg("exit status %d: %s", result.status, result.err);
    program_result_free(&result);
    snprintf(path, sizeof path, "%s/out.f32", folder);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(logits, sizeof *logits, TOKENS * VOCAB, file), TOKENS * VOCAB);
    fclose(file);
}

static float distance(const float *a, const float *b)
{
    float most = 0;
    for (int i = 0; i < TOKENS * VOCAB; i++) {
        float d = a[i] > b[i] ? a[i] - b[i] : b[i] - a[i];
        most = d > most ? d : most;
    }
    return most;
}

static void scales(void **state)
{
    static float plain[TOKENS * VOCAB], whole[TOKENS * VOCAB], other[TOKENS * VOCAB];
    char zero[SCRATCH_PATH_BYTES + 8], half[SCRATCH_PATH_BYTES + 8];
    (void)state;
    snprintf(zero, sizeof zero, "%s=0", adapter.path);
    snprintf(half, sizeof half, "%s=0.5", adapter.path);
    logits_with(NULL, NULL, plain);
    logits_with(adapter.path, NULL, whole);
    assert_true(distance(plain, whole) > 1);
    logits_with(zero, NULL, other);
    assert_memory_equal(plain, other, sizeof plain);
    logits_with(half, half, other);
    assert_true(distance(whole, other) < 1e-3f);
    logits_with(half, NULL, other);
    assert_true(distance(whole, other) > 0.1f && distance(plain, other) > 0.1f);
}

static void refuse(const char *lora, int status, const char *fragment)
{
    const char *words[] = {WEFT_TEST_PROGRAM, "logits", base.path, "--tokens", "5",
                           "--out",           "o.f32",  "--lora",  lora,       NULL};
    program_result result = program_run(folder, words);
    assert_int_equal(result.status, status);
    if (!strstr(result.err, fragment))
        fail_msg("'%s' does not say '%s'", result.err, fragment);
    program_result_free(&result);
}

static void refuses(void **state)
{
    char bad[SCRATCH_PATH_BYTES + 8];
    (void)state;
    snprintf(bad, sizeof bad, "%s=inf", adapter.path);
    refuse(bad, 2, "finite");
    snprintf(bad, sizeof bad, "%s=much", adapter.path);
    refuse(bad, 1, "=much");
    refuse(base.path, 1, "not an adapter");
    refuse("absent.gguf", 1, "absent.gguf");
}

static void inspect_shows_it(void **state)
{
    const char *text[] = {WEFT_TEST_PROGRAM, "inspect", adapter.path, NULL};
    const char *words[] = {WEFT_TEST_PROGRAM, "inspect", adapter.path, "--json", NULL};
    const char *kind;
    json_error_t error;
    double alpha;
    int rank, matrices;
    (void)state;
    program_result result = program_run(folder, text);
    assert_int_equal(result.status, 0);
    assert_non_null(strstr(result.out, "adapter       lora, rank 4, alpha 8, 14 matrices"));
    assert_non_null(strstr(result.out, "--lora"));
    program_result_free(&result);
    result = program_run(folder, words);
    json_t *object = json_loads(result.out, 0, &error);
    assert_int_equal(json_unpack(object, "{s:{s:s, s:i, s:F, s:i}}", "adapter", "type", &kind,
                                 "rank", &rank, "alpha", &alpha, "matrices", &matrices),
                     0);
    assert_string_equal(kind, "lora");
    assert_true(rank == 4 && alpha > 7.99 && alpha < 8.01 && matrices == 14);
    json_decref(object);
    program_result_free(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(scales), cmocka_unit_test(refuses),
                                       cmocka_unit_test(inspect_shows_it)};
    return cmocka_run_group_tests(tests, open_both, close_both);
}
