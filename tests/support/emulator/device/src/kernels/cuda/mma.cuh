// SPDX-License-Identifier: MIT
// src/kernels/cuda/mma.cuh for the host: where a lane's numbers belong is drawn there.
#ifndef WEFT_KERNELS_CUDA_MMA_CUH
#define WEFT_KERNELS_CUDA_MMA_CUH

#include "src/kernels/cuda/tensor.cuh"

struct mma_lane {
    void *d;
    uint32_t a[4], b[2];
};

DEVICE const mma_lane *mma_at(void *const lanes[32], int r, int c)
{
    return (const mma_lane *)lanes[r % 8 * 4 + c];
}

// Element (r, k) of A and (k, n) of B, of 8, 16 or 32 bits.
template <class T> DEVICE T mma_a(void *const lanes[32], int r, int k)
{
    const int each = 4 / sizeof(T), word = k / (4 * each) * 2 + r / 8;
    const uint32_t bits = mma_at(lanes, r, k % (4 * each) / each)->a[word];
    return (T)(bits >> 8 * sizeof(T) * (k % each));
}

template <class T> DEVICE T mma_b(void *const lanes[32], int k, int n)
{
    const int each = 4 / sizeof(T);
    const uint32_t bits = mma_at(lanes, n, k % (4 * each) / each)->b[k / (4 * each)];
    return (T)(bits >> 8 * sizeof(T) * (k % each));
}

template <class T> DEVICE T *mma_d(void *const lanes[32], int r, int n)
{
    return (T *)mma_at(lanes, r, n / 2)->d + (r / 8 * 2 + n % 2);
}

template <class A, int K, class B = int8_t> static void mma_bytes_all(void *const lanes[32])
{
    for (int r = 0; r < 16; r++)
        for (int n = 0; n < 8; n++) {
            int32_t sum = *mma_d<int32_t>(lanes, r, n);
            for (int k = 0; k < K; k++)
                sum += (int32_t)(A)mma_a<uint8_t>(lanes, r, k) * (B)mma_b<uint8_t>(lanes, k, n);
            *mma_d<int32_t>(lanes, r, n) = sum;
        }
}

template <class T, class Number, int K> static void mma_floats_all(void *const lanes[32])
{
    float a[16][K], b[8][K], product[K];
    for (int k = 0; k < K; k++) {
        for (int r = 0; r < 16; r++)
            a[r][k] = Number::of(mma_a<T>(lanes, r, k));
        for (int n = 0; n < 8; n++)
            b[n][k] = Number::of(mma_b<T>(lanes, k, n));
    }
    for (int r = 0; r < 16; r++)
        for (int n = 0; n < 8; n++) {
            for (int k = 0; k < K; k++)
                product[k] = a[r][k] * b[n][k];
            float *d = mma_d<float>(lanes, r, n);
            *d = tensor_sum(*d, product, K);
        }
}

DEVICE void mma_meet(void *d, const uint32_t *a, int words, uint32_t b0, uint32_t b1,
                     emulated_together *all)
{
    mma_lane lane = {d, {0, 0, 0, 0}, {b0, b1}};
    for (int i = 0; i < words; i++)
        lane.a[i] = a[i];
    emulated->warp(0xffffffffu, "a product", &lane, all);
}

#define MMA_BYTES_(NAME, A)                                                                        \
    DEVICE void mma_##NAME##_k32(int32_t d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)      \
    {                                                                                              \
        mma_meet(d, a, 4, b0, b1, mma_bytes_all<A, 32>);                                           \
    }                                                                                              \
    DEVICE void mma_##NAME##_k16(int32_t d[4], uint32_t a0, uint32_t a1, uint32_t b0)              \
    {                                                                                              \
        const uint32_t a[2] = {a0, a1};                                                            \
        mma_meet(d, a, 2, b0, 0, mma_bytes_all<A, 16>);                                            \
    }
MMA_BYTES_(u8, uint8_t)
MMA_BYTES_(s8, int8_t)
#undef MMA_BYTES_

#define MMA_FROM_(NAME, B)                                                                         \
    DEVICE void mma_##NAME##_k32_from(int32_t d[4], const uint32_t a[4], uint32_t b0, uint32_t b1, \
                                      const int32_t start[4])                                      \
    {                                                                                              \
        for (int i = 0; i < 4; i++)                                                                \
            d[i] = start[i];                                                                       \
        mma_meet(d, a, 4, b0, b1, mma_bytes_all<int8_t, 32, B>);                                   \
    }
MMA_FROM_(s8, int8_t)
MMA_FROM_(s8_u8, uint8_t)
#undef MMA_FROM_

DEVICE void mma_tf32(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    mma_meet(d, a, 4, b0, b1, mma_floats_all<uint32_t, tensor_tf32, 8>);
}

DEVICE void mma_f16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    mma_meet(d, a, 4, b0, b1, mma_floats_all<uint16_t, tensor_f16, 16>);
}

DEVICE void mma_bf16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    mma_meet(d, a, 4, b0, b1, mma_floats_all<uint16_t, tensor_bf16, 16>);
}

struct matrix_lane {
    uint32_t *m;
    const uint16_t *row;
};

template <bool TRANSPOSED> static void load_matrices_all(void *const lanes[32])
{
    for (int i = 0; i < 32; i++)
        for (int which = 0; which < 4; which++) {
            uint32_t word = 0;
            for (int half = 0; half < 2; half++) {
                const int r = TRANSPOSED ? i % 4 * 2 + half : i / 4;
                const int c = TRANSPOSED ? i / 4 : i % 4 * 2 + half;
                word |= (uint32_t)((matrix_lane *)lanes[which * 8 + r])->row[c] << 16 * half;
            }
            ((matrix_lane *)lanes[i])->m[which] = word;
        }
}

template <bool TRANSPOSED> DEVICE void load_matrices(uint32_t m[4], uint32_t shared_row)
{
    if (shared_row % 16)
        emulated->fail("a row of a matrix that is not aligned");
    matrix_lane lane = {m, (const uint16_t *)emulated->shared_pointer(shared_row)};
    emulated->warp(0xffffffffu, "a load of matrices", &lane, load_matrices_all<TRANSPOSED>);
}

DEVICE void load_matrix_4(uint32_t m[4], uint32_t shared_row)
{
    load_matrices<false>(m, shared_row);
}

DEVICE void load_matrix_4_transposed(uint32_t m[4], uint32_t shared_row)
{
    load_matrices<true>(m, shared_row);
}

#endif
