// SPDX-License-Identifier: MIT
// Appending to a paged KV cache: keys (and queries, in place) are rotated, keys and values converted and
// stored. A block does one head of one token: first the KV heads, then those of q.
//
// Constants: ROTATE, STYLE (weft_rope_style), GROWS (queries do, with their position), KV_DTYPE, X_DTYPE,
// Q_DTYPE (of q_out)
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/kv/kv_device.h"
#include "src/kernels/kv/kv_growth.cuh"
#include "src/kernels/rope/rope.cuh"

// Rotates a head from x to y; elements past rotary_dim pass through. BY: all are multiplied by `by`.
template <int FROM, int TO, bool BY>
DEVICE void turn_head(const struct weft__kv_device_args &args, const void *x, int64_t x0, void *y,
                      int64_t y0, int32_t position, float by)
{
    int32_t pairs = ROTATE ? args.rotary_dim / 2 : 0;
    for (int32_t i = threadIdx.x; i < pairs; i += blockDim.x) {
        float2 angle = rope_angle(position, args.turns[i], args.factor);
        int2 at = rope_places<STYLE>(i, args.rotary_dim);
        float2 turned = rope_turn(element<FROM>(x, x0 + at.x), element<FROM>(x, x0 + at.y), angle);
        set_element<TO>(y, y0 + at.x, BY ? turned.x * by : turned.x);
        set_element<TO>(y, y0 + at.y, BY ? turned.y * by : turned.y);
    }
    if (!BY && FROM == TO && x == y && x0 == y0)
        return;
    for (int32_t i = 2 * pairs + threadIdx.x; i < args.head_dim; i += blockDim.x)
        set_element<TO>(y, y0 + i, BY ? element<FROM>(x, x0 + i) * by : element<FROM>(x, x0 + i));
}

DEVICE int64_t slot_at(const struct weft__kv_device_plane &plane, int32_t slot, int32_t page_size,
                       int32_t head)
{
    return slot / page_size * plane.page_stride + slot % page_size * plane.token_stride +
           head * plane.head_stride;
}

extern "C" __global__ void weft_kv_append(const struct weft__kv_device_args args)
{
    int32_t head = blockIdx.y;
    int64_t token = blockIdx.x;
    wait_for_previous();
    int32_t position = ROTATE || GROWS ? args.positions[token] : 0;
    if (head >= args.num_kv_heads) {
        int64_t own = (int64_t)(head - args.num_kv_heads) * args.head_dim;
        turn_head<X_DTYPE, Q_DTYPE, GROWS != 0>(args, args.q, token * args.q_token_stride + own,
                                                args.q_out, token * args.q_out_token_stride + own,
                                                position, query_growth(args, position));
        return;
    }
    int32_t slot = args.slots[token];
    if (slot < 0)
        return;
    int64_t own = (int64_t)head * args.head_dim;
    turn_head<X_DTYPE, KV_DTYPE, false>(
        args, args.k, token * args.k_token_stride + own, args.k_pool.data,
        slot_at(args.k_pool, slot, args.page_size, head), position, 1.0f);
    int64_t from = token * args.v_token_stride + own;
    int64_t to = slot_at(args.v_pool, slot, args.page_size, head);
    for (int32_t i = threadIdx.x; i < args.head_dim && args.v; i += blockDim.x)
        set_element<KV_DTYPE>(args.v_pool.data, to + i, element<X_DTYPE>(args.v, from + i));
}
