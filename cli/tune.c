// SPDX-License-Identifier: MIT
// weft tune: measures what this machine likes best, for plans to choose by.
#include <string.h>

#include "cli/cli.h"

extern const cli_command tune_linear, tune_attention;

static const char help[] =
    "usage: weft tune linear|attention [options]\n"
    "\n"
    "Measures the thresholds and sizes by which plans choose kernels and divide their work, and\n"
    "writes the best to a table of this machine. Every candidate is held against the reference\n"
    "kernel first. Results stay within their bounds whatever the table says; exact and\n"
    "batch-invariant plans do not ask it. WEFT_TUNING=FILE names another table, WEFT_TUNING=off\n"
    "none.\n"
    "\n"
    "  linear      matrices of any format: rows of X that go to panels, lengths of tasks\n"
    "  attention   queries of a tile, keys of a chunk\n"
    "\n"
    "weft tune linear --help and so on explain each. Other work on the machine spoils a\n"
    "measurement.\n";

static int tune_main(const cli_command *self, int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        cli_print_help(self);
        return CLI_DONE;
    }
    if (strcmp(name, "linear") == 0)
        return tune_linear.run(&tune_linear, argc - 1, argv + 1);
    if (strcmp(name, "attention") == 0)
        return tune_attention.run(&tune_attention, argc - 1, argv + 1);
    return cli_bad_usage(self, "say what to tune: linear or attention");
}

const cli_command cli_tune = {"tune", "measure what this machine likes best", {help}, tune_main};
