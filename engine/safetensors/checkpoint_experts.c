// SPDX-License-Identifier: MIT
// Folders have every expert's matrices by themselves; the engine reads those of a layer as one tensor.
#include <stdio.h>
#include <string.h>

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

bool checkpoint_add_expert(checkpoint *c, const gguf_tensor *matrix, int64_t expert,
                           gguf_tensor *to, engine_error *err)
{
    if (expert >= c->experts)
        return engine_fail(err, "%s has an expert %lld, config.json speaks of %lld", to->name,
                           (long long)expert, (long long)c->experts);
    if (matrix->planes.scales)
        return engine_fail(err, "%s: experts with scales beside them cannot be read yet", to->name);
    if (!to->data) {
        size_t bytes;
        char name[GGUF_MAX_NAME_BYTES + 1];
        memcpy(name, to->name, sizeof name);
        *to = *matrix;
        memcpy(to->name, name, sizeof name);
        to->rank = 3;
        to->shape[2] = c->experts;
        to->element_count = matrix->element_count * c->experts;
        if (!checked_mul(matrix->size_bytes, (size_t)c->experts, &bytes))
            return engine_fail(err, "the experts of %s are more than memory can hold", to->name);
        to->size_bytes = bytes;
        to->data = checkpoint_alloc(c, bytes);
        if (!to->data)
            return engine_fail(err, "out of memory for %s; close other programs", to->name);
    }
    if (matrix->dtype != to->dtype || matrix->shape[0] != to->shape[0] ||
        matrix->shape[1] != to->shape[1])
        return engine_fail(err, "the experts of %s differ in shape or format", to->name);
    memcpy((char *)(uintptr_t)to->data + (size_t)expert * matrix->size_bytes, matrix->data,
           matrix->size_bytes);
    return true;
}
