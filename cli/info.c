// SPDX-License-Identifier: MIT
// weft info: what this program can use on this machine.
#include "cli/cli.h"

static const char help[] =
    "usage: weft info [--kernels] [--json]\n"
    "\n"
    "Version, instruction set, threads, GPUs, and what is missing for more.\n"
    "\n"
    "  --kernels           every kernel: operation, name, instruction set, whether it runs here;\n"
    "                      the names are what --variant takes in weft bench and weft-check\n"
    "  --json              one JSON object (per kernel, with --kernels)\n";

enum { OPT_KERNELS = 1, OPT_JSON };

static void print_kernels(const weft_context *context, bool json)
{
    weft_kernel_info kernel;
    for (int32_t n = 0; weft_kernel_at(context, n, &kernel); n++)
        if (json)
            printf("{\"op\":\"%s\",\"kernel\":\"%s\",\"isa\":\"%s\",\"backend\":\"%s\","
                   "\"usable\":%s}\n",
                   kernel.op, kernel.name, kernel.isa, kernel.backend,
                   kernel.usable ? "true" : "false");
        else
            printf("%-11s %-40s %-11s %-5s %s\n", kernel.op, kernel.name, kernel.isa,
                   kernel.backend, kernel.usable ? "" : "not on this machine");
}

// Why there is no GPU to use; NULL if there is one.
static const char *gpu_missing(void)
{
    weft_context *gpu = NULL;
    weft_context_desc desc = {.size = sizeof desc, .device = WEFT_DEVICE_CUDA};
    if (weft_context_create(&desc, &gpu) != WEFT_OK)
        return weft_error_text(NULL);
    weft_context_destroy(gpu);
    return NULL;
}

static int print_summary(const cli_command *self, const weft_context *context, bool json)
{
    const char *missing = gpu_missing();
    if (!json) {
        printf("weft        %s\n", weft_version());
        printf("cpu         %s, %d threads\n", weft_context_isa(context),
               weft_context_threads(context));
        printf("gpu         %s%s\n", missing ? "none: " : "usable", missing ? missing : "");
        return CLI_DONE;
    }
    json_t *object = json_pack("{s:s, s:s, s:i, s:b, s:s}", "version", weft_version(), "isa",
                               weft_context_isa(context), "threads", weft_context_threads(context),
                               "gpu", missing == NULL, "gpu_missing", missing ? missing : "");
    return cli_print_json(self, object);
}

static int info_main(const cli_command *self, int argc, char **argv)
{
    static const struct option options[] = {{"kernels", no_argument, NULL, OPT_KERNELS},
                                            {"json", no_argument, NULL, OPT_JSON},
                                            {"help", no_argument, NULL, CLI_OPT_HELP},
                                            {0}};
    bool kernels = false, json = false;
    int option, status;
    while ((option = cli_next_option(self, argc, argv, options, &status)) != CLI_OPTIONS_END)
        switch (option) {
        case CLI_OPTIONS_BAD: return status;
        case OPT_KERNELS: kernels = true; break;
        case OPT_JSON: json = true; break;
        }
    if (optind < argc)
        return cli_bad_usage(self, "unexpected argument '%s'", argv[optind]);
    weft_context *context;
    if (weft_context_create(NULL, &context) != WEFT_OK)
        return cli_failed(self, "%s", weft_error_text(NULL));
    status = CLI_DONE;
    if (kernels)
        print_kernels(context, json);
    else
        status = print_summary(self, context, json);
    weft_context_destroy(context);
    return status;
}

const cli_command cli_info = {"info", "version, devices and kernels", help, info_main};
