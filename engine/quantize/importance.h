// SPDX-License-Identifier: MIT
#ifndef ENGINE_QUANTIZE_IMPORTANCE_H
#define ENGINE_QUANTIZE_IMPORTANCE_H

// Importance weights: for every matrix, how much each of its columns matters - the mean of the squares of
// what came in there while a text was read. Files as llama.cpp's imatrix program writes them:
//
//   GGUF     "<tensor>.in_sum2" f32 [cols] or [cols][matrices], "<tensor>.counts" f32 [1][matrices]
//   before   i32 entries, then each: i32 length, name, i32 calls, i32 values, f32 values (times calls)

#include <stddef.h>

#include "engine/base/error.h"

typedef struct importance importance;

// NULL on failure; everything is checked here.
importance *importance_open(const char *path, engine_error *err);
importance *importance_open_memory(const void *data, size_t size_bytes, engine_error *err);
void importance_close(importance *weights); // may be NULL

size_t importance_count(const importance *weights);

// [count] values of the tensor, count = cols or cols * matrices; NULL if the file has none.
const float *importance_find(const importance *weights, const char *tensor, size_t *count);

#endif
