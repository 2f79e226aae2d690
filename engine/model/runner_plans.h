// SPDX-License-Identifier: MIT
#ifndef ENGINE_MODEL_RUNNER_PLANS_H
#define ENGINE_MODEL_RUNNER_PLANS_H

// What a runner holds; shared by the file that makes it and the file that runs it.

#include "engine/model/runner.h"

enum {
    RUNNER_MAX_LINEAR = 64, // distinct (format, rows, cols) of one model
    RUNNER_HEAD_ROWS = 16,  // rows of logits computed at once
};

typedef struct runner_linear {
    weft_dtype dtype;
    int64_t rows, cols;
    int32_t max_batch;
    weft_plan *plan;
} runner_linear;

// One slot for every float buffer of a pass: X(name, elements per token).
#define RUNNER_BUFFERS(X)                                                                          \
    X(x, MODEL_EMBEDDING)                                                                          \
    X(normed, MODEL_EMBEDDING)                                                                     \
    X(q, MODEL_Q)                                                                                  \
    X(k, MODEL_KV)                                                                                 \
    X(v, MODEL_KV)                                                                                 \
    X(attended, MODEL_Q)                                                                           \
    X(gate, MODEL_FEED_FORWARD)                                                                    \
    X(up, MODEL_FEED_FORWARD)

struct model_runner {
    weft_context *context;
    const model_config *config;
    const model_weights *weights;
    page_pool *pool;
    model_runner_options options;
    runner_linear linear[RUNNER_MAX_LINEAR];
    int32_t linear_count;
    weft_plan *embedding, *norm, *head_norm, *append, *attention, *activation;
#define RUNNER_BUFFER_FIELD(name, extent) float *name;
    RUNNER_BUFFERS(RUNNER_BUFFER_FIELD)
#undef RUNNER_BUFFER_FIELD
    float *logits; // [RUNNER_HEAD_ROWS][vocab]
    void *workspace;
    size_t workspace_bytes;
    void *memory; // of all buffers
    size_t memory_bytes;
};

// The plan of a matrix for passes of up to max_batch rows; NULL if none was made.
const weft_plan *runner_find_linear(const model_runner *runner, const model_tensor *matrix,
                                    int32_t max_batch);

#endif
