// SPDX-License-Identifier: MIT
// The ring of attention_abreast.cu: tiles of whole tokens on their way to shared memory, a box a token, of keys that one warp asks for and of
// values that another does. It runs ahead of the work, over the ends of items.
#ifndef WEFT_KERNELS_ATTENTION_ABREAST_ASK_CUH
#define WEFT_KERNELS_ATTENTION_ABREAST_ASK_CUH

#include "src/kernels/attention/attention_rows.cuh"
#include "src/kernels/cuda/bulk.cuh"
#include "src/kernels/cuda/memory.cuh"

// Where the next tile lies, or will. Of a stage, keys (plane 0) and values (1) have two barriers each: they have come; the warps have
// read them.
struct stage {
    int32_t number;
    uint32_t parity; // of the barrier that is waited for
};

DEVICE uint32_t shared_barriers()
{
    __shared__ uint64_t barriers[4 * WEFT_STAGES];
    return shared_address(barriers);
}

DEVICE uint32_t stage_full(const struct stage *stage, int32_t plane)
{
    return shared_barriers() + 8 * (2 * stage->number + plane);
}

DEVICE uint32_t stage_empty(const struct stage *stage, int32_t plane)
{
    return stage_full(stage, plane) + 8 * 2 * WEFT_STAGES;
}

DEVICE void stage_next(struct stage *stage)
{
    if (++stage->number == WEFT_STAGES)
        stage->number = 0, stage->parity ^= 1;
}

// Pages of the tokens of two tiles, one a lane, from `tile` on.
DEVICE int32_t pages_of_two(const struct sequence *seq, int32_t tile, int32_t end, int32_t lane)
{
    const int32_t own = tile + lane / KEYS, key = seq->begin + own * KEYS + lane % KEYS;
    return own < end && key >= seq->first_key && key < seq->end_key ? seq->pages[key / PAGE] : 0;
}

// Asks for keys (plane 0) or values (1) of the tile that begins with key `first`, a box a token and lane.
DEVICE void plane_ask(const struct weft__attention_device_args *args, const struct sequence *seq,
                      const struct stage *stage, int32_t first, int32_t page, int32_t plane,
                      int32_t lane)
{
    const int32_t key = first + lane;
    const bool seen = lane < KEYS && key >= seq->first_key && key < seq->end_key;
    const uint32_t count = (uint32_t)__popc(__ballot_sync(0xffffffffu, seen));
    const uint32_t to = shared_address(shared_memory()) +
                        (uint32_t)(stage->number * STAGE_BYTES + plane * PLANE_BYTES);
    barrier_wait(stage_empty(stage, plane), stage->parity);
    if (lane == 0)
        barrier_expect(stage_full(stage, plane), count * TOKEN_BYTES);
    __syncwarp();
    if (seen)
        copy_box_of_pile(to + (uint32_t)lane * TOKEN_APART, plane ? args->v_map : args->k_map, 0,
                         key % PAGE, 0, page, stage_full(stage, plane));
    __syncwarp();
}

// The queries of an item are on their way to L2 when its first keys are.
DEVICE void queries_near(const struct weft__attention_device_args *args, const struct place *at,
                         int32_t lane)
{
    const struct rows rows = rows_of(args, at);
    for (int32_t i = lane; i < rows.count * HEADS; i += WARP) {
        struct row row = row_at(args, rows, i % rows.count);
        row.head += i / rows.count * args->group_size;
        for (int32_t d = 0; d < HEAD; d += 64)
            prefetch_l2((const uint16_t *)args->q + query_at(args, at->seq.lengths, row) + d);
    }
}

// Asks for a plane of all tiles of the share from `at` on, and knows the item behind the one that it asks for, so that an end takes no trip to memory.
// Keys of the run's own tokens are there when the launch before has ended.
DEVICE void tokens_ask(const struct weft__attention_device_args *args, struct place at,
                       int32_t plane, int32_t lane)
{
    // the first requests, as many as stages, go round once before anything is waited for
    struct stage stage = {0, 1};
    bool waited = !args->early;
    int32_t count = place_tiles(&at);
    int32_t later = pages_of_two(&at.seq, at.tile, at.tile + count, lane);
    while (at.left > 0) {
        const struct sequence *const seq = &at.seq;
        const int32_t end = at.tile + count, looks = min(count - 1, WEFT_STAGES - 1);
        int32_t page = 0, next_count = 0, next_later = 0;
        struct place next = at;
        for (int32_t i = 0; i < count; i++) {
            const int32_t tile = at.tile + i;
            if (i % 2 == 0)
                page = later, later = pages_of_two(seq, tile + 2, end, lane);
            if (!waited &&
                seq->begin + (tile + 1) * KEYS > seq->lengths.kv_len - seq->lengths.q_len)
                wait_for_previous(), waited = true;
            plane_ask(args, seq, &stage, seq->begin + tile * KEYS,
                      __shfl_sync(0xffffffffu, page, i % 2 * KEYS + lane % KEYS), plane, lane);
            stage_next(&stage);
            if (i != looks)
                continue;
            place_advance(args, &next, count);
            if (next.left == 0)
                continue;
            next_count = place_tiles(&next);
            next_later = pages_of_two(&next.seq, next.tile, next.tile + next_count, lane);
            if (plane == 0)
                queries_near(args, &next, lane);
        }
        at = next, count = next_count, later = next_later;
    }
}

#endif
