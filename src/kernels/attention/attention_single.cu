// SPDX-License-Identifier: MIT
// Attention of one query and one query head at a time, in f32, over caches of plain elements: three small kernels,
// which share nothing between the heads of a KV head. They are in the table under their names alone.
//
//   weft_attention_standard   a block has a thread for every element of the head; two barriers a key
//   weft_attention_fast       a warp has the head, element lane + 32 i in lane `lane`; no barrier
//   weft_attention_parallel   a block of 32 warps, warp w has the keys w, w + 32, ...; their states meet in shared memory
//
// Grid: tokens of the batch x query heads.
//
// Function constants: WEFT_HEAD_DIM (up to 1024, of the last two up to 256), WEFT_KV_DTYPE (1 f32, 2 f16, 3 bf16),
// WEFT_X_DTYPE and WEFT_Y_DTYPE of q and out, and those of attention_mask.cuh.
#define WEFT_PRECISE 1
#define WEFT_SOFT    0
#include <stdint.h>

enum {
    HEAD = WEFT_HEAD_DIM,
    KEYS = 1, // of a tile, ROWS of an item: what the division of other kernels goes by
    ROWS = 1,
    OWN = (HEAD + 31) / 32, // elements of a lane
    WARPS = 32,             // of weft_attention_parallel
};

#include "src/kernels/attention/attention_items.cuh"

// The query of a block, and what it may see.
struct query {
    struct lengths lengths;
    struct row row;
    int32_t kv_head, position;
    struct keys keys;
    const int32_t *pages;
};

// False behind the last query of the batch.
DEVICE bool query_of_block(const struct weft__attention_device_args *args, struct query *query)
{
    const int32_t token = (int32_t)blockIdx.x, head = (int32_t)blockIdx.y;
    const int32_t seqs = seqs_of(args);
    int32_t low = 0, high = seqs;
    while (low < high) { // the first sequence that ends behind the token
        const int32_t middle = (low + high) / 2;
        if (args->cu_q_lens[middle + 1] <= token)
            low = middle + 1;
        else
            high = middle;
    }
    if (low >= seqs)
        return false;
    const int32_t first = args->cu_q_lens[low];
    query->lengths = {low, args->cu_q_lens[low + 1] - first, args->kv_lens[low], first};
    query->row = {token - first, head};
    query->kv_head = head / args->group_size;
    query->position = query->lengths.kv_len - query->lengths.q_len + query->row.token;
    query->keys = keys_of(args, query->lengths, query->row.token);
    query->pages = pages_of(args, low);
    return true;
}

DEVICE bool sees(const struct weft__attention_device_args *args, const struct query *query,
                 int32_t key)
{
    return !WEFT_SCATTER ||
           (seen_word(args, query->lengths, query->row.token, query->row.head, key) & 1);
}

// The first element of a key or value.
DEVICE int64_t at_key(const struct weft__attention_device_args *args,
                      const struct weft__attention_device_plane *plane, const struct query *query,
                      int32_t key)
{
    const int32_t place = place_of(args, key);
    return query->pages[place / WEFT_PAGE] * plane->page_stride +
           query->kv_head * plane->head_stride + place % WEFT_PAGE * plane->token_stride;
}

// --- the running softmax ---------------------------------------------------------------------------

struct softmax {
    float largest; // what weights are measured against, reference_after() scores
    struct long_sum sum;
    int32_t count; // keys so far
};

// One key more: *earlier receives what sums so far are multiplied by. Returns the key's weight.
DEVICE float softmax_take(const struct weft__attention_device_args *args, struct softmax *state,
                          const struct query *query, float dot, int32_t key, float *earlier)
{
    const float score =
        score_log2(args, dot, slope_of(args, query->row.head), query->position - key);
    const float before = state->largest;
    state->largest = reference_after(before, score);
    *earlier = weight_of(before, state->largest);
    const float weight =
        exp2_of(score - (state->largest == NEGATIVE_INFINITY ? 0.0f : state->largest));
    long_sum_add(&state->sum, *earlier, weight, 1);
    long_sum_join(&state->sum, ++state->count);
    return weight;
}

// --- a warp and a head -----------------------------------------------------------------------------

struct head {
    float q[OWN];
    struct long_sum acc[OWN];
    struct softmax state;
};

DEVICE void head_begin(const struct weft__attention_device_args *args, const struct query *query,
                       int32_t lane, struct head *head)
{
    const int64_t at = query_at(args, query->lengths, query->row);
    const float scale = query_scale(args, query->lengths, query->row);
    head->state = {NEGATIVE_INFINITY, {}, 0};
#pragma unroll
    for (int32_t i = 0; i < OWN; i++) {
        const int32_t d = i * WARP + lane;
        head->acc[i] = {};
        head->q[i] = HEAD % WARP == 0 || d < HEAD ? query_number(args, at + d) * scale : 0;
    }
}

// Every step-th key from keys.begin + first on.
DEVICE void head_walk(const struct weft__attention_device_args *args, const struct query *query,
                      int32_t first, int32_t step, int32_t lane, struct head *head)
{
    for (int32_t key = query->keys.begin + first; key < query->keys.end; key += step) {
        if (!sees(args, query, key))
            continue;
        const int64_t k = at_key(args, &args->k, query, key),
                      v = at_key(args, &args->v, query, key);
        float value[OWN], dot = 0, earlier;
#pragma unroll
        for (int32_t i = 0; i < OWN; i++) {
            const int32_t d = i * WARP + lane;
            value[i] = 0;
            if (HEAD % WARP == 0 || d < HEAD) {
                dot = fmaf(head->q[i], element<WEFT_KV_DTYPE>(args->k.data, k + d), dot);
                value[i] = element<WEFT_KV_DTYPE>(args->v.data, v + d);
            }
        }
        const float weight =
            softmax_take(args, &head->state, query, warp_sum(dot, 32), key, &earlier);
#pragma unroll
        for (int32_t i = 0; i < OWN; i++) {
            long_sum_add(&head->acc[i], earlier, weight, value[i]);
            long_sum_join(&head->acc[i], head->state.count);
        }
    }
}

// --- the kernels -----------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(32)
    weft_attention_fast(const __grid_constant__ struct weft__attention_device_args args)
{
    const int32_t lane = (int32_t)threadIdx.x;
    struct query query;
    struct head head;
    let_next_start();
    wait_for_previous();
    if (!query_of_block(&args, &query))
        return;
    head_begin(&args, &query, lane, &head);
    head_walk(&args, &query, 0, 1, lane, &head);
    const float by = row_end(&args, query.lengths, query.row, head.state.largest,
                             long_sum_end(&head.state.sum), lane == 0);
    const int64_t out = out_at(&args, query.lengths, query.row);
#pragma unroll
    for (int32_t i = 0; i < OWN; i++)
        if (HEAD % WARP == 0 || i * WARP + lane < HEAD)
            set_element<WEFT_Y_DTYPE>(args.out, out + i * WARP + lane,
                                      long_sum_end(&head.acc[i]) * by);
}

extern "C" __global__ void __launch_bounds__(1024)
    weft_attention_parallel(const __grid_constant__ struct weft__attention_device_args args)
{
#if WEFT_HEAD_DIM <= 256 // what shared memory holds
    __shared__ float acc[WARPS][OWN * WARP], largest[WARPS], sum[WARPS];
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
    struct query query;
    struct head head;
    let_next_start();
    wait_for_previous();
    if (!query_of_block(&args, &query))
        return;
    head_begin(&args, &query, lane, &head);
    head_walk(&args, &query, warp, WARPS, lane, &head);
    largest[warp] = head.state.largest, sum[warp] = long_sum_end(&head.state.sum);
#pragma unroll
    for (int32_t i = 0; i < OWN; i++)
        acc[warp][i * WARP + lane] = long_sum_end(&head.acc[i]);
    __syncthreads();
    const int32_t d = (int32_t)threadIdx.x;
    if (d >= HEAD)
        return;
    float most = NEGATIVE_INFINITY, total = 0, y = 0;
    for (int32_t w = 0; w < WARPS; w++)
        most = fmaxf(most, largest[w]);
    // Fours, then fours of these, then both halves: beside a warp that has nearly all the weight each other one may be below half a
    // unit in the last place, and all that was added one by one would be lost.
    for (int32_t half = 0; half < WARPS; half += WARPS / 2) {
        float half_total = 0, half_y = 0;
        for (int32_t four = half; four < half + WARPS / 2; four += 4) {
            float four_total = 0, four_y = 0;
            for (int32_t w = four; w < four + 4; w++) {
                const float factor = weight_of(largest[w], most);
                four_total = fmaf(factor, sum[w], four_total);
                four_y = fmaf(factor, acc[w][d], four_y);
            }
            half_total += four_total, half_y += four_y;
        }
        total += half_total, y += half_y;
    }
    const float by = row_end(&args, query.lengths, query.row, most, total, d == 0);
    set_element<WEFT_Y_DTYPE>(args.out, out_at(&args, query.lengths, query.row) + d, y * by);
#endif
}

extern "C" __global__ void __launch_bounds__(1024)
    weft_attention_standard(const __grid_constant__ struct weft__attention_device_args args)
{
    __shared__ float sums[OWN]; // of the warps
    const int32_t d = (int32_t)threadIdx.x, warp = d / WARP;
    const bool mine = HEAD % WARP == 0 || d < HEAD;
    struct query query;
    struct softmax state = {NEGATIVE_INFINITY, {}, 0};
    let_next_start();
    wait_for_previous();
    if (!query_of_block(&args, &query))
        return;
    const float q = mine ? query_number(&args, query_at(&args, query.lengths, query.row) + d) *
                               query_scale(&args, query.lengths, query.row)
                         : 0.0f;
    struct long_sum acc = {};
    for (int32_t key = query.keys.begin; key < query.keys.end; key++) {
        if (!sees(&args, &query, key))
            continue;
        float product = 0, value = 0, dot = 0, earlier;
        if (mine) {
            product =
                q * element<WEFT_KV_DTYPE>(args.k.data, at_key(&args, &args.k, &query, key) + d);
            value = element<WEFT_KV_DTYPE>(args.v.data, at_key(&args, &args.v, &query, key) + d);
        }
        product = warp_sum(product, 32);
        if (d % WARP == 0)
            sums[warp] = product;
        __syncthreads();
        for (int32_t w = 0; w < OWN; w++)
            dot += sums[w];
        __syncthreads();
        const float weight = softmax_take(&args, &state, &query, dot, key, &earlier);
        long_sum_add(&acc, earlier, weight, value);
        long_sum_join(&acc, state.count);
    }
    const float by =
        row_end(&args, query.lengths, query.row, state.largest, long_sum_end(&state.sum), d == 0);
    if (mine)
        set_element<WEFT_Y_DTYPE>(args.out, out_at(&args, query.lengths, query.row) + d,
                                  long_sum_end(&acc) * by);
}
