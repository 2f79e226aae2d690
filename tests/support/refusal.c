// SPDX-License-Identifier: MIT
#include "tests/support/refusal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void check_refusal(const engine_error *err, const char *fragment)
{
    size_t length = strlen(err->text);
    if (strstr(err->text, fragment) == NULL)
        fail_msg("'%s' does not say '%s'", err->text, fragment);
    assert_null(strchr(err->text, '\n'));
    assert_true(length < sizeof(err->text) - 1);
    assert_int_not_equal(err->text[length - 1], '.');
    if (strstr(err->text, "; ") == NULL && strstr(err->text, ": ") == NULL &&
        strstr(err->text, " must be ") == NULL)
        fail_msg("'%s' names no cure", err->text);
}

void refuse_bytes(const void *bytes, size_t size_bytes, const char *fragment)
{
    engine_error err = {""};
    gguf_file *file = gguf_open_memory(bytes, size_bytes, &err);
    if (file != NULL)
        fail_msg("accepted what is %s", fragment);
    check_refusal(&err, fragment);
}

void refuse(gguf_writer *writer, const char *fragment)
{
    size_t size_bytes;
    uint8_t *bytes = gguf_writer_finish(writer, &size_bytes);
    refuse_bytes(bytes, size_bytes, fragment);
    free(bytes);
}
