// SPDX-License-Identifier: MIT
// weft bench model: a whole model, prompt and generation, against the memory and the arithmetic.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

static const char help[] =
    "usage: weft bench model --shape NAME | --model FILE [options]\n"
    "\n"
    "Measures a whole model: how fast it reads a prompt (prefill) and writes text (decode), for "
    "one\n"
    "or more sequences at once. Weights of a --shape are made up in memory: speed does not depend "
    "on\n"
    "their values, so no file is needed.\n"
    "\n"
    "  --shape NAME        llama-3.2-1b, llama-3.2-3b, llama-3.1-8b, mistral-7b, qwen2.5-0.5b,\n"
    "                      qwen2.5-1.5b, qwen2.5-7b, qwen3-0.6b, qwen3-1.7b, qwen3-4b, qwen3-8b,\n"
    "                      smollm2-135m; mixtures: qwen3-30b-a3b, olmoe-1b-7b, mixtral-8x7b,\n"
    "                      gpt-oss-20b, deepseek-v2-lite; encoders: bert-base; of the tests:\n"
    "                      emulated-dense, -wide, -long, -heads. NAME/N: its first N layers, where "
    "memory is\n"
    "                      short\n"
    "  --model FILE        a GGUF file instead\n"
    "  --format F          format of all matrices of a --shape (default q4_0)\n"
    "  --prompt P          tokens of the prompt of each sequence (default 128)\n"
    "  --generate G        tokens to generate (default 64)\n"
    "  --depth D           tokens in the context when generation begins, whatever the prompt was\n"
    "                      (default: the prompt); others call 0 an empty context\n"
    "  --batch B           sequences (default 1)\n"
    "  --shared            generation: all sequences have the same context, in the same pages, "
    "which\n"
    "                      attention reads once for all from --cascade-rows N rows of queries on\n"
    "                      (default 64; -1: never)\n"
    "  --kv-dtype D        format of the KV cache: f16 (default; of encoders on a CPU bf16, "
    "unless\n"
    "                      matrices are f32), bf16 or f32\n"
    "  --chunk N           most tokens in one pass over the weights; default 512, on a GPU 2048\n"
    "  --exact             activations stay f32 against quantised weights\n"
    "  --no-mmap           weights of a --model are copied into memory, in huge pages\n"
    "  --no-pack           weights are read where they lie\n"
    "  --pack-cache DIR    what was laid out for the CPU is kept there and mapped again\n"
    "  --verbose           the kernel plans of the model as well\n" BENCH_HELP "\n"
    "Of decode, a step is one token of every sequence; it reads all weights once and the KV cache "
    "of\n"
    "each sequence: bytes_per_token. The share of the roof is that of bytes per token times "
    "tokens\n"
    "per second in the measured read bandwidth; of prefill, that of the arithmetic if it is "
    "nearer.\n"
    "Encoders have a prefill alone: texts of P tokens become vectors.\n"
    "\n"
    "Examples:\n"
    "  weft bench model --shape llama-3.2-1b --format q4_0 --prompt 128 --generate 64\n"
    "  weft bench model --model models/demo.gguf --batch 4 --json\n";

enum { MAX_BATCH = 256, MAX_PREFILLS = 16 };

static const bench_column columns[] = {
    {"name", "model", -14, 0, 0},
    {"format", "format", -11, 0, 0},
    {"phase", "phase", -7, 0, 0},
    {"batch", "batch", 5, 0, 0},
    {"prompt", "prompt", 6, 0, 0},
    {"depth", "depth", 6, 0, 0},
    {"tokens_per_second", "tokens/s", 9, 1, 0},
    {"us_median", "us median", 11, 1, 0},
    {"us_min", "us min", 11, 1, 0},
    {"bytes_per_token", "MB/token", 8, 1, 1e-6},
    {"gbps", "GB/s", 6, 1, 0},
    {"gflops", "GFLOP/s", 8, 1, 0},
    {"roof_gbps", "roof", 6, 1, 0},
    {"roof_gflops", "roof", 8, 1, 0},
    {"roof_fraction", "% roof", 6, 1, 100},
    {"roof_fraction_best", "best", 6, 1, 100},
    {0},
};

typedef struct request {
    bench run;
    const char *shape, *path;
    weft_dtype format;
    int32_t prompt, generate, batch;
    int32_t depth; // -1: the prompt
    bool verbose, shared;
} request;

static const bench_option options[] = {
    {"shape", BENCH_TEXT, .offset = offsetof(request, shape)},
    {"model", BENCH_TEXT, .offset = offsetof(request, path)},
    {"format", BENCH_DTYPE, .offset = offsetof(request, format)},
    {"prompt", BENCH_INT, .offset = offsetof(request, prompt), .low = 1, .high = 1 << 24},
    {"generate", BENCH_INT, .offset = offsetof(request, generate), .low = 1, .high = 1 << 20},
    {"depth", BENCH_INT, .offset = offsetof(request, depth), .low = 0, .high = 1 << 24},
    {"batch", BENCH_INT, .offset = offsetof(request, batch), .low = 1, .high = MAX_BATCH},
    {"kv-dtype", .kind = BENCH_ENGINE, .engine_option = CLI_OPT_KV_DTYPE},
    {"chunk", .kind = BENCH_ENGINE, .engine_option = CLI_OPT_CHUNK},
    {"exact", .kind = BENCH_ENGINE, .engine_option = CLI_OPT_EXACT},
    {"no-mmap", .kind = BENCH_ENGINE, .engine_option = CLI_OPT_NO_MMAP},
    {"no-pack", .kind = BENCH_ENGINE, .engine_option = CLI_OPT_NO_PACK},
    {"pack-cache", .kind = BENCH_ENGINE, .engine_option = CLI_OPT_PACK_CACHE},
    {"verbose", BENCH_FLAG, .offset = offsetof(request, verbose)},
    {"shared", BENCH_FLAG, .offset = offsetof(request, shared)},
    {"cascade-rows", BENCH_INT, .offset = offsetof(request, run.options.cascade_rows), .low = -1,
     .high = 1 << 20},
    {0},
};

typedef struct race {
    request *wish;
    engine_model *model;
    engine_worker *worker;
    engine_model_info info;
    engine_worker_info running;
    engine_session *sessions[MAX_BATCH];
    int32_t open; // sequences; of shared contexts one until generation begins
    engine_feed feeds[MAX_BATCH];
    int32_t *ids;   // [batch][prompt]
    float *vectors; // [batch][embedding_dim] of an encoder
    double *step_us;
    engine_error err;
} race;

static int parse(request *wish, int argc, char **argv)
{
    const cli_command *self = wish->run.self;
    int status = bench_parse(&wish->run, options, argc, argv);
    if (status >= 0)
        return status;
    if (!wish->shape == !wish->path)
        return cli_bad_usage(self, "give either --shape NAME or --model FILE");
    if (wish->run.hot || wish->run.variant)
        return cli_bad_usage(self, "--hot and --variant belong to single kernels");
    if (wish->path && wish->format)
        return cli_bad_usage(self, "--format belongs to --shape: a file has its own formats");
    if (!wish->format)
        wish->format = WEFT_Q4_0;
    if (wish->depth < 0)
        wish->depth = wish->prompt;
    int32_t longest = wish->depth + wish->generate;
    wish->run.options.context_tokens = longest > wish->prompt ? longest : wish->prompt;
    wish->run.options.max_sessions = wish->batch;
    return -1;
}

static bool failed(race *r)
{
    cli_failed(r->wish->run.self, "%s", r->err.text[0] ? r->err.text : "out of memory");
    return false;
}

// Nothing is generated, and each text goes through in one piece.
static void fit_encoder(request *wish)
{
    engine_options *worker = &wish->run.options;
    worker->context_tokens = wish->prompt;
    if (worker->chunk_tokens == 0)
        worker->chunk_tokens = engine_usual_chunk(worker->device);
    if (worker->chunk_tokens < wish->prompt)
        worker->chunk_tokens = wish->prompt;
}

static bool begin(race *r)
{
    request *wish = r->wish;
    bench_progress(&wish->run, "preparing the model");
    // Options depend on what the model is, and making one up depends on them.
    if (wish->shape) {
        r->model = engine_model_outline(wish->shape, wish->format, &r->err);
        if (!r->model)
            return failed(r);
        engine_model_describe(r->model, &r->info);
        engine_model_close(r->model);
        if (r->info.encoder)
            fit_encoder(wish);
    }
    r->model = wish->path ? engine_model_open(wish->path, &r->err)
                          : engine_model_synthesise(wish->shape, wish->format, &wish->run.options,
                                                    &r->err);
    if (!r->model)
        return failed(r);
    engine_model_describe(r->model, &r->info);
    if (r->info.encoder)
        fit_encoder(wish);
    r->worker = engine_worker_open(r->model, &wish->run.options, &r->err);
    if (!r->worker)
        return failed(r);
    engine_worker_describe(r->worker, &r->running);
    if (!bench_fits(&wish->run, (double)r->running.kv_pool_bytes + (double)r->running.buffer_bytes))
        return false;
    r->open = r->info.encoder ? 0 : wish->shared ? 1 : wish->batch;
    for (int32_t s = 0; s < r->open; s++)
        if (!(r->sessions[s] = engine_session_open(r->worker, &r->err)))
            return failed(r);
    r->vectors = calloc((size_t)wish->batch * (size_t)r->info.embedding_dim, sizeof *r->vectors);
    size_t ids = (size_t)wish->batch * (size_t)wish->prompt;
    r->ids = malloc(ids * sizeof *r->ids);
    r->step_us = malloc((size_t)wish->generate * sizeof *r->step_us);
    if (!r->ids || !r->step_us || !r->vectors)
        return failed(r);
    uint32_t state = 1;
    for (size_t i = 0; i < ids; i++) {
        state = state * 1664525u + 1013904223u;
        r->ids[i] = (int32_t)((uint64_t)state * (uint64_t)r->info.vocab >> 32);
    }
    return true;
}

static void end(race *r)
{
    for (int32_t s = 0; s < r->wish->batch; s++)
        engine_session_close(r->sessions[s]);
    engine_worker_close(r->worker);
    engine_model_close(r->model);
    free(r->ids);
    free(r->vectors);
    free(r->step_us);
}

// As many texts of `count` tokens become vectors.
static bool embed(race *r, int32_t count)
{
    engine_text texts[MAX_BATCH] = {{0}};
    const engine_embedding mean = {.pooling = ENGINE_POOLING_MEAN};
    for (int32_t s = 0; s < r->wish->batch; s++)
        texts[s] = (engine_text){.ids = r->ids + s * r->wish->prompt, .count = count};
    return engine_embed(r->worker, texts, r->wish->batch, &mean, r->vectors, &r->err) || failed(r);
}

// Feeds `count` tokens to every session.
static bool feed(race *r, int32_t count)
{
    if (r->info.encoder)
        return embed(r, count);
    for (int32_t s = 0; s < r->open; s++)
        r->feeds[s] = (engine_feed){
            .session = r->sessions[s], .ids = r->ids + s * r->wish->prompt, .count = count};
    if (!engine_eval(r->worker, r->feeds, r->open, NULL, NULL, &r->err))
        return failed(r);
    weft_context *context = engine_worker_context(r->worker);
    if (weft_stream_synchronize(context, NULL) == WEFT_OK)
        return true;
    cli_failed(r->wish->run.self, "%s", weft_error_text(context));
    return false;
}

// The whole prompt until the time is up, at least twice: the first time warms up.
static bool prefill(race *r, bench_time *time, bench_roof *roof)
{
    request *wish = r->wish;
    double us[MAX_PREFILLS], begun = 0;
    int32_t runs = 0;
    *roof = (bench_roof){0};
    for (int32_t i = 0; i < MAX_PREFILLS + 1; i++) {
        bench_progress(&wish->run, "prompt of %d tokens",
                       wish->prompt * (r->info.encoder ? wish->batch : r->open));
        for (int32_t s = 0; s < r->open; s++)
            engine_session_truncate(r->sessions[s], 0);
        double before = cli_now_seconds();
        if (!feed(r, wish->prompt))
            return false;
        if (i == 0)
            begun = cli_now_seconds();
        else
            us[runs++] = (cli_now_seconds() - before) * 1e6;
        if (!bench_raise_roof(&wish->run, roof))
            return false;
        if (i > 0 && cli_now_seconds() - begun > (double)wish->run.seconds)
            break;
    }
    *time = bench_summary(us, runs);
    return true;
}

// Brings every session, which holds the prompt, to the depth of the first step.
static bool reach_depth(race *r)
{
    request *wish = r->wish;
    for (int32_t s = 0; s < r->open; s++)
        engine_session_truncate(r->sessions[s], wish->depth);
    for (int32_t at = wish->prompt; at < wish->depth; at += wish->prompt) {
        bench_progress(&wish->run, "context of %d tokens", wish->depth * r->open);
        if (!feed(r, wish->depth - at < wish->prompt ? wish->depth - at : wish->prompt))
            return false;
    }
    for (; r->open < wish->batch; r->open++)
        if (!(r->sessions[r->open] = engine_session_fork(r->sessions[0], &r->err)))
            return failed(r);
    return true;
}

// Tokens of all sequences whose keys and values a step reads, each once.
static double cached_tokens(const request *wish, double of_one)
{
    double own = of_one - wish->depth;
    return wish->shared && own > 0 ? wish->depth + wish->batch * own : wish->batch * of_one;
}

// A device that decodes by itself is given chains of tokens, as generation gives them; a step is the share of
// its chain.
static bool decode_chains(race *r, bench_time *time, bench_roof *roof)
{
    enum { CHAINS = 8 };
    static const engine_sampling likeliest;
    request *wish = r->wish;
    engine_draw draws[MAX_BATCH];
    double us[CHAINS], begun = 0;
    int32_t chains = 0;
    int32_t *tokens = malloc((size_t)wish->generate * (size_t)wish->batch * sizeof *tokens);
    bool fine = tokens && bench_raise_roof(&wish->run, roof) && reach_depth(r);
    for (int32_t i = 0; fine && i < CHAINS + 1; i++) {
        bench_progress(&wish->run, "%d tokens, %d of %d", wish->generate, i + 1, CHAINS + 1);
        for (int32_t s = 0; s < wish->batch; s++) {
            engine_session_truncate(r->sessions[s], wish->depth);
            draws[s] = (engine_draw){r->sessions[s], &likeliest, r->ids[s * wish->prompt]};
        }
        double before = cli_now_seconds();
        fine = engine_decode(r->worker, draws, wish->batch, wish->generate, tokens, &r->err) ||
               failed(r);
        double now = cli_now_seconds();
        if (i == 0)
            begun = now; // the first warms up
        else
            us[chains++] = (now - before) * 1e6 / wish->generate;
        if (i > 0 && now - begun > (double)wish->run.seconds)
            break;
    }
    free(tokens);
    if (fine)
        *time = bench_summary(us, chains);
    return fine && bench_raise_roof(&wish->run, roof);
}

static bool decode(race *r, bench_time *time, bench_roof *roof)
{
    request *wish = r->wish;
    if (wish->run.options.device != WEFT_DEVICE_CPU)
        return decode_chains(r, time, roof);
    int32_t between = (wish->generate + 3) / 4;
    *roof = (bench_roof){0};
    if (!reach_depth(r))
        return false;
    for (int32_t step = 0; step < wish->generate; step++) {
        if (step % between == 0 && !bench_raise_roof(&wish->run, roof))
            return false;
        bench_progress(&wish->run, "token %d of %d", step + 1, wish->generate);
        double before = cli_now_seconds();
        if (!feed(r, 1))
            return false;
        r->step_us[step] = (cli_now_seconds() - before) * 1e6;
    }
    *time = bench_summary(r->step_us, wish->generate);
    return bench_raise_roof(&wish->run, roof);
}

// Multiply-adds of `tokens` tokens that see `keys` keys each, twice; logits of one token a sequence.
static double operations(const race *r, double tokens, double keys)
{
    const engine_model_info *m = &r->info;
    double width = m->embedding_dim, q = (double)m->q_heads * m->head_dim,
           kv = (double)m->kv_heads * m->head_dim;
    double matrices = strcmp(m->architecture, "bert") == 0 ? 2 : 3; // of the feed-forward part
    keys = m->encoder ? r->wish->prompt : keys;
    double layer = width * (q + 2 * kv) + q * width +
                   matrices * width * (double)m->active_feed_forward +
                   2 * q * (m->window && m->window < keys ? m->window : keys);
    return 2 * (tokens * m->layers * layer + r->open * width * m->vocab);
}

// The format that holds most of the weights.
static const char *format_name(const race *r)
{
    gguf_format_total totals[GGUF_MAX_FORMATS];
    const gguf_file *file = engine_model_file(r->model);
    if (file && gguf_format_totals(file, totals) > 0)
        return totals[0].type->name;
    return weft_dtype_name(r->wish->format);
}

static json_t *plans(const race *r)
{
    json_t *list = json_array();
    const char *plan;
    for (int32_t n = 0; (plan = engine_worker_plan_at(r->worker, n)); n++)
        json_array_append_new(list, json_string(plan));
    return list;
}

// Bytes of the experts that a pass of so many tokens reads beyond those of one token, if all go elsewhere.
static double more_experts(const engine_model_info *m, double tokens)
{
    if (m->experts == 0)
        return 0;
    double one = (double)m->experts_used / m->experts, all = tokens * one;
    return (double)m->expert_bytes * ((all < 1 ? all : 1) - one);
}

// What the matrices are multiplied with. A prompt of plain weights meets bf16 dots where they are the faster ones.
static bench_products products_of(const request *wish, weft_dtype dtype, bool generating,
                                  const bench_roof *roof)
{
    if (wish->run.options.exact || dtype == WEFT_F32)
        return BENCH_F32;
    if (weft_dtype_block_elems(dtype) > 1)
        return BENCH_INT8;
    return generating || roof->bf16_gflops < roof->fma_gflops ? BENCH_F32 : BENCH_BF16;
}

// How a GPU was given the layers of a token.
static const char *layers_of(const race *r)
{
    engine_worker_info info;
    engine_worker_describe(r->worker, &info);
    return info.one_launches ? "one launch" : "launches";
}

static bool print_row(race *r, bool generating, const bench_time *time, const bench_roof *roof)
{
    request *wish = r->wish;
    const engine_model_info *m = &r->info;
    const engine_worker_info *w = &r->running;
    const char *format = format_name(r);
    int32_t together = m->encoder ? wish->batch : r->open; // texts of encoders have no session open
    double tokens = (double)together * (generating ? 1 : wish->prompt);
    // The median step of generation has half of what will be generated behind it.
    double keys = generating ? wish->depth + wish->generate / 2.0 : (wish->prompt + 1) / 2.0;
    double cached = generating ? (m->window && m->window < keys ? m->window : keys) : wish->prompt;
    double passes = (double)(((int64_t)tokens + w->chunk_tokens - 1) / w->chunk_tokens);
    double bytes = passes * ((double)m->streamed_bytes + more_experts(m, tokens / passes)) +
                   (generating ? cached_tokens(wish, cached) : together * cached) *
                       (double)w->kv_bytes_per_token;
    json_t *row = json_pack(
        "{s:s, s:s, s:s, s:s, s:o, s:s, s:s, s:i, s:i, s:i, s:b, s:b, s:i, s:f, s:f, s:I, s:I}",
        "op", "model", "device", wish->run.options.device == WEFT_DEVICE_CUDA ? "cuda" : "cpu",
        "isa", weft_context_isa(wish->run.context), "phase", generating ? "decode" : "prefill",
        wish->shape ? "shape" : "model", cli_json_text(wish->shape ? wish->shape : wish->path),
        "name",
        wish->shape  ? wish->shape
        : m->name[0] ? m->name
                     : m->architecture,
        "format", format, "prompt", wish->prompt, "generate", wish->generate, "batch", together,
        "exact", wish->run.options.exact, "cold", !wish->run.hot, "threads",
        weft_context_threads(wish->run.context), "tokens_per_second",
        tokens / time->us_median * 1e6, "bytes_per_token", bytes / tokens, "weight_bytes",
        (json_int_t)m->weight_bytes, "streamed_bytes", (json_int_t)m->streamed_bytes);
    if (row) {
        json_object_set_new(row, "depth", json_integer(generating ? wish->depth : 0));
        if (generating && wish->shared)
            json_object_set_new(row, "shared", json_true());
        if (generating && wish->run.options.device == WEFT_DEVICE_CUDA)
            json_object_set_new(row, "layers", json_string(layers_of(r)));
    }
    bench_products products = products_of(wish, weft_dtype_parse(format), generating, roof);
    if (row)
        bench_add_figures(row, time, bytes, operations(r, tokens, keys), roof->gbps,
                          bench_roof_gflops(&wish->run, roof, products));
    if (row && wish->verbose && generating && wish->run.json)
        json_object_set_new(row, "plans", plans(r));
    return bench_print(&wish->run, row, columns);
}

static void print_plans(const race *r)
{
    const char *plan;
    puts("\nplans");
    for (int32_t n = 0; (plan = engine_worker_plan_at(r->worker, n)); n++)
        printf("  %s\n", plan);
    if (r->wish->run.options.device == WEFT_DEVICE_CUDA && !r->info.encoder)
        printf("  layers of a token: %s\n", layers_of(r));
}

static bool measure(race *r)
{
    request *wish = r->wish;
    bench_time time = {0};
    bench_roof roof;
    if (!bench_begin(&wish->run) || !begin(r))
        return false;
    // A model is held against reading as much memory as it does, from caches if they hold it at least in
    // part. From a gigabyte on nothing changes: what costs more than reading 128 MB are the page tables.
    enum { ENOUGH = 1 << 30 };
    int64_t bytes = bench_working_set(&wish->run, 1 << 20);
    int64_t read_bytes = r->info.streamed_bytes + wish->batch *
                                                      (int64_t)wish->run.options.context_tokens *
                                                      r->running.kv_bytes_per_token;
    wish->run.hot = read_bytes < bytes;
    if (wish->run.hot || (!wish->run.working_set_mib && bytes < ENOUGH))
        bytes = read_bytes < ENOUGH ? read_bytes : ENOUGH;
    if (!bench_reserve(&wish->run, bytes))
        return false;
    if (!prefill(r, &time, &roof) || !print_row(r, false, &time, &roof))
        return false;
    if (!r->info.encoder && (!decode(r, &time, &roof) || !print_row(r, true, &time, &roof)))
        return false;
    if (wish->verbose && !wish->run.json)
        print_plans(r);
    return true;
}

static int model_main(const cli_command *self, int argc, char **argv)
{
    request wish = {
        .run = bench_default(self), .prompt = 128, .generate = 64, .depth = -1, .batch = 1};
    race r = {.wish = &wish};
    int status = parse(&wish, argc, argv);
    if (status >= 0)
        return status;
    bool fine = measure(&r);
    end(&r);
    bench_end(&wish.run);
    return fine ? CLI_DONE : CLI_FAILED;
}

const cli_command bench_model = {"bench model", "a whole model", {help}, model_main};
