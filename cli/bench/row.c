// SPDX-License-Identifier: MIT
// Rows, as JSON or as a table.
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench/bench.h"

bench_kernel bench_kernel_named(const bench *run, const char *name)
{
    bench_kernel kernel = {.isa = ""};
    weft_kernel_info info;
    snprintf(kernel.name, sizeof kernel.name, "%s", name ? name : "");
    for (int32_t n = 0; weft_kernel_at(run->context, n, &info); n++)
        if (strcmp(info.name, kernel.name) == 0)
            kernel.isa = info.isa;
    return kernel;
}

bench_kernel bench_kernel_of(const bench *run, const weft_plan *plan)
{
    weft_plan_info decided = {.size = sizeof decided};
    return bench_kernel_named(run,
                              weft_plan_query(plan, &decided) == WEFT_OK ? decided.kernel : NULL);
}

float bench_value(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) * 0x1p-23f - 1;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

void bench_add_figures(json_t *row, const bench_time *time, double bytes, double flops,
                       double roof_gbps, double roof_gflops)
{
    double gbps = bytes / time->us_median * 1e-3, gflops = flops / time->us_median * 1e-3;
    json_t *figures =
        json_pack("{s:f, s:f, s:i, s:I, s:I, s:f, s:f}", "us_median", time->us_median, "us_min",
                  time->us_min, "runs", time->runs, "bytes", (json_int_t)bytes, "flops",
                  (json_int_t)flops, "gbps", gbps, "gflops", gflops);
    json_object_update(row, figures);
    json_decref(figures);
    if (roof_gflops <= 0)
        return;
    double share = larger(gbps / roof_gbps, gflops / roof_gflops);
    json_t *roofs = json_pack("{s:f, s:f, s:f, s:f}", "roof_gbps", roof_gbps, "roof_gflops",
                              roof_gflops, "roof_fraction", share, "roof_fraction_best",
                              share * time->us_median / time->us_min);
    json_object_update(row, roofs);
    json_decref(roofs);
}

static void print_cell(const json_t *value, const bench_column *column)
{
    if (json_is_real(value))
        printf("%*.*f", column->width, column->digits,
               json_real_value(value) * (column->scale > 0 ? column->scale : 1));
    else if (json_is_integer(value))
        printf("%*" JSON_INTEGER_FORMAT, column->width, json_integer_value(value));
    else
        printf("%*s", column->width, json_is_string(value) ? json_string_value(value) : "-");
}

bool bench_print(bench *run, json_t *row, const bench_column *columns)
{
    bench_progress(run, NULL);
    if (!row) {
        cli_failed(run->self, "out of memory");
        return false;
    }
    if (run->baseline)
        bench_add_baseline(run, row);
    if (run->json) {
        json_dumpf(row, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
        putchar('\n');
    } else {
        for (const bench_column *column = columns; column->key && run->rows_printed == 0; column++)
            printf("%*s%s", column->width, column->heading,
                   column[1].key   ? "  "
                   : run->baseline ? "  speed-up\n"
                                   : "\n");
        for (const bench_column *column = columns; column->key; column++) {
            print_cell(json_object_get(row, column->key), column);
            fputs(column[1].key || run->baseline ? "  " : "\n", stdout);
        }
        if (run->baseline) {
            print_cell(json_object_get(row, "speed_up"), &(bench_column){"", "", 8, 2, 0});
            putchar('\n');
        }
    }
    run->rows_printed++;
    json_decref(row);
    if (fflush(stdout) == 0)
        return true;
    cli_failed(run->self, "standard output cannot be written");
    return false;
}

void bench_progress(bench *run, const char *format, ...)
{
    va_list arguments;
    if (!isatty(STDERR_FILENO) || (!format && !run->progress_shown))
        return;
    fputs("\r\033[K", stderr);
    run->progress_shown = format != NULL;
    if (format) {
        va_start(arguments, format);
        vfprintf(stderr, format, arguments);
        va_end(arguments);
    }
    fflush(stderr);
}
