// SPDX-License-Identifier: MIT
// Y = X W^T for 17 to 64 rows of X on Hopper, W packed from a block format (linear_device.h).
//
// A block has a slice of the columns of all rows of X in shared memory, 16-bit numbers as wgmma wants B, made once of the
// rounded rows. Then nothing but W moves: four warpgroups take units of 64 rows of W in turn, each for itself. A warp has 16
// of the 64, keeps a ring of their tiles filled, and makes A fragments of one pair of 64 columns while the tensor cores
// multiply the pair before. Nobody waits for another warpgroup, nor does a unit's delivery stop the others.
//
//      shared memory: X [pair][row][64] | rings, warp after warp | 2^up, 2^-up / rms of rows of X | barriers
//
// Grid (blocks of a slice, slices). With several slices results are sums of a slice, `slice_stride` apart, and a launch that
// follows adds them up (linear_finish.cu).
//
// Function constants: WEFT_FORMAT, WEFT_BRAIN (1: bf16, 0: f16), WEFT_ROWS (32, 64), WEFT_STAGES (of a warp's ring), WEFT_Y_DTYPE
// (1 f32, 2 f16, 3 bf16), WEFT_SCALE_DTYPE.
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/wgmma.cuh"
#include "src/kernels/linear/linear_gemm_result.cuh"
#include "src/kernels/linear/linear_gemm_weights.cuh"
#include "src/kernels/linear/linear_rounding.cuh"

enum {
    WARPS = WEFT__LINEAR_SLICE_WARPS,
    THREADS = WARPS * WARP,
    GROUPS = WARPS / 4,
    UNIT_BLOCKS = WEFT__LINEAR_SLICE_UNIT / 16,
    RING = WEFT_STAGES * SLOT,
    X_PAIR = WEFT_ROWS * 128, // bytes
    SUMS = WEFT_ROWS / 2,     // numbers of D that a lane has
};

DEVICE uint8_t *shared_memory()
{
    extern __shared__ __align__(1024) uint8_t bytes[];
    return bytes;
}

// The block's slice of the columns: the tiles [tile0, tile0 + tiles) of a row block; pairs of them.
struct slice {
    int32_t tile0, tiles, pairs;
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
    s.tiles = (s.pairs + TILE_PAIRS - 1) / TILE_PAIRS;
    return s;
}

DEVICE uint8_t *ring_of(const struct weft__linear_slice_args *args, int32_t warp)
{
    return shared_memory() + args->slice_tiles * TILE_PAIRS * X_PAIR + warp * RING;
}

// What the numbers of a row of X have been multiplied by, [row]; what its sums are to be, [row].
DEVICE float *shared_factors(const struct weft__linear_slice_args *args)
{
    return (float *)ring_of(args, WARPS);
}

DEVICE uint32_t ring_full(const struct weft__linear_slice_args *args, int32_t warp)
{
    return shared_address(shared_factors(args) + 2 * WEFT_ROWS) + warp * WEFT_STAGES * 8;
}

DEVICE int32_t part_of(const struct weft__linear_slice_args *args, int32_t unit)
{
    int32_t part = 0;
#pragma unroll 1
    while (part + 1 < args->num_parts && unit >= args->part[part + 1].first_unit)
        part++;
    return part;
}

// Where a warp's first tile of a unit is. Beyond the last rows the last of them are read again.
DEVICE const uint8_t *tiles_of(const struct weft__linear_slice_args *args, const struct slice *s,
                               int32_t unit, int32_t warp)
{
    const struct weft__linear_slice_part *part = &args->part[part_of(args, unit)];
    const int64_t row_bytes = TILE_SUPER ? (int64_t)(args->cols / 256) * TILE_BYTES(4)
                                         : (int64_t)all_pairs(args) * TILE_BYTES(1);
    const int32_t block = (unit - part->first_unit) * UNIT_BLOCKS + warp % UNIT_BLOCKS;
    return (const uint8_t *)part->weight + min(block, (part->rows + 15) / 16 - 1) * row_bytes +
           (int64_t)s->tile0 * TILE_BYTES(4);
}

// What a warp asks for next.
struct asking {
    const uint8_t *tile;
    int32_t unit, index; // of the tile in the slice
};

DEVICE int32_t unit_step()
{
    return (int32_t)gridDim.x * GROUPS;
}

DEVICE int32_t first_unit(int32_t warp)
{
    return (int32_t)blockIdx.x + warp / 4 * (int32_t)gridDim.x;
}

// The next tile into a slot of the warp's ring, if there is one.
DEVICE void ask(const struct weft__linear_slice_args *args, const struct slice *s, int32_t warp,
                struct asking *next, int32_t slot)
{
    if (next->unit >= args->num_units)
        return;
    const uint32_t bytes =
        (uint32_t)TILE_BYTES(min(s->pairs - next->index * TILE_PAIRS, (int32_t)TILE_PAIRS));
    const uint32_t barrier = ring_full(args, warp) + 8 * slot;
    if (threadIdx.x % WARP == 0) {
        barrier_expect(barrier, bytes);
        copy_bulk(shared_address(ring_of(args, warp)) + slot * SLOT, next->tile, bytes, barrier);
    }
    next->tile += TILE_BYTES(4);
    if (++next->index < s->tiles)
        return;
    next->index = 0;
    next->unit += unit_step();
    if (next->unit < args->num_units)
        next->tile = tiles_of(args, s, next->unit, warp);
}

#include "src/kernels/linear/linear_gemm_slice_x.cuh"

DEVICE void multiply(float *d, const uint32_t a[4], uint64_t b)
{
#define WGMMA_NAME_(TYPE, N) wgmma_##TYPE##_##N
#define WGMMA_NAME(TYPE, N)  WGMMA_NAME_(TYPE, N)
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
    if (p < pairs) {
        tile_fragments(own, tile, pairs, p, (int32_t)threadIdx.x % WARP, fragment);
        return;
    }
#pragma unroll
    for (int32_t i = 0; i < 16; i++)
        fragment[i / 4][i % 4] = 0;
}

// Sums of a unit over the slice. `slot` and `parity`: where the ring is, and its phase.
DEVICE void unit_sums(const struct weft__linear_slice_args *args, const struct slice *s,
                      int32_t warp, struct asking *next, int32_t *slot, uint32_t *parity, float *d)
{
    const int32_t lane = (int32_t)threadIdx.x % WARP;
    const uint32_t x = shared_address(shared_memory());
    uint32_t fragment[2][4][4];
#pragma unroll
    for (int32_t i = 0; i < SUMS; i++)
        d[i] = 0;
#pragma unroll 1
    for (int32_t t = 0; t < s->tiles; t++) {
        const uint8_t *tile = ring_of(args, warp) + *slot * SLOT;
        const int32_t pairs = min(s->pairs - t * TILE_PAIRS, (int32_t)TILE_PAIRS);
        struct weights_of_tile own;
        barrier_wait(ring_full(args, warp) + 8 * *slot, *parity);
        tile_begin(&own, tile, pairs, lane / 4);
#pragma unroll
        for (int32_t p = 0; p < TILE_PAIRS; p++) {
            fragments_of(&own, tile, pairs, p, fragment[p % 2]);
            // zeros meet numbers that are there: others may be anything
            const uint32_t at = x + (t * TILE_PAIRS + min(p, pairs - 1)) * X_PAIR;
            wgmma_begin();
#pragma unroll
            for (int32_t k = 0; k < 4; k++)
                multiply(d, fragment[p % 2][k], wgmma_matrix(at + 32 * k));
            wgmma_group_end();
            WGMMA_WAIT(1); // the other fragments' registers are free
        }
        __syncwarp();
        ask(args, s, warp, next, *slot);
        if (++*slot == WEFT_STAGES)
            *slot = 0, *parity ^= 1;
    }
    WGMMA_WAIT(0);
}

// Of a unit's results, what results_store() wants to know.
struct results {
    const float *scales, *bias;
    const void *residual;
    void *y;
    int64_t residual_stride, y_stride;
    int32_t batch, rows;
    float alpha;
};

DEVICE void deliver(const struct weft__linear_slice_args *args, int32_t unit, int32_t warp,
                    const float *d)
{
    const struct weft__linear_slice_part *part = &args->part[part_of(args, unit)];
    const struct results to = {shared_factors(args) + WEFT_ROWS,
                               blockIdx.y == 0 ? part->bias : nullptr,
                               args->residual,
                               (float *)part->y + blockIdx.y * part->slice_stride,
                               args->residual_stride,
                               part->y_stride,
                               args->batch,
                               part->rows,
                               part->alpha};
    const int32_t block = (unit - part->first_unit) * UNIT_BLOCKS + warp % UNIT_BLOCKS;
    results_store<SUMS>(&to, block * 16, 0, d);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    weft_linear_gemm_slice(const __grid_constant__ struct weft__linear_slice_args args)
{
    const int32_t warp = (int32_t)threadIdx.x / WARP;
    const struct slice s = slice_of(&args);
    struct asking next = {nullptr, first_unit(warp), 0};
    if (threadIdx.x % WARP < WEFT_STAGES)
        barrier_init(ring_full(&args, warp) + 8 * (threadIdx.x % WARP), 1);
    barrier_init_end();
    __syncwarp();
    let_next_start();
    if (next.unit < args.num_units)
        next.tile = tiles_of(&args, &s, next.unit, warp);
#pragma unroll 1
    for (int32_t slot = 0; slot < WEFT_STAGES; slot++)
        ask(&args, &s, warp, &next, slot);
#if TILE_GRID
    grid_load();
#endif
    wait_for_previous();
    x_load(&args, &s, warp);
    int32_t slot = 0;
    uint32_t parity = 0;
#pragma unroll 1
    for (int32_t unit = first_unit(warp); unit < args.num_units; unit += unit_step()) {
        float d[SUMS];
        unit_sums(&args, &s, warp, &next, &slot, &parity, d);
        deliver(&args, unit, warp, d);
    }
}
