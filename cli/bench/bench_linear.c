// SPDX-License-Identifier: MIT
// weft bench linear: Y = X W^T against the memory and the arithmetic of the device.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench_linear.h"

static const char help[] =
    "usage: weft bench linear [options]\n"
    "\n"
    "Measures Y = X W^T: W has ROWS x COLS weights of a format, X has BATCH rows. With one row\n"
    "the time is that of reading W once; with many it is that of the arithmetic.\n"
    "\n"
    "  --format F,...      formats of W, or all (default q4_0)\n"
    "  --rows N            outputs (default 4096)\n"
    "  --cols K            inputs, a whole number of blocks (default 14336)\n"
    "  --batch M,...       rows of X (default 1)\n"
    "  --in-place          W lies as in a file; the default is what a loaded model reads: laid\n"
    "                      out anew (packed) where that is faster\n"
    "  --exact             activations stay f32 against quantised weights\n"
    "  --ablate            the best way beside ways that lack one of its choices, in turns: what\n"
    "                      each is worth\n"
    "  --gate              an MLP with W as its down-projection, gate and up beside it: SiLU "
    "behind\n"
    "                      their product, as W's rows of X are loaded, or apart "
    "(CPU)\n" BENCH_COLD_HELP BENCH_HELP "\n"
    "Columns: bytes laid out per second at the start, the best of the runs and their median,\n"
    "bytes moved (weights, X and Y once) and operations per second by the median, and the share\n"
    "of the nearer roof, by the median and by the best run. Roofs are the best readings before\n"
    "and after.\n"
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
    {"pack_gbps", "pack GB/s", 9, 1, 0},
    {"us_median", "us median", 10, 1, 0},
    {"us_min", "us min", 10, 1, 0},
    BENCH_FIGURES,
    {0},
};

static const bench_option options[] = {
    {"format", BENCH_FORMATS, .offset = offsetof(linear_request, formats)},
    {"rows", BENCH_INT, .offset = offsetof(linear_request, rows), .low = 1, .high = 1 << 28},
    {"cols", BENCH_INT, .offset = offsetof(linear_request, cols), .low = 1, .high = 1 << 28},
    {"batch", BENCH_LIST, .offset = offsetof(linear_request, batches), .low = 1, .high = 65536},
    {"exact", BENCH_FLAG, .offset = offsetof(linear_request, exact)},
    {"in-place", BENCH_FLAG, .offset = offsetof(linear_request, in_place)},
    {"ablate", BENCH_FLAG, .offset = offsetof(linear_request, ablate)},
    {"gate", BENCH_FLAG, .offset = offsetof(linear_request, gate)},
    {0},
};

static int parse(linear_request *wish, int argc, char **argv)
{
    const cli_command *self = wish->run.self;
    int status = bench_parse(&wish->run, options, argc, argv);
    if (status >= 0)
        return status;
    for (int32_t i = 0; i < wish->formats.count; i++) {
        if (wish->gate && wish->rows % weft_dtype_block_elems(wish->formats.values[i]) != 0)
            return cli_bad_usage(self, "--rows %d is no whole number of %s blocks of %d",
                                 wish->rows, weft_dtype_name(wish->formats.values[i]),
                                 weft_dtype_block_elems(wish->formats.values[i]));
        if (wish->cols % weft_dtype_block_elems(wish->formats.values[i]) != 0)
            return cli_bad_usage(self, "--cols %d is no whole number of %s blocks of %d",
                                 wish->cols, weft_dtype_name(wish->formats.values[i]),
                                 weft_dtype_block_elems(wish->formats.values[i]));
    }
    return -1;
}

// Kernels that round activations name them: linear_<format>_q8_<isa>.
bench_products linear_products(const bench_kernel *kernel, weft_dtype format)
{
    size_t skip = strlen("linear_") + strlen(weft_dtype_name(format));
    const char *acts = strlen(kernel->name) > skip ? kernel->name + skip : "";
    if (strncmp(acts, "_bf16_", 6) == 0)
        return BENCH_BF16;
    return strncmp(acts, "_q8_", 4) == 0 ? BENCH_INT8 : BENCH_F32;
}

static bool print_row(linear_problem *p, const bench_time *time, const bench_roof *roof)
{
    linear_request *wish = p->wish;
    bench_kernel kernel = linear_kernel_of(p);
    double activations = (double)p->batch * ((double)wish->rows + wish->cols) * sizeof(float);
    double flops = 2.0 * p->batch * wish->rows * wish->cols;
    json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:b, s:i, s:I}",
                            "op", "linear", "device", bench_device_name(&wish->run), "isa",
                            kernel.isa, "variant", kernel.name, "plan", weft_plan_describe(p->plan),
                            "format", weft_dtype_name(p->format), "rows", wish->rows, "cols",
                            wish->cols, "batch", p->batch, "exact", wish->exact, "cold",
                            !wish->run.hot, "threads", weft_context_threads(wish->run.context),
                            "working_set_bytes", (json_int_t)(p->copies * p->stride_bytes));
    if (row && p->pack_seconds > 0 && weft_linear_packed_layout(p->plan, 0))
        json_object_set_new(row, "pack_gbps",
                            json_real((double)p->weight_bytes / p->pack_seconds * 1e-9));
    if (row)
        bench_add_figures(row, time, (double)p->read_bytes + activations, flops, roof->gbps,
                          bench_roof_gflops(&wish->run, roof, linear_products(&kernel, p->format)));
    return bench_print(&wish->run, row, columns);
}

static bool measure_batch(linear_problem *p)
{
    linear_request *wish = p->wish;
    bench_time time;
    bench_roof roof;
    return linear_make_ready(p) &&
           bench_measure_under(&wish->run, weft_plan_describe(p->plan), linear_run_once, p, &time,
                               &roof) &&
           print_row(p, &time, &roof);
}

static bool measure_format(linear_request *wish, weft_dtype format)
{
    char *weights = linear_make_weights(wish, format);
    bool fine = weights != NULL;
    for (int32_t i = 0; fine && i < wish->batches.count; i++) {
        if (wish->ablate || wish->gate) {
            fine = (wish->gate ? linear_gate : linear_ablate)(wish, weights, format,
                                                              wish->batches.values[i]);
            continue;
        }
        linear_problem p = {
            .wish = wish, .weights = weights, .format = format, .batch = wish->batches.values[i]};
        fine = measure_batch(&p);
        linear_drop(&p);
    }
    free(weights);
    return fine;
}

static int linear_main(const cli_command *self, int argc, char **argv)
{
    linear_request wish = {.run = bench_default(self),
                           .formats = {{WEFT_Q4_0}, 1},
                           .batches = {{1}, 1},
                           .rows = 4096,
                           .cols = 14336};
    int status = parse(&wish, argc, argv);
    if (status >= 0)
        return status;
    if (wish.ablate && (wish.run.variant || wish.in_place))
        return cli_bad_usage(self, "--ablate does not go with --variant and --in-place");
    if (wish.gate && (wish.run.variant || wish.in_place || wish.exact || wish.ablate))
        return cli_bad_usage(self,
                             "--gate goes with none of --variant, --in-place, --exact, --ablate");
    if (wish.gate && wish.run.options.device != WEFT_DEVICE_CPU)
        return cli_bad_usage(self,
                             "--gate measures a CPU: others apply it behind the product alone");
    bool fine = bench_begin(&wish.run);
    for (int32_t i = 0; fine && i < wish.formats.count; i++)
        fine = measure_format(&wish, wish.formats.values[i]);
    bench_end(&wish.run);
    return fine ? CLI_DONE : CLI_FAILED;
}

const cli_command bench_linear = {"bench linear", "linear layers", {help}, linear_main};
