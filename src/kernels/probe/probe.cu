// SPDX-License-Identifier: MIT
// Ceilings of a device: reading memory, f32 multiply-adds, int8 dot products, matrix products of f16. Whole
// numbers are added up, so that the order does not matter.
//
// Constants: KIND (weft_probe_kind), WGMMA (1: matrix products of warpgroups, sm_90a)
#include "src/kernels/cuda/block.cuh"
#include "src/kernels/cuda/bulk.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/mma.cuh"
#include "src/kernels/cuda/wgmma.cuh"
#include "src/kernels/probe/probe_device.h"

enum { READ, FMA_F32, DOT_I8, MMA_F16, AT_ONCE = 8 };

typedef unsigned long long wide;

DEVICE wide words(uint4 v)
{
    return ((wide)v.y << 32 | v.x) + ((wide)v.w << 32 | v.z);
}

DEVICE wide read(const struct weft__probe_device_args &args)
{
    const uint4 *from = (const uint4 *)args.memory;
    int64_t count = args.bytes / 16, stride = (int64_t)gridDim.x * blockDim.x;
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    wide sum = 0;
    for (; i + (AT_ONCE - 1) * stride < count; i += AT_ONCE * stride) {
        uint4 v[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            v[j] = load_once(from + i + j * stride);
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            sum += words(v[j]);
    }
    for (; i < count; i += stride)
        sum += words(load_once(from + i));
    return sum;
}

DEVICE wide multiply(const struct weft__probe_device_args &args)
{
    float chain[WEFT__PROBE_CHAINS];
    wide sum = 0;
#pragma unroll
    for (int j = 0; j < WEFT__PROBE_CHAINS; j++)
        chain[j] = (float)(threadIdx.x >> 20); // 0, which the compiler does not know
    for (int64_t step = 0; step < args.steps; step++)
#pragma unroll
        for (int j = 0; j < WEFT__PROBE_CHAINS; j++)
            chain[j] = fmaf(chain[j], args.one, args.one);
#pragma unroll
    for (int j = 0; j < WEFT__PROBE_CHAINS; j++)
        sum += (wide)chain[j];
    return sum;
}

DEVICE wide dot(const struct weft__probe_device_args &args)
{
    int32_t chain[WEFT__PROBE_CHAINS];
    wide sum = 0;
#pragma unroll
    for (int j = 0; j < WEFT__PROBE_CHAINS; j++)
        chain[j] = (int32_t)(threadIdx.x >> 20);
    for (int64_t step = 0; step < args.steps; step++)
#pragma unroll
        for (int j = 0; j < WEFT__PROBE_CHAINS; j++)
            chain[j] = dot_4(args.units, args.units, chain[j]);
#pragma unroll
    for (int j = 0; j < WEFT__PROBE_CHAINS; j++)
        sum += (wide)chain[j];
    return sum;
}

// Sixteen products of 1/16 by 1 make a step 1 in every sum.
DEVICE uint32_t sixteenths(const struct weft__probe_device_args &args)
{
    return floats_f16x2(args.one / 16, args.one / 16);
}

#if WGMMA // text that only sm_90a has

DEVICE wide multiply_matrices(const struct weft__probe_device_args &args)
{
    enum { SUMS = 128, A = 64 * 32, B = 256 * 32 };
    __shared__ __align__(1024) uint32_t numbers[A + B];
    const uint32_t a = shared_address(numbers), b = a + A * 4;
    float d[SUMS];
    wide sum = 0;
    for (int i = (int)threadIdx.x; i < A + B; i += (int)blockDim.x)
        numbers[i] = i < A ? sixteenths(args) : 0x3c003c00u;
    bulk_fence();
    __syncthreads();
    for (int64_t step = 0; step < args.steps; step++) {
        wgmma_begin();
        wgmma_shared_f16_256(d, wgmma_matrix(a), wgmma_matrix(b), step > 0);
        wgmma_group_end();
        WGMMA_WAIT(1);
    }
    WGMMA_WAIT(0);
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        sum += (wide)d[i];
    return 16 * sum;
}

#else

DEVICE wide multiply_matrices(const struct weft__probe_device_args &args)
{
    const uint32_t one = sixteenths(args), a[4] = {one, one, one, one};
    float chain[WEFT__PROBE_CHAINS][4] = {};
    wide sum = 0;
    for (int64_t step = 0; step < args.steps; step++)
#pragma unroll
        for (int j = 0; j < WEFT__PROBE_CHAINS; j++)
            mma_f16(chain[j], a, 0x3c003c00u, 0x3c003c00u);
#pragma unroll
    for (int i = 0; i < WEFT__PROBE_CHAINS * 4; i++)
        sum += (wide)chain[i / 4][i % 4];
    return 16 * sum;
}

#endif

extern "C" __global__ void __launch_bounds__(256)
    weft_probe(const struct weft__probe_device_args args)
{
    wide sum = KIND == READ      ? read(args)
               : KIND == FMA_F32 ? multiply(args)
               : KIND == DOT_I8  ? dot(args)
                                 : multiply_matrices(args);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        atomicAdd((wide *)args.value, sum);
}
