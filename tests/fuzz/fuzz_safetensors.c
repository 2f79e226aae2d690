// SPDX-License-Identifier: MIT
// Opens the input as a safetensors file and, if the reader accepts it, reads every byte of every tensor.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/safetensors/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static volatile uint8_t sum;
    engine_error err = {""};
    safetensors *file = safetensors_open_memory(data, size_bytes, &err);
    if (file == NULL && (err.text[0] == '\0' || strchr(err.text, '\n') != NULL))
        abort(); // a refusal gives its reason in one line
    for (size_t n = 0; file && n < safetensors_count(file); n++) {
        const safetensor *tensor = safetensors_at(file, n);
        for (size_t i = 0; i < tensor->size_bytes; i++)
            sum = (uint8_t)(sum + tensor->data[i]);
    }
    safetensors_close(file);
    return 0;
}
