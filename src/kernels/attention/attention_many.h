// SPDX-License-Identifier: MIT
// Attention of many rows (prefill): a block of keys and values is widened to f32, the keys
// transposed, and both products are panels of PANEL_ROWS x PANEL_VECTORS sums in registers. Part of
// attention_simd.h.
#ifndef WEFT_KERNELS_ATTENTION_MANY_H
#define WEFT_KERNELS_ATTENTION_MANY_H

// Widens the block. Keys are transposed; columns past the n-th are zero.
INLINE void pack_keys(const struct state *s, weft_dtype kv, int32_t n)
{
    const struct weft__attention_call *call = s->call;
    for (int32_t k = 0; k < BLOCK; k += VF32_LANES)
        for (int32_t i = 0; i < call->k.dim; i += VF32_LANES) {
            int32_t rest = call->k.dim - i;
            vf32 square[VF32_LANES];
            VF32_UNROLL
            for (int j = 0; j < VF32_LANES; j++) {
                if (k + j >= n)
                    square[j] = vf32_zero();
                else if (rest < VF32_LANES)
                    square[j] = load_kv_n(kv, call->k.data, s->at[k + j] + i, rest);
                else
                    square[j] = load_kv(kv, call->k.data, s->at[k + j] + i);
            }
            vf32_transpose(square);
            VF32_UNROLL
            for (int j = 0; j < VF32_LANES; j++)
                vf32_store(s->keys + (int64_t)(i + j) * BLOCK + k, square[j]);
        }
}

INLINE void pack_values(const struct state *s, weft_dtype kv, int32_t n)
{
    const struct weft__attention_call *call = s->call;
    for (int32_t k = 0; k < n; k++) {
        float *to = s->values + (int64_t)k * s->v_width;
        int32_t i = 0;
        for (; i + VF32_LANES <= call->k.dim; i += VF32_LANES)
            vf32_store(to + i, load_kv(kv, call->v.data, s->values_at[k] + i));
        if (i < call->k.dim)
            vf32_store(to + i, load_kv_n(kv, call->v.data, s->values_at[k] + i, call->k.dim - i));
    }
}

// c[PANEL_ROWS][vectors] = c * shrink + a[PANEL_ROWS][depth] b[depth][vectors]
// shrink NULL: c = a b. The product is complete before it meets c: many small numbers that are added to a large one
// one by one are lost in it, all of them in one direction.
INLINE void panel(const float *a, int64_t a_stride, const float *b, int64_t b_stride, float *c,
                  int64_t c_stride, int32_t depth, const int vectors, const float *shrink)
{
    vf32 sums[PANEL_ROWS * PANEL_VECTORS];
    VF32_UNROLL
    for (int r = 0; r < PANEL_ROWS; r++)
        VF32_UNROLL
    for (int v = 0; v < vectors; v++)
        sums[r * vectors + v] = vf32_zero();
    for (int32_t i = 0; i < depth; i++) {
        vf32 row[PANEL_VECTORS];
        VF32_UNROLL
        for (int v = 0; v < vectors; v++)
            row[v] = vf32_load(b + i * b_stride + v * VF32_LANES);
        VF32_UNROLL
        for (int r = 0; r < PANEL_ROWS; r++) {
            vf32 x = vf32_set1(a[r * a_stride + i]);
            VF32_UNROLL
            for (int v = 0; v < vectors; v++)
                sums[r * vectors + v] = vf32_fma(x, row[v], sums[r * vectors + v]);
        }
    }
    VF32_UNROLL
    for (int r = 0; r < PANEL_ROWS; r++)
        VF32_UNROLL
    for (int v = 0; v < vectors; v++) {
        float *to = c + r * c_stride + v * VF32_LANES;
        const vf32 sum = sums[r * vectors + v];
        vf32_store(to, shrink ? vf32_fma(vf32_set1(shrink[r]), vf32_load(to), sum) : sum);
    }
}

static void panel_scores(const struct state *s, int32_t row)
{
    for (int32_t k = 0; k < BLOCK; k += PANEL_VECTORS * VF32_LANES)
        panel(s->q + (int64_t)row * s->width, s->width, s->keys + k, BLOCK,
              s->weight + row * BLOCK + k, BLOCK, s->call->k.dim, PANEL_VECTORS, NULL);
}

// acc = acc * shrink + the values of keys [begin, end) of a block that begins at key `first`, each to those of `rows`
// rows that see it. shrink NULL: 1. The same sums as panel() makes.
static void add_seen_values(const struct state *s, int32_t row, int32_t rows, int32_t first,
                            int32_t begin, int32_t end, const float *shrink)
{
    for (int32_t r = row; r < row + rows; r++) {
        const float *weight = s->weight + r * BLOCK;
        float *acc = s->acc + (int64_t)r * s->v_width;
        const vf32 factor = vf32_set1(shrink ? shrink[r - row] : 1);
        const int32_t from = s->begin[r] - first > begin ? s->begin[r] - first : begin;
        const int32_t to = s->end[r] - first < end ? s->end[r] - first : end;
        for (int32_t i = 0; i < s->v_width && (from < to || shrink); i += VF32_LANES) {
            vf32 sum = vf32_zero();
            for (int32_t k = from; k < to; k++)
                sum = vf32_fma(vf32_set1(weight[k]),
                               vf32_load(s->values + (int64_t)k * s->v_width + i), sum);
            vf32_store(acc + i, vf32_fma(factor, vf32_load(acc + i), sum));
        }
    }
}

// Adds the values of a block that begins at key `first` and has n: in panels what all rows of the panel
// see, the others one by one.
static void panel_values(const struct state *s, int32_t row, int32_t first, int32_t n)
{
    int32_t rows = s->rows - row < PANEL_ROWS ? s->rows - row : PANEL_ROWS;
    const struct weft__attention_span seen = seen_by_all(s, row, rows);
    int32_t begin = seen.begin > first ? seen.begin - first : 0;
    int32_t end = seen.end - first < n ? seen.end - first : n;
    if (begin >= end)
        begin = end = 0;
    const int32_t depth = end - begin;
    const float *weight = s->weight + row * BLOCK + begin, *shrink = s->shrink + row;
    const float *values = s->values + (int64_t)begin * s->v_width;
    float *acc = s->acc + (int64_t)row * s->v_width;
    int32_t i = s->call->generic ? s->v_width : 0;
    for (; i + PANEL_VECTORS * VF32_LANES <= s->v_width; i += PANEL_VECTORS * VF32_LANES)
        panel(weight, BLOCK, values + i, s->v_width, acc + i, s->v_width, depth, PANEL_VECTORS,
              shrink);
    for (; i < s->v_width; i += VF32_LANES)
        panel(weight, BLOCK, values + i, s->v_width, acc + i, s->v_width, depth, 1, shrink);
    if (s->call->generic)
        add_seen_values(s, row, rows, first, begin, end, shrink);
    add_seen_values(s, row, rows, first, 0, begin, NULL);
    add_seen_values(s, row, rows, first, end, n, NULL);
}

INLINE void attend_many(struct state *s, weft_dtype kv)
{
    const struct weft__attention_tile *tile = s->tile;
    struct cursor keys = cursor_at(s->call, tile, &s->call->k);
    struct cursor values = cursor_at(s->call, tile, &s->call->v);
    start_rows(s, (s->rows + PANEL_ROWS - 1) / PANEL_ROWS * PANEL_ROWS);
    for (int32_t n, key = tile->key0; key < tile->key1; key += n) {
        n = tile->key1 - key < s->call->block_keys ? tile->key1 - key : s->call->block_keys;
        walk(&keys, n, s->at);
        if (s->values_at != s->at)
            walk(&values, n, s->values_at);
        pack_keys(s, kv, n);
        pack_values(s, kv, n);
        for (int32_t row = 0; row < s->rows; row += PANEL_ROWS)
            panel_scores(s, row);
        weigh(s, s->weight, key, n);
        for (int32_t row = 0; row < s->rows; row += PANEL_ROWS)
            panel_values(s, row, key, n);
    }
}

#endif
