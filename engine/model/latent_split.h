// SPDX-License-Identifier: MIT
#ifndef ENGINE_MODEL_LATENT_SPLIT_H
#define ENGINE_MODEL_LATENT_SPLIT_H

// Files of DeepSeek V2 and V3 from before May 2025 have one matrix that makes keys and values of all heads,
// head by head the rows of both. Values' rows are gathered as they are; keys' are turned round, which makes
// them f32.

#include "engine/model/weights.h"

// The matrix of a layer; NULL if the file has none.
const gguf_tensor *latent_split_find(const gguf_file *file, int32_t layer);

// Checks the matrices of all layers and makes room for what becomes of them, weights->latents, if there are any.
bool latent_split_reserve(model_weights *weights, const model_config *config, const gguf_file *file,
                          engine_error *err);

// Makes the keys' (part 0) or the values' matrices of a layer.
bool latent_split(model_weights *weights, const model_config *config, const gguf_tensor *from,
                  int32_t layer, int part, model_tensor *to, engine_error *err);

#endif
