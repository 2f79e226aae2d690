// SPDX-License-Identifier: MIT
// The walk of prompts' strips through the blocks of keys, and what becomes of their results (attention_strips_amx.h). Part of
// attention_tiles_amx.c and attention_f16_amx.c.
#ifndef WEFT_KERNELS_ATTENTION_STRIPS_ROWS_AMX_H
#define WEFT_KERNELS_ATTENTION_STRIPS_ROWS_AMX_H

#include "src/kernels/attention/attention_strips_weigh_amx.h"

// A strip and a slot: sixteens of its keys behind which the strip sees none, 0 or an even number; does it see all of them?
struct item {
    int32_t strip, slot, sixteens;
    bool all;
};

// The kernel's own part of a format: what a block becomes, and the two products, beside which rows are weighed if that is not
// NULL.
struct strip_products {
    void (*gather)(struct strips *t);
    void (*score)(const struct strips *t, struct item item, int32_t turn, struct pending *beside);
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
    if (t->words && t->exact)
        _mm512_storeu_ps(t->exact + b * LANES,
                         vf32_mul(_mm512_loadu_ps(t->exact + b * LANES), _mm512_loadu_ps(of_row)));
    for (int r = 0; r < LANES; r++)
        p->total[b % 2 * LANES + r] = vf32_mul(p->total[b % 2 * LANES + r], vf32_set1(of_row[r]));
    if (t->begun[p->strip])
        shrink_sums(s, b);
}

// What the weights of sixteen rows are to be compared with, whose largest scores are `top`. Returns its size.
INLINE __m512 begin_sixteen(const struct strips *t, struct pending *p,
                            const struct strip_products of, int32_t b, __m512 top,
                            const bool scaled)
{
    const struct rows *s = &t->tiles.rows;
    const __mmask16 some = _mm512_cmp_ps_mask(top, vf32_set1(-INFINITY), _CMP_NEQ_UQ);
    const __m512 scores = scaled ? top : _mm512_mask_mul_ps(top, some, top, vf32_set1(p->scale));
    const __m512 largest = vf32_max(_mm512_loadu_ps(s->largest + b * LANES), scores);
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
    _mm512_storeu_ps(p->offset + b % 2 * LANES,
                     word_offset(vf32_add(base, vf32_set1(WORDS_BELOW))));
    return _mm512_abs_ps(base);
}

INLINE bool any_from(__m512 x, float limit)
{
    return _mm512_cmp_ps_mask(x, vf32_set1(limit), _CMP_NLT_UQ) != 0;
}

// The largest scores of a slot, and what the rows' weights are to be compared with. Returns whether bases are as near as in
// most slots.
INLINE bool begin_weighing(const struct strips *t, struct pending *p,
                           const struct strip_products of, const bool plain,
                           const struct weighing how)
{
    __m512 far = _mm512_setzero_ps();
    for (int32_t b = 2 * p->strip; b < 2 * p->strip + 2; b++) {
        const float *scores = t->tiles.rows.scores + scores_at(b, p->turn);
        const __m512 top =
            plain ? largest_plain(scores) : largest_scores(t, scores, b, p->slot, p->sixteens, how);
        far = max_of(begin_sixteen(t, p, of, b, top, how.scaled), far);
    }
    p->row = 0;
    p->words = t->words && t->tame[p->slot] && !any_from(far, 0x1p12f);
    p->mask = how.mask;
    p->unseen = false;
    return !any_from(far, 0x1p20f);
}

// The same with the bases that there are. Returns whether they are near enough for words.
INLINE bool go_on_weighing(const struct strips *t, struct pending *p, const bool mask)
{
    const int32_t row = p->strip * STRIP;
    if (!t->words || t->exact || !t->tame[p->slot])
        return false;
    for (int32_t i = 0; i < STRIP; i += LANES) {
        const __m512 base = _mm512_loadu_ps(t->base + row + i); // -infinity: too far, too
        if (any_from(_mm512_abs_ps(base), 0x1p12f))
            return false;
        _mm512_storeu_ps(p->offset + i, word_offset(vf32_add(base, vf32_set1(WORDS_BELOW))));
    }
    p->row = 0;
    p->words = p->unseen = true;
    p->mask = mask;
    p->most = _mm512_setzero_si512();
    return true;
}

// What is not as in most slots is done before anything goes on beside it.
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

static __attribute__((noinline)) void begin_slowly(const struct strips *t, struct pending *p,
                                                   const struct strip_products of, const bool plain,
                                                   const bool two)
{
    bool near;
    if (plain)
        near = begin_weighing(t, p, of, true, (struct weighing){.mask = false});
    else if (!two && t->tiles.rows.scaled)
        near = begin_weighing(t, p, of, false, (struct weighing){.mask = true, .scaled = true});
    else
        near = begin_weighing(t, p, of, false, (struct weighing){.mask = true});
    if (!plain || !near)
        weigh_slowly(t, p, near, two);
}

static bool see(const struct strips *t, struct item *item)
{
    const struct rows *s = &t->tiles.rows;
    const int32_t strip = item->strip;
    const uint64_t *seen = t->seen + item->slot * (int64_t)s->blocks * LANES;
    const int32_t end = (strip + 1) * STRIP < s->rows ? (strip + 1) * STRIP : s->rows;
    const bool plain = !s->call->generic && !s->scaled;
    uint64_t some = 0, all = ~UINT64_C(0);
    item->sixteens = SIXTEENS;
    item->all = plain;
    if (t->by_all[item->slot] == ~UINT64_C(0) && plain)
        return true;
    for (int32_t r = strip * STRIP; r < end; r++)
        some |= seen[r], all &= seen[r];
    item->sixteens = some == 0 ? 0 : some >> 32 ? SIXTEENS : 2;
    item->all = all == ~UINT64_C(0) && plain;
    return some != 0;
}

// The next item of which some is seen, from that one on; its strip is behind the last one if there is none.
INLINE struct item item_from(const struct strips *t, int32_t strip, int32_t slot)
{
    struct item item = {strip, slot, 0, false};
    for (; item.strip < t->tiles.rows.blocks / 2; item.strip++, item.slot = 0)
        for (; item.slot < t->slots; item.slot++)
            if (see(t, &item))
                return item;
    return item;
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
            s->call->v.dtype == WEFT_F16 ? key % 16 * 2 + key % 32 / 16 : word_place(key % 32);
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

// All values of a strip that are not added yet, and what goes with the last of them.
static __attribute__((noinline)) void end_strip(const struct strips *t, struct pending *p,
                                                const struct strip_products of, bool wild)
{
    const struct rows *s = &t->tiles.rows;
    add_pending(t, p, of);
    if (wild)
        add_wild_strip(t, p->strip);
    if (t->words && !t->exact)
        return;
    for (int32_t b = 0; b < 2; b++) {
        float *sum = (t->words ? t->exact : s->sum) + (2 * p->strip + b) * LANES;
        vf32_store(sum, vf32_add(vf32_load(sum), vf32_sums(p->total + b * LANES)));
    }
    memset(p->total, 0, sizeof p->total);
}

// All strips against all slots of which they see some:
//
//      tiles      score 0 | score 1 | score 2 | score 3 | score 0 of the next | add 0 to 3
//      vectors            | weigh 0 | weigh 1 | weigh 2 | weigh 3             |
INLINE void attend_slots(struct strips *t, const struct strip_products of, const bool two)
{
    const struct rows *s = &t->tiles.rows;
    const int32_t strips = s->blocks / 2;
    struct pending p = {.strip = -1, .scale = fabsf(s->call->scale) * LOG2E};
    struct item item = item_from(t, 0, 0);
    uint64_t wild = 0;
    p.word_scale = p.scale * WORD_STEPS;
    p.ask = t->asked, p.ask_end = t->asked + t->asks;
    p.asks = t->asks / (strips * t->slots * 2 * (s->call->k.dim / GROUP)) + 1;
    for (int32_t slot = 0; slot < t->slots; slot++)
        wild |= t->wild[slot];
    if (item.strip < strips)
        of.score(t, item, 0, NULL);
    for (int32_t turn = 0; item.strip < strips; turn++) {
        const struct item next = item_from(t, item.strip, item.slot + 1);
        if (p.strip != item.strip)
            p.begin = p.end = item.slot * HALVES;
        else if (p.end != item.slot * HALVES) {
            add_pending(t, &p, of);
            p.begin = p.end = item.slot * HALVES;
        }
        p.strip = item.strip, p.slot = item.slot, p.turn = turn, p.sixteens = item.sixteens;
        tiles_written();
        const bool plain = item.all && item.sixteens == SIXTEENS;
        if (two || !go_on_weighing(t, &p, !plain))
            begin_slowly(t, &p, of, plain, two);
        if (next.strip < strips)
            of.score(t, next, turn + 1, &p);
        end_weighing(t, &p, (struct weighing){.mask = false}, true, two);
        if (!two && p.unseen && _mm512_cmpgt_epu16_mask(p.most, _mm512_set1_epi16(WORD_ONE))) {
            begin_slowly(t, &p, of, plain, two);
            end_weighing(t, &p, (struct weighing){.mask = false}, true, two);
        }
        p.end = item.slot * HALVES + item.sixteens / 2;
        if (next.strip != item.strip)
            end_strip(t, &p, of, wild != 0);
        item = next;
    }
    ask_some(&p, t->asks);
    t->slots = 0;
}

static bool begin_slot(struct strips *t, struct blocks *blocks)
{
    struct rows *s = &t->tiles.rows;
    if (!next_of(s, blocks))
        return false;
    t->tiles.asked = s->call->ahead && t->asks == 0 ? 0 : ALL_ROWS;
    if (begins_tile(s->block)) {
        const bool loaded = same_rows(s->tile, s->block->tile);
        s->tile = s->block->tile;
        if (!loaded)
            take_strip_queries(t);
        for (int32_t i = 0; i < s->blocks * LANES; i++)
            s->largest[i] = t->base[i] = -INFINITY, s->sum[i] = 0;
        memset(t->begun, 0, (size_t)(s->blocks / 2) * sizeof *t->begun);
        t->words = s->call->k.dtype != WEFT_F16 && !s->scaled && !s->tile->partial &&
                   fabsf(s->call->scale) < 0x1p100f;
        if (t->exact)
            memset(t->exact, 0, (size_t)(s->blocks * LANES) * sizeof *t->exact);
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
    const float above = t->words ? WORDS_ABOVE : 1;
    const float inverse =
        above * weft__attention_close(call, token, head, t->base[row], above * s->sum[row]);
    if (t->words && t->exact)
        weft__attention_close(call, token, head, t->base[row], t->exact[row]);
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

static void end_rows(const struct strips *t)
{
    const struct rows *s = &t->tiles.rows;
    for (int32_t strip = 0; strip < s->blocks / 2; strip++)
        if (!t->begun[strip])
            memset(sums_of(s, 2 * strip), 0,
                   2 * (size_t)s->groups * 2 * TILE_SUMS * sizeof *s->acc);
    for (int32_t row = 0; row < s->rows; row++)
        (s->tile->partial ? store_state : finish_strip_row)(t, row);
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
        if (t.slots == SLOTS || (t.slots > 0 && ends_tile(s->block))) {
            note_ahead(&t, &blocks);
            attend_slots(&t, of, two);
        }
        if (ends_tile(s->block))
            end_rows(&t);
    }
}

#endif
