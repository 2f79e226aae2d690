// SPDX-License-Identifier: MIT
// What attention by products of pairs (attention_pairs_avx512bf16.c) keeps for the rows of a tile, and what they see.
//
//      q       [block of rows][vector][16]                     pairs of bf16 (load_pairs()); of codes in the order of
//                                                              unpacking (place_of_pair())
//      scores  [vector][lane]                                  f32
//      weight  [block of rows][pair of keys][row]              pairs of bf16
//      acc     [block of rows][group of columns][row][16 ..]   f32, columns in the order of unpacking (store_row());
//                                                              of bf16 blocks of four rows
#ifndef WEFT_KERNELS_ATTENTION_PAIRS_H
#define WEFT_KERNELS_ATTENTION_PAIRS_H

#include <math.h>

#include "src/base/half.h"
#include "src/kernels/attention/attention_walk.h"
#include "src/kernels/cpu/avx512.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    LANES = 16,
    FEW = 4, // lanes of a block of rows of bf16, of which up to two grow together
    PAIRS = BLOCK / 2,
    GROUP = 32,      // columns: a line of a value
    CODE_GROUP = 64, // the same of codes of a byte
    KEY_SCORES = 64, // of keys times rows that grow together
    TWO_CODES = 32,  // of each of two keys, which are a vector
    TWO_PAIRS = 8,   // of elements of each, which are a vector of bf16
    UNIT_SUMS = 8,   // of codes, sums of products that grow together
    VALUE_ROWS = 8,  // rows whose results grow together
    NEAR = 16,       // rows that are asked for ahead, from L2 for L1; of codes twice as many
    LINE_PAIRS = 16, // pairs of elements of a line
    STEP = 4,        // vectors of scores that become weights together
    FAR = 2 * BLOCK, // places: of this block, of the next one that is read, of rows to be asked for
    PLACES = 3 * BLOCK,
};

static const float LOG2E = 1.44269504088896340736f;

struct rows {
    const struct weft__attention_call *call;
    const struct weft__attention_tile *tile;
    int32_t rows, blocks, groups, pairs; // of rows; of columns; of elements of a head
    int32_t columns;                     // of a group
    uint32_t *q, *weight;
    uint32_t *q_rest;              // of up to 16 rows over f16, its second parts
    float *scores, *acc, *row;     // row: [columns] on its way out
    float *largest, *sum, *shrink; // [block of rows][lane]
    float *slope, *own;            // [block of rows][lane]: ALiBi; own: positions, int32_t
    float *order;                  // [LANES]: order_of_weights()
    float *key_scale,
        *value_scale;         // as scores, of codes; of f16 rest_of_scores(), rest_of_weights()
    bool scaled;              // are they needed?
    uint64_t *seen;           // [rows], twice: keys of the block
    uint64_t by_all, by_some; // of all rows
    // Keys that all rows see, and of which intervals say everything.
    struct weft__attention_span all;
    int64_t *at,
        *values_at; // [PLACES]; the same if the planes lie alike
    const struct block *block;
};

// What lane i of a vector of scores is: a row of the block, and a key of those that the vector has.
INLINE int row_of(const int lanes, int i)
{
    return lanes == 16 ? i : lanes == 8 ? i / 4 * 2 + i % 2 : i / 4;
}

INLINE int key_of(const int lanes, int i)
{
    return lanes == 16 ? 0 : lanes == 8 ? i / 2 % 2 : i % 4;
}

// The first lane of a row.
INLINE int lane_of(const int lanes, int row)
{
    return lanes == 16 ? row : lanes == 8 ? row / 2 * 4 + row % 2 : row * 4;
}

INLINE int64_t row_blocks(int64_t rows)
{
    return (rows + LANES - 1) / LANES;
}

// Codes of a byte an element; else it is bf16, or f16 in two parts of that.
INLINE bool is_code(weft_dtype kv)
{
    return kv != WEFT_BF16 && kv != WEFT_F16;
}

INLINE int32_t group_of(weft_dtype kv)
{
    return is_code(kv) ? CODE_GROUP : GROUP;
}

INLINE int64_t groups_of(int32_t dim, int32_t columns)
{
    return (dim + columns - 1) / columns;
}

// Of f16, which has no scales: what second parts of keys add to scores, and second parts of weights.
INLINE float *rest_of_scores(const struct rows *s)
{
    return s->key_scale;
}

INLINE uint32_t *rest_of_weights(const struct rows *s)
{
    return (uint32_t *)(void *)s->value_scale;
}

static float *take(float **at, int64_t words)
{
    float *taken = *at;
    *at += words;
    return taken;
}

// Bytes of scratch that lay_out() divides.
static inline int64_t rows_bytes(int32_t rows, int32_t head_dim, int32_t v_dim)
{
    const int64_t blocks = row_blocks(rows), padded = blocks * LANES;
    const int64_t columns = groups_of(v_dim, CODE_GROUP) * CODE_GROUP;
    const int64_t pairs = groups_of(head_dim, CODE_GROUP) * (CODE_GROUP / 2);
    const int64_t words = padded * (pairs + columns + PAIRS + 4 * (3 + 2) + 4) + 3 * BLOCK * LANES +
                          LANES * pairs + columns + LANES + 4 * PLACES;
    return words * 4 + 64;
}

static struct rows lay_out(const struct weft__attention_call *call,
                           const struct weft__attention_tile *tile)
{
    const struct weft__attention_plane *k = &call->k, *v = &call->v;
    struct rows s = {.call = call, .rows = weft__attention_rows(call, tile)};
    float *at = tile->scratch;
    s.blocks = (int32_t)row_blocks(s.rows);
    s.columns = group_of(k->dtype);
    s.groups = (int32_t)groups_of(v->dim, s.columns);
    s.pairs = (int32_t)groups_of(k->dim, s.columns) * s.columns / 2;
    s.scaled = k->scales || v->scales;
    const int64_t padded = (int64_t)s.blocks * LANES;
    s.scores = take(&at, BLOCK * LANES);
    s.weight = (uint32_t *)(void *)take(&at, padded * PAIRS);
    s.q = (uint32_t *)(void *)take(&at, padded * s.pairs);
    s.q_rest = (uint32_t *)(void *)take(&at, (int64_t)LANES * s.pairs);
    s.acc = take(&at, padded * s.groups * s.columns);
    s.row = take(&at, (int64_t)s.groups * s.columns);
    s.key_scale = take(&at, BLOCK * LANES);
    s.value_scale = take(&at, BLOCK * LANES);
    s.largest = take(&at, 4 * padded);
    s.sum = take(&at, 4 * padded);
    s.shrink = take(&at, 4 * padded);
    s.slope = take(&at, 4 * padded);
    s.own = take(&at, 4 * padded);
    s.order = take(&at, LANES);
    s.seen = (uint64_t *)(void *)take(&at, 4 * padded);
    s.at = (int64_t *)(void *)take(&at, 2 * PLACES);
    s.values_at = (int64_t *)(void *)take(&at, 2 * PLACES);
    if (k->page_stride == v->page_stride && k->head_stride == v->head_stride &&
        k->token_stride == v->token_stride)
        s.values_at = s.at;
    return s;
}

// Where pair i of row r lies in a block of rows over codes. 16 rows: for products of four rows 64 codes as unpacking leaves
// them, in each part of 16 the first eight and the others. Few rows: 16 pairs of a row, each 8 in two halves.
INLINE int32_t place_of_pair(const int lanes, int32_t r, int32_t i)
{
    if (lanes < LANES)
        return ((i / 16 * 2 + i % 8 / 4) * lanes + r) * TWO_PAIRS + i % 16 / 8 * 4 + i % 4;
    return (i / 32 * 2 + i % 8 / 4) * LINE_PAIRS * lanes + i % 4 * 4 * lanes + r / 4 * LANES +
           i % 32 / 8 * 4 + r % 4;
}

static inline void open_rows(struct rows *s, const int lanes)
{
    const struct weft__attention_call *call = s->call;
    const struct weft__attention_lengths *lengths = &call->lengths;
    const int32_t seq = s->tile->seq;
    const int32_t before =
        lengths->kv_lens[seq] - (lengths->cu_q_lens[seq + 1] - lengths->cu_q_lens[seq]);
    memset(s->acc, 0,
           (size_t)s->blocks * (size_t)(s->groups * s->columns * lanes) * sizeof *s->acc);
    for (int32_t i = 0; i < s->blocks * LANES; i++) {
        s->largest[i] = -INFINITY;
        s->sum[i] = 0;
    }
    for (int32_t i = 0; i < s->blocks * LANES && call->alibi_slopes; i++) {
        int32_t row = i / LANES * lanes + row_of(lanes, i % LANES), own = 0;
        row = row < s->rows ? row : s->rows - 1;
        own = before + weft__attention_token(call, s->tile, row);
        memcpy(&s->own[i], &own, sizeof own);
        s->slope[i] = call->alibi_slopes[weft__attention_head(call, s->tile, row)] * LOG2E;
    }
}

static struct weft__attention_span seen_by_all(const struct rows *s)
{
    const struct weft__attention_call *call = s->call;
    const struct weft__attention_lengths *lengths = &call->lengths;
    const int32_t seq = s->tile->seq;
    const int32_t q_len = lengths->cu_q_lens[seq + 1] - lengths->cu_q_lens[seq];
    struct weft__attention_span all = {0, scattered_from(call, seq)};
    for (int32_t r = 0; r < s->rows; r += call->tile_heads) {
        const struct weft__attention_span one = weft__attention_visible(
            &call->mask, q_len, lengths->kv_lens[seq], weft__attention_start(lengths, seq),
            weft__attention_token(call, s->tile, r));
        all.begin = one.begin > all.begin ? one.begin : all.begin;
        all.end = one.end < all.end ? one.end : all.end;
    }
    return all;
}

// What the rows see of the block.
static void look(struct rows *s)
{
    const int32_t first = s->block->first, n = s->block->n;
    const uint64_t block = n == BLOCK ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
    s->by_all = s->by_some = block;
    if (s->all.begin <= first && first + n <= s->all.end) {
        for (int32_t r = 0; r < s->rows; r++)
            s->seen[r] = block;
        return;
    }
    s->by_some = 0;
    for (int32_t r = 0; r < s->rows; r++) {
        s->seen[r] = block & weft__attention_word(s->call, s->tile->seq,
                                                  weft__attention_token(s->call, s->tile, r),
                                                  weft__attention_head(s->call, s->tile, r), first);
        s->by_all &= s->seen[r];
        s->by_some |= s->seen[r];
    }
}

// The blocks of tiles that go through one walk: the places of the one after are found while one is worked at.
struct blocks {
    struct walk walk;
    struct block now, after;
};

static void find_after(const struct rows *s, struct blocks *blocks)
{
    int64_t *values = s->values_at == s->at ? NULL : s->values_at + BLOCK;
    blocks->after = next_block(s->call, &blocks->walk, s->at + BLOCK, values);
    memcpy(s->at + FAR, s->at + BLOCK, BLOCK * sizeof *s->at);
    if (values)
        memcpy(s->values_at + FAR, values, BLOCK * sizeof *values);
}

static struct blocks begin_blocks(const struct rows *s, const struct weft__attention_tile *tiles,
                                  int32_t count)
{
    struct blocks blocks = {.walk = {.next = tiles, .end = tiles + count}};
    s->at[BLOCK - 1] = s->values_at[BLOCK - 1] = 0;
    find_after(s, &blocks);
    return blocks;
}

// Is there another block? It is s->block then.
static bool next_of(struct rows *s, struct blocks *blocks)
{
    blocks->now = blocks->after;
    s->block = &blocks->now;
    if (blocks->now.n <= 0)
        return false;
    memcpy(s->at, s->at + BLOCK, BLOCK * sizeof *s->at);
    if (s->values_at != s->at)
        memcpy(s->values_at, s->values_at + BLOCK, BLOCK * sizeof *s->values_at);
    find_after(s, blocks);
    return true;
}

// Tiles from the first on that go through one walk: 0, the first has no keys.
static int32_t alike(const struct weft__attention_call *call,
                     const struct weft__attention_tile *tiles, int32_t count)
{
    int32_t n = 0, rows = weft__attention_rows(call, tiles);
    while (n < count && tiles[n].key0 < tiles[n].key1 &&
           weft__attention_rows(call, &tiles[n]) == rows)
        n++;
    return n;
}

#endif
