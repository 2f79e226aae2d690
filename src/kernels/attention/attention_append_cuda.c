// SPDX-License-Identifier: MIT
// Append, attention and rounding in one launch on CUDA: attention_decode.cu with WEFT_APPEND, or attention_token.cu for the next
// token of a few sequences.
#include <stdio.h>

#include "src/kernels/attention/attention_plan_cuda.h"

enum {
    TOKEN_WARPS = WEFT__ATTENTION_TOKEN_WARPS,
    TOKEN_SPLITS = 8,  // blocks of a cluster at most; half of it at least
    TOKEN_BLOCKS = 32, // that it takes to read
    TOKEN_KEYS = 4096, // more than so many keys as fast as memory gives them
};

// Single queries: their rows fit one item, whose last tile is one warp's.
static bool can_append(const weft_attention_desc *desc, int32_t rotary_dim, int32_t group_size)
{
    bool split = desc->rope && desc->rope->style == WEFT_ROPE_SPLIT_HALF;
    return group_size <= WEFT__ATTENTION_ROWS &&
           (desc->kv.dtype == WEFT_F16 || desc->kv.dtype == WEFT_BF16) &&
           desc->q_dtype == WEFT_F32 &&
           (desc->mask == WEFT_MASK_CAUSAL || desc->mask == WEFT_MASK_FULL) &&
           (!split || rotary_dim % 4 == 0) &&
           (!(desc->flags & WEFT_ATTENTION_OUT_ROUNDED) || desc->kv.head_dim % 32 == 0);
}

// Shared memory of a block of attention_token.cu.
static int64_t token_bytes(const weft_attention_desc *desc, int32_t group_size, int32_t rotary_dim,
                           int32_t stages)
{
    const int64_t row = weft__attention_row_bytes(desc->kv.head_dim);
    const int64_t pieces = (int64_t)group_size * (desc->kv.head_dim / 32) + TOKEN_SPLITS;
    return TOKEN_WARPS * stages * 2 * WEFT__ATTENTION_KEYS * row +
           WEFT__ATTENTION_ROWS * (row + 4) + 2 * row + rotary_dim / 2 * 8 + TOKEN_WARPS * 8 +
           pieces * (32 + 2) * 4;
}

// A cluster a KV head of a sequence, as many blocks as SMs are there for; where those would be few, long contexts
// are better off with decode, which divides them among all SMs.
static void plan_token(const weft_attention_desc *desc, const struct weft__cuda_limits *limits,
                       struct weft__attention_constants constants, struct weft__cuda_choice *choice)
{
    struct weft__attention_cuda_launch *launch = choice->launch;
    const int64_t clusters = (int64_t)desc->max_seqs * launch->num_kv_heads;
    const bool plain = !constants.WEFT_ALIBI && !constants.WEFT_RING &&
                       !weft__attention_in_chunks(launch) && weft__attention_narrows(desc) &&
                       desc->kv.head_dim % 32 == 0 && desc->kv.head_dim <= 128;
    int32_t splits = TOKEN_SPLITS;
    if (clusters * splits > limits->num_sms)
        splits /= 2;
    if (!plain || limits->sm < 90 || clusters * splits > limits->num_sms ||
        (clusters * splits < TOKEN_BLOCKS && desc->max_kv_len > TOKEN_KEYS))
        return;
    for (int32_t stages = 2; stages >= 1 && !launch->token; stages--) {
        int64_t shared = token_bytes(desc, launch->group_size, constants.WEFT_ROTARY, stages);
        if (shared + 1024 > limits->shared_per_block)
            continue;
        constants.WEFT_STAGES = stages, constants.WEFT_SPLITS = splits;
        constants.WEFT_BOXES =
            weft__attention_has_boxes(desc, limits) && stages > 1; // states lie in the ring later
        launch->token_splits = splits, launch->token_shared_bytes = (uint32_t)shared;
        launch->token =
            weft__cuda_want(choice, "src/kernels/attention/attention_token.cu",
                            "weft_attention_token", WEFT__CUDA_VALUES(attention, constants));
    }
}

weft_status weft__attention_plan_append(const weft_attention_desc *desc,
                                        const struct weft__cuda_limits *limits,
                                        const struct weft__attention_constants *decode,
                                        struct weft__cuda_choice *choice)
{
    struct weft__attention_cuda_launch *launch = choice->launch;
    struct weft__attention_constants constants = *decode;
    if (desc->rope) {
        const char *why =
            weft__rope_frequencies_make(desc->rope, desc->kv.head_dim, &launch->frequencies);
        if (why) {
            snprintf(choice->text, sizeof choice->text, "attention: %.140s", why);
            return WEFT_EINVAL;
        }
    }
    if (!can_append(desc, launch->frequencies.rotary_dim, launch->group_size))
        return WEFT_OK;
    if (desc->rope) {
        choice->table = launch->frequencies.turns;
        choice->table_bytes = (size_t)launch->frequencies.rotary_dim / 2 * sizeof(double);
        choice->table_at = &launch->turns;
    }
    constants.WEFT_X_DTYPE = WEFT_F32;
    constants.WEFT_APPEND = 1, constants.WEFT_M = 1;
    constants.WEFT_ROPE = desc->rope ? (int32_t)desc->rope->style + 1 : 0;
    constants.WEFT_ROTARY = launch->frequencies.rotary_dim;
    constants.WEFT_ROUNDED = (desc->flags & WEFT_ATTENTION_OUT_ROUNDED) != 0;
    launch->append = weft__attention_want_decode(constants, weft__attention_has_boxes(desc, limits),
                                                 choice, &launch->append_boxes);
    plan_token(desc, limits, constants, choice);
    if (!launch->token)
        launch->append_filled = weft__attention_want_filled(desc, limits, constants, choice);
    if (launch->token) // for caches that lie anyhow
        choice->kernels[launch->append].lazy = true;
    if (launch->token && launch->append_boxes)
        choice->kernels[launch->append_boxes].lazy = true;
    choice->fuses = true;
    return WEFT_OK;
}
