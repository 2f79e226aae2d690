// SPDX-License-Identifier: MIT
#ifndef TESTS_SUPPORT_GGUF_TINY_MODEL_H
#define TESTS_SUPPORT_GGUF_TINY_MODEL_H

#include "tests/support/gguf_writer.h"

enum { TINY_MODEL_VOCAB = 8 };

typedef struct gguf_tiny_shape {
    const char *architecture; // "llama", "qwen3", ...
    uint32_t matrix_type;     // ggml id: 0 f32, 1 f16, 2 q4_0, ...
    int64_t dim;              // of embeddings, of the one head and of the feed-forward part
    bool norms_in_f16;        // stored with a second dimension of 1
    bool norms_are_nan;       // not with norms_in_f16
    uint32_t experts; // a mixture of so many, each as large as the feed-forward part; 0: none
    // A vocabulary in the place of its own: how many pieces, and what writes their keys; 0, NULL: TINY_MODEL_VOCAB.
    int64_t vocab;
    void (*write_tokenizer)(gguf_writer *writer);
} gguf_tiny_shape;

// The smallest model that the engine runs: one layer, one head, a vocabulary of TINY_MODEL_VOCAB pieces,
// matrices of zeros. For tests of what the engine does with odd or damaged files.
gguf_writer gguf_tiny_model(const gguf_tiny_shape *shape);

#endif
