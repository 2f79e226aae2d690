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
// Queries and the weights of the values enter in parts of the cache's type: f32 in three of bf16 (24 bits)
// or two of f16 (22 bits, rows divided by a power of two that makes them fit), queries of the cache's own
// type in one.
//
// Function constants: WEFT_HEAD_DIM (a multiple of 8 up to 256), WEFT_KV_DTYPE (2 f16, 3 bf16), WEFT_X_DTYPE and
// WEFT_Y_DTYPE (1 f32, 2 f16, 3 bf16) of q and out, WEFT_PARTS, WEFT_STAGES, WEFT_KEYS (16, 32), WEFT_PAGE
// (page_size), WEFT_SOFTCAP (0, 1), WEFT_ALIGNED (rows of the cache begin at multiples of 16 bytes).
#include "src/kernels/attention/attention_mask.cuh"
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/mma.cuh"
#include "src/kernels/cuda/warp.cuh"

enum {
    HEAD = WEFT_HEAD_DIM,
    DIM = (HEAD + 15) / 16 * 16, // as tensor cores take it; the rest is zeros
    ROWS = WEFT__ATTENTION_ROWS,
    WARPS = 4,
    KEYS = WEFT_KEYS,
    PAGE = WEFT_PAGE,
    CHUNKS = HEAD / 8, // of 16 bytes in a row
    ROW_BYTES = DIM * 2 + 16,
    PLANE_BYTES = KEYS * ROW_BYTES,
    STAGE_BYTES = 2 * PLANE_BYTES, // keys, then values
    RING_BYTES = WARPS * WEFT_STAGES * STAGE_BYTES,
    PART_BYTES = ROWS * ROW_BYTES,
    QUERY_BYTES = WEFT_PARTS * PART_BYTES + 4 * ROWS,  // and a factor a row
    FACTORS = WEFT_KV_DTYPE == 2 && WEFT_X_DTYPE != 2, // f32 does not fit f16
    STATE_FLOATS = DIM + 4,                            // acc, largest, sum; padded
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

#include "src/kernels/attention/attention_divide.cuh"

// --- the ring -------------------------------------------------------------------------------------

struct ring {
    struct place *at; // the item that is asked for, in shared memory; left counts the block's tiles
    int32_t tile;     // the warp's next tile of it
    int32_t last;     // end of the block's tiles of the item
    int32_t slot, warp, lane;
    const int32_t *pages;    // of the sequence
    int32_t page[KEYS / 16]; // that the lane's keys of the next tile lie in, asked for a tile ahead
};

// The lane's key of sixteen i of a tile.
DEVICE int32_t ring_key(const struct ring *ring, int32_t tile, int32_t i)
{
    return ring->at->seq.begin + tile * KEYS + 16 * i + ring->lane % 16;
}

DEVICE bool ring_sees(const struct ring *ring, int32_t key)
{
    return key >= ring->at->seq.first_key && key < ring->at->seq.end_key;
}

DEVICE void ring_pages(struct ring *ring)
{
#pragma unroll
    for (int32_t i = 0; i < KEYS / 16; i++) {
        int32_t key = ring_key(ring, ring->tile, i);
        ring->page[i] =
            ring->tile < ring->last && ring_sees(ring, key) ? ring->pages[key / PAGE] : 0;
    }
}

DEVICE void ring_item(const struct weft__attention_device_args *args, struct ring *ring)
{
    ring->last = ring->at->tile + place_tiles(ring->at);
    ring->tile = ring->at->tile + ring->warp;
    ring->pages = pages_of(args, ring->at->seq.index);
    ring_pages(ring);
}

// 16 bytes to shared memory, zeros if there is nothing to see; caches whose rows do not begin at multiples of
// 16 bytes are copied element by element.
DEVICE void copy_chunk(uint32_t to, const uint16_t *from, bool seen)
{
#if WEFT_ALIGNED
    copy_16_async_or_zero(to, from, seen ? 16 : 0);
#else
    uint32_t pair[4] = {0, 0, 0, 0};
    for (int32_t i = 0; i < 4 && seen; i++)
        pair[i] = from[2 * i] | (uint32_t)from[2 * i + 1] << 16;
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(pair[0]), "r"(pair[1]),
                 "r"(pair[2]), "r"(pair[3])
                 : "memory");
#endif
}

// The columns from HEAD to DIM of the warp's ring.
DEVICE void ring_clear_padding(int32_t warp, int32_t lane)
{
    uint8_t *ring = shared_memory() + warp * WEFT_STAGES * STAGE_BYTES;
    for (int32_t row = lane; DIM != HEAD && row < WEFT_STAGES * 2 * KEYS; row += WARP)
        *(uint4 *)(ring + row * ROW_BYTES + CHUNKS * 16) = make_uint4(0, 0, 0, 0);
}

// Asks for sixteen keys and their values: lanes 0..15 know where a key lies, 16..31 where a value.
DEVICE void sixteen_ask(const struct weft__attention_device_args *args, const struct ring *ring,
                        int32_t i, uint8_t *to_keys)
{
    const struct weft__attention_device_plane *plane = ring->lane < 16 ? &args->k : &args->v;
    int32_t key = ring_key(ring, ring->tile, i);
    const bool seen = ring_sees(ring, key);
    const uint16_t *row = (const uint16_t *)plane->data + ring->at->kv_head * plane->head_stride;
    if (seen)
        row += ring->page[i] * plane->page_stride + key % PAGE * plane->token_stride;
    const uint32_t all = __ballot_sync(0xffffffffu, seen);
#pragma unroll
    for (int32_t p = 0; p < 2; p++) {
        uint32_t to = shared_address(to_keys + p * PLANE_BYTES);
#pragma unroll
        for (int32_t j = 0; j < (16 * CHUNKS + WARP - 1) / WARP; j++) {
            int32_t piece = j * WARP + ring->lane, at = piece / CHUNKS, chunk = piece % CHUNKS;
            const uint16_t *from = (const uint16_t *)__shfl_sync(
                0xffffffffu, (unsigned long long)row, p * 16 + (at & 15));
            if (16 * CHUNKS % WARP == 0 || at < 16)
                copy_chunk(to + at * ROW_BYTES + chunk * 16, from + chunk * 8,
                           all >> (at & 15) & 1);
        }
    }
}

// Asks for the warp's next tile; an empty request keeps the count of requests.
DEVICE void ring_ask(const struct weft__attention_device_args *args, struct ring *ring)
{
    while (ring->at->left > 0 && ring->tile >= ring->last) {
        __syncwarp();
        if (ring->lane == 0)
            place_advance(args, ring->at, ring->last - ring->at->tile);
        __syncwarp();
        if (ring->at->left > 0)
            ring_item(args, ring);
    }
    if (ring->at->left > 0) {
        uint8_t *slot = shared_memory() + (ring->warp * WEFT_STAGES + ring->slot) * STAGE_BYTES;
#pragma unroll
        for (int32_t i = 0; i < KEYS / 16; i++)
            sixteen_ask(args, ring, i, slot + 16 * i * ROW_BYTES);
        ring->tile += WARPS;
        ring_pages(ring);
    }
    copy_group_end();
    ring->slot = ring->slot + 1 == WEFT_STAGES ? 0 : ring->slot + 1;
}

// --- queries --------------------------------------------------------------------------------------

// The rows of an item: query row R of the sequence is token R / group, head R % group of the KV head.
struct rows {
    int32_t first, count; // R of row 0; rows that exist, up to 16
    int32_t kv_head;
};

DEVICE struct rows rows_of(const struct weft__attention_device_args *args, const struct place *at)
{
    struct rows rows;
    rows.kv_head = at->kv_head;
    rows.first = at->row_tile * ROWS;
    int32_t rest = at->seq.q_len * args->group_size - rows.first;
    rows.count = rest < ROWS ? rest : ROWS;
    return rows;
}

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

// What the rows of queries have been divided by.
DEVICE float *shared_factors()
{
    return (float *)(shared_memory() + RING_BYTES + WEFT_PARTS * PART_BYTES);
}

// A warp per row, in WEFT_PARTS parts.
DEVICE void queries_load(const struct weft__attention_device_args *args, const struct sequence *seq,
                         struct rows rows, int32_t warp, int32_t lane)
{
    for (int32_t row = warp; row < ROWS; row += WARPS) {
        int32_t at = rows.first + row;
        int64_t index =
            (seq->first_token + at / args->group_size) * args->q_token_stride +
            (rows.kv_head * args->group_size + at % args->group_size) * args->q_head_stride;
        float2 x[(DIM + 63) / 64];
        uint32_t largest = 0;
#pragma unroll
        for (int32_t i = 0; i < (DIM + 63) / 64; i++) {
            int32_t d = 2 * (i * WARP + lane);
            x[i] = row < rows.count && d < HEAD ? load_two(args->q, index + d) : make_float2(0, 0);
            largest = max(largest, float_bits(fmaxf(fabsf(x[i].x), fabsf(x[i].y))));
        }
        float divide = 1;
        if (FACTORS) {
            uint32_t exponent = warp_max_bits(largest, 32) >> 23;
            exponent = exponent < 1 ? 1 : exponent > 253 ? 127 : exponent;
            divide = bits_float((254 - exponent) << 23);
            if (lane == 0)
                shared_factors()[row] = bits_float(exponent << 23);
        }
#pragma unroll
        for (int32_t i = 0; i < (DIM + 63) / 64; i++) {
            int32_t pair = i * WARP + lane;
            float2 rest = make_float2(x[i].x * divide, x[i].y * divide);
#pragma unroll
            for (int32_t part = 0; part < WEFT_PARTS && pair < DIM / 2; part++) {
                uint32_t kept = two_narrow(rest.x, rest.y);
                float2 wide = two_wide(kept);
                *(uint32_t *)(shared_memory() + RING_BYTES + part * PART_BYTES + row * ROW_BYTES +
                              pair * 4) = kept;
                rest = make_float2(rest.x - wide.x, rest.y - wide.y);
            }
        }
    }
}

// --- a tile ---------------------------------------------------------------------------------------

// What a lane holds of its warp's rows r and r + 8.
struct state {
    float acc[DIM / 8][4];
    float largest[2], sum[2]; // sum: of this lane's keys
};

// What the block works at, in shared memory.
struct work {
    struct place at;
    struct rows rows;   // of the item
    struct keys by_all; // keys that every row of it sees
    int32_t per, end;   // tiles of a share; where the block's ends in the list of all tiles
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
#pragma unroll(DIM > 128 ? 1 : 8)
    for (int32_t i = 0; i < DIM; i += 16) {
        uint32_t q[WEFT_PARTS][4];
#pragma unroll
        for (int32_t part = 0; part < WEFT_PARTS; part++)
            load_matrix_4(q[part], q_row + part * PART_BYTES + i * 2);
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

// Only at the ends of what a row sees, so what it sees is found anew.
DEVICE void tile_mask(const struct weft__attention_device_args *args, const struct place *at,
                      int32_t key0, int32_t lane, float score[KEYS / 8][4])
{
#pragma unroll
    for (int32_t i = 0; i < 4; i++) {
        int32_t row = at->row_tile * ROWS + lane / 4 + i / 2 * 8;
        struct keys seen =
            keys_of(args, at->seq.index, at->seq.q_len, at->seq.kv_len, row / args->group_size);
#pragma unroll
        for (int32_t t = 0; t < KEYS / 8; t++) {
            int32_t key = key0 + 8 * t + 2 * (lane % 4) + i % 2;
            score[t][i] = key >= seen.begin && key < seen.end ? score[t][i] : NEGATIVE_INFINITY;
        }
    }
}

// Scores become weights exp2(score - largest); acc and sum follow a new largest.
DEVICE void tile_weights(const struct weft__attention_device_args *args, const struct work *work,
                         int32_t key0, int32_t lane, struct state *state, float score[KEYS / 8][4])
{
    float largest[2] = {state->largest[0], state->largest[1]};
    const float factor_of[2] = {FACTORS ? shared_factors()[lane / 4] : 1,
                                FACTORS ? shared_factors()[lane / 4 + 8] : 1};
#pragma unroll
    for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
        for (int32_t i = 0; i < 4; i++)
            score[t][i] = score_log2(args, FACTORS ? score[t][i] * factor_of[i / 2] : score[t][i]);
    if (key0 < work->by_all.begin || key0 + KEYS > work->by_all.end)
        tile_mask(args, &work->at, key0, lane, score);
#pragma unroll
    for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
        for (int32_t i = 0; i < 4; i++)
            largest[i / 2] = fmaxf(largest[i / 2], score[t][i]);
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
    for (int32_t i = 0; i < 2; i++) // a row that has seen nothing: weights of 0, not of NaN
        largest[i] = largest[i] == NEGATIVE_INFINITY ? 0.0f : largest[i];
#pragma unroll
    for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
        for (int32_t i = 0; i < 4; i++) {
            score[t][i] = exp2_fast(score[t][i] - largest[i / 2]);
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
            float2 rest = make_float2(w[0], w[1]);
#pragma unroll
            for (int32_t part = 0; part < WEFT_PARTS; part++) {
                p[part][i] = two_narrow(rest.x, rest.y);
                float2 wide = two_wide(p[part][i]);
                rest = make_float2(rest.x - wide.x, rest.y - wide.y);
            }
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

DEVICE void state_begin(struct state *state)
{
#pragma unroll
    for (int32_t t = 0; t < DIM / 8; t++)
#pragma unroll
        for (int32_t i = 0; i < 4; i++)
            state->acc[t][i] = 0;
#pragma unroll
    for (int32_t i = 0; i < 2; i++)
        state->largest[i] = NEGATIVE_INFINITY, state->sum[i] = 0;
}

// The keys that every row of an item sees: tiles within need no mask.
DEVICE struct keys keys_by_all(const struct weft__attention_device_args *args,
                               const struct sequence *seq, struct rows rows)
{
    int32_t first = rows.first / args->group_size;
    int32_t last = (rows.first + rows.count - 1) / args->group_size;
    struct keys keys = {keys_of(args, seq->index, seq->q_len, seq->kv_len, last).begin,
                        keys_of(args, seq->index, seq->q_len, seq->kv_len, first).end};
    return keys;
}

// Leaves the warp's state in shared memory. True if one of the lane's sums is not finite: products in
// parts turn an infinity, and a weight of 0 for a key that a row does not see, into NaN.
DEVICE bool state_store(const struct state *state, int32_t warp, int32_t lane, int32_t rows)
{
    float nothing = 0; // 0 unless something is not finite
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        int32_t row = lane / 4 + 8 * i;
        float sum = warp_sum(state->sum[i], 4);
        if (row >= rows)
            continue;
        float *to = shared_state(warp, row, rows);
#pragma unroll
        for (int32_t t = 0; t < DIM / 8; t++) {
            *(float2 *)(to + 8 * t + 2 * (lane % 4)) =
                make_float2(state->acc[t][2 * i], state->acc[t][2 * i + 1]);
            nothing += state->acc[t][2 * i] * 0.0f + state->acc[t][2 * i + 1] * 0.0f;
        }
        nothing += sum * 0.0f;
        if (lane % 4 == 0)
            to[DIM] = state->largest[i], to[DIM + 1] = sum;
    }
    return nothing != 0.0f;
}

// The states of the item's rows once more, product by product and key by key, a warp per row: for what is
// not finite. Leaves them as those of warp 0.
static __device__ __noinline__ void item_again(const struct weft__attention_device_args *args,
                                               const struct work *work, int32_t tile, int32_t tiles,
                                               int32_t warp, int32_t lane)
{
    const struct sequence *seq = &work->at.seq;
    const int32_t *pages = pages_of(args, seq->index);
    for (int32_t row = warp; row < work->rows.count; row += WARPS) {
        int32_t at = work->rows.first + row, head = at % args->group_size;
        int64_t q = (seq->first_token + at / args->group_size) * args->q_token_stride +
                    (work->rows.kv_head * args->group_size + head) * args->q_head_stride;
        struct keys seen =
            keys_of(args, seq->index, seq->q_len, seq->kv_len, at / args->group_size);
        int32_t first = max(seen.begin, seq->begin + tile * KEYS);
        int32_t end = min(seen.end, seq->begin + (tile + tiles) * KEYS);
        float largest = NEGATIVE_INFINITY, sum = 0, acc[(HEAD + WARP - 1) / WARP] = {0};
        for (int32_t key = first; key < end; key++) {
            int64_t page = pages[key / PAGE], token = key % PAGE, kv_head = work->rows.kv_head;
            int64_t k = page * args->k.page_stride + kv_head * args->k.head_stride +
                        token * args->k.token_stride;
            int64_t v = page * args->v.page_stride + kv_head * args->v.head_stride +
                        token * args->v.token_stride;
            float dot = 0;
            for (int32_t d = lane; d < HEAD; d += WARP)
                dot = fmaf(element<WEFT_X_DTYPE>(args->q, q + d),
                           element<WEFT_KV_DTYPE>(args->k.data, k + d), dot);
            float score = score_log2(args, warp_sum(dot, 32)), before = largest;
            largest = fmaxf(largest, score);
            float factor = weight_of(before, largest);
            float weight = exp2_fast(score - (largest == NEGATIVE_INFINITY ? 0.0f : largest));
            sum = sum * factor + weight;
#pragma unroll
            for (int32_t i = 0; i < (HEAD + WARP - 1) / WARP; i++)
                if (HEAD % WARP == 0 || i * WARP + lane < HEAD)
                    acc[i] = fmaf(weight, element<WEFT_KV_DTYPE>(args->v.data, v + i * WARP + lane),
                                  acc[i] * factor);
        }
        for (int32_t w = 0; w < WARPS; w++) {
            float *to = shared_state(w, row, work->rows.count);
#pragma unroll
            for (int32_t i = 0; i < (HEAD + WARP - 1) / WARP; i++)
                if (HEAD % WARP == 0 || i * WARP + lane < HEAD)
                    to[i * WARP + lane] = w ? 0.0f : acc[i];
            if (lane == 0)
                to[DIM] = w ? NEGATIVE_INFINITY : largest, to[DIM + 1] = w ? 0.0f : sum;
        }
    }
    __syncthreads();
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
        for (int32_t d = lane; d < HEAD; d += WARP) {
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

DEVICE float *slot_at(const struct weft__attention_device_args *args, int32_t index)
{
    return args->slots + (int64_t)index * (ROWS * (DIM + 2));
}

// Merges the states that the blocks first..last left of an item: in the order of the blocks.
DEVICE void item_merge(const struct weft__attention_device_args *args, const struct sequence *seq,
                       struct rows rows, int32_t warp, int32_t lane, int32_t first, int32_t last)
{
    for (int32_t row = warp; row < rows.count; row += WARPS) {
        float largest = NEGATIVE_INFINITY, sum = 0, acc[(HEAD + WARP - 1) / WARP] = {0};
        for (int32_t i = first + lane; i <= last; i += WARP)
            largest =
                fmaxf(largest, __ldcg(slot_at(args, 2 * i + (i == first)) + ROWS * DIM + row));
        largest = warp_max(largest, 32);
        for (int32_t i0 = first; i0 <= last; i0 += WARP) {
            float factor = 0;
            if (i0 + lane <= last) {
                const float *slot =
                    slot_at(args, 2 * (i0 + lane) + (i0 + lane == first)) + ROWS * DIM + row;
                factor = weight_of(__ldcg(slot), largest);
                sum += factor * __ldcg(slot + ROWS);
            }
            int32_t count = min(last - i0 + 1, WARP);
#pragma unroll 8
            for (int32_t j = 0; j < count; j++) {
                const float *from = slot_at(args, 2 * (i0 + j) + (i0 + j == first)) + row * DIM;
                float by = __shfl_sync(0xffffffffu, factor, j);
#pragma unroll
                for (int32_t k = 0; k < (HEAD + WARP - 1) / WARP; k++)
                    if (HEAD % WARP == 0 || k * WARP + lane < HEAD)
                        acc[k] = fmaf(by, __ldcg(from + k * WARP + lane), acc[k]);
            }
        }
        sum = warp_sum(sum, 32);
        float inverse = sum > 0 ? 1.0f / sum : 0.0f;
#pragma unroll
        for (int32_t k = 0; k < (HEAD + WARP - 1) / WARP; k++)
            if (HEAD % WARP == 0 || k * WARP + lane < HEAD)
                store_out(args, seq, rows, row, k * WARP + lane, acc[k] * inverse);
        if (lane == 0)
            store_lse(args, seq, rows, row, largest, sum);
    }
}

// True for the block that leaves the last state of an item. The barriers make the other threads' stores
// part of what the atomic releases, and its acquire part of what they see.
DEVICE bool item_last(uint32_t *counter, uint32_t parts)
{
    __shared__ uint32_t ticket;
    __syncthreads();
    if (threadIdx.x == 0) {
        ticket = atomic_add_ordered(counter, 1);
        if (ticket + 1 == parts)
            *counter = 0;
    }
    __syncthreads();
    return ticket + 1 == parts;
}

extern "C" __global__ void __launch_bounds__(128, 2)
    weft_attention_decode(const __grid_constant__ struct weft__attention_device_args args)
{
    __shared__ struct work work;
    __shared__ struct place asked[WARPS];
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
    let_next_start();
    wait_for_previous();
    int32_t per;
    struct ring ring;
    struct place at = share_of(&args, (int32_t)blockIdx.x, (int32_t)gridDim.x, lane, &per);
    if (at.left == 0)
        return;
    if (threadIdx.x == 0)
        work.at = at, work.per = per, work.end = (int32_t)blockIdx.x * per + at.left;
    if (lane == 0)
        asked[warp] = at;
    __syncwarp();
    ring.at = &asked[warp], ring.slot = 0, ring.warp = warp, ring.lane = lane;
    ring_clear_padding(warp, lane);
    ring_item(&args, &ring);
    for (int32_t i = 0; i < WEFT_STAGES; i++)
        ring_ask(&args, &ring);
    __syncthreads();
    while (work.at.left > 0) {
        const int32_t first_tile = work.at.tile, count = place_tiles(&work.at);
        struct state state;
        if (threadIdx.x == 0) {
            work.rows = rows_of(&args, &work.at);
            work.by_all = keys_by_all(&args, &work.at.seq, work.rows);
        }
        queries_load(&args, &work.at.seq, rows_of(&args, &work.at), warp, lane);
        state_begin(&state);
        __syncthreads();
        for (int32_t tile = first_tile + warp; tile < first_tile + count; tile += WARPS) {
            // the ring is full: what was asked for first lies where is asked for next
            const uint8_t *from = shared_memory() + (warp * WEFT_STAGES + ring.slot) * STAGE_BYTES;
            float score[KEYS / 8][4] = {{0}};
            COPY_WAIT(WEFT_STAGES - 1);
            __syncwarp();
            tile_scores(from, lane, score);
            tile_weights(&args, &work, work.at.seq.begin + tile * KEYS, lane, &state, score);
            tile_values(from, lane, score, &state);
            __syncwarp();
            ring_ask(&args, &ring);
        }
        if (__syncthreads_or(state_store(&state, warp, lane, work.rows.count)))
            item_again(&args, &work, first_tile, count, warp, lane);
        if (count == work.at.seq.tiles) {
            item_finish(&args, &work.at.seq, work.rows, warp, lane, 0);
        } else {
            int32_t item =
                work.end - work.at.left - work.at.tile; // where it begins in the list of all tiles
            int32_t first = item / work.per, last = (item + work.at.seq.tiles - 1) / work.per;
            item_finish(&args, &work.at.seq, work.rows, warp, lane,
                        slot_at(&args, 2 * (int32_t)blockIdx.x + (work.at.tile == 0)));
            // counted by the block in which the item begins: no other begins there and goes on
            if (item_last(args.counters + first, (uint32_t)(last - first + 1)))
                item_merge(&args, &work.at.seq, work.rows, warp, lane, first, last);
        }
        __syncthreads();
        if (threadIdx.x == 0)
            place_advance(&args, &work.at, count);
        __syncthreads();
    }
}
