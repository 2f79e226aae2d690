// SPDX-License-Identifier: MIT
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/checked.h"
#include "engine/model/shapes.h"
#include "engine/session/session_state.h"

enum {
    DEFAULT_CONTEXT_TOKENS = 4096,
    DEFAULT_CHUNK_TOKENS = 512,
    MAX_CHUNK_TOKENS = 65536,
    MAX_SESSIONS = 4096,
    MAX_CONTEXT_TOKENS = 1 << 27,
};

static bool in_range(int32_t value, int32_t high, const char *what, engine_error *err)
{
    if (value >= 0 && value <= high)
        return true;
    return engine_fail(err, "%s must be 0 (the default) to %d, not %d", what, high, value);
}

static bool check_options(const engine_options *options, engine_error *err)
{
    if (!in_range(options->threads, 1024, "the number of threads", err) ||
        !in_range(options->context_tokens, MAX_CONTEXT_TOKENS, "the context", err) ||
        !in_range(options->max_sessions, MAX_SESSIONS, "the number of sessions", err) ||
        !in_range(options->chunk_tokens, MAX_CHUNK_TOKENS, "the chunk", err))
        return false;
    weft_dtype kv = options->kv_dtype;
    if (kv && kv != WEFT_F32 && kv != WEFT_F16 && kv != WEFT_BF16)
        return engine_fail(err, "the KV cache must be f32, f16 or bf16, not %s",
                           weft_dtype_name(kv) ? weft_dtype_name(kv) : "an unknown format");
    return true;
}

static void settle_options(engine_options *options, const model_config *config)
{
    if (options->context_tokens == 0)
        options->context_tokens = config->trained_context < DEFAULT_CONTEXT_TOKENS
                                      ? config->trained_context
                                      : DEFAULT_CONTEXT_TOKENS;
    if (options->max_sessions == 0)
        options->max_sessions = 1;
    if (options->chunk_tokens == 0)
        options->chunk_tokens = DEFAULT_CHUNK_TOKENS;
    int64_t useful = (int64_t)options->context_tokens * options->max_sessions;
    if (options->chunk_tokens > useful)
        options->chunk_tokens = (int32_t)useful;
    if (options->chunk_tokens < options->max_sessions)
        options->chunk_tokens = options->max_sessions;
    if (options->kv_dtype == WEFT_DTYPE_NONE)
        options->kv_dtype = WEFT_F16;
}

static bool open_context(engine_model *model, engine_error *err)
{
    model->threads = thread_pool_create(model->options.threads, err);
    if (!model->threads)
        return false;
    weft_executor executor = thread_pool_executor(model->threads);
    weft_context_desc desc = {
        .size = sizeof desc, .device = model->options.device, .executor = &executor};
    if (weft_context_create(&desc, &model->context) == WEFT_OK)
        return true;
    return engine_fail(err, "%s", weft_error_text(NULL));
}

static bool open_pool(engine_model *model, engine_error *err)
{
    const engine_options *options = &model->options;
    int64_t pages;
    model->kv = (weft_kv_layout){options->kv_dtype, model->config.kv_heads, model->config.head_dim,
                                 ENGINE_PAGE_TOKENS};
    model->pages_per_session =
        (options->context_tokens + ENGINE_PAGE_TOKENS - 1) / ENGINE_PAGE_TOKENS;
    if (!checked_mul_i64(model->pages_per_session, options->max_sessions, &pages) ||
        pages > INT32_MAX)
        return engine_fail(err, "%d sessions of %d tokens do not fit: choose a smaller context",
                           options->max_sessions, options->context_tokens);
    model->pool = page_pool_create(&model->kv, model->config.layers, (int32_t)pages, err);
    return model->pool != NULL;
}

static bool open_runner(engine_model *model, engine_error *err)
{
    const model_runner_options options = {.max_tokens = model->options.chunk_tokens,
                                          .max_seqs = model->options.max_sessions,
                                          .max_kv_len = model->options.context_tokens,
                                          .exact = model->options.exact};
    model->runner = model_runner_create(model->context, &model->config, &model->weights,
                                        model->pool, &model->kv, &options, err);
    return model->runner != NULL;
}

static bool open_sampler(engine_model *model, engine_error *err)
{
    weft_sample_desc desc = {.size = sizeof desc, .max_rows = 1, .vocab = model->config.vocab};
    if (weft_sample_plan(model->context, &desc, &model->sampler) != WEFT_OK)
        return engine_fail(err, "sampling cannot be planned: %s", weft_error_text(model->context));
    size_t bytes = weft_plan_workspace_bytes(model->sampler);
    model->sampler_workspace = aligned_alloc(64, (bytes / 64 + 1) * 64);
    return model->sampler_workspace || engine_fail(err, "not enough memory for sampling");
}

static bool open_arrays(engine_model *model, engine_error *err)
{
    pass_arrays *a = &model->arrays;
    size_t tokens = (size_t)model->options.chunk_tokens, seqs = (size_t)model->options.max_sessions;
    a->ids = engine_alloc(tokens, sizeof *a->ids);
    a->positions = engine_alloc(tokens, sizeof *a->positions);
    a->slots = engine_alloc(tokens, sizeof *a->slots);
    a->output_rows = engine_alloc(tokens, sizeof *a->output_rows);
    a->logits = engine_alloc(tokens, sizeof *a->logits);
    a->cu_q_lens = engine_alloc(seqs + 1, sizeof *a->cu_q_lens);
    a->kv_lens = engine_alloc(seqs, sizeof *a->kv_lens);
    a->page_table = engine_alloc(seqs * (size_t)model->pages_per_session, sizeof *a->page_table);
    if (a->ids && a->positions && a->slots && a->output_rows && a->logits && a->cu_q_lens &&
        a->kv_lens && a->page_table)
        return true;
    return engine_fail(err, "not enough memory for batches of %d tokens",
                       model->options.chunk_tokens);
}

// Everything that follows once weights and pool are there.
static bool finish(engine_model *model, engine_error *err)
{
    return open_runner(model, err) && open_sampler(model, err) && open_arrays(model, err);
}

static engine_model *start(const engine_options *options, engine_error *err)
{
    static const engine_options defaults;
    if (!options)
        options = &defaults;
    if (!check_options(options, err))
        return NULL;
    engine_model *model = engine_alloc(1, sizeof *model);
    if (!model) {
        engine_fail(err, "not enough memory for a model");
        return NULL;
    }
    model->options = *options;
    if (open_context(model, err))
        return model;
    engine_model_close(model);
    return NULL;
}

static bool load(engine_model *model, const char *path, engine_error *err)
{
    gguf_string name;
    model->file = gguf_open(path, err);
    if (!model->file)
        return false;
    if (gguf_get_string(model->file, "general.name", &name) == GGUF_FOUND)
        gguf_value_text(gguf_find(model->file, "general.name"), model->name, sizeof model->name);
    if (!model_config_read(&model->config, model->file, err) ||
        !model_weights_bind(&model->weights, &model->config, model->file, err))
        return engine_fail_in(err, path);
    model->tokenizer = tokenizer_from_gguf(model->file, err);
    if (!model->tokenizer)
        return engine_fail_in(err, path);
    if (tokenizer_size(model->tokenizer) > (size_t)model->config.vocab) {
        engine_fail(err, "the tokenizer has %zu pieces, the embedding only %d rows",
                    tokenizer_size(model->tokenizer), model->config.vocab);
        return engine_fail_in(err, path);
    }
    settle_options(&model->options, &model->config);
    return open_pool(model, err) && finish(model, err);
}

engine_model *engine_model_open(const char *path, const engine_options *options, engine_error *err)
{
    engine_model *model = start(options, err);
    if (model && load(model, path, err))
        return model;
    engine_model_close(model);
    return NULL;
}

static bool synthesise(engine_model *model, const char *shape, weft_dtype format, engine_error *err)
{
    snprintf(model->name, sizeof model->name, "%s", shape);
    if (!model_shape_config(&model->config, shape, err))
        return false;
    settle_options(&model->options, &model->config);
    return open_pool(model, err) &&
           model_weights_synthesise(&model->weights, &model->config, format,
                                    page_pool_bytes(model->pool), err) &&
           finish(model, err);
}

engine_model *engine_model_synthesise(const char *shape, weft_dtype format,
                                      const engine_options *options, engine_error *err)
{
    engine_model *model = start(options, err);
    if (model && synthesise(model, shape, format, err))
        return model;
    engine_model_close(model);
    return NULL;
}

const char *engine_shape_at(int32_t n)
{
    return model_shape_at(n);
}

void engine_model_close(engine_model *model)
{
    if (!model)
        return;
    model_runner_free(model->runner);
    page_pool_free(model->pool);
    weft_plan_destroy(model->sampler);
    free(model->sampler_workspace);
    free(model->arrays.ids);
    free(model->arrays.positions);
    free(model->arrays.slots);
    free(model->arrays.output_rows);
    free(model->arrays.logits);
    free(model->arrays.cu_q_lens);
    free(model->arrays.kv_lens);
    free(model->arrays.page_table);
    model_weights_free(&model->weights);
    tokenizer_free(model->tokenizer);
    gguf_close(model->file);
    weft_context_destroy(model->context);
    thread_pool_free(model->threads);
    free(model);
}

// Bytes of the matrices that every generated token reads: all but the embedding, of which one row is
// looked up, unless it is the output matrix as well.
static int64_t streamed_bytes(const engine_model *model)
{
    const model_tensor *table = &model->weights.globals[MODEL_GLOBAL_EMBEDDING];
    bool tied = model_output_matrix(&model->weights) == table;
    int64_t table_bytes = weft_dtype_row_bytes(table->dtype, table->cols) * table->rows;
    return model->weights.bytes - (tied ? 0 : table_bytes);
}

void engine_model_describe(const engine_model *model, engine_model_info *info)
{
    const model_config *config = &model->config;
    *info = (engine_model_info){
        .architecture = config->architecture->name,
        .name = model->name,
        .layers = config->layers,
        .embedding_dim = config->embedding_dim,
        .q_heads = config->q_heads,
        .kv_heads = config->kv_heads,
        .head_dim = config->head_dim,
        .feed_forward_dim = config->feed_forward_dim,
        .vocab = config->vocab,
        .trained_context = config->trained_context,
        .window = config->window,
        .parameters = model->weights.parameters,
        .weight_bytes = model->weights.bytes,
        .streamed_bytes = streamed_bytes(model),
        .kv_bytes_per_token = weft_kv_page_bytes(&model->kv) / model->kv.page_size * config->layers,
        .kv_pool_bytes = page_pool_bytes(model->pool),
        .buffer_bytes = model_runner_buffer_bytes(model->runner),
        .context_tokens = model->options.context_tokens,
        .chunk_tokens = model->options.chunk_tokens,
        .page_tokens = ENGINE_PAGE_TOKENS,
    };
}

const char *engine_model_plan_at(const engine_model *model, int32_t n)
{
    return model_runner_plan_at(model->runner, n);
}

const tokenizer *engine_model_tokenizer(const engine_model *model)
{
    return model->tokenizer;
}

const gguf_file *engine_model_file(const engine_model *model)
{
    return model->file;
}

weft_context *engine_model_context(const engine_model *model)
{
    return model->context;
}
