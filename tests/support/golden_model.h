// SPDX-License-Identifier: MIT
// Golden models: GGUF files whose weights are made from a seed, with the logits that transformers
// computes from them. tests/golden/models/ has the generator.
#ifndef WEFT_TESTS_SUPPORT_GOLDEN_MODEL_H
#define WEFT_TESTS_SUPPORT_GOLDEN_MODEL_H

#include <stdbool.h>

#include "tests/support/golden.h"

// Writes the model of a file in tests/golden/models/ as a GGUF file. False, with a line on standard
// error, if it cannot be written or its data differs from what the generator made.
bool golden_model_write(const golden *file, const char *path);

#endif
