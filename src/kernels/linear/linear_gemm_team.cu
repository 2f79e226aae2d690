// SPDX-License-Identifier: MIT
// Y = X W^T for 9 to 64 rows of X, rounded, W packed from a block format (linear_device.h): products of 8-bit codes.
//
// A block has a slice of the columns of all rows of X in shared memory. A team of warps takes units of 32 rows of W, each warp some
// of the slice's tiles of both row blocks, so that what is loaded of X serves two of them, and the team adds up. X is A of
// m16n8k32, W is B: the words of a packed tile are B of 8 rows as they are A of 16. So a lane's results are of few rows of X, whose
// numbers cost shared memory more than those of W do. A sum of products becomes a number by a fused product with the scale of
// X, as linear_some.cuh says, and is added by one with that of W.
//
//      shared memory: codes of X [64 columns][16 rows][unit][lane][16], A fragments
//                     scales of X [64 columns][16 rows][row r, unit 0, 1, row r + 8, unit 0, 1], of 22 bits
//                     1 / rms [row] | rings, warp after warp
//      a ring's slot: codes of 64 columns of a row block, of the other, scales of these, of those
//
// With a gate a team has a unit of the one matrix, then the same of the other.
//
// Grid (blocks of a slice, slices). Function constants: WEFT_FORMAT, WEFT_ROWS (16, 32, 48, 64), WEFT_WARPS (of a block), WEFT_TEAM (a divisor of them), WEFT_STAGES (of a
// warp's ring, 2 or 4), WEFT_STAGED (1: sums of slices, 0: Y), WEFT_Y_DTYPE (1 f32, 2 f16, 3 bf16),
// WEFT_GATE (linear_rounding.cuh, 0: none), WEFT_ROUND (1: results leave rounded), WEFT_SCALE_DTYPE.
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/mma.cuh"
#include "src/kernels/linear/linear_gemm_device.h"
#include "src/kernels/linear/linear_rounding.cuh"
#include "src/kernels/linear/linear_tile.cuh"

enum {
    WARPS = WEFT_WARPS,
    THREADS = WARPS * WARP,
    TEAMS = WARPS / WEFT_TEAM,
    SIXTEENS_OF_X = WEFT_ROWS / 16,
    UNIT_ROWS = WEFT__LINEAR_TEAM_UNIT, // of W
    SLOT_SCALES = 2 * PAIR_LOW,
    SLOT = SLOT_SCALES + (TILE_SUPER ? 0 : 2 * TILE_META),
    // of a tile that has its scales together: as they come, and as numbers [64 columns][row block][c][row 2 c + 8 i, 2 c + 8 i + 1][unit]
    TILE_SCALES = WEFT_STAGES * SLOT,
    NUMBERS = TILE_SCALES + (TILE_SUPER ? 2 * TILE_META : 0),
    RING = NUMBERS + (TILE_SUPER ? 1024 : 0),
    X_CODES = WEFT_ROWS * 64, // bytes of 64 columns
    X_SCALES = WEFT__LINEAR_TEAM_SCALES(WEFT_FORMAT, WEFT_ROWS), // numbers of 64 columns
    X_SUMS = TILE_MIN ? WEFT_ROWS * 8 : 0,                       // of a tile
    SUMS = SIXTEENS_OF_X * 16,                      // that a lane has
    EARLY = WEFT_STAGES / 2, // slots that are asked for before X
    JOINS = WEFT_GATE != 0,  // parts 0 and 1
    TURNS_AT_ONCE = JOINS ? 16 : 1,
};
// Where a sum of products stands: 96, above which integers are steps of 2^-17.
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
    return (uint8_t *)(shared_inverse(args) + WEFT_ROWS) + warp * RING;
}

DEVICE const uint8_t *row_of_x(const struct weft__linear_slice_args *args, int32_t n)
{
    return (const uint8_t *)args->x + n * weft__linear_rounded_stride(args->cols);
}

// 22 bits of a scale, so that 96 times it is exact; infinities and NaN stay what they are. Codes of four bits are 16 times too
// large in unit 1, signed ones in both.
DEVICE float x_scale(uint32_t scale, int32_t h)
{
    const bool large = TILE_BITS == 4 && (TILE_OFFSET || h);
    const uint32_t bits = float_bits(bits_float(scale) * (large ? 0.0625f : 1.0f));
    return bits_float((bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 2) & ~3u);
}

#if TILE_MIN
// The sum of unit u of row n, as A of m16n8k8 has it.
DEVICE void sum_store(float *sums, int32_t n, int32_t u, uint32_t scale, uint32_t both)
{
    const int32_t sum = (int16_t)both + ((int32_t)both >> 16), lane = n % 8 * 4 + u % 4;
    sums[u / 8 * X_SUMS + (n / 16 * WARP + lane) * 4 + u % 8 / 4 * 2 + n % 16 / 8] =
        bits_float(scale) * ((float)sum * (1 / SUM_ONE));
}
#endif

// 64 columns of the lane's two rows of sixteen, r and r + 8: codes; and of the row that the lane has the scales of, lanes c = 0 and 1 of
// a row, scales and sums of both units.
struct x_piece {
    uint4 codes[2], scales;
};

// Where they come from.
struct x_source {
    const uint8_t *codes[2], *scales;
    bool there[2], scaled;
};

DEVICE struct x_source x_source_of(const struct weft__linear_slice_args *args,
                                   const struct slice *s, int32_t m, int32_t lane)
{
    const int32_t n = m * 16 + lane / 4, c = lane % 4, own = n + c % 2 * 8;
    struct x_source from;
#pragma unroll
    for (int32_t k = 0; k < 2; k++) {
        from.there[k] = n + 8 * k < args->batch;
        from.codes[k] = row_of_x(args, n + 8 * k) + s->tile0 * 256 + c * 16;
    }
    from.scaled = c < 2 && own < args->batch;
    from.scales = row_of_x(args, own) + (int64_t)all_pairs(args) * 64 + s->tile0 * 64;
    return from;
}

DEVICE void x_ask(const struct x_source *from, int32_t pair, struct x_piece *piece)
{
    const uint4 none = make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int32_t k = 0; k < 2; k++)
        piece->codes[k] =
            from->there[k] ? __ldcg((const uint4 *)(from->codes[k] + pair * 64)) : none;
    piece->scales = from->scaled ? __ldcg((const uint4 *)(from->scales + pair * 16)) : none;
}

// Into the order of lanes: both rows' bytes become A of both units.
DEVICE void x_store(const struct weft__linear_slice_args *args, const struct x_piece *piece,
                    int32_t m, int32_t pair, int32_t lane)
{
    const uint4 r = piece->codes[0], other = piece->codes[1], of = piece->scales;
    uint4 *to = (uint4 *)(shared_memory() + pair * X_CODES + m * 1024) + lane;
    to[0] = make_uint4(r.x, other.x, r.y, other.y);
    to[WARP] = make_uint4(r.z, other.z, r.w, other.w);
    if (lane % 4 >= 2)
        return;
    float2 *scales = (float2 *)(shared_scales(args) + pair * X_SCALES + m * 32);
    scales[lane / 4 * 2 + lane % 4] = make_float2(x_scale(of.x, 0), x_scale(of.z, 1));
#if TILE_MIN
    const int32_t n = m * 16 + lane / 4 + lane % 4 * 8;
    sum_store(shared_sums(args), n, pair * 2, of.x, of.y);
    sum_store(shared_sums(args), n, pair * 2 + 1, of.z, of.w);
#endif
}

// The slice of all rows, 64 columns of sixteen of them a warp at a time; rows that are not there are zeros.
DEVICE void x_pieces_load(const struct weft__linear_slice_args *args, const struct slice *s,
                          int32_t warp, int32_t lane)
{
    enum { SHARES = WARPS / SIXTEENS_OF_X, AT_ONCE = WEFT_WARPS > 12 ? 4 : 6 };
    static_assert(WARPS % SIXTEENS_OF_X == 0, "a warp has the same sixteen rows");
    const int32_t m = warp % SIXTEENS_OF_X, pairs = s->tiles * 4;
    const struct x_source from = x_source_of(args, s, m, lane);
#pragma unroll 1
    for (int32_t first = warp / SIXTEENS_OF_X; first < pairs; first += AT_ONCE * SHARES) {
        struct x_piece piece[AT_ONCE];
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++)
            x_ask(&from, min(first + k * SHARES, pairs - 1), &piece[k]);
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++)
            if (first + k * SHARES < pairs)
                x_store(args, &piece[k], m, first + k * SHARES, lane);
    }
}

// What sums of rows of X are multiplied by. A lane's first numbers of every row are asked for before X is.
enum { ROWS_OF_WARP = (WEFT_ROWS + WARPS - 1) / WARPS, FIRST_SQUARES = 4 };

DEVICE const float *squares_of_row(const struct weft__linear_slice_args *args, int32_t n)
{
    return round_squares((uint8_t *)row_of_x(args, n), args->cols);
}

DEVICE void squares_ask(const struct weft__linear_slice_args *args, int32_t warp, int32_t lane,
                        float square[ROWS_OF_WARP][FIRST_SQUARES])
{
#pragma unroll
    for (int32_t k = 0; k < ROWS_OF_WARP; k++)
#pragma unroll
        for (int32_t j = 0; j < FIRST_SQUARES; j++) {
            const int32_t n = warp + k * WARPS, i = lane + j * WARP;
            const bool there = args->norm && n < args->batch && i < args->cols / 32;
            square[k][j] = there ? __ldcg(squares_of_row(args, n) + i) : 0.0f;
        }
}

DEVICE void inverse_store(const struct weft__linear_slice_args *args, int32_t warp, int32_t lane,
                          const float square[ROWS_OF_WARP][FIRST_SQUARES])
{
#pragma unroll
    for (int32_t k = 0; k < ROWS_OF_WARP; k++) {
        const int32_t n = warp + k * WARPS;
        float sum = 0;
#pragma unroll
        for (int32_t j = 0; j < FIRST_SQUARES; j++)
            sum += square[k][j];
        if (args->norm && n < args->batch)
#pragma unroll 4
            for (int32_t i = lane + FIRST_SQUARES * WARP; i < args->cols / 32; i += WARP)
                sum += __ldcg(squares_of_row(args, n) + i);
        const float total = warp_sum(sum, WARP);
        const float rms =
            args->norm ? 1.0f / sqrtf(total / (float)args->cols + args->norm_eps) : 1.0f;
        if (lane == 0 && n < WEFT_ROWS)
            shared_inverse(args)[n] = rms * SUM_ONE;
    }
}

DEVICE int32_t part_of(const struct weft__linear_slice_args *args, int32_t unit)
{
    int32_t part = 0;
#pragma unroll 1
    while (part + 1 < args->num_parts && unit >= args->part[part + 1].first_unit)
        part++;
    return part;
}

// Where a lane's bytes of a warp's next slot are: 16 of the codes of the first row block's tile, what the other's is further, and of
// the scales, of which LANES lanes ask for the first's, as many for the other's. Slots are asked for in the order of a tile's pairs.
enum { SCALE_LANES = TILE_META / 16 };
struct source {
    const uint8_t *codes;
    int32_t scales, other;
    int32_t tiles; // that are left
};

DEVICE struct source source_of(const struct weft__linear_slice_args *args, int32_t unit,
                               int32_t matrix, int32_t tile, int32_t tiles, int32_t lane)
{
    const struct weft__linear_slice_part *part =
        &args->part[JOINS ? matrix : part_of(args, unit)];
    const int32_t row_bytes = args->cols / 256 * TILE_BYTES(4);
    const int32_t block = (unit - (JOINS ? 0 : part->first_unit)) * 2;
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

// Asks for pair p of the source's tile into its slot of a ring, before the first pair for the tile's scales; an empty request keeps the count of requests.
DEVICE void ask(struct source *from, int32_t p, uint32_t ring, int32_t lane, uint64_t policy)
{
    const uint32_t slot = ring + p % WEFT_STAGES * SLOT;
    if (from->tiles > 0) {
#pragma unroll
        for (int32_t i = 0; i < PAIR_LOW; i += 512) {
            copy_16_async_as(slot + lane * 16 + i, from->codes + p * PAIR_LOW + i, policy);
            copy_16_async_as(slot + PAIR_LOW + lane * 16 + i,
                             from->codes + from->other + p * PAIR_LOW + i, policy);
        }
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

// The codes of a row block's pair as B of unit h for rows 8 i .. 8 i + 7: b[h][i][k]. Those of four bits with an offset are signed;
// top: 0x80808080, as the compiler does not know.
DEVICE void codes_of(const uint8_t *codes, int32_t lane, uint32_t top, uint32_t b[2][2][2])
{
#pragma unroll
    for (int32_t h = 0; h < (TILE_SIGNED ? 2 : 1); h++) {
        const uint4 quad = *(const uint4 *)(codes + h * 512 + lane * 16);
        const uint32_t w[4] = {quad.x, quad.y, quad.z, quad.w};
#pragma unroll
        for (int32_t j = 0; j < 4; j++)
            if (TILE_SIGNED)
                b[h][j % 2][j / 2] = w[j];
            else {
                b[0][j % 2][j / 2] =
                    TILE_OFFSET ? (w[j] << 4 & 0xf0f0f0f0u) ^ top : w[j] & 0x0f0f0f0fu;
                b[1][j % 2][j / 2] = TILE_OFFSET ? (w[j] & 0xf0f0f0f0u) ^ top : w[j] & 0xf0f0f0f0u;
            }
    }
}

// Scales of a row block's pair: [unit][i][odd] of row 2 c + 8 i + odd.
DEVICE void scales_of(const uint8_t *ring, const uint8_t *slot, int32_t p, int32_t k, int32_t c,
                      float scale[2][2][2])
{
#if TILE_SUPER
    (void)slot;
    const float4 *at = (const float4 *)(ring + NUMBERS) + ((p * 2 + k) * 4 + c) * 2;
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const float4 of = at[i];
        scale[0][i][0] = of.x, scale[1][i][0] = of.y;
        scale[0][i][1] = of.z, scale[1][i][1] = of.w;
    }
#else // two f16 of rows r and r + 8, by unit
    (void)ring, (void)p;
    const uint4 of = *(const uint4 *)(slot + SLOT_SCALES + k * TILE_META + c * 16);
    const uint32_t word[2][2] = {{of.x, of.z}, {of.y, of.w}};
#pragma unroll
    for (int32_t e = 0; e < 4; e++) {
        const float2 both = f16x2_float2(word[e / 2][e % 2]);
        scale[e / 2][0][e % 2] = both.x, scale[e / 2][1][e % 2] = both.y;
    }
#endif
}

// Of a lane: X from a pair on, and what products start from.
struct own_x {
    const uint8_t *codes;
    const float *scales;
    int32_t start[4];
};

// Pair p of a tile by all rows of X.
DEVICE void pair_add(const uint8_t *ring, int32_t p, const struct own_x *x, uint32_t top,
                     int32_t lane, float sum[2][SIXTEENS_OF_X][2][4])
{
    const uint8_t *slot = ring + p % WEFT_STAGES * SLOT;
    uint32_t b[2][2][2][2];
    float scales[2][2][2][2];
#pragma unroll
    for (int32_t k = 0; k < 2; k++) {
        codes_of(slot + k * PAIR_LOW, lane, top, b[k]);
        scales_of(ring, slot, p, k, lane % 4, scales[k]);
    }
#pragma unroll
    for (int32_t m = 0; m < SIXTEENS_OF_X; m++) {
        const float4 by = *(const float4 *)(x->scales + m * 32);
#pragma unroll
        for (int32_t h = 0; h < 2; h++) {
            const uint4 codes = *(const uint4 *)(x->codes + (m * 2 + h) * 512);
            const uint32_t a[4] = {codes.x, codes.y, codes.z, codes.w};
            const float of_row[2] = {h ? by.y : by.x, h ? by.w : by.z};
            const float less[2] = {of_row[0] * -96, of_row[1] * -96};
#pragma unroll
            for (int32_t k = 0; k < 2; k++) {
#pragma unroll
                for (int32_t i = 0; i < 2; i++) {
                    int32_t d[4];
                    if (TILE_SIGNED || TILE_OFFSET)
                        mma_s8_k32_from(d, a, b[k][h][i][0], b[k][h][i][1], x->start);
                    else
                        mma_s8_u8_k32_from(d, a, b[k][h][i][0], b[k][h][i][1], x->start);
#pragma unroll
                    for (int32_t e = 0; e < 4; e++) {
                        const float dot =
                            fmaf(__int_as_float(d[e]), of_row[e / 2], less[e / 2]);
                        sum[k][m][i][e] = fmaf(dot, scales[k][h][i][e % 2], sum[k][m][i][e]);
                    }
                }
            }
        }
    }
}

#if TILE_SUPER

// What the minima of a tile's row block add. In B of m16n8k8 are the minima of 8 rows' units, exactly, in A sums of X, two numbers of
// tf32 each: what has its 11 bits, and the rest. The rows' own number follows.
DEVICE void minima_add(const uint8_t *scales, const float *sums, int32_t lane,
                       float sum[SIXTEENS_OF_X][2][4])
{
    const int32_t r = lane / 4, c = lane % 4;
    struct tile_scales of;
    uint32_t b[2][2];
    float less[2][2];
    tile_scales_load(&of, scales - 4 * (PAIR_LOW + PAIR_HIGH), 4, r);
#pragma unroll
    for (int32_t i = 0; i < 2; i++)
#pragma unroll
        for (int32_t k = 0; k < 2; k++) {
            b[i][k] = float_bits(times_byte(1, of.m[i][k], c, 0));
            less[i][k] = -f16_float(*(const uint16_t *)(scales + (2 * c + 8 * i + k) * 16 + 2));
        }
#pragma unroll
    for (int32_t m = 0; m < SIXTEENS_OF_X; m++) {
        const float4 all = *(const float4 *)(sums + (m * WARP + lane) * 4);
        const float whole[4] = {all.x, all.y, all.z, all.w};
        uint32_t high[4], low[4];
#pragma unroll
        for (int32_t e = 0; e < 4; e++) {
            high[e] = float_bits(whole[e]) & 0xffffe000u;
            low[e] = float_bits(whole[e] - bits_float(high[e]));
        }
#pragma unroll
        for (int32_t i = 0; i < 2; i++) {
            float d[4] = {};
            mma_tf32(d, low, b[i][0], b[i][1]);
            mma_tf32(d, high, b[i][0], b[i][1]);
#pragma unroll
            for (int32_t e = 0; e < 4; e++)
                sum[m][i][e] = fmaf(d[e], less[i][e % 2], sum[m][i][e]);
        }
    }
}

// A tile's scales become numbers, a row a lane, once its minima are added.
DEVICE void tile_begin(uint8_t *ring, const float *sums, int32_t lane,
                       float sum[2][SIXTEENS_OF_X][2][4])
{
    const uint8_t *scales = ring + TILE_SCALES;
    const int32_t row = lane % 16, k = lane / 16;
#pragma unroll
    for (int32_t i = 0; i < 2; i++)
        minima_add(scales + i * TILE_META, sums, lane, sum[i]);
    const uint4 w = *(const uint4 *)(scales + lane * 16);
    const float d = f16_float(w.x & 0xffffu);
    const uint32_t sc[2] = {w.y & 0x3f3f3f3fu, (w.w & 0x0f0f0f0fu) | (w.y >> 2 & 0x30303030u)};
    float2 *to = (float2 *)(ring + NUMBERS) + (k * 4 + row % 8 / 2) * 4 + row / 8 * 2 + row % 2;
#pragma unroll
    for (int32_t p = 0; p < 4; p++)
        to[p * 32] = make_float2(times_byte(d, sc[p / 2], p % 2 * 2, 0),
                                 times_byte(d, sc[p / 2], p % 2 * 2 + 1, 0));
}

#endif

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

// What is left of the ring at the end of a unit, for the sums of 16 rows of X: its last slots. The others are the next unit's already.
enum {
    KEPT_SLOTS = (16 * UNIT_ROWS * 4 + SLOT - 1) / SLOT,
    NEXT_SLOTS = WEFT_STAGES - KEPT_SLOTS,
    TURNS = (15 + WEFT_TEAM) / WEFT_TEAM, // rows of 16 that a warp delivers
};
static_assert(KEPT_SLOTS <= WEFT_STAGES, "room for sums");

// Where the sum of a row of X of 16 and a row of W of a unit is among those of a warp.
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

// Sixteen rows of X of a warp's sums go to its ring.
DEVICE void sums_store(float *sums, int32_t lane, int32_t m,
                       const float sum[2][SIXTEENS_OF_X][2][4])
{
#pragma unroll
    for (int32_t k = 0; k < 2; k++)
#pragma unroll
        for (int32_t i = 0; i < 2; i++)
#pragma unroll
            for (int32_t e = 0; e < 4; e += 2)
                *(float2 *)(sums + sum_at(lane / 4 + 4 * e, k * 16 + i * 8 + lane % 4 * 2)) =
                    make_float2(sum[k][m][i][e], sum[k][m][i][e + 1]);
}

// The product of row n of X, which of 16 is `of`, and a row of W a lane: all warps' sums.
DEVICE float product(const struct weft__linear_slice_args *args,
                     const struct weft__linear_slice_part *part, int32_t row, int32_t n,
                     int32_t of, const float *sums)
{
    const float *from = sums + of;
    float total = 0;
#pragma unroll
    for (int32_t j = 0; j < WEFT_TEAM; j++)
        total += from[j * (RING / 4)];
    const float out = part->alpha * (shared_inverse(args)[n] * total);
    return !WEFT_STAGED && part->bias && row < part->rows ? out + part->bias[row] : out;
}

// What follows a row's products, a lane each.
DEVICE void deliver(const struct weft__linear_slice_args *args,
                    const struct weft__linear_slice_part *part, int32_t row, int32_t n, float out,
                    int32_t lane)
{
    const bool there = row < part->rows;
    if (!WEFT_STAGED && args->residual && there)
        out += element<WEFT_Y_DTYPE>(args->residual, n * args->residual_stride + row);
    if (there && (!WEFT_ROUND || part->y))
        set_element<WEFT_Y_DTYPE>(
            part->y, blockIdx.y * part->slice_stride + n * part->y_stride + row, out);
#if WEFT_ROUND
    const float stored = part->y ? as_stored<WEFT_Y_DTYPE>(out) : out;
    const float weight =
        args->next_weight ? args->next_weight[row] + args->next_weight_plus : 1.0f;
    round_results((uint8_t *)args->rounded + n * weft__linear_rounded_stride(part->rows),
                  part->rows, row, lane, stored, weight);
#else
    (void)lane;
#endif
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
                               int32_t unit, int32_t matrix)
{
    const struct slice s = slice_of(args);
    const struct share own = share_of(&s, at->rank);
    return source_of(args, unit, matrix, s.tile0 + own.first, own.tiles, at->lane);
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
    float square[ROWS_OF_WARP][FIRST_SQUARES];
    squares_ask(args, at.warp, at.lane, square);
    x_pieces_load(args, &s, at.warp, at.lane);
    ask_slots(args, from, EARLY, WEFT_STAGES);
    inverse_store(args, at.warp, at.lane, square);
    __syncthreads();
}

// Sums of the warp's tiles, whose first slots have been asked for.
DEVICE void share_sums(const struct weft__linear_slice_args *args, struct source *from,
                       float sum[2][SIXTEENS_OF_X][2][4])
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
    for (int32_t i = 0; i < SUMS; i++)
        sum[i / (SUMS / 2)][i / 8 % SIXTEENS_OF_X][i / 4 % 2][i % 4] = 0;
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

// The sums of a unit of a matrix, over the team, and what follows.
DEVICE void unit_end(const struct weft__linear_slice_args *args, int32_t unit, int32_t matrix,
                     const float sum[2][SIXTEENS_OF_X][2][4], float gate[SIXTEENS_OF_X][TURNS])
{
    const struct place at = place_of_thread();
    const struct weft__linear_slice_part *part =
        &args->part[JOINS ? matrix : part_of(args, unit)];
    const int32_t row = (unit - (JOINS ? 0 : part->first_unit)) * UNIT_ROWS + at.lane;
    const float *sums =
        (const float *)(shared_ring(args, at.team * WEFT_TEAM) + NEXT_SLOTS * SLOT);
    (void)gate;
#pragma unroll
    for (int32_t m = 0; m < SIXTEENS_OF_X; m++) {
        sums_store((float *)(shared_ring(args, at.warp) + NEXT_SLOTS * SLOT), at.lane, m, sum);
        team_barrier(at.team);
#pragma unroll TURNS_AT_ONCE
        for (int32_t k = 0; k < TURNS; k++) {
            const int32_t of = at.rank + k * WEFT_TEAM, n = m * 16 + of;
            if (of >= 16 || n >= args->batch)
                break;
            const float out = product(args, part, row, n, sum_at(of, at.lane), sums);
#if WEFT_GATE
            if (matrix == 0)
                gate[m][k] = out;
            else
                deliver(args, &args->part[0], row, n, gated<WEFT_GATE>(gate[m][k], out), at.lane);
#else
            deliver(args, part, row, n, out, at.lane);
#endif
        }
        team_barrier(at.team);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    weft_linear_gemm_team(const __grid_constant__ struct weft__linear_slice_args args)
{
    struct source from = {};
    int32_t matrix = 0, unit;
    let_next_start();
    {
        const struct place at = place_of_thread();
        unit = (int32_t)blockIdx.x + at.team * (int32_t)gridDim.x;
        if (unit < args.num_units)
            from = source_at(&args, &at, unit, 0);
    }
    ask_slots(&args, &from, 0, EARLY);
    wait_for_previous();
    x_load(&args, &from);
    float gate[SIXTEENS_OF_X][TURNS];
#pragma unroll 1
    while (unit < args.num_units) {
        float sum[2][SIXTEENS_OF_X][2][4];
        share_sums(&args, &from, sum);
        const int32_t of = unit, of_matrix = matrix;
        matrix = JOINS ? 1 - matrix : 0;
        unit += matrix ? 0 : TEAMS * (int32_t)gridDim.x;
        if (unit < args.num_units) {
            const struct place at = place_of_thread();
            from = source_at(&args, &at, unit, matrix);
        }
        ask_slots(&args, &from, 0, NEXT_SLOTS);
        unit_end(&args, of, of_matrix, sum, gate);
        ask_slots(&args, &from, NEXT_SLOTS, WEFT_STAGES);
    }
}
