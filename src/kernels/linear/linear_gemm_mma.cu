// SPDX-License-Identifier: MIT
// Y = X W^T for many rows of X on every device from compute capability 8.0 on, W packed from a block format
// (linear_device.h), X as linear_gemm_device.h draws it.
//
// A block of 8 warps makes 128 rows of W by WEFT_ROWS rows of X; a warp has 32 by half of them. Rings in shared
// memory, filled by cp.async: WEFT_STAGES pieces of X (64 columns), two tiles of W (256 columns).
//
// Function constants: WEFT_FORMAT, WEFT_BRAIN (1: bf16, 0: f16), WEFT_ROWS (32, 64, 128), WEFT_STAGES (2..4),
// WEFT_Y_DTYPE (1 f32, 2 f16, 3 bf16).
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/mma.cuh"
#include "src/kernels/linear/linear_fragment.cuh"
#include "src/kernels/linear/linear_gemm_result.cuh"

enum {
    THREADS = 256,
    ROW_BLOCKS = 8, // of 16 rows of W
    SLOT = (TILE_BYTES(4) + 15) / 16 * 16,
    W_STAGE = ROW_BLOCKS * SLOT,
    X_STAGE = WEFT_ROWS * 128,
    W_AT = WEFT_STAGES * X_STAGE,
    COLUMNS = WEFT_ROWS / 2, // of the results that a warp has
};

DEVICE uint8_t *shared_memory()
{
    extern __shared__ __align__(128) uint8_t bytes[];
    return bytes;
}

// What a block works on.
struct work {
    int32_t block0, n0; // first row block of W, first row of X
    int32_t pairs;      // of 64 columns
};

// Asks for piece p of X, and for the tile of W that begins there.
DEVICE void ask(const struct weft__linear_gemm_args *args, const struct work *at, int32_t p)
{
    if (p < at->pairs) {
        const int32_t x_rows = (args->batch + 7) / 8 * 8;
        const uint8_t *from = (const uint8_t *)args->pieces + ((int64_t)p * x_rows + at->n0) * 128;
        uint32_t to = shared_address(shared_memory()) + (uint32_t)(p % WEFT_STAGES * X_STAGE);
        for (int32_t i = (int32_t)threadIdx.x; i < X_STAGE / 16; i += THREADS)
            copy_16_async_or_zero(to + i * 16, at->n0 + i / 8 < x_rows ? from + i * 16 : from,
                                  at->n0 + i / 8 < x_rows ? 16 : 0);
    }
    if (p % 4 == 0 && p < at->pairs) {
        const int64_t row_bytes = TILE_SUPER ? (int64_t)(args->cols / 256) * TILE_BYTES(4)
                                             : (int64_t)((args->cols + 63) / 64) * TILE_BYTES(1);
        const int32_t chunks = TILE_BYTES(min(at->pairs - p, 4)) / 16;
        const int32_t blocks = min((args->rows + 15) / 16 - at->block0, (int32_t)ROW_BLOCKS);
        const uint8_t *from = (const uint8_t *)args->weight + at->block0 * row_bytes +
                              (int64_t)(p / 4) * TILE_BYTES(4);
        uint32_t to = shared_address(shared_memory()) + W_AT + (uint32_t)(p / 4 % 2 * W_STAGE);
        for (int32_t i = (int32_t)threadIdx.x; i < blocks * chunks; i += THREADS)
            copy_16_async(to + i / chunks * SLOT + i % chunks * 16,
                          from + i / chunks * row_bytes + i % chunks * 16);
    }
    copy_group_end();
}

DEVICE void multiply(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    if (WEFT_BRAIN)
        mma_bf16(d, a, b0, b1);
    else
        mma_f16(d, a, b0, b1);
}

// The warp's 32 rows of W by COLUMNS rows of X, 64 columns.
DEVICE void pair_multiply(const struct work *at, int32_t p, const struct tile_scales scales[2],
                          float d[2][COLUMNS / 8][4])
{
    const int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP;
    const uint8_t *tiles =
        shared_memory() + W_AT + p / 4 % 2 * W_STAGE + warp / 2 * 2 * (int32_t)SLOT;
    uint32_t fragment[2][4][4];
#pragma unroll
    for (int32_t m = 0; m < 2; m++)
        pair_fragments(&scales[m], tiles + m * SLOT, min(at->pairs - p / 4 * 4, 4), p % 4, lane,
                       fragment[m]);
    // lane i gives row i % 8 of matrix i / 8: rows of X of two eights, both halves of 16 columns
    const int32_t row = warp % 2 * COLUMNS + lane / 16 * 8 + lane % 8;
    const uint32_t x =
        shared_address(shared_memory()) + (uint32_t)(p % WEFT_STAGES * X_STAGE + row * 128);
#pragma unroll
    for (int32_t k = 0; k < 4; k++)
#pragma unroll
        for (int32_t i = 0; i < COLUMNS / 16; i++) {
            uint32_t b[4];
            load_matrix_4(b, x + i * 2048 + (((2 * k + lane / 8 % 2) ^ (row & 7)) * 16));
#pragma unroll
            for (int32_t m = 0; m < 2; m++) {
                multiply(d[m][2 * i], fragment[m][k], b[0], b[1]);
                multiply(d[m][2 * i + 1], fragment[m][k], b[2], b[3]);
            }
        }
}

// grid: results, rows of W first
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    weft_linear_gemm_mma(const __grid_constant__ struct weft__linear_gemm_args args)
{
    const struct work at = {(int32_t)blockIdx.x % args.row_tiles * ROW_BLOCKS,
                            (int32_t)blockIdx.x / args.row_tiles * WEFT_ROWS,
                            (args.cols + 63) / 64};
    let_next_start();
#if TILE_GRID
    grid_load();
#endif
    wait_for_previous();
    float d[2][COLUMNS / 8][4] = {};
    struct tile_scales scales[2];
    for (int32_t p = 0; p < WEFT_STAGES - 1; p++)
        ask(&args, &at, p);
    for (int32_t p = 0; p < at.pairs; p++) {
        COPY_WAIT(WEFT_STAGES - 2);
        __syncthreads(); // piece p has come, piece p - 1 is done with
        ask(&args, &at, p + WEFT_STAGES - 1);
        if (p % 4 == 0)
            for (int32_t m = 0; m < 2; m++)
                tile_scales_load(&scales[m],
                                 shared_memory() + W_AT + p / 4 % 2 * W_STAGE +
                                     ((int32_t)threadIdx.x / 64 * 2 + m) * SLOT,
                                 min(at.pairs - p, 4), (int32_t)threadIdx.x % WARP / 4);
        pair_multiply(&at, p, scales, d);
    }
    const int32_t warp = (int32_t)threadIdx.x / WARP;
#pragma unroll
    for (int32_t m = 0; m < 2; m++)
        results_store<COLUMNS / 2>(&args, (at.block0 + warp / 2 * 2 + m) * 16,
                                   at.n0 + warp % 2 * COLUMNS, d[m][0]);
}
