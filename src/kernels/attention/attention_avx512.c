// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx512.h"

enum {
    DIRECT_SUMS = 16,
    UNIT_SUMS = 8,
    DIRECT_GROUP = 16,
    VALUE_STEP = 4,
    WEIGHED_ROWS = 4,
    PANEL_VECTORS = 4,
};

// Eight rows score 16 numbers of a key as four vectors, each with every fourth number four times, beside the
// queries of four rows (attention_parts.h).
#define ATTENTION_PARTS

// Number `part` of every four.
static inline vf32 spread(vf32 x, const int part)
{
    switch (part) {
    case 0: return _mm512_permute_ps(x, 0x00);
    case 1: return _mm512_permute_ps(x, 0x55);
    case 2: return _mm512_permute_ps(x, 0xaa);
    default: return _mm512_permute_ps(x, 0xff);
    }
}

// Four rows of 16 numbers, in each part of 128 bits: y[i] = number i of the rows.
static inline void turn_fours(const vf32 x[4], vf32 y[4])
{
    const vf32 a = _mm512_unpacklo_ps(x[0], x[1]), b = _mm512_unpacklo_ps(x[2], x[3]);
    const vf32 c = _mm512_unpackhi_ps(x[0], x[1]), d = _mm512_unpackhi_ps(x[2], x[3]);
    y[0] = _mm512_shuffle_ps(a, b, 0x44);
    y[1] = _mm512_shuffle_ps(a, b, 0xee);
    y[2] = _mm512_shuffle_ps(c, d, 0x44);
    y[3] = _mm512_shuffle_ps(c, d, 0xee);
}

// The parts of 128 bits of four vectors added up: part i is what vector i comes to.
static inline vf32 add_parts(const vf32 x[4])
{
    const vf32 a =
        vf32_add(_mm512_shuffle_f32x4(x[0], x[1], 0x44), _mm512_shuffle_f32x4(x[0], x[1], 0xee));
    const vf32 b =
        vf32_add(_mm512_shuffle_f32x4(x[2], x[3], 0x44), _mm512_shuffle_f32x4(x[2], x[3], 0xee));
    return vf32_add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

// x[4] of two keys each, of which a part has four rows, to eight rows of eight keys, `stride` apart.
static inline void store_parts(const vf32 x[4], float *to, int64_t stride)
{
    const __m512i even =
        _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
    const __m512i odd =
        _mm512_setr_epi32(2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31);
    for (int four = 0; four < 2; four++, to += 4 * stride) {
        const vf32 a =
            four ? _mm512_shuffle_f32x4(x[0], x[1], 0xdd) : _mm512_shuffle_f32x4(x[0], x[1], 0x88);
        const vf32 b =
            four ? _mm512_shuffle_f32x4(x[2], x[3], 0xdd) : _mm512_shuffle_f32x4(x[2], x[3], 0x88);
        const vf32 first = _mm512_permutex2var_ps(a, even, b);
        const vf32 second = _mm512_permutex2var_ps(a, odd, b);
        _mm256_storeu_ps(to, _mm512_castps512_ps256(first));
        _mm256_storeu_ps(to + stride, _mm512_extractf32x8_ps(first, 1));
        _mm256_storeu_ps(to + 2 * stride, _mm512_castps512_ps256(second));
        _mm256_storeu_ps(to + 3 * stride, _mm512_extractf32x8_ps(second, 1));
    }
}

#include "src/kernels/attention/attention_simd.h"

ATTENTIONS(avx512)
