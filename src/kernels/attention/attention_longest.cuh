// SPDX-License-Identifier: MIT
// The order of items where blocks stay and each takes every so many: the longest first, so that all have equal work.
#ifndef WEFT_KERNELS_ATTENTION_LONGEST_CUH
#define WEFT_KERNELS_ATTENTION_LONGEST_CUH

#include "src/kernels/attention/attention_prefill.cuh"

// Which of a scan's sequences are read at the same time: as few sets of neighbours as have `set_keys` 64s of keys each, which is what L2
// holds. The number of the lane's.
DEVICE int32_t set_of(const struct weft__attention_device_args *args, const struct scan *scan,
                      int32_t lane)
{
    const int32_t keys = scan->own.items > 0 ? scan->own.lengths.kv_len / 64 + 1 : 0;
    const int32_t sum = scan_sum(keys, lane), total = __shfl_sync(0xffffffffu, sum, WARP - 1);
    if (total <= args->set_keys)
        return 0;
    const int32_t sets = (total + args->set_keys - 1) / args->set_keys;
    return (sum - keys) / ((total + sets - 1) / sets);
}

// Of a set of sequences the longest items come first, by the keys before their rows: tiles of rows are levels, and a level has an item for
// every KV head of every sequence that has rows there.
DEVICE bool item_place(const struct weft__attention_device_args *args, struct place *at,
                       int32_t index, const struct scan *scan, int32_t before, int32_t lane)
{
    const uint32_t behind = __ballot_sync(0xffffffffu, before + scan->sum > index);
    if (!behind)
        return false;
    const int32_t heads = args->num_kv_heads, set = set_of(args, scan, lane);
    const int32_t now = __shfl_sync(0xffffffffu, set, __ffs((int32_t)behind) - 1);
    const int32_t tiles = set == now ? scan->own.items / heads : 0; // of rows
    const struct lengths lengths = scan->own.lengths;
    const int32_t first = // level
        max(lengths.kv_len - lengths.q_len, 0) / max(ROWS / args->group_size, 1);
    const int32_t rank = index - before - warp_total(set < now ? scan->own.items : 0);
    // The last level up to which there are more than `rank` items; `above` it are so many.
    int32_t level = 0, end = (int32_t)warp_most((uint32_t)(first + tiles)), above = 0;
    while (end - level > 1) {
        const int32_t middle = level + (end - level) / 2;
        const int32_t items = heads * warp_total(max(min(first + tiles - middle, tiles), 0));
        if (items > rank)
            level = middle;
        else
            end = middle, above = items;
    }
    const bool has = level >= first && level < first + tiles;
    const uint32_t all = __ballot_sync(0xffffffffu, has);
    const int32_t number = (rank - above) / heads; // of those sequences
    const bool own = has && __popc(all & ((1u << lane) - 1)) == number;
    const int32_t holder = __ffs((int32_t)__ballot_sync(0xffffffffu, own)) - 1;
    if (HEAD > 128) // a trip to memory more, registers less
        at->seq = sequence_of(args, __shfl_sync(0xffffffffu, lengths.seq, holder));
    else
        at->seq = sequence_shuffle(&scan->own, holder);
    at->tile = 0;
    at->row_tile = level - __shfl_sync(0xffffffffu, first, holder);
    at->kv_head = (rank - above) % heads;
    return true;
}

#endif
