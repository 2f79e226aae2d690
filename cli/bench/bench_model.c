// SPDX-License-Identifier: MIT
// weft bench model: a whole model, prompt and generation, against the memory and the arithmetic.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench_model.h"

static const char help[] =
    "usage: weft bench model --shape NAME | --model FILE [options]\n"
    "\n"
    "Measures a whole model: how fast it reads a prompt (prefill) and writes text (decode), for\n"
    "one or more sequences at once. Weights of a --shape are made up in memory: speed does not\n"
    "depend on their values, so no file is needed.\n"
    "\n"
    "  --shape NAME        llama-3.2-1b, llama-3.2-3b, llama-3.1-8b, mistral-7b, qwen2.5-0.5b,\n"
    "                      qwen2.5-1.5b, qwen2.5-7b, qwen3-0.6b, qwen3-1.7b, qwen3-4b, qwen3-8b,\n"
    "                      smollm2-135m; mixtures: qwen3-30b-a3b, olmoe-1b-7b, mixtral-8x7b,\n"
    "                      gpt-oss-20b, deepseek-v2-lite; encoders: bert-base; of the tests:\n"
    "                      emulated-dense, emulated-wide, emulated-logits, emulated-long,\n"
    "                      emulated-heads.\n"
    "                      NAME/N: its first N layers, where memory is short\n"
    "  --model FILE        a GGUF file instead\n"
    "  --format F          format of all matrices of a --shape (default q4_0), or a mix as files\n"
    "                      have it: q4_k_m and the others that weft quantize knows\n"
    "  --prompt P          tokens of the prompt of each sequence (default 128)\n"
    "  --generate G        tokens to generate (default 64)\n"
    "  --depth D           tokens in the context when generation begins, whatever the prompt was\n"
    "                      (default: the prompt); others call 0 an empty context\n"
    "  --batch B           sequences (default 1)\n"
    "  --shared            generation: all sequences have the same context, in the same pages,\n"
    "                      which attention reads once for all from --cascade-rows N rows of\n"
    "                      queries on (default 64; -1: never)\n"
    "  --kv-dtype D        format of the KV cache: f16 (default; of encoders on a CPU bf16,\n"
    "                      unless matrices are f32), bf16 or f32\n"
    "  --chunk N           most tokens in one pass over the weights; default 512, on a GPU 2048\n"
    "  --exact             activations stay f32 against quantised weights\n"
    "  --no-mmap           weights of a --model are copied into memory, in huge pages\n"
    "  --no-pack           weights are read where they lie\n"
    "  --pack-cache DIR    what was laid out for the CPU is kept there and mapped again\n"
    "  --verbose           the kernel plans of the model as well\n" BENCH_HELP "\n"
    "Of decode, a step is one token of every sequence; it reads all weights once and the KV\n"
    "cache of each sequence: bytes_per_token. The share of the roof is that of bytes per token\n"
    "times tokens per second in the measured read bandwidth; of prefill, that of the arithmetic\n"
    "if it is nearer. Encoders have a prefill alone: texts of P tokens become vectors.\n"
    "\n"
    "Examples:\n"
    "  weft bench model --shape llama-3.2-1b --format q4_0 --prompt 128 --generate 64\n"
    "  weft bench model --model models/demo.gguf --batch 4 --json\n";

enum { MAX_PREFILLS = 16 };

static const bench_option options[] = {
    {"shape", BENCH_TEXT, .offset = offsetof(model_request, shape)},
    {"model", BENCH_TEXT, .offset = offsetof(model_request, path)},
    {"format", BENCH_MADE_UP, .offset = offsetof(model_request, format)},
    {"prompt", BENCH_INT, .offset = offsetof(model_request, prompt), .low = 1, .high = 1 << 24},
    {"generate", BENCH_INT, .offset = offsetof(model_request, generate), .low = 1, .high = 1 << 20},
    {"depth", BENCH_INT, .offset = offsetof(model_request, depth), .low = 0, .high = 1 << 24},
    {"batch", BENCH_INT, .offset = offsetof(model_request, batch), .low = 1, .high = MAX_BATCH},
    {"kv-dtype", .kind = BENCH_ENGINE, .engine_option = CLI_OPT_KV_DTYPE},
    {"chunk", .kind = BENCH_ENGINE, .engine_option = CLI_OPT_CHUNK},
    {"exact", .kind = BENCH_ENGINE, .engine_option = CLI_OPT_EXACT},
    {"no-mmap", .kind = BENCH_ENGINE, .engine_option = CLI_OPT_NO_MMAP},
    {"no-pack", .kind = BENCH_ENGINE, .engine_option = CLI_OPT_NO_PACK},
    {"pack-cache", .kind = BENCH_ENGINE, .engine_option = CLI_OPT_PACK_CACHE},
    {"verbose", BENCH_FLAG, .offset = offsetof(model_request, verbose)},
    {"shared", BENCH_FLAG, .offset = offsetof(model_request, shared)},
    {"cascade-rows", BENCH_INT, .offset = offsetof(model_request, run.options.cascade_rows),
     .low = -1, .high = 1 << 20},
    {0},
};

static int parse(model_request *wish, int argc, char **argv)
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
        wish->format = "q4_0";
    if (wish->depth < 0)
        wish->depth = wish->prompt;
    int32_t longest = wish->depth + wish->generate;
    wish->run.options.context_tokens = longest > wish->prompt ? longest : wish->prompt;
    wish->run.options.max_sessions = wish->batch;
    return -1;
}

static bool failed(model_race *r)
{
    cli_failed(r->wish->run.self, "%s", r->err.text[0] ? r->err.text : "out of memory");
    return false;
}

// Nothing is generated, and each text goes through in one piece.
static void fit_encoder(model_request *wish)
{
    engine_options *worker = &wish->run.options;
    worker->context_tokens = wish->prompt;
    if (worker->chunk_tokens == 0)
        worker->chunk_tokens = engine_usual_chunk(worker->device);
    if (worker->chunk_tokens < wish->prompt)
        worker->chunk_tokens = wish->prompt;
}

static bool begin(model_race *r)
{
    model_request *wish = r->wish;
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

static void end(model_race *r)
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
static bool embed(model_race *r, int32_t count)
{
    engine_text texts[MAX_BATCH] = {{0}};
    const engine_embedding mean = {.pooling = ENGINE_POOLING_MEAN};
    for (int32_t s = 0; s < r->wish->batch; s++)
        texts[s] = (engine_text){.ids = r->ids + s * r->wish->prompt, .count = count};
    return engine_embed(r->worker, texts, r->wish->batch, &mean, r->vectors, &r->err) || failed(r);
}

// Feeds `count` tokens to every session.
static bool feed(model_race *r, int32_t count)
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
static bool prefill(model_race *r, bench_time *time, bench_roof *roof)
{
    model_request *wish = r->wish;
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
static bool reach_depth(model_race *r)
{
    model_request *wish = r->wish;
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

// A device that decodes by itself is given chains of tokens, as generation gives them; a step is the share of
// its chain.
static bool decode_chains(model_race *r, bench_time *time, bench_roof *roof)
{
    enum { CHAINS = 8 };
    static const engine_sampling likeliest;
    model_request *wish = r->wish;
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

static bool decode(model_race *r, bench_time *time, bench_roof *roof)
{
    model_request *wish = r->wish;
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

static bool measure(model_race *r)
{
    model_request *wish = r->wish;
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
    if (!prefill(r, &time, &roof) || !model_print_row(r, false, &time, &roof))
        return false;
    if (!r->info.encoder && (!decode(r, &time, &roof) || !model_print_row(r, true, &time, &roof)))
        return false;
    if (wish->verbose && !wish->run.json)
        model_print_plans(r);
    return true;
}

static int model_main(const cli_command *self, int argc, char **argv)
{
    model_request wish = {
        .run = bench_default(self), .prompt = 128, .generate = 64, .depth = -1, .batch = 1};
    model_race r = {.wish = &wish};
    int status = parse(&wish, argc, argv);
    if (status >= 0)
        return status;
    bool fine = measure(&r);
    end(&r);
    bench_end(&wish.run);
    return fine ? CLI_DONE : CLI_FAILED;
}

const cli_command bench_model = {"bench model", "a whole model", {help}, model_main};
