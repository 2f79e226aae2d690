// SPDX-License-Identifier: MIT
// The program: weft quantize writes files that run.
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/support/program.h"

#define DEMO WEFT_TEST_GOLDEN "/../../models/demo.gguf"

static char *folder;

static program_result weft(const char *a, const char *b, const char *c, const char *d,
                           const char *e, const char *f)
{
    return program_run(folder,
                       (const char *const[]){WEFT_TEST_PROGRAM, a, b, c, d, e, f, "--json", NULL});
}

static void expect_bad_usage(const char *a, const char *b, const char *c, const char *d,
                             const char *reason)
{
    program_result r =
        program_run(folder, (const char *const[]){WEFT_TEST_PROGRAM, "quantize", a, b, c, d, NULL});
    assert_int_equal(r.status, 2);
    if (!strstr(r.err, reason))
        fail_msg("'%s' does not say '%s'", r.err, reason);
    program_result_free(&r);
}

// The last line of JSON is the file's, those before are its tensors'.
static void quantises_and_runs(void **state)
{
    (void)state;
    program_result r = weft("quantize", DEMO, "small.gguf", "--format", "q4_k_m", "--threads=2");
    assert_int_equal(r.status, 0);
    int lines = 0;
    double relative = 0, bytes = 0;
    for (char *line = strtok(r.out, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        const char *to = json_string_value(json_object_get(object, "to"));
        if (to && strcmp(to, "q4_k") == 0)
            relative = json_number_value(json_object_get(object, "relative_error"));
        bytes = json_number_value(json_object_get(object, "to_bytes"));
        json_decref(object);
    }
    program_result_free(&r);
    assert_true(lines > 50 && relative > 0.05 && relative < 0.09);
    assert_true(bytes > 6e6 && bytes < 7e6);
    r = weft("run", "small.gguf", "-pTell me a story about a fox.", "-n24", "--temp", "0");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "fox"));
    program_result_free(&r);
}

static void refuses(void **state)
{
    (void)state;
    expect_bad_usage(DEMO, "out.gguf", NULL, NULL, "--format is missing");
    expect_bad_usage("--format", "q4_0", NULL, NULL, "IN and OUT are missing");
    expect_bad_usage(DEMO, "--format", "q4_0", NULL, "OUT is missing");
    expect_bad_usage(DEMO, "out.gguf", "--format", "q4_k_n", "did you mean q4_k");
    program_result r = weft("quantize", "--shape", "llama-1b", "out.gguf", "--format", "q4_0");
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.err, "no shape is called"));
    program_result_free(&r);
}

// Of a dense model, and of a mixture whose experts all files hold as one tensor.
static void makes_up_a_shape(void **state)
{
    (void)state;
    program_result r = weft("quantize", "--shape", "olmoe-1b-7b/1", "shape.gguf", "-f", "bf16");
    assert_int_equal(r.status, 0);
    program_result_free(&r);
    r = weft("run", "shape.gguf", "-pHello", "-n2", "--raw", "--ignore-end");
    if (r.status != 0)
        fail_msg("%s", r.err);
    program_result_free(&r);
    r = weft("quantize", "--shape", "smollm2-135m", "shape.gguf", "-f", "q4_0");
    assert_int_equal(r.status, 0);
    program_result_free(&r);
    r = weft("run", "shape.gguf", "-pHello", "-n2", "--raw", "--ignore-end");
    if (r.status != 0)
        fail_msg("%s", r.err);
    assert_non_null(strstr(r.out, "\"generated_tokens\":2"));
    program_result_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantises_and_runs),
        cmocka_unit_test(refuses),
        cmocka_unit_test(makes_up_a_shape),
    };
    folder = folder_make();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    folder_remove(folder);
    return failed;
}
