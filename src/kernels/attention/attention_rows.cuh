// SPDX-License-Identifier: MIT
// What decode and prefill share: rows of queries, in parts of the cache's type, and where results go.
//
// Tensor cores multiply numbers of the cache's type. Queries and the weights of the values enter in WEFT_PARTS
// parts of it: f32 in three (24 bits of bf16; more of f16, with a power of two in front that keeps
// what is small out of its subnormal numbers), queries of the cache's own type in one.
// Tensor cores cut their sums off instead of rounding them: with several parts, no sum is longer than a tile there.
//
// The kernel defines HEAD, DIM, ROWS and PAGE.
#ifndef WEFT_KERNELS_ATTENTION_ROWS_CUH
#define WEFT_KERNELS_ATTENTION_ROWS_CUH

// Weights that enter in one part are rounded more coarsely than any power of two is wrong.
#define WEFT_PRECISE (WEFT_PARTS > 1)
#define WEFT_SOFT    0 // mask values are attention_any.cu's
#include "src/kernels/attention/attention_items.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/mma.cuh"
#include "src/kernels/cuda/warp.cuh"
#if WEFT_APPEND
#include "src/kernels/rope/rope.cuh"
#endif

enum {
    BYTES = WEFT_CACHE > 3 ? 1 : 2, // of an element of the cache
    KEY_DTYPE = WEFT_KV_DTYPE,      // what queries and keys are multiplied in
    // Weights and values: where most codes are 0, what decides may be a weight that f16 has no place for.
    VALUE_DTYPE = WEFT_CODES ? 3 : WEFT_KV_DTYPE,
    FACTORS = KEY_DTYPE == 2 && WEFT_X_DTYPE != 2, // f32 does not fit f16
    // What a row's weights are measured against may be 2^SLACK too small: sums in several parts have no room for it.
    SLACK = WEFT_PARTS == 1 ? 8 : 0,
    // Weights are 2^(WEIGHT_EXPONENT + SLACK) at most: as much as f16 holds.
    WEIGHT_EXPONENT = VALUE_DTYPE == 2 ? 15 - SLACK : 0,
    // What of that is added before 2^x is taken: none where weights are precise, for x near 15 is no finer than 2^-21.
    WEIGHT_OFFSET = WEFT_PRECISE ? 0 : WEIGHT_EXPONENT,
};

// 2^WEIGHT_EXPONENT for x = WEIGHT_OFFSET.
DEVICE float weight_exp2(float x)
{
    return WEFT_PRECISE ? exp2_precise<WEIGHT_EXPONENT>(x) : exp2_fast(x);
}

// What sums of weights, and of values by them, are multiplied by before they leave the registers: a logarithm of a
// sum near 2^WEIGHT_EXPONENT would be as coarse as that.
#define WEIGHT_UNIT (1.0f / (1 << WEIGHT_EXPONENT))

template <int32_t DTYPE = KEY_DTYPE> DEVICE uint32_t two_narrow(float a, float b)
{
    return DTYPE == 2 ? floats_f16x2(a, b) : floats_bf16x2(a, b);
}

template <int32_t DTYPE> DEVICE float2 two_wide(uint32_t pair)
{
    return DTYPE == 2 ? f16x2_float2(pair) : bf16x2_float2(pair);
}

// Two numbers in parts: part 0 is the numbers rounded, part i what the parts before it leave.
template <int32_t DTYPE = KEY_DTYPE>
DEVICE void two_in_parts(float a, float b, uint32_t part[WEFT_PARTS])
{
    part[0] = two_narrow<DTYPE>(a, b);
#pragma unroll
    for (int32_t i = 1; i < WEFT_PARTS; i++) {
        float2 wide = two_wide<DTYPE>(part[i - 1]);
        a -= wide.x, b -= wide.y;
        part[i] = two_narrow<DTYPE>(a, b);
    }
}

template <int32_t DTYPE>
DEVICE void mma_narrow(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    if (DTYPE == 2)
        mma_f16(d, a, b0, b1);
    else
        mma_bf16(d, a, b0, b1);
}

// Part `part` of a query times keys, added to scores: where there are several parts, the first is added in f32,
// which rounds to nearest, sixteen elements at a time.
DEVICE void mma_score(float d[4], int32_t part, const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    if (WEFT_PARTS == 1 || part > 0) {
        mma_narrow<KEY_DTYPE>(d, a, b0, b1);
        return;
    }
    float sum[4] = {0, 0, 0, 0};
    mma_narrow<KEY_DTYPE>(sum, a, b0, b1);
#pragma unroll
    for (int32_t i = 0; i < 4; i++)
        d[i] += sum[i];
}

// Where row `row` of the queries lies, or the last that exists.
DEVICE int64_t query_from(const struct weft__attention_device_args *args, struct lengths lengths,
                          struct rows rows, int32_t row)
{
    return query_at(args, lengths, row_at(args, rows, min(row, rows.count - 1)));
}

// A row of queries to shared memory in WEFT_PARTS parts, part_bytes apart, by a warp. *factor receives what
// the row has been divided by. x: its numbers, of lane l 2 l, 2 l + 1 of every 64, which lie from `index` on.
enum { QUERY_PAIRS = (DIM + 63) / 64 };
DEVICE void query_fetch(const struct weft__attention_device_args *args, struct lengths lengths,
                        struct rows rows, int32_t row, int64_t index, int32_t lane,
                        float2 x[QUERY_PAIRS])
{
    const float scale = query_scale(args, lengths, row_at(args, rows, min(row, rows.count - 1)));
#pragma unroll
    for (int32_t i = 0; i < QUERY_PAIRS; i++) {
        const int32_t d = 2 * (i * WARP + lane);
        x[i] = make_float2(0, 0);
        if (row < rows.count && d < HEAD)
            x[i] = make_float2(query_number(args, index + d) * scale,
                               query_number(args, index + d + 1) * scale);
    }
}

// The column of shared memory that has element `d` of a query, d even; its neighbour follows it. With WEFT_CODES as
// attention_codes.cuh reads keys: product s of 64 elements has 16 t + 4 s + {0, 1}, of t = 0..3, then their neighbours.
DEVICE int32_t query_column(int32_t d)
{
    if (!WEFT_CODES)
        return d;
    return d / 64 * 64 + d % 16 / 4 * 16 + d % 4 / 2 * 8 + d % 64 / 16 * 2;
}

DEVICE void query_store(const float2 x[QUERY_PAIRS], uint8_t *to, int32_t part_bytes, int32_t lane,
                        float *factor)
{
    float divide = 1;
    if (FACTORS) { // the largest becomes 2^14 to 2^15
        uint32_t largest = 0;
#pragma unroll
        for (int32_t i = 0; i < QUERY_PAIRS; i++)
            largest = max(largest, float_bits(fmaxf(fabsf(x[i].x), fabsf(x[i].y))));
        int32_t exponent = (int32_t)(warp_max_bits(largest, 32) >> 23) - 14;
        exponent = exponent < 1 ? 1 : exponent > 239 ? 127 : exponent;
        divide = bits_float((uint32_t)(254 - exponent) << 23);
        if (lane == 0)
            *factor = bits_float((uint32_t)exponent << 23);
    }
#pragma unroll
    for (int32_t i = 0; i < QUERY_PAIRS; i++) {
        int32_t pair = i * WARP + lane;
        uint32_t parts[WEFT_PARTS];
        two_in_parts(x[i].x * divide, x[i].y * divide, parts);
#pragma unroll
        for (int32_t part = 0; part < WEFT_PARTS && pair < DIM / 2; part++)
            *(uint32_t *)(to + part * part_bytes + query_column(2 * pair) * 2) = parts[part];
    }
}

// 16 bytes to shared memory, zeros if there is nothing to see; caches whose rows do not begin at multiples of
// 16 bytes are copied element by element.
DEVICE void copy_chunk(uint32_t to, const uint8_t *from, bool seen, bool aligned)
{
    if (aligned) {
        copy_16_async_or_zero(to, from, seen ? 16 : 0);
        return;
    }
    uint32_t pair[4] = {0, 0, 0, 0};
#pragma unroll
    for (int32_t i = 0; i < 16 / BYTES; i++)
        if (seen)
            pair[i * BYTES / 4] |=
                (BYTES == 1 ? (uint32_t)from[i] : (uint32_t)((const uint16_t *)from)[i])
                << i * BYTES % 4 * 8;
    store_16_shared(to, make_uint4(pair[0], pair[1], pair[2], pair[3]));
}

// Element `i` of a plane.
DEVICE float cache_number(const struct weft__attention_device_plane *plane, int64_t i)
{
    if constexpr (WEFT_CACHE == 4)
        return weft__fp8_e4m3_to_f32(((const uint8_t *)plane->data)[i]);
    else if constexpr (WEFT_CACHE == 5)
        return weft__fp8_e5m2_to_f32(((const uint8_t *)plane->data)[i]);
    else if constexpr (WEFT_CACHE == 6)
        return (float)((const int8_t *)plane->data)[i];
    else
        return element<WEFT_KV_DTYPE>(plane->data, i);
}

DEVICE float cache_scale(const struct weft__attention_device_scales *scales, int32_t seq,
                         int32_t page, int32_t kv_head, int32_t slot)
{
    return WEFT_SCALED && scales->of ? scales->of[scale_at(scales, seq, page, kv_head, slot)]
                                     : 1.0f;
}

// An element of a query, rotated to its position where the launch does that.
DEVICE float query_element(const struct weft__attention_device_args *args, int64_t q, int32_t d,
                           int32_t position)
{
    const float x = query_number(args, q + d);
#if WEFT_APPEND && WEFT_ROPE
    const int32_t half = WEFT_ROTARY / 2, pair = WEFT_ROPE == 2 ? d / 2 : d % half;
    const bool first = WEFT_ROPE == 2 ? d % 2 == 0 : d < half;
    if (d >= WEFT_ROTARY)
        return x;
    const int2 at = rope_places<WEFT_ROPE - 1>(pair, WEFT_ROTARY);
    const float2 turned = rope_turn(query_number(args, q + at.x), query_number(args, q + at.y),
                                    rope_angle(position, args->turns[pair], args->turn_factor));
    return first ? turned.x : turned.y;
#else
    (void)position;
    return x;
#endif
}

// The state of a row, of the keys first to end: by a warp, product by product and key by key. For rows whose
// state is not finite: products in parts turn an infinity, and a weight of 0 for a key that a row does not
// see, into NaN. Lane l gets the elements l, l + 32...
struct row_state {
    float acc[(HEAD + WARP - 1) / WARP], largest, sum;
};

DEVICE void row_again(const struct weft__attention_device_args *args, struct lengths lengths,
                      struct row row, int32_t kv_head, int32_t first, int32_t end,
                      struct row_state *state)
{
    const int32_t lane = (int32_t)threadIdx.x % WARP;
    const int32_t *pages = pages_of(args, lengths.seq);
    const int64_t q = query_at(args, lengths, row);
    const float slope = slope_of(args, row.head);
    const int32_t own = lengths.kv_len - lengths.q_len + row.token;
    struct keys seen = keys_of(args, lengths, row.token);
    float largest = NEGATIVE_INFINITY, x[(HEAD + WARP - 1) / WARP];
    struct long_sum sum = {}, acc[(HEAD + WARP - 1) / WARP] = {};
    int32_t count = 0; // keys so far
#pragma unroll
    for (int32_t i = 0; i < (HEAD + WARP - 1) / WARP; i++)
        if (HEAD % WARP == 0 || i * WARP + lane < HEAD)
            x[i] = query_element(args, q, i * WARP + lane, own) * query_scale(args, lengths, row);
    for (int32_t key = max(seen.begin, first); key < min(seen.end, end); key++) {
        if (WEFT_SCATTER && !(seen_word(args, lengths, row.token, row.head, key) & 1))
            continue;
        const int32_t place = place_of(args, key);
        const int64_t page = pages[place / PAGE], token = place % PAGE;
        const int64_t k = page * args->k.page_stride + kv_head * args->k.head_stride +
                          token * args->k.token_stride;
        const int64_t v = page * args->v.page_stride + kv_head * args->v.head_stride +
                          token * args->v.token_stride;
        float dot = 0;
#pragma unroll
        for (int32_t j = 0; j < (HEAD + WARP - 1) / WARP; j++)
            if (HEAD % WARP == 0 || j * WARP + lane < HEAD)
                dot = fmaf(x[j], cache_number(&args->k, k + j * WARP + lane), dot);
        dot = warp_sum(dot, 32) *
              cache_scale(&args->k_scales, lengths.seq, (int32_t)page, kv_head, (int32_t)token);
        const float by =
            cache_scale(&args->v_scales, lengths.seq, (int32_t)page, kv_head, (int32_t)token);
        const float score = score_log2(args, dot, slope, own - key);
        const float before = largest;
        largest = reference_after(before, score);
        const float factor = weight_of(before, largest);
        const float weight = exp2_of(score - (largest == NEGATIVE_INFINITY ? 0.0f : largest));
        long_sum_add(&sum, factor, weight, 1);
        long_sum_join(&sum, ++count);
#pragma unroll
        for (int32_t j = 0; j < (HEAD + WARP - 1) / WARP; j++)
            if (HEAD % WARP == 0 || j * WARP + lane < HEAD) {
                long_sum_add(&acc[j], factor, weight,
                             cache_number(&args->v, v + j * WARP + lane) * by);
                long_sum_join(&acc[j], count);
            }
    }
    state->largest = largest, state->sum = long_sum_end(&sum);
#pragma unroll
    for (int32_t i = 0; i < (HEAD + WARP - 1) / WARP; i++)
        state->acc[i] = long_sum_end(&acc[i]);
}

#endif
