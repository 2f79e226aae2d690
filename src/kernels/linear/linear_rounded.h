// SPDX-License-Identifier: MIT
// Rounded activations: 8 bits in groups of 32, x[i] ~ q[i] * scale[i / 32]. One layout serves the kernels
// of every format and instruction set, so that activations are rounded once, where they are made.
//
//      q        [rows][stride]       in the order of the columns
//      scale    [rows][stride / 32]
//      scaled   [rows][stride / 32]  scale * sum of q
//      sum32    [rows][stride / 32]  -8 * sum of 32 q   (int32)
//      sum16    [rows][stride / 16]  -32 * sum of 16 q  (int32)
//
// and for the VNNI kernels of a few rows of X, where there are such:
//
//      halves   [rows][stride]       of each 128: the even sixteens, then the odd ones
//      quads    [rows][stride / 4]   -32 * sum of 4 of q
//      octets   [rows][stride / 8]   -4 * sum of 4 of the first 64 of halves and the 4 that are 64 farther
//
// Unsigned weights are too large by a constant; sums times it are where an integer accumulator starts.
// They lie along the lanes of the accumulator: an offset that stood in one lane alone would make the
// lanes larger than the sum of products and cost accuracy when they become f32.
//
// `stride` is cols rounded up to WEFT__ROUNDED_PAD; the columns past cols hold zeros with scale zero.
#ifndef WEFT_KERNELS_LINEAR_ROUNDED_H
#define WEFT_KERNELS_LINEAR_ROUNDED_H

#include <stdbool.h>
#include <stdint.h>

#include "src/kernels/kernel.h"

enum {
    WEFT__ROUNDED_PAD = 256,
    WEFT__ROUNDED_PLANES = 8,
    WEFT__ROUNDED_FEW = 5, // the first of the planes for a few rows of X
};

struct weft__rounded {
    int64_t stride;
    int8_t *q;
    float *scale, *scaled;
    int32_t *sum32, *sum16;
    int8_t *halves; // NULL: without the three planes for a few rows of X
    int32_t *quads, *octets;
};

// Where the planes lie: offsets from a start aligned to 64 bytes.
struct weft__rounded_plan {
    int64_t stride, bytes, offset[WEFT__ROUNDED_PLANES];
    bool few;
};

// False if the bytes do not fit. `few`: with the planes for a few rows of X.
bool weft__rounded_plan(int64_t rows, int64_t cols, bool few, struct weft__rounded_plan *out);
struct weft__rounded weft__rounded_place(const struct weft__rounded_plan *plan, void *memory);

// Rounds cols columns at x as row `row`; `few` fills the planes for a few rows of X too (where there are
// such). All functions of this type agree to the bit:
//   scale = a / 127, a = max |x| of the group, NaN if there is one
//   q     = x * (127 / a) rounded to nearest even; 0 where a < 2^-120 or a is not finite
typedef void weft__round_fn(const struct weft__rounded *to, int64_t row, const float *x,
                            int64_t cols, bool few);

// Rounding functions, best first; the last has no function.
struct weft__rounder {
    enum weft__isa isa;
    weft__round_fn *round;
};
extern const struct weft__rounder weft__rounders[];

// The best function of the instruction sets in the mask, which has the reference's bit.
weft__round_fn *weft__rounder_of(uint32_t isa_mask);

// Has this mask kernels that want the planes for a few rows of X?
bool weft__rounded_has_few(uint32_t isa_mask);

#endif
