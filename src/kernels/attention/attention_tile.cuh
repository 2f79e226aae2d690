// SPDX-License-Identifier: MIT
// ROWS rows of queries, sixteen or twice as many, against a tile of KEYS keys and values in shared memory: scores, weights,
// sums.
//
// A slot is KEYS rows of keys, then KEYS of values, ROW_BYTES apart, or boxes (attention_boxes.cuh). The kernel defines these,
// DIM, PART_BYTES, PLANE_BYTES, ROWS, KEEPS_QUERIES and SCORE_STEPS (sixteens of columns whose text stands side by side: fewer
// where a tile is rare and its instructions must be fetched).
#ifndef WEFT_KERNELS_ATTENTION_TILE_CUH
#define WEFT_KERNELS_ATTENTION_TILE_CUH

#include "src/kernels/attention/attention_acc.cuh"
#include "src/kernels/attention/attention_boxes.cuh"
#include "src/kernels/attention/attention_scores.cuh"

// The rows of queries as tensor cores take them, sixteen elements at a time, part after part; a kernel that has registers
// for all of them (KEEPS_QUERIES: of sixteen rows) loads them once an item.
struct queries {
    uint32_t of[KEEPS_QUERIES ? DIM / 16 : 1][WEFT_PARTS][4];
};

DEVICE void queries_take(uint32_t queries, int32_t i, int32_t lane, uint32_t q[WEFT_PARTS][4])
{
    const uint32_t row = queries + (lane % 16) * ROW_BYTES + lane / 16 * 16;
#pragma unroll
    for (int32_t part = 0; part < WEFT_PARTS; part++)
        load_matrix_4(q[part], row + part * PART_BYTES + i * 32);
}

DEVICE void queries_keep(uint32_t queries, int32_t lane, struct queries *kept)
{
#pragma unroll
    for (int32_t i = 0; KEEPS_QUERIES && i < DIM / 16; i++)
        queries_take(queries, i, lane, kept->of[i]);
}

// score[m][t]: rows 16 m.. by keys 8 t.. of the tile. queries: the rows, unless they are kept.
DEVICE void tile_scores(uint32_t queries, const struct queries *kept, const uint8_t *slot,
                        int32_t lane, float score[ROW_SIXTEENS][KEYS / 8][4])
{
    const uint32_t k_row = tile_row(shared_address(slot), lane / 16 * 8 + lane % 8, lane / 8 % 2);
    // of all parts but the first, or of every other sixteen: two chains
    float low[ROW_SIXTEENS][KEYS / 8][4] = {};
#pragma unroll(SCORE_STEPS)
    for (int32_t i = 0; i < DIM / 16; i++) {
        uint32_t k[KEYS / 16][4];
#pragma unroll
        for (int32_t t = 0; t < KEYS / 16; t++)
            load_matrix_4(k[t], tile_piece(k_row, i) + t * 16 * TILE_ROW_BYTES);
#pragma unroll
        for (int32_t m = 0; m < ROW_SIXTEENS; m++) {
            uint32_t own[WEFT_PARTS][4];
            if (!KEEPS_QUERIES)
                queries_take(queries + m * 16 * ROW_BYTES, i, lane, own);
            const uint32_t(*q)[4] = KEEPS_QUERIES ? kept->of[KEEPS_QUERIES ? i : 0] : own;
#pragma unroll
            for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
                for (int32_t part = 0; part < WEFT_PARTS; part++) {
                    const bool other = WEFT_PARTS > 1 ? part > 0 : i % 2;
                    mma_score(other ? low[m][t] : score[m][t], part, q[part], k[t / 2][t % 2 * 2],
                              k[t / 2][t % 2 * 2 + 1]);
                }
        }
    }
#pragma unroll
    for (int32_t m = 0; m < ROW_SIXTEENS; m++)
#pragma unroll
        for (int32_t i = 0; i < KEYS / 2; i++)
            if (i % 4 / 2 < STATE_EIGHTS)
                score[m][i / 4][i % 4] += low[m][i / 4][i % 4];
}

// Scores become weights exp2(score - largest), where `largest` may be SLACK behind; acc and sum follow it.
DEVICE void tile_weights(struct state *state, float score[KEYS / 8][4])
{
    float largest[2] = {state->largest[0], state->largest[1]};
#pragma unroll
    for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
        for (int32_t i = 0; i < 2 * STATE_EIGHTS; i++)
            largest[i / 2] = fmaxf(largest[i / 2], score[t][i]);
#pragma unroll
    for (int32_t i = 0; i < STATE_EIGHTS; i++)
        largest[i] = warp_max(largest[i], 4);
    // Every row for itself: what a row's bits are does not depend on which others the tile has.
    const bool follows[2] = {largest[0] > state->largest[0] + SLACK,
                             STATE_EIGHTS > 1 && largest[1] > state->largest[1] + SLACK};
    if (__any_sync(0xffffffffu, follows[0] || follows[1])) {
        float factor[2];
#pragma unroll
        for (int32_t i = 0; i < STATE_EIGHTS; i++) {
            factor[i] = follows[i] ? weight_of(state->largest[i], largest[i]) : 1.0f;
            state->largest[i] = follows[i] ? largest[i] : state->largest[i];
            state->sum[i] *= factor[i];
        }
#pragma unroll
        for (int32_t t = 0; t < STATE_DIM / 8; t++)
#pragma unroll
            for (int32_t i = 0; i < 2 * STATE_EIGHTS; i++)
                state->acc[t][i] *= factor[i / 2];
    }
#pragma unroll
    for (int32_t i = 0; i < STATE_EIGHTS;
         i++) // a row that has seen nothing: weights of 0, not of NaN
        largest[i] =
            state->largest[i] == NEGATIVE_INFINITY ? 0.0f : state->largest[i] - WEIGHT_OFFSET;
    float sum[2] = {0,
                    0}; // of the tile: many equal numbers added one by one are off in one direction
#pragma unroll
    for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
        for (int32_t i = 0; i < 4; i++) {
            score[t][i] = i / 2 < STATE_EIGHTS ? weight_exp2(score[t][i] - largest[i / 2]) : 0;
            sum[i / 2] += score[t][i];
        }
#pragma unroll
    for (int32_t i = 0; i < STATE_EIGHTS; i++)
        state->sum[i] += sum[i];
}

// The lane's row of the values of a tile.
DEVICE uint32_t values_row(const uint8_t *slot, int32_t lane)
{
    return tile_row(shared_address(slot + PLANE_BYTES), lane % 16, lane / 16);
}

// Sixteens of columns from `first` of the row on.
DEVICE void values_add(uint32_t v_row, const float weight[ROW_SIXTEENS][KEYS / 8][4],
                       struct state state[ROW_SIXTEENS], int32_t first)
{
#pragma unroll
    for (int32_t t = 0; t < KEYS / 8; t += 2) {
        uint32_t p[ROW_SIXTEENS][WEFT_PARTS][4];
#pragma unroll
        for (int32_t m = 0; m < ROW_SIXTEENS; m++)
            weights_narrow(weight[m], t, p[m]);
#pragma unroll
        for (int32_t i = 0; i < STATE_DIM / 8; i += 2) {
            uint32_t v[4];
            load_matrix_4_transposed(v, tile_piece(v_row, first + i / 2) + t * 8 * TILE_ROW_BYTES);
#pragma unroll
            for (int32_t m = 0; m < ROW_SIXTEENS; m++) {
#if WEFT_PARTS == 1
                mma_narrow<VALUE_DTYPE>(state[m].acc[i], p[m][0], v[0], v[1]);
                mma_narrow<VALUE_DTYPE>(state[m].acc[i + 1], p[m][0], v[2], v[3]);
#else
                float sum[2][4] = {};
#pragma unroll
                for (int32_t part = WEFT_PARTS - 1; part >= 0; part--) {
                    mma_narrow<VALUE_DTYPE>(sum[0], p[m][part], v[0], v[1]);
                    mma_narrow<VALUE_DTYPE>(sum[1], p[m][part], v[2], v[3]);
                }
#pragma unroll
                for (int32_t j = 0; j < 8; j++)
                    state[m].acc[i + j / 4][j % 4] += sum[j / 4][j % 4];
#endif
            }
        }
    }
}

DEVICE void tile_values(const uint8_t *slot, int32_t lane,
                        const float weight[ROW_SIXTEENS][KEYS / 8][4],
                        struct state state[ROW_SIXTEENS], int32_t column0 = 0)
{
    values_add(values_row(slot, lane), weight, state, column0 / 16);
}

#endif
