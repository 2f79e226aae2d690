// SPDX-License-Identifier: MIT
#include "engine/worker/worker.h"

#include <stdlib.h>

#include "engine/base/alloc.h"
#include "engine/base/system_memory.h"

static bool open_context(engine_worker *worker, engine_error *err)
{
    const engine_options *options = &worker->settings.options;
    weft_context_desc desc = {.size = sizeof desc,
                              .device = options->device,
                              .device_index = options->device_index,
                              .threads = options->threads};
    if (weft_context_create(&desc, &worker->context) == WEFT_OK)
        return true;
    return engine_fail(err, "%s", weft_error_text(NULL));
}

// What the host reads again and again.
static bool own_weights(const engine_worker *worker, engine_error *err)
{
    const engine_options *options = &worker->settings.options;
    gguf_file *file = worker->model->file;
    return !options->no_mmap || options->device != WEFT_DEVICE_CPU || !file || gguf_own(file, err);
}

// Where the CPU's packed matrices are, NULL for none, if memory has room for all a second time: those of a mapped file
// leave it again.
static packed_store *packs(const engine_worker *worker)
{
    const engine_options *options = &worker->settings.options;
    engine_model_info info;
    if (options->device != WEFT_DEVICE_CPU || options->no_pack || options->no_mmap)
        return NULL;
    engine_model_describe(worker->model, &info);
    const bool has_room = (double)info.weight_bytes <= 0.75 * (double)system_memory_available();
    return has_room ? worker->model->packed : NULL;
}

// Can what is packed be kept, if that is wished?
static bool check_cache(const engine_worker *worker, const program_bounds *bounds,
                        engine_error *err)
{
    if (!bounds->packed.folder)
        return true;
    if (bounds->device != WEFT_DEVICE_CPU || worker->settings.options.no_pack ||
        worker->settings.options.no_mmap)
        return engine_fail(err,
                           "packed weights are kept of the CPU's alone, and where they are made: "
                           "leave out --pack-cache, or --no-pack and --no-mmap");
    if (!bounds->packed.stamp)
        return engine_fail(err, "packed weights are kept of models in GGUF files: leave out "
                                "--pack-cache");
    return bounds->store != NULL ||
           engine_fail(err, "memory has no room for packed weights: leave out --pack-cache");
}

// Matrices that were read once, to be laid out elsewhere, need not stay in memory.
static void leave_file(const engine_worker *worker)
{
    bool found;
    const bool packed = model_program_packed_bytes(worker->program, &found) > 0;
    const bool is_host = worker->settings.options.device == WEFT_DEVICE_CPU;
    if (worker->model->file && (!is_host || (packed && !found)))
        gguf_leave(worker->model->file);
}

static bool open_program(engine_worker *worker, engine_error *err)
{
    const worker_settings *settings = &worker->settings;
    const engine_model *model = worker->model;
    const program_bounds bounds = {
        .max_tokens = settings->options.chunk_tokens,
        .max_seqs = settings->options.max_sessions,
        .max_kv_len = settings->options.context_tokens,
        .max_seq_pages = settings->pages_per_session,
        .chain_tokens = settings->options.chain_tokens,
        .device = settings->options.device,
        .attention = settings->options.attention,
        .exact = settings->options.exact,
        .store = packs(worker),
        .packed = {.folder = settings->options.pack_cache,
                   .name = model->name,
                   .stamp = model->file ? gguf_stamp(model->file) : 0},
        .separate = settings->options.separate,
        .invariant = settings->options.invariant,
        // who shares a prefix must not change what is summed in which order
        .cascade_rows = settings->options.invariant ? -1 : settings->options.cascade_rows,
        .cascade_bytes = settings->cascade_bytes};
    if (!check_cache(worker, &bounds, err) || !own_weights(worker, err))
        return false;
    worker->pool = page_pool_create(worker->context, &settings->kv, settings->values_at,
                                    model->config.layers, settings->pool_pages, err);
    if (!worker->pool)
        return false;
    if (settings->options.keep_prefixes && !page_pool_remember(worker->pool, ENGINE_PAGE_TOKENS))
        return engine_fail(err, "not enough memory to remember pages");
    bool adapts = settings->options.adapter_count != 0;
    if (adapts && !model_adapt(&worker->adapted, model, &settings->options, err))
        return false;
    worker->program = model_program_make(worker->context, &model->config,
                                         adapts ? &worker->adapted.weights : &model->weights,
                                         worker->pool, &settings->kv, &bounds, err);
    if (worker->program)
        leave_file(worker);
    return worker->program != NULL;
}

static bool open_tables(engine_worker *worker, engine_error *err)
{
    size_t tokens = (size_t)worker->settings.options.chunk_tokens;
    size_t sessions = (size_t)worker->settings.options.max_sessions;
    size_t head_rows = (size_t)model_program_head_rows(worker->program);
    pass_outputs *out = &worker->outputs;
    out->rows = engine_alloc(tokens, sizeof *out->rows);
    out->to = engine_alloc(tokens, sizeof *out->to);
    out->kept_rows = engine_alloc(head_rows, sizeof *out->kept_rows);
    out->kept = engine_alloc(head_rows, sizeof *out->kept);
    out->kept_to = engine_alloc(head_rows, sizeof *out->kept_to);
    out->taken = engine_alloc(sessions, sizeof *out->taken);
    out->first = engine_alloc(sessions, sizeof *out->first);
    worker->logits_owner = engine_alloc(head_rows, sizeof *worker->logits_owner);
    worker->sessions = engine_alloc(sessions, sizeof *worker->sessions);
    worker->draw_params = engine_alloc(sessions, sizeof *worker->draw_params);
    worker->chosen =
        engine_alloc((size_t)worker->settings.options.chain_tokens, sizeof *worker->chosen);
    worker->drawn = engine_alloc(sessions, sizeof *worker->drawn);
    chain_room *chains = &worker->chains;
    chains->params = engine_alloc(sessions, sizeof *chains->params);
    chains->histories = engine_alloc(sessions, sizeof *chains->histories);
    chains->lengths = engine_alloc(sessions, sizeof *chains->lengths);
    chains->windows = engine_alloc(sessions, sizeof *chains->windows);
    return (out->rows && out->to && out->kept_rows && out->kept && out->kept_to && out->taken &&
            out->first && worker->logits_owner && worker->sessions && worker->draw_params &&
            worker->drawn && worker->chosen && chains->params && chains->histories &&
            chains->lengths && chains->windows) ||
           engine_fail(err, "not enough memory for batches of %d tokens", (int)tokens);
}

engine_worker *engine_worker_open(engine_model *model, const engine_options *options,
                                  engine_error *err)
{
    engine_worker *worker = engine_alloc(1, sizeof *worker);
    if (!worker) {
        engine_fail(err, "not enough memory for a worker");
        return NULL;
    }
    worker->model = model;
    if (!model->weights.globals[MODEL_GLOBAL_EMBEDDING].data) {
        engine_fail(err, "the model is an outline without weights: it cannot run");
        free(worker);
        return NULL;
    }
    if (worker_settings_make(&worker->settings, options, &model->config, err) &&
        open_context(worker, err) && open_program(worker, err) && open_tables(worker, err))
        return worker;
    engine_worker_close(worker);
    return NULL;
}

void engine_worker_close(engine_worker *worker)
{
    if (!worker)
        return;
    if (worker->shaping.host != worker->shaping.row)
        free(worker->shaping.host);
    if (worker->context)
        weft_memory_free(worker->context, worker->shaping.row);
    shape_room_free(&worker->shaping);
    model_program_free(worker->program);
    page_pool_free(worker->pool);
    model_adapted_free(&worker->adapted);
    free(worker->outputs.rows);
    free(worker->outputs.to);
    free(worker->outputs.kept_rows);
    free(worker->outputs.kept);
    free(worker->outputs.taken);
    free(worker->outputs.first);
    free(worker->outputs.kept_to);
    free(worker->logits_owner);
    free(worker->sessions);
    free(worker->draw_params);
    free(worker->drawn);
    free(worker->chosen);
    free(worker->chains.params);
    free(worker->chains.histories);
    free(worker->chains.lengths);
    free(worker->chains.windows);
    weft_context_destroy(worker->context);
    free(worker);
}

void engine_worker_describe(const engine_worker *worker, engine_worker_info *info)
{
    const worker_settings *settings = &worker->settings;
    program_counts counts = model_program_counts(worker->program);
    bool packed_found;
    const int64_t packed_bytes = model_program_packed_bytes(worker->program, &packed_found);
    *info = (engine_worker_info){
        .kv_bytes_per_token = settings->pool_bytes / settings->pool_pages / ENGINE_PAGE_TOKENS,
        .kv_pool_bytes = settings->pool_bytes,
        .buffer_bytes = model_program_buffer_bytes(worker->program),
        .packed_bytes = packed_bytes,
        .packed_found = packed_found,
        .context_tokens = settings->options.context_tokens,
        .chunk_tokens = settings->options.chunk_tokens,
        .page_tokens = ENGINE_PAGE_TOKENS,
        .pool_pages = settings->pool_pages,
        .free_pages = page_pool_free_pages(worker->pool),
        .remembered_pages = page_pool_remembered(worker->pool),
        .shared_pages = page_pool_shared_pages(worker->pool),
        .passes = counts.passes,
        .runs = counts.runs,
        .attention_runs = counts.attention_runs,
        .waits = counts.waits,
        .one_launches = counts.one_launches,
        .shared_passes = counts.shared_passes,
    };
}

const char *engine_worker_plan_at(const engine_worker *worker, int32_t n)
{
    return model_program_plan_at(worker->program, n);
}

bool engine_worker_takes_trees(const engine_worker *worker)
{
    return model_program_takes_trees(worker->program);
}

const engine_model *engine_worker_model(const engine_worker *worker)
{
    return worker->model;
}

weft_context *engine_worker_context(const engine_worker *worker)
{
    return worker->context;
}
