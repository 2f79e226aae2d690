// SPDX-License-Identifier: MIT
// weft bench softmax and softcap: rows of numbers in place, against the memory and the arithmetic.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

#define ROWS_HELP                                                                                  \
    "  --rows N,...        rows (default 1)\n"                                                     \
    "  --cols K,...        elements of a row (default 128256, a vocabulary)\n"                     \
    "  --dtype D           f32 (default), f16 or bf16\n"

static const char softmax_help[] =
    "usage: weft bench softmax [options]\n"
    "\n"
    "Measures the softmax of rows, in place: every number is read and written once, and counts\n"
    "as four operations.\n"
    "\n" ROWS_HELP BENCH_COLD_HELP BENCH_HELP "\n"
    "Examples:\n"
    "  weft bench softmax\n"
    "  weft bench softmax --rows 32 --cols 4096 --dtype f16 --hot\n";

static const char softcap_help[] =
    "usage: weft bench softcap [options]\n"
    "\n"
    "Measures cap tanh(x / cap) of rows, in place: every number is read and written once, and\n"
    "counts as four operations.\n"
    "\n" ROWS_HELP "  --cap C             default 30\n" BENCH_COLD_HELP BENCH_HELP "\n"
    "Examples:\n"
    "  weft bench softcap\n"
    "  weft bench softcap --rows 32 --cols 4096 --dtype f16 --hot\n";

static const bench_column columns[] = {
    {"op", "op", -8, 0, 0},
    {"dtype", "dtype", -5, 0, 0},
    {"rows", "rows", 6, 0, 0},
    {"cols", "cols", 7, 0, 0},
    {"variant", "kernel", -30, 0, 0},
    {"us_median", "us median", 10, 1, 0},
    {"us_min", "us min", 10, 1, 0},
    {"gbps", "GB/s", 7, 1, 0},
    {"gflops", "GFLOP/s", 8, 1, 0},
    {"roof_gbps", "roof", 7, 1, 0},
    {"roof_fraction", "% roof", 6, 1, 100},
    {0},
};

typedef struct request {
    bench run;
    bench_list rows, cols;
    weft_dtype dtype;
    int32_t cap;
    bool softcap;
} request;

static const bench_option options[] = {
    {"rows", BENCH_LIST, .offset = offsetof(request, rows), .low = 1, .high = 1 << 24},
    {"cols", BENCH_LIST, .offset = offsetof(request, cols), .low = 1, .high = 1 << 28},
    {"dtype", BENCH_DTYPE, .offset = offsetof(request, dtype)},
    {0},
};

static const bench_option softcap_options[] = {
    {"rows", BENCH_LIST, .offset = offsetof(request, rows), .low = 1, .high = 1 << 24},
    {"cols", BENCH_LIST, .offset = offsetof(request, cols), .low = 1, .high = 1 << 28},
    {"dtype", BENCH_DTYPE, .offset = offsetof(request, dtype)},
    {"cap", BENCH_INT, .offset = offsetof(request, cap), .low = 1, .high = 1 << 20},
    {0},
};

// One row of the result.
typedef struct problem {
    request *wish;
    int32_t rows, cols;
    int64_t bytes, stride_bytes;
    weft_plan *plan;
} problem;

static bool run_once(void *user)
{
    problem *p = user;
    bench *run = &p->wish->run;
    void *x = run->memory + bench_next_copy(run, p->stride_bytes) * p->stride_bytes;
    if (!p->wish->softcap)
        return weft_softmax_run(p->plan, &(weft_softmax_args){.size = sizeof(weft_softmax_args),
                                                              .rows = p->rows,
                                                              .x = x}) == WEFT_OK;
    return weft_activation_run(p->plan,
                               &(weft_activation_args){.size = sizeof(weft_activation_args),
                                                       .rows = p->rows,
                                                       .x = x,
                                                       .y = x}) == WEFT_OK;
}

static bool make_plan(problem *p)
{
    request *wish = p->wish;
    const weft_softmax_desc softmax = {.size = sizeof softmax,
                                       .dim = p->cols,
                                       .max_rows = p->rows,
                                       .dtype = wish->dtype,
                                       .variant = wish->run.variant};
    const weft_activation_desc softcap = {.size = sizeof softcap,
                                          .kind = WEFT_ACTIVATION_SOFTCAP,
                                          .cap = (float)wish->cap,
                                          .dim = p->cols,
                                          .max_rows = p->rows,
                                          .x_dtype = wish->dtype,
                                          .y_dtype = wish->dtype,
                                          .variant = wish->run.variant};
    weft_status status = wish->softcap ? weft_activation_plan(wish->run.context, &softcap, &p->plan)
                                       : weft_softmax_plan(wish->run.context, &softmax, &p->plan);
    return status == WEFT_OK || bench_error(&wish->run);
}

// Numbers in [-1, 1), the same pattern over the whole memory.
static bool fill(problem *p)
{
    enum { PATTERN = 1 << 14 };
    static float values[PATTERN];
    static char narrow[PATTERN * sizeof(float)];
    bench *run = &p->wish->run;
    uint32_t state = 9;
    for (int32_t i = 0; i < PATTERN; i++)
        values[i] = bench_value(&state);
    if (weft_quantize_row(p->wish->dtype, values, PATTERN, narrow) != WEFT_OK)
        return cli_failed(run->self, "no numbers in %s", weft_dtype_name(p->wish->dtype)), false;
    int64_t pattern = weft_dtype_row_bytes(p->wish->dtype, PATTERN);
    bool fine = true;
    for (int64_t at = 0; fine && at < run->memory_bytes; at += pattern) {
        int64_t left = run->memory_bytes - at;
        fine = bench_put(run, run->memory + at, narrow, left < pattern ? left : pattern);
    }
    return fine;
}

static bool print_row(problem *p, const bench_time *time, const bench_roof *roof)
{
    request *wish = p->wish;
    bench_kernel kernel = bench_kernel_of(&wish->run, p->plan);
    json_t *row =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:b, s:i}", "op",
                  wish->softcap ? "softcap" : "softmax", "device", bench_device_name(&wish->run),
                  "isa", kernel.isa, "variant", kernel.name, "plan", weft_plan_describe(p->plan),
                  "dtype", weft_dtype_name(wish->dtype), "rows", p->rows, "cols", p->cols, "cold",
                  !wish->run.hot, "threads", weft_context_threads(wish->run.context));
    if (row)
        bench_add_figures(row, time, 2.0 * (double)p->bytes, 4.0 * p->rows * p->cols, roof->gbps,
                          bench_roof_gflops(&wish->run, roof, BENCH_F32));
    return bench_print(&wish->run, row, columns);
}

static bool measure(request *wish, int32_t rows, int32_t cols)
{
    problem p = {.wish = wish, .rows = rows, .cols = cols};
    bench_time time;
    bench_roof roof;
    p.bytes = weft_dtype_row_bytes(wish->dtype, cols) * rows;
    bool fine = make_plan(&p) && bench_reserve(&wish->run, bench_working_set(&wish->run, p.bytes));
    if (fine)
        bench_copies(&wish->run, p.bytes, &p.stride_bytes);
    fine =
        fine && fill(&p) &&
        bench_measure_under(&wish->run, weft_plan_describe(p.plan), run_once, &p, &time, &roof) &&
        print_row(&p, &time, &roof);
    weft_plan_destroy(p.plan);
    return fine;
}

static int rows_main(const cli_command *self, int argc, char **argv, bool softcap)
{
    request wish = {.run = bench_default(self),
                    .rows = {{1}, 1},
                    .cols = {{128256}, 1},
                    .dtype = WEFT_F32,
                    .cap = 30,
                    .softcap = softcap};
    int status = bench_parse(&wish.run, softcap ? softcap_options : options, argc, argv);
    if (status >= 0)
        return status;
    if (wish.dtype != WEFT_F32 && wish.dtype != WEFT_F16 && wish.dtype != WEFT_BF16)
        return cli_bad_usage(self, "--dtype must be f32, f16 or bf16");
    bool fine = bench_begin(&wish.run);
    for (int32_t r = 0; fine && r < wish.rows.count; r++)
        for (int32_t c = 0; fine && c < wish.cols.count; c++)
            fine = measure(&wish, wish.rows.values[r], wish.cols.values[c]);
    bench_end(&wish.run);
    return fine ? CLI_DONE : CLI_FAILED;
}

static int softmax_main(const cli_command *self, int argc, char **argv)
{
    return rows_main(self, argc, argv, false);
}

static int softcap_main(const cli_command *self, int argc, char **argv)
{
    return rows_main(self, argc, argv, true);
}

const cli_command bench_softmax = {
    "bench softmax", "softmax of rows", {softmax_help}, softmax_main};
const cli_command bench_softcap = {
    "bench softcap", "soft-cap of rows", {softcap_help}, softcap_main};
