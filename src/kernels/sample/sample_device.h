// SPDX-License-Identifier: MIT
// What the host and the device say to each other about sampling.
#ifndef WEFT_KERNELS_SAMPLE_DEVICE_H
#define WEFT_KERNELS_SAMPLE_DEVICE_H

#include <stdint.h>

// weft_sample_params as the device reads it; history is a pointer of the device.
struct weft__sample_device_params {
    float temperature;
    int32_t top_k;
    float top_p, min_p, repetition_penalty, frequency_penalty, presence_penalty;
    int32_t reserved0;
    uint64_t seed, step;
    const int32_t *history;
    int64_t history_len, history_room;
    uint64_t reserved[3];
};

enum {
    WEFT__SAMPLE_PARTS =
        144, // blocks that look for a row's largest logit, or SMs (src/kernels/token/)
    WEFT__SAMPLE_INLINE = 24, // rows whose parameters travel with a launch
};

struct weft__sample_device_args {
    const void *logits;
    int64_t logits_stride;
    const struct weft__sample_device_params *params; // null: in `own`
    struct weft__sample_device_params *next;         // or null
    int32_t *tokens;
    float *logprobs; // or null
    // [rows][WEFT__SAMPLE_PARTS]: key of a logit above, ~id below; 0: none is finite.
    uint64_t *best;
    float *cleaned;  // [rows][vocab]
    int32_t *counts; // [rows][vocab]
    int32_t vocab;
    int32_t first_row; // of this launch
    struct weft__sample_device_params own[WEFT__SAMPLE_INLINE];
};

#endif
