// SPDX-License-Identifier: MIT
// Few rows (decode) over caches of int8 by products of 16-bit integers: vpdpwssd multiplies twice as many numbers as an
// f32 multiply-add of the same width, and a code becomes 16 bits by one instruction that reads it from memory.
// Queries are rounded to 2^-14 of their largest element's power of two, weights (times the scales of their
// values) to 2^-15 of the largest of their row and block; sums of a block are exact.
//
//      q       [row][element]                     int16, times the row's unit
//      weight  [pair of keys][row]                pairs of int16, times the row's unit of the block
//      acc     [group of 32 columns][row][16 ..]  f32, columns in the order of unpacking (order_group())
//
// Lanes of products are elements, of scores rows and keys (attention_pairs.h). Tiles of many rows go to other kernels.
#include "src/kernels/attention/attention_lanes_avx512.h"

#include <float.h>

#include "src/kernels/attention/attention_int8.h"
#include "src/kernels/attention/attention_work.h"

enum {
    HALF_CODES = 32, // codes that become a vector of 16-bit integers
    WEIGHT_MOST = INT16_MAX,
    MOST_DIM = 256, // of keys: sums of more elements may pass 2^31
};

// Sums of products. Of a type of its own: gcc copies a sum that is an __m512i around each product.
typedef int32_t integers __attribute__((vector_size(64)));

INLINE integers add_products(integers sum, __m512i a, __m512i b)
{
    return (integers)_mm512_dpwssd_epi32((__m512i)sum, a, b);
}

struct few {
    struct rows rows;
    float factor[LANES];     // of scores: the row's unit times the scale
    float shrink[LANES];     // of results
    float value_unit[LANES]; // of the block's weights
    __mmask16 used;          // lanes of scores that are rows
    bool wild;               // are some of these, times the scales of values, not finite?
};

// Are heads whole vectors, as far as the compiler knows?
INLINE bool is_whole(int32_t dim)
{
    return __builtin_constant_p(dim) && dim % HALF_CODES == 0;
}

// Of codes, `left` of which exist from there on.
INLINE __m512i load_half(const char *codes, int32_t left, const bool whole)
{
    if (whole)
        return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)codes));
    const __mmask32 mask = left < HALF_CODES ? (1u << left) - 1 : UINT32_MAX;
    return _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(mask, codes));
}

// A row's largest element to 15 bits, the others alike.
static void place_row(struct few *f, const int lanes, int32_t r, const float *wide)
{
    const struct weft__attention_call *call = f->rows.call;
    const float scale = call->softcap > 0 ? call->scale : call->scale * LOG2E;
    const int32_t dim = call->k.dim;
    int16_t *q = (int16_t *)(void *)(f->rows.q + (int64_t)r * f->rows.pairs);
    __m512 top = _mm512_setzero_ps();
    int exponent = 0;
    for (int32_t i = 0; i < dim; i += LANES) {
        const __mmask16 mask = dim - i < LANES ? (__mmask16)((1u << (dim - i)) - 1) : 0xffff;
        top = vf32_max(top, _mm512_abs_ps(_mm512_maskz_loadu_ps(mask, wide + i)));
    }
    const float largest = vf32_largest(top);
    frexpf(largest, &exponent);
    const __m512 up = vf32_set1((float)(15 - exponent));
    for (int32_t i = 0; i < dim; i += LANES) {
        const __mmask16 mask = dim - i < LANES ? (__mmask16)((1u << (dim - i)) - 1) : 0xffff;
        const __m512 x = _mm512_scalef_ps(_mm512_maskz_loadu_ps(mask, wide + i), up);
        _mm256_storeu_si256((void *)(q + i), _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(x)));
    }
    for (int i = 0; i < LANES; i++)
        if (row_of(lanes, i) == r)
            f->factor[i] = isfinite(largest) ? ldexpf(scale, exponent - 15) : NAN;
}

static void place_queries(struct few *f, const int lanes)
{
    const struct rows *s = &f->rows;
    memset(s->q, 0, (size_t)(s->pairs * lanes) * sizeof *s->q);
    memset(f->factor, 0, sizeof f->factor);
    f->used = 0;
    for (int i = 0; i < LANES; i++)
        f->used |= (__mmask16)((row_of(lanes, i) < s->rows) << i);
    for (int32_t r = 0; r < s->rows; r++) {
        float wide[WEFT__ATTENTION_MAX_DIM + LANES];
        weft__attention_query(s->call, s->tile, r, wide);
        place_row(f, lanes, r, wide);
    }
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

// Scores to weights times the scales of values, and what the rows have come to: the online softmax. The largest
// of these products is what the block's unit follows from.
INLINE void weigh(struct few *f, const int lanes)
{
    const struct rows *s = &f->rows;
    const int vectors = BLOCK * lanes / LANES;
    const __m512 before = _mm512_loadu_ps(s->largest);
    __m512 top[STEP], total[STEP];
    __m512i most[STEP]; // bits of numbers, whose order they have; NaN comes after infinity
    VF32_UNROLL
    for (int i = 0; i < STEP; i++) {
        top[i] = before;
        total[i] = _mm512_setzero_ps();
        most[i] = _mm512_setzero_si512();
    }
    for (int v = 0; v < vectors; v += STEP)
        VF32_UNROLL
    for (int i = 0; i < STEP; i++)
        top[i] = vf32_max(top[i], _mm512_loadu_ps(s->scores + (v + i) * LANES));
    const __m512 largest =
        over_keys(lanes, vf32_max(vf32_max(top[0], top[1]), vf32_max(top[2], top[3])), true);
    const __mmask16 none = _mm512_cmp_ps_mask(largest, vf32_set1(-INFINITY), _CMP_EQ_OQ);
    const __m512 from = _mm512_mask_blend_ps(none, largest, _mm512_setzero_ps());
    for (int v = 0; v < vectors; v += STEP)
        VF32_UNROLL
    for (int i = 0; i < STEP; i++) {
        __m512 p = vf32_exp2(vf32_sub(_mm512_loadu_ps(s->scores + (v + i) * LANES), from));
        total[i] = vf32_add(total[i], p);
        if (s->scaled)
            p = vf32_mul(p, _mm512_loadu_ps(s->value_scale + (v + i) * LANES));
        most[i] = _mm512_max_epi32(most[i], _mm512_castps_si512(_mm512_abs_ps(p)));
        _mm512_storeu_ps(s->scores + (v + i) * LANES, p);
    }
    const __m512 shrink = vf32_exp2(vf32_sub(before, from));
    const __m512 sum = over_keys(
        lanes, vf32_add(vf32_add(total[0], total[1]), vf32_add(total[2], total[3])), false);
    _mm512_storeu_ps(s->sum, vf32_fma(_mm512_loadu_ps(s->sum), shrink, sum));
    _mm512_storeu_ps(s->largest, largest);
    _mm512_storeu_ps(s->shrink, shrink);
    const __m512i bits =
        _mm512_max_epi32(_mm512_max_epi32(most[0], most[1]), _mm512_max_epi32(most[2], most[3]));
    f->wild = _mm512_mask_cmpge_epi32_mask(f->used, bits, _mm512_set1_epi32(0x7f800000)) != 0;
    _mm512_storeu_ps(f->value_unit, over_keys(lanes, _mm512_castsi512_ps(bits), true));
}

// The weights of the block in units of WEIGHT_MOST for the largest. Tiny ones are lifted first, for their
// inverse is none.
INLINE void narrow_weights(struct few *f, const int lanes)
{
    const struct rows *s = &f->rows;
    const __m512i order = _mm512_loadu_si512(s->order);
    const __m512 most = vf32_max(_mm512_loadu_ps(f->value_unit), vf32_set1(FLT_MIN));
    const __mmask16 tiny = _mm512_cmp_ps_mask(most, vf32_set1(0x1p-60f), _CMP_LT_OQ);
    const __m512 lift = _mm512_mask_blend_ps(tiny, vf32_set1(1), vf32_set1(0x1p64f));
    const __m512 inverse = _mm512_div_ps(vf32_set1(WEIGHT_MOST), vf32_mul(most, lift));
    for (int v = 0; v < BLOCK * lanes / LANES; v += 2) {
        __m512i whole[2];
        VF32_UNROLL
        for (int i = 0; i < 2; i++)
            whole[i] = _mm512_cvtps_epi32(
                vf32_mul(vf32_mul(_mm512_loadu_ps(s->scores + (v + i) * LANES), lift), inverse));
        _mm512_storeu_si512(
            s->weight + v / 2 * LANES,
            _mm512_permutexvar_epi16(order, _mm512_packs_epi32(whole[0], whole[1])));
    }
    _mm512_storeu_ps(f->value_unit, vf32_mul(most, vf32_set1(1.0f / WEIGHT_MOST)));
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

// acc[row][columns] = acc * shrink + unit * (weight * value) for all rows and `groups` times 32 columns from
// group `g` on.
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

INLINE void add_block(const struct few *f, const int lanes, const int32_t dim, const bool ahead)
{
    const int together = lanes == 4 ? 2 : 1;
    int32_t g = 0;
    for (; g + together <= f->rows.groups; g += together)
        add_values(f, lanes, dim, together, g, ahead);
    for (; g < f->rows.groups; g++)
        add_values(f, lanes, dim, 1, g, ahead);
}

INLINE void attend_block(struct few *f, const int lanes, const int32_t dim, const bool ahead)
{
    struct rows *s = &f->rows;
    const struct weft__attention_call *call = s->call;
    const bool mask = s->by_all != ~UINT64_C(0) || call->generic;
    if (s->scaled)
        spread_scales(s, lanes);
    for (int32_t key = 0; key < s->block->n; key += code_step(lanes))
        score_keys(f, lanes, dim, key, ahead);
    if (call->softcap > 0 || call->alibi_slopes || s->scaled)
        adjust_scores(s, lanes, 0, s->scores);
    if (mask)
        mask_scores(s, lanes, 0, s->scores);
    weigh(f, lanes);
    if (f->wild) {
        add_wild_values(f, lanes);
    } else {
        narrow_weights(f, lanes);
        add_block(f, lanes, dim, ahead);
    }
    uint64_t blocks = 0;
    for (int32_t r = 0; r < s->rows && call->counts; r++)
        blocks += s->seen[r] != 0;
    weft__attention_count(call, blocks, mask ? blocks : 0);
}

static void store_row(const struct rows *s, const int lanes, int32_t row)
{
    for (int32_t g = 0; g < s->groups; g++)
        order_group(s->acc + ((int64_t)g * lanes + row) * GROUP, s->row + g * GROUP);
    const int32_t at = lane_of(lanes, row);
    weft__attention_finish(s->call, s->tile, row, s->largest[at], s->sum[at], s->row);
}

// `count` tiles of as many rows, each with keys.
INLINE void attend_tiles(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count, const int lanes,
                         const int32_t dim)
{
    struct few f = {.rows = lay_out(call, tiles)};
    struct rows *s = &f.rows;
    s->columns = GROUP;
    s->groups = (int32_t)groups_of(call->v.dim, GROUP);
    _mm512_storeu_si512(s->order, order_of_packed(lanes));
    struct blocks blocks = begin_blocks(s, tiles, count);
    while (next_of(s, &blocks)) {
        if (begins_tile(s->block)) {
            const bool loaded = same_rows(s->tile, s->block->tile);
            s->tile = s->block->tile;
            if (!loaded)
                place_queries(&f, lanes);
            open_rows(s, lanes);
            s->all = seen_by_all(s);
        }
        look(s);
        if (s->by_some && call->ahead)
            attend_block(&f, lanes, dim, true);
        else if (s->by_some)
            attend_block(&f, lanes, dim, false);
        for (int32_t row = 0; ends_tile(s->block) && row < s->rows; row++)
            store_row(s, lanes, row);
    }
}

INLINE void attend_lanes(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count, const int lanes)
{
    switch (call->k.dim) {
    case 128: attend_tiles(call, tiles, count, lanes, 128); break;
#ifndef WEFT_FEW_SHAPES
    case 64: attend_tiles(call, tiles, count, lanes, 64); break;
    case 96: attend_tiles(call, tiles, count, lanes, 96); break;
    case 256: attend_tiles(call, tiles, count, lanes, 256); break;
#endif
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
