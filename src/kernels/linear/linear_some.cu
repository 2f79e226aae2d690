// SPDX-License-Identifier: MIT
// Y = X W^T for more rows of X than one and fewer than many (8 to 32), W packed from a block format (linear_device.h), on
// Hopper.
//
// X stays in registers for the whole launch, as B of 16-bit products: each of 16 warps has WEFT_PAIRS pairs of 64 columns
// of WEFT_ROWS rows of X. blockIdx.y says which rows, and which slice of the columns where there are more (WEFT_SPLIT: sums
// of slices are left one behind the other). So nothing but W moves: a warp
// finds its columns of one row block after the other in a ring of its own, multiplies them and leaves 16 by WEFT_ROWS sums in
// shared memory, where other warps add up those of all and deliver. The last of these fills the rings: where the sums of a row
// block are, its tiles have been read.
//
//      shared memory: rings, warp after warp | sums [2][warp][eight][lane] of four | 1/rms | of the warps' sums | sums of X | barriers
//
// Groups of rows are those of linear_stream.cuh: 16 outputs, 32 when the result leaves rounded, of both matrices of a gate.
//
// Function constants: WEFT_FORMAT, WEFT_BRAIN (1: bf16, 0: f16), WEFT_ROWS (8, 16, 24, 32), WEFT_PAIRS (1, 2, 4), WEFT_STAGES (a power of two), WEFT_SPLIT,
// WEFT_DELIVER (warps that deliver), WEFT_GATE, WEFT_ROUND, WEFT_COLS (whole tiles, or 0: what the arguments say), WEFT_Y_DTYPE, WEFT_SCALE_DTYPE.
#include "src/kernels/cuda/bulk.cuh"
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/mma.cuh"
#include "src/kernels/cuda/wgmma.cuh"
#include "src/kernels/linear/linear_columns.cuh"
#include "src/kernels/linear/linear_fragment.cuh"
#include "src/kernels/linear/linear_rounding.cuh"

enum {
    WARPS = 16, // that multiply
    THREADS = (WARPS + WEFT_DELIVER) * WARP,
    EIGHTS = WEFT_ROWS / 8,
    OUT_BLOCKS = WEFT_ROUND ? 2 : 1,
    MATRICES = WEFT_GATE ? 2 : 1,
    GROUP_BLOCKS = OUT_BLOCKS * MATRICES,
    WHOLE = WEFT_PAIRS == 4, // a warp has whole tiles
    META = TILE_SUPER ? TILE_META : 4 * TILE_META,
    SLOT = WEFT_PAIRS * (PAIR_LOW + PAIR_HIGH) + META,
    SUM_SLOT = WARPS * EIGHTS * WARP * 4, // floats
    SUMS_AT = WARPS * WEFT_STAGES * SLOT,
    RMS_AT = SUMS_AT + 2 * SUM_SLOT * 4,
    INVERSE_AT = RMS_AT + WEFT_ROWS * 4,
    X_SUMS_AT = INVERSE_AT + WARPS * WEFT_ROWS * 4,
    BARRIERS_AT = X_SUMS_AT + WARPS * EIGHTS * WARP * 8,
};

DEVICE uint8_t *shared_memory()
{
    extern __shared__ __align__(128) uint8_t bytes[];
    return bytes;
}

DEVICE uint32_t barriers()
{
    return shared_address(shared_memory()) + BARRIERS_AT;
}

// What the sums of a warp are multiplied by, [row of X].
DEVICE float *shared_inverse(int32_t warp)
{
    return (float *)(shared_memory() + INVERSE_AT) + warp * WEFT_ROWS;
}

// The ring of a warp; sums that are there; their places that are free.
DEVICE uint32_t ring_full(int32_t warp, int32_t slot)
{
    return barriers() + 8 * (warp * WEFT_STAGES + slot);
}

DEVICE uint32_t sums_full(int32_t slot)
{
    return barriers() + 8 * (WARPS * WEFT_STAGES + slot);
}

DEVICE uint32_t sums_free(int32_t slot)
{
    return barriers() + 8 * (WARPS * WEFT_STAGES + 2 + slot);
}

// A warp's part of the columns.
struct part_of_warp {
    int32_t first, count;     // pairs
    int32_t tile, tile_pairs; // the tile they are of, and how many pairs that has
};

DEVICE int32_t all_pairs(const struct weft__linear_device_args *args)
{
    return (columns_of(args) + 63) / 64;
}

DEVICE int32_t units_of_block(const struct weft__linear_device_args *args)
{
    const int32_t units = (all_pairs(args) + WEFT_PAIRS - 1) / WEFT_PAIRS;
    const int32_t each = (units + WEFT_SPLIT - 1) / WEFT_SPLIT;
    const int32_t rank = (int32_t)(blockIdx.y % WEFT_SPLIT);
    return max(min(units - rank * each, each), 0);
}

DEVICE struct part_of_warp part_of(const struct weft__linear_device_args *args, int32_t warp)
{
    const int32_t units = (all_pairs(args) + WEFT_PAIRS - 1) / WEFT_PAIRS;
    const int32_t each = (units + WEFT_SPLIT - 1) / WEFT_SPLIT;
    const int32_t rank = (int32_t)(blockIdx.y % WEFT_SPLIT);
    struct part_of_warp part;
    part.first = (rank * each + warp) * WEFT_PAIRS;
    part.count = min(all_pairs(args) - part.first, (int32_t)WEFT_PAIRS);
    part.tile = part.first / 4;
    part.tile_pairs = TILE_SUPER || WEFT_COLS ? 4 : min(all_pairs(args) - part.tile * 4, 4);
    return part;
}

// Groups of rows that the block takes: every step-th from the first on.
DEVICE int32_t first_group()
{
    return (int32_t)blockIdx.x;
}

DEVICE int32_t group_step()
{
    return (int32_t)gridDim.x;
}

DEVICE int32_t blocks_of(const struct weft__linear_device_args *args)
{
    return (args->num_groups - first_group() + group_step() - 1) / group_step() * GROUP_BLOCKS;
}

DEVICE int32_t group_part(const struct weft__linear_device_args *args, int32_t group)
{
    int32_t part = 0;
    if (!WEFT_GATE)
#pragma unroll 1
        while (part + 1 < args->num_parts && group >= args->part[part + 1].first_group)
            part++;
    return part;
}

// Asks for a warp's columns of row block i of those that the block takes.
DEVICE void ask(const struct weft__linear_device_args *args, int32_t warp, uint32_t i)
{
    const struct part_of_warp own = part_of(args, warp);
    const int32_t group = first_group() + (int32_t)(i / GROUP_BLOCKS) * group_step();
    const int32_t block = (int32_t)(i % GROUP_BLOCKS);
    const struct weft__linear_device_part *part =
        &args->part[WEFT_GATE ? block % MATRICES : group_part(args, group)];
    const int32_t row_block = (group - part->first_group) * OUT_BLOCKS + block / MATRICES;
    const int64_t row_bytes = TILE_SUPER ? (int64_t)(columns_of(args) / 256) * TILE_BYTES(4)
                                         : (int64_t)all_pairs(args) * TILE_BYTES(1);
    const uint8_t *tile = (const uint8_t *)part->weight + row_block * row_bytes +
                          (int64_t)own.tile * TILE_BYTES(4);
    const uint32_t barrier = ring_full(warp, (int32_t)(i % WEFT_STAGES));
    const uint32_t to =
        shared_address(shared_memory()) + (warp * WEFT_STAGES + i % WEFT_STAGES) * SLOT;
    if (WHOLE) {
        const uint32_t bytes = (uint32_t)TILE_BYTES(own.tile_pairs);
        barrier_expect(barrier, bytes);
        copy_bulk(to, tile, bytes, barrier);
        return;
    }
    const int32_t before = own.first % 4, count = WEFT_COLS ? (int32_t)WEFT_PAIRS : own.count;
    const uint32_t low = count * PAIR_LOW, high = count * PAIR_HIGH;
    const uint32_t meta = TILE_SUPER ? TILE_META : own.tile_pairs * TILE_META;
    barrier_expect(barrier, low + high + meta);
    copy_bulk(to, tile + before * PAIR_LOW, low, barrier);
    if (PAIR_HIGH)
        copy_bulk(to + WEFT_PAIRS * PAIR_LOW,
                  tile + own.tile_pairs * PAIR_LOW + before * PAIR_HIGH, high, barrier);
    copy_bulk(to + WEFT_PAIRS * (PAIR_LOW + PAIR_HIGH),
              tile + own.tile_pairs * (PAIR_LOW + PAIR_HIGH), meta, barrier);
}

#include "src/kernels/linear/linear_some_product.cuh"

DEVICE void multiply_all(const struct weft__linear_device_args *args, int32_t warp, int32_t row0,
                         int32_t batch)
{
    const int32_t lane = (int32_t)(threadIdx.x % WARP);
    const struct part_of_warp own = part_of(args, warp);
    const uint32_t blocks = (uint32_t)blocks_of(args);
    wait_for_previous();
    struct x_of_warp x;
    x_load(&x, args, &own, warp, row0, batch);
#pragma unroll 1
    for (uint32_t i = 0; i < blocks; i++) {
        float d[EIGHTS][4] = {};
        const int32_t slot = (int32_t)(i % WEFT_STAGES), sums = (int32_t)(i % 2);
        barrier_wait(ring_full(warp, slot), i / WEFT_STAGES % 2);
        tile_multiply(&x, &own, warp, shared_memory() + (warp * WEFT_STAGES + slot) * SLOT, d);
        barrier_wait(sums_free(sums), i / 2 % 2 ^ 1);
        float4 *to = (float4 *)(shared_memory() + SUMS_AT) + sums * (SUM_SLOT / 4) +
                     warp * (EIGHTS * WARP) + lane;
#pragma unroll
        for (int32_t e = 0; e < EIGHTS; e++)
            to[e * WARP] = make_float4(d[e][0], d[e][1], d[e][2], d[e][3]);
        __syncwarp();
        if (lane == 0)
            barrier_arrive(sums_full(sums));
    }
}

#include "src/kernels/linear/linear_some_deliver.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    weft_linear_some(const __grid_constant__ struct weft__linear_device_args args)
{
    const int32_t warp = (int32_t)(threadIdx.x / WARP), units = units_of_block(&args);
    const int32_t row0 = (int32_t)(blockIdx.y / WEFT_SPLIT) * WEFT_ROWS;
    const int32_t batch = min(args.batch - row0, (int32_t)WEFT_ROWS);
    let_next_start();
    for (int32_t i = (int32_t)threadIdx.x; i < WARPS * WEFT_STAGES + 4; i += THREADS)
        barrier_init(barriers() + 8 * i, i < WARPS * WEFT_STAGES       ? 1
                                         : i < WARPS * WEFT_STAGES + 2 ? (uint32_t)units
                                                                       : WEFT_DELIVER);
    barrier_init_end();
    __syncthreads();
    if (warp >= WARPS) {
        registers_give<64>();
        deliver_all(&args, warp - WARPS, units, row0, batch);
    } else {
        registers_take<104>(); // 20 warps have 96
        if (warp < units)
            multiply_all(&args, warp, row0, batch);
    }
}
