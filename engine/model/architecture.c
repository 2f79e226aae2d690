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

//  x -> norm -> q, k, v            one rounding of the input for three matrices
//  q, k -> norm per head           where the layer has such norms
//  q, k, v -> q rotated, pages     append
//  q, pages -> attended            attention
//  x += W attended
//  x -> norm -> gate, up -> act(gate) * up
//  x += W gate
static const model_line dense_block[] = {
    {.op = MODEL_LINEAR,
     .in = MODEL_BUFFER_HIDDEN,
     .norm = MODEL_ATTN_NORM,
     .parts = {{MODEL_ATTN_Q, MODEL_ATTN_Q_BIAS, MODEL_BUFFER_Q},
               {MODEL_ATTN_K, MODEL_ATTN_K_BIAS, MODEL_BUFFER_K},
               {MODEL_ATTN_V, MODEL_ATTN_V_BIAS, MODEL_BUFFER_V}}},
    {.op = MODEL_HEAD_NORM, .in = MODEL_BUFFER_Q, .norm = MODEL_ATTN_Q_NORM},
    {.op = MODEL_HEAD_NORM, .in = MODEL_BUFFER_K, .norm = MODEL_ATTN_K_NORM},
    {.op = MODEL_APPEND},
    {.op = MODEL_ATTENTION},
    {.op = MODEL_LINEAR,
     .in = MODEL_BUFFER_ATTENDED,
     .parts = {{MODEL_ATTN_OUT, MODEL_ATTN_OUT_BIAS, MODEL_BUFFER_HIDDEN}},
     .residual = true},
    {.op = MODEL_LINEAR,
     .in = MODEL_BUFFER_HIDDEN,
     .norm = MODEL_FFN_NORM,
     .parts = {{MODEL_FFN_GATE, MODEL_NO_TENSOR, MODEL_BUFFER_GATED},
               {MODEL_FFN_UP, MODEL_NO_TENSOR, MODEL_BUFFER_GATED}},
     .gate = true},
    {.op = MODEL_LINEAR,
     .in = MODEL_BUFFER_GATED,
     .parts = {{MODEL_FFN_DOWN, MODEL_NO_TENSOR, MODEL_BUFFER_HIDDEN}},
     .residual = true},
    {.op = MODEL_END},
};

// Llama 1 to 3 and Mistral share "llama"; the window of Mistral is a number in the metadata.
static const model_architecture architectures[] = {
    {"llama", WEFT_ROPE_INTERLEAVED, WEFT_LINEAR_GATE_SILU, DENSE_BLOCK,
     QKV_BIAS | BIT(ATTN_OUT_BIAS), dense_block},
    {"mistral", WEFT_ROPE_INTERLEAVED, WEFT_LINEAR_GATE_SILU, DENSE_BLOCK, 0, dense_block},
    {"qwen2", WEFT_ROPE_SPLIT_HALF, WEFT_LINEAR_GATE_SILU, DENSE_BLOCK | QKV_BIAS, 0, dense_block},
    {"qwen3", WEFT_ROPE_SPLIT_HALF, WEFT_LINEAR_GATE_SILU, DENSE_BLOCK | QK_NORM,
     QKV_BIAS | BIT(ATTN_OUT_BIAS), dense_block},
};

#define SPEC(id, name, rows, cols) {name, MODEL_##rows, MODEL_##cols},
const model_tensor_spec model_layer_specs[] = {{NULL, MODEL_ONE, MODEL_ONE},
                                               MODEL_LAYER_TENSORS(SPEC)};
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
