// SPDX-License-Identifier: MIT
// The contract of rotary position embedding, shared by the operations rope and kv.
//
// Rotating a token takes two steps: cos and sin of its position once (weft__rope_angles), then every
// head by one call of a kernel of the table.
#ifndef WEFT_KERNELS_ROPE_KERNEL_H
#define WEFT_KERNELS_ROPE_KERNEL_H

#include <weft/rope.h>

#include "src/kernels/kernel.h"

enum { WEFT__ROPE_MAX_DIM = 1024, WEFT__ROPE_MAX_PAIRS = WEFT__ROPE_MAX_DIM / 2 };

// What weft_rope_params means: how far each pair of a head turns per position.
struct weft__rope_frequencies {
    weft_rope_style style;
    int32_t rotary_dim;
    float attention_factor;
    double radians[WEFT__ROPE_MAX_PAIRS]; // rotary_dim / 2
    double turns[WEFT__ROPE_MAX_PAIRS];   // radians / 2 pi
};

// Works the parameters out. Returns NULL, or a sentence that says what is wrong with them.
const char *weft__rope_frequencies_make(const weft_rope_params *params, int32_t head_dim,
                                        struct weft__rope_frequencies *out);

// cos and sin of the angles of a position >= 0, times the attention factor, rotary_dim / 2 of each.
// The angle is formed and reduced in f64; the results are within 2^-24 of exact ones times the factor.
void weft__rope_angles(const struct weft__rope_frequencies *frequencies, int64_t position,
                       float *cosines, float *sines);

// Rotates the first rotary_dim elements of a head from x to y (y may be x). It touches nothing else.
typedef void weft__rope_rotate_fn(const float *x, float *y, const float *cosines,
                                  const float *sines, int32_t rotary_dim);

struct weft__rope_kernel {
    struct weft__kernel base;
    weft_rope_style style;
    weft__rope_rotate_fn *rotate;
};

// What a plan decides.
struct weft__rope_launch {
    const struct weft__rope_kernel *kernel;
    int32_t num_heads, head_dim;
    weft_dtype dtype;
    int64_t rows_per_task; // tokens
    struct weft__rope_frequencies frequencies;
};

#endif
