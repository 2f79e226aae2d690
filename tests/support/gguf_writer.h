// SPDX-License-Identifier: MIT
#ifndef TESTS_SUPPORT_GGUF_WRITER_H
#define TESTS_SUPPORT_GGUF_WRITER_H

// Builds GGUF files in memory for tests, honest ones and lying ones: every count, length and offset can
// be replaced, and nothing is checked. Running out of memory ends the test program.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/gguf/gguf.h"

typedef struct byte_buffer {
    uint8_t *data;
    size_t size_bytes;
    size_t capacity_bytes;
} byte_buffer;

void buffer_bytes(byte_buffer *buffer, const void *bytes, size_t count); // bytes NULL: zeros
void buffer_u8(byte_buffer *buffer, uint8_t value);
void buffer_u32(byte_buffer *buffer, uint32_t value);
void buffer_u64(byte_buffer *buffer, uint64_t value);
void buffer_f32(byte_buffer *buffer, float value);
void buffer_string(byte_buffer *buffer, const char *text); // u64 length, bytes
void buffer_pad(byte_buffer *buffer, size_t alignment);    // zeros up to a multiple
void buffer_free(byte_buffer *buffer);

// Fields may be overwritten before gguf_writer_finish; the three buffers follow the header in this order.
typedef struct gguf_writer {
    char magic[4];
    uint32_t version;
    uint64_t tensor_count;
    uint64_t key_count;
    uint32_t alignment; // of the data section and of tensors; written as a key only by the caller
    byte_buffer keys;
    byte_buffer infos;
    byte_buffer data;
} gguf_writer;

gguf_writer gguf_writer_new(void); // version 3, alignment 32, nothing in it

void gguf_writer_u8(gguf_writer *writer, const char *key, uint8_t value);
void gguf_writer_u32(gguf_writer *writer, const char *key, uint32_t value);
void gguf_writer_i32(gguf_writer *writer, const char *key, int32_t value);
void gguf_writer_u64(gguf_writer *writer, const char *key, uint64_t value);
void gguf_writer_i64(gguf_writer *writer, const char *key, int64_t value);
void gguf_writer_f32(gguf_writer *writer, const char *key, float value);
void gguf_writer_f64(gguf_writer *writer, const char *key, double value);
void gguf_writer_bool(gguf_writer *writer, const char *key, bool value);
void gguf_writer_string(gguf_writer *writer, const char *key, const char *text);
void gguf_writer_strings(gguf_writer *writer, const char *key, const char *const *texts,
                         size_t count);

// An array of scalars as they lie in memory.
void gguf_writer_array(gguf_writer *writer, const char *key, gguf_value_type type,
                       const void *elements, size_t count);

// Counts a key and writes its name and type; the caller appends the value to writer->keys.
void gguf_writer_key(gguf_writer *writer, const char *key, uint32_t type);

// Appends the description and size_bytes of data (NULL: zeros) at the next aligned offset.
void gguf_writer_tensor(gguf_writer *writer, const char *name, uint32_t type, uint32_t rank,
                        const int64_t *shape, const void *data, size_t size_bytes);

// Counts and describes a tensor without giving it data.
void gguf_writer_info(gguf_writer *writer, const char *name, uint32_t type, uint32_t rank,
                      const int64_t *shape, uint64_t offset);

// The finished file in memory of exactly its size, to be released with free(). Empties the writer.
uint8_t *gguf_writer_finish(gguf_writer *writer, size_t *size_bytes);

// Finishes into a file; false if it cannot be written.
bool gguf_writer_save(gguf_writer *writer, const char *path);

#endif
