// SPDX-License-Identifier: MIT
// Scores of eight rows where a vector is several parts of 128 bits (attention_avx512.c): every fourth number of
// a key, four times each, meets the same numbers of four rows. So a load of queries serves PART_KEYS keys, and
// of a score four lanes are added up instead of 16. Part of attention_few.h.
//
//      q of 16 numbers     [number % 4][four rows]  vectors of [number / 4][row], `width` apart as the rows were
#ifndef WEFT_KERNELS_ATTENTION_PARTS_H
#define WEFT_KERNELS_ATTENTION_PARTS_H

enum { FOURS = FEW_ROWS / 4 };

// The queries of eight rows, in the places that they have.
static void turn_queries(float *q, int32_t width)
{
    for (int32_t column = 0; column < width; column += VF32_LANES) {
        vf32 rows[FEW_ROWS];
        for (int r = 0; r < FEW_ROWS; r++)
            rows[r] = vf32_load(q + r * width + column);
        for (int four = 0; four < FOURS; four++) {
            vf32 parts[4];
            turn_fours(rows + 4 * four, parts);
            for (int i = 0; i < 4; i++)
                vf32_store(q + (i * FOURS + four) * width + column, parts[i]);
        }
    }
}

// sums[key][four rows] += their products with one vector of PART_KEYS keys. `rest` of its elements exist if
// that is not 0.
INLINE void score_parts_of(struct shape shape, const struct group *g, const float *q,
                           int32_t column, const int rest, vf32 *sums)
{
    vf32 keys[PART_KEYS];
    VF32_UNROLL
    for (int j = 0; j < PART_KEYS; j++)
        keys[j] = rest ? load_kv_n(shape.kv, g->pool, g->at[j] + column, rest)
                       : load_kv(shape.kv, g->pool, g->at[j] + column);
    VF32_UNROLL
    for (int part = 0; part < 4; part++) {
        vf32 x[FOURS];
        VF32_UNROLL
        for (int i = 0; i < FOURS; i++) {
            x[i] = vf32_load(q + (part * FOURS + i) * shape.width + column);
            WEFT__IN_REGISTER(x[i]);
        }
        VF32_UNROLL
        for (int j = 0; j < PART_KEYS; j++) {
            const vf32 key = spread(keys[j], part);
            VF32_UNROLL
            for (int i = 0; i < FOURS; i++)
                sums[j * FOURS + i] = vf32_fma(x[i], key, sums[j * FOURS + i]);
        }
    }
}

// Scores of the rows against PART_KEYS keys, to scores[row][BLOCK].
INLINE void score_parts(struct shape shape, const struct group *g, const float *q, float *scores)
{
    const int size = elem_bytes(shape), line = LINE / size;
    const int32_t whole = shape.head_dim / VF32_LANES * VF32_LANES;
    const bool in_order = shape.in_order && PART_KEYS % lines_of(shape) == 0;
    vf32 sums[PART_KEYS * FOURS], both[4];
    VF32_UNROLL
    for (int i = 0; i < PART_KEYS * FOURS; i++)
        sums[i] = vf32_zero();
    for (int32_t column = 0; column < whole; column += VF32_LANES) {
        if (column % line == 0)
            VF32_UNROLL
        for (int j = 0; j < PART_KEYS; j++) {
            if (in_order) {
                ask_near(shape, g, j, column);
                ask_far(shape, g, column / line * PART_KEYS, j);
            } else
                ask(shape, g, j, column, size);
        }
        score_parts_of(shape, g, q, column, 0, sums);
    }
    if (whole < shape.head_dim)
        score_parts_of(shape, g, q, whole, shape.head_dim - whole, sums);
    VF32_UNROLL
    for (int i = 0; i < 4; i++)
        both[i] = add_parts(sums + 4 * i);
    store_parts(both, scores, BLOCK);
}

#endif
