// SPDX-License-Identifier: MIT
// Elements of keys and values as vectors of f32. Part of attention_simd.h.
#ifndef WEFT_KERNELS_ATTENTION_LOAD_H
#define WEFT_KERNELS_ATTENTION_LOAD_H

#include "src/formats/iq4_nl.h"
#include "src/formats/q4_0.h"
#include "src/formats/q5_0.h"
#include "src/formats/q8_0.h"

// What the nibbles of a format stand for, before its scale.
static const float levels_q4_0[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
static const float levels_q5_0[16] = {-16, -15, -14, -13, -12, -11, -10, -9,
                                      -8,  -7,  -6,  -5,  -4,  -3,  -2,  -1};
static const float levels_iq4_nl[16] = WEFT__IQ4_LEVELS;

// Bytes of a block of 32 elements, of the formats that are read in place; 0: it has none.
INLINE int block_bytes(weft_dtype kv)
{
    switch (kv) {
    case WEFT_Q8_0: return sizeof(struct weft__q8_0);
    case WEFT_Q5_0: return sizeof(struct weft__q5_0);
    case WEFT_Q4_0: return sizeof(struct weft__q4_0);
    case WEFT_IQ4_NL: return sizeof(struct weft__iq4_nl);
    default: return 0;
    }
}

// VF32_LANES numbers of a block from its element `part` on. Loops are faster where `part` is a constant.
INLINE vf32 load_block(weft_dtype kv, const void *at, const int part)
{
    vf32 x;
    if (kv == WEFT_Q8_0) {
        const struct weft__q8_0 *block = at;
        x = vf32_load_i8(block->q + part);
    } else if (kv == WEFT_Q5_0) {
        const struct weft__q5_0 *block = at;
        uint32_t fifth;
        memcpy(&fifth, block->qh, sizeof fifth);
        x = vf32_load_levels(block->q + (part & 15), part >= 16, levels_q5_0);
        x = vf32_add_where(x, fifth >> part, vf32_set1(16));
    } else {
        const struct weft__q4_0 *block = at; // iq4_nl: with other levels
        x = vf32_load_levels(block->q + (part & 15), part >= 16,
                             kv == WEFT_Q4_0 ? levels_q4_0 : levels_iq4_nl);
    }
    return vf32_mul(vf32_set1_f16((const uint16_t *)at), x); // all begin with their scale
}

// VF32_LANES numbers from element `at` on. Those of int8 and fp8 lack their scale, and fp8_e4m3 a factor of 256.
INLINE vf32 load_kv(weft_dtype kv, const void *pool, int64_t at)
{
    if (kv == WEFT_F32)
        return vf32_load((const float *)pool + at);
    if (kv == WEFT_INT8)
        return vf32_load_i8((const int8_t *)pool + at);
    if (kv == WEFT_FP8_E4M3)
        return vf32_load_e4m3((const uint8_t *)pool + at);
    if (kv == WEFT_FP8_E5M2)
        return vf32_load_e5m2((const uint8_t *)pool + at);
    if (block_bytes(kv))
        return load_block(kv, (const char *)pool + (at >> 5) * block_bytes(kv), (int)(at & 31));
    if (kv == WEFT_F16)
        return vf32_load_f16((const uint16_t *)pool + at);
    if (kv == WEFT_BF16)
        return vf32_load_bf16((const uint16_t *)pool + at);
    return vf32_set1(
        NAN); // a format that this file does not know must not look like one that it does
}

// A vector at the end of a head that is half a vector long.
INLINE vf32 load_kv_n(weft_dtype kv, const void *pool, int64_t at, int n)
{
    if (kv == WEFT_F32)
        return vf32_load_n((const float *)pool + at, n);
    if (kv == WEFT_F16)
        return vf32_load_f16_n((const uint16_t *)pool + at, n);
    if (kv == WEFT_BF16)
        return vf32_load_bf16_n((const uint16_t *)pool + at, n);
    return vf32_set1(NAN);
}

#endif
