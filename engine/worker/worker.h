// SPDX-License-Identifier: MIT
#ifndef ENGINE_WORKER_WORKER_H
#define ENGINE_WORKER_WORKER_H

// What a worker holds: everything that runs a model on one device.

#include "engine/model/adapters.h"
#include "engine/model/model.h"
#include "engine/model/settings.h"
#include "engine/sample/shape.h"
#include "engine/worker/program.h"

// Whose logits a pass left where, and which tokens of a pass logits are wanted of; reused from pass to pass.
typedef struct pass_outputs {
    int32_t *rows; // [max_tokens] of the pass that go to a caller's memory
    float **to;    // [max_tokens] where they go
    int32_t count; //
    // [head_rows] last tokens and guesses, whose logits stay where they are made.
    int32_t *kept_rows;
    engine_session **kept; // [head_rows] their sessions
    float **kept_to;       // [head_rows] where a copy goes, or NULL
    int32_t kept_count;    //
    int32_t *taken;        // [max_sessions] tokens of each feed
    int32_t *first;        // [max_sessions] the row of the first of them
} pass_outputs;

// What chains of several sessions are told; [max_sessions] each.
typedef struct chain_room {
    weft_sample_params *params;
    int32_t **histories;
    int32_t *lengths, *windows;
} chain_room;

struct engine_worker {
    const engine_model *model;
    model_adapted adapted; // weights with adapters, if there are any
    worker_settings settings;
    weft_context *context;
    page_pool *pool;
    model_program *program;
    pass_outputs outputs;
    engine_session **logits_owner;   // [head_rows] of the program's logits: whose they are, or NULL
    weft_sample_params *draw_params; // [max_sessions]
    shape_room shaping;              // made when it is needed
    chain_room chains;
    int32_t *chosen;           // [chain_tokens]
    int32_t *drawn;            // [max_sessions]
    engine_session **sessions; // [max_sessions], those that are open
    int32_t open_sessions;
};

#endif
