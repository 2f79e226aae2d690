// SPDX-License-Identifier: MIT
// weft tune: candidates are proven, the best is written, and the next program plans by it.
#define _XOPEN_SOURCE 700
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "cli/tune/tune.h"
#include "tests/support/program.h"

static char *folder;

static int make_folder(void **state)
{
    (void)state;
    folder = folder_make();
    unsetenv("WEFT_TUNING");
    setenv("WEFT_CACHE_DIR", folder, 1);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

static char *output_of(const char *const words[], int status)
{
    const char *argv[24] = {WEFT_TEST_PROGRAM};
    for (int n = 0; words[n]; n++)
        argv[n + 1] = words[n];
    program_result result = program_run(folder, argv);
    if (result.status != status)
        fail_msg("weft %s %s: status %d: %s", words[0], words[1], result.status, result.err);
    char *out = strdup(status ? result.err : result.out);
    program_result_free(&result);
    return out;
}

#define OUTPUT_OF(...) output_of((const char *const[]){__VA_ARGS__, NULL}, 0)
#define QUICK          "--seconds", "0.001", "--working-set", "1", "--json"

// Counts rows, and those that were chosen; every candidate was proven.
static int chosen_of(char *out, int *rows)
{
    int chosen = 0;
    for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n"), (*rows)++) {
        json_t *row = json_loads(line, 0, NULL);
        assert_non_null(row);
        assert_true(json_real_value(json_object_get(row, "error")) <= 1);
        assert_true(json_real_value(json_object_get(row, "cost")) > 0);
        chosen += strcmp(json_string_value(json_object_get(row, "verdict")), "chosen") == 0;
        json_decref(row);
    }
    free(out);
    return chosen;
}

static void linear_is_tuned(void **state)
{
    (void)state;
    int rows = 0;
    int chosen = chosen_of(OUTPUT_OF("tune", "linear", "--format", "q4_0,q4_k,f16", "--shapes",
                                     "64x256,100x288", QUICK),
                           &rows);
    assert_true(chosen == 5 * 3 || chosen == 5 * 2); // q4_k has no 288 columns; thresholds or none
    assert_true(rows > 5 * 9);
    assert_int_equal(folder_count(folder), 1);
    char *kernels = OUTPUT_OF("info", "--kernels");
    assert_non_null(strstr(kernels, "file     linear q4_0 rows=64 cols=256 "));
    assert_non_null(strstr(kernels, "file     linear q4_0 rows=128 cols=512 "));
    assert_non_null(strstr(kernels, "library  linear * "));
    free(kernels);
    char *info = OUTPUT_OF("info");
    assert_non_null(strstr(info, "5 entries from "));
    free(info);
}

static void attention_is_tuned_beside_it(void **state)
{
    (void)state;
    int rows = 0;
    free(OUTPUT_OF("tune", "linear", "--format", "q8_0", "--shapes", "64x64", QUICK));
    for (int again = 0; again < 2; again++) { // the second replaces what the first wrote
        assert_int_equal(
            chosen_of(OUTPUT_OF("tune", "attention", "--heads", "2", "--kv-heads", "1",
                                "--head-dims", "8,64", "--kv-dtype", "f16,int8", QUICK),
                      &rows),
            4 * 4);
        char *info = OUTPUT_OF("info"); // both dims have the key 64: one entry for each format
        assert_non_null(strstr(info, "3 entries from "));
        free(info);
    }
    assert_int_equal(folder_count(folder), 1);
    // A file of one's own begins anew.
    free(OUTPUT_OF("tune", "linear", "--format", "f32", "--shapes", "8x8", "--out", "own.txt",
                   QUICK));
    setenv("WEFT_TUNING", "own.txt", 1);
    char *info = OUTPUT_OF("info");
    assert_non_null(strstr(info, "1 entries from own.txt"));
    free(info);
    unsetenv("WEFT_TUNING");
}

// Four candidates of a second each do not fit two seconds, of half a second over one batch they fit five: every
// choice is a row, made or left out, and the file says nothing of what was not measured.
static void a_budget_is_kept(void **state)
{
    (void)state;
    static const char *const choices[] = {"tile_rows", "block_keys", "least_chunk", "target_tasks"};
    char *out = OUTPUT_OF("tune", "attention", "--heads", "2", "--kv-heads", "1", "--head-dims",
                          "64", "--working-set", "1", "--seconds", "1", "--budget", "2", "--json");
    int rows = 0;
    for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n"), rows++) {
        json_t *row = json_loads(line, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(row, "candidate")), choices[rows]);
        assert_string_equal(json_string_value(json_object_get(row, "verdict")), "left out");
        assert_null(json_object_get(row, "cost"));
        json_decref(row);
    }
    free(out);
    assert_int_equal(rows, 4);
    out = OUTPUT_OF("tune", "attention", "--heads", "2", "--kv-heads", "1", "--head-dims", "64",
                    "--working-set", "1", "--seconds", "0.5", "--budget", "5");
    assert_non_null(strstr(out, "tile_rows=96")); // a race of 2 s
    assert_null(strstr(out, "block_keys=64"));    // 6 s
    assert_non_null(strstr(out, "left out: 3 choices, for the budget of 5 s is spent"));
    free(out);
    char *kernels = OUTPUT_OF("info", "--kernels");
    assert_non_null(strstr(kernels, "file     attention f16 "));
    assert_null(strstr(kernels, "block_keys="));
    free(kernels);
}

static void mistakes_are_worded(void **state)
{
    (void)state;
    free(output_of((const char *const[]){"tune", "nothing", NULL}, 2));
    free(output_of((const char *const[]){"tune", "linear", "--shapes", "4x", NULL}, 2));
    free(output_of((const char *const[]){"tune", "linear", "--shapes", "", NULL}, 2));
    if (weft_device_count(WEFT_DEVICE_CUDA) == 0)
        free(output_of((const char *const[]){"tune", "linear", "--device", "cuda", NULL}, 1));
    char *text = output_of((const char *const[]){"tune", "linear", "--format", "q4_0", "--shapes",
                                                 "32x32", "--out", "/proc/no/file", QUICK, NULL},
                           1);
    assert_non_null(strstr(text, "cannot be written"));
    free(text);
}

// Wrong results never count, whatever their speed; little gain is no reason to leave the library's own.
static void only_sound_candidates_win(void **state)
{
    (void)state;
    tune_candidate c[3] = {{.cost = 10, .is_default = true, .worst = 0.5},
                           {.cost = 1, .worst = 1.01},
                           {.cost = 2, .worst = NAN}};
    assert_ptr_equal(tune_best(c, 3), &c[0]);
    c[1].worst = 1;
    assert_ptr_equal(tune_best(c, 3), &c[1]);
    c[1].cost = 9.8;
    assert_ptr_equal(tune_best(c, 3), &c[0]);
    c[0].worst = 2;
    assert_ptr_equal(tune_best(c, 3), &c[1]);
    c[1].worst = INFINITY;
    assert_null(tune_best(c, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(linear_is_tuned, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(attention_is_tuned_beside_it, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_budget_is_kept, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(mistakes_are_worded, make_folder, remove_folder),
        cmocka_unit_test(only_sound_candidates_win),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
