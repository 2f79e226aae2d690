// SPDX-License-Identifier: MIT
// Which keys a query sees, how a score becomes a number in units of log2, where a key lies: as
// attention_kernel.h and attention_mask.c say it for the CPU.
//
// Function constants: WEFT_SOFTCAP, WEFT_ALIBI, WEFT_RING (0, 1), WEFT_SCATTER (1: more than intervals of keys),
// WEFT_SPARSE (1 bands, 2 lists of blocks, 3 both), WEFT_SOFT (1: mask values instead of masks), WEFT_PRECISE (1:
// powers of two as f32 has them, 0: as the fast instruction has them), WEFT_PAGE (page_size).
#ifndef WEFT_KERNELS_ATTENTION_MASK_CUH
#define WEFT_KERNELS_ATTENTION_MASK_CUH

#include "src/kernels/attention/attention_device.h"
#include "src/kernels/cuda/types.cuh"

#define LOG2_E 1.4426950408889634f
#define LN_2   0.6931471805599453f

#define LAST_KEY ((int64_t)0x7fffffff)

#define NEGATIVE_INFINITY bits_float(0xff800000u)

struct keys {
    int32_t begin, end;
};

// A sequence: its number in the batch, its queries, its keys, the row of its first query.
struct lengths {
    int32_t seq, q_len, kv_len, first_token;
};

DEVICE int32_t start_of(const struct weft__attention_device_args *args, struct lengths lengths)
{
    return args->kv_starts ? args->kv_starts[lengths.seq] : 0;
}

// The first key that query `token` may see under a hard mask; grows with the token.
DEVICE int32_t first_visible(const struct weft__attention_device_args *args, struct lengths lengths,
                             int32_t token)
{
    const int32_t own =
        lengths.kv_len - lengths.q_len + (args->mask == WEFT__ATTENTION_TREE ? 0 : token);
    int32_t begin = args->window > 0 ? own - args->window + 1 : 0;
    if (args->local_chunk > 0 && own > 0)
        begin = max(begin, own / args->local_chunk * args->local_chunk);
    return max(start_of(args, lengths), begin);
}

// What it sees under a hard mask, with trees, bits and blocks what it may; an empty interval is [0, 0). Both
// ends grow with the query.
DEVICE struct keys visible(const struct weft__attention_device_args *args, struct lengths lengths,
                           int32_t token)
{
    struct keys keys = {first_visible(args, lengths, token), lengths.kv_len};
    const int32_t own = lengths.kv_len - lengths.q_len + token;
    if (args->mask == WEFT__ATTENTION_CAUSAL)
        keys.end = min(keys.end, own + 1);
    else if (args->window_right > 0)
        keys.end = (int32_t)min((int64_t)keys.end, own + 1 + (int64_t)args->window_right);
    if (keys.end <= keys.begin)
        keys.begin = keys.end = 0;
    return keys;
}

// The keys that count for it: under a soft mask all that are no padding.
DEVICE int32_t first_key_of(const struct weft__attention_device_args *args, struct lengths lengths,
                            int32_t token)
{
    return WEFT_SOFT ? start_of(args, lengths) : first_visible(args, lengths, token);
}

DEVICE struct keys keys_of(const struct weft__attention_device_args *args, struct lengths lengths,
                           int32_t token)
{
    if (!WEFT_SOFT)
        return visible(args, lengths, token);
    struct keys keys = {start_of(args, lengths), lengths.kv_len};
    if (keys.end <= keys.begin)
        keys.begin = keys.end = 0;
    return keys;
}

// The keys that every query first..last sees: tiles within need no mask.
DEVICE struct keys keys_by_all(const struct weft__attention_device_args *args,
                               struct lengths lengths, int32_t first, int32_t last)
{
    struct keys keys = {keys_of(args, lengths, last).begin, keys_of(args, lengths, first).end};
#if WEFT_SCATTER
    int32_t columns = 0;
    if (args->mask == WEFT__ATTENTION_TREE || args->mask == WEFT__ATTENTION_BITS)
        columns = lengths.q_len;
    if (args->mask == WEFT__ATTENTION_BITS && args->mask_columns)
        columns = args->mask_columns[lengths.seq];
    keys.end = min(keys.end, lengths.kv_len - columns);
    if (WEFT_SPARSE ||
        (args->mask == WEFT__ATTENTION_TREE && (args->window > 0 || args->local_chunk > 0)))
        keys.end = 0;
#endif
    return keys;
}

// --- trees, bits, blocks: 64 keys from `key` on, a bit each ---------------------------------------------

DEVICE uint64_t interval_word(int32_t begin, int32_t end, int32_t key)
{
    begin = max(begin - key, 0), end = min(end - key, 64);
    if (begin >= end)
        return 0;
    return (end == 64 ? ~0ull : (1ull << end) - 1) & ~((1ull << begin) - 1);
}

// The queries above `token` in its tree, itself included, as keys; and what the window leaves of the
// keys before the new ones.
DEVICE uint64_t tree_word(const struct weft__attention_device_args *args, struct lengths lengths,
                          int32_t token, int32_t key)
{
    const int32_t *parents = args->tree_parents + lengths.first_token;
    const int32_t before = lengths.kv_len - lengths.q_len;
    int32_t own = before - 1, begin = 0;
    uint64_t seen = 0;
    for (int32_t i = token; i >= 0; i = parents[i])
        own++;
    if (args->window > 0)
        begin = max(begin, own - args->window + 1);
    if (args->local_chunk > 0)
        begin = max(begin, own / args->local_chunk * args->local_chunk);
    for (int32_t i = token, at = own; i >= 0 && at >= begin; i = parents[i], at--)
        seen |= interval_word(before + i, before + i + 1, key);
    return seen | interval_word(begin, before, key);
}

// Columns c to c + 31 of a row of the mask; columns below 0 are seen.
DEVICE uint32_t bits_word(const uint32_t *row, int32_t columns, int32_t c)
{
    if (c <= -32 || c >= columns)
        return c < 0 ? ~0u : 0u;
    const int32_t word = c >> 5, words = (columns + 31) / 32;
    uint32_t low = word < 0 ? ~0u : row[word], high = word + 1 < words ? row[word + 1] : 0;
    uint32_t bits = __funnelshift_r(low, high, (uint32_t)c & 31u);
    return columns - c < 32 ? bits & ((1u << (columns - c)) - 1) : bits;
}

#if WEFT_SPARSE & 1
// Blocks up to the query's own, and every so many.
DEVICE uint64_t bands_word(const struct weft__attention_device_args *args, struct lengths lengths,
                           int32_t token, int32_t head, int32_t key)
{
    const struct weft__attention_device_sparse *sparse = &args->sparse;
    const int32_t own = lengths.kv_len - lengths.q_len + token, length = sparse->block;
    const int64_t at = own < 0 ? -1 - (-1 - own) / length : own / length;
    const int64_t step = sparse->head_step, rank = sparse->rank;
    const int64_t offset = step >= 0
                               ? 1 + step * (rank * args->num_q_heads + head)
                               : 1 - step * (rank * args->num_kv_heads + head / args->group_size);
    const uint32_t stride = (uint32_t)sparse->stride;
    const uint64_t first = (uint64_t)offset % stride;
    uint64_t seen = 0;
    for (int64_t block = key / length; block * length < (int64_t)key + 64; block++)
        if (block > at - sparse->local || ((uint64_t)block + first) % stride == 0)
            seen |= interval_word((int32_t)(block * length),
                                  (int32_t)min((block + 1) * length, LAST_KEY), key);
    return seen;
}
#endif

#if WEFT_SPARSE & 2
// The blocks of the query's list.
DEVICE uint64_t list_word(const struct weft__attention_device_args *args, struct lengths lengths,
                          int32_t token, int32_t head, int32_t key)
{
    const struct weft__attention_device_sparse *sparse = &args->sparse;
    const int64_t length = sparse->keys;
    int64_t list = sparse->first[lengths.seq] + token / sparse->queries;
    if (sparse->own_lists)
        list = list * args->num_kv_heads + head / args->group_size;
    int32_t low = sparse->starts[list], end = sparse->starts[list + 1], high = end;
    while (low < high) { // the first block that ends behind the key
        const int32_t middle = low + (high - low) / 2;
        if ((sparse->blocks[middle] + (int64_t)1) * length <= key)
            low = middle + 1;
        else
            high = middle;
    }
    uint64_t seen = 0;
    for (; low < end && sparse->blocks[low] * length < (int64_t)key + 64; low++)
        seen |=
            interval_word((int32_t)(sparse->blocks[low] * length),
                          (int32_t)min((sparse->blocks[low] + (int64_t)1) * length, LAST_KEY), key);
    return seen;
}
#endif

// All masks together, and as if they were hard.
DEVICE uint64_t seen_word(const struct weft__attention_device_args *args, struct lengths lengths,
                          int32_t token, int32_t head, int32_t key)
{
    const struct keys keys = visible(args, lengths, token);
    uint64_t seen = interval_word(keys.begin, keys.end, key);
    if (seen && args->mask == WEFT__ATTENTION_TREE)
        seen &= tree_word(args, lengths, token, key);
    if (seen && args->mask == WEFT__ATTENTION_BITS) {
        const uint32_t *row = args->mask_bits + (lengths.first_token + token) * args->mask_stride;
        int32_t columns = args->mask_columns ? args->mask_columns[lengths.seq] : lengths.q_len;
        int32_t c = key - (lengths.kv_len - columns);
        seen &= bits_word(row, columns, c) | (uint64_t)bits_word(row, columns, c + 32) << 32;
    }
#if WEFT_SPARSE & 1
    if (seen)
        seen &= bands_word(args, lengths, token, head, key);
#endif
#if WEFT_SPARSE & 2
    if (seen)
        seen &= list_word(args, lengths, token, head, key);
#endif
    (void)head;
    return seen;
}

// --- scores ---------------------------------------------------------------------------------------

// (2^f - 1) / f for f in +-1/2.
DEVICE float exp2_slope(float f)
{
    float y = 0x1.41d334p-13f;
    y = fmaf(y, f, 0x1.5f456ap-10f);
    y = fmaf(y, f, 0x1.3b2dbcp-7f);
    y = fmaf(y, f, 0x1.c6aed4p-5f);
    y = fmaf(y, f, 0x1.ebfbdap-3f);
    return fmaf(y, f, 0x1.62e430p-1f);
}

// 2^(x + RAISE) within 1.4 units of 2^-24; x + RAISE is below 127. 2^x = 2^n 2^f with f in +-1/2; below an x of -126 it is 0.
template <int32_t RAISE = 0> DEVICE float exp2_precise(float x)
{
    const float shifted = x + 0x1.8p23f, f = x - (shifted - 0x1.8p23f);
    const float y = fmaf(exp2_slope(f), f, 1.0f);
    return x < -126.0f ? 0.0f
                       : y * bits_float((float_bits(shifted) << 23) + ((127u + RAISE) << 23));
}

// What a score has to do before it is in units of log2 except a product by a constant.
enum { SCORES_PREPARED = WEFT_SOFTCAP || WEFT_ALIBI };

// Eight times the square of a score over the soft-cap, which asks for another text from CAP_NEAR on.
#define CAP_NEAR 2.0f
DEVICE float cap_square(const struct weft__attention_device_args *args, float dot)
{
    const float z = dot * args->cap_unit;
    return z * z;
}

// c tanh(s / c) in units of log2, for |s| < c / 2: an odd polynomial, within 2 units of 2^-24 (2^-26 by itself).
DEVICE float capped_near(const struct weft__attention_device_args *args, float dot, float square)
{
    float y = 0x1.18bd6cp-18f;
    y = fmaf(y, square, -0x1.b20fdap-14f);
    y = fmaf(y, square, 0x1.10e438p-9f);
    y = fmaf(y, square, -0x1.5554a4p-5f);
    y = fmaf(y, square, 1.0f);
    return y * (dot * (args->scale * LOG2_E));
}

// The same for any s: e / (e + 2) with e = 2^y - 1 and 2^y = 2^n 2^f, of which e keeps small ones exact; NaN stays.
DEVICE float capped_far(const struct weft__attention_device_args *args, float dot)
{
    float y = dot * args->cap_unit * (2 * LOG2_E * 0x1.6a09e6p-2f); // 1 / sqrt(8)
    y = fabsf(y) > 60.0f ? copysignf(60.0f, y) : y;
    const float shifted = y + 0x1.8p23f, f = y - (shifted - 0x1.8p23f);
    const float whole = bits_float((float_bits(shifted) << 23) + (127u << 23));
    const float e = fmaf(whole, exp2_slope(f) * f, whole - 1.0f);
    return args->softcap * LOG2_E * __fdividef(e, e + 2.0f);
}

// A dot product with the soft-cap, in units of log2. Of each by itself, so that no bits depend on what else there is.
DEVICE float score_capped(const struct weft__attention_device_args *args, float dot)
{
#if WEFT_SOFTCAP
    const float square = cap_square(args, dot);
    return square < CAP_NEAR ? capped_near(args, dot, square) : capped_far(args, dot);
#else
    return dot * (args->scale * LOG2_E);
#endif
}

// The same of the first COUNT of every four of a lane's numbers of a tile, so many fours at a time as registers have room for. Whole
// warps enter one text or the other: a branch for each score would put them one behind the other.
template <int32_t FOURS, int32_t COUNT>
DEVICE void scores_cap(const struct weft__attention_device_args *args, float score[FOURS][4])
{
    constexpr int32_t TOGETHER = WEFT_SOFTCAP && FOURS % 4 == 0 ? 4 : FOURS;
#pragma unroll
    for (int32_t t0 = 0; t0 < FOURS; t0 += TOGETHER) {
        float square[TOGETHER][COUNT];
        uint32_t far = 0; // bit 30: 2 and more, infinity, NaN
#pragma unroll
        for (int32_t t = 0; t < TOGETHER; t++)
#pragma unroll
            for (int32_t i = 0; i < COUNT; i++) {
                square[t][i] = WEFT_SOFTCAP ? cap_square(args, score[t0 + t][i]) : 0;
                far |= float_bits(square[t][i]);
            }
        if (WEFT_SOFTCAP && !__any_sync(0xffffffffu, far >> 30)) {
#pragma unroll
            for (int32_t t = 0; t < TOGETHER; t++)
#pragma unroll
                for (int32_t i = 0; i < COUNT; i++)
                    score[t0 + t][i] = capped_near(args, score[t0 + t][i], square[t][i]);
        } else {
#pragma unroll
            for (int32_t t = 0; t < TOGETHER; t++)
#pragma unroll
                for (int32_t i = 0; i < COUNT; i++)
                    score[t0 + t][i] = score_capped(args, score[t0 + t][i]);
        }
    }
}

// A score less what ALiBi takes off. slope: of the head; far: keys between the query's own and this one.
DEVICE float score_biased(float score, float slope, int32_t far)
{
    return WEFT_ALIBI ? score - slope * (float)abs(far) * LOG2_E : score;
}

// A dot product as a score in units of log2.
DEVICE float score_log2(const struct weft__attention_device_args *args, float dot, float slope,
                        int32_t far)
{
    return score_biased(score_capped(args, dot), slope, far);
}

#if WEFT_SOFT
// What becomes of the score of a key that the mask hides: floats end there.
DEVICE float score_lowered(const struct weft__attention_device_args *args, float score)
{
    return fmaxf(score + args->mask_value * LOG2_E, -3.402823466e38f);
}
#endif

DEVICE float slope_of(const struct weft__attention_device_args *args, int32_t head)
{
    return WEFT_ALIBI ? args->alibi_slopes[head] : 0.0f;
}

DEVICE float exp2_of(float x)
{
    return WEFT_PRECISE ? exp2_precise(x) : exp2_fast(x);
}

// exp2(x - largest), 0 when nothing was seen.
DEVICE float weight_of(float x, float largest)
{
    return largest == NEGATIVE_INFINITY ? 0.0f : exp2_of(x - largest);
}

// For sums that are made key by key: what weights are measured against once a score has come. It is the first score, and
// goes up in whole steps, so that what is said of earlier weights stays exact. Where those vanish (exp2_of() of less than -126) it is
// the score itself: beside a first score of 2^24 and more a step has no room for the bits of a small one.
DEVICE float reference_after(float before, float score)
{
    if (!(score > before))
        return before;
    return score - before > 126.0f ? score : before + ceilf(score - before);
}

// A sum that is made key by key, in three steps: eight numbers land in `part`, eight of these in `middle`, and those join `whole`.
// Many equal numbers added one by one are off in one direction; beside one that is nearly all, each of the others may be
// below half a unit in the last place, and no more than seven and seven eights are lost so.
struct long_sum {
    float whole, middle, part;
};

DEVICE void long_sum_add(struct long_sum *sum, float earlier, float a, float b)
{
    sum->whole *= earlier, sum->middle *= earlier;
    sum->part = fmaf(a, b, sum->part * earlier);
}

// After `count` numbers.
DEVICE void long_sum_join(struct long_sum *sum, int32_t count)
{
    if (count % 8 == 0)
        sum->middle += sum->part, sum->part = 0;
    if (count % 64 == 0)
        sum->whole += sum->middle, sum->middle = 0;
}

DEVICE float long_sum_end(const struct long_sum *sum)
{
    return sum->whole + (sum->middle + sum->part);
}

// A sink is one more score, without a value: joins it to the state of a row of query head `head` and returns what
// acc is multiplied by.
DEVICE float sink_join(const struct weft__attention_device_args *args, int32_t head, float *largest,
                       float *sum)
{
    const float sink = args->sinks ? args->sinks[head] * LOG2_E : NEGATIVE_INFINITY;
    if (sink == NEGATIVE_INFINITY)
        return 1;
    const float before = *largest;
    *largest = fmaxf(before, sink);
    const float weight = before == *largest ? 1.0f : exp2_of(before - *largest);
    *sum = *sum * weight + exp2_of(sink - *largest);
    return weight;
}

// --- pages ----------------------------------------------------------------------------------------

DEVICE const int32_t *pages_of(const struct weft__attention_device_args *args, int32_t seq)
{
    int32_t row = args->seq_rows ? args->seq_rows[seq] : seq;
    return args->page_table +
           (args->page_starts ? (int64_t)args->page_starts[row] : row * args->page_table_stride);
}

// Where key `key` lies among the slots of its sequence's pages.
DEVICE int32_t place_of(const struct weft__attention_device_args *args, int32_t key)
{
    return WEFT_RING ? key % args->ring_len : key;
}

#endif
