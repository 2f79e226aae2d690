// SPDX-License-Identifier: MIT
#ifndef ENGINE_MODEL_CONFIG_LIMITS_H
#define ENGINE_MODEL_CONFIG_LIMITS_H

// Numbers beyond which a model is refused; for the files that read and check a config.

#include "engine/model/config.h"

enum {
    MAX_LAYERS = 1024,
    MAX_DIM = 1 << 20,
    MAX_HEADS = 4096,
    MAX_HEAD_DIM = 256,
    MAX_LATENT_DIM = 1024,
    MAX_CONTEXT = 1 << 27,
};

// Does layer n see all keys where others have a window?
bool model_config_sees_all(const model_config *config, int32_t layer);

#endif
