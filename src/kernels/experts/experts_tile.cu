// SPDX-License-Identifier: MIT
// One matrix of all experts times the rows of many choices, W of plain elements as a file has it: a block makes a tile of
// places of one expert by rows of W in f32, from steps of columns that lie in shared memory once for all of it. (experts.cu
// reads W once for every four places.)
//
// Function constants: those of experts.cu; ELEMS is 1.
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/experts/experts_device.h"
#include "src/kernels/experts/experts_finish.cuh"
#include "src/kernels/linear/linear_rows.cuh"
#include "src/kernels/linear/linear_share.cuh"

enum {
    SIDE = WEFT__EXPERTS_TILE, // places, and rows of W
    DEPTH = 32,                // columns of a step
    LINE = SIDE + 4,           // floats: lanes of a store fall into different banks
    FOLDS = 256 / DEPTH,       // steps whose products make a sum of their own
    EACH = 4,                  // places, and rows, of a thread
};
static_assert(SIDE * SIDE == WEFT__EXPERTS_TILE_THREADS * EACH * EACH && SIDE == 64,
              "a tile's threads");

// A thread's element of eight columns by 32 places or rows; the tile has DEPTH / 8 by 2 of them.
struct loader {
    const float *x[2];
    const uint8_t *w[2];
    struct row_planes planes[2];
    bool there[2]; // is there such a place?
};

DEVICE void load_step(const struct loader *from, int32_t first, int32_t cols, float (*xs)[LINE],
                      float (*ws)[LINE])
{
    const int32_t k = (int32_t)threadIdx.x % 8, n = (int32_t)threadIdx.x / 8;
#pragma unroll
    for (int32_t i = 0; i < DEPTH; i += 8)
#pragma unroll
        for (int32_t half = 0; half < 2; half++) {
            const int32_t col = first + i + k;
            float x = 0, w = 0;
            if (col < cols) {
                decode_block(from->w[half] + (int64_t)col * BYTES, &w);
                w = with_planes(&from->planes[half], w, col);
                x = from->there[half] ? from->x[half][col] : 0.0f;
            }
            xs[i + k][half * 32 + n] = x;
            ws[i + k][half * 32 + n] = w;
        }
}

DEVICE void add_step(float (*xs)[LINE], float (*ws)[LINE], float part[EACH][EACH])
{
    const int32_t place = (int32_t)threadIdx.x % 16 * EACH, row = (int32_t)threadIdx.x / 16 * EACH;
#pragma unroll 8
    for (int32_t k = 0; k < DEPTH; k++) {
        const float4 a = *(const float4 *)&xs[k][place], b = *(const float4 *)&ws[k][row];
        const float x[EACH] = {a.x, a.y, a.z, a.w}, w[EACH] = {b.x, b.y, b.z, b.w};
#pragma unroll
        for (int32_t i = 0; i < EACH; i++)
#pragma unroll
            for (int32_t j = 0; j < EACH; j++)
                part[i][j] = fmaf(w[j], x[i], part[i][j]);
    }
}

// Grid (shares, rows of W over those of a tile).
extern "C" __global__ void __launch_bounds__(WEFT__EXPERTS_TILE_THREADS)
    weft_experts_tile(const __grid_constant__ struct weft__experts_product_args args)
{
    __shared__ __align__(16) float xs[DEPTH][LINE], ws[DEPTH][LINE];
    __shared__ int32_t rows_of_y[SIDE];
    const int32_t thread = (int32_t)threadIdx.x, row0 = (int32_t)blockIdx.y * SIDE;
    wait_for_previous();
    let_next_start();
    const struct share share = find_share(&args.to, (int32_t)blockIdx.x, SIDE);
    if (share.count <= 0)
        return;
    if (thread < SIDE)
        rows_of_y[thread] = share_row_of(&args.to, &share, thread).y;
    struct loader from;
#pragma unroll
    for (int32_t half = 0; half < 2; half++) {
        const int32_t n = half * 32 + thread / 8, row = min(row0 + n, args.rows - 1);
        from.x[half] = args.x + share_row_of(&args.to, &share, n).x * args.x_stride;
        from.there[half] = n < share.count;
        from.w[half] = (const uint8_t *)args.weight + share.expert * args.expert_stride_bytes +
                       row * args.weight_stride_bytes;
        from.planes[half] = planes_of(&args, share.expert, row);
    }
    float sum[EACH][EACH] = {}, part[EACH][EACH] = {};
    for (int32_t first = 0, step = 1; first < args.cols; first += DEPTH, step++) {
        __syncthreads();
        load_step(&from, first, args.cols, xs, ws);
        __syncthreads();
        add_step(xs, ws, part);
        if (step % FOLDS == 0 || first + DEPTH >= args.cols) {
#pragma unroll
            for (int32_t i = 0; i < EACH * EACH; i++)
                sum[i / EACH][i % EACH] += part[i / EACH][i % EACH], part[i / EACH][i % EACH] = 0;
        }
    }
#pragma unroll
    for (int32_t i = 0; i < EACH; i++)
#pragma unroll
        for (int32_t j = 0; j < EACH; j++) {
            const int32_t n = thread % 16 * EACH + i, row = row0 + thread / 16 * EACH + j;
            if (n < share.count && row < args.rows)
                finish_product(&args, share.expert, rows_of_y[n], row, sum[i][j]);
        }
}
