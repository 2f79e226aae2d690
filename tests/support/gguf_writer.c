// SPDX-License-Identifier: MIT
#include "tests/support/gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- bytes ------------------------------------------------------------------------------------------

void buffer_bytes(byte_buffer *buffer, const void *bytes, size_t count)
{
    size_t needed_bytes = buffer->size_bytes + count;
    if (needed_bytes > buffer->capacity_bytes) {
        buffer->capacity_bytes = needed_bytes * 2;
        buffer->data = realloc(buffer->data, buffer->capacity_bytes);
        if (buffer->data == NULL)
            abort();
    }
    if (count > 0 && bytes != NULL)
        memcpy(buffer->data + buffer->size_bytes, bytes, count);
    else if (count > 0)
        memset(buffer->data + buffer->size_bytes, 0, count);
    buffer->size_bytes = needed_bytes;
}

// The reader refuses big-endian hosts, so values go out as they lie in memory.
void buffer_u8(byte_buffer *buffer, uint8_t value)
{
    buffer_bytes(buffer, &value, sizeof(value));
}

void buffer_u32(byte_buffer *buffer, uint32_t value)
{
    buffer_bytes(buffer, &value, sizeof(value));
}

void buffer_u64(byte_buffer *buffer, uint64_t value)
{
    buffer_bytes(buffer, &value, sizeof(value));
}

void buffer_f32(byte_buffer *buffer, float value)
{
    buffer_bytes(buffer, &value, sizeof(value));
}

void buffer_string(byte_buffer *buffer, const char *text)
{
    size_t length = strlen(text);
    buffer_u64(buffer, length);
    buffer_bytes(buffer, text, length);
}

void buffer_pad(byte_buffer *buffer, size_t alignment)
{
    size_t excess_bytes = buffer->size_bytes % alignment;
    if (excess_bytes != 0)
        buffer_bytes(buffer, NULL, alignment - excess_bytes);
}

void buffer_free(byte_buffer *buffer)
{
    free(buffer->data);
    *buffer = (byte_buffer){0};
}

// --- metadata ---------------------------------------------------------------------------------------

gguf_writer gguf_writer_new(void)
{
    return (gguf_writer){.magic = {'G', 'G', 'U', 'F'}, .version = 3, .alignment = 32};
}

void gguf_writer_key(gguf_writer *writer, const char *key, uint32_t type)
{
    writer->key_count++;
    buffer_string(&writer->keys, key);
    buffer_u32(&writer->keys, type);
}

static void write_scalar(gguf_writer *writer, const char *key, gguf_value_type type,
                         const void *value, size_t size_bytes)
{
    gguf_writer_key(writer, key, type);
    buffer_bytes(&writer->keys, value, size_bytes);
}

void gguf_writer_u8(gguf_writer *writer, const char *key, uint8_t value)
{
    write_scalar(writer, key, GGUF_U8, &value, sizeof(value));
}

void gguf_writer_u32(gguf_writer *writer, const char *key, uint32_t value)
{
    write_scalar(writer, key, GGUF_U32, &value, sizeof(value));
}

void gguf_writer_i32(gguf_writer *writer, const char *key, int32_t value)
{
    write_scalar(writer, key, GGUF_I32, &value, sizeof(value));
}

void gguf_writer_u64(gguf_writer *writer, const char *key, uint64_t value)
{
    write_scalar(writer, key, GGUF_U64, &value, sizeof(value));
}

void gguf_writer_i64(gguf_writer *writer, const char *key, int64_t value)
{
    write_scalar(writer, key, GGUF_I64, &value, sizeof(value));
}

void gguf_writer_f32(gguf_writer *writer, const char *key, float value)
{
    write_scalar(writer, key, GGUF_F32, &value, sizeof(value));
}

void gguf_writer_f64(gguf_writer *writer, const char *key, double value)
{
    write_scalar(writer, key, GGUF_F64, &value, sizeof(value));
}

void gguf_writer_bool(gguf_writer *writer, const char *key, bool value)
{
    uint8_t byte = value;
    write_scalar(writer, key, GGUF_BOOL, &byte, sizeof(byte));
}

void gguf_writer_string(gguf_writer *writer, const char *key, const char *text)
{
    gguf_writer_key(writer, key, GGUF_STRING);
    buffer_string(&writer->keys, text);
}

void gguf_writer_strings(gguf_writer *writer, const char *key, const char *const *texts,
                         size_t count)
{
    gguf_writer_key(writer, key, GGUF_ARRAY);
    buffer_u32(&writer->keys, GGUF_STRING);
    buffer_u64(&writer->keys, count);
    for (size_t i = 0; i < count; i++)
        buffer_string(&writer->keys, texts[i]);
}

static size_t element_bytes(gguf_value_type type)
{
    switch (type) {
    case GGUF_U8:
    case GGUF_I8:
    case GGUF_BOOL: return 1;
    case GGUF_U16:
    case GGUF_I16: return 2;
    case GGUF_U32:
    case GGUF_I32:
    case GGUF_F32: return 4;
    default: return 8;
    }
}

void gguf_writer_array(gguf_writer *writer, const char *key, gguf_value_type type,
                       const void *elements, size_t count)
{
    gguf_writer_key(writer, key, GGUF_ARRAY);
    buffer_u32(&writer->keys, type);
    buffer_u64(&writer->keys, count);
    buffer_bytes(&writer->keys, elements, count * element_bytes(type));
}

// --- tensors ----------------------------------------------------------------------------------------

void gguf_writer_info(gguf_writer *writer, const char *name, uint32_t type, uint32_t rank,
                      const int64_t *shape, uint64_t offset)
{
    writer->tensor_count++;
    buffer_string(&writer->infos, name);
    buffer_u32(&writer->infos, rank);
    for (uint32_t d = 0; d < rank; d++)
        buffer_u64(&writer->infos, (uint64_t)shape[d]);
    buffer_u32(&writer->infos, type);
    buffer_u64(&writer->infos, offset);
}

void gguf_writer_tensor(gguf_writer *writer, const char *name, uint32_t type, uint32_t rank,
                        const int64_t *shape, const void *data, size_t size_bytes)
{
    buffer_pad(&writer->data, writer->alignment);
    gguf_writer_info(writer, name, type, rank, shape, writer->data.size_bytes);
    buffer_bytes(&writer->data, data, size_bytes);
}

// --- the file ---------------------------------------------------------------------------------------

uint8_t *gguf_writer_finish(gguf_writer *writer, size_t *size_bytes)
{
    byte_buffer file = {0};
    buffer_bytes(&file, writer->magic, sizeof(writer->magic));
    buffer_u32(&file, writer->version);
    buffer_u64(&file, writer->tensor_count);
    buffer_u64(&file, writer->key_count);
    buffer_bytes(&file, writer->keys.data, writer->keys.size_bytes);
    buffer_bytes(&file, writer->infos.data, writer->infos.size_bytes);
    if (writer->data.size_bytes > 0)
        buffer_pad(&file, writer->alignment);
    buffer_bytes(&file, writer->data.data, writer->data.size_bytes);
    buffer_free(&writer->keys);
    buffer_free(&writer->infos);
    buffer_free(&writer->data);

    // A copy of exactly this size, so that address checkers see the first byte read beyond it.
    uint8_t *exact = malloc(file.size_bytes);
    if (exact == NULL)
        abort();
    memcpy(exact, file.data, file.size_bytes);
    *size_bytes = file.size_bytes;
    buffer_free(&file);
    return exact;
}

bool gguf_writer_save(gguf_writer *writer, const char *path)
{
    size_t size_bytes;
    uint8_t *bytes = gguf_writer_finish(writer, &size_bytes);
    FILE *stream = fopen(path, "wb");
    bool written = stream != NULL && fwrite(bytes, 1, size_bytes, stream) == size_bytes;
    if (stream != NULL)
        written = fclose(stream) == 0 && written;
    free(bytes);
    return written;
}
