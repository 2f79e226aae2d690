// SPDX-License-Identifier: MIT
// linear_few.cu with WEFT_EXACT: X as numbers, every product in f32.
#ifndef WEFT_KERNELS_LINEAR_FEW_EXACT_CUH
#define WEFT_KERNELS_LINEAR_FEW_EXACT_CUH

#include "src/kernels/linear/linear_stream.cuh"
#include "src/kernels/linear/linear_stream_norm.cuh"

// X in shared memory: [row][columns of the block's tiles], zeros past cols.
DEVICE void x_load(const struct stream *s, const struct weft__linear_device_args *args)
{
    int32_t width = WEFT_X_OUTSIDE ? 0 : s->tiles * 256, col0 = s->tile0 * 256;
    for (int32_t n = 0; n < s->batch; n++) {
        float square = 0;
        for (int32_t i = (int32_t)threadIdx.x; i < width; i += THREADS) {
            bool there = col0 + i < args->cols;
            float x = there
                          ? element<WEFT_X_DTYPE>(args->x, x_row(s, n) * args->x_stride + col0 + i)
                          : 0.0f;
            square += x * x;
            ((float *)shared_x())[n * width + i] = there ? x * norm_factor(args, col0 + i) : 0.0f;
        }
        norm_part(s, args, n, square);
    }
}

// Weights become floats one by one: with an infinity in X a result must be what w * x are, not a
// difference of infinities.
DEVICE void unit_multiply(const uint32_t a[4], const uint32_t below[4], int32_t factor,
                          const float scale[2][SIXTEENS], const float add[2][SIXTEENS],
                          const float *x, int32_t width, int32_t batch, float acc[ACCUMULATORS])
{
#pragma unroll
    for (int32_t j = 0; j < 4; j++) {
        const float by = word_scale(scale[j % 2], (int32_t)threadIdx.x % 4, j);
#if TILE_MIN
        const float plus = word_scale(add[j % 2], (int32_t)threadIdx.x % 4, j);
#endif
        float w[4];
#pragma unroll
        for (int32_t b = 0; b < 4; b++) {
            int32_t code = (int32_t)(a[j] << (24 - 8 * b));
            code = TILE_SIGNED ? code >> 24 : (int32_t)((uint32_t)code >> 24);
            if (TILE_TABLE)
                code -= (int32_t)(below[j] >> 8 * b & 255u);
            float number = (float)(code + factor * TILE_OFFSET) * (1.0f / (float)factor);
#if TILE_MIN
            w[b] = fmaf(number, by, plus);
#else
            w[b] = number * by;
#endif
        }
#pragma unroll
        for (int32_t n = 0; n < COLUMNS; n++) {
            if (n >= batch)
                break;
            float4 v = *(const float4 *)(x + n * width + j / 2 * WORD_STEP);
            float *sum = &acc[2 * n + j % 2];
            *sum = fmaf(w[3], v.w, fmaf(w[2], v.z, fmaf(w[1], v.y, fmaf(w[0], v.x, *sum))));
        }
    }
}

DEVICE void tile_multiply(const struct stream *s, const struct weft__linear_device_args *args,
                          const uint8_t *slot, int32_t tile, float acc[ACCUMULATORS])
{
    int32_t pairs = tile_pairs(args->cols, s->tile0 + tile), r = s->lane / 4, c = s->lane % 4;
    struct tile_scales scales;
    tile_scales_load(&scales, slot, pairs, r);
    const int32_t width = WEFT_X_OUTSIDE ? (int32_t)args->x_stride : s->tiles * 256;
    const float *x = WEFT_X_OUTSIDE ? (const float *)args->x + x_row(s, 0) * args->x_stride
                                    : (const float *)shared_x();
    x += tile * 256 + LANE_STEP * c;
#pragma unroll
    for (int32_t p = 0; p < 4; p++) {
        if (p >= pairs)
            break;
        uint32_t a[2][4], below[2][4];
        pair_codes(slot, pairs, p, s->lane, a, below);
#pragma unroll
        for (int32_t h = 0; h < 2; h++) {
            float scale[2][SIXTEENS], add[2][SIXTEENS];
            unit_scales(&scales, pairs, p, h, r, scale, add);
            unit_multiply(a[h], below[h], UNIT_FACTOR(h), scale, add, x + p * 64 + h * 32, width,
                          s->batch, acc);
        }
    }
}

#include "src/kernels/linear/linear_row_sums.cuh"

#endif
