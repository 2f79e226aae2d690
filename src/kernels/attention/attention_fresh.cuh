// SPDX-License-Identifier: MIT
// WEFT_APPEND: queries, keys and values of the tokens as a matrix left them. Queries are rotated as they are read; so is the key,
// by the block that has its tile, which stores it, and its value, in the cache and in shared memory. Every sequence has one
// token, at the position of its last key.
//
// Lane l has the elements 2 l, 2 l + 1 of every 64 of a head. WEFT_ROPE: 0 none, 1 split half, 2 interleaved;
// WEFT_ROTARY: elements of a head that are rotated, a multiple of 4 with split halves.
#ifndef WEFT_KERNELS_ATTENTION_FRESH_CUH
#define WEFT_KERNELS_ATTENTION_FRESH_CUH

#include "src/kernels/attention/attention_rows.cuh"
#include "src/kernels/rope/rope.cuh"

#if WEFT_APPEND

// cos and sin of the lane's elements.
struct turns {
    float2 of[QUERY_PAIRS][2];
};

// angle(pair): cos and sin of a pair.
template <class Angle> DEVICE struct turns turns_by(int32_t lane, Angle angle)
{
    struct turns turns;
#pragma unroll
    for (int32_t i = 0; WEFT_ROPE && i < QUERY_PAIRS; i++) {
        const int32_t d = 2 * (i * WARP + lane);
        const int32_t pair = WEFT_ROPE == 2 ? d / 2 : d % (WEFT_ROTARY / 2);
        if (i > 0 && WEFT_ROPE == 1 && 64 % (WEFT_ROTARY / 2) == 0) {
            turns.of[i][0] = turns.of[0][0], turns.of[i][1] = turns.of[0][1]; // the same pairs
            continue;
        }
        if (WEFT_ROTARY == 2 * WARP * QUERY_PAIRS ||
            d < WEFT_ROTARY) { // all lanes have some, mostly
            turns.of[i][0] = angle(pair);
            if (WEFT_ROPE == 1)
                turns.of[i][1] = angle(pair + 1);
        }
    }
    return turns;
}

// The lane's elements of a head, and those that they turn with.
struct head {
    float2 own[QUERY_PAIRS], other[QUERY_PAIRS];
};

DEVICE struct head head_load(const float *x, int32_t lane)
{
    struct head head;
#pragma unroll
    for (int32_t i = 0; i < QUERY_PAIRS; i++) {
        const int32_t d = 2 * (i * WARP + lane);
        head.own[i] = head.other[i] = make_float2(0, 0);
        if (HEAD % 64 == 0 || d < HEAD)
            head.own[i] = make_float2(x[d], x[d + 1]);
        if (WEFT_ROPE == 1 && d < WEFT_ROTARY) {
            const int32_t at = d < WEFT_ROTARY / 2 ? d + WEFT_ROTARY / 2 : d - WEFT_ROTARY / 2;
            head.other[i] = make_float2(x[at], x[at + 1]);
        }
    }
    return head;
}

// Rotates the lane's elements, in head->own.
DEVICE void head_turn(struct head *head, const struct turns *turns, int32_t lane)
{
#pragma unroll
    for (int32_t i = 0; WEFT_ROPE && i < QUERY_PAIRS; i++) {
        const int32_t d = 2 * (i * WARP + lane);
        const float2 own = head->own[i], other = head->other[i];
        if (d >= WEFT_ROTARY)
            continue;
        if (WEFT_ROPE == 2)
            head->own[i] = rope_turn(own.x, own.y, turns->of[i][0]);
        else if (d < WEFT_ROTARY / 2)
            head->own[i] = make_float2(rope_turn(own.x, other.x, turns->of[i][0]).x,
                                       rope_turn(own.y, other.y, turns->of[i][1]).x);
        else
            head->own[i] = make_float2(rope_turn(other.x, own.x, turns->of[i][0]).y,
                                       rope_turn(other.y, own.y, turns->of[i][1]).y);
    }
}

// A new key, its value, and the page that they go to.
struct fresh {
    struct head key;
    float2 value[QUERY_PAIRS];
    int32_t page;
};

DEVICE struct fresh fresh_load(const struct weft__attention_device_args *args,
                               struct lengths lengths, const int32_t *pages, int32_t kv_head,
                               int32_t lane)
{
    struct fresh fresh;
    const float *v = args->new_v + lengths.first_token * args->new_v_stride + kv_head * HEAD;
    fresh.page = pages[place_of(args, lengths.kv_len - 1) / PAGE];
    fresh.key =
        head_load(args->new_k + lengths.first_token * args->new_k_stride + kv_head * HEAD, lane);
#pragma unroll
    for (int32_t i = 0; i < QUERY_PAIRS; i++) {
        const int32_t d = 2 * (i * WARP + lane);
        fresh.value[i] = make_float2(0, 0);
        if (HEAD % 64 == 0 || d < HEAD)
            fresh.value[i] = make_float2(v[d], v[d + 1]);
    }
    return fresh;
}

DEVICE uint16_t *fresh_row(const struct weft__attention_device_args *args,
                           const struct weft__attention_device_plane *plane, int32_t page,
                           int32_t kv_head, int32_t position)
{
    return (uint16_t *)plane->data + page * plane->page_stride + kv_head * plane->head_stride +
           place_of(args, position) % PAGE * plane->token_stride;
}

// To `rows` in shared memory, the value ROW_BYTES behind the key, and to the cache.
DEVICE void fresh_store(const struct weft__attention_device_args *args, struct fresh *fresh,
                        const struct turns *turns, int32_t kv_head, int32_t position, int32_t lane,
                        uint8_t *rows)
{
    uint16_t *const key = fresh_row(args, &args->k, fresh->page, kv_head, position);
    uint16_t *const value = fresh_row(args, &args->v, fresh->page, kv_head, position);
    head_turn(&fresh->key, turns, lane);
#pragma unroll
    for (int32_t i = 0; i < QUERY_PAIRS; i++) {
        const int32_t d = 2 * (i * WARP + lane);
        if (HEAD % 64 != 0 && d >= HEAD)
            continue;
        const uint32_t k = two_narrow(fresh->key.own[i].x, fresh->key.own[i].y);
        const uint32_t v = two_narrow(fresh->value[i].x, fresh->value[i].y);
        *(uint32_t *)(rows + 2 * d) = k;
        *(uint32_t *)(rows + ROW_BYTES + 2 * d) = v;
        key[d] = (uint16_t)k, key[d + 1] = (uint16_t)(k >> 16);
        value[d] = (uint16_t)v, value[d + 1] = (uint16_t)(v >> 16);
    }
}

#endif
#endif
