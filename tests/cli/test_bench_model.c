// SPDX-License-Identifier: MIT
// weft bench model and speculation, and weft profile: whole models on a small problem, and the rows that
// scripts rely on.
#define _XOPEN_SOURCE 700
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/support/bench_rows.h"
#include "tests/support/gguf_tiny_model.h"
#include "tests/support/program.h"

static char *folder;

static int make_model(void **state)
{
    (void)state;
    char path[256];
    folder = folder_make();
    snprintf(path, sizeof path, "%s/tiny.gguf", folder);
    gguf_writer w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "llama", .dim = 64});
    return !gguf_writer_save(&w, path);
}

static int remove_model(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

#define ROWS_OF(rows, ...) rows_of(folder, rows, "bench", (const char *const[]){__VA_ARGS__, NULL})

static void model(void **state)
{
    (void)state;
    json_t *rows[MOST_ROWS];
    size_t count = ROWS_OF(rows, "model", "--model", "tiny.gguf", "--prompt", "6", "--generate",
                           "4", "--batch", "3", "--verbose", "--working-set", "1");
    assert_int_equal(count, 2);
    for (size_t i = 0; i < count; i++) {
        expect_figures(rows[i], "model");
        expect_keys(rows[i], "model format bytes_per_token streamed_bytes");
        assert_string_equal(text(rows[i], "phase"), i ? "decode" : "prefill");
        assert_int_equal(number(rows[i], "prompt"), 6);
        assert_int_equal(number(rows[i], "generate"), 4);
        assert_int_equal(number(rows[i], "batch"), 3);
        double tokens = i ? 3 : 18, rate = tokens / number(rows[i], "us_median") * 1e6;
        assert_true(number(rows[i], "tokens_per_second") > 0.999 * rate);
        assert_true(number(rows[i], "tokens_per_second") < 1.001 * rate);
    }
    assert_true(json_array_size(json_object_get(rows[1], "plans")) > 3);
    release(rows, count);
}

// Generation apart from the prompt: what a step reads grows with the depth alone.
static void model_at_a_depth(void **state)
{
    (void)state;
    json_t *rows[MOST_ROWS];
    static const char *const depths[] = {"6", "0", "5", "20"};
    double first = 0;
    for (int i = 0; i < 4; i++) {
        size_t count = ROWS_OF(rows, "model", "--model", "tiny.gguf", "--prompt", "6", "-n", "4",
                               "-d", depths[i], "--working-set", "1");
        assert_int_equal(count, 2);
        double depth = atof(depths[i]), bytes = number(rows[1], "bytes_per_token");
        assert_int_equal(number(rows[0], "depth"), 0);
        assert_int_equal(number(rows[1], "depth"), depth);
        assert_int_equal(number(rows[0], "bytes_per_token") > 0, 1);
        if (i == 0)
            first = bytes;
        // One head of 64 in f16, keys and values.
        if (!(fabs(bytes - first - (depth - 6) * 2 * 64 * 2) < 1))
            fail_msg("%g bytes at depth %g, %g at 6", bytes, depth, first);
        release(rows, count);
    }
}

// Where products of bf16 are fast, queries are rounded to the format of a cache of bf16, unless all is to be exact.
static void queries_are_narrowed(void **state)
{
    (void)state;
    const char narrow[] = "attention_bf16_avx512bf16";
    for (int exact = 0; exact < 2; exact++) {
        json_t *rows[MOST_ROWS];
        const char *const words[] = {
            "tiny.gguf", "--kv-dtype", "bf16",          "--depth", "5",
            "--rounds",  "1",          "--working-set", "1",       exact ? "--exact" : NULL,
            NULL};
        size_t count = rows_of(folder, rows, "profile", words), found = 0;
        for (size_t i = 0; i < count; i++)
            found += strcmp(text(rows[i], "what"), "attention") == 0 &&
                     strstr(text(rows[i], "plan"), narrow) != NULL;
        assert_int_equal(found, !exact && runs_here(folder, narrow));
        release(rows, count);
    }
}

// An encoder has a prompt alone: texts that become vectors.
static void encoders_have_one_row(void **state)
{
    (void)state;
    json_t *rows[MOST_ROWS];
    size_t count = ROWS_OF(rows, "model", "--shape", "bert-base/1", "--format", "q8_0",
                           "--working-set", "1", "--prompt", "4", "--batch", "2");
    assert_int_equal(count, 1);
    expect_figures(rows[0], "model");
    assert_string_equal(text(rows[0], "phase"), "prefill");
    assert_int_equal(number(rows[0], "batch"), 2);
    assert_true(number(rows[0], "tokens_per_second") > 0 && number(rows[0], "bytes_per_token") > 0);
    release(rows, count);
}

static void write_text(char *path, size_t room, const char *name, const char *text)
{
    snprintf(path, room, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
}

// An edit of a text, which stands in its prompt: most of it is guessed.
static void edits_are_guessed(void **state)
{
    (void)state;
    char before[256], after[256];
    write_text(before, sizeof before, "before.txt",
               "The king was old and tired, but his three daughters were not. The first could "
               "ride, the second could read, and the third could sing all day.");
    write_text(after, sizeof after, "after.txt",
               "The king was old and tired, but his three daughters were not. The first could "
               "swim, the second could read, and the third could sing all day.");
    static const char demo[] = WEFT_TEST_GOLDEN "/../../models/demo.gguf";
    program_result result = program_run(
        folder, (const char *const[]){WEFT_TEST_PROGRAM, "bench", "speculation", "--model", demo,
                                      "--tokenizer", demo, "--source", before, "--result", after,
                                      "--rounds", "1", "--threads", "1", "--json", NULL});
    assert_int_equal(result.status, 0);
    json_t *row = json_loads(result.out, 0, NULL);
    assert_true(number(row, "generated") > 30 && number(row, "prompt") > 30);
    assert_true(number(row, "accepted") <= number(row, "guessed"));
    assert_true(number(row, "plain_tokens_per_second") > 0 && number(row, "ratio") > 0);
    json_decref(row);
    program_result_free(&result);
    result =
        program_run(folder, (const char *const[]){WEFT_TEST_PROGRAM, "bench", "speculation",
                                                  "--shape", "s", "--tokenizer", demo, "--source",
                                                  before, "--result", after, "--draft", "s", NULL});
    assert_int_equal(result.status, 2); // one of the two guesses
    program_result_free(&result);
}

// weft profile: the operators make the sum, and with the overlap the token; its bytes are returned.
static double check_parts(const char *batch)
{
    json_t *rows[MOST_ROWS];
    const char *const words[] = {"tiny.gguf", "--depth",       "5", "--rounds", "3", "--batch",
                                 batch,       "--working-set", "1", NULL};
    size_t count = rows_of(folder, rows, "profile", words);
    assert_true(count > 8);
    double us = 0, bytes = 0, share = 0;
    for (size_t i = 0; i < count - 3; i++) {
        expect_keys(rows[i],
                    "op device what batch steps us share bytes gbps roof_gbps roof_fraction plan");
        assert_int_equal(number(rows[i], "batch"), atoi(batch));
        us += number(rows[i], "us");
        bytes += number(rows[i], "bytes");
        share += number(rows[i], "share");
    }
    const json_t *sum = rows[count - 3], *overlap = rows[count - 2], *token = rows[count - 1];
    assert_true(fabs(us - number(sum, "us")) < 1e-3 * us);
    assert_true(fabs(share - 1) < 1e-3);
    assert_true(bytes == number(sum, "bytes"));
    assert_true(fabs(us + number(overlap, "us") - number(token, "us")) < 1e-3 * us);
    release(rows, count);
    return bytes;
}

// Of several sequences weights are read once, all else as often as there are sequences.
static void parts_of_a_token_add_up(void **state)
{
    (void)state;
    const double one = check_parts("1"), three = check_parts("3"), five = check_parts("5");
    assert_true(three > one && three < 3 * one);
    assert_true(five - three == three - one);
}

// Of several depths every operator has a row for each, and attention grows.
static void shares_by_depth(void **state)
{
    (void)state;
    json_t *rows[MOST_ROWS];
    const char *const words[] = {"tiny.gguf", "--depth",       "3,40", "--rounds",
                                 "5",         "--working-set", "1",    NULL};
    size_t count = rows_of(folder, rows, "profile", words), found = 0;
    double share[2] = {0, 0};
    for (size_t i = 0; i < count; i++) {
        expect_keys(rows[i], "op device what depth us share");
        if (strcmp(text(rows[i], "op"), "profile depth") != 0)
            continue;
        const int deep = number(rows[i], "depth") == 40;
        assert_true(deep || number(rows[i], "depth") == 3);
        assert_true(number(rows[i], "growth") > 0);
        share[deep] += number(rows[i], "share");
        found += strcmp(text(rows[i], "what"), "attention") == 0;
    }
    assert_int_equal(found, 2);
    assert_true(fabs(share[0] - 1) < 1e-3 && fabs(share[1] - 1) < 1e-3);
    release(rows, count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model),
        cmocka_unit_test(model_at_a_depth),
        cmocka_unit_test(queries_are_narrowed),
        cmocka_unit_test(encoders_have_one_row),
        cmocka_unit_test(edits_are_guessed),
        cmocka_unit_test(parts_of_a_token_add_up),
        cmocka_unit_test(shares_by_depth),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
