// SPDX-License-Identifier: MIT
#include "engine/model/latent_split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/format.h>

#include "engine/base/alloc.h"
#include "engine/base/checked.h"

typedef struct sizes {
    int64_t heads, plain, value, rank;
    int64_t row_bytes;  // of the file's matrix
    size_t keys, layer; // bytes: of keys, rounded up, and of both
} sizes;

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static sizes sizes_of(const model_config *config, weft_dtype dtype)
{
    const model_latent *latent = &config->latent;
    sizes s = {config->q_heads,
               latent->q_dim - config->rope.rotary_dim,
               latent->value_dim,
               latent->dim,
               0,
               0,
               0};
    s.row_bytes = weft_dtype_row_bytes(dtype, s.rank);
    s.keys = round_up((size_t)(s.heads * s.plain * s.rank) * sizeof(float));
    s.layer = s.keys + round_up((size_t)(s.heads * s.value * (s.row_bytes > 0 ? s.row_bytes : 0)));
    return s;
}

const gguf_tensor *latent_split_find(const gguf_file *file, int32_t layer)
{
    char name[GGUF_MAX_NAME_BYTES + 1];
    snprintf(name, sizeof name, "blk.%d.attn_kv_b.weight", (int)layer);
    return gguf_find_tensor(file, name);
}

// All layers have the matrix in one format, or its room would not be known from the first.
static bool check(const model_config *config, const gguf_file *file, int32_t layer,
                  weft_dtype dtype, engine_error *err)
{
    const gguf_tensor *from = latent_split_find(file, layer);
    const sizes s = sizes_of(config, dtype);
    if (!from)
        return engine_fail(err, "tensor blk.%d.attn_kv_b.weight is missing: the file is incomplete",
                           (int)layer);
    if (from->shape[0] != s.rank || from->shape[1] != s.heads * (s.plain + s.value) ||
        from->shape[2] != 1 || from->shape[3] != 1 || s.row_bytes <= 0)
        return engine_fail(err,
                           "tensor %s is %lld x %lld, but the model's numbers ask for %lld x %lld",
                           from->name, (long long)from->shape[1], (long long)from->shape[0],
                           (long long)(s.heads * (s.plain + s.value)), (long long)s.rank);
    return from->dtype == dtype ||
           engine_fail(err, "tensor %s is %s, that of the first layer %s: this cannot run yet",
                       from->name, from->type->name, weft_dtype_name(dtype));
}

bool latent_split_reserve(model_weights *weights, const model_config *config, const gguf_file *file,
                          engine_error *err)
{
    const gguf_tensor *first = latent_split_find(file, 0);
    size_t bytes;
    if (!config->latent.dim || !first)
        return true;
    for (int32_t n = 0; n < config->layers; n++)
        if (!check(config, file, n, first->dtype, err))
            return false;
    if (checked_mul(sizes_of(config, first->dtype).layer, (size_t)config->layers, &bytes))
        weights->latents = engine_alloc(bytes, 1);
    return weights->latents ||
           engine_fail(err, "not enough memory for the matrices of keys and values");
}

// Rows [plain][rank] of a head become [rank][plain].
static bool turn(const sizes *s, weft_dtype dtype, const char *from, float *to, float *row)
{
    for (int64_t i = 0; i < s->plain; i++) {
        if (weft_dequantize_row(dtype, from + i * s->row_bytes, s->rank, row) != WEFT_OK)
            return false;
        for (int64_t r = 0; r < s->rank; r++)
            to[r * s->plain + i] = row[r];
    }
    return true;
}

bool latent_split(model_weights *weights, const model_config *config, const gguf_tensor *from,
                  int32_t layer, int part, model_tensor *to, engine_error *err)
{
    const sizes s = sizes_of(config, from->dtype);
    char *at = (char *)weights->latents + (size_t)layer * s.layer + (part ? s.keys : 0);
    float *row = engine_alloc((size_t)s.rank, sizeof *row);
    bool fine = row != NULL;
    *to = (model_tensor){.data = at,
                         .dtype = part ? from->dtype : WEFT_F32,
                         .rows = s.heads * (part ? s.value : s.rank),
                         .cols = part ? s.rank : s.plain};
    for (int64_t head = 0; fine && head < s.heads; head++) {
        const char *of = (const char *)from->data + head * (s.plain + s.value) * s.row_bytes;
        const size_t bytes = (size_t)(s.value * s.row_bytes);
        if (part)
            memcpy(at + (size_t)head * bytes, of + s.plain * s.row_bytes, bytes);
        else
            fine = turn(&s, from->dtype, of, (float *)(void *)at + head * s.rank * s.plain, row);
    }
    free(row);
    return fine || engine_fail(err, "%s cannot be read as f32, or memory is short", from->name);
}
