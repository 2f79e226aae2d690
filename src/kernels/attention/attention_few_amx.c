// SPDX-License-Identifier: MIT
// Few rows over caches of codes of a byte, of bf16 and of f16 on the tiles of AMX: what attention_tiles_amx.c and
// attention_f16_amx.c do, with tiles that are 4, 8 or 16 rows wide and high, so that neither the softmax nor the products of
// values work for rows that do not exist.
//
//      score[16 keys][rows]        =  key[16 keys][32 elements] * q[16 pairs of elements][rows]
//      acc[rows][16 columns]      +=  weight[rows][32 keys] * value[16 pairs of keys][16 columns]
//
// Memory is what counts, so keys and values change by turns of TURN rows, each asking for what lies near and far
// ahead (attention_few.h), and go to scratch as bf16, f16 in two parts. All else runs beside turns, a little at each, so
// that no product waits for what was just written, and nothing for a product. Keys are sixteen rows ahead of scores;
// values are read a block late, when their weights are there, and added a half later, so that no more than a block of
// them is in scratch:
//
//      turns of a block       | 0 .. 3       | 4 .. 7   | 8 .. 11        | 12 .. 15           |
//      keys                   | 16..31       | 32..47   | 48..63         | next block's 0..15 |
//      scores                 | 0..15        | 16..31   | 32..47         | 48..63             |
//      of the block before    | softmax      |          |                |                    |
//        its values           | 0..15        | 16..31   | 32..47         | 48..63             |
//      values that are added  | 32..63 of the one before it | 0..31 of the block before       |
//
// Heads that see the same keys go together, a block of one after that of the other (attention_heads.h). Scores are put
// in the order of attention_pairs.h; the softmax is that of pairs.
#include "src/kernels/attention/attention_few_turns_amx.h"
#include "src/kernels/attention/attention_pairs_heads.h"

// Tiles: 0 scores; 1 keys, values; 2 results; 3 weights; 4 to 7 queries of as many steps. Of f16 4 has scores of second
// parts, 5 second parts of keys and of values, 6 and 7 both of queries.
enum { QUERY_TILES = 4 };

enum { SOFTMAX_TURN = 1, HALF_TURNS = TURNS / HALVES };

struct few {
    struct tiles tiles; // of the block that is read
    struct rows rows
        [WEFT__ATTENTION_KEYS_HEADS]; // of heads that go together; of one head, of every other tile
    bool wild_queries[WEFT__ATTENTION_KEYS_HEADS];
    struct late blocks[2];
    struct late *late, *last; // last: its second half is added
    bool ready;               // are the first sixteen keys of the block in their tiles?
};

static struct tile_shapes shapes_of(const int lanes, const int parts)
{
    const uint8_t rows = (uint8_t)lanes;
    const uint16_t words = (uint16_t)(4 * lanes), fifth = parts == 2 ? 64 : words;
    return (struct tile_shapes){{16, 16, rows, rows, 16, 16, 16, 16},
                                {words, 64, 64, 64, words, fifth, words, words}};
}

// Numbers of a sixteen of keys, of half a block of values, of one part.
INLINE int64_t numbers_of_keys(const struct rows *s)
{
    return (int64_t)s->pairs / 16 * TILE_NUMBERS;
}

INLINE int64_t numbers_of_values(const struct rows *s)
{
    return (int64_t)columns_of(s) * TILE_NUMBERS;
}

// Step n of the scores of sixteen keys, from key `first` of the block on. Queries of the first steps are in their tiles.
INLINE void score_step(const struct tiles *t, const int lanes, int32_t first, int64_t n)
{
    const struct rows *s = &t->rows;
    if (n == 0)
        tile_zero(0);
    tile_load(1, t->keys + first / 16 % 2 * numbers_of_keys(s) + n * TILE_NUMBERS, TILE_ROW_BYTES);
    switch (n) {
    case 0:
        if (s->pairs > QUERY_TILES * 16)
            tile_load(4, s->q, 4 * lanes);
        tile_dot_bf16(0, 1, 4);
        break;
    case 1: tile_dot_bf16(0, 1, 5); break;
    case 2: tile_dot_bf16(0, 1, 6); break;
    case 3: tile_dot_bf16(0, 1, 7); break;
    default: tile_load(4, s->q + n * 16 * lanes, 4 * lanes); tile_dot_bf16(0, 1, 4);
    }
}

// The same of f16.
INLINE void score_parts(const struct tiles *t, const int lanes, int32_t first, int64_t n)
{
    const struct rows *s = &t->rows;
    const int64_t part = numbers_of_keys(s);
    const uint16_t *most = t->keys + first / 16 % 2 * 2 * part + n * TILE_NUMBERS;
    if (n == 0) {
        tile_zero(0);
        tile_zero(4);
    }
    tile_load(6, s->q + n * 16 * lanes, 4 * lanes);
    tile_load(7, s->q_rest + n * 16 * lanes, 4 * lanes);
    tile_load(1, most, TILE_ROW_BYTES);
    tile_load(5, most + part, TILE_ROW_BYTES);
    tile_dot_bf16(0, 1, 6);
    tile_dot_bf16(4, 5, 6);
    tile_dot_bf16(0, 1, 7);
    tile_dot_bf16(4, 5, 7);
}

INLINE void store_sixteen(const struct rows *s, const int lanes, const int parts, int32_t first)
{
    tile_store_rows(0, s->scores + first * lanes, (int64_t)4 * lanes);
    if (parts == 2)
        tile_store_rows(4, rest_of_scores(s) + first * lanes, (int64_t)4 * lanes);
}

// The queries of the first steps to their tiles.
INLINE void load_query_tiles(const struct rows *s, const int lanes)
{
    const int32_t steps = s->pairs / 16;
    tile_load(4, s->q, 4 * lanes);
    if (steps > 1)
        tile_load(5, s->q + 16 * lanes, 4 * lanes);
    if (steps > 2)
        tile_load(6, s->q + 2 * 16 * lanes, 4 * lanes);
    if (steps > 3)
        tile_load(7, s->q + 3 * 16 * lanes, 4 * lanes);
}

// The next tile of columns of a half of a block: stores the sums of the last one, adds its own.
INLINE void add_values(const struct few *f, struct late *late, const int lanes, const int parts,
                       const int half)
{
    const struct rows *s = &late->rows;
    const int32_t columns = columns_of(s), i = late->column++;
    const uint16_t *values = f->tiles.values + half * parts * numbers_of_values(s);
    const uint16_t *weights = late->weights + half * lanes * 32;
    float *acc = s->acc + i * lanes * LANES;
    if (i > 0)
        tile_store_rows(2, acc - lanes * LANES, TILE_ROW_BYTES);
    if (i == columns)
        return;
    tile_load(2, acc, TILE_ROW_BYTES);
    tile_load(3, weights, TILE_ROW_BYTES);
    tile_load(1, values + i * TILE_NUMBERS, TILE_ROW_BYTES);
    tile_dot_bf16(2, 3, 1);
    if (parts == 1)
        return;
    tile_load(5, values + numbers_of_values(s) + i * TILE_NUMBERS, TILE_ROW_BYTES);
    tile_dot_bf16(2, 3, 5);
    tile_load(3, weights + HALVES * lanes * 32, TILE_ROW_BYTES);
    tile_dot_bf16(2, 3, 1);
}

// What is left of a half.
INLINE void finish_half(const struct few *f, struct late *late, const int lanes, const int parts,
                        const int half)
{
    while (late->column <= columns_of(&late->rows))
        add_values(f, late, lanes, parts, half);
    late->column = 0;
    tiles_written();
}

// The softmax of the block before.
INLINE void weigh_late(const struct late *late, const int lanes, const int parts)
{
    const struct rows *s = &late->rows;
    const bool mask = s->by_all != ~UINT64_C(0) || s->call->generic;
    if (order_scores(s, lanes, parts) || (parts == 2 && late->wild_queries))
        score_wild_few(late, lanes);
    if (s->scaled && parts == 1) {
        spread_scales(s, lanes);
        adjust_scores(s, lanes, 0, s->scores);
    }
    if (mask)
        mask_scores(s, lanes, 0, s->scores);
    if (parts == 2)
        (lanes == 8 ? weigh_8_parts : weigh_16_parts)(s, 0);
    else
        weigh(s, lanes, 0, 1);
    turn_weights(s->weight, late->weights, lanes);
    if (parts == 2)
        turn_weights(rest_of_weights(s), late->weights + HALVES * lanes * 32, lanes);
    count_block(s, mask);
}

// The end of the block whose second half was added.
INLINE void finish_last(struct few *f, const int lanes, const int parts)
{
    struct late *last = f->last;
    finish_half(f, last, lanes, parts, 1);
    if (last->wild)
        add_wild(last, lanes);
    for (int32_t row = 0; last->ends && row < last->rows.rows; row++)
        store_row(&last->rows, lanes, row);
    last->any = false;
}

// What runs beside turn i.
INLINE void run_beside(struct few *f, const int lanes, const int parts, int32_t i, bool keys)
{
    const struct tiles *t = &f->tiles;
    const int32_t first = i / SIXTEEN_TURNS * 16, steps = t->rows.pairs / 16;
    const int32_t together = (steps + SIXTEEN_TURNS - 1) / SIXTEEN_TURNS;
    const int half = i < HALF_TURNS ? 1 : 0;
    tiles_written();
    if (i % SIXTEEN_TURNS == 0 && (i > 0 ? keys : f->late->any))
        store_sixteen(&t->rows, lanes, parts, i > 0 ? first - 16 : BLOCK - 16);
    for (int32_t n = i % SIXTEEN_TURNS * together, end = n + together; keys && n < end && n < steps;
         n++)
        (parts == 2 ? score_parts : score_step)(t, lanes, first, n);
    if (i == SOFTMAX_TURN && f->late->any)
        weigh_late(f->late, lanes, parts);
    if (i == HALF_TURNS && f->last->any)
        finish_last(f, lanes, parts);
    if (i == HALF_TURNS && f->late->any)
        shrink_sums(&f->late->rows, lanes);
    tiles_written();
    struct late *late = half ? f->last : f->late;
    const int32_t columns = late->any ? columns_of(&late->rows) : 0;
    const int32_t at_once = (columns + HALF_TURNS - 1) / HALF_TURNS;
    for (int32_t n = 0; n < at_once && late->column < columns; n++)
        add_values(f, late, lanes, parts, half);
}

// Turns of a block of keys, and of the values of the one before; keys: there is one.
INLINE void run_turns(struct few *f, const int lanes, const int parts, const bool keys)
{
    struct tiles *t = &f->tiles;
    struct late *late = f->late;
    for (int32_t i = 0; i < SIXTEEN_TURNS && keys && !f->ready; i++)
        take_turn(t, i * TURN, NULL, -1);
    if (keys && parts == 1)
        load_query_tiles(&t->rows, lanes);
    t->wild = 0;
    for (int32_t i = 0; i < TURNS; i++) {
        run_beside(f, lanes, parts, i, keys);
        take_turn(t, keys ? 16 + i * TURN : -1, &late->rows, late->any ? i * TURN : -1);
    }
    if (late->any)
        finish_half(f, late, lanes, parts, 0);
    late->wild = t->wild;
    f->late = f->last;
    f->last = late;
}

// Blocks whose values are not added yet.
static __attribute__((noinline)) void drain(struct few *f, const int lanes, const int parts)
{
    while (f->late->any || f->last->any)
        run_turns(f, lanes, parts, false);
}

// Hands on the block that was read.
INLINE void hand_on(struct few *f, const int parts, bool wild_queries)
{
    const struct rows *s = &f->tiles.rows;
    struct late *late = f->late;
    late->rows = *s;
    late->block = *s->block;
    late->rows.block = &late->block;
    late->rows.seen = late->seen;
    late->rows.values_at = late->values_at;
    memcpy(late->seen, s->seen, sizeof late->seen);
    memcpy(late->values_at, s->values_at, sizeof late->values_at);
    if (parts == 2)
        memcpy(late->at, s->at, sizeof late->at);
    late->wild_queries = wild_queries;
    late->column = 0;
    late->any = true;
    late->ends = ends_tile(s->block);
    f->ready = true;
}

INLINE bool is_of(const struct late *late, const struct rows *s)
{
    return late->any && late->rows.acc == s->acc;
}

// Rows h begin tile `tile`.
INLINE void begin_rows(struct few *f, int32_t h, const struct weft__attention_tile *tile,
                       const int lanes, const int parts)
{
    struct rows *s = &f->rows[h];
    const bool loaded = same_rows(s->tile, tile);
    if (is_of(f->late, s) || is_of(f->last, s))
        drain(f, lanes, parts);
    s->tile = tile;
    if (!loaded && parts == 2)
        f->wild_queries[h] = place_parts(s, lanes);
    else if (!loaded)
        place_pairs(s, lanes);
    open_rows(s, lanes);
    s->all = seen_by_all(s);
}

// The block at hand of rows h, whose tile is `tile`.
INLINE void attend_head(struct few *f, int32_t h, const struct weft__attention_tile *tile,
                        const int lanes, const int parts)
{
    struct rows *s = &f->tiles.rows;
    if (begins_tile(f->rows[h].block))
        begin_rows(f, h, tile, lanes, parts);
    *s = f->rows[h];
    tiles_written();
    look(s);
    if (s->by_some) {
        run_turns(f, lanes, parts, true);
        hand_on(f, parts, f->wild_queries[h]);
        return;
    }
    f->ready = false;
    if (!ends_tile(s->block))
        return;
    drain(f, lanes, parts);
    for (int32_t row = 0; row < f->rows[h].rows; row++)
        store_row(&f->rows[h], lanes, row);
}

static void lay_out_few(struct few *f, const struct weft__attention_call *call,
                        const struct weft__attention_tile *tiles, int32_t heads, const int lanes,
                        const int parts)
{
    struct tiles *t = &f->tiles;
    const struct rows *first = &f->rows[0];
    *t = lay_out_tiles(call, tiles);
    for (int32_t h = 0; h < (heads > 1 ? heads : 2); h++) {
        struct weft__attention_tile own = tiles[heads > 1 ? h : 0];
        own.scratch = (char *)tiles->scratch + h * bytes_of_head(call->k.dim, call->v.dim);
        struct rows *s = &f->rows[h];
        *s = lay_out(call, &own);
        if (h == 0)
            continue;
        s->scores = first->scores; // what is made for a block is used before the next one
        s->weight = first->weight;
        s->key_scale = first->key_scale;
        s->value_scale = first->value_scale;
        s->order = first->order;
        s->shrink = first->shrink;
        if (heads > 1)
            continue;
        s->at = first->at;
        s->values_at = first->values_at;
    }
    t->values = t->keys + 2 * parts * numbers_of_keys(first);
    uint16_t *weights = t->values + HALVES * parts * numbers_of_values(first);
    memset(f->blocks, 0, sizeof f->blocks);
    f->late = &f->blocks[0];
    f->last = &f->blocks[1];
    f->late->weights = weights;
    f->last->weights = weights + parts * HALVES * TILE_NUMBERS;
    f->ready = false;
    _mm512_storeu_si512(first->order, order_of_rows(lanes, parts));
}

// `count` tiles of as many rows, each with keys, of one head after the other or of heads that go together.
INLINE void attend_lanes(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count, int32_t heads,
                         const int lanes, const int parts)
{
    struct few f;
    struct lead lead;
    lay_out_few(&f, call, tiles, heads, lanes, parts);
    if (heads > 1)
        begin_lead(&lead, f.rows, tiles, count, heads);
    struct rows *walker = heads > 1 ? &lead.rows : f.rows;
    const struct weft__attention_tile *first = heads > 1 ? lead.first : tiles;
    struct blocks blocks = begin_blocks(walker, first, count / heads);
    tiles_begin_as(shapes_of(lanes, parts));
    while (next_of(walker, &blocks))
        for (int32_t h = 0; h < heads; h++) {
            const int32_t tile = (int32_t)(walker->block->tile - first),
                          at = heads > 1 ? h : tile % 2;
            if (heads > 1)
                place_rows(&lead, heads, h, &f.rows[h]);
            f.rows[at].block = walker->block;
            attend_head(&f, at, tiles + tile * heads + h, lanes, parts);
        }
    drain(&f, lanes, parts);
    tiles_end();
}

static __attribute__((noinline)) void attend_parts(const struct weft__attention_call *call,
                                                   const struct weft__attention_tile *tiles,
                                                   int32_t count, int32_t heads)
{
    if (weft__attention_rows(call, tiles) <= 8)
        attend_lanes(call, tiles, count, heads, 8, 2);
    else
        attend_lanes(call, tiles, count, heads, LANES, 2);
}

int32_t weft__attention_few_on_tiles(const struct weft__attention_call *call,
                                     const struct weft__attention_tile *tiles, int32_t count)
{
    const int32_t rows = weft__attention_rows(call, tiles);
    int32_t n = alike(call, tiles, count);
    if (n == 0 || rows > LANES)
        return 0;
    const int32_t heads = heads_together(call, tiles, n);
    n = heads > 1 ? tiles_of_heads(call, tiles, n, heads) : n;
    if (call->k.dtype == WEFT_F16)
        attend_parts(call, tiles, n, heads);
    else if (rows <= 4)
        attend_lanes(call, tiles, n, heads, 4, 1);
    else if (rows <= 8)
        attend_lanes(call, tiles, n, heads, 8, 1);
    else
        attend_lanes(call, tiles, n, heads, LANES, 1);
    return n;
}
