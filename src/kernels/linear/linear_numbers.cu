// SPDX-License-Identifier: MIT
// Y = X W^T for up to 16 rows of X, W of f32, f16 or bf16 as the caller has it (row after row).
//
// A tile is 16 rows by 128 bytes. Lane (r, c) owns 16 bytes at chunks c and c + 4 of rows r and r + 8; a
// row's chunks change places in odd rows (chunk ^ 4), so that a warp's reads meet every bank. Up to 4
// rows of X: products in f32. More (f16, bf16): tensor cores in tf32, in which both kinds of weights are
// exact, X in two parts of 11 bits each, error 2^-23 of |w x|; A's columns are numbered as a lane has them:
// product j of a chunk takes its columns 2j and 2j + 1.
//
// Function constants besides those of linear_stream.cuh: WEFT_FORMAT (1 f32, 2 f16, 3 bf16), WEFT_BATCH
// (1..4, 8, 16), WEFT_X_DTYPE, WEFT_X_OUTSIDE (as in linear_few.cu), WEFT_ALIGNED (rows of W begin at multiples of 16 bytes), WEFT_BLOCKS.
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/mma.cuh"
#include "src/kernels/linear/linear_device.h"

#define COLUMNS        WEFT_BATCH
#define X_ROUNDED      0
#define DELIVERY_EARLY 1
#define SLOT_BYTES     2048
#define TENSOR         (WEFT_BATCH > 4)

enum {
    ELEMENT = WEFT_FORMAT == 1 ? 4 : 2,
    TILE_COLUMNS = 128 / ELEMENT,
    CHUNK = 16 / ELEMENT,
    ACCUMULATORS = TENSOR ? COLUMNS / 2 : 2 * COLUMNS,
};

// A lane copies chunk lane % 8 of rows lane / 8, + 4, + 8, + 12: the first of them from `col` on. What lies past the last
// row is a row that is there.
struct source {
    const uint8_t *from;
    int64_t stride;
    int32_t below, left; // rows below the first; columns from `from` on
};

DEVICE void source_begin(struct source *s, const struct weft__linear_device_args *args,
                         const struct weft__linear_device_part *part, int32_t row_block,
                         int32_t tile, int32_t lane)
{
    const int32_t last = part->rows - 1, row = min(row_block * 16 + lane / 8, last);
    const int32_t col = tile * TILE_COLUMNS + lane % 8 * CHUNK;
    s->stride = part->weight_stride_bytes;
    s->from = (const uint8_t *)part->weight + row * s->stride + (int64_t)col * ELEMENT;
    s->below = last - row;
    s->left = args->cols - col;
}

DEVICE void source_next(struct source *s)
{
    s->from += WEFT_TEAM * 128;
    s->left -= WEFT_TEAM * TILE_COLUMNS;
}

DEVICE void tile_copy(const struct source *s, uint8_t *slot, int32_t lane)
{
#if WEFT_ALIGNED
    const uint64_t policy = policy_once(); // a row of X is to stay in L2, not W
    // What all lanes have of an address ptxas (13.0, sm_90) leaves in a uniform register, and then has none left for the policy: an
    // illegal instruction, [R + UR0], desc[UR1]. What comes from another lane it takes for the lane's own.
    const uint32_t to_slot = __shfl_sync(0xffffffffu, shared_address(slot), 0);
#endif
#pragma unroll
    for (int32_t k = 0; k < 4; k++) {
        const int32_t row = k * 4 + lane / 8;
        const uint8_t *from = s->from + min(4 * k, s->below) * s->stride;
        const int32_t at = row * 128 + (lane % 8 ^ (row & 1) << 2) * 16;
#if WEFT_ALIGNED
        const int32_t bytes = s->left * ELEMENT;
        // nothing is read of a chunk that is not there, wherever it would be
        copy_16_async_or_zero_as(to_slot + at, bytes > 0 ? from : s->from - lane % 8 * 16,
                                 bytes < 0    ? 0
                                 : bytes > 16 ? 16
                                              : bytes,
                                 policy);
#else
        for (int32_t i = 0; i < CHUNK; i++)
            if (ELEMENT == 4)
                ((uint32_t *)(slot + at))[i] = i < s->left ? ((const uint32_t *)from)[i] : 0;
            else
                ((uint16_t *)(slot + at))[i] = i < s->left ? ((const uint16_t *)from)[i] : 0;
#endif
    }
}

#include "src/kernels/linear/linear_stream.cuh"
#include "src/kernels/linear/linear_stream_norm.cuh"

// Floats from row to row of X in shared memory; the 4 keep two rows in different banks.
DEVICE int32_t x_stride(const struct stream *s)
{
    return s->tiles * TILE_COLUMNS + 4;
}

#if WEFT_BATCH == 1 && !WEFT_X_OUTSIDE
#define X_BETWEEN 1 // the rest of the ring is asked for behind the first loads of X
#define X_STREAM  struct stream
#else
#define X_STREAM const struct stream
#endif

DEVICE void x_load(X_STREAM *s, const struct weft__linear_device_args *args)
{
    enum { AT_ONCE = 4, STEP = 4 * THREADS };
    const int32_t width = WEFT_X_OUTSIDE ? 0 : s->tiles * TILE_COLUMNS;
    const int32_t col0 = s->tile0 * TILE_COLUMNS, left = args->cols - col0;
    const bool fours = fours_aligned<WEFT_X_DTYPE>(args->x, args->x_stride);
    for (int32_t n = 0; n < s->batch; n++) {
        float *row = (float *)shared_x() + n * x_stride(s);
        const int64_t from = x_row(s, n) * args->x_stride + col0;
        float square = 0;
        for (int32_t first = 0; first < width; first += AT_ONCE * STEP) {
            const int32_t i0 = first + (int32_t)threadIdx.x * 4;
            float4 v[AT_ONCE], w[AT_ONCE];
#pragma unroll
            for (int32_t k = 0; k < AT_ONCE; k++) {
                const int32_t i = i0 + k * STEP, there = i < width ? left - i : 0;
                v[k] = fours && there >= 4 ? four_elements<WEFT_X_DTYPE>(args->x, from + i)
                                           : first_elements<WEFT_X_DTYPE>(args->x, from + i, there);
                w[k] = norm_factors(args, col0 + i, there);
            }
#ifdef X_BETWEEN
            if (first == 0)
                stream_ask_rest(s, args);
#endif
#pragma unroll
            for (int32_t k = 0; k < AT_ONCE; k++) {
                square += squares_of(v[k]);
                if (i0 + k * STEP < width)
                    *(float4 *)(row + i0 + k * STEP) = make_float4(
                        v[k].x * w[k].x, v[k].y * w[k].y, v[k].z * w[k].z, v[k].w * w[k].w);
            }
        }
        norm_part(s, args, n, square);
    }
}

DEVICE void chunk_floats(uint4 chunk, float w[CHUNK])
{
#if WEFT_FORMAT == 1
    w[0] = bits_float(chunk.x), w[1] = bits_float(chunk.y);
    w[2] = bits_float(chunk.z), w[3] = bits_float(chunk.w);
#else
    uint32_t words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
    for (int32_t i = 0; i < 4; i++) {
        float2 pair = WEFT_FORMAT == 2 ? f16x2_float2(words[i]) : bf16x2_float2(words[i]);
        w[2 * i] = pair.x, w[2 * i + 1] = pair.y;
    }
#endif
}

DEVICE void x_floats(const float *x, float v[CHUNK])
{
#pragma unroll
    for (int32_t i = 0; i < CHUNK; i += 4) {
        float4 four = *(const float4 *)(x + i);
        v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
    }
}

#if WEFT_BATCH <= 4

DEVICE void chunk_multiply(const float top[CHUNK], const float bottom[CHUNK], const float *x,
                           int32_t stride, int32_t batch, int32_t r, float acc[ACCUMULATORS])
{
    (void)r;
#pragma unroll
    for (int32_t n = 0; n < COLUMNS; n++) {
        float v[CHUNK];
        x_floats(x + min(n, batch - 1) * stride, v);
#pragma unroll
        for (int32_t i = 0; i < CHUNK; i++) {
            acc[2 * n] = fmaf(top[i], v[i], acc[2 * n]);
            acc[2 * n + 1] = fmaf(bottom[i], v[i], acc[2 * n + 1]);
        }
    }
}

#include "src/kernels/linear/linear_row_sums.cuh"

#else

// x less its upper 11 bits, rounded to the 11 that a product takes.
DEVICE uint32_t x_rest(float x, uint32_t high)
{
    return float_tf32(x == bits_float(high) ? 0.0f : x - bits_float(high));
}

// The upper bits of X and the rest have sums of their own.
DEVICE void chunk_multiply(const float top[CHUNK], const float bottom[CHUNK], const float *x,
                           int32_t stride, int32_t batch, int32_t r, float acc[2][ACCUMULATORS])
{
#pragma unroll
    for (int32_t half = 0; half < COLUMNS / 8; half++) {
        float v[CHUNK];
        uint32_t high[CHUNK], low[CHUNK];
        x_floats(x + min(8 * half + r, batch - 1) * stride, v);
#pragma unroll
        for (int32_t i = 0; i < CHUNK; i++) {
            high[i] = float_bits(v[i]) & 0xffffe000u;
            low[i] = x_rest(v[i], high[i]);
        }
#pragma unroll
        for (int32_t j = 0; j < CHUNK / 2; j++) {
            uint32_t a[4] = {float_bits(top[2 * j]), float_bits(bottom[2 * j]),
                             float_bits(top[2 * j + 1]), float_bits(bottom[2 * j + 1])};
            mma_tf32(acc[0] + 4 * half, a, high[2 * j], high[2 * j + 1]);
            mma_tf32(acc[1] + 4 * half, a, low[2 * j], low[2 * j + 1]);
        }
    }
}

DEVICE void sums_store(const struct stream *s, float *sums, const float acc[ACCUMULATORS])
{
    float *at = sums + s->warp * COLUMNS * SUM_STRIDE + s->lane / 4;
#pragma unroll
    for (int32_t i = 0; i < ACCUMULATORS; i++)
        at[(i / 4 * 8 + s->lane % 4 * 2 + i % 2) * SUM_STRIDE + i % 4 / 2 * 8] = acc[i];
}

#endif

DEVICE void tile_multiply(const struct stream *s, const struct weft__linear_device_args *args,
                          const uint8_t *slot, int32_t tile, float acc[ACCUMULATORS])
{
    int32_t r = s->lane / 4, c = s->lane % 4, swap = (r & 1) << 2;
    const float *x = WEFT_X_OUTSIDE ? (const float *)args->x + x_row(s, 0) * args->x_stride
                                    : (const float *)shared_x();
    x += tile * TILE_COLUMNS;
#if TENSOR
    // a tensor core cuts off what it adds: its sums are short
    float part[2][ACCUMULATORS] = {{0}};
#endif
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        float top[CHUNK], bottom[CHUNK];
        int32_t at = ((c + 4 * i) ^ swap) * 16;
        chunk_floats(*(const uint4 *)(slot + r * 128 + at), top);
        chunk_floats(*(const uint4 *)(slot + (r + 8) * 128 + at), bottom);
#if TENSOR
        chunk_multiply(top, bottom, x + (c + 4 * i) * CHUNK, x_stride(s), s->batch, r, part);
#else
        chunk_multiply(top, bottom, x + (c + 4 * i) * CHUNK, x_stride(s), s->batch, r, acc);
#endif
    }
#if TENSOR
#pragma unroll
    for (int32_t i = 0; i < ACCUMULATORS; i++)
        acc[i] += part[0][i] + part[1][i];
#endif
}

#include "src/kernels/linear/linear_run.cuh"

extern "C" __global__ void __launch_bounds__(WEFT_WARPS * 32, WEFT_BLOCKS)
    weft_linear_numbers(const __grid_constant__ struct weft__linear_device_args args)
{
    stream_run(&args, (args.cols + TILE_COLUMNS - 1) / TILE_COLUMNS);
}
