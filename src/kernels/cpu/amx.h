// SPDX-License-Identifier: MIT
// Tiles of AMX: eight squares of up to 16 rows of 64 bytes beside the vector registers. 0 to 3 are sums, 4 and 5
// have rows of one factor, 6 and 7 columns of the other, which lie in words of 32 bits: two bf16 or four bytes.
//
//      a[m][w k + i]   16 rows of `words` words      b[k][w n + i]   `words` rows of 16 words, w = 2 or 4
//      c[m][n] += sum over k, i of a[m][w k + i] * b[k][w n + i]
//
// bf16: even and odd numbers are summed apart from c and added to it once, so that a sum of n columns is n / 32 + 17
// additions deep. Numbers below 2^-126 count as zero, as in vdpbf16ps.
//
// With WEFT__AMX_STANDIN the tiles are arrays: a test runs kernels where no such processor is.
#ifndef WEFT_KERNELS_CPU_AMX_H
#define WEFT_KERNELS_CPU_AMX_H

#include <immintrin.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

enum { TILE_ROWS = 16, TILE_ROW_BYTES = 64, TILE_BYTES = TILE_ROWS * TILE_ROW_BYTES };

// What the tiles of a thread are: rows, and bytes of a row.
struct tile_shapes {
    uint8_t rows[8];
    uint16_t row_bytes[8];
};

static inline struct tile_shapes tile_shapes_of(int words)
{
    struct tile_shapes shapes;
    for (int tile = 0; tile < 8; tile++) {
        shapes.row_bytes[tile] = (uint16_t)(tile / 2 == 2 ? 4 * words : TILE_ROW_BYTES);
        shapes.rows[tile] = (uint8_t)(tile / 2 == 3 ? words : TILE_ROWS);
    }
    return shapes;
}

#ifndef WEFT__AMX_STANDIN

// The tiles of the thread get their sizes. What was in them is lost.
static inline void tiles_begin_as(struct tile_shapes shapes)
{
    // volatile: gcc takes the instruction to read 8 bytes of it, and may leave out what is written to the others
    volatile struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int tile = 0; tile < 8; tile++) {
        config.row_bytes[tile] = shapes.row_bytes[tile];
        config.rows[tile] = shapes.rows[tile];
    }
    _tile_loadconfig((const void *)&config);
}

// The tiles are given back: the system need not save them any more.
static inline void tiles_end(void)
{
    _tile_release();
}

// Macros, as a tile's number is part of the instruction. `stride` is the bytes from row to row.
#define tile_zero(tile)               _tile_zero(tile)
#define tile_load(tile, from, stride) _tile_loadd(tile, from, stride)
#define tile_load_once(tile, from, stride)                                                         \
    _tile_stream_loadd(tile, from, stride) // not for the first cache
#define tile_store(tile, to)              _tile_stored(tile, to, TILE_ROW_BYTES)
#define tile_store_rows(tile, to, stride) _tile_stored(tile, to, stride)
#define tile_dot_bf16(c, a, b)            _tile_dpbf16ps(c, a, b)
#define tile_dot_i8_u8(c, a, b)           _tile_dpbsud(c, a, b)
#define tile_dot_i8_i8(c, a, b)           _tile_dpbssd(c, a, b)

#else

static _Thread_local _Alignas(64) unsigned char standin_tiles[8][TILE_ROWS][TILE_ROW_BYTES];
static _Thread_local struct tile_shapes standin_shapes;

static inline void tiles_begin_as(struct tile_shapes shapes)
{
    memset(standin_tiles, 0xff, sizeof standin_tiles);
    standin_shapes = shapes;
}

static inline void tiles_end(void)
{
    tiles_begin_as(tile_shapes_of(0));
}

static inline void tile_zero(int tile)
{
    memset(standin_tiles[tile], 0, TILE_BYTES);
}

static inline void tile_load(int tile, const void *from, int64_t stride)
{
    memset(standin_tiles[tile], 0, TILE_BYTES); // as the tiles do beyond their sizes
    for (int row = 0; row < standin_shapes.rows[tile]; row++)
        memcpy(standin_tiles[tile][row], (const char *)from + row * stride,
               standin_shapes.row_bytes[tile]);
}

static inline void tile_load_once(int tile, const void *from, int64_t stride)
{
    tile_load(tile, from, stride);
}

static inline void tile_store_rows(int tile, void *to, int64_t stride)
{
    for (int row = 0; row < standin_shapes.rows[tile]; row++)
        memcpy((char *)to + row * stride, standin_tiles[tile][row], standin_shapes.row_bytes[tile]);
}

static inline void tile_store(int tile, void *to)
{
    tile_store_rows(tile, to, TILE_ROW_BYTES);
}

static inline float standin_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    if (!(bits & 0x7f800000u)) // below 2^-126
        bits &= 0x80000000u;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline void tile_dot_bf16(int c_tile, int a_tile, int b_tile)
{
    uint16_t a[16][32], b[16][32];
    float c[16][16];
    memcpy(a, standin_tiles[a_tile], sizeof a);
    memcpy(b, standin_tiles[b_tile], sizeof b);
    memcpy(c, standin_tiles[c_tile], sizeof c);
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++) {
            float sum[2] = {0, 0};
            for (int k = 0; k < standin_shapes.row_bytes[a_tile] / 2; k++)
                sum[k % 2] += standin_bf16(a[m][k]) * standin_bf16(b[k / 2][2 * n + k % 2]);
            c[m][n] += sum[0] + sum[1];
        }
    memcpy(standin_tiles[c_tile], c, sizeof c);
}

static inline void standin_dot_i8(int c_tile, int a_tile, int b_tile, int negative)
{
    unsigned char(*a)[TILE_ROW_BYTES] = standin_tiles[a_tile],
             (*b)[TILE_ROW_BYTES] = standin_tiles[b_tile];
    int32_t c[16][16];
    memcpy(c, standin_tiles[c_tile], sizeof c);
    for (int m = 0; m < standin_shapes.rows[c_tile]; m++)
        for (int n = 0; n < standin_shapes.row_bytes[c_tile] / 4; n++)
            for (int k = 0; k < standin_shapes.row_bytes[a_tile]; k++)
                c[m][n] += (int8_t)a[m][k] * (int)((b[k / 4][4 * n + k % 4] ^ negative) - negative);
    memcpy(standin_tiles[c_tile], c, sizeof c);
}

static inline void tile_dot_i8_u8(int c_tile, int a_tile, int b_tile)
{
    standin_dot_i8(c_tile, a_tile, b_tile, 0);
}

static inline void tile_dot_i8_i8(int c_tile, int a_tile, int b_tile)
{
    standin_dot_i8(c_tile, a_tile, b_tile, 0x80);
}

#endif

// What was written is in memory: gcc does not know that tiles read it.
static inline void tiles_written(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

static inline void tiles_begin(int words)
{
    tiles_begin_as(tile_shapes_of(words));
}

#endif
