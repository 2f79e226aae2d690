// SPDX-License-Identifier: MIT
// src/kernels/cuda/wgmma.cuh for the host: products are made when they are waited for.
#ifndef WEFT_KERNELS_CUDA_WGMMA_CUH
#define WEFT_KERNELS_CUDA_WGMMA_CUH

#include "src/kernels/cuda/tensor.cuh"

// A descriptor holds 18 bits of an address: bit 53, which means nothing to the machine, says that it is one of
// static memory.
DEVICE uint64_t emulated_descriptor(uint32_t shared_address)
{
    return (uint64_t)(shared_address >= EMULATED_STATIC) << 53 | (shared_address >> 4 & 0x3fff);
}

DEVICE uint32_t emulated_described(uint64_t matrix)
{
    const uint32_t low = (uint32_t)(matrix & 0x3fff) << 4;
    const uint32_t window = 0x40000, first = matrix >> 53 & 1
                                                 ? EMULATED_STATIC + (1u << 20) - window / 2
                                                 : (uint32_t)(uintptr_t)emulated->shared();
    const uint32_t address = (first & ~(window - 1)) + low;
    return address < first ? address + window : address;
}

DEVICE uint64_t wgmma_matrix(uint32_t shared_address)
{
    return (uint64_t)1 << 62 | (uint64_t)64 << 32 | (uint64_t)1 << 16 |
           emulated_descriptor(shared_address);
}

DEVICE uint64_t wgmma_further(uint64_t matrix, uint32_t bytes)
{
    return matrix & 0xffffffff00000000u | ((uint32_t)matrix + bytes / 16);
}

DEVICE uint64_t wgmma_matrix_across(uint32_t shared_address, uint32_t columns_bytes)
{
    return (uint64_t)1 << 62 | (uint64_t)64 << 32 | (uint64_t)(columns_bytes >> 4) << 16 |
           emulated_descriptor(shared_address);
}

DEVICE void wgmma_begin()
{
}

DEVICE void wgmma_group_end()
{
    emulated->product_group_end();
}

#define WGMMA_WAIT(LEFT) emulated->product_wait(LEFT)

template <int COUNT> DEVICE void registers_take()
{
}

template <int COUNT> DEVICE void registers_give()
{
}

// What a lane brings: `a` words or a matrix in shared memory.
struct wgmma_lane {
    float *d;
    uint32_t words[4];
    uint64_t a, b;
    int32_t columns, warp;
    bool add, a_shared, b_transposed;
};

// Element (row, k) of a matrix with the 128-byte swizzle (PTX ISA, "Matrix descriptor"): 16 values of k from the place
// that it names on. K-major: 64 of k a line of 128 bytes, eight rows a piece. Transposed: 64 rows a line, eight
// of k a piece.
DEVICE uint16_t wgmma_element(uint64_t matrix, int row, int k, bool transposed)
{
    const uint32_t leading = (uint32_t)(matrix >> 16 & 0x3fff) << 4;
    const uint32_t stride = (uint32_t)(matrix >> 32 & 0x3fff) << 4;
    const uint32_t at = transposed
                            ? row / 64 * leading + k / 8 * stride + k % 8 * 128 + row % 64 * 2
                            : row / 8 * stride + row % 8 * 128 + k * 2;
    if (matrix >> 62 != 1)
        emulated->fail("a matrix that is not swizzled by 128 bytes");
    const uint32_t address = emulated_described(matrix) + at;
    return *(const uint16_t *)emulated->shared_pointer(address ^ (address >> 7 & 7) << 4);
}

template <class Number> static void wgmma_all(void *const lanes[32])
{
    const wgmma_lane *first = (const wgmma_lane *)lanes[0];
    static thread_local float a[16][16], b[256][16];
    float product[16];
    for (int k = 0; k < 16; k++) {
        for (int n = 0; n < first->columns; n++)
            b[n][k] = Number::of(wgmma_element(first->b, n, k, first->b_transposed));
        for (int r = 0; r < 16; r++) {
            const wgmma_lane *lane = (const wgmma_lane *)lanes[r % 8 * 4 + k % 8 / 2];
            a[r][k] = Number::of(first->a_shared
                                     ? wgmma_element(first->a, first->warp * 16 + r, k, false)
                                     : (uint16_t)(lane->words[k / 8 * 2 + r / 8] >> 16 * (k % 2)));
        }
    }
    for (int r = 0; r < 16; r++)
        for (int n = 0; n < first->columns; n++) {
            const wgmma_lane *lane = (const wgmma_lane *)lanes[r % 8 * 4 + n % 8 / 2];
            float *d = lane->d + (n / 8 * 4 + r / 8 * 2 + n % 2);
            for (int k = 0; k < 16; k++)
                product[k] = a[r][k] * b[n][k];
            *d = tensor_sum(lane->add ? *d : 0.0f, product, 16);
        }
}

template <class Number>
DEVICE void wgmma_keep(int columns, float *d, const uint32_t *words, uint64_t a, uint64_t b,
                       bool add, bool b_transposed)
{
    wgmma_lane lane = {d,   {0, 0, 0, 0}, a,           b, columns, (int32_t)(threadIdx.x / 32 % 4),
                       add, !words,       b_transposed};
    for (int i = 0; words && i < 4; i++)
        lane.words[i] = words[i];
    emulated->product(&lane, sizeof lane, wgmma_all<Number>);
}

#define WGMMA_(NAME, N)                                                                            \
    DEVICE void wgmma_##NAME##_##N(float *d, const uint32_t a[4], uint64_t b)                      \
    {                                                                                              \
        wgmma_keep<tensor_##NAME>(N, d, a, 0, b, true, false);                                     \
    }                                                                                              \
    DEVICE void wgmma_across_##NAME##_##N(float *d, const uint32_t a[4], uint64_t b)               \
    {                                                                                              \
        wgmma_keep<tensor_##NAME>(N, d, a, 0, b, true, true);                                      \
    }
WGMMA_(f16, 16)
WGMMA_(f16, 32)
WGMMA_(f16, 64)
WGMMA_(f16, 128)
WGMMA_(f16, 256)
WGMMA_(bf16, 16)
WGMMA_(bf16, 32)
WGMMA_(bf16, 64)
WGMMA_(bf16, 128)
WGMMA_(bf16, 256)
#undef WGMMA_

DEVICE void wgmma_new_f16_16(float *d, const uint32_t a[4], uint64_t b)
{
    wgmma_keep<tensor_f16>(16, d, a, 0, b, false, false);
}

#define WGMMA_SHARED_(NAME, N)                                                                     \
    DEVICE void wgmma_shared_##NAME##_##N(float *d, uint64_t a, uint64_t b, bool add)              \
    {                                                                                              \
        wgmma_keep<tensor_##NAME>(N, d, nullptr, a, b, add, false);                                \
    }
WGMMA_SHARED_(f16, 24)
WGMMA_SHARED_(f16, 32)
WGMMA_SHARED_(f16, 48)
WGMMA_SHARED_(f16, 64)
WGMMA_SHARED_(f16, 128)
WGMMA_SHARED_(f16, 256)
WGMMA_SHARED_(bf16, 24)
WGMMA_SHARED_(bf16, 32)
WGMMA_SHARED_(bf16, 48)
WGMMA_SHARED_(bf16, 64)
WGMMA_SHARED_(bf16, 128)
WGMMA_SHARED_(bf16, 256)
#undef WGMMA_SHARED_

#endif
