// SPDX-License-Identifier: MIT
// Few rows (decode) over caches of int8 on the tiles of AMX: a number of 16 bits is two bytes, 256 high + low, so that tiles of
// bytes multiply it. Keys are read where they lie; values of four keys are put beside each other on the way.
//
//      score[16 keys][high and low of rows]    =  key[16 keys][64 codes] * q[16 fours of codes][high and low of rows]
//      sum[high and low of rows][16 columns]   =  weight[high and low of rows][64 keys] * value[16 fours of keys][16 columns]
//
// What a row is and what becomes of scores is attention_int8_avx512.h's, as in attention_int8_avx512vnni.c.
#include "src/kernels/attention/attention_int8_avx512.h"

#include "src/kernels/cpu/amx.h"

enum {
    MOST = 127 * 256 + 127, // that two signed bytes hold
    FOURS = BLOCK / 4,      // of keys
    SIXTEENS = BLOCK / 16,
    COLUMNS = 16, // of a tile of values
};

// Tiles: 0, 1 scores; 2, 3 sums of values; 4 keys; 5 weights; 6 queries; 7 values.
struct int8_tiles {
    int8_t *q;       // [64 codes][16 fours][high and low of rows][4]
    int8_t *keys;    // [key][dim]: those that do not lie in rows of equal distance
    int8_t *weights; // [high and low of rows][64 keys]
    int8_t *values;  // [16 columns][16 fours of keys][16 columns][4]
    int32_t *scores; // [key][high and low of rows]
    int32_t *sums;   // [16 columns][high and low of rows][16 columns]
};

weft__attention_scratch_fn weft__attention_scratch_avx512bf16;

// Behind the rows'. weft__attention_scratch_amx() has room for it.
static struct int8_tiles lay_out_tiles(const struct weft__attention_call *call,
                                       const struct weft__attention_tile *tile, const int lanes)
{
    const int32_t dim = call->k.dim, rows = weft__attention_rows(call, tile);
    int8_t *at = tile->scratch;
    struct int8_tiles t;
    at += (weft__attention_scratch_avx512bf16(rows, dim, dim) + 63) / 64 * 64;
    t.q = at, at += dim * 2 * lanes;
    t.weights = at, at += BLOCK * 2 * lanes;
    t.scores = (int32_t *)(void *)at, at += BLOCK * 2 * lanes * (int32_t)sizeof *t.scores;
    t.sums = (int32_t *)(void *)at, at += dim * 2 * lanes * (int32_t)sizeof *t.sums;
    t.keys = at, at += BLOCK * dim;
    t.values = at;
    return t;
}

static struct tile_shapes shapes_of(const int lanes)
{
    const uint8_t parts = (uint8_t)(2 * lanes);
    const uint16_t words = (uint16_t)(parts * 4);
    return (struct tile_shapes){
        {16, 16, parts, parts, 16, parts, 16, 16},
        {words, words, 64, 64, 64, 64, words, 64},
    };
}

// The upper of two bytes: 256 times it and the lower one, signed as well, are x again.
INLINE __m512i upper_of(__m512i x)
{
    return _mm512_srai_epi16(_mm512_add_epi16(x, _mm512_set1_epi16(128)), 8);
}

static void begin_tile(struct few *f, const int lanes)
{
    const struct rows *s = &f->rows;
    const int32_t dim = s->call->k.dim;
    place_queries(f, lanes, MOST);
    for (int32_t r = 0; r < lanes; r++)
        for (int32_t i = 0; i < dim; i += HALF_CODES) {
            const __m512i x = _mm512_loadu_si512(s->q + (int64_t)r * s->pairs + i / 2);
            int8_t bytes[2][HALF_CODES];
            _mm256_storeu_si256((void *)bytes[0], _mm512_cvtepi16_epi8(upper_of(x)));
            _mm256_storeu_si256((void *)bytes[1], _mm512_cvtepi16_epi8(x));
            for (int32_t n = 0; n < HALF_CODES / 4; n++)
                for (int h = 0; h < 2; h++)
                    memcpy(f->tiles->q + ((i / 4 + n) * 2 * lanes + h * lanes + r) * 4,
                           bytes[h] + n * 4, 4);
        }
}

// Asks for `rows` rows: of the next block from memory, and of this one, which are to be read next, from the second cache.
INLINE void ask_rows(const char *next_pool, const int64_t *next, const char *pool,
                     const int64_t *at, const int rows, const int32_t dim)
{
    VF32_UNROLL
    for (int j = 0; j < rows; j++)
        for (int32_t i = 0; i < dim; i += CODE_GROUP) {
            _mm_prefetch(next_pool + next[j] + i, _MM_HINT_T1);
            _mm_prefetch(pool + at[j] + i, _MM_HINT_T0);
        }
}

// Keys 16 i .. 16 i + 15 of the block, and the bytes from one to the next.
static const int8_t *keys_of(const struct few *f, const int32_t dim, int i, int64_t *stride)
{
    const struct rows *s = &f->rows;
    const int8_t *pool = (const int8_t *)s->call->k.data;
    const int64_t *at = s->at + i * 16;
    *stride = s->call->k.token_stride;
    if (in_a_row(at, *stride))
        return pool + at[0];
    int8_t *to = f->tiles->keys + i * 16 * dim;
    for (int j = 0; j < 16; j++)
        memcpy(to + j * dim, pool + at[j], (size_t)dim);
    *stride = dim;
    return to;
}

// High and low of the scores of 16 / lanes keys, put together as vector v of s->scores.
INLINE void join_scores(const struct few *f, const int lanes, int v)
{
    const int32_t *from = f->tiles->scores + v * 2 * LANES;
    const __m512i a = _mm512_loadu_si512(from), b = _mm512_loadu_si512(from + LANES);
    const __m512i order =
        lanes == 4 ? _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
                   : _mm512_setr_epi32(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
    const __m512i high =
        lanes == 4 ? _mm512_shuffle_i32x4(a, b, 0x88) : _mm512_shuffle_i32x4(a, b, 0x44);
    const __m512i low =
        lanes == 4 ? _mm512_shuffle_i32x4(a, b, 0xdd) : _mm512_shuffle_i32x4(a, b, 0xee);
    const __m512i whole = _mm512_add_epi32(_mm512_slli_epi32(high, 8), low);
    _mm512_storeu_ps(f->rows.scores + v * LANES,
                     vf32_mul(_mm512_loadu_ps(f->factor),
                              _mm512_cvtepi32_ps(_mm512_permutexvar_epi32(order, whole))));
}

INLINE void score_block(struct few *f, const int lanes, const int32_t dim, const bool ahead)
{
    const struct rows *s = &f->rows;
    const struct int8_tiles *t = f->tiles;
    const int64_t words = (int64_t)lanes * 8; // bytes of a row of queries, and of scores
    for (int i = 0; i < SIXTEENS; i += 2) {
        int64_t stride[2];
        const int8_t *keys[2];
        keys[0] = keys_of(f, dim, i, &stride[0]);
        keys[1] = keys_of(f, dim, i + 1, &stride[1]);
        tiles_written();
        tile_zero(0);
        tile_zero(1);
        for (int32_t column = 0; column < dim; column += CODE_GROUP) {
            tile_load(6, t->q + column * 2 * lanes, words);
            tile_load(4, keys[0] + column, stride[0]);
            tile_dot_i8(0, 4, 6);
            tile_load(4, keys[1] + column, stride[1]);
            tile_dot_i8(1, 4, 6);
        }
        tile_store_rows(0, t->scores + i * 16 * 2 * lanes, words);
        tile_store_rows(1, t->scores + (i + 1) * 16 * 2 * lanes, words);
    }
    const int keys = LANES / lanes; // of a vector
    for (int v = 0; v < BLOCK / keys; v++) {
        if (ahead)
            ask_rows(s->call->k.data, s->at + BLOCK + v * keys, s->call->v.data,
                     s->values_at + v * keys, keys, dim);
        join_scores(f, lanes, v);
    }
}

// Bytes, high and low, of the weights of four vectors: each part of 128 bits has what its lanes have, a vector's after the other.
INLINE void bytes_of_weights(const struct few *f, const struct narrowing *by, int v,
                             __m512i bytes[2])
{
    const __m512i first = _mm512_packs_epi32(narrow(f, by, v), narrow(f, by, v + 1));
    const __m512i second = _mm512_packs_epi32(narrow(f, by, v + 2), narrow(f, by, v + 3));
    const __m512i low = _mm512_set1_epi16(0xff);
    bytes[0] = _mm512_packs_epi16(upper_of(first), upper_of(second));
    bytes[1] = _mm512_packus_epi16(_mm512_and_si512(first, low), _mm512_and_si512(second, low));
}

// The weights of the block as rows of bytes.
INLINE void place_weights(struct few *f, const int lanes)
{
    // Of 8 rows a part has two: their bytes take turns.
    const __m512i apart =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    const struct narrowing by = narrowing_of(f, MOST);
    __m512i bytes[2][8], rows[4];
    VF32_UNROLL
    for (int i = 0; i < lanes; i++) {
        __m512i both[2];
        bytes_of_weights(f, &by, 4 * i, both);
        VF32_UNROLL
        for (int h = 0; h < 2; h++)
            bytes[h][i] = lanes == 4 ? both[h] : _mm512_shuffle_epi8(both[h], apart);
    }
    VF32_UNROLL
    for (int h = 0; h < 2; h++) {
        int8_t *to = f->tiles->weights + h * lanes * BLOCK;
        VF32_UNROLL
        for (int odd = 0; odd < lanes / 4; odd++) {
            __m512i x[4];
            VF32_UNROLL
            for (int i = 0; i < 4; i++)
                x[i] = lanes == 4 ? bytes[h][i]
                       : odd      ? _mm512_unpackhi_epi64(bytes[h][2 * i], bytes[h][2 * i + 1])
                                  : _mm512_unpacklo_epi64(bytes[h][2 * i], bytes[h][2 * i + 1]);
            turn_parts(x, rows);
            VF32_UNROLL
            for (int i = 0; i < 4; i++)
                _mm512_storeu_si512(to + (i * (lanes / 4) + odd) * BLOCK, rows[i]);
        }
    }
}

// The values of four keys beside each other, 64 columns: in each part of 128 bits, tile j has columns 4 j .. 4 j + 3 of 16.
INLINE void place_four(const char *pool, const int64_t at[4], int8_t *to)
{
    const __m512i a = _mm512_loadu_si512(pool + at[0]), b = _mm512_loadu_si512(pool + at[1]);
    const __m512i c = _mm512_loadu_si512(pool + at[2]), d = _mm512_loadu_si512(pool + at[3]);
    const __m512i low[2] = {_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d)};
    const __m512i high[2] = {_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d)};
    _mm512_storeu_si512(to, _mm512_unpacklo_epi16(low[0], low[1]));
    _mm512_storeu_si512(to + TILE_BYTES, _mm512_unpackhi_epi16(low[0], low[1]));
    _mm512_storeu_si512(to + 2 * TILE_BYTES, _mm512_unpacklo_epi16(high[0], high[1]));
    _mm512_storeu_si512(to + 3 * TILE_BYTES, _mm512_unpackhi_epi16(high[0], high[1]));
}

INLINE void place_values(const struct few *f, const int32_t dim, const bool ahead)
{
    const struct rows *s = &f->rows;
    const char *pool = s->call->v.data;
    for (int n = 0; n < FOURS; n++) {
        const int64_t *at = s->values_at + 4 * n;
        if (ahead)
            ask_rows(pool, at + BLOCK, s->call->k.data, s->at + BLOCK + 4 * n, 4, dim);
        for (int32_t g = 0; g < dim; g += CODE_GROUP)
            place_four(pool + g, at, f->tiles->values + g / COLUMNS * TILE_BYTES + n * 64);
    }
}

// acc = acc * shrink + unit * sum, for a tile of sums.
INLINE void add_sums(const struct few *f, const int lanes, int32_t tile)
{
    const struct rows *s = &f->rows;
    const int32_t *sums = f->tiles->sums + tile * 2 * lanes * COLUMNS;
    float *acc = s->acc + (int64_t)tile / 4 * lanes * CODE_GROUP + tile % 4 * LANES;
    VF32_UNROLL
    for (int r = 0; r < lanes; r++) {
        const __m512i high = _mm512_loadu_si512(sums + r * COLUMNS);
        const __m512i low = _mm512_loadu_si512(sums + (lanes + r) * COLUMNS);
        const __m512 sum = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high, 8), low));
        const __m512 kept = vf32_mul(vf32_set1(f->rows.shrink[lane_of(lanes, r)]),
                                     _mm512_loadu_ps(acc + r * CODE_GROUP));
        _mm512_storeu_ps(acc + r * CODE_GROUP,
                         vf32_fma(vf32_set1(f->value_unit[lane_of(lanes, r)]), sum, kept));
    }
}

INLINE void add_block(struct few *f, const int lanes, const int32_t dim, const bool ahead)
{
    const struct int8_tiles *t = f->tiles;
    place_weights(f, lanes);
    place_values(f, dim, ahead);
    tiles_written();
    tile_load(5, t->weights, BLOCK);
    for (int32_t i = 0; i < dim / COLUMNS; i += 2) {
        int32_t *sums = t->sums + i * 2 * lanes * COLUMNS;
        tile_zero(2);
        tile_load(7, t->values + i * TILE_BYTES, TILE_ROW_BYTES);
        tile_dot_i8(2, 5, 7);
        tile_store_rows(2, sums, TILE_ROW_BYTES);
        tile_zero(3);
        tile_load(7, t->values + (i + 1) * TILE_BYTES, TILE_ROW_BYTES);
        tile_dot_i8(3, 5, 7);
        tile_store_rows(3, sums + 2 * lanes * COLUMNS, TILE_ROW_BYTES);
    }
    for (int32_t i = 0; i < dim / COLUMNS; i++)
        add_sums(f, lanes, i);
}

// Where column `column` of a row is among the results.
static int64_t place_of(const int lanes, int32_t row, int32_t column)
{
    const int32_t vector = column % 16 / 4, lane = column % CODE_GROUP / 16 * 4 + column % 4;
    return ((int64_t)column / CODE_GROUP * lanes + row) * CODE_GROUP + vector * LANES + lane;
}

static __attribute__((noinline)) void add_wild_values(const struct few *f, const int lanes)
{
    const struct rows *s = &f->rows;
    const int keys = LANES / lanes;
    for (int32_t r = 0; r < s->rows; r++)
        for (int32_t i = 0; i < s->call->v.dim; i++) {
            float *acc = s->acc + place_of(lanes, r, i);
            *acc *= s->shrink[lane_of(lanes, r)];
            for (int32_t j = 0; j < s->block->n; j++)
                if (s->seen[r] >> j & 1)
                    *acc += s->scores[j / keys * LANES + score_lane(lanes, r, j % keys)] *
                            (float)((const int8_t *)s->call->v.data)[s->values_at[j] + i];
        }
}

static void store_row(const struct rows *s, const int lanes, int32_t row)
{
    for (int32_t g = 0; g < s->groups; g++)
        order_codes(s->acc + ((int64_t)g * lanes + row) * CODE_GROUP, s->row + g * CODE_GROUP);
    const int32_t at = lane_of(lanes, row);
    weft__attention_finish(s->call, s->tile, row, s->largest[at], s->sum[at], s->row);
}

INLINE void attend_tiles(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count, const int lanes,
                         const int32_t dim)
{
    struct int8_tiles t = lay_out_tiles(call, tiles, lanes);
    struct few f = {.rows = lay_out(call, tiles), .tiles = &t};
    tiles_begin_as(shapes_of(lanes));
    attend_few(&f, tiles, count, lanes, dim);
    tiles_end();
}

INLINE void attend_lanes(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count, const int lanes)
{
    switch (call->k.dim) {
    case 64: attend_tiles(call, tiles, count, lanes, 64); break;
    case 128: attend_tiles(call, tiles, count, lanes, 128); break;
    default: attend_tiles(call, tiles, count, lanes, call->k.dim);
    }
}

int32_t weft__attention_int8_tiles(const struct weft__attention_call *call,
                                   const struct weft__attention_tile *tiles, int32_t count)
{
    const int32_t rows = weft__attention_rows(call, tiles);
    const int32_t n = alike(call, tiles, count);
    if (n == 0 || call->k.dim > MOST_DIM || call->k.dim % CODE_GROUP ||
        rows > WEFT__ATTENTION_FEW_ROWS)
        return 0;
    if (rows <= 4)
        attend_lanes(call, tiles, n, 4);
    else
        attend_lanes(call, tiles, n, 8);
    return n;
}
