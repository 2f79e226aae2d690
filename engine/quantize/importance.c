// SPDX-License-Identifier: MIT
#include "engine/quantize/importance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/checked.h"
#include "engine/base/cursor.h"
#include "engine/base/file_map.h"
#include "engine/base/text.h"
#include "engine/gguf/gguf.h"
#include "engine/gguf/name_table.h"

#define DAMAGED "the file is damaged or no importance matrix: make it again"

enum {
    MAX_ENTRIES = 1 << 18,
    MAX_NAME_BYTES = 128,
    MIN_ENTRY_BYTES = 4 + 1 + 4 + 4 + 4,
};

typedef struct entry {
    char name[MAX_NAME_BYTES + 1];
    float *values;
    size_t count;
} entry;

struct importance {
    entry *entries;
    size_t count;
    name_table names;
};

void importance_close(importance *weights)
{
    if (!weights)
        return;
    for (size_t i = 0; i < weights->count; i++)
        free(weights->entries[i].values);
    free(weights->entries);
    name_table_free(&weights->names);
    free(weights);
}

static importance *start(size_t entries, engine_error *err)
{
    importance *weights = engine_alloc(1, sizeof *weights);
    if (weights)
        weights->entries = engine_alloc(entries, sizeof *weights->entries);
    if (weights && weights->entries && name_table_init(&weights->names, entries))
        return weights;
    engine_fail(err, "out of memory for importance weights; close other programs");
    importance_close(weights);
    return NULL;
}

// Adds an entry with room for `count` values; NULL on failure.
static float *add(importance *weights, const char *name, size_t name_bytes, size_t count,
                  engine_error *err)
{
    entry *to = &weights->entries[weights->count];
    if (name_bytes == 0 || name_bytes > MAX_NAME_BYTES || !text_is_printable(name, name_bytes)) {
        engine_fail(err, "entry %zu has no proper name; %s", weights->count, DAMAGED);
        return NULL;
    }
    memcpy(to->name, name, name_bytes);
    if (!name_table_insert(&weights->names, to->name, name_bytes, weights->count)) {
        engine_fail(err, "tensor '%s' appears twice; %s", to->name, DAMAGED);
        return NULL;
    }
    to->values = engine_alloc(count, sizeof *to->values);
    to->count = count;
    weights->count++;
    if (!to->values)
        engine_fail(err, "out of memory for importance weights; close other programs");
    return to->values;
}

static bool check_values(const entry *e, engine_error *err)
{
    for (size_t i = 0; i < e->count; i++)
        if (!isfinite(e->values[i]) || e->values[i] < 0)
            return engine_fail(err, "the weights of tensor '%s' are negative or not finite; %s",
                               e->name, DAMAGED);
    return true;
}

// --- the old form ---------------------------------------------------------------------------------------

static bool read_entry(importance *weights, cursor *in, engine_error *err)
{
    uint32_t name_bytes = cursor_u32(in);
    const char *name = (const char *)cursor_bytes(in, name_bytes);
    int32_t calls = (int32_t)cursor_u32(in);
    uint32_t count = cursor_u32(in);
    if (in->failed || !name || count == 0 || count > cursor_remaining(in) / sizeof(float))
        return engine_fail(err, "entry %zu runs beyond the end; %s", weights->count, DAMAGED);
    float *values = add(weights, name, name_bytes, count, err);
    if (!values)
        return false;
    for (uint32_t i = 0; i < count; i++)
        values[i] = cursor_f32(in) / (float)(calls > 0 ? calls : 1);
    return check_values(&weights->entries[weights->count - 1], err);
}

static importance *read_old(const void *data, size_t size_bytes, engine_error *err)
{
    cursor in = cursor_over(data, size_bytes);
    uint32_t count = cursor_u32(&in);
    if (in.failed || count == 0 || count > MAX_ENTRIES ||
        count > cursor_remaining(&in) / MIN_ENTRY_BYTES) {
        engine_fail(err, "has no entries that fit into it; %s", DAMAGED);
        return NULL;
    }
    importance *weights = start(count, err);
    bool good = weights != NULL;
    for (uint32_t i = 0; good && i < count; i++)
        good = read_entry(weights, &in, err);
    if (good)
        return weights;
    importance_close(weights);
    return NULL;
}

// --- GGUF -----------------------------------------------------------------------------------------------

// Means of one tensor: sums of a matrix divided by how often it was used; a matrix never used gets ones.
static bool read_sums(importance *weights, const gguf_file *file, const gguf_tensor *sums,
                      size_t name_bytes, engine_error *err)
{
    char counts_name[GGUF_MAX_NAME_BYTES + 16];
    memcpy(counts_name, sums->name, name_bytes);
    memcpy(counts_name + name_bytes, ".counts", sizeof ".counts");
    const gguf_tensor *counts = gguf_find_tensor(file, counts_name);
    if (!counts || counts->dtype != WEFT_F32 || sums->dtype != WEFT_F32 ||
        sums->element_count % counts->element_count != 0)
        return engine_fail(err, "tensor '%s' is not f32 or has no counts that fit it; %s",
                           sums->name, DAMAGED);
    size_t total = (size_t)sums->element_count;
    size_t cols = total / (size_t)counts->element_count;
    float *values = add(weights, sums->name, name_bytes, total, err);
    for (size_t i = 0; values && i < total; i++) {
        float used = ((const float *)counts->data)[i / cols];
        values[i] = used > 0 ? ((const float *)sums->data)[i] / used : 1;
    }
    return values && check_values(&weights->entries[weights->count - 1], err);
}

static importance *read_gguf(const gguf_file *file, engine_error *err)
{
    static const char tail[] = ".in_sum2";
    importance *weights = start(gguf_tensor_count(file), err);
    bool good = weights != NULL;
    for (size_t i = 0; good && i < gguf_tensor_count(file); i++) {
        const gguf_tensor *tensor = gguf_tensor_at(file, i);
        size_t length = strlen(tensor->name), tail_bytes = sizeof tail - 1;
        if (length > tail_bytes && strcmp(tensor->name + length - tail_bytes, tail) == 0)
            good = read_sums(weights, file, tensor, length - tail_bytes, err);
    }
    if (good && weights->count == 0)
        good =
            engine_fail(err, "is a GGUF file without importance weights; name one that llama.cpp's "
                             "imatrix program wrote");
    if (good)
        return weights;
    importance_close(weights);
    return NULL;
}

importance *importance_open_memory(const void *data, size_t size_bytes, engine_error *err)
{
    if (size_bytes < 4 || memcmp(data, "GGUF", 4) != 0)
        return read_old(data, size_bytes, err);
    gguf_file *file = gguf_open_memory(data, size_bytes, err);
    importance *weights = file ? read_gguf(file, err) : NULL;
    gguf_close(file);
    return weights;
}

importance *importance_open(const char *path, engine_error *err)
{
    file_map map;
    if (!file_map_open(&map, path, err))
        return NULL;
    importance *weights = importance_open_memory(map.data, map.size_bytes, err);
    if (!weights)
        engine_fail_in(err, path);
    file_map_close(&map);
    return weights;
}

size_t importance_count(const importance *weights)
{
    return weights->count;
}

const float *importance_find(const importance *weights, const char *tensor, size_t *count)
{
    size_t index;
    if (!name_table_find(&weights->names, tensor, strlen(tensor), &index))
        return NULL;
    *count = weights->entries[index].count;
    return weights->entries[index].values;
}
