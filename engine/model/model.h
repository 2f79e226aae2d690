// SPDX-License-Identifier: MIT
#ifndef ENGINE_MODEL_MODEL_H
#define ENGINE_MODEL_MODEL_H

// What a model holds. Nothing of it changes after it was opened, so that workers on any threads share it.

#include "engine/engine.h"
#include "engine/model/weights.h"

struct engine_model {
    gguf_file *file;      // NULL if synthesised
    tokenizer *tokenizer; // NULL if synthesised
    model_config config;
    model_weights weights;
    char name[128];
};

#endif
