// SPDX-License-Identifier: MIT
// Y = X W^T for 2 to 8 rows of X, W of bf16 as the caller has it, on devices with clusters.
//
// X is three numbers of bf16, whose sum it is, in shared memory; a tile (linear_plain_tile.cuh) is A of four products of 16 columns as it lies,
// and what a lane multiplies its 16 bytes of W by are 16 bytes of each term:
//
//      [64 columns][half of them][term][lane (n, c)]   columns 8 c .. 8 c + 7 of the half in row n
//
// A tensor core cuts off what it adds, so sums of 64 columns are added up in f32. X of all columns has no room beside the rings, and to bring it to
// every SM takes long: the blocks of a cluster have a part of the columns each. Whoever has a group's sums sends them to the block that
// delivers, where they are seen after a barrier of the cluster; it is waited for when the next group has been multiplied.
//
// Function constants besides those of linear_stream.cuh (WEFT_SPLIT > 1): WEFT_FORMAT (3), WEFT_BATCH (8), WEFT_X_DTYPE.
#define WEFT_ALIGNED   1
#define COLUMNS        WEFT_BATCH
#define X_ROUNDED      0
#define DELIVERY_EARLY 0

#include "src/kernels/cuda/bulk.cuh"
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/mma.cuh"
#include "src/kernels/linear/linear_plain_tile.cuh"
#include "src/kernels/linear/linear_stream.cuh"
#include "src/kernels/linear/linear_terms.cuh"

static_assert(COLUMNS == 8 && WEFT_FORMAT == 3 && WEFT_SPLIT > 1 && !WEFT_GATE && !WEFT_ROUND, "");

enum {
    TERMS = WEFT__LINEAR_TERMS,
    HALF_BYTES = TERMS * WARP * 16,    // of 32 columns
    OWN_ROWS = 16 / WEFT_SPLIT,        // of a group, that a block delivers
    SENT = COLUMNS * OWN_ROWS,         // numbers of a warp for a block
    SENDERS = WEFT_SPLIT * WEFT_TEAM,  // of a group
    TURN_NUMBERS = TEAMS * SENDERS * SENT,
    SQUARES_AT = 2 * TURN_NUMBERS,     // of the ranks, behind what two turns have sent
    BARRIERS_AT = SQUARES_AT + WEFT_SPLIT * COLUMNS,
};
static_assert((BARRIERS_AT + 4) * 4 <= SUMS_BYTES, "room for what is sent");

// Eight columns of a row, and what they are multiplied by; zeros past the last.
struct eight {
    float4 v[2], w[2];
};

// Does a lane find all of its eights whole, in pieces of 16 bytes?
DEVICE bool eights_whole(const struct weft__linear_device_args *args)
{
    return args->cols % 8 == 0 && fours_aligned<WEFT_X_DTYPE>(args->x, args->x_stride) &&
           (!args->norm_weight || fours_aligned<DTYPE_F32>(args->norm_weight, 0));
}

template <bool WHOLE>
DEVICE void eight_ask(const struct stream *s, const struct weft__linear_device_args *args,
                      int32_t half, struct eight *to)
{
    const int32_t n = s->lane / 4, col = s->tile0 * TILE_COLUMNS + half * 32 + s->lane % 4 * 8;
    const int32_t left = half < s->tiles * 2 && n < s->batch ? args->cols - col : 0;
    const int64_t at = x_row(s, n) * args->x_stride + col;
#pragma unroll
    for (int32_t k = 0; k < 2; k++) {
        to->v[k] = to->w[k] = make_float4(0, 0, 0, 0);
        if (!WHOLE) {
            to->v[k] = first_elements<WEFT_X_DTYPE>(args->x, at + 4 * k, left - 4 * k);
            to->w[k] = norm_factors(args, col + 4 * k, left - 4 * k);
        } else if (left > 0) {
            to->v[k] = four_elements<WEFT_X_DTYPE>(args->x, at + 4 * k);
            if (args->norm_weight)
                to->w[k] = four_elements<DTYPE_F32>(args->norm_weight, col + 4 * k);
        }
    }
}

DEVICE void eight_store(uint8_t *to, const struct eight *from,
                        const struct weft__linear_device_args *args, float plus)
{
    float x[8];
#pragma unroll
    for (int32_t k = 0; k < 2; k++) {
        const float4 v = from->v[k], w = from->w[k];
        x[4 * k] = v.x, x[4 * k + 1] = v.y, x[4 * k + 2] = v.z, x[4 * k + 3] = v.w;
        if (args->norm_weight) {
            x[4 * k] *= w.x + plus, x[4 * k + 1] *= w.y + plus;
            x[4 * k + 2] *= w.z + plus, x[4 * k + 3] *= w.w + plus;
        }
    }
#pragma unroll
    for (int32_t term = 0; term < TERMS; term++)
        *(uint4 *)(to + term * (WARP * 16)) =
            make_uint4(term_take(&x[0], &x[1]), term_take(&x[2], &x[3]), term_take(&x[4], &x[5]),
                       term_take(&x[6], &x[7]));
}

// The block's columns of X, so many halves of 64 at once; returns the lane's squares.
template <bool WHOLE, int32_t AT_ONCE>
DEVICE float halves_load(struct stream *s, const struct weft__linear_device_args *args)
{
    const int32_t halves = s->tiles * 2;
    const float plus = WHOLE ? args->norm_weight_plus : 0.0f; // else it is in w
    float square = 0;
#pragma unroll 1
    for (int32_t first = warp_of_thread(); first < halves; first += AT_ONCE * WEFT_WARPS) {
        struct eight x[AT_ONCE];
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++)
            eight_ask<WHOLE>(s, args, first + k * WEFT_WARPS, &x[k]);
        if (first < WEFT_WARPS)
            stream_ask_rest(s, args); // weights behind X, which everybody waits for
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++) {
            const int32_t half = first + k * WEFT_WARPS;
            square += squares_of(x[k].v[0]) + squares_of(x[k].v[1]);
            if (half < halves)
                eight_store(shared_x() + half * HALF_BYTES + s->lane * 16, &x[k], args, plus);
        }
    }
    if (halves <= warp_of_thread())
        stream_ask_rest(s, args);
    return square;
}

DEVICE void x_load(struct stream *s, const struct weft__linear_device_args *args)
{
    const float square = warp_sum(
        eights_whole(args) ? halves_load<true, 4>(s, args) : halves_load<false, 1>(s, args), 4);
    if (s->lane % 4 == 0)
        norm_parts()[s->lane / 4 * WEFT_WARPS + warp_of_thread()] = square;
}

DEVICE float *shared_squares()
{
    return shared_sums() + SQUARES_AT;
}

// Barriers of turns, every other one each: a turn's numbers have come.
DEVICE uint32_t turn_barrier(int32_t turn)
{
    return shared_address(shared_sums() + BARRIERS_AT) + (turn & 1) * 8;
}

// One thread, when nobody waits for the turn two before any more.
DEVICE void turn_expect(const struct weft__linear_device_args *args, int32_t turn)
{
    const int32_t squares = turn == 0 && args->norm ? WEFT_SPLIT * COLUMNS : 0;
    barrier_expect(turn_barrier(turn), (uint32_t)(TURN_NUMBERS + squares) * 4);
}

// After a barrier since x_load().
DEVICE void squares_send(const struct weft__linear_device_args *args)
{
    const int32_t n = (int32_t)threadIdx.x % (COLUMNS / 2) * 2,
                  to = (int32_t)threadIdx.x / (COLUMNS / 2);
    if (!args->norm || to >= WEFT_SPLIT)
        return;
    float2 total = make_float2(0, 0);
    for (int32_t warp = 0; warp < WEFT_WARPS; warp++) {
        total.x += norm_parts()[n * WEFT_WARPS + warp];
        total.y += norm_parts()[(n + 1) * WEFT_WARPS + warp];
    }
    cluster_send_2(shared_squares() + cluster_rank() * COLUMNS + n, (uint32_t)to, total,
                   turn_barrier(0));
}

DEVICE void tile_multiply(const struct stream *s, const uint8_t *slot, int32_t tile, float acc[4])
{
    float d[TERMS][4] = {{0}};
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const uint4 top = tile_chunk(slot, s->lane, i, 0), bottom = tile_chunk(slot, s->lane, i, 1);
        const uint32_t first[4] = {top.x, bottom.x, top.y, bottom.y};
        const uint32_t second[4] = {top.z, bottom.z, top.w, bottom.w};
        const uint8_t *x = shared_x() + (tile * 2 + i) * HALF_BYTES + s->lane * 16;
#pragma unroll
        for (int32_t term = 0; term < TERMS; term++) {
            const uint4 b = *(const uint4 *)(x + term * (WARP * 16));
            mma_bf16(d[term], first, b.x, b.y);
            mma_bf16(d[term], second, b.z, b.w);
        }
    }
#pragma unroll
    for (int32_t k = 0; k < 4; k++) {
        float sum = 0;
#pragma unroll
        for (int32_t term = TERMS - 1; term >= 0; term--)
            sum += d[term][k];
        acc[k] += sum;
    }
}

// What warps of a turn's teams have sent: [team][sender][row of W][row of X].
DEVICE float *turn_numbers(int32_t turn)
{
    return shared_sums() + (turn & 1) * TURN_NUMBERS;
}

DEVICE void sums_send(const struct stream *s, int32_t turn, const float acc[4])
{
    const int32_t sender = (int32_t)cluster_rank() * WEFT_TEAM + s->warp;
    float *at =
        turn_numbers(turn) + (team_of_thread() * SENDERS + sender) * SENT + s->lane % 4 * 2;
#pragma unroll
    for (int32_t k = 0; k < 2; k++) {
        const int32_t row = s->lane / 4 + k * 8;
        cluster_send_2(at + row % OWN_ROWS * COLUMNS, (uint32_t)(row / OWN_ROWS),
                       make_float2(acc[2 * k], acc[2 * k + 1]), turn_barrier(turn));
    }
}

DEVICE float row_rms(const struct weft__linear_device_args *args, int32_t n)
{
    float total = 0;
#pragma unroll
    for (int32_t rank = 0; rank < WEFT_SPLIT; rank++)
        total += shared_squares()[rank * COLUMNS + n];
    return 1.0f / sqrtf(total / (float)args->cols + args->norm_eps);
}

// A thread has a result of every so many.
DEVICE void turn_deliver(const struct stream *s, const struct weft__linear_device_args *args,
                         int32_t turn)
{
    const int32_t blocks = (int32_t)gridDim.x / WEFT_SPLIT;
    for (int32_t i = (int32_t)threadIdx.x; i < TEAMS * SENT; i += THREADS) {
        const int32_t team = i / SENT, n = i % SENT / OWN_ROWS;
        const int32_t group = (int32_t)blockIdx.x / WEFT_SPLIT + (turn * TEAMS + team) * blocks;
        if (group >= args->num_groups || n >= s->batch)
            continue;
        const struct weft__linear_device_part *part = &args->part[group_part(args, group)];
        const int32_t row = (group - part->first_group) * 16 +
                            (int32_t)cluster_rank() * OWN_ROWS + i % OWN_ROWS;
        if (row >= part->rows)
            continue;
        const int64_t at = y_row(s, n);
        const float bias = part->bias ? part->bias[row] : 0.0f;
        const float residual =
            args->residual ? element<WEFT_Y_DTYPE>(args->residual, at * args->residual_stride + row)
                           : 0.0f;
        const float *from =
            turn_numbers(turn) + team * SENDERS * SENT + i % OWN_ROWS * COLUMNS + n;
        float total = 0;
#pragma unroll
        for (int32_t sender = 0; sender < SENDERS; sender++)
            total += from[sender * SENT];
        total = part->alpha * (args->norm ? row_rms(args, n) * total : total) + bias;
        set_element<WEFT_Y_DTYPE>(part->y, at * part->y_stride + row, total + residual);
    }
}

// Waits for the turn's numbers and delivers them. That all have come says that every warp of the cluster has delivered the turn before
// it, so the numbers of the turn after it may be sent.
DEVICE void turn_end(const struct stream *s, const struct weft__linear_device_args *args,
                     int32_t turn)
{
    barrier_wait(turn_barrier(turn), (uint32_t)turn / 2 & 1);
    if (threadIdx.x == 0)
        turn_expect(args, turn + 2);
    turn_deliver(s, args, turn);
}

extern "C" __global__ void __launch_bounds__(WEFT_WARPS * 32, WEFT_BLOCKS)
    weft_linear_numbers_some(const __grid_constant__ struct weft__linear_device_args args)
{
    struct stream s;
    let_next_start();
    if (threadIdx.x == 0) {
        barrier_init(turn_barrier(0), 1), barrier_init(turn_barrier(1), 1);
        barrier_init_end();
        turn_expect(&args, 0), turn_expect(&args, 1);
    }
    cluster_arrive();
    stream_begin(&s, &args, (args.cols + TILE_COLUMNS - 1) / TILE_COLUMNS);
#pragma unroll 1
    for (int32_t i = 0; i < ALL_BUT_ONE; i++)
        stream_ask(&s, &args, i);
    stream_prefetch(&s, &args);
    wait_for_previous();
    x_load(&s, &args);
    __syncthreads();
    cluster_wait(); // all blocks have begun
    squares_send(&args);
    const int32_t all = args.num_groups - (int32_t)blockIdx.x / WEFT_SPLIT;
    const int32_t turns = (all + s.step - 1) / s.step;
    int32_t base = 0, slot = 0, group = s.first;
    for (int32_t turn = 0; turn < turns; turn++, group += s.step) {
        float acc[4] = {0};
        if (group < args.num_groups) {
            for (int32_t tile = (s.warp - base) & (WEFT_TEAM - 1); tile < s.tiles;
                 tile += WEFT_TEAM) {
                COPY_WAIT(WEFT_STAGES - 1);
                __syncwarp();
                tile_multiply(&s, shared_ring() + slot * SLOT_BYTES, tile, acc);
                __syncwarp();
                stream_ask(&s, &args, slot);
                slot = slot + 1 == WEFT_STAGES ? 0 : slot + 1;
            }
            base = next_base(base, s.tiles);
        }
        if (turn > 0)
            turn_end(&s, &args, turn - 1);
        sums_send(&s, turn, acc);
    }
    turn_end(&s, &args, turns - 1);
}
