// SPDX-License-Identifier: MIT
// Tiles of one byte an element without a copy (WEFT_CODES): a lane loads the codes that its products want and widens them
// in registers: keys, where queries enter in one part, to f16, which takes the fewest instructions, else to bf16.
// head_dim is 64, 128 or 256.
//
// A product of queries and keys does not mind the order of the elements, as long as both have the same: lane
// 4 key + t loads the elements 16 t .. 16 t + 15 of every 64 of a key at once, and queries lie in shared memory in the
// order in which these come up (query_column()). Nor does a product of weights and values mind the order of the
// columns: a lane loads SPAN = head_dim / 8 elements of each of its four keys at once, so that column lane / 4 of
// product n is element SPAN (lane / 4) + n.
//
// Chunks of 16 bytes of a row change places by the number of the key, so that neither kind of load meets its neighbours
// in a bank.
//
// Codes that are not finite make sums that are not, and such rows are computed again (item_again()). Where widening does not
// see them they would take a branch each: where a tile has one, the warp's sums become NaN.
#ifndef WEFT_KERNELS_ATTENTION_CODES_CUH
#define WEFT_KERNELS_ATTENTION_CODES_CUH

#include "src/kernels/attention/attention_merge.cuh"
#include "src/kernels/attention/attention_scores.cuh"
#include "src/kernels/attention/attention_widen.cuh"

#if WEFT_CODES

enum { SPAN = HEAD / 8 };

// Where chunk `chunk` of the row of key `key` of a tile lies: of keys (plane 0), of values (1).
DEVICE int32_t codes_chunk(int32_t plane, int32_t key, int32_t chunk)
{
    if (plane == 0)
        return HEAD == 64 ? chunk : chunk ^ (key & 1) << 2;
    const int32_t pair = key >> 1 & 3;
    return chunk ^ (HEAD == 256 ? (pair & 1) | (pair & 2) << 1 : 2 * pair & (CHUNKS - 1));
}

// Four codes as DTYPE. *odd becomes other than 0 if one is not finite and comes out as if it were.
template <int32_t DTYPE> DEVICE uint2 codes_widen(uint32_t four, uint32_t *odd)
{
#if HALVES_BLIND || WEFT_CACHE == 6
    *odd |= four_odd(four);
    return DTYPE == 2 ? four_halves(four) : four_widen_finite(four);
#else
    (void)odd;
    const uint2 halves = four_halves(four);
    if (DTYPE == 2)
        return halves;
    const float2 low = f16x2_float2(halves.x), high = f16x2_float2(halves.y);
    return make_uint2(floats_bf16x2(low.x, low.y), floats_bf16x2(high.x, high.y));
#endif
}

// Scores as tile_scores() makes them.
DEVICE void codes_scores(uint32_t queries, const uint8_t *keys, int32_t lane,
                         float score[KEYS / 8][4], uint32_t *odd)
{
    const uint32_t q_row = queries + (lane % 16) * ROW_BYTES + lane / 16 * 16;
    float low[KEYS / 8][4] = {};                     // of all parts but the first
#pragma unroll(WEFT_PARTS > 1 && HEAD > 128 ? 1 : 4) // registers
    for (int32_t h = 0; h < HEAD / 64; h++) {
        uint4 codes[KEYS / 8];
#pragma unroll
        for (int32_t t = 0; t < KEYS / 8; t++) {
            const int32_t key = 8 * t + lane / 4;
            codes[t] =
                *(const uint4 *)(keys + key * HEAD + codes_chunk(0, key, 4 * h + lane % 4) * 16);
        }
#pragma unroll
        for (int32_t s = 0; s < 4; s++) {
            uint32_t q[WEFT_PARTS][4];
#pragma unroll
            for (int32_t part = 0; part < WEFT_PARTS; part++)
                load_matrix_4(q[part], q_row + part * PART_BYTES + (64 * h + 16 * s) * 2);
#pragma unroll
            for (int32_t t = 0; t < KEYS / 8; t++) {
                const uint32_t four = s == 0   ? codes[t].x
                                      : s == 1 ? codes[t].y
                                      : s == 2 ? codes[t].z
                                               : codes[t].w;
                const uint2 k = codes_widen<KEY_DTYPE>(four, odd);
#pragma unroll
                for (int32_t part = 0; part < WEFT_PARTS; part++)
                    mma_score(part ? low[t] : score[t], part, q[part], k.x, k.y);
            }
        }
    }
#pragma unroll
    for (int32_t i = 0; WEFT_PARTS > 1 && i < KEYS / 2; i++)
        score[i / 4][i % 4] += low[i / 4][i % 4];
}

// Codes of two keys, four elements of each, as pairs of both keys: of elements 0 and 1, of 2 and 3.
DEVICE void two_interleaved(uint32_t first, uint32_t second, uint32_t out[2])
{
    out[0] = byte_permute(first, second, 0x5140), out[1] = byte_permute(first, second, 0x7362);
}

// As tile_values(), with acc in the order of acc_element().
DEVICE void codes_values(const uint8_t *values, int32_t lane, const float weight[KEYS / 8][4],
                         struct state *state, uint32_t *odd)
{
    enum { TOGETHER = SPAN < 16 ? SPAN : 16 }; // elements of a load
    uint32_t p[WEFT_PARTS][4];
    weights_narrow(weight, 0, p);
#pragma unroll
    for (int32_t at = 0; at < SPAN; at += TOGETHER) {
        uint32_t codes[4][TOGETHER / 4];
#pragma unroll
        for (int32_t i = 0; i < 4; i++) {
            const int32_t key = 2 * (lane % 4) + i % 2 + i / 2 * 8, byte = lane / 4 * SPAN + at;
            const uint8_t *from =
                values + key * HEAD + codes_chunk(1, key, byte / 16) * 16 + byte % 16;
            if (TOGETHER == 16) {
                const uint4 x = *(const uint4 *)from;
                codes[i][0] = x.x, codes[i][1] = x.y, codes[i][TOGETHER / 4 - 2] = x.z,
                codes[i][TOGETHER / 4 - 1] = x.w;
            } else {
                const uint2 x = *(const uint2 *)from;
                codes[i][0] = x.x, codes[i][1] = x.y;
            }
        }
#pragma unroll
        for (int32_t j = 0; j < TOGETHER / 4; j++) {
            uint32_t lower[2], upper[2]; // of the first eight keys, of the others
            two_interleaved(codes[0][j], codes[1][j], lower);
            two_interleaved(codes[2][j], codes[3][j], upper);
#pragma unroll
            for (int32_t i = 0; i < 4; i++) {
                float *acc = state->acc[at + 4 * j + i];
                const uint2 a = codes_widen<VALUE_DTYPE>(lower[i / 2], odd),
                            b = codes_widen<VALUE_DTYPE>(upper[i / 2], odd);
                const uint2 v = i % 2 ? make_uint2(a.y, b.y) : make_uint2(a.x, b.x);
#if WEFT_PARTS == 1
                mma_narrow<VALUE_DTYPE>(acc, p[0], v.x, v.y);
#else
                float sum[4] = {};
#pragma unroll
                for (int32_t part = WEFT_PARTS - 1; part >= 0; part--)
                    mma_narrow<VALUE_DTYPE>(sum, p[part], v.x, v.y);
#pragma unroll
                for (int32_t e = 0; e < 4; e++)
                    acc[e] += sum[e];
#endif
            }
        }
    }
}

#endif
#endif
