// SPDX-License-Identifier: MIT
// The warps that multiply. Two warps, a team, have a slot of the ring, two tiles each of it; teams take slots in turn, so that
// tiles t, t + 16 ... of a row come to the same warp in their order, as in a launch of sixteen warps a row.
#ifndef WEFT_KERNELS_TOKEN_MULTIPLY_CUH
#define WEFT_KERNELS_TOKEN_MULTIPLY_CUH

#include "src/kernels/token/token_attend.cuh"

// Two tiles of a slot: held in registers, so that the slot can be asked for anew before they are multiplied, or where they lie.
#define HOLDS (TILE_IN_PLACE && FORMAT_IS_F16_PER_32)

struct tiles {
#if HOLDS
    uint4 codes[2][4];
    uint2 scales[2];
#endif
    uint32_t seq;
};

DEVICE const uint8_t *tile_at(uint32_t seq, int32_t i, int32_t half)
{
    return shared_slot(seq) + (TEAM_WARPS * i + half) * TILE;
}

// Waits for slot `seq`; half: which of the team the warp is.
DEVICE void tiles_take(struct tiles *t, uint32_t seq, int32_t half, int32_t lane)
{
    t->seq = seq;
    slot_wait(seq);
#if HOLDS
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const uint8_t *tile = tile_at(seq, i, half);
#pragma unroll
        for (int32_t p = 0; p < 4; p++)
            t->codes[i][p] = *(const uint4 *)(tile + p * PAIR_LOW + lane * 16);
        t->scales[i] = *(const uint2 *)(tile + 4 * PAIR_LOW + lane % 4 * 64 + lane / 4 * 8);
    }
    uint32_t all = t->scales[0].x ^ t->scales[1].x;
#pragma unroll
    for (int32_t i = 0; i < 8; i++)
        all ^= t->codes[i / 4][i % 4].x;
    loads_end(all);
    __syncwarp();
    if (lane == 0)
        slot_release<READERS / TEAM_WARPS>(seq);
#else
    (void)half, (void)lane;
#endif
}

DEVICE void tiles_end(const struct tiles *t, int32_t lane, const float sum[2][2])
{
#if !HOLDS
    loads_end(float_bits(sum[0][0]) ^ float_bits(sum[0][1]) ^ float_bits(sum[1][0]) ^
              float_bits(sum[1][1]));
    __syncwarp();
    if (lane == 0)
        slot_release<READERS / TEAM_WARPS>(t->seq);
#else
    (void)t, (void)lane, (void)sum;
#endif
}

// acc += tile i of the two times column `tile` of the row of X in `row`.
DEVICE void tile_add(const struct tiles *t, int32_t i, int32_t half, const uint8_t *row,
                     int32_t cols, int32_t tile, int32_t lane, float acc[2])
{
#if HOLDS
    (void)half;
    const int32_t r = lane / 4, c = lane % 4;
    const uint2 b = one_column(row + tile * 256, r, c, true);
    const uint4 own = ((const uint4 *)(row + cols))[tile * 4 + c];
    const struct x_meta meta[2] = {x_meta_of(own, 0), x_meta_of(own, 1)};
    int32_t start[4], kept[4];
#pragma unroll
    for (int32_t k = 0; k < 4; k++)
        start[k] = one_start(meta[k % 2], ONE_OFFSET(k % 2, k / 2), 0);
#pragma unroll
    for (int32_t p = 0; p < 4; p++) {
        const uint32_t w[4] = {t->codes[i][p].x, t->codes[i][p].y, t->codes[i][p].z,
                               t->codes[i][p].w};
        uint32_t low[4];
        int32_t d[2][4] = {{start[0], start[1], start[2], start[3]}};
#pragma unroll
        for (int32_t j = 0; j < 4; j++)
            low[j] = ~(w[j] & 0x0f0f0f0fu);
        mma_s8_k32(d[0], low, b.x, b.y);
#pragma unroll
        for (int32_t k = 0; k < 4; k++)
            d[1][k] = d[0][k];
        mma_u8_k32(d[1], w, b.x, b.y);
#pragma unroll
        for (int32_t k = 0; k < 4; k++)
            kept[k] = p == 0 || p == c ? d[k % 2][k] : kept[k];
    }
#pragma unroll
    for (int32_t h = 0; h < 2; h++) {
        const float2 scale = f16x2_float2(h ? t->scales[i].y : t->scales[i].x);
#pragma unroll
        for (int32_t j = 0; j < 2; j++) {
            const float xs = meta[h].scale * (1.0f / (float)ONE_FACTOR(h, j));
            const float dot = __int_as_float(kept[2 * j + h]) - MAGIC;
            acc[j] = fmaf(dot * xs, j ? scale.y : scale.x, acc[j]);
        }
    }
#else
    const struct one_x x = one_x_of(row, row + cols, tile, lane);
    one_multiply(&x, tile_at(t->seq, i, half), 4, lane, acc);
#endif
}

// Lane (r, c) gets sum c % 2 of tile c / 2, over the four lanes of r in the order of warp_sum().
DEVICE float sums_transpose(const float sum[2][2], int32_t lane)
{
    const bool second = lane & 2, odd = lane & 1;
    float mine[2];
#pragma unroll
    for (int32_t i = 0; i < 2; i++)
        mine[i] = (second ? sum[1][i] : sum[0][i]) +
                  __shfl_xor_sync(0xffffffffu, second ? sum[0][i] : sum[1][i], 2);
    return (odd ? mine[1] : mine[0]) + __shfl_xor_sync(0xffffffffu, odd ? mine[0] : mine[1], 1);
}

// Units are numbered through the launch: place and parity of the next.
struct turn_of_sums {
    uint32_t next;
};

DEVICE void sums_leave(struct turn_of_sums *turn, const float sum[2][2], int32_t warp, int32_t lane)
{
    struct shared *s = shared_rest();
    const float mine = sums_transpose(sum, lane);
    const uint32_t place = turn->next % PLACES;
    if (turn->next >= PLACES)
        barrier_wait(shared_address(s->taken + place), (turn->next / PLACES - 1) & 1);
    s->parts[place][warp][lane / 4 + 8 * (lane % 4)] = mine;
    __syncwarp();
    if (lane == 0)
        barrier_arrive(shared_address(s->summed + place));
    turn->next++;
}

DEVICE int32_t units_of_block(int32_t kind)
{
    return shared_rest()->share[kind][1] - shared_rest()->share[kind][0];
}

// The row of X of a matrix, from the words of all SMs.
DEVICE void x_take(const struct weft__token_args *args, int32_t kind, uint32_t turn, int32_t warp,
                   int32_t lane)
{
    const int32_t row = kind == QKV  ? WEFT__TOKEN_ROW_qkv
                        : kind == O  ? WEFT__TOKEN_ROW_attended
                        : kind == UP ? WEFT__TOKEN_ROW_up
                                     : WEFT__TOKEN_ROW_down;
    if (warp == 0 && lane == 0)
        arrivals_wait(args, row, turn, (uint32_t)work_of(kind).cols / 32);
    part_sync<MULTIPLYING>(MULTIPLIERS_MEET);
    uint8_t *to = shared_row(kind);
    const uint8_t *words = (const uint8_t *)args->rows[row];
    if (kind == DOWN)
        row_take<WIDE, false>(words, turn, to);
    else if (kind == O)
        row_take<ATTENDED, false>(words, turn, to);
    else
        row_take<EMBED, true>(words, turn, to);
    part_sync<MULTIPLYING + WARP>(ROW_IS_THERE);
}

// A matrix, whose slots begin at `seq`: the row of X comes while the first tiles do.
DEVICE uint32_t matrix_multiply(const struct weft__token_args *args, int32_t kind_before,
                                uint32_t turn, uint32_t seq, struct turn_of_sums *sums,
                                int32_t warp, int32_t lane)
{
    const int32_t half = warp % TEAM_WARPS;
    int32_t slot = (warp / TEAM_WARPS - (int32_t)seq) & (TEAMS - 1);
    bool ahead = HOLDS && slot < units_of_block(kind_before) * work_of(kind_before).slots;
    struct tiles tiles = {}; // nothing of the matrix before is kept in registers until here
    if (ahead)
        tiles_take(&tiles, seq + slot, half, lane);
    x_take(args, kind_before, turn, warp, lane);
    const int32_t kind =
        computed_here(kind_before); // what follows from it is not kept while X is taken
    const struct work w = work_of(kind);
    const int32_t units = units_of_block(kind);
    const uint8_t *row = shared_row(kind);
#pragma unroll 1
    for (int32_t u = 0, end = w.slots; u < units; u++, end += w.slots) {
        float sum[2][2] = {};
#pragma unroll 1
        for (; slot < end; slot += TEAMS) {
            const int32_t at = slot - (end - w.slots);
            const int32_t first = (w.paired ? TEAM_WARPS : SLOT_TILES) * at + half;
            const int32_t step = w.paired ? 0 : TEAM_WARPS;
            if (!ahead)
                tiles_take(&tiles, seq + slot, half, lane);
            ahead = false;
            if (first < w.tiles)
                tile_add(&tiles, 0, half, row, w.cols, first, lane, sum[0]);
            if (first + step < w.tiles)
                tile_add(&tiles, 1, half, row, w.cols, first + step, lane, sum[1]);
            tiles_end(&tiles, lane, sum);
        }
        sums_leave(sums, sum, warp, lane);
    }
    return seq + units * w.slots;
}

DEVICE void multiply_all(const struct weft__token_args *args, int32_t own_warp, int32_t own_lane)
{
    const struct shared *s = shared_rest();
    struct turn_of_sums sums = {0};
    uint32_t seq = 0;
    int32_t kind = O;
#pragma unroll 1
    for (int32_t l = 0; l < args->num_layers; l += kind == QKV) {
        const uint32_t turn = s->launch * args->num_layers + l + 1;
        const int32_t lane = computed_here(own_lane), warp = computed_here(own_warp);
        if (kind == O && s->attends) { // between Q, K, V and O
            const struct new_rows rows = {(uint16_t *)args->layers[l].keys,
                                          (uint16_t *)args->layers[l].values};
            if (l > 0 && warp == 0 && lane == 0)
                arrivals_wait(args, WEFT__TOKEN_ROW_heads, turn, HEAD_ROWS / 16);
            part_sync<MULTIPLYING>(MULTIPLIERS_MEET);
            attend(args, rows, l == 0, turn, seq, warp, lane);
            seq += s->place.left;
        }
        seq = matrix_multiply(args, kind, turn, seq, &sums, warp, lane);
        kind = (kind + 1) % KINDS;
    }
}

#endif
