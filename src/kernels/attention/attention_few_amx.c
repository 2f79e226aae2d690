// SPDX-License-Identifier: MIT
// Few rows over caches of codes of a byte, of bf16 and of f16 on the tiles of AMX: what attention_tiles_amx.c and
// attention_f16_amx.c do, with tiles that are 4, 8 or 16 rows wide and high, so that neither the softmax nor the products of
// values work for rows that do not exist.
//
//      score[16 keys][rows]        =  key[16 keys][32 elements] * q[16 pairs of elements][rows]
//      acc[rows][16 columns]      +=  weight[rows][32 keys] * value[16 pairs of keys][16 columns]
//
// Memory is what counts, so keys and values change by turns of TURN rows, each asking for lines of
// what is read next (place_next()), and go to scratch as bf16, f16 in two parts. All else runs beside turns, a little at each, so that no
// product waits for what was just written, and nothing for a product: keys are sixteen rows ahead of scores, the
// softmax and the products of values are those of the block before.
//
//      turns of a block     | 0 .. 3              | 4 .. 7   | 8 .. 11  | 12 .. 15           |
//      keys; values         | 16..31; 0..15       | 32..47   | 48..63   | next block's 0..15 |
//      scores               | 0..15               | 16..31   | 32..47   | 48..63             |
//      of the block before  | softmax, values ... |          |          |                    |
//
// Heads that see the same keys go together, a block of one after that of the other (attention_heads.h). Scores are put
// in the order of attention_pairs.h; the softmax is that of pairs.
#include "src/kernels/attention/attention_few_turns_amx.h"
#include "src/kernels/attention/attention_pairs_heads.h"

// Tiles: 0 scores; 1 keys, values; 2 results; 3 weights; 4 to 7 queries of as many steps. Of f16 4 has scores of second
// parts, 5 second parts of keys and of values, 6 and 7 both of queries.
enum { QUERY_TILES = 4 };

// Of the block before: its last scores are stored before the softmax; its values are added from VALUE_TURN on, in so many
// turns, for the second half of this block's are written over the first half of them. Halves: of both blocks, but one.
enum {
    SOFTMAX_TURN = 1,
    VALUE_TURN = 2,
    VALUE_TURNS = 5,
    HALF_TURNS = TURNS / HALVES,
    VALUE_HALVES = 3,
};

struct few {
    struct tiles tiles;                           // of the block that is read
    struct rows rows[WEFT__ATTENTION_KEYS_HEADS]; // of heads that go together
    bool wild_queries[WEFT__ATTENTION_KEYS_HEADS];
    struct late late;
    uint16_t *values; // [VALUE_HALVES]
    int32_t half;     // the first of the block that is read
    bool odd;         // which half of what rows see is the block's
    bool ready;       // are the first sixteen keys of the block in their tiles?
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

// The next tile of columns of the block before: stores the sums of the last one, adds its own.
INLINE void add_values(const struct tiles *t, struct late *late, const int lanes, const int parts)
{
    const int32_t columns = columns_of(&late->rows), i = late->column++;
    const int64_t rest = numbers_of_values(&late->rows);
    float *acc = late->rows.acc + i * lanes * LANES;
    if (i > 0)
        tile_store_rows(2, acc - lanes * LANES, TILE_ROW_BYTES);
    if (i == columns)
        return;
    tile_load(2, acc, TILE_ROW_BYTES);
    for (int h = 0; h < HALVES; h++) {
        const uint16_t *weights = t->weights + h * lanes * 32;
        const uint16_t *values = late->values[h] + i * TILE_NUMBERS;
        tile_load(3, weights, TILE_ROW_BYTES);
        tile_load(1, values, TILE_ROW_BYTES);
        tile_dot_bf16(2, 3, 1);
        if (parts == 1)
            continue;
        tile_load(5, values + rest, TILE_ROW_BYTES);
        tile_dot_bf16(2, 3, 5);
        tile_load(3, weights + HALVES * lanes * 32, TILE_ROW_BYTES);
        tile_dot_bf16(2, 3, 1);
    }
}

// The softmax of the block before.
INLINE void weigh_late(const struct tiles *t, const struct late *late, const int lanes,
                       const int parts)
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
    turn_weights(s->weight, t->weights, lanes);
    if (parts == 2)
        turn_weights(rest_of_weights(s), t->weights + HALVES * lanes * 32, lanes);
    shrink_sums(s, lanes);
    count_block(s, mask);
}

// Values of the block before that are left.
INLINE void finish_late(struct few *f, const int lanes, const int parts)
{
    struct late *late = &f->late;
    while (late->column <= columns_of(&late->rows))
        add_values(&f->tiles, late, lanes, parts);
    tiles_written();
    if (late->wild)
        add_wild(&f->tiles, late, lanes);
    late->any = false;
}

// What runs beside turn i.
INLINE void run_beside(struct few *f, const int lanes, const int parts, int32_t i)
{
    const struct tiles *t = &f->tiles;
    struct late *late = &f->late;
    const int32_t first = i / SIXTEEN_TURNS * 16, steps = t->rows.pairs / 16;
    const int32_t together = (steps + SIXTEEN_TURNS - 1) / SIXTEEN_TURNS;
    tiles_written();
    if (i % SIXTEEN_TURNS == 0 && (i > 0 || late->any))
        store_sixteen(&t->rows, lanes, parts, i > 0 ? first - 16 : BLOCK - 16);
    for (int32_t n = i % SIXTEEN_TURNS * together, end = n + together; n < end && n < steps; n++)
        (parts == 2 ? score_parts : score_step)(t, lanes, first, n);
    if (!late->any)
        return;
    if (i == SOFTMAX_TURN)
        weigh_late(t, late, lanes, parts);
    tiles_written();
    const int32_t columns = columns_of(&late->rows);
    const int32_t at_once = (columns + VALUE_TURNS) / VALUE_TURNS;
    for (int32_t n = 0; i >= VALUE_TURN && n < at_once && late->column <= columns; n++)
        add_values(t, late, lanes, parts);
}

// Hands on the block that was read.
INLINE void hand_on(struct few *f, const int parts, bool wild_queries)
{
    const struct rows *s = &f->tiles.rows;
    struct late *late = &f->late;
    late->rows = *s;
    late->block = *s->block;
    late->rows.block = &late->block;
    late->wild = f->tiles.wild;
    if (late->wild) {
        memcpy(late->values_at, s->values_at, sizeof late->values_at);
        late->rows.values_at = late->values_at;
    }
    if (parts == 2)
        memcpy(late->at, s->at, sizeof late->at);
    late->wild_queries = wild_queries;
    late->column = 0;
    late->any = true;
    f->half = (f->half + HALVES) % VALUE_HALVES;
    f->ready = true;
}

INLINE void attend_block(struct few *f, const int lanes, const int parts)
{
    struct tiles *t = &f->tiles;
    const int64_t half = parts * numbers_of_values(&t->rows);
    const uint16_t *halves[HALVES];
    for (int32_t i = 0; i < SIXTEEN_TURNS && !f->ready; i++)
        take_turn(t, i * TURN, -1);
    if (parts == 1)
        load_query_tiles(&t->rows, lanes);
    t->wild = 0;
    for (int32_t i = 0; i < TURNS; i++) {
        t->values = f->values + (f->half + i / HALF_TURNS) % VALUE_HALVES * half;
        halves[i / HALF_TURNS] = t->values;
        run_beside(f, lanes, parts, i);
        take_turn(t, 16 + i * TURN, i * TURN);
    }
    if (f->late.any)
        finish_late(f, lanes, parts);
    memcpy(f->late.values, halves, sizeof halves);
}

// The last block of a tile.
INLINE void finish_tile(struct few *f, const int lanes, const int parts)
{
    struct late *late = &f->late;
    if (late->any) {
        tiles_written();
        store_sixteen(&late->rows, lanes, parts, BLOCK - 16);
        tiles_written();
        weigh_late(&f->tiles, late, lanes, parts);
        tiles_written();
        finish_late(f, lanes, parts);
    }
    for (int32_t row = 0; row < f->tiles.rows.rows; row++)
        store_row(&f->tiles.rows, lanes, row);
}

// The block at hand of head h, whose tile is `tile`.
INLINE void attend_head(struct few *f, int32_t h, const struct weft__attention_tile *tile,
                        const int lanes, const int parts)
{
    struct rows *s = &f->tiles.rows, *of_head = &f->rows[h];
    if (begins_tile(of_head->block)) {
        const bool loaded = same_rows(of_head->tile, tile);
        of_head->tile = tile;
        if (!loaded && parts == 2)
            f->wild_queries[h] = place_parts(of_head, lanes);
        else if (!loaded)
            place_pairs(of_head, lanes);
        open_rows(of_head, lanes);
        of_head->all = seen_by_all(of_head);
    }
    *s = *of_head;
    s->seen += f->odd ? LANES : 0;
    tiles_written();
    look(s);
    if (s->by_some) {
        attend_block(f, lanes, parts);
        hand_on(f, parts, f->wild_queries[h]);
        f->odd = !f->odd;
    } else {
        f->ready = false;
    }
    if (ends_tile(s->block))
        finish_tile(f, lanes, parts);
}

static void lay_out_few(struct few *f, const struct weft__attention_call *call,
                        const struct weft__attention_tile *tiles, int32_t heads, const int lanes,
                        const int parts)
{
    struct tiles *t = &f->tiles;
    const struct rows *first = &f->rows[0];
    *t = lay_out_tiles(call, tiles);
    for (int32_t h = 0; h < heads; h++) {
        struct weft__attention_tile own = tiles[h];
        own.scratch = (char *)tiles->scratch + h * bytes_of_head(call->k.dim, call->v.dim);
        struct rows *s = &f->rows[h];
        *s = lay_out(call, &own);
        if (h == 0)
            continue;
        s->scores = first->scores; // what is made for a block is used before the next one
        s->at = first->at;
        s->values_at = first->values_at;
        s->weight = first->weight;
        s->key_scale = first->key_scale;
        s->value_scale = first->value_scale;
        s->order = first->order;
        s->shrink = first->shrink;
    }
    f->values = t->keys + 2 * parts * numbers_of_keys(first);
    t->weights = f->values + VALUE_HALVES * parts * numbers_of_values(first);
    f->half = 0;
    f->late.any = f->odd = f->ready = false;
    _mm512_storeu_si512(first->order, order_of_rows(lanes, parts));
}

enum { STREAMS = 8 }; // of all heads' rows, asked for side by side

// In which order rows of the next block are asked for while head h is read, half of them of each of two pieces: those of the
// head that is read next; of heads of one line those of the next two heads; where rows of heads lie beside each other, or
// pages are short, those of all heads, page by page, `run` rows of a head after the other.
struct order {
    int32_t heads, run;
    bool by_two;
};

static struct order order_of(const struct weft__attention_call *call, int32_t heads)
{
    const int32_t rows = BLOCK / PIECES, page = call->page_size;
    const bool beside = weft__attention_heads_beside(call);
    return (struct order){
        .heads = heads,
        .run = beside         ? 1
               : page >= rows ? rows
               : rows % page  ? 1
                              : page,
        .by_two = is_code(call->k.dtype) && call->k.dim <= ASK_BYTES && heads % 2 == 0,
    };
}

// ask[]: from `next` on, where rows of the first head of the next block lie.
static void ask_all_heads(const struct order *order, const int64_t *next, int64_t stride, int32_t h,
                          int64_t *ask)
{
    const int32_t run = order->run, streams = run > BLOCK / STREAMS ? PIECES : STREAMS;
    const int32_t rows = BLOCK / streams, begin = h * rows;
    int32_t row = begin % run, head = begin / run % order->heads;
    int32_t first = begin / (run * order->heads) * run;
    for (int32_t i = 0; i < rows; i++) {
        const int64_t of_head = head * stride;
        for (int32_t n = 0; n < streams; n++) // every other one among the second half
            ask[n % PIECES * (BLOCK / PIECES) + i * (streams / PIECES) + n / PIECES] =
                next[n * rows + first + row] + of_head;
        row = row + 1 < run ? row + 1 : 0;
        head += row == 0;
        first += head == order->heads ? run : 0;
        head = head < order->heads ? head : 0;
    }
}

static void ask_two_heads(const struct order *order, const int64_t *lead_at, int64_t stride,
                          int32_t h, int64_t *ask)
{
    const int32_t rows = BLOCK / PIECES, head = h / 2 * 2 + 2;
    const bool last = head == order->heads;
    const int64_t *next = lead_at + (last ? BLOCK : 0) + h % 2 * rows;
    for (int32_t i = 0; i < rows; i++) {
        ask[i] = next[i] + (last ? 0 : head) * stride;
        ask[rows + i] = ask[i] + stride;
    }
}

// Where the rows of head h lie, of the one read after it, and those that are asked for.
static void place_next(const struct order *order, const int64_t *lead_at, int64_t stride, int32_t h,
                       int64_t *at)
{
    const bool last = h + 1 == order->heads;
    const int64_t *next = last ? lead_at + BLOCK : lead_at;
    const int64_t of_next = last ? 0 : (h + 1) * stride;
    for (int32_t i = 0; i < BLOCK; i++) {
        at[i] = lead_at[i] + h * stride;
        at[BLOCK + i] = next[i] + of_next;
    }
    if (order->run < BLOCK / PIECES)
        ask_all_heads(order, lead_at + BLOCK, stride, h, at + FAR);
    else if (order->by_two)
        ask_two_heads(order, lead_at, stride, h, at + FAR);
    else
        memcpy(at + FAR, at + BLOCK, BLOCK * sizeof *at);
}

static void place_heads(const struct lead *lead, const struct order *order, int32_t h,
                        struct rows *s)
{
    s->block = lead->rows.block;
    place_next(order, lead->at, s->call->k.head_stride, h, s->at);
    if (s->values_at != s->at)
        place_next(order, lead->values_at, s->call->v.head_stride, h, s->values_at);
}

// `count` tiles of as many rows, each with keys, of one head after the other or of heads that go together.
INLINE void attend_lanes(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count, int32_t heads,
                         const int lanes, const int parts)
{
    struct few f;
    struct lead lead;
    const struct order order = order_of(call, heads);
    lay_out_few(&f, call, tiles, heads, lanes, parts);
    if (heads > 1)
        begin_lead(&lead, f.rows, tiles, count, heads);
    struct rows *walker = heads > 1 ? &lead.rows : f.rows;
    const struct weft__attention_tile *first = heads > 1 ? lead.first : tiles;
    struct blocks blocks = begin_blocks(walker, first, count / heads);
    tiles_begin_as(shapes_of(lanes, parts));
    while (next_of(walker, &blocks))
        for (int32_t h = 0; h < heads; h++) {
            if (heads > 1)
                place_heads(&lead, &order, h, &f.rows[h]);
            attend_head(&f, h, tiles + (walker->block->tile - first) * heads + h, lanes, parts);
        }
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
