// SPDX-License-Identifier: MIT
// The order of items where blocks stay and each takes every so many: the longest first, so that all have equal work. 32 sequences at a time
// are kept in shared memory, for a block's items are found one by one, beside its work: by one warp, and in the order of their numbers.
#ifndef WEFT_KERNELS_ATTENTION_LONGEST_CUH
#define WEFT_KERNELS_ATTENTION_LONGEST_CUH

#include "src/kernels/attention/attention_prefill.cuh"

// A scan, and for each of its sequences which set it belongs to and the level of its first rows (item_place_kept()).
struct kept {
    struct sequence own[WARP];
    int32_t sum[WARP], set[WARP], first[WARP];
    int32_t number, before, total; // of the scan, -1: none yet; items ahead of its, of its own
};

DEVICE struct kept *shared_kept()
{
    __shared__ struct kept kept;
    return &kept;
}

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

DEVICE void scan_keep(const struct weft__attention_device_args *args, const struct scan *scan,
                      int32_t number, int32_t before, int32_t lane)
{
    struct kept *kept = shared_kept();
    const struct lengths lengths = scan->own.lengths;
    const int32_t set = set_of(args, scan, lane), total = scan_total(scan);
    __syncwarp();
    kept->own[lane] = scan->own, kept->sum[lane] = scan->sum, kept->set[lane] = set;
    kept->first[lane] = max(lengths.kv_len - lengths.q_len, 0) / max(ROWS / args->group_size, 1);
    if (lane == 0)
        kept->number = number, kept->before = before, kept->total = total;
    __syncwarp();
}

// Item `index`, which is among the kept sequences'. Of a set of sequences the longest items come first, by the keys before their rows: tiles
// of rows are levels, and a level has an item for every KV head of every sequence that has rows there.
DEVICE void item_place_kept(const struct weft__attention_device_args *args, int32_t index,
                            int32_t lane, struct place *at)
{
    const struct kept *kept = shared_kept();
    const int32_t heads = args->num_kv_heads, set = kept->set[lane], before = kept->before;
    const uint32_t behind = __ballot_sync(0xffffffffu, before + kept->sum[lane] > index);
    const int32_t now = kept->set[__ffs((int32_t)behind) - 1];
    const int32_t first = kept->first[lane], items = kept->own[lane].items;
    const int32_t tiles = set == now ? items / heads : 0; // of rows
    const int32_t rank = index - before - warp_total(set < now ? items : 0);
    // The last level up to which there are more than `rank` items; `above` it are so many.
    int32_t level = 0, end = (int32_t)warp_most((uint32_t)(first + tiles)), above = 0;
    while (end - level > 1) {
        const int32_t middle = level + (end - level) / 2;
        const int32_t most = heads * warp_total(max(min(first + tiles - middle, tiles), 0));
        if (most > rank)
            level = middle;
        else
            end = middle, above = most;
    }
    const bool has = level >= first && level < first + tiles;
    const uint32_t all = __ballot_sync(0xffffffffu, has);
    const int32_t number = (rank - above) / heads; // of those sequences
    const bool own = has && __popc(all & ((1u << lane) - 1)) == number;
    const int32_t holder = __ffs((int32_t)__ballot_sync(0xffffffffu, own)) - 1;
    at->seq = kept->own[holder];
    at->tile = 0;
    at->row_tile = level - kept->first[holder];
    at->kv_head = rank - above - number * heads;
}

DEVICE bool item_place(const struct weft__attention_device_args *args, struct place *at,
                       int32_t index, const struct scan *scan, int32_t before, int32_t lane)
{
    if (index - before >= scan_total(scan))
        return false;
    const int32_t seq = __shfl_sync(0xffffffffu, scan->own.lengths.seq, 0);
    scan_keep(args, scan, seq / WARP, before, lane);
    item_place_kept(args, index, lane, at);
    return true;
}

// Item `index` of the list of all items, none before that of the last call. False behind the last.
DEVICE bool item_place_next(const struct weft__attention_device_args *args, int32_t index,
                            int32_t lane, struct place *at)
{
    const struct kept *kept = shared_kept();
    while (index >= kept->before + kept->total) {
        const int32_t number = kept->number + 1, before = kept->before + kept->total;
        if (number * WARP >= args->num_seqs)
            return false;
        const struct scan scan = scan_of(args, number, lane);
        scan_keep(args, &scan, number, before, lane);
    }
    item_place_kept(args, index, lane, at);
    return true;
}

#endif
