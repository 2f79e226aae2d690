// SPDX-License-Identifier: MIT
// weft info: what this program can use on this machine.
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static const char help[] =
    "usage: weft info [--kernels] [--device D] [--json]\n"
    "       weft info --kernels MODEL | --shape NAME [--format F] [--device D] [--json]\n"
    "\n"
    "Version, instruction set, threads, GPUs, and what is missing for more.\n"
    "\n"
    "  --kernels           every kernel: operation, name, instruction set, whether it runs here;\n"
    "                      the names are what --variant takes in weft bench and weft-check; and\n"
    "                      the thresholds that plans of the CPU choose by (weft tune). With a\n"
    "                      model: what a GPU compiled to run it, with registers, shared memory\n"
    "                      and spills (WEFT_CUDA_DUMP=FOLDER writes their machine code there),\n"
    "                      and whether the layers of a token are one launch or launches\n"
    "  --device D          cpu (default), cuda or cuda:N\n"
    "  --shape NAME        a known shape instead of a file (weft bench model --help lists them)\n"
    "  --format F          format of a shape's matrices, or a mix (q4_k_m); default q4_0\n"
    "  --json              one JSON object (per kernel, with --kernels)\n";

enum { OPT_KERNELS = 1, OPT_JSON, OPT_SHAPE, OPT_FORMAT };

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

// What plans choose by, in the order in which they ask.
static void print_tuning(const weft_context *context)
{
    static const char *const sources[] = {"library", "file", "caller"};
    weft_tuning entry = {.size = sizeof entry};
    char text[512];
    for (int32_t n = 0; weft_tuning_at(context, n, &entry); n++) {
        if (weft_tuning_text(&entry, text, sizeof text) != WEFT_OK)
            continue;
        printf("%-11s %-8s %s\n", "tuning", sources[entry.source], text);
    }
}

static int print_instances(const cli_command *self, weft_context *context, bool json)
{
    weft_instance_info kernel = {.size = sizeof kernel};
    for (int32_t n = 0; weft_instance_at(context, n, &kernel); n++) {
        if (kernel.failure)
            return cli_failed(self, "%s", kernel.failure);
        if (n == 0 && !json)
            puts("registers  shared  spills  threads  from      instance");
        if (!json)
            printf("%9d  %6d  %6d  %7d  %-8s  %s\n", kernel.registers, kernel.shared_bytes,
                   kernel.spill_bytes, kernel.max_threads, kernel.from_disk ? "cache" : "compiler",
                   kernel.name);
        else
            printf("{\"instance\":\"%s\",\"registers\":%d,\"shared_bytes\":%d,"
                   "\"spill_bytes\":%d,\"max_threads\":%d,\"from_disk\":%s}\n",
                   kernel.name, kernel.registers, kernel.shared_bytes, kernel.spill_bytes,
                   kernel.max_threads, kernel.from_disk ? "true" : "false");
    }
    return CLI_DONE;
}

static void show_progress(void *user, int32_t done, int32_t count)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\rweft info: %d of %d kernels%s", done, count, done < count ? "" : "\n");
    (void)user;
}

// How a GPU was given a few tokens of any text; NULL if they fail.
static const char *try_layers(engine_worker *worker, engine_error *err)
{
    enum { TOKENS = 3 }; // what decodes is recorded at the first
    const int32_t ids[] = {0};
    engine_session *session = engine_session_open(worker, err);
    bool fine = session != NULL;
    for (int i = 0; fine && i < TOKENS; i++) {
        engine_feed feed = {.session = session, .ids = ids, .count = 1};
        fine = engine_eval(worker, &feed, 1, NULL, NULL, err);
    }
    engine_session_close(session);
    return fine ? cli_layers_of(worker) : NULL;
}

// How a GPU decodes a token of the model.
static int print_layers(const cli_command *self, engine_worker *worker, bool json,
                        engine_error *err)
{
    const char *layers = try_layers(worker, err);
    if (!layers)
        return cli_failed(self, "%s", err->text);
    printf(json ? "{\"layers\":\"%s\"}\n" : "layers of a token: %s\n", layers);
    return CLI_DONE;
}

// What a model's worker had compiled, or why there is none.
static int print_model_kernels(const cli_command *self, engine_model *model,
                               const engine_options *options, bool json, engine_error *err)
{
    engine_worker *worker = model ? engine_worker_open(model, options, err) : NULL;
    if (!worker)
        return cli_failed(self, "%s", err->text);
    weft_context *context = engine_worker_context(worker);
    int status = weft_prewarm(context, show_progress, NULL) == WEFT_OK
                     ? print_instances(self, context, json)
                     : cli_failed(self, "%s", weft_error_text(context));
    engine_model_info info;
    engine_model_describe(model, &info);
    if (status == CLI_DONE && options->device == WEFT_DEVICE_CUDA && !info.encoder)
        status = print_layers(self, worker, json, err);
    engine_worker_close(worker);
    return status;
}

// cuBLASLt as plans of a GPU have it, its version or why there is none.
struct library {
    char version[32], missing[256];
};

static void find_library(weft_context *gpu, struct library *found)
{
    const weft_linear_desc desc = {.size = sizeof desc,
                                   .weight_dtype = WEFT_BF16,
                                   .rows = 64,
                                   .cols = 64,
                                   .variant = "linear_bf16_f32_cublaslt"};
    weft_plan *plan = NULL;
    if (weft_linear_plan(gpu, &desc, &plan) != WEFT_OK) {
        snprintf(found->missing, sizeof found->missing, "%s", weft_error_text(gpu));
        return;
    }
    const char *name = strstr(weft_plan_describe(plan), "cuBLASLt ");
    if (name)
        sscanf(name, "cuBLASLt %31[0-9.]", found->version);
    weft_plan_destroy(plan);
}

// Why there is no GPU to use; NULL if there is one.
static const char *gpu_missing(struct library *library)
{
    weft_context *gpu = NULL;
    weft_context_desc desc = {.size = sizeof desc, .device = WEFT_DEVICE_CUDA};
    if (weft_context_create(&desc, &gpu) != WEFT_OK)
        return weft_error_text(NULL);
    find_library(gpu, library);
    weft_context_destroy(gpu);
    return NULL;
}

static int print_summary(const cli_command *self, const weft_context *context, bool json)
{
    struct library library = {"", ""};
    const char *missing = gpu_missing(&library), *note = weft_tuning_note(context);
    weft_device_info gpu = {.size = sizeof gpu};
    if (!missing && weft_device_describe(WEFT_DEVICE_CUDA, 0, &gpu) != WEFT_OK)
        gpu = (weft_device_info){.size = sizeof gpu};
    if (!json) {
        printf("weft        %s\n", weft_version());
        printf("cpu         %s, %d threads\n", weft_context_isa(context),
               weft_context_threads(context));
        if (missing)
            printf("gpu         none: %s\n", missing);
        else
            printf("gpu         usable: %s, %s, %d SMs (tier: %s)\n", gpu.name, gpu.architecture,
                   gpu.cores, gpu.tier);
        if (!missing)
            printf("cublaslt    %s%s\n",
                   *library.version ? library.version : "none: ", library.missing);
        printf("tuning      %s\n",
               *note ? note : "none of this machine: weft tune linear measures");
        return CLI_DONE;
    }
    json_t *object = json_pack(
        "{s:s, s:s, s:i, s:b, s:s, s:s, s:s, s:s, s:o}", "version", weft_version(), "isa",
        weft_context_isa(context), "threads", weft_context_threads(context), "gpu", missing == NULL,
        "gpu_missing", missing ? missing : "", "gpu_tier", gpu.tier, "cublaslt", library.version,
        "cublaslt_missing", library.missing, "tuning", cli_json_text(note));
    return cli_print_json(self, object);
}

static int info_main(const cli_command *self, int argc, char **argv)
{
    static const struct option options[] = {{"kernels", no_argument, NULL, OPT_KERNELS},
                                            {"json", no_argument, NULL, OPT_JSON},
                                            {"device", required_argument, NULL, CLI_OPT_DEVICE},
                                            {"shape", required_argument, NULL, OPT_SHAPE},
                                            {"format", required_argument, NULL, OPT_FORMAT},
                                            {"help", no_argument, NULL, CLI_OPT_HELP},
                                            {0}};
    bool kernels = false, json = false;
    engine_options engine = {.context_tokens = 512};
    engine_error err = {{0}};
    const char *shape = NULL;
    const char *format = "q4_0";
    int option, status;
    while ((option = cli_next_option(self, argc, argv, options, &status)) != CLI_OPTIONS_END)
        switch (option) {
        case CLI_OPTIONS_BAD: return status;
        case OPT_KERNELS: kernels = true; break;
        case OPT_JSON: json = true; break;
        case OPT_SHAPE: shape = optarg; break;
        case OPT_FORMAT:
            if (!cli_formats(self, "--format", optarg, &format))
                return CLI_USAGE;
            break;
        default:
            if (!cli_model_option(self, option, optarg, &engine))
                return CLI_USAGE;
        }
    bool file = kernels && !shape && optind == argc - 1;
    if (optind < argc && !file)
        return cli_bad_usage(self, "unexpected argument '%s'", argv[optind]);
    if (shape && !kernels)
        return cli_bad_usage(self, "--shape goes with --kernels");
    if (file || shape) {
        engine_model *model = file ? engine_model_open(argv[optind], &err)
                                   : engine_model_synthesise(shape, format, &engine, &err);
        status = print_model_kernels(self, model, &engine, json, &err);
        engine_model_close(model);
        return status;
    }
    weft_context *context;
    const weft_context_desc desc = {
        .size = sizeof desc, .device = engine.device, .device_index = engine.device_index};
    if (weft_context_create(&desc, &context) != WEFT_OK)
        return cli_failed(self, "%s", weft_error_text(NULL));
    status = CLI_DONE;
    if (kernels)
        print_kernels(context, json);
    if (kernels && !json)
        print_tuning(context);
    if (!kernels)
        status = print_summary(self, context, json);
    weft_context_destroy(context);
    return status;
}

const cli_command cli_info = {"info", "version, devices and kernels", {help}, info_main};
