// SPDX-License-Identifier: MIT
// What weft bench model is asked for, what it measures on, and the rows of its result.
#ifndef WEFT_CLI_BENCH_MODEL_H
#define WEFT_CLI_BENCH_MODEL_H

#include "cli/bench/bench.h"

enum { MAX_BATCH = 256 };

typedef struct model_request {
    bench run;
    const char *shape, *path, *format;
    int32_t prompt, generate, batch;
    int32_t depth; // -1: the prompt
    bool verbose, shared;
} model_request;

typedef struct model_race {
    model_request *wish;
    engine_model *model;
    engine_worker *worker;
    engine_model_info info;
    engine_worker_info running;
    engine_session *sessions[MAX_BATCH];
    int32_t open; // sequences; of shared contexts one until generation begins
    engine_feed feeds[MAX_BATCH];
    int32_t *ids;   // [batch][prompt]
    float *vectors; // [batch][embedding_dim] of an encoder
    double *step_us;
    engine_error err;
} model_race;

// The row of a prompt or of generation, measured. False with a message.
bool model_print_row(model_race *r, bool generating, const bench_time *time,
                     const bench_roof *roof);

// The kernels of the model, for --verbose.
void model_print_plans(const model_race *r);

#endif
