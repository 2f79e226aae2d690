// SPDX-License-Identifier: MIT
// Rounded X on its way into shared memory (linear_few.cu): as codes that lie in memory, or as numbers that the block
// rounds itself (WEFT_ROUND_X).
#ifndef WEFT_KERNELS_LINEAR_FEW_X_CUH
#define WEFT_KERNELS_LINEAR_FEW_X_CUH

#include "src/kernels/linear/linear_few_places.cuh"
#include "src/kernels/linear/linear_stream.cuh"
#include "src/kernels/linear/linear_stream_norm.cuh"

#if WEFT_ROUND_X == 2

#include "src/kernels/linear/linear_few_x_one.cuh"

#elif WEFT_ROUND_X

DEVICE void x_store(const struct stream *s, int32_t n, int32_t at, int32_t width, const float x[4])
{
    round_fours(shared_x() + n * x_pairs(s) * 64, shared_x() + (COLUMNS * 64 + n * 16) * x_pairs(s),
                at, width, x);
}

#define X_BETWEEN 1 // the rest of the ring is asked for behind the first loads of X

DEVICE void x_load(struct stream *s, const struct weft__linear_device_args *args)
{
    enum { AT_ONCE = 4, STEP = THREADS * 4 };
    bool asked = false;
    const int32_t col0 = s->tile0 * 256, left = (columns_of(args) + 63) / 64 * 64 - col0;
    const int32_t width = left < s->tiles * 256 ? left : s->tiles * 256;
    const bool fours =
        fours_aligned<WEFT_X_DTYPE>(args->x, args->x_stride) && columns_of(args) % 4 == 0;
    for (int32_t n = 0; n < s->batch; n++) {
        float square = 0;
        for (int32_t first = (int32_t)threadIdx.x / WARP * 128; first < width;
             first += AT_ONCE * STEP) {
            float4 v[AT_ONCE], w[AT_ONCE];
#pragma unroll
            for (int32_t k = 0; k < AT_ONCE; k++) {
                const int32_t at = first + k * STEP + s->lane * 4, col = col0 + at;
                const bool there = at < width && col < columns_of(args);
                v[k] = make_float4(0, 0, 0, 0), w[k] = make_float4(1, 1, 1, 1);
                if (there && fours)
                    v[k] = four_elements<WEFT_X_DTYPE>(args->x, x_row(s, n) * args->x_stride + col);
                else if (there)
                    v[k] = first_elements<WEFT_X_DTYPE>(args->x, x_row(s, n) * args->x_stride + col,
                                                        columns_of(args) - col);
                if (there && args->norm_weight)
                    w[k] = make_float4(norm_factor(args, col), norm_factor(args, col + 1),
                                       norm_factor(args, col + 2), norm_factor(args, col + 3));
            }
            if (!asked)
                stream_ask_rest(s, args);
            asked = true;
#pragma unroll
            for (int32_t k = 0; k < AT_ONCE; k++) {
                if (first + k * STEP >= width)
                    break;
                square += v[k].x * v[k].x + v[k].y * v[k].y + v[k].z * v[k].z + v[k].w * v[k].w;
                const float x[4] = {v[k].x * w[k].x, v[k].y * w[k].y, v[k].z * w[k].z,
                                    v[k].w * w[k].w};
                x_store(s, n, first + k * STEP + s->lane * 4, width, x);
            }
        }
        norm_part(s, args, n, square);
    }
    if (!asked)
        stream_ask_rest(s, args);
}

#elif WEFT_X_OUTSIDE

DEVICE void x_load(const struct stream *, const struct weft__linear_device_args *)
{
}

#else

// The pieces of 16 bytes of a row of X that the block has: of its codes, then of its scales.
struct x_pieces {
    const uint8_t *bytes, *metas;
    int32_t of_bytes, count;
};

DEVICE struct x_pieces x_pieces_of(const struct stream *s,
                                   const struct weft__linear_device_args *args, int32_t n)
{
    const int32_t all = (columns_of(args) + 63) / 64, first = s->tile0 * 4;
    const int32_t pairs = min(all - first, s->tiles * 4);
    const uint8_t *row =
        (const uint8_t *)args->x + x_row(s, n) * weft__linear_rounded_stride(columns_of(args));
    struct x_pieces x = {row + first * 64, row + all * 64 + first * 16, pairs * 4, pairs * 5};
    return x;
}

// Piece i, and where it goes.
DEVICE const uint4 *x_piece(const struct x_pieces *x, int32_t i)
{
    const int32_t at = i - x->of_bytes;
    return (const uint4 *)(at < 0 ? x->bytes + i * 16 : x->metas + at * 16);
}

DEVICE uint4 *x_place(const struct stream *s, const struct x_pieces *x, int32_t n, int32_t i)
{
    const int32_t at = i - x->of_bytes, stride = x_pairs(s);
    uint8_t *bytes = shared_x(), *metas = bytes + COLUMNS * stride * 64;
    return (uint4 *)(at < 0 ? bytes + n * stride * 64 + i * 16 : metas + n * stride * 16 + at * 16);
}

#if WEFT_BATCH == 1 && WEFT_COLS && WEFT_LONG_X < 2

// A single row of known columns, and not too many, waits in registers while the rest of the ring is asked for.
#define X_WAITS 1
enum { X_PIECES = (WEFT_COLS / 64 * 5 + THREADS - 1) / THREADS };

DEVICE void x_ask(const struct stream *s, const struct weft__linear_device_args *args,
                  uint4 piece[X_PIECES])
{
    const struct x_pieces x = x_pieces_of(s, args, 0);
#pragma unroll
    for (int32_t k = 0; k < X_PIECES; k++) {
        const int32_t i = (int32_t)threadIdx.x + k * THREADS;
        if (i < x.count)
            piece[k] = __ldcg(x_piece(&x, i));
    }
}

DEVICE void x_take(const struct stream *s, const struct weft__linear_device_args *args,
                   const uint4 piece[X_PIECES])
{
    const struct x_pieces x = x_pieces_of(s, args, 0);
#pragma unroll
    for (int32_t k = 0; k < X_PIECES; k++) {
        const int32_t i = (int32_t)threadIdx.x + k * THREADS;
        if (i < x.count)
            *x_place(s, &x, 0, i) = piece[k];
    }
}

#elif WEFT_BATCH == 1

// A single row is there sooner than the weights that asynchronous copies would have to be waited for with.
DEVICE void x_load(const struct stream *s, const struct weft__linear_device_args *args)
{
    enum { AT_ONCE = WEFT_LONG_X == 2 ? 3 : 1 };
    const struct x_pieces x = x_pieces_of(s, args, 0);
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < x.count; i += AT_ONCE * THREADS) {
        uint4 piece[AT_ONCE];
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++)
            if (i + k * THREADS < x.count)
                piece[k] = __ldcg(x_piece(&x, i + k * THREADS));
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++)
            if (i + k * THREADS < x.count)
                *x_place(s, &x, 0, i + k * THREADS) = piece[k];
    }
}

#else

#if TILE_EIGHTS

// Codes as lanes have them, eight columns side by side: pieces 2 j and 2 j + 1 of a pair make pieces j and j + 2 there.
DEVICE void x_load_eights(const struct stream *s, const struct weft__linear_device_args *args)
{
    enum { AT_ONCE = 4 };
    const int32_t halves = x_pieces_of(s, args, 0).of_bytes / 2, count = s->batch * halves;
#pragma unroll 1
    for (int32_t first = (int32_t)threadIdx.x; first < count; first += AT_ONCE * THREADS) {
        uint4 piece[AT_ONCE][2];
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++) {
            const int32_t i = first + k * THREADS;
            if (i >= count)
                break;
            const struct x_pieces x = x_pieces_of(s, args, i / halves);
            piece[k][0] = __ldcg(x_piece(&x, i % halves * 2));
            piece[k][1] = __ldcg(x_piece(&x, i % halves * 2 + 1));
        }
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++) {
            const int32_t i = first + k * THREADS, at = i % halves;
            if (i >= count)
                break;
            const struct x_pieces x = x_pieces_of(s, args, i / halves);
            const uint4 a = piece[k][0], b = piece[k][1];
            uint4 *to = x_place(s, &x, i / halves, at / 2 * 4 + at % 2);
            to[0] = make_uint4(a.x, b.x, a.z, b.z);
            to[2] = make_uint4(a.y, b.y, a.w, b.w);
        }
    }
}

#endif

// Several rows (linear_some.cuh). All are asked for at once, for one after the other a launch would wait for each; lattices have
// some at a time, which pass through registers.
DEVICE void x_load(const struct stream *s, const struct weft__linear_device_args *args)
{
    enum { AT_ONCE = WEFT_LONG_X == 2 ? 4 : 1, TWOS = COLUMNS / 2 };
#if TILE_EIGHTS
    x_load_eights(s, args);
#else
#pragma unroll 1
    for (int32_t n = 0; n < s->batch; n++) {
        const struct x_pieces x = x_pieces_of(s, args, n);
#pragma unroll 1
        for (int32_t i = (int32_t)threadIdx.x; i < x.of_bytes; i += THREADS)
            copy_16_async(shared_address(x_place(s, &x, n, i)), x_piece(&x, i));
    }
#endif
    copy_group_end();
    const int32_t pairs = x_pieces_of(s, args, 0).of_bytes / 4, twos = s->tiles * 4 * TWOS;
#pragma unroll 1
    for (int32_t first = (int32_t)threadIdx.x; first < twos; first += AT_ONCE * THREADS) {
        uint4 two[AT_ONCE][2] = {}; // zeros past the last pair
#pragma unroll
        for (int32_t k = 0; k < 2 * AT_ONCE; k++) {
            const int32_t i = first + k / 2 * THREADS, n = i % TWOS * 2 + k % 2;
            if (i / TWOS < pairs && n < s->batch)
                two[k / 2][k % 2] = __ldcg((const uint4 *)x_pieces_of(s, args, n).metas + i / TWOS);
        }
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++) {
            const int32_t i = first + k * THREADS;
            if (i < twos)
                x_two(x_numbers(s), x_plane(s), i / TWOS, i % TWOS * 2, two[k]);
        }
    }
    COPY_WAIT(0);
}

#endif

#endif

#endif
