// SPDX-License-Identifier: MIT
#ifndef ENGINE_GGUF_GGUF_OUTPUT_H
#define ENGINE_GGUF_GGUF_OUTPUT_H

// Writes GGUF files, version 3, without ever holding a tensor: first all metadata, then the description of
// all tensors, then gguf_output_begin, then the tensors' bytes in the order of their descriptions.
//
// The file grows under the name PATH.part and takes its own only when it is complete. Lack of memory or a
// write that fails is kept and reported by the next call that returns bool.

#include "engine/gguf/gguf.h"

typedef struct gguf_output gguf_output;

// NULL when the file cannot be made. path NULL: no file, for gguf_output_head alone.
gguf_output *gguf_output_open(const char *path, engine_error *err);

// The metadata as a GGUF file without tensors, to be released with free(); NULL when memory is short.
uint8_t *gguf_output_head(gguf_output *output, size_t *size_bytes, engine_error *err);

// Removes what was written unless gguf_output_finish succeeded; output may be NULL.
void gguf_output_close(gguf_output *output);

// Metadata. An entry as another file has it; values of our own.
void gguf_output_entry(gguf_output *output, const gguf_entry *entry);
void gguf_output_u32(gguf_output *output, const char *key, uint32_t value);
void gguf_output_f32(gguf_output *output, const char *key, float value);
void gguf_output_bool(gguf_output *output, const char *key, bool value);
void gguf_output_text(gguf_output *output, const char *key, const char *text);

// The start of an array: `count` elements of one type follow by gguf_output_element.
void gguf_output_array(gguf_output *output, const char *key, gguf_value_type type, uint64_t count);
void gguf_output_element(gguf_output *output, const void *bytes, size_t size_bytes);
void gguf_output_element_text(gguf_output *output, const char *text);

// Describes the next tensor; shape[0] is the contiguous dimension, a whole number of blocks.
void gguf_output_tensor(gguf_output *output, const char *name, uint32_t rank, const int64_t *shape,
                        const ggml_type_info *type);

bool gguf_output_begin(gguf_output *output, engine_error *err);

// The next bytes of the tensor at hand; where it ends the next one begins.
bool gguf_output_data(gguf_output *output, const void *bytes, size_t size_bytes, engine_error *err);

// Every tensor must have been written. The file is there then, under its name.
bool gguf_output_finish(gguf_output *output, engine_error *err);

#endif
