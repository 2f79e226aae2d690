// SPDX-License-Identifier: MIT
#ifndef ENGINE_GGUF_GGUF_FILE_H
#define ENGINE_GGUF_GGUF_FILE_H

// What lies behind a gguf_file; for the files of this room only.

#include "engine/base/file_map.h"
#include "engine/gguf/gguf.h"
#include "engine/gguf/name_table.h"

// A number that names no format, as one.
typedef struct gguf_unknown_type {
    ggml_type_info info;
    char name[24]; // "type 99"
} gguf_unknown_type;

struct gguf_file {
    file_map map; // empty if the caller owns the memory
    const uint8_t *data;
    size_t size_bytes;
    uint32_t version;
    size_t alignment;
    size_t data_offset;
    gguf_entry *entries;
    size_t entry_count;
    name_table entry_names;
    gguf_tensor *tensors;
    size_t tensor_count;
    name_table tensor_names;
    gguf_unknown_type unknown[GGUF_MAX_UNKNOWN];
    uint32_t unknown_count;
    // Of a model in several files: parts[1...] are the others; parts[0] is NULL.
    struct gguf_file **parts;
    uint32_t part_count;
    // Of an assembled file.
    uint8_t *head;
    void (*release)(void *user);
    void *release_user;
};

// Maps and checks one file, whether it is part of a model or all of it.
gguf_file *gguf_open_one(const char *path, engine_error *err);

// Reads and checks everything into a zeroed file whose data and size_bytes are set.
bool gguf_parse(gguf_file *file, engine_error *err);

// Bytes of one value in the file; 0 for strings, arrays and unknown types.
size_t gguf_scalar_bytes(gguf_value_type type);

#endif
