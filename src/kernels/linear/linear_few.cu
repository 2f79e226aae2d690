// SPDX-License-Identifier: MIT
// Y = X W^T for up to 16 rows of X, W packed from a block format (linear_device.h).
//
// Rounded X (WEFT_EXACT 0): a pair of units, 16 rows by 64 columns, is two or four int8 products on tensor
// cores whatever the number of rows of X up to 8; their int32 results start at the bits of 1.5 * 2^23
// plus offset * sum(x), so that a subtraction makes the float and the format's offset costs nothing. Four-bit
// codes are not shifted: the second unit's are 16 times too large, and its scale of X 16 times too small.
// Exact X: every product in f32. WEFT_ROUND_X: X comes as numbers and is rounded by every block on its way into shared
// memory, which for one row of X that is not too long is sooner done than a launch.
//
// Function constants besides those of linear_stream.cuh: WEFT_FORMAT, WEFT_BATCH (1, 8, 16; exact: 1..4),
// WEFT_EXACT, WEFT_ROUND_X, WEFT_X_OUTSIDE (one row of X is read where it lies, f32 in rows of whole tiles), WEFT_X_DTYPE (of numbers), WEFT_SCALE_DTYPE (mlx), WEFT_BLOCKS (blocks a SM that registers must allow).
#include "src/kernels/linear/linear_tile.cuh"

#define COLUMNS        WEFT_BATCH
#define X_ROUNDED      (!WEFT_EXACT && !WEFT_ROUND_X)
#define DELIVERY_EARLY (SIXTEENS == 1)
#define SLOT_BYTES     ((TILE_BYTES(4) + 15) / 16 * 16)
#if TILE_GRID
#define TABLES_LOAD grid_load
#endif

#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/mma.cuh"
#include "src/kernels/linear/linear_columns.cuh"
#include "src/kernels/linear/linear_device.h"

// Pairs of tile t of a row.
DEVICE int32_t tile_pairs(int32_t cols, int32_t tile)
{
    int32_t left = (cols + 63) / 64 - 4 * tile;
    return TILE_SUPER || WEFT_COLS || left > 4 ? 4 : left;
}

// The lane's first 16 bytes of a tile, and how many pairs the row of tiles has from there on.
struct source {
    const uint8_t *from;
    int32_t pairs;
};

DEVICE void source_begin(struct source *s, const struct weft__linear_device_args *args,
                         const struct weft__linear_device_part *part, int32_t row_block,
                         int32_t tile, int32_t lane)
{
    const int64_t row_bytes = TILE_SUPER ? (int64_t)(columns_of(args) / 256) * TILE_BYTES(4)
                                         : (int64_t)((columns_of(args) + 63) / 64) * TILE_BYTES(1);
    s->from = (const uint8_t *)part->weight + row_block * row_bytes +
              (int64_t)tile * TILE_BYTES(4) + lane * 16;
    s->pairs = (columns_of(args) + 63) / 64 - 4 * tile;
}

DEVICE void source_next(struct source *s)
{
    s->from += WEFT_TEAM * TILE_BYTES(4);
    s->pairs -= WEFT_TEAM * 4;
}

DEVICE void tile_copy(const struct source *s, uint8_t *slot, int32_t lane)
{
    const uint32_t to = shared_address(slot) + lane * 16;
    const uint64_t policy = policy_once(); // a row of X is to stay in L2, not W
    const int32_t bytes =
        (TILE_SUPER || WEFT_COLS ? TILE_BYTES(4) : TILE_BYTES(min(s->pairs, 4))) - lane * 16;
#pragma unroll
    for (int32_t i = 0; i < SLOT_BYTES; i += WARP * 16)
        if ((WEFT_COLS && i + WARP * 16 <= TILE_BYTES(4)) || i < bytes)
            copy_16_async_as(to + i, s->from + i, policy);
}

#include "src/kernels/linear/linear_stream.cuh"

#if WEFT_EXACT
#define ACCUMULATORS (2 * COLUMNS)
#elif WEFT_BATCH == 1
#define ACCUMULATORS 2
#else
#define ACCUMULATORS (COLUMNS / 2)
#endif

#if WEFT_EXACT
#include "src/kernels/linear/linear_few_exact.cuh"
#else
#include "src/kernels/linear/linear_few_x.cuh"

#define MAGIC_BITS 0x4b400000
#define MAGIC      12582912.0f

// Scale and sums of a unit of one row of X.
struct x_meta {
    float scale;
    uint32_t sums;
};

DEVICE struct x_meta x_meta_of(uint4 pair, int32_t h)
{
    struct x_meta meta = {bits_float(h ? pair.z : pair.x), h ? pair.w : pair.y};
    return meta;
}

// How much the sums of x count in the start of the products of sixteen g (or of the unit).
DEVICE uint32_t offsets_of(int32_t factor, int32_t g)
{
    const uint32_t by = (uint32_t)(TILE_OFFSET * factor) & 255u;
    return SIXTEENS == 1 ? by | by << 8 : g ? by << 8 : by;
}

DEVICE int32_t product_start(struct x_meta meta, int32_t factor, int32_t g, int32_t from)
{
    return TILE_OFFSET ? dot_2_low(meta.sums, offsets_of(factor, g), from) : from;
}

// scale of x times the sum of its sixteen g (or of the unit), what the format adds is multiplied by
DEVICE float x_sum(struct x_meta meta, int32_t g)
{
    const uint32_t ones = SIXTEENS == 1 ? 0x0101u : g ? 0x0100u : 0x0001u;
    return (__int_as_float(dot_2_low(meta.sums, ones, MAGIC_BITS)) - MAGIC) * meta.scale;
}

// The products of a unit, of its sixteen g where scales are so fine.
DEVICE void unit_products(int32_t d[4], const uint32_t a[4], int32_t g, uint32_t b0, uint32_t b1)
{
    if (TILE_HALVES) {
        const bool own = (int32_t)threadIdx.x % 4 / 2 == g;
        mma_s8_k32(d, a, own ? b0 : 0, own ? b1 : 0);
    } else if (SIXTEENS == 2)
        mma_u8_k16(d, a[2 * g], a[2 * g + 1], g ? b1 : b0);
    else if (TILE_SIGNED)
        mma_s8_k32(d, a, b0, b1);
    else
        mma_u8_k32(d, a, b0, b1);
}

#if WEFT_BATCH == 1

#include "src/kernels/linear/linear_few_one.cuh"

#else

// One unit of 16 rows by the two columns of X that this lane has.
DEVICE void unit_multiply(const uint32_t a[4], const uint32_t below[4], int32_t factor,
                          const float scale[2][SIXTEENS], const float add[2][SIXTEENS], uint32_t b0,
                          uint32_t b1, const struct x_meta meta[2], float *acc)
{
    float xs[2] = {meta[0].scale * (1.0f / (float)factor), meta[1].scale * (1.0f / (float)factor)};
#pragma unroll
    for (int32_t g = 0; g < SIXTEENS; g++) {
        int32_t d[4], e[4] = {MAGIC_BITS, MAGIC_BITS, MAGIC_BITS, MAGIC_BITS};
        d[0] = d[2] = product_start(meta[0], factor, g, MAGIC_BITS);
        d[1] = d[3] = product_start(meta[1], factor, g, MAGIC_BITS);
        unit_products(d, a, g, b0, b1);
        if (TILE_TABLE)
            unit_products(e, below, g, b0, b1);
#pragma unroll
        for (int32_t i = 0; i < 4; i++) {
            float dot = __int_as_float(d[i]) - __int_as_float(e[i]);
            acc[i] = fmaf(dot * xs[i % 2], scale[i / 2][g], acc[i]);
        }
#if TILE_MIN
        float sum[2] = {x_sum(meta[0], g), x_sum(meta[1], g)};
#pragma unroll
        for (int32_t i = 0; i < 4; i++)
            acc[i] = fmaf(sum[i % 2], add[i / 2][g], acc[i]);
#endif
    }
}

// The eight columns of each unit of a pair that lane (r, c) has: two words of a row of X.
DEVICE uint4 x_eights(const uint4 *pair, int32_t c)
{
    const uint4 first = pair[c % 2 * 2], second = pair[c % 2 * 2 + 1];
    return c < 2 ? make_uint4(first.x, second.x, first.z, second.z)
                 : make_uint4(first.y, second.y, first.w, second.w);
}

DEVICE void tile_multiply(const struct stream *s, const struct weft__linear_device_args *args,
                          const uint8_t *slot, int32_t tile, float acc[ACCUMULATORS])
{
    int32_t pairs = tile_pairs(columns_of(args), s->tile0 + tile), r = s->lane / 4, c = s->lane % 4;
    int32_t stride = x_pairs(s), last = s->batch - 1;
    struct tile_scales scales;
    tile_scales_load(&scales, slot, pairs, r);
    const uint4 *bytes = (const uint4 *)shared_x() + tile * 16 + (TILE_EIGHTS ? 0 : c);
    const uint4 *metas = (const uint4 *)shared_x() + COLUMNS * stride * 4 + tile * 4;
#pragma unroll
    for (int32_t p = 0; p < 4; p++) {
        if (p >= pairs)
            break;
        uint32_t a[2][4], below[2][4];
        pair_codes(slot, pairs, p, s->lane, a, below);
        float scale[2][2][SIXTEENS], add[2][2][SIXTEENS];
#pragma unroll
        for (int32_t h = 0; h < 2; h++)
            unit_scales(&scales, pairs, p, h, r, scale[h], add[h]);
#pragma unroll
        for (int32_t half = 0; half < COLUMNS / 8; half++) {
            uint4 b = bytes[min(8 * half + r, last) * stride * 4 + p * 4];
            if (TILE_EIGHTS)
                b = x_eights(bytes + min(8 * half + r, last) * stride * 4 + p * 4, c);
            uint4 m0 = metas[min(8 * half + 2 * c, last) * stride + p];
            uint4 m1 = metas[min(8 * half + 2 * c + 1, last) * stride + p];
            struct x_meta meta[2][2] = {{x_meta_of(m0, 0), x_meta_of(m1, 0)},
                                        {x_meta_of(m0, 1), x_meta_of(m1, 1)}};
            unit_multiply(a[0], below[0], UNIT_FACTOR(0), scale[0], add[0], b.x, b.y, meta[0],
                          acc + 4 * half);
            unit_multiply(a[1], below[1], UNIT_FACTOR(1), scale[1], add[1], b.z, b.w, meta[1],
                          acc + 4 * half);
        }
    }
}

#endif

DEVICE void sums_store(const struct stream *s, float *sums, const float acc[ACCUMULATORS])
{
    int32_t r = s->lane / 4, c = s->lane % 4;
    float *at = sums + s->warp * COLUMNS * SUM_STRIDE + r;
#if WEFT_BATCH == 1
    float top = warp_sum(acc[0], 4), bottom = warp_sum(acc[1], 4);
    if (c == 0)
        at[0] = top, at[8] = bottom;
#else
#pragma unroll
    for (int32_t i = 0; i < ACCUMULATORS; i++)
        at[(i / 4 * 8 + 2 * c + i % 2) * SUM_STRIDE + i % 4 / 2 * 8] = acc[i];
#endif
}

#endif

#include "src/kernels/linear/linear_run.cuh"

extern "C" __global__ void __launch_bounds__(WEFT_WARPS * 32, WEFT_BLOCKS)
    weft_linear_few(const __grid_constant__ struct weft__linear_device_args args)
{
    stream_run(&args, (columns_of(&args) + 255) / 256);
}
