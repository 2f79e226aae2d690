// SPDX-License-Identifier: MIT
#include "engine/model/weights.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/alloc.h"
#include "engine/base/checked.h"

int64_t model_extent_value(const model_config *config, model_extent extent)
{
    const model_latent *latent = &config->latent;
    switch (extent) {
    case MODEL_ONE: return 1;
    case MODEL_EMBEDDING: return config->embedding_dim;
    case MODEL_Q: return (int64_t)config->q_heads * config->head_dim;
    case MODEL_KV: return (int64_t)config->kv_heads * config->head_dim;
    case MODEL_QKV:
        return ((int64_t)config->q_heads + 2 * (int64_t)config->kv_heads) * config->head_dim;
    case MODEL_HEAD: return config->head_dim;
    case MODEL_ATTENDED:
        return (int64_t)config->q_heads *
               (latent->dim ? (int64_t)latent->value_dim : (int64_t)config->head_dim);
    case MODEL_LATENT: return latent->dim;
    case MODEL_Q_RANK: return latent->q_rank;
    case MODEL_QUERIES: return (int64_t)config->q_heads * latent->q_dim;
    case MODEL_PLAIN: return latent->q_dim - config->rope.rotary_dim;
    case MODEL_HEADS_LATENT: return (int64_t)config->q_heads * latent->dim;
    case MODEL_HEADS_VALUE: return (int64_t)config->q_heads * latent->value_dim;
    case MODEL_LATENT_ROW: return latent->dim ? config->head_dim : 0;
    case MODEL_FEED_FORWARD: return config->feed_forward_dim;
    case MODEL_GATE_UP: return 2 * (int64_t)config->feed_forward_dim;
    case MODEL_VOCAB: return config->vocab;
    case MODEL_HALF_ROTARY: return config->rope.rotary_dim / 2;
    case MODEL_Q_HEADS: return config->q_heads;
    case MODEL_WIDEST:
        return config->shared_dim > config->feed_forward_dim ? config->shared_dim
                                                             : config->feed_forward_dim;
    case MODEL_EXPERTS: return config->experts;
    case MODEL_INNER: return config->expert_dim;
    case MODEL_EXPERTS_INNER: return (int64_t)config->experts * config->expert_dim;
    case MODEL_EXPERTS_EMBEDDING: return (int64_t)config->experts * config->embedding_dim;
    case MODEL_SHARED: return config->shared_dim;
    case MODEL_POSITIONS: return config->positions;
    case MODEL_TOKEN_TYPES: return config->token_types;
    case MODEL_LABELS: return config->labels;
    }
    return 0;
}

int64_t model_extent_matrices(const model_config *config, model_extent rows)
{
    switch (rows) {
    case MODEL_EXPERTS_INNER:
    case MODEL_EXPERTS_EMBEDDING: return config->experts;
    case MODEL_HEADS_LATENT:
    case MODEL_HEADS_VALUE: return config->q_heads;
    default: return 1;
    }
}

const model_tensor *model_output_matrix(const model_weights *weights)
{
    const model_tensor *output = &weights->globals[MODEL_GLOBAL_OUTPUT];
    return output->data ? output : &weights->globals[MODEL_GLOBAL_EMBEDDING];
}

// A run over a file's tensors that counts the ones it used.
typedef struct binder {
    model_weights *weights;
    const model_config *config;
    const gguf_file *file;
    size_t used;
    float *vectors; // room for vectors that are stored in 16 bits
    engine_error *err;
} binder;

// Vectors are read as f32 by the kernels.
static bool bind_vector(binder *b, const gguf_tensor *from, model_tensor *to)
{
    if (from->dtype == WEFT_F32)
        return true;
    float *copy = b->vectors;
    if (weft_dequantize_row(from->dtype, from->data, to->cols, copy) != WEFT_OK)
        return engine_fail(b->err, "%s cannot be read as f32", from->name);
    b->vectors += to->cols;
    to->data = copy;
    to->dtype = WEFT_F32;
    return true;
}

static bool refuse_shape(const binder *b, const gguf_tensor *from, int64_t rows, int64_t cols,
                         int64_t matrices)
{
    const int64_t *is = from->shape;
    if (matrices == 1 && is[2] == 1)
        return engine_fail(
            b->err, "tensor %s is %lld x %lld, but the model's numbers ask for %lld x %lld",
            from->name, (long long)is[1], (long long)is[0], (long long)rows, (long long)cols);
    return engine_fail(
        b->err,
        "tensor %s is %lld x %lld x %lld, but the model's numbers ask for %lld x %lld x %lld",
        from->name, (long long)is[2], (long long)is[1], (long long)is[0], (long long)matrices,
        (long long)rows, (long long)cols);
}

static bool bind(binder *b, const char *name, const model_tensor_spec *spec, bool needed,
                 model_tensor *to)
{
    const gguf_tensor *from = gguf_find_tensor(b->file, name);
    int64_t rows = model_extent_value(b->config, spec->rows);
    int64_t cols = model_extent_value(b->config, spec->cols);
    if (!from)
        return needed ? engine_fail(b->err, "tensor %s is missing: the file is incomplete", name)
                      : true;
    int64_t matrices = model_extent_matrices(b->config, spec->rows);
    if (from->shape[0] != cols || from->shape[1] != rows / matrices || from->shape[2] != matrices ||
        from->shape[3] != 1)
        return refuse_shape(b, from, rows / matrices, cols, matrices);
    if (spec->rows == MODEL_EXPERTS && spec != &model_layer_specs[MODEL_ROUTER] &&
        from->dtype != WEFT_F32)
        return engine_fail(b->err, "%s is not in f32, as biases of experts must be", name);
    *to = (model_tensor){from->data, from->dtype, rows, cols, from->planes, NULL};
    b->used++;
    b->weights->parameters += from->element_count;
    b->weights->bytes += gguf_tensor_bytes(from);
    return spec->rows != MODEL_ONE || bind_vector(b, from, to);
}

const model_fused model_fused_tensors[] = {
    {MODEL_ATTN_QKV, {MODEL_ATTN_Q, MODEL_ATTN_K, MODEL_ATTN_V}},
    {MODEL_ATTN_QKV_BIAS, {MODEL_ATTN_Q_BIAS, MODEL_ATTN_K_BIAS, MODEL_ATTN_V_BIAS}},
    {MODEL_FFN_UP_GATE, {MODEL_FFN_UP, MODEL_FFN_GATE}},
    {MODEL_FFN_GATE_UP, {MODEL_FFN_GATE, MODEL_FFN_UP}},
    {MODEL_NO_TENSOR, {MODEL_NO_TENSOR}},
};

static void layer_name(int32_t n, uint32_t tensor, char name[GGUF_MAX_NAME_BYTES + 1])
{
    snprintf(name, GGUF_MAX_NAME_BYTES + 1, "blk.%d.%s", n, model_layer_specs[tensor].name);
}

static bool has(const binder *b, int32_t n, uint32_t tensor)
{
    char name[GGUF_MAX_NAME_BYTES + 1];
    layer_name(n, tensor, name);
    return gguf_find_tensor(b->file, name) != NULL;
}

// (one of the parts may have the name of the whole)
static bool has_parts(const binder *b, int32_t n, const model_fused *fused)
{
    for (int i = 0; i < MODEL_MAX_PARTS && fused->parts[i]; i++)
        if (!has(b, n, fused->parts[i]))
            return false;
    return true;
}

// The tensors of layer n to look for: a matrix that may be fused is, if a part of it is not there.
static void choose(const binder *b, int32_t n, uint64_t *needs, uint64_t *may)
{
    *needs = model_config_needs(b->config, n);
    *may = b->config->architecture->may;
    for (const model_fused *fused = model_fused_tensors; fused->whole; fused++) {
        uint64_t whole = UINT64_C(1) << fused->whole, parts = 0;
        for (int i = 0; i < MODEL_MAX_PARTS && fused->parts[i]; i++)
            parts |= UINT64_C(1) << fused->parts[i];
        bool is_fused = *may & whole && !has_parts(b, n, fused);
        if (!is_fused) {
            *may &= ~whole;
            continue;
        }
        if (*needs & parts)
            *needs |= whole;
        *needs &= ~parts;
        *may &= ~parts;
    }
}

// What lies beside the rows of a part, from `row` on: scales of its own, or one for all rows.
static bool take_planes(const model_tensor *whole, int64_t row, model_tensor *part)
{
    const gguf_planes *from = &whole->planes;
    if (!from->scales)
        return true;
    const bool all = from->scale_rows >= whole->rows;
    const int64_t groups = (whole->cols - 1) / from->scale_cols + 1;
    const int64_t at = row / from->scale_rows * weft_dtype_row_bytes(from->scale_dtype, groups);
    part->planes = *from;
    part->planes.scale_rows = all ? part->rows : from->scale_rows;
    part->planes.scales = (const char *)from->scales + at;
    part->planes.biases = from->biases ? (const char *)from->biases + at : NULL;
    return all || row % from->scale_rows == 0;
}

// A fused matrix is one in the file only: its parts are rows of it, vectors elements.
static bool split(binder *b, model_layer *layer)
{
    for (const model_fused *fused = model_fused_tensors; fused->whole; fused++) {
        model_tensor *whole = &layer->tensors[fused->whole];
        const char *at = whole->data;
        int64_t row = 0;
        for (int i = 0; at && i < MODEL_MAX_PARTS && fused->parts[i]; i++) {
            const model_tensor_spec *spec = &model_layer_specs[fused->parts[i]];
            model_tensor part = {.data = at,
                                 .dtype = whole->dtype,
                                 .rows = model_extent_value(b->config, spec->rows),
                                 .cols = model_extent_value(b->config, spec->cols)};
            if (!take_planes(whole, row, &part))
                return engine_fail(b->err, "%s has scales that its parts share: it cannot run yet",
                                   model_layer_specs[fused->whole].name);
            row += part.rows;
            at += weft_dtype_row_bytes(part.dtype, part.cols) * part.rows;
            layer->tensors[fused->parts[i]] = part;
        }
        memset(whole, 0, sizeof *whole);
    }
    return true;
}

static bool bind_layer(binder *b, int32_t n)
{
    model_layer *layer = &b->weights->layers[n];
    uint64_t all_needs, all_may;
    choose(b, n, &all_needs, &all_may);
    for (uint32_t i = MODEL_NO_TENSOR + 1; i < MODEL_LAYER_TENSOR_COUNT; i++) {
        char name[GGUF_MAX_NAME_BYTES + 1];
        bool needs = all_needs >> i & 1, may = all_may >> i & 1;
        layer_name(n, i, name);
        if ((needs || may) && !bind(b, name, &model_layer_specs[i], needs, &layer->tensors[i]))
            return false;
    }
    return split(b, layer);
}

static size_t append(char *text, size_t room, size_t used, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static size_t append(char *text, size_t room, size_t used, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(text + used, room - used, format, arguments);
    va_end(arguments);
    return bytes > 0 && (size_t)bytes < room - used ? used + (size_t)bytes : used;
}

// Every format of the file must have kernels; what has none is named all at once, with what has.
static bool check_formats(const gguf_file *file, engine_error *err)
{
    gguf_format_total totals[GGUF_MAX_FORMATS];
    char missing[160] = "", known[256] = "";
    size_t count = gguf_format_totals(file, totals), used = 0, left = 0;
    for (size_t i = 0; i < count; i++) {
        if (totals[i].type->dtype != WEFT_DTYPE_NONE)
            continue;
        if (used > sizeof missing - 60) { // room for one more, and for what follows
            left++;
            continue;
        }
        used = append(missing, sizeof missing, used, "%s%s (%zu of %zu)", used ? ", " : "",
                      totals[i].type->name, totals[i].tensor_count, gguf_tensor_count(file));
    }
    if (used == 0)
        return true;
    if (left > 0)
        append(missing, sizeof missing, used, " and %zu more", left);
    used = 0;
    for (uint32_t id = 0; id < ggml_type_count(); id++) {
        const ggml_type_info *type = ggml_type_find(id);
        if (type && type->dtype != WEFT_DTYPE_NONE)
            used = append(known, sizeof known, used, "%s%s", used ? " " : "", type->name);
    }
    return engine_fail(err,
                       "tensors are in formats that weft cannot run yet: %s; it runs %s: take the "
                       "model in one of these, or convert it anew",
                       missing, known);
}

// A tensor that nothing reads would mean output that is silently wrong.
static bool all_used(const binder *b)
{
    if (b->used == gguf_tensor_count(b->file))
        return true;
    return engine_fail(b->err,
                       "the file has %zu tensors, a %s model with these numbers uses %zu: it is of "
                       "a kind that weft cannot run yet",
                       gguf_tensor_count(b->file), b->config->architecture->name, b->used);
}

// Elements of all vectors that are not f32. A vector may be stored with further dimensions of 1.
static size_t converted_elements(const gguf_file *file)
{
    size_t total = 0;
    for (size_t i = 0; i < gguf_tensor_count(file); i++) {
        const gguf_tensor *tensor = gguf_tensor_at(file, i);
        if (tensor->element_count == tensor->shape[0] && tensor->dtype != WEFT_F32)
            total += (size_t)tensor->element_count;
    }
    return total;
}

bool model_weights_bind(model_weights *weights, const model_config *config, const gguf_file *file,
                        engine_error *err)
{
    memset(weights, 0, sizeof *weights);
    if (!check_formats(file, err))
        return false;
    weights->layers = engine_alloc((size_t)config->layers, sizeof *weights->layers);
    binder b = {weights, config, file, 0, engine_alloc(converted_elements(file), sizeof(float)),
                err};
    weights->owned[0] = b.vectors;
    if (!weights->layers || !b.vectors)
        return engine_fail(err, "not enough memory for the model's tables");
    for (int i = 0; i < MODEL_GLOBAL_TENSOR_COUNT; i++) {
        bool needed = model_config_needs_global(config, i);
        if ((needed || model_config_may_have_global(config, i)) &&
            !bind(&b, model_global_specs[i].name, &model_global_specs[i], needed,
                  &weights->globals[i]))
            return false;
    }
    for (int32_t n = 0; n < config->layers; n++)
        if (!bind_layer(&b, n))
            return false;
    return all_used(&b);
}

void model_weights_free(model_weights *weights)
{
    free(weights->layers);
    free(weights->owned[0]);
    if (weights->owned[1])
        munmap(weights->owned[1], weights->owned_bytes[1]);
    memset(weights, 0, sizeof *weights);
}
