// SPDX-License-Identifier: MIT
// What the host and the device text of linear agree on: argument structs, the packed weights and the
// rounded activations. Plain C, fixed widths; pointers are device pointers.
//
// Packed weights of a block format: tiles of 16 rows by 256 columns, all tiles of 16 rows one behind
// the other, then the next 16 rows. A tile takes the bytes of its blocks, no more:
//
//      tile   | low bits of the codes | high bits, if any | scales as the format has them |
//             pair after pair           pair after pair
//
// A pair is 64 columns, two units of 32. A lane (r = lane / 4, c = lane % 4) of the warp that reads a
// pair owns, for word j = 0..3 and unit h = 0..1, the four columns 32 h + 16 (j / 2) + 4 c + 0..3 of row
// r + 8 (j % 2): just the A fragment of mma m16n8k32. Where its bits are, byte b of 4:
//
//      4 bits     low  [pair][lane][j] words, bits 8 b + 4 h      (value in a table: bits 4 b + 16 h)
//      5, 6 bits  the low four likewise; high [pair][lane] a word, bit 8 b + 2 j + h;
//                 high [pair][lane][h] words, bits 8 b + 2 j
//      2 bits     low  [pair][lane][j / 2] words, bits 8 b + 4 h + 2 (j % 2)
//      3 bits     low  [pair][lane][j / 2] words, of unit 0 bits 8 b + 2 + 3 (j % 2) and up, at bits 8 b the low two of word
//                 2 (j / 2) + 1 of unit 1; high [pair][lane] a word, of unit 1 bits 8 b + 2 + 3 (j / 2) and up of words 0 and 2,
//                 at bits 8 b and 8 b + 1 the top ones of words 1 and 3
//      8 bits     low  [unit][lane][j] words, bits 8 b
//
// Formats whose codes are points of a lattice (src/formats/iq_grids.h) have the numbers of points there instead. Their lanes own
// eight columns side by side (iq3_s: as above), 32 h + 8 c + 0..7 of unit h, those of one point of 8 or two of 4; e = 2 i + h is
// for row r + 8 i. A lane's:
//
//      iq2     low  [pair][lane] two words: bits 0..7 of points e in bytes e; signs n = 0..7 of points e, bits 4 n + e. Where
//              the eighth sign follows from the others (xxs, xs), four bits are left: xxs the last, a scale, that of row r + 8 (q / 2) and unit
//              2 c + q % 2 in pair q; xs the first, bits 8 of points e
//      iq3_xxs low  [pair][lane] two words: points of columns 0..3 and 4..7, bytes e; high [pair][lane] a word as xxs' second
//      iq3_s   low  likewise, of columns 4 c .. and 16 + 4 c ..; high [pair][lane] a word, signs of column 16 k + 4 c + b, bits 8 b + 4 k + e
//      iq1     low  [pair][lane] a word: bits 0..7 of points e; high [pair][lane] 16 bits: s: bits 8..10 at 3 e and in the top four
//              shift and scale as xxs'; m: the shifts of points e at e, bits 8..10 at 4 + 3 e
//
// and behind these, per tile: bits 8 and up of points (iq2_s [lane] bytes of pairs, 2 e; iq3_s the same, 4 k + e), scales (iq3_s [lane] 16 bits: of
// row r + 8 i and unit 2 c + h, bits 4 e; per sixteen g [lane] a word: of row r + 8 i and unit c + 4 k, bits 4 (4 i + 2 k + g), iq1_m
// 8 (2 k + g) + 3 i, and at bits 8 b + 6 bits 8 b + 2 c of the rows' two d), d of rows r and r + 8, [r] two f16. So tq2_0 has its d.
//
// Scales of nvfp4 have no top bit, which means nothing, and 0 for the one that stands for no number.
//
// Rows are padded to 16 and columns to 64 with zero codes and zero scales. Only formats with blocks of
// 32 have a last tile of fewer than 4 pairs.
//
// Rounded activations, the same for all formats: a row is
//
//      int8 [cols / 64][c][h][half][4]   column 64 p + 32 h + 16 half + 4 c + b
//      {f32 scale; int16 sum, sum}       per 32 columns: sums of the first and the second sixteen
//      f32 square                        per 32 columns: sum of squares of what is normalised, for a norm
//
// with cols padded to 64 by zeros, and rows to 16 bytes.
#ifndef WEFT_KERNELS_LINEAR_DEVICE_H
#define WEFT_KERNELS_LINEAR_DEVICE_H

#include <stdint.h>

enum {
    WEFT__LINEAR_MAX_PARTS = 4,
    WEFT__LINEAR_TILE_ROWS = 16,
    WEFT__LINEAR_TILE_COLS = 256,
};

// Points of the lattice that a format's kernels keep in shared memory, a word each (values of formats.def); 0: it has none.
#define WEFT__LINEAR_GRID_POINTS(format)                                                           \
    ((format) == 66 || (format) == 68   ? 256                                                      \
     : (format) == 67 || (format) == 69 ? 512                                                      \
     : (format) == 70                   ? 1024                                                     \
     : (format) == 71 || (format) == 72 ? 2048                                                     \
                                        : 0)

// Are codes places in a table of sixteen numbers?
#define WEFT__LINEAR_TABLE(format)                                                                 \
    ((format) == 64 || (format) == 65 || (format) == 96 || (format) == 97)

// Do lanes own eight columns side by side?
#define WEFT__LINEAR_EIGHTS(format) (WEFT__LINEAR_GRID_POINTS(format) && (format) != 67)

#define WEFT__LINEAR_GRID_BYTES(format) (4 * WEFT__LINEAR_GRID_POINTS(format))

// Numbers of a row of X that the sums of a unit of 32 columns are multiplied by: its scale, and where a format has minima that
// times the sum of its codes (Q2_K: of each sixteen).
#define WEFT__LINEAR_UNIT_NUMBERS(format)                                                          \
    ((format) == 46 ? 3                                                                            \
     : (format) == 34 || (format) == 36 || (format) == 48 || (format) == 49 || (format) == 71 ||   \
             (format) >= 128                                                                       \
         ? 2                                                                                       \
         : 1)

// Numbers that kernels keep of a unit of one of several rows of X (linear_some.cuh): two, and one more where the format has minima or
// an offset that a sign is not (of each sixteen: Q2_K, Q3_K, Q6_K, NVFP4).
#define WEFT__LINEAR_SOME_NUMBERS(format)                                                          \
    ((format) == 46 || (format) == 47 || (format) == 50 || (format) == 97 ? 4                      \
     : (format) == 35 || (format) == 80 || (format) == 81 || (format) == 96                        \
         ? 3                                                                                       \
         : 1 + WEFT__LINEAR_UNIT_NUMBERS(format))

// Bytes of a number of X beside plain weights of 16 bits (linear_numbers_some.cu): the number, or three of bf16, or two of tf32.
#define WEFT__LINEAR_SENT_BYTES(brain, as_numbers) ((as_numbers) ? 4 : (brain) ? 6 : 8)

// Bytes of what blocks of such a cluster send each other (linear_sent.cuh): sums of `warps` warps, twice; squares of rows of X; barriers.
#define WEFT__LINEAR_SENT_SUMS(matrices, warps, rows, split)                                       \
    (2 * (matrices) * (warps) * (rows)*64 + ((split) * (rows)*4 + 15) / 16 * 16 + 16)

// Bytes of `rows` rows of X of so many pairs there.
#define WEFT__LINEAR_SOME_BYTES(format, rows, pairs)                                               \
    ((rows) * (((pairs) | 1) * 64 + (pairs)*8 * WEFT__LINEAR_SOME_NUMBERS(format)))

// Does linear_gemm_slice.cu take tiles in halves? Those of 8-bit codes with their scales pair by pair.
#define WEFT__LINEAR_SLICE_HALVES(format) ((format) == 32 || (format) >= 143)

// Bytes from row to row of rounded activations.
static inline int64_t weft__linear_rounded_stride(int64_t cols)
{
    return ((cols + 63) / 64 * 88 + 15) / 16 * 16;
}

// Bytes of the packed weights, given bytes and columns of a block.
static inline int64_t weft__linear_packed_bytes(int64_t rows, int64_t cols, int64_t block_bytes,
                                                int64_t block_elems)
{
    return (rows + 15) / 16 * 16 * ((cols + 63) / 64 * 64 / block_elems) * block_bytes;
}

struct weft__linear_device_part {
    const void *weight;
    const float *bias; // or NULL
    void *y;           // NULL when the result leaves rounded only
    int64_t y_stride;
    int64_t weight_stride_bytes; // matrices that are not packed
    int32_t rows;
    int32_t first_group; // of the groups of rows that blocks take in turn
    float alpha;
    int32_t reserved;
};

// A matrix of every expert, one behind the other, and the rows of X that go to each: places [starts[e], starts[e + 1]) of
// `order`, whose entries are choices (weft/route.h): choice c is of token c / top_k.
struct weft__linear_experts {
    const int32_t *starts, *order;
    int32_t experts, top_k, choices;
    int32_t gather; // rows of X are tokens', rows of Y places; 0: X of places, Y of choices
    float clamp_limit, clamp_slope; // of gate 4
    const float *weights; // of choices, by which what is gathered is multiplied (WEFT_EXPERTS & 2)
    // [rows of Y][rows of W], added to the products of each matrix with what is gathered (WEFT_EXPERTS & 4); or NULL
    const float *adapted[2];
};

struct weft__linear_device_args {
    struct weft__linear_device_part part[WEFT__LINEAR_MAX_PARTS];
    const void *x;            // rounded, or numbers
    int64_t x_stride;         // of numbers
    const float *norm_weight; // numbers are multiplied by it as they are read; or NULL = 1
    const void *residual;
    int64_t residual_stride;
    void *rounded;            // leaves as int8 for the next layer; or NULL
    const float *next_weight; // of the norm that the next layer begins with; or NULL = 1
    int32_t batch, cols, num_parts, num_groups;
    int32_t norm; // results are multiplied by 1/rms of the row of X
    float norm_eps, norm_weight_plus, next_weight_plus;
    struct weft__linear_experts experts; // WEFT_EXPERTS
};

// Weights as a file has them, one part a launch: linear_rows.cu.
struct weft__linear_rows_args {
    const void *weight, *scales, *biases;      // the latter two or NULL: 1, 0
    int64_t weight_stride_bytes, scale_stride; // the latter in elements
    int32_t scale_cols, scale_rows;            // that share a scale
    const void *x;                             // f32, or rounded
    int64_t x_stride;
    const float *bias, *residual;
    float *y;
    int64_t residual_stride, y_stride;
    int32_t batch, rows, cols, norm; // norm: as above, of rounded x
    float alpha, norm_eps;
};

// Rows [first_row, ...) of such weights as f16, packed: linear_widen.cu. Warps of a block, whose decoded numbers fit 48 KB.
#define WEFT__LINEAR_WIDEN_WARPS(elems) ((elems) <= 32 ? 8 : (elems) == 128 ? 2 : 4)
struct weft__linear_widen_args {
    const void *weight, *scales, *biases; // as above
    int64_t weight_stride_bytes, scale_stride;
    int32_t scale_cols, scale_rows;
    void *to;
    int32_t first_row, cols;
};

// X as f32, normed or not, in rows of `y_stride` columns.
struct weft__linear_ready_args {
    const void *x;
    const float *weight, *bias; // of a norm, or NULL
    float *y;
    int64_t x_stride, y_stride;
    int32_t cols;
    int32_t norm; // a weft_linear_norm
    float eps, weight_plus;
};

// What follows products that launches have left as f32: sums of slices of the columns, factors of rows of X, bias, gate, residual,
// element type, rounding.
struct weft__linear_finish_part {
    const float *sums; // [slice][batch][rows]; may be y
    int64_t stride;    // from row to row; of several slices it is `rows`
    const float *bias; // [rows], or NULL
    void *y;           // NULL when the result leaves rounded only
    int64_t y_stride;
    int32_t rows, slices; // the latter 0 or more
};
struct weft__linear_finish_args {
    struct weft__linear_finish_part
        part[WEFT__LINEAR_MAX_PARTS]; // of a gate both, else one after the other along z
    const float *scales;              // [batch], by which sums are multiplied, or NULL
    const void *residual;
    void *rounded;
    const float *next_weight;
    int64_t residual_stride;
    int32_t batch;
    float next_weight_plus;
};

struct weft__linear_round_args {
    const void *x; // [batch][cols] of WEFT_X_DTYPE
    int64_t x_stride;
    const float *weight; // of a norm: x * (weight + weight_plus) is rounded; or NULL
    void *rounded;
    int32_t batch, cols;
    float weight_plus;
};

struct weft__linear_pack_args {
    const void *weight;          // rows as the file has them
    const void *scales, *biases; // other planes of the format, or NULL
    void *packed;
    int64_t weight_stride_bytes, scales_stride_bytes;
    int32_t first_row; // of this piece in the matrix, a multiple of 16
    int32_t rows;      // of this piece
    int32_t cols;
};

#endif
