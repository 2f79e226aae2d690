// SPDX-License-Identifier: MIT
#ifndef ENGINE_MODELS_H
#define ENGINE_MODELS_H

// Models: what does not change, and what they say of themselves. Programs include engine/engine.h.

#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "engine/base/error.h"
#include "engine/gguf/gguf.h"
#include "engine/tokenizer/tokenizer.h"

typedef struct engine_model engine_model;

// Opens a GGUF file. NULL on failure. The file stays mapped as long as the model is open.
engine_model *engine_model_open(const char *path, engine_error *err);

typedef struct engine_options engine_options;

// A model of a known shape ("llama-3.2-1b", "llama-3.1-8b", "qwen3-0.6b", ...) with weights made up in
// memory: for measuring, since speed does not depend on the values. `formats` is a format ("q4_0") that
// all matrices have, or a mix ("q4_k_m"), which has those that files of that name have. There is no
// tokenizer. Refused before anything is made if the weights and the KV pool of a worker with these
// options (NULL: the defaults) exceed the available memory.
engine_model *engine_model_synthesise(const char *shape, const char *formats,
                                      const engine_options *options, engine_error *err);

// The same without weights, to be described: no worker can be opened for it.
engine_model *engine_model_outline(const char *shape, const char *formats, engine_error *err);

// The format of most matrices of a model of `formats`; WEFT_DTYPE_NONE if there is no such format or mix.
weft_dtype engine_main_format(const char *formats);

// The n-th shape that engine_model_synthesise knows; NULL past the last.
const char *engine_shape_at(int32_t n);

// model may be NULL. Close its workers first.
void engine_model_close(engine_model *model);

// What becomes of the states of a text's tokens. Values are those of {arch}.pooling_type in GGUF files.
typedef enum engine_pooling {
    ENGINE_POOLING_DEFAULT = 0, // the file's; where it says none, mean of encoders, last of others
    ENGINE_POOLING_MEAN = 1,    // of all tokens
    ENGINE_POOLING_FIRST = 2,   // the first token's, [CLS] of encoders
    ENGINE_POOLING_LAST = 3,
    ENGINE_POOLING_RANK =
        4, // the scores that the classifier of a reranker makes of the first token's
} engine_pooling;

typedef struct engine_model_info {
    const char *architecture; // "llama", "qwen2", ...
    const char *name;         // general.name made printable, or "" if the file has none
    int32_t layers, embedding_dim, q_heads, kv_heads, head_dim, feed_forward_dim, vocab;
    int32_t trained_context; // tokens
    int32_t window;          // sliding-window attention, in keys; 0: none
    int32_t value_dim;       // of a value in the cache
    bool values_in_keys;     // values are a part of the keys there (latent attention)
    int64_t parameters;
    int64_t weight_bytes;   // of all tensors
    int64_t streamed_bytes; // of the weights that one generated token reads
    // Mixtures of experts, else 0: how many, how many a token goes to, and the bytes of all of them.
    int32_t experts, experts_used;
    int64_t expert_bytes;
    int64_t active_feed_forward; // elements of a layer's feed-forward part that a token passes
    bool encoder;                // gives no logits: engine_embed alone runs it
    engine_pooling pooling;      // that the file asks for
    int32_t labels;              // scores of a reranker's classifier; 0: there is none
    int32_t separators;          // between two texts that it is asked about
} engine_model_info;

void engine_model_describe(const engine_model *model, engine_model_info *info);

// A matrix that every generated token is multiplied by.
typedef struct engine_matrix_info {
    const char *name; // in its layer: "attn_q.weight"
    weft_dtype dtype;
    int64_t rows, cols;
    int32_t layer; // -1: outside the layers
} engine_matrix_info;

// The n-th of them, layer by layer, the output matrix last; false past the last.
bool engine_model_matrix_at(const engine_model *model, int32_t n, engine_matrix_info *info);

const tokenizer *engine_model_tokenizer(const engine_model *model); // NULL if synthesised
const gguf_file *engine_model_file(const engine_model *model);      // NULL if synthesised

#endif
