// SPDX-License-Identifier: MIT
#include "engine/gguf/missing.h"

#include <string.h>

#define DELTA                                                                                      \
    "three of its layers in four are no attention but a recurrence with a state (Gated DeltaNet)"

static const struct {
    const char *name, *lacks;
} families[] = {{"qwen3next", DELTA}, {"qwen3_next", DELTA}};

const char *gguf_family_lacks(const char *name, size_t name_bytes)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strlen(families[i].name) == name_bytes &&
            memcmp(families[i].name, name, name_bytes) == 0)
            return families[i].lacks;
    return NULL;
}
