// SPDX-License-Identifier: MIT
#include "engine/gguf/missing.h"

#include <string.h>

#define DELTA                                                                                      \
    "three of its layers in four are no attention but a recurrence with a state (Gated DeltaNet)"

#define STATE  "layers of it are no attention but a recurrence with a state"
#define BIASED "its attention adds a learned bias for every head and distance to the scores"

// Names of files and of folders.
static const struct {
    const char *name, *lacks;
} families[] = {
    {"qwen3next", DELTA},     {"qwen3_next", DELTA},
    {"mamba", STATE},         {"mamba2", STATE},
    {"falcon_mamba", STATE},  {"jamba", STATE},
    {"rwkv6", STATE},         {"rwkv6qwen2", STATE},
    {"rwkv7", STATE},         {"arwkv7", STATE},
    {"falcon-h1", STATE},     {"falcon_h1", STATE},
    {"granitehybrid", STATE}, {"granitemoehybrid", STATE},
    {"nemotron_h", STATE},    {"plamo2", STATE},
    {"t5", BIASED},           {"t5encoder", BIASED},
    {"mt5", BIASED},          {"umt5", BIASED},
};

const char *gguf_family_lacks(const char *name, size_t name_bytes)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strlen(families[i].name) == name_bytes &&
            memcmp(families[i].name, name, name_bytes) == 0)
            return families[i].lacks;
    return NULL;
}
