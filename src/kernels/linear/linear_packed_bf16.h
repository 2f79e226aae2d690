// SPDX-License-Identifier: MIT
// Packed bf16 of the CPU: 12 bits a weight, without loss. Nearly all weights of a matrix have one of a few exponents, so an
// exponent is a code of 4 bits; sign and mantissa are a byte. Weights of other exponents stand in a list, and as +0 among
// the codes.
//
//      head     exponents, twice; how many stand in the list
//      first    u32 [rows + 1]: where a row begins in the list
//      rows     one after another, units of 128 columns
//      others   the list, by rows and columns
//
// A unit has three lines, of words. With g the groups of 32 columns, column i of 32 being word 2 i, and 16 + i word 2 i + 1:
//
//      codes    of group g the bits 4 g to 4 g + 3
//      bytes    of groups 0 and 1: of 0 the sign at bit 15 and the mantissa from 0 on; of 1 the sign at 7, the mantissa from 8 on
//      bytes    of groups 2 and 3 likewise
//
// Code 15 is exponent 0: zeros and subnormals are themselves.
#ifndef WEFT_KERNELS_LINEAR_PACKED_BF16_H
#define WEFT_KERNELS_LINEAR_PACKED_BF16_H

#include "src/base/checked.h"
#include "src/kernels/linear/linear_kernel.h"

enum {
    WEFT__CODES_COLS = 128,  // of a unit
    WEFT__CODES_BYTES = 192, // of a unit
    WEFT__CODES_GROUP_BYTES = 48,
    WEFT__CODES_EXPONENTS = 16,
    WEFT__CODES_ZERO = 15,    // the code of exponent 0
    WEFT__CODES_LISTED = 256, // at most one weight of so many, and these besides, stand in the list
    WEFT__CODES_MANY = -1,    // more do: this is no matrix
    WEFT__CODES_COUNTS = 256, // exponents
    WEFT__CODES_NONE = 0x1f,  // no code: 15 among the codes
};

struct weft__codes_head {
    uint16_t exponents[2 * WEFT__CODES_EXPONENTS]; // in place, of words
    int64_t listed;                                // or WEFT__CODES_MANY
    uint8_t rest[56];
};
_Static_assert(sizeof(struct weft__codes_head) == 128, "whole lines");

struct weft__codes_other {
    uint32_t col;
    uint16_t weight, none;
};
_Static_assert(sizeof(struct weft__codes_other) == 8, "no gaps");

// Offsets in bytes from the head.
struct weft__codes_layout {
    int64_t rows, row_bytes, others, most, bytes;
};

// False where columns are no whole units, or there are too many weights.
static inline bool weft__codes_lay_out(int64_t rows, int64_t cols, struct weft__codes_layout *out)
{
    int64_t weights, first;
    if (cols % WEFT__CODES_COLS || cols >= UINT32_MAX || !weft__mul_i64(rows, cols, &weights) ||
        weights > INT64_C(1) << 39)
        return false;
    first = weft__align_up(4 * (rows + 1), 64);
    out->rows = (int64_t)sizeof(struct weft__codes_head) + first;
    out->row_bytes = cols / WEFT__CODES_COLS * WEFT__CODES_BYTES;
    out->others = out->rows + rows * out->row_bytes;
    out->most = weights / WEFT__CODES_LISTED + WEFT__CODES_LISTED;
    out->bytes = out->others + out->most * (int64_t)sizeof(struct weft__codes_other);
    return true;
}

// What lies before the rows, which a call has as its weight.
static inline const struct weft__codes_head *
weft__codes_head_of(const struct weft__linear_call *call)
{
    return (const void *)(call->weight - weft__align_up(4 * (call->rows + 1), 64) -
                          (int64_t)sizeof(struct weft__codes_head));
}

// Where the list of row `row` begins and, with the next one's, ends.
static inline const struct weft__codes_other *
weft__codes_others(const struct weft__linear_call *call, int64_t row)
{
    const uint32_t *first = (const void *)(weft__codes_head_of(call) + 1);
    const struct weft__codes_other *others =
        (const void *)(call->weight + call->rows * call->weight_stride_bytes);
    return others + first[row];
}

// Some rows of W that are laid out together, from `row` on.
struct weft__codes_block {
    const unsigned char *weight; // the first row of W
    int64_t stride_bytes, cols, row, rows;
    unsigned char *packed; // the head
    struct weft__codes_layout at;
};

// Adds up how often each exponent occurs.
typedef void weft__codes_count_fn(const struct weft__codes_block *block,
                                  uint32_t counts[WEFT__CODES_COUNTS]);

// Lays the rows out by the codes of exponents (WEFT__CODES_NONE: it has none), what has no code behind the `listed` weights
// that stand in the list. Gives how many do then.
typedef uint32_t weft__codes_put_fn(const struct weft__codes_block *block,
                                    const uint8_t codes[WEFT__CODES_COUNTS], uint32_t listed);

struct weft__codes_packer {
    weft__codes_count_fn *count;
    weft__codes_put_fn *put;
};

#endif
