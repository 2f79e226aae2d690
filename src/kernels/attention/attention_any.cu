// SPDX-License-Identifier: MIT
// Attention over caches of any format, layout and dims, with every mask, mask values and fp8 queries: whatever
// the CPU takes, in plain f32 arithmetic. The keys, then the values, of a tile are decoded to shared memory with the
// decoders of src/formats/ themselves, once for all rows of an item; a thread has a score, then columns of the result.
// Tiles that no row sees are not read. Work is divided as in decode (attention_device.h), with slots of v_dim.
//
// Function constants: WEFT_HEAD_DIM, WEFT_V_DIM, WEFT_ROWS, WEFT_KEYS (up to 32), WEFT_K_FORMAT, WEFT_K_ELEMS,
// WEFT_K_BYTES (of a format block), WEFT_K_INNER, the same of V, WEFT_X_DTYPE and WEFT_Y_DTYPE of q and out, and those
// of attention_mask.cuh.
#define WEFT_PRECISE 1
#define _Static_assert static_assert
#include "src/formats/formats.h"
#include "src/formats/iq_grids.c"

enum {
    THREADS = 128,
    ROWS = WEFT_ROWS,
    KEYS = WEFT_KEYS,
    Q_STRIDE = WEFT_HEAD_DIM + 1, // floats; neighbours fall into different banks
    TILE_STRIDE = (WEFT_HEAD_DIM > WEFT_V_DIM ? WEFT_HEAD_DIM : WEFT_V_DIM) + 1,
    COLUMNS = (WEFT_V_DIM + THREADS - 1) / THREADS, // of a thread
};

#include "src/kernels/attention/attention_items.cuh"

// What a block works at.
struct work {
    struct place at;
    struct rows rows;
    float largest[ROWS], sum[ROWS], factor[ROWS];
    uint32_t counts[ROWS];    // keys of the tile that have a weight
    uint32_t seen[ROWS];      // and that the mask shows: the same without mask values
    float weight[ROWS][KEYS]; // below 0: the row does not see the key
    int32_t page[KEYS];       // of the tile's keys
};

// Shared memory: queries [row][Q_STRIDE] | tile [key][TILE_STRIDE].
DEVICE float *shared_queries()
{
    extern __shared__ __align__(16) float floats[];
    return floats;
}

DEVICE float *shared_tile()
{
    return shared_queries() + ROWS * Q_STRIDE;
}

template <int FORMAT> DEVICE void decode(const void *block, float *y)
{
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    if constexpr (FORMAT == value)                                                                 \
        weft__decode_##ID(block, y);
#include <weft/formats.def>
#undef WEFT_FORMAT
}

// The keys or values of a tile as numbers; what no row sees is left as it is.
template <int FORMAT, int ELEMS, int BYTES, int DIM, int INNER>
DEVICE void tile_decode(const struct weft__attention_device_args *args,
                        const struct weft__attention_device_plane *plane,
                        const struct weft__attention_device_scales *scales, int64_t inner_stride,
                        const struct work *work, int32_t key0)
{
    const struct sequence *seq = &work->at.seq;
    for (int32_t i = (int32_t)threadIdx.x; i < KEYS * (DIM / ELEMS); i += THREADS) {
        const int32_t j = i / (DIM / ELEMS), d = i % (DIM / ELEMS) * ELEMS, key = key0 + j;
        if (key < seq->first_key || key >= seq->end_key)
            continue;
        const int64_t page = work->page[j], slot = place_of(args, key) % WEFT_PAGE;
        const int64_t at = page * plane->page_stride + work->at.kv_head * plane->head_stride +
                           slot * plane->token_stride + d / INNER * inner_stride + d % INNER;
        float y[ELEMS];
        decode<FORMAT>((const char *)plane->data + at / ELEMS * BYTES, y);
        const float scale = scales->of
                                ? scales->of[scale_at(scales, seq->lengths.seq, (int32_t)page,
                                                      work->at.kv_head, (int32_t)slot)]
                                : 1.0f;
        for (int32_t e = 0; e < ELEMS; e++)
            shared_tile()[j * TILE_STRIDE + d + e] = scales->of ? y[e] * scale : y[e];
    }
}

DEVICE void item_load(const struct weft__attention_device_args *args, struct work *work)
{
    const struct rows rows = rows_of(args, &work->at);
    const struct lengths lengths = work->at.seq.lengths;
    for (int32_t i = (int32_t)threadIdx.x; i < ROWS * WEFT_HEAD_DIM; i += THREADS) {
        const int32_t row = i / WEFT_HEAD_DIM, d = i % WEFT_HEAD_DIM;
        const struct row own = row_at(args, rows, row);
        shared_queries()[row * Q_STRIDE + d] =
            row < rows.count ? query_number(args, query_at(args, lengths, own) + d) *
                                   query_scale(args, lengths, own)
                             : 0.0f;
    }
    if (threadIdx.x == 0)
        work->rows = rows;
    if (threadIdx.x < ROWS)
        work->largest[threadIdx.x] = NEGATIVE_INFINITY, work->sum[threadIdx.x] = 0;
}

// What the rows see of a tile, and where its keys lie. Is there anything to see?
DEVICE bool tile_look(const struct weft__attention_device_args *args, struct work *work,
                      int32_t key0)
{
    const struct sequence *seq = &work->at.seq;
    const int32_t row = (int32_t)threadIdx.x, j = (int32_t)threadIdx.x - 64, key = key0 + j;
    uint32_t counts = 0, seen = 0;
    if (row < work->rows.count) {
        const struct row own = row_at(args, work->rows, row);
        const struct keys keys = keys_of(args, seq->lengths, own.token);
        seen = (uint32_t)seen_word(args, seq->lengths, own.token, own.head, key0);
        counts = WEFT_SOFT ? (uint32_t)interval_word(keys.begin, keys.end, key0) : seen;
    }
    if (row < ROWS)
        work->counts[row] = counts, work->seen[row] = seen;
    if (j >= 0 && j < KEYS && key >= seq->first_key && key < seq->end_key)
        work->page[j] = pages_of(args, seq->lengths.seq)[place_of(args, key) / WEFT_PAGE];
    return __syncthreads_or(counts != 0);
}

DEVICE void tile_scores(const struct weft__attention_device_args *args, struct work *work,
                        int32_t key0)
{
    for (int32_t i = (int32_t)threadIdx.x; i < ROWS * KEYS; i += THREADS) {
        const int32_t at = i / KEYS, j = i % KEYS;
        if (!(work->counts[at] >> j & 1))
            continue;
        const struct lengths lengths = work->at.seq.lengths;
        const struct row row = row_at(args, work->rows, at);
        const float *q = shared_queries() + at * Q_STRIDE, *k = shared_tile() + j * TILE_STRIDE;
        float dot = 0;
        for (int32_t d = 0; d < WEFT_HEAD_DIM; d++)
            dot = fmaf(q[d], k[d], dot);
        float score = score_log2(args, dot, slope_of(args, row.head),
                                 lengths.kv_len - lengths.q_len + row.token - key0 - j);
#if WEFT_SOFT
        if (!(work->seen[at] >> j & 1))
            score = score_lowered(args, score);
#endif
        work->weight[at][j] = score;
    }
}

// Scores become weights, a warp per row.
DEVICE void tile_weights(struct work *work)
{
    const int32_t lane = (int32_t)threadIdx.x % WARP;
    for (int32_t row = (int32_t)threadIdx.x / WARP; row < ROWS; row += THREADS / WARP) {
        const bool seen = lane < KEYS && (work->counts[row] >> lane & 1);
        const float score = seen ? work->weight[row][lane % KEYS] : NEGATIVE_INFINITY;
        const float before = work->largest[row], largest = fmaxf(before, warp_max(score, 32));
        const float factor = largest == NEGATIVE_INFINITY ? 0.0f : exp2_of(before - largest);
        const float weight =
            seen ? exp2_of(score - (largest == NEGATIVE_INFINITY ? 0 : largest)) : 0;
        const float sum = work->sum[row] * factor + warp_sum(weight, 32);
        __syncwarp();
        if (lane < KEYS)
            work->weight[row][lane] = seen ? weight : -1.0f;
        if (lane == 0)
            work->largest[row] = largest, work->sum[row] = sum, work->factor[row] = factor;
    }
}

DEVICE void tile_values(const struct work *work, float acc[COLUMNS][ROWS])
{
#pragma unroll
    for (int32_t c = 0; c < COLUMNS; c++) {
        const int32_t d = c * THREADS + (int32_t)threadIdx.x;
        if (d >= WEFT_V_DIM)
            continue;
#pragma unroll
        for (int32_t row = 0; row < ROWS; row++)
            acc[c][row] *= work->factor[row];
        for (int32_t j = 0; j < KEYS; j++) {
            const float v = shared_tile()[j * TILE_STRIDE + d];
#pragma unroll
            for (int32_t row = 0; row < ROWS; row++) {
                const float weight = work->weight[row][j];
                acc[c][row] = weight < 0 ? acc[c][row] : fmaf(weight, v, acc[c][row]);
            }
        }
    }
}

// The rows' results from sums and states in shared memory.
DEVICE void rows_finish(const struct weft__attention_device_args *args, struct work *work,
                        const float acc[COLUMNS][ROWS])
{
    const struct lengths lengths = work->at.seq.lengths;
    const int32_t own = (int32_t)threadIdx.x;
    if (own < work->rows.count)
        work->factor[own] = row_end(args, lengths, row_at(args, work->rows, own),
                                    work->largest[own], work->sum[own], true);
    __syncthreads();
#pragma unroll
    for (int32_t row = 0; row < ROWS; row++)
#pragma unroll
        for (int32_t c = 0; c < COLUMNS; c++) {
            const int32_t d = c * THREADS + own;
            if (row < work->rows.count && d < WEFT_V_DIM)
                set_element<WEFT_Y_DTYPE>(
                    args->out, out_at(args, lengths, row_at(args, work->rows, row)) + d,
                    work->sum[row] == 0 ? 0.0f : acc[c][row] * work->factor[row]);
        }
}

// --- items in several blocks ----------------------------------------------------------------------

DEVICE float *slot_at(const struct weft__attention_device_args *args, int32_t index)
{
    return args->slots + (int64_t)index * (ROWS * (WEFT_V_DIM + 2));
}

DEVICE void slot_store(const struct work *work, const float acc[COLUMNS][ROWS], float *slot)
{
#pragma unroll
    for (int32_t c = 0; c < COLUMNS; c++) {
        const int32_t d = c * THREADS + (int32_t)threadIdx.x;
#pragma unroll
        for (int32_t row = 0; row < ROWS; row++)
            if (d < WEFT_V_DIM && row < work->rows.count)
                slot[row * WEFT_V_DIM + d] = acc[c][row];
    }
    if (threadIdx.x < ROWS) {
        slot[ROWS * WEFT_V_DIM + threadIdx.x] = work->largest[threadIdx.x];
        slot[ROWS * (WEFT_V_DIM + 1) + threadIdx.x] = work->sum[threadIdx.x];
    }
}

// The states that the blocks of an item left, in the order of the blocks.
DEVICE void item_merge(const struct weft__attention_device_args *args, struct work *work,
                       float acc[COLUMNS][ROWS], struct holders by)
{
#pragma unroll
    for (int32_t row = 0; row < ROWS; row++) {
        float largest = NEGATIVE_INFINITY, sum = 0;
        for (int32_t i = by.first; i <= by.last; i++)
            largest = fmaxf(largest,
                            __ldcg(slot_at(args, slot_of(args, by, i)) + ROWS * WEFT_V_DIM + row));
#pragma unroll
        for (int32_t c = 0; c < COLUMNS; c++)
            acc[c][row] = 0;
        for (int32_t i = by.first; i <= by.last && row < work->rows.count; i++) {
            const float *slot = slot_at(args, slot_of(args, by, i));
            const float factor = weight_of(__ldcg(slot + ROWS * WEFT_V_DIM + row), largest);
            const float part = __ldcg(slot + ROWS * (WEFT_V_DIM + 1) + row);
            if (part == 0)
                continue;
            sum += factor * part;
#pragma unroll
            for (int32_t c = 0; c < COLUMNS; c++) {
                const int32_t d = c * THREADS + (int32_t)threadIdx.x;
                if (d < WEFT_V_DIM)
                    acc[c][row] = fmaf(factor, __ldcg(slot + row * WEFT_V_DIM + d), acc[c][row]);
            }
        }
        if (threadIdx.x == 0)
            work->largest[row] = largest, work->sum[row] = sum;
    }
    __syncthreads();
    rows_finish(args, work, acc);
}

DEVICE void item_tiles(const struct weft__attention_any_args *all, struct work *work, int32_t count,
                       float acc[COLUMNS][ROWS])
{
    const struct weft__attention_device_args *args = &all->base;
    for (int32_t tile = work->at.tile; tile < work->at.tile + count; tile++) {
        const int32_t key0 = work->at.seq.begin + tile * KEYS;
        __syncthreads();
        if (!tile_look(args, work, key0))
            continue;
        tile_decode<WEFT_K_FORMAT, WEFT_K_ELEMS, WEFT_K_BYTES, WEFT_HEAD_DIM, WEFT_K_INNER>(
            args, &args->k, &args->k_scales, all->k_inner_stride, work, key0);
        __syncthreads();
        tile_scores(args, work, key0);
        __syncthreads();
        tile_decode<WEFT_V_FORMAT, WEFT_V_ELEMS, WEFT_V_BYTES, WEFT_V_DIM, WEFT_V_INNER>(
            args, &args->v, &args->v_scales, all->v_inner_stride, work, key0);
        tile_weights(work);
        __syncthreads();
        tile_values(work, acc);
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(128, 1)
    weft_attention_any(const __grid_constant__ struct weft__attention_any_args all)
{
    __shared__ struct work work;
    const struct weft__attention_device_args *args = &all.base;
    let_next_start();
    wait_for_previous();
    struct share share;
    struct place at = place_begin(args, (int32_t)threadIdx.x % WARP, &share);
    if (at.left == 0)
        return;
    if (threadIdx.x == 0)
        work.at = at;
    __syncthreads();
    while (work.at.left > 0) {
        const int32_t count = place_tiles(&work.at);
        float acc[COLUMNS][ROWS] = {};
        item_load(args, &work);
        item_tiles(&all, &work, count, acc);
        if (count == work.at.seq.tiles) {
            rows_finish(args, &work, acc);
        } else {
            const struct holders by = holders_of(args, &work.at, share);
            slot_store(&work, acc, slot_at(args, slot_of(args, by, number_of_block(args))));
            if (item_last(counter_of(args, by), (uint32_t)(by.last - by.first + 1)))
                item_merge(args, &work, acc, by);
        }
        __syncthreads();
        if (threadIdx.x == 0)
            place_advance(args, &work.at, count);
        __syncthreads();
    }
}
