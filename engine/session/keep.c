// SPDX-License-Identifier: MIT
// Timelines in files: tokens, and the pages with their keys and values, for the same model in the same cache.
//
//     "weft pages 1\n\0\0\0" | fingerprint u64 | bytes of a page u64 | tokens u32 | tokens of a page u32
//     ids i32[tokens] | pages | XXH3 of all before it u64
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/alloc.h"
#include "engine/base/file_map.h"
#include "engine/base/summed_file.h"
#include "engine/session/session.h"

static const char magic[16] = "weft pages 1\n";

typedef struct keep_head {
    char magic[16];
    uint64_t fingerprint, page_bytes;
    uint32_t tokens, page_tokens;
} keep_head;

_Static_assert(sizeof(keep_head) == 40, "the head of a file has no gaps");

static void mix(uint64_t *hash, const void *data, size_t bytes)
{
    *hash = XXH64(data, bytes, *hash);
}

enum { FIRST_BYTES = 256 };

// Shape and format, and as many of its bytes, the first ones.
static void mix_tensor(uint64_t *hash, const model_tensor *tensor, int64_t most_bytes)
{
    int64_t shape[] = {tensor->data != NULL, (int64_t)tensor->dtype, tensor->rows, tensor->cols};
    mix(hash, shape, sizeof shape);
    int64_t bytes =
        tensor->data ? weft_dtype_row_bytes(tensor->dtype, tensor->cols) * tensor->rows : 0;
    if (bytes > 0)
        mix(hash, tensor->data, (size_t)(bytes < most_bytes ? bytes : most_bytes));
}

// Of a matrix: the adapters beside it, as they are, wherever they were read from.
static void mix_adapters(uint64_t *hash, const model_adapter *first)
{
    for (const model_adapter *pair = first; pair; pair = pair->next) {
        mix_tensor(hash, &pair->a, INT64_MAX);
        mix_tensor(hash, &pair->b, INT64_MAX);
        mix(hash, &pair->scale, sizeof pair->scale);
    }
}

static void mix_rope(uint64_t *hash, const weft_rope_params *rope)
{
    int32_t numbers[] = {(int32_t)rope->style, (int32_t)rope->scaling, rope->rotary_dim,
                         rope->original_context};
    float factors[] = {
        rope->base,      rope->factor,    rope->low_freq_factor, rope->high_freq_factor,
        rope->beta_fast, rope->beta_slow, rope->attention_factor};
    mix(hash, numbers, sizeof numbers);
    mix(hash, factors, sizeof factors);
}

// Of what the numbers in the pages depend on.
uint64_t session_fingerprint(const engine_worker *worker)
{
    const model_config *config = &worker->model->config;
    const engine_options *options = &worker->settings.options;
    const model_weights *weights =
        options->adapter_count > 0 ? &worker->adapted.weights : &worker->model->weights;
    int64_t numbers[] = {config->layers,         config->embedding_dim,      config->vocab,
                         config->q_heads,        config->kv_heads,           config->head_dim,
                         config->window,         worker->settings.values_at, options->kv_dtype,
                         options->v_dtype,       config->experts_used,       config->unit_heads,
                         config->q_growth_length};
    uint64_t hash = XXH64(config->architecture->name, strlen(config->architecture->name), 1);
    mix(&hash, numbers, sizeof numbers);
    mix(&hash, &config->norm_eps, sizeof config->norm_eps);
    mix(&hash, &config->q_growth, sizeof config->q_growth);
    mix_rope(&hash, &config->rope);
    mix_rope(&hash, &config->local_rope);
    for (int n = 0; n < MODEL_GLOBAL_TENSOR_COUNT; n++)
        mix_tensor(&hash, &weights->globals[n], FIRST_BYTES);
    mix_adapters(&hash, weights->embedding_adapters);
    for (int32_t layer = 0; layer < config->layers; layer++)
        for (int n = 0; n < MODEL_LAYER_TENSOR_COUNT; n++) {
            mix_tensor(&hash, &weights->layers[layer].tensors[n], FIRST_BYTES);
            mix_adapters(&hash, weights->layers[layer].tensors[n].adapters);
        }
    return hash;
}

static keep_head head_of(const engine_session *session)
{
    keep_head head = {.fingerprint = session_fingerprint(session->worker),
                      .page_bytes = page_pool_whole_page_bytes(session->worker->pool),
                      .tokens = (uint32_t)session->length,
                      .page_tokens = ENGINE_PAGE_TOKENS};
    memcpy(head.magic, magic, sizeof magic);
    return head;
}

static size_t pages_of(uint32_t tokens)
{
    return ((size_t)tokens + ENGINE_PAGE_TOKENS - 1) / ENGINE_PAGE_TOKENS;
}

// --- writing ------------------------------------------------------------------------------------------

static bool write_all(engine_session *session, summed_file *file, void *page)
{
    const keep_head head = head_of(session);
    const page_pool *pool = session->worker->pool;
    summed_file_put(file, &head, sizeof head);
    summed_file_put(file, session->ids, head.tokens * sizeof *session->ids);
    for (size_t n = 0; n < pages_of(head.tokens); n++) {
        if (!page_pool_read(pool, session->page_table[n], page))
            return false;
        summed_file_put(file, page, head.page_bytes);
    }
    return true;
}

bool engine_session_save(engine_session *session, const char *path, engine_error *err)
{
    void *page = engine_alloc(page_pool_whole_page_bytes(session->worker->pool), 1);
    summed_file file;
    if (!page)
        return engine_fail(err, "not enough memory to write pages");
    summed_file_begin(&file, path);
    bool fine = summed_file_end(&file, write_all(session, &file, page));
    const int error = errno;
    free(page);
    return fine || engine_fail(err, "%s cannot be written: %s; choose another place", path,
                               strerror(error));
}

// --- reading ------------------------------------------------------------------------------------------

static bool check(const engine_session *session, const file_map *map, engine_error *err)
{
    keep_head head;
    const engine_worker *worker = session->worker;
    if (map->size_bytes < sizeof head)
        return engine_fail(err, "it is damaged");
    memcpy(&head, map->data, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic) != 0)
        return engine_fail(err, "it is no file of pages");
    size_t bytes = summed_file_check(map->data, map->size_bytes);
    if (bytes < sizeof head)
        return engine_fail(err, "it is damaged");
    if (head.fingerprint != session_fingerprint(worker) || head.page_tokens != ENGINE_PAGE_TOKENS ||
        head.page_bytes != page_pool_whole_page_bytes(worker->pool))
        return engine_fail(err, "it is of another model, or of other formats of its cache");
    if (head.tokens > (uint32_t)worker->settings.options.context_tokens)
        return engine_fail(err, "its %u tokens do not fit into the context of %d", head.tokens,
                           worker->settings.options.context_tokens);
    size_t expected = sizeof head + head.tokens * sizeof(int32_t);
    size_t pages = pages_of(head.tokens);
    return (bytes >= expected && bytes - expected == pages * head.page_bytes) ||
           engine_fail(err, "it is damaged");
}

static bool take_pages(engine_session *session, const file_map *map, engine_error *err)
{
    keep_head head;
    const char *at = (const char *)map->data + sizeof head;
    memcpy(&head, map->data, sizeof head);
    int32_t vocab = session->worker->model->config.vocab;
    memcpy(session->ids, at, head.tokens * sizeof *session->ids);
    for (uint32_t i = 0; i < head.tokens; i++)
        if (session->ids[i] < 0 || session->ids[i] >= vocab)
            return engine_fail(err, "it is damaged");
    at += head.tokens * sizeof *session->ids;
    if (!session_reserve(session, (int32_t)head.tokens, err))
        return false;
    for (size_t n = 0; n < pages_of(head.tokens); n++, at += head.page_bytes)
        if (!page_pool_write(session->worker->pool, session->page_table[n], at))
            return engine_fail(err, "a page cannot be copied");
    session->length = (int32_t)head.tokens;
    session_enter_pages(session);
    return true;
}

bool engine_session_restore(engine_session *session, const char *path, engine_error *err)
{
    file_map map = {0};
    engine_session_truncate(session, 0);
    if (!file_map_open(&map, path, err))
        return false;
    bool fine = check(session, &map, err) && take_pages(session, &map, err);
    file_map_close(&map);
    session_trim(session);
    return fine || engine_fail_in(err, path);
}
