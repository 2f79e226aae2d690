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
// so a line is in L2 when `near` asks for it, and in L1 when it is read. Where turns are short a group is EVEN_KEYS
// keys, and what is asked for lies nearer, or is the next block in pieces of 4 KB side by side. NOTES.md has the
// measurements.
#ifndef WEFT_KERNELS_ATTENTION_FEW_H
#define WEFT_KERNELS_ATTENTION_FEW_H

enum { LINE = 64, NEAR_BYTES = 4096 };

// Short turns (machines with AMX): keys of one, and how far ahead of it lines are asked for, for L1 and for L2.
enum { EVEN_KEYS = 4, EVEN_NEAR_BYTES = 1024, EVEN_FAR_BYTES = 4096 };

#ifdef ATTENTION_PARTS
enum { PART_KEYS = 8 }; // whose scores grow together (attention_parts.h)
enum { SHORT_TURNS = 1 };
#else
enum { PART_KEYS = 0 };
enum { SHORT_TURNS = 0 };
#endif

// What the loops are unrolled for. Both products keep DIRECT_SUMS sums in registers: rows x keys of
// the scores, rows x vectors of the head of the results.
struct shape {
    weft_dtype kv;
    int rows, batch; // FEW_ROWS or half of it; batch: keys, and vectors, for the sums to be full
    int unit_keys;   // of them, for scores: keys whose products are made together
    int32_t head_dim, width; // a constant for the common ones
    int32_t near, far;       // rows
    int turn;                // keys between two changes from scores to values
    bool by_32;              // elements are taken 32 at a time where that is faster
    bool by_parts;           // scores are attention_parts.h's
    bool in_order;           // the next block is asked for in order of address
    bool even;               // keys of a turn lie at even distances: a turn has one address
    int pieces; // of the next block, asked for side by side for L2; 0: rows at `far` are
};

// The rows of keys or values that a group works on, and those that it asks for.
struct group {
    const void *pool;
    const int64_t *at, *near, *far;
    int64_t step; // of even keys, elements from one to the next
};

INLINE bool is_wide(weft_dtype kv) // more than a byte an element
{
    return kv == WEFT_F32 || kv == WEFT_F16 || kv == WEFT_BF16;
}

INLINE int elem_bytes(struct shape shape) // blocks: nearly
{
    return shape.kv == WEFT_F32 ? 4 : shape.kv == WEFT_F16 || shape.kv == WEFT_BF16 ? 2 : 1;
}

// The address of an element, or of its block.
INLINE const char *address(weft_dtype kv, const void *pool, int64_t at, int size)
{
    return (const char *)pool + (block_bytes(kv) ? (at >> 5) * block_bytes(kv) : at * size);
}

INLINE struct shape shape_of(weft_dtype kv, const int rows, int32_t head_dim)
{
    struct shape shape = {.kv = kv,
                          .rows = rows,
                          .batch = DIRECT_SUMS / rows,
                          .unit_keys = UNIT_SUMS / rows,
                          .head_dim = head_dim,
                          .width = padded_width(head_dim)};
    int32_t near = NEAR_BYTES / (head_dim * elem_bytes(shape));
    shape.near = near < DIRECT_GROUP ? DIRECT_GROUP : near > BLOCK ? BLOCK : near;
    shape.far = BLOCK;
    shape.turn = DIRECT_GROUP;
    return shape;
}

// Lines of a row.
INLINE int32_t lines_of(struct shape shape)
{
    return shape.head_dim * elem_bytes(shape) / LINE;
}

// Short turns, for heads of whole lines. The sums of a batch grow together.
INLINE struct shape short_shape_of(weft_dtype kv, const int rows, int32_t head_dim, const bool even,
                                   const bool in_pieces)
{
    struct shape shape = shape_of(kv, rows, head_dim);
    shape.even = even;
    shape.turn = EVEN_KEYS;
    shape.unit_keys = shape.batch;
    shape.near = EVEN_NEAR_BYTES / (head_dim * elem_bytes(shape));
    shape.far = EVEN_FAR_BYTES / (head_dim * elem_bytes(shape));
    shape.pieces = !in_pieces ? 0 : lines_of(shape) < 4 ? 2 : 4;
    return shape;
}

// Where row j of those at `at` begins.
INLINE int64_t row_at(struct shape shape, const struct group *g, const int64_t *at, int j)
{
    return shape.even ? at[0] + j * g->step : at[j];
}

// A vector of a row that begins at element `at`, that of element `column` of the head, which is element `part` of its
// block of 32.
INLINE vf32 load_column(struct shape shape, const void *pool, int64_t at, int32_t column,
                        const int part)
{
    const weft_dtype kv = shape.kv;
    if (kv == WEFT_FP8_E4M3 && shape.by_32)
        return vf32_load_e4m3_part((const uint8_t *)pool + at + (column - part), part);
    if (block_bytes(kv))
        return load_block(kv, address(kv, pool, at + (column - part), 1), part);
    return load_kv(kv, pool, at + column);
}

// Asks for a line of row j, that with element `column`.
INLINE void ask(struct shape shape, const struct group *g, int j, int32_t column, int size)
{
    const int64_t near = row_at(shape, g, g->near, j), far = row_at(shape, g, g->far, j);
    __builtin_prefetch(address(shape.kv, g->pool, near + column, size), 0, 3);
    __builtin_prefetch(address(shape.kv, g->pool, far + column, size), 0, 2);
}

// Asks for line n of a turn, for L2, row by row of pieces.
INLINE void ask_piece(struct shape shape, const struct group *g, const int n)
{
    const int size = elem_bytes(shape), pieces = shape.pieces, lines = lines_of(shape);
    const int64_t row = g->far[n % pieces * (BLOCK / pieces) + n / (pieces * lines)];
    __builtin_prefetch(address(shape.kv, g->pool, row + n / pieces % lines * (LINE / size), size),
                       0, 2);
}

// Asks for a line of row j, that with element `column`, for L1.
INLINE void ask_near(struct shape shape, const struct group *g, int j, int32_t column)
{
    const int64_t near = row_at(shape, g, g->near, j);
    __builtin_prefetch(address(shape.kv, g->pool, near + column, elem_bytes(shape)), 0, 3);
}

// Asks for line `first + n` of those that the rows of the next block have, from the group's first row on, in order of address, for L2.
// `first` is the first line of a row.
INLINE void ask_far(struct shape shape, const struct group *g, int32_t first, const int32_t n)
{
    const int32_t size = elem_bytes(shape), lines = lines_of(shape);
    const int64_t *far = g->far + (uint32_t)first / (uint32_t)lines + n / lines;
    __builtin_prefetch(address(shape.kv, g->pool, *far + n % lines * (LINE / size), size), 0, 2);
}

#ifdef ATTENTION_PARTS
// The same for one vector of keys at even distances: a query's is loaded once for all of them.
INLINE void score_even(struct shape shape, const struct group *g, const float *q, int first,
                       int32_t column, vf32 *sums)
{
    vf32 key[DIRECT_SUMS / 4];
    VF32_UNROLL
    for (int j = 0; j < shape.unit_keys; j++)
        key[j] = load_kv(shape.kv, g->pool, row_at(shape, g, g->at, first + j) + column);
    VF32_UNROLL
    for (int r = 0; r < shape.rows; r++) {
        vf32 x = vf32_load(q + r * shape.width + column);
        WEFT__IN_REGISTER(x);
        VF32_UNROLL
        for (int j = 0; j < shape.unit_keys; j++)
            sums[r * shape.batch + j] = vf32_fma(x, key[j], sums[r * shape.batch + j]);
    }
}
#else
INLINE void score_even(struct shape shape, const struct group *g, const float *q, int first,
                       int32_t column, vf32 *sums)
{
    (void)shape, (void)g, (void)q, (void)first, (void)column, (void)sums;
}
#endif

// sums[row][key] += q[row] * key for one vector of the head and the unit's keys from `first` on. The vector begins at
// element `part` of 32, and `rest` of its elements exist if that is not 0.
INLINE void score_vector(struct shape shape, const struct group *g, const float *q, int first,
                         int32_t column, const int part, const int rest, vf32 *sums)
{
    if (shape.even) {
        score_even(shape, g, q, first, column, sums);
        return;
    }
    VF32_UNROLL
    for (int j = 0; j < shape.unit_keys; j++) {
        const int64_t at = g->at[first + j];
        vf32 key = rest ? load_kv_n(shape.kv, g->pool, at + column, rest)
                        : load_column(shape, g->pool, at, column, part);
        VF32_UNROLL
        for (int r = 0; r < shape.rows; r++)
            sums[r * shape.batch + j] =
                vf32_fma(vf32_load(q + r * shape.width + column), key, sums[r * shape.batch + j]);
    }
}

INLINE void score_unit(struct shape shape, const struct group *g, const float *q, int first,
                       vf32 *sums)
{
    const int size = elem_bytes(shape), line = LINE / size;
    int32_t head_dim = shape.head_dim, column = 0;
    VF32_UNROLL
    for (int r = 0; r < shape.rows; r++)
        VF32_UNROLL
    for (int j = 0; j < shape.unit_keys; j++)
        sums[r * shape.batch + j] = vf32_zero();
    for (; column + line <= head_dim; column += line) {
        VF32_UNROLL
        for (int j = 0; j < shape.unit_keys; j++)
            if (shape.pieces) {
                ask_near(shape, g, first + j, column);
                ask_piece(shape, g, first * lines_of(shape) + column / line * shape.unit_keys + j);
            } else
                ask(shape, g, first + j, column, size);
        VF32_UNROLL
        for (int i = 0; i < line; i += VF32_LANES)
            score_vector(shape, g, q, first, column + i, i & 31, 0, sums);
    }
    for (int j = 0; j < shape.unit_keys && column < head_dim; j++)
        ask(shape, g, first + j, column, size);
    for (; column + VF32_LANES <= head_dim; column += VF32_LANES)
        score_vector(shape, g, q, first, column, column & 31, 0, sums);
    if (column < head_dim)
        score_vector(shape, g, q, first, column, 0, head_dim - column, sums);
}

// The lanes of a batch of sums, added up, to scores[row][BLOCK].
INLINE void store_scores(struct shape shape, const vf32 *sums, float *scores)
{
    float sum[DIRECT_SUMS];
    VF32_UNROLL
    for (int i = 0; i < DIRECT_SUMS; i += VF32_LANES)
        vf32_store(sum + i, vf32_sums(sums + i));
    VF32_UNROLL
    for (int r = 0; r < shape.rows; r++)
        memcpy(scores + r * BLOCK, sum + r * shape.batch, (size_t)shape.batch * sizeof *sum);
}

#ifdef ATTENTION_PARTS
#include "src/kernels/attention/attention_parts.h"
#else
INLINE void turn_queries(float *q, int32_t width)
{
    (void)q, (void)width;
}
INLINE void score_parts(struct shape shape, const struct group *g, const float *q, float *scores)
{
    (void)shape, (void)g, (void)q, (void)scores;
}
#endif

// Keys whose scores are one piece of text: two batches where these are several units.
INLINE int score_step(struct shape shape)
{
    if (shape.by_parts)
        return PART_KEYS;
    return shape.unit_keys < shape.batch ? 2 * shape.batch : shape.batch;
}

// Scores of the rows against score_step() keys, to scores[row][BLOCK]. Where a batch is several units its lanes are
// added up beside the products of a unit of the next: they have waited for the last of their own by then.
INLINE void score_keys(struct shape shape, const struct group *g, const float *q, float *scores)
{
    const int units = shape.batch / shape.unit_keys, late = units > 1;
    const int all = score_step(shape) / shape.unit_keys;
    vf32 sums[2][DIRECT_SUMS];
    VF32_UNROLL
    for (int i = 0; i < all + late; i++) {
        if (i < all)
            score_unit(shape, g, q, i * shape.unit_keys,
                       sums[i / units % 2] + i % units * shape.unit_keys);
        const int batches = (i + 1 - late) / units; // that are complete
        if (i >= late && (i + 1 - late) % units == 0)
            store_scores(shape, sums[(batches - 1) % 2], scores + (batches - 1) * shape.batch);
    }
}

// Adds value j of a group by its weights to sums[row][vector], as add_columns() says.
INLINE void add_vectors(struct shape shape, const struct group *g, const float *weight, int first,
                        const int number, int32_t column, const int keys, const int vectors,
                        const int rest, vf32 *sums)
{
    const int size = elem_bytes(shape), line = LINE / size, pass = vectors * VF32_LANES / line;
    const int32_t lines = lines_of(shape), j = first + number;
    const bool in_order = shape.in_order && keys == DIRECT_GROUP && pass > 0 && keys % lines == 0 &&
                          VALUE_STEP * pass % lines == 0;
    const int64_t at = row_at(shape, g, g->at, j);
    // A constant where the vectors are whole blocks.
    const int begin = vectors * VF32_LANES % 32 == 0 ? 0 : column & 31;
    vf32 value[DIRECT_SUMS / 4];
    VF32_UNROLL
    for (int i = 0; i < vectors * VF32_LANES; i += line)
        if (in_order) {
            ask_near(shape, g, j, column + i);
            ask_far(shape, g, column / line * keys + first * pass, number * pass + i / line);
        } else if (shape.pieces && keys == EVEN_KEYS) {
            ask_near(shape, g, j, column + i);
            ask_piece(shape, g, column / line * keys + j * pass + i / line);
        } else if (column % line == 0)
            ask(shape, g, j, column + i, size);
    VF32_UNROLL
    for (int v = 0; v < vectors; v++)
        value[v] = rest ? load_kv_n(shape.kv, g->pool, at + column, rest)
                        : load_column(shape, g->pool, at, column + v * VF32_LANES,
                                      (begin + v * VF32_LANES) & 31);
    VF32_UNROLL
    for (int r = 0; r < shape.rows; r++) {
        vf32 p = vf32_set1(weight[r * BLOCK + j]);
        VF32_UNROLL
        for (int v = 0; v < vectors; v++)
            sums[r * vectors + v] = vf32_fma(p, value[v], sums[r * vectors + v]);
    }
}

// Which groups of keys a block has: the first begins its sums, the last adds them to what the rows have.
struct piece {
    bool first, last;
};

// part[row] += weight[row][key] * value[key] for `keys` keys and `vectors` vectors of the head from element `column`,
// shape.rows rows from row `row` on. `rest` > 0: one vector of which only so many elements exist.
INLINE void add_columns(const struct state *s, struct shape shape, const struct group *g,
                        const float *weight, int32_t row, int32_t column, const int keys,
                        const int vectors, const int rest, struct piece piece)
{
    const int step = keys < VALUE_STEP ? keys : VALUE_STEP;
    float *part = s->part + (int64_t)row * shape.width + column;
    float *acc = s->acc + (int64_t)row * shape.width + column;
    vf32 sums[DIRECT_SUMS];
    VF32_UNROLL
    for (int r = 0; r < shape.rows; r++)
        VF32_UNROLL
    for (int v = 0; v < vectors; v++)
        sums[r * vectors + v] =
            piece.first ? vf32_zero() : vf32_load(part + r * shape.width + v * VF32_LANES);
    for (int j = 0; j < keys; j += step)
        VF32_UNROLL
    for (int i = 0; i < step; i++)
        add_vectors(shape, g, weight, j, i, column, keys, vectors, rest, sums);
    VF32_UNROLL
    for (int r = 0; r < shape.rows; r++)
        VF32_UNROLL
    for (int v = 0; v < vectors; v++) {
        const vf32 sum = sums[r * vectors + v];
        float *to = acc + r * shape.width + v * VF32_LANES;
        if (piece.last)
            vf32_store(to, vf32_fma(vf32_set1(s->shrink[row + r]), vf32_load(to), sum));
        else
            vf32_store(part + r * shape.width + v * VF32_LANES, sum);
    }
}

INLINE void add_values(const struct state *s, struct shape shape, const struct group *g,
                       const float *weight, int32_t row, const int keys, struct piece piece)
{
    const int32_t head_dim = shape.head_dim, pass = shape.batch * VF32_LANES;
    int32_t column = 0;
    for (; column + pass <= head_dim; column += pass)
        add_columns(s, shape, g, weight, row, column, keys, shape.batch, 0, piece);
    for (; column + VF32_LANES <= head_dim; column += VF32_LANES)
        add_columns(s, shape, g, weight, row, column, keys, 1, 0, piece);
    if (column < head_dim)
        add_columns(s, shape, g, weight, row, column, keys, 1, head_dim - column, piece);
}

// The rows from row k of a block on, which begins at `block`.
INLINE struct group group_at(const struct state *s, struct shape shape,
                             const struct weft__attention_plane *plane, const int64_t *block,
                             int32_t k)
{
    const int64_t step = plane->token_stride, *at = block + k;
    if (!s->call->ahead)
        return (struct group){plane->data, at, at, shape.pieces ? block : at, step};
    if (shape.pieces)
        return (struct group){plane->data, at, at + shape.near, block + BLOCK + k / shape.pieces,
                              step};
    return (struct group){plane->data, at, at + shape.near, at + shape.far, step};
}

// Scores of the keys k .. k + shape.turn of block b, of which there are n. Those past the n-th
// are rows that exist: their scores are masked.
INLINE void score_group(const struct state *s, struct shape shape, int32_t k, int32_t n)
{
    for (int32_t end = k + shape.turn; k < end && k < n; k += score_step(shape)) {
        struct group g = group_at(s, shape, &s->call->k, s->at + BLOCK, k);
        if (shape.by_parts)
            score_parts(shape, &g, s->q, s->scores + k);
        else
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
            add_values(s, shape, g, weight + row * BLOCK, row, 1, (struct piece){0});
}

// Adds the values of a block to what the rows have.
static void add_part(const struct state *s)
{
    for (int32_t row = 0; row < s->rows; row++) {
        float *acc = s->acc + (int64_t)row * s->v_width, *part = s->part + (acc - s->acc);
        const vf32 shrink = vf32_set1(s->shrink[row]);
        for (int32_t i = 0; i < s->v_width; i += VF32_LANES)
            vf32_store(acc + i, vf32_fma(shrink, vf32_load(acc + i), vf32_load(part + i)));
    }
}

// The same for the values of block b - 1, which begins at key `first` and has n. `common` are the keys
// that all rows see.
INLINE void value_group(const struct state *s, struct shape shape,
                        struct weft__attention_span common, int32_t first, int32_t k, int32_t n)
{
    const float *weight = s->weight + k;
    const struct piece piece = {k == 0, k < n && k + shape.turn >= n};
    struct group g = group_at(s, shape, &s->call->v, s->values_at, k);
    int32_t key = first + k;
    if (common.begin <= key && common.end - key >= shape.turn && n - k >= shape.turn) {
        add_values(s, shape, &g, weight, 0, shape.turn, piece);
        return;
    }
    if (piece.first)
        memset(s->part, 0, (size_t)shape.rows * s->v_width * sizeof *s->part);
    for (int32_t end = k + shape.turn; k < end && k < n; k++, key++) {
        if (common.begin <= key && key < common.end)
            add_values(s, shape, &g, weight, 0, 1, (struct piece){0});
        else
            add_value(s, shape, &g, weight, key);
        g.at++, g.near++, g.far++, weight++;
    }
    if (piece.last)
        add_part(s);
}

#include "src/kernels/attention/attention_few_heads.h"

// `count` tiles, each with keys. The scores of a tile's first block are computed beside the values of the
// last block of the tile before it: their queries and results do not meet. Nor do those of heads that go together.
INLINE void attend_shape(struct state *s, int32_t count, struct shape shape)
{
    struct few_walk walk;
    struct weft__attention_span common = {0, 0};
    struct block before = {0}, now, after;
    begin_walk(s, count, &walk);
    memset(s->weight, 0, (size_t)shape.rows * BLOCK * sizeof *s->weight);
    memset(s->scores, 0, (size_t)shape.rows * BLOCK * sizeof *s->scores);
    now = append_block(s, &walk);
    advance(s);
    while (before.n + now.n > 0) {
        struct head *head = head_of(&walk, &now);
        after = append_block(s, &walk);
        s->q = head->q;
        if (begins_tile(&now) && !same_rows(head->loaded, now.tile)) {
            load_queries(s, now.tile, shape.rows);
            if (shape.by_parts)
                turn_queries(s->q, s->width);
            head->loaded = now.tile;
        }
        for (int32_t k = 0; k < before.n || k < now.n; k += shape.turn) {
            score_group(s, shape, k, now.n);
            value_group(s, shape, common, before.first, k, before.n);
        }
        if (ends_tile(&before))
            finish_rows(s);
        take_head(s, head, &now);
        if (begins_tile(&now)) {
            open_rows(s, now.tile, shape.rows);
            if (!s->call->generic)
                common = seen_by_all(s, 0, s->rows);
        }
        weigh(s, s->scores, now.first, now.n);
        advance(s);
        before = now;
        now = after;
    }
}

#include "src/kernels/attention/attention_few_shapes.h"

#endif
