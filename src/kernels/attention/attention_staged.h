// SPDX-License-Identifier: MIT
// Attention of any format, layout and mask: the keys, then the values, of a block are decoded to f32 rows
// in scratch memory, once for all rows of the tile. Part of attention_simd.h.
//
// A value is multiplied by the weights of all rows, those that do not see its key have 0. That is right
// as long as the values are finite; a block with others goes to its rows one by one.
#ifndef WEFT_KERNELS_ATTENTION_STAGED_H
#define WEFT_KERNELS_ATTENTION_STAGED_H

#include "src/formats/q4_1.h"
#include "src/formats/q5_1.h"
#include "src/formats/row.h"

// Where the rows of a block lie in its plane, and their scales.
struct staging {
    const struct weft__attention_plane *plane;
    struct cursor cursor;
    int32_t width; // of a row in scratch, whole vectors
};

static struct staging staging_of(const struct state *s, const struct weft__attention_plane *plane)
{
    return (struct staging){plane, cursor_at(s->call, s->tile, plane), padded_width(plane->dim)};
}

// The elements of a row that are no whole vector.
static void decode_rest(weft_dtype dtype, const char *data, int64_t at, float *to, int32_t dim)
{
    int32_t rest = dim % VF32_LANES, i = dim - rest;
    if (rest)
        weft__row_decoder(dtype)(data + at + i, rest, to + i);
}

#define DECODE_BLOCKS(format)                                                                      \
    for (int32_t i = 0; i < dim; i += 32)                                                          \
    weft__##format##_decode(                                                                       \
        (const struct weft__##format *)(const void *)(data + at / 32 *                             \
                                                                 (int64_t)sizeof(                  \
                                                                     struct weft__##format)) +     \
            i / 32,                                                                                \
        to + i)

INLINE void decode_blocks(weft_dtype kv, const char *data, int64_t at, float *to, int32_t dim)
{
    const char *block = address(kv, data, at, 1);
    for (int32_t i = 0; i < dim; i += 32, block += block_bytes(kv))
        VF32_UNROLL
    for (int part = 0; part < 32; part += VF32_LANES)
        vf32_store(to + i + part, load_block(kv, block, part));
}

// One row of whole heads that lies at element `at`; `to` may be written up to its whole vectors.
static void decode_row(weft_dtype dtype, const char *data, int64_t at, float *to, int32_t dim)
{
    switch (dtype) {
    case WEFT_INT8:
        for (int32_t i = 0; i + VF32_LANES <= dim; i += VF32_LANES)
            vf32_store(to + i, load_kv(WEFT_INT8, data, at + i));
        decode_rest(dtype, data, at, to, dim);
        break;
    case WEFT_FP8_E4M3:
        for (int32_t i = 0; i + VF32_LANES <= dim; i += VF32_LANES)
            vf32_store(to + i, vf32_mul(vf32_set1(256), load_kv(WEFT_FP8_E4M3, data, at + i)));
        decode_rest(dtype, data, at, to, dim);
        break;
    case WEFT_FP8_E5M2:
        for (int32_t i = 0; i + VF32_LANES <= dim; i += VF32_LANES)
            vf32_store(to + i, load_kv(WEFT_FP8_E5M2, data, at + i));
        decode_rest(dtype, data, at, to, dim);
        break;
    case WEFT_Q8_0: decode_blocks(WEFT_Q8_0, data, at, to, dim); break;
    case WEFT_Q5_0: decode_blocks(WEFT_Q5_0, data, at, to, dim); break;
    case WEFT_Q4_0: decode_blocks(WEFT_Q4_0, data, at, to, dim); break;
    case WEFT_IQ4_NL: decode_blocks(WEFT_IQ4_NL, data, at, to, dim); break;
    case WEFT_Q5_1: DECODE_BLOCKS(q5_1); break;
    case WEFT_Q4_1: DECODE_BLOCKS(q4_1); break;
    case WEFT_F32:
    case WEFT_F16:
    case WEFT_BF16:
        for (int32_t i = 0; i + VF32_LANES <= dim; i += VF32_LANES)
            vf32_store(to + i, load_kv(dtype, data, at + i));
        if (dim % VF32_LANES)
            vf32_store(
                to + dim / VF32_LANES * VF32_LANES,
                load_kv_n(dtype, data, at + dim / VF32_LANES * VF32_LANES, dim % VF32_LANES));
        break;
    default: // slowly, but right for any
        weft__row_decoder(dtype)(
            data + at / weft_dtype_block_elems(dtype) * weft_dtype_block_bytes(dtype), dim, to);
    }
}

static float scale_of(const struct state *s, const struct weft__attention_plane *plane, int32_t t)
{
    int32_t place = s->call->ring_len ? t % s->call->ring_len : t;
    int32_t page = weft__attention_pages(s->call, s->tile->seq)[place / s->call->page_size];
    return plane->scales[s->tile->seq * plane->scale_seq_stride + page * plane->scale_page_stride +
                         s->tile->kv_head * plane->scale_head_stride +
                         place % s->call->page_size * plane->scale_token_stride];
}

// Decodes the keys (values) key .. key + n of the tile's head to rows[BLOCK][width].
static void stage(const struct state *s, struct staging *from, int32_t key, int32_t n, float *rows)
{
    const struct weft__attention_plane *plane = from->plane;
    int64_t at[BLOCK];
    walk(&from->cursor, n, at);
    for (int32_t j = 0; j < n; j++) {
        float *to = rows + (int64_t)j * from->width;
        if (plane->inner < plane->dim) {
            weft__attention_read(s->call, plane, s->tile->seq, s->tile->kv_head, key + j, to);
        } else {
            decode_row(plane->dtype, plane->data, at[j], to, plane->dim);
            if (plane->scales) {
                float scale = scale_of(s, plane, key + j);
                for (int32_t i = 0; i < plane->dim; i++)
                    to[i] *= scale;
            }
        }
        for (int32_t i = plane->dim; i < from->width; i++)
            to[i] = 0;
    }
    memset(rows + (int64_t)n * from->width, 0,
           (size_t)(BLOCK - n) * (size_t)from->width * sizeof *rows);
}

// Staged rows [BLOCK][width] to keys [width][BLOCK].
static void transpose_keys(const struct state *s, const float *rows)
{
    for (int32_t k = 0; k < BLOCK; k += VF32_LANES)
        for (int32_t i = 0; i < s->width; i += VF32_LANES) {
            vf32 square[VF32_LANES];
            VF32_UNROLL
            for (int j = 0; j < VF32_LANES; j++)
                square[j] = vf32_load(rows + (int64_t)(k + j) * s->width + i);
            vf32_transpose(square);
            VF32_UNROLL
            for (int j = 0; j < VF32_LANES; j++)
                vf32_store(s->keys + (int64_t)(i + j) * BLOCK + k, square[j]);
        }
}

// Staged rows as a group of the loops for few rows; what they ask for ahead is there.
INLINE struct group staged_group(const float *rows, const int64_t *at)
{
    return (struct group){rows, at, at, at, 0};
}

INLINE void staged_scores(struct state *s, const float *rows, const int few)
{
    int64_t at[BLOCK];
    if (!few) {
        transpose_keys(s, rows);
        for (int32_t row = 0; row < s->rows; row += PANEL_ROWS)
            panel_scores(s, row);
        return;
    }
    const struct shape shape = shape_of(WEFT_F32, few, s->width);
    for (int32_t j = 0; j < BLOCK; j++)
        at[j] = (int64_t)j * s->width;
    for (int32_t j = 0; j < BLOCK; j += score_step(shape)) {
        struct group g = staged_group(rows, at + j);
        score_keys(shape, &g, s->q, s->weight + j);
    }
}

static void skip(struct cursor *cursor, int32_t n)
{
    int64_t at[BLOCK];
    walk(cursor, n, at);
}

static bool all_finite(const float *x, int64_t count)
{
    vf32 sum = vf32_zero();
    for (int64_t i = 0; i < count; i += VF32_LANES)
        sum = vf32_fma(vf32_load(x + i), vf32_zero(), sum);
    return vf32_sum(sum) == 0;
}

static int32_t token_of(const struct state *s, int32_t row)
{
    return weft__attention_token(s->call, s->tile, row);
}

// Values that some rows must not meet: only to those that see their key.
static void add_one_by_one(const struct state *s, const float *rows, int32_t n)
{
    for (int32_t row = 0; row < s->rows; row++) {
        uint64_t seen = s->seen[row];
        float *acc = s->acc + (int64_t)row * s->v_width;
        const vf32 shrink = vf32_set1(s->shrink[row]);
        for (int32_t i = 0; i < s->v_width; i += VF32_LANES) {
            vf32 sum = vf32_zero();
            for (int32_t j = 0; j < n; j++)
                if (seen >> j & 1)
                    sum = vf32_fma(vf32_set1(s->weight[row * BLOCK + j]),
                                   vf32_load(rows + (int64_t)j * s->v_width + i), sum);
            vf32_store(acc + i, vf32_fma(shrink, vf32_load(acc + i), sum));
        }
    }
}

INLINE void staged_values(struct state *s, const float *rows, int32_t n, const int few)
{
    int64_t at[BLOCK];
    int32_t i = 0;
    if (few) {
        const struct shape shape = shape_of(WEFT_F32, few, s->v_width);
        for (int32_t j = 0; j < BLOCK; j++)
            at[j] = (int64_t)j * s->v_width;
        for (int32_t j = 0; j < n; j += DIRECT_GROUP) { // rows past the n-th are zero
            struct group g = staged_group(rows, at + j);
            add_values(s, shape, &g, s->weight + j, 0, DIRECT_GROUP,
                       (struct piece){j == 0, j + DIRECT_GROUP >= n});
        }
        return;
    }
    for (int32_t row = 0; row < s->rows; row += PANEL_ROWS) {
        const float *weight = s->weight + row * BLOCK, *shrink = s->shrink + row;
        float *acc = s->acc + (int64_t)row * s->v_width;
        for (i = 0; i + PANEL_VECTORS * VF32_LANES <= s->v_width; i += PANEL_VECTORS * VF32_LANES)
            panel(weight, BLOCK, rows + i, s->v_width, acc + i, s->v_width, n, PANEL_VECTORS,
                  shrink);
        for (; i < s->v_width; i += VF32_LANES)
            panel(weight, BLOCK, rows + i, s->v_width, acc + i, s->v_width, n, 1, shrink);
    }
}

// What the rows see of a block of n keys. Returns whether one of them sees any; *all says whether the keys
// count for all of them.
static bool look(const struct state *s, int32_t key, int32_t n, bool *all)
{
    const struct weft__attention_call *call = s->call;
    const uint64_t whole = block_of(n);
    const bool heads_differ = call->mask.sparse_block > 0 && call->mask.sparse_head_step > 0;
    uint64_t seen = 0, any = 0, every = whole;
    for (int32_t row = 0; row < s->rows; row++) {
        if (row % call->tile_heads == 0 || heads_differ)
            seen = weft__attention_word(call, s->tile->seq, token_of(s, row),
                                        weft__attention_head(call, s->tile, row), key) &
                   whole;
        s->seen[row] = seen;
        any |= seen;
        every &= seen;
    }
    *all = every == whole;
    return any != 0;
}

// The same where keys that a row does not see count as well, with mask_value added.
static bool look_soft(const struct state *s, int32_t key, int32_t n, bool *all)
{
    int32_t start = weft__attention_start(&s->call->lengths, s->tile->seq);
    look(s, key, n, all);
    *all = start <= key;
    return start < key + n;
}

// Scores of a block of n keys to weights.
static void staged_weigh(struct state *s, int32_t key, int32_t n)
{
    const uint64_t whole = block_of(n);
    const bool soft = s->call->mask.soft;
    int32_t start = soft ? weft__attention_start(&s->call->lengths, s->tile->seq) - key : 0;
    uint64_t blocks = 0, masked = 0;
    for (int32_t row = 0; row < s->rows; row++) {
        float *weight = s->weight + row * BLOCK;
        uint64_t seen = s->seen[row];
        if (seen == 0 && !soft) {
            memset(weight, 0, BLOCK * sizeof *weight);
            s->shrink[row] = 1;
            continue;
        }
        s->scattered = seen != whole || s->call->generic;
        for (int32_t j = 0; j < BLOCK && s->scattered; j++)
            s->keep[j] = (float)(seen >> j & 1);
        if (s->call->alibi_slopes || soft)
            set_bias(s, row, key);
        for (int32_t j = 0; j < BLOCK && soft; j++)
            s->bias[j] += (seen >> j & 1) ? 0 : s->call->mask_value * LOG2E;
        const bool mask = start > 0 || n < BLOCK || s->call->generic;
        blocks++;
        masked += mask || s->scattered;
        weigh_row(s, weight, row, start < 0 ? 0 : start, n, mask, false);
        if (soft) // they count as well
            s->seen[row] = start <= 0 ? whole : whole >> start << start;
    }
    s->scattered = false;
    weft__attention_count(s->call, blocks, masked);
}

INLINE void attend_staged(struct state *s, const int few)
{
    const struct weft__attention_tile *tile = s->tile;
    struct staging keys = staging_of(s, &s->call->k), values = staging_of(s, &s->call->v);
    start_rows(s, few ? few : (s->rows + PANEL_ROWS - 1) / PANEL_ROWS * PANEL_ROWS);
    for (int32_t n, key = tile->key0; key < tile->key1; key += n) {
        bool all;
        n = tile->key1 - key < s->call->block_keys ? tile->key1 - key : s->call->block_keys;
        if (!(s->call->mask.soft ? look_soft(s, key, n, &all) : look(s, key, n, &all))) {
            skip(&keys.cursor, n);
            skip(&values.cursor, n);
            continue;
        }
        stage(s, &keys, key, n, s->staged);
        staged_scores(s, s->staged, few);
        staged_weigh(s, key, n);
        stage(s, &values, key, n, s->values);
        if (!s->call->generic && (all || all_finite(s->values, (int64_t)n * s->v_width)))
            staged_values(s, s->values, n, few);
        else
            add_one_by_one(s, s->values, n);
    }
}

static void attend_any(struct state *s)
{
    s->key_scale = s->value_scale = NULL; // rows are staged as numbers
    if (s->rows <= FEW_ROWS / 2)
        attend_staged(s, FEW_ROWS / 2);
    else if (s->rows <= FEW_ROWS)
        attend_staged(s, FEW_ROWS);
    else
        attend_staged(s, 0);
}

#endif
