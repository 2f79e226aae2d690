// SPDX-License-Identifier: MIT
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/checked.h"
#include "engine/base/cursor.h"
#include "engine/base/text.h"
#include "engine/gguf/gguf_file.h"

#define DAMAGED "the file is damaged: download or convert it again"

enum {
    // Counts are believed only as far as the rest of the file could hold that many records.
    MIN_KEY_RECORD_BYTES = 8 + 1 + 4 + 1,        // length, name, type, value
    MIN_TENSOR_RECORD_BYTES = 8 + 1 + 4 + 4 + 8, // length, name, rank, type, offset
    MIN_STRING_BYTES = 8,                        // length
    MIN_ARRAY_BYTES = 4 + 8,                     // element type, count
};

typedef struct parser {
    cursor in;
    gguf_file *file;
    engine_error *err;
    const char *flaw; // what is wrong with the value that was read last
} parser;

// --- header -----------------------------------------------------------------------------------------

static bool fail_magic(const parser *p, const uint8_t *magic)
{
    if (magic == NULL)
        return engine_fail(p->err, "too short for a GGUF file; %s", DAMAGED);
    if (memcmp(magic, "PK\3\4", 4) == 0)
        return engine_fail(p->err, "is a zip archive or PyTorch checkpoint, not GGUF; convert it "
                                   "to GGUF");
    if (memcmp(magic, "tjgg", 4) == 0 || memcmp(magic, "lmgg", 4) == 0 ||
        memcmp(magic, "fmgg", 4) == 0 || memcmp(magic, "algg", 4) == 0)
        return engine_fail(p->err, "is in a format older than GGUF; convert the original model to "
                                   "GGUF again");
    return engine_fail(p->err,
                       "is not a GGUF file (it begins with %02x %02x %02x %02x, not with "
                       "\"GGUF\"); name a GGUF model",
                       magic[0], magic[1], magic[2], magic[3]);
}

static bool check_version(const parser *p, uint32_t version)
{
    if (version == 2 || version == 3)
        return true;
    if (version == 1)
        return engine_fail(p->err, "GGUF version 1 is no longer read; convert the model again");
    // A version number whose low half is empty is one of the other byte order.
    if (version != 0 && (version & 0xffff) == 0)
        return engine_fail(p->err, "is a big-endian GGUF file; convert it to little-endian with "
                                   "gguf-convert-endian of the gguf package");
    if (version == 0)
        return engine_fail(p->err, "GGUF version 0 does not exist; %s", DAMAGED);
    return engine_fail(p->err,
                       "GGUF version %u is newer than versions 2 and 3, which this program "
                       "reads; update weft",
                       version);
}

static bool check_count(const parser *p, uint64_t count, const char *what, size_t limit,
                        size_t min_record_bytes)
{
    if (count > cursor_remaining(&p->in) / min_record_bytes)
        return engine_fail(p->err, "claims %llu %s, more than its %zu bytes can hold; %s",
                           (unsigned long long)count, what, p->file->size_bytes, DAMAGED);
    if (count > limit)
        return engine_fail(p->err, "has %llu %s, more than the %zu that weft accepts; %s",
                           (unsigned long long)count, what, limit, DAMAGED);
    return true;
}

static bool parse_header(parser *p)
{
    const uint8_t *magic = cursor_bytes(&p->in, 4);
    if (magic == NULL || memcmp(magic, "GGUF", 4) != 0)
        return fail_magic(p, magic);
    p->file->version = cursor_u32(&p->in);
    if (p->in.failed)
        return engine_fail(p->err, "ends inside its header; %s", DAMAGED);
    if (!check_version(p, p->file->version))
        return false;
    uint64_t tensor_count = cursor_u64(&p->in);
    uint64_t entry_count = cursor_u64(&p->in);
    if (p->in.failed)
        return engine_fail(p->err, "ends inside its header; %s", DAMAGED);
    if (!check_count(p, tensor_count, "tensors", GGUF_MAX_TENSORS, MIN_TENSOR_RECORD_BYTES) ||
        !check_count(p, entry_count, "metadata keys", GGUF_MAX_KEYS, MIN_KEY_RECORD_BYTES))
        return false;
    p->file->tensor_count = (size_t)tensor_count;
    p->file->entry_count = (size_t)entry_count;
    return true;
}

// --- metadata ---------------------------------------------------------------------------------------

static bool flawed(parser *p, const char *flaw)
{
    p->flaw = flaw;
    return false;
}

static bool read_string(parser *p, gguf_string *string)
{
    uint64_t length = cursor_u64(&p->in);
    if (p->in.failed || length > cursor_remaining(&p->in))
        return flawed(p, "runs beyond the end of the file");
    string->size_bytes = (size_t)length;
    string->data = (const char *)cursor_bytes(&p->in, string->size_bytes);
    return true;
}

// Names appear in messages and serve as identifiers, so they are held to be printable.
static bool is_clean_name(gguf_string name, size_t max_bytes)
{
    return name.size_bytes > 0 && name.size_bytes <= max_bytes &&
           text_is_printable(name.data, name.size_bytes);
}

static size_t min_element_bytes(gguf_value_type type)
{
    if (type == GGUF_STRING)
        return MIN_STRING_BYTES;
    return type == GGUF_ARRAY ? (size_t)MIN_ARRAY_BYTES : gguf_scalar_bytes(type);
}

// Walks over an array and makes sure that all of it lies inside the file. Elements of fixed size are
// not looked at.
static bool read_array(parser *p, gguf_array *array, int depth)
{
    if (depth > GGUF_MAX_ARRAY_DEPTH)
        return flawed(p, "nests arrays too deep");
    uint32_t type = cursor_u32(&p->in);
    uint64_t count = cursor_u64(&p->in);
    if (p->in.failed)
        return flawed(p, "runs beyond the end of the file");
    if (type >= GGUF_VALUE_TYPE_COUNT)
        return flawed(p, "is an array whose elements have an unknown type");
    array->type = (gguf_value_type)type;
    size_t element_bytes = min_element_bytes(array->type);
    if (count > cursor_remaining(&p->in) / element_bytes)
        return flawed(p, "claims more elements than the file can hold");
    array->count = (size_t)count;
    array->data = p->in.data + p->in.position;
    size_t start = p->in.position;
    if (array->type == GGUF_STRING) {
        for (size_t i = 0; i < array->count; i++)
            if (!read_string(p, &(gguf_string){0}))
                return false;
    } else if (array->type == GGUF_ARRAY) {
        for (size_t i = 0; i < array->count; i++)
            if (!read_array(p, &(gguf_array){0}, depth + 1))
                return false;
    } else if (!cursor_skip(&p->in, array->count, element_bytes)) {
        return flawed(p, "runs beyond the end of the file");
    }
    array->size_bytes = p->in.position - start;
    return true;
}

static bool read_value(parser *p, gguf_entry *entry)
{
    cursor *in = &p->in;
    switch (entry->type) {
    case GGUF_U8: entry->value.u64 = cursor_u8(in); break;
    case GGUF_U16: entry->value.u64 = cursor_u16(in); break;
    case GGUF_U32: entry->value.u64 = cursor_u32(in); break;
    case GGUF_U64: entry->value.u64 = cursor_u64(in); break;
    case GGUF_I8: entry->value.i64 = (int8_t)cursor_u8(in); break;
    case GGUF_I16: entry->value.i64 = (int16_t)cursor_u16(in); break;
    case GGUF_I32: entry->value.i64 = (int32_t)cursor_u32(in); break;
    case GGUF_I64: entry->value.i64 = (int64_t)cursor_u64(in); break;
    case GGUF_F32: entry->value.f64 = (double)cursor_f32(in); break;
    case GGUF_F64: entry->value.f64 = cursor_f64(in); break;
    case GGUF_BOOL: entry->value.boolean = cursor_u8(in) != 0; break;
    case GGUF_STRING: return read_string(p, &entry->value.string);
    case GGUF_ARRAY: return read_array(p, &entry->value.array, 1);
    default: return flawed(p, "has an unknown type");
    }
    return in->failed ? flawed(p, "runs beyond the end of the file") : true;
}

static bool parse_entry(parser *p, size_t index)
{
    gguf_entry *entry = &p->file->entries[index];
    if (!read_string(p, &entry->key))
        return engine_fail(p->err, "metadata key %zu runs beyond the end of the file; %s", index,
                           DAMAGED);
    if (!is_clean_name(entry->key, GGUF_MAX_KEY_BYTES))
        return engine_fail(p->err,
                           "metadata key %zu is empty, longer than %d bytes or holds "
                           "control characters or bytes that are not UTF-8; %s",
                           index, GGUF_MAX_KEY_BYTES, DAMAGED);
    entry->type = (gguf_value_type)cursor_u32(&p->in);
    if (!read_value(p, entry))
        return engine_fail(p->err, "the value of metadata key '%.*s' %s; %s",
                           GGUF_SHOWN(entry->key), p->flaw, DAMAGED);
    if (!name_table_insert(&p->file->entry_names, entry->key.data, entry->key.size_bytes, index))
        return engine_fail(p->err, "metadata key '%.*s' appears twice; %s", GGUF_SHOWN(entry->key),
                           DAMAGED);
    return true;
}

static bool parse_entries(parser *p)
{
    gguf_file *file = p->file;
    file->entries = engine_alloc(file->entry_count, sizeof(gguf_entry));
    if (file->entries == NULL || !name_table_init(&file->entry_names, file->entry_count))
        return engine_fail(p->err, "out of memory for %zu metadata keys; close other programs",
                           file->entry_count);
    for (size_t i = 0; i < file->entry_count; i++)
        if (!parse_entry(p, i))
            return false;
    return true;
}

static bool choose_alignment(parser *p)
{
    uint32_t alignment = GGUF_DEFAULT_ALIGNMENT;
    gguf_lookup lookup = gguf_get_u32(p->file, "general.alignment", &alignment);
    bool legal = (lookup == GGUF_FOUND || lookup == GGUF_MISSING) && is_power_of_two(alignment) &&
                 alignment >= GGUF_MIN_ALIGNMENT && alignment <= GGUF_MAX_ALIGNMENT;
    if (!legal)
        return engine_fail(p->err,
                           "metadata key 'general.alignment' is not a power of two from %d "
                           "to %d; convert the model again",
                           GGUF_MIN_ALIGNMENT, GGUF_MAX_ALIGNMENT);
    p->file->alignment = alignment;
    return true;
}

// --- tensors ----------------------------------------------------------------------------------------

static bool read_tensor_name(parser *p, gguf_tensor *tensor, size_t index)
{
    gguf_string name;
    if (!read_string(p, &name))
        return engine_fail(p->err, "the name of tensor %zu runs beyond the end of the file; %s",
                           index, DAMAGED);
    if (!is_clean_name(name, GGUF_MAX_NAME_BYTES))
        return engine_fail(p->err,
                           "the name of tensor %zu is empty, longer than %d bytes or holds "
                           "control characters or bytes that are not UTF-8; %s",
                           index, GGUF_MAX_NAME_BYTES, DAMAGED);
    memcpy(tensor->name, name.data, name.size_bytes); // the rest is zero
    if (!name_table_insert(&p->file->tensor_names, tensor->name, name.size_bytes, index))
        return engine_fail(p->err, "tensor '%s' appears twice; %s", tensor->name, DAMAGED);
    return true;
}

static bool fail_info_end(const parser *p, const gguf_tensor *tensor)
{
    return engine_fail(p->err, "ends inside the description of tensor '%s'; %s", tensor->name,
                       DAMAGED);
}

static bool read_shape(parser *p, gguf_tensor *tensor)
{
    tensor->rank = cursor_u32(&p->in);
    if (!p->in.failed && tensor->rank > GGUF_MAX_RANK)
        return engine_fail(p->err, "tensor '%s' has %u dimensions, more than %d; %s", tensor->name,
                           tensor->rank, GGUF_MAX_RANK, DAMAGED);
    tensor->element_count = 1;
    for (uint32_t d = 0; d < GGUF_MAX_RANK; d++) {
        tensor->shape[d] = d < tensor->rank ? (int64_t)cursor_u64(&p->in) : 1;
        if (p->in.failed)
            return fail_info_end(p, tensor);
        if (tensor->shape[d] <= 0)
            return engine_fail(p->err, "tensor '%s' has an empty or negative dimension; %s",
                               tensor->name, DAMAGED);
        if (!checked_mul_i64(tensor->element_count, tensor->shape[d], &tensor->element_count))
            return engine_fail(p->err, "the shape of tensor '%s' overflows 64 bits; %s",
                               tensor->name, DAMAGED);
    }
    return true;
}

// A format that nobody here can read, so that the rest of the file can be shown. NULL if there are too many.
static const ggml_type_info *unknown_type(gguf_file *file, uint32_t id)
{
    for (uint32_t i = 0; i < file->unknown_count; i++)
        if (file->unknown[i].info.id == id)
            return &file->unknown[i].info;
    if (file->unknown_count == GGUF_MAX_UNKNOWN)
        return NULL;
    gguf_unknown_type *type = &file->unknown[file->unknown_count++];
    const char *removed = ggml_type_removed_name(id);
    if (removed)
        snprintf(type->name, sizeof type->name, "%s", removed);
    else
        snprintf(type->name, sizeof type->name, "type %u", id);
    type->info = (ggml_type_info){.id = id,
                                  .name = type->name,
                                  .block_elements = 1,
                                  .alignment_bytes = 1,
                                  .dtype = WEFT_DTYPE_NONE};
    return &type->info;
}

static bool read_type(parser *p, gguf_tensor *tensor)
{
    uint32_t id = cursor_u32(&p->in);
    if (p->in.failed)
        return fail_info_end(p, tensor);
    tensor->type = ggml_type_find(id);
    if (tensor->type == NULL)
        tensor->type = unknown_type(p->file, id);
    if (tensor->type == NULL)
        return engine_fail(p->err,
                           "tensor '%s' has the format %u, and %d others are unknown too; %s",
                           tensor->name, id, GGUF_MAX_UNKNOWN, DAMAGED);
    tensor->dtype = tensor->type->dtype;
    if (tensor->shape[0] % tensor->type->block_elements != 0)
        return engine_fail(p->err,
                           "tensor '%s' has rows of %lld elements, not a multiple of the "
                           "%u of a %s block; %s",
                           tensor->name, (long long)tensor->shape[0], tensor->type->block_elements,
                           tensor->type->name, DAMAGED);
    return true;
}

static bool parse_tensor_info(parser *p, size_t index)
{
    gguf_tensor *tensor = &p->file->tensors[index];
    if (!read_tensor_name(p, tensor, index) || !read_shape(p, tensor) || !read_type(p, tensor))
        return false;
    tensor->offset_bytes = cursor_u64(&p->in);
    return !p->in.failed || fail_info_end(p, tensor);
}

// Sets data and size_bytes once the start of the data section is known.
static bool place_tensor(const parser *p, gguf_tensor *tensor)
{
    const gguf_file *file = p->file;
    const ggml_type_info *type = tensor->type;
    if (tensor->offset_bytes % file->alignment != 0)
        return engine_fail(p->err,
                           "tensor '%s' is at offset %llu, not a multiple of the file's "
                           "alignment %zu; %s",
                           tensor->name, (unsigned long long)tensor->offset_bytes, file->alignment,
                           DAMAGED);
    size_t blocks, begin, end;
    if (!checked_size((uint64_t)tensor->element_count / type->block_elements, &blocks) ||
        !checked_mul(blocks, type->block_bytes, &tensor->size_bytes) ||
        !checked_size(tensor->offset_bytes, &begin) ||
        !checked_add(begin, file->data_offset, &begin) ||
        !checked_add(begin, tensor->size_bytes, &end) || end > file->size_bytes)
        return engine_fail(p->err,
                           "tensor '%s' lies beyond the end of the file (%zu bytes); the "
                           "file is truncated or damaged: download it again",
                           tensor->name, file->size_bytes);
    tensor->data = file->data + begin;
    if ((uintptr_t)tensor->data % type->alignment_bytes != 0)
        return engine_fail(p->err, "tensor '%s' is not aligned to the %u bytes that %s needs; %s",
                           tensor->name, type->alignment_bytes, type->name, DAMAGED);
    return true;
}

static int compare_offsets(const void *left, const void *right)
{
    uint64_t a = (*(const gguf_tensor *const *)left)->offset_bytes;
    uint64_t b = (*(const gguf_tensor *const *)right)->offset_bytes;
    return (a > b) - (a < b);
}

// Where the tensors of unknown formats end: at the next one. Sums over all tensors rely on each having bytes.
static bool size_unknown(const parser *p, gguf_tensor *const *order)
{
    enum { MOST_IN_A_BYTE = 64 }; // of any format there may be; of those that are known 5
    const gguf_file *file = p->file;
    for (size_t i = 0; i < file->tensor_count; i++) {
        gguf_tensor *tensor = order[i];
        if (tensor->type->block_bytes != 0)
            continue;
        tensor->size_bytes =
            i + 1 < file->tensor_count
                ? (size_t)(order[i + 1]->offset_bytes - tensor->offset_bytes)
                : file->size_bytes - file->data_offset - (size_t)tensor->offset_bytes;
        if ((uint64_t)tensor->element_count / MOST_IN_A_BYTE > tensor->size_bytes)
            return engine_fail(p->err, "tensor '%s' has %lld elements in %zu bytes; %s",
                               tensor->name, (long long)tensor->element_count, tensor->size_bytes,
                               DAMAGED);
    }
    return true;
}

// That no tensor overlaps the next.
static bool check_overlap(const parser *p)
{
    const gguf_file *file = p->file;
    gguf_tensor **order = engine_alloc(file->tensor_count, sizeof(*order));
    if (order == NULL)
        return engine_fail(p->err, "out of memory for %zu tensors; close other programs",
                           file->tensor_count);
    for (size_t i = 0; i < file->tensor_count; i++)
        order[i] = &file->tensors[i];
    qsort(order, file->tensor_count, sizeof(*order), compare_offsets);
    bool apart = size_unknown(p, order);
    for (size_t i = 1; apart && i < file->tensor_count; i++) {
        uint64_t room = order[i]->offset_bytes - order[i - 1]->offset_bytes;
        if (room == 0 || room < order[i - 1]->size_bytes)
            apart = engine_fail(p->err, "tensors '%s' and '%s' overlap; %s", order[i - 1]->name,
                                order[i]->name, DAMAGED);
    }
    free(order);
    return apart;
}

static bool parse_tensors(parser *p)
{
    gguf_file *file = p->file;
    file->tensors = engine_alloc(file->tensor_count, sizeof(gguf_tensor));
    if (file->tensors == NULL || !name_table_init(&file->tensor_names, file->tensor_count))
        return engine_fail(p->err, "out of memory for %zu tensors; close other programs",
                           file->tensor_count);
    for (size_t i = 0; i < file->tensor_count; i++)
        if (!parse_tensor_info(p, i))
            return false;
    if (!checked_round_up(p->in.position, file->alignment, &file->data_offset))
        return engine_fail(p->err, "has no room for tensor data; %s", DAMAGED);
    for (size_t i = 0; i < file->tensor_count; i++)
        if (!place_tensor(p, &file->tensors[i]))
            return false;
    return check_overlap(p);
}

bool gguf_parse(gguf_file *file, engine_error *err)
{
    parser p = {.in = cursor_over(file->data, file->size_bytes), .file = file, .err = err};
    return parse_header(&p) && parse_entries(&p) && choose_alignment(&p) && parse_tensors(&p);
}
