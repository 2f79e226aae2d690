// SPDX-License-Identifier: MIT
// weft bench device: the ceilings that everything else is held against.
#include <string.h>

#include "cli/bench/bench.h"

static const char help[] =
    "usage: weft bench device [options]\n"
    "\n"
    "Measures what this device can do at most, with every instruction set that it has: reading\n"
    "memory (a working set beyond its caches), f32 multiply-adds, int8 and bf16 dot products in\n"
    "registers. A multiply-add counts as two operations.\n"
    "\n"
    "  --hot               read a working set that caches hold; set its size with --working-set\n"
    "  --variant V         only this kernel (weft info --kernels)\n" BENCH_HELP "\n"
    "Examples:\n"
    "  weft bench device\n"
    "  weft bench device --threads 1 --json\n"
    "  weft bench device --hot --working-set 1     the cache instead of the memory\n";

static const bench_column columns[] = {
    {"variant", "kernel", -22, 0, 0}, {"isa", "isa", -11, 0, 0},
    {"threads", "threads", 7, 0, 0},  {"us_median", "us median", 10, 1, 0},
    {"us_min", "us min", 10, 1, 0},   {"gbps", "GB/s", 7, 1, 0},
    {"gbps_best", "best", 7, 1, 0},   {"gflops", "Gop/s", 9, 1, 0},
    {"gflops_best", "best", 9, 1, 0}, {0},
};

// "probe_read_avx2" -> READ; the names are those of the library's kernel table.
static weft_probe_kind kind_of(const char *kernel)
{
    if (strstr(kernel, "_read_"))
        return WEFT_PROBE_READ;
    if (strstr(kernel, "_bf16_"))
        return WEFT_PROBE_DOT_BF16;
    if (strstr(kernel, "_mma_"))
        return WEFT_PROBE_MMA_F16;
    return strstr(kernel, "_fma_") ? WEFT_PROBE_FMA_F32 : WEFT_PROBE_DOT_I8;
}

static bool measure(bench *run, const weft_kernel_info *kernel)
{
    static const char *const what[] = {"read", "f32 multiply-add", "int8 dot product",
                                       "f16 matrix product", "bf16 dot product"};
    weft_probe_kind kind = kind_of(kernel->name);
    bench_time time = {0};
    double amount = 0;
    bench_progress(run, "measuring %s", kernel->name);
    if (!bench_probe(run, kind, kernel->name, run->seconds, &time, &amount))
        return false;
    bool reads = kind == WEFT_PROBE_READ;
    json_t *row =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:b, s:I}", "op", "device", "device",
                  bench_device_name(run), "what", what[kind], "isa", kernel->isa, "variant",
                  kernel->name, "threads", weft_context_threads(run->context), "cold", !run->hot,
                  "working_set_bytes", (json_int_t)(reads ? run->memory_bytes : 0));
    if (row) {
        bench_add_figures(row, &time, reads ? amount : 0, reads ? 0 : amount, 0, 0);
        json_object_set_new(row, reads ? "gbps_best" : "gflops_best",
                            json_real(amount / time.us_min * 1e-3));
        json_object_del(row, reads ? "gflops" : "gbps");
    }
    return bench_print(run, row, columns);
}

static int execute(bench *run)
{
    weft_kernel_info kernel;
    if (!bench_begin(run))
        return CLI_FAILED;
    bool hot = run->hot && run->working_set_mib;
    int64_t bytes = hot ? (int64_t)run->working_set_mib << 20 : bench_working_set(run, 1 << 20);
    if (!bench_reserve(run, bytes))
        return CLI_FAILED;
    for (int32_t n = 0; weft_kernel_at(run->context, n, &kernel); n++)
        if (strcmp(kernel.op, "probe") == 0 && kernel.usable &&
            (!run->variant || strcmp(kernel.name, run->variant) == 0) && !measure(run, &kernel))
            return CLI_FAILED;
    if (run->rows_printed == 0)
        return cli_failed(run->self,
                          "no probe kernel '%s' runs here: weft info --kernels lists them",
                          run->variant);
    return CLI_DONE;
}

static int device_main(const cli_command *self, int argc, char **argv)
{
    static const bench_option none[] = {{0}};
    bench run = bench_default(self);
    int status = bench_parse(&run, none, argc, argv);
    if (status >= 0)
        return status;
    status = execute(&run);
    bench_end(&run);
    return status;
}

const cli_command bench_device = {"bench device", "the device's ceilings", {help}, device_main};
