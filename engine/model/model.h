// SPDX-License-Identifier: MIT
#ifndef ENGINE_MODEL_MODEL_H
#define ENGINE_MODEL_MODEL_H

// What a model holds. Nothing of it changes after it was opened, so that workers on any threads share it; what
// they have packed has a lock of its own.

#include "engine/engine.h"
#include "engine/model/packed.h"
#include "engine/model/weights.h"

struct engine_model {
    gguf_file *file;      // NULL if synthesised
    tokenizer *tokenizer; // NULL if synthesised
    model_config config;
    model_weights weights;
    packed_store *packed;
    char name[128];
};

#endif
