// SPDX-License-Identifier: MIT
// X of linear_gemm_team.cu on its way into shared memory, and what its rows are multiplied by.
#ifndef WEFT_KERNELS_LINEAR_GEMM_TEAM_X_CUH
#define WEFT_KERNELS_LINEAR_GEMM_TEAM_X_CUH

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
    sums[u / 8 * X_SUMS + lane * 4 + u % 8 / 4 * 2 + n / 8] =
        bits_float(scale) * ((float)sum * (1 / SUM_ONE));
}
#endif

// 64 columns of the lane's two rows, r and r + 8: codes; and of the row that the lane has the scales of, lanes c = 0 and 1 of
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
                                   const struct slice *s, int32_t lane)
{
    const int32_t n = lane / 4, c = lane % 4, own = n + c % 2 * 8;
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
                    int32_t pair, int32_t lane)
{
    const uint4 r = piece->codes[0], other = piece->codes[1], of = piece->scales;
    uint4 *to = (uint4 *)(shared_memory() + pair * X_CODES) + lane;
    to[0] = make_uint4(r.x, other.x, r.y, other.y);
    to[WARP] = make_uint4(r.z, other.z, r.w, other.w);
    if (lane % 4 >= 2)
        return;
    float2 *scales = (float2 *)(shared_scales(args) + pair * X_SCALES);
    scales[lane / 4 * 2 + lane % 4] = make_float2(x_scale(of.x, 0), x_scale(of.z, 1));
#if TILE_MIN
    const int32_t n = lane / 4 + lane % 4 * 8;
    sum_store(shared_sums(args), n, pair * 2, of.x, of.y);
    sum_store(shared_sums(args), n, pair * 2 + 1, of.z, of.w);
#endif
}

// The slice of all rows, 64 columns a warp at a time; rows that are not there are zeros.
DEVICE void x_pieces_load(const struct weft__linear_slice_args *args, const struct slice *s,
                          int32_t warp, int32_t lane)
{
    enum { AT_ONCE = WARPS > 12 ? 4 : 6 };
    const int32_t pairs = s->tiles * 4;
    const struct x_source from = x_source_of(args, s, lane);
#pragma unroll 1
    for (int32_t first = warp; first < pairs; first += AT_ONCE * WARPS) {
        struct x_piece piece[AT_ONCE];
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++)
            x_ask(&from, min(first + k * WARPS, pairs - 1), &piece[k]);
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++)
            if (first + k * WARPS < pairs)
                x_store(args, &piece[k], first + k * WARPS, lane);
    }
}

// What sums of rows of X are multiplied by. A lane's first numbers of every row are asked for before X is.
enum { ROWS_OF_WARP = (ROWS + WARPS - 1) / WARPS, FIRST_SQUARES = 4 };

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
        if (lane == 0 && n < ROWS)
            shared_inverse(args)[n] = rms * SUM_ONE;
    }
}

#endif
