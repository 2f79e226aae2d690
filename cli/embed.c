// SPDX-License-Identifier: MIT
// weft embed: texts to vectors, or to scores against a query.
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const char help[] =
    "usage: weft embed MODEL TEXT... [options]\n"
    "       weft embed MODEL -f FILE [options]\n"
    "\n"
    "Prints a vector for each text, a line of numbers each. Texts that mean alike have vectors\n"
    "that point alike: vectors have length 1, so the sum of products of two is their similarity,\n"
    "from -1 to 1. Encoders (BERT, XLM-R, nomic, jina, ModernBERT) and all other models.\n"
    "\n"
    "  weft embed bge.gguf \"a cat\" \"a kitten\" --json\n"
    "  weft embed bge-reranker.gguf --query \"what do cats eat\" -f passages.txt\n"
    "\n"
    "  -f, --file FILE     a text on each line of FILE; - is standard input\n"
    "  --pooling P         what becomes of a text's tokens: mean of all, first ([CLS]), last, or\n"
    "                      rank, the score of a reranker; default: what the file says, else\n"
    "                      mean for encoders and last for others\n"
    "  --query TEXT        with a reranker: print how well each text answers this one, higher\n"
    "                      is better. Only the order of scores means something\n"
    "  --keep-length       leave vectors as long as they are\n"
    "  --json              an object for each text: {\"text\": ..., \"tokens\": N,\n"
    "                      \"embedding\": [...]}, with \"score\" or \"scores\" for rerankers\n"
    "\n"
    "Some models want a word in front of a text, such as \"query: \" and \"passage: \" (E5) or\n"
    "\"search_query: \" (nomic): their pages say so; give it as part of the text.\n"
    "\n"
    "model:\n" CLI_MODEL_HELP;

enum {
    OPT_POOLING = 1,
    OPT_QUERY,
    OPT_KEEP_LENGTH,
    OPT_JSON,
    MOST_SESSIONS = 64,
    PAGE_TOKENS = 64
};

// A text and its ids.
typedef struct line {
    const char *text;
    size_t bytes;
    tokenizer_ids ids;
    int32_t second; // where the text begins behind a query
} line;

typedef struct request {
    const cli_command *self;
    const char *model_path, *file, *query;
    engine_embedding embedding;
    bool json;
    engine_options options;
    char *read; // the file
    line *lines;
    int32_t count;
} request;

static bool take_pooling(request *wish, const char *name)
{
    static const char *const names[] = {"mean", "first", "last", "rank"};
    if (strcmp(name, "cls") == 0)
        name = "first";
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) {
            wish->embedding.pooling = (engine_pooling)(ENGINE_POOLING_MEAN + i);
            return true;
        }
    cli_bad_usage(wish->self, "--pooling must be mean, first, last or rank, not '%s'", name);
    return false;
}

static bool take_option(void *opaque, int option)
{
    request *wish = opaque;
    switch (option) {
    case 'f': wish->file = optarg; return true;
    case OPT_POOLING: return take_pooling(wish, optarg);
    case OPT_QUERY: wish->query = optarg; return true;
    case OPT_KEEP_LENGTH: wish->embedding.keep_length = true; return true;
    case OPT_JSON: wish->json = true; return true;
    default: return cli_model_option(wish->self, option, optarg, &wish->options);
    }
}

// --- texts --------------------------------------------------------------------------------------------

// Lines of a file that are not empty; operands as they are.
static bool add_line(request *wish, const char *text, size_t bytes)
{
    if (wish->count % 64 == 0) {
        size_t room = (size_t)wish->count + 64;
        line *lines = realloc(wish->lines, room * sizeof *lines);
        if (!lines)
            return false;
        wish->lines = lines;
    }
    wish->lines[wish->count++] = (line){.text = text, .bytes = bytes};
    return true;
}

static bool add_lines(request *wish, const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t length = end ? (size_t)(end - text) - at : bytes - at;
        size_t shown = length > 0 && text[at + length - 1] == '\r' ? length - 1 : length;
        if (shown > 0 && !add_line(wish, text + at, shown))
            return false;
        at += length + 1;
    }
    return true;
}

// Returns -1 to go on, or an exit status.
static int parse(request *wish, int argc, char **argv)
{
    static const struct option options[] = {{"file", required_argument, NULL, 'f'},
                                            {"pooling", required_argument, NULL, OPT_POOLING},
                                            {"query", required_argument, NULL, OPT_QUERY},
                                            {"keep-length", no_argument, NULL, OPT_KEEP_LENGTH},
                                            {"json", no_argument, NULL, OPT_JSON},
                                            CLI_MODEL_OPTIONS,
                                            {0}};
    int status = cli_take_options(wish->self, argc, argv, options, take_option, wish);
    if (status >= 0)
        return status;
    if (optind == argc)
        return cli_bad_usage(wish->self, "MODEL is missing");
    wish->model_path = argv[optind++];
    if (wish->file && optind < argc)
        return cli_bad_usage(wish->self, "unexpected argument '%s': texts are in %s", argv[optind],
                             wish->file);
    if (!wish->file && optind == argc)
        return cli_bad_usage(wish->self, "TEXT is missing");
    size_t bytes;
    bool fine = true;
    for (; fine && optind < argc; optind++)
        fine = add_line(wish, argv[optind], strlen(argv[optind]));
    if (wish->file) {
        wish->read = cli_read_file(wish->self, wish->file, &bytes);
        if (!wish->read)
            return CLI_FAILED;
        fine = add_lines(wish, wish->read, bytes);
    }
    return fine ? -1 : cli_failed(wish->self, "not enough memory for the texts");
}

// [CLS] query [SEP] text [SEP], with one separator in the middle or two.
static bool encode_line(const request *wish, const tokenizer *t, int32_t separators, line *l,
                        engine_error *err)
{
    tokenizer_ids *ids = &l->ids;
    if (!wish->query)
        return tokenizer_encode(t, l->text, l->bytes, TOKENIZER_ADD_SPECIAL, ids, err);
    int32_t end = tokenizer_eos(t);
    if (!tokenizer_encode(t, wish->query, strlen(wish->query), TOKENIZER_ADD_SPECIAL, ids, err))
        return false;
    if (end != TOKENIZER_NONE && separators == 2 && !tokenizer_ids_push(ids, end))
        return engine_fail(err, "not enough memory for the texts");
    l->second = (int32_t)ids->count;
    if (!tokenizer_encode(t, l->text, l->bytes, 0, ids, err))
        return false;
    return end == TOKENIZER_NONE || tokenizer_ids_push(ids, end) ||
           engine_fail(err, "not enough memory for the texts");
}

// The longest text decides how much the worker must hold.
static bool encode_lines(request *wish, const engine_model *model, engine_error *err)
{
    engine_model_info info;
    size_t longest = 1;
    engine_model_describe(model, &info);
    for (int32_t i = 0; i < wish->count; i++) {
        line *l = &wish->lines[i];
        if (!encode_line(wish, engine_model_tokenizer(model), info.separators, l, err))
            return false;
        longest = l->ids.count > longest ? l->ids.count : longest;
    }
    engine_options *options = &wish->options;
    int32_t most = options->context_tokens ? options->context_tokens : info.trained_context;
    if (longest > (size_t)most)
        return engine_fail(err, "a text has %zu tokens, the model reads %d: shorten it", longest,
                           most);
    options->context_tokens = (int32_t)longest;
    options->max_sessions = wish->count < MOST_SESSIONS ? wish->count : MOST_SESSIONS;
    if (options->chunk_tokens == 0)
        options->chunk_tokens = engine_usual_chunk(options->device);
    if (info.encoder && options->chunk_tokens < options->context_tokens)
        options->chunk_tokens = options->context_tokens;
    // What goes through at a time is a chunk or one text; a page of each may be part empty.
    int32_t together = options->chunk_tokens > options->context_tokens ? options->chunk_tokens
                                                                       : options->context_tokens;
    options->pool_tokens = together + PAGE_TOKENS * options->max_sessions;
    return true;
}

// --- output -------------------------------------------------------------------------------------------

static int print_json(const request *wish, const line *l, const float *vector, int32_t dim,
                      bool ranks)
{
    json_t *numbers = json_array();
    char *text = malloc(l->bytes + 1);
    if (!text)
        return cli_failed(wish->self, "not enough memory");
    memcpy(text, l->text, l->bytes);
    text[l->bytes] = '\0';
    for (int32_t i = 0; i < dim; i++)
        json_array_append_new(numbers, json_real((double)vector[i]));
    json_t *object =
        json_pack("{s:o, s:i}", "text", cli_json_text(text), "tokens", (int)l->ids.count);
    free(text);
    if (ranks && dim == 1) {
        json_object_set_new(object, "score", json_real((double)vector[0]));
        json_decref(numbers);
    } else
        json_object_set_new(object, ranks ? "scores" : "embedding", numbers);
    return cli_print_json(wish->self, object);
}

static int print_all(const request *wish, const engine_model *model, const float *vectors)
{
    engine_model_info info;
    engine_model_describe(model, &info);
    engine_pooling pooling = wish->embedding.pooling ? wish->embedding.pooling : info.pooling;
    bool ranks = pooling == ENGINE_POOLING_RANK;
    int32_t dim = engine_embedding_dim(model, pooling);
    int status = CLI_DONE;
    for (int32_t n = 0; n < wish->count && status == CLI_DONE; n++) {
        const float *vector = vectors + (size_t)n * (size_t)dim;
        if (wish->json) {
            status = print_json(wish, &wish->lines[n], vector, dim, ranks);
            continue;
        }
        for (int32_t i = 0; i < dim; i++)
            printf("%s%.7g", i ? " " : "", (double)vector[i]);
        putchar('\n');
    }
    return status;
}

// Scores need something to be scored against.
static bool check_query(const request *wish, const engine_model *model, engine_error *err)
{
    engine_model_info info;
    engine_model_describe(model, &info);
    engine_pooling pooling = wish->embedding.pooling ? wish->embedding.pooling : info.pooling;
    if (wish->query && pooling != ENGINE_POOLING_RANK)
        return engine_fail(err, "--query is for rerankers, and this model is none: embed the query "
                                "as a text and compare");
    return wish->query || pooling != ENGINE_POOLING_RANK ||
           engine_fail(err, "the model is a reranker: say with --query what texts are scored "
                            "against, or choose another --pooling");
}

static int execute(request *wish)
{
    engine_error err = {{0}};
    engine_model *model = engine_model_open(wish->model_path, &err);
    engine_worker *worker = NULL;
    float *vectors = NULL;
    engine_text *texts = calloc((size_t)wish->count + 1, sizeof *texts);
    bool fine = model && check_query(wish, model, &err) && encode_lines(wish, model, &err);
    if (fine && wish->count > 0) {
        int32_t dim = engine_embedding_dim(model, wish->embedding.pooling);
        vectors = calloc((size_t)wish->count * (size_t)(dim > 0 ? dim : 1), sizeof *vectors);
        worker = engine_worker_open(model, &wish->options, &err);
        fine = worker && vectors && texts;
    }
    for (int32_t n = 0; fine && n < wish->count; n++)
        texts[n] = (engine_text){.ids = wish->lines[n].ids.ids,
                                 .count = (int32_t)wish->lines[n].ids.count,
                                 .second = wish->lines[n].second};
    fine = fine && (wish->count == 0 ||
                    engine_embed(worker, texts, wish->count, &wish->embedding, vectors, &err));
    int status = CLI_DONE;
    if (!fine)
        status = cli_failed(wish->self, "%s", err.text[0] ? err.text : "not enough memory");
    else if (wish->count > 0)
        status = print_all(wish, model, vectors);
    free(vectors);
    free(texts);
    engine_worker_close(worker);
    engine_model_close(model);
    return status;
}

static int embed_main(const cli_command *self, int argc, char **argv)
{
    request wish = {.self = self};
    int status = parse(&wish, argc, argv);
    if (status < 0)
        status = execute(&wish);
    for (int32_t i = 0; i < wish.count; i++)
        tokenizer_ids_free(&wish.lines[i].ids);
    free(wish.lines);
    free(wish.read);
    return status;
}

const cli_command cli_embed = {
    "embed", "turn texts into vectors, or score them", {help}, embed_main};
