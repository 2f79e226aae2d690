// SPDX-License-Identifier: MIT
// Few rows: which tiles go through one walk, and the walk, block by block. Part of attention_few.h.
//
//      one head after the other    | tile 0: block 0, block 1, ... | tile 1: block 0, ...
//      heads that go together      | block 0: head 0, head 1, ... | block 1: head 0, head 1, ...
//
// A head of those that go together has queries, results and statistics of its own; what is made for a block is used
// before the next one, whose head is another, needs the room.
#ifndef WEFT_KERNELS_ATTENTION_FEW_HEADS_H
#define WEFT_KERNELS_ATTENTION_FEW_HEADS_H

struct head {
    const struct weft__attention_tile *loaded; // whose queries there are
    float *q, *acc, *largest, *sum, *lost;     // as those of struct state
};

struct few_walk {
    struct walk walk; // of the first head
    const struct weft__attention_tile *first;
    struct block block;     // of the first head
    int32_t heads, visited; // of the block
    struct head head[WEFT__ATTENTION_KEYS_HEADS];
    int64_t at[1 + BLOCK],
        values_at[1 + BLOCK]; // of the block; before them, of the last row of the one before
};

// How many tiles from the first on have keys and few rows alike. 0: the first has many rows, or nothing to see.
static int32_t few_alike(const struct state *s, const struct weft__attention_tile *tiles,
                         int32_t count)
{
    int32_t alike = 0, most = s->rows > FEW_ROWS / 2 ? FEW_ROWS : FEW_ROWS / 2;
    for (; alike < count && tiles[alike].key0 < tiles[alike].key1; alike++) {
        int32_t rows = weft__attention_rows(s->call, &tiles[alike]);
        if (rows > most || rows <= most - FEW_ROWS / 2)
            break;
    }
    return alike;
}

// KV heads whose few rows go together. What a head keeps comes from the second cache for each block: that is worth it where the
// heads of a token lie side by side, or a block has much to read and few rows.
static int32_t few_heads(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count)
{
    const struct weft__attention_plane *k = &call->k;
    const int64_t size = k->dtype == WEFT_F32                            ? 4
                         : k->dtype == WEFT_F16 || k->dtype == WEFT_BF16 ? 2
                                                                         : 1;
    const bool large =
        k->dim * size >= LEAST_BYTES && weft__attention_rows(call, tiles) <= FEW_ROWS / 2;
    if (k->dim > HEADS_DIM || call->v.dim > HEADS_DIM ||
        !(large || call->page_size == 1 || weft__attention_heads_beside(call)))
        return 1;
    return heads_together(call, tiles, count);
}

// How many tiles from the first on go through one walk; 0 as above.
static int32_t few_together(const struct state *s, const struct weft__attention_tile *tiles,
                            int32_t count)
{
    const int32_t n = few_alike(s, tiles, count), heads = n ? few_heads(s->call, tiles, n) : 1;
    return heads > 1 ? tiles_of_heads(s->call, tiles, n, heads) : n;
}

static void begin_walk(const struct state *s, int32_t count, struct few_walk *walk)
{
    float *room = s->of_heads;
    walk->first = s->tile;
    walk->heads = few_heads(s->call, s->tile, count);
    walk->visited = walk->heads;
    walk->walk = (struct walk){.next = s->tile, .end = s->tile + count, .beside = walk->heads - 1};
    walk->head[0] = (struct head){NULL, s->q, s->acc, s->largest, s->sum, s->lost};
    for (int32_t h = 1; h < walk->heads; h++, room += head_floats(s->width, s->v_width)) {
        float *acc = room + FEW_ROWS * s->width, *rows = acc + FEW_ROWS * s->v_width;
        walk->head[h] = (struct head){NULL, room, acc, rows, rows + FEW_ROWS, rows + 2 * FEW_ROWS};
    }
    s->at[2 * BLOCK - 1] = s->values_at[2 * BLOCK - 1] = walk->at[0] = walk->values_at[0] = 0;
}

static struct head *head_of(struct few_walk *walk, const struct block *block)
{
    return &walk->head[(int32_t)(block->tile - walk->first) % walk->heads];
}

// The state is that of the block's head from here on, but for the queries.
static void take_head(struct state *s, const struct head *head, const struct block *block)
{
    s->tile = block->tile;
    s->acc = head->acc;
    s->largest = head->largest;
    s->sum = head->sum;
    s->lost = head->lost;
}

// The next block of the first head.
static void next_of_first(const struct state *s, struct few_walk *walk)
{
    int64_t *values_at = s->values_at == s->at ? NULL : walk->values_at + 1;
    walk->at[0] = walk->at[BLOCK];
    walk->values_at[0] = walk->values_at[BLOCK];
    walk->block = next_block(s->call, &walk->walk, walk->at + 1, values_at);
    walk->visited = 0;
}

// Appends the next block to the window.
static struct block append_block(const struct state *s, struct few_walk *walk)
{
    int64_t *at = s->at + 2 * BLOCK, *values_at = s->values_at + 2 * BLOCK;
    if (walk->heads == 1)
        return next_block(s->call, &walk->walk, at, s->values_at == s->at ? NULL : values_at);
    if (walk->visited == walk->heads)
        next_of_first(s, walk);
    const int32_t h = walk->visited++;
    const int64_t k = h * s->call->k.head_stride, v = h * s->call->v.head_stride;
    for (int i = 0; i < BLOCK; i++)
        at[i] = walk->at[1 + i] + k;
    for (int i = 0; i < BLOCK && values_at != at; i++)
        values_at[i] = walk->values_at[1 + i] + v;
    return (struct block){walk->block.tile + h, walk->block.first, walk->block.n};
}

static void move_window(int64_t *window)
{
    memmove(window, window + BLOCK, 2 * BLOCK * sizeof *window);
}

static void advance(struct state *s)
{
    float *swap = s->weight;
    s->weight = s->scores;
    s->scores = swap;
    move_window(s->at);
    if (s->values_at != s->at)
        move_window(s->values_at);
}

#endif
