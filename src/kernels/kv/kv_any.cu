// SPDX-License-Identifier: MIT
// Appending to a cache of any format and layout. A block does one head of one token: first the keys of the KV
// heads, then their values, then the heads of q. Numbers lie in shared memory, rotated; a thread encodes an
// element, or 32 to a block.
//
// Constants: ROTATE, STYLE (weft_rope_style), GROWS (queries do, with their position), X_DTYPE, Q_DTYPE (of
// q_out) and for keys and values FORMAT, ELEMS, BYTES (of a block), DIM, INNER, SCALING (weft_kv_scaling).
#define _Static_assert static_assert
#include "src/formats/iq_grids.c"
#include "src/kernels/cuda/block.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/kv/kv_device.h"
#include "src/kernels/kv/kv_encode.cuh"
#include "src/kernels/kv/kv_growth.cuh"
#include "src/kernels/rope/rope.cuh"

enum { MOST_DIM = K_DIM > V_DIM ? K_DIM : V_DIM, GIVEN = 1, TOKEN = 2 };

// A head's numbers, rotated, into shared memory.
DEVICE void turn_head(const struct weft__kv_device_args &args, const void *x, int64_t x0,
                      int32_t dim, bool rotates, int32_t position, float *y)
{
    const int32_t pairs = ROTATE && rotates ? args.rotary_dim / 2 : 0;
    for (int32_t i = (int32_t)threadIdx.x; i < pairs; i += (int32_t)blockDim.x) {
        const float2 angle = rope_angle(position, args.turns[i], args.factor);
        const int2 at = rope_places<STYLE>(i, args.rotary_dim);
        const float2 turned =
            rope_turn(element<X_DTYPE>(x, x0 + at.x), element<X_DTYPE>(x, x0 + at.y), angle);
        y[at.x] = turned.x, y[at.y] = turned.y;
    }
    for (int32_t i = 2 * pairs + (int32_t)threadIdx.x; i < dim; i += (int32_t)blockDim.x)
        y[i] = element<X_DTYPE>(x, x0 + i);
    __syncthreads();
}

// Largest number of a format that tokens are scaled to.
template <int FORMAT> DEVICE float format_limit()
{
    return FORMAT == FORMAT_INT8 ? 127.0f : FORMAT == FORMAT_FP8_E4M3 ? 448.0f : 57344.0f;
}

// Divides by the scale, which is written first if it is the token's own.
template <int FORMAT, int SCALING> DEVICE void scale_head(float *x, int32_t dim, float *scale)
{
    float own = *scale;
    if (SCALING == TOKEN) {
        float largest = 0;
        for (int32_t i = (int32_t)threadIdx.x; i < dim; i += (int32_t)blockDim.x)
            largest = fmaxf(largest, fabsf(x[i]));
        own = block_max(largest) / format_limit<FORMAT>();
        if (threadIdx.x == 0)
            *scale = own;
    }
    for (int32_t i = (int32_t)threadIdx.x; i < dim; i += (int32_t)blockDim.x)
        x[i] = own == 0 ? 0.0f : x[i] / own;
    __syncthreads();
}

template <int FORMAT, int ELEMS, int BYTES, int DIM, int INNER>
DEVICE void store_head(const struct weft__kv_device_plane &plane, int64_t at, const float *x)
{
    for (int32_t i = (int32_t)threadIdx.x * ELEMS; i < DIM; i += (int32_t)blockDim.x * ELEMS) {
        const int64_t elem = at + i / INNER * plane.inner_stride + i % INNER;
        uint8_t *to = (uint8_t *)plane.data + elem / ELEMS * BYTES;
        if constexpr (ELEMS == 1) {
            encode_element<FORMAT>(x[i], to);
        } else {
            uint8_t block[BYTES];
            encode_block<FORMAT, BYTES>(x + i, block);
            for (int32_t j = 0; j < BYTES; j++)
                to[j] = block[j];
        }
    }
}

// Numbers in shared memory to a token's slot.
template <int FORMAT, int ELEMS, int BYTES, int DIM, int INNER, int SCALING>
DEVICE void append_head(const struct weft__kv_device_plane &plane, int32_t page, int32_t slot,
                        int32_t head, float *x)
{
    if (SCALING)
        scale_head<FORMAT, SCALING>(x, DIM,
                                    plane.scales + page * plane.scale_page_stride +
                                        head * plane.scale_head_stride +
                                        slot * plane.scale_token_stride);
    store_head<FORMAT, ELEMS, BYTES, DIM, INNER>(
        plane, page * plane.page_stride + slot * plane.token_stride + head * plane.head_stride, x);
}

extern "C" __global__ void weft_kv_append_any(const struct weft__kv_device_args args)
{
    __shared__ float x[MOST_DIM];
    const int64_t token = blockIdx.x;
    const int32_t heads = args.num_kv_heads;
    int32_t head = (int32_t)blockIdx.y;
    wait_for_previous();
    const int32_t position = ROTATE || GROWS ? args.positions[token] : 0;
    if (head >= 2 * heads) {
        const int64_t own = (int64_t)(head - 2 * heads) * K_DIM;
        turn_head(args, args.q, token * args.q_token_stride + own, K_DIM, true, position, x);
        const float by = query_growth(args, position);
        for (int32_t i = (int32_t)threadIdx.x; i < K_DIM; i += (int32_t)blockDim.x)
            set_element<Q_DTYPE>(args.q_out, token * args.q_out_token_stride + own + i,
                                 GROWS ? x[i] * by : x[i]);
        return;
    }
    const int32_t slot = args.slots[token], page = slot / args.page_size;
    const bool values = head >= heads;
    if (slot < 0 || (values && !args.v))
        return;
    head -= values ? heads : 0;
    if (values) {
        turn_head(args, args.v, token * args.v_token_stride + (int64_t)head * V_DIM, V_DIM, false,
                  0, x);
        append_head<V_FORMAT, V_ELEMS, V_BYTES, V_DIM, V_INNER, V_SCALING>(
            args.v_pool, page, slot % args.page_size, head, x);
    } else {
        turn_head(args, args.k, token * args.k_token_stride + (int64_t)head * K_DIM, K_DIM, true,
                  position, x);
        append_head<K_FORMAT, K_ELEMS, K_BYTES, K_DIM, K_INNER, K_SCALING>(
            args.k_pool, page, slot % args.page_size, head, x);
    }
}
