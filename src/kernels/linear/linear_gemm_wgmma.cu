// SPDX-License-Identifier: MIT
// Y = X W^T for many rows of X on Hopper, W packed from a block format (linear_device.h), X as linear_gemm_device.h
// draws it.
//
// A block makes 128 rows of W by WEFT_ROWS rows of X: two warpgroups of 64 rows of W each, and a warp that keeps
// two rings filled, one of tiles of W (256 columns), one of pieces of X (64 columns). A warpgroup turns the codes of its
// rows into A fragments in registers while the tensor cores multiply the 64 columns before. With WEFT_SPLIT > 1 the
// blocks of a cluster have each a part of the columns and add up in shared memory, in the order of the columns.
//
// Function constants: WEFT_FORMAT, WEFT_BRAIN (1: bf16, 0: f16), WEFT_ROWS (16, 32, 64, 128, 256), WEFT_STAGES (of the ring of
// pieces), WEFT_TILES (of the ring of tiles), WEFT_SPLIT, WEFT_Y_DTYPE (1 f32, 2 f16, 3 bf16).
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/wgmma.cuh"
#include "src/kernels/linear/linear_gemm_result.cuh"
#include "src/kernels/linear/linear_gemm_weights.cuh"

enum {
    GROUPS = 2, // of warps that multiply
    W_STAGE = ROW_BLOCKS * SLOT,
    X_STAGE = WEFT_ROWS * 128,
    X_AT = WEFT_STAGES * X_STAGE, // shared memory: ring of X | ring of W | barriers
    BARRIERS_AT = X_AT + WEFT_TILES * W_STAGE,
    SUM_STRIDE = 16 * ROW_BLOCKS + 4,
    SUMS = WEFT_ROWS / 2,                                // numbers of D that a lane has
    RESIDENT = WEFT_ROWS <= 32 && FEW_REGISTERS ? 2 : 1, // blocks a SM that registers allow
};

DEVICE uint8_t *shared_memory()
{
    extern __shared__ __align__(1024) uint8_t bytes[];
    return bytes;
}

// The block's part of the columns, in tiles and pairs of 64.
struct range {
    int32_t tile0, tiles, pairs;
};

DEVICE struct range range_of(int32_t cols)
{
    struct range part;
    const int32_t wide = 64 * TILE_PAIRS;
    int32_t all = (cols + wide - 1) / wide, each = (all + WEFT_SPLIT - 1) / WEFT_SPLIT;
    part.tile0 = WEFT_SPLIT > 1 ? (int32_t)cluster_rank() * each : 0;
    part.tiles = all - part.tile0 < each ? all - part.tile0 : each;
    int32_t left = (cols + 63) / 64 - TILE_PAIRS * part.tile0;
    part.pairs = part.tiles <= 0 ? 0 : min(left, TILE_PAIRS * each);
    return part;
}

struct barriers {
    uint32_t x_full, x_empty, w_full, w_empty; // the first of each, 8 bytes apart
};

DEVICE struct barriers barriers_of()
{
    uint32_t first = shared_address(shared_memory()) + BARRIERS_AT;
    struct barriers b = {first, first + 8 * WEFT_STAGES, first + 16 * WEFT_STAGES,
                         first + 16 * WEFT_STAGES + 8 * WEFT_TILES};
    return b;
}

// A place in a ring: its index and the parity of the phase that fills it.
struct place {
    int32_t index;
    uint32_t parity;
};

DEVICE void advance(struct place *at, int32_t stages)
{
    if (++at->index == stages)
        at->index = 0, at->parity ^= 1;
}

// A result: where its rows of W and of X begin. Rows of X change fastest: blocks that run at the same time share W.
struct result {
    int32_t row, n;
};

DEVICE struct result result_of(const struct weft__linear_gemm_args *args, int32_t tile)
{
    const int32_t columns = args->tiles / args->row_tiles;
    struct result at = {tile / columns * 16 * ROW_BLOCKS, tile % columns * WEFT_ROWS};
    return at;
}

// One warp fills the rings for all results that the block makes.
DEVICE void produce(const struct weft__linear_gemm_args *args)
{
    struct barriers b = barriers_of();
    const struct range part = range_of(args->cols);
    struct place x = {0, 1}, w = {0, 1};
    const uint32_t base = shared_address(shared_memory());
    const bool first = threadIdx.x % WARP == 0;
    const int32_t x_rows = (args->batch + 7) / 8 * 8, all = (args->cols + 63) / 64;
    bool waited = false;
    for (int32_t tile = (int32_t)blockIdx.x / WEFT_SPLIT; tile < args->tiles;
         tile += (int32_t)gridDim.x / WEFT_SPLIT) {
        const struct result at = result_of(args, tile);
        const int32_t block0 = at.row / 16, n0 = at.n;
        uint32_t x_bytes = (uint32_t)min(x_rows - n0, (int32_t)WEFT_ROWS) * 128;
        for (int32_t t = 0; t < part.tiles; t++) {
            int32_t kt = part.tile0 + t, pairs = min(all - TILE_PAIRS * kt, (int32_t)TILE_PAIRS);
            barrier_wait(b.w_empty + 8 * w.index, w.parity);
            tile_ask(args, block0, kt, base + X_AT + w.index * W_STAGE, b.w_full + 8 * w.index);
            advance(&w, WEFT_TILES);
            if (!waited)
                wait_for_previous(); // the weights are older than what runs before
            waited = true;
            // an odd last pair is followed by a piece of zeros
            for (int32_t p = 0; p < (pairs + 1) / 2 * 2; p++) {
                barrier_wait(b.x_empty + 8 * x.index, x.parity);
                if (first) {
                    barrier_expect(b.x_full + 8 * x.index, x_bytes);
                    copy_bulk(base + x.index * X_STAGE,
                              (const uint8_t *)args->pieces +
                                  ((int64_t)(TILE_PAIRS * kt + p) * x_rows + n0) * 128,
                              x_bytes, b.x_full + 8 * x.index);
                }
                advance(&x, WEFT_STAGES);
            }
        }
    }
}

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

// Where a warpgroup is in the columns.
struct walk {
    struct barriers b;
    struct place x, w;
    uint32_t x_base;
    const uint8_t *tiles; // the warp's row block in the first stage of W
    struct weights_of_tile own;
    int32_t lane, pair, pairs;
    int32_t tile_pairs; // of the tile that pair belongs to
};

// The next 64 columns of W as fragments; zeros past the last.
DEVICE void fragments_next(struct walk *s, int32_t cols_pairs, uint32_t fragment[4][4])
{
    const int32_t p = s->pair % TILE_PAIRS;
    if (s->pair >= s->pairs) {
#pragma unroll
        for (int32_t i = 0; i < 16; i++)
            fragment[i / 4][i % 4] = 0;
        s->pair++;
        return;
    }
    const uint8_t *tile = s->tiles + s->w.index * W_STAGE;
    if (p == 0) {
        barrier_wait(s->b.w_full + 8 * s->w.index, s->w.parity);
        s->tile_pairs = min(cols_pairs - s->pair, (int32_t)TILE_PAIRS);
        tile_begin(&s->own, tile, s->tile_pairs, s->lane / 4);
    }
    tile_fragments(&s->own, tile, s->tile_pairs, p, s->lane, fragment);
    if (p == s->tile_pairs - 1) {
        __syncwarp();
        if (s->lane == 0)
            barrier_arrive(s->b.w_empty + 8 * s->w.index);
        advance(&s->w, WEFT_TILES);
    }
    s->pair++;
}

// Products of the fragments with the next piece of X; the piece before it, whose products are then done, goes back.
DEVICE void multiply_next(struct walk *s, uint32_t fragment[4][4], float *d, int32_t *last)
{
    barrier_wait(s->b.x_full + 8 * s->x.index, s->x.parity);
    uint32_t at = s->x_base + s->x.index * X_STAGE;
    wgmma_begin();
#pragma unroll
    for (int32_t k = 0; k < 4; k++)
        multiply(d, fragment[k], wgmma_matrix(at + 32 * k));
    wgmma_group_end();
    WGMMA_WAIT(1);
    if (*last >= 0 && s->lane == 0)
        barrier_arrive(s->b.x_empty + 8 * *last);
    *last = s->x.index;
    advance(&s->x, WEFT_STAGES);
}

#if WEFT_SPLIT > 1

// Sums of the blocks of a cluster: [row of X][row of W] where the rings were.
DEVICE void deliver(const struct weft__linear_gemm_args *args, const float *d, int32_t row0,
                    int32_t n0)
{
    float *sums = (float *)shared_memory();
    int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP;
    part_sync<GROUPS * 128>(1);
#pragma unroll
    for (int32_t i = 0; i < SUMS; i++)
        sums[(i / 4 * 8 + lane % 4 * 2 + i % 2) * SUM_STRIDE + warp * 16 + lane / 4 +
             i % 4 / 2 * 8] = d[i];
    cluster_barrier();
    const int32_t total = WEFT_ROWS * 16 * ROW_BLOCKS, each = total / WEFT_SPLIT;
    for (int32_t i = (int32_t)(cluster_rank() * each + threadIdx.x);
         i < (int32_t)(cluster_rank() + 1) * each; i += GROUPS * 128) {
        int32_t n = i / (16 * ROW_BLOCKS), row = i % (16 * ROW_BLOCKS);
        float total_sum = 0;
#pragma unroll
        for (uint32_t rank = 0; rank < WEFT_SPLIT; rank++)
            total_sum += cluster_load(sums + n * SUM_STRIDE + row, rank);
        result_store(args, row0 + row, n0 + n, total_sum);
    }
    cluster_barrier(); // nobody leaves while another reads its sums
}

#else

DEVICE void deliver(const struct weft__linear_gemm_args *args, const float *d, int32_t row0,
                    int32_t n0)
{
    results_store<SUMS>(args, row0 + (int32_t)threadIdx.x / WARP * 16, n0, d);
}

#endif

// A result of 128 rows of W by WEFT_ROWS rows of X: the sums of a warpgroup.
DEVICE void consume(struct walk *s, const struct range *part, float *d)
{
    uint32_t fragment[2][4][4];
    int32_t last = -1;
    s->pair = 0, s->pairs = part->pairs;
#pragma unroll
    for (int32_t i = 0; i < SUMS; i++)
        d[i] = 0;
    if (part->pairs == 0)
        return;
    fragments_next(s, part->pairs, fragment[0]);
    for (int32_t i = 0; i < part->pairs; i += 2) {
        multiply_next(s, fragment[0], d, &last);
        fragments_next(s, part->pairs, fragment[1]);
        multiply_next(s, fragment[1], d, &last);
        fragments_next(s, part->pairs, fragment[0]);
    }
    WGMMA_WAIT(0);
    if (s->lane == 0)
        barrier_arrive(s->b.x_empty + 8 * last);
}

extern "C" __global__ void __launch_bounds__(GROUPS * 128 + 128, RESIDENT)
    weft_linear_gemm(const __grid_constant__ struct weft__linear_gemm_args args)
{
    struct walk s;
    const int32_t warp = (int32_t)threadIdx.x / WARP;
    s.b = barriers_of();
    if (threadIdx.x == 0) {
        for (int32_t i = 0; i < WEFT_STAGES; i++)
            barrier_init(s.b.x_full + 8 * i, 1), barrier_init(s.b.x_empty + 8 * i, 4 * GROUPS);
        for (int32_t i = 0; i < WEFT_TILES; i++)
            barrier_init(s.b.w_full + 8 * i, 1), barrier_init(s.b.w_empty + 8 * i, 4 * GROUPS);
        barrier_init_end();
    }
#if TILE_GRID
    grid_load();
#endif
    __syncthreads();
    let_next_start();
    const struct range part = range_of(args.cols);
    if (warp >= 4 * GROUPS) {
        if (WEFT_ROWS == 256)
            registers_give<40>();
        if (warp == 4 * GROUPS)
            produce(&args);
#if WEFT_SPLIT > 1
        __syncwarp();
        cluster_barrier(), cluster_barrier(); // as in deliver()
#endif
    } else {
        if (WEFT_ROWS == 256) // more than 65536 / 384
            registers_take<232>();
        wait_for_previous();
        s.lane = (int32_t)threadIdx.x % WARP;
        s.x.index = s.w.index = 0, s.x.parity = s.w.parity = 0;
        s.x_base = shared_address(shared_memory());
        s.tiles = shared_memory() + X_AT + warp * SLOT;
        float d[SUMS];
        for (int32_t tile = (int32_t)blockIdx.x / WEFT_SPLIT; tile < args.tiles;
             tile += (int32_t)gridDim.x / WEFT_SPLIT) {
            consume(&s, &part, d);
            const struct result at = result_of(&args, tile);
            deliver(&args, d, at.row, at.n);
        }
    }
}
