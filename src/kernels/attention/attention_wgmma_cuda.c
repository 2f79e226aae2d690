// SPDX-License-Identifier: MIT
// Prefill by warpgroups: what attention_prefill_wgmma.cu serves, what it is compiled for, and its launch.
#include "src/kernels/attention/attention_cuda.h"

#define WGMMA_CONSTANTS(X)                                                                         \
    X(WEFT_HEAD_DIM)                                                                               \
    X(WEFT_KV_DTYPE)                                                                               \
    X(WEFT_Y_DTYPE)                                                                                \
    X(WEFT_GROUPS)                                                                                 \
    X(WEFT_KEYS)                                                                                   \
    X(WEFT_STAGES)                                                                                 \
    X(WEFT_QUERIES)                                                                                \
    X(WEFT_PAGE)                                                                                   \
    X(WEFT_BOX_ROWS)                                                                               \
    X(WEFT_SOFTCAP) X(WEFT_ALIBI)
WEFT__CUDA_CONSTANTS(attention_wgmma, WGMMA_CONSTANTS)

enum {
    GROUPS = 2, // of warps that multiply, 64 rows of queries each
    ROWS = 64 * GROUPS,
    LOADERS = 128, // threads that load
    STAGES = 2,
    BOX_LEAST = 16,      // rows
    WIDE_BOX_LEAST = 64, // of heads above 128: registers
    SET_SHARE = 2,       // of L2 holds what is read at a time
};

bool weft__attention_wgmma_serves(const weft_attention_desc *desc)
{
    const weft_kv_layout *kv = &desc->kv;
    const weft_dtype q_dtype = weft__attention_narrows(desc) ? kv->dtype : desc->q_dtype;
    return (kv->dtype == WEFT_F16 || kv->dtype == WEFT_BF16) && q_dtype == kv->dtype &&
           (kv->head_dim == 64 || kv->head_dim == 128 || kv->head_dim == 256) &&
           desc->ring_len == 0 && !weft__attention_scatters(desc) &&
           desc->max_q_tokens > desc->max_seqs && (desc->tile_rows <= 1 || desc->tile_rows > 64);
}

// Rows of a box, which lie in one page and one tile. 0: there are none, for boxes of few rows cost more than cp.async (NOTES.md).
static int32_t box_rows(const weft_attention_desc *desc, int32_t keys)
{
    int32_t rows = keys;
    while (desc->kv.page_size % rows != 0)
        rows /= 2;
    return rows < (desc->kv.head_dim > 128 ? WIDE_BOX_LEAST : BOX_LEAST) ? 0 : rows;
}

// 64s of keys, with their values, that a share of L2 holds.
static int32_t set_keys(const weft_kv_layout *kv, const struct weft__cuda_limits *limits)
{
    const int64_t bytes = (int64_t)kv->num_kv_heads * kv->head_dim * 2 * 2 * 64;
    const int64_t keys = limits->l2_bytes / SET_SHARE / bytes;
    return keys < 1 ? 1 : (int32_t)keys;
}

bool weft__attention_wgmma_plan(const weft_attention_desc *desc,
                                const struct weft__cuda_limits *limits,
                                struct weft__cuda_choice *choice)
{
    struct weft__attention_cuda_launch *launch = choice->launch;
    const int32_t keys = desc->kv.head_dim > 128 ? 64 : 128; // registers
    const struct weft__attention_wgmma_constants constants = {
        .WEFT_HEAD_DIM = desc->kv.head_dim,
        .WEFT_KV_DTYPE = (int32_t)desc->kv.dtype,
        .WEFT_Y_DTYPE = (int32_t)desc->out_dtype,
        .WEFT_GROUPS = GROUPS,
        .WEFT_KEYS = keys,
        .WEFT_STAGES = STAGES,
        .WEFT_QUERIES = desc->kv.head_dim > 128 ? 1 : 2, // shared memory
        .WEFT_PAGE = desc->kv.page_size,
        .WEFT_BOX_ROWS = box_rows(desc, keys),
        .WEFT_SOFTCAP = desc->softcap != 0,
        .WEFT_ALIBI = (desc->flags & WEFT_ATTENTION_ALIBI) != 0};
    const int32_t rows = constants.WEFT_QUERIES * ROWS + 2 * STAGES * constants.WEFT_KEYS;
    const int64_t shared = (int64_t)rows * desc->kv.head_dim * 2;
    const int64_t items = weft__attention_items_most(desc, launch->group_size, ROWS);
    if (!weft__attention_wgmma_serves(desc) || shared + 4096 > limits->shared_per_block)
        return false;
    launch->wgmma_rows = ROWS;
    launch->wgmma_box_rows = constants.WEFT_BOX_ROWS;
    launch->wgmma_shared_bytes = (uint32_t)shared;
    launch->wgmma_set_keys = set_keys(&desc->kv, limits);
    launch->wgmma_slice_blocks =
        desc->kv.head_dim <= 128 ? weft__attention_plan_slices(desc, limits->num_sms, ROWS, launch)
                                 : 0;
    launch->wgmma_blocks =
        (uint32_t)(items < limits->num_sms && !launch->wgmma_slice_blocks ? items
                                                                          : limits->num_sms);
    launch->wgmma = weft__cuda_want(choice, "src/kernels/attention/attention_prefill_wgmma.cu",
                                    "weft_attention_prefill_wgmma",
                                    WEFT__CUDA_VALUES(attention_wgmma, constants));
    return true;
}

// Does everything that 16 bytes are copied of begin at multiples of that?
static bool fits(const struct weft__attention_device_args *device)
{
    return device->aligned && (uintptr_t)device->q % 16 == 0 &&
           (device->q_token_stride | device->q_head_stride) % 8 == 0;
}

bool weft__attention_wgmma_step(const struct weft__attention_cuda_launch *launch,
                                const struct weft__attention_device_args *device,
                                struct weft__cuda_step *step)
{
    if (!launch->wgmma || !fits(device))
        return false;
    struct weft__attention_device_args own = *device;
    own.slice_blocks = launch->wgmma_slice_blocks, own.set_keys = launch->wgmma_set_keys;
    weft__cuda_step(step, launch->wgmma, launch->wgmma_blocks, 1, GROUPS * 128 + LOADERS, &own,
                    sizeof own);
    step->shared_bytes = launch->wgmma_shared_bytes;
    step->overlap = 1;
    return true;
}
