// SPDX-License-Identifier: MIT
// Prefill on CUDA: the tile of attention_prefill.cu that fits, and prefill by warpgroups beside it (attention_wgmma_cuda.c).
#include "src/kernels/attention/attention_plan_cuda.h"

struct tile {
    int32_t m, keys, blocks; // 16 rows of a warp, keys, blocks on an SM
};

static int64_t prefill_bytes(const weft_kv_layout *kv, int32_t parts, struct tile tile)
{
    int64_t tile_rows = 64 * tile.m;
    return weft__attention_tiles_bytes(kv, tile.keys, 2, weft__attention_is_byte(kv)) +
           parts * tile_rows * weft__attention_row_bytes(kv->head_dim) + 4 * tile_rows;
}

// Does the descriptor ask for decode's rows, whatever the queries? Engines do where a token must not depend on how many come
// with it. (One row a tile is nothing that tensor cores have.)
static bool wants_decode(const weft_attention_desc *desc)
{
    return desc->tile_rows > 1 && desc->tile_rows <= WEFT__ATTENTION_ROWS;
}

// The largest tile whose sums, scores and queries fit, measured in NOTES.md, or that of the rows asked for.
static bool prefill_tile(const weft_attention_desc *desc, const struct weft__attention_constants *c,
                         const struct weft__cuda_limits *limits, struct tile *tile)
{
    bool wide = c->WEFT_HEAD_DIM > 128, parts = c->WEFT_PARTS > 1;
    bool prepared = c->WEFT_SOFTCAP || c->WEFT_ALIBI || c->WEFT_SCATTER;
    bool scaled = weft__attention_is_byte(&desc->kv) && c->WEFT_SCALED; // registers
    bool small = desc->tile_rows > 1 && desc->tile_rows <= 64;
    *tile = (struct tile){.m = wide || parts || scaled || small ? 1 : 2,
                          .keys = wide && parts                         ? 16
                                  : wide || parts || prepared || scaled ? 32
                                                                        : 64,
                          .blocks = wide ? 1 : 2};
    for (; tile->keys >= 16; tile->keys /= 2)
        if (prefill_bytes(&desc->kv, c->WEFT_PARTS, *tile) + 1024 <= limits->shared_per_block)
            return true;
    return false;
}

static int32_t want_prefill(struct weft__attention_constants constants, struct tile tile,
                            struct weft__cuda_choice *choice)
{
    constants.WEFT_M = tile.m, constants.WEFT_KEYS = tile.keys, constants.WEFT_BLOCKS = tile.blocks;
    if (constants.WEFT_CODES)
        constants.WEFT_CODES = 0, constants.WEFT_KV_DTYPE = WEFT_BF16;
    return weft__cuda_want(choice, "src/kernels/attention/attention_prefill.cu",
                           "weft_attention_prefill", WEFT__CUDA_VALUES(attention, constants));
}

bool weft__attention_plan_prefill(const weft_attention_desc *desc,
                                  const struct weft__cuda_limits *limits,
                                  const struct weft__attention_constants *constants,
                                  struct weft__cuda_choice *choice)
{
    struct weft__attention_cuda_launch *launch = choice->launch;
    struct tile tile;
    if (desc->max_q_tokens <= desc->max_seqs || wants_decode(desc) ||
        !prefill_tile(desc, constants, limits, &tile))
        return false;
    launch->prefill_rows = 64 * tile.m;
    const int64_t items =
        weft__attention_items_most(desc, launch->group_size, launch->prefill_rows);
    launch->slice_blocks = weft__attention_plan_slices(
        desc, limits->num_sms * (tile.m > 1 ? 1 : tile.blocks), launch->prefill_rows, launch);
    launch->prefill_blocks =
        (uint32_t)(items > launch->slice_blocks ? items : launch->slice_blocks);
    launch->prefill_shared_bytes = (uint32_t)prefill_bytes(&desc->kv, constants->WEFT_PARTS, tile);
    launch->prefill = want_prefill(*constants, tile, choice);
    if (choice->row->level == WEFT__CUDA_sm90a)
        choice->kernels[launch->prefill].lazy = weft__attention_wgmma_plan(desc, limits, choice);
    return true;
}
