// SPDX-License-Identifier: MIT
// Tiles of few rows of several KV heads that see the same keys, where the heads of a token lie side by side: a block of
// 64 tokens is read head by head, and meanwhile the next block is asked for, token by token, in order of address.
// Memory reads whole tokens faster than one head of each (NOTES.md).
//
//      lead        walks the keys of the first head
//      rows[head]  the state of a head: scratch of its own
#ifndef WEFT_KERNELS_ATTENTION_PAIRS_HEADS_H
#define WEFT_KERNELS_ATTENTION_PAIRS_HEADS_H

#include "src/base/checked.h"
#include "src/kernels/attention/attention_heads.h"
#include "src/kernels/attention/attention_pairs.h"

struct lead {
    struct rows rows; // of which the block and the places are used
    struct weft__attention_tile first[MOST_WALK];
    int64_t at[PLACES], values_at[PLACES];
};

static inline int64_t bytes_of_head(int32_t head_dim, int32_t v_dim)
{
    return weft__align_up(rows_bytes(WEFT__ATTENTION_KEYS_ROWS, head_dim, v_dim), 64);
}

static inline int64_t heads_bytes(int32_t head_dim, int32_t v_dim)
{
    return WEFT__ATTENTION_KEYS_HEADS * bytes_of_head(head_dim, v_dim);
}

// KV heads from that of the first tile on whose tiles may go together.
static inline int32_t heads_of(const struct weft__attention_call *call,
                               const struct weft__attention_tile *tiles, int32_t count)
{
    return weft__attention_heads_beside(call) ? heads_together(call, tiles, count) : 1;
}

// Tiles from the first on that go through one walk: 0, the first has no keys.
static inline int32_t together(const struct weft__attention_call *call,
                               const struct weft__attention_tile *tiles, int32_t count)
{
    const int32_t n = alike(call, tiles, count), heads = n ? heads_of(call, tiles, n) : 1;
    return heads > 1 ? tiles_of_heads(call, tiles, n, heads) : n;
}

static void begin_lead(struct lead *lead, const struct rows *like,
                       const struct weft__attention_tile *tiles, int32_t count, int32_t heads)
{
    for (int32_t i = 0; i * heads < count; i++)
        lead->first[i] = tiles[i * heads];
    lead->rows = (struct rows){.call = like->call, .at = lead->at, .values_at = lead->values_at};
    if (like->values_at == like->at)
        lead->rows.values_at = lead->at;
}

// Where head h of the block at hand lies, then what is read next, then the share of all heads' next block that is asked for
// meanwhile.
static inline void place_head(const int64_t *lead_at, int64_t stride, int32_t heads, int32_t h,
                              int64_t *at)
{
    const bool last = h + 1 == heads;
    const int64_t *next = last ? lead_at + BLOCK : lead_at;
    const int64_t of_next = last ? 0 : (h + 1) * stride;
    int32_t token = BLOCK * h / heads, head = BLOCK * h % heads;
    for (int32_t i = 0; i < BLOCK; i++) {
        at[i] = lead_at[i] + h * stride;
        at[BLOCK + i] = next[i] + of_next;
    }
    for (int32_t i = 0; i < BLOCK; i++) {
        at[FAR + i] = lead_at[BLOCK + token] + head * stride;
        head = head + 1 < heads ? head + 1 : 0;
        token += head == 0;
    }
}

static inline void place_rows(const struct lead *lead, int32_t heads, int32_t h, struct rows *s)
{
    s->block = lead->rows.block;
    place_head(lead->at, s->call->k.head_stride, heads, h, s->at);
    if (s->values_at != s->at)
        place_head(lead->values_at, s->call->v.head_stride, heads, h, s->values_at);
}

#endif
