// SPDX-License-Identifier: MIT
#ifndef ENGINE_MODEL_WEIGHTS_H
#define ENGINE_MODEL_WEIGHTS_H

// The tensors of a model, found and checked. Matrices stay where they are (in the mapped file or in
// memory made for a synthetic model); vectors are f32.

#include "engine/model/config.h"

typedef struct model_adapter model_adapter;

// data is NULL for a tensor that the model does not have.
typedef struct model_tensor {
    const void *data;
    weft_dtype dtype;
    int64_t rows, cols;
    gguf_planes planes;            // of matrices with scales beside them
    const model_adapter *adapters; // that are added to it; NULL: none
} model_tensor;

// y = W x + scale B (A x) + what the next one adds. Of tensors of several matrices, experts' or heads', each has its
// own A and B, one below the other; of heads one of the two may be there once for all.
struct model_adapter {
    model_tensor a, b; // [rank][columns of W], [rows of W][rank]
    int32_t rank;
    float scale;
    const model_adapter *next;
};

typedef struct model_layer {
    model_tensor tensors[MODEL_LAYER_TENSOR_COUNT];
} model_layer;

typedef struct model_weights {
    model_layer *layers;
    model_tensor globals[MODEL_GLOBAL_TENSOR_COUNT];
    int64_t parameters, bytes;
    int32_t adapter_rank; // the largest one; 0: no adapters
    // Beside the embedding, whose own `adapters` are those of a tied output: A is [vocabulary][rank].
    const model_adapter *embedding_adapters;
    void *owned[2]; // f32 copies of vectors stored otherwise; synthetic weights
    void *latents;  // of latent attention's matrices that a file has as one
    size_t owned_bytes[2];
} model_weights;

// Matrices that a file may hold as one, and what their rows are, from the first on. The last has no whole.
typedef struct model_fused {
    enum model_layer_tensor whole, parts[MODEL_MAX_PARTS];
} model_fused;

extern const model_fused model_fused_tensors[];

// The value of a symbolic extent.
int64_t model_extent_value(const model_config *config, model_extent extent);

// How many matrices such rows belong to: tensors of three dimensions hold more than one.
int64_t model_extent_matrices(const model_config *config, model_extent rows);

// The output matrix: output.weight, or the embedding where that is missing (tied).
const model_tensor *model_output_matrix(const model_weights *weights);

// Binds the tensors of a file. Refuses missing tensors, shapes that do not fit the config, formats that
// no kernel runs, and tensors that the forward pass would not use.
bool model_weights_bind(model_weights *weights, const model_config *config, const gguf_file *file,
                        engine_error *err);

// Makes weights up, valid blocks of small random values: every matrix in the format of that name
// (weft_dtype_name()), or each in what a mix of that name has for it (engine/gguf/mix.h). Refused if the
// memory that is available does not hold them and beside_bytes more.
bool model_weights_synthesise(model_weights *weights, const model_config *config,
                              const char *formats, int64_t beside_bytes, engine_error *err);

// The same without memory: every tensor has its format and shape, and no data.
bool model_weights_outline(model_weights *weights, const model_config *config, const char *formats,
                           engine_error *err);

void model_weights_free(model_weights *weights);

#endif
