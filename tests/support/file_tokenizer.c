// SPDX-License-Identifier: MIT
#include "tests/support/file_tokenizer.h"

#include <stdio.h>

#include "engine/gguf/gguf.h"

tokenizer *file_tokenizer(const char *name)
{
    char path[1024];
    engine_error err = {""};
    snprintf(path, sizeof path, WEFT_TEST_GOLDEN "/tokenizer/%s.gguf", name);
    gguf_file *file = gguf_open(path, &err);
    tokenizer *t = file ? tokenizer_from_gguf(file, &err) : NULL;
    gguf_close(file);
    if (!t)
        fprintf(stderr, "%s: %s\n", name, err.text);
    return t;
}
