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
    const char *weights; // as a file has them
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
    bench *run = &p->wish->run;
    float *values = malloc(x_elems * sizeof *values);
    float *x = bench_allocate(run, x_elems * sizeof *x);
    float *y = bench_allocate(run, y_elems * sizeof *y);
    size_t workspace_bytes = weft_plan_workspace_bytes(p->plan);
    void *workspace = bench_allocate(run, workspace_bytes + 64);
    p->args = (weft_linear_args){.size = sizeof p->args,
                                 .batch = p->batch,
                                 .x = x,
                                 .y = y,
                                 .workspace = workspace,
                                 .workspace_bytes = workspace_bytes};
    for (size_t i = 0; values && i < x_elems; i++)
        values[i] = bench_value(&state);
    bool fine =
        values && x && y && workspace && bench_put(run, x, values, (int64_t)(x_elems * sizeof *x));
    if (!values)
        cli_failed(run->self, "no memory for %d rows of activations", p->batch);
    free(values);
    return fine;
}

// W on the host: some rows of real values, repeated.
static char *make_weights(const request *wish, weft_dtype format)
{
    enum { DISTINCT = 16 };
    int64_t row_bytes = weft_dtype_row_bytes(format, wish->cols);
    int64_t bytes = wish->rows * row_bytes, used = 0;
    int32_t distinct = wish->rows < DISTINCT ? wish->rows : DISTINCT;
    uint32_t state = 7;
    if (!bench_fits(&wish->run, (double)bytes + (double)wish->cols * sizeof(float)))
        return NULL;
    float *values = malloc((size_t)wish->cols * sizeof *values);
    char *weights = malloc((size_t)bytes);
    if (!values || !weights) {
        free(values);
        free(weights);
        cli_failed(wish->run.self, "no memory for %lld bytes of weights", (long long)bytes);
        return NULL;
    }
    for (int32_t row = 0; row < distinct; row++, used += row_bytes) {
        for (int32_t col = 0; col < wish->cols; col++)
            values[col] = bench_value(&state);
        weft_quantize_row(format, values, wish->cols, weights + used);
    }
    free(values);
    while (used < bytes) {
        int64_t part = used < bytes - used ? used : bytes - used;
        memcpy(weights + used, weights, (size_t)part);
        used += part;
    }
    return weights;
}

// All copies of W, packed as the plan's device reads them.
static bool fill_weights(problem *p)
{
    request *wish = p->wish;
    const weft_linear_pack_args pack = {
        .size = sizeof pack, .weight = p->weights, .packed = wish->run.memory};
    bench_progress(&wish->run, "writing weights");
    bool fine = weft_linear_pack(p->plan, &pack) == WEFT_OK || bench_error(&wish->run);
    for (int64_t copy = 1; fine && copy < p->copies; copy++)
        fine = bench_put(&wish->run, (char *)wish->run.memory + copy * p->stride_bytes,
                         wish->run.memory, p->weight_bytes);
    return fine;
}

static bool run_once(void *user)
{
    problem *p = user;
    p->args.packed =
        p->wish->run.memory + bench_next_copy(&p->wish->run, p->stride_bytes) * p->stride_bytes;
    return weft_linear_run(p->plan, &p->args) == WEFT_OK;
}

// Kernels that round activations name them: linear_<format>_q8_<isa>.
static bench_products products_of(const bench_kernel *kernel, weft_dtype format)
{
    size_t skip = strlen("linear_") + strlen(weft_dtype_name(format));
    const char *acts = strlen(kernel->name) > skip ? kernel->name + skip : "";
    if (strncmp(acts, "_bf16_", 6) == 0)
        return BENCH_BF16;
    return strncmp(acts, "_q8_", 4) == 0 ? BENCH_INT8 : BENCH_F32;
}

static bool print_row(problem *p, const bench_time *time, const bench_roof *roof)
{
    request *wish = p->wish;
    bench_kernel kernel = bench_kernel_of(&wish->run, p->plan);
    double activations = (double)p->batch * ((double)wish->rows + wish->cols) * sizeof(float);
    double flops = 2.0 * p->batch * wish->rows * wish->cols;
    json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:b, s:i, s:I}",
                            "op", "linear", "device", bench_device_name(&wish->run), "isa",
                            kernel.isa, "variant", kernel.name, "plan", weft_plan_describe(p->plan),
                            "format", weft_dtype_name(p->format), "rows", wish->rows, "cols",
                            wish->cols, "batch", p->batch, "exact", wish->exact, "cold",
                            !wish->run.hot, "threads", weft_context_threads(wish->run.context),
                            "working_set_bytes", (json_int_t)(p->copies * p->stride_bytes));
    if (row)
        bench_add_figures(row, time, (double)p->weight_bytes + activations, flops, roof->gbps,
                          bench_roof_gflops(&wish->run, roof, products_of(&kernel, p->format)));
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
    p->weight_bytes = (int64_t)weft_linear_packed_bytes(p->plan, 0);
    if (!bench_reserve(&wish->run, bench_working_set(&wish->run, p->weight_bytes)))
        return false;
    p->copies = bench_copies(&wish->run, p->weight_bytes, &p->stride_bytes);
    return fill_weights(p) && set_activations(p) &&
           bench_measure_under(&wish->run, weft_plan_describe(p->plan), run_once, p, &time,
                               &roof) &&
           print_row(p, &time, &roof);
}

static bool measure_format(request *wish, weft_dtype format)
{
    char *weights = make_weights(wish, format);
    bool fine = weights != NULL;
    for (int32_t i = 0; fine && i < wish->batches.count; i++) {
        problem p = {
            .wish = wish, .weights = weights, .format = format, .batch = wish->batches.values[i]};
        fine = measure_batch(&p);
        weft_plan_destroy(p.plan);
        weft_memory_free(wish->run.context, (void *)p.args.x);
        weft_memory_free(wish->run.context, p.args.y);
        weft_memory_free(wish->run.context, p.args.workspace);
    }
    free(weights);
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
