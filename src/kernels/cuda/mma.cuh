// SPDX-License-Identifier: MIT
// Products on tensor cores, one warp: D[16][8] += A[16][k] B[k][8]. Where a lane's numbers belong, with
// r = lane / 4 and c = lane % 4 (PTX ISA, "Matrix fragments for mma"):
//
//      D, C   d0 (r, 2c)  d1 (r, 2c + 1)  d2 (r + 8, 2c)  d3 (r + 8, 2c + 1)
//      A 8 bit    a0 (r, 4c..4c+3)  a1 (r + 8, 4c..)  a2 (r, 16 + 4c..)  a3 (r + 8, 16 + 4c..)
//      B 8 bit    b0 (4c.., column r)  b1 (16 + 4c.., column r)
//      A 16 bit   a0 (r, 2c..2c+1)  a1 (r + 8, 2c..)  a2 (r, 8 + 2c..)  a3 (r + 8, 8 + 2c..)
//      B 16 bit   b0 (2c.., column r)  b1 (8 + 2c.., column r)
//      A tf32     a0 (r, c)  a1 (r + 8, c)  a2 (r, c + 4)  a3 (r + 8, c + 4)
//      B tf32     b0 (c, column r)  b1 (c + 4, column r)
#ifndef WEFT_KERNELS_CUDA_MMA_CUH
#define WEFT_KERNELS_CUDA_MMA_CUH

#include "src/kernels/cuda/types.cuh"

#define MMA_BYTES_(NAME, A_TYPE)                                                                   \
    DEVICE void mma_##NAME##_k32(int32_t d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)      \
    {                                                                                              \
        asm("mma.sync.aligned.m16n8k32.row.col.s32." A_TYPE ".s8.s32 {%0, %1, %2, %3}, "           \
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                        \
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                       \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                       \
    }                                                                                              \
    DEVICE void mma_##NAME##_k16(int32_t d[4], uint32_t a0, uint32_t a1, uint32_t b0)              \
    {                                                                                              \
        asm("mma.sync.aligned.m16n8k16.row.col.s32." A_TYPE ".s8.s32 {%0, %1, %2, %3}, {%4, %5}, " \
            "{%6}, {%0, %1, %2, %3};"                                                              \
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                       \
            : "r"(a0), "r"(a1), "r"(b0));                                                          \
    }
MMA_BYTES_(u8, "u8")
MMA_BYTES_(s8, "s8")
#undef MMA_BYTES_

// D = A B + `start`, which stays as it is.
#define MMA_FROM_(NAME, B_TYPE)                                                                    \
    DEVICE void mma_##NAME##_k32_from(int32_t d[4], const uint32_t a[4], uint32_t b0, uint32_t b1, \
                                      const int32_t start[4])                                      \
    {                                                                                              \
        asm("mma.sync.aligned.m16n8k32.row.col.s32.s8." B_TYPE ".s32 {%0, %1, %2, %3}, "           \
            "{%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"                                    \
            : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                       \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(start[0]),         \
              "r"(start[1]), "r"(start[2]), "r"(start[3]));                                        \
    }
MMA_FROM_(s8, "s8")
MMA_FROM_(s8_u8, "u8")
#undef MMA_FROM_

DEVICE void mma_tf32(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

DEVICE void mma_f16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

DEVICE void mma_bf16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8x8 matrices of 16-bit elements; lane i gives the address of row i % 8 of matrix i / 8.
DEVICE void load_matrix_4(uint32_t m[4], uint32_t shared_row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(shared_row)
                 : "memory");
}

DEVICE void load_matrix_4_transposed(uint32_t m[4], uint32_t shared_row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(shared_row)
                 : "memory");
}

#endif
