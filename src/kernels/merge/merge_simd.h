// SPDX-License-Identifier: MIT
// Merging attention states in vectors. An ISA file includes this after its vocabulary.
#include <math.h>

#include "src/kernels/element.h"
#include "src/kernels/merge/merge_kernel.h"

static vf32 load(const void *x, weft_dtype dtype, int64_t at, int n)
{
    if (dtype == WEFT_F32)
        return vf32_load_n((const float *)x + at, n);
    return dtype == WEFT_F16 ? vf32_load_f16_n((const uint16_t *)x + at, n)
                             : vf32_load_bf16_n((const uint16_t *)x + at, n);
}

static void store(void *y, weft_dtype dtype, int64_t at, vf32 value, int n)
{
    if (dtype == WEFT_F32)
        vf32_store_n((float *)y + at, value, n);
    else if (dtype == WEFT_F16)
        vf32_store_f16_n((uint16_t *)y + at, value, n);
    else
        vf32_store_bf16_n((uint16_t *)y + at, value, n);
}

// The sum of the weights, which are those against the largest.
static float weigh(const weft_merge_args *args, const float *lse, float largest)
{
    float sum = 0;
    for (int32_t s = 0; s < args->num_states; s++) {
        float own = lse[s * args->lse_state_stride];
        if (own > -INFINITY || own != own)
            sum += own == largest ? 1 : expf(own - largest);
    }
    return sum;
}

static void merge_row(const struct weft__merge_launch *launch, const weft_merge_args *args,
                      int64_t row)
{
    const float *lse = args->lse + row;
    float largest = -INFINITY;
    for (int32_t s = 0; s < args->num_states; s++)
        largest = fmaxf(largest, lse[s * args->lse_state_stride]);
    float sum = weigh(args, lse, largest), inverse = sum == 0 ? 0 : 1 / sum;
    int64_t to = weft__merge_out_at(launch, args, row);
    for (int32_t i = 0; i < launch->dim; i += VF32_LANES) {
        int n = launch->dim - i < VF32_LANES ? launch->dim - i : VF32_LANES;
        vf32 y = vf32_zero();
        for (int32_t s = 0; s < args->num_states; s++) {
            float own = lse[s * args->lse_state_stride];
            if (own == -INFINITY)
                continue;
            float weight = own == largest ? 1 : expf(own - largest);
            int64_t at = weft__merge_x_at(launch, args, row, s);
            y = vf32_fma(vf32_set1(weight), load(args->x, launch->dtype, at + i, n), y);
        }
        store(args->out, launch->out_dtype, to + i, vf32_mul(y, vf32_set1(inverse)), n);
    }
    if (args->out_lse)
        args->out_lse[row] = sum == 0 ? -INFINITY : largest + logf(sum);
}

#define MERGE_SIMD(isa)                                                                            \
    weft__merge_fn weft__merge_##isa;                                                              \
    void weft__merge_##isa(const struct weft__merge_launch *launch, const weft_merge_args *args,   \
                           int64_t row0, int64_t row1)                                             \
    {                                                                                              \
        for (int64_t row = row0; row < row1; row++)                                                \
            merge_row(launch, args, row);                                                          \
    }
