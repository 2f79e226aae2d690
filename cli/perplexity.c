// SPDX-License-Identifier: MIT
// weft perplexity: how well a model predicts a text, and how far it is from another model or from itself
// with nothing rounded.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const char help[] =
    "usage: weft perplexity MODEL -f TEXT [options]\n"
    "\n"
    "How well the model predicts a text: exp of the mean surprise of a token. The text is cut\n"
    "into segments, each evaluated on its own. Only the tokens of their second halves count, so\n"
    "that each has at least half a segment before it. What is left at the end does not count.\n"
    "\n"
    "  -f, --file FILE     the text; - is standard input\n"
    "  --segment N         tokens of a segment, which begins with the model's bos; default 512,\n"
    "                      or the whole of a shorter text\n"
    "  --against FILE      compare the model with another one of the same vocabulary\n"
    "  --against-exact     ... or with itself with activations in f32 (--exact)\n"
    "  --against-kv-dtype K[/V]\n"
    "                      ... or with itself with a KV cache of this format; after one of the "
    "two\n"
    "                      above, the cache of the other (default: as --kv-dtype says)\n"
    "  --json              one JSON object\n"
    "\n"
    "A comparison prints the Kullback-Leibler divergence of the model from the other for each\n"
    "token, in nats (0: equal), and how often both give the same token as the likeliest.\n"
    "\n"
    "model:\n" CLI_MODEL_HELP "\n"
    "Examples:\n"
    "  weft perplexity model-q4_k.gguf -f text.txt --against model-f16.gguf\n"
    "  weft perplexity model-q4_k.gguf -f text.txt --against-exact\n"
    "  weft perplexity model-q4_k.gguf -f text.txt --segment 4096 --kv-dtype q4_0 "
    "--against-kv-dtype f32\n";

enum { OPT_SEGMENT = 1, OPT_AGAINST, OPT_AGAINST_EXACT, OPT_AGAINST_CACHE, OPT_JSON };
enum {
    USUAL_SEGMENT = 512,
    LEAST_SEGMENT = 4,
    PART_TOKENS = 64, // logits that are kept at a time
};

typedef struct request {
    const cli_command *self;
    const char *model_path, *file, *other_path;
    int32_t segment;
    bool against_exact, json;
    engine_options options;
    engine_options other_cache; // kv_dtype and v_dtype of what it is held against; 0: as options
} request;

// A model that predicts the text.
typedef struct reader {
    engine_model *model; // NULL: that of the first reader
    engine_worker *worker;
    engine_session *session;
    float *logits; // [PART_TOKENS][vocab]
    double surprise, surprise_squares;
} reader;

typedef struct run_state {
    const request *wish;
    tokenizer_ids ids;
    int32_t vocab, segment, segments, scored, agreed;
    reader readers[2];  // the model, and what it is held against
    double *divergence; // of every token scored
    cli_progress progress;
} run_state;

static bool take_option(void *opaque, int option)
{
    request *wish = opaque;
    switch (option) {
    case 'f': wish->file = optarg; return true;
    case OPT_SEGMENT:
        return cli_int32(wish->self, "--segment", optarg, LEAST_SEGMENT, 1 << 27, &wish->segment);
    case OPT_AGAINST: wish->other_path = optarg; return true;
    case OPT_AGAINST_EXACT: wish->against_exact = true; return true;
    case OPT_AGAINST_CACHE: return cli_kv_dtype(wish->self, optarg, &wish->other_cache);
    case OPT_JSON: wish->json = true; return true;
    default: return cli_model_option(wish->self, option, optarg, &wish->options);
    }
}

// Returns -1 to go on, or an exit status.
static int parse(request *wish, int argc, char **argv)
{
    static const struct option options[] = {
        {"file", required_argument, NULL, 'f'},
        {"segment", required_argument, NULL, OPT_SEGMENT},
        {"against", required_argument, NULL, OPT_AGAINST},
        {"against-exact", no_argument, NULL, OPT_AGAINST_EXACT},
        {"against-kv-dtype", required_argument, NULL, OPT_AGAINST_CACHE},
        {"json", no_argument, NULL, OPT_JSON},
        CLI_MODEL_OPTIONS,
        {0}};
    int status =
        cli_take_model(wish->self, argc, argv, options, take_option, wish, &wish->model_path);
    if (status >= 0)
        return status;
    if (!wish->file)
        return cli_bad_usage(wish->self, "-f TEXT is missing");
    if (wish->against_exact && (wish->other_path || wish->options.exact))
        return cli_bad_usage(wish->self,
                             "--against-exact goes with neither --against nor --exact: it holds a "
                             "model against itself");
    // A context is what others call a segment.
    if (!wish->segment)
        wish->segment = wish->options.context_tokens;
    if (wish->segment && wish->segment < LEAST_SEGMENT)
        return cli_bad_usage(wish->self, "a segment has at least %d tokens", LEAST_SEGMENT);
    return -1;
}

static bool encode(run_state *run, const tokenizer *t, tokenizer_ids *ids, engine_error *err)
{
    size_t bytes;
    char *text = cli_read_file(run->wish->self, run->wish->file, &bytes);
    if (!text)
        return false;
    bool fine = !tokenizer_adds_bos(t) || tokenizer_ids_push(ids, tokenizer_bos(t)) ||
                engine_fail(err, "out of memory");
    fine = fine && tokenizer_encode(t, text, bytes, 0, ids, err);
    free(text);
    return fine;
}

static bool cut_text(run_state *run, engine_error *err)
{
    int32_t count = (int32_t)run->ids.count;
    run->segment = run->wish->segment ? run->wish->segment : USUAL_SEGMENT;
    if (run->segment > count)
        run->segment = count;
    if (count < LEAST_SEGMENT)
        return engine_fail(err, "the text has %s, too few to measure: give a longer one",
                           cli_tokens(count));
    run->segments = count / run->segment;
    run->divergence = malloc((size_t)count * sizeof *run->divergence);
    return run->divergence || engine_fail(err, "out of memory");
}

static bool open_reader(run_state *run, reader *r, engine_model *model, engine_options options,
                        engine_error *err)
{
    options.context_tokens = run->segment;
    r->worker = engine_worker_open(model, &options, err);
    r->session = r->worker ? engine_session_open(r->worker, err) : NULL;
    if (!r->session)
        return false;
    r->logits = malloc((size_t)PART_TOKENS * (size_t)run->vocab * sizeof *r->logits);
    return r->logits || engine_fail(err, "out of memory");
}

// Only vocabularies that are the same can be compared; that the text is cut alike is not enough.
static bool check_vocabulary(const run_state *run, const tokenizer *other, engine_error *err)
{
    const tokenizer *own = engine_model_tokenizer(run->readers[0].model);
    bool same = tokenizer_size(own) == tokenizer_size(other) &&
                tokenizer_adds_bos(own) == tokenizer_adds_bos(other);
    for (int32_t id = 0; same && id < (int32_t)tokenizer_size(own); id++) {
        tokenizer_bytes a, b;
        same = tokenizer_piece(own, id, &a) && tokenizer_piece(other, id, &b) &&
               a.size_bytes == b.size_bytes && memcmp(a.data, b.data, a.size_bytes) == 0;
    }
    return same || engine_fail(err, "the models have different vocabularies: only models of one "
                                    "family can be held against each other");
}

static bool open_other(run_state *run, engine_error *err)
{
    const request *wish = run->wish;
    reader *other = &run->readers[1];
    engine_model_info info;
    engine_options options = wish->options;
    options.exact |= wish->against_exact;
    if (wish->other_cache.kv_dtype) {
        options.kv_dtype = wish->other_cache.kv_dtype;
        options.v_dtype = wish->other_cache.v_dtype;
    }
    if (!wish->other_path && (wish->against_exact || wish->other_cache.kv_dtype))
        return open_reader(run, other, run->readers[0].model, options, err);
    if (!wish->other_path)
        return true;
    other->model = engine_model_open(wish->other_path, err);
    if (!other->model || !check_vocabulary(run, engine_model_tokenizer(other->model), err))
        return false;
    engine_model_describe(other->model, &info);
    if (info.vocab != run->vocab)
        return engine_fail(err, "the models have %d and %d rows of logits, and cannot be compared",
                           run->vocab, info.vocab);
    return open_reader(run, other, other->model, options, err);
}

static bool open_all(run_state *run, engine_error *err)
{
    reader *first = &run->readers[0];
    engine_model_info info;
    first->model = engine_model_open(run->wish->model_path, err);
    if (!first->model)
        return false;
    engine_model_describe(first->model, &info);
    run->vocab = info.vocab;
    if (!encode(run, engine_model_tokenizer(first->model), &run->ids, err) || !cut_text(run, err) ||
        !open_reader(run, first, first->model, run->wish->options, err))
        return false;
    cli_warn_of_context(run->wish->self, first->model, first->worker);
    return open_other(run, err);
}

static int32_t likeliest(const float *logits, int32_t vocab)
{
    int32_t best = 0;
    for (int32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

// ln of the sum of exp: what the logits are above their logarithms.
static double log_sum(const float *logits, int32_t vocab)
{
    double most = logits[likeliest(logits, vocab)], sum = 0;
    for (int32_t i = 0; i < vocab; i++)
        sum += exp(logits[i] - most);
    return most + log(sum);
}

// sum p ln(p / q), p and q being the other's and the model's probabilities.
static double divergence(const float *model, double model_sum, const float *other, double other_sum,
                         int32_t vocab)
{
    double sum = 0;
    for (int32_t i = 0; i < vocab; i++) {
        double log_p = other[i] - other_sum, log_q = model[i] - model_sum;
        sum += exp(log_p) * (log_p - log_q);
    }
    return sum > 0 ? sum : 0;
}

// Row `row` of the logits predicts token `id`.
static void score(run_state *run, int32_t row, int32_t id)
{
    const float *logits[2];
    double sums[2] = {0};
    for (int i = 0; i < 2 && run->readers[i].session; i++) {
        reader *r = &run->readers[i];
        logits[i] = r->logits + (size_t)row * (size_t)run->vocab;
        sums[i] = log_sum(logits[i], run->vocab);
        double surprise = sums[i] - logits[i][id];
        r->surprise += surprise;
        r->surprise_squares += surprise * surprise;
    }
    if (run->readers[1].session) {
        run->divergence[run->scored] =
            divergence(logits[0], sums[0], logits[1], sums[1], run->vocab);
        run->agreed += likeliest(logits[0], run->vocab) == likeliest(logits[1], run->vocab);
    }
    run->scored++;
}

// Tokens [from, from + count) of a segment; logits only of those that predict one that counts.
static bool read_part(run_state *run, const int32_t *segment, int32_t from, int32_t count,
                      engine_error *err)
{
    int32_t first = run->segment / 2;
    bool wanted = from + count > first;
    for (int i = 0; i < 2 && run->readers[i].session; i++) {
        reader *r = &run->readers[i];
        engine_feed feed = {.session = r->session,
                            .ids = segment + from,
                            .count = count,
                            .logits = wanted ? r->logits : NULL};
        if (!engine_eval(r->worker, &feed, 1, NULL, NULL, err))
            return false;
    }
    for (int32_t i = from > first ? from : first; i < from + count && i + 1 < run->segment; i++)
        score(run, i - from, segment[i + 1]);
    return true;
}

static bool read_segment(run_state *run, int32_t n, engine_error *err)
{
    int32_t *segment = run->ids.ids + (size_t)n * (size_t)run->segment;
    const tokenizer *t = engine_model_tokenizer(run->readers[0].model);
    int32_t all = run->segments * run->segment;
    if (tokenizer_adds_bos(t))
        segment[0] = tokenizer_bos(t);
    for (int i = 0; i < 2 && run->readers[i].session; i++)
        engine_session_truncate(run->readers[i].session, 0);
    for (int32_t at = 0; at < run->segment; at += PART_TOKENS) {
        int32_t left = run->segment - at, count = left < PART_TOKENS ? left : PART_TOKENS;
        if (!read_part(run, segment, at, count, err))
            return false;
        if (!cli_progress_show(&run->progress, n * run->segment + at + count, all))
            return engine_fail(err, "stopped");
    }
    return true;
}

typedef struct figure {
    double mean, error; // of the mean
} figure;

static figure mean_of(double sum, double squares, int32_t count)
{
    double mean = sum / count, variance = squares / count - mean * mean;
    return (figure){mean, count > 1 && variance > 0 ? sqrt(variance / (count - 1)) : 0};
}

static figure perplexity_of(const reader *r, int32_t count)
{
    figure surprise = mean_of(r->surprise, r->surprise_squares, count);
    double perplexity = exp(surprise.mean);
    return (figure){perplexity, perplexity * surprise.error};
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The value that `share` of the sorted ones do not exceed.
static double percentile(const double *sorted, int32_t count, double share)
{
    int32_t at = (int32_t)ceil(share * count) - 1;
    return sorted[at < 0 ? 0 : at];
}

typedef struct comparison {
    figure perplexity, divergence; // the former of the other
    double middle, percentile_99, most, same_choice;
} comparison;

static comparison compare(run_state *run)
{
    double sum = 0, squares = 0;
    for (int32_t i = 0; i < run->scored; i++) {
        sum += run->divergence[i];
        squares += run->divergence[i] * run->divergence[i];
    }
    qsort(run->divergence, (size_t)run->scored, sizeof *run->divergence, ascending);
    return (comparison){perplexity_of(&run->readers[1], run->scored),
                        mean_of(sum, squares, run->scored),
                        percentile(run->divergence, run->scored, 0.5),
                        percentile(run->divergence, run->scored, 0.99),
                        run->divergence[run->scored - 1],
                        (double)run->agreed / run->scored};
}

static const char *other_name(const request *wish)
{
    if (wish->other_path)
        return wish->other_path;
    return wish->against_exact ? "exact" : weft_dtype_name(wish->other_cache.kv_dtype);
}

static int print_json(const run_state *run, figure own, const comparison *other)
{
    const request *wish = run->wish;
    json_t *object = json_pack(
        "{s:o, s:f, s:f, s:i, s:i, s:i, s:i}", "model", cli_json_text(wish->model_path),
        "perplexity", own.mean, "perplexity_error", own.error, "tokens", (int)run->ids.count,
        "scored_tokens", run->scored, "segment", run->segment, "segments", run->segments);
    if (object && other) {
        json_t *more =
            json_pack("{s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "against",
                      cli_json_text(other_name(wish)), "against_perplexity", other->perplexity.mean,
                      "against_perplexity_error", other->perplexity.error, "kl_mean",
                      other->divergence.mean, "kl_mean_error", other->divergence.error, "kl_median",
                      other->middle, "kl_99th_percentile", other->percentile_99, "kl_max",
                      other->most, "same_top_1", other->same_choice);
        if (more)
            json_object_update(object, more);
        json_decref(more);
    }
    return cli_print_json(wish->self, object);
}

static int report(run_state *run)
{
    figure own = perplexity_of(&run->readers[0], run->scored);
    comparison other;
    bool compared = run->readers[1].session != NULL;
    if (compared)
        other = compare(run);
    if (run->wish->json)
        return print_json(run, own, compared ? &other : NULL);
    printf("perplexity     %.4f +- %.4f\n", own.mean, own.error);
    if (compared) {
        printf("against        %.4f +- %.4f, %s\n", other.perplexity.mean, other.perplexity.error,
               other_name(run->wish));
        printf("KL divergence  %.6f +- %.6f, median %.6f, 99 %% below %.6f, most %.6f\n",
               other.divergence.mean, other.divergence.error, other.middle, other.percentile_99,
               other.most);
        printf("same top-1     %.2f %%\n", 100 * other.same_choice);
    }
    printf("tokens         %d scored of %zu, in %d segments of %d\n", run->scored, run->ids.count,
           run->segments, run->segment);
    return CLI_DONE;
}

static int execute(run_state *run)
{
    engine_error err = {{0}};
    run->progress.label = "reading";
    bool fine = open_all(run, &err);
    cli_catch_interrupt();
    for (int32_t n = 0; fine && n < run->segments; n++)
        fine = read_segment(run, n, &err);
    cli_progress_clear(&run->progress);
    if (fine)
        return report(run);
    return err.text[0] ? cli_failed(run->wish->self, "%s", err.text) : CLI_FAILED;
}

static int perplexity_main(const cli_command *self, int argc, char **argv)
{
    request wish = {.self = self};
    run_state run = {.wish = &wish};
    int status = parse(&wish, argc, argv);
    if (status < 0)
        status = execute(&run);
    for (int i = 1; i >= 0; i--) {
        engine_session_close(run.readers[i].session);
        engine_worker_close(run.readers[i].worker);
        free(run.readers[i].logits);
    }
    for (int i = 0; i < 2; i++)
        engine_model_close(run.readers[i].model);
    tokenizer_ids_free(&run.ids);
    free(run.divergence);
    return status;
}

const cli_command cli_perplexity = {
    "perplexity", "how well a model predicts a text", {help}, perplexity_main};
