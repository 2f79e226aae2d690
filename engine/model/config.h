// SPDX-License-Identifier: MIT
#ifndef ENGINE_MODEL_CONFIG_H
#define ENGINE_MODEL_CONFIG_H

// What a model is, in numbers, read from the metadata of its file and checked.

#include <weft/weft.h>

#include "engine/base/error.h"
#include "engine/gguf/gguf.h"
#include "engine/model/architecture.h"

typedef struct model_config {
    const model_architecture *architecture;
    int32_t layers, embedding_dim, feed_forward_dim, vocab;
    int32_t q_heads, kv_heads, head_dim;
    int32_t trained_context; // tokens
    int32_t window;          // keys; 0: none
    float norm_eps;
    weft_rope_params rope; // freq_factors are set by the weights
} model_config;

// vocab is taken from the embedding table, which the caller passes.
bool model_config_read(model_config *config, const gguf_file *file, engine_error *err);

// Refuses numbers that no forward pass could use; for configs from any source.
bool model_config_check(const model_config *config, engine_error *err);

#endif
