// SPDX-License-Identifier: MIT
// Opens the input as importance weights and, if they are accepted, looks one up.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/quantize/importance.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    engine_error err = {""};
    importance *weights = importance_open_memory(data, size_bytes, &err);
    size_t count;
    if (weights == NULL && (err.text[0] == '\0' || strchr(err.text, '\n') != NULL))
        abort(); // a refusal gives its reason in one line
    const float *values = weights ? importance_find(weights, "blk.0.attn_q.weight", &count) : NULL;
    for (size_t i = 0; values && i < count; i++)
        if (!(values[i] >= 0))
            abort();
    importance_close(weights);
    return 0;
}
