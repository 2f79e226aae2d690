// SPDX-License-Identifier: MIT
// weft logits: what the model computes, for comparing with other implementations.
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

static const char help[] =
    "usage: weft logits MODEL --tokens 1,2,3 --out FILE [options]\n"
    "\n"
    "Writes the logits after every token to FILE: f32, little-endian, [tokens][vocabulary]. All\n"
    "tokens are one prefill. The KV cache is f32 unless --kv-dtype says otherwise.\n"
    "\n"
    "  --tokens IDS        the tokens, e.g. from `weft tokenize MODEL TEXT --ids`\n"
    "  --out FILE          where to write\n"
    "  --step              one token at a time, as in generation\n"
    "\n"
    "model:\n" CLI_MODEL_HELP;

enum { OPT_TOKENS = 1, OPT_OUT, OPT_STEP };

typedef struct request {
    const cli_command *self;
    const char *model_path, *out;
    int32_t *ids, count;
    bool step;
    engine_options options;
} request;

static bool take_option(void *opaque, int option)
{
    request *wish = opaque;
    switch (option) {
    case OPT_TOKENS:
        free(wish->ids);
        wish->ids = NULL;
        return cli_ids(wish->self, "--tokens", optarg, &wish->ids, &wish->count);
    case OPT_OUT: wish->out = optarg; return true;
    case OPT_STEP: wish->step = true; return true;
    default: return cli_model_option(wish->self, option, optarg, &wish->options);
    }
}

// Returns -1 to go on, or an exit status.
static int parse(request *wish, int argc, char **argv)
{
    static const struct option options[] = {{"tokens", required_argument, NULL, OPT_TOKENS},
                                            {"out", required_argument, NULL, OPT_OUT},
                                            {"step", no_argument, NULL, OPT_STEP},
                                            CLI_MODEL_OPTIONS,
                                            {0}};
    int status =
        cli_take_model(wish->self, argc, argv, options, take_option, wish, &wish->model_path);
    if (status >= 0)
        return status;
    if (!wish->ids || !wish->out)
        return cli_bad_usage(wish->self, "%s is missing", wish->ids ? "--out" : "--tokens");
    if (wish->options.kv_dtype == WEFT_DTYPE_NONE)
        wish->options.kv_dtype = WEFT_F32;
    return -1;
}

static bool evaluate(const request *wish, engine_worker *worker, size_t vocab, float *logits,
                     engine_error *err)
{
    engine_session *session = engine_session_open(worker, err);
    bool fine = session != NULL;
    int32_t step = wish->step ? 1 : wish->count;
    for (int32_t done = 0; fine && done < wish->count; done += step) {
        engine_feed feed = {.session = session,
                            .ids = wish->ids + done,
                            .count = step,
                            .logits = logits + (size_t)done * vocab};
        fine = engine_eval(worker, &feed, 1, NULL, NULL, err);
    }
    engine_session_close(session);
    return fine;
}

// All of the file or none of it.
static bool write_file(const char *path, const float *logits, size_t count, engine_error *err)
{
    struct stat status;
    FILE *file = fopen(path, "wb");
    bool fine = file && fwrite(logits, sizeof *logits, count, file) == count && fflush(file) == 0;
    int error = errno;
    if (file && !fine && fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode))
        remove(path);
    if (file && fclose(file) != 0 && fine) {
        fine = false;
        error = errno;
    }
    if (fine)
        return true;
    engine_fail(err, "cannot be written: %s; choose another place with --out", strerror(error));
    return engine_fail_in(err, path);
}

static int execute(request *wish)
{
    engine_error err = {{0}};
    engine_model_info info;
    if (wish->options.context_tokens == 0)
        wish->options.context_tokens = wish->count;
    engine_model *model = engine_model_open(wish->model_path, &err);
    engine_worker *worker = model ? engine_worker_open(model, &wish->options, &err) : NULL;
    if (!worker) {
        engine_model_close(model);
        return cli_failed(wish->self, "%s", err.text);
    }
    engine_model_describe(model, &info);
    cli_warn_of_context(wish->self, model, worker);
    size_t vocab = (size_t)info.vocab;
    float *logits = calloc((size_t)wish->count * vocab, sizeof *logits);
    bool fine = logits || engine_fail(&err, "not enough memory for %d rows of logits", wish->count);
    fine = fine && evaluate(wish, worker, vocab, logits, &err) &&
           write_file(wish->out, logits, (size_t)wish->count * vocab, &err);
    free(logits);
    engine_worker_close(worker);
    engine_model_close(model);
    return fine ? CLI_DONE : cli_failed(wish->self, "%s", err.text);
}

static int logits_main(const cli_command *self, int argc, char **argv)
{
    request wish = {.self = self};
    int status = parse(&wish, argc, argv);
    if (status < 0)
        status = execute(&wish);
    free(wish.ids);
    return status;
}

const cli_command cli_logits = {
    "logits", "write the logits of given tokens to a file", {help}, logits_main};
