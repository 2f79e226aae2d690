// SPDX-License-Identifier: MIT
// Turns of a few keys and as many values of a block, from where they lie to the tiles of AMX. Part of attention_few_amx.c.
#ifndef WEFT_KERNELS_ATTENTION_FEW_TURNS_AMX_H
#define WEFT_KERNELS_ATTENTION_FEW_TURNS_AMX_H

#include "src/kernels/attention/attention_few_rows_amx.h"

enum {
    TURN = 4, // rows of each
    TURNS = BLOCK / TURN,
    SIXTEEN_TURNS = 16 / TURN,
    ASK_BYTES = 64,
    PIECES = 2, // of the rows that are asked for, which are asked for side by side
};

// How four rows of a plane are read, and which four rows are asked for meanwhile.
struct turn {
    const char *pool;
    const int64_t *at, *ask;
    int32_t size, dim, lines; // of a row
    int pieces;               // of 64 rows, which are asked for side by side; 1: rows lie anyhow
};

// Turn i.
INLINE struct turn turn_of(const struct weft__attention_call *call,
                           const struct weft__attention_plane *plane, const int64_t *at,
                           weft_dtype kv, const int32_t dim, int32_t i)
{
    const int32_t size = is_code(kv) ? 1 : 2, lines = (dim * size + ASK_BYTES - 1) / ASK_BYTES;
    const int pieces = !__builtin_constant_p(dim) ? 1 : lines < 4 ? PIECES : 2 * PIECES;
    const int64_t *ask = call->ahead ? at + FAR : at;
    return (struct turn){plane->data, at, ask + i * TURN / pieces, size, dim, lines, pieces};
}

// Asks for a line, for L2: that at `column` of row j of the turn, or, in pieces, line n of the turn.
INLINE void ask_line(const struct turn *turn, int j, int32_t column, int n)
{
    const int pieces = turn->pieces, lines = turn->lines;
    const int row = pieces == 1 ? j : n % pieces * (BLOCK / pieces) + n / (pieces * lines);
    const char *from = turn->pool + turn->size * turn->ask[row];
    _mm_prefetch(from + (pieces == 1 ? turn->size * column : n / pieces % lines * ASK_BYTES),
                 _MM_HINT_T1);
}

// 64 codes, or 32 numbers, of row `first` + j from `column` on. Asks for line n.
INLINE __m512i take_line(const struct turn *turn, int32_t first, int j, int32_t column, int n)
{
    const char *from = turn->pool + turn->size * (turn->at[first + j] + column);
    ask_line(turn, j, column, n);
    return turn->size == 1 ? load_codes(from, turn->dim, column) : _mm512_loadu_si512(from);
}

// Keys to the tiles of their sixteen.
INLINE void take_keys(const struct tiles *t, weft_dtype kv, const struct code_table *table,
                      const struct turn *turn, int32_t first)
{
    const int64_t steps = t->rows.pairs / 16;
    uint16_t *row = t->keys + first / 16 % 2 * steps * TILE_NUMBERS + first % 16 * 32;
    VF32_UNROLL
    for (int32_t j = 0; j < TURN; j++, row += 32) {
        uint16_t *to = row;
        VF32_UNROLL
        for (int32_t column = 0; column < turn->dim; column += group_of(kv)) {
            __m512i x[2] = {
                take_line(turn, first, j, column, j * turn->lines + column / group_of(kv))};
            if (is_code(kv))
                widen_codes(kv, table, x[0], x);
            VF32_UNROLL
            for (int i = 0; i < group_of(kv) / GROUP; i++, to += TILE_NUMBERS)
                _mm512_storeu_si512(to, x[i]);
        }
    }
}

// 32 numbers of f16 of row `first` + j from `column` on. Asks for line n.
INLINE const uint16_t *ask_line_f16(const struct turn *turn, int32_t first, int j, int32_t column,
                                    int n)
{
    ask_line(turn, j, column, n);
    return (const uint16_t *)(const void *)turn->pool + turn->at[first + j] + column;
}

// Keys of f16: first parts, second parts.
INLINE void take_keys_f16(const struct tiles *t, const struct turn *turn, int32_t first)
{
    const int64_t part = (int64_t)turn->dim / GROUP * TILE_NUMBERS;
    uint16_t *row = t->keys + first / 16 % 2 * 2 * part + first % 16 * 32;
    VF32_UNROLL
    for (int32_t j = 0; j < TURN; j++, row += 32) {
        uint16_t *to = row;
        VF32_UNROLL
        for (int32_t column = 0; column < turn->dim; column += GROUP, to += TILE_NUMBERS) {
            const uint16_t *from =
                ask_line_f16(turn, first, j, column, j * turn->lines + column / GROUP);
            const struct parts x = parts_of_f16(load_sixteen(from), load_sixteen(from + 16));
            _mm512_storeu_si512(to, x.most);
            _mm512_storeu_si512(to + part, x.rest);
        }
    }
}

// 0 times a number that is none is not 0: where some row does not see the key these are left out, for add_wild().
static __attribute__((noinline)) void tame_pair(struct tiles *t, int32_t pair, uint16_t *to)
{
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    const __mmask32 even = 0x55555555u, odd = even << 1;
    const __mmask32 unseen = (t->rows.by_all >> (2 * pair) & 1 ? 0 : even) |
                             (t->rows.by_all >> (2 * pair + 1) & 1 ? 0 : odd);
    for (int32_t i = 0; i < columns_of(&t->rows); i++, to += TILE_NUMBERS) {
        const __m512i x = _mm512_loadu_si512(to);
        const __mmask32 wild =
            _mm512_mask_cmpeq_epi16_mask(unseen, _mm512_and_si512(x, exponent), exponent);
        t->wild |= (uint64_t)((wild & even) != 0) << 2 * pair;
        t->wild |= (uint64_t)((wild & odd) != 0) << (2 * pair + 1);
        _mm512_storeu_si512(to, _mm512_maskz_mov_epi16(~wild, x));
    }
}

// A line of each of two values to pairs.
INLINE void pair_lines(weft_dtype kv, const struct code_table *table, __m512i a, __m512i b,
                       __m512i x[4])
{
    if (is_code(kv)) {
        widen_codes(kv, table, _mm512_unpacklo_epi8(a, b), x);
        widen_codes(kv, table, _mm512_unpackhi_epi8(a, b), x + 2);
    } else {
        x[0] = _mm512_unpacklo_epi16(a, b);
        x[1] = _mm512_unpackhi_epi16(a, b);
    }
}

// Values to their place among the tiles of 32. Past the block's last, that again, which no row sees.
INLINE void take_values(struct tiles *t, weft_dtype kv, const struct code_table *table,
                        const struct turn *turn, int32_t first)
{
    uint16_t *row = t->values + first % 32 / 2 * 32;
    VF32_UNROLL
    for (int32_t j = 0; j < TURN; j += 2, row += 32) {
        uint16_t *to = row;
        VF32_UNROLL
        for (int32_t column = 0; column < turn->dim; column += group_of(kv)) {
            __m512i x[4];
            const int n = j * turn->lines + 2 * column / group_of(kv);
            pair_lines(kv, table, take_line(turn, first, j, column, n),
                       take_line(turn, first, j + 1, column, n + 1), x);
            VF32_UNROLL
            for (int i = 0; i < group_of(kv) / 16; i++, to += TILE_NUMBERS)
                _mm512_storeu_si512(to, x[i]);
        }
        if (kv != WEFT_INT8 && (t->rows.by_all >> (first + j) & 3) != 3)
            tame_pair(t, (first + j) / 2, row);
    }
}

// The parts of two values of which some numbers are infinite or none, without these: they have no second part, and are left
// for add_wild().
static __attribute__((noinline)) void tame_parts(struct tiles *t, const uint16_t *a,
                                                 const uint16_t *b, int32_t dim, int32_t first,
                                                 uint16_t *to)
{
    const int64_t part = (int64_t)dim / 16 * TILE_NUMBERS;
    for (int32_t i = 0; i < dim; i += 16, to += TILE_NUMBERS) {
        const struct parts x = parts_of_f16(tame_sixteen(a + i), tame_sixteen(b + i));
        t->wild |= (uint64_t)has_wild(a + i) << first;
        t->wild |= (uint64_t)has_wild(b + i) << (first + 1);
        _mm512_storeu_si512(to, x.most);
        _mm512_storeu_si512(to + part, x.rest);
    }
}

// Values of f16: first parts, second parts of a half of a block.
INLINE void take_values_f16(struct tiles *t, const struct turn *turn, int32_t first)
{
    const int64_t part = (int64_t)turn->dim / 16 * TILE_NUMBERS;
    uint16_t *row = t->values + first % 32 / 2 * 32;
    VF32_UNROLL
    for (int32_t j = 0; j < TURN; j += 2, row += 32) {
        __m512i largest = _mm512_setzero_si512();
        uint16_t *to = row;
        VF32_UNROLL
        for (int32_t column = 0; column < turn->dim; column += GROUP) {
            const int n = j * turn->lines + 2 * column / GROUP;
            const uint16_t *a = ask_line_f16(turn, first, j, column, n);
            const uint16_t *b = ask_line_f16(turn, first, j + 1, column, n + 1);
            largest = largest_f16(largest_f16(largest, a), b);
            VF32_UNROLL
            for (int i = 0; i < GROUP; i += 16, to += TILE_NUMBERS) {
                const struct parts x = parts_of_f16(load_sixteen(a + i), load_sixteen(b + i));
                _mm512_storeu_si512(to, x.most);
                _mm512_storeu_si512(to + part, x.rest);
            }
        }
        if (is_wild_f16(largest))
            tame_parts(t, (const uint16_t *)(const void *)turn->pool + turn->at[first + j],
                       (const uint16_t *)(const void *)turn->pool + turn->at[first + j + 1],
                       turn->dim, first + j, row);
    }
}

// Four keys, and four values unless `value` is.
INLINE void take_turn_of(struct tiles *t, weft_dtype kv, const int32_t k_dim, const int32_t v_dim,
                         int32_t key, int32_t value)
{
    const struct rows *s = &t->rows;
    const struct code_table table = t->table;
    const int32_t i = value < 0 ? 0 : value / TURN;
    const struct turn keys = turn_of(s->call, &s->call->k, s->at, kv, k_dim, i);
    if (kv == WEFT_F16)
        take_keys_f16(t, &keys, key);
    else
        take_keys(t, kv, &table, &keys, key);
    if (value >= 0) {
        const struct turn values = turn_of(s->call, &s->call->v, s->values_at, kv, v_dim, i);
        if (kv == WEFT_F16)
            take_values_f16(t, &values, value);
        else
            take_values(t, kv, &table, &values, value);
    }
}

// Functions of their own, for the compiler to have registers for each.
#define TAKE(kv)                                                                                   \
    static __attribute__((noinline)) void take_##kv(struct tiles *t, int32_t key, int32_t value)   \
    {                                                                                              \
        const int32_t k_dim = t->rows.call->k.dim, v_dim = t->rows.call->v.dim;                    \
        if (k_dim == 128 && v_dim == 128)                                                          \
            take_turn_of(t, WEFT_##kv, 128, 128, key, value);                                      \
        else if (k_dim == 64 && v_dim == 64)                                                       \
            take_turn_of(t, WEFT_##kv, 64, 64, key, value);                                        \
        else                                                                                       \
            take_turn_of(t, WEFT_##kv, k_dim, v_dim, key, value);                                  \
    }
TAKE(INT8)
TAKE(FP8_E4M3)
TAKE(FP8_E5M2)
TAKE(BF16)
TAKE(F16)

static void take_turn(struct tiles *t, int32_t key, int32_t value)
{
    switch (t->rows.call->k.dtype) {
    case WEFT_INT8: take_INT8(t, key, value); break;
    case WEFT_FP8_E4M3: take_FP8_E4M3(t, key, value); break;
    case WEFT_FP8_E5M2: take_FP8_E5M2(t, key, value); break;
    case WEFT_F16: take_F16(t, key, value); break;
    default: take_BF16(t, key, value);
    }
}

#endif
