// SPDX-License-Identifier: MIT
// X of linear_gemm_team.cu on its way into shared memory, and what its rows are multiplied by.
#ifndef WEFT_KERNELS_LINEAR_GEMM_TEAM_X_CUH
#define WEFT_KERNELS_LINEAR_GEMM_TEAM_X_CUH

// Codes of the slice on their way into the order of lanes: rows r and r + 8, 16 bytes each, become A of both units. All are asked for
// before any is stored, for L2 is a long way; 64 columns a warp at a time.
DEVICE void codes_load(const struct weft__linear_slice_args *args, const struct slice *s)
{
    enum { AT_ONCE = 4 };
    const int32_t count = s->tiles * 4 * WARP;
#pragma unroll 1
    for (int32_t first = (int32_t)threadIdx.x; first < count; first += AT_ONCE * THREADS) {
        uint4 own[AT_ONCE][2] = {};
#pragma unroll
        for (int32_t k = 0; k < 2 * AT_ONCE; k++) {
            const int32_t i = first + k / 2 * THREADS, lane = i % WARP;
            const int32_t n = k % 2 * 8 + lane / 4;
            if (i < count && n < args->batch)
                own[k / 2][k % 2] = __ldcg((const uint4 *)(row_of_x(args, n) + s->tile0 * 256) +
                                           i / WARP * 4 + lane % 4);
        }
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++) {
            const int32_t i = first + k * THREADS;
            const uint4 r = own[k][0], other = own[k][1];
            uint4 *to = (uint4 *)shared_memory() + i / WARP * 2 * WARP + i % WARP;
            if (i < count) {
                to[0] = make_uint4(r.x, other.x, r.y, other.y);
                to[WARP] = make_uint4(r.z, other.z, r.w, other.w);
            }
        }
    }
}

// 22 bits of a scale, so that 96 times it is exact; infinities and NaN stay what they are. Codes are 16 times too large in
// unit 1, signed ones in both.
DEVICE float x_scale(uint32_t scale, int32_t h)
{
    const bool large = TILE_OFFSET || h;
    const uint32_t bits = float_bits(bits_float(scale) * (large ? 0.0625f : 1.0f));
    return bits_float((bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 2) & ~3u);
}

#if TILE_MIN
// The sum of unit u of row n, as A of m16n8k8 has it.
DEVICE void sum_store(float *sums, int32_t n, int32_t u, uint32_t scale, uint32_t both)
{
    const int32_t sum = (int16_t)both + ((int32_t)both >> 16), lane = n % 8 * 4 + u % 4;
    sums[u / 8 * X_SUMS + lane * 4 + u % 8 / 4 * 2 + n / 8] =
        bits_float(scale) * ((float)sum * (1 / SUM_ONE));
}
#endif

DEVICE void scales_load(const struct weft__linear_slice_args *args, const struct slice *s)
{
    enum { AT_ONCE = 4 };
    const int32_t pairs = s->tiles * 4, count = pairs * args->batch;
    const int64_t metas = (int64_t)all_pairs(args) * 64 + s->tile0 * 64;
    float *scales = shared_scales(args);
#pragma unroll 1
    for (int32_t first = (int32_t)threadIdx.x; first < count; first += AT_ONCE * THREADS) {
        uint4 own[AT_ONCE];
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++) {
            const int32_t i = min(first + k * THREADS, count - 1);
            own[k] = __ldcg((const uint4 *)(row_of_x(args, i / pairs) + metas) + i % pairs);
        }
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++) {
            const int32_t i = first + k * THREADS, n = i / pairs;
            if (i < count)
                *(float2 *)(scales + i % pairs * X_SCALES + n % 8 * 4 + n / 8 * 2) =
                    make_float2(x_scale(own[k].x, 0), x_scale(own[k].z, 1));
#if TILE_MIN
            if (i < count) {
                sum_store(shared_sums(args), n, i % pairs * 2, own[k].x, own[k].y);
                sum_store(shared_sums(args), n, i % pairs * 2 + 1, own[k].z, own[k].w);
            }
#endif
        }
    }
}

// What sums of rows of X are multiplied by.
DEVICE void inverse_load(const struct weft__linear_slice_args *args, int32_t warp, int32_t lane)
{
#pragma unroll 1
    for (int32_t n = warp; n < ROWS; n += WARPS) {
        float square = 0;
        if (args->norm && n < args->batch) {
            const float *squares = round_squares((uint8_t *)row_of_x(args, n), args->cols);
#pragma unroll 4
            for (int32_t i = lane; i < args->cols / 32; i += WARP)
                square += __ldcg(squares + i);
        }
        const float total = warp_sum(square, WARP);
        const float rms =
            args->norm ? 1.0f / sqrtf(total / (float)args->cols + args->norm_eps) : 1.0f;
        if (lane == 0)
            shared_inverse(args)[n] = rms * SUM_ONE;
    }
}

#endif
