// SPDX-License-Identifier: MIT
#include "engine/model/architecture.h"

#include <string.h>

#define BIT(id) (1u << MODEL_##id)

enum {
    DENSE_BLOCK = BIT(ATTN_NORM) | BIT(ATTN_Q) | BIT(ATTN_K) | BIT(ATTN_V) | BIT(ATTN_OUT) |
                  BIT(FFN_NORM) | BIT(FFN_GATE) | BIT(FFN_UP) | BIT(FFN_DOWN),
    QKV_BIAS = BIT(ATTN_Q_BIAS) | BIT(ATTN_K_BIAS) | BIT(ATTN_V_BIAS),
    QK_NORM = BIT(ATTN_Q_NORM) | BIT(ATTN_K_NORM),
};

// Llama 1 to 3 and Mistral share "llama"; the window of Mistral is a number in the metadata.
static const model_architecture architectures[] = {
    {"llama", WEFT_ROPE_INTERLEAVED, DENSE_BLOCK, QKV_BIAS | BIT(ATTN_OUT_BIAS)},
    {"mistral", WEFT_ROPE_INTERLEAVED, DENSE_BLOCK, 0},
    {"qwen2", WEFT_ROPE_SPLIT_HALF, DENSE_BLOCK | QKV_BIAS, 0},
    {"qwen3", WEFT_ROPE_SPLIT_HALF, DENSE_BLOCK | QK_NORM, QKV_BIAS | BIT(ATTN_OUT_BIAS)},
};

#define SPEC(id, name, rows, cols) {name, MODEL_##rows, MODEL_##cols},
const model_tensor_spec model_layer_specs[] = {MODEL_LAYER_TENSORS(SPEC)};
const model_tensor_spec model_global_specs[] = {MODEL_GLOBAL_TENSORS(SPEC)};
#undef SPEC

const model_architecture *model_architecture_at(int32_t n)
{
    int32_t count = sizeof architectures / sizeof *architectures;
    return n >= 0 && n < count ? &architectures[n] : NULL;
}

const model_architecture *model_architecture_find(const char *name, size_t name_bytes)
{
    const model_architecture *architecture;
    for (int32_t n = 0; (architecture = model_architecture_at(n)); n++)
        if (strlen(architecture->name) == name_bytes &&
            memcmp(architecture->name, name, name_bytes) == 0)
            return architecture;
    return NULL;
}
