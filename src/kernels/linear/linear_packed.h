// SPDX-License-Identifier: MIT
// Packed weights of the CPU: panels of 16 rows in which a lane of a register is a row of W, so that nothing is
// shuffled, nothing is summed across lanes and memory is one stream. A panel is a list of chunks, a chunk the
// same 128 columns (q4_0 and q8_0), 64 (other blocks of 32: rows of gpt-oss have 2880 columns, and what files
// have instead of k-quants 576 or 896) or 256 (blocks of 256) of its 16 rows:
//
//      head    scales, each of 16 rows beside one another
//      group   of 32 columns, as often as there are in a chunk
//
//      q4_0    f16 d[4][16]                        nibbles
//      q8_0    f16 d[4][16]                        bytes [8][16][4], 128 more than the number
//      q4_1    f16 d[2][16], -m[2][16]             nibbles
//      q5_0    f16 d[2][16]                        nibbles, bits
//      q5_1    f16 d[2][16], -m[2][16]             nibbles, bits
//      iq4_nl  f16 d[2][16]                        nibbles
//      q4_k    f16 d[16], dmin[16], sixes          nibbles
//      q5_k    f16 d[16], dmin[16], sixes          nibbles, bits
//      q6_k    f16 d[16], 32 bytes, int8 [16][16]  nibbles, pairs
//      q2_k    f16 d[16], dmin[16], [16][16] bytes two (scale and minimum are nibbles)
//      q3_k    f16 d[16], 32 bytes, sixes          two (bits 0 and 1), bits (bit 2)
//      iq4_xs  f16 d[16], 32 and 64 bytes: sixes   nibbles
//      mxfp4   e8m0 e[2][16]                       nibbles (chunks begin at multiples of 32 bytes alone)
//
// With c[q][r] the four codes of columns 4 q .. 4 q + 3 of a group in row r:
//
//      nibbles [4][16][4]  c[q] in the low nibbles of [q], c[q + 4] in the high ones
//      bits    [16][4]     the top bit of c[q] is bit q
//      pairs   [2][16][4]  bits 4 and 5 of c[q] are bits 2 (q % 4) and up of [q / 4]
//      two     [2][16][4]  bits 0 and 1 likewise
//      sixes   [3][64]     with e[n][r] the 16 numbers of 6 bits of row r: the low nibbles of e[0..3] and, in high
//                          nibbles, e[4..7]; those of e[8..11] and e[12..15]; bits 4 and 5 of e[4 n ..] at 2 n. q4_k
//                          and q5_k: 8 scales, then 8 minima. iq4_xs has 8 numbers: byte r of the first 16 bits 4 and
//                          5 of e[0..3], of the next 16 of e[4..7], then their low nibbles as above
//
// Rows past the last repeat it.
#ifndef WEFT_KERNELS_LINEAR_PACKED_H
#define WEFT_KERNELS_LINEAR_PACKED_H

#include "src/kernels/linear/linear_kernel.h"

// X(format, columns of a chunk, bytes of its head, bytes of a group)
#define WEFT__PACKED_MAP(X)                                                                        \
    X(Q4_0, 128, 128, 256)                                                                         \
    X(Q8_0, 128, 128, 512)                                                                         \
    X(Q4_1, 64, 128, 256)                                                                          \
    X(Q5_0, 64, 64, 320)                                                                           \
    X(Q5_1, 64, 128, 320)                                                                          \
    X(IQ4_NL, 64, 64, 256)                                                                         \
    X(Q4_K, 256, 256, 256)                                                                         \
    X(Q5_K, 256, 256, 320)                                                                         \
    X(Q6_K, 256, 320, 384)                                                                         \
    X(Q2_K, 256, 320, 128)                                                                         \
    X(Q3_K, 256, 256, 192)                                                                         \
    X(IQ4_XS, 256, 128, 256)                                                                       \
    X(MXFP4, 64, 32, 256)

enum { WEFT__PACKED_ROWS = 16, WEFT__PACKED_GROUP = 32 };

struct weft__packed_shape {
    int32_t cols, head_bytes, group_bytes; // of a chunk
};

// cols is 0 for a format that has no panels.
static inline struct weft__packed_shape weft__packed_shape(weft_dtype dtype)
{
    switch (dtype) {
#define WEFT__PACKED_CASE(ID, cols, head, group)                                                   \
    case WEFT_##ID: return (struct weft__packed_shape){cols, head, group};
        WEFT__PACKED_MAP(WEFT__PACKED_CASE)
#undef WEFT__PACKED_CASE
    default: return (struct weft__packed_shape){0};
    }
}

// Bytes of 16 rows of `cols` columns, whole chunks.
static inline int64_t weft__packed_panel_bytes(struct weft__packed_shape shape, int64_t cols)
{
    return cols / shape.cols *
           (shape.head_bytes + shape.cols / WEFT__PACKED_GROUP * (int64_t)shape.group_bytes);
}

// Where the panel of row `row` lies, the first of 16, in bytes from the first panel.
static inline int64_t weft__packed_offset(weft_dtype dtype, int64_t cols, int64_t row)
{
    return row / WEFT__PACKED_ROWS * weft__packed_panel_bytes(weft__packed_shape(dtype), cols);
}

#endif
