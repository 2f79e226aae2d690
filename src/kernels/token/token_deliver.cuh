// SPDX-License-Identifier: MIT
// The warp that delivers: sums of the warps that multiply become results, which go as words to all SMs. The residual stream of
// the SM's rows never leaves it.
#ifndef WEFT_KERNELS_TOKEN_DELIVER_CUH
#define WEFT_KERNELS_TOKEN_DELIVER_CUH

#include "src/kernels/token/token_attend.cuh"

// The next unit's sums, lane l those of row l; units of Q, K, V: of row l % 16. In the order of tiles, as stream_sum()
// (linear_stream_deliver.cuh) adds them: `first` is the slot of the unit's first tile.
struct delivery {
    uint32_t next; // unit of the launch
    uint32_t seq;  // first slot of the next unit
};

// Which warp has tile t of a unit, in slot `seq`.
DEVICE int32_t part_of(int32_t t, uint32_t seq)
{
    return (int32_t)(TEAM_WARPS * (seq & (TEAMS - 1)) + t % TEAM_WARPS);
}

#if PLAIN

// Of gate and up the lower half of the lanes has gate; of others both halves have the sum, each added up a half of the chains.
DEVICE float sums_take(struct delivery *d, int32_t kind, int32_t own_lane, bool = false,
                       bool = false)
{
    const int32_t lane =
        computed_here(own_lane); // what follows from it is not kept from unit to unit
    struct shared *s = shared_rest();
    const struct work w = work_of(kind);
    const uint32_t place = d->next % PLACES;
    float sum[2] = {0, 0};
    barrier_wait(shared_address(s->summed + place), d->next / PLACES & 1);
    if (w.form == PAIRS) {
#pragma unroll
        for (int32_t j = 0; j < MULTIPLIERS; j++)
            sum[j % 2] += s->parts[place][part_of(j, j / TEAM_WARPS + d->seq)][lane];
        sum[0] += sum[1];
    } else {
#pragma unroll
        for (int32_t j = 0; j < MULTIPLIERS; j += 2)
            sum[0] += s->parts[place][part_of(j + lane / 16, j / TEAM_WARPS + d->seq)][lane % 16];
        sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], 16);
    }
    __syncwarp();
    if (lane == 0)
        barrier_arrive(shared_address(s->taken + place));
    d->next++, d->seq += w.slots;
    return sum[0];
}

#else

// A unit of the second format.
DEVICE float second_sum(const float parts[MULTIPLIERS][WARP], const struct second_work *w,
                        int32_t kind, bool last, uint32_t seq, int32_t lane)
{
    const int32_t which = kind == QKV ? SECOND_V : last ? SECOND_LAST_DOWN : SECOND_DOWN;
    const bool even = WEFT_EVEN >> which & 1;
    float sum[2] = {0, 0};
    const int32_t block = kind == DOWN ? lane / 16 : 0;
    if (w->columns) {
#pragma unroll
        for (int32_t j = 0; j < 8; j++)
            sum[even && j % 2] += parts[part_of(j, (uint32_t)(j / 2 * 2 + block) + seq)][lane % 16];
    } else {
#pragma unroll
        for (int32_t j = 0; j < MULTIPLIERS; j++)
            sum[even && j % 2] +=
                parts[part_of(j, (uint32_t)(j / 2 + block * w->block_slots) + seq)]
                     [lane % 16 + 16 * block];
    }
    return even ? sum[0] + sum[1] : sum[0];
}

DEVICE float sums_take(struct delivery *d, int32_t kind, int32_t lane, bool last = false,
                       bool second = false)
{
    struct shared *s = shared_rest();
    const struct work w = work_of(kind);
    const uint32_t place = d->next % PLACES;
    int32_t slots = w.slots;
    float sum[2] = {0, 0};
    barrier_wait(shared_address(s->summed + place), d->next / PLACES & 1);
    if (WEFT_SECOND && second) {
        const struct second_work of = second_work_of(kind, last);
        sum[0] = second_sum(s->parts[place], &of, kind, last, d->seq, lane);
        slots = of.slots;
    } else if (w.form == PAIRS) {
        const bool even = WEFT_EVEN >> (last ? LAST_DOWN : kind) & 1;
#pragma unroll
        for (int32_t j = 0; j < MULTIPLIERS; j++) {
            const float part = s->parts[place][part_of(j, j / TEAM_WARPS + d->seq)][lane];
            if (even && j % 2)
                sum[1] += part;
            else
                sum[0] += part;
        }
        if (even)
            sum[0] += sum[1];
    } else { // half of the lanes the even tiles, half the odd ones
        static_assert(TEAM_WARPS <= 2, "lanes have the tiles of a slot by halves");
#pragma unroll(EMBED <= 4096 ? 8 : 1) // attention waits for it
        for (int32_t i = 0; i < (EMBED / 256 + 1) / 2; i++) {
            const int32_t half = lane / 16, slot = 2 * i / SLOT_TILES; // of tile 2 i + half
            const int32_t team = (int32_t)(((uint32_t)slot + d->seq) & (TEAMS - 1));
            const float *of = TEAM_WARPS == 2
                                  ? s->parts[place][2 * team + half] + i % 2 * 16 + lane % 16
                                  : s->parts[place][team] + lane;
            if (2 * i + half < w.tiles)
                sum[0] += *of;
        }
        sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], 16);
    }
    __syncwarp();
    if (lane == 0)
        barrier_arrive(shared_address(s->taken + place));
    d->next++, d->seq += slots;
    return sum[0];
}

// 1/rms of the row of X, by the squares that came with it; added up as norm_store() does it.
DEVICE float row_norm(const uint8_t *row, float eps, int32_t lane)
{
    const float *squares = (const float *)(row + EMBED + EMBED / 4);
    float square = 0;
#pragma unroll
    for (int32_t i = lane; i < EMBED / 32; i += WARP)
        square += squares[i];
    return 1.0f / sqrtf(warp_sum(square, 32) / (float)EMBED + eps);
}

#endif

// Another warp delivers it.
DEVICE void unit_skip(struct delivery *d, int32_t kind, bool last, bool second)
{
    d->next++;
    d->seq += WEFT_SECOND && second ? second_work_of(kind, last).slots : work_of(kind).slots;
}

// Units of sixteen rows come at almost the same time: two warps deliver them in turns, of which `own` is the warp's.
DEVICE void heads_deliver(const struct weft__token_args *args, struct delivery *d, int32_t layer,
                          uint32_t turn, int32_t own, int32_t lane)
{
    const int32_t *share = shared_rest()->share[QKV];
#if PLAIN
    const float rms = numbers_norm(args->qkv_eps, lane);
#else
    const float rms = row_norm(shared_row(QKV), args->qkv_eps, lane);
#endif
    const int32_t of_second = share[1] - second_units(QKV, is_second(args, QKV, layer));
#pragma unroll 1
    for (int32_t u = share[0]; u < share[1]; u++) {
        if (((u - share[0]) & 1) != own) {
            unit_skip(d, QKV, false, u >= of_second);
            continue;
        }
        const float value = rms * sums_take(d, QKV, lane, false, u >= of_second);
        if (lane < 16)
            turn_send(args->heads + head_unit(u - share[0]) * 16 + lane, value, turn);
        __syncwarp();
        if (lane == 0)
            count_arrival(counter_of(args, WEFT__TOKEN_ROW_heads));
    }
}

// Pieces of what was attended to, 32 columns of a head each, from the SMs that have a part of its keys.
DEVICE void pieces_merge(const struct weft__token_args *args, uint32_t turn, int32_t lane)
{
    const int32_t count = ATTENDED / 32;
    const struct place *at = &shared_rest()->place;
#pragma unroll 1
    for (int32_t u = share_begin(count, (int32_t)blockIdx.x);
         u < share_begin(count, (int32_t)blockIdx.x + 1); u++) {
        const int32_t head = u / PIECES, kv_head = head / GROUP_HEADS;
        const int32_t piece = head % GROUP_HEADS * PIECES + u % PIECES;
        float value[WEFT_SPLITS];
        const uint64_t *const from = piece_words(args, kv_head, 0, piece);
        float2 state = make_float2(0, 0); // of part `lane`
        bool there;
        for (;;) { // as long as nobody has sent anything, little is asked for, and seldom
            there = lane < WEFT_SPLITS && turn_look_2(from + lane * PART_WORDS, turn, &state);
            if (__any_sync(0xffffffffu, there))
                break;
            rest_for(200);
        }
        do { // all is asked for before any is looked at, and again until all is there
            there = lane >= WEFT_SPLITS || turn_look_2(from + lane * PART_WORDS, turn, &state);
#pragma unroll
            for (int32_t s = 0; s < WEFT_SPLITS; s++)
                there &= turn_look(from + s * PART_WORDS + 2 + lane, turn, &value[s]);
        } while (!there);
        __syncwarp();
        const struct piece of = piece_of_lanes<WEFT_SPLITS>(lane, state, value);
        const struct row row = {0, head};
        const float by = row_end(&args->attention, at->seq.lengths, row, of.largest, of.sum, false);
#if PLAIN
        numbers_send(args, WEFT__TOKEN_ROW_attended, 2 * u, 2, lane, of.value * by, turn);
#else
        unit_send<false>(args, WEFT__TOKEN_ROW_attended, u, lane, of.value * by, 1, turn);
#endif
    }
}

#if PLAIN

// O or down, added to the stream; last: the launch ends with these. Both halves of the warp have the unit's results.
DEVICE void stream_deliver(const struct weft__token_args *args, struct delivery *d, int32_t kind,
                           bool, const float *, int32_t to_row, bool last, uint32_t turn,
                           int32_t lane)
{
    struct shared *s = shared_rest();
    const int32_t *share = s->share[kind];
#pragma unroll 1
    for (int32_t u = share[0]; u < share[1]; u++) {
        float *own = &s->residual[0][0] + (u - share[0]) * 16 + lane % 16;
        const float out = sums_take(d, kind, lane) + *own;
        __syncwarp();
        if (lane < 16)
            *own = out;
        if (!last)
            numbers_send(args, to_row, u, 1, lane, out, turn);
        else if (lane < 16)
            args->result[u * 16 + lane] = out;
    }
}

DEVICE void gated_deliver(const struct weft__token_args *args, struct delivery *d, uint32_t turn,
                          int32_t lane)
{
    const float rms = numbers_norm(args->up_eps, lane);
#pragma unroll 1
    for (int32_t u = shared_rest()->share[UP][0]; u < shared_rest()->share[UP][1]; u++) {
        const float value = rms * sums_take(d, UP, lane);
        const float up = __shfl_xor_sync(0xffffffffu, value, 16);
        numbers_send(args, WEFT__TOKEN_ROW_down, u, 1, lane, gated<WEFT_TOKEN_GATE>(value, up),
                     turn); // of the lower lanes
    }
}

#else

// O or down, added to the stream, for the norm behind it. last: what the last layer leaves, for which there is a norm where logits follow.
DEVICE void stream_deliver(const struct weft__token_args *args, struct delivery *d, int32_t kind,
                           bool second, const float *norm, int32_t to_row, bool last, uint32_t turn,
                           int32_t lane)
{
    struct shared *s = shared_rest();
    const int32_t *share = s->share[kind];
#pragma unroll 1
    for (int32_t u = share[0]; u < share[1]; u++) {
        const int32_t row = u * 32 + lane;
        const float weight = norm ? __ldg(norm + row) + args->norm_plus : 1.0f;
        const float out = sums_take(d, kind, lane, last, second) + s->residual[u - share[0]][lane];
        s->residual[u - share[0]][lane] = out;
        if (last)
            args->result[row] = out;
        if (WEFT_LOGITS || !last)
            unit_send<true>(args, to_row, u, lane, out, weight, turn);
    }
}

// Gate and up: units of 16 results, of which two have a scale together. Who has the second of two alone sends it to who has the first.
DEVICE void gated_deliver(const struct weft__token_args *args, struct delivery *d, uint32_t turn,
                          int32_t lane)
{
    const int32_t from = shared_rest()->share[UP][0], to = shared_rest()->share[UP][1];
    const float rms = row_norm(shared_row(UP), args->up_eps, lane);
    float first = 0;
#pragma unroll 1
    for (int32_t u = from; u < to; u++) {
        const bool last = u + 1 == to;
        float theirs =
            0; // the first unit of the next SM, which was there long ago: looked at before this one's sums are
        if (u % 2 == 0 && last)
            while (!turn_look(args->halves + (u + 1) * 16 + lane % 16, turn, &theirs))
                ;
        __syncwarp();
        const float value = rms * sums_take(d, UP, lane);
        const float up = __shfl_xor_sync(0xffffffffu, value, 16);
        const float out = gated<WEFT_TOKEN_GATE>(value, up); // of the lower lanes
        if (u % 2 == 0 && !last) {
            first = out;
            continue;
        }
        if (u % 2 && u == from) {
            if (lane < 16)
                turn_send(args->halves + u * 16 + lane, out, turn);
            continue;
        }
        const float mine = u % 2 ? first : out;
        const float own = __shfl_sync(0xffffffffu, out, lane % 16), other = u % 2 ? own : theirs;
        unit_send<false>(args, WEFT__TOKEN_ROW_down, u / 2, lane, lane < 16 ? mine : other, 1,
                         turn);
    }
}

#endif

// What the SM has of the stream.
DEVICE void residual_take(const struct weft__token_args *args, int32_t lane)
{
    struct shared *s = shared_rest();
#pragma unroll 1
    for (int32_t u = s->share[O][0]; u < s->share[O][1]; u++)
        if (lane < UNIT_ROWS)
            (&s->residual[0][0])[(u - s->share[O][0]) * UNIT_ROWS + lane] =
                args->stream[u * UNIT_ROWS + lane];
    __syncwarp();
}

DEVICE void deliver_all(const struct weft__token_args *args, struct delivery *d, int32_t own_lane)
{
    struct shared *s = shared_rest();
    const int32_t layers = args->num_layers;
#pragma unroll 1
    for (int32_t l = 0; l < layers; l++) {
        const int32_t lane = computed_here(own_lane); // what follows from it is not kept
        if (WEFT_BEGINS || l > 0)
            part_sync<MULTIPLYING + DELIVERING>(ROW_IS_THERE);
        if (l == 0)
            text_wait();
        const uint32_t turn = s->launch * layers + l + 1;
        if (WEFT_BEGINS || l > 0)
            heads_deliver(args, d, l, turn, 0, lane);
        if (l == 0)
            residual_take(args, lane);
        d->seq += s->attends ? s->place.left : 0;
        pieces_merge(args, turn, lane);
        const float *const up_norm = args->layers[l].up_norm; // pointers are not kept before
        part_sync<MULTIPLYING + DELIVERING>(ROW_IS_THERE);
        stream_deliver(args, d, O, false, up_norm, WEFT__TOKEN_ROW_up, false, turn, lane);
        part_sync<MULTIPLYING + DELIVERING>(ROW_IS_THERE);
        gated_deliver(args, d, turn, lane);
        const float *const next_norm = args->layers[l].next_norm;
        part_sync<MULTIPLYING + DELIVERING>(ROW_IS_THERE);
        stream_deliver(args, d, DOWN, is_second(args, DOWN, computed_here(l)), next_norm,
                       WEFT__TOKEN_ROW_qkv, l + 1 == layers, turn + 1, lane);
    }
}

// By the second warp: half of the units of Q, K, V.
DEVICE void heads_deliver_all(const struct weft__token_args *args, int32_t lane)
{
    const struct shared *s = shared_rest();
    const int32_t layers = args->num_layers;
    struct delivery d = {0, 0};
#pragma unroll 1
    for (int32_t l = 0; l < layers; l++) {
        if (WEFT_BEGINS || l > 0)
            part_sync<MULTIPLYING + DELIVERING>(ROW_IS_THERE);
        if (l == 0)
            text_wait();
        if (WEFT_BEGINS || l > 0)
            heads_deliver(args, &d, l, s->launch * layers + l + 1, 1, lane);
        d.seq += s->attends ? s->place.left : 0;
#pragma unroll 1
        for (int32_t kind = O; kind < KINDS; kind++) {
            const bool last = l + 1 == layers, second = is_second(args, kind, l);
            part_sync<MULTIPLYING + DELIVERING>(ROW_IS_THERE);
#pragma unroll 1
            for (int32_t u = s->share[kind][0]; u < s->share[kind][1]; u++)
                unit_skip(&d, kind, last, second);
        }
    }
}

#endif
