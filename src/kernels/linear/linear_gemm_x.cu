// SPDX-License-Identifier: MIT
// X as products for many rows read it (linear_gemm_device.h), a block per row.
//
// Function constants: WEFT_X_DTYPE (1 f32, 2 f16, 3 bf16, 0: rounded rows), WEFT_BRAIN (1: bf16, 0: f16),
// WEFT_PLAIN (1: for plain weights, 0: for blocks).
#include "src/kernels/cuda/block.cuh"
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/linear/linear_device.h"
#include "src/kernels/linear/linear_gemm_device.h"
#include "src/kernels/linear/linear_rounding.cuh"

#if WEFT_X_DTYPE
// Four elements from a multiple of four on.
DEVICE void four_elements(const void *from, int64_t i, float v[4])
{
#if WEFT_X_DTYPE == 1
    float4 four = *(const float4 *)((const float *)from + i);
    v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
#else
    uint2 four = *(const uint2 *)((const uint16_t *)from + i);
    float2 low = WEFT_X_DTYPE == 2 ? f16x2_float2(four.x) : bf16x2_float2(four.x);
    float2 high = WEFT_X_DTYPE == 2 ? f16x2_float2(four.y) : bf16x2_float2(four.y);
    v[0] = low.x, v[1] = low.y, v[2] = high.x, v[3] = high.y;
#endif
}
#endif

// The 16 columns of a group of them.
DEVICE void x_sixteen(const struct weft__linear_gemm_x_args *args, int32_t n, int32_t group,
                      float v[16])
{
#if WEFT_X_DTYPE == 0
    const uint8_t *row = (const uint8_t *)args->x + n * weft__linear_rounded_stride(args->cols);
    const uint8_t *words = row + group / 4 * 64 + group % 4 * 4;
    float scale = *(const float *)(row + (args->cols + 63) / 64 * 64 + group / 2 * 8);
#pragma unroll
    for (int32_t c = 0; c < 4; c++) {
        int32_t word = *(const int32_t *)(words + c * 16);
#pragma unroll
        for (int32_t b = 0; b < 4; b++)
            v[4 * c + b] = (float)(word << (24 - 8 * b) >> 24) * scale;
    }
#else
    const bool quads = (uintptr_t)args->x % 16 == 0 && args->x_stride % 4 == 0;
#pragma unroll
    for (int32_t c = 0; c < 4; c++) {
        int32_t col = WEFT_PLAIN ? group / 2 * 32 + group % 2 * 4 + 8 * c : 16 * group + 4 * c;
        int64_t at = n * args->x_stride + col;
        if (quads && col + 4 <= args->cols) {
            four_elements(args->x, at, v + 4 * c);
        } else {
            for (int32_t b = 0; b < 4; b++)
                v[4 * c + b] = col + b < args->cols ? element<WEFT_X_DTYPE>(args->x, at + b) : 0.0f;
        }
        for (int32_t b = 0; b < 4 && args->norm_weight; b++)
            if (col + b < args->cols)
                v[4 * c + b] *= args->norm_weight[col + b] + args->norm_weight_plus;
    }
#endif
}

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
    for (int32_t i = (int32_t)threadIdx.x; i < args->cols; i += (int32_t)blockDim.x) {
        float x = element<WEFT_X_DTYPE>(args->x, n * args->x_stride + i);
        sum += x * x;
        if (args->norm_weight)
            x *= args->norm_weight[i] + args->norm_weight_plus;
        largest = max(largest, float_bits(x) & 0x7fffffffu);
    }
#endif
    *squares = args->norm ? block_sum(sum) : 0.0f;
    return block_combine(largest, 0u, [](uint32_t a, uint32_t b) { return a > b ? a : b; });
}

extern "C" __global__ void __launch_bounds__(256)
    weft_linear_gemm_x(const __grid_constant__ struct weft__linear_gemm_x_args args)
{
    int32_t n = (int32_t)blockIdx.x, rows = (args.batch + 7) / 8 * 8;
    let_next_start();
    wait_for_previous();
    float squares, factor = 1, inverse = 1;
    uint32_t largest = x_largest(&args, n, &squares);
    if (!WEFT_BRAIN && largest) {
        int32_t up = 14 + 127 - (int32_t)(largest >> 23);
        up = up > 126 ? 126 : up < -126 ? -126 : up;
        factor = bits_float((uint32_t)(127 + up) << 23);
        inverse = bits_float((uint32_t)(127 - up) << 23);
    }
    if (args.norm)
        inverse *= 1.0f / sqrtf(squares / (float)args.cols + args.norm_eps);
    if (threadIdx.x == 0)
        args.scales[n] = inverse;
    int32_t groups = (args.cols + 127) / 128 * 8;
    for (int32_t i = (int32_t)threadIdx.x; i < groups; i += (int32_t)blockDim.x) {
        float v[16] = {0};
        if (16 * i < (args.cols + 63) / 64 * 64)
            x_sixteen(&args, n, i, v);
        uint32_t w[8];
#pragma unroll
        for (int32_t k = 0; k < 8; k++) {
            const int32_t from = k % 4 * 4 + (WEFT_PLAIN ? k / 4 * 2 : k / 4);
            float a = v[from] * factor, b = v[from + (WEFT_PLAIN ? 1 : 2)] * factor;
            w[k] = WEFT_BRAIN ? floats_bf16x2(a, b) : floats_f16x2(a, b);
        }
        uint8_t *to = (uint8_t *)args.pieces + ((int64_t)(i / 4) * rows + n) * 128;
        *(uint4 *)(to + ((i % 4 * 2) ^ (n & 7)) * 16) = make_uint4(w[0], w[1], w[2], w[3]);
        *(uint4 *)(to + ((i % 4 * 2 + 1) ^ (n & 7)) * 16) = make_uint4(w[4], w[5], w[6], w[7]);
    }
}
