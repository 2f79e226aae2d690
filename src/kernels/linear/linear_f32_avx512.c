// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_bytes_avx2.h"

// Part i of 32 bytes as f32.
WEFT__INLINE vf32 weft__bytes32_widen(weft__bytes32 q, int i)
{
    __m128i half = i == 0 ? _mm256_castsi256_si128(q) : _mm256_extracti128_si256(q, 1);
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(half));
}

// Shapes that the registers hold: rows of X with four of W, vectors of a panel.
#define WEFT__F32_MANY    4
#define WEFT__F32_VECTORS 4

#include "src/kernels/linear/linear_f32.h"
#include "src/kernels/linear/linear_f32_gemm.h"

WEFT__LINEAR_F32_ALL(avx512)
