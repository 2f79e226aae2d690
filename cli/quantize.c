// SPDX-License-Identifier: MIT
// weft quantize: model files in other formats, and files of known shapes to measure with.
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/cli.h"

static const char help[] =
    "usage: weft quantize IN OUT --format F [options]\n"
    "       weft quantize --shape NAME OUT --format F [options]\n"
    "\n"
    "Writes the model IN with its matrices in another format to OUT. Scales are searched for, so\n"
    "that errors are small; the error of each tensor is listed. With --shape, writes a model of\n"
    "a known shape with made-up weights, for measuring with other programs.\n"
    "\n"
    "  -f, --format F      a format (q4_0, q4_k, iq4_xs, ...) or a mix, which gives what suffers\n"
    "                      most a better one: q2_k q3_k_s q3_k_m q3_k_l q4_k_s q4_k_m q5_k_s\n"
    "                      q5_k_m iq2_m iq3_xs iq3_m\n"
    "  --imatrix FILE      how much each column matters, as llama.cpp's imatrix program writes\n"
    "                      it\n"
    "  --pure              every matrix in the format itself\n"
    "  --requantize        also from matrices that are quantised already\n"
    "  --shape NAME        llama-3.2-1b, llama-3.1-8b, qwen3-0.6b, ...\n"
    "  -t, --threads T     threads; default one per core\n"
    "  --json              one JSON object per tensor, then one for the file\n"
    "\n"
    "  weft quantize model-f16.gguf model-q4_k_m.gguf --format q4_k_m\n";

enum { OPT_FORMAT = 'f', OPT_IMATRIX = 1, OPT_PURE, OPT_REQUANTIZE, OPT_SHAPE, OPT_JSON };

typedef struct request {
    const cli_command *self;
    const char *in, *out, *shape;
    quantize_options options;
    bool json, shown; // a line of progress
    int64_t from_bytes, to_bytes, tensors;
    double started;
} request;

static bool take_option(void *opaque, int option)
{
    request *wish = opaque;
    switch (option) {
    case OPT_FORMAT: wish->options.mix = optarg; return true;
    case OPT_IMATRIX: wish->options.importance_path = optarg; return true;
    case OPT_PURE: return wish->options.pure = true;
    case OPT_REQUANTIZE: return wish->options.again = true;
    case OPT_SHAPE: wish->shape = optarg; return true;
    case OPT_JSON: return wish->json = true;
    case CLI_OPT_THREADS:
        return cli_int32(wish->self, "--threads", optarg, 1, 256, &wish->options.threads);
    default: return false;
    }
}

static bool known_mix(const request *wish)
{
    const char *nearest = NULL, *name;
    for (int32_t n = 0; (name = engine_mix_at(n)); n++) {
        if (strcasecmp(name, wish->options.mix) == 0)
            return true;
        cli_keep_nearer(wish->options.mix, name, &nearest);
    }
    if (nearest)
        cli_bad_usage(wish->self, "--format: no format or mix is called '%s', did you mean %s?",
                      wish->options.mix, nearest);
    else
        cli_bad_usage(wish->self, "--format: no format or mix is called '%s'", wish->options.mix);
    return false;
}

// Returns -1 to go on, or an exit status.
static int parse(request *wish, int argc, char **argv)
{
    static const struct option options[] = {{"format", required_argument, NULL, OPT_FORMAT},
                                            {"imatrix", required_argument, NULL, OPT_IMATRIX},
                                            {"pure", no_argument, NULL, OPT_PURE},
                                            {"requantize", no_argument, NULL, OPT_REQUANTIZE},
                                            {"allow-requantize", no_argument, NULL, OPT_REQUANTIZE},
                                            {"shape", required_argument, NULL, OPT_SHAPE},
                                            {"json", no_argument, NULL, OPT_JSON},
                                            {"threads", required_argument, NULL, CLI_OPT_THREADS},
                                            {"help", no_argument, NULL, CLI_OPT_HELP},
                                            {0}};
    int status = cli_take_options(wish->self, argc, argv, options, take_option, wish);
    if (status >= 0)
        return status;
    if (!wish->shape) {
        if (optind >= argc)
            return cli_bad_usage(wish->self, "IN and OUT are missing");
        wish->in = argv[optind++];
    }
    wish->out = cli_operand(wish->self, argc, argv, "OUT");
    if (!wish->out)
        return CLI_USAGE;
    if (!wish->options.mix)
        return cli_bad_usage(wish->self, "--format is missing");
    if (wish->shape && wish->options.importance_path)
        return cli_bad_usage(wish->self, "--imatrix does not go with --shape");
    return known_mix(wish) ? -1 : CLI_USAGE;
}

static void clear_line(request *wish)
{
    if (wish->shown)
        fputs("\r\033[K", stderr);
    wish->shown = false;
}

static void print_tensor(request *wish, const quantize_progress *p)
{
    wish->tensors++;
    wish->from_bytes += p->from_bytes;
    wish->to_bytes += p->to_bytes;
    if (wish->json) {
        cli_print_json(wish->self,
                       json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:f}", "tensor", p->tensor,
                                 "from", p->from, "to", p->to, "elements", (json_int_t)p->elements,
                                 "from_bytes", (json_int_t)p->from_bytes, "to_bytes",
                                 (json_int_t)p->to_bytes, "error", p->error, "relative_error",
                                 p->relative));
        return;
    }
    if (p->index == 0)
        printf("%-32s %-8s %-8s %10s %12s %9s\n", "tensor", "from", "to", "size", "error",
               "relative");
    printf("%-32s %-8s %-8s %10s", p->tensor, p->from, p->to, cli_bytes(p->to_bytes));
    if (p->error > 0)
        printf(" %12.4g %8.3f%%", p->error, 100 * p->relative);
    putchar('\n');
}

static bool show(void *user, const quantize_progress *p)
{
    request *wish = user;
    clear_line(wish);
    if (p->done) {
        print_tensor(wish, p);
        fflush(stdout);
    }
    if (isatty(STDERR_FILENO)) {
        double seconds = cli_now_seconds() - wish->started;
        double left = p->done_fraction > 0 ? seconds / p->done_fraction - seconds : 0;
        fprintf(stderr, "%5.1f%%  %s  %" PRId64 "/%" PRId64 "  %.0f s left", 100 * p->done_fraction,
                p->tensor, p->index + 1, p->count, left);
        fflush(stderr);
        wish->shown = true;
    }
    return !cli_interrupted();
}

static int print_total(request *wish)
{
    double seconds = cli_now_seconds() - wish->started;
    if (wish->json)
        return cli_print_json(wish->self,
                              json_pack("{s:o, s:s, s:I, s:I, s:I, s:f}", "file",
                                        cli_json_text(wish->out), "format", wish->options.mix,
                                        "tensors", (json_int_t)wish->tensors, "from_bytes",
                                        (json_int_t)wish->from_bytes, "to_bytes",
                                        (json_int_t)wish->to_bytes, "seconds", seconds));
    printf("\n%s: %s in place of %s, %" PRId64 " tensors, %.1f s\n", wish->out,
           cli_bytes(wish->to_bytes), cli_bytes(wish->from_bytes), wish->tensors, seconds);
    return CLI_DONE;
}

static int quantize_main(const cli_command *self, int argc, char **argv)
{
    request wish = {.self = self};
    engine_error err = {{0}};
    int status = parse(&wish, argc, argv);
    if (status >= 0)
        return status;
    wish.options.progress = show;
    wish.options.user = &wish;
    wish.started = cli_now_seconds();
    cli_catch_interrupt();
    bool good = wish.shape ? engine_quantize_shape(wish.shape, wish.out, &wish.options, &err)
                           : engine_quantize(wish.in, wish.out, &wish.options, &err);
    clear_line(&wish);
    return good ? print_total(&wish) : cli_failed(self, "%s", err.text);
}

const cli_command cli_quantize = {
    "quantize", "write a model file in another format", {help}, quantize_main};
