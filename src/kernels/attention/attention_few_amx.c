// SPDX-License-Identifier: MIT
// Five to eight rows over caches of fp8 on the tiles of AMX: what attention_tiles_amx.c does, with tiles that
// are 8 rows wide and high, so that neither the softmax nor the products of values work for rows that do not
// exist.
//
//      score[16 keys][rows]        =  key[16 keys][32 elements] * q[16 pairs of elements][rows]
//      acc[rows][16 columns]      +=  weight[rows][32 keys] * value[16 pairs of keys][16 columns]
//
// Scores are put in the order of attention_pairs.h; the softmax is that of pairs.
#include "src/kernels/attention/attention_codes_avx512bf16.h"
#include "src/kernels/attention/attention_tiles_amx.h"

// Tiles: 0, 1 scores; 2, 3 results; 4 keys; 5 weights; 6 queries; 7 values.
enum { ROWS = 8 };

static const struct tile_shapes few_shapes = {
    {16, 16, ROWS, ROWS, 16, ROWS, 16, 16},
    {4 * ROWS, 4 * ROWS, 64, 64, 64, 64, 4 * ROWS, 64},
};

// Scores of two keys, [key][row], to the order of a vector of scores.
INLINE __m512i order_of_scores(void)
{
    return _mm512_setr_epi32(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
}

// Where [row][keys] finds the weights of two vectors of scores.
static __m512i order_of_rows(void)
{
    const int keys = 2 * LANES / ROWS, together = LANES / ROWS; // of both, of one
    uint16_t from[2 * LANES];
    for (int i = 0; i < 2 * LANES; i++)
        from[i] = (uint16_t)(i % keys / together * LANES +
                             score_lane(ROWS, i / keys, i % keys % together));
    return _mm512_loadu_si512(from);
}

INLINE void score(const struct tiles *t, float scale)
{
    const struct rows *s = &t->rows;
    const int64_t steps = s->call->k.dim / GROUP, stride = (int64_t)ROWS * 4;
    for (int i = 0; i < SIXTEENS; i += 2) {
        const struct sixteen *k = t->sixteens + i;
        tile_zero(0);
        tile_zero(1);
        for (int64_t n = 0; n < steps; n++) {
            tile_load(6, s->q + n * TILE_SUMS, TILE_ROW_BYTES);
            tile_load(4, k[0].at + n * k[0].step, k[0].stride_bytes);
            tile_dot_bf16(0, 4, 6);
            tile_load(4, k[1].at + n * k[1].step, k[1].stride_bytes);
            tile_dot_bf16(1, 4, 6);
        }
        tile_store_rows(0, s->scores + i * 16 * ROWS, stride);
        tile_store_rows(1, s->scores + (i + 1) * 16 * ROWS, stride);
    }
    const __m512i order = order_of_scores();
    for (int v = 0; v < BLOCK * ROWS / LANES; v++) {
        float *at = s->scores + v * LANES;
        _mm512_storeu_ps(
            at, vf32_mul(vf32_set1(scale), _mm512_permutexvar_ps(order, _mm512_loadu_ps(at))));
    }
}

// Weights with a row in a row, as the product wants them.
static void turn_weights(const struct tiles *t)
{
    const uint32_t *from = t->rows.weight;
    VF32_UNROLL
    for (int h = 0; h < HALVES; h++, from += PAIRS / HALVES * ROWS)
        VF32_UNROLL
    for (int odd = 0; odd < 2; odd++) {
        __m512i x[4], rows[4];
        VF32_UNROLL
        for (int i = 0; i < 4; i++) {
            const __m512i a = _mm512_loadu_si512(from + 2 * i * LANES);
            const __m512i b = _mm512_loadu_si512(from + (2 * i + 1) * LANES);
            x[i] = odd ? _mm512_unpackhi_epi64(a, b) : _mm512_unpacklo_epi64(a, b);
        }
        turn_parts(x, rows);
        VF32_UNROLL
        for (int i = 0; i < 4; i++)
            _mm512_storeu_si512(t->weights + (h * ROWS + 2 * i + odd) * 32, rows[i]);
    }
}

// acc times what became of the largest scores. Most blocks of keys have none that is larger.
INLINE void shrink_sums(const struct rows *s)
{
    if (!_mm512_cmpneq_ps_mask(_mm512_loadu_ps(s->shrink), vf32_set1(1)))
        return;
    for (int32_t i = 0; i < s->groups * 2; i++)
        for (int r = 0; r < ROWS; r++) {
            float *acc = s->acc + (i * ROWS + r) * LANES;
            vf32_store(acc, vf32_mul(vf32_set1(s->shrink[lane_of(ROWS, r)]), vf32_load(acc)));
        }
}

INLINE void add_values(const struct tiles *t)
{
    const struct rows *s = &t->rows;
    const int64_t columns = s->call->v.dim / 16, half = columns * TILE_NUMBERS;
    const uint16_t *values = t->values;
    float *acc = s->acc;
    for (int64_t i = 0; i < columns; i += 2, values += 2 * TILE_NUMBERS, acc += 2 * ROWS * LANES) {
        tile_load(2, acc, TILE_ROW_BYTES);
        tile_load(3, acc + ROWS * LANES, TILE_ROW_BYTES);
        for (int h = 0; h < HALVES; h++) {
            tile_load(5, t->weights + h * ROWS * 32, TILE_ROW_BYTES);
            tile_load(7, values + h * half, TILE_ROW_BYTES);
            tile_dot_bf16(2, 5, 7);
            tile_load(7, values + h * half + TILE_NUMBERS, TILE_ROW_BYTES);
            tile_dot_bf16(3, 5, 7);
        }
        tile_store_rows(2, acc, TILE_ROW_BYTES);
        tile_store_rows(3, acc + ROWS * LANES, TILE_ROW_BYTES);
    }
}

// The infinities and NaNs that values of the block have, for those rows that see them.
static __attribute__((noinline)) void add_wild(const struct tiles *t)
{
    const struct rows *s = &t->rows;
    for (int32_t key = 0; key < s->block->n; key++)
        for (int32_t r = 0; r < s->rows && t->wild >> key & 1; r++) {
            const uint16_t weight = t->weights[(key / 32 * ROWS + r) * 32 + key % 32];
            for (int32_t i = 0; i < s->call->v.dim && s->seen[r] >> key & 1; i++) {
                const float x = value_at(s, key, i);
                const int32_t half = i % 8 / 4, place = i % GROUP / 8 * 4 + i % 4;
                if (!isfinite(x))
                    s->acc[((i / GROUP * 2 + half) * ROWS + r) * LANES + place] +=
                        weft__bf16_to_f32(weight) * x;
            }
        }
}

static void store_row(const struct rows *s, int32_t row)
{
    const float *acc = s->acc + row * LANES;
    for (int32_t i = 0; i < s->call->v.dim; i += GROUP, acc += 2 * ROWS * LANES) {
        const __m512 low = vf32_load(acc), high = vf32_load(acc + ROWS * LANES);
        const __m512 first = _mm512_shuffle_f32x4(low, high, 0x44);
        const __m512 second = _mm512_shuffle_f32x4(low, high, 0xee);
        vf32_store(s->row + i, _mm512_shuffle_f32x4(first, first, 0xd8));
        vf32_store(s->row + i + LANES, _mm512_shuffle_f32x4(second, second, 0xd8));
    }
    const int32_t at = lane_of(ROWS, row);
    weft__attention_finish(s->call, s->tile, row, s->largest[at], s->sum[at], s->row);
}

INLINE void attend_block(struct tiles *t)
{
    const struct rows *s = &t->rows;
    const struct weft__attention_call *call = s->call;
    const bool mask = s->by_all != ~UINT64_C(0) || call->generic;
    gather(t);
    tiles_written();
    score(t, call->scale * LOG2E);
    if (s->scaled) {
        spread_scales(s, ROWS);
        adjust_scores(s, ROWS, 0, s->scores);
    }
    if (mask)
        mask_scores(s, ROWS, 0, s->scores);
    weigh(s, ROWS, 0, 1);
    turn_weights(t);
    shrink_sums(s);
    tiles_written();
    add_values(t);
    if (t->wild)
        add_wild(t);
    count_block(s, mask);
}

// `count` tiles of as many rows, each with keys.
static void attend_tiles(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count)
{
    struct tiles t = lay_out_tiles(call, tiles);
    t.eager = true;
    struct rows *s = &t.rows;
    struct blocks blocks = begin_blocks(s, tiles, count);
    _mm512_storeu_si512(s->order, order_of_rows());
    tiles_begin_as(few_shapes);
    while (begin_block(&t, &blocks, ROWS)) {
        if (s->by_some)
            attend_block(&t);
        for (int32_t row = 0; ends_tile(s->block) && row < s->rows; row++)
            store_row(s, row);
    }
    tiles_end();
}

int32_t weft__attention_codes_few(const struct weft__attention_call *call,
                                  const struct weft__attention_tile *tiles, int32_t count)
{
    const int32_t rows = weft__attention_rows(call, tiles);
    const int32_t n = alike(call, tiles, count);
    if (n == 0 || rows > ROWS)
        return 0;
    attend_tiles(call, tiles, n);
    return n;
}
