// SPDX-License-Identifier: MIT
#ifndef TESTS_SUPPORT_FILE_TOKENIZER_H
#define TESTS_SUPPORT_FILE_TOKENIZER_H

#include "engine/tokenizer/tokenizer.h"

// The tokenizer of tests/golden/tokenizer/NAME.gguf. NULL, with a line on standard error, if there is none.
tokenizer *file_tokenizer(const char *name);

#endif
