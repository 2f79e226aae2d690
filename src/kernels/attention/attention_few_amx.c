// SPDX-License-Identifier: MIT
// Few rows over caches of codes of a byte and of bf16 on the tiles of AMX: what attention_tiles_amx.c does, with
// tiles that are 4, 8 or 16 rows wide and high, so that neither the softmax nor the products of values work for rows
// that do not exist.
//
//      score[16 keys][rows]        =  key[16 keys][32 elements] * q[16 pairs of elements][rows]
//      acc[rows][16 columns]      +=  weight[rows][32 keys] * value[16 pairs of keys][16 columns]
//
// Memory is what counts, so keys and values change by turns of TURN rows, each asking for what lies near and far
// ahead (attention_few.h), and go to scratch as bf16. All else runs beside turns, a little at each, so that no
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

// Tiles: 0 scores; 1 keys, values; 2 results; 3 weights; 4 to 7 queries of as many steps.
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

// A block whose scores await the softmax while the next one is read.
struct late {
    struct rows rows;
    struct block block;
    int64_t values_at[BLOCK];
    uint64_t wild;
    const uint16_t *values[HALVES];
    int32_t column; // tile of columns that is added next; its sums are stored at the one after
    bool any;
};

struct few {
    struct tiles tiles;                           // of the block that is read
    struct rows rows[WEFT__ATTENTION_KEYS_HEADS]; // of heads that go together
    struct late late;
    uint16_t *values; // [VALUE_HALVES]
    int32_t half;     // the first of the block that is read
    bool odd;         // which half of what rows see is the block's
    bool ready;       // are the first sixteen keys of the block in their tiles?
};

static struct tile_shapes shapes_of(const int lanes)
{
    const uint8_t rows = (uint8_t)lanes;
    const uint16_t words = (uint16_t)(4 * lanes);
    return (struct tile_shapes){{16, 16, rows, rows, 16, 16, 16, 16},
                                {words, 64, 64, 64, words, words, words, words}};
}

// Scores of 16 / lanes keys, [key][row], to the order of a vector of scores.
INLINE __m512i order_of_scores(const int lanes)
{
    switch (lanes) {
    case 4: return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    case 8: return _mm512_setr_epi32(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
    default: return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    }
}

// Where [row][keys] finds the weights of two vectors of scores.
static __m512i order_of_rows(const int lanes)
{
    const int keys = 2 * LANES / lanes, together = LANES / lanes; // of both, of one
    uint16_t from[2 * LANES];
    for (int i = 0; i < 2 * LANES; i++)
        from[i] = (uint16_t)(i % keys / together * LANES +
                             score_lane(lanes, i / keys, i % keys % together));
    return _mm512_loadu_si512(from);
}

// Step n of the scores of sixteen keys, from key `first` of the block on. Queries of the first steps are in their tiles.
INLINE void score_step(const struct tiles *t, const int lanes, int32_t first, int64_t n)
{
    const struct rows *s = &t->rows;
    const int64_t steps = s->pairs / 16;
    if (n == 0)
        tile_zero(0);
    tile_load(1, t->keys + (first / 16 % 2 * steps + n) * TILE_NUMBERS, TILE_ROW_BYTES);
    switch (n) {
    case 0:
        if (steps > QUERY_TILES)
            tile_load(4, s->q, 4 * lanes);
        tile_dot_bf16(0, 1, 4);
        break;
    case 1: tile_dot_bf16(0, 1, 5); break;
    case 2: tile_dot_bf16(0, 1, 6); break;
    case 3: tile_dot_bf16(0, 1, 7); break;
    default: tile_load(4, s->q + n * 16 * lanes, 4 * lanes); tile_dot_bf16(0, 1, 4);
    }
}

INLINE void store_sixteen(const struct rows *s, const int lanes, int32_t first)
{
    tile_store_rows(0, s->scores + first * lanes, (int64_t)4 * lanes);
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

INLINE void order_scores(const struct rows *s, const int lanes)
{
    const __m512i order = order_of_scores(lanes);
    const __m512 scale = vf32_set1(s->call->scale * LOG2E);
    for (int v = 0; v < BLOCK * lanes / LANES; v++) {
        float *at = s->scores + v * LANES;
        __m512 x = _mm512_loadu_ps(at);
        if (lanes < LANES)
            x = _mm512_permutexvar_ps(order, x);
        _mm512_storeu_ps(at, vf32_mul(scale, x));
    }
}

// Weights with a row in a row, as the product wants them: each vector of `from` has all rows, a row's keys together.
INLINE void turn_weights(const struct tiles *t, const int lanes)
{
    const uint32_t *from = t->rows.weight;
    for (int h = 0; h < HALVES && lanes == LANES; h++) {
        vf32 rows[LANES];
        vf32_load_transposed((const float *)(const void *)from + h * TILE_SUMS, LANES, rows);
        for (int r = 0; r < LANES; r++)
            vf32_store((float *)(void *)(t->weights + h * TILE_NUMBERS) + r * LANES, rows[r]);
    }
    if (lanes == LANES)
        return;
    VF32_UNROLL
    for (int h = 0; h < HALVES; h++, from += PAIRS / HALVES * lanes)
        VF32_UNROLL
    for (int odd = 0; odd < lanes / 4; odd++) {
        __m512i x[4], rows[4];
        VF32_UNROLL
        for (int i = 0; i < 4; i++) {
            if (lanes == 4) {
                x[i] = _mm512_loadu_si512(from + i * LANES);
                continue;
            }
            const __m512i a = _mm512_loadu_si512(from + 2 * i * LANES);
            const __m512i b = _mm512_loadu_si512(from + (2 * i + 1) * LANES);
            x[i] = odd ? _mm512_unpackhi_epi64(a, b) : _mm512_unpacklo_epi64(a, b);
        }
        turn_parts(x, rows);
        VF32_UNROLL
        for (int i = 0; i < 4; i++)
            _mm512_storeu_si512(t->weights + (h * lanes + lanes / 4 * i + odd) * 32, rows[i]);
    }
}

// acc times what became of the largest scores. Most blocks of keys have none that is larger.
INLINE void shrink_sums(const struct rows *s, const int lanes)
{
    if (!_mm512_cmpneq_ps_mask(_mm512_loadu_ps(s->shrink), vf32_set1(1)))
        return;
    for (int32_t i = 0; i < s->groups * s->columns / 16; i++)
        for (int r = 0; r < lanes; r++) {
            float *acc = s->acc + (i * lanes + r) * LANES;
            vf32_store(acc, vf32_mul(vf32_set1(s->shrink[lane_of(lanes, r)]), vf32_load(acc)));
        }
}

// Tiles of columns.
INLINE int32_t columns_of(const struct rows *s)
{
    return s->groups * s->columns / 16;
}

// The next tile of columns of the block before: stores the sums of the last one, adds its own.
INLINE void add_values(const struct tiles *t, struct late *late, const int lanes)
{
    const int32_t columns = columns_of(&late->rows), i = late->column++;
    float *acc = late->rows.acc + i * lanes * LANES;
    if (i > 0)
        tile_store_rows(2, acc - lanes * LANES, TILE_ROW_BYTES);
    if (i == columns)
        return;
    tile_load(2, acc, TILE_ROW_BYTES);
    tile_load(3, t->weights, TILE_ROW_BYTES);
    tile_load(1, late->values[0] + i * TILE_NUMBERS, TILE_ROW_BYTES);
    tile_dot_bf16(2, 3, 1);
    tile_load(3, t->weights + lanes * 32, TILE_ROW_BYTES);
    tile_load(1, late->values[1] + i * TILE_NUMBERS, TILE_ROW_BYTES);
    tile_dot_bf16(2, 3, 1);
}

// Where column i is among the sums of a row: the number of its tile, and its lane there.
INLINE int32_t tile_of_column(weft_dtype kv, int32_t i)
{
    return is_code(kv) ? i / CODE_GROUP * 4 + i % 16 / 4 : i / GROUP * 2 + i % 8 / 4;
}

INLINE int32_t lane_of_column(weft_dtype kv, int32_t i)
{
    return (is_code(kv) ? i % CODE_GROUP / 16 : i % GROUP / 8) * 4 + i % 4;
}

// The infinities and NaNs that values of the block have, for those rows that see them.
static __attribute__((noinline)) void add_wild(const struct tiles *t, const struct late *late,
                                               const int lanes)
{
    const struct rows *s = &late->rows;
    for (int32_t key = 0; key < late->block.n; key++)
        for (int32_t r = 0; r < s->rows && late->wild >> key & 1; r++) {
            const uint16_t weight = t->weights[(key / 32 * lanes + r) * 32 + key % 32];
            for (int32_t i = 0; i < s->call->v.dim && s->seen[r] >> key & 1; i++) {
                const float x = value_at(s, key, i);
                const weft_dtype kv = s->call->v.dtype;
                if (!isfinite(x))
                    s->acc[(tile_of_column(kv, i) * lanes + r) * LANES + lane_of_column(kv, i)] +=
                        weft__bf16_to_f32(weight) * x;
            }
        }
}

static void store_row(const struct rows *s, const int lanes, int32_t row)
{
    const float *acc = s->acc + row * LANES;
    for (int32_t g = 0; g < s->groups; g++, acc += s->columns * lanes) {
        float group[CODE_GROUP];
        for (int v = 0; v < s->columns / LANES; v++)
            vf32_store(group + v * LANES, vf32_load(acc + v * lanes * LANES));
        (s->columns == GROUP ? order_group : order_codes)(group, s->row + g * s->columns);
    }
    const int32_t at = lane_of(lanes, row);
    weft__attention_finish(s->call, s->tile, row, s->largest[at], s->sum[at], s->row);
}

// Where the pair of elements is that meets that of place `i` of a row of keys, as unpacking left it.
INLINE int32_t pair_of_place(weft_dtype kv, int32_t i)
{
    const int32_t step = i / 16, pair = i % 16;
    return is_code(kv) ? step / 2 * (CODE_GROUP / 2) + pair / 4 * 8 + step % 2 * 4 + pair % 4 : i;
}

static void place_queries(const struct rows *s, const int lanes)
{
    memset(s->q, 0, (size_t)(s->pairs * lanes) * sizeof *s->q);
    for (int32_t r = 0; r < s->rows; r++) {
        uint32_t row[WEFT__ATTENTION_MAX_DIM / 2];
        pairs_of_query(s, r, row);
        for (int32_t i = 0; i < s->pairs; i++)
            s->q[i * lanes + r] = row[pair_of_place(s->call->k.dtype, i)];
    }
}

// The softmax of the block before.
INLINE void weigh_late(const struct tiles *t, const struct late *late, const int lanes)
{
    const struct rows *s = &late->rows;
    const bool mask = s->by_all != ~UINT64_C(0) || s->call->generic;
    order_scores(s, lanes);
    if (s->scaled) {
        spread_scales(s, lanes);
        adjust_scores(s, lanes, 0, s->scores);
    }
    if (mask)
        mask_scores(s, lanes, 0, s->scores);
    weigh(s, lanes, 0, 1);
    turn_weights(t, lanes);
    shrink_sums(s, lanes);
    count_block(s, mask);
}

// Values of the block before that are left.
INLINE void finish_late(struct few *f, const int lanes)
{
    struct late *late = &f->late;
    while (late->column <= columns_of(&late->rows))
        add_values(&f->tiles, late, lanes);
    tiles_written();
    if (late->wild)
        add_wild(&f->tiles, late, lanes);
    late->any = false;
}

// What runs beside turn i.
INLINE void run_beside(struct few *f, const int lanes, int32_t i)
{
    const struct tiles *t = &f->tiles;
    struct late *late = &f->late;
    const int32_t first = i / SIXTEEN_TURNS * 16, steps = t->rows.pairs / 16;
    const int32_t together = (steps + SIXTEEN_TURNS - 1) / SIXTEEN_TURNS;
    tiles_written();
    if (i % SIXTEEN_TURNS == 0 && (i > 0 || late->any))
        store_sixteen(&t->rows, lanes, i > 0 ? first - 16 : BLOCK - 16);
    for (int32_t n = i % SIXTEEN_TURNS * together, end = n + together; n < end && n < steps; n++)
        score_step(t, lanes, first, n);
    if (!late->any)
        return;
    if (i == SOFTMAX_TURN)
        weigh_late(t, late, lanes);
    tiles_written();
    const int32_t columns = columns_of(&late->rows);
    const int32_t at_once = (columns + VALUE_TURNS) / VALUE_TURNS;
    for (int32_t n = 0; i >= VALUE_TURN && n < at_once && late->column <= columns; n++)
        add_values(t, late, lanes);
}

// Hands on the block that was read.
INLINE void hand_on(struct few *f)
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
    late->column = 0;
    late->any = true;
    f->half = (f->half + HALVES) % VALUE_HALVES;
    f->ready = true;
}

INLINE void attend_block(struct few *f, const int lanes)
{
    struct tiles *t = &f->tiles;
    const int64_t half = (int64_t)columns_of(&t->rows) * TILE_NUMBERS;
    const uint16_t *halves[HALVES];
    for (int32_t i = 0; i < SIXTEEN_TURNS && !f->ready; i++)
        take_turn(t, i * TURN, -1);
    load_query_tiles(&t->rows, lanes);
    t->wild = 0;
    for (int32_t i = 0; i < TURNS; i++) {
        t->values = f->values + (f->half + i / HALF_TURNS) % VALUE_HALVES * half;
        halves[i / HALF_TURNS] = t->values;
        run_beside(f, lanes, i);
        take_turn(t, 16 + i * TURN, i * TURN);
    }
    if (f->late.any)
        finish_late(f, lanes);
    memcpy(f->late.values, halves, sizeof halves);
    hand_on(f);
}

// The last block of a tile.
INLINE void finish_tile(struct few *f, const int lanes)
{
    struct late *late = &f->late;
    if (late->any) {
        tiles_written();
        store_sixteen(&late->rows, lanes, BLOCK - 16);
        tiles_written();
        weigh_late(&f->tiles, late, lanes);
        tiles_written();
        finish_late(f, lanes);
    }
    for (int32_t row = 0; row < f->tiles.rows.rows; row++)
        store_row(&f->tiles.rows, lanes, row);
}

// The block at hand of head h, whose tile is `tile`.
INLINE void attend_head(struct few *f, int32_t h, const struct weft__attention_tile *tile,
                        const int lanes)
{
    struct rows *s = &f->tiles.rows, *of_head = &f->rows[h];
    if (begins_tile(of_head->block)) {
        const bool loaded = same_rows(of_head->tile, tile);
        of_head->tile = tile;
        if (!loaded)
            place_queries(of_head, lanes);
        open_rows(of_head, lanes);
        of_head->all = seen_by_all(of_head);
    }
    *s = *of_head;
    s->seen += f->odd ? LANES : 0;
    tiles_written();
    look(s);
    if (s->by_some)
        attend_block(f, lanes), f->odd = !f->odd;
    else
        f->ready = false;
    if (ends_tile(s->block))
        finish_tile(f, lanes);
}

static void lay_out_few(struct few *f, const struct weft__attention_call *call,
                        const struct weft__attention_tile *tiles, int32_t heads, const int lanes)
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
        s->weight = first->weight;
        s->key_scale = first->key_scale;
        s->value_scale = first->value_scale;
        s->order = first->order;
        s->shrink = first->shrink;
    }
    f->values = t->keys + (int64_t)2 * 16 * 2 * first->pairs;
    t->weights = f->values + (int64_t)VALUE_HALVES * columns_of(first) * TILE_NUMBERS;
    f->half = 0;
    f->late.any = f->odd = f->ready = false;
    _mm512_storeu_si512(first->order, order_of_rows(lanes));
}

// `count` tiles of as many rows, each with keys, of one head after the other or of heads that go together.
INLINE void attend_lanes(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count, int32_t heads,
                         const int lanes)
{
    struct few f;
    struct lead lead;
    lay_out_few(&f, call, tiles, heads, lanes);
    if (heads > 1)
        begin_lead(&lead, f.rows, tiles, count, heads);
    struct rows *walker = heads > 1 ? &lead.rows : f.rows;
    const struct weft__attention_tile *first = heads > 1 ? lead.first : tiles;
    struct blocks blocks = begin_blocks(walker, first, count / heads);
    tiles_begin_as(shapes_of(lanes));
    while (next_of(walker, &blocks))
        for (int32_t h = 0; h < heads; h++) {
            if (heads > 1)
                place_rows(&lead, heads, h, &f.rows[h]);
            attend_head(&f, h, tiles + (walker->block->tile - first) * heads + h, lanes);
        }
    tiles_end();
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
    if (rows <= 4)
        attend_lanes(call, tiles, n, heads, 4);
    else if (rows <= 8)
        attend_lanes(call, tiles, n, heads, 8);
    else
        attend_lanes(call, tiles, n, heads, LANES);
    return n;
}
