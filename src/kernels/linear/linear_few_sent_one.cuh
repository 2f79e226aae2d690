// SPDX-License-Identifier: MIT
// One row of X of linear_few_sent.cu.
#ifndef WEFT_KERNELS_LINEAR_FEW_SENT_ONE_CUH
#define WEFT_KERNELS_LINEAR_FEW_SENT_ONE_CUH

#include "src/kernels/linear/linear_few_one.cuh"
#include "src/kernels/linear/linear_few_places.cuh"
#include "src/kernels/linear/linear_few_x_one.cuh"

#define SUM_FACTOR 1.0f

// As that of several rows.
DEVICE bool x_load(struct stream *s, const struct weft__linear_device_args *args)
{
    const struct x_own own = x_own_of(s, args);
    if (own.left > 0 && warp_of_thread() < s->tiles)
        prefetch_l2((const uint8_t *)args->x + own.at * (WEFT_X_DTYPE == DTYPE_F32 ? 4 : 2));
    wait_for_previous();
    float4 v[X_AT_ONCE][2];
    x_ask(s, args, &own, warp_of_thread(), v);
    stream_ask_rest(s, args, SLOTS_BEFORE_X);
    stream_prefetch(s, args);
    cluster_wait();
    x_take(s, args, &own, v);
    return true;
}

DEVICE void tile_multiply(const struct stream *s, const struct weft__linear_device_args *args,
                          const uint8_t *slot, int32_t tile, bool, float acc[2])
{
    const struct one_x x = one_x_of(shared_x(), shared_x() + x_pairs(s) * 64, tile, s->lane);
    one_multiply(&x, slot, tile_pairs(columns_of(args), s->tile0 + tile), s->lane, acc);
}

#endif
