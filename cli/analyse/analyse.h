// SPDX-License-Identifier: MIT
#ifndef CLI_ANALYSE_ANALYSE_H
#define CLI_ANALYSE_ANALYSE_H

// The arithmetic of weft analyse: what a model must move and compute, from its numbers alone.

#include "cli/cli.h"

enum { ANALYSE_MAX_REQUESTS = 256, ANALYSE_MAX_OPERATORS = 32 };

// What is done for each of `batch` sequences that generate one token behind `context` tokens each.
typedef struct analyse_question {
    int32_t context, batch;
    int32_t prompt; // tokens of a prefill
    int32_t chunk;  // tokens of one pass of it
    weft_dtype kv_dtype;
    double gbps, gflops; // ceilings; gflops 0: unknown
} analyse_question;

// One kind of work of a decode step, over all layers.
typedef struct analyse_operator {
    char name[40];
    char formats[40];        // of the weights
    int32_t count;           // matrices or attention runs
    int64_t rows, cols;      // of one matrix; 0 for attention
    double weight_bytes;     // read once a step, whatever the batch
    double activation_bytes; // in and out, for the whole batch
    double kv_bytes;         // keys and values, for the whole batch
    double flops;            // a multiply-add is two
} analyse_operator;

typedef struct analyse_step {
    analyse_operator operators[ANALYSE_MAX_OPERATORS];
    int32_t count;
    analyse_operator total;
} analyse_step;

analyse_step analyse_decode(const engine_model *model, const analyse_question *question);

// Bytes read from memory, the time they take at the question's ceilings, in seconds, and operations per byte.
double analyse_bytes(const analyse_operator *work);
double analyse_seconds(const analyse_operator *work, const analyse_question *question);
double analyse_intensity(const analyse_operator *work);

// Memory of one layer's attention over a prompt when scores and probabilities are written out (naive), and
// what a tile of a flash kernel holds instead. Elements are of the given sizes.
typedef struct analyse_attention {
    int64_t naive_scores, naive_probabilities, naive_output; // f32, all heads
    int64_t tile_q, tile_k, tile_v, tile_scores, tile_output, tile_statistics;
    int64_t flash_statistics; // of all rows, beside the output
} analyse_attention;

analyse_attention analyse_attention_memory(const engine_model_info *info, int32_t tokens,
                                           int32_t tile_queries, int32_t tile_keys,
                                           int32_t element_bytes);
int64_t analyse_naive_bytes(const analyse_attention *a);
int64_t analyse_tile_bytes(const analyse_attention *a);

// Keys and values of one token; -1 for a format without whole blocks in a head.
int64_t analyse_kv_bytes(const engine_model_info *info, weft_dtype kv_dtype);

// Pages that requests with a common prefix take. A page is shared if the prefix fills it.
typedef struct analyse_pages {
    int32_t page_size;
    int64_t alone;         // pages of all requests, nothing shared
    int64_t used;          // with sharing
    int64_t shared;        // pages of the prefix that all requests read
    int64_t wasted_slots;  // of the pages used, that hold no token
    double wasted_percent; // of the slots of the pages used
} analyse_pages;

analyse_pages analyse_requests(int32_t page_size, int32_t prefix, const int32_t *own,
                               int32_t count);

#endif
