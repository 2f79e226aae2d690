// SPDX-License-Identifier: MIT
// Attention of few rows (decode): keys and values are read in place, each once for all rows, and
// memory is what counts. Part of attention_simd.h.
//
// Scores run one block ahead of values, a group of keys at a time, so that arithmetic and requests
// to memory are spread evenly. The window says where the rows of three blocks lie:
//
//      at:   |  block b - 1: values  |  block b: keys  |  block b + 1  |
//               ^ group                 ^ group
//               |<- near ->|            |<- near ->|      asked for from the L2 cache, for L1
//               |<------- BLOCK ------->|<------ BLOCK ---->|  asked for from memory, for L2
//
// so a line is in L2 when `near` asks for it, and in L1 when it is read. NOTES.md has the
// measurements.
#ifndef WEFT_KERNELS_ATTENTION_FEW_H
#define WEFT_KERNELS_ATTENTION_FEW_H

enum { LINE = 64, NEAR_BYTES = 4096 };

// What the loops are unrolled for. Both products keep DIRECT_SUMS sums in registers: rows x keys of
// the scores, rows x vectors of the head of the results.
struct shape {
    weft_dtype kv;
    int rows, batch; // FEW_ROWS or half of it; batch: keys, and vectors, for the sums to be full
    int32_t head_dim, width; // a constant for the common ones
    int32_t near;            // rows
};

// The rows of keys or values that a group works on, and those that it asks for.
struct group {
    const void *pool;
    const int64_t *at, *near, *far;
};

INLINE int elem_bytes(struct shape shape)
{
    return shape.kv == WEFT_F32 ? 4 : 2;
}

INLINE struct shape shape_of(weft_dtype kv, const int rows, int32_t head_dim)
{
    struct shape shape = {kv, rows, DIRECT_SUMS / rows, head_dim, padded_width(head_dim), 0};
    int32_t near = NEAR_BYTES / (head_dim * elem_bytes(shape));
    shape.near = near < DIRECT_GROUP ? DIRECT_GROUP : near > BLOCK ? BLOCK : near;
    return shape;
}

// Asks for a line of row j, that with element `column`.
INLINE void ask(const struct group *g, int j, int32_t column, int size)
{
    __builtin_prefetch((const char *)g->pool + (g->near[j] + column) * size, 0, 3);
    __builtin_prefetch((const char *)g->pool + (g->far[j] + column) * size, 0, 2);
}

// sums[row][key] += q[row] * key for one vector of the head, of which `rest` elements exist if it
// is not 0.
INLINE void score_vector(struct shape shape, const struct group *g, const float *q, int32_t column,
                         const int rest, vf32 *sums)
{
    VF32_UNROLL
    for (int j = 0; j < shape.batch; j++) {
        vf32 key = rest ? load_kv_n(shape.kv, g->pool, g->at[j] + column, rest)
                        : load_kv(shape.kv, g->pool, g->at[j] + column);
        VF32_UNROLL
        for (int r = 0; r < shape.rows; r++)
            sums[r * shape.batch + j] =
                vf32_fma(vf32_load(q + r * shape.width + column), key, sums[r * shape.batch + j]);
    }
}

// Scores of the rows against a batch of keys, to scores[row][BLOCK].
INLINE void score_keys(struct shape shape, const struct group *g, const float *q, float *scores)
{
    const int size = elem_bytes(shape), line = LINE / size;
    int32_t head_dim = shape.head_dim, column = 0;
    vf32 sums[DIRECT_SUMS];
    float sum[DIRECT_SUMS];
    VF32_UNROLL
    for (int i = 0; i < DIRECT_SUMS; i++)
        sums[i] = vf32_zero();
    for (; column + line <= head_dim; column += line) {
        VF32_UNROLL
        for (int j = 0; j < shape.batch; j++)
            ask(g, j, column, size);
        VF32_UNROLL
        for (int i = 0; i < line; i += VF32_LANES)
            score_vector(shape, g, q, column + i, 0, sums);
    }
    for (int j = 0; j < shape.batch && column < head_dim; j++)
        ask(g, j, column, size);
    for (; column + VF32_LANES <= head_dim; column += VF32_LANES)
        score_vector(shape, g, q, column, 0, sums);
    if (column < head_dim)
        score_vector(shape, g, q, column, head_dim - column, sums);
    VF32_UNROLL
    for (int i = 0; i < DIRECT_SUMS; i += VF32_LANES)
        vf32_store(sum + i, vf32_sums(sums + i));
    VF32_UNROLL
    for (int r = 0; r < shape.rows; r++)
        memcpy(scores + r * BLOCK, sum + r * shape.batch, (size_t)shape.batch * sizeof *sum);
}

// acc[row] += weight[row][key] * value[key] for `keys` keys and `vectors` vectors of the head from
// element `column`. `rest` > 0: one vector of which only so many elements exist.
INLINE void add_columns(struct shape shape, const struct group *g, const float *weight, float *acc,
                        int32_t column, const int keys, const int vectors, const int rest)
{
    const int size = elem_bytes(shape), line = LINE / size;
    vf32 sums[DIRECT_SUMS];
    VF32_UNROLL
    for (int r = 0; r < shape.rows; r++)
        VF32_UNROLL
    for (int v = 0; v < vectors; v++)
        sums[r * vectors + v] = vf32_load(acc + r * shape.width + column + v * VF32_LANES);
    VF32_UNROLL
    for (int j = 0; j < keys; j++) {
        vf32 value[DIRECT_SUMS / 4];
        VF32_UNROLL
        for (int i = 0; i < vectors * VF32_LANES; i += line)
            if (column % line == 0)
                ask(g, j, column + i, size);
        VF32_UNROLL
        for (int v = 0; v < vectors; v++)
            value[v] = rest ? load_kv_n(shape.kv, g->pool, g->at[j] + column, rest)
                            : load_kv(shape.kv, g->pool, g->at[j] + column + v * VF32_LANES);
        VF32_UNROLL
        for (int r = 0; r < shape.rows; r++) {
            vf32 p = vf32_set1(weight[r * BLOCK + j]);
            VF32_UNROLL
            for (int v = 0; v < vectors; v++)
                sums[r * vectors + v] = vf32_fma(p, value[v], sums[r * vectors + v]);
        }
    }
    VF32_UNROLL
    for (int r = 0; r < shape.rows; r++)
        VF32_UNROLL
    for (int v = 0; v < vectors; v++)
        vf32_store(acc + r * shape.width + column + v * VF32_LANES, sums[r * vectors + v]);
}

INLINE void add_values(struct shape shape, const struct group *g, const float *weight, float *acc,
                       const int keys)
{
    const int32_t pass = shape.batch * VF32_LANES;
    int32_t head_dim = shape.head_dim, column = 0;
    for (; column + pass <= head_dim; column += pass)
        add_columns(shape, g, weight, acc, column, keys, shape.batch, 0);
    for (; column + VF32_LANES <= head_dim; column += VF32_LANES)
        add_columns(shape, g, weight, acc, column, keys, 1, 0);
    if (column < head_dim)
        add_columns(shape, g, weight, acc, column, keys, 1, head_dim - column);
}

// Scores of the keys k .. k + DIRECT_GROUP of block b, of which there are n. Those past the n-th
// are rows that exist: their scores are masked.
INLINE void score_group(const struct state *s, struct shape shape, int32_t k, int32_t n)
{
    for (int32_t end = k + DIRECT_GROUP; k < end && k < n; k += shape.batch) {
        const int64_t *at = s->at + BLOCK + k;
        struct group g = {s->call->k.data, at, at + shape.near, at + BLOCK};
        score_keys(shape, &g, s->q, s->scores + k);
    }
}

// A value that not all rows see, to those that do.
static __attribute__((noinline)) void add_value(const struct state *s, struct shape shape,
                                                const struct group *g, const float *weight,
                                                int32_t key)
{
    shape.rows = shape.batch = 1;
    for (int32_t row = 0; row < s->rows; row++)
        if (sees(s, row, key))
            add_values(shape, g, weight + row * BLOCK, s->acc + (int64_t)row * s->width, 1);
}

// The same for the values of block b - 1, which begins at key `first` and has n. `common` are the keys
// that all rows see.
INLINE void value_group(const struct state *s, struct shape shape,
                        struct weft__attention_span common, int32_t first, int32_t k, int32_t n)
{
    const int64_t *at = s->values_at + k;
    const float *weight = s->weight + k;
    struct group g = {s->call->v.data, at, at + shape.near, at + BLOCK};
    int32_t key = first + k;
    if (common.begin <= key && common.end - key >= DIRECT_GROUP && n - k >= DIRECT_GROUP) {
        add_values(shape, &g, weight, s->acc, DIRECT_GROUP);
        return;
    }
    for (int32_t end = k + DIRECT_GROUP; k < end && k < n; k++, key++) {
        if (common.begin <= key && key < common.end)
            add_values(shape, &g, weight, s->acc, 1);
        else
            add_value(s, shape, &g, weight, key);
        g.at++, g.near++, g.far++, weight++;
    }
}

// A new largest score makes the earlier results smaller.
static void shrink_results(const struct state *s)
{
    for (int32_t row = 0; row < s->rows; row++) {
        float *acc = s->acc + (int64_t)row * s->v_width;
        vf32 shrink = vf32_set1(s->shrink[row]);
        if (s->shrink[row] != 1)
            for (int32_t i = 0; i < s->v_width; i += VF32_LANES)
                vf32_store(acc + i, vf32_mul(shrink, vf32_load(acc + i)));
    }
}

// Where the rows of the block after the next lie, once `n` of them; past the n-th, the last one that
// there is, so that every row exists.
static void fill_block(struct cursor *cursor, int64_t *window, int32_t n)
{
    int64_t *at = window + 2 * BLOCK, last = at[-1];
    walk(cursor, n, at);
    for (int32_t i = n; i < BLOCK; i++)
        at[i] = n > 0 ? at[n - 1] : last;
}

static void move_window(int64_t *window)
{
    memmove(window, window + BLOCK, 2 * BLOCK * sizeof *window);
}

INLINE void attend_shape(struct state *s, struct shape shape)
{
    start_rows(s, shape.rows);
    const struct weft__attention_tile *tile = s->tile;
    const bool apart = s->values_at != s->at;
    int32_t left = tile->key1 - tile->key0;
    int32_t before = 0, n = left < BLOCK ? left : BLOCK; // keys of the blocks b - 1 and b
    const struct weft__attention_span common = seen_by_all(s, 0, s->rows);
    struct cursor keys = cursor_at(s->call, tile, &s->call->k);
    struct cursor values = cursor_at(s->call, tile, &s->call->v);
    s->at[2 * BLOCK - 1] = s->values_at[2 * BLOCK - 1] = 0;
    fill_block(&keys, s->at, n);
    move_window(s->at);
    if (apart) {
        fill_block(&values, s->values_at, n);
        move_window(s->values_at);
    }
    for (int32_t key = tile->key0; before + n > 0; key += before) {
        left -= n;
        int32_t after = left < BLOCK ? left : BLOCK;
        fill_block(&keys, s->at, after);
        if (apart)
            fill_block(&values, s->values_at, after);
        for (int32_t k = 0; k < before || k < n; k += DIRECT_GROUP) {
            score_group(s, shape, k, n);
            value_group(s, shape, common, key - before, k, before);
        }
        weigh(s, s->scores, key, n);
        shrink_results(s);
        float *swap = s->weight;
        s->weight = s->scores;
        s->scores = swap;
        move_window(s->at);
        if (apart)
            move_window(s->values_at);
        before = n;
        n = after;
    }
}

INLINE void attend_rows(struct state *s, weft_dtype kv, const int rows)
{
    switch (s->call->k.dim) {
    case 64: attend_shape(s, shape_of(kv, rows, 64)); break;
    case 128: attend_shape(s, shape_of(kv, rows, 128)); break;
    default: attend_shape(s, shape_of(kv, rows, s->call->k.dim));
    }
}

INLINE void attend_few(struct state *s, weft_dtype kv)
{
    if (s->rows > FEW_ROWS / 2)
        attend_rows(s, kv, FEW_ROWS);
    else
        attend_rows(s, kv, FEW_ROWS / 2);
}

#endif
