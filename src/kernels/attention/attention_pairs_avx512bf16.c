// SPDX-License-Identifier: MIT
// Attention over caches of bf16 and of codes of a byte by products of pairs: vdpbf16ps multiplies twice as many numbers
// as an f32 multiply-add of the same width. Queries are bf16, weights are rounded to it, sums are f32.
//
// Lanes of scores are rows: of 8 rows a vector has two keys, of 4 rows four (row_of(), key_of()). attention_pairs.h says
// where things lie.
//
// The keys of a block are scored for all blocks of rows, then come its values; each asks for the lines of the
// next block while it goes, as attention_few.h does.
#include "src/kernels/attention/attention_bf16_scores_avx512bf16.h"
#include "src/kernels/attention/attention_bf16_values_avx512bf16.h"
#include "src/kernels/attention/attention_int8.h"
#include "src/kernels/attention/attention_pairs_heads.h"

weft__attention_scratch_fn weft__attention_scratch_avx512bf16;
int64_t weft__attention_scratch_avx512bf16(int32_t rows, int32_t head_dim, int32_t v_dim)
{
    const int64_t one = rows_bytes(rows, head_dim, v_dim), all = heads_bytes(head_dim, v_dim);
    return one > all ? one : all;
}

// Scores of the block of bf16 for one four, two and 16 rows, and its values: functions of their own, so that nothing else
// wants their registers. `b` is a block of 16 rows; of values, of four.
typedef void score_fn(const struct rows *s, int32_t b, float scale, bool ahead);
typedef void add_fn(const struct rows *s, int32_t b, enum asking asks);

#define SCORE(fours, dim, name)                                                                    \
    static __attribute__((noinline)) void score_##fours##_##name(const struct rows *s, int32_t b,  \
                                                                 float scale, bool ahead)          \
    {                                                                                              \
        const uint32_t *q = s->q + (int64_t)b * s->pairs * LANES;                                  \
        for (int32_t key = 0; key < s->block->n; key += MOST_KEYS)                                 \
            if (ahead)                                                                             \
                score_keys(s, fours, dim, q, key, scale, true);                                    \
            else                                                                                   \
                score_keys(s, fours, dim, q, key, scale, false);                                   \
    }

#define SCORE_MANY(dim, name)                                                                      \
    static __attribute__((noinline)) void score_4_##name(const struct rows *s, int32_t b,          \
                                                         float scale, bool ahead)                  \
    {                                                                                              \
        if (ahead)                                                                                 \
            score_many(s, dim, b, scale, true);                                                    \
        else                                                                                       \
            score_many(s, dim, b, scale, false);                                                   \
    }

#define ADD(lanes, fours, dim, name)                                                               \
    static __attribute__((noinline)) void add_##lanes##_##fours##_##name(                          \
        const struct rows *s, int32_t b, enum asking asks)                                         \
    {                                                                                              \
        if (asks == ALL)                                                                           \
            add_groups(s, lanes, fours, dim, b, ALL);                                              \
        else if (asks == NOTHING)                                                                  \
            add_groups(s, lanes, fours, dim, b, NOTHING);                                          \
        else if (asks == FIRST_HALF && (lanes) == 16)                                              \
            add_groups(s, lanes, fours, dim, b, FIRST_HALF);                                       \
        else if ((lanes) == 16)                                                                    \
            add_groups(s, lanes, fours, dim, b, SECOND_HALF);                                      \
    }

#define DIM(dim, name)                                                                             \
    SCORE(1, dim, name)                                                                            \
    SCORE(2, dim, name)                                                                            \
    SCORE_MANY(dim, name)                                                                          \
    ADD(4, 1, dim, name)                                                                           \
    ADD(4, 2, dim, name)                                                                           \
    ADD(16, 2, dim, name)

DIM(64, 64)
DIM(128, 128)
DIM(0, any)

// The dim of heads that are a constant, 0: of others.
INLINE int32_t constant_dim(const struct weft__attention_call *call)
{
    const int32_t dim = call->k.dim;
    return dim == call->v.dim && (dim == 64 || dim == 128) ? dim : 0;
}

// Of a tile of up to eight rows: one four or two.
INLINE int fours_of(const struct rows *s)
{
    return s->rows > 4 ? 2 : 1;
}

INLINE void score_rows(const struct rows *s, const int lanes, int32_t b, float scale, bool ahead)
{
    static score_fn *const score[3][3] = {{score_1_any, score_2_any, score_4_any},
                                          {score_1_64, score_2_64, score_4_64},
                                          {score_1_128, score_2_128, score_4_128}};
    const int which = lanes == LANES ? 2 : fours_of(s) - 1;
    score[constant_dim(s->call) / 64][which](s, b, scale, ahead);
}

// The values of the block for block b of 16 rows, or all rows of fours.
INLINE void add_rows(const struct rows *s, const int lanes, int32_t b, bool ahead)
{
    static add_fn *const add[3][3] = {{add_4_1_any, add_4_2_any, add_16_2_any},
                                      {add_4_1_64, add_4_2_64, add_16_2_64},
                                      {add_4_1_128, add_4_2_128, add_16_2_128}};
    add_fn *const *of_dim = add[constant_dim(s->call) / 64];
    const bool more = lanes == LANES && s->rows - b * LANES > 8;
    of_dim[lanes == LANES ? 2 : fours_of(s) - 1](s, 4 * b,
                                                 !ahead ? NOTHING
                                                 : more ? FIRST_HALF
                                                        : ALL);
    if (more)
        of_dim[2](s, 4 * b + VALUE_FOURS, ahead ? SECOND_HALF : NOTHING);
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
    const int step = is_code(kv) ? 2 : VALUE_KEYS; // past the last value there is the last value
    const int32_t used = (s->block->n + step - 1) / step * step;
    for (int32_t j = 0; j < used && s->by_all != ~UINT64_C(0); j++)
        for (int32_t g = 0; g < s->groups && !(s->by_all >> j & 1); g++)
            if (is_wild(s, kv, j, g))
                return true;
    return false;
}

static __attribute__((noinline)) void add_codes_apart(const struct rows *s, weft_dtype kv,
                                                      const struct code_table *table,
                                                      const int lanes, int32_t row, int32_t g)
{
    const int32_t b = row / lanes, lane = row % lanes;
    add_codes(s, kv, table, lanes, s->call->v.dim, 1, 2, b, lane, g, 0, true, false);
}

// Blocks of rows that grow together: two fours.
INLINE int32_t fours_of_block(const struct rows *s, weft_dtype kv, const int lanes)
{
    return !is_code(kv) && lanes == FEW ? fours_of(s) : 1;
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
    for (int32_t b = 0; b * lanes < s->rows && !wild; b += fours_of_block(s, kv, lanes)) {
        const bool ahead = s->call->ahead && b == 0;
        if (!is_code(kv))
            add_rows(s, lanes, b, ahead);
        else if (ahead)
            add_code_columns(s, kv, table, lanes, dim, b, true);
        else
            add_code_columns(s, kv, table, lanes, dim, b, false);
    }
}

// Delivers a row whose columns come in the order of unpacking.
static void store_row(const struct rows *s, const int lanes, int32_t row)
{
    const int32_t b = row / lanes, lane = row % lanes;
    const int of = s->columns == GROUP ? FEW : lanes; // rows of a block of results
    for (int32_t g = 0; g < s->groups; g++) {
        const float *acc =
            s->acc + (((int64_t)(row / of) * s->groups + g) * of + row % of) * s->columns;
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

// Scores of codes of the block for a block of rows, whose queries lie at q.
INLINE void score_block(const struct rows *s, weft_dtype kv, const struct code_table *table,
                        const int lanes, const int32_t dim, const uint32_t *q, float scale,
                        const bool ahead)
{
    for (int32_t key = 0; lanes < LANES && key < s->block->n; key += code_step(lanes))
        score_codes(s, kv, table, lanes, dim, q, key, scale, ahead);
    for (int32_t key = 0; lanes == LANES && key < s->block->n; key += KEY_SCORES / LANES)
        score_codes_of_many(s, kv, table, dim, q, key, scale, ahead);
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
    for (int32_t b = 0, n = 1; b * lanes < s->rows; b += n) {
        const uint32_t *q = s->q + (int64_t)b * s->pairs * lanes;
        const bool ahead = call->ahead && b == 0;
        n = fours_of_block(s, kv, lanes);
        if (!is_code(kv))
            score_rows(s, lanes, b, scale, ahead);
        else if (ahead)
            score_block(s, kv, table, lanes, dim, q, scale, true);
        else
            score_block(s, kv, table, lanes, dim, q, scale, false);
        for (int32_t i = 0; i < n; i++) {
            float *scores = s->scores + i * BLOCK * lanes;
            if (adjusted)
                adjust_scores(s, lanes, b + i, scores);
            if (mask)
                mask_scores(s, lanes, b + i, scores);
        }
        weigh(s, lanes, b, n);
    }
    add_block(s, kv, table, lanes, dim);
    uint64_t blocks = 0;
    for (int32_t r = 0; r < s->rows && call->counts; r++)
        blocks += s->seen[r] != 0;
    weft__attention_count(call, blocks, mask ? blocks : 0);
}

// The block at hand of the tile at hand, s->block.
INLINE void attend_now(struct rows *s, const struct weft__attention_tile *tile, weft_dtype kv,
                       const struct code_table *table, const int lanes, const int32_t dim)
{
    if (begins_tile(s->block)) {
        const bool loaded = same_rows(s->tile, tile);
        s->tile = tile;
        if (!loaded)
            is_code(kv) ? load_queries(s, lanes) : load_pairs(s, lanes);
        open_rows(s, lanes);
        s->all = seen_by_all(s);
    }
    look(s);
    if (ends_tile(s->block))
        ask_results(s);
    if (s->by_some)
        attend_block(s, kv, table, lanes, dim);
    for (int32_t row = 0; ends_tile(s->block) && row < s->rows; row++)
        store_row(s, lanes, row);
}

// What head h of those that go together keeps.
INLINE struct rows begin_rows(const struct weft__attention_call *call,
                              const struct weft__attention_tile *tiles, int32_t h, weft_dtype kv,
                              const int lanes)
{
    struct weft__attention_tile own = tiles[h];
    own.scratch = (char *)own.scratch + h * bytes_of_head(call->k.dim, call->v.dim);
    struct rows s = lay_out(call, &own);
    if (!is_code(kv) && lanes == FEW)
        s.blocks = fours_of(&s);
    _mm512_storeu_si512(s.order, order_of_weights(lanes));
    return s;
}

// `count` tiles of as many rows, each with keys, of one head after the other or of heads that go together.
INLINE void attend_tiles(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count, weft_dtype kv,
                         const int lanes, const int32_t dim)
{
    const int32_t heads = heads_of(call, tiles, count);
    const struct code_table table = is_code(kv) ? code_table_of(kv) : (struct code_table){0};
    struct rows s[WEFT__ATTENTION_KEYS_HEADS] = {begin_rows(call, tiles, 0, kv, lanes)};
    struct lead lead;
    for (int32_t h = 1; h < heads; h++)
        s[h] = begin_rows(call, tiles, h, kv, lanes);
    if (heads > 1)
        begin_lead(&lead, s, tiles, count, heads);
    struct rows *walker = heads > 1 ? &lead.rows : s;
    const struct weft__attention_tile *first = heads > 1 ? lead.first : tiles;
    struct blocks blocks = begin_blocks(walker, first, count / heads);
    while (next_of(walker, &blocks))
        for (int32_t h = 0; h < heads; h++) {
            if (heads > 1)
                place_rows(&lead, heads, h, &s[h]);
            attend_now(&s[h], tiles + (walker->block->tile - first) * heads + h, kv, &table, lanes,
                       dim);
        }
}

// Few rows of codes: the dim of common heads is a constant.
INLINE void attend_lanes(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count, weft_dtype kv,
                         const int lanes)
{
    switch (is_code(kv) ? call->k.dim : 0) {
    case 128: attend_tiles(call, tiles, count, kv, lanes, 128); break;
#ifndef WEFT_FEW_SHAPES
    case 64: attend_tiles(call, tiles, count, kv, lanes, 64); break;
#endif
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
        n = together(call, tiles + i, count - i);
        if (n == 0)
            finish_empty(call, &tiles[i]), n = 1;
        else if (rows <= 4 || (rows <= 8 && !is_code(kv)))
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
