// SPDX-License-Identifier: MIT
// Tensors of the shards under GGUF's names.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/format.h>

#include "engine/base/alloc.h"
#include "engine/gguf/name_table.h"
#include "engine/safetensors/checkpoint_parts.h"

#define DAMAGED "the model is damaged or of another kind: download it again"

// "model.layers.7.self_attn.q_proj" is "blk.7.attn_q".
static const struct {
    const char *theirs, *ours;
    int heads; // rows are heads whose halves RoPE pairs: 1 of Q, 2 of K
} modules[] = {
    {"input_layernorm", "attn_norm", 0},
    {"self_attn.q_proj", "attn_q", 1},
    {"self_attn.k_proj", "attn_k", 2},
    {"self_attn.v_proj", "attn_v", 0},
    {"self_attn.o_proj", "attn_output", 0},
    {"self_attn.q_norm", "attn_q_norm", 0},
    {"self_attn.k_norm", "attn_k_norm", 0},
    {"post_attention_layernorm", "ffn_norm", 0},
    {"mlp.gate_proj", "ffn_gate", 0},
    {"mlp.up_proj", "ffn_up", 0},
    {"mlp.down_proj", "ffn_down", 0},
    {"self_attn.qkv_proj", "attn_qkv", 0},
    {"mlp.gate_up_proj", "ffn_up", 0},
    {"pre_feedforward_layernorm", "ffn_norm", 0},
    {"post_feedforward_layernorm", "post_ffw_norm", 0},
    {"post_self_attn_layernorm", "post_attention_norm", 0},
    {"post_mlp_layernorm", "post_ffw_norm", 0},
    {"mlp.gate", "ffn_gate_inp", 0},
    {"block_sparse_moe.gate", "ffn_gate_inp", 0},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp", 0},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp", 0},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp", 0},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp", 0},
};
static const struct {
    const char *theirs, *ours;
} globals[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
};

typedef struct reader {
    checkpoint *c;
    name_table names; // of all safetensors
    const safetensor **all;
    gguf_tensor *tensors;
    size_t count;
    size_t stacks, experts; // tensors of all experts of a layer, and matrices that went into them
    engine_error *err;
} reader;

static const safetensor *find(const reader *r, const char *module, const char *tail)
{
    char name[SAFETENSORS_MAX_NAME_BYTES + 32];
    size_t index;
    int length = snprintf(name, sizeof name, "%s.%s", module, tail);
    return name_table_find(&r->names, name, (size_t)length, &index) ? r->all[index] : NULL;
}

// Splits "<module>.<weight or bias>" into GGUF's name; false for a tensor that belongs to another one
// (scales) or that no model needs.
static bool rename_tensor(const checkpoint_family *family, const char *name,
                          char module[SAFETENSORS_MAX_NAME_BYTES + 1],
                          char ours[GGUF_MAX_NAME_BYTES + 1], int *heads)
{
    int layer = -1, used = 0;
    const char *dot = strrchr(name, '.'), *rest = name, *found = NULL, *tail;
    *heads = 0;
    if (dot && strcmp(dot, ".qweight") == 0)
        tail = ".weight";
    else if (!dot || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0))
        return false;
    else
        tail = dot;
    snprintf(module, SAFETENSORS_MAX_NAME_BYTES + 1, "%.*s", (int)(dot - name), name);
    if (sscanf(name, "model.layers.%6d.%n", &layer, &used) == 1 && used > 0 && layer >= 0)
        rest = module + used;
    for (size_t i = 0; layer >= 0 && i < sizeof modules / sizeof *modules; i++)
        if (strcmp(modules[i].theirs, rest) == 0) {
            found = modules[i].ours;
            *heads = modules[i].heads;
        }
    for (size_t i = 0; layer < 0 && i < sizeof globals / sizeof *globals; i++)
        if (strcmp(globals[i].theirs, module) == 0)
            found = globals[i].ours;
    if (found && family->post_norms && strcmp(rest, "post_attention_layernorm") == 0)
        found = "post_attention_norm";
    if (!found)
        found = module; // the engine says that it does not know it
    if (layer >= 0 && found != module)
        snprintf(ours, GGUF_MAX_NAME_BYTES + 1, "blk.%d.%.40s%.8s", layer, found, tail);
    else
        snprintf(ours, GGUF_MAX_NAME_BYTES + 1, "%.54s%.8s", found, tail);
    return true;
}

static weft_dtype plain_dtype(safetensors_dtype dtype)
{
    switch (dtype) {
    case SAFETENSORS_F32: return WEFT_F32;
    case SAFETENSORS_F16: return WEFT_F16;
    case SAFETENSORS_BF16: return WEFT_BF16;
    case SAFETENSORS_F8_E4M3: return WEFT_FP8_E4M3;
    case SAFETENSORS_F8_E5M2: return WEFT_FP8_E5M2;
    case SAFETENSORS_I8: return WEFT_INT8;
    case SAFETENSORS_U8:
    case SAFETENSORS_I32:
    case SAFETENSORS_U32:
    case SAFETENSORS_OTHER: break;
    }
    return WEFT_DTYPE_NONE;
}

static const void *aligned(reader *r, const safetensor *from, size_t alignment)
{
    if ((uintptr_t)from->data % alignment == 0)
        return from->data;
    void *copy = checkpoint_alloc(r->c, from->size_bytes);
    if (copy)
        memcpy(copy, from->data, from->size_bytes);
    return copy;
}

// --- quantised matrices ---------------------------------------------------------------------------------

// The integer of a module's own entry in config.json, else of the whole model.
static int64_t mlx_number(const reader *r, const char *module, const char *name, int64_t fallback)
{
    const json_t *all = r->c->quantization, *own = json_object_get(all, module);
    const json_t *number = json_object_get(json_is_object(own) ? own : all, name);
    if (!json_is_integer(number))
        number = json_object_get(all, name);
    return json_is_integer(number) ? json_integer_value(number) : fallback;
}

static bool fail_planes(const reader *r, const char *module)
{
    return engine_fail(r->err, "the scales of %s do not fit its weights; %s", module, DAMAGED);
}

static bool read_mlx(reader *r, const char *module, const safetensor *weight,
                     const safetensor *scales, gguf_tensor *to)
{
    char name[32];
    const safetensor *biases = find(r, module, "biases");
    int64_t group = mlx_number(r, module, "group_size", 64),
            bits = mlx_number(r, module, "bits", 4);
    int64_t cols = weight->shape[1] * 32 / (bits > 0 ? bits : 1);
    snprintf(name, sizeof name, "mlx_q%d_g%d", (int)bits, (int)group);
    to->dtype = weft_dtype_parse(name);
    if (to->dtype == WEFT_DTYPE_NONE)
        return engine_fail(r->err, "%s has %lld bits in groups of %lld, which weft cannot read",
                           module, (long long)bits, (long long)group);
    if (weight->rank != 2 || weight->shape[1] > INT32_MAX || !biases || cols % group != 0 ||
        scales->rank != 2 || biases->rank != 2 || scales->shape[0] != weight->shape[0] ||
        scales->shape[1] != cols / group || biases->shape[0] != scales->shape[0] ||
        biases->shape[1] != scales->shape[1] || biases->dtype != scales->dtype ||
        cols * bits / 32 != weight->shape[1])
        return fail_planes(r, module);
    to->shape[0] = cols;
    to->planes = (gguf_planes){aligned(r, scales, 4), aligned(r, biases, 4),
                               plain_dtype(scales->dtype), 1, group};
    return (to->planes.scales && to->planes.biases) || engine_fail(r->err, "out of memory");
}

// One scale for the matrix, for each row, or for each block of rows and columns.
static bool read_scaled(reader *r, const char *module, const safetensor *weight,
                        const safetensor *scales, gguf_tensor *to)
{
    int64_t rows = weight->shape[0], cols = weight->shape[1];
    int64_t down = scales->rank > 0 ? scales->shape[0] : 1;
    int64_t across = scales->rank > 1 ? scales->shape[1] : 1;
    if (weight->rank != 2 || rows < 1 || cols < 1 || down < 1 || across < 1 || down > rows ||
        across > cols || scales->element_count != down * across)
        return fail_planes(r, module);
    int64_t scale_rows = (rows + down - 1) / down, scale_cols = (cols + across - 1) / across;
    const json_t *block =
        json_object_get(json_object_get(r->c->config, "quantization_config"), "weight_block_size");
    if (down > 1 && across > 1 && json_array_size(block) == 2) {
        scale_rows = json_integer_value(json_array_get(block, 0));
        scale_cols = json_integer_value(json_array_get(block, 1));
    }
    if (scale_rows < 1 || scale_cols < 1 || (rows + scale_rows - 1) / scale_rows != down ||
        (cols + scale_cols - 1) / scale_cols != across)
        return fail_planes(r, module);
    to->planes = (gguf_planes){aligned(r, scales, 4), NULL, plain_dtype(scales->dtype), scale_rows,
                               scale_cols};
    return to->planes.scales || engine_fail(r->err, "out of memory");
}

static bool check_scales(const reader *r, const safetensor *scales)
{
    weft_dtype dtype = plain_dtype(scales->dtype);
    if (dtype == WEFT_F32 || dtype == WEFT_F16 || dtype == WEFT_BF16)
        return true;
    return engine_fail(r->err, "%s is neither f32 nor f16 nor bf16, as scales must be",
                       scales->name);
}

static bool read_planes(reader *r, const char *module, const safetensor *weight, gguf_tensor *to)
{
    const safetensor *scales = find(r, module, "scales");
    if (weight->dtype == SAFETENSORS_U32 && scales)
        return check_scales(r, scales) && read_mlx(r, module, weight, scales, to);
    to->dtype = plain_dtype(weight->dtype);
    scales = find(r, module, "weight_scale_inv");
    if (!scales)
        scales = find(r, module, "weight_scale");
    bool bytes = to->dtype != WEFT_DTYPE_NONE && weft_dtype_block_bytes(to->dtype) == 1;
    if (bytes && scales)
        return check_scales(r, scales) && read_scaled(r, module, weight, scales, to);
    if (to->dtype != WEFT_DTYPE_NONE)
        return true;
    return engine_fail(r->err, "%s holds integers that weft cannot read as weights", weight->name);
}

// --- rows of heads --------------------------------------------------------------------------------------

// Row 2 i + h of a head comes from row h * head_dim / 2 + i.
static void *permuted(reader *r, const void *from, int64_t rows, size_t row_bytes, int64_t heads)
{
    char *copy = checkpoint_alloc(r->c, (size_t)rows * row_bytes);
    int64_t head_dim = rows / heads;
    for (int64_t row = 0; copy && row < rows; row++) {
        int64_t i = row % head_dim, source = row - i + i % 2 * (head_dim / 2) + i / 2;
        memcpy(copy + (size_t)row * row_bytes, (const char *)from + (size_t)source * row_bytes,
               row_bytes);
    }
    return copy;
}

// Brings rows of heads from halves to neighbours, and with them the scales that belong to single rows.
static bool pair_neighbours(reader *r, gguf_tensor *to, int64_t heads)
{
    int64_t rows = to->rank > 1 ? to->shape[1] : to->shape[0];
    size_t row_bytes = (size_t)(to->size_bytes / (size_t)rows);
    gguf_planes *planes = &to->planes;
    if (rows % heads != 0 || rows / heads % 2 != 0)
        return engine_fail(r->err,
                           "%s has %lld rows, not the same number for each of %lld heads; %s",
                           to->name, (long long)rows, (long long)heads, DAMAGED);
    to->data = permuted(r, to->data, rows, row_bytes, heads);
    bool good = to->data != NULL;
    if (planes->scales && planes->scale_rows == 1) {
        int64_t count = (to->shape[0] + planes->scale_cols - 1) / planes->scale_cols;
        size_t bytes = (size_t)(count * weft_dtype_block_bytes(planes->scale_dtype));
        planes->scales = permuted(r, planes->scales, rows, bytes, heads);
        planes->biases = planes->biases ? permuted(r, planes->biases, rows, bytes, heads) : NULL;
        good = good && planes->scales;
    } else if (planes->scales && planes->scale_rows < rows &&
               planes->scale_rows % (rows / heads) != 0) {
        return engine_fail(r->err, "%s has scales for parts of a head, which weft cannot read yet",
                           to->name);
    }
    return good || engine_fail(r->err, "out of memory for %s; close other programs", to->name);
}

// --- all of them ----------------------------------------------------------------------------------------

static bool is_integers(const reader *r, const safetensor *from)
{
    const char *dot = strrchr(from->name, '.');
    return r->c->integers.bits && dot && strcmp(dot, ".qweight") == 0;
}

// One matrix or vector, as it is in its file, or made of integers.
static bool read_tensor(reader *r, const char *module, const safetensor *from, gguf_tensor *to)
{
    if (is_integers(r, from)) {
        const checkpoint_integers_parts parts = {
            from, find(r, module, "qzeros"), find(r, module, "scales"), find(r, module, "g_idx")};
        return checkpoint_read_integers(r->c, &parts, to, r->err);
    }
    if (from->rank < 1 || from->rank > 2 || from->element_count == 0)
        return engine_fail(r->err, "%s has %u dimensions or is empty; %s", from->name, from->rank,
                           DAMAGED);
    to->rank = from->rank;
    to->shape[0] = from->shape[from->rank - 1];
    to->shape[1] = from->rank > 1 ? from->shape[0] : 1;
    to->shape[2] = to->shape[3] = 1;
    if (!read_planes(r, module, from, to))
        return false;
    to->type = ggml_type_of(to->dtype);
    to->element_count = to->shape[0] * to->shape[1];
    to->size_bytes = from->size_bytes;
    return true;
}

// The tensor of all experts that this one belongs to: one of the first r->stacks.
static bool add_expert(reader *r, const char *module, const safetensor *from, int64_t expert,
                       const char *name)
{
    gguf_tensor matrix = {.data = from->data};
    size_t i = 0;
    if (is_integers(r, from))
        return engine_fail(r->err, "%s: experts of GPTQ and AWQ cannot be read yet", from->name);
    if (!read_tensor(r, module, from, &matrix))
        return false;
    while (i < r->count && strcmp(r->tensors[i].name, name) != 0)
        i++;
    if (i == r->count) {
        memset(&r->tensors[i], 0, sizeof r->tensors[i]);
        snprintf(r->tensors[i].name, sizeof r->tensors[i].name, "%s", name);
        r->count++;
        r->stacks++;
    }
    r->experts++;
    return checkpoint_add_expert(r->c, &matrix, expert, &r->tensors[i], r->err);
}

// Norms' weights are stored less 1: they become f32, as files have them.
static bool add_one(reader *r, gguf_tensor *to)
{
    float *copy = checkpoint_alloc(r->c, (size_t)to->element_count * sizeof *copy);
    if (!copy)
        return engine_fail(r->err, "out of memory for %s; close other programs", to->name);
    if (weft_dequantize_row(to->dtype, to->data, to->element_count, copy) != WEFT_OK)
        return engine_fail(r->err, "%s cannot be read as f32; %s", to->name, DAMAGED);
    for (int64_t i = 0; i < to->element_count; i++)
        copy[i] += 1;
    to->data = copy;
    to->dtype = WEFT_F32;
    to->type = ggml_type_of(WEFT_F32);
    to->size_bytes = (size_t)to->element_count * sizeof *copy;
    return true;
}

static bool add_tensor(reader *r, const safetensor *from)
{
    char module[SAFETENSORS_MAX_NAME_BYTES + 1], name[GGUF_MAX_NAME_BYTES + 1];
    int heads;
    int64_t expert;
    gguf_tensor *to = &r->tensors[r->count];
    if (!rename_tensor(r->c->family, from->name, module, to->name, &heads) ||
        (r->c->tied && strcmp(module, "lm_head") == 0))
        return true;
    if (r->c->experts && checkpoint_expert_name(module, name, &expert))
        return add_expert(r, module, from, expert, name);
    if (!read_tensor(r, module, from, to))
        return false;
    if (!is_integers(r, from))
        to->data = aligned(r, from, 4);
    if (!to->data)
        return engine_fail(r->err, "out of memory for %s; close other programs", from->name);
    r->count++;
    if (r->c->family->plus_one && to->rank == 1 && !add_one(r, to))
        return false;
    if (heads == 0 || !r->c->family->halves)
        return true;
    return pair_neighbours(r, to, heads == 1 ? r->c->q_heads : r->c->kv_heads);
}

static bool index_names(reader *r, size_t total)
{
    size_t n = 0;
    if (!name_table_init(&r->names, total))
        return engine_fail(r->err, "out of memory for %zu tensors; close other programs", total);
    for (size_t s = 0; s < r->c->shard_count; s++)
        for (size_t i = 0; i < safetensors_count(r->c->shards[s]); i++, n++) {
            r->all[n] = safetensors_at(r->c->shards[s], i);
            if (!name_table_insert(&r->names, r->all[n]->name, strlen(r->all[n]->name), n))
                return engine_fail(r->err, "tensor '%s' is in two files; %s", r->all[n]->name,
                                   DAMAGED);
        }
    return true;
}

bool checkpoint_read_tensors(checkpoint *c, gguf_tensor **tensors, size_t *count, engine_error *err)
{
    reader r = {.c = c, .err = err};
    size_t total = 0;
    for (size_t s = 0; s < c->shard_count; s++)
        total += safetensors_count(c->shards[s]);
    r.all = engine_alloc(total, sizeof *r.all);
    r.tensors = engine_alloc(total, sizeof *r.tensors);
    bool good = r.all && r.tensors;
    if (!good)
        engine_fail(err, "out of memory for %zu tensors; close other programs", total);
    good = good && index_names(&r, total);
    for (size_t i = 0; good && i < total; i++)
        good = add_tensor(&r, r.all[i]);
    // Every name is there once, so that none is missing where the numbers agree.
    if (good && r.experts != r.stacks * (size_t)c->experts)
        good = engine_fail(err, "%zu matrices of experts do not make %zu times %lld; %s", r.experts,
                           r.stacks, (long long)c->experts, DAMAGED);
    name_table_free(&r.names);
    free(r.all);
    *tensors = r.tensors;
    *count = r.count;
    return good;
}
