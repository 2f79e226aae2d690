// SPDX-License-Identifier: MIT
/** Choosing the next token from logits. */
#ifndef WEFT_SAMPLE_H
#define WEFT_SAMPLE_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What to do with one row of logits, in this order: penalties; then, if the temperature is 0, argmax (the
 *  lowest id wins a tie); else top-k, temperature, top-p, min-p, and a draw from what is left. Each cut
 *  counts only what the one before it left; among equal logits the lower id is the likelier. The draw
 *  takes the first token, in order of id, at which the running sum of what is left exceeds u times the
 *  whole; u in [0, 1) comes from seed and step by Philox 4x32-10. All-zero means argmax without
 *  penalties. */
typedef struct weft_sample_params {
    float temperature; /**< 0 = argmax */
    int32_t top_k;     /**< keep the k likeliest; 0 = all */
    float top_p;       /**< keep the fewest likeliest tokens whose sum reaches p; 0 or 1 = all */
    float min_p;       /**< drop tokens less likely than min_p times the likeliest; 0 = none */
    float repetition_penalty; /**< positive logits of tokens in the history are divided by it,
                                     negative ones multiplied; 0 or 1 = none */
    float frequency_penalty;  /**< subtracted once per occurrence in the history */
    float presence_penalty;   /**< subtracted once if in the history at all */
    int32_t reserved0;
    /** Equal logits, parameters, seed and step draw equal tokens. */
    uint64_t seed;
    uint64_t step;          /**< number of the draw, e.g. the position of the token */
    const int32_t *history; /**< tokens that the penalties count, NULL = none */
    int64_t history_len;
    /** With weft_sample_args.next: how long the history may grow; after that, each new token drops the
     *  first one. */
    int64_t history_room;
    uint64_t reserved[3];
} weft_sample_params;

typedef struct weft_sample_desc {
    uint32_t size;
    int32_t max_rows;        /**< 0 = 1 */
    int32_t vocab;           /**< logits per row, >= 1 */
    weft_dtype logits_dtype; /**< 0 = f32; f16, bf16 */
    const char *variant;
    uint64_t reserved[8];
} weft_sample_desc;

typedef struct weft_sample_args {
    uint32_t size;
    int32_t rows;
    const void *logits;               /**< [rows][vocab], not changed */
    int64_t logits_stride;            /**< elements; 0 = vocab */
    const weft_sample_params *params; /**< [rows] */
    int32_t *tokens;                  /**< [rows], the result */
    float *logprobs; /**< [rows], ln p of the token after penalties and temperature (argmax:
                          temperature 1), before top-k, top-p and min-p; NULL = not wanted */
    void *workspace;
    size_t workspace_bytes;
    weft_stream *stream; /**< NULL = the context's own */
    /** [rows] or NULL: receives the parameters of the next draw, written by the device; may be `params`. So
     *  a recorded run draws again and again without the host. The token is appended to the history at
     *  history[history_len] (-1 if its logit is not finite); that place must exist even if history_room is
     *  0 and nothing counts it. `step` grows by one, and the history is one token longer or, once it fills
     *  its room, moves on by one. */
    weft_sample_params *next;
    uint64_t reserved[7];
} weft_sample_args;

/** Plans the choice of one token per row.
 *
 *  Errors   WEFT_EINVAL for vocab < 1; WEFT_EVARIANT, WEFT_ENOMEM
 *  Source   Holtzman et al. 2020 (top-p), Nguyen et al. 2024 (min-p), Keskar et al. 2019 (repetition)
 */
WEFT_API weft_status weft_sample_plan(weft_context *context, const weft_sample_desc *desc,
                                      weft_plan **out);

/** Runs the plan.
 *
 *  Alias    tokens and logprobs must not overlap anything else; rows may share a history
 *  Numerics probabilities in f32 with f64 sums. NaN logits count as -infinity, which no penalty changes;
 *           others stay within +-FLT_MAX under any penalty. A row without any finite logit gives token 0
 *           and logprob -infinity
 *  Errors   WEFT_EINVAL for NULL pointers, rows outside 0..max_rows, parameters out of range
 *           (temperature or top_k negative, top_p or min_p outside [0, 1], values not finite), history
 *           ids outside the vocabulary; WEFT_EWORKSPACE
 */
WEFT_API weft_status weft_sample_run(const weft_plan *plan, const weft_sample_args *args);

#ifdef __cplusplus
}
#endif
#endif
