// SPDX-License-Identifier: MIT
// What a lane does with its scores and weights of sixteen rows by KEYS keys, laid out as tensor cores give and
// take them: [eight keys][2 half + i] is row lane / 4 + 8 half, key 2 (lane % 4) + i of the eight.
#ifndef WEFT_KERNELS_ATTENTION_SCORES_CUH
#define WEFT_KERNELS_ATTENTION_SCORES_CUH

#include "src/kernels/attention/attention_rows.cuh"

// Where a row does not see a key, minus infinity; `row0` is the first of the sixteen.
DEVICE void scores_mask(const struct weft__attention_device_args *args, struct rows rows,
                        struct lengths lengths, int32_t row0, int32_t key0, int32_t lane,
                        float score[KEYS / 8][4])
{
#if WEFT_SCATTER
    const uint32_t above = tree_is_small(args, lengths) ? tree_above(args, lengths, lane) : 0;
#endif
#pragma unroll
    for (int32_t half = 0; half < 2; half++) {
        const int32_t row = row0 + lane / 4 + 8 * half, key = key0 + 2 * (lane % 4);
        const struct row at = row_at(args, rows, min(row, rows.count - 1));
#if WEFT_SCATTER
        const uint32_t own = __shfl_sync(0xffffffffu, above, at.token);
        const uint64_t seen =
            row < rows.count ? seen_word(args, lengths, at.token, at.head, key, own) : 0;
#else
        const struct keys keys = keys_of(args, lengths, at.token);
        const int32_t begin = keys.begin - key, end = keys.end - key;
#endif
#pragma unroll
        for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
            for (int32_t i = 0; i < 2; i++)
#if WEFT_SCATTER
                if (!(seen >> (8 * t + i) & 1))
#else
                if (8 * t + i < begin || 8 * t + i >= end)
#endif
                    score[t][2 * half + i] = NEGATIVE_INFINITY;
    }
}

// The weights of keys 8 t to 8 t + 15 as tensor cores take them.
DEVICE void weights_narrow(const float weight[KEYS / 8][4], int32_t t, uint32_t p[WEFT_PARTS][4])
{
#pragma unroll
    for (int32_t i = 0; i < 4; i++) {
        const float *w = &weight[t + i / 2][i % 2 * 2];
        uint32_t parts[WEFT_PARTS];
        two_in_parts<VALUE_DTYPE>(w[0], w[1], parts);
#pragma unroll
        for (int32_t part = 0; part < WEFT_PARTS; part++)
            p[part][i] = parts[part];
    }
}

#endif
