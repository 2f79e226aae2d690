// SPDX-License-Identifier: MIT
// Tiles of AMX: eight squares of 16 rows of 64 bytes beside the vector registers. A product takes a tile of
// rows and a tile of columns that lie in pairs:
//
//      a[m][2 k + i]   16 rows x 32 bf16         b[k][2 n + i]   16 pairs x 16 columns x 2 bf16
//      c[m][n] += sum over k, i of a[m][2 k + i] * b[k][2 n + i]
//
// Even and odd k are summed apart from c and added to it once, so that a sum of n columns is n / 32 + 17
// additions deep. Numbers below 2^-126 count as zero, as in vdpbf16ps.
//
// With WEFT__AMX_STANDIN the tiles are arrays: a test runs kernels where no such processor is.
#ifndef WEFT_KERNELS_CPU_AMX_H
#define WEFT_KERNELS_CPU_AMX_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

enum { TILE_ROWS = 16, TILE_ROW_BYTES = 64, TILE_BYTES = TILE_ROWS * TILE_ROW_BYTES };

#ifndef WEFT__AMX_STANDIN

// All eight tiles of the thread get their full size. What was in them is lost.
static inline void tiles_begin(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int tile = 0; tile < 8; tile++) {
        config.row_bytes[tile] = TILE_ROW_BYTES;
        config.rows[tile] = TILE_ROWS;
    }
    _tile_loadconfig(&config);
}

// The tiles are given back: the system need not save them any more.
static inline void tiles_end(void)
{
    _tile_release();
}

// Macros, as a tile's number is part of the instruction. Rows lie one after another.
#define tile_zero(tile)        _tile_zero(tile)
#define tile_load(tile, from)  _tile_loadd(tile, from, TILE_ROW_BYTES)
#define tile_store(tile, to)   _tile_stored(tile, to, TILE_ROW_BYTES)
#define tile_dot_bf16(c, a, b) _tile_dpbf16ps(c, a, b)

#else

static _Thread_local _Alignas(64) unsigned char standin_tiles[8][TILE_BYTES];

static inline void tiles_begin(void)
{
    memset(standin_tiles, 0xff, sizeof standin_tiles);
}

static inline void tiles_end(void)
{
    memset(standin_tiles, 0xff, sizeof standin_tiles);
}

static inline void tile_zero(int tile)
{
    memset(standin_tiles[tile], 0, TILE_BYTES);
}

static inline void tile_load(int tile, const void *from)
{
    memcpy(standin_tiles[tile], from, TILE_BYTES);
}

static inline void tile_store(int tile, void *to)
{
    memcpy(to, standin_tiles[tile], TILE_BYTES);
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
            for (int k = 0; k < 32; k++)
                sum[k % 2] += standin_bf16(a[m][k]) * standin_bf16(b[k / 2][2 * n + k % 2]);
            c[m][n] += sum[0] + sum[1];
        }
    memcpy(standin_tiles[c_tile], c, sizeof c);
}

#endif

#endif
