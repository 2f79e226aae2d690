// SPDX-License-Identifier: MIT
// Attention over caches of bf16 and of codes of a byte by products of pairs: vdpbf16ps multiplies twice as many numbers
// as an f32 multiply-add of the same width. Queries are bf16, weights are rounded to it, sums are f32.
//
// A vector of a key is spread four ways, every fourth pair of elements four times each, and meets the same
// pairs of four rows, so that a load of queries serves several keys and of a sum four lanes are added up (few
// rows: score_keys_of_four()). Lanes of scores are rows: of 8 rows a vector has two keys, of 4 rows four
// (row_of(), key_of()). attention_pairs.h says where things lie.
//
// The keys of a block are scored for all blocks of rows, then come its values; each asks for the lines of the
// next block while it goes, as attention_few.h does.
#include "src/kernels/attention/attention_codes_avx512bf16.h"
#include "src/kernels/attention/attention_int8.h"
#include "src/kernels/attention/attention_pairs_ask.h"

weft__attention_scratch_fn weft__attention_scratch_avx512bf16;
int64_t weft__attention_scratch_avx512bf16(int32_t rows, int32_t head_dim, int32_t v_dim)
{
    return rows_bytes(rows, head_dim, v_dim);
}

// Queries of a tile over keys of bf16, four rows by a line at a time, as place_of_pair() says.
static inline void load_pairs(const struct rows *s, const int lanes)
{
    for (int32_t r = 0; r < s->blocks * lanes; r += 4) {
        uint32_t rows[4][WEFT__ATTENTION_MAX_DIM / 2];
        for (int n = 0; n < 4; n++)
            pairs_of_query(s, r + n, rows[n]);
        for (int32_t i = 0; i < s->pairs; i += LINE_PAIRS) {
            __m512i row[4], two[4];
            VF32_UNROLL
            for (int n = 0; n < 4; n++)
                row[n] = _mm512_loadu_si512(rows[n] + i);
            if (lanes == 4) {
                turn_parts(row, two);
                VF32_UNROLL
                for (int n = 0; n < 4; n++)
                    _mm512_storeu_si512(s->q + ((int64_t)r / 4 * s->pairs + i + 4 * n) * 4, two[n]);
                continue;
            }
            VF32_UNROLL
            for (int n = 0; n < 2; n++) {
                two[n] = _mm512_unpacklo_epi32(row[2 * n], row[2 * n + 1]);
                two[n + 2] = _mm512_unpackhi_epi32(row[2 * n], row[2 * n + 1]);
            }
            uint32_t *q =
                s->q + (int64_t)(r / lanes) * s->pairs * lanes + i * lanes + r % lanes / 4 * LANES;
            VF32_UNROLL
            for (int h = 0; h < 2; h++) {
                _mm512_storeu_si512(q + (2 * h) * 4 * lanes,
                                    _mm512_unpacklo_epi64(two[2 * h], two[2 * h + 1]));
                _mm512_storeu_si512(q + (2 * h + 1) * 4 * lanes,
                                    _mm512_unpackhi_epi64(two[2 * h], two[2 * h + 1]));
            }
        }
    }
}

// Four keys' sums, of which each part of 128 bits is a row's: what lanes come to, keys beside each other.
INLINE __m512 add_four_lanes(const __m512 k[4])
{
    const __m512 a = vf32_add(_mm512_unpacklo_ps(k[0], k[1]), _mm512_unpackhi_ps(k[0], k[1]));
    const __m512 b = vf32_add(_mm512_unpacklo_ps(k[2], k[3]), _mm512_unpackhi_ps(k[2], k[3]));
    return vf32_add(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
}

// Scores of KEY_SCORES / lanes keys from `key` on of the block, times `scale`, of 8 or 16 rows.
INLINE void score_keys(const struct rows *s, const int lanes, const uint32_t *q, int32_t key,
                       float scale, const bool ahead)
{
    const char *pool = s->call->k.data;
    const int64_t *at = s->at + key;
    const int32_t pairs = s->call->k.dim / 2;
    const int keys = KEY_SCORES / lanes;
    struct line line = {at + BLOCK, 0, s->pairs * 2};
    __m512 sums[KEY_SCORES / 4];
    VF32_UNROLL
    for (int i = 0; i < KEY_SCORES / 4; i++)
        sums[i] = _mm512_setzero_ps();
    for (int32_t i = 0; i < pairs; i += LINE_PAIRS, q += LINE_PAIRS * lanes) {
        const __mmask16 mask = vf32_first(pairs - i < LINE_PAIRS ? pairs - i : LINE_PAIRS);
        __m512i k[KEY_SCORES / 8];
        VF32_UNROLL
        for (int j = 0; j < keys; j++) {
            if (ahead) {
                ask_near(lanes, pool, at + j, 2 * i);
                ask_line(pool, &line);
            }
            k[j] = _mm512_maskz_loadu_epi32(mask, pool + 2 * at[j] + 4 * i);
        }
        score_pairs(lanes, q, k, sums);
    }
    store_scores(s, lanes, key, scale, sums);
}

// The same of FOUR_KEYS keys for four rows: four pairs of a key, four times each, meet those of all rows.
INLINE void score_keys_of_four(const struct rows *s, const uint32_t *q, int32_t key, float scale,
                               const bool ahead)
{
    const char *pool = s->call->k.data;
    const int64_t *at = s->at + key;
    const int32_t pairs = s->call->k.dim / 2; // heads are multiples of 8 elements
    __m512 sums[FOUR_KEYS];
    VF32_UNROLL
    for (int j = 0; j < FOUR_KEYS; j++)
        sums[j] = _mm512_setzero_ps();
    for (int32_t i = 0; i < pairs;) {
        const int32_t end = i + LINE_PAIRS < pairs ? i + LINE_PAIRS : pairs;
        if (ahead)
            VF32_UNROLL
        for (int j = 0; j < FOUR_KEYS; j++)
            ask(pool, at + j, 2 * i);
        for (; i < end; i += 4, q += LANES) {
            const __m512bh x = (__m512bh)_mm512_loadu_si512(q);
            VF32_UNROLL
            for (int j = 0; j < FOUR_KEYS; j++) {
                const void *four = pool + 2 * at[j] + 4 * i;
                const __m512i k = _mm512_broadcast_i32x4(_mm_loadu_si128(four));
                sums[j] = _mm512_dpbf16_ps(sums[j], x, (__m512bh)k);
            }
        }
    }
    VF32_UNROLL
    for (int v = 0; v < FOUR_KEYS / 4; v++)
        _mm512_storeu_ps(s->scores + (key / 4 + v) * LANES,
                         vf32_mul(vf32_set1(scale), add_four_lanes(sums + 4 * v)));
}

// Which of the columns from `column` on of a value there are.
INLINE __mmask32 columns_from(const struct rows *s, int32_t column)
{
    const int32_t rest = s->call->v.dim - column;
    return rest >= GROUP ? 0xffffffffu : (1u << rest) - 1;
}

INLINE __m512i load_whole_value(const struct rows *s, int32_t key, int32_t column)
{
    return _mm512_loadu_si512((const uint16_t *)(const void *)s->call->v.data + s->values_at[key] +
                              column);
}

INLINE __m512i load_value(const struct rows *s, int32_t key, int32_t column, __mmask32 mask)
{
    return _mm512_maskz_loadu_epi16(mask, (const uint16_t *)(const void *)s->call->v.data +
                                              s->values_at[key] + column);
}

// acc[row][columns] = acc * shrink + weight * value for `rows` rows of a block of rows from row `first` on, and
// `groups` times 32 columns from group `g` on, which are `whole`: a mask of a load takes a product's place. Of
// four rows the products load weights themselves, which costs less than it saves.
INLINE void add_values(const struct rows *s, const int lanes, const int rows, const int groups,
                       int32_t b, int first, int32_t g, const enum asking asks, const bool whole)
{
    const uint32_t *weight = s->weight + (int64_t)b * PAIRS * lanes + first;
    const float *shrink = s->shrink + b * LANES;
    const char *pool = s->call->v.data;
    float *acc = s->acc + (((int64_t)b * s->groups + g) * lanes + first) * GROUP;
    __m512 sums[2 * VALUE_ROWS];
    VF32_UNROLL
    for (int i = 0; i < groups; i++)
        VF32_UNROLL
    for (int r = 0; r < rows; r++)
        VF32_UNROLL
    for (int h = 0; h < 2; h++)
        sums[(i * rows + r) * 2 + h] =
            _mm512_mul_ps(vf32_set1(shrink[lane_of(lanes, first + r)]),
                          _mm512_loadu_ps(acc + ((i * lanes + r) * 2 + h) * LANES));
    __mmask32 mask[2];
    VF32_UNROLL
    for (int i = 0; i < groups; i++)
        mask[i] = columns_from(s, (g + i) * GROUP);
    struct line line = first_line(s, asks, g);
    for (int32_t j = 0; j < s->block->n; j += 2) {
        __m512i weights[VALUE_ROWS];
        load_weights(weight + j / 2 * lanes, rows, lanes > 4, weights);
        VF32_UNROLL
        for (int i = 0; i < groups; i++) {
            const int32_t column = (g + i) * GROUP;
            ask_values(lanes, asks, pool, s->values_at + j, column, &line);
            const __m512i even =
                whole ? load_whole_value(s, j, column) : load_value(s, j, column, mask[i]);
            const __m512i odd =
                whole ? load_whole_value(s, j + 1, column) : load_value(s, j + 1, column, mask[i]);
            const __m512i low = _mm512_unpacklo_epi16(even, odd);
            const __m512i high = _mm512_unpackhi_epi16(even, odd);
            VF32_UNROLL
            for (int r = 0; r < rows; r++) {
                const __m512i w = weights[r];
                sums[(i * rows + r) * 2] = add_pair(sums[(i * rows + r) * 2], low, w);
                sums[(i * rows + r) * 2 + 1] = add_pair(sums[(i * rows + r) * 2 + 1], high, w);
            }
        }
    }
    VF32_UNROLL
    for (int i = 0; i < groups; i++)
        VF32_UNROLL
    for (int r = 0; r < rows; r++)
        VF32_UNROLL
    for (int h = 0; h < 2; h++)
        _mm512_storeu_ps(acc + ((i * lanes + r) * 2 + h) * LANES, sums[(i * rows + r) * 2 + h]);
}

// The same, and the same bits, where 0 times a value may not be 0: a row meets nothing that it does not see.
static __attribute__((noinline)) void add_values_apart(const struct rows *s, const int lanes,
                                                       int32_t row, int32_t g)
{
    const int32_t b = row / lanes, lane = row % lanes, column = g * GROUP;
    const uint32_t *weight = s->weight + (int64_t)b * PAIRS * lanes + lane;
    const __m512 shrink = vf32_set1(s->shrink[b * LANES + lane_of(lanes, lane)]);
    const __mmask32 mask = columns_from(s, column);
    const uint64_t seen = s->seen[row];
    float *acc = s->acc + (((int64_t)b * s->groups + g) * lanes + lane) * GROUP;
    __m512 sums[2] = {_mm512_mul_ps(shrink, _mm512_loadu_ps(acc)),
                      _mm512_mul_ps(shrink, _mm512_loadu_ps(acc + LANES))};
    for (int32_t j = 0; j < s->block->n; j += 2) {
        const __m512i even = load_value(s, j, column, seen >> j & 1 ? mask : 0);
        const __m512i odd = load_value(s, j + 1, column, seen >> (j + 1) & 1 ? mask : 0);
        const __m512i w = weights_of(weight + j / 2 * lanes, true);
        sums[0] = add_pair(sums[0], _mm512_unpacklo_epi16(even, odd), w);
        sums[1] = add_pair(sums[1], _mm512_unpackhi_epi16(even, odd), w);
    }
    _mm512_storeu_ps(acc, sums[0]);
    _mm512_storeu_ps(acc + LANES, sums[1]);
}

INLINE bool is_wild(const struct rows *s, weft_dtype kv, int32_t key, int32_t g)
{
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    if (is_code(kv))
        return is_wild_code(kv, _mm512_maskz_loadu_epi8(codes_from(s->call->v.dim, g * CODE_GROUP),
                                                        (const char *)s->call->v.data +
                                                            s->values_at[key] + g * CODE_GROUP));
    const __m512i x = load_value(s, key, g * GROUP, columns_from(s, g * GROUP));
    return _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exponent), exponent) != 0;
}

// Is there an infinity or NaN among the values that some row does not see? 0 times them is not 0.
INLINE bool has_wild_values(const struct rows *s, weft_dtype kv)
{
    const int32_t used = (s->block->n + 1) / 2 * 2; // an odd one has the last value as its partner
    for (int32_t j = 0; j < used && s->by_all != ~UINT64_C(0); j++)
        for (int32_t g = 0; g < s->groups && !(s->by_all >> j & 1); g++)
            if (is_wild(s, kv, j, g))
                return true;
    return false;
}

INLINE void add_rows(const struct rows *s, const int lanes, int32_t b, int first,
                     const enum asking asks)
{
    const int rows = lanes < VALUE_ROWS ? lanes : VALUE_ROWS;
    int32_t g = 0;
    for (; lanes == 4 && g + 2 <= s->groups; g += 2)
        add_values(s, lanes, rows, 2, b, first, g, asks, false);
    for (; g < s->groups; g++)
        if (lanes == LANES && (g + 1) * GROUP <= s->call->v.dim)
            add_values(s, lanes, rows, 1, b, first, g, asks, true);
        else
            add_values(s, lanes, rows, 1, b, first, g, asks, false);
}

// The values of the block for the rows of block b, eight at a time, so that each is loaded once for them, or
// four by 64 columns.
#define ADD_COLUMNS(lanes)                                                                         \
    static __attribute__((noinline)) void add_columns_##lanes(const struct rows *s, int32_t b,     \
                                                              bool ahead)                          \
    {                                                                                              \
        const int32_t rows = s->rows - b * (lanes);                                                \
        int first = 0;                                                                             \
        if (ahead && rows <= VALUE_ROWS)                                                           \
            add_rows(s, lanes, b, 0, ALL), first = VALUE_ROWS;                                     \
        else if (ahead) {                                                                          \
            add_rows(s, lanes, b, 0, FIRST_HALF);                                                  \
            add_rows(s, lanes, b, VALUE_ROWS, SECOND_HALF);                                        \
            first = 2 * VALUE_ROWS;                                                                \
        }                                                                                          \
        for (; first < (lanes) && first < rows; first += VALUE_ROWS)                               \
            add_rows(s, lanes, b, first, NOTHING);                                                 \
    }

ADD_COLUMNS(8)
ADD_COLUMNS(16)

static __attribute__((noinline)) void add_codes_apart(const struct rows *s, weft_dtype kv,
                                                      const struct code_table *table,
                                                      const int lanes, int32_t row, int32_t g)
{
    const int32_t b = row / lanes, lane = row % lanes;
    add_codes(s, kv, table, lanes, s->call->v.dim, 1, 2, b, lane, g, 0, true, false);
}

INLINE void add_block(const struct rows *s, weft_dtype kv, const struct code_table *table,
                      const int lanes, const int32_t dim)
{
    const bool wild = has_wild_values(s, kv);
    for (int32_t row = 0; row < s->rows && wild; row++)
        for (int32_t g = 0; g < s->groups; g++)
            if (is_code(kv))
                add_codes_apart(s, kv, table, lanes, row, g);
            else
                add_values_apart(s, lanes, row, g);
    for (int32_t b = 0; b * lanes < s->rows && !wild; b++) {
        const bool ahead = s->call->ahead && b == 0;
        if (is_code(kv) && ahead)
            add_code_columns(s, kv, table, lanes, dim, b, true);
        else if (is_code(kv))
            add_code_columns(s, kv, table, lanes, dim, b, false);
        else if (lanes > 4)
            (lanes == 8 ? add_columns_8 : add_columns_16)(s, b, ahead);
        else if (ahead)
            add_rows(s, lanes, b, 0, ALL);
        else
            add_rows(s, lanes, b, 0, NOTHING);
    }
}

// Delivers a row whose columns come in the order of unpacking.
static void store_row(const struct rows *s, const int lanes, int32_t row)
{
    const int32_t b = row / lanes, lane = row % lanes;
    for (int32_t g = 0; g < s->groups; g++) {
        const float *acc = s->acc + (((int64_t)b * s->groups + g) * lanes + lane) * s->columns;
        if (s->columns == CODE_GROUP)
            order_codes(acc, s->row + g * CODE_GROUP);
        else
            order_group(acc, s->row + g * GROUP);
    }
    const int32_t at = b * LANES + lane_of(lanes, lane);
    weft__attention_finish(s->call, s->tile, row, s->largest[at], s->sum[at], s->row);
}

// Asks for where the results of a tile go: rows of heads that lie far apart.
static void ask_results(const struct rows *s)
{
    const struct weft__attention_call *call = s->call;
    for (int32_t r = 0; r < s->rows && !s->tile->partial && call->out_dtype == WEFT_F32; r++) {
        const int64_t token = (int64_t)call->lengths.cu_q_lens[s->tile->seq] +
                              weft__attention_token(call, s->tile, r);
        const float *out = (const float *)call->out + token * call->out_token_stride +
                           weft__attention_head(call, s->tile, r) * call->out_head_stride;
        for (int32_t i = 0; i < call->v.dim; i += LANES)
            __builtin_prefetch(out + i, 1, 3);
    }
}

// Scores of the block for a block of rows, whose queries lie at q. Functions of their own, so that nothing else
// wants their registers.
#define SCORE_BLOCK(lanes)                                                                         \
    static __attribute__((noinline)) void score_block_##lanes(                                     \
        const struct rows *s, const uint32_t *q, float scale, bool ahead)                          \
    {                                                                                              \
        int32_t key = 0;                                                                           \
        for (; ahead && key < s->block->n; key += KEY_SCORES / (lanes))                            \
            score_keys(s, lanes, q, key, scale, true);                                             \
        for (; key < s->block->n; key += KEY_SCORES / (lanes))                                     \
            score_keys(s, lanes, q, key, scale, false);                                            \
    }

SCORE_BLOCK(8)
SCORE_BLOCK(16)

INLINE void score_block(const struct rows *s, weft_dtype kv, const struct code_table *table,
                        const int lanes, const int32_t dim, const uint32_t *q, float scale,
                        const bool ahead)
{
    for (int32_t key = 0; is_code(kv) && lanes < LANES && key < s->block->n;
         key += code_step(lanes))
        score_codes(s, kv, table, lanes, dim, q, key, scale, ahead);
    for (int32_t key = 0; is_code(kv) && lanes == LANES && key < s->block->n;
         key += KEY_SCORES / LANES)
        score_codes_of_many(s, kv, table, dim, q, key, scale, ahead);
    for (int32_t key = 0; !is_code(kv) && lanes == 4 && key < s->block->n; key += FOUR_KEYS)
        score_keys_of_four(s, q, key, scale, ahead);
    if (!is_code(kv) && lanes > 4)
        (lanes == 8 ? score_block_8 : score_block_16)(s, q, scale, ahead);
}

INLINE void attend_block(struct rows *s, weft_dtype kv, const struct code_table *table,
                         const int lanes, const int32_t dim)
{
    const struct weft__attention_call *call = s->call;
    const bool adjusted = call->softcap > 0 || call->alibi_slopes || s->scaled;
    const bool mask = s->by_all != ~UINT64_C(0) || call->generic;
    const float scale = call->softcap > 0 ? call->scale : call->scale * LOG2E;
    if (s->scaled)
        spread_scales(s, lanes);
    for (int32_t b = 0; b * lanes < s->rows; b++) {
        const uint32_t *q = s->q + (int64_t)b * s->pairs * lanes;
        if (call->ahead && b == 0)
            score_block(s, kv, table, lanes, dim, q, scale, true);
        else
            score_block(s, kv, table, lanes, dim, q, scale, false);
        if (adjusted)
            adjust_scores(s, lanes, b);
        if (mask)
            mask_scores(s, lanes, b);
        weigh(s, lanes, b);
    }
    add_block(s, kv, table, lanes, dim);
    uint64_t blocks = 0;
    for (int32_t r = 0; r < s->rows && call->counts; r++)
        blocks += s->seen[r] != 0;
    weft__attention_count(call, blocks, mask ? blocks : 0);
}

// `count` tiles of as many rows, each with keys.
INLINE void attend_tiles(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count, weft_dtype kv,
                         const int lanes, const int32_t dim)
{
    struct rows s = lay_out(call, tiles);
    const struct code_table table = is_code(kv) ? code_table_of(kv) : (struct code_table){0};
    _mm512_storeu_si512(s.order, order_of_weights(lanes));
    struct blocks blocks = begin_blocks(&s, tiles, count);
    while (next_of(&s, &blocks)) {
        if (begins_tile(s.block)) {
            const bool loaded = same_rows(s.tile, s.block->tile);
            s.tile = s.block->tile;
            if (!loaded)
                is_code(kv) ? load_queries(&s, lanes) : load_pairs(&s, lanes);
            open_rows(&s, lanes);
            s.all = seen_by_all(&s);
        }
        look(&s);
        if (ends_tile(s.block))
            ask_results(&s);
        if (s.by_some)
            attend_block(&s, kv, &table, lanes, dim);
        for (int32_t row = 0; ends_tile(s.block) && row < s.rows; row++)
            store_row(&s, lanes, row);
    }
}

// Few rows of codes: the dim of common heads is a constant.
INLINE void attend_lanes(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count, weft_dtype kv,
                         const int lanes)
{
    switch (is_code(kv) ? call->k.dim : 0) {
    case 64: attend_tiles(call, tiles, count, kv, lanes, 64); break;
    case 128: attend_tiles(call, tiles, count, kv, lanes, 128); break;
    default: attend_tiles(call, tiles, count, kv, lanes, call->k.dim);
    }
}

static void finish_empty(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tile)
{
    const float acc[WEFT__ATTENTION_MAX_DIM] = {0};
    for (int32_t row = 0; row < weft__attention_rows(call, tile); row++)
        weft__attention_finish(call, tile, row, -INFINITY, 0, acc);
}

INLINE void attend(const struct weft__attention_call *call,
                   const struct weft__attention_tile *tiles, int32_t count, weft_dtype kv)
{
    for (int32_t n, i = 0; i < count; i += n) {
        const int32_t rows = weft__attention_rows(call, &tiles[i]);
        if (kv == WEFT_INT8 && (n = weft__attention_int8_few(call, tiles + i, count - i)) > 0)
            continue;
        n = alike(call, tiles + i, count - i);
        if (n == 0)
            finish_empty(call, &tiles[i]), n = 1;
        else if (rows <= 4)
            attend_lanes(call, tiles + i, n, kv, 4);
        else if (rows <= 8)
            attend_lanes(call, tiles + i, n, kv, 8);
        else
            attend_lanes(call, tiles + i, n, kv, LANES);
    }
}

#define ATTENTION(kv)                                                                              \
    weft__attention_fn weft__attention_##kv##_avx512bf16;                                          \
    void weft__attention_##kv##_avx512bf16(const struct weft__attention_call *call,                \
                                           const struct weft__attention_tile *tiles,               \
                                           int32_t count)                                          \
    {                                                                                              \
        attend(call, tiles, count, WEFT_##kv);                                                     \
    }

ATTENTION(BF16)
ATTENTION(INT8)
ATTENTION(FP8_E4M3)
ATTENTION(FP8_E5M2)
