// SPDX-License-Identifier: MIT
// The program: `weft embed` gives vectors of encoders and of other models, and scores of rerankers.
#define _XOPEN_SOURCE 700
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/golden_model.h"
#include "tests/support/program.h"

static char *scratch;
static golden_written bert, ranker, modern;

static int make_models(void **state)
{
    (void)state;
    scratch = folder_make();
    return !scratch || !golden_model_open(&bert, "models/encoders/bert.safetensors") ||
           !golden_model_open(&ranker, "models/encoders/xlmr.safetensors") ||
           !golden_model_open(&modern, "models/encoders/modernrank.safetensors");
}

static int remove_models(void **state)
{
    (void)state;
    golden_model_close(&bert);
    golden_model_close(&ranker);
    golden_model_close(&modern);
    folder_remove(scratch);
    return 0;
}

static char *output_of(const char *const words[])
{
    program_result result = program_run(scratch, words);
    if (result.status != 0)
        fail_msg("weft embed: exit status %d, error '%s'", result.status, result.err);
    char *out = strdup(result.out);
    program_result_free(&result);
    return out;
}

#define OUTPUT_OF(...)                                                                             \
    output_of((const char *const[]){WEFT_TEST_PROGRAM, "embed", __VA_ARGS__, NULL})

static void expect_refusal(int status, const char *reason, const char *const words[])
{
    program_result result = program_run(scratch, words);
    if (result.status != status || !strstr(result.err, reason))
        fail_msg("exit status %d, '%s' does not say '%s'", result.status, result.err, reason);
    program_result_free(&result);
}

#define REFUSE(status, reason, ...)                                                                \
    expect_refusal(status, reason,                                                                 \
                   (const char *const[]){WEFT_TEST_PROGRAM, "embed", __VA_ARGS__, NULL})

static size_t read_numbers(const char *line, double *numbers, size_t room)
{
    size_t count = 0;
    for (char *end; count < room; line = end, count++) {
        numbers[count] = strtod(line, &end);
        if (end == line || *line == '\n')
            break;
    }
    return count;
}

static double product(const double *a, const double *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

// A line for each text, of length 1, the same whatever is beside it and wherever it comes from.
static void vectors_are_printed(void **state)
{
    (void)state;
    double first[512], second[512], again[512];
    char *out = OUTPUT_OF(bert.path, "the time", "a");
    char *line = strchr(out, '\n');
    assert_non_null(line);
    assert_int_equal(read_numbers(out, first, 512), 256);
    assert_int_equal(read_numbers(line + 1, second, 512), 256);
    assert_true(fabs(product(first, first, 256) - 1) < 1e-5);
    assert_true(product(first, second, 256) < 0.9999);
    free(out);
    char path[512];
    snprintf(path, sizeof path, "%s/texts", scratch);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("a\r\n\nthe time", file);
    fclose(file);
    out = OUTPUT_OF(bert.path, "-f", "texts");
    line = strchr(out, '\n');
    assert_non_null(line);
    assert_int_equal(read_numbers(line + 1, again, 512), 256);
    assert_true(product(first, again, 256) > 0.99999);
    assert_null(strchr(line + 1, '\n')[1] ? "more" : NULL);
    free(out);
    out = OUTPUT_OF(bert.path, "the time", "--pooling", "cls", "--keep-length");
    assert_int_equal(read_numbers(out, again, 512), 256);
    assert_true(fabs(product(again, again, 256) - 1) > 0.1);
    free(out);
}

static json_t *json_of(char *out)
{
    json_t *object = json_loads(out, 0, NULL);
    if (!object)
        fail_msg("'%s' is no JSON", out);
    free(out);
    return object;
}

static void json_has_an_object_for_each_text(void **state)
{
    (void)state;
    json_t *object = json_of(OUTPUT_OF(bert.path, "the time", "--json"));
    assert_string_equal(json_string_value(json_object_get(object, "text")), "the time");
    assert_true(json_integer_value(json_object_get(object, "tokens")) > 1);
    assert_int_equal(json_array_size(json_object_get(object, "embedding")), 256);
    json_decref(object);
    object = json_of(OUTPUT_OF(ranker.path, "the time", "--query", "a", "--json"));
    assert_true(json_is_real(json_object_get(object, "score")));
    assert_null(json_object_get(object, "embedding"));
    json_decref(object);
}

static int64_t tokens_of(char *out)
{
    json_t *object = json_of(out);
    int64_t tokens = json_integer_value(json_object_get(object, "tokens"));
    json_decref(object);
    return tokens;
}

// ModernBERT has one separator between two texts, XLM-R two; the vocabularies are the same.
static void separators_are_the_family_s(void **state)
{
    (void)state;
    int64_t two = tokens_of(OUTPUT_OF(ranker.path, "the time", "--query", "a", "--json"));
    int64_t one = tokens_of(OUTPUT_OF(modern.path, "the time", "--query", "a", "--json"));
    assert_int_equal(two, one + 1);
}

static void decoders_have_vectors_too(void **state)
{
    (void)state;
    double one[512], two[512];
    char *model = realpath("models/demo.gguf", NULL);
    assert_non_null(model);
    char *last = OUTPUT_OF(model, "a fox"), *mean = OUTPUT_OF(model, "a fox", "--pooling", "mean");
    size_t count = read_numbers(last, one, 512);
    assert_int_equal(read_numbers(mean, two, 512), count);
    assert_true(fabs(product(one, one, count) - 1) < 1e-5);
    assert_true(product(one, two, count) < 0.9999);
    free(last);
    free(mean);
    free(model);
}

static void refusals(void **state)
{
    (void)state;
    REFUSE(2, "MODEL is missing", "--json");
    REFUSE(2, "TEXT is missing", bert.path);
    REFUSE(2, "texts are in texts", bert.path, "a", "-f", "texts");
    REFUSE(2, "--pooling must be", bert.path, "a", "--pooling", "most");
    REFUSE(1, "this model is none", bert.path, "a", "--query", "b");
    REFUSE(1, "no classifier", bert.path, "a", "--pooling", "rank", "--query", "b");
    REFUSE(1, "say with --query", ranker.path, "a");
    REFUSE(1, "the model reads 2", bert.path, "the time of the time", "--ctx", "2");
    expect_refusal(
        1, "encoder",
        (const char *const[]){WEFT_TEST_PROGRAM, "run", bert.path, "-p", "a", "--raw", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_printed),
        cmocka_unit_test(json_has_an_object_for_each_text),
        cmocka_unit_test(separators_are_the_family_s),
        cmocka_unit_test(decoders_have_vectors_too),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests_name("embed", tests, make_models, remove_models);
}
