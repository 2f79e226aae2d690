// SPDX-License-Identifier: MIT
// Y = X W^T for up to 64 rows of X on Hopper, W packed from a block format (linear_device.h).
//
// A block has a slice of the columns of all rows of X in shared memory, 16-bit numbers as wgmma wants B, made once of the
// rounded rows. Then nothing but W moves: four warpgroups take units of 64 rows of W in turn, each for itself. A warp has 16
// of the 64, keeps a ring of their tiles filled, and makes A fragments of one pair of 64 columns while the tensor cores
// multiply the pair before. Nobody waits for another warpgroup, nor does a unit's delivery stop the others.
//
// With WEFT_BYTES X stays in 8 bits, and warps multiply units of 32 columns as linear_few.cu does (linear_some.cuh): as exact as
// 8-bit integers are, for half of the shared memory. Without, scales are in the numbers that are multiplied.
//
//      shared memory: X (WEFT_BYTES: as linear_some.cuh has it, else [pair][row][64]) | rings, warp after warp |
//                     2^-up / rms [row], room for what that comes of | barriers | WEFT_PAIR: the other block's half of X
//
// With WEFT_PAIR two blocks of a slice are a cluster, and each makes X of half of the rows for both.
//
// Grid (blocks of a slice, slices). With several slices results are sums of a slice, `slice_stride` apart, and a launch that
// follows adds them up (linear_finish.cu).
//
// Function constants: WEFT_FORMAT, WEFT_BRAIN (1: bf16, 0: f16), WEFT_ROWS (16 with WEFT_BYTES, 32, 64), WEFT_BYTES, WEFT_PAIR (without WEFT_BYTES), WEFT_STAGES
// (of a warp's ring), WEFT_WHOLE (1: the columns are whole tiles), WEFT_STAGED (1: sums of slices, 0: Y), WEFT_Y_DTYPE (1 f32,
// 2 f16, 3 bf16), WEFT_SCALE_DTYPE.
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/wgmma.cuh"
#include "src/kernels/linear/linear_gemm_part.cuh"
#include "src/kernels/linear/linear_gemm_weights.cuh"
#include "src/kernels/linear/linear_rounding.cuh"

enum {
    WARPS = WEFT__LINEAR_SLICE_WARPS,
    THREADS = WARPS * WARP,
    GROUPS = WARPS / 4,
    UNIT_BLOCKS = WEFT__LINEAR_SLICE_UNIT / 16,
    // what a slot of a ring has: a tile, or half of one where tiles are large and have their scales pair by pair
    HALVES = WEFT__LINEAR_SLICE_HALVES(WEFT_FORMAT),
    STEP_PAIRS = HALVES ? 2 : 4,
    STEP_BYTES = TILE_BYTES(STEP_PAIRS),
    RING = WEFT_STAGES * STEP_BYTES,
    X_PAIR = WEFT_ROWS * 128, // bytes
    SUMS = WEFT_ROWS / 2,     // numbers of D that a lane has
    ROW_NUMBERS = WEFT_ROWS + WEFT__LINEAR_SLICE_ROOM,
};

DEVICE uint8_t *shared_memory()
{
    extern __shared__ __align__(1024) uint8_t bytes[];
    return bytes;
}

// The block's slice of the columns: pairs from that of tile0 on, and in how many steps a ring brings them.
struct slice {
    int32_t tile0, pairs, steps;
};

DEVICE int32_t all_pairs(const struct weft__linear_slice_args *args)
{
    return (args->cols + 63) / 64;
}

DEVICE struct slice slice_of(const struct weft__linear_slice_args *args)
{
    struct slice s;
    s.tile0 = (int32_t)blockIdx.y * args->slice_tiles;
    s.pairs = min(all_pairs(args) - s.tile0 * TILE_PAIRS, args->slice_tiles * TILE_PAIRS);
    s.steps = (s.pairs + STEP_PAIRS - 1) / STEP_PAIRS;
    return s;
}

// Bytes of X.
DEVICE int32_t x_bytes(const struct weft__linear_slice_args *args)
{
    const int32_t pairs = args->slice_tiles * TILE_PAIRS;
    return WEFT_BYTES ? WEFT__LINEAR_SOME_BYTES(WEFT_FORMAT, WEFT_ROWS, pairs) : pairs * X_PAIR;
}

// What the sums of rows of X are multiplied by, [row].
DEVICE float *shared_inverse(const struct weft__linear_slice_args *args)
{
    return (float *)(shared_memory() + x_bytes(args) + WARPS * RING);
}

// The warp's row block of a unit.
DEVICE int32_t row_block_of(const struct weft__linear_slice_part *part, int32_t unit)
{
    return (unit - part->first_unit) * UNIT_BLOCKS + (int32_t)threadIdx.x / WARP % UNIT_BLOCKS;
}

// Where a warp's first tile of a unit is. Beyond the last rows the last of them are read again.
DEVICE const uint8_t *tiles_of(const struct weft__linear_slice_args *args, const struct slice *s,
                               int32_t unit)
{
    const struct weft__linear_slice_part *part = &args->part[part_of(args, unit)];
    const int64_t row_bytes = TILE_SUPER ? (int64_t)(args->cols / 256) * TILE_BYTES(4)
                                         : (int64_t)all_pairs(args) * TILE_BYTES(1);
    const int32_t block = row_block_of(part, unit);
    return (const uint8_t *)part->weight + min(block, (part->rows + 15) / 16 - 1) * row_bytes +
           (int64_t)s->tile0 * TILE_BYTES(4);
}

// A warp's ring: its first slot, as a pointer and for the copy engine, its first barrier; the slot that is next, and its phase.
struct ring {
    const uint8_t *bytes;
    uint32_t address, full;
    int32_t slot;
    uint32_t parity;
};

DEVICE void ring_begin(const struct weft__linear_slice_args *args, int32_t warp, struct ring *ring)
{
    ring->bytes = shared_memory() + x_bytes(args) + warp * RING;
    ring->address = shared_address(ring->bytes);
    ring->full = shared_address(shared_inverse(args) + ROW_NUMBERS) + warp * WEFT_STAGES * 8;
    ring->slot = 0, ring->parity = 0;
    if (threadIdx.x % WARP < WEFT_STAGES)
        barrier_init(ring->full + 8 * (threadIdx.x % WARP), 1);
    barrier_init_end();
    __syncwarp();
}

// What a warp asks for next.
struct asking {
    const uint8_t *tile;
    int32_t unit, step; // of the slice
};

DEVICE int32_t unit_step()
{
    return (int32_t)gridDim.x * GROUPS;
}

DEVICE int32_t first_unit(int32_t warp)
{
    return (int32_t)blockIdx.x + warp / 4 * (int32_t)gridDim.x;
}

DEVICE int32_t pairs_of(const struct slice *s, int32_t step)
{
    return WEFT_WHOLE ? (int32_t)STEP_PAIRS
                      : min(s->pairs - step * STEP_PAIRS, (int32_t)STEP_PAIRS);
}

// Half a tile: codes of its pairs, and their scales behind them.
DEVICE void ask_half(const struct slice *s, const struct asking *next, uint32_t to,
                     uint32_t barrier)
{
    const int32_t half = next->step % 2, pairs = pairs_of(s, next->step);
    const int32_t tile_pairs =
        WEFT_WHOLE ? (int32_t)TILE_PAIRS
                   : min(s->pairs - next->step / 2 * TILE_PAIRS, (int32_t)TILE_PAIRS);
    copy_bulk(to, next->tile + half * 2 * PAIR_LOW, pairs * PAIR_LOW, barrier);
    copy_bulk(to + pairs * PAIR_LOW, next->tile + tile_pairs * PAIR_LOW + half * 2 * TILE_META,
              pairs * TILE_META, barrier);
}

// The next step into a slot of the warp's ring, if there is one.
DEVICE void ask(const struct weft__linear_slice_args *args, const struct slice *s,
                const struct ring *ring, struct asking *next, int32_t slot)
{
    if (next->unit >= args->num_units)
        return;
    if (threadIdx.x % WARP == 0) {
        const uint32_t bytes = (uint32_t)TILE_BYTES(pairs_of(s, next->step));
        const uint32_t barrier = ring->full + 8 * slot, to = ring->address + slot * STEP_BYTES;
        barrier_expect(barrier, bytes);
        if (HALVES)
            ask_half(s, next, to, barrier);
        else
            copy_bulk(to, next->tile, bytes, barrier);
    }
    if (!HALVES || next->step % 2)
        next->tile += TILE_BYTES(4);
    if (++next->step < s->steps)
        return;
    next->step = 0;
    next->unit += unit_step();
    if (next->unit < args->num_units)
        next->tile = tiles_of(args, s, next->unit);
}

DEVICE void ask_all(const struct weft__linear_slice_args *args, const struct slice *s,
                    const struct ring *ring, struct asking *next, int32_t first, int32_t end)
{
#pragma unroll 1
    for (int32_t slot = first; slot < end; slot++)
        ask(args, s, ring, next, slot);
}

#if WEFT_BYTES
#include "src/kernels/linear/linear_gemm_slice_bytes.cuh"
#else
#include "src/kernels/linear/linear_gemm_slice_x.cuh"

#define WGMMA_NAME_(TYPE, N) wgmma_##TYPE##_##N
#define WGMMA_NAME(TYPE, N)  WGMMA_NAME_(TYPE, N)
DEVICE void multiply(float *d, const uint32_t a[4], uint64_t b)
{
#if WEFT_BRAIN
    WGMMA_NAME(bf16, WEFT_ROWS)(d, a, b);
#else
    WGMMA_NAME(f16, WEFT_ROWS)(d, a, b);
#endif
}

// Pair p of a tile as fragments; zeros past its last.
DEVICE void fragments_of(const struct weights_of_tile *own, const uint8_t *tile, int32_t pairs,
                         int32_t p, uint32_t fragment[4][4])
{
    if (WEFT_WHOLE || p < pairs) {
        tile_fragments(own, tile, pairs, p, (int32_t)threadIdx.x % WARP, fragment);
        return;
    }
#pragma unroll
    for (int32_t i = 0; i < 16; i++)
        fragment[i / 4][i % 4] = 0;
}

// Sums of a unit over the slice.
DEVICE void unit_sums(const struct weft__linear_slice_args *args, const struct slice *s,
                      struct ring *ring, struct asking *next, float *d)
{
    uint64_t x = wgmma_matrix(shared_address(shared_memory()));
    uint32_t fragment[2][4][4];
#pragma unroll
    for (int32_t i = 0; i < SUMS; i++)
        d[i] = 0;
#pragma unroll 1
    for (int32_t t = 0; t < s->steps; t++) {
        const uint8_t *tile = ring->bytes + ring->slot * STEP_BYTES;
        const int32_t pairs = pairs_of(s, t);
        struct weights_of_tile own;
        barrier_wait(ring->full + 8 * ring->slot, ring->parity);
        tile_begin(&own, tile, pairs, (int32_t)threadIdx.x % WARP / 4);
#pragma unroll
        for (int32_t p = 0; p < STEP_PAIRS; p++) {
            fragments_of(&own, tile, pairs, p, fragment[p % 2]);
            wgmma_begin();
#pragma unroll
            for (int32_t k = 0; k < 4;
                 k++) // zeros meet numbers that are there: others may be anything
                multiply(d, fragment[p % 2][k],
                         wgmma_further(x, (WEFT_WHOLE ? p : min(p, pairs - 1)) * X_PAIR + 32 * k));
            wgmma_group_end();
            WGMMA_WAIT(1); // the other fragments' registers are free
        }
        x = wgmma_further(x, STEP_PAIRS * X_PAIR);
        __syncwarp();
        ask(args, s, ring, next, ring->slot);
        if (++ring->slot == WEFT_STAGES)
            ring->slot = 0, ring->parity ^= 1;
    }
    WGMMA_WAIT(0);
}

#endif

// Sums of the slice in f32 for another launch, or results.
DEVICE void deliver(const struct weft__linear_slice_args *args, int32_t unit, const float *d)
{
    const struct weft__linear_slice_part *part = &args->part[part_of(args, unit)];
    const int32_t lane = (int32_t)threadIdx.x % WARP, first = lane % 4 * 2; // row of X
    const int32_t row = row_block_of(part, unit) * 16 + lane / 4, left = args->batch - first;
    const float2 *inverse = (const float2 *)(shared_inverse(args) + first);
    int64_t to = blockIdx.y * part->slice_stride + first * part->y_stride + row;
    int64_t from = first * args->residual_stride + row;
#pragma unroll
    for (int32_t e = 0; e < SUMS / 4; e++) {
        const float2 by = inverse[4 * e];
#pragma unroll
        for (int32_t i = 0; i < 4; i++) {
            const int32_t n = i % 2, r = i / 2 * 8;
            if (8 * e + n >= left || row + r >= part->rows)
                continue;
            float out = part->alpha * ((n ? by.y : by.x) * d[4 * e + i]);
            if (!WEFT_STAGED && part->bias)
                out += part->bias[row + r];
            if (!WEFT_STAGED && args->residual)
                out += element<WEFT_Y_DTYPE>(args->residual, from + n * args->residual_stride + r);
            set_element<WEFT_Y_DTYPE>(part->y, to + n * part->y_stride + r, out);
        }
        to += 8 * part->y_stride, from += 8 * args->residual_stride;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    weft_linear_gemm_slice(const __grid_constant__ struct weft__linear_slice_args args)
{
    const int32_t warp = (int32_t)threadIdx.x / WARP;
    const struct slice s = slice_of(&args);
    struct asking next = {nullptr, first_unit(warp), 0};
    struct ring ring;
    ring_begin(&args, warp, &ring);
#if WEFT_PAIR
    pair_begin(&args, &s);
#endif
    let_next_start();
    if (next.unit < args.num_units)
        next.tile = tiles_of(&args, &s, next.unit);
    ask_all(&args, &s, &ring, &next, 0, args.early);
#if TILE_GRID
    grid_load();
#endif
    wait_for_previous();
    x_load(&args, &s, &ring, &next);
#pragma unroll 1
    for (int32_t unit = first_unit(warp); unit < args.num_units; unit += unit_step()) {
        float d[SUMS];
        unit_sums(&args, &s, &ring, &next, d);
        deliver(&args, unit, d);
    }
#if WEFT_PAIR
    cluster_wait(); // the other block has its half of X: it comes out of this one's shared memory
#endif
}
