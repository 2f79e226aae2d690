// SPDX-License-Identifier: MIT
// Attention over caches of bf16 and of codes of a byte on the tiles of AMX. Queries are bf16, codes become it,
// weights are rounded to it, sums are f32, as in attention_pairs_avx512bf16.c, which serves soft-caps, ALiBi
// and heads that are no multiples of 32. A tile has 16 rows; few read keys once, which is faster than the
// tiles' gathering: in f32, or in integers (takes_few()).
//
//      score[16 keys][16 rows]     =  key[16 keys][32 elements] * q[16 pairs of elements][16 rows]
//      acc[16 rows][16 columns]   +=  weight[16 rows][32 keys] * value[16 pairs of keys][16 columns]
//
// Scores leave with rows as lanes, so that the softmax goes through a block without looking across lanes; its
// weights are turned once. For 16 rows and 64 keys of 64 elements both products take 256 clocks, the
// exponentials some 500.
#include "src/kernels/attention/attention_tiles_amx.h"
#include "src/kernels/attention/attention_int8.h"

enum { VALUE_TILES = 4 }; // whose sums grow together

weft__attention_scratch_fn weft__attention_scratch_amx, weft__attention_scratch_avx512;

int64_t weft__attention_scratch_amx(int32_t rows, int32_t head_dim, int32_t v_dim)
{
    const int64_t numbers = (int64_t)BLOCK * (head_dim + v_dim + 2 * GROUP) + HALVES * TILE_NUMBERS;
    const int64_t bytes =
        bytes_of_rows(rows, head_dim, v_dim) + numbers * (int64_t)sizeof(uint16_t);
    const int64_t few = weft__attention_scratch_avx512(rows, head_dim, v_dim);
    return bytes > few ? bytes : few;
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

// Scores times `scale`, and the scales of keys if `scaled`, those that their rows do not see -infinity; the
// largest of each row.
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
    count_block(s, mask);
}

// `count` tiles of as many rows, each with keys.
static void attend_tiles(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count)
{
    struct tiles t = lay_out_tiles(call, tiles);
    struct rows *s = &t.rows;
    struct blocks blocks = begin_blocks(s, tiles, count);
    while (begin_block(&t, &blocks, LANES)) {
        if (s->by_some)
            attend_block(&t);
        for (int32_t row = 0; ends_tile(s->block) && row < s->rows; row++)
            store_row(s, row);
    }
}

weft__attention_fn weft__attention_BF16_avx512bf16, weft__attention_INT8_avx512bf16,
    weft__attention_FP8_E4M3_avx512bf16, weft__attention_FP8_E5M2_avx512bf16,
    weft__attention_BF16_avx512, weft__attention_ANY_avx512;

// Few rows in f32. Numbers below 2^-126 are zero, as in products of pairs: whether one of them meets an
// infinity makes a NaN must not depend on how many rows a tile has.
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

// Are tiles of so many rows done by tiles of AMX that are as wide (attention_few_amx.c)?
static bool is_few_on_tiles(const struct weft__attention_call *call, int32_t rows)
{
    return rows <= WEFT__ATTENTION_FEW_ROWS && is_code(call->k.dtype) &&
           call->k.dtype != WEFT_INT8 && !takes_few(call, rows) && call->k.dim % GROUP == 0 &&
           call->softcap <= 0 && !call->alibi_slopes;
}

// The first tiles that are alike, or one without keys. Returns how many.
static int32_t attend_few_on_tiles(const struct weft__attention_call *call,
                                   const struct weft__attention_tile *tiles, int32_t count)
{
    const int32_t n = weft__attention_codes_few(call, tiles, count);
    if (n > 0)
        return n;
    pairs_for(call->k.dtype)(call, tiles, 1);
    return 1;
}

// The first tiles that are as few, or as many rows.
static int32_t attend_alike(const struct weft__attention_call *call,
                            const struct weft__attention_tile *tiles, int32_t count)
{
    const int32_t rows = weft__attention_rows(call, tiles);
    if (is_few_on_tiles(call, rows))
        return attend_few_on_tiles(call, tiles, count);
    weft__attention_fn *other = instead(call, rows);
    int32_t n = 1;
    for (; n < count; n++) {
        const int32_t next = weft__attention_rows(call, &tiles[n]);
        if (is_few_on_tiles(call, next) || instead(call, next) != other)
            break;
    }
    (other ? other : attend_on_tiles)(call, tiles, n);
    return n;
}

static void attend(const struct weft__attention_call *call,
                   const struct weft__attention_tile *tiles, int32_t count)
{
    for (int32_t i = 0; i < count;)
        i += attend_alike(call, tiles + i, count - i);
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
