// SPDX-License-Identifier: MIT
// weft bench speculation: what prompt lookup brings for a text that is known.
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

static const char help[] =
    "usage: weft bench speculation --shape S --format F --source FILE --result FILE\n"
    "                              [--tokenizer MODEL] [options]\n"
    "\n"
    "How fast a model writes a text that is an edit of another, with prompt lookup and without, "
    "in\n"
    "turns. SOURCE is the prompt. RESULT is what is written: its tokens take the place of those "
    "that\n"
    "are drawn, so that weights may be made up and what is guessed right is what a model that "
    "writes\n"
    "this text would have had guessed right. Everything else is done as ever: every token is "
    "drawn\n"
    "from its logits before it is replaced.\n"
    "\n"
    "  --shape S           a known shape with weights made up, of --format F (default q4_0)\n"
    "  --model FILE        a model instead\n"
    "  --tokenizer FILE    whose tokens the texts are cut into (default: models/demo.gguf)\n"
    "  --source FILE       the text before\n"
    "  --result FILE       the text after\n"
    "  --rounds N          of both (default 3)\n"
    "  --json              one object instead\n"
    "\n"
    "model:\n" CLI_MODEL_HELP;

enum {
    OPT_SHAPE = 1,
    OPT_FORMAT,
    OPT_MODEL,
    OPT_TOKENIZER,
    OPT_SOURCE,
    OPT_RESULT,
    OPT_ROUNDS,
    OPT_JSON
};
enum { MOST_ROUNDS = 25 };

typedef struct edit {
    const cli_command *self;
    const char *shape, *model_path, *tokenizer, *source, *result;
    weft_dtype format;
    int32_t rounds;
    bool json;
    engine_options options;
    tokenizer_ids before, after;
    engine_model *model;
    engine_worker *worker;
    engine_session *session;
    engine_result last;
} edit;

static bool take_option(void *opaque, int option)
{
    edit *b = opaque;
    switch (option) {
    case OPT_SHAPE: b->shape = optarg; return true;
    case OPT_FORMAT: return cli_dtype(b->self, "--format", optarg, &b->format);
    case OPT_MODEL: b->model_path = optarg; return true;
    case OPT_TOKENIZER: b->tokenizer = optarg; return true;
    case OPT_SOURCE: b->source = optarg; return true;
    case OPT_RESULT: b->result = optarg; return true;
    case OPT_ROUNDS: return cli_int32(b->self, "--rounds", optarg, 1, MOST_ROUNDS, &b->rounds);
    case OPT_JSON: b->json = true; return true;
    default: return cli_model_option(b->self, option, optarg, &b->options);
    }
}

static int parse(edit *b, int argc, char **argv)
{
    static const struct option options[] = {{"shape", required_argument, NULL, OPT_SHAPE},
                                            {"format", required_argument, NULL, OPT_FORMAT},
                                            {"model", required_argument, NULL, OPT_MODEL},
                                            {"tokenizer", required_argument, NULL, OPT_TOKENIZER},
                                            {"source", required_argument, NULL, OPT_SOURCE},
                                            {"result", required_argument, NULL, OPT_RESULT},
                                            {"rounds", required_argument, NULL, OPT_ROUNDS},
                                            {"json", no_argument, NULL, OPT_JSON},
                                            CLI_MODEL_OPTIONS,
                                            {0}};
    int status = cli_take_options(b->self, argc, argv, options, take_option, b);
    if (status >= 0)
        return status;
    if (!b->source || !b->result || !b->shape == !b->model_path)
        return cli_bad_usage(b->self, "give --source and --result, and --shape or --model");
    return -1;
}

static bool read_ids(edit *b, const tokenizer *t, const char *path, tokenizer_ids *ids)
{
    size_t bytes;
    engine_error err = {""};
    char *text = cli_read_file(b->self, path, &bytes);
    bool fine = text && tokenizer_encode(t, text, bytes, 0, ids, &err);
    free(text);
    if (text && !fine)
        cli_failed(b->self, "%s", err.text);
    if (fine && ids->count < 2) {
        cli_failed(b->self, "%s is too short", path);
        return false;
    }
    return fine;
}

static bool read_texts(edit *b)
{
    engine_error err = {""};
    engine_model *model = engine_model_open(b->tokenizer, &err);
    if (!model) {
        cli_failed(b->self, "%s", err.text);
        return false;
    }
    const tokenizer *t = engine_model_tokenizer(model);
    bool fine = t && read_ids(b, t, b->source, &b->before) && read_ids(b, t, b->result, &b->after);
    engine_model_close(model);
    return fine;
}

static bool open_model(edit *b, engine_error *err)
{
    b->options.context_tokens = (int32_t)(b->before.count + b->after.count + 8);
    b->model = b->shape ? engine_model_synthesise(b->shape, b->format, &b->options, err)
                        : engine_model_open(b->model_path, err);
    b->worker = b->model ? engine_worker_open(b->model, &b->options, err) : NULL;
    b->session = b->worker ? engine_session_open(b->worker, err) : NULL;
    return b->session != NULL;
}

// Tokens per second; 0 with a reason.
static double write_result(edit *b, const engine_speculation *speculation, engine_error *err)
{
    engine_generation wish = {.max_tokens = (int32_t)b->after.count,
                              .ignore_end = true,
                              .forced = b->after.ids,
                              .speculation = speculation};
    engine_session_truncate(b->session, 0);
    if (!engine_generate(b->session, b->before.ids, (int32_t)b->before.count, &wish, &b->last, err))
        return 0;
    return b->last.generation_seconds > 0
               ? (b->last.generated_tokens - 1) / b->last.generation_seconds
               : 0;
}

static int print(const edit *b, double plain, double lookup)
{
    double right =
        b->last.guessed_tokens ? (double)b->last.accepted_tokens / b->last.guessed_tokens : 0;
    if (b->json)
        return cli_print_json(
            b->self,
            json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:f}", "op", "speculation", "shape",
                      b->shape ? b->shape : b->model_path, "prompt", (int)b->before.count,
                      "generated", (int)b->after.count, "guessed", b->last.guessed_tokens,
                      "accepted", b->last.accepted_tokens, "plain_tokens_per_second", plain,
                      "lookup_tokens_per_second", lookup, "ratio", lookup / plain));
    printf("%-16s prompt %zu, written %zu tokens: plain %.1f tok/s, lookup %.1f tok/s, %.2f times; "
           "%d guessed, %.0f %% of them right\n",
           b->shape ? b->shape : b->model_path, b->before.count, b->after.count, plain, lookup,
           lookup / plain, b->last.guessed_tokens, 100 * right);
    return CLI_DONE;
}

static int measure(edit *b)
{
    const engine_speculation lookup = {.lookup = true};
    double plain[MOST_ROUNDS], guessed[MOST_ROUNDS];
    engine_error err = {""};
    if (!read_texts(b))
        return CLI_FAILED;
    if (!open_model(b, &err))
        return cli_failed(b->self, "%s", err.text);
    for (int32_t n = 0; n < b->rounds; n++) {
        plain[n] = write_result(b, NULL, &err);
        guessed[n] = plain[n] > 0 ? write_result(b, &lookup, &err) : 0;
        if (guessed[n] <= 0)
            return cli_failed(b->self, "%s", err.text);
    }
    return print(b, bench_summary(plain, b->rounds).us_median,
                 bench_summary(guessed, b->rounds).us_median);
}

static int bench_main(const cli_command *self, int argc, char **argv)
{
    edit b = {.self = self, .tokenizer = "models/demo.gguf", .format = WEFT_Q4_0, .rounds = 3};
    int status = parse(&b, argc, argv);
    if (status < 0)
        status = measure(&b);
    engine_session_close(b.session);
    engine_worker_close(b.worker);
    engine_model_close(b.model);
    tokenizer_ids_free(&b.before);
    tokenizer_ids_free(&b.after);
    return status;
}

const cli_command bench_speculation = {
    "bench speculation", "texts that are guessed ahead", {help}, bench_main};
