// SPDX-License-Identifier: MIT
#ifndef ENGINE_MODEL_RUNNER_H
#define ENGINE_MODEL_RUNNER_H

// The forward pass of a ragged batch: plans for every shape the model has, buffers for one pass.

#include "engine/cache/page_pool.h"
#include "engine/model/weights.h"

typedef struct model_runner model_runner;

typedef struct model_runner_options {
    int32_t max_tokens, max_seqs; // in one pass
    int32_t max_kv_len;
    bool exact;
} model_runner_options;

// The config, weights, pool and context must outlive the runner.
model_runner *model_runner_create(weft_context *context, const model_config *config,
                                  const model_weights *weights, page_pool *pool,
                                  const weft_kv_layout *kv, const model_runner_options *options,
                                  engine_error *err);
void model_runner_free(model_runner *runner); // may be NULL

int64_t model_runner_buffer_bytes(const model_runner *runner);

// The n-th distinct plan, in words; NULL past the last.
const char *model_runner_plan_at(const model_runner *runner, int32_t n);

// One pass. All arrays are the caller's.
typedef struct model_batch {
    int32_t tokens, seqs;
    const int32_t *ids;       // [tokens]
    const int32_t *positions; // [tokens]
    const int32_t *slots;     // [tokens], where each token's key and value go
    const int32_t *cu_q_lens; // [seqs + 1]
    const int32_t *kv_lens;   // [seqs], with the new tokens
    const int32_t *page_table;
    int64_t page_table_stride;
    int32_t outputs;            // logits wanted
    const int32_t *output_rows; // [outputs], tokens of the batch, ascending
    float *const *logits;       // [outputs], each [vocab]
} model_batch;

bool model_runner_forward(model_runner *runner, const model_batch *batch, engine_error *err);

#endif
