// SPDX-License-Identifier: MIT
#include "engine/gguf/gguf_output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/checked.h"
#include "engine/base/path.h"

enum { HEAD_BYTES = 24 };

// Bytes that are gathered before they are written.
typedef struct bytes {
    uint8_t *data;
    size_t used, room;
} bytes;

struct gguf_output {
    char *path, *part_path;
    FILE *stream;
    bytes keys, infos;
    uint64_t key_count, tensor_count;
    uint64_t offset; // where the next tensor will lie
    size_t *tensor_bytes;
    size_t tensor_room;
    uint64_t tensor; // at hand
    size_t written;  // of it
    bool short_of_memory;
};

static bool fail_writing(gguf_output *output, int error, engine_error *err)
{
    engine_fail(err, "cannot be written: %s; choose another place or make room", strerror(error));
    return engine_fail_in(err, output->path);
}

gguf_output *gguf_output_open(const char *path, engine_error *err)
{
    size_t length = path ? strlen(path) : 0;
    gguf_output *output = engine_alloc(1, sizeof *output);
    if (output && !path)
        return output;
    if (output) {
        output->path = engine_copy_text(path, length);
        output->part_path = engine_alloc(length + sizeof ".part", 1);
    }
    if (!output || !output->path || !output->part_path) {
        engine_fail(err, "out of memory; close other programs");
        gguf_output_close(output);
        return NULL;
    }
    snprintf(output->part_path, length + sizeof ".part", "%s.part", path);
    if (path_takes_a_file(path))
        output->stream = fopen(output->part_path, "wb");
    if (output->stream)
        return output;
    fail_writing(output, errno, err);
    gguf_output_close(output);
    return NULL;
}

void gguf_output_close(gguf_output *output)
{
    if (!output)
        return;
    if (output->stream) {
        fclose(output->stream);
        remove(output->part_path);
    }
    free(output->keys.data);
    free(output->infos.data);
    free(output->tensor_bytes);
    free(output->path);
    free(output->part_path);
    free(output);
}

static void append(gguf_output *output, bytes *to, const void *data, size_t size_bytes)
{
    size_t wanted;
    if (output->short_of_memory || !checked_add(to->used, size_bytes, &wanted)) {
        output->short_of_memory = true;
        return;
    }
    if (wanted > to->room) {
        size_t room = wanted > SIZE_MAX / 2 ? wanted : wanted * 2;
        uint8_t *grown = engine_realloc(to->data, room, 1);
        if (!grown) {
            output->short_of_memory = true;
            return;
        }
        to->data = grown;
        to->room = room;
    }
    if (size_bytes)
        memcpy(to->data + to->used, data, size_bytes);
    to->used = wanted;
}

static void append_string(gguf_output *output, bytes *to, const char *text, size_t size_bytes)
{
    uint64_t length = size_bytes;
    append(output, to, &length, sizeof length);
    append(output, to, text, size_bytes);
}

static void begin_key(gguf_output *output, const char *key, size_t key_bytes, uint32_t type)
{
    append_string(output, &output->keys, key, key_bytes);
    append(output, &output->keys, &type, sizeof type);
    output->key_count++;
}

void gguf_output_entry(gguf_output *output, const gguf_entry *entry)
{
    bytes *keys = &output->keys;
    begin_key(output, entry->key.data, entry->key.size_bytes, entry->type);
    float single = (float)entry->value.f64;
    uint8_t boolean = entry->type == GGUF_BOOL && entry->value.boolean;
    uint32_t type = entry->value.array.type;
    uint64_t count = entry->value.array.count;
    switch (entry->type) { // integers lie with their low bytes first, in 64 bits as in fewer
    case GGUF_U8:
    case GGUF_I8: append(output, keys, &entry->value.u64, 1); break;
    case GGUF_U16:
    case GGUF_I16: append(output, keys, &entry->value.u64, 2); break;
    case GGUF_U32:
    case GGUF_I32: append(output, keys, &entry->value.u64, 4); break;
    case GGUF_U64:
    case GGUF_I64: append(output, keys, &entry->value.u64, 8); break;
    case GGUF_F32: append(output, keys, &single, 4); break;
    case GGUF_F64: append(output, keys, &entry->value.f64, 8); break;
    case GGUF_BOOL: append(output, keys, &boolean, 1); break;
    case GGUF_STRING:
        append_string(output, keys, entry->value.string.data, entry->value.string.size_bytes);
        break;
    case GGUF_ARRAY:
        append(output, keys, &type, sizeof type);
        append(output, keys, &count, sizeof count);
        append(output, keys, entry->value.array.data, entry->value.array.size_bytes);
        break;
    case GGUF_VALUE_TYPE_COUNT: break;
    }
}

void gguf_output_u32(gguf_output *output, const char *key, uint32_t value)
{
    begin_key(output, key, strlen(key), GGUF_U32);
    append(output, &output->keys, &value, sizeof value);
}

void gguf_output_f32(gguf_output *output, const char *key, float value)
{
    begin_key(output, key, strlen(key), GGUF_F32);
    append(output, &output->keys, &value, sizeof value);
}

void gguf_output_bool(gguf_output *output, const char *key, bool value)
{
    const uint8_t byte = value;
    begin_key(output, key, strlen(key), GGUF_BOOL);
    append(output, &output->keys, &byte, sizeof byte);
}

void gguf_output_text(gguf_output *output, const char *key, const char *text)
{
    begin_key(output, key, strlen(key), GGUF_STRING);
    append_string(output, &output->keys, text, strlen(text));
}

void gguf_output_array(gguf_output *output, const char *key, gguf_value_type type, uint64_t count)
{
    uint32_t number = type;
    begin_key(output, key, strlen(key), GGUF_ARRAY);
    append(output, &output->keys, &number, sizeof number);
    append(output, &output->keys, &count, sizeof count);
}

void gguf_output_element(gguf_output *output, const void *data, size_t size_bytes)
{
    append(output, &output->keys, data, size_bytes);
}

void gguf_output_element_text(gguf_output *output, const char *text)
{
    append_string(output, &output->keys, text, strlen(text));
}

void gguf_output_tensor(gguf_output *output, const char *name, uint32_t rank, const int64_t *shape,
                        const ggml_type_info *type)
{
    uint32_t id = type->id;
    uint64_t size = type->block_bytes;
    append_string(output, &output->infos, name, strlen(name));
    append(output, &output->infos, &rank, sizeof rank);
    for (uint32_t d = 0; d < rank; d++) {
        append(output, &output->infos, &shape[d], sizeof shape[d]);
        size *= (uint64_t)(d == 0 ? shape[d] / type->block_elements : shape[d]);
    }
    append(output, &output->infos, &id, sizeof id);
    append(output, &output->infos, &output->offset, sizeof output->offset);
    if (output->tensor_count == output->tensor_room) {
        size_t room = output->tensor_room * 2 + 64;
        size_t *grown = engine_realloc(output->tensor_bytes, room, sizeof *grown);
        output->short_of_memory = output->short_of_memory || !grown;
        if (!grown)
            return;
        output->tensor_bytes = grown;
        output->tensor_room = room;
    }
    output->tensor_bytes[output->tensor_count++] = (size_t)size;
    output->offset +=
        (size + GGUF_DEFAULT_ALIGNMENT - 1) / GGUF_DEFAULT_ALIGNMENT * GGUF_DEFAULT_ALIGNMENT;
}

static bool write_bytes(gguf_output *output, const void *data, size_t size_bytes, engine_error *err)
{
    errno = 0;
    if (fwrite(data, 1, size_bytes, output->stream) == size_bytes)
        return true;
    return fail_writing(output, errno ? errno : EIO, err);
}

static bool pad(gguf_output *output, uint64_t written, engine_error *err)
{
    static const uint8_t zeros[GGUF_DEFAULT_ALIGNMENT];
    size_t over = (size_t)(written % GGUF_DEFAULT_ALIGNMENT);
    return over == 0 || write_bytes(output, zeros, GGUF_DEFAULT_ALIGNMENT - over, err);
}

static void write_head(const gguf_output *output, uint8_t head[HEAD_BYTES])
{
    const uint32_t version = 3;
    memcpy(head, "GGUF", 4);
    memcpy(head + 4, &version, sizeof version);
    memcpy(head + 8, &output->tensor_count, sizeof output->tensor_count);
    memcpy(head + 16, &output->key_count, sizeof output->key_count);
}

uint8_t *gguf_output_head(gguf_output *output, size_t *size_bytes, engine_error *err)
{
    // Padded, so that the (empty) data section begins inside the file.
    uint8_t *head = output->short_of_memory
                        ? NULL
                        : engine_alloc(HEAD_BYTES + output->keys.used + GGUF_DEFAULT_ALIGNMENT, 1);
    if (!head) {
        engine_fail(err, "out of memory for metadata; close other programs");
        return NULL;
    }
    write_head(output, head);
    if (output->keys.used)
        memcpy(head + HEAD_BYTES, output->keys.data, output->keys.used);
    *size_bytes = HEAD_BYTES + output->keys.used + GGUF_DEFAULT_ALIGNMENT;
    return head;
}

bool gguf_output_begin(gguf_output *output, engine_error *err)
{
    if (output->short_of_memory)
        return engine_fail(err, "out of memory for the head of the file; close other programs");
    uint8_t head[HEAD_BYTES];
    write_head(output, head);
    return write_bytes(output, head, sizeof head, err) &&
           write_bytes(output, output->keys.data, output->keys.used, err) &&
           write_bytes(output, output->infos.data, output->infos.used, err) &&
           pad(output, sizeof head + output->keys.used + output->infos.used, err);
}

bool gguf_output_data(gguf_output *output, const void *data, size_t size_bytes, engine_error *err)
{
    if (output->tensor >= output->tensor_count ||
        size_bytes > output->tensor_bytes[output->tensor] - output->written)
        return engine_fail(err, "more data than the tensors that were described have");
    if (!write_bytes(output, data, size_bytes, err))
        return false;
    output->written += size_bytes;
    if (output->written < output->tensor_bytes[output->tensor])
        return true;
    output->tensor++;
    output->written = 0;
    return pad(output, output->tensor_bytes[output->tensor - 1], err);
}

bool gguf_output_finish(gguf_output *output, engine_error *err)
{
    if (output->tensor != output->tensor_count)
        return engine_fail(err, "only %llu of %llu tensors were written",
                           (unsigned long long)output->tensor,
                           (unsigned long long)output->tensor_count);
    errno = 0;
    bool good = fclose(output->stream) == 0;
    int error = errno;
    output->stream = NULL;
    if (good && rename(output->part_path, output->path) == 0)
        return true;
    error = good ? errno : error;
    remove(output->part_path);
    return fail_writing(output, error ? error : EIO, err);
}
