// SPDX-License-Identifier: MIT
// Weights made up in memory. One row of random values is encoded per matrix shape and repeated with a
// shift, which is enough: kernels take the same time whatever the values are.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/alloc.h"
#include "engine/base/checked.h"
#include "engine/base/system_memory.h"
#include "engine/gguf/mix.h"
#include "engine/model/weights.h"

// A piece of the one mapping that holds all synthetic tensors.
typedef struct arena {
    unsigned char *at;
    size_t bytes; // wanted so far; with at == NULL only this is counted
    const model_config *config;
    const char *formats;
    weft_dtype format; // of every matrix; WEFT_DTYPE_NONE: of each what the mix says
    const gguf_mix *mix;
    gguf_mix_facts facts;
    uint64_t state;
} arena;

static bool begin(arena *a, const model_config *config, const char *formats, engine_error *err)
{
    *a = (arena){.config = config,
                 .formats = formats,
                 .format = weft_dtype_parse(formats),
                 .facts = {.layers = config->layers,
                           .heads_per_kv_head = config->q_heads / config->kv_heads,
                           .tied = true}};
    if (a->format == WEFT_DTYPE_NONE)
        a->mix = gguf_mix_find(formats);
    return a->format != WEFT_DTYPE_NONE || a->mix ||
           engine_fail(err, "no format or mix is called '%s'", formats);
}

static float next_value(arena *a)
{
    a->state = a->state * 6364136223846793005u + 1442695040888963407u;
    return ((float)(a->state >> 40) * 0x1p-24f - 0.5f) * 0.05f;
}

static bool fill(arena *a, unsigned char *to, weft_dtype dtype, int64_t rows, int64_t cols,
                 bool ones)
{
    size_t row_bytes = (size_t)weft_dtype_row_bytes(dtype, cols);
    float *row = engine_alloc((size_t)cols, sizeof *row);
    if (!row)
        return false;
    int64_t distinct = rows < 16 ? rows : 16;
    for (int64_t r = 0; r < distinct; r++) {
        for (int64_t i = 0; i < cols; i++)
            row[i] = ones ? 1.0f : next_value(a);
        if (weft_quantize_row(dtype, row, cols, to + (size_t)r * row_bytes) != WEFT_OK) {
            free(row);
            return false;
        }
    }
    for (int64_t r = distinct; r < rows; r++)
        memcpy(to + (size_t)r * row_bytes, to + (size_t)(r % distinct) * row_bytes, row_bytes);
    free(row);
    return true;
}

// What a matrix's values are kept in: those of layers have names of their own in a mix.
static weft_dtype format_of(const arena *a, const model_tensor_spec *spec, int32_t layer)
{
    const int64_t shape[2] = {model_extent_value(a->config, spec->cols),
                              model_extent_value(a->config, spec->rows)};
    char name[GGUF_MAX_NAME_BYTES + 1];
    // Vectors, routers and biases of experts stay f32 in files.
    if (spec->rows == MODEL_ONE || spec->rows == MODEL_EXPERTS)
        return WEFT_F32;
    if (!a->mix)
        return a->format;
    if (layer < 0)
        snprintf(name, sizeof name, "%s", spec->name);
    else
        snprintf(name, sizeof name, "blk.%d.%s", layer, spec->name);
    return gguf_mix_choose(a->mix, &a->facts, name, 2, shape, ggml_type_of(WEFT_F32))->dtype;
}

// `layer` is -1 for what belongs to none.
static bool place(arena *a, const model_tensor_spec *spec, int32_t layer, model_tensor *tensor)
{
    int64_t rows = model_extent_value(a->config, spec->rows);
    int64_t cols = model_extent_value(a->config, spec->cols);
    bool vector = spec->rows == MODEL_ONE;
    weft_dtype dtype = format_of(a, spec, layer);
    int64_t row_bytes = weft_dtype_row_bytes(dtype, cols), bytes;
    size_t padded;
    if (row_bytes < 0 || !checked_mul_i64(row_bytes, rows, &bytes) ||
        !checked_round_up((size_t)bytes, 64, &padded) || !checked_add(a->bytes, padded, &a->bytes))
        return false;
    *tensor = (model_tensor){.dtype = dtype, .rows = rows, .cols = cols};
    if (!a->at)
        return true;
    tensor->data = a->at + a->bytes - padded;
    return fill(a, a->at + a->bytes - padded, dtype, rows, cols, vector);
}

static bool place_all(arena *a, model_weights *weights)
{
    a->bytes = 0;
    for (int i = 0; i < MODEL_GLOBAL_TENSOR_COUNT; i++)
        if (model_config_needs_global(a->config, i) &&
            !place(a, &model_global_specs[i], -1, &weights->globals[i]))
            return false;
    for (int32_t n = 0; n < a->config->layers; n++)
        for (uint32_t i = MODEL_NO_TENSOR + 1; i < MODEL_LAYER_TENSOR_COUNT; i++)
            if (model_config_needs(a->config, n) >> i & 1 &&
                !place(a, &model_layer_specs[i], n, &weights->layers[n].tensors[i]))
                return false;
    return true;
}

static int64_t count_parameters(const model_config *config, const model_weights *weights)
{
    int64_t total = 0;
    for (int i = 0; i < MODEL_GLOBAL_TENSOR_COUNT; i++)
        total += weights->globals[i].rows * weights->globals[i].cols;
    for (int32_t n = 0; n < config->layers; n++)
        for (int i = 0; i < MODEL_LAYER_TENSOR_COUNT; i++)
            total += weights->layers[n].tensors[i].rows * weights->layers[n].tensors[i].cols;
    return total;
}

// A system that promises more memory than it has would end the program later, in the middle of its work.
static bool fits(size_t weight_bytes, int64_t beside_bytes, engine_error *err)
{
    double wanted = (double)weight_bytes + (double)beside_bytes;
    double available = (double)system_memory_available();
    if (wanted <= available)
        return true;
    return engine_fail(
        err,
        "%.1f GB of weights and a KV cache of %.1f GB do not fit into the %.1f GB of "
        "memory that are available: choose a smaller shape, format or context",
        (double)weight_bytes * 1e-9, (double)beside_bytes * 1e-9, available * 1e-9);
}

static bool outline(arena *a, model_weights *weights, engine_error *err)
{
    memset(weights, 0, sizeof *weights);
    weights->layers = engine_alloc((size_t)a->config->layers, sizeof *weights->layers);
    if (!weights->layers)
        return engine_fail(err, "not enough memory for the model's tables");
    if (!place_all(a, weights))
        return engine_fail(err,
                           "a matrix of this shape is no whole number of %s blocks: choose "
                           "another --format",
                           a->formats);
    weights->bytes = (int64_t)a->bytes;
    weights->parameters = count_parameters(a->config, weights);
    return true;
}

bool model_weights_outline(model_weights *weights, const model_config *config, const char *formats,
                           engine_error *err)
{
    arena a;
    return begin(&a, config, formats, err) && outline(&a, weights, err);
}

bool model_weights_synthesise(model_weights *weights, const model_config *config,
                              const char *formats, int64_t beside_bytes, engine_error *err)
{
    arena a;
    if (!begin(&a, config, formats, err) || !outline(&a, weights, err))
        return false;
    if (!fits(a.bytes, beside_bytes, err))
        return false;
    a.at = mmap(NULL, a.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (a.at == MAP_FAILED)
        return engine_fail(err, "not enough memory for %zu bytes of weights", a.bytes);
    madvise(a.at, a.bytes, MADV_HUGEPAGE);
    weights->owned[1] = a.at;
    weights->owned_bytes[1] = a.bytes;
    if (!place_all(&a, weights))
        return engine_fail(err, "%s weights cannot be made up", formats);
    return true;
}
