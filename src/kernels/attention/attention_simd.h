// SPDX-License-Identifier: MIT
// The text of the SIMD kernels of attention, for any vector width. An ISA file includes its vocabulary
// (src/kernels/cpu/<isa>.h), sets the sizes of the register blocks and includes this; then ATTENTION()
// makes the functions of the table.
//
//      DIRECT_KEYS     keys at a time in the scores of few rows: 4 rows x DIRECT_KEYS sums in registers
//      DIRECT_VECTORS  vectors of the head at a time in the weighted values of few rows
//      PANEL_VECTORS   columns of the register block of many rows: PANEL_ROWS x PANEL_VECTORS vectors
//
// Keys are visited in blocks of 64 with an online softmax: scores of a block, weights and the new
// (largest, sum), accumulated values. Two ways to do the products:
//
//   few rows   (decode)   keys and values are read in place, each once for 4 rows: memory is what counts
//   many rows  (prefill)  the block is first widened to f32, keys transposed, and multiplied in panels
//
// See NOTES.md for what was measured.
#ifndef WEFT_KERNELS_ATTENTION_SIMD_H
#define WEFT_KERNELS_ATTENTION_SIMD_H

#include <math.h>

#include "src/kernels/attention/attention_ahead.h"
#include "src/kernels/attention/attention_kernel.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    BLOCK = 64, // keys; scores of a row are [BLOCK]
    BLOCK_VECTORS = BLOCK / VF32_LANES,
    QUAD = 4,
    FEW_ROWS = 8,
    PANEL_ROWS = 6,
    ROW_STEP = 12, // rows of the scratch are a multiple of QUAD and PANEL_ROWS
};

static const float LOG2E = 1.44269504088896340736f;

// Kernel state. `width` is head_dim rounded up to whole vectors; what is past head_dim is zero.
struct state {
    const struct weft__attention_call *call;
    const struct weft__attention_tile *tile;
    int32_t rows, width;
    float *q;                      // [rows][width], times the scale
    float *acc;                    // [rows][width]
    float *weight;                 // [rows][BLOCK]: scores, then weights
    float *keys;                   // [width][BLOCK]
    float *values;                 // [BLOCK][width]
    float *largest, *sum, *shrink; // [rows]; shrink: what the block makes of earlier weights
    int32_t *begin, *end;          // [rows]: the keys a row sees
    int64_t *here, *next;          // [BLOCK]: where the keys of this block and the next one lie
};

// Walks a sequence's keys through its pages.
struct cursor {
    const int32_t *pages;
    int64_t page_stride, token_stride, head_offset;
    int32_t page, slot, page_size;
};

static inline int64_t scratch_rows(int32_t rows)
{
    return ((int64_t)rows + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
}

static inline int64_t scratch_bytes(int32_t rows, int32_t head_dim)
{
    int64_t width = (head_dim + VF32_LANES - 1) / VF32_LANES * VF32_LANES;
    int64_t floats = scratch_rows(rows) * (2 * width + BLOCK + 3 + 2) + 2 * width * BLOCK;
    return floats * 4 + 2 * BLOCK * (int64_t)sizeof(int64_t) + 64;
}

static float *take(unsigned char **at, int64_t floats)
{
    float *taken = (float *)(void *)*at;
    *at += floats * 4;
    return taken;
}

static struct state lay_out(const struct weft__attention_call *call,
                            const struct weft__attention_tile *tile)
{
    unsigned char *at = tile->scratch;
    struct state s = {.call = call, .tile = tile, .rows = tile->tokens * call->group_size};
    int64_t rows = scratch_rows(s.rows);
    s.width = (call->head_dim + VF32_LANES - 1) / VF32_LANES * VF32_LANES;
    s.here = (int64_t *)(void *)take(&at, 2 * BLOCK);
    s.next = (int64_t *)(void *)take(&at, 2 * BLOCK);
    s.keys = take(&at, (int64_t)s.width * BLOCK);
    s.values = take(&at, (int64_t)s.width * BLOCK);
    s.q = take(&at, rows * s.width);
    s.acc = take(&at, rows * s.width);
    s.weight = take(&at, rows * BLOCK);
    s.largest = take(&at, rows);
    s.sum = take(&at, rows);
    s.shrink = take(&at, rows);
    s.begin = (int32_t *)(void *)take(&at, rows);
    s.end = (int32_t *)(void *)take(&at, rows);
    return s;
}

// Queries times `scale`, spans, empty results; rows past the last, up to `padded`, are zero.
static void start_rows(struct state *s, int32_t padded)
{
    const struct weft__attention_call *call = s->call;
    const struct weft__attention_tile *tile = s->tile;
    int32_t cu = call->cu_q_lens[tile->seq], q_len = call->cu_q_lens[tile->seq + 1] - cu;
    float scale = call->softcap > 0 ? call->scale / call->softcap : call->scale * LOG2E;
    memset(s->q, 0, (size_t)padded * s->width * sizeof *s->q);
    memset(s->acc, 0, (size_t)padded * s->width * sizeof *s->acc);
    memset(s->weight, 0, (size_t)padded * BLOCK * sizeof *s->weight);
    for (int32_t r = 0; r < padded; r++) {
        s->largest[r] = -INFINITY;
        s->sum[r] = 0;
        s->shrink[r] = 1;
    }
    for (int32_t r = 0; r < s->rows; r++) {
        int32_t token = tile->first_token + r / call->group_size;
        int64_t head = (int64_t)tile->kv_head * call->group_size + r % call->group_size;
        const float *q =
            call->q + (cu + (int64_t)token) * call->q_token_stride + head * call->q_head_stride;
        for (int32_t i = 0; i < call->head_dim; i++)
            s->q[(int64_t)r * s->width + i] = q[i] * scale;
        struct weft__attention_span span = weft__attention_visible(call->mask, call->window, q_len,
                                                                   call->kv_lens[tile->seq], token);
        s->begin[r] = span.begin;
        s->end[r] = span.end;
    }
}

static struct cursor cursor_at(const struct weft__attention_call *call,
                               const struct weft__attention_tile *tile)
{
    return (struct cursor){
        .pages = call->page_table + tile->seq * call->page_table_stride,
        .page_stride = call->pool.page_stride,
        .token_stride = call->pool.token_stride,
        .head_offset = tile->kv_head * call->pool.head_stride,
        .page = tile->key0 / call->page_size,
        .slot = tile->key0 % call->page_size,
        .page_size = call->page_size,
    };
}

// Where the next `count` keys lie, in elements.
static void walk(struct cursor *c, int32_t count, int64_t *offsets)
{
    for (int32_t i = 0; i < count;) {
        int64_t at =
            c->pages[c->page] * c->page_stride + c->slot * c->token_stride + c->head_offset;
        int32_t run = c->page_size - c->slot < count - i ? c->page_size - c->slot : count - i;
        for (int32_t j = 0; j < run; j++, at += c->token_stride)
            offsets[i + j] = at;
        i += run;
        c->slot += run;
        if (c->slot == c->page_size) {
            c->slot = 0;
            c->page++;
        }
    }
}

INLINE vf32 load_kv(weft_dtype kv, const void *pool, int64_t at)
{
    if (kv == WEFT_F32)
        return vf32_load((const float *)pool + at);
    return kv == WEFT_F16 ? vf32_load_f16((const uint16_t *)pool + at)
                          : vf32_load_bf16((const uint16_t *)pool + at);
}

// A vector at the end of a head that is half a vector long.
INLINE vf32 load_kv_n(weft_dtype kv, const void *pool, int64_t at, int n)
{
    if (kv == WEFT_F32)
        return vf32_load_n((const float *)pool + at, n);
    return kv == WEFT_F16 ? vf32_load_f16_n((const uint16_t *)pool + at, n)
                          : vf32_load_bf16_n((const uint16_t *)pool + at, n);
}

// Few rows: scores of 4 rows against the n keys of the block.
INLINE void direct_scores(const struct state *s, weft_dtype kv, int32_t row, int32_t n)
{
    const struct weft__attention_call *call = s->call;
    const float *q = s->q + (int64_t)row * s->width;
    int32_t full = call->head_dim / VF32_LANES * VF32_LANES, rest = call->head_dim - full;
    for (int32_t k = 0; k < n; k += DIRECT_KEYS) {
        vf32 sums[QUAD * DIRECT_KEYS];
        int64_t at[DIRECT_KEYS];
        float scores[QUAD * DIRECT_KEYS];
        VF32_UNROLL
        for (int i = 0; i < QUAD * DIRECT_KEYS; i++)
            sums[i] = vf32_zero();
        // Past the end of the block the last key again: its scores are masked.
        VF32_UNROLL
        for (int j = 0; j < DIRECT_KEYS; j++)
            at[j] = s->here[k + j < n ? k + j : n - 1];
        struct ahead values =
            rows_ahead(kv, call->pool.v, at, row == 0 ? DIRECT_KEYS : 0, call->head_dim);
        for (int32_t i = 0; i < full; i += VF32_LANES) {
            VF32_UNROLL
            for (int j = 0; j < DIRECT_KEYS; j++) {
                vf32 key = load_kv(kv, call->pool.k, at[j] + i);
                VF32_UNROLL
                for (int r = 0; r < QUAD; r++)
                    sums[r * DIRECT_KEYS + j] =
                        vf32_fma(vf32_load(q + r * s->width + i), key, sums[r * DIRECT_KEYS + j]);
            }
            ask(&values, DIRECT_KEYS * VF32_LANES * values.size / 64);
        }
        if (rest)
            VF32_UNROLL
        for (int j = 0; j < DIRECT_KEYS; j++) {
            vf32 key = load_kv_n(kv, call->pool.k, at[j] + full, rest);
            VF32_UNROLL
            for (int r = 0; r < QUAD; r++)
                sums[r * DIRECT_KEYS + j] =
                    vf32_fma(vf32_load(q + r * s->width + full), key, sums[r * DIRECT_KEYS + j]);
        }
        VF32_UNROLL
        for (int i = 0; i < QUAD * DIRECT_KEYS; i += VF32_LANES)
            vf32_store(scores + i, vf32_sums(sums + i));
        VF32_UNROLL
        for (int r = 0; r < QUAD; r++)
            memcpy(s->weight + (row + r) * BLOCK + k, scores + r * DIRECT_KEYS,
                   DIRECT_KEYS * sizeof *scores);
    }
}

// Few rows: `vectors` vectors of the values of 4 rows, from element `column` of the head. `rest` > 0:
// one vector of which only so many elements exist.
INLINE void direct_values(const struct state *s, weft_dtype kv, int32_t row, int32_t n,
                          int32_t column, const int vectors, const int rest, struct ahead *ahead)
{
    const struct weft__attention_call *call = s->call;
    const float *weight = s->weight + row * BLOCK;
    float *acc = s->acc + (int64_t)row * s->width + column;
    vf32 sums[QUAD * DIRECT_VECTORS];
    VF32_UNROLL
    for (int r = 0; r < QUAD; r++)
        VF32_UNROLL
    for (int v = 0; v < vectors; v++)
        sums[r * vectors + v] =
            vf32_mul(vf32_set1(s->shrink[row + r]), vf32_load(acc + r * s->width + v * VF32_LANES));
    for (int32_t k = 0; k < n; k++) {
        vf32 value[DIRECT_VECTORS];
        int64_t at = s->here[k] + column;
        VF32_UNROLL
        for (int v = 0; v < vectors; v++)
            value[v] = rest ? load_kv_n(kv, call->pool.v, at, rest)
                            : load_kv(kv, call->pool.v, at + v * VF32_LANES);
        VF32_UNROLL
        for (int r = 0; r < QUAD; r++) {
            vf32 p = vf32_set1(weight[r * BLOCK + k]);
            VF32_UNROLL
            for (int v = 0; v < vectors; v++)
                sums[r * vectors + v] = vf32_fma(p, value[v], sums[r * vectors + v]);
        }
        ask(ahead, vectors * VF32_LANES * ahead->size / 64);
    }
    VF32_UNROLL
    for (int r = 0; r < QUAD; r++)
        VF32_UNROLL
    for (int v = 0; v < vectors; v++)
        vf32_store(acc + r * s->width + v * VF32_LANES, sums[r * vectors + v]);
}

// Every pass over the values asks for its share of the next block's keys.
INLINE void direct_values_all(const struct state *s, weft_dtype kv, int32_t row, int32_t n,
                              struct ahead *ahead)
{
    const int32_t pass = DIRECT_VECTORS * VF32_LANES;
    int32_t head_dim = s->call->head_dim, column = 0;
    for (; column + pass <= head_dim; column += pass)
        direct_values(s, kv, row, n, column, DIRECT_VECTORS, 0, ahead);
    for (; column + VF32_LANES <= head_dim; column += VF32_LANES)
        direct_values(s, kv, row, n, column, 1, 0, ahead);
    if (column < head_dim)
        direct_values(s, kv, row, n, column, 1, head_dim - column, ahead);
}

// Many rows: widens the block. Keys are transposed; columns past the n-th are zero.
INLINE void pack_keys(const struct state *s, weft_dtype kv, int32_t n)
{
    const struct weft__attention_call *call = s->call;
    for (int32_t k = 0; k < BLOCK; k += VF32_LANES)
        for (int32_t i = 0; i < call->head_dim; i += VF32_LANES) {
            int32_t rest = call->head_dim - i;
            vf32 square[VF32_LANES];
            VF32_UNROLL
            for (int j = 0; j < VF32_LANES; j++) {
                if (k + j >= n)
                    square[j] = vf32_zero();
                else if (rest < VF32_LANES)
                    square[j] = load_kv_n(kv, call->pool.k, s->here[k + j] + i, rest);
                else
                    square[j] = load_kv(kv, call->pool.k, s->here[k + j] + i);
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
        float *to = s->values + (int64_t)k * s->width;
        int32_t i = 0;
        for (; i + VF32_LANES <= call->head_dim; i += VF32_LANES)
            vf32_store(to + i, load_kv(kv, call->pool.v, s->here[k] + i));
        if (i < call->head_dim)
            vf32_store(to + i, load_kv_n(kv, call->pool.v, s->here[k] + i, call->head_dim - i));
    }
}

// c[PANEL_ROWS][vectors] = c * shrink + a[PANEL_ROWS][depth] b[depth][vectors]; shrink NULL: c = a b.
INLINE void panel(const float *a, int64_t a_stride, const float *b, int64_t b_stride, float *c,
                  int64_t c_stride, int32_t depth, const int vectors, const float *shrink)
{
    vf32 sums[PANEL_ROWS * PANEL_VECTORS];
    VF32_UNROLL
    for (int r = 0; r < PANEL_ROWS; r++)
        VF32_UNROLL
    for (int v = 0; v < vectors; v++)
        sums[r * vectors + v] =
            shrink ? vf32_mul(vf32_set1(shrink[r]), vf32_load(c + r * c_stride + v * VF32_LANES))
                   : vf32_zero();
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
    for (int v = 0; v < vectors; v++)
        vf32_store(c + r * c_stride + v * VF32_LANES, sums[r * vectors + v]);
}

static void panel_scores(const struct state *s, int32_t row)
{
    for (int32_t k = 0; k < BLOCK; k += PANEL_VECTORS * VF32_LANES)
        panel(s->q + (int64_t)row * s->width, s->width, s->keys + k, BLOCK,
              s->weight + row * BLOCK + k, BLOCK, s->call->head_dim, PANEL_VECTORS, NULL);
}

static void panel_values(const struct state *s, int32_t row, int32_t n)
{
    const float *weight = s->weight + row * BLOCK, *shrink = s->shrink + row;
    float *acc = s->acc + (int64_t)row * s->width;
    int32_t i = 0;
    for (; i + PANEL_VECTORS * VF32_LANES <= s->width; i += PANEL_VECTORS * VF32_LANES)
        panel(weight, BLOCK, s->values + i, s->width, acc + i, s->width, n, PANEL_VECTORS, shrink);
    for (; i < s->width; i += VF32_LANES)
        panel(weight, BLOCK, s->values + i, s->width, acc + i, s->width, n, 1, shrink);
}

// Scores to weights: the online softmax of one row. Keys [begin, end) of the block count.
INLINE void weigh_row(const struct state *s, int32_t row, int32_t begin, int32_t end)
{
    float *weight = s->weight + row * BLOCK;
    vf32 x[BLOCK_VECTORS], top = vf32_set1(-INFINITY), total = vf32_zero();
    VF32_UNROLL
    for (int i = 0; i < BLOCK_VECTORS; i++)
        x[i] = vf32_load(weight + i * VF32_LANES);
    if (s->call->softcap > 0) {
        vf32 cap = vf32_set1(s->call->softcap * LOG2E);
        for (int i = 0; i < BLOCK_VECTORS; i++)
            x[i] = vf32_mul(cap, vf32_tanh(x[i]));
    }
    if (begin > 0 || end < BLOCK)
        VF32_UNROLL
    for (int i = 0; i < BLOCK_VECTORS; i++)
        x[i] = vf32_keep(x[i], begin - i * VF32_LANES, end - i * VF32_LANES, vf32_set1(-INFINITY));
    VF32_UNROLL
    for (int i = 0; i < BLOCK_VECTORS; i++)
        top = vf32_max(top, x[i]);
    float before = s->largest[row], largest = vf32_largest(top);
    largest = largest < before ? before : largest;
    vf32 from = vf32_set1(largest == -INFINITY ? 0 : largest);
    VF32_UNROLL
    for (int i = 0; i < BLOCK_VECTORS; i++) {
        x[i] = vf32_exp2(vf32_sub(x[i], from));
        total = vf32_add(total, x[i]);
        vf32_store(weight + i * VF32_LANES, x[i]);
    }
    float shrink = largest == before ? 1 : exp2f(before - largest);
    s->shrink[row] = shrink;
    s->sum[row] = s->sum[row] * shrink + vf32_sum(total);
    s->largest[row] = largest;
}

INLINE void weigh(const struct state *s, int32_t first_key, int32_t n, struct ahead *ahead)
{
    enum { LINES_A_ROW = 8 };
    for (int32_t row = 0; row < s->rows; row++) {
        ask(ahead, LINES_A_ROW);
        int32_t begin = s->begin[row] - first_key, end = s->end[row] - first_key;
        begin = begin < 0 ? 0 : begin;
        end = end > n ? n : end;
        if (begin < end) {
            weigh_row(s, row, begin, end);
            continue;
        }
        memset(s->weight + row * BLOCK, 0, BLOCK * sizeof *s->weight);
        s->shrink[row] = 1;
    }
}

INLINE void attend(const struct weft__attention_call *call, const struct weft__attention_tile *tile,
                   weft_dtype kv)
{
    struct state s = lay_out(call, tile);
    bool few = s.rows <= FEW_ROWS;
    int32_t step = few ? QUAD : PANEL_ROWS, rows = (s.rows + step - 1) / step * step;
    start_rows(&s, rows);
    struct cursor cursor = cursor_at(call, tile);
    int32_t left = tile->key1 - tile->key0, n = left < BLOCK ? left : BLOCK;
    walk(&cursor, n, s.here);
    for (int32_t key = tile->key0; n > 0; key += BLOCK) {
        left -= n;
        int32_t next_n = left < BLOCK ? left : BLOCK;
        walk(&cursor, next_n, s.next);
        if (!few) {
            pack_keys(&s, kv, n);
            pack_values(&s, kv, n);
        }
        for (int32_t row = 0; row < rows; row += step)
            if (few)
                direct_scores(&s, kv, row, n);
            else
                panel_scores(&s, row);
        struct ahead keys = rows_ahead(kv, call->pool.k, s.next, few ? next_n : 0, call->head_dim);
        weigh(&s, key, n, &keys);
        for (int32_t row = 0; row < rows; row += step)
            if (few)
                direct_values_all(&s, kv, row, n, &keys);
            else
                panel_values(&s, row, n);
        int64_t *swap = s.here;
        s.here = s.next;
        s.next = swap;
        n = next_n;
    }
    for (int32_t row = 0; row < s.rows; row++)
        weft__attention_finish(call, tile, row, s.largest[row], s.sum[row],
                               s.acc + (int64_t)row * s.width);
}

#define ATTENTION(kv, isa)                                                                         \
    weft__attention_fn weft__attention_##kv##_##isa;                                               \
    void weft__attention_##kv##_##isa(const struct weft__attention_call *call,                     \
                                      const struct weft__attention_tile *tile)                     \
    {                                                                                              \
        attend(call, tile, WEFT_##kv);                                                             \
    }

#define ATTENTIONS(isa)                                                                            \
    weft__attention_scratch_fn weft__attention_scratch_##isa;                                      \
    int64_t weft__attention_scratch_##isa(int32_t rows, int32_t head_dim)                          \
    {                                                                                              \
        return scratch_bytes(rows, head_dim);                                                      \
    }                                                                                              \
    ATTENTION(F32, isa)                                                                            \
    ATTENTION(F16, isa)                                                                            \
    ATTENTION(BF16, isa)

#endif
