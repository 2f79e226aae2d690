// SPDX-License-Identifier: MIT
// How the kernels of linear_stream.cuh deliver a group: a warp adds up one row of X's sums of all warps of the team, applies
// scale, bias, gate, residual and the experts' weights, and stores the results as numbers, rounded (WEFT_ROUND), or both. The
// blocks of a pair (WEFT_PAIR) exchange their results first.
#ifndef WEFT_KERNELS_LINEAR_STREAM_DELIVER_CUH
#define WEFT_KERNELS_LINEAR_STREAM_DELIVER_CUH

#include "src/kernels/linear/linear_stream.cuh"

// Several rows of X whose results leave as numbers: a warp delivers two rows at once, a half of its lanes each.
enum { ROWS_AT_ONCE = COLUMNS > 1 && OUT_BLOCKS == 1 && !WEFT_ROUND ? 2 : 1 };

// The first of the rows of X, as the lane sees it, that a warp delivers in turn k, and its place among a row's outputs.
DEVICE int32_t row_delivered(const struct stream *s, int32_t k)
{
    const int32_t at = s->warp + k * WEFT_TEAM;
    return ROWS_AT_ONCE == 2 ? 2 * at + s->lane / 16 : at;
}

DEVICE int32_t output_of_lane(const struct stream *s)
{
    return ROWS_AT_ONCE == 2 ? s->lane % 16 : s->lane;
}

// The dot product of row `lane` % 16 of block `block` with row n of X: all warps' sums in the order of
// the tiles, warp `base` had the first.
DEVICE float stream_sum(const struct stream *s, const float *sums, int32_t block, int32_t n,
                        int32_t base)
{
    // both halves of the warp help where they have a row together
    const int32_t shares = OUT_BLOCKS == 1 && ROWS_AT_ONCE == 1 ? 2 : 1;
    const float *at = sums + block * SUM_BLOCK + n * SUM_STRIDE + s->lane % 16;
    float total = 0;
#if WEFT_APART
    (void)base;
    for (int32_t t = shares == 2 ? s->lane / 16 : 0; t < s->tiles; t += shares)
        total += at[t * COLUMNS * SUM_STRIDE];
    return shares == 2 ? total + __shfl_xor_sync(0xffffffffu, total, 16) : total;
#endif
#pragma unroll
    for (int32_t rank = 0; rank < WEFT_SPLIT; rank++)
#pragma unroll 8
        for (int32_t j = shares == 2 ? s->lane / 16 : 0; j < WEFT_TEAM; j += shares) {
            const float *one = at + ((base + j) & (WEFT_TEAM - 1)) * COLUMNS * SUM_STRIDE;
            total += WEFT_SPLIT > 1 ? cluster_load(one, (uint32_t)rank) : *one;
        }
    return shares == 2 ? total + __shfl_xor_sync(0xffffffffu, total, 16) : total;
}

// What an output needs besides its sums, of row n of the block's rows of X: asked for while the sums are made.
// (The biases of a gate are not: few models have any, and registers are scarce there.)
struct delivery {
    float bias, residual, weight; // weight: of the next norm
};

DEVICE const float *part_bias(const struct stream *s, const struct weft__linear_device_part *part)
{
    return WEFT_EXPERTS ? part->bias + (int64_t)s->expert * part->rows : part->bias;
}

DEVICE struct delivery delivery_of(const struct stream *s,
                                   const struct weft__linear_device_args *args, int32_t group,
                                   int32_t n)
{
    const struct weft__linear_device_part *part = &args->part[group_part(args, group)];
    const int32_t output = output_of_lane(s);
    int32_t row = (group - part->first_group) * OUT_BLOCKS * 16 + output;
    struct delivery d = {};
    d.weight = 1.0f;
    if (WEFT_ROUND && WEFT_PAIR && args->next_weight && n < s->batch)
        d.weight = args->next_weight[group / 2 * 32 + s->lane] + args->next_weight_plus;
    if (n >= s->batch || row >= part->rows || output >= 16 * OUT_BLOCKS)
        return d;
    if (!JOINS && part->bias)
        d.bias = part_bias(s, part)[row];
    if (args->residual)
        d.residual =
            element<WEFT_Y_DTYPE>(args->residual, y_row(s, n) * args->residual_stride + row);
    if (WEFT_ROUND && !WEFT_PAIR && args->next_weight)
        d.weight = args->next_weight[row] + args->next_weight_plus;
    return d;
}

#if WEFT_ROUND && WEFT_PAIR

// Of row n: 16 results of the other block, each with the turn that it is of.
DEVICE uint64_t *shared_pair(int32_t n)
{
    return (uint64_t *)(shared_memory() + RING_BYTES + SUMS_BYTES + RMS_BYTES + PLACES_BYTES +
                        PARTS_BYTES) +
           n * 16;
}

DEVICE void pair_begin()
{
    for (int32_t i = (int32_t)threadIdx.x; i < COLUMNS * 16; i += THREADS)
        *(shared_pair(0) + i) = 0;
    cluster_barrier();
}

// The block that has the turn rounds what both have. The other's next results come when this one has taken these: it
// sends its own to the other in between.
DEVICE bool pair_takes(uint32_t turn)
{
    return turn % 2 == cluster_rank();
}

DEVICE void pair_send(const struct stream *s, int32_t n, float out, uint32_t turn)
{
    if (!pair_takes(turn) && s->lane < 16)
        cluster_send(shared_pair(n) + s->lane, cluster_rank() ^ 1, out, turn);
}

DEVICE void pair_round(const struct stream *s, uint8_t *rounded, int32_t rows, int32_t group,
                       int32_t n, float out, float weight, uint32_t turn)
{
    if (!pair_takes(turn))
        return;
    const int32_t row = group / 2 * 32 + s->lane;
    float other = cluster_receive(shared_pair(n) + s->lane % 16, turn);
    out = __shfl_sync(0xffffffffu, out, s->lane % 16);
    round_results(rounded, rows, row, s->lane,
                  s->lane / 16 == (int32_t)cluster_rank() ? out : other, weight);
}

#endif

// Row n of the block's rows of Y for the group's outputs; a whole warp, each half its own n where that delivers two. turn: of the block's groups, from 1.
// bases: see stream_sum, four bits of each block of the group.
DEVICE void stream_deliver(const struct stream *s, const struct weft__linear_device_args *args,
                           const float *sums, int32_t group, int32_t n, uint32_t bases,
                           const struct delivery *with, uint32_t turn)
{
    (void)turn;
    const struct weft__linear_device_part *part = &args->part[group_part(args, group)];
    const int32_t output = output_of_lane(s);
    int32_t row = (group - part->first_group) * OUT_BLOCKS * 16 + output;
    const int64_t at = y_row(s, ROWS_AT_ONCE == 2 ? min(n, s->batch - 1) : n);
    float value[MATRICES];
#if WEFT_EXPERTS & 2
    const float weight = share_weight(&args->experts, (int32_t)at);
#endif
#pragma unroll
    for (int32_t m = 0; m < MATRICES; m++) {
        float total = stream_sum(s, sums, m, n, (int32_t)(bases >> 4 * m & 15));
        if (OUT_BLOCKS == 2) {
            const int32_t b = MATRICES + m;
            float second = stream_sum(s, sums, b, n, (int32_t)(bases >> 4 * b & 15));
            total = s->lane < 16 ? total : second;
        }
#if WEFT_EXPERTS > 1
        value[m] = args->norm ? shared_rms()[n] * total : total;
#if WEFT_EXPERTS & 4
        if (args->experts.adapted[m] && row < part->rows)
            value[m] += args->experts.adapted[m][at * part->rows + row];
#endif
#if WEFT_EXPERTS & 2
        value[m] *= weight;
#endif
        value[m] = part[m].alpha * value[m] + with->bias;
#else
        value[m] = part[m].alpha * (args->norm ? shared_rms()[n] * total : total) + with->bias;
#endif
        if (JOINS && part[m].bias && row < part->rows)
            value[m] += part_bias(s, &part[m])[row];
    }
#if WEFT_GATE == 4
    float out =
        gated_clamped(value[0], value[1], args->experts.clamp_limit, args->experts.clamp_slope);
#else
    float out = gated<WEFT_GATE>(value[0], JOINS ? value[MATRICES - 1] : 1.0f) + with->residual;
#endif
    const bool mine = row < part->rows && output < 16 * OUT_BLOCKS && n < s->batch;
#if WEFT_ROUND
    const float stored = part->y ? as_stored<WEFT_Y_DTYPE>(out) : out;
    uint8_t *rounded = (uint8_t *)args->rounded + at * weft__linear_rounded_stride(part->rows);
#if WEFT_PAIR
    pair_send(s, n, stored, turn);
#endif
#endif
    if (part->y && mine)
        set_element<WEFT_Y_DTYPE>(part->y, at * part->y_stride + row, out);
#if WEFT_ROUND && WEFT_PAIR
    pair_round(s, rounded, part->rows, group, n, stored, with->weight, turn);
#elif WEFT_ROUND
    round_results(rounded, part->rows, row, s->lane, stored, with->weight);
#endif
}

#endif
