// SPDX-License-Identifier: MIT
#ifndef ENGINE_SAFETENSORS_SAFETENSORS_H
#define ENGINE_SAFETENSORS_SAFETENSORS_H

// Reads one safetensors file:
//
//   header size: u64 | header: JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ...} | data
//
// Everything is checked when the file is opened: every tensor lies inside the data, has the bytes that its
// shape asks for, and none overlap. Source: the format's description by Hugging Face.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"

enum {
    SAFETENSORS_MAX_RANK = 4,
    SAFETENSORS_MAX_NAME_BYTES = 255,
    SAFETENSORS_MAX_TENSORS = 1 << 18,
    SAFETENSORS_MAX_HEADER_BYTES = 100 << 20,
};

typedef enum safetensors_dtype {
    SAFETENSORS_OTHER = 0, // known to the format, not to weft: BOOL, I64, ...
    SAFETENSORS_F32,
    SAFETENSORS_F16,
    SAFETENSORS_BF16,
    SAFETENSORS_F8_E4M3,
    SAFETENSORS_F8_E5M2,
    SAFETENSORS_I8,
    SAFETENSORS_U8,
    SAFETENSORS_I32,
    SAFETENSORS_U32,
} safetensors_dtype;

typedef struct safetensor {
    char name[SAFETENSORS_MAX_NAME_BYTES + 1];
    safetensors_dtype dtype;
    uint32_t rank;
    int64_t shape[SAFETENSORS_MAX_RANK]; // outermost first; 1 beyond the rank
    int64_t element_count;
    const uint8_t *data; // aligned as the file has it, which may be not at all
    size_t size_bytes;
} safetensor;

typedef struct safetensors safetensors;

safetensors *safetensors_open(const char *path, engine_error *err);

// The same for a file in memory, which must stay there until safetensors_close.
safetensors *safetensors_open_memory(const void *data, size_t size_bytes, engine_error *err);

void safetensors_close(safetensors *file); // may be NULL

size_t safetensors_count(const safetensors *file);
const safetensor *safetensors_at(const safetensors *file, size_t index); // index < count

#endif
