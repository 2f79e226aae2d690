// SPDX-License-Identifier: MIT
// What becomes of a strip's scores between the two products (attention_strips_amx.h), and the walk through the blocks of keys.
// Part of attention_tiles_amx.c and attention_f16_amx.c.
#ifndef WEFT_KERNELS_ATTENTION_STRIPS_ROWS_AMX_H
#define WEFT_KERNELS_ATTENTION_STRIPS_ROWS_AMX_H

#include "src/kernels/attention/attention_strips_amx.h"

// Weights are at most 2^8 of what they would be if the largest score so far were their base: that grows seldom.
static const float MOST_GROWTH = 8;

// What is done to the scores of a row.
struct weighing {
    bool mask; // some rows do not see all of the keys
    bool scaled;
    bool far; // the base is so large that products are to be rounded before it is subtracted
};

INLINE __m512 max_of(__m512 a, __m512 b)
{
    return _mm512_max_ps(a, b);
}

// Lane i of the result is the largest lane of v[i].
static __m512 largest_of(const __m512 v[LANES])
{
    __m512 pairs[8], quads[4];
    for (int i = 0; i < 8; i++)
        pairs[i] = max_of(_mm512_unpacklo_ps(v[2 * i], v[2 * i + 1]),
                          _mm512_unpackhi_ps(v[2 * i], v[2 * i + 1]));
    for (int i = 0; i < 4; i++) {
        const __m512d low = _mm512_castps_pd(pairs[2 * i]),
                      high = _mm512_castps_pd(pairs[2 * i + 1]);
        quads[i] = max_of(_mm512_castpd_ps(_mm512_unpacklo_pd(low, high)),
                          _mm512_castpd_ps(_mm512_unpackhi_pd(low, high)));
    }
    const __m512 a = max_of(_mm512_shuffle_f32x4(quads[0], quads[1], 0x88),
                            _mm512_shuffle_f32x4(quads[0], quads[1], 0xdd));
    const __m512 b = max_of(_mm512_shuffle_f32x4(quads[2], quads[3], 0x88),
                            _mm512_shuffle_f32x4(quads[2], quads[3], 0xdd));
    return max_of(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

// 2^x for x <= 0 or a little above, within 1.5 units in the last place: 2^f times 2^(x - f), 0 <= f < 1. -infinity gives 0, where
// VREDUCEPS gives 0; NaN gives NaN. The polynomial's relative error is 2^-23.3.
INLINE __m512 power_of(__m512 x, __mmask16 seen)
{
    const __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    __m512 p = vf32_set1(0x1.e974fep-10f);
    p = vf32_fma(p, f, vf32_set1(0x1.277854p-7f));
    p = vf32_fma(p, f, vf32_set1(0x1.c91ce6p-5f));
    p = vf32_fma(p, f, vf32_set1(0x1.ebdb56p-3f));
    p = vf32_fma(p, f, vf32_set1(0x1.62e4bap-1f));
    p = vf32_fma(p, f, vf32_set1(1));
    return _mm512_maskz_scalef_ps(seen, p, x);
}

// Which keys of a slot row `row` sees.
INLINE uint64_t seen_of(const struct strips *t, int32_t row, int32_t slot, const bool mask)
{
    const struct rows *s = &t->tiles.rows;
    return mask && row < s->rows ? t->seen[slot * (int64_t)s->blocks * LANES + row] : ~UINT64_C(0);
}

INLINE __m512 load_score(const struct strips *t, const float *scores, int32_t slot, int i,
                         const bool scaled)
{
    const __m512 x = _mm512_loadu_ps(scores + i * TILE_SUMS);
    return scaled ? vf32_mul(x, _mm512_loadu_ps(t->tiles.rows.key_scale + slot * BLOCK + i * 16))
                  : x;
}

// The largest scores of sixteen rows, before the scale.
INLINE __m512 largest_scores(const struct strips *t, int32_t b, int32_t slot, int32_t sixteens,
                             const struct weighing how)
{
    const float *scores = t->tiles.rows.scores + scores_at(b, slot);
    __m512 top[LANES];
    for (int r = 0; r < LANES; r++, scores += LANES) {
        const uint64_t seen = seen_of(t, b * LANES + r, slot, how.mask);
        top[r] = vf32_set1(-INFINITY);
        for (int32_t i = 0; i < sixteens; i++)
            top[r] = _mm512_mask_max_ps(top[r], (__mmask16)(seen >> i * 16), top[r],
                                        load_score(t, scores, slot, i, how.scaled));
    }
    return largest_of(top);
}

// Scores of two sixteens of a row to weights, whose sums are added to `total`. In two parts of bf16 if `two`.
INLINE __m512 weigh_two(const struct strips *t, const float *scores, int64_t to, int32_t slot,
                        int i, uint64_t seen, __m512 base, __m512 scale, const struct weighing how,
                        const bool two)
{
    __m512 p[2], sum;
    VF32_UNROLL
    for (int h = 0; h < 2; h++) {
        const __mmask16 keys = (__mmask16)(seen >> (i + h) * 16);
        const __m512 x = load_score(t, scores, slot, i + h, how.scaled);
        p[h] = power_of(how.scaled ? vf32_sub(x, base)
                        : how.far  ? vf32_sub(vf32_mul(x, scale), base)
                                   : _mm512_fmsub_ps(x, scale, base),
                        keys);
    }
    sum = vf32_add(p[0], p[1]);
    for (int h = 0; h < 2 && how.scaled; h++)
        p[h] = _mm512_mask_mul_ps(
            p[h], (__mmask16)(seen >> (i + h) * 16), p[h],
            _mm512_loadu_ps(t->tiles.rows.value_scale + slot * BLOCK + (i + h) * 16));
    if (two) {
        const struct parts parts = parts_of(p[0], p[1], 0x8000); // what is left is rounded
        _mm512_storeu_si512(t->tiles.weights + to, parts.most);
        _mm512_storeu_si512(t->tiles.weights_rest + to, parts.rest);
    } else
        _mm512_storeu_si512(t->tiles.weights + to, (__m512i)_mm512_cvtne2ps_pbh(p[1], p[0]));
    return sum;
}

// The online softmax of a strip on its way: the scores of one slot become weights while the tiles multiply those of the next.
struct pending {
    __m512 total[STRIP]; // of the weights of the strip
    float base[STRIP], scale;
    int32_t strip, slot, sixteens, row; // rows before that one are weights
    int32_t due, groups;                // the products come in so many groups
    int32_t begin, end;                 // 32 keys each: weights that are not added yet
};

INLINE void weigh_next(const struct strips *t, struct pending *p, const struct weighing how,
                       const bool whole, const bool two)
{
    const int32_t b = 2 * p->strip + p->row / LANES, r = p->row % LANES;
    const float *scores = t->tiles.rows.scores + scores_at(b, p->slot) + r * LANES;
    const int64_t to = weights_at(b, p->slot) + r * GROUP;
    const uint64_t seen = seen_of(t, b * LANES + r, p->slot, how.mask);
    const __m512 base = vf32_set1(p->base[p->row]), scale = vf32_set1(p->scale);
    __m512 sum = weigh_two(t, scores, to, p->slot, 0, seen, base, scale, how, two);
    if (whole || p->sixteens > 2)
        sum = vf32_add(
            sum, weigh_two(t, scores, to + TILE_NUMBERS, p->slot, 2, seen, base, scale, how, two));
    p->total[p->row] = vf32_add(p->total[p->row], sum);
    p->row++;
}

// The products come in `groups` from now on.
INLINE void weigh_beside(struct pending *p, int64_t groups)
{
    if (p)
        p->groups = (int32_t)groups, p->due = 0;
}

// A group of them is on its way: what is due of the rows meanwhile. NULL: nothing is.
INLINE void weigh_due(const struct strips *t, struct pending *p, const bool two)
{
    if (!p)
        return;
    for (p->due += STRIP; p->due >= p->groups; p->due -= p->groups)
        if (p->row < STRIP)
            weigh_next(t, p, (struct weighing){.mask = false}, true, two);
}

// The kernel's own part of a format: what a block becomes, and the two products, beside which rows are weighed if that is not
// NULL.
struct strip_products {
    void (*gather)(struct strips *t);
    void (*score)(const struct strips *t, int32_t strip, int32_t slot, int32_t sixteens,
                  struct pending *beside);
    void (*add)(const struct strips *t, int32_t strip, int32_t begin, int32_t end); // 32 keys each
};

INLINE void add_pending(const struct strips *t, struct pending *p, const struct strip_products of)
{
    if (p->begin < p->end) {
        tiles_written();
        of.add(t, p->strip, p->begin, p->end);
        tiles_written();
    }
    p->begin = p->end;
}

// Sixteen rows get another base. What they have so far is multiplied by what becomes of it.
static __attribute__((noinline)) void change_base(const struct strips *t, struct pending *p,
                                                  int32_t b, __m512 base)
{
    const struct rows *s = &t->tiles.rows;
    const __m512 shrink = vf32_exp2(vf32_sub(_mm512_loadu_ps(t->base + b * LANES), base));
    const __mmask16 same =
        _mm512_cmp_ps_mask(_mm512_loadu_ps(t->base + b * LANES), base, _CMP_EQ_OQ);
    float *of_row = s->shrink + b * LANES;
    _mm512_storeu_ps(of_row, _mm512_mask_blend_ps(same, shrink, vf32_set1(1)));
    _mm512_storeu_ps(t->base + b * LANES, base);
    _mm512_storeu_ps(s->sum + b * LANES,
                     vf32_mul(_mm512_loadu_ps(s->sum + b * LANES), _mm512_loadu_ps(of_row)));
    for (int r = 0; r < LANES; r++)
        p->total[b % 2 * LANES + r] = vf32_mul(p->total[b % 2 * LANES + r], vf32_set1(of_row[r]));
    shrink_sums(s, b);
}

// The largest scores of a slot, and what the rows' weights are to be compared with. Returns whether all is as in most slots.
INLINE bool begin_weighing(const struct strips *t, struct pending *p,
                           const struct strip_products of, const struct weighing how)
{
    const struct rows *s = &t->tiles.rows;
    bool far = false;
    p->row = 0;
    for (int32_t b = 2 * p->strip; b < 2 * p->strip + 2; b++) {
        const __m512 top = largest_scores(t, b, p->slot, p->sixteens, how);
        const __mmask16 some = _mm512_cmp_ps_mask(top, vf32_set1(-INFINITY), _CMP_NEQ_UQ);
        const __m512 scaled =
            how.scaled ? top : _mm512_mask_mul_ps(top, some, top, vf32_set1(p->scale));
        const __m512 largest = vf32_max(_mm512_loadu_ps(s->largest + b * LANES), scaled);
        __m512 base = _mm512_loadu_ps(t->base + b * LANES);
        const __mmask16 grows =
            _mm512_cmp_ps_mask(largest, vf32_add(base, vf32_set1(MOST_GROWTH)), _CMP_GT_OQ);
        _mm512_storeu_ps(s->largest + b * LANES, largest);
        if (grows) {
            base = _mm512_mask_blend_ps(grows, base, largest);
            add_pending(t, p, of);
            change_base(t, p, b, base);
        }
        const __mmask16 none = _mm512_cmp_ps_mask(base, vf32_set1(-INFINITY), _CMP_EQ_OQ);
        base = _mm512_mask_blend_ps(none, base, _mm512_setzero_ps());
        _mm512_storeu_ps(p->base + b % 2 * LANES, base);
        far |= _mm512_cmp_ps_mask(_mm512_abs_ps(base), vf32_set1(0x1p20f), _CMP_NLT_UQ) != 0;
    }
    return !far;
}

INLINE void end_weighing(const struct strips *t, struct pending *p, const struct weighing how,
                         const bool whole, const bool two)
{
    while (p->row < STRIP)
        weigh_next(t, p, how, whole, two);
}

// What is not as in most slots, before anything goes on beside it.
static __attribute__((noinline)) void weigh_slowly(const struct strips *t, struct pending *p,
                                                   const bool near, const bool two)
{
    if (!two && t->tiles.rows.scaled)
        end_weighing(t, p, (struct weighing){.mask = true, .scaled = true}, false, two);
    else if (near)
        end_weighing(t, p, (struct weighing){.mask = true}, false, two);
    else
        end_weighing(t, p, (struct weighing){.mask = true, .far = true}, false, two);
}

// What a strip sees of a slot: sixteens of keys behind which it sees none, 0 or an even number; all of them?
struct view {
    int32_t sixteens;
    bool all;
};

static struct view view_of(const struct strips *t, int32_t strip, int32_t slot)
{
    const struct rows *s = &t->tiles.rows;
    const uint64_t *seen = t->seen + slot * (int64_t)s->blocks * LANES;
    const int32_t end = (strip + 1) * STRIP < s->rows ? (strip + 1) * STRIP : s->rows;
    uint64_t some = 0, all = ~UINT64_C(0);
    if (t->by_all[slot] == ~UINT64_C(0) && !s->call->generic && !s->scaled)
        return (struct view){SIXTEENS, true};
    for (int32_t r = strip * STRIP; r < end; r++)
        some |= seen[r], all &= seen[r];
    return (struct view){some == 0    ? 0
                         : some >> 32 ? SIXTEENS
                                      : 2,
                         all == ~UINT64_C(0) && !s->call->generic && !s->scaled};
}

// Infinities and NaNs that values of the slots have, for those rows of a strip that see them.
static __attribute__((noinline)) void add_wild_strip(const struct strips *t, int32_t strip)
{
    const struct rows *s = &t->tiles.rows;
    struct rows of_slot = *s;
    const int32_t end = (strip + 1) * STRIP < s->rows ? (strip + 1) * STRIP : s->rows;
    for (int32_t n = 0; n < t->slots * BLOCK; n++) {
        const int32_t slot = n / BLOCK, key = n % BLOCK;
        const int32_t place =
            s->call->v.dtype == WEFT_F16 ? key % 16 * 2 + key % 32 / 16 : key % 32;
        if (!(t->wild[slot] >> key & 1))
            continue;
        of_slot.values_at = t->value_places + slot * BLOCK;
        for (int32_t r = strip * STRIP; r < end; r++) {
            const int64_t at = weights_at(r / LANES, slot) + key / 32 * TILE_NUMBERS;
            const float weight = weft__bf16_to_f32(t->tiles.weights[at + r % LANES * 32 + place]);
            for (int32_t i = 0; i < s->call->v.dim && seen_of(t, r, slot, true) >> key & 1; i++) {
                const float x = value_at(&of_slot, key, i);
                if (!isfinite(x))
                    sums_of(s, r / LANES)[place_of(s, r % LANES, i)] += weight * x;
            }
        }
    }
}

// A strip against all slots of which it sees some:
//
//      tiles      score 0 | score 1 | score 2 | score 3 |         | add 0 to 3
//      vectors            | weigh 0 | weigh 1 | weigh 2 | weigh 3 |
INLINE void attend_strip(const struct strips *t, int32_t strip, const struct strip_products of,
                         const bool two)
{
    const struct rows *s = &t->tiles.rows;
    struct pending p = {.strip = strip, .scale = fabsf(s->call->scale) * LOG2E};
    struct view view = {0, false};
    int32_t slot = 0;
    for (; slot < t->slots && view.sixteens == 0; slot++)
        view = view_of(t, strip, slot);
    if (view.sixteens == 0)
        return;
    of.score(t, strip, --slot, view.sixteens, NULL);
    while (view.sixteens > 0) {
        struct view next = {0, false};
        int32_t after = slot + 1;
        p.slot = slot, p.sixteens = view.sixteens;
        if (p.end != slot * HALVES) {
            add_pending(t, &p, of);
            p.begin = p.end = slot * HALVES;
        }
        tiles_written();
        const bool plain = view.all && view.sixteens == SIXTEENS;
        const bool near =
            plain ? begin_weighing(t, &p, of, (struct weighing){.mask = false})
            : !two && s->scaled
                ? begin_weighing(t, &p, of, (struct weighing){.mask = true, .scaled = true})
                : begin_weighing(t, &p, of, (struct weighing){.mask = true});
        if (!plain || !near)
            weigh_slowly(t, &p, near, two);
        for (; after < t->slots && next.sixteens == 0; after++)
            next = view_of(t, strip, after);
        if ((after - 1 - slot) % 2 == 0) // whose scores take the place of these
            end_weighing(t, &p, (struct weighing){.mask = false}, true, two);
        if (next.sixteens > 0)
            of.score(t, strip, after - 1, next.sixteens, &p);
        end_weighing(t, &p, (struct weighing){.mask = false}, true, two);
        p.end = slot * HALVES + view.sixteens / 2;
        slot = after - 1, view = next;
    }
    add_pending(t, &p, of);
    for (int32_t b = 0; b < 2; b++) {
        float *sum = s->sum + (2 * strip + b) * LANES;
        vf32_store(sum, vf32_add(vf32_load(sum), vf32_sums(p.total + b * LANES)));
    }
}

INLINE void attend_slots(struct strips *t, const struct strip_products of, const bool two)
{
    uint64_t wild = 0;
    for (int32_t slot = 0; slot < t->slots; slot++)
        wild |= t->wild[slot];
    for (int32_t strip = 0; strip < t->tiles.rows.blocks / 2; strip++) {
        attend_strip(t, strip, of, two);
        if (wild)
            add_wild_strip(t, strip);
    }
    t->slots = 0;
}

static bool begin_slot(struct strips *t, struct blocks *blocks)
{
    struct rows *s = &t->tiles.rows;
    if (!next_of(s, blocks))
        return false;
    t->tiles.asked = s->call->ahead ? 0 : ALL_ROWS;
    if (begins_tile(s->block)) {
        const bool loaded = same_rows(s->tile, s->block->tile);
        s->tile = s->block->tile;
        if (!loaded)
            take_strip_queries(t);
        open_rows(s, LANES);
        memcpy(t->base, s->largest, (size_t)(s->blocks * LANES) * sizeof *t->base);
        s->all = seen_by_all(s);
    }
    s->seen = t->seen + t->slots * (int64_t)s->blocks * LANES;
    look(s);
    return true;
}

// The results of a row that has seen all of its keys, as vectors.
static void finish_strip_row(const struct strips *t, int32_t row)
{
    const struct rows *s = &t->tiles.rows;
    const struct weft__attention_call *call = s->call;
    const int64_t token =
        (int64_t)call->lengths.cu_q_lens[s->tile->seq] + weft__attention_token(call, s->tile, row);
    const int64_t head = weft__attention_head(call, s->tile, row);
    const int64_t at = token * call->out_token_stride + head * call->out_head_stride;
    const float inverse = weft__attention_close(call, token, head, t->base[row], s->sum[row]);
    for (int32_t i = 0; i < call->v.dim; i += GROUP) {
        __m512 x[2];
        load_columns(s, row, i, x);
        for (int h = 0; h < 2; h++) {
            const int64_t to = at + i + h * LANES;
            const __m512 y = inverse < 0 ? _mm512_setzero_ps() : vf32_mul(x[h], vf32_set1(inverse));
            if (call->out_dtype == WEFT_F32)
                vf32_store((float *)call->out + to, y);
            else if (call->out_dtype == WEFT_F16)
                vf32_store_f16((uint16_t *)call->out + to, y);
            else
                vf32_store_bf16((uint16_t *)call->out + to, y);
        }
    }
}

// A state is told by its largest score, not by the base.
static void store_state(const struct strips *t, int32_t row)
{
    const struct rows *s = &t->tiles.rows;
    const int32_t dim = s->call->v.dim;
    const float shrink =
        t->base[row] == s->largest[row] ? 1 : exp2f(t->base[row] - s->largest[row]);
    for (int32_t i = 0; i < dim; i += LANES) {
        float *acc = sums_of(s, row / LANES) + (i / LANES * LANES + row % LANES) * LANES;
        vf32_store(acc, vf32_mul(vf32_set1(shrink), vf32_load(acc)));
    }
    s->sum[row] *= shrink;
    store_row(s, row);
}

// `count` tiles of as many rows, each with keys.
INLINE void attend_strips(const struct weft__attention_call *call,
                          const struct weft__attention_tile *tiles, int32_t count,
                          const struct strip_products of, const bool two)
{
    struct strips t = lay_out_strips(call, tiles);
    struct rows *s = &t.tiles.rows;
    struct blocks blocks = begin_blocks(s, tiles, count);
    while (begin_slot(&t, &blocks)) {
        if (s->by_some)
            take_slot(&t, of.gather);
        if (t.slots == SLOTS || (t.slots > 0 && ends_tile(s->block)))
            attend_slots(&t, of, two);
        for (int32_t row = 0; ends_tile(s->block) && row < s->rows; row++)
            (s->tile->partial ? store_state : finish_strip_row)(&t, row);
    }
}

#endif
