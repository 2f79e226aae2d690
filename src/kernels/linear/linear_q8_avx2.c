// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx2.h"
#include "src/kernels/linear/linear_bytes_avx2.h"

// acc + scaled dot products. Signs move from w to x, since vpmaddubsw wants one unsigned operand;
// |w| <= 128 and |x| <= 127 keep its 16-bit sums from saturating.
WEFT__INLINE vf32 weft__bytes32_dot(vf32 acc, weft__bytes32 w, weft__bytes32 x, float first,
                                    float second, bool two_scales)
{
    __m256i words = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    vf32 dots = _mm256_cvtepi32_ps(_mm256_madd_epi16(words, _mm256_set1_epi16(1)));
    vf32 scale = two_scales ? _mm256_set_m128(_mm_set1_ps(second), _mm_set1_ps(first))
                            : _mm256_set1_ps(first);
    return _mm256_fmadd_ps(dots, scale, acc);
}

#include "src/kernels/linear/linear_gemm_avx2.h"
#include "src/kernels/linear/linear_q8.h"

#define GEMM(weight) weft__linear_gemm_##weight##_avx2

WEFT__LINEAR_Q8_ALL(avx2, GEMM)
