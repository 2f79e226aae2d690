// SPDX-License-Identifier: MIT
// Attention of a few queries per sequence over paged keys: the query heads of a KV head and the queries
// of a sequence are the 16 rows of a tensor-core product, keys and values are read once for all of them.
// attention_device.h says how the work is divided.
//
// Every warp streams tiles of WEFT_KEYS keys of its own through a ring in shared memory; warps meet only
// at the end of an item. A lane computes where one key (lanes 0..15) or value (16..31) of sixteen lies, the
// others get it by shuffle: any page size from 1 costs the same. Rows of shared memory are 16 bytes longer than
// head_dim, which makes ldmatrix free of bank conflicts for every head_dim.
//
// f32 queries and the weights of the values enter in two parts of the cache's type (WEFT_PARTS 2: 16
// bits for bf16, 22 for f16); queries of the cache's own type need one.
//
// Function constants: WEFT_HEAD_DIM (a multiple of 16 up to 256), WEFT_KV_DTYPE (2 f16, 3 bf16), WEFT_X_DTYPE and
// WEFT_Y_DTYPE (1 f32, 2 f16, 3 bf16) of q and out, WEFT_PARTS, WEFT_STAGES, WEFT_KEYS (16, 32), WEFT_PAGE (0 =
// run time).
#include "src/kernels/attention/attention_device.h"
#include "src/kernels/attention/attention_mask.cuh"
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/mma.cuh"
#include "src/kernels/cuda/warp.cuh"

enum {
    DIM = WEFT_HEAD_DIM,
    ROWS = WEFT__ATTENTION_ROWS,
    WARPS = 4,
    KEYS = WEFT_KEYS,
    CHUNKS = DIM / 8, // of 16 bytes in a row
    ROW_BYTES = DIM * 2 + 16,
    PLANE_BYTES = KEYS * ROW_BYTES,
    STAGE_BYTES = 2 * PLANE_BYTES, // keys, then values
    RING_BYTES = WARPS * WEFT_STAGES * STAGE_BYTES,
    QUERY_BYTES = WEFT_PARTS * ROWS * ROW_BYTES,
    STATE_FLOATS = DIM + 4, // acc, largest, sum; padded
};

// Shared memory: rings | queries | states [warp][row], of the rows that exist.
DEVICE uint8_t *shared_memory()
{
    extern __shared__ __align__(128) uint8_t bytes[];
    return bytes;
}

DEVICE float *shared_state(int32_t warp, int32_t row, int32_t rows)
{
    return (float *)(shared_memory() + RING_BYTES + QUERY_BYTES) +
           (warp * rows + row) * STATE_FLOATS;
}

// The tiles of a sequence: which keys they hold, how many items and tiles there are.
struct sequence {
    int32_t index, q_len, kv_len, first_token;
    int32_t begin, tiles; // of each item
    int32_t items;        // KV heads x tiles of rows
};

DEVICE struct sequence sequence_of(const struct weft__attention_device_args *args, int32_t index)
{
    struct sequence s;
    s.index = index;
    s.first_token = args->cu_q_lens[index];
    s.q_len = args->cu_q_lens[index + 1] - s.first_token;
    s.kv_len = args->kv_lens[index];
    int32_t first = keys_of(args, s.q_len, s.kv_len, 0).begin;
    int32_t end = keys_of(args, s.q_len, s.kv_len, s.q_len - 1).end;
    s.begin = first / KEYS * KEYS;
    s.tiles = end > s.begin ? (end - s.begin + KEYS - 1) / KEYS : 1;
    s.items = (s.q_len * args->group_size + ROWS - 1) / ROWS * args->num_kv_heads;
    return s;
}

DEVICE int64_t sequence_cost(const struct weft__attention_device_args *args, int32_t index)
{
    if (index >= args->num_seqs)
        return 0;
    struct sequence s = sequence_of(args, index);
    return (int64_t)s.tiles * s.items;
}

// A place in the list of all tiles.
struct place {
    struct sequence seq;
    int32_t item; // of the sequence
    int32_t tile; // of the item
    int32_t left; // tiles of the share from here on
};

// Goes `tiles` further; 0 <= tiles <= left, at most to the end of the item.
DEVICE void place_advance(const struct weft__attention_device_args *args, struct place *at,
                          int32_t tiles)
{
    at->tile += tiles, at->left -= tiles;
    if (at->tile < at->seq.tiles || at->left == 0)
        return;
    at->tile = 0;
    if (++at->item < at->seq.items)
        return;
    at->item = 0;
    do
        at->seq = sequence_of(args, at->seq.index + 1);
    while (at->seq.items == 0);
}

// The share of block `block` of `blocks`; `per` receives the tiles of a share.
DEVICE struct place share_of(const struct weft__attention_device_args *args, int32_t block,
                             int32_t blocks, int32_t lane, int64_t *per)
{
    int64_t total = 0;
    for (int32_t i = lane; i < args->num_seqs; i += WARP)
        total += sequence_cost(args, i);
    for (int32_t step = 16; step; step /= 2)
        total += __shfl_xor_sync(0xffffffffu, total, step);
    *per = (total + blocks - 1) / blocks;
    *per = *per < args->min_share ? args->min_share : *per;
    int64_t begin = block * *per, before = 0;
    struct place at;
    at.left = begin >= total ? 0 : (int32_t)(total - begin < *per ? total - begin : *per);
    if (at.left == 0)
        return at;
    for (int32_t i0 = 0;; i0 += WARP) {
        int64_t cost = sequence_cost(args, i0 + lane), sum = cost;
        for (int32_t step = 1; step < WARP; step *= 2) {
            int64_t other = __shfl_up_sync(0xffffffffu, sum, step);
            sum += lane >= step ? other : 0;
        }
        uint32_t behind = __ballot_sync(0xffffffffu, before + sum > begin);
        if (behind) {
            int32_t first = __ffs((int32_t)behind) - 1;
            int64_t skipped = begin - before - __shfl_sync(0xffffffffu, sum - cost, first);
            at.seq = sequence_of(args, i0 + first);
            at.item = (int32_t)(skipped / at.seq.tiles);
            at.tile = (int32_t)(skipped % at.seq.tiles);
            return at;
        }
        before += __shfl_sync(0xffffffffu, sum, WARP - 1);
    }
}

// --- the ring -------------------------------------------------------------------------------------

struct ring {
    struct place at; // the item that is asked for; at.left counts the block's tiles
    int32_t tile;    // the warp's next tile of it
    int32_t last;    // end of the block's tiles of the item
    int32_t slot, warp, lane;
};

DEVICE void ring_item(struct ring *ring)
{
    int32_t rest = ring->at.seq.tiles - ring->at.tile;
    ring->last = ring->at.tile + (rest < ring->at.left ? rest : ring->at.left);
    ring->tile = ring->at.tile + ring->warp;
}

// Asks for sixteen keys from `key` on, and their values.
DEVICE void sixteen_ask(const struct weft__attention_device_args *args, const struct ring *ring,
                        int32_t key, uint8_t *keys_at)
{
    const int32_t page_size = WEFT_PAGE ? WEFT_PAGE : args->page_size, lane = ring->lane;
    int32_t own = key + lane % 16, kv_head = ring->at.item % args->num_kv_heads;
    int64_t offset = 0;
    if (own < ring->at.seq.kv_len) {
        const struct weft__attention_plane *plane = lane < 16 ? &args->k : &args->v;
        int64_t page = pages_of(args, ring->at.seq.index)[own / page_size];
        offset = page * plane->page_stride + kv_head * plane->head_stride +
                 own % page_size * plane->token_stride;
    }
#pragma unroll
    for (int32_t plane = 0; plane < 2; plane++) {
        const uint16_t *data = (const uint16_t *)(plane ? args->v.data : args->k.data);
        uint32_t to = shared_address(keys_at + plane * PLANE_BYTES);
#pragma unroll
        for (int32_t i = 0; i < (16 * CHUNKS + WARP - 1) / WARP; i++) {
            int32_t piece = i * WARP + lane, row = piece / CHUNKS, chunk = piece % CHUNKS;
            int64_t from = __shfl_sync(0xffffffffu, offset, plane * 16 + (row & 15));
            if (16 * CHUNKS % WARP == 0 || row < 16)
                copy_16_async_or_zero(to + row * ROW_BYTES + chunk * 16, data + from + chunk * 8,
                                      key + row < ring->at.seq.kv_len ? 16 : 0);
        }
    }
}

// Asks for the warp's next tile; an empty request keeps the count of requests.
DEVICE void ring_ask(const struct weft__attention_device_args *args, struct ring *ring)
{
    while (ring->at.left > 0 && ring->tile >= ring->last) {
        place_advance(args, &ring->at, ring->last - ring->at.tile);
        if (ring->at.left > 0)
            ring_item(ring);
    }
    if (ring->at.left > 0) {
        uint8_t *slot = shared_memory() + (ring->warp * WEFT_STAGES + ring->slot) * STAGE_BYTES;
#pragma unroll
        for (int32_t i = 0; i < KEYS; i += 16)
            sixteen_ask(args, ring, ring->at.seq.begin + ring->tile * KEYS + i,
                        slot + i * ROW_BYTES);
        ring->tile += WARPS;
    }
    copy_group_end();
    ring->slot = ring->slot + 1 == WEFT_STAGES ? 0 : ring->slot + 1;
}

// --- queries --------------------------------------------------------------------------------------

DEVICE uint32_t two_narrow(float a, float b)
{
    return WEFT_KV_DTYPE == 2 ? floats_f16x2(a, b) : floats_bf16x2(a, b);
}

DEVICE float2 two_wide(uint32_t pair)
{
    return WEFT_KV_DTYPE == 2 ? f16x2_float2(pair) : bf16x2_float2(pair);
}

DEVICE float2 load_two(const void *q, int64_t index)
{
    if (WEFT_X_DTYPE == 1)
        return make_float2(((const float *)q)[index], ((const float *)q)[index + 1]);
    uint32_t pair = *(const uint32_t *)((const uint16_t *)q + index);
    return WEFT_X_DTYPE == 2 ? f16x2_float2(pair) : bf16x2_float2(pair);
}

// The rows of an item: query row R of the sequence is token R / group, head R % group of the KV head.
struct rows {
    int32_t first, count; // R of row 0; rows that exist, up to 16
    int32_t kv_head;
};

DEVICE struct rows rows_of(const struct weft__attention_device_args *args, const struct place *at)
{
    struct rows rows;
    rows.kv_head = at->item % args->num_kv_heads;
    rows.first = at->item / args->num_kv_heads * ROWS;
    int32_t rest = at->seq.q_len * args->group_size - rows.first;
    rows.count = rest < ROWS ? rest : ROWS;
    return rows;
}

DEVICE void queries_load(const struct weft__attention_device_args *args, const struct sequence *seq,
                         struct rows rows)
{
    uint8_t *to = shared_memory() + RING_BYTES;
    for (int32_t i = (int32_t)threadIdx.x; i < ROWS * DIM / 2; i += WARPS * WARP) {
        int32_t row = i / (DIM / 2), pair = i % (DIM / 2), at = rows.first + row;
        float2 x = make_float2(0, 0);
        if (row < rows.count)
            x = load_two(args->q,
                         (seq->first_token + at / args->group_size) * args->q_token_stride +
                             (rows.kv_head * args->group_size + at % args->group_size) *
                                 args->q_head_stride +
                             2 * pair);
        uint32_t high = two_narrow(x.x, x.y);
        *(uint32_t *)(to + row * ROW_BYTES + pair * 4) = high;
        if (WEFT_PARTS == 2) {
            float2 kept = two_wide(high);
            *(uint32_t *)(to + (ROWS + row) * ROW_BYTES + pair * 4) =
                two_narrow(x.x - kept.x, x.y - kept.y);
        }
    }
}

// --- a tile ---------------------------------------------------------------------------------------

// What a lane holds of its warp's rows r and r + 8.
struct state {
    float acc[DIM / 8][4];
    float largest[2], sum[2]; // sum: of this lane's keys
    struct keys seen[2];
};

DEVICE void mma_narrow(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    if (WEFT_KV_DTYPE == 2)
        mma_f16(d, a, b0, b1);
    else
        mma_bf16(d, a, b0, b1);
}

// score[t]: rows by keys 8 t.. of the tile.
DEVICE void tile_scores(const uint8_t *slot, int32_t lane, float score[KEYS / 8][4])
{
    uint32_t q_row =
        shared_address(shared_memory() + RING_BYTES) + (lane % 16) * ROW_BYTES + lane / 16 * 16;
    uint32_t k_row =
        shared_address(slot) + (lane / 16 * 8 + lane % 8) * ROW_BYTES + lane / 8 % 2 * 16;
#pragma unroll
    for (int32_t i = 0; i < DIM; i += 16) {
        uint32_t q[WEFT_PARTS][4];
#pragma unroll
        for (int32_t part = 0; part < WEFT_PARTS; part++)
            load_matrix_4(q[part], q_row + part * ROWS * ROW_BYTES + i * 2);
#pragma unroll
        for (int32_t t = 0; t < KEYS / 8; t += 2) {
            uint32_t k[4];
            load_matrix_4(k, k_row + t * 8 * ROW_BYTES + i * 2);
#pragma unroll
            for (int32_t part = 0; part < WEFT_PARTS; part++) {
                mma_narrow(score[t], q[part], k[0], k[1]);
                mma_narrow(score[t + 1], q[part], k[2], k[3]);
            }
        }
    }
}

// Scores become weights exp2(score - largest); acc and sum follow a new largest.
DEVICE void tile_weights(const struct weft__attention_device_args *args, int32_t key0, int32_t lane,
                         struct state *state, float score[KEYS / 8][4])
{
    float largest[2] = {state->largest[0], state->largest[1]};
#pragma unroll
    for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
        for (int32_t i = 0; i < 4; i++) {
            int32_t key = key0 + 8 * t + 2 * (lane % 4) + i % 2;
            struct keys seen = state->seen[i / 2];
            float s = score_log2(score[t][i], args->scale, args->softcap);
            s = key >= seen.begin && key < seen.end ? s : NEGATIVE_INFINITY;
            score[t][i] = s;
            largest[i / 2] = fmaxf(largest[i / 2], s);
        }
#pragma unroll
    for (int32_t i = 0; i < 2; i++)
        largest[i] = warp_max(largest[i], 4);
    if (__any_sync(0xffffffffu,
                   largest[0] != state->largest[0] || largest[1] != state->largest[1])) {
        float factor[2] = {weight_of(state->largest[0], largest[0]),
                           weight_of(state->largest[1], largest[1])};
#pragma unroll
        for (int32_t t = 0; t < DIM / 8; t++)
#pragma unroll
            for (int32_t i = 0; i < 4; i++)
                state->acc[t][i] *= factor[i / 2];
#pragma unroll
        for (int32_t i = 0; i < 2; i++)
            state->sum[i] *= factor[i], state->largest[i] = largest[i];
    }
#pragma unroll
    for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
        for (int32_t i = 0; i < 4; i++) {
            score[t][i] = weight_of(score[t][i], largest[i / 2]);
            state->sum[i / 2] += score[t][i];
        }
}

DEVICE void tile_values(const uint8_t *slot, int32_t lane, const float weight[KEYS / 8][4],
                        struct state *state)
{
    uint32_t v_row = shared_address(slot + PLANE_BYTES) + (lane % 16) * ROW_BYTES + lane / 16 * 16;
#pragma unroll
    for (int32_t t = 0; t < KEYS / 8; t += 2) {
        uint32_t p[WEFT_PARTS][4];
#pragma unroll
        for (int32_t i = 0; i < 4; i++) {
            const float *w = &weight[t + i / 2][i % 2 * 2];
            p[0][i] = two_narrow(w[0], w[1]);
            float2 kept = two_wide(p[0][i]);
            if (WEFT_PARTS == 2)
                p[WEFT_PARTS - 1][i] = two_narrow(w[0] - kept.x, w[1] - kept.y);
        }
#pragma unroll
        for (int32_t i = 0; i < DIM / 8; i += 2) {
            uint32_t v[4];
            load_matrix_4_transposed(v, v_row + t * 8 * ROW_BYTES + i * 16);
#pragma unroll
            for (int32_t part = 0; part < WEFT_PARTS; part++) {
                mma_narrow(state->acc[i], p[part], v[0], v[1]);
                mma_narrow(state->acc[i + 1], p[part], v[2], v[3]);
            }
        }
    }
}

// --- the end of an item ---------------------------------------------------------------------------

DEVICE void state_begin(const struct weft__attention_device_args *args, const struct sequence *seq,
                        struct rows rows, int32_t lane, struct state *state)
{
#pragma unroll
    for (int32_t t = 0; t < DIM / 8; t++)
#pragma unroll
        for (int32_t i = 0; i < 4; i++)
            state->acc[t][i] = 0;
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        int32_t row = lane / 4 + 8 * i;
        state->largest[i] = NEGATIVE_INFINITY, state->sum[i] = 0;
        state->seen[i] =
            keys_of(args, seq->q_len, seq->kv_len, (rows.first + row) / args->group_size);
        if (row >= rows.count)
            state->seen[i].end = state->seen[i].begin = 0;
    }
}

DEVICE void state_store(const struct state *state, int32_t warp, int32_t lane, int32_t rows)
{
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        int32_t row = lane / 4 + 8 * i;
        float sum = warp_sum(state->sum[i], 4);
        if (row >= rows)
            continue;
        float *to = shared_state(warp, row, rows);
#pragma unroll
        for (int32_t t = 0; t < DIM / 8; t++)
            *(float2 *)(to + 8 * t + 2 * (lane % 4)) =
                make_float2(state->acc[t][2 * i], state->acc[t][2 * i + 1]);
        if (lane % 4 == 0)
            to[DIM] = state->largest[i], to[DIM + 1] = sum;
    }
}

DEVICE void store_out(const struct weft__attention_device_args *args, const struct sequence *seq,
                      struct rows rows, int32_t row, int32_t d, float value)
{
    int32_t at = rows.first + row;
    int64_t index =
        (seq->first_token + at / args->group_size) * args->out_token_stride +
        (rows.kv_head * args->group_size + at % args->group_size) * args->out_head_stride + d;
    set_element<WEFT_Y_DTYPE>(args->out, index, value);
}

DEVICE void store_lse(const struct weft__attention_device_args *args, const struct sequence *seq,
                      struct rows rows, int32_t row, float largest, float sum)
{
    int32_t at = rows.first + row;
    if (args->lse)
        args->lse[(int64_t)(seq->first_token + at / args->group_size) * args->num_q_heads +
                  rows.kv_head * args->group_size + at % args->group_size] =
            sum > 0 ? (largest + log2f(sum)) * LN_2 : NEGATIVE_INFINITY;
}

// A warp per row: the warps' states become the result, or the state of a slot.
DEVICE void item_finish(const struct weft__attention_device_args *args, const struct sequence *seq,
                        struct rows rows, int32_t warp, int32_t lane, float *slot)
{
    for (int32_t row = warp; row < rows.count; row += WARPS) {
        float largest = NEGATIVE_INFINITY, sum = 0, factor[WARPS];
#pragma unroll
        for (int32_t w = 0; w < WARPS; w++)
            largest = fmaxf(largest, shared_state(w, row, rows.count)[DIM]);
#pragma unroll
        for (int32_t w = 0; w < WARPS; w++) {
            factor[w] = weight_of(shared_state(w, row, rows.count)[DIM], largest);
            sum += factor[w] * shared_state(w, row, rows.count)[DIM + 1];
        }
        float inverse = sum > 0 ? 1.0f / sum : 0.0f;
        for (int32_t d = lane; d < DIM; d += WARP) {
            float value = 0;
#pragma unroll
            for (int32_t w = 0; w < WARPS; w++)
                value += factor[w] * shared_state(w, row, rows.count)[d];
            if (slot)
                slot[row * DIM + d] = value;
            else
                store_out(args, seq, rows, row, d, value * inverse);
        }
        if (lane == 0 && slot)
            slot[ROWS * DIM + row] = largest, slot[ROWS * (DIM + 1) + row] = sum;
        else if (lane == 0)
            store_lse(args, seq, rows, row, largest, sum);
    }
}

DEVICE float *slot_at(const struct weft__attention_device_args *args, int64_t index)
{
    return args->slots + index * (ROWS * (DIM + 2));
}

// Merges the states that the blocks first..last left of an item: in the order of the blocks.
DEVICE void item_merge(const struct weft__attention_device_args *args, const struct sequence *seq,
                       struct rows rows, int32_t warp, int32_t lane, int64_t first, int64_t last)
{
    for (int32_t row = warp; row < rows.count; row += WARPS) {
        float largest = NEGATIVE_INFINITY, sum = 0, acc[(DIM + WARP - 1) / WARP] = {0};
        for (int64_t i = first + lane; i <= last; i += WARP)
            largest =
                fmaxf(largest, __ldcg(slot_at(args, 2 * i + (i == first)) + ROWS * DIM + row));
        largest = warp_max(largest, 32);
        for (int64_t i0 = first; i0 <= last; i0 += WARP) {
            float factor = 0;
            if (i0 + lane <= last) {
                const float *slot =
                    slot_at(args, 2 * (i0 + lane) + (i0 + lane == first)) + ROWS * DIM + row;
                factor = weight_of(__ldcg(slot), largest);
                sum += factor * __ldcg(slot + ROWS);
            }
            int32_t count = last - i0 + 1 < WARP ? (int32_t)(last - i0 + 1) : WARP;
#pragma unroll 8
            for (int32_t j = 0; j < count; j++) {
                const float *from = slot_at(args, 2 * (i0 + j) + (i0 + j == first)) + row * DIM;
                float by = __shfl_sync(0xffffffffu, factor, j);
#pragma unroll
                for (int32_t k = 0; k < (DIM + WARP - 1) / WARP; k++)
                    if (DIM % WARP == 0 || k * WARP + lane < DIM)
                        acc[k] = fmaf(by, __ldcg(from + k * WARP + lane), acc[k]);
            }
        }
        sum = warp_sum(sum, 32);
        float inverse = sum > 0 ? 1.0f / sum : 0.0f;
#pragma unroll
        for (int32_t k = 0; k < (DIM + WARP - 1) / WARP; k++)
            if (DIM % WARP == 0 || k * WARP + lane < DIM)
                store_out(args, seq, rows, row, k * WARP + lane, acc[k] * inverse);
        if (lane == 0)
            store_lse(args, seq, rows, row, largest, sum);
    }
}

// True for the block that leaves the last state of an item.
DEVICE bool item_last(uint32_t *counter, uint32_t parts)
{
    __shared__ uint32_t ticket;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        ticket = atomicAdd(counter, 1u);
        if (ticket + 1 == parts)
            *counter = 0;
    }
    __syncthreads();
    bool last = ticket + 1 == parts;
    if (last)
        __threadfence();
    return last;
}

extern "C" __global__ void __launch_bounds__(128, 2)
    weft_attention_decode(const __grid_constant__ struct weft__attention_device_args args)
{
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
    let_next_start();
    wait_for_previous();
    int64_t per;
    struct ring ring = {
        share_of(&args, (int32_t)blockIdx.x, (int32_t)gridDim.x, lane, &per), 0, 0, 0, warp, lane};
    struct place at = ring.at;
    const int64_t end = blockIdx.x * per + at.left; // of the share
    if (at.left == 0)
        return;
    ring_item(&ring);
    for (int32_t i = 0; i < WEFT_STAGES; i++)
        ring_ask(&args, &ring);
    int32_t slot = 0;
    while (at.left > 0) {
        struct rows rows = rows_of(&args, &at);
        int32_t rest = at.seq.tiles - at.tile, count = rest < at.left ? rest : at.left;
        struct state state;
        queries_load(&args, &at.seq, rows);
        state_begin(&args, &at.seq, rows, lane, &state);
        __syncthreads();
        for (int32_t tile = at.tile + warp; tile < at.tile + count; tile += WARPS) {
            const uint8_t *from = shared_memory() + (warp * WEFT_STAGES + slot) * STAGE_BYTES;
            float score[KEYS / 8][4] = {{0}};
            COPY_WAIT(WEFT_STAGES - 1);
            __syncwarp();
            tile_scores(from, lane, score);
            tile_weights(&args, at.seq.begin + tile * KEYS, lane, &state, score);
            tile_values(from, lane, score, &state);
            __syncwarp();
            ring_ask(&args, &ring);
            slot = slot + 1 == WEFT_STAGES ? 0 : slot + 1;
        }
        state_store(&state, warp, lane, rows.count);
        __syncthreads();
        if (count == at.seq.tiles) {
            item_finish(&args, &at.seq, rows, warp, lane, 0);
        } else {
            int64_t begin = end - at.left - at.tile; // of the item, in the list of all tiles
            int64_t first = begin / per, last = (begin + at.seq.tiles - 1) / per;
            item_finish(&args, &at.seq, rows, warp, lane,
                        slot_at(&args, 2 * (int64_t)blockIdx.x + (at.tile == 0)));
            // counted by the block in which the item begins: no other begins there and goes on
            if (item_last(args.counters + first, (uint32_t)(last - first + 1)))
                item_merge(&args, &at.seq, rows, warp, lane, first, last);
        }
        place_advance(&args, &at, count);
        __syncthreads();
    }
}
