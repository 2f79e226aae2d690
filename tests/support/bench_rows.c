// SPDX-License-Identifier: MIT
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/bench_rows.h"
#include "tests/support/program.h"

size_t rows_of(const char *folder, json_t *rows[MOST_ROWS], const char *command,
               const char *const words[])
{
    const char *argv[32] = {WEFT_TEST_PROGRAM, command};
    int n = 2;
    for (; words[n - 2]; n++)
        argv[n] = words[n - 2];
    argv[n++] = "--json";
    argv[n++] = "--seconds";
    argv[n++] = "0.002";
    program_result result = program_run(folder, argv);
    if (result.status != 0 || *result.err)
        fail_msg("weft %s %s: exit status %d, error '%s'", command, words[0], result.status,
                 result.err);
    size_t count = 0;
    for (char *line = strtok(result.out, "\n"); line; line = strtok(NULL, "\n")) {
        assert_true(count < MOST_ROWS);
        json_error_t error;
        rows[count] = json_loads(line, 0, &error);
        if (!rows[count])
            fail_msg("no JSON object: %s: '%s'", error.text, line);
        count++;
    }
    program_result_free(&result);
    return count;
}

void release(json_t *rows[MOST_ROWS], size_t count)
{
    for (size_t i = 0; i < count; i++)
        json_decref(rows[i]);
}

void expect_keys(const json_t *row, const char *keys)
{
    char copy[512], *rest = copy;
    snprintf(copy, sizeof copy, "%s", keys);
    for (char *key; (key = strtok_r(rest, " ", &rest));)
        if (!json_object_get(row, key))
            fail_msg("a row of '%s' has no %s", json_string_value(json_object_get(row, "op")), key);
}

double number(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    if (!json_is_number(value))
        fail_msg("%s is no number", key);
    return json_number_value(value);
}

const char *text(const json_t *row, const char *key)
{
    const char *value = json_string_value(json_object_get(row, key));
    if (!value)
        fail_msg("%s is no text", key);
    return value;
}

void expect_figures(const json_t *row, const char *op)
{
    assert_string_equal(text(row, "op"), op);
    expect_keys(row, "device isa cold threads");
    double us = number(row, "us_median"), bytes = number(row, "bytes"),
           flops = number(row, "flops");
    assert_true(us > 0 && number(row, "us_min") <= us && bytes > 0 && flops > 0);
    double gbps = bytes / us * 1e-3, gflops = flops / us * 1e-3;
    assert_true(number(row, "gbps") > 0.999 * gbps && number(row, "gbps") < 1.001 * gbps);
    assert_true(number(row, "gflops") > 0.999 * gflops && number(row, "gflops") < 1.001 * gflops);
    double by_memory = gbps / number(row, "roof_gbps");
    double by_arithmetic = gflops / number(row, "roof_gflops");
    double nearer = by_memory > by_arithmetic ? by_memory : by_arithmetic;
    assert_true(number(row, "roof_fraction") > 0.999 * nearer);
    assert_true(number(row, "roof_fraction") < 1.001 * nearer);
}

bool runs_here(const char *folder, const char *kernel)
{
    const char *argv[] = {WEFT_TEST_PROGRAM, "info", "--kernels", "--json", NULL};
    char wanted[128];
    program_result result = program_run(folder, argv);
    snprintf(wanted, sizeof wanted, "\"kernel\":\"%s\"", kernel);
    const char *row = strstr(result.out, wanted);
    const char *usable = row ? strstr(row, "\"usable\":") : NULL;
    const bool runs = usable && strncmp(usable + strlen("\"usable\":"), "true", 4) == 0;
    program_result_free(&result);
    return runs;
}
