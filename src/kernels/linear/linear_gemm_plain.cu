// SPDX-License-Identifier: MIT
// Y = X W^T for several rows of X on Hopper, W plain f16 or bf16 in rows that begin at multiples of 16 bytes, X as
// linear_gemm_device.h draws it.
//
// A block makes 128 rows of W by WEFT_ROWS rows of X: a thread keeps a ring of stages filled, each WEFT_PIECES times 64
// columns of W (a box of the tensor map) and of X (a piece), and two warpgroups multiply 64 rows of W each, both factors in shared
// memory. A block stays for results whose number differs by the grid; rows of X change fastest, so that blocks that run
// at the same time share W.
//
// WEFT_CLUSTER 2: two blocks with neighbouring rows of W have the same rows of X, and each brings half of them to both.
// WEFT_SPLIT > 1: the blocks of a cluster have each a part of the columns and add up in shared memory.
// WEFT_TERMS 3: X in three numbers of bf16 whose sum it is, for few rows: sums are as exact as those of f32. Those of 64
// columns are added up in f32.
//
// Function constants: WEFT_BRAIN (1: bf16, 0: f16), WEFT_ROWS (8, 16 with three terms; 32, 64, 128, 256), WEFT_TERMS,
// WEFT_PIECES (1, 2), WEFT_STAGES, WEFT_SPLIT, WEFT_CLUSTER, WEFT_RESIDENT (blocks a SM that registers allow), WEFT_Y_DTYPE.
#include "src/kernels/cuda/bulk.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/wgmma.cuh"
#include "src/kernels/linear/linear_gemm_result.cuh"

#define SHARED_BY_CLUSTER (WEFT_SPLIT > 1 || WEFT_CLUSTER > 1)

enum {
    GROUPS = 2,                    // of warps that multiply
    WIDE = WEFT_ROWS * WEFT_TERMS, // of a product
    SUMS = WIDE / 2,               // numbers of D that a lane has
    RESULTS = WEFT_ROWS / 2,
    W_PIECE = WEFT__LINEAR_GEMM_TILE_ROWS * 128,
    X_PIECE = WIDE * 128,
    W_BYTES = WEFT_PIECES * W_PIECE,
    STAGE_BYTES = W_BYTES + WEFT_PIECES * X_PIECE,
    BARRIERS_AT = WEFT_STAGES * STAGE_BYTES, // shared memory: ring | barriers
    SUM_STRIDE = WEFT__LINEAR_GEMM_TILE_ROWS + 4,
    STAGES_PER_SUM = 16 / WEFT_PIECES,
};

DEVICE uint8_t *shared_memory()
{
    extern __shared__ __align__(1024) uint8_t bytes[];
    return bytes;
}

DEVICE uint32_t full_barrier(int32_t stage)
{
    return shared_address(shared_memory()) + BARRIERS_AT + 16 * stage;
}

DEVICE uint32_t empty_barrier(int32_t stage)
{
    return full_barrier(stage) + 8;
}

// The block's part of the columns, in stages.
struct range {
    int32_t first, count;
};

DEVICE struct range range_of(int32_t cols)
{
    struct range part;
    const int32_t wide = 64 * WEFT_PIECES;
    int32_t all = (cols + wide - 1) / wide, each = (all + WEFT_SPLIT - 1) / WEFT_SPLIT;
    part.first = WEFT_SPLIT > 1 ? (int32_t)cluster_rank() * each : 0;
    part.count = min(max(all - part.first, 0), each);
    return part;
}

// A result: where its rows of W and of X begin.
struct result {
    int32_t row, n;
};

DEVICE struct result result_of(const struct weft__linear_gemm_args *args, int32_t tile)
{
    struct result at;
    const int32_t columns = args->tiles / args->row_tiles;
    at.row = tile / columns * WEFT__LINEAR_GEMM_TILE_ROWS * WEFT_CLUSTER;
    at.row += WEFT_CLUSTER > 1 ? (int32_t)cluster_rank() * WEFT__LINEAR_GEMM_TILE_ROWS : 0;
    at.n = tile % columns * WEFT_ROWS;
    return at;
}

enum { SHARERS = WEFT_SPLIT * WEFT_CLUSTER }; // blocks with the same tiles

// A walk over the stages of all results that the block makes.
struct walk {
    int32_t tile, step, stage;
    uint32_t parity; // of the stage's phase
};

DEVICE struct walk walk_begin()
{
    struct walk at = {(int32_t)blockIdx.x / SHARERS, 0, 0, 0};
    return at;
}

DEVICE void walk_on(struct walk *at, int32_t steps)
{
    if (++at->step == steps)
        at->step = 0, at->tile += (int32_t)gridDim.x / SHARERS;
    if (++at->stage == WEFT_STAGES)
        at->stage = 0, at->parity ^= 1;
}

DEVICE uint32_t x_bytes(const struct weft__linear_gemm_args *args, int32_t n)
{
    if (WEFT_TERMS > 1 || WEFT_CLUSTER > 1)
        return WIDE * 128;
    return (uint32_t)min((args->batch + 7) / 8 * 8 - n, (int32_t)WEFT_ROWS) * 128;
}

DEVICE void ask_weights(const struct weft__linear_gemm_args *args, const struct range *part,
                        const struct walk *at)
{
    const struct result result = result_of(args, at->tile);
    const uint32_t to = shared_address(shared_memory()) + at->stage * STAGE_BYTES;
    barrier_expect(full_barrier(at->stage), W_BYTES + WEFT_PIECES * x_bytes(args, result.n));
#pragma unroll
    for (int32_t i = 0; i < WEFT_PIECES; i++)
        copy_box(to + i * W_PIECE, args->map, ((part->first + at->step) * WEFT_PIECES + i) * 64,
                 result.row, full_barrier(at->stage));
}

DEVICE void ask_x(const struct weft__linear_gemm_args *args, const struct range *part,
                  const struct walk *at)
{
    const struct result result = result_of(args, at->tile);
    const uint32_t to = shared_address(shared_memory()) + at->stage * STAGE_BYTES + W_BYTES;
    const uint32_t full = full_barrier(at->stage);
#if WEFT_CLUSTER > 1
    // rows past the last are those of the next piece, or zeros
    const int32_t share = (int32_t)cluster_rank() * (WEFT_ROWS / 2);
#pragma unroll
    for (int32_t i = 0; i < WEFT_PIECES; i++)
        copy_box_cluster(to + i * X_PIECE + share * 128, args->x_map, 0,
                         ((part->first + at->step) * WEFT_PIECES + i) *
                                 ((args->batch + 7) / 8 * 8) +
                             result.n + share,
                         full, 3);
#else
    const int64_t row_bytes = WEFT_TERMS * 128, rows = (args->batch + 7) / 8 * 8;
    const uint8_t *from = (const uint8_t *)args->pieces +
                          ((part->first + at->step) * WEFT_PIECES * rows + result.n) * row_bytes;
    const uint32_t bytes = x_bytes(args, result.n);
#pragma unroll
    for (int32_t i = 0; i < WEFT_PIECES; i++)
        copy_bulk(to + i * X_PIECE, from + i * rows * row_bytes, bytes, full);
#endif
}

// One thread fills the ring. Weights are older than what runs before: a ring of them is asked for at once.
DEVICE void produce(const struct weft__linear_gemm_args *args)
{
    const struct range part = range_of(args->cols);
    struct walk early = walk_begin(), at = walk_begin();
    if (part.count == 0)
        return;
    for (int32_t i = 0; i < WEFT_STAGES && early.tile < args->tiles; i++) {
        ask_weights(args, &part, &early);
        walk_on(&early, part.count);
    }
    wait_for_previous();
    for (int32_t i = 0; at.tile < args->tiles; i++) {
        if (i >= WEFT_STAGES) {
            barrier_wait(empty_barrier(at.stage), at.parity ^ 1);
            ask_weights(args, &part, &at);
        }
        ask_x(args, &part, &at);
        walk_on(&at, part.count);
    }
}

// The stage goes back to whoever fills it: of a cluster, both blocks write X into it.
DEVICE void release(int32_t stage)
{
    if (WEFT_CLUSTER > 1 && threadIdx.x % WARP < WEFT_CLUSTER)
        barrier_arrive_at(empty_barrier(stage), threadIdx.x % WARP);
    else if (WEFT_CLUSTER == 1 && threadIdx.x % WARP == 0)
        barrier_arrive(empty_barrier(stage));
}

DEVICE void multiply(float *d, uint64_t a, uint64_t b, bool add)
{
#define WGMMA_NAME_(TYPE, N) wgmma_shared_##TYPE##_##N
#define WGMMA_NAME(TYPE, N)  WGMMA_NAME_(TYPE, N)
#if WEFT_TERMS == 3 && WEFT_ROWS == 8
    wgmma_shared_bf16_24(d, a, b, add);
#elif WEFT_TERMS == 3
    wgmma_shared_bf16_48(d, a, b, add);
#elif WEFT_BRAIN
    WGMMA_NAME(bf16, WEFT_ROWS)(d, a, b, add);
#else
    WGMMA_NAME(f16, WEFT_ROWS)(d, a, b, add);
#endif
}

DEVICE void multiply_stage(const struct walk *at, float d[SUMS], bool add)
{
    const uint32_t stage = shared_address(shared_memory()) + at->stage * STAGE_BYTES;
    const uint32_t own = stage + threadIdx.x / 128 * (W_PIECE / GROUPS);
    barrier_wait(full_barrier(at->stage), at->parity);
    wgmma_begin();
#pragma unroll
    for (int32_t k = 0; k < 4 * WEFT_PIECES; k++)
        multiply(d, wgmma_matrix(own + k / 4 * W_PIECE + k % 4 * 32),
                 wgmma_matrix(stage + W_BYTES + k / 4 * X_PIECE + k % 4 * 32), add || k > 0);
    wgmma_group_end();
}

#if WEFT_TERMS > 1

// sum += the terms of d. Rows of X are the same eights in each term.
DEVICE void add_terms(float sum[RESULTS], const float d[SUMS])
{
#pragma unroll
    for (int32_t i = 0; i < RESULTS; i++)
        sum[i] += d[i] + (d[i + RESULTS] + d[i + 2 * RESULTS]);
}

DEVICE void consume(struct walk *at, int32_t steps, float total[RESULTS])
{
    float sum[RESULTS] = {0}, d[SUMS];
#pragma unroll
    for (int32_t i = 0; i < RESULTS; i++)
        total[i] = 0;
    for (int32_t step = 1; step <= steps; step++) {
        multiply_stage(at, d, false);
        WGMMA_WAIT(0);
        release(at->stage);
        add_terms(sum, d);
        if (step % STAGES_PER_SUM == 0 || step == steps)
#pragma unroll
            for (int32_t i = 0; i < RESULTS; i++)
                total[i] += sum[i], sum[i] = 0;
        walk_on(at, steps);
    }
}

#else

DEVICE void consume(struct walk *at, int32_t steps, float d[SUMS])
{
    int32_t last = -1;
    for (int32_t i = 0; i < SUMS && steps == 0; i++)
        d[i] = 0;
    for (int32_t step = 0; step < steps; step++) {
        multiply_stage(at, d, step > 0);
        WGMMA_WAIT(1);
        if (last >= 0)
            release(last);
        last = at->stage;
        walk_on(at, steps);
    }
    WGMMA_WAIT(0);
    if (last >= 0)
        release(last);
}

#endif

#if WEFT_SPLIT > 1

// Sums of the blocks of a cluster: [row of X][row of W] where the ring was.
DEVICE void deliver(const struct weft__linear_gemm_args *args, const float d[RESULTS],
                    const struct result *at)
{
    enum { TOTAL = WEFT_ROWS * WEFT__LINEAR_GEMM_TILE_ROWS, EACH = TOTAL / WEFT_SPLIT };
    float *sums = (float *)shared_memory();
    const int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP;
    part_sync<GROUPS * 128>(1);
#pragma unroll
    for (int32_t i = 0; i < RESULTS; i++)
        sums[(i / 4 * 8 + lane % 4 * 2 + i % 2) * SUM_STRIDE + warp * 16 + lane / 4 +
             i % 4 / 2 * 8] = d[i];
    cluster_barrier();
    for (int32_t i = (int32_t)threadIdx.x; i < EACH; i += GROUPS * 128) {
        const int32_t which = (int32_t)cluster_rank() * EACH + i;
        const int32_t n = which / WEFT__LINEAR_GEMM_TILE_ROWS,
                      row = which % WEFT__LINEAR_GEMM_TILE_ROWS;
        float total = 0;
#pragma unroll
        for (uint32_t rank = 0; rank < WEFT_SPLIT; rank++)
            total += cluster_load(sums + n * SUM_STRIDE + row, rank);
        result_store(args, at->row + row, at->n + n, total);
    }
}

#else

DEVICE void deliver(const struct weft__linear_gemm_args *args, const float d[RESULTS],
                    const struct result *at)
{
    results_store<RESULTS>(args, at->row + (int32_t)threadIdx.x / WARP * 16, at->n, d);
}

#endif

DEVICE void multiply_all(const struct weft__linear_gemm_args *args)
{
    const int32_t steps = range_of(args->cols).count;
    struct walk at = walk_begin();
    for (int32_t tile = at.tile; tile < args->tiles; tile += (int32_t)gridDim.x / SHARERS) {
        float d[RESULTS > SUMS ? RESULTS : SUMS];
        const struct result result = result_of(args, tile);
        consume(&at, steps, d);
        deliver(args, d, &result);
    }
}

extern "C" __global__ void __launch_bounds__(GROUPS * 128 + 128, WEFT_RESIDENT)
    weft_linear_gemm_plain(const __grid_constant__ struct weft__linear_gemm_args args)
{
    const int32_t warp = (int32_t)threadIdx.x / WARP;
    if (threadIdx.x == 0) {
        for (int32_t i = 0; i < WEFT_STAGES; i++) {
            barrier_init(full_barrier(i), 1);
            barrier_init(empty_barrier(i), 4 * GROUPS * WEFT_CLUSTER);
        }
        barrier_init_end();
    }
    __syncthreads();
#if WEFT_CLUSTER > 1
    cluster_barrier(); // before another block's copies and arrivals
#endif
    let_next_start();
    if (warp >= 4 * GROUPS) {
        if (WEFT_ROWS == 256)
            registers_give<40>();
        if (threadIdx.x == 4 * GROUPS * WARP)
            produce(&args);
        __syncwarp();
#if WEFT_SPLIT > 1
        cluster_barrier(); // as in deliver()
#endif
    } else {
        if (WEFT_ROWS == 256) // more than 65536 / 384
            registers_take<232>();
        wait_for_previous();
        multiply_all(&args);
    }
#if SHARED_BY_CLUSTER
    cluster_barrier(); // nobody leaves while another reads its sums, or writes to it
#endif
}
