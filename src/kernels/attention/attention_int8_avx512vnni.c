// SPDX-License-Identifier: MIT
// Few rows (decode) over caches of int8 by products of 16-bit integers: vpdpwssd multiplies twice as many numbers as an
// f32 multiply-add of the same width, and a code becomes 16 bits by one instruction that reads it from memory. Queries are
// rounded to 2^-14 of their largest element's power of two, weights (times the scales of their values) to 2^-15 of the
// largest of their row and block; sums of a block are exact.
//
//      q       [row][element]                     int16, times the row's unit
//      weight  [pair of keys][row]                pairs of int16, times the row's unit of the block
//      acc     [group of 32 columns][row][16 ..]  f32, columns in the order of unpacking (order_group())
//
// Lanes of products are elements, of scores rows and keys (attention_pairs.h). Tiles of many rows go to other kernels.
#include "src/kernels/attention/attention_int8_avx512.h"

enum { WEIGHT_MOST = INT16_MAX };

// Sums of products. Of a type of its own: gcc copies a sum that is an __m512i around each product.
typedef int32_t integers __attribute__((vector_size(64)));

INLINE integers add_products(integers sum, __m512i a, __m512i b)
{
    return (integers)_mm512_dpwssd_epi32((__m512i)sum, a, b);
}

// Sums of UNIT_SUMS products: all rows with as many keys from `at` on, a row's keys next to each other.
INLINE void score_unit(const struct rows *s, const int lanes, const int32_t dim, const int64_t *at,
                       const bool ahead, integers sums[UNIT_SUMS])
{
    const char *pool = s->call->k.data;
    const int keys = UNIT_SUMS / lanes;
    const int64_t stride = (dim + CODE_GROUP - 1) / CODE_GROUP * (CODE_GROUP / 2);
    VF32_UNROLL
    for (int i = 0; i < UNIT_SUMS; i++)
        sums[i] = (integers){0};
    VF32_UNROLL
    for (int32_t column = 0; column < dim; column += HALF_CODES) {
        VF32_UNROLL
        for (int j = 0; j < keys; j++) {
            if (ahead && column % CODE_GROUP == 0)
                ask_codes(pool, at + j, column);
            const __m512i key = load_half(pool + at[j] + column, dim - column, is_whole(dim));
            VF32_UNROLL
            for (int r = 0; r < lanes; r++) {
                const __m512i q = _mm512_loadu_si512(s->q + r * stride + column / 2);
                sums[r * keys + j] = add_products(sums[r * keys + j], key, q);
            }
        }
    }
}

// The first step of adding up lanes: of neighbours, in both halves of 64 bits.
INLINE void add_neighbours(const integers sums[UNIT_SUMS], __m512i *pairs)
{
    VF32_UNROLL
    for (int i = 0; i < UNIT_SUMS / 2; i++) {
        const __m512i a = (__m512i)sums[2 * i], b = (__m512i)sums[2 * i + 1];
        pairs[2 * i] = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    }
}

// The others, to a vector of scores.
INLINE __m512i add_pairs(const __m512i pairs[UNIT_SUMS])
{
    __m512i quads[4];
    VF32_UNROLL
    for (int i = 0; i < 4; i++)
        quads[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(pairs[2 * i], pairs[2 * i + 1]),
                                    _mm512_unpackhi_epi64(pairs[2 * i], pairs[2 * i + 1]));
    const __m512i a = _mm512_add_epi32(_mm512_shuffle_i32x4(quads[0], quads[1], 0x88),
                                       _mm512_shuffle_i32x4(quads[0], quads[1], 0xdd));
    const __m512i b = _mm512_add_epi32(_mm512_shuffle_i32x4(quads[2], quads[3], 0x88),
                                       _mm512_shuffle_i32x4(quads[2], quads[3], 0xdd));
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

// Scores of code_step() keys from `key` on of the block: two vectors, each of two units. Lanes are added up beside the
// products of the next unit: they have waited for the last of their own by then.
INLINE void score_keys(const struct few *f, const int lanes, const int32_t dim, int32_t key,
                       const bool ahead)
{
    const struct rows *s = &f->rows;
    const int keys = LANES / lanes; // of a vector
    const __m512 factor = _mm512_loadu_ps(f->factor);
    integers sums[2][UNIT_SUMS];
    __m512i pairs[UNIT_SUMS];
    VF32_UNROLL
    for (int i = 0; i <= 4; i++) {
        if (i < 4)
            score_unit(s, lanes, dim, s->at + key + i * keys / 2, ahead, sums[i % 2]);
        if (i > 0)
            add_neighbours(sums[(i - 1) % 2], pairs + (i - 1) % 2);
        if (i == 2 || i == 4)
            _mm512_storeu_ps(s->scores + (key / keys + i / 2 - 1) * LANES,
                             _mm512_mul_ps(factor, _mm512_cvtepi32_ps(add_pairs(pairs))));
    }
}

// The weights of the block as pairs of keys.
INLINE void narrow_weights(struct few *f, const int lanes)
{
    const struct rows *s = &f->rows;
    const __m512i order = _mm512_loadu_si512(s->order);
    const struct narrowing by = narrowing_of(f, WEIGHT_MOST);
    for (int v = 0; v < BLOCK * lanes / LANES; v += 2)
        _mm512_storeu_si512(
            s->weight + v / 2 * LANES,
            _mm512_permutexvar_epi16(order,
                                     _mm512_packs_epi32(narrow(f, &by, v), narrow(f, &by, v + 1))));
}

// Where packing puts what order_of_weights() finds.
static __m512i order_of_packed(const int lanes)
{
    uint16_t from[2 * LANES];
    _mm512_storeu_si512(from, order_of_weights(lanes));
    for (int i = 0; i < 2 * LANES; i++) {
        const int vector = from[i] / LANES, lane = from[i] % LANES;
        from[i] = (uint16_t)(lane / 4 * 8 + vector * 4 + lane % 4);
    }
    return _mm512_loadu_si512(from);
}

// In all lanes. As a float, for that is read by the broadcast itself.
INLINE __m512i pair_of_weights(const uint32_t *weight)
{
    float pair;
    memcpy(&pair, weight, sizeof pair);
    return _mm512_castps_si512(vf32_set1(pair));
}

// acc[row][columns] = acc * shrink + unit * (weight * value) for all rows and `groups` times 32 columns from group `g` on.
INLINE void add_values(const struct few *f, const int lanes, const int32_t dim, const int groups,
                       int32_t g, const bool ahead)
{
    const struct rows *s = &f->rows;
    const uint32_t *weight = s->weight;
    const char *pool = (const char *)s->call->v.data + g * GROUP;
    const int32_t left = dim - g * GROUP;
    integers sums[4 * VALUE_ROWS];
    VF32_UNROLL
    for (int i = 0; i < 2 * groups * lanes; i++)
        sums[i] = (integers){0};
    const int64_t *at = s->values_at, *const end = at + s->block->n;
    for (; at < end; at += 2, weight += lanes) {
        if (ahead && g % 2 == 0) {
            ask_codes(pool, at, 0);
            ask_codes(pool, at + 1, 0);
        }
        VF32_UNROLL
        for (int i = 0; i < groups; i++) {
            const __m512i even =
                load_half(pool + at[0] + i * GROUP, left - i * GROUP, is_whole(dim));
            const __m512i odd =
                load_half(pool + at[1] + i * GROUP, left - i * GROUP, is_whole(dim));
            const __m512i low = _mm512_unpacklo_epi16(even, odd);
            const __m512i high = _mm512_unpackhi_epi16(even, odd);
            VF32_UNROLL
            for (int r = 0; r < lanes; r++) {
                const __m512i w = pair_of_weights(weight + r);
                integers *sum = &sums[(i * lanes + r) * 2];
                sum[0] = add_products(sum[0], low, w);
                sum[1] = add_products(sum[1], high, w);
            }
        }
    }
    float *acc = s->acc + (int64_t)g * lanes * GROUP;
    VF32_UNROLL
    for (int i = 0; i < groups; i++)
        VF32_UNROLL
    for (int r = 0; r < lanes; r++) {
        const __m512 shrink = vf32_set1(s->shrink[lane_of(lanes, r)]);
        const __m512 unit = vf32_set1(f->value_unit[lane_of(lanes, r)]);
        VF32_UNROLL
        for (int h = 0; h < 2; h++) {
            const int n = (i * lanes + r) * 2 + h;
            const __m512 kept = vf32_mul(shrink, _mm512_loadu_ps(acc + n * LANES));
            _mm512_storeu_ps(acc + n * LANES,
                             vf32_fma(unit, _mm512_cvtepi32_ps((__m512i)sums[n]), kept));
        }
    }
}

// The same where a weight is infinite or NaN: one by one, to the rows that see the key.
static __attribute__((noinline)) void add_wild_values(const struct few *f, const int lanes)
{
    const struct rows *s = &f->rows;
    for (int32_t g = 0; g < s->groups; g++)
        for (int32_t r = 0; r < s->rows; r++) {
            float *acc = s->acc + ((int64_t)g * lanes + r) * GROUP;
            for (int h = 0; h < 2; h++, acc += LANES) {
                __m512 sum =
                    vf32_mul(vf32_set1(s->shrink[lane_of(lanes, r)]), _mm512_loadu_ps(acc));
                for (int32_t j = 0; j < s->block->n; j++) {
                    const int keys = LANES / lanes;
                    const float p = s->scores[j / keys * LANES + score_lane(lanes, r, j % keys)];
                    const __m512i codes =
                        load_half((const char *)s->call->v.data + s->values_at[j] + g * GROUP,
                                  s->call->v.dim - g * GROUP, false);
                    const __m512i zero = _mm512_setzero_si512();
                    const __m512i words =
                        h ? _mm512_unpackhi_epi16(zero, codes) : _mm512_unpacklo_epi16(zero, codes);
                    if (s->seen[r] >> j & 1)
                        sum = vf32_fma(vf32_set1(p),
                                       _mm512_cvtepi32_ps(_mm512_srai_epi32(words, 16)), sum);
                }
                _mm512_storeu_ps(acc, sum);
            }
        }
}

INLINE void add_block(struct few *f, const int lanes, const int32_t dim, const bool ahead)
{
    narrow_weights(f, lanes);
    const int together = lanes == 4 ? 2 : 1;
    int32_t g = 0;
    for (; g + together <= f->rows.groups; g += together)
        add_values(f, lanes, dim, together, g, ahead);
    for (; g < f->rows.groups; g++)
        add_values(f, lanes, dim, 1, g, ahead);
}

INLINE void score_block(struct few *f, const int lanes, const int32_t dim, const bool ahead)
{
    for (int32_t key = 0; key < f->rows.block->n; key += code_step(lanes))
        score_keys(f, lanes, dim, key, ahead);
}

static void begin_tile(struct few *f, const int lanes)
{
    place_queries(f, lanes, INT16_MAX);
}

static void store_row(const struct rows *s, const int lanes, int32_t row)
{
    for (int32_t g = 0; g < s->groups; g++)
        order_group(s->acc + ((int64_t)g * lanes + row) * GROUP, s->row + g * GROUP);
    const int32_t at = lane_of(lanes, row);
    weft__attention_finish(s->call, s->tile, row, s->largest[at], s->sum[at], s->row);
}

INLINE void attend_tiles(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count, const int lanes,
                         const int32_t dim)
{
    struct few f = {.rows = lay_out(call, tiles)};
    f.rows.columns = GROUP;
    f.rows.groups = (int32_t)groups_of(call->v.dim, GROUP);
    _mm512_storeu_si512(f.rows.order, order_of_packed(lanes));
    attend_few(&f, tiles, count, lanes, dim);
}

INLINE void attend_lanes(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count, const int lanes)
{
    switch (call->k.dim) {
    case 64: attend_tiles(call, tiles, count, lanes, 64); break;
    case 96: attend_tiles(call, tiles, count, lanes, 96); break;
    case 128: attend_tiles(call, tiles, count, lanes, 128); break;
    case 256: attend_tiles(call, tiles, count, lanes, 256); break;
    default: attend_tiles(call, tiles, count, lanes, call->k.dim);
    }
}

int32_t weft__attention_int8_few(const struct weft__attention_call *call,
                                 const struct weft__attention_tile *tiles, int32_t count)
{
    const int32_t rows = weft__attention_rows(call, tiles);
    const int32_t n = alike(call, tiles, count);
    if (n == 0 || call->k.dim > MOST_DIM || rows > WEFT__ATTENTION_FEW_ROWS)
        return 0;
    if (rows <= 4)
        attend_lanes(call, tiles, n, 4);
    else
        attend_lanes(call, tiles, n, 8);
    return n;
}

weft__attention_scratch_fn weft__attention_scratch_avx512vnni, weft__attention_scratch_avx512;
int64_t weft__attention_scratch_avx512vnni(int32_t rows, int32_t head_dim, int32_t v_dim)
{
    const int64_t own = rows_bytes(rows, head_dim, v_dim);
    const int64_t other = weft__attention_scratch_avx512(rows, head_dim, v_dim);
    return own > other ? own : other;
}

// Tiles of many rows multiply in f32.
weft__attention_fn weft__attention_INT8_avx512vnni, weft__attention_ANY_avx512;
void weft__attention_INT8_avx512vnni(const struct weft__attention_call *call,
                                     const struct weft__attention_tile *tiles, int32_t count)
{
    for (int32_t n, i = 0; i < count; i += n) {
        n = weft__attention_int8_few(call, tiles + i, count - i);
        if (n == 0)
            weft__attention_ANY_avx512(call, tiles + i, 1), n = 1;
    }
}
