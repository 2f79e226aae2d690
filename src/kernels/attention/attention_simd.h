// SPDX-License-Identifier: MIT
// The text of the SIMD kernels of attention, for any vector width. An ISA file includes its vocabulary
// (src/kernels/cpu/<isa>.h), sets the sizes of the register blocks and includes this; then ATTENTION()
// makes the functions of the table.
//
//      DIRECT_SUMS     vectors of sums that few rows keep in registers
//      UNIT_SUMS       of them, how many grow together in scores; fewer where there are registers for the sums of
//                      a batch and those of a unit of the next
//      DIRECT_GROUP    keys between two changes from scores to values of few rows
//      VALUE_STEP      of these keys, how many values are one piece of text
//      WEIGHED_ROWS    rows whose scores become weights together
//      PANEL_VECTORS   columns of the register block of many rows: PANEL_ROWS x PANEL_VECTORS vectors
//
// Keys are visited in blocks of 64 with an online softmax: scores of a block, weights and the new
// (largest, sum), accumulated values. There are two ways to do the products, attention_few.h for decode
// and attention_many.h for prefill.
//
// See NOTES.md for what was measured.
#ifndef WEFT_KERNELS_ATTENTION_SIMD_H
#define WEFT_KERNELS_ATTENTION_SIMD_H

#include <float.h>
#include <math.h>

#include "src/kernels/attention/attention_kernel.h"

#define INLINE static inline __attribute__((always_inline))

#include "src/kernels/attention/attention_heads.h"
#include "src/kernels/attention/attention_load.h"
#include "src/kernels/attention/attention_walk.h"

enum {
    BLOCK_VECTORS = BLOCK / VF32_LANES, // scores of a row are [BLOCK]
    FEW_ROWS = 8,
    FEW_KEYS = 16,
    PANEL_ROWS = 6,
    ROW_STEP = 24, // rows of the scratch are a multiple of FEW_ROWS and PANEL_ROWS
};

static const float LOG2E = 1.44269504088896340736f;

// Kernel state. `width` is head_dim rounded up to whole vectors, `v_width` that of values; what is past
// them is zero.
struct state {
    const struct weft__attention_call *call;
    const struct weft__attention_tile *tile;
    int32_t rows, width, v_width;
    float unit;     // what a plain score is multiplied by: above 0, in units of log2
    float *q;       // [rows][width], negated where the scale is
    float *acc;     // [rows][v_width]
    float *part;    // [FEW_ROWS][v_width]: values of the block so far
    float *weight;  // [rows][BLOCK]
    float *scores;  // [rows][BLOCK]: few rows score the next block in the meantime
    float *keys;    // [width][BLOCK]
    float *values;  // [BLOCK][v_width]
    float *staged;  // [BLOCK][width]: keys of any format
    float *bias;    // [BLOCK] of the row that is weighed
    float *keep;    // [BLOCK] of the row that is weighed: 0 for keys that it does not see
    bool scattered; // are there such keys?
    uint64_t *seen; // [rows] of the block: bits of the keys that a row sees
    // Of keys and values that are read as codes, [BLOCK] of the block that is weighed; NULL: 1
    float *key_scale, *value_scale;
    float *largest, *sum, *shrink; // [rows]; shrink: what the block makes of earlier weights
    // [rows]: what `sum` has been rounded by so far, in blocks of fewer than FEW_KEYS keys: equal numbers added
    // one by one are off in one direction, by more than anything else.
    float *lost;
    int32_t *begin, *end; // [rows]: the keys a row sees
    // Keys from there on count for a row by `seen`, which is the block's that begins at seen_first.
    int32_t scattered_from, seen_first;
    int64_t *at;        // [3][BLOCK]: where the keys of up to three blocks lie
    int64_t *values_at; // the same for values; `at` if both planes lie alike
    float *of_heads; // room of other heads that go together with this one (attention_few_heads.h)
};

static inline int64_t scratch_rows(int32_t rows)
{
    return ((int64_t)rows + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
}

INLINE int32_t padded_width(int32_t head_dim)
{
    return (head_dim + VF32_LANES - 1) / VF32_LANES * VF32_LANES;
}

static inline int64_t scratch_bytes(int32_t rows, int32_t head_dim, int32_t v_dim)
{
    int64_t width = padded_width(head_dim), v_width = padded_width(v_dim);
    int64_t floats = scratch_rows(rows) * (width + v_width + 2 * BLOCK + 4 + 2 + 2) +
                     FEW_ROWS * v_width + (2 * width + v_width + 2 + 2) * BLOCK;
    if (head_dim <= HEADS_DIM && v_dim <= HEADS_DIM)
        floats += (WEFT__ATTENTION_KEYS_HEADS - 1) * head_floats(width, v_width);
    return floats * 4 + 6 * BLOCK * (int64_t)sizeof(int64_t) + 64;
}

static float *take(unsigned char **at, int64_t floats)
{
    float *taken = (float *)(void *)*at;
    *at += floats * 4;
    return taken;
}

// Are keys and values codes of a byte or less that few rows can read in place? (attention_few.h)
static bool direct_codes(const struct weft__attention_call *call)
{
    const struct weft__attention_plane *k = &call->k, *v = &call->v;
    return (k->dtype == WEFT_INT8 || k->dtype == WEFT_FP8_E4M3 || k->dtype == WEFT_FP8_E5M2 ||
            block_bytes(k->dtype) > 0) &&
           v->dtype == k->dtype && v->dim == k->dim && k->dim % 16 == 0 && k->inner == k->dim &&
           v->inner == v->dim && !weft__attention_is_scattered(&call->mask);
}

static struct state lay_out(const struct weft__attention_call *call,
                            const struct weft__attention_tile *tile)
{
    unsigned char *at = tile->scratch;
    struct state s = {.call = call, .tile = tile, .rows = weft__attention_rows(call, tile)};
    int64_t rows = scratch_rows(s.rows);
    const struct weft__attention_plane *k = &call->k, *v = &call->v;
    bool alike = k->page_stride == v->page_stride && k->head_stride == v->head_stride &&
                 k->token_stride == v->token_stride;
    s.unit = fabsf(call->scale) * (call->softcap > 0 ? 1 : LOG2E);
    s.width = padded_width(k->dim);
    s.v_width = padded_width(v->dim);
    s.at = (int64_t *)(void *)take(&at, 3 * BLOCK * 2);
    s.values_at = (int64_t *)(void *)take(&at, 3 * BLOCK * 2);
    if (alike)
        s.values_at = s.at;
    s.keys = take(&at, (int64_t)s.width * BLOCK);
    s.values = take(&at, (int64_t)s.v_width * BLOCK);
    s.staged = take(&at, (int64_t)s.width * BLOCK);
    s.q = take(&at, rows * s.width);
    s.acc = take(&at, rows * s.v_width);
    s.part = take(&at, FEW_ROWS * (int64_t)s.v_width);
    s.weight = take(&at, rows * BLOCK);
    s.scores = take(&at, rows * BLOCK);
    s.bias = take(&at, BLOCK);
    s.keep = take(&at, BLOCK);
    s.largest = take(&at, rows);
    s.sum = take(&at, rows);
    s.shrink = take(&at, rows);
    s.lost = take(&at, rows);
    s.begin = (int32_t *)(void *)take(&at, rows);
    s.end = (int32_t *)(void *)take(&at, rows);
    s.seen = (uint64_t *)(void *)take(&at, 2 * rows);
    if (direct_codes(call)) {
        s.key_scale = take(&at, BLOCK);
        s.value_scale = take(&at, BLOCK);
    }
    s.of_heads = take(&at, 0);
    return s;
}

// Queries of a tile; rows past the last, up to `padded`, are zero.
static void load_queries(struct state *s, const struct weft__attention_tile *tile, int32_t padded)
{
    const struct weft__attention_call *call = s->call;
    const float sign = call->scale < 0 ? -1 : 1;
    int32_t rows = weft__attention_rows(call, tile);
    for (int32_t r = 0; r < rows; r++) {
        float *q = s->q + (int64_t)r * s->width;
        weft__attention_query(call, tile, r, q);
        for (int32_t i = 0; i < call->k.dim; i++)
            q[i] *= sign;
        for (int32_t i = call->k.dim; i < s->width; i++)
            q[i] = 0;
    }
    memset(s->q + (int64_t)rows * s->width, 0,
           (size_t)(padded - rows) * (size_t)s->width * sizeof *s->q);
}

// The rows of a tile with what they see, and empty results.
static void open_rows(struct state *s, const struct weft__attention_tile *tile, int32_t padded)
{
    const struct weft__attention_call *call = s->call;
    const struct weft__attention_lengths *lengths = &call->lengths;
    int32_t q_len = lengths->cu_q_lens[tile->seq + 1] - lengths->cu_q_lens[tile->seq];
    s->tile = tile;
    s->rows = weft__attention_rows(call, tile);
    s->scattered_from = scattered_from(call, tile->seq);
    memset(s->acc, 0, (size_t)padded * s->v_width * sizeof *s->acc);
    for (int32_t r = 0; r < padded; r++) {
        s->largest[r] = -INFINITY;
        s->sum[r] = s->lost[r] = 0;
        s->shrink[r] = 1;
    }
    for (int32_t r = 0; r < s->rows; r++) {
        int32_t token = weft__attention_token(call, tile, r);
        struct weft__attention_span span =
            weft__attention_visible(&call->mask, q_len, lengths->kv_lens[tile->seq],
                                    weft__attention_start(lengths, tile->seq), token);
        s->begin[r] = span.begin;
        s->end[r] = span.end;
    }
}

static void start_rows(struct state *s, int32_t padded)
{
    memset(s->weight, 0, (size_t)padded * BLOCK * sizeof *s->weight);
    load_queries(s, s->tile, padded);
    open_rows(s, s->tile, padded);
}

// The keys that each of `rows` rows from `row` on sees. What the others hold must not be multiplied by
// a weight of 0: 0 * infinity is NaN, and a row owes nothing to keys that it does not see.
static struct weft__attention_span seen_by_all(const struct state *s, int32_t row, int32_t rows)
{
    struct weft__attention_span seen = {s->begin[row], s->end[row]};
    for (int32_t r = row + 1; r < row + rows; r++) {
        seen.begin = s->begin[r] > seen.begin ? s->begin[r] : seen.begin;
        seen.end = s->end[r] < seen.end ? s->end[r] : seen.end;
    }
    seen.end = s->scattered_from < seen.end ? s->scattered_from : seen.end;
    return seen;
}

static inline bool sees(const struct state *s, int32_t row, int32_t key)
{
    return s->begin[row] <= key && key < s->end[row] &&
           (key < s->scattered_from || s->seen[row] >> (key - s->seen_first) & 1);
}

// Is a score nothing but q.k and its scale?
static bool plain_scores(const struct state *s)
{
    const struct weft__attention_call *call = s->call;
    return !s->key_scale && !(call->softcap > 0) && !call->alibi_slopes && !call->mask.soft &&
           !call->precise;
}

// 2^x, rounded once.
static __attribute__((noinline)) vf32 precise_exp2(vf32 x)
{
    float lanes[VF32_LANES];
    vf32_store(lanes, x);
    for (int i = 0; i < VF32_LANES; i++)
        lanes[i] = (float)exp2((double)lanes[i]);
    return vf32_load(lanes);
}

// sum = sum * shrink + add, neither below 0, with what that is rounded by.
static __attribute__((noinline)) void add_with_rest(float *sum, float *lost, float shrink,
                                                    float add)
{
    const float kept = *sum * shrink, next = kept + add;
    const float rest = (fmaxf(kept, add) - next) + fminf(kept, add);
    *lost = *lost * shrink + (fmaf(*sum, shrink, -kept) + rest);
    *sum = next;
}

// Scores x of `rows` rows, a constant, in units of `unit`, to weights and what the rows have come to: the online
// softmax. Several rows at once do not wait for each other.
INLINE void settle(const struct state *s, vf32 (*x)[BLOCK_VECTORS], float *weight, int32_t row,
                   const int rows, const bool plain)
{
    const float unit = plain ? s->unit : 1;
    vf32 from[WEIGHED_ROWS], total[WEIGHED_ROWS];
    float largest[WEIGHED_ROWS];
    VF32_UNROLL
    for (int r = 0; r < rows; r++) {
        vf32 top = x[r][0];
        VF32_UNROLL
        for (int i = 1; i < BLOCK_VECTORS; i++)
            top = vf32_max(top, x[r][i]);
        const float before = s->largest[row + r];
        largest[r] = vf32_largest(top) * unit;
        largest[r] = largest[r] < before ? before : largest[r];
        from[r] = vf32_set1(largest[r] == -INFINITY ? 0 : largest[r]);
        total[r] = vf32_zero();
    }
    VF32_UNROLL
    for (int i = 0; i < BLOCK_VECTORS; i++)
        VF32_UNROLL
    for (int r = 0; r < rows; r++) {
        // Rounded as the largest was, which must give 0 however large it is.
        const vf32 power = vf32_sub(plain ? vf32_mul(x[r][i], vf32_set1(unit)) : x[r][i], from[r]);
        vf32 y = !plain && s->call->precise ? precise_exp2(power) : vf32_exp2(power);
        total[r] = vf32_add(total[r], y);
        if (!plain && s->value_scale)
            y = vf32_mul(y, vf32_load(s->value_scale + i * VF32_LANES));
        vf32_store(weight + r * BLOCK + i * VF32_LANES, y);
    }
    VF32_UNROLL
    for (int r = 0; r < rows; r++) {
        const float before = s->largest[row + r];
        const float shrink = largest[r] == before ? 1 : exp2f(before - largest[r]);
        s->shrink[row + r] = shrink;
        if (s->call->block_keys < FEW_KEYS)
            add_with_rest(&s->sum[row + r], &s->lost[row + r], shrink, vf32_sum(total[r]));
        else
            s->sum[row + r] = s->sum[row + r] * shrink + vf32_sum(total[r]);
        s->largest[row + r] = largest[r];
    }
}

// Plain scores of rows that all see the whole block.
INLINE void weigh_whole(const struct state *s, float *weight, int32_t row, const int rows)
{
    vf32 x[WEIGHED_ROWS][BLOCK_VECTORS];
    VF32_UNROLL
    for (int r = 0; r < rows; r++)
        VF32_UNROLL
    for (int i = 0; i < BLOCK_VECTORS; i++)
        x[r][i] = vf32_load(weight + r * BLOCK + i * VF32_LANES);
    settle(s, x, weight, row, rows, true);
}

// Scores to weights, those of one row. Keys [begin, end) of the block count, which `mask` says is
// not all of them. What plain scores (a constant) do not need is not in their way.
INLINE void weigh_row(const struct state *s, float *weight, int32_t row, int32_t begin, int32_t end,
                      const bool mask, const bool plain)
{
    vf32 block[1][BLOCK_VECTORS], *const x = block[0];
    VF32_UNROLL
    for (int i = 0; i < BLOCK_VECTORS; i++)
        x[i] = vf32_load(weight + i * VF32_LANES);
    for (int i = 0; i < BLOCK_VECTORS && !plain && s->key_scale; i++)
        x[i] = vf32_mul(x[i], vf32_load(s->key_scale + i * VF32_LANES));
    for (int i = 0; i < BLOCK_VECTORS && !plain; i++)
        x[i] = vf32_mul(x[i], vf32_set1(s->unit));
    if (!plain && s->call->softcap > 0) {
        vf32 cap = vf32_set1(s->call->softcap * LOG2E), inverse = vf32_set1(1 / s->call->softcap);
        for (int i = 0; i < BLOCK_VECTORS; i++)
            x[i] = vf32_mul(cap, vf32_tanh(vf32_mul(inverse, x[i])));
    }
    if (!plain && (s->call->alibi_slopes || s->call->mask.soft))
        for (int i = 0; i < BLOCK_VECTORS; i++)
            x[i] = vf32_add(x[i], vf32_load(s->bias + i * VF32_LANES));
    if (!plain && s->scattered) {
        // A soft mask lowers scores, at most to what a float can say.
        vf32 lowest = vf32_set1(-FLT_MAX), none = vf32_set1(-INFINITY);
        for (int i = 0; i < BLOCK_VECTORS; i++)
            x[i] = vf32_select_less(vf32_load(s->keep + i * VF32_LANES), vf32_set1(0.5f),
                                    s->call->mask.soft ? vf32_max(lowest, x[i]) : none, x[i]);
    }
    if (mask)
        VF32_UNROLL
    for (int i = 0; i < BLOCK_VECTORS; i++)
        x[i] = vf32_keep(x[i], begin - i * VF32_LANES, end - i * VF32_LANES, vf32_set1(-INFINITY));
    settle(s, block, weight, row, 1, plain);
}

// ALiBi of a row and the block that begins at key `first`, in units of log2.
static void set_bias(const struct state *s, int32_t row, int32_t first)
{
    const struct weft__attention_call *call = s->call;
    const struct weft__attention_tile *tile = s->tile;
    const struct weft__attention_lengths *lengths = &call->lengths;
    int32_t token = weft__attention_token(call, tile, row);
    int64_t own = (int64_t)lengths->kv_lens[tile->seq] -
                  (lengths->cu_q_lens[tile->seq + 1] - lengths->cu_q_lens[tile->seq]) + token;
    float slope = 0;
    if (call->alibi_slopes)
        slope = call->alibi_slopes[weft__attention_head(call, tile, row)] * LOG2E;
    for (int32_t i = 0; i < BLOCK; i++) {
        int64_t far = own - first - i;
        s->bias[i] = -slope * (float)(far < 0 ? -far : far);
    }
}

static uint64_t block_of(int32_t n)
{
    return n == BLOCK ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
}

// Scores of a row to weights where not all of the block's n keys are before s->scattered_from. Returns whether
// it sees any.
static bool weigh_scattered(struct state *s, float *weight, int32_t row, int32_t first_key,
                            int32_t n, bool *masked)
{
    const struct weft__attention_call *call = s->call;
    const uint64_t seen =
        block_of(n) & weft__attention_word(call, s->tile->seq,
                                           weft__attention_token(call, s->tile, row),
                                           weft__attention_head(call, s->tile, row), first_key);
    s->seen[row] = seen;
    *masked = seen != ~UINT64_C(0) || call->generic;
    if (!seen)
        return false;
    s->scattered = *masked;
    for (int32_t j = 0; j < BLOCK; j++)
        s->keep[j] = (float)(seen >> j & 1);
    if (call->alibi_slopes)
        set_bias(s, row, first_key);
    weigh_row(s, weight, row, 0, n, n < BLOCK || call->generic, false);
    s->scattered = false;
    return true;
}

// Scores of a block of n keys to weights, all rows. Long, and the same for all shapes: there is one of it.
static __attribute__((noinline)) void weigh(struct state *s, float *weight, int32_t first_key,
                                            int32_t n)
{
    if (s->key_scale && n > 0) {
        // The factor is what codes lack as load_kv() gives them.
        const float factor = s->call->k.dtype == WEFT_FP8_E4M3 ? 256 : 1;
        gather_scales(s->call, s->tile, &s->call->k, first_key, n, factor, s->key_scale);
        gather_scales(s->call, s->tile, &s->call->v, first_key, n, factor, s->value_scale);
    }
    const bool plain = plain_scores(s), generic = s->call->generic;
    const bool scattered = s->scattered_from < first_key + n;
    uint64_t blocks = 0, masked = 0;
    int32_t row = 0;
    s->seen_first = first_key;
    while (row + WEIGHED_ROWS <= s->rows && plain && !generic && WEIGHED_ROWS > 1) {
        const struct weft__attention_span seen = seen_by_all(s, row, WEIGHED_ROWS);
        if (seen.begin > first_key || seen.end < first_key + BLOCK || n < BLOCK)
            break;
        weigh_whole(s, weight, row, WEIGHED_ROWS);
        blocks += WEIGHED_ROWS;
        row += WEIGHED_ROWS;
        weight += WEIGHED_ROWS * BLOCK;
    }
    for (; row < s->rows; row++, weight += BLOCK) {
        int32_t begin = s->begin[row] - first_key, end = s->end[row] - first_key;
        begin = begin < 0 ? 0 : begin;
        end = end > n ? n : end;
        bool mask = begin > 0 || end < BLOCK || generic, some = begin < end;
        if (scattered && some)
            some = weigh_scattered(s, weight, row, first_key, n, &mask);
        blocks += some;
        masked += some && mask;
        if (scattered && some)
            continue;
        if (some && plain) {
            weigh_row(s, weight, row, begin, end, mask, true);
            continue;
        }
        if (some) {
            if (s->call->alibi_slopes)
                set_bias(s, row, first_key);
            weigh_row(s, weight, row, begin, end, mask, false);
            continue;
        }
        s->seen[row] = 0;
        memset(weight, 0, BLOCK * sizeof *weight);
        s->shrink[row] = 1;
    }
    weft__attention_count(s->call, blocks, masked);
}

static void finish_rows(const struct state *s)
{
    for (int32_t row = 0; row < s->rows; row++)
        weft__attention_finish(s->call, s->tile, row, s->largest[row], s->sum[row] + s->lost[row],
                               s->acc + (int64_t)row * s->v_width);
}

#include "src/kernels/attention/attention_few.h"
#include "src/kernels/attention/attention_many.h"
#include "src/kernels/attention/attention_staged.h"

INLINE void attend(const struct weft__attention_call *call,
                   const struct weft__attention_tile *tiles, int32_t count, weft_dtype kv)
{
    for (int32_t n, i = 0; i < count; i += n) {
        struct state s = lay_out(call, &tiles[i]);
        n = few_together(&s, tiles + i, count - i);
        if (n > 0)
            attend_few(&s, n, kv);
        else if (weft__attention_is_scattered(&call->mask))
            attend_any(&s), finish_rows(&s), n = 1;
        else
            attend_many(&s, kv), finish_rows(&s), n = 1;
    }
}

#define ATTENTION(kv, isa)                                                                         \
    weft__attention_fn weft__attention_##kv##_##isa;                                               \
    void weft__attention_##kv##_##isa(const struct weft__attention_call *call,                     \
                                      const struct weft__attention_tile *tiles, int32_t count)     \
    {                                                                                              \
        attend(call, tiles, count, WEFT_##kv);                                                     \
    }

#define ATTENTIONS(isa)                                                                            \
    weft__attention_scratch_fn weft__attention_scratch_##isa;                                      \
    int64_t weft__attention_scratch_##isa(int32_t rows, int32_t head_dim, int32_t v_dim)           \
    {                                                                                              \
        return scratch_bytes(rows, head_dim, v_dim);                                               \
    }                                                                                              \
    weft__attention_fn weft__attention_ANY_##isa;                                                  \
    void weft__attention_ANY_##isa(const struct weft__attention_call *call,                        \
                                   const struct weft__attention_tile *tiles, int32_t count)        \
    {                                                                                              \
        for (int32_t n, i = 0; i < count; i += n) {                                                \
            struct state s = lay_out(call, &tiles[i]);                                             \
            n = direct_codes(call) ? few_together(&s, tiles + i, count - i) : 0;                   \
            if (n > 0)                                                                             \
                attend_codes(&s, n);                                                               \
            else                                                                                   \
                attend_any(&s), finish_rows(&s), n = 1;                                            \
        }                                                                                          \
    }                                                                                              \
    ATTENTION(F32, isa)                                                                            \
    ATTENTION(F16, isa)                                                                            \
    ATTENTION(BF16, isa)

#endif
