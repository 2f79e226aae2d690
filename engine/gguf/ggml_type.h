// SPDX-License-Identifier: MIT
#ifndef ENGINE_GGUF_GGML_TYPE_H
#define ENGINE_GGUF_GGML_TYPE_H

#include <stddef.h>
#include <stdint.h>

#include <weft/types.h>

// A tensor format of GGUF files. Rows are split in blocks of block_elements along shape[0].
typedef struct ggml_type_info {
    uint32_t id;      // as stored in the file
    const char *name; // "q4_k"
    uint32_t block_elements;
    uint32_t block_bytes;     // 0: nobody knows; the format has a name and no more
    uint32_t alignment_bytes; // that reading a block in place asks for
    weft_dtype dtype;         // the kernel library's format; WEFT_DTYPE_NONE if it has none
} ggml_type_info;

// NULL for an id that was never given out, or was withdrawn before there were GGUF files.
const ggml_type_info *ggml_type_find(uint32_t id);

// The description of a library's format, whether GGUF files have a number for it (id) or not: then id is
// GGML_TYPE_NO_ID. NULL for a value that is no format.
#define GGML_TYPE_NO_ID UINT32_MAX
const ggml_type_info *ggml_type_of(weft_dtype dtype);

// One more than the highest id there is; ids below may have no description.
size_t ggml_type_count(void);

// The name of an id that was withdrawn before there were GGUF files ("q4_2"); NULL for all others.
const char *ggml_type_removed_name(uint32_t id);

#endif
