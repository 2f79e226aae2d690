// SPDX-License-Identifier: MIT
#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/base/cursor.h"
#include "engine/gguf/gguf_file.h"

static const struct {
    const char *name;
    size_t scalar_bytes;
} value_types[GGUF_VALUE_TYPE_COUNT] = {
    [GGUF_U8] = {"u8", 1},       [GGUF_I8] = {"i8", 1},     [GGUF_U16] = {"u16", 2},
    [GGUF_I16] = {"i16", 2},     [GGUF_U32] = {"u32", 4},   [GGUF_I32] = {"i32", 4},
    [GGUF_F32] = {"f32", 4},     [GGUF_BOOL] = {"bool", 1}, [GGUF_STRING] = {"string", 0},
    [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"u64", 8},   [GGUF_I64] = {"i64", 8},
    [GGUF_F64] = {"f64", 8},
};

const char *gguf_value_type_name(gguf_value_type type)
{
    return (unsigned)type < GGUF_VALUE_TYPE_COUNT ? value_types[type].name : "unknown";
}

size_t gguf_scalar_bytes(gguf_value_type type)
{
    return (unsigned)type < GGUF_VALUE_TYPE_COUNT ? value_types[type].scalar_bytes : 0;
}

bool gguf_string_equals(gguf_string string, const char *text)
{
    size_t length = strlen(text);
    return string.size_bytes == length && memcmp(string.data, text, length) == 0;
}

size_t gguf_key_count(const gguf_file *file)
{
    return file->entry_count;
}

const gguf_entry *gguf_entry_at(const gguf_file *file, size_t index)
{
    return &file->entries[index];
}

const gguf_entry *gguf_find(const gguf_file *file, const char *key)
{
    size_t index;
    if (!name_table_find(&file->entry_names, key, strlen(key), &index))
        return NULL;
    return &file->entries[index];
}

// --- integers ---------------------------------------------------------------------------------------

static bool is_signed(gguf_value_type type)
{
    return type == GGUF_I8 || type == GGUF_I16 || type == GGUF_I32 || type == GGUF_I64;
}

static bool is_unsigned(gguf_value_type type)
{
    return type == GGUF_U8 || type == GGUF_U16 || type == GGUF_U32 || type == GGUF_U64;
}

static gguf_lookup find_integer(const gguf_file *file, const char *key, const gguf_entry **entry)
{
    *entry = gguf_find(file, key);
    if (*entry == NULL)
        return GGUF_MISSING;
    return is_signed((*entry)->type) || is_unsigned((*entry)->type) ? GGUF_FOUND : GGUF_WRONG_TYPE;
}

gguf_lookup gguf_get_u64(const gguf_file *file, const char *key, uint64_t *value)
{
    const gguf_entry *entry;
    gguf_lookup lookup = find_integer(file, key, &entry);
    if (lookup != GGUF_FOUND)
        return lookup;
    if (is_signed(entry->type) && entry->value.i64 < 0)
        return GGUF_OUT_OF_RANGE;
    *value = is_signed(entry->type) ? (uint64_t)entry->value.i64 : entry->value.u64;
    return GGUF_FOUND;
}

gguf_lookup gguf_get_i64(const gguf_file *file, const char *key, int64_t *value)
{
    const gguf_entry *entry;
    gguf_lookup lookup = find_integer(file, key, &entry);
    if (lookup != GGUF_FOUND)
        return lookup;
    if (is_unsigned(entry->type) && entry->value.u64 > INT64_MAX)
        return GGUF_OUT_OF_RANGE;
    *value = is_signed(entry->type) ? entry->value.i64 : (int64_t)entry->value.u64;
    return GGUF_FOUND;
}

gguf_lookup gguf_get_u32(const gguf_file *file, const char *key, uint32_t *value)
{
    uint64_t wide;
    gguf_lookup lookup = gguf_get_u64(file, key, &wide);
    if (lookup != GGUF_FOUND)
        return lookup;
    if (wide > UINT32_MAX)
        return GGUF_OUT_OF_RANGE;
    *value = (uint32_t)wide;
    return GGUF_FOUND;
}

gguf_lookup gguf_get_i32(const gguf_file *file, const char *key, int32_t *value)
{
    int64_t wide;
    gguf_lookup lookup = gguf_get_i64(file, key, &wide);
    if (lookup != GGUF_FOUND)
        return lookup;
    if (wide < INT32_MIN || wide > INT32_MAX)
        return GGUF_OUT_OF_RANGE;
    *value = (int32_t)wide;
    return GGUF_FOUND;
}

// --- other values -----------------------------------------------------------------------------------

static gguf_lookup find_typed(const gguf_file *file, const char *key, gguf_value_type type,
                              const gguf_entry **entry)
{
    *entry = gguf_find(file, key);
    if (*entry == NULL)
        return GGUF_MISSING;
    return (*entry)->type == type ? GGUF_FOUND : GGUF_WRONG_TYPE;
}

gguf_lookup gguf_get_f32(const gguf_file *file, const char *key, float *value)
{
    const gguf_entry *entry = gguf_find(file, key);
    if (entry == NULL)
        return GGUF_MISSING;
    if (entry->type != GGUF_F32 && entry->type != GGUF_F64)
        return GGUF_WRONG_TYPE;
    if (isfinite(entry->value.f64) && fabs(entry->value.f64) > (double)FLT_MAX)
        return GGUF_OUT_OF_RANGE;
    *value = (float)entry->value.f64;
    return GGUF_FOUND;
}

gguf_lookup gguf_get_bool(const gguf_file *file, const char *key, bool *value)
{
    const gguf_entry *entry;
    gguf_lookup lookup = find_typed(file, key, GGUF_BOOL, &entry);
    if (lookup == GGUF_FOUND)
        *value = entry->value.boolean;
    return lookup;
}

gguf_lookup gguf_get_string(const gguf_file *file, const char *key, gguf_string *value)
{
    const gguf_entry *entry;
    gguf_lookup lookup = find_typed(file, key, GGUF_STRING, &entry);
    if (lookup == GGUF_FOUND)
        *value = entry->value.string;
    return lookup;
}

gguf_lookup gguf_get_array(const gguf_file *file, const char *key, gguf_array *value)
{
    const gguf_entry *entry;
    gguf_lookup lookup = find_typed(file, key, GGUF_ARRAY, &entry);
    if (lookup == GGUF_FOUND)
        *value = entry->value.array;
    return lookup;
}

// --- verdicts ---------------------------------------------------------------------------------------

bool gguf_needed(const gguf_file *file, gguf_lookup lookup, const char *key, const char *expected,
                 engine_error *err)
{
    if (lookup == GGUF_MISSING)
        return engine_fail(err,
                           "metadata key '%s' is missing (%s is needed); convert the model "
                           "again",
                           key, expected);
    return gguf_wanted(file, lookup, key, expected, err);
}

bool gguf_wanted(const gguf_file *file, gguf_lookup lookup, const char *key, const char *expected,
                 engine_error *err)
{
    const gguf_entry *entry = gguf_find(file, key);
    if (lookup == GGUF_FOUND || lookup == GGUF_MISSING || entry == NULL)
        return true;
    if (lookup == GGUF_OUT_OF_RANGE)
        return engine_fail(err,
                           "the value of metadata key '%s' is out of range (%s is needed); "
                           "convert the model again",
                           key, expected);
    bool is_array = entry->type == GGUF_ARRAY;
    return engine_fail(err,
                       "metadata key '%s' holds %s%s where %s is needed; convert the model "
                       "again",
                       key, is_array ? "an array of " : "a value of type ",
                       gguf_value_type_name(is_array ? entry->value.array.type : entry->type),
                       expected);
}

// --- arrays -----------------------------------------------------------------------------------------

bool gguf_array_i64(const gguf_array *array, size_t index, int64_t *value)
{
    const uint8_t *element = array->data + index * gguf_scalar_bytes(array->type);
    switch (array->type) {
    case GGUF_U8: *value = element[0]; return true;
    case GGUF_I8: *value = (int8_t)element[0]; return true;
    case GGUF_U16: *value = load_le16(element); return true;
    case GGUF_I16: *value = (int16_t)load_le16(element); return true;
    case GGUF_U32: *value = load_le32(element); return true;
    case GGUF_I32: *value = (int32_t)load_le32(element); return true;
    case GGUF_I64: *value = (int64_t)load_le64(element); return true;
    case GGUF_U64: {
        uint64_t wide = load_le64(element);
        if (wide > INT64_MAX)
            return false;
        *value = (int64_t)wide;
        return true;
    }
    default: return false;
    }
}

bool gguf_array_u32(const gguf_array *array, size_t index, uint32_t *value)
{
    int64_t wide;
    if (!gguf_array_i64(array, index, &wide) || wide < 0 || wide > UINT32_MAX)
        return false;
    *value = (uint32_t)wide;
    return true;
}

bool gguf_array_f32(const gguf_array *array, size_t index, float *value)
{
    if (array->type != GGUF_F32)
        return false;
    *value = load_le_f32(array->data + index * sizeof(float));
    return true;
}

bool gguf_array_bool(const gguf_array *array, size_t index, bool *value)
{
    if (array->type != GGUF_BOOL)
        return false;
    *value = array->data[index] != 0;
    return true;
}

bool gguf_array_strings(const gguf_array *array, gguf_string *strings)
{
    if (array->type != GGUF_STRING)
        return false;
    const uint8_t *next = array->data;
    for (size_t i = 0; i < array->count; i++) {
        strings[i] = (gguf_string){(const char *)next + 8, (size_t)load_le64(next)};
        next += 8 + strings[i].size_bytes;
    }
    return true;
}
