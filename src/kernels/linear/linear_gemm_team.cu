// SPDX-License-Identifier: MIT
// Y = X W^T for 9 to 16 rows of X, rounded, W packed from a block format (linear_device.h): products of 8-bit codes, as exact as
// 8-bit integers are.
//
// A block has a slice of the columns of all rows of X in shared memory. A team of warps takes units of 32 rows of W, each warp some
// of the slice's tiles of both row blocks, so that what is loaded of X serves two of them, and the team adds up. X is A of
// m16n8k32, W is B: the words of a packed tile are B of 8 rows as they are A of 16. So a lane's results are of two rows of X, whose
// numbers cost shared memory more than those of W do. Columns are whole tiles.
//
//      shared memory: codes of X [64 columns][unit][lane][16], A fragments
//                     scales of X [64 columns][r][row r, unit 0, 1, row r + 8, unit 0, 1], of 22 bits
//                     with minima: sums of X [256 columns][lane][4], A of m16n8k8
//                     1 / rms [row] | rings, warp after warp
//      a ring:        slots: codes of 64 columns of a row block, of the other, and where a tile has not its scales together those
//                     where it has: scales of a tile of both row blocks, and as numbers [64 columns][row block][c][i][row 2 c + 8 i + 0, 1][unit]
//
// Grid (blocks of a slice, slices). Function constants: WEFT_FORMAT (q4_0, q4_k), WEFT_WARPS (of a block), WEFT_TEAM (a divisor of
// them), WEFT_STAGES (of a warp's ring, 2 or 4), WEFT_STAGED (1: sums of slices, 0: Y), WEFT_Y_DTYPE (1 f32, 2 f16, 3 bf16), WEFT_SCALE_DTYPE.
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/mma.cuh"
#include "src/kernels/linear/linear_gemm_part.cuh"
#include "src/kernels/linear/linear_rounding.cuh"
#include "src/kernels/linear/linear_tile.cuh"

enum {
    WARPS = WEFT_WARPS,
    THREADS = WARPS * WARP,
    TEAMS = WARPS / WEFT_TEAM,
    ROWS = WEFT__LINEAR_TEAM_ROWS,      // of X
    UNIT_ROWS = WEFT__LINEAR_TEAM_UNIT, // of W
    SLOT_SCALES = 2 * PAIR_LOW,
    SLOT = SLOT_SCALES + (TILE_SUPER ? 0 : 2 * TILE_META),
    TILE_SCALES = WEFT_STAGES * SLOT,
    NUMBERS = TILE_SCALES + (TILE_SUPER ? 2 * TILE_META : 0),
    RING = NUMBERS + (TILE_SUPER ? 1024 : 0),
    X_CODES = ROWS * 64,                 // bytes of 64 columns
    X_SCALES = WEFT__LINEAR_TEAM_SCALES, // numbers of 64 columns
    X_SUMS = TILE_MIN ? ROWS * 8 : 0,    // of a tile
    EARLY = WEFT_STAGES / 2,             // slots that are asked for before X
};
static_assert(SLOT == WEFT__LINEAR_TEAM_SLOT(WEFT_FORMAT) &&
                  RING == WEFT_STAGES * SLOT + WEFT__LINEAR_TEAM_BESIDE(WEFT_FORMAT),
              "bytes of a ring");

// Where a sum of products stands: 96, above which integers are steps of 2^-17 (linear_some.cuh).
#define SUM_BITS 0x42c00000
#define SUM_ONE  0x1p17f

DEVICE uint8_t *shared_memory()
{
    extern __shared__ __align__(128) uint8_t bytes[];
    return bytes;
}

DEVICE int32_t all_pairs(const struct weft__linear_slice_args *args)
{
    return args->cols / 64;
}

// The block's slice: its first tile, and how many.
struct slice {
    int32_t tile0, tiles;
};

DEVICE struct slice slice_of(const struct weft__linear_slice_args *args)
{
    struct slice s;
    s.tile0 = (int32_t)blockIdx.y * args->slice_tiles;
    s.tiles = min(args->cols / 256 - s.tile0, args->slice_tiles);
    return s;
}

DEVICE float *shared_scales(const struct weft__linear_slice_args *args)
{
    return (float *)(shared_memory() + args->slice_tiles * 4 * X_CODES);
}

DEVICE float *shared_sums(const struct weft__linear_slice_args *args)
{
    return shared_scales(args) + args->slice_tiles * 4 * X_SCALES;
}

DEVICE float *shared_inverse(const struct weft__linear_slice_args *args)
{
    return shared_sums(args) + args->slice_tiles * X_SUMS;
}

DEVICE uint8_t *shared_ring(const struct weft__linear_slice_args *args, int32_t warp)
{
    return (uint8_t *)(shared_inverse(args) + ROWS) + warp * RING;
}

DEVICE const uint8_t *row_of_x(const struct weft__linear_slice_args *args, int32_t n)
{
    return (const uint8_t *)args->x + n * weft__linear_rounded_stride(args->cols);
}

#include "src/kernels/linear/linear_gemm_team_x.cuh"

// Where a lane's bytes of a warp's next slot are: 16 of the codes of the first row block's tile, what the other's is further, and of
// the scales, of which SCALE_LANES lanes ask for the first's, as many for the other's. A row block has fewer than 2^31
// bytes, for the columns fit shared memory.
enum { SCALE_LANES = TILE_META / 16 };

struct source {
    const uint8_t *codes;
    int32_t scales, other;
    int32_t tiles; // that are left
};

DEVICE struct source source_of(const struct weft__linear_slice_args *args, int32_t unit,
                               int32_t tile, int32_t tiles, int32_t lane)
{
    const struct weft__linear_slice_part *part = &args->part[part_of(args, unit)];
    const int32_t row_bytes = args->cols / 256 * TILE_BYTES(4);
    const int32_t block = (unit - part->first_unit) * 2;
    struct source from;
    from.codes = (const uint8_t *)part->weight + (int64_t)block * row_bytes +
                 (int64_t)tile * TILE_BYTES(4) + lane * 16;
    // beyond the last rows the last of them are read again
    from.other = block + 1 < (part->rows + 15) / 16 ? row_bytes : 0;
    from.scales =
        4 * PAIR_LOW + (lane % SCALE_LANES - lane) * 16 + (lane / SCALE_LANES ? from.other : 0);
    from.tiles = tiles;
    return from;
}

// Asks for pair p of the source's tile into its slot of a ring, and with the first for scales that the tile has together. Pairs are asked for in
// their order; an empty request keeps the count of requests.
DEVICE void ask(struct source *from, int32_t p, uint32_t ring, int32_t lane, uint64_t policy)
{
    const uint32_t slot = ring + p % WEFT_STAGES * SLOT;
    if (from->tiles > 0) {
        copy_16_async_as(slot + lane * 16, from->codes + p * PAIR_LOW, policy);
        copy_16_async_as(slot + PAIR_LOW + lane * 16, from->codes + from->other + p * PAIR_LOW,
                         policy);
        if (TILE_SUPER && p == 0)
            copy_16_async_as(ring + TILE_SCALES + lane * 16, from->codes + from->scales, policy);
        if (!TILE_SUPER && lane < 2 * SCALE_LANES)
            copy_16_async_as(slot + SLOT_SCALES + lane * 16,
                             from->codes + from->scales + p * TILE_META, policy);
        if (p == 3)
            from->codes += TILE_BYTES(4), from->tiles--;
    }
    copy_group_end();
}

#include "src/kernels/linear/linear_gemm_team_tile.cuh"

// The warp's tiles of a slice.
struct share {
    int32_t first, tiles;
};

DEVICE struct share share_of(const struct slice *s, int32_t rank)
{
    const int32_t each = s->tiles / WEFT_TEAM, more = s->tiles % WEFT_TEAM;
    struct share own;
    own.first = rank * each + min(rank, more);
    own.tiles = each + (rank < more ? 1 : 0);
    return own;
}

// What is left of the ring at the end of a unit, for the warp's sums: its last slots. The others are the next unit's already.
enum {
    KEPT_SLOTS = (ROWS * UNIT_ROWS * 4 + SLOT - 1) / SLOT,
    NEXT_SLOTS = WEFT_STAGES - KEPT_SLOTS,
};
static_assert(KEPT_SLOTS <= WEFT_STAGES, "room for sums");

// Where the sum of a row of X and a row of W of a unit is among those of a warp.
DEVICE int32_t sum_at(int32_t n, int32_t w)
{
    return n * UNIT_ROWS + (w ^ (n & 3) * 8);
}

DEVICE void team_barrier(int32_t team)
{
    if (TEAMS == 1)
        __syncthreads();
    else
        part_sync<WEFT_TEAM * WARP>(1 + team);
}

// A warp's sums go to its ring.
DEVICE void sums_store(float *sums, int32_t lane, const float sum[2][2][4])
{
#pragma unroll
    for (int32_t k = 0; k < 2; k++)
#pragma unroll
        for (int32_t i = 0; i < 2; i++)
#pragma unroll
            for (int32_t e = 0; e < 4; e += 2)
                *(float2 *)(sums + sum_at(lane / 4 + 4 * e, k * 16 + i * 8 + lane % 4 * 2)) =
                    make_float2(sum[k][i][e], sum[k][i][e + 1]);
}

// The product of row n of X and a row of W a lane: all warps' sums.
DEVICE float product(const struct weft__linear_slice_args *args, float alpha, int32_t n,
                     const float *sums)
{
    float total = 0;
#pragma unroll
    for (int32_t j = 0; j < WEFT_TEAM; j++)
        total += sums[j * (RING / 4)];
    return alpha * (shared_inverse(args)[n] * total);
}

// Sums of the slice in f32 for another launch, or results, a lane each.
DEVICE void deliver(const struct weft__linear_slice_args *args,
                    const struct weft__linear_slice_part *part, int32_t row, int32_t n, float out)
{
    if (row >= part->rows)
        return;
    if (!WEFT_STAGED && part->bias)
        out += part->bias[row];
    if (!WEFT_STAGED && args->residual)
        out += element<WEFT_Y_DTYPE>(args->residual, n * args->residual_stride + row);
    set_element<WEFT_Y_DTYPE>(part->y, blockIdx.y * part->slice_stride + n * part->y_stride + row,
                              out);
}

// Where a thread is. Worked out where it is wanted: the sums want its registers.
struct place {
    int32_t warp, lane, team, rank;
};

DEVICE struct place place_of_thread()
{
    const int32_t thread = computed_here((int32_t)threadIdx.x);
    struct place at = {thread / WARP, thread % WARP, thread / WARP / WEFT_TEAM,
                       thread / WARP % WEFT_TEAM};
    return at;
}

DEVICE struct source source_at(const struct weft__linear_slice_args *args, const struct place *at,
                               int32_t unit)
{
    const struct slice s = slice_of(args);
    const struct share own = share_of(&s, at->rank);
    return source_of(args, unit, s.tile0 + own.first, own.tiles, at->lane);
}

// Slots [first, end) of the warp's ring, of a tile from its beginning on.
DEVICE void ask_slots(const struct weft__linear_slice_args *args, struct source *from,
                      int32_t first, int32_t end)
{
    const struct place at = place_of_thread();
    const uint64_t policy = policy_once();
#pragma unroll
    for (int32_t p = first; p < end; p++)
        ask(from, p, shared_address(shared_ring(args, at.warp)), at.lane, policy);
}

// All of the slice, by all warps; the rest of the ring is asked for behind the loads of X.
DEVICE void x_load(const struct weft__linear_slice_args *args, struct source *from)
{
    const struct place at = place_of_thread();
    const struct slice s = slice_of(args);
    codes_load(args, &s);
    scales_load(args, &s);
    ask_slots(args, from, EARLY, WEFT_STAGES);
    inverse_load(args, at.warp, at.lane);
    __syncthreads();
}

// Sums of the warp's tiles, whose first slots have been asked for.
DEVICE void share_sums(const struct weft__linear_slice_args *args, struct source *from,
                       float sum[2][2][4])
{
    const struct place at = place_of_thread();
    const struct slice s = slice_of(args);
    const struct share own = share_of(&s, at.rank);
    uint8_t *ring = shared_ring(args, at.warp);
    const uint32_t to = shared_address(ring), top = 0x80808080u - (uint32_t)(args->num_units >> 31);
    const uint64_t policy = policy_once();
    struct own_x x = {shared_memory() + own.first * 4 * X_CODES + at.lane * 16,
                      shared_scales(args) + own.first * 4 * X_SCALES + at.lane / 4 * 4,
                      {}};
#pragma unroll
    for (int32_t i = 0; i < 4; i++)
        x.start[i] = SUM_BITS;
#pragma unroll
    for (int32_t i = 0; i < 16; i++)
        sum[i / 8][i / 4 % 2][i % 4] = 0;
#pragma unroll 1
    for (int32_t t = 0; t < own.tiles; t++)
#pragma unroll
        for (int32_t p = 0; p < 4; p++) {
            COPY_WAIT(WEFT_STAGES - 1);
            __syncwarp();
#if TILE_SUPER
            if (p == 0) {
                tile_begin(ring, shared_sums(args) + (own.first + t) * X_SUMS, at.lane, sum);
                __syncwarp();
            }
#endif
            pair_add(ring, p, &x, top, at.lane, sum);
            x.codes += X_CODES, x.scales += X_SCALES;
            __syncwarp();
            ask(from, (p + WEFT_STAGES) % 4, to, at.lane, policy);
        }
    COPY_WAIT(0);
    __syncwarp();
}

// The sums of a unit, over the team.
DEVICE void unit_end(const struct weft__linear_slice_args *args, int32_t unit,
                     const float sum[2][2][4])
{
    const struct place at = place_of_thread();
    const struct weft__linear_slice_part *part = &args->part[part_of(args, unit)];
    const int32_t row = (unit - part->first_unit) * UNIT_ROWS + at.lane;
    const float *sums = (const float *)(shared_ring(args, at.team * WEFT_TEAM) + NEXT_SLOTS * SLOT);
    sums_store((float *)(shared_ring(args, at.warp) + NEXT_SLOTS * SLOT), at.lane, sum);
    team_barrier(at.team);
#pragma unroll 1
    for (int32_t n = at.rank; n < args->batch; n += WEFT_TEAM)
        deliver(args, part, row, n, product(args, part->alpha, n, sums + sum_at(n, at.lane)));
    team_barrier(at.team);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    weft_linear_gemm_team(const __grid_constant__ struct weft__linear_slice_args args)
{
    struct source from = {};
    let_next_start();
    const struct place first = place_of_thread();
    int32_t unit = (int32_t)blockIdx.x + first.team * (int32_t)gridDim.x;
    if (unit < args.num_units)
        from = source_at(&args, &first, unit);
    ask_slots(&args, &from, 0, EARLY);
    wait_for_previous();
    x_load(&args, &from);
#pragma unroll 1
    while (unit < args.num_units) {
        float sum[2][2][4];
        share_sums(&args, &from, sum);
        const int32_t of = unit;
        unit += TEAMS * (int32_t)gridDim.x;
        if (unit < args.num_units) {
            const struct place at = place_of_thread();
            from = source_at(&args, &at, unit);
        }
        ask_slots(&args, &from, 0, NEXT_SLOTS);
        unit_end(&args, of, sum);
        ask_slots(&args, &from, NEXT_SLOTS, WEFT_STAGES);
    }
}
