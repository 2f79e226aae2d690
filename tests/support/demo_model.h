// SPDX-License-Identifier: MIT
#ifndef TESTS_SUPPORT_DEMO_MODEL_H
#define TESTS_SUPPORT_DEMO_MODEL_H

#include "engine/engine.h"

// The model that is shipped, and the tokens of a text that begins as its texts begin. NULL, with a line on standard
// error, if it cannot be opened; prompt may be NULL.
engine_model *demo_model_open(const char *text, tokenizer_ids *prompt);

// engine_generation.write into a tokenizer_text.
bool keep_text(void *user, const char *text, size_t bytes);

#endif
