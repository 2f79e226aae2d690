// SPDX-License-Identifier: MIT
// X as products for many rows read it (linear_gemm_device.h), a block per row.
//
// Function constants: WEFT_X_DTYPE (1 f32, 2 f16, 3 bf16, 0: rounded rows), WEFT_BRAIN (1: bf16, 0: f16),
// WEFT_EIGHTS (1: for tiles whose lanes have eight columns side by side), WEFT_PLAIN (1: for plain weights, 0: for blocks, 2: for
// a library, rows of whole 64s, of bf16 with a norm's factor in them), WEFT_TERMS (numbers of bf16 that make one of X: 1, 3).
#include "src/kernels/cuda/block.cuh"
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/linear/linear_device.h"
#include "src/kernels/linear/linear_gemm_device.h"
#include "src/kernels/linear/linear_rounding.cuh"
#include "src/kernels/linear/linear_terms.cuh"

// The 16 columns of a group of them: side by side, or four out of each eight of a unit (WEFT_EIGHTS).
DEVICE void x_sixteen(const struct weft__linear_gemm_x_args *args, int32_t n, int32_t group,
                      float v[16])
{
#if WEFT_X_DTYPE == 0
    const uint8_t *row = (const uint8_t *)args->x + n * weft__linear_rounded_stride(args->cols);
    const uint8_t *words =
        row + group / 4 * 64 + (WEFT_EIGHTS ? group % 4 / 2 * 8 + group % 2 * 16 : group % 4 * 4);
    float scale = *(const float *)(row + (args->cols + 63) / 64 * 64 + group / 2 * 8);
#pragma unroll
    for (int32_t c = 0; c < 4; c++) {
        const int32_t at = WEFT_EIGHTS ? c % 2 * 32 + c / 2 * 4 : c * 16;
        const int32_t word = *(const int32_t *)(words + at);
#pragma unroll
        for (int32_t b = 0; b < 4; b++)
            v[4 * c + b] = (float)(word << (24 - 8 * b) >> 24) * scale;
    }
#else
    const bool fours = fours_aligned<WEFT_X_DTYPE>(args->x, args->x_stride);
#pragma unroll
    for (int32_t c = 0; c < 4; c++) {
        const int32_t col = 16 * group + 4 * c, left = args->cols - col;
        const int64_t at = n * args->x_stride + col;
        const float4 four = fours && left >= 4 ? four_elements<WEFT_X_DTYPE>(args->x, at)
                                               : first_elements<WEFT_X_DTYPE>(args->x, at, left);
        v[4 * c] = four.x, v[4 * c + 1] = four.y, v[4 * c + 2] = four.z, v[4 * c + 3] = four.w;
        for (int32_t b = 0; b < 4 && args->norm_weight; b++)
            if (b < left)
                v[4 * c + b] *= args->norm_weight[col + b] + args->norm_weight_plus;
    }
#endif
}

#if WEFT_X_DTYPE
// Squares of the same before they are multiplied by a norm's weights.
DEVICE float x_squares(const struct weft__linear_gemm_x_args *args, int32_t n, int32_t group)
{
    const bool fours = fours_aligned<WEFT_X_DTYPE>(args->x, args->x_stride);
    float sum = 0;
#pragma unroll
    for (int32_t c = 0; c < 4; c++) {
        const int32_t col = 16 * group + 4 * c, left = args->cols - col;
        const int64_t at = n * args->x_stride + col;
        const float4 v = fours && left >= 4 ? four_elements<WEFT_X_DTYPE>(args->x, at)
                                            : first_elements<WEFT_X_DTYPE>(args->x, at, left);
        sum += v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w);
    }
    return sum;
}
#endif

// The bits of the largest magnitude of the row (NaN on top), and the sum of squares of what a norm divides.
DEVICE uint32_t x_largest(const struct weft__linear_gemm_x_args *args, int32_t n, float *squares)
{
    uint32_t largest = 0;
    float sum = 0;
#if WEFT_X_DTYPE == 0
    uint8_t *row = (uint8_t *)args->x + n * weft__linear_rounded_stride(args->cols);
    const float *scales = (const float *)(row + (args->cols + 63) / 64 * 64);
    for (int32_t i = (int32_t)threadIdx.x; i < (args->cols + 31) / 32; i += (int32_t)blockDim.x) {
        uint32_t bits = float_bits(scales[2 * i] * 127.0f) & 0x7fffffffu;
        largest = max(largest, bits);
        sum += args->norm ? round_squares(row, args->cols)[i] : 0.0f;
    }
#else
    for (int32_t i = (int32_t)threadIdx.x; i < (args->cols + 15) / 16; i += (int32_t)blockDim.x) {
        float v[16];
        x_sixteen(args, n, i, v);
        if (args->norm)
            sum += x_squares(args, n, i);
#pragma unroll
        for (int32_t k = 0; k < 16; k++)
            largest = max(largest, float_bits(v[k]) & 0x7fffffffu);
    }
#endif
    *squares = args->norm ? block_sum(sum) : 0.0f;
    return block_combine(largest, 0u, [](uint32_t a, uint32_t b) { return a > b ? a : b; });
}

// Two numbers as they are multiplied. With several terms what is left of them stays in a and b.
DEVICE uint32_t x_pair(float *a, float *b)
{
    if (!WEFT_BRAIN)
        return floats_f16x2(*a, *b);
    return WEFT_TERMS == 1 ? floats_bf16x2(*a, *b) : term_take(a, b);
}

extern "C" __global__ void __launch_bounds__(256)
    weft_linear_gemm_x(const __grid_constant__ struct weft__linear_gemm_x_args args)
{
    int32_t n = (int32_t)blockIdx.x, rows = (args.batch + 7) / 8 * 8;
    let_next_start();
    wait_for_previous();
    float squares = 0, factor = 1, inverse = 1;
    uint32_t largest = 0;
    if (!WEFT_BRAIN || args.norm)
        largest = x_largest(&args, n, &squares);
    if (!WEFT_BRAIN && largest) {
        int32_t up = 14 + 127 - (int32_t)(largest >> 23);
        up = up > 126 ? 126 : up < -126 ? -126 : up;
        factor = bits_float((uint32_t)(127 + up) << 23);
        inverse = bits_float((uint32_t)(127 - up) << 23);
    }
    if (args.norm)
        inverse *= 1.0f / sqrtf(squares / (float)args.cols + args.norm_eps);
    if (WEFT_PLAIN == 2 && WEFT_BRAIN)
        factor = inverse;
    else if (threadIdx.x == 0)
        args.scales[n] = inverse;
    const int32_t groups =
        WEFT_PLAIN == 2 ? (args.cols + 63) / 64 * 4 : (args.cols + 127) / 128 * 8;
    for (int32_t i = (int32_t)threadIdx.x; i < groups; i += (int32_t)blockDim.x) {
        float v[16] = {0};
        if (16 * i < (args.cols + 63) / 64 * 64)
            x_sixteen(&args, n, i, v);
#pragma unroll
        for (int32_t k = 0; k < 16; k++)
            v[k] *= factor;
#pragma unroll
        for (int32_t term = 0; term < WEFT_TERMS; term++) {
            uint32_t w[8];
#pragma unroll
            for (int32_t k = 0; k < 8; k++) {
                const int32_t from = WEFT_PLAIN ? 2 * k : k % 4 * 4 + k / 4;
                w[k] = x_pair(&v[from], &v[from + (WEFT_PLAIN ? 1 : 2)]);
            }
            if (WEFT_PLAIN == 2) {
                uint4 *row = (uint4 *)args.pieces + ((int64_t)n * groups + i) * 2;
                row[0] = make_uint4(w[0], w[1], w[2], w[3]);
                row[1] = make_uint4(w[4], w[5], w[6], w[7]);
                continue;
            }
            uint8_t *to =
                (uint8_t *)args.pieces + (((int64_t)(i / 4) * WEFT_TERMS + term) * rows + n) * 128;
            *(uint4 *)(to + ((i % 4 * 2) ^ (n & 7)) * 16) = make_uint4(w[0], w[1], w[2], w[3]);
            *(uint4 *)(to + ((i % 4 * 2 + 1) ^ (n & 7)) * 16) = make_uint4(w[4], w[5], w[6], w[7]);
        }
    }
}
