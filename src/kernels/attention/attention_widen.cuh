// SPDX-License-Identifier: MIT
// Caches of one byte an element for tensor cores: keys and values of a tile become bf16, which holds every number of
// these formats. Scales stay out of it: those of keys multiply scores, those of values weights.
// (attention_codes.cuh widens what decode has in registers, to f16.)
//
// WEFT_CACHE: 4 fp8_e4m3, 5 fp8_e5m2, 6 int8; 2 and 3, formats of two bytes, need none of this.
#ifndef WEFT_KERNELS_ATTENTION_WIDEN_CUH
#define WEFT_KERNELS_ATTENTION_WIDEN_CUH

#include "src/kernels/attention/attention_rows.cuh"

#if WEFT_CACHE > 3

// Four elements that are finite, as bf16.
DEVICE uint2 four_widen_finite(uint32_t bytes)
{
#if WEFT_CACHE == 6
    // The number + 128 behind 2^7 is 256 + twice the number, or 256 + the number where that is below 0: there the lowest
    // bit of the exponent is 0. So half of what is above 256 is too much.
    const uint32_t above = bytes ^ 0x80808080u;
    const uint32_t low = byte_permute(above, 0x43434343u, 0x4140);
    const uint32_t high = byte_permute(above, 0x43434343u, 0x4342);
    const uint32_t one = 0x3f803f80u, half = 0x3f003f00u, less_128 = 0xc300c300u;
    return make_uint2(fma_bf16x2(relu_fma_bf16x2(low, half, less_128), 0xbf80bf80u,
                                 fma_bf16x2(low, one, 0xc380c380u)),
                      fma_bf16x2(relu_fma_bf16x2(high, half, less_128), 0xbf80bf80u,
                                 fma_bf16x2(high, one, 0xc380c380u)));
#else
    // The bits at the places that they have in bf16; the exponents' biases differ by 120 or 112.
    const uint32_t low = byte_permute(bytes, 0, 0x1404), high = byte_permute(bytes, 0, 0x3424);
    const uint32_t shift = WEFT_CACHE == 4 ? 4 : 3, mask = 0x7f007f00u >> shift;
    const uint32_t factor = WEFT_CACHE == 4 ? 0x7b807b80u : 0x77807780u;
    return make_uint2(
        fma_bf16x2((low & 0x80008000u) | (low >> shift & mask), factor, 0x80008000u),
        fma_bf16x2((high & 0x80008000u) | (high >> shift & mask), factor, 0x80008000u));
#endif
}

// Not 0 if one of four codes is NaN or an infinity: the top bits of those.
DEVICE uint32_t four_odd(uint32_t bytes)
{
    if (WEFT_CACHE == 6)
        return 0;
    return ((bytes & 0x7f7f7f7fu) + (WEFT_CACHE == 4 ? 0x01010101u : 0x04040404u)) & 0x80808080u;
}

// Four elements as bf16.
DEVICE uint2 four_widen(uint32_t bytes)
{
    uint2 wide = four_widen_finite(bytes);
    const uint32_t odd = four_odd(bytes);
    if (odd) { // rows that see one are computed again
        wide.x |= (odd & 0x80u ? 0x7fffu : 0) | (odd & 0x8000u ? 0x7fff0000u : 0);
        wide.y |= (odd & 0x800000u ? 0x7fffu : 0) | (odd & 0x80000000u ? 0x7fff0000u : 0);
    }
    return wide;
}

// Four elements as f16; HALVES_BLIND: but for NaN, which becomes a number.
#if WEFT_CACHE == 4 && __CUDA_ARCH__ < 890
#define HALVES_BLIND 1
#else
#define HALVES_BLIND 0
#endif

DEVICE uint2 four_halves(uint32_t bytes)
{
    uint2 wide;
#if WEFT_CACHE == 6 // 1024 + 128 + the number, less 1152
    const uint32_t above = bytes ^ 0x80808080u;
    wide.x = sub_f16x2(byte_permute(above, 0x64646464u, 0x4140), 0x64806480u);
    wide.y = sub_f16x2(byte_permute(above, 0x64646464u, 0x4342), 0x64806480u);
#elif WEFT_CACHE == 5 // the upper half of f16
    wide.x = byte_permute(bytes, 0, 0x1404), wide.y = byte_permute(bytes, 0, 0x3424);
#elif !HALVES_BLIND
    wide = e4m3x4_f16x4(bytes);
#else // the bits at their places in f16, whose bias is 8 more
    const uint32_t low = byte_permute(bytes, 0, 0x1404), high = byte_permute(bytes, 0, 0x3424);
    wide.x = mul_f16x2((low & 0x80008000u) | (low >> 1 & 0x3f803f80u), 0x5c005c00u);
    wide.y = mul_f16x2((high & 0x80008000u) | (high >> 1 & 0x3f803f80u), 0x5c005c00u);
#endif
    return wide;
}

// A tile's keys and values from rows of HEAD bytes to rows of ROW_BYTES, by `threads` threads, TOGETHER pieces of 16
// bytes at a time.
template <int TOGETHER>
DEVICE void tile_widen(const uint8_t *raw, uint8_t *wide, int32_t thread, int32_t threads)
{
#pragma unroll TOGETHER
    for (int32_t piece = thread; piece < 2 * KEYS * CHUNKS; piece += threads) {
        const uint4 bytes = *(const uint4 *)(raw + piece * 16);
        const uint2 a = four_widen(bytes.x), b = four_widen(bytes.y), c = four_widen(bytes.z),
                    d = four_widen(bytes.w);
        uint4 *to = (uint4 *)(wide + piece / CHUNKS * ROW_BYTES + piece % CHUNKS * 32);
        to[0] = make_uint4(a.x, a.y, b.x, b.y), to[1] = make_uint4(c.x, c.y, d.x, d.y);
    }
}

#endif

// Asks for the scale of a key or value, on its way with the tile; 0 for what nobody sees.
DEVICE void scale_ask(const struct weft__attention_device_scales *scales, int32_t seq, int32_t page,
                      int32_t kv_head, int32_t slot, bool seen, float *to)
{
    if (!scales->of) {
        *to = 1;
        return;
    }
    const float *from = seen ? scales->of + scale_at(scales, seq, page, kv_head, slot) : scales->of;
    copy_4_async_or_zero(shared_address(to), from, seen ? 4 : 0);
}

// Scores, or weights, of a lane times the scales of their keys.
DEVICE void scores_scale(const float *scale, int32_t lane, float score[KEYS / 8][4])
{
#pragma unroll
    for (int32_t t = 0; t < KEYS / 8; t++) {
        const float2 by = *(const float2 *)(scale + 8 * t + 2 * (lane % 4));
#pragma unroll
        for (int32_t half = 0; half < 2; half++)
            score[t][2 * half] *= by.x, score[t][2 * half + 1] *= by.y;
    }
}

#endif
