// SPDX-License-Identifier: MIT
// Where the keys and values of tiles lie: blocks of them, in the order in which kernels visit them.
#ifndef WEFT_KERNELS_ATTENTION_WALK_H
#define WEFT_KERNELS_ATTENTION_WALK_H

#include "src/kernels/attention/attention_kernel.h"

enum { BLOCK = WEFT__ATTENTION_BLOCK }; // keys

// Walks a sequence's keys through its pages.
struct cursor {
    const int32_t *pages;
    int64_t page_stride, token_stride, head_offset;
    int32_t page, slot, page_size;
    int32_t left, ring_len; // keys until the ring begins again; without one there are always more
};

static struct cursor cursor_at(const struct weft__attention_call *call,
                               const struct weft__attention_tile *tile,
                               const struct weft__attention_plane *plane)
{
    int32_t ring_len = call->ring_len ? call->ring_len : INT32_MAX, place = tile->key0 % ring_len;
    return (struct cursor){
        .pages = weft__attention_pages(call, tile->seq),
        .page_stride = plane->page_stride,
        .token_stride = plane->token_stride,
        .head_offset = tile->kv_head * plane->head_stride,
        .page = place / call->page_size,
        .slot = place % call->page_size,
        .page_size = call->page_size,
        .left = ring_len - place,
        .ring_len = ring_len,
    };
}

// Where the next `count` keys lie, in elements.
static void walk(struct cursor *c, int32_t count, int64_t *offsets)
{
    const int64_t stride =
        c->token_stride; // which an offset might be, for all that the compiler knows
    for (int32_t i = 0; i < count;) {
        int64_t at = c->pages[c->page] * c->page_stride + c->slot * stride + c->head_offset;
        int32_t run = c->page_size - c->slot < count - i ? c->page_size - c->slot : count - i;
        run = run < c->left ? run : c->left;
        for (int32_t j = 0; j < run; j++)
            offsets[i + j] = at + j * stride;
        i += run;
        c->slot += run;
        c->left -= run;
        if (c->slot == c->page_size) {
            c->slot = 0;
            c->page++;
        }
        if (c->left == 0) {
            c->slot = c->page = 0;
            c->left = c->ring_len;
        }
    }
}

// Where the rows of the next block lie, `n` of them; past the n-th, the last one that
// there is, so that every row exists.
static void fill_block(struct cursor *cursor, int64_t *at, int32_t n)
{
    const int64_t last = at[-1];
    walk(cursor, n, at);
    for (int32_t i = n; i < BLOCK; i++)
        at[i] = n > 0 ? at[n - 1] : last;
}

// A block of keys on its way through the window.
struct block {
    const struct weft__attention_tile *tile;
    int32_t first, n; // keys; n = 0: there is none
};

// Walks the keys of several tiles, block after block.
struct walk {
    const struct weft__attention_tile *next, *end; // tiles
    int32_t beside;                          // tiles of other heads between two that are walked
    const struct weft__attention_tile *tile; // that of the cursors
    struct cursor keys, values;
    int32_t key; // of the tile, the next
};

// The next block, and where its keys lie, at[BLOCK]; its values, values_at[BLOCK], unless that is NULL: as its
// keys. What stands before both is where the last row of the block before lies.
static struct block next_block(const struct weft__attention_call *call, struct walk *walk,
                               int64_t *at, int64_t *values_at)
{
    while ((!walk->tile || walk->key == walk->tile->key1) && walk->next < walk->end) {
        walk->tile = walk->next;
        walk->next += 1 + walk->beside;
        walk->key = walk->tile->key0;
        walk->keys = cursor_at(call, walk->tile, &call->k);
        walk->values = cursor_at(call, walk->tile, &call->v);
    }
    int32_t left = walk->tile->key1 - walk->key, most = call->block_keys;
    struct block block = {walk->tile, walk->key, left < most ? left : most};
    walk->key += block.n;
    fill_block(&walk->keys, at, block.n);
    if (values_at)
        fill_block(&walk->values, values_at, block.n);
    return block;
}

// What the codes of n keys of a tile, or their values, are to be multiplied by, times `factor`; that alone past them.
static inline void gather_scales(const struct weft__attention_call *call,
                                 const struct weft__attention_tile *tile,
                                 const struct weft__attention_plane *plane, int32_t key, int32_t n,
                                 float factor, float scales[BLOCK])
{
    const int32_t *pages = weft__attention_pages(call, tile->seq);
    const int64_t first =
        tile->seq * plane->scale_seq_stride + tile->kv_head * plane->scale_head_stride;
    int32_t place = call->ring_len ? key % call->ring_len : key;
    int32_t page = place / call->page_size, slot = place % call->page_size;
    for (int32_t i = 0; i < BLOCK; i++)
        scales[i] = factor;
    for (int32_t i = 0; i < n && plane->scales; i++) {
        scales[i] *= plane->scales[first + pages[page] * plane->scale_page_stride +
                                   slot * plane->scale_token_stride];
        slot++, place++;
        if (place == call->ring_len)
            place = page = slot = 0;
        else if (slot == call->page_size)
            slot = 0, page++;
    }
}

// The key from which on rows may see less than their intervals.
static inline int32_t scattered_from(const struct weft__attention_call *call, int32_t seq)
{
    const struct weft__attention_lengths *lengths = &call->lengths;
    const struct weft__attention_mask *mask = &call->mask;
    int32_t columns = lengths->cu_q_lens[seq + 1] - lengths->cu_q_lens[seq];
    if (!weft__attention_is_scattered(mask))
        return lengths->kv_lens[seq];
    if (mask->sparse_block > 0 || mask->sparse_keys > 0 ||
        (mask->kind == WEFT_MASK_TREE && (mask->window > 0 || mask->local_chunk > 0)))
        return 0;
    if (mask->kind == WEFT_MASK_BITS && call->mask_columns)
        columns = call->mask_columns[seq];
    return lengths->kv_lens[seq] - columns;
}

static bool begins_tile(const struct block *block)
{
    return block->n > 0 && block->first == block->tile->key0;
}

static bool ends_tile(const struct block *block)
{
    return block->n > 0 && block->first + block->n == block->tile->key1;
}

// The chunks of a tile have its queries in common.
static bool same_rows(const struct weft__attention_tile *a, const struct weft__attention_tile *b)
{
    return a && a->seq == b->seq && a->first_head == b->first_head &&
           a->first_token == b->first_token;
}

#endif
