// SPDX-License-Identifier: MIT
#ifndef TESTS_SUPPORT_REFUSAL_H
#define TESTS_SUPPORT_REFUSAL_H

#include "tests/support/gguf_writer.h"

// Fails the cmocka test unless the text is one line that holds the fragment and names a cure.
void check_refusal(const engine_error *err, const char *fragment);

// Fail the cmocka test unless the reader refuses the file in those words. refuse() empties the writer.
void refuse_bytes(const void *bytes, size_t size_bytes, const char *fragment);
void refuse(gguf_writer *writer, const char *fragment);

#endif
