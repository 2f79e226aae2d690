// SPDX-License-Identifier: MIT
// weft bench speculation: what guesses bring for a text that is known: prompt lookup's, or a smaller model's.
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

static const char help[] =
    "usage: weft bench speculation --shape S --format F --source FILE --result FILE [options]\n"
    "       weft bench speculation --shape S --format F --source FILE --draft S2 [options]\n"
    "\n"
    "How fast a model writes a text with guesses and without, in turns. SOURCE is the prompt.\n"
    "The tokens of the text take the place of those that are drawn, so that weights may be made\n"
    "up and what is guessed right is what a model that writes this text would have had guessed\n"
    "right. Everything else is done as ever: every token is drawn from its logits before it is\n"
    "replaced. With --result prompt lookup guesses: RESULT should be an edit of SOURCE. With\n"
    "--draft a smaller model guesses, and the text is what it writes by itself, but for every\n"
    "K-th token.\n"
    "\n"
    "  --shape S           a known shape with weights made up, of --format F (default q4_0)\n"
    "  --model FILE        a model instead\n"
    "  --tokenizer FILE    whose tokens the texts are cut into (default: models/demo.gguf)\n"
    "  --source FILE       the text before\n"
    "  --result FILE       the text after\n"
    "  --draft S2          a smaller shape with weights made up, of as many tokens\n"
    "  --draft-format F    its format (default --format)\n"
    "  --generate N        tokens of its text (default 100)\n"
    "  --wrong-every K     of them the draft does not guess one of K (default 5; 0: all right)\n"
    "  --rounds N          of both (default 3); the ratio is the median of theirs\n"
    "  --chains            guesses in a row only, to see what trees of them bring\n"
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
    OPT_DRAFT,
    OPT_DRAFT_FORMAT,
    OPT_GENERATE,
    OPT_WRONG_EVERY,
    OPT_ROUNDS,
    OPT_CHAINS,
    OPT_JSON
};
enum { MOST_ROUNDS = 25 };

typedef struct edit {
    const cli_command *self;
    const char *shape, *model_path, *tokenizer, *source, *result, *draft_shape;
    const char *format, *draft_format; // of the draft: NULL is the model's
    int32_t generate, wrong_every, rounds;
    bool chains, json;
    engine_options options;
    tokenizer_ids before, after;
    engine_model *model, *draft_model;
    engine_worker *worker, *draft;
    engine_session *session;
    engine_result last;
} edit;

static bool take_option(void *opaque, int option)
{
    edit *b = opaque;
    switch (option) {
    case OPT_SHAPE: b->shape = optarg; return true;
    case OPT_FORMAT: return cli_formats(b->self, "--format", optarg, &b->format);
    case OPT_MODEL: b->model_path = optarg; return true;
    case OPT_TOKENIZER: b->tokenizer = optarg; return true;
    case OPT_SOURCE: b->source = optarg; return true;
    case OPT_RESULT: b->result = optarg; return true;
    case OPT_DRAFT: b->draft_shape = optarg; return true;
    case OPT_DRAFT_FORMAT: return cli_formats(b->self, "--draft-format", optarg, &b->draft_format);
    case OPT_GENERATE: return cli_int32(b->self, "--generate", optarg, 2, 1 << 20, &b->generate);
    case OPT_WRONG_EVERY:
        return cli_int32(b->self, "--wrong-every", optarg, 0, 1 << 20, &b->wrong_every);
    case OPT_ROUNDS: return cli_int32(b->self, "--rounds", optarg, 1, MOST_ROUNDS, &b->rounds);
    case OPT_CHAINS: b->chains = true; return true;
    case OPT_JSON: b->json = true; return true;
    default: return cli_model_option(b->self, option, optarg, &b->options);
    }
}

static int parse(edit *b, int argc, char **argv)
{
    static const struct option options[] = {
        {"shape", required_argument, NULL, OPT_SHAPE},
        {"format", required_argument, NULL, OPT_FORMAT},
        {"model", required_argument, NULL, OPT_MODEL},
        {"tokenizer", required_argument, NULL, OPT_TOKENIZER},
        {"source", required_argument, NULL, OPT_SOURCE},
        {"result", required_argument, NULL, OPT_RESULT},
        {"draft", required_argument, NULL, OPT_DRAFT},
        {"draft-format", required_argument, NULL, OPT_DRAFT_FORMAT},
        {"generate", required_argument, NULL, OPT_GENERATE},
        {"wrong-every", required_argument, NULL, OPT_WRONG_EVERY},
        {"rounds", required_argument, NULL, OPT_ROUNDS},
        {"chains", no_argument, NULL, OPT_CHAINS},
        {"json", no_argument, NULL, OPT_JSON},
        CLI_MODEL_OPTIONS,
        {0}};
    int status = cli_take_options(b->self, argc, argv, options, take_option, b);
    if (status >= 0)
        return status;
    if (!b->source || !b->result == !b->draft_shape || !b->shape == !b->model_path)
        return cli_bad_usage(b->self, "give --source, --result or --draft, and --shape or --model");
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
    bool fine = t && read_ids(b, t, b->source, &b->before) &&
                (!b->result || read_ids(b, t, b->result, &b->after));
    engine_model_close(model);
    return fine;
}

static bool open_model(edit *b, engine_error *err)
{
    int32_t written = b->result ? (int32_t)b->after.count : b->generate;
    b->options.context_tokens = (int32_t)b->before.count + written + 8;
    b->model = b->shape ? engine_model_synthesise(b->shape, b->format, &b->options, err)
                        : engine_model_open(b->model_path, err);
    b->worker = b->model ? engine_worker_open(b->model, &b->options, err) : NULL;
    b->session = b->worker ? engine_session_open(b->worker, err) : NULL;
    return b->session != NULL;
}

static bool open_draft(edit *b, engine_error *err)
{
    const char *format = b->draft_format ? b->draft_format : b->format;
    b->draft_model = engine_model_synthesise(b->draft_shape, format, &b->options, err);
    b->draft = b->draft_model && engine_speculation_fits(b->model, b->draft_model, err)
                   ? engine_worker_open(b->draft_model, &b->options, err)
                   : NULL;
    return b->draft != NULL;
}

// What the draft writes, with another token in the place of every so many.
static bool write_draft(edit *b, engine_session *session, int32_t *ids, engine_error *err)
{
    static const engine_sampling likeliest;
    engine_model_info info;
    engine_model_describe(b->draft_model, &info);
    int32_t at = (int32_t)b->before.count, end = at + b->generate;
    while (at < end) {
        int32_t steps = b->wrong_every > 0 ? b->wrong_every : end - at;
        bool replaced = b->wrong_every > 0 && steps <= end - at;
        steps = steps < end - at ? steps : end - at;
        engine_draw draw = {session, &likeliest, ids[at - 1]};
        if (!engine_session_sync(session, ids, at - 1, NULL, NULL, err) ||
            !engine_decode(b->draft, &draw, 1, steps, ids + at, err))
            return false;
        at += steps;
        if (replaced)
            ids[at - 1] = (ids[at - 1] + 1) % info.vocab;
    }
    return true;
}

static bool make_result(edit *b, engine_error *err)
{
    size_t count = b->before.count, all = count + (size_t)b->generate;
    int32_t *ids = calloc(all, sizeof *ids);
    engine_session *session = engine_session_open(b->draft, err);
    bool fine = ids && session;
    if (fine)
        memcpy(ids, b->before.ids, count * sizeof *ids);
    fine = fine && write_draft(b, session, ids, err);
    for (size_t i = count; fine && i < all; i++)
        fine = tokenizer_ids_push(&b->after, ids[i]);
    engine_session_close(session);
    free(ids);
    return fine;
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

static int print(const edit *b, double plain, double guessed, double ratio)
{
    const char *how = b->draft ? "draft" : "lookup", *name = b->shape ? b->shape : b->model_path;
    double right =
        b->last.guessed_tokens ? (double)b->last.accepted_tokens / b->last.guessed_tokens : 0;
    if (b->json) {
        json_t *row = json_pack(
            "{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:f}", "op", "speculation", "shape", name,
            "guesses", b->chains ? "chains" : "trees", "prompt", (int)b->before.count, "generated",
            (int)b->after.count, "guessed", b->last.guessed_tokens, "accepted",
            b->last.accepted_tokens, "plain_tokens_per_second", plain, "ratio", ratio);
        json_object_set_new(row, b->draft ? "draft_tokens_per_second" : "lookup_tokens_per_second",
                            json_real(guessed));
        if (b->draft)
            json_object_set_new(row, "draft", json_string(b->draft_shape));
        return cli_print_json(b->self, row);
    }
    printf("%-16s prompt %zu, written %zu tokens: plain %.1f tok/s, %s %.1f tok/s, %.2f times; "
           "%d guessed, %.0f %% of them right\n",
           name, b->before.count, b->after.count, plain, how, guessed, ratio,
           b->last.guessed_tokens, 100 * right);
    return CLI_DONE;
}

static int measure(edit *b)
{
    double plain[MOST_ROUNDS], guessed[MOST_ROUNDS], ratios[MOST_ROUNDS];
    engine_error err = {""};
    if (!read_texts(b))
        return CLI_FAILED;
    if (!open_model(b, &err) || (b->draft_shape && (!open_draft(b, &err) || !make_result(b, &err))))
        return cli_failed(b->self, "%s", err.text[0] ? err.text : "out of memory");
    const engine_speculation wish = {.lookup = !b->draft, .draft = b->draft, .chains = b->chains};
    for (int32_t n = 0; n < b->rounds; n++) {
        plain[n] = write_result(b, NULL, &err);
        guessed[n] = plain[n] > 0 ? write_result(b, &wish, &err) : 0;
        if (guessed[n] <= 0)
            return cli_failed(b->self, "%s", err.text);
        ratios[n] = guessed[n] / plain[n];
    }
    return print(b, bench_summary(plain, b->rounds).us_median,
                 bench_summary(guessed, b->rounds).us_median,
                 bench_summary(ratios, b->rounds).us_median);
}

static int bench_main(const cli_command *self, int argc, char **argv)
{
    edit b = {.self = self,
              .tokenizer = "models/demo.gguf",
              .format = "q4_0",
              .generate = 100,
              .wrong_every = 5,
              .rounds = 3};
    int status = parse(&b, argc, argv);
    if (status < 0)
        status = measure(&b);
    engine_session_close(b.session);
    engine_worker_close(b.worker);
    engine_model_close(b.model);
    engine_worker_close(b.draft);
    engine_model_close(b.draft_model);
    tokenizer_ids_free(&b.before);
    tokenizer_ids_free(&b.after);
    return status;
}

const cli_command bench_speculation = {
    "bench speculation", "texts that are guessed ahead", {help}, bench_main};
