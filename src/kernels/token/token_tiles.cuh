// SPDX-License-Identifier: MIT
// Tiles of the warps that multiply: how a slot of the ring is taken, what its tiles are multiplied by, and the products.
#ifndef WEFT_KERNELS_TOKEN_TILES_CUH
#define WEFT_KERNELS_TOKEN_TILES_CUH

#include "src/kernels/token/token_attend.cuh"

// Two tiles of a slot: held in registers, so that the slot can be asked for anew before they are multiplied, or where they lie.
#if PLAIN
#define HOLDS 0
#else
#define HOLDS       (TILE_IN_PLACE && (FORMAT_IS_F16_PER_32 || WEFT_FORMAT == FORMAT_Q4_K))
#define HOLDS_SUPER (HOLDS && TILE_SUPER)
#endif

// A slot of the ring and the parity of its time.
struct turn_of_slot {
    int32_t at;
    uint32_t parity;
};

DEVICE struct turn_of_slot turn_of(uint32_t seq)
{
    const struct turn_of_slot turn = {(int32_t)(seq % DEPTH), seq / DEPTH & 1};
    return turn;
}

// The next of the team.
DEVICE void turn_next(struct turn_of_slot *turn)
{
    turn->at += TEAMS;
    if (turn->at >= DEPTH)
        turn->at -= DEPTH, turn->parity ^= 1;
}

// Of a lane's two units in rows r and r + 8.
#if HOLDS_SUPER
struct held_scales {
    uint32_t d[2];    // of a row, two f16: of scales, of minima
    uint32_t fine[2]; // bytes: scales, minima
};
#else
struct held_scales {
    uint32_t unit[2]; // two f16: rows r and r + 8
};
#endif

#if HOLDS

// `loaded`: what was read, each load in one number.
DEVICE struct held_scales held_scales_load(const uint8_t *tile, int32_t lane, uint32_t *loaded)
{
    const int32_t r = lane / 4, c = lane % 4;
    struct held_scales s;
#if HOLDS_SUPER
    // bytes of the lane's two units are picked before bits are put together: half of the instructions, and these are many
    const uint32_t pick = c % 2 ? 0x7632 : 0x5410, behind = c < 2 ? 0 : 2;
    const uint32_t kept = c < 2 ? 0x3f3f3f3fu : 0x30303030u, below = c < 2 ? 0 : 0x0f0f0f0fu;
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const uint4 w = *(const uint4 *)(tile + 4 * PAIR_LOW + (r + 8 * i) * 16);
        s.d[i] = w.x;
        s.fine[i] = (byte_permute(w.y, w.z, pick) >> behind & kept) |
                    (byte_permute(w.w, w.w >> 4, pick) & below);
        *loaded ^= w.x;
    }
#else
    const uint2 w = *(const uint2 *)(tile + 4 * PAIR_LOW + c * 64 + r * 8);
    s.unit[0] = w.x, s.unit[1] = w.y;
    *loaded ^= w.x;
#endif
    return s;
}

#endif

struct tiles {
#if HOLDS
    uint4 codes[2][4];
    struct held_scales scales[2];
#endif
    int32_t at; // their slot
};

// A team's are one behind the other, tile i of each warp.
DEVICE const uint8_t *tile_at(int32_t slot, int32_t i, int32_t half)
{
    return shared_memory() + slot * SLOT + (TEAM_WARPS * i + half) * TILE;
}

DEVICE void slot_give_back(int32_t slot, uint32_t of_all_loads, int32_t lane)
{
    loads_end(of_all_loads);
    __syncwarp();
    if (lane == 0)
        barrier_arrive_as<READERS / TEAM_WARPS>(shared_address(shared_rest()->empty + slot));
}

DEVICE void slot_wait_turn(struct turn_of_slot turn)
{
    barrier_wait(shared_address(shared_rest()->full + turn.at), turn.parity);
}

// Waits for a slot; half: which of the team the warp is.
DEVICE void tiles_take(struct tiles *t, struct turn_of_slot turn, int32_t half, int32_t lane)
{
    t->at = turn.at;
    slot_wait_turn(turn);
#if HOLDS
    uint32_t all = 0;
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const uint8_t *tile = tile_at(turn.at, i, half);
#pragma unroll
        for (int32_t p = 0; p < 4; p++)
            t->codes[i][p] = *(const uint4 *)(tile + p * PAIR_LOW + lane * 16);
        t->scales[i] = held_scales_load(tile, lane, &all);
    }
#pragma unroll
    for (int32_t i = 0; i < 2; i++)
        all ^= t->codes[i][0].x ^ t->codes[i][1].x ^ t->codes[i][2].x ^ t->codes[i][3].x;
    slot_give_back(turn.at, all, lane);
#else
    (void)half, (void)lane;
#endif
}

DEVICE void tiles_end(const struct tiles *t, int32_t lane, const float sum[2][2])
{
#if !HOLDS
    slot_give_back(t->at,
                   float_bits(sum[0][0]) ^ float_bits(sum[0][1]) ^ float_bits(sum[1][0]) ^
                       float_bits(sum[1][1]),
                   lane);
#else
    (void)t, (void)lane, (void)sum;
#endif
}

#if PLAIN // token_plain.cuh
#elif HOLDS

// What a tile is multiplied by. Columns of B are the x of their units in products of their own pair, and zeros in others, so that all
// products of a tile add up in two chains and lane (r, c) has its units' at its end: 8 zeros for two tiles instead of 12 choices a tile.
struct tile_x {
    uint2 b
        [4]; // of pair p; or of all as it comes, in b[0]: zeros are put in for every tile where registers are scarce
    float scale[2];   // of a unit; where there are no minima, by what its products are too large
    int32_t start[2]; // of its sum; where there are minima, what they are multiplied by
};

DEVICE uint2 b_of_pair(uint2 b, uint32_t p, uint32_t lane)
{
    return make_uint2(lane / 8 == p ? b.x : 0, lane / 8 == p ? b.y : 0);
}

// The four pairs of B are kept where X is loaded once a matrix, of one column, or scales are few.
DEVICE bool b_kept(enum form form, bool fixed)
{
    return !HOLDS_SUPER || (fixed && form == PAIRS);
}

DEVICE struct tile_x tile_x_of(const uint8_t *row, int32_t cols, int32_t tile, bool kept,
                               int32_t lane)
{
    struct tile_x x;
    const uint32_t l = (uint32_t)lane;
    const uint2 b = one_column(row + tile * 256, (int32_t)(l / 4), (int32_t)(l % 4), true);
    const uint4 own = ((const uint4 *)(row + cols))[(uint32_t)tile * 4 + l % 4];
#pragma unroll
    for (uint32_t p = 0; p < 4; p++)
        x.b[p] = kept ? b_of_pair(b, p, l) : b;
#pragma unroll
    for (int32_t h = 0; h < 2; h++) {
        const struct x_meta meta = x_meta_of(own, h);
        x.scale[h] = TILE_MIN ? meta.scale : meta.scale * (1.0f / (float)ONE_FACTOR(h, 0));
        x.start[h] = one_start(meta, ONE_OFFSET(h, 0), 0);
    }
    return x;
}

static_assert(!TILE_MIN || (ONE_OFFSET(0, 0) == 1 && ONE_OFFSET(1, 0) == 1 && SIXTEENS == 1),
              "products start from the sum of x");

// B of a tile of X, pair by pair: zero but for a lane's own pair.
DEVICE void tile_b(const struct tile_x *x, bool kept, int32_t lane, uint2 b[4])
{
    const uint32_t l = (uint32_t)computed_here(lane);
#pragma unroll
    for (uint32_t p = 0; p < 4; p++)
        b[p] = kept ? x->b[p] : b_of_pair(x->b[0], p, l);
}

// acc += both products of tile i of the two: of units of low and of high codes.
DEVICE void tile_end(const struct tiles *t, int32_t i, const struct tile_x *x, const int32_t low[4],
                     const int32_t high[4], float acc[2])
{
#pragma unroll
    for (int32_t h = 0; h < 2; h++)
#pragma unroll
        for (int32_t j = 0; j < 2; j++) {
            const float dot = __int_as_float(h ? high[2 * j + 1] : low[2 * j]) - MAGIC;
#if HOLDS_SUPER
            const float2 d = f16x2_float2(t->scales[i].d[j]);
            const uint32_t fine = t->scales[i].fine[j];
            const float by = x->scale[h] * (1.0f / (float)ONE_FACTOR(h, 0));
            const float of_x = (__int_as_float(x->start[h]) - MAGIC) * x->scale[h];
            acc[j] = fmaf(dot * by, times_byte(d.x, fine, h, 0), acc[j]);
            acc[j] = fmaf(of_x, times_byte(-d.y, fine, 2 + h, 0), acc[j]);
#else
            const float2 scale = f16x2_float2(t->scales[i].unit[h]);
            acc[j] = fmaf(dot * x->scale[h], j ? scale.y : scale.x, acc[j]);
#endif
        }
}

// sum[i] += tile first + i of the two times a tile of X, whose B is b: their products by turns, for each waits for the one before of its
// tile.
DEVICE void held_add(const struct tiles *t, int32_t first, int32_t count, const struct tile_x *x,
                     const uint2 b[4], float sum[][2])
{
    int32_t low[2][4], high[2][4];
#pragma unroll
    for (int32_t i = 0; i < count; i++)
#pragma unroll
        for (int32_t k = 0; k < 4; k++)
            low[i][k] = x->start[k % 2];
#pragma unroll
    for (int32_t p = 0; p < 4; p++)
#pragma unroll
        for (int32_t i = 0; i < count; i++) {
            const uint4 w = t->codes[first + i][p];
            const uint32_t a[4] = {~(w.x & 0x0f0f0f0fu), ~(w.y & 0x0f0f0f0fu), ~(w.z & 0x0f0f0f0fu),
                                   ~(w.w & 0x0f0f0f0fu)};
            mma_s8_k32(low[i], a, b[p].x, b[p].y);
        }
#pragma unroll
    for (int32_t i = 0; i < count; i++)
#pragma unroll
        for (int32_t k = 0; k < 4; k++)
            high[i][k] = low[i][k];
#pragma unroll
    for (int32_t p = 0; p < 4; p++)
#pragma unroll
        for (int32_t i = 0; i < count; i++) {
            const uint4 w = t->codes[first + i][p];
            const uint32_t a[4] = {w.x, w.y, w.z, w.w};
            mma_u8_k32(high[i], a, b[p].x, b[p].y);
        }
#pragma unroll
    for (int32_t i = 0; i < count; i++)
        tile_end(t, first + i, x, low[i], high[i], sum[i]);
}

#else

#define tile_x one_x

DEVICE bool b_kept(enum form, bool)
{
    return false;
}

DEVICE struct one_x tile_x_of(const uint8_t *row, int32_t cols, int32_t tile, bool, int32_t lane)
{
    return one_x_of(row, row + cols, tile, lane);
}

DEVICE void tile_add(const struct tiles *t, int32_t i, int32_t half, const struct tile_x *x,
                     int32_t lane, float acc[2])
{
    one_multiply(x, tile_at(t->at, i, half), 4, lane, acc);
}

#endif

#if !PLAIN

// X of both tiles of a slot: of column `first` of two blocks of rows, or of two columns of one.
struct slot_x {
    struct tile_x of[2];
};

// Columns between a warp's two tiles of a slot.
DEVICE int32_t columns_apart(enum form form)
{
    return form == PAIRS ? 0 : TEAM_WARPS;
}

// The team's first column of slot `at` of a unit.
DEVICE int32_t column_of(enum form form, int32_t at)
{
    return at * (form == ROWS_ALONE ? SLOT_TILES : TEAM_WARPS);
}

DEVICE void slot_x_load(struct slot_x *x, enum form form, bool kept, const uint8_t *row,
                        int32_t cols, int32_t first, int32_t lane)
{
    const int32_t second = first + columns_apart(form);
    if (first * 256 < cols)
        x->of[0] = tile_x_of(row, cols, first, kept, lane);
    if (form != PAIRS && second * 256 < cols)
        x->of[1] = tile_x_of(row, cols, second, kept, lane);
}

// x: loaded before, or (`fresh`) here. Where tiles are not held, registers are there for one X at a time.
DEVICE void tiles_add(const struct tiles *t, enum form form, bool fresh, int32_t half,
                      struct slot_x *x, const uint8_t *row, int32_t cols, int32_t first,
                      int32_t lane, float sum[2][2])
{
    const int32_t second = first + columns_apart(form);
    const bool kept = b_kept(form, !fresh);
#if HOLDS
    enum { // are all slots whole?
        ROWS_WHOLE = EMBED / 256 % SLOT_TILES == 0,
        PAIRS_WHOLE = EMBED / 256 % TEAM_WARPS == 0 && WIDE / 256 % TEAM_WARPS == 0 &&
                      ATTENDED / 256 % TEAM_WARPS == 0
    };
    (void)half;
    if (fresh)
        slot_x_load(x, form, kept, row, cols, first, lane);
    uint2 b[4];
    if ((form == PAIRS ? PAIRS_WHOLE : ROWS_WHOLE) || first * 256 < cols) {
        tile_b(&x->of[0], kept, lane, b);
        held_add(t, 0, form == PAIRS ? 2 : 1, &x->of[0], b, sum);
    }
    if (form != PAIRS &&
        (ROWS_WHOLE || second * 256 < cols)) { // registers are there for one X at a time
        tile_b(&x->of[1], kept, lane, b);
        held_add(t, 1, 1, &x->of[1], b, sum + 1);
    }
#else
    (void)fresh;
    if (first * 256 < cols) {
        x->of[0] = tile_x_of(row, cols, first, kept, lane);
        tile_add(t, 0, half, &x->of[0], lane, sum[0]);
    }
    if (second * 256 < cols) {
        x->of[0] = tile_x_of(row, cols, second, kept, lane);
        tile_add(t, 1, half, &x->of[0], lane, sum[1]);
    }
#endif
}

#endif

#endif
