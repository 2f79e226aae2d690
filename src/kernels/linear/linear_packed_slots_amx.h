// SPDX-License-Identifier: MIT
// Eight slots of a unit (linear_packed_units_amx.h) by a tile of X: tiles multiply, vectors finish what they stored a while ago.
//
//      dot[slot]    sums of 16 rows of X, a lane is a row of W
//      total[x]     f32, kept over the units of 8 slots
#ifndef WEFT_KERNELS_LINEAR_PACKED_SLOTS_AMX_H
#define WEFT_KERNELS_LINEAR_PACKED_SLOTS_AMX_H

#include "src/kernels/linear/linear_packed_units_amx.h"

enum {
    LAG = 4, // slots until vectors take what tiles stored
};

// Slots by a tile of X.
struct step {
    const __m512i (*w)[QUADS];
    const __m512 *scale, *minimum;
    const struct unit *unit;
    const struct x_scales *x;
    int group;      // of the first slot, in x
    __m512 *total;  // of the tile's first row of X
    int first, end; // rows of X that are wanted
};

// What tiles store for vectors.
struct stored {
    _Alignas(64) int32_t dot[SLOTS][TILE_STEP][16];
    _Alignas(64) float least[TILE_STEP][16]; // minima by sums of X
};

// Adds the sums of slot i of a step, times their scales: late, those of X.
WEFT__INLINE void finish_slot(__m512 acc[TILE_STEP], const struct step *s, int32_t (*dot)[16],
                              int i, struct how how)
{
    const __m512 scale = s->scale[i], least = s->minimum[i];
    const int group = s->group + i / how.parts;
    WEFT__UNROLL for (int c = 0; c < how.rows; c++)
    {
        const __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(dot[c]));
        const __m512 x =
            _mm512_set1_ps(i % how.parts ? s->x->scaled[c][group] : s->x->scale[c][group]);
        acc[c] = _mm512_fmadd_ps(sum, how.late ? x : _mm512_mul_ps(scale, x), acc[c]);
        if (how.minimum)
            acc[c] = _mm512_fnmadd_ps(least, _mm512_set1_ps(s->x->scaled[c][group]), acc[c]);
    }
}

// Adds the sums of a step to the totals and begins anew. Late, all have one scale of W.
WEFT__INLINE void finish_step(struct stored *p, __m512 acc[TILE_STEP], const struct step *s,
                              struct how how)
{
    const __m512 scale = how.late ? s->scale[0] : _mm512_set1_ps(1), dmin = s->unit->dmin;
    const bool whole = how.whole || s->end - s->first == how.rows;
    __m512 sums[TILE_STEP];
    WEFT__UNROLL for (int c = 0; c < how.rows; c++)
    {
        sums[c] = how.late ? _mm512_mul_ps(acc[c], scale) : acc[c];
        if (how.minima)
            sums[c] = _mm512_fmadd_ps(_mm512_load_ps(p->least[c]), dmin, sums[c]);
        if (whole)
            s->total[c] = _mm512_add_ps(s->total[c], sums[c]);
    }
    for (int c = s->first; c < s->end && !whole; c++)
        s->total[c] = _mm512_add_ps(s->total[c], sums[c]);
    WEFT__UNROLL for (int c = 0; c < how.rows; c++)
    {
        acc[c] = _mm512_setzero_ps();
    }
}

// Slot i is loaded and multiplied, slot i - 2 stored, and vectors finish slot i - LAG: what tiles store is to be loaded a while
// later only. Two slots of a group have their tile of X, a2, in common.
#define SLOT(i, c, a, a2, b, stored)                                                               \
    tile_zero(c);                                                                                  \
    tile_load(b, now->w[i], TILE_ROW_BYTES);                                                       \
    if (how.parts == 1) {                                                                          \
        tile_load(a, q + (i)*WEFT__PACKED_GROUP, row_bytes);                                       \
        tile_dot_i8_i8(c, a, b);                                                                   \
    } else {                                                                                       \
        if ((i) % 2 == 0)                                                                          \
            tile_load(a2, q + (i) / 2 * WEFT__PACKED_GROUP, row_bytes);                            \
        tile_dot_i8_i8(c, a2, b);                                                                  \
    }                                                                                              \
    if ((i) >= 2)                                                                                  \
        tile_store(stored, p->dot[((i)-2) % SLOTS]);                                               \
    finish_slot(acc, (i) < LAG ? before : now, p->dot[((i) + SLOTS - LAG) % SLOTS],                \
                ((i) + SLOTS - LAG) % SLOTS, how);                                                 \
    if ((i) == LAG - 1)                                                                            \
        finish_step(p, acc, before, how);

// Minima, in tile 6 meanwhile, by part `n` of the sums of X, in tile 3.
#define MINIMA(n)                                                                                  \
    if ((n) < (int)how.minima) {                                                                   \
        if ((n) == 0) {                                                                            \
            tile_zero(3);                                                                          \
            tile_load(6, now->unit->minima, TILE_ROW_BYTES);                                       \
        }                                                                                          \
        tile_load(4, now->x->part[n], 4 * SLOTS);                                                  \
        tile_dot_bf16(3, 4, 6);                                                                    \
    }

// A unit that is unpacked beside the products of another, a group with each slot.
struct coming {
    struct unit *unit;
    const unsigned char *from, *ask; // the panel's chunks; what is asked for meanwhile
    int groups;                      // that the unit has
    struct head head;
};

WEFT__INLINE void unpack_beside(struct coming *next, int i, struct tile_format t)
{
    const struct weft__packed_shape shape = weft__packed_shape(t.f.dtype);
    const int groups = shape.cols / WEFT__PACKED_GROUP, g = i % groups;
    const int64_t chunk_bytes = shape.head_bytes + groups * (int64_t)shape.group_bytes,
                  lines = UNIT_COLS / shape.cols * chunk_bytes / 64;
    const unsigned char *chunk = next->from + i / groups * chunk_bytes;
    WEFT__UNROLL for (int64_t n = lines * i / SLOTS; n < lines * (i + 1) / SLOTS; n++)
    {
        __builtin_prefetch(next->ask + 64 * n, 0, 2);
    }
    if (groups < SLOTS && i >= next->groups) {
        clear_slot(next->unit, i);
        return;
    }
    struct group group;
    if (g == 0)
        t.f.begin(chunk, &next->head);
    if (t.minima)
        put_minima(next->unit, i, &next->head, t);
    t.f.unpack(chunk, chunk + shape.head_bytes + g * shape.group_bytes, g, &next->head, &group);
    put_group(next->unit, i, &group, t);
}

#define BESIDE(i)                                                                                  \
    if (next)                                                                                      \
        unpack_beside(next, i, t);

// The slots of a step by the tile of X at q, and what is left of the step before; beside them, if there is one, the next unit.
WEFT__INLINE void multiply_slots(struct stored *p, __m512 acc[TILE_STEP], const int8_t *q,
                                 int64_t row_bytes, const struct step *before,
                                 const struct step *now, struct how how, struct coming *next,
                                 struct tile_format t)
{
    SLOT(0, 0, 4, 4, 6, 1)
    BESIDE(0)
    SLOT(1, 1, 5, 4, 7, 2)
    BESIDE(1)
    MINIMA(0)
    SLOT(2, 2, 4, 5, 7, 0)
    BESIDE(2)
    SLOT(3, 0, 5, 5, 7, 1)
    BESIDE(3)
    MINIMA(1)
    SLOT(4, 1, 4, 4, 7, 2)
    BESIDE(4)
    SLOT(5, 2, 5, 4, 7, 0)
    BESIDE(5)
    MINIMA(2)
    SLOT(6, 0, 4, 5, 6, 1)
    BESIDE(6)
    if (how.minima)
        tile_store(3, p->least); // the step before has taken its own
    SLOT(7, 1, 5, 5, 7, 2)
    BESIDE(7)
    tile_store(0, p->dot[6]);
    tile_store(1, p->dot[7]);
}

// What is left of the last step.
WEFT__INLINE void multiply_end(struct stored *p, __m512 acc[TILE_STEP], const struct step *s,
                               struct how how)
{
    WEFT__UNROLL for (int i = SLOTS - LAG; i < SLOTS; i++)
    {
        finish_slot(acc, s, p->dot[i], i, how);
    }
    finish_step(p, acc, s, how);
}

#endif
