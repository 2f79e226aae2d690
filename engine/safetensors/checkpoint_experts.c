// SPDX-License-Identifier: MIT
// Folders have every expert's matrices by themselves; the engine reads those of a layer as one tensor.
#include <stdio.h>
#include <string.h>

#include <weft/format.h>

#include "engine/base/checked.h"
#include "engine/safetensors/checkpoint_parts.h"

static const struct {
    const char *theirs, *ours;
} parts[] = {
    {"gate_proj", "gate"}, {"up_proj", "up"}, {"down_proj", "down"},
    {"w1", "gate"},        {"w3", "up"},      {"w2", "down"},
};

// Numbers are written in one way, so that two names are never one expert's.
static bool is_named(const char *module, const char *block, int layer, int expert, const char *part)
{
    char name[SAFETENSORS_MAX_NAME_BYTES + 1];
    snprintf(name, sizeof name, "model.layers.%d.%s.experts.%d.%s", layer, block, expert, part);
    return strcmp(name, module) == 0;
}

bool checkpoint_expert_name(const char *module, char ours[GGUF_MAX_NAME_BYTES + 1], int64_t *expert)
{
    static const char *const blocks[] = {"mlp", "block_sparse_moe"};
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
        char format[64];
        int layer = -1, number = -1;
        snprintf(format, sizeof format, "model.layers.%%6d.%s.experts.%%6d.", blocks[b]);
        if (sscanf(module, format, &layer, &number) != 2 || layer < 0 || number < 0)
            continue;
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            if (is_named(module, blocks[b], layer, number, parts[i].theirs)) {
                snprintf(ours, GGUF_MAX_NAME_BYTES + 1, "blk.%d.ffn_%s_exps.weight", layer,
                         parts[i].ours);
                *expert = number;
                return true;
            }
    }
    return false;
}

// Bytes of the scales that lie beside a matrix.
static size_t plane_bytes(const gguf_tensor *matrix)
{
    gguf_planes scales = matrix->planes;
    scales.biases = NULL;
    return (size_t)gguf_planes_bytes(&scales, matrix->shape[1], matrix->shape[0]);
}

// Room for what lies beside the matrices of all experts, where something does.
static bool begin_plane(checkpoint *c, const gguf_tensor *matrix, const void *of_matrix,
                        const void **to)
{
    size_t bytes;
    *to = NULL;
    if (of_matrix && checked_mul(plane_bytes(matrix), (size_t)c->experts, &bytes))
        *to = checkpoint_alloc(c, bytes);
    return !of_matrix || *to;
}

static bool begin(checkpoint *c, const gguf_tensor *matrix, gguf_tensor *to, engine_error *err)
{
    size_t bytes;
    char name[GGUF_MAX_NAME_BYTES + 1];
    const gguf_planes *planes = &matrix->planes;
    memcpy(name, to->name, sizeof name);
    *to = *matrix;
    memcpy(to->name, name, sizeof name);
    to->data = NULL;
    to->rank = 3;
    to->shape[2] = c->experts;
    if (planes->scales && matrix->shape[1] % planes->scale_rows != 0)
        return engine_fail(err,
                           "%s: scales for %lld rows each, of which the %lld of an expert are no "
                           "multiple, cannot be read yet",
                           to->name, (long long)planes->scale_rows, (long long)matrix->shape[1]);
    if (!checked_mul(matrix->size_bytes, (size_t)c->experts, &bytes))
        return engine_fail(err, "the experts of %s are more than memory can hold", to->name);
    to->element_count = matrix->element_count * c->experts;
    to->size_bytes = bytes;
    to->data = checkpoint_alloc(c, bytes);
    return (to->data && begin_plane(c, matrix, planes->scales, &to->planes.scales) &&
            begin_plane(c, matrix, planes->biases, &to->planes.biases)) ||
           engine_fail(err, "out of memory for %s; close other programs", to->name);
}

static bool is_alike(const gguf_tensor *matrix, const gguf_tensor *to)
{
    const gguf_planes *is = &matrix->planes, *want = &to->planes;
    return matrix->dtype == to->dtype && matrix->rank == 2 && matrix->shape[0] == to->shape[0] &&
           matrix->shape[1] == to->shape[1] && !is->scales == !want->scales &&
           !is->biases == !want->biases && is->scale_dtype == want->scale_dtype &&
           is->scale_rows == want->scale_rows && is->scale_cols == want->scale_cols;
}

static void put(const void *to, int64_t expert, const void *from, size_t bytes)
{
    if (from)
        memcpy((char *)(uintptr_t)to + (size_t)expert * bytes, from, bytes);
}

bool checkpoint_add_expert(checkpoint *c, const gguf_tensor *matrix, int64_t expert,
                           gguf_tensor *to, engine_error *err)
{
    if (expert >= c->experts)
        return engine_fail(err, "%s has an expert %lld, config.json speaks of %lld", to->name,
                           (long long)expert, (long long)c->experts);
    if (!to->data && !begin(c, matrix, to, err))
        return false;
    if (!is_alike(matrix, to))
        return engine_fail(err, "the experts of %s differ in shape or format", to->name);
    put(to->data, expert, matrix->data, matrix->size_bytes);
    if (matrix->planes.scales) {
        put(to->planes.scales, expert, matrix->planes.scales, plane_bytes(matrix));
        put(to->planes.biases, expert, matrix->planes.biases, plane_bytes(matrix));
    }
    return true;
}
