// SPDX-License-Identifier: MIT
// weft bench: measures the device, and what the kernels make of it.
#include <string.h>

#include "cli/cli.h"

extern const cli_command bench_device, bench_linear, bench_attention, bench_softmax, bench_softcap,
    bench_model, bench_speculation;

static const cli_command *const benches[] = {&bench_device,     &bench_linear,  &bench_attention,
                                             &bench_softmax,    &bench_softcap, &bench_model,
                                             &bench_speculation};
enum { BENCH_COUNT = sizeof benches / sizeof *benches };

static const char help[] =
    "usage: weft bench device|linear|attention|softmax|softcap|model|speculation [options]\n"
    "\n"
    "  device      the ceilings: memory read, f32 multiply-adds, int8 dot products\n"
    "  linear      matrices of any format times one or more rows of activations\n"
    "  attention   queries over a paged KV cache\n"
    "  softmax     rows of scores\n"
    "  softcap     rows of logits\n"
    "  model       a whole model: prompt and generation\n"
    "  speculation a text that is an edit of another, with tokens guessed ahead\n"
    "\n"
    "Everything is held against what the device can do at most, measured in the same run: a row\n"
    "says which share of the nearer roof it reached, memory or arithmetic. That share is what to\n"
    "compare between machines and versions; microseconds of a shared machine drift.\n"
    "\n"
    "weft bench device --help and so on explain each.  For a start:\n"
    "\n"
    "  weft bench device\n"
    "  weft bench linear --format q4_0,q8_0,f16 --rows 4096 --cols 14336 --batch 1\n"
    "  weft bench attention --kv-len 16384 --heads 32 --kv-heads 8 --head-dim 128\n"
    "  weft bench model --shape llama-3.2-1b --format q4_0\n";

static int bench_main(const cli_command *self, int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        cli_print_help(self);
        return CLI_DONE;
    }
    for (int i = 0; i < BENCH_COUNT; i++)
        if (strcmp(strchr(benches[i]->name, ' ') + 1, name) == 0)
            return benches[i]->run(benches[i], argc - 1, argv + 1);
    return cli_bad_usage(
        self, "say what to measure: device, linear, attention, softmax, softcap, model or "
              "speculation");
}

const cli_command cli_bench = {
    "bench", "measure kernels against the device's ceilings", {help}, bench_main};
