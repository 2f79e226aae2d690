// SPDX-License-Identifier: MIT
// Few rows over caches of codes of a byte on the tiles of AMX: what attention_tiles_amx.c does, with tiles that
// are 4 or 8 rows wide and high, so that neither the softmax nor the products of values work for rows that do
// not exist.
//
//      score[16 keys][rows]        =  key[16 keys][32 elements] * q[16 pairs of elements][rows]
//      acc[rows][16 columns]      +=  weight[rows][32 keys] * value[16 pairs of keys][16 columns]
//
// Memory is what counts, so keys and values change by turns of TURN rows, each asking for what lies near and far
// ahead (attention_few.h), and go to scratch as bf16. Keys are sixteen rows ahead of values, and of the scores,
// whose products find them written and run beside the next turns:
//
//      keys     | 16..31         | 32..47         | 48..63         | next block's 0..15 |
//      values   |  0..15         | 16..31         | 32..47         | 48..63             | softmax, values' products
//      scores   |  0..15         | 16..31         | 32..47         | 48..63             |
//
// Scores are put in the order of attention_pairs.h; the softmax is that of pairs.
#include "src/kernels/attention/attention_codes_avx512bf16.h"
#include "src/kernels/attention/attention_tiles_amx.h"

// Tiles: 0 scores; 1 keys, values; 2 results; 3 weights; 4 to 7 queries of as many steps.
enum { QUERY_TILES = 4 };

enum { TURN = 4, TURN_NEAR_BYTES = 1024, TURN_FAR_BYTES = 4096, MOST_AHEAD = BLOCK - 16 };

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
    return lanes == 4
               ? _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
               : _mm512_setr_epi32(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
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

// How the rows of a plane are read.
struct turn {
    const char *pool;
    const int64_t *at;
    int32_t dim, near, far; // near, far: rows
};

INLINE struct turn turn_of(const struct weft__attention_call *call,
                           const struct weft__attention_plane *plane, const int64_t *at,
                           const int32_t dim)
{
    const int32_t near = TURN_NEAR_BYTES / dim, far = TURN_FAR_BYTES / dim;
    return (struct turn){plane->data, at, dim, !call->ahead ? 0 : near < MOST_AHEAD ? near : MOST_AHEAD,
                         !call->ahead ? 0 : far < MOST_AHEAD ? far : MOST_AHEAD};
}

// 64 codes of row `j` from `column` on. Asks for those of rows ahead.
INLINE __m512i take_codes(const struct turn *turn, int32_t j, int32_t column)
{
    _mm_prefetch(turn->pool + turn->at[j + turn->near] + column, _MM_HINT_T0);
    _mm_prefetch(turn->pool + turn->at[j + turn->far] + column, _MM_HINT_T1);
    return load_codes(turn->pool + turn->at[j] + column, turn->dim, column);
}

// Keys to the tiles of their sixteen: those that are `step` codes apart in a row are steps of the product.
INLINE void take_keys(const struct tiles *t, weft_dtype kv, const struct turn *turn, int32_t first)
{
    const int64_t steps = t->rows.pairs / 16;
    VF32_UNROLL
    for (int32_t j = first; j < first + TURN; j++) {
        uint16_t *to = t->keys + (j / 16 % 2 * steps) * TILE_NUMBERS + j % 16 * 32;
        for (int32_t column = 0; column < turn->dim; column += CODE_GROUP, to += 2 * TILE_NUMBERS) {
            __m512i x[2];
            widen_codes(kv, &t->table, take_codes(turn, j, column), x);
            _mm512_storeu_si512(to, x[0]);
            _mm512_storeu_si512(to + TILE_NUMBERS, x[1]);
        }
    }
}

// 0 times a number that is none is not 0: where some row does not see the key these are left out, for add_wild().
static __attribute__((noinline)) void tame_pair(struct tiles *t, int32_t pair, __m512i x[4])
{
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    for (int i = 0; i < 4; i++) {
        const __mmask32 wild = _mm512_cmpeq_epi16_mask(_mm512_and_si512(x[i], exponent), exponent);
        const __mmask32 unseen = (t->rows.by_all >> (2 * pair) & 1 ? 0 : 0x55555555u) |
                                 (t->rows.by_all >> (2 * pair + 1) & 1 ? 0 : 0xaaaaaaaau);
        t->wild |= (uint64_t)((wild & unseen & 0x55555555u) != 0) << 2 * pair;
        t->wild |= (uint64_t)((wild & unseen & 0xaaaaaaaau) != 0) << (2 * pair + 1);
        x[i] = _mm512_maskz_mov_epi16(~(wild & unseen), x[i]);
    }
}

// Two values to their place among the tiles of 32. Past the block's last, that again, which no row sees.
INLINE void take_values(struct tiles *t, weft_dtype kv, const struct turn *turn, int32_t first)
{
    const int64_t columns = t->rows.groups * (CODE_GROUP / 16);
    VF32_UNROLL
    for (int32_t pair = first / 2; pair < (first + TURN) / 2; pair++) {
        uint16_t *to = t->values + pair / 16 * columns * TILE_NUMBERS + pair % 16 * 32;
        for (int32_t column = 0; column < turn->dim; column += CODE_GROUP, to += 4 * TILE_NUMBERS) {
            const __m512i a = take_codes(turn, 2 * pair, column);
            const __m512i b = take_codes(turn, 2 * pair + 1, column);
            __m512i x[4];
            widen_codes(kv, &t->table, _mm512_unpacklo_epi8(a, b), x);
            widen_codes(kv, &t->table, _mm512_unpackhi_epi8(a, b), x + 2);
            if (kv != WEFT_INT8 && (t->rows.by_all >> 2 * pair & 3) != 3)
                tame_pair(t, pair, x);
            VF32_UNROLL
            for (int i = 0; i < 4; i++)
                _mm512_storeu_si512(to + i * TILE_NUMBERS, x[i]);
        }
    }
}

// Sixteen keys and as many values, by turns. A negative place: none of these.
INLINE void take_sixteen_of(struct tiles *t, weft_dtype kv, const int32_t k_dim, const int32_t v_dim,
                            int32_t key, int32_t value)
{
    const struct rows *s = &t->rows;
    const struct turn keys = turn_of(s->call, &s->call->k, s->at, k_dim);
    const struct turn values = turn_of(s->call, &s->call->v, s->values_at, v_dim);
    for (int32_t i = 0; i < 16; i += TURN) {
        take_keys(t, kv, &keys, key + i);
        if (value >= 0)
            take_values(t, kv, &values, value + i);
    }
}

// Functions of their own, for the compiler to have registers for each.
#define TAKE(kv)                                                                                   \
    static __attribute__((noinline)) void take_##kv(struct tiles *t, int32_t key, int32_t value)   \
    {                                                                                              \
        const int32_t k_dim = t->rows.call->k.dim, v_dim = t->rows.call->v.dim;                    \
        if (k_dim == 128 && v_dim == 128)                                                          \
            take_sixteen_of(t, WEFT_##kv, 128, 128, key, value);                                   \
        else                                                                                       \
            take_sixteen_of(t, WEFT_##kv, k_dim, v_dim, key, value);                               \
    }
TAKE(INT8)
TAKE(FP8_E4M3)
TAKE(FP8_E5M2)

static void take_sixteen(struct tiles *t, int32_t key, int32_t value)
{
    switch (t->rows.call->k.dtype) {
    case WEFT_INT8: take_INT8(t, key, value); break;
    case WEFT_FP8_E4M3: take_FP8_E4M3(t, key, value); break;
    default: take_FP8_E5M2(t, key, value);
    }
}

// Scores of sixteen keys, from key `first` of the block on. Queries of the first steps are in their tiles.
INLINE void score_sixteen(const struct tiles *t, const int lanes, int32_t first)
{
    const struct rows *s = &t->rows;
    const int64_t steps = s->pairs / 16;
    const uint16_t *keys = t->keys + first / 16 % 2 * steps * TILE_NUMBERS;
    tile_zero(0);
#define STEP_OF(n, q)                                                                              \
    if (steps > n) {                                                                               \
        tile_load(1, keys + n * TILE_NUMBERS, TILE_ROW_BYTES);                                     \
        tile_dot_bf16(0, 1, q);                                                                \
    }
    STEP_OF(0, 4)
    STEP_OF(1, 5)
    STEP_OF(2, 6)
    STEP_OF(3, 7)
#undef STEP_OF
    for (int64_t n = QUERY_TILES; n < steps; n++) {
        tile_load(4, s->q + n * 16 * lanes, 4 * lanes);
        tile_load(1, keys + n * TILE_NUMBERS, TILE_ROW_BYTES);
        tile_dot_bf16(0, 1, 4);
    }
    tile_store_rows(0, s->scores + first * lanes, (int64_t)4 * lanes);
    if (steps > QUERY_TILES)
        tile_load(4, s->q, 4 * lanes);
}

// The queries of the first steps to their tiles.
INLINE void load_query_tiles(const struct tiles *t, const int lanes)
{
    const uint32_t *q = t->rows.q;
    const int32_t steps = t->rows.pairs / 16;
    tile_load(4, q, 4 * lanes);
    if (steps > 1)
        tile_load(5, q + 16 * lanes, 4 * lanes);
    if (steps > 2)
        tile_load(6, q + 2 * 16 * lanes, 4 * lanes);
    if (steps > 3)
        tile_load(7, q + 3 * 16 * lanes, 4 * lanes);
}

INLINE void order_scores(const struct rows *s, const int lanes)
{
    const __m512i order = order_of_scores(lanes);
    const __m512 scale = vf32_set1(s->call->scale * LOG2E);
    for (int v = 0; v < BLOCK * lanes / LANES; v++) {
        float *at = s->scores + v * LANES;
        _mm512_storeu_ps(at, vf32_mul(scale, _mm512_permutexvar_ps(order, _mm512_loadu_ps(at))));
    }
}

// Weights with a row in a row, as the product wants them: each vector of `from` has all rows, a row's keys together.
INLINE void turn_weights(const struct tiles *t, const int lanes)
{
    const uint32_t *from = t->rows.weight;
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
    for (int32_t i = 0; i < s->groups * (CODE_GROUP / 16); i++)
        for (int r = 0; r < lanes; r++) {
            float *acc = s->acc + (i * lanes + r) * LANES;
            vf32_store(acc, vf32_mul(vf32_set1(s->shrink[lane_of(lanes, r)]), vf32_load(acc)));
        }
}

INLINE void add_values(const struct tiles *t, const int lanes)
{
    const struct rows *s = &t->rows;
    const int64_t columns = s->groups * (CODE_GROUP / 16), half = columns * TILE_NUMBERS;
    const uint16_t *values = t->values;
    float *acc = s->acc;
    for (int64_t i = 0; i < columns; i++, values += TILE_NUMBERS, acc += lanes * LANES) {
        tile_load(2, acc, TILE_ROW_BYTES);
        for (int h = 0; h < HALVES; h++) {
            tile_load(3, t->weights + h * lanes * 32, TILE_ROW_BYTES);
            tile_load(1, values + h * half, TILE_ROW_BYTES);
            tile_dot_bf16(2, 3, 1);
        }
        tile_store_rows(2, acc, TILE_ROW_BYTES);
    }
}

// The infinities and NaNs that values of the block have, for those rows that see them.
static __attribute__((noinline)) void add_wild(const struct tiles *t, const int lanes)
{
    const struct rows *s = &t->rows;
    for (int32_t key = 0; key < s->block->n; key++)
        for (int32_t r = 0; r < s->rows && t->wild >> key & 1; r++) {
            const uint16_t weight = t->weights[(key / 32 * lanes + r) * 32 + key % 32];
            for (int32_t i = 0; i < s->call->v.dim && s->seen[r] >> key & 1; i++) {
                const float x = value_at(s, key, i);
                const int32_t tile = i / CODE_GROUP * 4 + i % 16 / 4;
                if (!isfinite(x))
                    s->acc[(tile * lanes + r) * LANES + i % CODE_GROUP / 16 * 4 + i % 4] +=
                        weft__bf16_to_f32(weight) * x;
            }
        }
}

static void store_row(const struct rows *s, const int lanes, int32_t row)
{
    const float *acc = s->acc + row * LANES;
    for (int32_t g = 0; g < s->groups; g++, acc += CODE_GROUP * lanes) {
        float group[CODE_GROUP];
        for (int v = 0; v < 4; v++)
            vf32_store(group + v * LANES, vf32_load(acc + v * lanes * LANES));
        order_codes(group, s->row + g * CODE_GROUP);
    }
    const int32_t at = lane_of(lanes, row);
    weft__attention_finish(s->call, s->tile, row, s->largest[at], s->sum[at], s->row);
}

// Where the pair of elements is that meets that of place `i` of a row of keys, as unpacking left it.
INLINE int32_t pair_of_place(int32_t i)
{
    const int32_t step = i / 16, pair = i % 16;
    return step / 2 * (CODE_GROUP / 2) + pair / 4 * 8 + step % 2 * 4 + pair % 4;
}

static void place_queries(const struct rows *s, const int lanes)
{
    memset(s->q, 0, (size_t)(s->pairs * lanes) * sizeof *s->q);
    for (int32_t r = 0; r < s->rows; r++) {
        uint32_t row[WEFT__ATTENTION_MAX_DIM / 2];
        pairs_of_query(s, r, row);
        for (int32_t i = 0; i < s->pairs; i++)
            s->q[i * lanes + r] = row[pair_of_place(i)];
    }
}

// `ready`: the block's first sixteen keys are in the tiles. The next block's are then.
INLINE void attend_block(struct tiles *t, const int lanes, bool ready)
{
    const struct rows *s = &t->rows;
    const struct weft__attention_call *call = s->call;
    const bool mask = s->by_all != ~UINT64_C(0) || call->generic;
    t->wild = 0;
    if (!ready)
        take_sixteen(t, 0, -1);
    load_query_tiles(t, lanes);
    for (int32_t first = 0; first < BLOCK; first += 16) {
        tiles_written();
        score_sixteen(t, lanes, first);
        take_sixteen(t, first + 16, first);
    }
    tiles_written();
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
    tiles_written();
    add_values(t, lanes);
    tiles_written();
    if (t->wild)
        add_wild(t, lanes);
    count_block(s, mask);
}

// The next block of keys, at a tile's first with its queries. False: there is none.
static bool begin_few(struct tiles *t, struct blocks *blocks, const int lanes)
{
    struct rows *s = &t->rows;
    if (!next_of(s, blocks))
        return false;
    if (begins_tile(s->block)) {
        const bool loaded = same_rows(s->tile, s->block->tile);
        s->tile = s->block->tile;
        if (!loaded)
            place_queries(s, lanes);
        open_rows(s, lanes);
        s->all = seen_by_all(s);
    }
    look(s);
    return true;
}

// `count` tiles of as many rows, each with keys.
INLINE void attend_lanes(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count, const int lanes)
{
    struct tiles t = lay_out_tiles(call, tiles);
    t.rows = lay_out(call, tiles);
    struct rows *s = &t.rows;
    t.values = t.keys + (int64_t)2 * 16 * 2 * s->pairs;
    t.weights = t.values + (int64_t)BLOCK * s->groups * s->columns;
    struct blocks blocks = begin_blocks(s, tiles, count);
    bool ready = false;
    _mm512_storeu_si512(s->order, order_of_rows(lanes));
    tiles_begin_as(shapes_of(lanes));
    while (begin_few(&t, &blocks, lanes)) {
        if (s->by_some)
            attend_block(&t, lanes, ready);
        ready = s->by_some != 0;
        for (int32_t row = 0; ends_tile(s->block) && row < s->rows; row++)
            store_row(s, lanes, row);
    }
    tiles_end();
}

int32_t weft__attention_codes_few(const struct weft__attention_call *call,
                                  const struct weft__attention_tile *tiles, int32_t count)
{
    const int32_t rows = weft__attention_rows(call, tiles);
    const int32_t n = alike(call, tiles, count);
    if (n == 0 || rows > WEFT__ATTENTION_FEW_ROWS)
        return 0;
    if (rows <= 4)
        attend_lanes(call, tiles, n, 4);
    else
        attend_lanes(call, tiles, n, 8);
    return n;
}
