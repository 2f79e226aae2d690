// SPDX-License-Identifier: MIT
// Ceilings of a device: reading memory, f32 multiply-adds, int8 dot products. Whole numbers are added up, so
// that the order does not matter.
//
// Constants: KIND (weft_probe_kind)
#include "src/kernels/cuda/block.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/probe/probe_device.h"

enum { READ, FMA_F32, DOT_I8, AT_ONCE = 8 };

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
            asm volatile("dp4a.s32.s32 %0, %1, %1, %0;" : "+r"(chain[j]) : "r"(args.units));
#pragma unroll
    for (int j = 0; j < WEFT__PROBE_CHAINS; j++)
        sum += (wide)chain[j];
    return sum;
}

extern "C" __global__ void __launch_bounds__(256)
    weft_probe(const struct weft__probe_device_args args)
{
    wide sum = KIND == READ ? read(args) : KIND == FMA_F32 ? multiply(args) : dot(args);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        atomicAdd((wide *)args.value, sum);
}
