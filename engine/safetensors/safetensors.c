// SPDX-License-Identifier: MIT
#include "engine/safetensors/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/checked.h"
#include "engine/base/file_map.h"
#include "engine/base/text.h"

#define DAMAGED "the file is damaged: download it again"

struct safetensors {
    file_map map; // empty if the caller owns the memory
    const uint8_t *data;
    size_t data_bytes; // of the section behind the header
    safetensor *tensors;
    size_t count;
};

static const struct {
    const char *name;
    safetensors_dtype dtype;
    size_t bytes;
} dtypes[] = {
    {"F32", SAFETENSORS_F32, 4},         {"F16", SAFETENSORS_F16, 2},
    {"BF16", SAFETENSORS_BF16, 2},       {"F8_E4M3", SAFETENSORS_F8_E4M3, 1},
    {"F8_E5M2", SAFETENSORS_F8_E5M2, 1}, {"I8", SAFETENSORS_I8, 1},
    {"U8", SAFETENSORS_U8, 1},           {"I32", SAFETENSORS_I32, 4},
    {"U32", SAFETENSORS_U32, 4},         {"BOOL", SAFETENSORS_OTHER, 1},
    {"I16", SAFETENSORS_OTHER, 2},       {"U16", SAFETENSORS_OTHER, 2},
    {"I64", SAFETENSORS_OTHER, 8},       {"U64", SAFETENSORS_OTHER, 8},
    {"F64", SAFETENSORS_OTHER, 8},       {"F8_E8M0", SAFETENSORS_OTHER, 1},
};

// Bytes of an element; 0 for a name that is none.
static size_t read_dtype(const char *name, safetensors_dtype *dtype)
{
    for (size_t i = 0; name && i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, name) == 0) {
            *dtype = dtypes[i].dtype;
            return dtypes[i].bytes;
        }
    return 0;
}

static bool read_shape(safetensor *tensor, const json_t *shape, engine_error *err)
{
    tensor->rank = (uint32_t)json_array_size(shape);
    tensor->element_count = 1;
    if (!json_is_array(shape) || json_array_size(shape) > SAFETENSORS_MAX_RANK)
        return engine_fail(err, "tensor '%s' has no shape of at most %d dimensions; %s",
                           tensor->name, SAFETENSORS_MAX_RANK, DAMAGED);
    for (uint32_t d = 0; d < SAFETENSORS_MAX_RANK; d++) {
        const json_t *extent = json_array_get(shape, d);
        tensor->shape[d] = d < tensor->rank ? json_integer_value(extent) : 1;
        if ((d < tensor->rank && !json_is_integer(extent)) || tensor->shape[d] < 0 ||
            !checked_mul_i64(tensor->element_count, tensor->shape[d], &tensor->element_count))
            return engine_fail(err, "the shape of tensor '%s' is no list of lengths; %s",
                               tensor->name, DAMAGED);
    }
    return true;
}

static bool read_place(const safetensors *file, safetensor *tensor, const json_t *offsets,
                       size_t element_bytes, engine_error *err)
{
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    size_t elements;
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last) ||
        begin < 0 || end < begin || (uint64_t)end > file->data_bytes)
        return engine_fail(err,
                           "tensor '%s' lies beyond the end of the file; it is truncated or "
                           "damaged: download it again",
                           tensor->name);
    if (!checked_size((uint64_t)tensor->element_count, &elements) ||
        !checked_mul(elements, element_bytes, &tensor->size_bytes) ||
        tensor->size_bytes != (size_t)(end - begin))
        return engine_fail(err, "tensor '%s' has %lld bytes, not what its shape asks for; %s",
                           tensor->name, (long long)(end - begin), DAMAGED);
    tensor->data = file->data + begin;
    return true;
}

static bool read_tensor(const safetensors *file, safetensor *tensor, const char *name,
                        const json_t *info, engine_error *err)
{
    size_t length = strlen(name);
    if (length == 0 || length > SAFETENSORS_MAX_NAME_BYTES || !text_is_printable(name, length))
        return engine_fail(err,
                           "a tensor's name is empty, longer than %d bytes or not printable; %s",
                           SAFETENSORS_MAX_NAME_BYTES, DAMAGED);
    memcpy(tensor->name, name, length + 1);
    const char *dtype = json_string_value(json_object_get(info, "dtype"));
    size_t element_bytes = read_dtype(dtype, &tensor->dtype);
    if (element_bytes == 0)
        return engine_fail(err, "tensor '%s' has the unknown format '%.16s'; update weft", name,
                           dtype ? dtype : "none");
    return read_shape(tensor, json_object_get(info, "shape"), err) &&
           read_place(file, tensor, json_object_get(info, "data_offsets"), element_bytes, err);
}

static int compare_places(const void *left, const void *right)
{
    const safetensor *a = left, *b = right;
    if (a->data != b->data)
        return a->data < b->data ? -1 : 1;
    return (a->size_bytes > b->size_bytes) - (a->size_bytes < b->size_bytes);
}

static bool check_overlap(const safetensors *file, engine_error *err)
{
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_places);
    for (size_t i = 1; i < file->count; i++) {
        const safetensor *before = &file->tensors[i - 1], *tensor = &file->tensors[i];
        if ((size_t)(tensor->data - before->data) < before->size_bytes)
            return engine_fail(err, "tensors '%s' and '%s' overlap; %s", before->name, tensor->name,
                               DAMAGED);
    }
    return true;
}

static bool read_header(safetensors *file, json_t *header, engine_error *err)
{
    const char *name;
    json_t *info;
    size_t size = json_object_size(header);
    if (!json_is_object(header) || size > SAFETENSORS_MAX_TENSORS)
        return engine_fail(err, "its header is no list of at most %d tensors; %s",
                           SAFETENSORS_MAX_TENSORS, DAMAGED);
    file->tensors = engine_alloc(size, sizeof *file->tensors);
    if (!file->tensors)
        return engine_fail(err, "out of memory for %zu tensors; close other programs", size);
    json_object_foreach(header, name, info)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        if (!read_tensor(file, &file->tensors[file->count], name, info, err))
            return false;
        file->count++;
    }
    return check_overlap(file, err);
}

static bool parse(safetensors *file, const uint8_t *data, size_t size_bytes, engine_error *err)
{
    uint64_t header_bytes;
    json_error_t where;
    if (size_bytes < sizeof header_bytes)
        return engine_fail(err, "too short for a safetensors file; %s", DAMAGED);
    memcpy(&header_bytes, data, sizeof header_bytes);
    if (header_bytes > SAFETENSORS_MAX_HEADER_BYTES ||
        header_bytes > size_bytes - sizeof header_bytes)
        return engine_fail(err, "is not a safetensors file: it does not begin with the size of a "
                                "header inside it");
    const uint8_t *text = data + sizeof header_bytes;
    file->data = text + header_bytes;
    file->data_bytes = size_bytes - sizeof header_bytes - (size_t)header_bytes;
    json_t *header =
        json_loadb((const char *)text, (size_t)header_bytes, JSON_REJECT_DUPLICATES, &where);
    if (!header)
        return engine_fail(err, "its header is no JSON (%.80s); %s", where.text, DAMAGED);
    bool good = read_header(file, header, err);
    json_decref(header);
    return good;
}

safetensors *safetensors_open_memory(const void *data, size_t size_bytes, engine_error *err)
{
    safetensors *file = engine_alloc(1, sizeof *file);
    if (!file)
        engine_fail(err, "out of memory; close other programs");
    if (file && parse(file, data, size_bytes, err))
        return file;
    safetensors_close(file);
    return NULL;
}

safetensors *safetensors_open(const char *path, engine_error *err)
{
    file_map map;
    if (!file_map_open(&map, path, err))
        return NULL;
    safetensors *file = safetensors_open_memory(map.data, map.size_bytes, err);
    if (file) {
        file->map = map;
        return file;
    }
    engine_fail_in(err, path);
    file_map_close(&map);
    return NULL;
}

void safetensors_close(safetensors *file)
{
    if (!file)
        return;
    free(file->tensors);
    file_map_close(&file->map);
    free(file);
}

size_t safetensors_count(const safetensors *file)
{
    return file->count;
}

const safetensor *safetensors_at(const safetensors *file, size_t index)
{
    return &file->tensors[index];
}
