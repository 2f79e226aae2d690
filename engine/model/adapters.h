// SPDX-License-Identifier: MIT
#ifndef ENGINE_MODEL_ADAPTERS_H
#define ENGINE_MODEL_ADAPTERS_H

// Adapters (LoRA): matrices of few rows and columns beside those of a model, y = W x + scale B (A x), from GGUF
// files as llama.cpp's converter writes them: NAME.lora_a is A, NAME.lora_b is B, NAME a matrix of the model.

#include "engine/model/model.h"

// A model's weights with adapters beside them; the tensors are the model's own.
typedef struct model_adapted {
    model_weights weights; // the layers' table is a copy
    model_adapter *pairs;
    gguf_file *files[ENGINE_MAX_ADAPTERS];
} model_adapted;

// Opens the adapters of the options. Refuses files that are none, of other families, whose matrices the model
// does not have or has in other shapes, and matrices that cannot be adapted. Free it in any case.
bool model_adapt(model_adapted *adapted, const engine_model *model, const engine_options *options,
                 engine_error *err);
void model_adapted_free(model_adapted *adapted);

// Is the file an adapter rather than a model?
bool model_is_adapter(const gguf_file *file);

#endif
