// SPDX-License-Identifier: MIT
// Decode by blocks that read whole tokens on CUDA: attention_abreast.cu.
#include "src/kernels/attention/attention_plan_cuda.h"

enum {
    STAGES = 2,
    HEADS_MOST = 8, // registers
    ASKERS = 2,     // warps
    LINE_BYTES = 128,
    SCRATCH_FLOATS = 8, // beside a row
};

// Pages of sixteens come in boxes of a KV head, which are as fast. Queries in parts, scattered keys and ALiBi would spill; a lane's part
// of a row is of 64 or 128 columns.
static bool serves(const weft_attention_desc *desc, const struct weft__cuda_limits *limits,
                   const struct weft__attention_constants *constants,
                   const struct weft__attention_cuda_launch *launch)
{
    const weft_kv_layout *kv = &desc->kv;
    return limits->sm >= 90 && launch->handed && desc->max_seqs > 1 &&
           kv->page_size % WEFT__ATTENTION_KEYS != 0 && !weft__attention_is_byte(kv) &&
           desc->window == 0 && desc->local_chunk == 0 && constants->WEFT_PARTS == 1 &&
           !constants->WEFT_SCATTER && !constants->WEFT_ALIBI && !constants->WEFT_RING &&
           (kv->head_dim == 64 || kv->head_dim == 128) && kv->num_kv_heads <= HEADS_MOST;
}

void weft__attention_plan_abreast(const weft_attention_desc *desc,
                                  const struct weft__cuda_limits *limits,
                                  struct weft__attention_constants constants,
                                  struct weft__cuda_choice *choice)
{
    struct weft__attention_cuda_launch *launch = choice->launch;
    const weft_kv_layout *kv = &desc->kv;
    // Who names the kernels of Hopper gets this one whatever the lengths.
    const bool named = desc->variant && choice->row->level == WEFT__CUDA_sm90a;
    const int64_t token = (int64_t)kv->num_kv_heads * kv->head_dim * 2;
    const int64_t least_keys =
        (int64_t)launch->thresholds.abreast_bytes * limits->num_sms / (2 * token);
    if (!named && (!least_keys || (int64_t)desc->max_seqs * desc->max_kv_len < least_keys))
        return; // no run is as large
    const int64_t shared = 2 * STAGES * WEFT__ATTENTION_KEYS * (token + LINE_BYTES) +
                           kv->num_kv_heads * (kv->head_dim + SCRATCH_FLOATS) * 4;
    if (!serves(desc, limits, &constants, launch) || shared + 1024 > limits->shared_per_block)
        return;
    constants.WEFT_ABREAST = kv->num_kv_heads;
    constants.WEFT_BOXES = 3, constants.WEFT_STAGES = STAGES, constants.WEFT_HANDED = 0;
    launch->abreast = (struct weft__attention_abreast){
        .kernel =
            weft__cuda_want(choice, "src/kernels/attention/attention_abreast.cu",
                            "weft_attention_abreast", WEFT__CUDA_VALUES(attention, constants)),
        .blocks = (uint32_t)limits->num_sms,
        .threads = (uint32_t)(kv->num_kv_heads + ASKERS) * 32,
        .shared_bytes = (uint32_t)shared,
        .end_tiles = weft__attention_tiles_of(desc, WEFT__ATTENTION_KEYS * kv->num_kv_heads,
                                              launch->thresholds.end_bytes),
        .least_keys = named ? 0 : least_keys};
}
