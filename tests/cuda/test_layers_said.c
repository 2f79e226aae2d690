// SPDX-License-Identifier: MIT
// weft info --kernels and weft profile say which program decodes a token: one launch for all layers, or launches. On the
// stand-in driver, where the first is the rule for an H200 and WEFT_PROGRAM=graph asks for the second.
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/bench_rows.h"
#include "tests/support/program.h"

static char *folder;

static int set_up(void **state)
{
    (void)state;
    folder = folder_make();
    setenv("WEFT_CUDA_DRIVER", WEFT_TEST_STANDIN, 1);
    setenv("WEFT_CUDA_NVRTC", WEFT_TEST_STANDIN, 1);
    setenv("WEFT_CACHE_DIR", folder, 1);
    setenv("STANDIN_NAME", "NVIDIA H200", 1);
    unsetenv("WEFT_PROGRAM");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

static void info_says(const char *layers)
{
    const char *const words[] = {WEFT_TEST_PROGRAM, "info",     "--kernels", "--shape",
                                 "emulated-heads",  "--device", "cuda",      NULL};
    program_result result = program_run(folder, words);
    char line[64];
    snprintf(line, sizeof line, "\nlayers of a token: %s\n", layers);
    assert_int_equal(result.status, 0);
    if (!strstr(result.out, line))
        fail_msg("'%s' does not say '%s'", result.out, line);
    program_result_free(&result);
}

static void profile_says(const char *layers)
{
    json_t *rows[MOST_ROWS];
    const char *const words[] = {"--shape", "emulated-heads", "--device", "cuda", "--depth",
                                 "16",      "--rounds",       "1",        NULL};
    const size_t count = rows_of(folder, rows, "profile", words);
    int said = 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(text(rows[i], "what"), "token") == 0) {
            assert_string_equal(text(rows[i], "layers"), layers);
            said++;
        }
    assert_int_equal(said, 1);
    release(rows, count);
}

static void one_launch_is_said(void **state)
{
    (void)state;
    info_says("one launch");
    profile_says("one launch");
}

static void launches_are_said(void **state)
{
    (void)state;
    setenv("WEFT_PROGRAM", "graph", 1);
    info_says("launches");
    profile_says("launches");
    unsetenv("WEFT_PROGRAM");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_launch_is_said),
                                       cmocka_unit_test(launches_are_said)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
