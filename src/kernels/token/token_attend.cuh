// SPDX-License-Identifier: MIT
// Attention of the SM's part of the keys, by the warps that multiply, as attention_token.cu does it: the same tiles of keys and
// states, so that results are the same bits. Two warps do what one does there, half of the columns of the values each. Where that kernel's blocks send pieces to one another, words go to
// whoever merges them (token_deliver.cuh).
#ifndef WEFT_KERNELS_TOKEN_ATTEND_CUH
#define WEFT_KERNELS_TOKEN_ATTEND_CUH

#include "src/kernels/token/token_shared.cuh"

enum {
    ITEMS = WEFT_KV_HEADS * WEFT_SPLITS,
    ATTENDANTS = 2 * WARPS, // warps
    ITEM_PIECES = GROUP_HEADS * PIECES,
    PART_WORDS = ITEM_PIECES * PIECE_FLOATS, // from an SM's part of a KV head to the next one's
};

DEVICE uint64_t *piece_words(const struct weft__token_args *args, int32_t kv_head, int32_t split,
                             int32_t piece)
{
    return args->pieces + (kv_head * WEFT_SPLITS + split) * PART_WORDS + piece * PIECE_FLOATS;
}

// Elements d, d + 1 of a head that lies at `row` of all rows of Q, K and V.
struct heads_source {
    const uint64_t *words; // or NULL, and
    const float *numbers;
    uint32_t turn;
};

DEVICE bool source_pair(const struct heads_source *from, int32_t d, float2 *pair)
{
    if (from->words)
        return turn_look_2(from->words + d, from->turn, pair);
    *pair = make_float2(from->numbers[d], from->numbers[d + 1]);
    return true;
}

// As head_load(). All that a lane takes is asked for before it looks at any.
DEVICE struct head source_head(const struct heads_source *from, int32_t lane)
{
    struct head head;
    bool there;
    do {
        there = true;
#pragma unroll
        for (int32_t i = 0; i < QUERY_PAIRS; i++) {
            const int32_t d = 2 * (i * WARP + lane);
            const int32_t at = d < WEFT_ROTARY / 2 ? d + WEFT_ROTARY / 2 : d - WEFT_ROTARY / 2;
            head.own[i] = head.other[i] = make_float2(0, 0);
            if (HEAD % 64 == 0 || d < HEAD)
                there &= source_pair(from, d, &head.own[i]);
            if (WEFT_ROPE == 1 && (WEFT_ROTARY == HEAD || d < WEFT_ROTARY))
                there &= source_pair(from, at, &head.other[i]);
        }
    } while (!there);
    return head;
}

// Where the SM's row i, a query or behind them the new key or value, is in all rows of Q, K and V.
DEVICE int32_t row_of_heads(int32_t kv_head, int32_t i)
{
    return i < GROUP_HEADS    ? (kv_head * GROUP_HEADS + i) * HEAD
           : i == GROUP_HEADS ? ATTENDED + kv_head * HEAD
                              : ATTENDED + (WEFT_KV_HEADS + kv_head) * HEAD;
}

// Row `row` of all rows of Q, K and V: words, or in a first layer whose Q, K and V are made elsewhere numbers.
DEVICE struct heads_source source_of(const struct weft__token_args *args, int32_t row, bool first,
                                     uint32_t turn)
{
    const struct weft__attention_device_args *a = &args->attention;
    enum { K_ROW = ATTENDED, V_ROW = K_ROW + WEFT_KV_HEADS * WEFT_HEAD_DIM };
    struct heads_source from = {args->heads + row, NULL, turn};
    if (!WEFT_BEGINS && first) {
        from.words = NULL;
        from.numbers = row < K_ROW   ? (const float *)a->q + row / HEAD * a->q_head_stride
                       : row < V_ROW ? a->new_k + row - K_ROW
                                     : a->new_v + row - V_ROW;
    }
    return from;
}

// The new key, rotated, or its value: narrow, into shared memory and into the cache.
DEVICE void fresh_keep(const struct weft__attention_device_plane *plane, uint16_t *pool,
                       uint8_t *fresh, const struct head *head, int32_t lane)
{
    const struct place *at = &shared_rest()->place;
    uint16_t *row =
        pool + plane_at(plane, at->kv_head, shared_rest()->fresh_page, at->seq.lengths.kv_len - 1);
#pragma unroll
    for (int32_t i = 0; i < QUERY_PAIRS; i++) {
        const int32_t d = 2 * (i * WARP + lane);
        if (HEAD % 64 != 0 && d >= HEAD)
            continue;
        const uint32_t pair = two_narrow(head->own[i].x, head->own[i].y);
        *(uint32_t *)(fresh + 2 * d) = pair;
        *(uint32_t *)(row + d) = pair;
    }
}

// Which of the rows of the SM a warp takes first: those that have no tile, of a short text, come before those that have one to prepare.
DEVICE int32_t first_row_of(int32_t warp)
{
    return warp % 4 + warp / 8 * 4 + (warp % 8 < 4) * 8;
}

// Row by row, a warp each; behind the queries come the new key and its value, in the SM that has their tile. Where they come from is known
// before they are there.
DEVICE void heads_take(const struct weft__token_args *args, int32_t layer, uint32_t turn,
                       int32_t warp, int32_t lane)
{
    enum { KEY = GROUP_HEADS, VALUE };
    const struct place *at = &shared_rest()->place;
    const int32_t fresh = at->seq.lengths.kv_len - 1 - (at->seq.begin + at->tile * KEYS);
    const int32_t count = GROUP_HEADS + (fresh >= 0 && fresh < at->left * KEYS ? 2 : 0);
    const int32_t kv_head = at->kv_head;
    int32_t i = first_row_of(computed_here(warp));
    struct heads_source from = source_of(args, row_of_heads(kv_head, i), layer == 0, turn);
    if ((WEFT_BEGINS || layer > 0) && i == 0 && lane == 0)
        arrivals_wait(args, WEFT__TOKEN_ROW_heads, turn, HEAD_ROWS / 16);
    part_sync<MULTIPLYING>(MULTIPLIERS_MEET);
#pragma unroll 1
    while (i < count) {
        struct head head = source_head(&from, lane);
        const struct turns turns = turns_shared(lane);
        if (i != VALUE)
            head_turn(&head, &turns, lane);
        if (i < KEY)
            query_store(head.own, shared_rest()->queries + i * ROW_BYTES, PART_BYTES, lane,
                        shared_factors() + i);
        else if (i == KEY)
            fresh_keep(&args->attention.k, (uint16_t *)args->layers[layer].keys,
                       shared_rest()->fresh, &head, lane);
        else
            fresh_keep(&args->attention.v, (uint16_t *)args->layers[layer].values,
                       shared_rest()->fresh + ROW_BYTES, &head, lane);
        i += ATTENDANTS;
        if (GROUP_HEADS + 2 > ATTENDANTS)
            from = source_of(args, row_of_heads(kv_head, i), layer == 0, turn);
    }
}

// A tile that is prepared before the queries are there: it has come, values that nobody sees are zeros. `fresh`: which of its keys is the
// new one, that comes with the queries; or none. (With its keys in registers there are too few for the heads.)
struct tile_ahead {
    int32_t key0, fresh;
    bool mended;
    uint32_t queries, keys, values; // addresses of the lane's rows
};

// Are the sixteens of columns of both warps of a tile found by the same steps from their first ones?
enum { HALVES_ALIKE = STATE_DIM % 64 == 0 || 64 % STATE_DIM == 0 };

// As tile_scores().
DEVICE void tile_score(const struct tile_ahead *t, float score[KEYS / 8][4])
{
    float low[KEYS / 8][4] = {};
#pragma unroll(SCORE_STEPS)
    for (int32_t i = 0; i < HEAD / 16; i++) {
        uint32_t q[4], k[4];
        load_matrix_4(k, tile_piece(t->keys, i));
        load_matrix_4(q, t->queries + i * 32);
#pragma unroll
        for (int32_t j = 0; j < KEYS / 8; j++)
            mma_score(i % 2 ? low[j] : score[j], 0, q, k[2 * j], k[2 * j + 1]);
    }
#pragma unroll
    for (int32_t i = 0; i < KEYS / 2; i++)
        if (i % 4 / 2 < STATE_EIGHTS)
            score[i / 4][i % 4] += low[i / 4][i % 4];
}

// Both warps of the tile write the same.
DEVICE void tile_prepare(struct tile_ahead *t, uint32_t seq, int32_t tile, int32_t warp,
                         int32_t lane)
{
    const struct place *at = &shared_rest()->place;
    const int32_t key0 = at->seq.begin + (at->tile + tile) * KEYS;
    const int32_t fresh = at->seq.lengths.kv_len - 1 - key0;
    uint8_t *slot = shared_keys(seq + tile);
    t->queries = shared_address(shared_rest()->queries) + (lane % 16) * ROW_BYTES + lane / 16 * 16;
    t->keys = tile_row(shared_address(slot), lane / 16 * 8 + lane % 8, lane / 8 % 2);
    t->values = values_row(slot, lane);
    if (HALVES_ALIKE)
        t->values = tile_piece(t->values, warp / WARPS * (STATE_DIM / 16));
    t->key0 = key0;
    t->fresh = fresh >= 0 && fresh < KEYS ? fresh : -1;
    t->mended = key0 < at->seq.first_key || fresh < KEYS;
    slot_wait(seq + tile);
    if (t->mended) {
        __syncwarp();
        boxes_clear(slot, at->seq.first_key - key0, at->seq.end_key - key0, lane);
    }
}

// May a warp wait for its first tile while others still multiply by Q, K and V? A slot's parity says which time it is only if that a ring
// before has come: the slots before those of Q, K, V have; and, if every team had one of those, all but as many as teams and slots on their way.
DEVICE bool prepares_early()
{
    const int32_t slots =
        units_of_block(QKV) * work_of(QKV).slots; // of the second format V has twice as many
    return slots * (WEFT_SECOND ? 2 : 1) + WARPS <= DEPTH ||
           (slots >= TEAMS && TEAMS + FLIGHT + WARPS - 1 <= DEPTH);
}

// From the warp's first tile on. `ready`: it is prepared.
DEVICE void tiles_walk(const struct weft__token_args *args, uint32_t seq, int32_t warp,
                       int32_t own_lane, struct tile_ahead *t, bool ready, struct state *state)
{
    const struct place *at = &shared_rest()->place;
    int32_t tile = warp % WARPS;
#pragma unroll 1
    while (tile < at->left) {
        const int32_t lane = computed_here(own_lane);
        float score[1][KEYS / 8][4] = {};
        if (!ready)
            tile_prepare(t, seq, tile, warp, lane);
        ready = false;
        if (t->fresh >= 0) {
            boxes_fresh(shared_keys(seq + tile), t->fresh, shared_rest()->fresh, lane);
            __syncwarp();
        }
        tile_score(t, score[0]);
        tile_log2(&args->attention, at, t->key0, lane, score[0]);
        tile_weights(state, score[0]);
        values_add(t->values, score, state, HALVES_ALIKE ? 0 : warp / WARPS * (STATE_DIM / 16));
        uint32_t all = 0;
#pragma unroll
        for (int32_t i = 0; i < STATE_DIM / 8; i++)
            all ^= float_bits(state->acc[i][0]);
        loads_end(all);
        if (t->mended)
            bulk_fence(); // before the slot's next box
        __syncwarp();
        if (lane == 0)
            slot_release(seq + tile);
        tile += WARPS;
    }
}

// Sums that are not finite once more, as the launches do it (row_again()), which read queries as numbers: they are put where those
// had them, by all SMs of a KV head the same.
static __device__ __noinline__ void attend_again(const struct weft__token_args *args, int32_t layer,
                                                 uint32_t turn)
{
    const struct weft__attention_device_args *of = &args->layers[layer].attention;
    const struct place *at = &shared_rest()->place;
    const int32_t first = at->kv_head * GROUP_HEADS;
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; (WEFT_BEGINS || layer > 0) && i < GROUP_HEADS * HEAD;
         i += MULTIPLYING) {
        float number;
        while (!turn_look(args->heads + first * HEAD + i, turn, &number))
            ;
        ((float *)of->q)[(first + i / HEAD) * of->q_head_stride + i % HEAD] = number;
    }
    part_sync<MULTIPLYING>(MULTIPLIERS_MEET);
    states_again(of, at, rows_of(of, at), at->left);
    part_sync<MULTIPLYING>(MULTIPLIERS_MEET);
}

// The SM's item, whose tiles are in the slots from `seq` on.
DEVICE void attend(const struct weft__token_args *args, int32_t layer, uint32_t turn, uint32_t seq,
                   int32_t warp, int32_t lane)
{
    const struct place *at = &shared_rest()->place;
    struct state state;
    struct tile_ahead ahead = {};
    const bool early = prepares_early();
    if (early && warp % WARPS < at->left)
        tile_prepare(&ahead, seq, warp % WARPS, warp, lane);
    heads_take(args, layer, turn, warp, lane);
    state_begin(&state);
    part_sync<MULTIPLYING>(MULTIPLIERS_MEET);
    tiles_walk(args, seq, warp, lane, &ahead, early, &state);
    const int32_t w = computed_here(warp);
    if (state_store(&state, w % WARPS, lane, GROUP_HEADS, w / WARPS * STATE_DIM))
        shared_rest()->again = turn;
    part_sync<MULTIPLYING>(MULTIPLIERS_MEET);
    if (*(const volatile uint32_t *)&shared_rest()->again == turn)
        attend_again(args, layer, turn);
#pragma unroll 1
    for (int32_t p = warp; p < ITEM_PIECES; p += ATTENDANTS) {
        float value[WARPS];
#pragma unroll
        for (int32_t w = 0; w < WARPS; w++)
            value[w] = shared_state(w, p / PIECES, GROUP_HEADS)[p % PIECES * 32 + lane];
        const float *own = shared_state(lane % WARPS, p / PIECES, GROUP_HEADS) + DIM;
        const struct piece piece = piece_of_lanes<WARPS>(lane, make_float2(own[0], own[1]), value);
        uint64_t *to = piece_words(args, at->kv_head, shared_rest()->split, p);
        turn_send(to + 2 + lane, piece.value, turn);
        if (lane < 2)
            turn_send(to + lane, lane ? piece.sum : piece.largest, turn);
    }
}

#endif
