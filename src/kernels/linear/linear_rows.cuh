// SPDX-License-Identifier: MIT
// Products of a warp with a row of W of any format as a file has it: the decoders of src/formats/ themselves, a
// lane a piece of the row, through shared memory.
//
// Function constants: FORMAT, ELEMS, BYTES (of a block), SCALE_DTYPE (of scales and biases beside the codes; 0: there are none).
#ifndef WEFT_KERNELS_LINEAR_ROWS_CUH
#define WEFT_KERNELS_LINEAR_ROWS_CUH

#define _Static_assert static_assert
#include "src/formats/formats.h"
#include "src/formats/iq_grids.c"
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/warp.cuh"

enum {
    PIECE = ELEMS == 1 ? 8 : 1,    // blocks that a lane decodes at a time
    PIECE_ELEMS = PIECE * ELEMS,   //
    LANES = ELEMS >= 256 ? 8 : 32, // that decode: 256 numbers a lane would leave room for few warps
    STEP = LANES * PIECE,          // blocks
    FOLD = 256 * WARP / (STEP * ELEMS),  // steps whose products make a sum of their own
    DECODED = LANES * (PIECE_ELEMS + 1), // floats of a warp: neighbours fall into different banks
};

// Planes beside the codes of a row of W, the row's own, or NULL: 1, 0.
struct row_planes {
    const void *scales, *biases;
    int64_t first;      // element of the row's first
    int32_t scale_cols; // that share one
};

DEVICE void decode_block(const void *block, float *y)
{
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    if (FORMAT == value)                                                                           \
        weft__decode_##ID(block, y);
#include <weft/formats.def>
#undef WEFT_FORMAT
}

// w = code * scale + bias
DEVICE float with_planes(const struct row_planes *planes, float code, int32_t col)
{
#if SCALE_DTYPE
    const int64_t at = planes->first + col / planes->scale_cols;
    float scale = planes->scales ? element<SCALE_DTYPE>(planes->scales, at) : 1.0f;
    return code * scale + (planes->biases ? element<SCALE_DTYPE>(planes->biases, at) : 0.0f);
#else
    (void)planes, (void)col;
    return code;
#endif
}

// Blocks `first` to first + here - 1 of a row become numbers, STEP of them at most. A whole warp; seen by it after a barrier.
DEVICE void step_decode(const uint8_t *weight, int32_t first, int32_t here, int32_t lane,
                        float *decoded)
{
#pragma unroll
    for (int32_t i = 0; i < PIECE; i++)
        if (lane < LANES && lane * PIECE + i < here)
            decode_block(weight + (int64_t)(first + lane * PIECE + i) * BYTES,
                         decoded + lane * (PIECE_ELEMS + 1) + i * ELEMS);
}

// sum[n] = the row times x(n, col), n in [0, count), count <= COLUMNS; the same in all lanes. decoded: the warp's
// room, DECODED floats.
template <int COLUMNS, class X>
DEVICE void row_products(const uint8_t *weight, const struct row_planes *planes, int32_t cols,
                         int32_t count, X x, float *decoded, float sum[COLUMNS])
{
    const int32_t lane = (int32_t)threadIdx.x % WARP, blocks = cols / ELEMS;
    float part[COLUMNS] = {0};
#pragma unroll
    for (int32_t n = 0; n < COLUMNS; n++)
        sum[n] = 0;
    for (int32_t first = 0, step = 1; first < blocks; first += STEP, step++) {
        const int32_t here = min(blocks - first, (int32_t)STEP);
        __syncwarp();
        step_decode(weight, first, here, lane, decoded);
        __syncwarp();
        for (int32_t i = lane; i < here * ELEMS; i += WARP) {
            const int32_t col = first * ELEMS + i;
            float w = with_planes(planes, decoded[i / PIECE_ELEMS + i], col);
#pragma unroll
            for (int32_t n = 0; n < COLUMNS; n++)
                if (n < count)
                    part[n] = fmaf(w, x(n, col), part[n]);
        }
#pragma unroll
        for (int32_t n = 0; n < COLUMNS; n++)
            if (step % FOLD == 0)
                sum[n] += part[n], part[n] = 0;
    }
#pragma unroll
    for (int32_t n = 0; n < COLUMNS; n++)
        sum[n] = warp_sum(sum[n] + part[n], WARP);
}

#endif
