// SPDX-License-Identifier: MIT
// What the host and the device text of linear's products for many rows of X agree on.
//
// X in two bytes a number, made by weft_linear_gemm_x: pieces of 64 columns, each of all rows,
//
//      [piece][row][64]     pieces: an even number, padded with zeros; rows padded to 8
//
// so that any eight rows of a piece are B of wgmma (src/kernels/cuda/wgmma.cuh). In a row of a piece, 16 columns take
// two places of 16 bytes, at 2 i the even ones, at 2 i + 1 the odd ones: the order in which bytes of a packed tile become
// pairs of 16-bit numbers. (For tiles whose lanes have eight columns of a unit side by side the 16 columns 2 k and 2 k + 1, k = 0, 1, of a
// unit are 8 c + 4 k + 0..3.) For plain weights they stand in their own order. With three terms (few rows of X, bf16) a
// piece has all rows of the first term, then those of the second and of the third, whose sum a number is. f16: a row is multiplied by a power of two that brings its largest number to [2^14, 2^15);
// its inverse stands in `scales`, as do factors of a norm.
#ifndef WEFT_KERNELS_LINEAR_GEMM_DEVICE_H
#define WEFT_KERNELS_LINEAR_GEMM_DEVICE_H

#include "src/kernels/linear/linear_device.h"

enum { WEFT__LINEAR_GEMM_TILE_ROWS = 128 }; // rows of W of a result

static inline int64_t weft__linear_gemm_x_bytes(int64_t rows, int64_t cols, int64_t terms)
{
    return (cols + 127) / 128 * 2 * ((rows + 7) / 8 * 8) * terms * 128;
}

struct weft__linear_gemm_x_args {
    const void *x; // rows of WEFT_X_DTYPE, or rounded rows (linear_device.h)
    int64_t x_stride;
    const float *norm_weight; // of numbers: x * (weight + plus) is what is multiplied; or NULL
    void *pieces;
    float *scales; // [rows]
    int32_t batch, cols;
    int32_t norm; // results are multiplied by 1/rms of the row of X
    float norm_eps, norm_weight_plus;
};

struct __attribute__((aligned(64))) weft__linear_gemm_args {
    unsigned char map[128]; // the tensor map of plain weights: boxes of 64 columns by 128 rows
    unsigned char
        x_map[128];     // of X's pieces as a matrix of 64 columns, where a cluster shares them
    const void *weight; // packed tiles (linear_device.h)
    const void *pieces;
    const float *scales;
    const float *bias;    // or NULL
    const void *residual; // or NULL
    void *y;
    int64_t residual_stride, y_stride;
    int32_t batch, rows, cols;
    int32_t row_tiles, tiles; // of the results: tiles of rows of W; of both
    float alpha;
};

// Some rows of X, whose slices of the columns stay in shared memory: linear_gemm_slice.cu.
enum {
    WEFT__LINEAR_SLICE_WARPS = 16, // of a block
    WEFT__LINEAR_SLICE_X =
        128 << 10, // bytes that a slice has at most, in 16-bit numbers: what a lane reads at once
    WEFT__LINEAR_SLICE_UNIT = 64, // rows of W that a warpgroup takes at a time
    WEFT__LINEAR_SLICE_ROOM =
        2 * 8 * WEFT__LINEAR_SLICE_WARPS, // numbers: two of every warp and row of X that it reads
};

// Up to 16 rows of X by teams of warps: linear_gemm_team.cu.
enum {
    WEFT__LINEAR_TEAM_ROWS = 16,
    WEFT__LINEAR_TEAM_UNIT = 32, // rows of W that a team takes at a time
    // numbers of 64 columns of X, scales of rows and units: four more than there are, for the banks' sake
    WEFT__LINEAR_TEAM_SCALES = WEFT__LINEAR_TEAM_ROWS * 2 + 4,
};

// Has a tile of the format its scales together, and minima (q4_k)?
#define WEFT__LINEAR_TEAM_MINIMA(format) ((format) == 48)

// Bytes of a slot of a ring: 64 columns of two row blocks.
#define WEFT__LINEAR_TEAM_SLOT(format) (2 * (512 + (WEFT__LINEAR_TEAM_MINIMA(format) ? 0 : 64)))

// Bytes that a block has of X: codes, scales, what rows are multiplied by, sums for minima; and a warp's beside its slots.
#define WEFT__LINEAR_TEAM_X(format, tiles)                                                         \
    (WEFT__LINEAR_TEAM_ROWS * ((tiles)*256 + 4) + (tiles)*16 * WEFT__LINEAR_TEAM_SCALES +          \
     (WEFT__LINEAR_TEAM_MINIMA(format) ? (tiles)*WEFT__LINEAR_TEAM_ROWS * 32 : 0))
#define WEFT__LINEAR_TEAM_BESIDE(format) (WEFT__LINEAR_TEAM_MINIMA(format) ? 2 * 256 + 1024 : 0)

struct weft__linear_slice_part {
    const void *weight; // packed tiles
    const float *bias;  // or NULL
    void *y;
    int64_t y_stride;
    int64_t slice_stride; // numbers from one slice's sums to the next's
    int32_t rows;
    int32_t first_unit; // of those that blocks take in turn
    float alpha;
    int32_t reserved;
};

struct weft__linear_slice_args {
    struct weft__linear_slice_part part[WEFT__LINEAR_MAX_PARTS];
    const void *x;        // rounded rows
    const void *residual; // or NULL
    int64_t residual_stride;
    int32_t batch, cols, num_parts, num_units;
    int32_t slice_tiles; // of 256 columns
    int32_t norm;        // results are multiplied by 1/rms of the row of X
    float norm_eps;
    int32_t early; // slots of a ring that are asked for before X
};

#endif
