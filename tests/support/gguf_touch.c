// SPDX-License-Identifier: MIT
#include "tests/support/gguf_touch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROMISE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #condition);        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static uint64_t touch_bytes(const void *data, size_t size_bytes)
{
    const uint8_t *bytes = data;
    return size_bytes > 0 ? (uint64_t)bytes[0] + bytes[size_bytes - 1] : 0;
}

static uint64_t touch_array(const gguf_array *array)
{
    uint64_t sum = touch_bytes(array->data, array->size_bytes);
    if (array->type == GGUF_STRING) {
        gguf_string *strings = malloc(array->count * sizeof(*strings) + 1);
        PROMISE(strings != NULL && gguf_array_strings(array, strings));
        for (size_t i = 0; i < array->count; i++)
            sum += touch_bytes(strings[i].data, strings[i].size_bytes);
        free(strings);
        return sum;
    }
    PROMISE(!gguf_array_strings(array, NULL));
    for (size_t i = 0; i < array->count; i++) {
        uint32_t u32 = 0;
        int64_t i64 = 0;
        float f32 = 0;
        bool boolean = false;
        bool is_u32 = gguf_array_u32(array, i, &u32);
        bool is_i64 = gguf_array_i64(array, i, &i64);
        PROMISE(!is_u32 || (is_i64 && i64 == (int64_t)u32));
        PROMISE(!(gguf_array_f32(array, i, &f32) && is_i64));
        PROMISE(!(gguf_array_bool(array, i, &boolean) && is_i64));
        sum += (uint64_t)i64 + boolean + (f32 > 0);
    }
    return sum;
}

static uint64_t touch_entry(const gguf_file *file, const gguf_entry *entry)
{
    char *key = malloc(entry->key.size_bytes + 1);
    PROMISE(key != NULL);
    memcpy(key, entry->key.data, entry->key.size_bytes);
    key[entry->key.size_bytes] = '\0';
    PROMISE(gguf_find(file, key) == entry);

    uint32_t u32 = 0;
    int32_t i32 = 0;
    uint64_t u64 = 0;
    int64_t i64 = 0;
    float f32 = 0;
    bool boolean = false;
    gguf_string string = {0};
    gguf_array array = {0};
    int kinds = (gguf_get_u64(file, key, &u64) == GGUF_FOUND ||
                 gguf_get_i64(file, key, &i64) == GGUF_FOUND);
    bool is_float = entry->type == GGUF_F32 || entry->type == GGUF_F64;
    gguf_lookup as_float = gguf_get_f32(file, key, &f32);
    PROMISE(is_float == (as_float == GGUF_FOUND || as_float == GGUF_OUT_OF_RANGE));
    kinds += is_float;
    kinds += gguf_get_bool(file, key, &boolean) == GGUF_FOUND;
    kinds += gguf_get_string(file, key, &string) == GGUF_FOUND;
    kinds += gguf_get_array(file, key, &array) == GGUF_FOUND;
    PROMISE(kinds == 1);
    if (gguf_get_u32(file, key, &u32) == GGUF_FOUND)
        PROMISE(gguf_get_u64(file, key, &u64) == GGUF_FOUND && u64 == u32);
    if (gguf_get_i32(file, key, &i32) == GGUF_FOUND)
        PROMISE(gguf_get_i64(file, key, &i64) == GGUF_FOUND && i64 == i32);
    free(key);

    char text[32];
    PROMISE(strlen(gguf_value_text(entry, text, sizeof(text))) < sizeof(text));
    uint64_t sum = u64 + (uint64_t)i64 + boolean + (f32 > 0);
    sum += touch_bytes(string.data, string.size_bytes);
    if (entry->type == GGUF_ARRAY)
        sum += touch_array(&array);
    return sum;
}

static uint64_t touch_tensor(const gguf_file *file, const gguf_tensor *tensor)
{
    PROMISE(gguf_find_tensor(file, tensor->name) == tensor);
    PROMISE(tensor->type != NULL && tensor->rank <= GGUF_MAX_RANK);
    PROMISE(tensor->shape[0] % tensor->type->block_elements == 0);
    PROMISE((uintptr_t)tensor->data % tensor->type->alignment_bytes == 0);
    PROMISE(tensor->offset_bytes % gguf_alignment(file) == 0);
    int64_t elements = 1;
    for (int d = 0; d < GGUF_MAX_RANK; d++) {
        PROMISE(tensor->shape[d] > 0);
        elements *= tensor->shape[d];
    }
    PROMISE(elements == tensor->element_count);
    PROMISE(tensor->type->block_bytes == 0 ||
            (uint64_t)elements / tensor->type->block_elements * tensor->type->block_bytes ==
                tensor->size_bytes);
    return touch_bytes(tensor->data, tensor->size_bytes);
}

uint64_t gguf_touch(const gguf_file *file)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < gguf_key_count(file); i++)
        sum += touch_entry(file, gguf_entry_at(file, i));
    for (size_t i = 0; i < gguf_tensor_count(file); i++)
        sum += touch_tensor(file, gguf_tensor_at(file, i));
    gguf_format_total totals[GGUF_MAX_FORMATS];
    size_t total_tensors = 0;
    for (size_t i = gguf_format_totals(file, totals); i > 0; i--)
        total_tensors += totals[i - 1].tensor_count;
    PROMISE(total_tensors == gguf_tensor_count(file));
    PROMISE(gguf_data_offset(file) % gguf_alignment(file) == 0);
    PROMISE(gguf_find(file, "") == NULL && gguf_find_tensor(file, "") == NULL);
    gguf_prefetch(file);
    return sum;
}
