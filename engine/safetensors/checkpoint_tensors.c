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

// --- quantised matrices ---------------------------------------------------------------------------------

static bool fail_planes(const reader *r, const char *module)
{
    return engine_fail(r->err, "the scales of %s do not fit its weights; %s", module, DAMAGED);
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
    const int64_t high = json_integer_value(json_array_get(block, 0)),
                  wide = json_integer_value(json_array_get(block, 1));
    const bool whole = scales->element_count == 1, by_rows = down == rows && across == 1;
    if (high > 0 && wide > 0 && !whole && !by_rows) {
        scale_rows = high < rows ? high : rows;
        scale_cols = wide < cols ? wide : cols;
    }
    if (scale_rows < 1 || scale_cols < 1 || (rows + scale_rows - 1) / scale_rows != down ||
        (cols + scale_cols - 1) / scale_cols != across)
        return fail_planes(r, module);
    to->planes = (gguf_planes){checkpoint_aligned(r->c, scales, 4), NULL,
                               checkpoint_dtype(scales->dtype), scale_rows, scale_cols};
    return to->planes.scales || engine_fail(r->err, "out of memory");
}

static bool check_scales(const reader *r, const safetensor *scales)
{
    weft_dtype dtype = checkpoint_dtype(scales->dtype);
    if (dtype == WEFT_F32 || dtype == WEFT_F16 || dtype == WEFT_BF16)
        return true;
    return engine_fail(r->err, "%s is neither f32 nor f16 nor bf16, as scales must be",
                       scales->name);
}

// Codes around a zero of their own (compressed-tensors, asymmetric): read without it they would be other numbers.
static bool check_zeros(const reader *r, const char *module)
{
    const safetensor *zeros = find(r, module, "weight_zero_point");
    for (size_t i = 0; zeros && i < zeros->size_bytes; i++)
        if (zeros->data[i] != 0)
            return engine_fail(r->err, "%s: codes around a zero of their own cannot be read yet",
                               zeros->name);
    return true;
}

static bool read_planes(reader *r, const char *module, const safetensor *weight, gguf_tensor *to)
{
    const safetensor *scales = find(r, module, "scales");
    if (weight->dtype == SAFETENSORS_U32 && scales) {
        const checkpoint_mlx_parts parts = {module, weight, scales, find(r, module, "biases"),
                                            find(r, module, "global_scale")};
        return checkpoint_read_mlx(r->c, &parts, to, r->err);
    }
    to->dtype = checkpoint_dtype(weight->dtype);
    scales = find(r, module, "weight_scale_inv");
    if (!scales)
        scales = find(r, module, "weight_scale");
    bool bytes = to->dtype != WEFT_DTYPE_NONE && weft_dtype_block_bytes(to->dtype) == 1;
    if (bytes && scales)
        return check_scales(r, scales) && check_zeros(r, module) &&
               read_scaled(r, module, weight, scales, to);
    if (to->dtype != WEFT_DTYPE_NONE)
        return true;
    return engine_fail(r->err, "%s holds integers that weft cannot read as weights", weight->name);
}

// --- all of them ----------------------------------------------------------------------------------------

static bool is_integers(const reader *r, const safetensor *from)
{
    const char *dot = strrchr(from->name, '.');
    return r->c->integers.bits && dot && strcmp(dot, ".qweight") == 0;
}

// One matrix or vector, as it is in its file, or made of integers.
static bool read_tensor(reader *r, const checkpoint_name *name, const safetensor *from,
                        gguf_tensor *to)
{
    const char *module = name->module;
    const uint32_t most = name->rows == CHECKPOINT_ROWS_STACKED ? 3 : 2;
    if (is_integers(r, from)) {
        const checkpoint_integers_parts parts = {
            from, find(r, module, "qzeros"), find(r, module, "scales"), find(r, module, "g_idx")};
        return checkpoint_read_integers(r->c, &parts, to, r->err);
    }
    if (from->rank < 1 || from->rank > most || from->element_count == 0)
        return engine_fail(r->err, "%s has %u dimensions or is empty; %s", from->name, from->rank,
                           DAMAGED);
    to->rank = from->rank;
    to->shape[0] = from->shape[from->rank - 1];
    to->shape[1] = from->rank > 1 ? from->shape[from->rank - 2] : 1;
    to->shape[2] = from->rank > 2 ? from->shape[0] : 1;
    to->shape[3] = 1;
    to->size_bytes = from->size_bytes;
    to->data = from->data;
    if (!read_planes(r, module, from, to))
        return false;
    to->type = ggml_type_of(to->dtype);
    to->element_count = to->shape[0] * to->shape[1] * to->shape[2];
    return true;
}

// The tensor of all experts that this one belongs to: one of the first r->stacks.
static bool add_expert(reader *r, const checkpoint_name *of, const safetensor *from, int64_t expert,
                       const char *name)
{
    gguf_tensor matrix = {.data = NULL};
    size_t i = 0, first = r->c->copy_count, end;
    if (!read_tensor(r, of, from, &matrix))
        return false;
    end = r->c->copy_count;
    while (i < r->count && strcmp(r->tensors[i].name, name) != 0)
        i++;
    if (i == r->count) {
        memset(&r->tensors[i], 0, sizeof r->tensors[i]);
        snprintf(r->tensors[i].name, sizeof r->tensors[i].name, "%s", name);
        r->count++;
        r->stacks++;
    }
    r->experts++;
    bool good = checkpoint_add_expert(r->c, &matrix, expert, &r->tensors[i], r->err);
    checkpoint_drop(r->c, first, end); // what the matrix alone was made of
    return good;
}

// Keys' and values' matrices of latent attention, which folders have as one.
static bool add_latent(reader *r, gguf_tensor *whole, int layer)
{
    gguf_tensor *to = &r->tensors[r->count];
    size_t first = r->c->copy_count, end;
    if (!checkpoint_decode(r->c, whole, r->err))
        return false;
    end = r->c->copy_count;
    snprintf(to[0].name, sizeof to[0].name, "blk.%d.attn_k_b.weight", layer);
    snprintf(to[1].name, sizeof to[1].name, "blk.%d.attn_v_b.weight", layer);
    r->count += 2;
    bool good = checkpoint_split_latent(r->c, whole, to, r->err);
    checkpoint_drop(r->c, first, end);
    return good;
}

// Biases of experts are f32 in files, and matrices of latent attention numbers.
static bool finish_stack(reader *r, const checkpoint_name *name, gguf_tensor *to)
{
    const char *tail = strrchr(name->ours, '.');
    if (tail && strcmp(tail, ".bias") == 0)
        return checkpoint_widen(r->c, to, 0, r->err);
    return !r->c->family->latent || !strstr(name->ours, ".attn_") ||
           checkpoint_decode(r->c, to, r->err);
}

// What is done to a tensor that stays one. Norms' weights may be stored less 1: they become f32, as files have
// them.
static bool finish_tensor(reader *r, const checkpoint_name *name, gguf_tensor *to)
{
    checkpoint *c = r->c;
    if (name->rows == CHECKPOINT_ROWS_STACKED)
        return finish_stack(r, name, to);
    if (c->family->plus_one && to->rank == 1)
        return checkpoint_widen(c, to, 1, r->err);
    if (c->family->transposed && name->layer >= 0 && to->rank == 2)
        return checkpoint_transpose(c, to, r->err);
    checkpoint_skip_positions(c, to);
    return checkpoint_order_rows(c, name->rows, to, r->err);
}

static bool add_stack(reader *r, const safetensor *from)
{
    char name[SAFETENSORS_MAX_NAME_BYTES + 1];
    size_t length = strlen(from->name), tail = strlen("_blocks");
    const safetensor *exponents = NULL;
    size_t index;
    int count;
    // Elsewhere rows of gate and up may lie otherwise, and columns first or last.
    if (!r->c->family->stacking)
        return engine_fail(r->err, "%s: experts of %s in one tensor cannot be read yet", from->name,
                           r->c->family->model_type);
    if (strcmp(from->name + length - strlen("_scales"), "_scales") == 0)
        return true;
    if (strcmp(from->name + length - tail, "_blocks") == 0) {
        snprintf(name, sizeof name, "%.*s_scales", (int)(length - tail), from->name);
        if (!name_table_find(&r->names, name, strlen(name), &index))
            return engine_fail(r->err, "%s is missing; %s", name, DAMAGED);
        exponents = r->all[index];
    }
    bool good = checkpoint_add_stack(r->c, from, exponents, &r->tensors[r->count], &count, r->err);
    r->count += (size_t)count;
    return good;
}

// A bias of all experts together that says nothing: other programs' files have none.
static bool is_idle_bias(const reader *r, const checkpoint_name *name, const safetensor *from)
{
    const char *tail = strrchr(name->module, '.');
    bool idle = r->c->experts && name->layer >= 0 && tail && strcmp(tail, ".experts") == 0;
    for (size_t i = 0; idle && i < from->size_bytes; i++)
        idle = from->data[i] == 0;
    return idle;
}

static bool add_tensor(reader *r, const safetensor *from)
{
    checkpoint_name name;
    int64_t expert;
    char ours[GGUF_MAX_NAME_BYTES + 1];
    gguf_tensor *to = &r->tensors[r->count], whole = {.rank = 0};
    if (r->c->experts && checkpoint_stack_name(from->name))
        return add_stack(r, from);
    checkpoint_use use = checkpoint_name_of(r->c, from->name, &name);
    r->c->left_out += use == CHECKPOINT_OF_OTHER_SENSES;
    if (use != CHECKPOINT_USED || (r->c->tied && strcmp(name.ours, "output.weight") == 0) ||
        is_idle_bias(r, &name, from))
        return true;
    if (r->c->experts && checkpoint_expert_name(name.module, ours, &expert))
        return add_expert(r, &name, from, expert, ours);
    memcpy(to->name, name.ours, sizeof to->name);
    if (!read_tensor(r, &name, from, to))
        return false;
    if (to->data == from->data)
        to->data = checkpoint_aligned(r->c, from, 4);
    if (!to->data)
        return engine_fail(r->err, "out of memory for %s; close other programs", from->name);
    if (name.rows == CHECKPOINT_ROWS_OF_LATENT) {
        whole = *to;
        return add_latent(r, &whole, name.layer);
    }
    r->count++;
    return finish_tensor(r, &name, to);
}

// Factors of long and short contexts stand in the config.
static bool add_factors(reader *r, const char *theirs, const char *ours)
{
    const json_t *config = r->c->config, *scaling = json_object_get(config, "rope_parameters"),
                 *one;
    if (!json_is_object(scaling))
        scaling = json_object_get(config, "rope_scaling");
    const json_t *list = json_object_get(scaling, theirs);
    size_t count = json_array_size(list), i;
    gguf_tensor *to = &r->tensors[r->count];
    if (count == 0 || count > 65536)
        return true;
    float *factors = checkpoint_alloc(r->c, count * sizeof *factors);
    if (!factors)
        return engine_fail(r->err, "out of memory for %s; close other programs", ours);
    json_array_foreach(list, i, one)
    {
        factors[i] = (float)json_number_value(one);
    }
    *to = (gguf_tensor){.data = factors,
                        .dtype = WEFT_F32,
                        .type = ggml_type_of(WEFT_F32),
                        .rank = 1,
                        .shape = {(int64_t)count, 1, 1, 1},
                        .element_count = (int64_t)count,
                        .size_bytes = count * sizeof *factors};
    snprintf(to->name, sizeof to->name, "%s", ours);
    r->count++;
    return true;
}

static void find_scores(reader *r)
{
    static const char *const names[] = {"classifier.weight", "classifier.out_proj.weight"};
    size_t index;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        r->c->scores |= name_table_find(&r->names, names[i], strlen(names[i]), &index);
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
    r.tensors = engine_alloc(2 * total + 2, sizeof *r.tensors); // some become two
    bool good = r.all && r.tensors;
    if (!good)
        engine_fail(err, "out of memory for %zu tensors; close other programs", total);
    good = good && index_names(&r, total);
    if (good)
        find_scores(&r);
    for (size_t i = 0; good && i < total; i++)
        good = add_tensor(&r, r.all[i]);
    good = good && add_factors(&r, "long_factor", "rope_factors_long.weight") &&
           add_factors(&r, "short_factor", "rope_factors_short.weight");
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
