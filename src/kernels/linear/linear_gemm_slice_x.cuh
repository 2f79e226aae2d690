// SPDX-License-Identifier: MIT
// The slice of X that a block of linear_gemm_slice.cu keeps: rounded rows become 16-bit numbers in shared memory, in the order
// and under the power of two of linear_gemm_device.h (the largest number of the slice of a row instead of the row's).
#ifndef WEFT_KERNELS_LINEAR_GEMM_SLICE_X_CUH
#define WEFT_KERNELS_LINEAR_GEMM_SLICE_X_CUH

DEVICE const uint8_t *x_row(const struct weft__linear_slice_args *args, int32_t n)
{
    return (const uint8_t *)args->x + n * weft__linear_rounded_stride(args->cols);
}

// Scales of the units of a row of X, 8 bytes apart.
DEVICE const float *x_scales(const struct weft__linear_slice_args *args, int32_t n)
{
    return (const float *)(x_row(args, n) + (int64_t)all_pairs(args) * 64);
}

// Factors of row n, by a warp.
DEVICE void x_factors(const struct weft__linear_slice_args *args, const struct slice *s, int32_t n)
{
    const int32_t lane = (int32_t)threadIdx.x % WARP;
    const float *scales = x_scales(args, n) + s->tile0 * TILE_PAIRS * 4;
    uint32_t largest = 0;
    float squares = 0;
#pragma unroll 4
    for (int32_t i = lane; i < 2 * s->pairs; i += WARP)
        largest = max(largest, float_bits(__ldcg(scales + 2 * i) * 127.0f) & 0x7fffffffu);
    if (args->norm) {
        const float *of_row = round_squares((uint8_t *)x_row(args, n), args->cols);
#pragma unroll 4
        for (int32_t i = lane; i < (args->cols + 31) / 32; i += WARP)
            squares += __ldcg(of_row + i);
    }
    largest = warp_most(largest);
    squares = warp_sum(squares, WARP);
    int32_t up = WEFT_BRAIN || largest == 0 ? 0 : 14 + 127 - (int32_t)(largest >> 23);
    up = up > 126 ? 126 : up < -126 ? -126 : up;
    const float rms =
        args->norm ? 1.0f / sqrtf(squares / (float)args->cols + args->norm_eps) : 1.0f;
    if (lane == 0) {
        shared_factors(args)[n] = bits_float((uint32_t)(127 + up) << 23);
        shared_factors(args)[WEFT_ROWS + n] = bits_float((uint32_t)(127 - up) << 23) * rms;
    }
}

// Bytes b and b + 2 of a word of codes, times the scale.
DEVICE uint32_t x_two(uint32_t word, int32_t b, float scale)
{
    float v[2];
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const uint32_t above = byte_permute(word, 0x4b000000u, 0x7440u | (b + 2 * i));
        v[i] = (bits_float(above) - (8388608.0f + 128.0f)) * scale;
    }
    return WEFT_BRAIN ? floats_bf16x2(v[0], v[1]) : floats_f16x2(v[0], v[1]);
}

// Columns of word c of all sixteens of a pair, of row n: 16 numbers as words of their places.
DEVICE void x_sixteen(uint8_t *to, int32_t n, int32_t c, uint4 codes, float2 scale)
{
    const uint32_t word[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
    for (int32_t k = 0; k < 4; k++) {
        const int32_t h = k / 2, half = k % 2;
        const int32_t group = 2 * h + (TILE_EIGHTS ? c % 2 : half);
        const int32_t at = TILE_EIGHTS ? half * 2 + c / 2 : c;
#pragma unroll
        for (int32_t b = 0; b < 2; b++)
            *(uint32_t *)(to + n * 128 + ((2 * group + b) ^ (n & 7)) * 16 + at * 4) =
                x_two(word[k] ^ 0x80808080u, b, h ? scale.y : scale.x);
    }
}

// All of the slice, by all warps. A warp takes eight rows of a pair, a lane four columns of each of its sixteens.
DEVICE void x_load(const struct weft__linear_slice_args *args, const struct slice *s, int32_t warp)
{
    const int32_t lane = (int32_t)threadIdx.x % WARP, c = lane % 4;
    const int32_t eights = (args->batch + 7) / 8;
    for (int32_t n = warp; n < args->batch; n += WARPS)
        x_factors(args, s, n);
    __syncthreads();
#pragma unroll 4
    for (int32_t i = warp; i < s->pairs * eights; i += WARPS) {
        const int32_t pair = i / eights, n = i % eights * 8 + lane / 4;
        if (n >= args->batch)
            continue; // whose sums nobody stores
        const int64_t at = s->tile0 * TILE_PAIRS + pair;
        const uint4 codes = __ldcg((const uint4 *)(x_row(args, n) + at * 64 + c * 16));
        const float *scales = x_scales(args, n) + at * 4;
        const float factor = shared_factors(args)[n];
        x_sixteen(shared_memory() + pair * X_PAIR, n, c, codes,
                  make_float2(__ldcg(scales) * factor, __ldcg(scales + 2) * factor));
    }
    bulk_fence();
    __syncthreads();
}

#endif
