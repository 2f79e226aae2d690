// SPDX-License-Identifier: MIT
#include "engine/model/settings.h"

#include "engine/base/checked.h"
#include "engine/cache/page_pool.h"

enum {
    DEFAULT_CONTEXT_TOKENS = 4096,
    CPU_CHUNK_TOKENS = 512,
    DEVICE_CHUNK_TOKENS = 2048,
    DEFAULT_CASCADE_ROWS = 64,
    GPU_CASCADE_BYTES =
        144 << 20, // from so many on a cascade was the faster one on an H200 (attention's NOTES.md)
    MAX_CHUNK_TOKENS = 65536,
    DEVICE_CHAIN_TOKENS = 64,
    MAX_CHAIN_TOKENS = 4096,
    MAX_SESSIONS = 4096,
    MAX_CONTEXT_TOKENS = 1 << 27,
    MAX_DEVICES = 1024,
};

static bool in_range(int32_t value, int32_t high, const char *what, engine_error *err)
{
    if (value >= 0 && value <= high)
        return true;
    return engine_fail(err, "%s must be 0 (the default) to %d, not %d", what, high, value);
}

static bool check(const engine_options *options, engine_error *err)
{
    if (!in_range(options->device_index, MAX_DEVICES, "the number of the device", err) ||
        !in_range(options->threads, 1024, "the number of threads", err) ||
        !in_range(options->context_tokens, MAX_CONTEXT_TOKENS, "the context", err) ||
        !in_range(options->max_sessions, MAX_SESSIONS, "the number of sessions", err) ||
        !in_range(options->pool_tokens, INT32_MAX, "the KV pool", err) ||
        !in_range(options->chunk_tokens, MAX_CHUNK_TOKENS, "the chunk", err) ||
        !in_range(options->chain_tokens, MAX_CHAIN_TOKENS, "the chain", err))
        return false;
    return true;
}

// Formats without a scale in their blocks get one per token and head, which append makes.
static weft_kv_scaling scaling_of(weft_dtype dtype)
{
    bool bare = dtype == WEFT_INT8 || dtype == WEFT_FP8_E4M3 || dtype == WEFT_FP8_E5M2;
    return bare ? WEFT_KV_SCALING_TOKEN : WEFT_KV_SCALING_NONE;
}

static bool check_cache(const weft_kv_layout *kv, engine_error *err)
{
    if (weft_kv_page_bytes(kv) > 0)
        return true;
    const char *keys = weft_dtype_name(kv->dtype), *values = weft_dtype_name(kv->v_dtype);
    return engine_fail(err,
                       "a KV cache of %s keys and %s values with heads of %d elements is not "
                       "supported: choose f16, bf16, f32, fp8_e4m3, fp8_e5m2 or int8, or, if the "
                       "heads are a multiple of 32, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl",
                       keys ? keys : "unknown", values ? values : "unknown", kv->head_dim);
}

// Latent attention: a value is its key without the rotated elements in front.
static bool share_values(worker_settings *settings, const model_config *config, engine_error *err)
{
    weft_kv_layout *kv = &settings->kv;
    settings->values_at = PAGE_POOL_APART;
    if (config->latent.dim == 0)
        return true;
    kv->v_dim = config->latent.dim;
    settings->values_at = config->rope.rotary_dim;
    if (kv->v_dtype != kv->dtype)
        return engine_fail(err,
                           "values are a part of the keys in this model's cache: %s keys with %s "
                           "values cannot be, choose one format for both",
                           weft_dtype_name(kv->dtype), weft_dtype_name(kv->v_dtype));
    if (settings->values_at % weft_dtype_block_elems(kv->dtype) != 0)
        return engine_fail(err,
                           "a KV cache of %s cannot be: the %d rotated elements of a key are no "
                           "whole blocks; choose f16, bf16 or f32",
                           weft_dtype_name(kv->dtype), settings->values_at);
    return true;
}

// An encoder's time goes into products of whole texts, and a CPU's fastest ones are those of bf16. What its matrices
// multiply is rounded as coarsely.
static weft_dtype usual_cache(const engine_options *options, const model_config *config)
{
    const bool encodes = config->full_mask && options->device == WEFT_DEVICE_CPU;
    return encodes && !options->exact ? WEFT_BF16 : WEFT_F16;
}

int32_t engine_usual_chunk(weft_device device)
{
    return device == WEFT_DEVICE_CPU ? CPU_CHUNK_TOKENS : DEVICE_CHUNK_TOKENS;
}

static void fill_in(engine_options *options, const model_config *config)
{
    if (options->context_tokens == 0)
        options->context_tokens = config->trained_context < DEFAULT_CONTEXT_TOKENS
                                      ? config->trained_context
                                      : DEFAULT_CONTEXT_TOKENS;
    if (options->max_sessions == 0)
        options->max_sessions = 1;
    if (options->cascade_rows == 0)
        options->cascade_rows = DEFAULT_CASCADE_ROWS;
    if (options->chunk_tokens == 0)
        options->chunk_tokens = engine_usual_chunk(options->device);
    int64_t useful = (int64_t)options->context_tokens * options->max_sessions;
    if (options->chunk_tokens > useful)
        options->chunk_tokens = (int32_t)useful;
    if (options->chunk_tokens < options->max_sessions)
        options->chunk_tokens = options->max_sessions;
    if (options->chain_tokens == 0)
        options->chain_tokens = options->device == WEFT_DEVICE_CPU ? 1 : DEVICE_CHAIN_TOKENS;
    if (options->kv_dtype == WEFT_DTYPE_NONE)
        options->kv_dtype = usual_cache(options, config);
    if (options->v_dtype == WEFT_DTYPE_NONE)
        options->v_dtype = options->kv_dtype;
}

static int64_t pages_for(int64_t tokens)
{
    return (tokens + ENGINE_PAGE_TOKENS - 1) / ENGINE_PAGE_TOKENS;
}

bool worker_settings_make(worker_settings *settings, const engine_options *wish,
                          const model_config *config, engine_error *err)
{
    static const engine_options defaults;
    *settings = (worker_settings){.options = wish ? *wish : defaults};
    engine_options *options = &settings->options;
    if (!check(options, err))
        return false;
    if (config->positions > 0 && options->context_tokens > config->positions)
        return engine_fail(err,
                           "the model has positions for %d tokens: a context of %d is too long",
                           config->positions, options->context_tokens);
    settings->cascade_bytes =
        options->cascade_rows == 0 && options->device != WEFT_DEVICE_CPU ? GPU_CASCADE_BYTES : 0;
    fill_in(options, config);
    settings->kv = (weft_kv_layout){.dtype = options->kv_dtype,
                                    .num_kv_heads = config->kv_heads,
                                    .head_dim = config->head_dim,
                                    .page_size = ENGINE_PAGE_TOKENS,
                                    .v_dtype = options->v_dtype,
                                    .scaling = scaling_of(options->kv_dtype),
                                    .v_scaling = scaling_of(options->v_dtype)};
    if (!share_values(settings, config, err) || !check_cache(&settings->kv, err))
        return false;
    settings->pages_per_session = (int32_t)pages_for(options->context_tokens);
    if ((int64_t)settings->pages_per_session * options->max_sessions > INT32_MAX)
        return engine_fail(
            err,
            "the page tables of %d sessions of %d tokens are too long: choose a smaller "
            "context or fewer sessions",
            options->max_sessions, options->context_tokens);
    int64_t pages = options->pool_tokens
                        ? pages_for(options->pool_tokens)
                        : (int64_t)settings->pages_per_session * options->max_sessions;
    int64_t page_bytes = page_pool_page_bytes(&settings->kv, settings->values_at);
    if (page_bytes < 0 || pages > INT32_MAX / ENGINE_PAGE_TOKENS ||
        !checked_mul_i64(page_bytes, pages, &settings->pool_bytes) ||
        !checked_mul_i64(settings->pool_bytes, config->layers, &settings->pool_bytes))
        return engine_fail(err,
                           "%d sessions of %d tokens do not fit into a KV cache: choose a smaller "
                           "context",
                           options->max_sessions, options->context_tokens);
    settings->pool_pages = (int32_t)pages;
    return true;
}
