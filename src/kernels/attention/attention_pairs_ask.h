// SPDX-License-Identifier: MIT
// What products of pairs of bf16 ask memory for ahead: lines that this block reads soon, for L1, and those of the next block, for L2.
// Part of attention_pairs_avx512bf16.c. NOTES.md has the measurements.
#ifndef WEFT_KERNELS_ATTENTION_PAIRS_ASK_H
#define WEFT_KERNELS_ATTENTION_PAIRS_ASK_H

#include "src/kernels/attention/attention_pairs.h"

// Of 8 rows twice as far ahead as of 16, which take twice as long over a key.
INLINE void ask_near(const int lanes, const char *pool, const int64_t *at, int64_t column)
{
    __builtin_prefetch(pool + 2 * (at[lanes == 8 ? 2 * NEAR : NEAR] + column), 0, 3);
}

// What of the values' lines is asked for while rows take them: nothing, all, or what the first and the second of two rounds of rows
// ask for, so that memory is as busy in the second as in the first.
enum asking { NOTHING, ALL, FIRST_HALF, SECOND_HALF };

// The next line of the next block's keys or values to be asked for: in order of address, `end` columns a row.
struct line {
    const int64_t *at;
    int32_t column, end;
};

// That which the values of group `g` begin with: each group of columns asks for as many lines.
INLINE struct line first_line(const struct rows *s, const enum asking asks, int32_t g)
{
    const int32_t n =
        asks == ALL ? 2 * PAIRS * g : PAIRS * (asks == SECOND_HALF ? s->groups + g : g);
    return (struct line){s->values_at + FAR + n / s->groups, n % s->groups * GROUP,
                         s->groups * GROUP};
}

INLINE void ask_line(const char *pool, struct line *line)
{
    __builtin_prefetch(pool + 2 * (*line->at + line->column), 0, 2);
    line->column += GROUP;
    const bool over = line->column == line->end;
    line->at += over;
    line->column = over ? 0 : line->column;
}

// Asks for line n of those of the rows at[] of `dim` elements, in order of address, for L2.
INLINE void ask_far(const char *pool, const int64_t *at, const int32_t dim, const int32_t n)
{
    const int32_t lines = dim / GROUP;
    __builtin_prefetch(pool + 2 * (at[n / lines] + n % lines * GROUP), 0, 2);
}

#endif
