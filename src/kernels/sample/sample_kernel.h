// SPDX-License-Identifier: MIT
// The contract of sampling kernels: one row of logits, one token.
//
// The tokens that survive top-k, top-p and min-p are a prefix of the order "higher logit first, then
// lower id". The draw walks the survivors in order of id: u * S falls into one of the intervals that
// their probabilities make of [0, S). So a kernel needs to know where the prefix ends, not its order.
#ifndef WEFT_KERNELS_SAMPLE_KERNEL_H
#define WEFT_KERNELS_SAMPLE_KERNEL_H

#include <weft/sample.h>

#include "src/kernels/kernel.h"

// Working memory of one row, planes of the vocabulary's length.
enum { WEFT__SAMPLE_PLANES = 4 };
struct weft__sample_scratch {
    float *logits;
    float *weights;
    int32_t *ids;
    int32_t *counts;
};

// logits may lie in scratch->logits; logprob may be NULL.
typedef void weft__sample_fn(int32_t vocab, const weft_sample_params *params, const float *logits,
                             const struct weft__sample_scratch *scratch, int32_t *token,
                             float *logprob);

struct weft__sample_kernel {
    struct weft__kernel base;
    weft__sample_fn *run;
};

// What a plan decides.
struct weft__sample_launch {
    const struct weft__sample_kernel *kernel;
    int32_t vocab;
    weft_dtype logits_dtype;
    int64_t plane_bytes; // of one plane of scratch; a thread has WEFT__SAMPLE_PLANES
    int64_t rows_per_task;
};

// Copies the logits to scratch->logits with NaN as -infinity, infinity as the largest number, and the
// penalties applied. False if no logit is finite. Uses scratch->counts.
bool weft__sample_prepare(int32_t vocab, const weft_sample_params *params, const float *logits,
                          const struct weft__sample_scratch *scratch);

// Applies the penalties to scratch->logits. Uses scratch->counts.
void weft__sample_penalise(const weft_sample_params *params,
                           const struct weft__sample_scratch *scratch);

// Notes a token behind the history and makes the parameters of the next draw, which may be `params`.
void weft__sample_next(const weft_sample_params *params, int32_t token, bool finite,
                       weft_sample_params *next);

// The number in [0, 1) that decides draw `step` of `seed`: the upper 53 of the first 64 bits of Philox
// 4x32-10 with key `seed` and counter `step`.
double weft__sample_uniform(uint64_t seed, uint64_t step);

#endif
