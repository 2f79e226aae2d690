// SPDX-License-Identifier: MIT
// Appending tokens: cos and sin of a token's position once, then head by head.
#include <math.h>

#include "src/kernels/element.h"
#include "src/kernels/kv/kv_kernel.h"

struct angles {
    float cosines[WEFT__ROPE_MAX_PAIRS], sines[WEFT__ROPE_MAX_PAIRS];
};

// The cos and sin that a token is turned by.
struct turn {
    const float *cosines, *sines;
};

// `dim` numbers from element `at` on, in `room` unless they are f32 as they lie.
static const float *widened(const void *x, weft_dtype dtype, int64_t at, int32_t dim, float *room)
{
    if (dtype == WEFT_F32)
        return (const float *)x + at;
    weft__elements_widen(weft__element_at(x, dtype, at), dtype, dim, room);
    return room;
}

// Largest number of a format that tokens are scaled to.
static float format_limit(weft_dtype dtype)
{
    return dtype == WEFT_INT8 ? 127 : dtype == WEFT_FP8_E4M3 ? 448 : 57344;
}

// x over its scale, which is written first if it is the token's own.
static const float *scaled(const struct weft__kv_target *target, const float *x, int64_t scale_at,
                           float *room)
{
    float *scale = &target->scales[scale_at];
    if (target->scaling == WEFT_KV_SCALING_TOKEN) {
        float largest = 0;
        for (int32_t i = 0; i < target->dim; i++)
            largest = fmaxf(largest, fabsf(x[i]));
        *scale = largest / format_limit(target->dtype);
    }
    for (int32_t i = 0; i < target->dim; i++)
        room[i] = *scale == 0 ? 0 : x[i] / *scale;
    return room;
}

// One head of one token.
static void store_head(const struct weft__kv_target *target, const float *x, int32_t page,
                       int32_t slot, int32_t head)
{
    float room[WEFT__KV_MAX_DIM];
    int64_t at =
        page * target->page_stride + slot * target->token_stride + head * target->head_stride;
    int64_t elems = weft_dtype_block_elems(target->dtype);
    int64_t bytes = weft_dtype_block_bytes(target->dtype);
    if (target->scaling)
        x = scaled(target, x,
                   page * target->scale_page_stride + head * target->scale_head_stride +
                       slot * target->scale_token_stride,
                   room);
    for (int32_t i = 0; i < target->dim; i += target->inner, at += target->inner_stride)
        target->store(x + i, target->data + at / elems * bytes, target->inner, target->dtype);
}

static void store_key(const struct weft__kv_launch *launch, const struct weft__kv_call *call,
                      struct turn turn, const float *key, int32_t page, int32_t slot, int32_t head)
{
    const struct weft__kv_target *target = &call->targets[0];
    if (!launch->rope) {
        store_head(target, key, page, slot, head);
        return;
    }
    float turned[WEFT__KV_MAX_DIM];
    int32_t rotary_dim = launch->frequencies.rotary_dim;
    launch->rope->rotate(key, turned, turn.cosines, turn.sines, rotary_dim);
    memcpy(turned + rotary_dim, key + rotary_dim, (size_t)(target->dim - rotary_dim) * sizeof *key);
    store_head(target, turned, page, slot, head);
}

static void store_token(const struct weft__kv_launch *launch, const struct weft__kv_call *call,
                        struct turn turn, int64_t token)
{
    int32_t slot = call->slots[token], page_size = launch->layout.page_size;
    int32_t page = slot / page_size;
    if (slot < 0)
        return;
    int64_t k = token * call->k_token_stride, v = token * call->v_token_stride;
    for (int32_t head = 0; head < launch->layout.num_kv_heads; head++) {
        const struct weft__kv_target *targets = call->targets;
        float room[WEFT__KV_MAX_DIM];
        store_key(launch, call, turn, widened(call->k, launch->x_dtype, k, targets[0].dim, room),
                  page, slot % page_size, head);
        if (call->v)
            store_head(&targets[1], widened(call->v, launch->x_dtype, v, targets[1].dim, room),
                       page, slot % page_size, head);
        k += targets[0].dim, v += targets[1].dim;
    }
}

// What queries of a position are multiplied by.
static float growth(const struct weft__kv_launch *launch, const struct weft__kv_call *call,
                    int64_t token)
{
    if (!launch->q_growth_length)
        return 1;
    int64_t steps = ((int64_t)call->positions[token] + 1) / launch->q_growth_length;
    return (float)(1 + (double)launch->q_growth * log1p((double)steps));
}

static void multiply(float *x, int32_t count, float by)
{
    for (int32_t i = 0; by != 1 && i < count; i++)
        x[i] *= by;
}

static void turn_queries(const struct weft__kv_launch *launch, const struct weft__kv_call *call,
                         struct turn turn, int64_t token)
{
    const int32_t dim = launch->layout.head_dim, rotary_dim = launch->frequencies.rotary_dim;
    const weft_dtype dtype = launch->x_dtype;
    const float by = growth(launch, call, token);
    const int32_t touched = by != 1 ? dim : launch->rope ? rotary_dim : 0;
    int64_t at = token * call->q_token_stride;
    for (int32_t head = 0; touched && head < launch->num_q_heads; head++, at += dim) {
        float room[WEFT__KV_MAX_DIM];
        float *q = dtype == WEFT_F32 ? (float *)call->q + at : room;
        widened(call->q, dtype, at, touched, room);
        if (launch->rope)
            launch->rope->rotate(q, q, turn.cosines, turn.sines, rotary_dim);
        multiply(q, touched, by);
        if (q == room)
            weft__elements_narrow(room, touched, weft__element_to(call->q, dtype, at), dtype);
    }
}

// The same into another buffer, rounded.
static void hand_queries_on(const struct weft__kv_launch *launch, const struct weft__kv_call *call,
                            struct turn turn, int64_t token)
{
    const int32_t dim = launch->layout.head_dim, rotary_dim = launch->frequencies.rotary_dim;
    int64_t at = token * call->q_token_stride;
    for (int32_t head = 0; head < launch->num_q_heads; head++, at += dim) {
        float turned[WEFT__KV_MAX_DIM], room[WEFT__KV_MAX_DIM];
        const float *q = widened(call->q, launch->x_dtype, at, dim, room);
        memcpy(turned, q, (size_t)dim * sizeof *q);
        if (launch->rope)
            launch->rope->rotate(q, turned, turn.cosines, turn.sines, rotary_dim);
        multiply(turned, dim, growth(launch, call, token));
        weft__elements_narrow(
            turned, dim,
            weft__element_to(call->q_out, launch->q_out_dtype,
                             token * call->q_out_token_stride + (int64_t)head * dim),
            launch->q_out_dtype);
    }
}

void weft__kv_append(const struct weft__kv_launch *launch, const struct weft__kv_call *call,
                     int64_t token0, int64_t token1)
{
    struct angles angles;
    int64_t pairs = launch->frequencies.rotary_dim / 2;
    for (int64_t token = token0; token < token1; token++) {
        struct turn turn = {angles.cosines, angles.sines};
        if (launch->rope && call->cosines)
            turn = (struct turn){call->cosines + token * pairs, call->sines + token * pairs};
        else if (launch->rope)
            weft__rope_angles(&launch->frequencies, call->positions[token], angles.cosines,
                              angles.sines);
        store_token(launch, call, turn, token);
        if (call->q_out)
            hand_queries_on(launch, call, turn, token);
        else if (call->q)
            turn_queries(launch, call, turn, token);
    }
}
