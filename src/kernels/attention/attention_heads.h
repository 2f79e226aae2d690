// SPDX-License-Identifier: MIT
// Which tiles of few rows of several KV heads go through a kernel together: those that see the same keys. Of a block of 64
// keys one head is read after the other, as memory is faster where what is read next lies near (NOTES.md).
#ifndef WEFT_KERNELS_ATTENTION_HEADS_H
#define WEFT_KERNELS_ATTENTION_HEADS_H

#include "src/kernels/attention/attention_kernel.h"
#include "src/kernels/attention/attention_work.h"

enum {
    MOST_WALK = 16,   // tiles of a head that go through one walk
    LEAST_KEYS = 512, // of a tile: the first block of all heads comes cold
    // Of few rows:
    HEADS_DIM = 256,  // elements of a head, at most
    LEAST_BYTES = 256 // of a key whose neighbours in memory are of the same head
};

// Floats that each of the heads whose few rows go together has for itself: queries, results and what rows have come to.
static inline int64_t head_floats(int64_t width, int64_t v_width)
{
    return WEFT__ATTENTION_FEW_ROWS * (width + v_width + 4);
}

static bool beside(const struct weft__attention_tile *a, const struct weft__attention_tile *b,
                   int32_t heads)
{
    return a->seq == b->seq && a->first_token == b->first_token && a->tokens == b->tokens &&
           a->key0 == b->key0 && a->key1 == b->key1 && a->kv_head + heads == b->kv_head;
}

// KV heads from that of the first tile on whose tiles may go together.
static int32_t heads_together(const struct weft__attention_call *call,
                              const struct weft__attention_tile *tiles, int32_t count)
{
    int32_t n = 1;
    if (call->generic || tiles->key1 - tiles->key0 < LEAST_KEYS ||
        weft__attention_rows(call, tiles) > WEFT__ATTENTION_KEYS_ROWS)
        return 1;
    while (n < count && n < WEFT__ATTENTION_KEYS_HEADS && beside(tiles, &tiles[n], n))
        n++;
    return n;
}

// Of `count` tiles of as many rows those that go through one walk: several for each of `heads`.
static int32_t tiles_of_heads(const struct weft__attention_call *call,
                              const struct weft__attention_tile *tiles, int32_t count,
                              int32_t heads)
{
    int32_t n = heads;
    while (n + heads <= count && n < heads * MOST_WALK && tiles[n].kv_head == tiles->kv_head &&
           heads_together(call, tiles + n, heads) == heads)
        n += heads;
    return n;
}

#endif
