// SPDX-License-Identifier: MIT
// What a lane does with its scores and weights of sixteen rows by KEYS keys, laid out as tensor cores give and
// take them: [eight keys][2 half + i] is row lane / 4 + 8 half, key 2 (lane % 4) + i of the eight.
#ifndef WEFT_KERNELS_ATTENTION_SCORES_CUH
#define WEFT_KERNELS_ATTENTION_SCORES_CUH

#include "src/kernels/attention/attention_rows.cuh"

#if WEFT_SCATTER
// What row `row` sees of a lane's keys, two of every eight, a bit each.
DEVICE uint32_t row_sees(const struct weft__attention_device_args *args, struct rows rows,
                         struct lengths lengths, int32_t row, int32_t key0, int32_t lane)
{
    const struct row at = row_at(args, rows, min(row, rows.count - 1));
    const uint64_t word =
        row < rows.count ? seen_word(args, lengths, at.token, at.head, key0 + 2 * (lane % 4)) : 0;
    uint32_t seen = 0;
#pragma unroll
    for (int32_t t = 0; t < KEYS / 8; t++)
        seen |= ((uint32_t)(word >> 8 * t) & 3) << 2 * t;
    return seen;
}

// Minus infinity where row_sees() says so; of the second half of the rows from bit `second` on.
DEVICE void scores_hide(uint32_t seen, int32_t second, float score[KEYS / 8][4])
{
#pragma unroll
    for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
        for (int32_t i = 0; i < 4; i++)
            if (!(seen >> (2 * t + i % 2 + i / 2 * second) & 1))
                score[t][i] = NEGATIVE_INFINITY;
}
#endif

// Where a row does not see a key, minus infinity; `row0` is the first of the sixteen.
DEVICE void scores_mask(const struct weft__attention_device_args *args, struct rows rows,
                        struct lengths lengths, int32_t row0, int32_t key0, int32_t lane,
                        float score[KEYS / 8][4])
{
#if WEFT_SCATTER
    uint32_t seen = 0;
#pragma unroll 1 // long text that runs seldom is found cold
    for (int32_t half = 0; half < 2; half++)
        seen |= row_sees(args, rows, lengths, row0 + lane / 4 + 8 * half, key0, lane) << 16 * half;
    scores_hide(seen, 16, score);
#else
#pragma unroll
    for (int32_t half = 0; half < 2; half++) {
        const int32_t row = row0 + lane / 4 + 8 * half, key = key0 + 2 * (lane % 4);
        const struct row at = row_at(args, rows, min(row, rows.count - 1));
        const struct keys keys = keys_of(args, lengths, at.token);
        const int32_t begin = keys.begin - key, end = keys.end - key;
#pragma unroll
        for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
            for (int32_t i = 0; i < 2; i++)
                if (8 * t + i < begin || 8 * t + i >= end)
                    score[t][2 * half + i] = NEGATIVE_INFINITY;
    }
#endif
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
