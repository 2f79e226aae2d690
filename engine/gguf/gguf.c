// SPDX-License-Identifier: MIT
#include "engine/gguf/gguf.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/alloc.h"
#include "engine/gguf/gguf_file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tensor data is used in place, so the host must be little-endian");

static gguf_file *open_bytes(const void *data, size_t size_bytes, engine_error *err)
{
    gguf_file *file = engine_alloc(1, sizeof(*file));
    if (file == NULL) {
        engine_fail(err, "out of memory; close other programs");
        return NULL;
    }
    file->data = data;
    file->size_bytes = size_bytes;
    if (!gguf_parse(file, err)) {
        gguf_close(file);
        return NULL;
    }
    return file;
}

gguf_file *gguf_open_memory(const void *data, size_t size_bytes, engine_error *err)
{
    if (data == NULL || (uintptr_t)data % GGUF_MIN_ALIGNMENT != 0) {
        engine_fail(err,
                    "GGUF data in memory is not aligned: it must start at a multiple of %d bytes",
                    GGUF_MIN_ALIGNMENT);
        return NULL;
    }
    return open_bytes(data, size_bytes, err);
}

gguf_file *gguf_open_one(const char *path, engine_error *err)
{
    file_map map;
    if (!file_map_open(&map, path, err))
        return NULL;
    gguf_file *file = open_bytes(map.data, map.size_bytes, err);
    if (file == NULL) {
        engine_fail_in(err, path);
        file_map_close(&map);
        return NULL;
    }
    file->map = map;
    return file;
}

static bool take_tensors(gguf_file *file, const gguf_assembly *a, engine_error *err)
{
    free(file->tensors);
    name_table_free(&file->tensor_names);
    file->tensors = a->tensors;
    file->tensor_count = a->tensor_count;
    if (!name_table_init(&file->tensor_names, a->tensor_count))
        return engine_fail(err, "out of memory for %zu tensors; close other programs",
                           a->tensor_count);
    for (size_t i = 0; i < a->tensor_count; i++) {
        const char *name = a->tensors[i].name;
        if (!name_table_insert(&file->tensor_names, name, strlen(name), i))
            return engine_fail(err, "tensor '%s' appears twice: the model is damaged", name);
        file->size_bytes += a->tensors[i].size_bytes;
    }
    return true;
}

gguf_file *gguf_assemble(const gguf_assembly *assembly, engine_error *err)
{
    gguf_file *file = open_bytes(assembly->head, assembly->head_bytes, err);
    if (!file) {
        free(assembly->head);
        free(assembly->tensors);
        assembly->release(assembly->user);
        return NULL;
    }
    file->head = assembly->head;
    file->release = assembly->release;
    file->release_user = assembly->user;
    if (take_tensors(file, assembly, err))
        return file;
    gguf_close(file);
    return NULL;
}

void gguf_close(gguf_file *file)
{
    if (file == NULL)
        return;
    name_table_free(&file->entry_names);
    name_table_free(&file->tensor_names);
    for (uint32_t n = 1; n < file->part_count; n++)
        gguf_close(file->parts[n]);
    free(file->parts);
    if (file->release)
        file->release(file->release_user);
    free(file->head);
    free(file->entries);
    free(file->tensors);
    file_map_close(&file->map);
    free(file);
}

uint32_t gguf_version(const gguf_file *file)
{
    return file->version;
}

size_t gguf_size_bytes(const gguf_file *file)
{
    return file->size_bytes;
}

uint32_t gguf_part_count(const gguf_file *file)
{
    return file->part_count ? file->part_count : 1;
}

size_t gguf_alignment(const gguf_file *file)
{
    return file->alignment;
}

size_t gguf_data_offset(const gguf_file *file)
{
    return file->data_offset;
}

size_t gguf_tensor_count(const gguf_file *file)
{
    return file->tensor_count;
}

const gguf_tensor *gguf_tensor_at(const gguf_file *file, size_t index)
{
    return &file->tensors[index];
}

const gguf_tensor *gguf_find_tensor(const gguf_file *file, const char *name)
{
    size_t index;
    if (!name_table_find(&file->tensor_names, name, strlen(name), &index))
        return NULL;
    return &file->tensors[index];
}

void gguf_prefetch(const gguf_file *file)
{
    file_map_prefetch(&file->map, file->data_offset, file->map.size_bytes);
    for (uint32_t n = 1; n < file->part_count; n++)
        gguf_prefetch(file->parts[n]);
}

uint64_t gguf_stamp(const gguf_file *file)
{
    uint64_t stamp = 0;
    for (uint32_t n = 1; n < file->part_count; n++) {
        const uint64_t part = gguf_stamp(file->parts[n]);
        if (!part)
            return 0;
        stamp = XXH3_64bits_withSeed(&part, sizeof part, stamp);
    }
    const int64_t numbers[] = {(int64_t)file->map.size_bytes, file->map.written_ns};
    return file->map.written_ns ? XXH3_64bits_withSeed(numbers, sizeof numbers, stamp) | 1 : 0;
}

void gguf_leave(const gguf_file *file)
{
    for (uint32_t n = 1; n < file->part_count; n++)
        gguf_leave(file->parts[n]);
    file_map_leave(&file->map);
}

bool gguf_own(gguf_file *file, engine_error *err)
{
    for (uint32_t n = 1; n < file->part_count; n++)
        if (!gguf_own(file->parts[n], err))
            return false;
    return file_map_own(&file->map, err);
}
