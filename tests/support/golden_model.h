// SPDX-License-Identifier: MIT
// Golden models: GGUF files whose weights are made from a seed, with the logits that transformers
// computes from them. tests/golden/models/ has the generator.
#ifndef WEFT_TESTS_SUPPORT_GOLDEN_MODEL_H
#define WEFT_TESTS_SUPPORT_GOLDEN_MODEL_H

#include <stdbool.h>

#include "tests/support/golden.h"
#include "tests/support/scratch.h"

// Writes the model of a file in tests/golden/models/ as a GGUF file. False, with a line on standard
// error, if it cannot be written or its data differs from what the generator made.
bool golden_model_write(const golden *file, const char *path);

// A golden model written to a file of its own, with what its file says of it.
typedef struct golden_written {
    golden *file;
    char path[SCRATCH_PATH_BYTES];
    const int32_t *tokens;
    int32_t vocab;
} golden_written;

// `name` below tests/golden/. False, with a line on standard error, if it cannot be written; close it anyway.
bool golden_model_open(golden_written *model, const char *name);

// Removes the file. Returns 0, as a tear-down of cmocka does.
int golden_model_close(golden_written *model);

// Largest difference from what transformers computes, at the positions that are stored, of logits
// [tokens][vocab] after every one of the file's "tokens". A NaN is infinitely far away.
float golden_model_distance(const golden *file, const float *logits);

// The same of logits after the first `tokens` tokens.
float golden_model_distance_of(const golden *file, const float *logits, int32_t tokens);

// Number of the first greedy token that logits after all tokens do not choose, or -1.
int32_t golden_model_wrong_choice(const golden *file, const float *logits);

#endif
