// SPDX-License-Identifier: MIT
// weft bench linear: Y = X W^T against the memory and the arithmetic of the device.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

static const char help[] =
    "usage: weft bench linear [options]\n"
    "\n"
    "Measures Y = X W^T: W has ROWS x COLS weights of a format, X has BATCH rows. With one row "
    "the\n"
    "time is that of reading W once; with many it is that of the arithmetic.\n"
    "\n"
    "  --format F,...      formats of W, or all (default q4_0)\n"
    "  --rows N            outputs (default 4096)\n"
    "  --cols K            inputs, a whole number of blocks (default 14336)\n"
    "  --batch M,...       rows of X (default 1)\n"
    "  --exact             activations stay f32 against quantised weights\n" BENCH_COLD_HELP
        BENCH_HELP "\n"
    "Columns: the best of the runs and their median, bytes moved (weights, X and Y once) and\n"
    "operations per second by the median, and the share of the nearer roof, by the median and by "
    "the\n"
    "best run. Roofs are the best readings before and after.\n"
    "\n"
    "Examples:\n"
    "  weft bench linear --format q4_0,q8_0,f16,bf16 --batch 1\n"
    "  weft bench linear --format q4_k --rows 4096 --cols 4096 --batch 1,2,4,8,16 --json\n"
    "  weft bench linear --format q4_0 --variant linear_q4_0_q8_ref\n";

static const bench_column columns[] = {
    {"format", "format", -12, 0, 0},
    {"rows", "rows", 6, 0, 0},
    {"cols", "cols", 6, 0, 0},
    {"batch", "batch", 5, 0, 0},
    {"variant", "kernel", -36, 0, 0},
    {"us_median", "us median", 10, 1, 0},
    {"us_min", "us min", 10, 1, 0},
    {"gbps", "GB/s", 7, 1, 0},
    {"gflops", "GFLOP/s", 8, 1, 0},
    {"roof_gbps", "roof", 7, 1, 0},
    {"roof_gflops", "roof", 8, 1, 0},
    {"roof_fraction", "% roof", 6, 1, 100},
    {"roof_fraction_best", "best", 6, 1, 100},
    {0},
};

typedef struct request {
    bench run;
    bench_formats formats;
    bench_list batches;
    int32_t rows, cols;
    bool exact;
} request;

static const bench_option options[] = {
    {"format", BENCH_FORMATS, .offset = offsetof(request, formats)},
    {"rows", BENCH_INT, .offset = offsetof(request, rows), .low = 1, .high = 1 << 28},
    {"cols", BENCH_INT, .offset = offsetof(request, cols), .low = 1, .high = 1 << 28},
    {"batch", BENCH_LIST, .offset = offsetof(request, batches), .low = 1, .high = 65536},
    {"exact", BENCH_FLAG, .offset = offsetof(request, exact)},
    {0},
};

// One row of the result.
typedef struct problem {
    request *wish;
    weft_dtype format;
    int32_t batch, copies;
    int64_t weight_bytes, stride_bytes;
    weft_plan *plan;
    weft_linear_args args;
} problem;

static int parse(request *wish, int argc, char **argv)
{
    const cli_command *self = wish->run.self;
    int status = bench_parse(&wish->run, options, argc, argv);
    if (status >= 0)
        return status;
    for (int32_t i = 0; i < wish->formats.count; i++)
        if (wish->cols % weft_dtype_block_elems(wish->formats.values[i]) != 0)
            return cli_bad_usage(self, "--cols %d is no whole number of %s blocks of %d",
                                 wish->cols, weft_dtype_name(wish->formats.values[i]),
                                 weft_dtype_block_elems(wish->formats.values[i]));
    return -1;
}

static bool set_activations(problem *p)
{
    uint32_t state = 1;
    size_t x_elems = (size_t)p->batch * (size_t)p->wish->cols;
    size_t y_elems = (size_t)p->batch * (size_t)p->wish->rows;
    if (!bench_fits(&p->wish->run, ((double)x_elems + (double)y_elems) * sizeof(float)))
        return false;
    float *x = malloc(x_elems * sizeof *x), *y = malloc(y_elems * sizeof *y);
    size_t workspace_bytes = weft_plan_workspace_bytes(p->plan);
    void *workspace = aligned_alloc(64, (workspace_bytes + 64) / 64 * 64);
    p->args = (weft_linear_args){.size = sizeof p->args,
                                 .batch = p->batch,
                                 .x = x,
                                 .y = y,
                                 .workspace = workspace,
                                 .workspace_bytes = workspace_bytes};
    if (!x || !y || !workspace) {
        cli_failed(p->wish->run.self, "no memory for %d rows of activations", p->batch);
        return false;
    }
    for (size_t i = 0; i < x_elems; i++)
        x[i] = bench_value(&state);
    return true;
}

// Some rows of real values, repeated over all copies of W.
static bool fill_weights(request *wish, weft_dtype format, int64_t copies, int64_t stride_bytes)
{
    enum { DISTINCT = 16 };
    int64_t row_bytes = weft_dtype_row_bytes(format, wish->cols), used = 0;
    int32_t distinct = wish->rows < DISTINCT ? wish->rows : DISTINCT;
    uint32_t state = 7;
    float *values = malloc((size_t)wish->cols * sizeof *values);
    if (!values) {
        cli_failed(wish->run.self, "no memory for a row of weights");
        return false;
    }
    bench_progress(&wish->run, "writing weights");
    char *first = wish->run.memory;
    for (int32_t row = 0; row < distinct; row++) {
        for (int32_t col = 0; col < wish->cols; col++)
            values[col] = bench_value(&state);
        weft_quantize_row(format, values, wish->cols, first + row * row_bytes);
    }
    free(values);
    int64_t weight_bytes = wish->rows * row_bytes;
    for (used = distinct * row_bytes; used < weight_bytes;) {
        int64_t part = used < weight_bytes - used ? used : weight_bytes - used;
        memcpy(first + used, first, (size_t)part);
        used += part;
    }
    for (int64_t copy = 1; copy < copies; copy++)
        memcpy(first + copy * stride_bytes, first, (size_t)weight_bytes);
    return true;
}

static bool run_once(void *user)
{
    problem *p = user;
    p->args.weight =
        p->wish->run.memory + bench_next_copy(&p->wish->run, p->stride_bytes) * p->stride_bytes;
    return weft_linear_run(p->plan, &p->args) == WEFT_OK;
}

// Kernels that round activations name them: linear_<format>_q8_<isa>.
static bool uses_dots(const bench_kernel *kernel, weft_dtype format)
{
    size_t skip = strlen("linear_") + strlen(weft_dtype_name(format));
    return strlen(kernel->name) > skip && strncmp(kernel->name + skip, "_q8_", 4) == 0;
}

static bool print_row(problem *p, const bench_time *time, const bench_roof *roof)
{
    request *wish = p->wish;
    bench_kernel kernel = bench_kernel_of(&wish->run, weft_plan_describe(p->plan));
    double activations = (double)p->batch * ((double)wish->rows + wish->cols) * sizeof(float);
    double flops = 2.0 * p->batch * wish->rows * wish->cols;
    json_t *row =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:b, s:i, s:I}", "op",
                  "linear", "device", "cpu", "isa", kernel.isa, "variant", kernel.name, "plan",
                  weft_plan_describe(p->plan), "format", weft_dtype_name(p->format), "rows",
                  wish->rows, "cols", wish->cols, "batch", p->batch, "exact", wish->exact, "cold",
                  !wish->run.hot, "threads", weft_context_threads(wish->run.context),
                  "working_set_bytes", (json_int_t)(p->copies * p->stride_bytes));
    if (row)
        bench_add_figures(row, time, (double)p->weight_bytes + activations, flops, roof->gbps,
                          uses_dots(&kernel, p->format) ? roof->dot_gflops : roof->fma_gflops);
    return bench_print(&wish->run, row, columns);
}

static bool measure_batch(problem *p)
{
    request *wish = p->wish;
    weft_linear_desc desc = {.size = sizeof desc,
                             .flags = wish->exact ? WEFT_LINEAR_EXACT : 0,
                             .weight_dtype = p->format,
                             .max_batch = p->batch,
                             .rows = wish->rows,
                             .cols = wish->cols,
                             .variant = wish->run.variant};
    bench_time time;
    bench_roof roof;
    if (weft_linear_plan(wish->run.context, &desc, &p->plan) != WEFT_OK)
        return bench_error(&wish->run);
    return set_activations(p) &&
           bench_measure_under(&wish->run, weft_plan_describe(p->plan), run_once, p, &time,
                               &roof) &&
           print_row(p, &time, &roof);
}

static bool measure_format(request *wish, weft_dtype format)
{
    int64_t row_bytes = weft_dtype_row_bytes(format, wish->cols), stride_bytes;
    int64_t weight_bytes = wish->rows * row_bytes;
    if (!bench_reserve(&wish->run, bench_working_set(&wish->run, weight_bytes)))
        return false;
    int32_t copies = bench_copies(&wish->run, weight_bytes, &stride_bytes);
    bool fine = fill_weights(wish, format, copies, stride_bytes);
    for (int32_t i = 0; fine && i < wish->batches.count; i++) {
        problem p = {.wish = wish,
                     .format = format,
                     .batch = wish->batches.values[i],
                     .copies = copies,
                     .weight_bytes = weight_bytes,
                     .stride_bytes = stride_bytes};
        fine = measure_batch(&p);
        weft_plan_destroy(p.plan);
        free((void *)p.args.x);
        free(p.args.y);
        free(p.args.workspace);
    }
    return fine;
}

static int linear_main(const cli_command *self, int argc, char **argv)
{
    request wish = {.run = bench_default(self),
                    .formats = {{WEFT_Q4_0}, 1},
                    .batches = {{1}, 1},
                    .rows = 4096,
                    .cols = 14336};
    int status = parse(&wish, argc, argv);
    if (status >= 0)
        return status;
    bool fine = bench_begin(&wish.run);
    for (int32_t i = 0; fine && i < wish.formats.count; i++)
        fine = measure_format(&wish, wish.formats.values[i]);
    bench_end(&wish.run);
    return fine ? CLI_DONE : CLI_FAILED;
}

const cli_command bench_linear = {"bench linear", "linear layers", help, linear_main};
