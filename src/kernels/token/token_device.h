// SPDX-License-Identifier: MIT
// What the host and the device text of a whole token as one launch agree on. Plain C, fixed widths; pointers are device pointers.
//
// Words: what SMs hand one another lies in memory with the turn that it is of (turn_send() in memory.cuh); a layer of a launch
// is a turn, launches count on. Nothing is ever cleared: a word is written again when everybody has read it, for whoever writes
// it had to wait for what its readers made of it.
#ifndef WEFT_KERNELS_TOKEN_DEVICE_H
#define WEFT_KERNELS_TOKEN_DEVICE_H

#include "src/kernels/attention/attention_device.h"

enum {
    WEFT__TOKEN_MULTIPLIERS = 16, // warps that multiply
    WEFT__TOKEN_THREADS =
        (WEFT__TOKEN_MULTIPLIERS + 4) * 32, // one warp asks, two deliver, one fills their warpgroup
    WEFT__TOKEN_MOST_OWN = 16,              // groups of 32 of a row that an SM delivers, at most
    WEFT__TOKEN_UNIT_BYTES = 48,            // 32 rounded numbers of a row (token_shared.cuh)
    WEFT__TOKEN_NUMBERS_BYTES = 144,        // 32 numbers of 32 bits (token_plain.cuh)
    WEFT__TOKEN_PLAIN_TILE_COLS = 64,       // of plain weights, sixteen rows
    WEFT__TOKEN_PLAIN_TILE_BYTES = 2048,
    WEFT__TOKEN_COUNTER_BYTES = 128,
    WEFT__TOKEN_SECOND_WORDS = 8, // a bit a layer
};

// Rows that are handed over, each with its counter of deliveries.
enum weft__token_row {
    WEFT__TOKEN_ROW_qkv,      // X of Q, K and V
    WEFT__TOKEN_ROW_heads,    // queries, the new key and value
    WEFT__TOKEN_ROW_attended, // X of O
    WEFT__TOKEN_ROW_up,       // X of gate and up
    WEFT__TOKEN_ROW_down,     // X of down
    WEFT__TOKEN_ROWS,
};

// Matrices of plain weights (f16, bf16), whose rows lie as a file has them: their tensor maps.
enum weft__token_map {
    WEFT__TOKEN_MAP_q,
    WEFT__TOKEN_MAP_k,
    WEFT__TOKEN_MAP_v,
    WEFT__TOKEN_MAP_o,
    WEFT__TOKEN_MAP_gate,
    WEFT__TOKEN_MAP_up,
    WEFT__TOKEN_MAP_down,
    WEFT__TOKEN_MAPS,
};

#define WEFT__TOKEN_PLAIN(format) ((format) == 2 || (format) == 3)

// A layer's weights, packed. q, k, v: in the first layer NULL where a launch before makes Q, K and V.
struct __attribute__((aligned(64))) weft__token_layer {
    unsigned char k_map[128],
        v_map[128]; // tensor maps of the layer's page pool (copy_box_of_pile())
    unsigned char maps[WEFT__TOKEN_MAPS][128]; // plain weights
    const void *q, *k, *v, *o, *gate, *up, *down;
    const float *up_norm,
        *next_norm; // weights of the norms before gate and up, and before the next layer; NULL = 1
    void *keys, *values;                          // of the layer's page pool
    struct weft__attention_device_args attention; // what its launch was given
};

struct __attribute__((aligned(64))) weft__token_args {
    struct weft__attention_device_args attention; // of the first layer
    const struct weft__token_layer *layers;
    const float *stream; // the residual stream as the launch finds it, of 32-bit floats
    float *result;       // and as it leaves it; may be the same
    uint32_t *launches;  // how many there were, then the counters, WEFT__TOKEN_COUNTER_BYTES apart
    uint64_t *heads;     // [rows of Q, K and V] words
    uint64_t *pieces; // [KV heads][splits][32 columns of a query head][largest, sum, columns] words
    uint64_t *halves; // [rows of gate / 16][16] words
    const void *first_x; // rounded, of the first layer's Q, K, V (WEFT_BEGINS)
    const void *output;  // the matrix of logits (WEFT_LOGITS), packed
    float *logits;
    uint64_t *best; // of each SM's logits, for the choice behind (sample_device.h); or NULL
    void *rows[WEFT__TOKEN_ROWS];                // of words of three, or of numbers; of heads NULL
    uint32_t second_v[WEFT__TOKEN_SECOND_WORDS], // layers whose V, and down, have the second format
        second_down[WEFT__TOKEN_SECOND_WORDS];
    int32_t num_layers;
    float qkv_eps, up_eps, norm_plus; // norm_plus is added to weights of norms
};

// A slot of the ring, in tiles of so many bytes. Boxes of keys and values want 1024-byte boundaries in it.
#define WEFT__TOKEN_SLOT_TILES(tile_bytes) ((tile_bytes) >= 4352 ? 2 : 4)
#define WEFT__TOKEN_KEYS_FIT(slot_bytes, head_dim)                                                 \
    (64 * (head_dim) + ((slot_bytes) % 1024 ? 1024 - ((slot_bytes) & -(slot_bytes)) : 0) <=        \
     (slot_bytes))

// Of slots on their way: more bytes, and words that everybody waits for queue behind them; fewer, and memory rests (NOTES.md).
// Slots of plain weights are so soon multiplied that more on their way are no harm.
#define WEFT__TOKEN_FLIGHT(slot_bytes, plain)                                                      \
    (((plain) ? 65536 : 53248) / (slot_bytes) < 2 ? 2 : ((plain) ? 65536 : 53248) / (slot_bytes))

// A slot's parity says which time it is: who waits for one has had the one of its team before, all of whose forerunners but those on
// their way had come then.
#define WEFT__TOKEN_LEAST_SLOTS(flight, slot_tiles)                                                \
    (2 * WEFT__TOKEN_MULTIPLIERS / (slot_tiles) + (flight))

// Shared memory: the ring | X of Q, K, V, gate, up | X of O and down, between them states of attention | the rest.
#define WEFT__TOKEN_X_BYTES(cols)       ((cols) + (cols) / 4 + (cols) / 8)
#define WEFT__TOKEN_LONG_X_BYTES(cols)  ((cols) + (cols) / 4) // without squares
#define WEFT__TOKEN_PLAIN_X_BYTES(cols) ((cols)*4)            // of all matrices, one at a time
#define WEFT__TOKEN_MOST_SLOTS          32
#define WEFT__TOKEN_SHARED_BYTES        (15 * 1024)

#endif
