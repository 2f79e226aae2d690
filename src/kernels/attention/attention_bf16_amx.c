// SPDX-License-Identifier: MIT
// Attention over caches of bf16 and of codes of a byte on the tiles of AMX. Queries are bf16, codes become it, weights are
// rounded to it, sums are f32, as in attention_pairs_avx512bf16.c, which serves soft-caps, ALiBi and heads that are no
// multiples of 32. A tile has 16 rows; few read keys once, which is faster than the tiles' gathering: in f32, or in integers
// (takes_few()).
//
//      score[16 keys][16 rows]     =  key[16 keys][32 elements] * q[16 pairs of elements][16 rows]
//      acc[16 rows][16 columns]   +=  weight[16 rows][32 keys] * value[16 pairs of keys][16 columns]
//
// Keys are gathered from their pages as they lie, or widened on the way; scores leave with rows as lanes, so that the softmax goes through a
// block without looking across lanes. Its weights are turned once, values are unpacked to pairs once for all rows of the
// tile. For 16 rows and 64 keys of 64 elements both products take 256 clocks, the exponentials some 500.
#include "src/kernels/attention/attention_widen_avx512.h"
#include "src/kernels/attention/attention_work.h"
#include "src/kernels/cpu/amx.h"

enum {
    SIXTEENS = BLOCK / 16,  // of keys
    HALVES = BLOCK / 32,    // tiles of weights
    TILE_NUMBERS = 16 * 32, // bf16 of a tile
    TILE_SUMS = 16 * 16,    // f32 of a tile
    VALUE_TILES = 4,        // whose sums grow together
};

// What a block of keys becomes. Columns of values come in the order of unpacking, those of acc too.
struct tiles {
    struct rows rows;
    struct code_table table;
    uint16_t *keys;  // [sixteen of keys][32 elements][16][32]
    struct sixteen { // where the tiles of 16 keys lie: there, or in the cache
        const uint16_t *at;
        int64_t stride_bytes, step; // from key to key; elements from tile to tile
    } sixteens[SIXTEENS];
    uint16_t *values;  // [32 keys][16 columns][16 pairs][16][2]
    uint16_t *weights; // [32 keys][16 rows][32]
    uint64_t
        wild; // keys whose values have infinities or NaNs that some rows do not see: zeros in `values`
};

weft__attention_scratch_fn weft__attention_scratch_amx, weft__attention_scratch_avx512bf16,
    weft__attention_scratch_avx512;

static int64_t bytes_of_rows(int32_t rows, int32_t head_dim, int32_t v_dim)
{
    return (weft__attention_scratch_avx512bf16(rows, head_dim, v_dim) + 63) / 64 * 64;
}

int64_t weft__attention_scratch_amx(int32_t rows, int32_t head_dim, int32_t v_dim)
{
    const int64_t numbers = (int64_t)BLOCK * (head_dim + v_dim + 2 * GROUP) + HALVES * TILE_NUMBERS;
    const int64_t bytes =
        bytes_of_rows(rows, head_dim, v_dim) + numbers * (int64_t)sizeof(uint16_t);
    const int64_t few = weft__attention_scratch_avx512(rows, head_dim, v_dim);
    return bytes > few ? bytes : few;
}

static struct tiles lay_out_tiles(const struct weft__attention_call *call,
                                  const struct weft__attention_tile *tile)
{
    struct tiles t = {.rows = lay_out(call, tile)};
    if (is_code(call->k.dtype))
        t.table = code_table_of(call->k.dtype);
    t.rows.pairs = call->k.dim / 2; // queries and columns of results lie as for bf16
    t.rows.columns = GROUP;
    t.rows.groups = (int32_t)groups_of(call->v.dim, GROUP);
    t.keys = (uint16_t *)(void *)((char *)tile->scratch +
                                  bytes_of_rows(t.rows.rows, call->k.dim, call->v.dim));
    t.values = t.keys + (int64_t)BLOCK * call->k.dim;
    t.weights = t.values + (int64_t)BLOCK * call->v.dim;
    return t;
}

// The lines of row j of the next block, for the second cache: while the same row of this one is gathered, so that memory has
// something to do all the time.
INLINE void ask_row(const struct rows *s, weft_dtype kv, const struct weft__attention_plane *plane,
                    const int64_t *at, int32_t j)
{
    const int64_t size = is_code(kv) ? 1 : 2;
    for (int64_t i = 0; s->call->ahead && i < plane->dim * size; i += 2 * GROUP)
        _mm_prefetch(plane->data + size * at[BLOCK + j] + i, _MM_HINT_T1);
}

// Elements [column, column + 64) of the row at element `at` as bf16; where there are 32, the second half is of no use.
INLINE void load_row(const struct tiles *t, weft_dtype kv,
                     const struct weft__attention_plane *plane, int64_t at, int32_t column,
                     __m512i x[2])
{
    if (is_code(kv)) { // what unpacking takes apart is put beside each other first
        const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
        const __m512i codes =
            _mm512_maskz_loadu_epi8(codes_from(plane->dim, column), plane->data + at + column);
        widen_codes(kv, &t->table, _mm512_permutexvar_epi64(order, codes), x);
        return;
    }
    const uint16_t *from = (const uint16_t *)(const void *)plane->data + at + column;
    x[0] = _mm512_loadu_si512(from);
    x[1] = column + GROUP < plane->dim ? _mm512_loadu_si512(from + GROUP) : x[0];
}

// Do sixteen rows lie one behind the other, `stride` elements apart?
static bool in_a_row(const int64_t *at, int64_t stride)
{
    for (int i = 1; i < 16; i++)
        if (at[i] - at[i - 1] != stride)
            return false;
    return true;
}

// Keys of bf16 are read where they lie if that is once: many blocks of rows find them closer together.
INLINE void gather_keys(struct tiles *t, weft_dtype kv)
{
    const struct rows *s = &t->rows;
    const struct weft__attention_plane *k = &s->call->k;
    const int64_t steps = k->dim / GROUP;
    for (int i = 0; i < SIXTEENS; i++) {
        const bool direct =
            !is_code(kv) && s->blocks == 1 && in_a_row(s->at + i * 16, k->token_stride);
        t->sixteens[i] =
            direct ? (struct sixteen){(const uint16_t *)(const void *)k->data + s->at[i * 16],
                                      2 * k->token_stride, GROUP}
                   : (struct sixteen){t->keys + i * steps * TILE_NUMBERS, TILE_ROW_BYTES,
                                      TILE_NUMBERS};
    }
    for (int32_t j = 0; j < BLOCK; j++) {
        uint16_t *to = t->keys + j / 16 * steps * TILE_NUMBERS + j % 16 * 32;
        ask_row(s, kv, &s->call->k, s->at, j);
        if (t->sixteens[j / 16].step == GROUP)
            continue;
        for (int64_t i = 0; i < steps; i += 2) {
            __m512i x[2];
            load_row(t, kv, &s->call->k, s->at[j], (int32_t)i * GROUP, x);
            _mm512_storeu_si512(to + i * TILE_NUMBERS, x[0]);
            if (i + 1 < steps)
                _mm512_storeu_si512(to + (i + 1) * TILE_NUMBERS, x[1]);
        }
    }
}

// 0 times a number that is none is not 0: where some row does not see the key these are left out, for add_wild().
INLINE __m512i numbers_of(struct tiles *t, int32_t key, __m512i x)
{
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    if (t->rows.by_all >> key & 1)
        return x;
    const __mmask32 numbers = _mm512_cmpneq_epi16_mask(_mm512_and_si512(x, exponent), exponent);
    if (numbers != 0xffffffffu)
        t->wild |= UINT64_C(1) << key;
    return _mm512_maskz_mov_epi16(numbers, x);
}

// Past the block's last value, that again, which no row sees.
INLINE void gather_values(struct tiles *t, weft_dtype kv)
{
    const struct rows *s = &t->rows;
    const int32_t dim = s->call->v.dim;
    t->wild = 0;
    for (int32_t pair = 0; pair < PAIRS; pair++) {
        uint16_t *to = t->values + pair / 16 * (dim / 16) * TILE_NUMBERS + pair % 16 * 32;
        ask_row(s, kv, &s->call->v, s->values_at, 2 * pair);
        ask_row(s, kv, &s->call->v, s->values_at, 2 * pair + 1);
        for (int32_t i = 0; i < dim; i += 2 * GROUP) {
            __m512i even[2], odd[2];
            load_row(t, kv, &s->call->v, s->values_at[2 * pair], i, even);
            load_row(t, kv, &s->call->v, s->values_at[2 * pair + 1], i, odd);
            for (int h = 0; h < 2 && i + h * GROUP < dim; h++, to += 2 * TILE_NUMBERS) {
                const __m512i a = numbers_of(t, 2 * pair, even[h]);
                const __m512i b = numbers_of(t, 2 * pair + 1, odd[h]);
                _mm512_storeu_si512(to, _mm512_unpacklo_epi16(a, b));
                _mm512_storeu_si512(to + TILE_NUMBERS, _mm512_unpackhi_epi16(a, b));
            }
        }
    }
}

static void gather(struct tiles *t)
{
    switch (t->rows.call->k.dtype) {
    case WEFT_INT8: gather_keys(t, WEFT_INT8), gather_values(t, WEFT_INT8); break;
    case WEFT_FP8_E4M3: gather_keys(t, WEFT_FP8_E4M3), gather_values(t, WEFT_FP8_E4M3); break;
    case WEFT_FP8_E5M2: gather_keys(t, WEFT_FP8_E5M2), gather_values(t, WEFT_FP8_E5M2); break;
    default: gather_keys(t, WEFT_BF16), gather_values(t, WEFT_BF16);
    }
}

// Queries of a tile, rounded to bf16, as attention_pairs.h lays them for 16 rows: through `keys`, 16 rows at a time.
static void take_queries(const struct tiles *t)
{
    const struct rows *s = &t->rows;
    const int32_t dim = s->call->k.dim;
    for (int32_t b = 0; b < s->blocks; b++) {
        memset(t->keys, 0, (size_t)(LANES * dim) * sizeof *t->keys);
        for (int32_t r = b * LANES; r < s->rows && r < (b + 1) * LANES; r++) {
            float wide[WEFT__ATTENTION_MAX_DIM];
            weft__attention_query(s->call, s->tile, r, wide);
            for (int32_t i = 0; i < dim; i += GROUP)
                _mm512_storeu_si512(
                    t->keys + r % LANES * dim + i,
                    (__m512i)_mm512_cvtne2ps_pbh(vf32_load(wide + i + LANES), vf32_load(wide + i)));
        }
        float *q = (float *)(void *)s->q + (int64_t)b * s->pairs * LANES;
        for (int32_t i = 0; i < s->pairs; i += LANES) {
            vf32 pairs[LANES];
            vf32_load_transposed((const float *)(const void *)t->keys + i, s->pairs, pairs);
            for (int n = 0; n < LANES; n++)
                vf32_store(q + (i + n) * LANES, pairs[n]);
        }
    }
}

static void score(const struct tiles *t, int32_t b)
{
    const struct rows *s = &t->rows;
    const int64_t steps = s->call->k.dim / GROUP;
    const uint32_t *q = s->q + (int64_t)b * s->pairs * LANES;
    const struct sixteen *k = t->sixteens;
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
    for (int64_t i = 0; i < steps; i++, q += TILE_SUMS) {
        tile_load(6, q, TILE_ROW_BYTES);
        tile_load(4, k[0].at + i * k[0].step, k[0].stride_bytes);
        tile_dot_bf16(0, 4, 6);
        tile_load(5, k[1].at + i * k[1].step, k[1].stride_bytes);
        tile_dot_bf16(1, 5, 6);
        tile_load(4, k[2].at + i * k[2].step, k[2].stride_bytes);
        tile_dot_bf16(2, 4, 6);
        tile_load(5, k[3].at + i * k[3].step, k[3].stride_bytes);
        tile_dot_bf16(3, 5, 6);
    }
    tile_store(0, s->scores);
    tile_store(1, s->scores + TILE_SUMS);
    tile_store(2, s->scores + 2 * TILE_SUMS);
    tile_store(3, s->scores + 3 * TILE_SUMS);
}

// Scores times `scale`, and the scales of keys if `scaled`, those that their rows do not see -infinity; the largest of each
// row.
INLINE __m512 scale_scores(const struct rows *s, int32_t b, float scale, const bool mask,
                           const bool scaled)
{
    int32_t low[LANES], high[LANES];
    for (int i = 0; i < LANES && mask; i++) {
        const int32_t row = b * LANES + i;
        const uint64_t seen = row < s->rows ? s->seen[row] : ~UINT64_C(0);
        low[i] = (int32_t)(uint32_t)seen;
        high[i] = (int32_t)(uint32_t)(seen >> 32);
    }
    __m512 top[STEP];
    VF32_UNROLL
    for (int i = 0; i < STEP; i++)
        top[i] = _mm512_loadu_ps(s->largest + b * LANES);
    for (int32_t key = 0; key < BLOCK; key += STEP) {
        const __m512i seen =
            mask ? _mm512_loadu_si512(key < 32 ? low : high) : _mm512_setzero_si512();
        VF32_UNROLL
        for (int i = 0; i < STEP; i++) {
            float *at = s->scores + (key + i) * LANES;
            const float factor = scaled ? scale * s->key_scale[key + i] : scale;
            __m512 x = vf32_mul(vf32_set1(factor), _mm512_loadu_ps(at));
            if (mask)
                x = _mm512_mask_blend_ps(
                    _mm512_test_epi32_mask(seen,
                                           _mm512_set1_epi32((int32_t)(1u << (key + i) % 32))),
                    vf32_set1(-INFINITY), x);
            _mm512_storeu_ps(at, x);
            top[i] = vf32_max(top[i], x);
        }
    }
    return vf32_max(vf32_max(top[0], top[1]), vf32_max(top[2], top[3]));
}

// Weights of two keys, beside one another for each row.
INLINE __m512i pairs_of(__m512 even, __m512 odd)
{
    static const uint16_t order[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                       21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                       11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return _mm512_permutexvar_epi16(_mm512_loadu_si512(order),
                                    (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}

// Scores of a block of rows to weights and what the rows have come to: the online softmax.
INLINE void weigh(const struct rows *s, int32_t b, float scale, const bool mask, const bool scaled)
{
    const __m512 before = _mm512_loadu_ps(s->largest + b * LANES);
    const __m512 largest = scale_scores(s, b, scale, mask, scaled);
    const __mmask16 none = _mm512_cmp_ps_mask(largest, vf32_set1(-INFINITY), _CMP_EQ_OQ);
    const __m512 from = _mm512_mask_blend_ps(none, largest, _mm512_setzero_ps());
    __m512 total[STEP];
    VF32_UNROLL
    for (int i = 0; i < STEP; i++)
        total[i] = _mm512_setzero_ps();
    for (int32_t key = 0; key < BLOCK; key += STEP) {
        __m512 p[STEP];
        VF32_UNROLL
        for (int i = 0; i < STEP; i++) {
            const __m512 x = _mm512_loadu_ps(s->scores + (key + i) * LANES);
            p[i] = vf32_exp2(vf32_sub(x, from));
            total[i] = vf32_add(total[i], p[i]);
            if (scaled)
                p[i] = scale_weights(p[i], x, vf32_set1(s->value_scale[key + i]));
        }
        VF32_UNROLL
        for (int i = 0; i < STEP; i += 2)
            _mm512_storeu_si512(s->weight + (key + i) / 2 * LANES, pairs_of(p[i], p[i + 1]));
    }
    const __m512 shrink = vf32_exp2(vf32_sub(before, from));
    const __m512 sum = vf32_add(vf32_add(total[0], total[1]), vf32_add(total[2], total[3]));
    _mm512_storeu_ps(s->shrink + b * LANES, shrink);
    _mm512_storeu_ps(s->sum + b * LANES,
                     vf32_fma(_mm512_loadu_ps(s->sum + b * LANES), shrink, sum));
    _mm512_storeu_ps(s->largest + b * LANES, largest);
}

// Weights with a row in a row, as the product wants them.
static void turn_weights(const struct tiles *t)
{
    for (int h = 0; h < HALVES; h++) {
        vf32 rows[LANES];
        vf32_load_transposed((const float *)(const void *)t->rows.weight + h * TILE_SUMS, LANES,
                             rows);
        for (int r = 0; r < LANES; r++)
            _mm512_storeu_ps((float *)(void *)(t->weights + h * TILE_NUMBERS) + r * LANES, rows[r]);
    }
}

static float *sums_of(const struct rows *s, int32_t b)
{
    return s->acc + (int64_t)b * s->groups * 2 * TILE_SUMS;
}

// acc times what became of the largest scores. Most blocks of keys have none that is larger.
static void shrink_sums(const struct rows *s, int32_t b)
{
    const __m512 shrink = _mm512_loadu_ps(s->shrink + b * LANES);
    float *acc = sums_of(s, b);
    if (!_mm512_cmpneq_ps_mask(shrink, vf32_set1(1)))
        return;
    for (int32_t i = 0; i < s->groups * 2 * LANES; i++)
        vf32_store(acc + i * LANES, vf32_mul(vf32_set1(s->shrink[b * LANES + i % LANES]),
                                             vf32_load(acc + i * LANES)));
}

// A tile of weights, which is in 4, by one of values, through tile `b`, to tile `sum`.
#define ADD_TILE(sum, value, b)                                                                    \
    do {                                                                                           \
        tile_load(b, value, TILE_ROW_BYTES);                                                       \
        tile_dot_bf16(sum, 4, b);                                                                  \
    } while (0)

static void add_values(const struct tiles *t, int32_t b)
{
    const struct rows *s = &t->rows;
    const int64_t columns = s->call->v.dim / 16, half = columns * TILE_NUMBERS;
    float *acc = sums_of(s, b);
    const uint16_t *values = t->values;
    int64_t i = 0;
    for (; i + VALUE_TILES <= columns; i += VALUE_TILES) {
        tile_load(0, acc, TILE_ROW_BYTES);
        tile_load(1, acc + TILE_SUMS, TILE_ROW_BYTES);
        tile_load(2, acc + 2 * TILE_SUMS, TILE_ROW_BYTES);
        tile_load(3, acc + 3 * TILE_SUMS, TILE_ROW_BYTES);
        for (int h = 0; h < HALVES; h++) {
            tile_load(4, t->weights + h * TILE_NUMBERS, TILE_ROW_BYTES);
            ADD_TILE(0, values + h * half, 6);
            ADD_TILE(1, values + h * half + TILE_NUMBERS, 7);
            ADD_TILE(2, values + h * half + 2 * TILE_NUMBERS, 6);
            ADD_TILE(3, values + h * half + 3 * TILE_NUMBERS, 7);
        }
        tile_store(0, acc);
        tile_store(1, acc + TILE_SUMS);
        tile_store(2, acc + 2 * TILE_SUMS);
        tile_store(3, acc + 3 * TILE_SUMS);
        acc += VALUE_TILES * TILE_SUMS;
        values += VALUE_TILES * TILE_NUMBERS;
    }
    for (; i < columns; i++, acc += TILE_SUMS, values += TILE_NUMBERS) {
        tile_load(0, acc, TILE_ROW_BYTES);
        for (int h = 0; h < HALVES; h++) {
            tile_load(4, t->weights + h * TILE_NUMBERS, TILE_ROW_BYTES);
            ADD_TILE(0, values + h * half, 6);
        }
        tile_store(0, acc);
    }
}

// Where column `column` of a row is among the sums of its block of rows.
static int64_t place_of(int32_t row, int32_t column)
{
    const int32_t half = column % 8 / 4, place = column % GROUP / 8 * 4 + column % 4;
    return ((int64_t)(column / GROUP * 2 + half) * LANES + row) * LANES + place;
}

static float value_at(const struct rows *s, int32_t key, int32_t column)
{
    const struct weft__attention_plane *v = &s->call->v;
    const int64_t at = s->values_at[key] + column;
    switch (v->dtype) {
    case WEFT_INT8: return ((const int8_t *)v->data)[at];
    case WEFT_FP8_E4M3: return weft__fp8_e4m3_to_f32(((const uint8_t *)v->data)[at]);
    case WEFT_FP8_E5M2: return weft__fp8_e5m2_to_f32(((const uint8_t *)v->data)[at]);
    default: return weft__bf16_to_f32(((const uint16_t *)(const void *)v->data)[at]);
    }
}

// The infinities and NaNs that values of the block have, for those rows of block b that see them.
static __attribute__((noinline)) void add_wild(const struct tiles *t, int32_t b)
{
    const struct rows *s = &t->rows;
    const int32_t end = s->rows - b * LANES < LANES ? s->rows - b * LANES : LANES;
    for (int32_t key = 0; key < s->block->n; key++)
        for (int32_t r = 0; r < end && t->wild >> key & 1; r++) {
            const uint16_t weight = t->weights[key / 32 * TILE_NUMBERS + r * 32 + key % 32];
            for (int32_t i = 0; i < s->call->v.dim && s->seen[b * LANES + r] >> key & 1; i++) {
                const float x = value_at(s, key, i);
                if (!isfinite(x))
                    sums_of(s, b)[place_of(r, i)] += weft__bf16_to_f32(weight) * x;
            }
        }
}

static void store_row(const struct rows *s, int32_t row)
{
    const float *acc = sums_of(s, row / LANES) + row % LANES * LANES;
    for (int32_t i = 0; i < s->call->v.dim; i += GROUP, acc += 2 * TILE_SUMS) {
        const __m512 low = vf32_load(acc), high = vf32_load(acc + TILE_SUMS);
        const __m512 first = _mm512_shuffle_f32x4(low, high, 0x44);
        const __m512 second = _mm512_shuffle_f32x4(low, high, 0xee);
        vf32_store(s->row + i, _mm512_shuffle_f32x4(first, first, 0xd8));
        vf32_store(s->row + i + LANES, _mm512_shuffle_f32x4(second, second, 0xd8));
    }
    weft__attention_finish(s->call, s->tile, row, s->largest[row], s->sum[row], s->row);
}

static void attend_block(struct tiles *t)
{
    const struct rows *s = &t->rows;
    const struct weft__attention_call *call = s->call;
    const bool mask = s->by_all != ~UINT64_C(0) || call->generic;
    const float scale = call->scale * LOG2E;
    gather(t);
    if (s->scaled) {
        gather_scales(call, s->tile, &call->k, s->block->first, s->block->n, 1, s->key_scale);
        gather_scales(call, s->tile, &call->v, s->block->first, s->block->n, 1, s->value_scale);
    }
    for (int32_t b = 0; b < s->blocks; b++) {
        score(t, b);
        if (s->scaled)
            weigh(s, b, scale, true, true);
        else if (mask)
            weigh(s, b, scale, true, false);
        else
            weigh(s, b, scale, false, false);
        turn_weights(t);
        shrink_sums(s, b);
        add_values(t, b);
        if (t->wild)
            add_wild(t, b);
    }
    uint64_t blocks = 0;
    for (int32_t r = 0; r < s->rows && call->counts; r++)
        blocks += s->seen[r] != 0;
    weft__attention_count(call, blocks, mask ? blocks : 0);
}

// `count` tiles of as many rows, each with keys.
static void attend_tiles(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count)
{
    struct tiles t = lay_out_tiles(call, tiles);
    struct rows *s = &t.rows;
    struct blocks blocks = begin_blocks(s, tiles, count);
    while (next_of(s, &blocks)) {
        if (begins_tile(s->block)) {
            const bool loaded = same_rows(s->tile, s->block->tile);
            s->tile = s->block->tile;
            if (!loaded)
                take_queries(&t);
            open_rows(s, LANES);
            s->all = seen_by_all(s);
        }
        look(s);
        if (s->by_some)
            attend_block(&t);
        for (int32_t row = 0; ends_tile(s->block) && row < s->rows; row++)
            store_row(s, row);
    }
}

weft__attention_fn weft__attention_BF16_avx512bf16, weft__attention_INT8_avx512bf16,
    weft__attention_FP8_E4M3_avx512bf16, weft__attention_FP8_E5M2_avx512bf16,
    weft__attention_BF16_avx512, weft__attention_ANY_avx512;

// Few rows in f32. Numbers below 2^-126 are zero, as in products of pairs: whether one of them meets an infinity makes a NaN
// must not depend on how many rows a tile has.
static void attend_few(const struct weft__attention_call *call,
                       const struct weft__attention_tile *tiles, int32_t count)
{
    const unsigned zeros = _MM_DENORMALS_ZERO_ON | _MM_FLUSH_ZERO_ON, before = _mm_getcsr();
    _mm_setcsr(before | zeros);
    if (is_code(call->k.dtype))
        weft__attention_ANY_avx512(call, tiles, count);
    else
        weft__attention_BF16_avx512(call, tiles, count);
    _mm_setcsr(before);
}

// The kernel of pairs, which serves everything.
static weft__attention_fn *pairs_for(weft_dtype kv)
{
    switch (kv) {
    case WEFT_INT8: return weft__attention_INT8_avx512bf16;
    case WEFT_FP8_E4M3: return weft__attention_FP8_E4M3_avx512bf16;
    case WEFT_FP8_E5M2: return weft__attention_FP8_E5M2_avx512bf16;
    default: return weft__attention_BF16_avx512bf16;
    }
}

// Are few rows faster in f32? vdpbf16ps is issued once in two clocks here, and tiles want 16 rows.
static bool takes_few(const struct weft__attention_call *call, int32_t rows)
{
    const bool scattered = weft__attention_is_scattered(&call->mask);
    switch (call->k.dtype) {
    case WEFT_INT8: return false; // integers do it
    case WEFT_BF16:
        return rows <= WEFT__ATTENTION_FEW_ROWS &&
               (!scattered || weft__attention_is_late(&call->mask));
    default: return rows <= WEFT__ATTENTION_FEW_ROWS / 2 && !scattered && call->k.dim % 16 == 0;
    }
}

// Who serves tiles of `rows` rows in place of the tiles of AMX; NULL: these do.
static weft__attention_fn *instead(const struct weft__attention_call *call, int32_t rows)
{
    if (takes_few(call, rows))
        return attend_few;
    return (call->k.dtype == WEFT_INT8 && rows <= WEFT__ATTENTION_FEW_ROWS) ||
                   call->k.dim % GROUP != 0 || call->softcap > 0 || call->alibi_slopes
               ? pairs_for(call->k.dtype)
               : NULL;
}

static void attend_on_tiles(const struct weft__attention_call *call,
                            const struct weft__attention_tile *tiles, int32_t count)
{
    tiles_begin(16);
    for (int32_t n, i = 0; i < count; i += n) {
        n = alike(call, tiles + i, count - i);
        if (n > 0)
            attend_tiles(call, tiles + i, n);
        else
            pairs_for(call->k.dtype)(call, tiles + i, 1), n = 1;
    }
    tiles_end();
}

static void attend(const struct weft__attention_call *call,
                   const struct weft__attention_tile *tiles, int32_t count)
{
    for (int32_t n, i = 0; i < count; i += n) {
        weft__attention_fn *other = instead(call, weft__attention_rows(call, &tiles[i]));
        n = 1;
        while (i + n < count && instead(call, weft__attention_rows(call, &tiles[i + n])) == other)
            n++;
        (other ? other : attend_on_tiles)(call, tiles + i, n);
    }
}

#define ATTENTION(kv)                                                                              \
    weft__attention_fn weft__attention_##kv##_amx;                                                 \
    void weft__attention_##kv##_amx(const struct weft__attention_call *call,                       \
                                    const struct weft__attention_tile *tiles, int32_t count)       \
    {                                                                                              \
        attend(call, tiles, count);                                                                \
    }

ATTENTION(BF16)
ATTENTION(INT8)
ATTENTION(FP8_E4M3)
ATTENTION(FP8_E5M2)
