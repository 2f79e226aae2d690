// SPDX-License-Identifier: MIT
// Opens the input as a GGUF file and, if the reader accepts it, uses everything in it.

#include <stdlib.h>
#include <string.h>

#include "tests/support/gguf_touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    engine_error err = {""};
    gguf_file *file = gguf_open_memory(data, size_bytes, &err);
    if (file != NULL)
        gguf_touch(file);
    else if (err.text[0] == '\0' || strchr(err.text, '\n') != NULL)
        abort(); // a refusal gives its reason in one line
    gguf_close(file);
    return 0;
}
