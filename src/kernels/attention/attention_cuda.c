// SPDX-License-Identifier: MIT
// Attention on CUDA: which kernel, and how it is launched.
#include <stdio.h>

#include "src/kernels/attention/attention_device.h"
#include "src/kernels/attention/attention_kernel.h"
#include "src/kernels/cuda/launch.h"

static const struct weft__attention_kernel rows[] = {
#define X(format, cuda_level)                                                                      \
    {.base = {"attention", "attention_" WEFT__NAME_##format "_" #cuda_level,                       \
              WEFT__CUDA_##cuda_level},                                                            \
     .kv = WEFT_##format,                                                                          \
     .tile_rows = WEFT__ATTENTION_ROWS},
#include "src/kernels/attention/attention_cuda.def"
#undef X
};
static const struct weft__kernel_table table = {"attention", rows, sizeof rows[0],
                                                sizeof rows / sizeof rows[0]};

#define CONSTANTS(X)                                                                               \
    X(WEFT_HEAD_DIM)                                                                               \
    X(WEFT_KV_DTYPE)                                                                               \
    X(WEFT_X_DTYPE)                                                                                \
    X(WEFT_Y_DTYPE)                                                                                \
    X(WEFT_PARTS) X(WEFT_STAGES) X(WEFT_KEYS) X(WEFT_PAGE) X(WEFT_SOFTCAP) X(WEFT_ALIGNED)
WEFT__CUDA_CONSTANTS(attention, CONSTANTS)

enum { BEGIN, DECODE, DECODE_UNALIGNED, KEYS = 16, WARPS = 4 };

struct launch {
    weft_mask mask;
    int32_t window, group_size, num_q_heads, num_kv_heads, page_size;
    float scale, softcap;
    bool whole_items;
    uint32_t blocks, shared_bytes;
    int64_t counters_offset; // in the workspace, behind the slots
};

static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct weft__attention_kernel *kernel = (const void *)row;
    const weft_attention_desc *desc = opaque_desc;
    const weft_kv_layout *kv = &desc->kv;
    bool plain = (kv->v_dtype == 0 || kv->v_dtype == kv->dtype) &&
                 (kv->v_dim == 0 || kv->v_dim == kv->head_dim) &&
                 (kv->inner == 0 || kv->inner == kv->head_dim) &&
                 (kv->v_inner == 0 || kv->v_inner == kv->head_dim) &&
                 kv->scaling == WEFT_KV_SCALING_NONE && kv->v_scaling == WEFT_KV_SCALING_NONE;
    bool interval = (desc->mask == WEFT_MASK_CAUSAL || desc->mask == WEFT_MASK_FULL) &&
                    desc->window_right == 0 && desc->local_chunk == 0 && desc->ring_len == 0 &&
                    (desc->flags & ~(uint32_t)WEFT_ATTENTION_BATCH_INVARIANT) == 0;
    return kernel->kv == kv->dtype && plain && interval && kv->head_dim % 8 == 0 &&
           kv->head_dim <= 256;
}

// Shared memory of a block: rings of its warps, queries in parts, states of the rows.
static int64_t shared_bytes(int32_t head_dim, int32_t parts, int32_t stages, int32_t rows_used)
{
    int64_t dim = weft__attention_padded_dim(head_dim), row = dim * 2 + 16;
    return WARPS * stages * 2 * KEYS * row + parts * WEFT__ATTENTION_ROWS * row +
           4 * WEFT__ATTENTION_ROWS + WARPS * rows_used * (dim + 4) * 4;
}

static int64_t items_most(const weft_attention_desc *desc, int32_t group_size)
{
    int64_t row_tiles = ((int64_t)desc->max_q_tokens * group_size + WEFT__ATTENTION_ROWS - 1) /
                            WEFT__ATTENTION_ROWS +
                        desc->max_seqs;
    return row_tiles * desc->kv.num_kv_heads;
}

// Ring and blocks: as many bytes under way as an SM can hold with two blocks on it.
static bool choose_shape(const weft_attention_desc *desc, const struct weft__cuda_limits *limits,
                         int32_t parts, struct launch *launch, int32_t *stages)
{
    int64_t rows_most = (int64_t)desc->max_q_tokens * launch->group_size;
    int32_t rows_used =
        rows_most < WEFT__ATTENTION_ROWS ? (int32_t)rows_most : WEFT__ATTENTION_ROWS;
    for (int32_t per_sm = 2; per_sm >= 1; per_sm--)
        for (*stages = 3; *stages >= 1; --*stages) {
            int64_t shared = shared_bytes(desc->kv.head_dim, parts, *stages, rows_used);
            if (shared > limits->shared_per_block ||
                (shared + 2048) * per_sm > limits->shared_per_sm || (per_sm == 2 && *stages == 1))
                continue;
            launch->shared_bytes = (uint32_t)shared;
            launch->blocks = (uint32_t)(limits->num_sms * per_sm);
            return true;
        }
    return false;
}

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_attention_desc *desc = opaque_desc;
    struct launch *launch = choice->launch;
    int32_t stages;
    weft_status status;
    if (!weft__cuda_choose(&table, limits, desc->variant, serves, desc, choice, &status))
        return status;
    launch->num_q_heads = desc->num_q_heads, launch->num_kv_heads = desc->kv.num_kv_heads;
    launch->group_size = desc->num_q_heads / desc->kv.num_kv_heads;
    launch->mask = desc->mask, launch->window = desc->window,
    launch->page_size = desc->kv.page_size;
    launch->scale = desc->scale, launch->softcap = desc->softcap;
    launch->whole_items = desc->flags & WEFT_ATTENTION_BATCH_INVARIANT || desc->num_splits == 1;
    weft_dtype q_dtype = desc->q_dtype ? desc->q_dtype : WEFT_F32;
    weft_dtype out_dtype = desc->out_dtype ? desc->out_dtype : WEFT_F32;
    int32_t parts = q_dtype == desc->kv.dtype ? 1 : desc->kv.dtype == WEFT_BF16 ? 3 : 2;
    int64_t items = items_most(desc, launch->group_size);
    if (items > INT32_MAX / (desc->max_kv_len / KEYS + 2) ||
        !choose_shape(desc, limits, parts, launch, &stages)) {
        snprintf(
            choice->text, sizeof choice->text,
            "attention: more tiles of %d keys than 2^31, or more shared memory than this GPU has",
            KEYS);
        return WEFT_EUNSUPPORTED;
    }
    if (launch->whole_items)
        launch->blocks = (uint32_t)items;
    struct weft__attention_constants constants = {.WEFT_HEAD_DIM = desc->kv.head_dim,
                                                  .WEFT_KV_DTYPE = (int32_t)desc->kv.dtype,
                                                  .WEFT_X_DTYPE = (int32_t)q_dtype,
                                                  .WEFT_Y_DTYPE = (int32_t)out_dtype,
                                                  .WEFT_PARTS = parts,
                                                  .WEFT_STAGES = stages,
                                                  .WEFT_KEYS = KEYS,
                                                  .WEFT_PAGE = desc->kv.page_size,
                                                  .WEFT_SOFTCAP = desc->softcap != 0,
                                                  .WEFT_ALIGNED = 1};
    struct weft__attention_constants none = {0};
    weft__cuda_want(choice, "src/kernels/attention/attention_begin.cu", "weft_attention_begin",
                    WEFT__CUDA_VALUES(attention, none));
    weft__cuda_want(choice, "src/kernels/attention/attention_decode.cu", "weft_attention_decode",
                    WEFT__CUDA_VALUES(attention, constants));
    constants.WEFT_ALIGNED = 0;
    weft__cuda_want(choice, "src/kernels/attention/attention_decode.cu", "weft_attention_decode",
                    WEFT__CUDA_VALUES(attention, constants));
    if (!launch->whole_items) {
        launch->counters_offset =
            (2 * (int64_t)launch->blocks * weft__attention_slot_floats(desc->kv.head_dim) * 4 +
             255) /
            256 * 256;
        choice->workspace_bytes = (size_t)launch->counters_offset + launch->blocks * 4;
    }
    snprintf(choice->text, sizeof choice->text, " %d/%d heads of %d, pages of %d, %u blocks%s",
             desc->num_q_heads, desc->kv.num_kv_heads, desc->kv.head_dim, desc->kv.page_size,
             launch->blocks, launch->whole_items ? ", items whole" : "");
    return WEFT_OK;
}

static struct weft__attention_device_plane plane_of(const weft_kv_plane *plane)
{
    return (struct weft__attention_device_plane){plane->data, plane->page_stride,
                                                 plane->head_stride, plane->token_stride};
}

// Do all rows of a plane of 16-bit elements begin at multiples of 16 bytes?
static bool aligned(const weft_kv_plane *plane)
{
    return (uintptr_t)plane->data % 16 == 0 &&
           (plane->page_stride | plane->head_stride | plane->token_stride) % 8 == 0;
}

static int32_t steps(const void *opaque_launch, const void *opaque_args,
                     struct weft__cuda_step *steps)
{
    const struct launch *launch = opaque_launch;
    const weft_attention_args *args = opaque_args;
    uint32_t *counters = (void *)((char *)args->workspace + launch->counters_offset);
    int32_t count = 0;
    if (!launch->whole_items) {
        struct weft__attention_begin_args begin = {counters, (int32_t)launch->blocks};
        weft__cuda_step(&steps[0], BEGIN, (launch->blocks + 255) / 256, 1, 256, &begin,
                        sizeof begin);
        steps[0].overlap = 1;
        count = 1;
    }
    struct weft__attention_device_args device = {
        .q = args->q,
        .q_token_stride = args->q_token_stride,
        .q_head_stride = args->q_head_stride,
        .out = args->out,
        .out_token_stride = args->out_token_stride,
        .out_head_stride = args->out_head_stride,
        .lse = args->lse,
        .k = plane_of(&args->pool.k),
        .v = plane_of(&args->pool.v),
        .cu_q_lens = args->cu_q_lens,
        .kv_lens = args->kv_lens,
        .page_table = args->page_starts ? args->page_indices : args->page_table,
        .page_starts = args->page_starts,
        .page_table_stride = args->page_table_stride,
        .seq_rows = args->seq_rows,
        .kv_starts = args->kv_starts,
        .slots = args->workspace,
        .counters = counters,
        .num_seqs = args->num_seqs,
        .num_q_heads = launch->num_q_heads,
        .num_kv_heads = launch->num_kv_heads,
        .group_size = launch->group_size,
        .page_size = launch->page_size,
        .causal = launch->mask == WEFT_MASK_CAUSAL,
        .window = launch->window,
        .min_share = WARPS,
        .whole_items = launch->whole_items,
        .scale = launch->scale,
        .softcap = launch->softcap};
    int32_t kernel = aligned(&args->pool.k) && aligned(&args->pool.v) ? DECODE : DECODE_UNALIGNED;
    weft__cuda_step(&steps[count], kernel, launch->blocks, 1, WARPS * 32, &device, sizeof device);
    steps[count].shared_bytes = launch->shared_bytes;
    steps[count].overlap = 1;
    return count + 1;
}

const struct weft__cuda_op weft__attention_cuda = {&table, sizeof(struct launch), plan, steps};
