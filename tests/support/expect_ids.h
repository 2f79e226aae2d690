// SPDX-License-Identifier: MIT
#ifndef TESTS_SUPPORT_EXPECT_IDS_H
#define TESTS_SUPPORT_EXPECT_IDS_H

// What tests want of a tokenizer. On failure the cmocka test ends.

#include "tests/support/tokenizer_builder.h"

// Ids, for expect_ids().
#define IDS(...) ((const int32_t[]){__VA_ARGS__, -1})

tokenizer *must_finish(tokenizer_builder *b);

tokenizer_ids must_encode(const tokenizer *t, const void *text, size_t text_bytes, unsigned flags);

// The text has exactly these ids; the list ends with -1.
void expect_ids(const tokenizer *t, const char *text, unsigned flags, const int32_t *expected);

#endif
