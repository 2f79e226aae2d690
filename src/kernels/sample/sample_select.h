// SPDX-License-Identifier: MIT
// Sampling without ordering the vocabulary: how the method "select" is divided between plain C and
// vectors.
//
//   1. copy the logits, apply penalties, take the maximum of every block of 64 logits
//   2. weights exp((logit - maximum) / temperature) of all tokens, if their sum matters
//   3. a floor below which no survivor lies: the k-th largest block maximum for top-k, a weight that
//      enough tokens reach for top-p, min-p itself; candidates are gathered from the blocks that reach
//      it
//   4. among the candidates, quickselect finds the prefix by count and by weight
//   5. draw over the candidates in order of id
//
// Steps 1 and 2 touch every logit and are vectors; what follows touches some hundreds.
#ifndef WEFT_KERNELS_SAMPLE_SELECT_H
#define WEFT_KERNELS_SAMPLE_SELECT_H

#include "src/kernels/sample/sample_kernel.h"

enum { WEFT__SAMPLE_BLOCK = 64 };

// The passes over whole rows. Lengths need not be multiples of anything.
struct weft__sample_passes {
    // Copies with NaN as -infinity and infinity as the largest number; is any logit finite?
    bool (*copy)(const float *logits, int32_t count, float *to);
    float (*largest)(const float *logits, int32_t count);
    // weights[i] = exp((logits[i] - largest) * inverse); returns their sum.
    double (*weigh)(const float *logits, int32_t count, float largest, float inverse,
                    float *weights);
    // Sum of the weights from `least` up.
    double (*sum_from)(const float *weights, int32_t count, float least);
};

// The method, for a row. A kernel of the table adds its passes.
void weft__sample_select(const struct weft__sample_passes *passes, int32_t vocab,
                         const weft_sample_params *params, const float *logits,
                         const struct weft__sample_scratch *scratch, int32_t *token,
                         float *logprob);

#define SAMPLE_SELECT(isa)                                                                         \
    weft__sample_fn weft__sample_select_##isa;                                                     \
    void weft__sample_select_##isa(                                                                \
        int32_t vocab, const weft_sample_params *params, const float *logits,                      \
        const struct weft__sample_scratch *scratch, int32_t *token, float *logprob)                \
    {                                                                                              \
        static const struct weft__sample_passes passes = {copy, largest, weigh, sum_from};         \
        weft__sample_select(&passes, vocab, params, logits, scratch, token, logprob);              \
    }

#endif
