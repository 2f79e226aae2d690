// SPDX-License-Identifier: MIT
// A tile of the second format and a tile of X. Of q6_k it is held in registers, so that its slot can be asked for anew before it is
// multiplied, and the first is taken before X is there; others are multiplied where they lie.
#ifndef WEFT_KERNELS_TOKEN_SECOND_TILE_CUH
#define WEFT_KERNELS_TOKEN_SECOND_TILE_CUH

#define SECOND_HOLDS (WEFT_SECOND == FORMAT_Q6_K)

#if SECOND_HOLDS

struct second_tile {
    uint4 low[4];     // of pair p
    uint2 high[4];    // its upper two bits, of each unit a word
    uint32_t fine[2]; // of rows r and r + 8: scales of the lane's four sixteens, bytes
    uint32_t d;       // two f16
};

enum {
    Q6_K_META = 4 * 768, // where a tile's scales begin
    Q6_K_OFFSET = -32,   // of its codes
};

DEVICE void second_take(struct second_tile *t, struct turn_of_slot turn, int32_t half, int32_t lane)
{
    const uint8_t *tile =
        shared_memory() + turn.at * SLOT + half * second_format::SECOND_TILE_BYTES;
    const uint8_t *meta = tile + Q6_K_META;
    const int32_t r = lane / 4, c = lane % 4;
    uint32_t all;
    slot_wait_turn(turn);
#pragma unroll
    for (int32_t p = 0; p < 4; p++) {
        t->low[p] = *(const uint4 *)(tile + p * 512 + lane * 16);
        t->high[p] = *(const uint2 *)(tile + 2048 + p * 256 + lane * 8);
    }
#pragma unroll
    for (int32_t i = 0; i < 2; i++)
        t->fine[i] = *(const uint32_t *)(meta + (r + 8 * i) * 16 + c * 4);
    t->d = *(const uint16_t *)(meta + 256 + r * 2) |
           (uint32_t) * (const uint16_t *)(meta + 256 + (r + 8) * 2) << 16;
    all = t->fine[0] ^ t->fine[1] ^ t->d;
#pragma unroll
    for (int32_t p = 0; p < 4; p++)
        all ^= t->low[p].x ^ t->high[p].x;
    slot_give_back(turn.at, all, lane);
}

// What a lane has of a tile of X: of column n = lane / 4 of B, sixteen n % 2 of units 2 (n / 2) and 2 (n / 2) + 1.
DEVICE uint2 second_column(const uint8_t *x, int32_t lane)
{
    const uint8_t *at = x + lane / 8 * 64 + lane % 4 * 16 + lane / 4 % 2 * 4;
    return make_uint2(*(const uint32_t *)at, *(const uint32_t *)(at + 8));
}

// acc += the tile times tile `tile` of X, in the order of tile_scale() (linear_few_one.cuh). Columns 2 p and 2 p + 1 of B are the
// sixteens of a unit of pair p, the other sixteen's numbers and other pairs' zero: products of 32 columns add up sixteens apart.
DEVICE void second_add(const struct second_tile *t, const uint8_t *row, int32_t cols, int32_t tile,
                       int32_t, int32_t lane, float acc[2])
{
    const uint32_t l = (uint32_t)computed_here(lane);
    const uint4 own = ((const uint4 *)(row + cols))[(uint32_t)tile * 4 + l % 4];
    const uint2 x = second_column(row + tile * 256, (int32_t)l);
    const struct second_format::x_meta meta[2] = {second_format::x_meta_of(own, 0),
                                                  second_format::x_meta_of(own, 1)};
    const bool odd = l / 4 % 2;
    int32_t d[2][4];
#pragma unroll
    for (int32_t k = 0; k < 8; k++)
        d[k / 4][k % 4] = second_format::one_start(meta[k / 4], Q6_K_OFFSET, k % 2);
#pragma unroll
    for (uint32_t p = 0; p < 4; p++) {
        const uint32_t w[4] = {t->low[p].x, t->low[p].y, t->low[p].z, t->low[p].w};
        const uint32_t first = l / 8 == p ? x.x : 0, second = l / 8 == p ? x.y : 0;
        uint32_t a[2][4];
#pragma unroll
        for (int32_t j = 0; j < 4; j++) {
            a[0][j] = (w[j] & 0x0f0f0f0fu) |
                      (second_format::shifted(t->high[p].x, 4 - 2 * j) & 0x30303030u);
            a[1][j] = (w[j] >> 4 & 0x0f0f0f0fu) |
                      (second_format::shifted(t->high[p].y, 4 - 2 * j) & 0x30303030u);
        }
        mma_u8_k32(d[0], a[0], odd ? 0 : first, odd ? first : 0);
        mma_u8_k32(d[1], a[1], odd ? 0 : second, odd ? second : 0);
    }
    const float2 of_row = f16x2_float2(t->d);
#pragma unroll
    for (int32_t h = 0; h < 2; h++)
#pragma unroll
        for (int32_t g = 0; g < 2; g++)
#pragma unroll
            for (int32_t i = 0; i < 2; i++) {
                const float dot = __int_as_float(d[h][2 * i + g]) - MAGIC;
                const float scale =
                    second_format::times_byte(i ? of_row.y : of_row.x, t->fine[i], 2 * h + g, 128);
                acc[i] = fmaf(dot * meta[h].scale, scale, acc[i]);
            }
}

DEVICE void second_end(const struct second_tile *, const float[2], int32_t)
{
}

#else

struct second_tile {
    int32_t at; // its slot
};

DEVICE void second_take(struct second_tile *t, struct turn_of_slot turn, int32_t, int32_t)
{
    t->at = turn.at;
    slot_wait_turn(turn);
}

DEVICE void second_add(const struct second_tile *t, const uint8_t *row, int32_t cols, int32_t tile,
                       int32_t half, int32_t lane, float acc[2])
{
    const uint8_t *weights =
        shared_memory() + t->at * SLOT + half * second_format::SECOND_TILE_BYTES;
    const second_format::one_x x = second_format::one_x_of(row, row + cols, tile, lane);
    second_format::one_multiply(&x, weights, 4, lane, acc);
}

DEVICE void second_end(const struct second_tile *t, const float acc[2], int32_t lane)
{
    slot_give_back(t->at, float_bits(acc[0]) ^ float_bits(acc[1]), lane);
}

#endif

#endif
