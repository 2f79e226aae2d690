// SPDX-License-Identifier: MIT
// --bench: the benchmarks of the program weft, kernel by kernel.
#include "tools/weft-check/bench.h"

#include <stdio.h>

#include "cli/cli.h"
#include "src/kernels/attention/attention_kernel.h"
#include "src/kernels/linear/linear_kernel.h"

extern const cli_command bench_linear, bench_attention;

enum { MOST_WORDS = 24 };

// A command line being made.
typedef struct words {
    const char *argv[MOST_WORDS];
    int count;
} words;

static void add(words *line, const char *word)
{
    line->argv[line->count++] = word;
}

static int run(const cli_command *bench, words *line, const struct weft__kernel *row, bool json)
{
    const char *const common[] = {"--variant", row->name, "--seconds", "0.5"};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        add(line, common[i]);
    if (json)
        add(line, "--json");
    optind = 0; // getopt_long begins anew
    return bench->run(bench, line->count, (char **)line->argv);
}

static int bench_linear_kernel(const struct weft__kernel *row, bool json)
{
    const struct weft__linear_kernel *kernel = (const void *)row;
    const char *batch = kernel->min_batch == 1 ? "1,4" : "8,128";
    words line = {{"linear", "--batch", batch, "--format"}, 4};
    add(&line, weft_dtype_name(kernel->weight));
    if (kernel->acts == WEFT__ACTS_f32)
        add(&line, "--exact");
    return run(&bench_linear, &line, row, json);
}

static int bench_attention_kernel(const struct weft__kernel *row, bool json)
{
    const struct weft__attention_kernel *kernel = (const void *)row;
    words line = {{"attention", "--kv-len", "4096", "--heads", "32", "--kv-heads", "8",
                   "--head-dim", "128", "--kv-dtype"},
                  10};
    add(&line, weft_dtype_name(kernel->kv));
    return run(&bench_attention, &line, row, json);
}

int check_bench(const struct weft__kernel *row, bool json)
{
    if (strcmp(row->op, "linear") == 0)
        return bench_linear_kernel(row, json);
    if (strcmp(row->op, "attention") == 0)
        return bench_attention_kernel(row, json);
    return CLI_DONE;
}
