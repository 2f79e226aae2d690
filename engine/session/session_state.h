// SPDX-License-Identifier: MIT
#ifndef ENGINE_SESSION_STATE_H
#define ENGINE_SESSION_STATE_H

// What engine_model and engine_session hold; shared by the files of this room.

#include "engine/base/thread_pool.h"
#include "engine/engine.h"
#include "engine/model/runner.h"

enum { ENGINE_PAGE_TOKENS = 64 };

// Room for what one pass is told, reused from pass to pass; [chunk_tokens] and [max_sessions].
typedef struct pass_arrays {
    int32_t *ids, *positions, *slots, *output_rows;
    float **logits;
    int32_t *cu_q_lens, *kv_lens, *page_table;
} pass_arrays;

struct engine_model {
    engine_options options; // without zeros
    gguf_file *file;        // NULL if synthesised
    tokenizer *tokenizer;
    model_config config;
    model_weights weights;
    thread_pool *threads;
    weft_context *context;
    weft_kv_layout kv;
    page_pool *pool;
    model_runner *runner;
    pass_arrays arrays;
    weft_plan *sampler;
    void *sampler_workspace;
    char name[128];
    int32_t pages_per_session;
    int32_t open_sessions;
};

struct engine_session {
    engine_model *model;
    int32_t length;        // tokens whose keys and values are in the pool
    int32_t length_before; // when the evaluation under way began
    int32_t pages;         // taken
    int32_t *ids;          // [context_tokens]
    int32_t *page_table;   // [pages_per_session]
    float *logits;         // [vocab]
    bool has_logits;
};

// Takes pages until the session can hold `length` tokens; false (and nothing taken) if there are too few.
bool session_reserve(engine_session *session, int32_t length);

#endif
