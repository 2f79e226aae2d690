// SPDX-License-Identifier: MIT
// Products of linear_gemm_slice.cu unit by unit: codes times codes, whose sums of 32 columns (16 where scales are of 16) are
// integers that f16 and f32 hold exactly, then scales. While the tensor cores make the sums of a unit those of the unit before
// are scaled and added up.
#ifndef WEFT_KERNELS_LINEAR_GEMM_SLICE_UNITS_CUH
#define WEFT_KERNELS_LINEAR_GEMM_SLICE_UNITS_CUH

struct factors_of_unit {
    float scale[2][SIXTEENS], add[2][SIXTEENS]; // of rows r and r + 8
};

// Sums of a unit that has its numbers of X at `x`.
DEVICE void unit_add(const struct factors_of_unit *by, const float *x,
                     const float u[SIXTEENS][SUMS], float *d)
{
    const float2 *own = (const float2 *)x + threadIdx.x % 4;
#pragma unroll
    for (int32_t g = 0; g < SIXTEENS; g++)
#pragma unroll
        for (int32_t i = 0; i < SUMS; i++) {
            const float2 scale = own[i / 4 * 4];
            d[i] = fmaf(i % 2 ? scale.y : scale.x, by->scale[i % 4 / 2][g] * u[g][i], d[i]);
            if (TILE_MIN) {
                const float2 sum = own[(1 + g) * (WEFT_ROWS / 2) + i / 4 * 4];
                d[i] = fmaf(i % 2 ? sum.y : sum.x, by->add[i % 4 / 2][g], d[i]);
            }
        }
}

DEVICE void multiply_new(float *d, const uint32_t a[4], uint64_t b)
{
    WGMMA_NAME(new_f16, WEFT_ROWS)(d, a, b);
}

// Codes of unit h of a pair as fragments of its two sixteens.
DEVICE void unit_fragments(const uint32_t a[2][4], const uint32_t below[2][4], int32_t h,
                           uint32_t fragment[2][4])
{
#pragma unroll
    for (int32_t j = 0; j < 4; j++)
#pragma unroll
        for (int32_t b = 0; b < 2; b++)
            fragment[j / 2][j % 2 + 2 * b] =
                pair_number(TILE_SIGNED ? a[h][j] ^ 0x80808080u : a[h][j],
                            TILE_TABLE ? below[h][j] : 0, b, UNIT_FACTOR(h));
}

// Sums of rows of W over the slice.
DEVICE void unit_sums(const struct weft__linear_slice_args *args, const struct slice *s,
                      struct ring *ring, struct asking *next, float *d)
{
    const int32_t lane = (int32_t)threadIdx.x % WARP;
    uint64_t x = wgmma_matrix(shared_address(shared_memory()));
    const float *of_x = shared_units(args); // numbers of X of a unit
#pragma unroll
    for (int32_t i = 0; i < SUMS; i++)
        d[i] = 0;
#pragma unroll 1
    for (int32_t t = 0; t < s->steps; t++) {
        const uint8_t *tile = ring->bytes + ring->slot * STEP_BYTES;
        const int32_t pairs = pairs_of(s, t);
        struct weights_of_tile own;
        uint32_t fragment[2][2][4];
        float u[2][SIXTEENS][SUMS];
        struct factors_of_unit by[2];
        const float *before = of_x;
        barrier_wait(ring->full + 8 * ring->slot, ring->parity);
        tile_begin(&own, tile, pairs, lane / 4);
#pragma unroll
        for (int32_t p = 0; p < STEP_PAIRS; p++) {
            // past the last pair the last is multiplied again, by nothing
            const int32_t there = WEFT_WHOLE ? p : min(p, pairs - 1);
#pragma unroll
            for (int32_t h = 0; h < 2; h++) {
                uint32_t a[2][4], below[2][4]; // read again for the second unit: registers are few
                pair_codes(tile, pairs, there, lane, a, below);
                unit_fragments(a, below, h, fragment[h]);
                unit_scales(&own.scales, pairs, there, h, lane / 4, by[h].scale, by[h].add);
                if (!WEFT_WHOLE && p >= pairs)
                    by[h] = {};
                wgmma_begin();
                multiply_new(u[h][0], fragment[h][0], wgmma_further(x, there * X_PAIR + 64 * h));
                const uint64_t second = wgmma_further(x, there * X_PAIR + 64 * h + 32);
                if (SIXTEENS == 2)
                    multiply_new(u[h][SIXTEENS - 1], fragment[h][1], second);
                else
                    multiply(u[h][0], fragment[h][1], second);
                wgmma_group_end();
                if (p + h > 0) {
                    WGMMA_WAIT(1);
                    unit_add(&by[1 - h], before, u[1 - h], d);
                }
                before = of_x + (2 * there + h) * UNIT_NUMBERS;
            }
        }
        WGMMA_WAIT(0); // no group may be on its way round the loop, or the compiler waits for each
        unit_add(&by[1], before, u[1], d);
        x = wgmma_further(x, STEP_PAIRS * X_PAIR);
        of_x += 2 * STEP_PAIRS * UNIT_NUMBERS;
        __syncwarp();
        ask(args, s, ring, next, ring->slot);
        if (++ring->slot == WEFT_STAGES)
            ring->slot = 0, ring->parity ^= 1;
    }
}

#endif
