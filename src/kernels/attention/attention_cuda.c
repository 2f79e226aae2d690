// SPDX-License-Identifier: MIT
// Attention on CUDA: which kernels, and how they are launched.
//
// A run is up to three launches: counters to zero, decode for sequences of few rows (queries times the query heads of
// a KV head), prefill for the others. Plans with no more queries than sequences have decode alone.
#include <stdio.h>

#include "src/kernels/attention/attention_device.h"
#include "src/kernels/attention/attention_kernel.h"
#include "src/kernels/cuda/launch.h"

enum { KV_ANY = 0, KV_F16 = WEFT_F16, KV_BF16 = WEFT_BF16 };
#define WEFT__NAME_ANY "any"

static const struct weft__attention_kernel rows[] = {
#define X(format, cuda_level)                                                                      \
    {.base = {"attention", "attention_" WEFT__NAME_##format "_" #cuda_level,                       \
              WEFT__CUDA_##cuda_level},                                                            \
     .kv = (weft_dtype)KV_##format,                                                                \
     .tile_rows = WEFT__ATTENTION_ROWS,                                                            \
     .every_mask = true,                                                                           \
     .narrow_weights = KV_##format != KV_ANY},
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
    X(WEFT_PARTS)                                                                                  \
    X(WEFT_STAGES)                                                                                 \
    X(WEFT_KEYS)                                                                                   \
    X(WEFT_PAGE)                                                                                   \
    X(WEFT_SOFTCAP) X(WEFT_ALIBI) X(WEFT_RING) X(WEFT_SCATTER) X(WEFT_M) X(WEFT_BLOCKS)
WEFT__CUDA_CONSTANTS(attention, CONSTANTS)

#define ANY_CONSTANTS(X)                                                                           \
    X(WEFT_HEAD_DIM)                                                                               \
    X(WEFT_V_DIM)                                                                                  \
    X(WEFT_ROWS)                                                                                   \
    X(WEFT_KEYS)                                                                                   \
    X(WEFT_K_FORMAT)                                                                               \
    X(WEFT_K_ELEMS)                                                                                \
    X(WEFT_K_BYTES)                                                                                \
    X(WEFT_K_INNER)                                                                                \
    X(WEFT_V_FORMAT)                                                                               \
    X(WEFT_V_ELEMS)                                                                                \
    X(WEFT_V_BYTES)                                                                                \
    X(WEFT_V_INNER)                                                                                \
    X(WEFT_X_DTYPE)                                                                                \
    X(WEFT_Y_DTYPE)                                                                                \
    X(WEFT_PAGE) X(WEFT_SOFTCAP) X(WEFT_ALIBI) X(WEFT_RING) X(WEFT_SCATTER)
WEFT__CUDA_CONSTANTS(attention_any, ANY_CONSTANTS)

enum {
    KEYS = 16, // of a tile of decode
    WARPS = 4,
    FEW_ROWS = 16, // sequences of at most so many are decode's, others prefill's
    EVERY_ROW = 0x7fffffff,
};

enum { BEGIN, DECODE, PREFILL, ANY = DECODE };

struct launch {
    weft_mask mask;
    int32_t window, window_right, local_chunk, ring_len;
    int32_t group_size, num_q_heads, num_kv_heads;
    float scale, softcap;
    bool whole_items, any;
    uint32_t blocks, shared_bytes;
    int32_t slot_rows;
    int64_t counters_offset;                       // in the workspace, behind the slots
    uint32_t prefill_blocks, prefill_shared_bytes; // 0: decode serves every sequence
};

// What the kernels are compiled for, the shapes of tiles apart.
static struct weft__attention_constants constants_of(const weft_attention_desc *desc)
{
    weft_dtype q_dtype = desc->q_dtype ? desc->q_dtype : WEFT_F32;
    return (struct weft__attention_constants){
        .WEFT_HEAD_DIM = desc->kv.head_dim,
        .WEFT_KV_DTYPE = (int32_t)desc->kv.dtype,
        .WEFT_X_DTYPE = (int32_t)q_dtype,
        .WEFT_Y_DTYPE = (int32_t)(desc->out_dtype ? desc->out_dtype : WEFT_F32),
        .WEFT_PARTS = q_dtype == desc->kv.dtype ? 1 : 3,
        .WEFT_PAGE = desc->kv.page_size,
        .WEFT_SOFTCAP = desc->softcap != 0,
        .WEFT_ALIBI = (desc->flags & WEFT_ATTENTION_ALIBI) != 0,
        .WEFT_RING = desc->ring_len > 0,
        .WEFT_SCATTER = desc->mask == WEFT_MASK_TREE || desc->mask == WEFT_MASK_BITS};
}

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
    const uint32_t known = WEFT_ATTENTION_BATCH_INVARIANT | WEFT_ATTENTION_SINKS |
                           WEFT_ATTENTION_ALIBI; // no mask values, no sparse blocks
    if ((desc->flags & ~known) != 0 || desc->q_dtype == WEFT_FP8_E4M3 ||
        desc->q_dtype == WEFT_FP8_E5M2)
        return false;
    return !kernel->kv ||
           (kernel->kv == kv->dtype && plain && kv->head_dim % 8 == 0 && kv->head_dim <= 256);
}

// --- decode ---------------------------------------------------------------------------------------

static int64_t row_bytes(int32_t head_dim)
{
    return weft__attention_padded_dim(head_dim) * 2 + 16;
}

// Shared memory of a block: rings of its warps, queries in parts, states of the rows.
static int64_t decode_bytes(int32_t head_dim, int32_t parts, int32_t stages, int32_t rows_used)
{
    int64_t row = row_bytes(head_dim);
    return WARPS * stages * 2 * KEYS * row + parts * WEFT__ATTENTION_ROWS * row +
           4 * WEFT__ATTENTION_ROWS +
           WARPS * rows_used * (weft__attention_padded_dim(head_dim) + 4) * 4;
}

// Items of tiles of `rows` rows that a run has at most.
static int64_t items_most(const weft_attention_desc *desc, int32_t group_size, int32_t rows_of_tile)
{
    int64_t row_tiles =
        ((int64_t)desc->max_q_tokens * group_size + rows_of_tile - 1) / rows_of_tile +
        desc->max_seqs;
    return row_tiles * desc->kv.num_kv_heads;
}

// Ring and blocks: as many bytes under way as an SM can hold with two blocks on it.
static bool decode_shape(const weft_attention_desc *desc, const struct weft__cuda_limits *limits,
                         int32_t parts, struct launch *launch, int32_t *stages)
{
    for (int32_t per_sm = 2; per_sm >= 1; per_sm--)
        for (*stages = 3; *stages >= 1; --*stages) {
            int64_t shared = decode_bytes(desc->kv.head_dim, parts, *stages, launch->slot_rows);
            if (shared + 1024 > limits->shared_per_block ||
                (shared + 2048) * per_sm > limits->shared_per_sm || (per_sm == 2 && *stages == 1))
                continue;
            // not more blocks on an SM than meant: those of the next run would crowd where this one ends first
            int64_t least = limits->shared_per_sm / (per_sm + 1);
            launch->shared_bytes =
                (uint32_t)(shared < least && least + 1024 <= limits->shared_per_block ? least
                                                                                      : shared);
            launch->blocks = (uint32_t)(limits->num_sms * per_sm);
            return true;
        }
    return false;
}

// Two slots a block, and its counter.
static void plan_workspace(int64_t slot_floats, int64_t items, struct launch *launch,
                           struct weft__cuda_choice *choice)
{
    if (launch->whole_items) {
        launch->blocks = (uint32_t)items;
        return;
    }
    int64_t slots = 2 * (int64_t)launch->blocks * slot_floats * 4;
    launch->counters_offset = (slots + 255) / 256 * 256;
    choice->workspace_bytes = (size_t)launch->counters_offset + launch->blocks * sizeof(uint32_t);
}

static void want_decode(struct weft__attention_constants constants, int32_t stages,
                        struct weft__cuda_choice *choice)
{
    constants.WEFT_STAGES = stages, constants.WEFT_KEYS = KEYS;
    weft__cuda_want(choice, "src/kernels/attention/attention_decode.cu", "weft_attention_decode",
                    WEFT__CUDA_VALUES(attention, constants));
}

// --- prefill --------------------------------------------------------------------------------------

struct tile {
    int32_t m, keys, blocks; // 16 rows of a warp, keys, blocks on an SM
};

static int64_t prefill_bytes(int32_t head_dim, int32_t parts, struct tile tile)
{
    int64_t row = row_bytes(head_dim), tile_rows = 64 * tile.m;
    return 4 * tile.keys * row + parts * tile_rows * row + 4 * tile_rows;
}

// The largest tile whose sums, scores and queries fit; measured in NOTES.md.
static bool prefill_tile(const struct weft__attention_constants *c,
                         const struct weft__cuda_limits *limits, struct tile *tile)
{
    bool wide = c->WEFT_HEAD_DIM > 128, parts = c->WEFT_PARTS > 1;
    bool prepared = c->WEFT_SOFTCAP || c->WEFT_ALIBI || c->WEFT_SCATTER;
    *tile = (struct tile){.m = wide || parts ? 1 : 2,
                          .keys = wide && parts               ? 16
                                  : wide || parts || prepared ? 32
                                                              : 64,
                          .blocks = wide ? 1 : 2};
    for (; tile->keys >= 16; tile->keys /= 2)
        if (prefill_bytes(c->WEFT_HEAD_DIM, c->WEFT_PARTS, *tile) + 1024 <=
            limits->shared_per_block)
            return true;
    return false;
}

static void want_prefill(struct weft__attention_constants constants, struct tile tile,
                         struct weft__cuda_choice *choice)
{
    constants.WEFT_M = tile.m, constants.WEFT_KEYS = tile.keys, constants.WEFT_BLOCKS = tile.blocks;
    weft__cuda_want(choice, "src/kernels/attention/attention_prefill.cu", "weft_attention_prefill",
                    WEFT__CUDA_VALUES(attention, constants));
}

// --- any format -----------------------------------------------------------------------------------

static struct weft__attention_any_constants any_constants(const weft_attention_desc *desc)
{
    struct weft__attention_constants c = constants_of(desc);
    const weft_kv_layout *kv = &desc->kv;
    weft_dtype v_dtype = kv->v_dtype ? kv->v_dtype : kv->dtype;
    int32_t v_dim = kv->v_dim ? kv->v_dim : kv->head_dim;
    int32_t wide = v_dim > kv->head_dim ? v_dim : kv->head_dim;
    return (struct weft__attention_any_constants){
        .WEFT_HEAD_DIM = kv->head_dim,
        .WEFT_V_DIM = v_dim,
        .WEFT_ROWS = wide > 512 ? 8 : 16,
        .WEFT_KEYS = wide > 256 ? 16 : 32,
        .WEFT_K_FORMAT = (int32_t)kv->dtype,
        .WEFT_K_ELEMS = (int32_t)weft_dtype_block_elems(kv->dtype),
        .WEFT_K_BYTES = (int32_t)weft_dtype_block_bytes(kv->dtype),
        .WEFT_K_INNER = kv->inner ? kv->inner : kv->head_dim,
        .WEFT_V_FORMAT = (int32_t)v_dtype,
        .WEFT_V_ELEMS = (int32_t)weft_dtype_block_elems(v_dtype),
        .WEFT_V_BYTES = (int32_t)weft_dtype_block_bytes(v_dtype),
        .WEFT_V_INNER = kv->v_inner ? kv->v_inner : v_dim,
        .WEFT_X_DTYPE = c.WEFT_X_DTYPE,
        .WEFT_Y_DTYPE = c.WEFT_Y_DTYPE,
        .WEFT_PAGE = c.WEFT_PAGE,
        .WEFT_SOFTCAP = c.WEFT_SOFTCAP,
        .WEFT_ALIBI = c.WEFT_ALIBI,
        .WEFT_RING = c.WEFT_RING,
        .WEFT_SCATTER = c.WEFT_SCATTER};
}

static weft_status plan_any(const weft_attention_desc *desc, const struct weft__cuda_limits *limits,
                            struct weft__cuda_choice *choice)
{
    struct launch *launch = choice->launch;
    struct weft__attention_constants none = {0};
    struct weft__attention_any_constants c = any_constants(desc);
    int32_t wide = c.WEFT_V_DIM > c.WEFT_HEAD_DIM ? c.WEFT_V_DIM : c.WEFT_HEAD_DIM;
    int64_t items = items_most(desc, launch->group_size, c.WEFT_ROWS);
    launch->any = true;
    launch->shared_bytes =
        (uint32_t)(4 * (c.WEFT_ROWS * (c.WEFT_HEAD_DIM + 1) + c.WEFT_KEYS * (wide + 1)));
    if (items > INT32_MAX / (desc->max_kv_len / c.WEFT_KEYS + 2) ||
        (int64_t)launch->shared_bytes + 4096 > limits->shared_per_block) {
        snprintf(
            choice->text, sizeof choice->text,
            "attention: more tiles of %d keys than 2^31, or more shared memory than this GPU has",
            c.WEFT_KEYS);
        return WEFT_EUNSUPPORTED;
    }
    int64_t per_sm = limits->shared_per_sm / ((int64_t)launch->shared_bytes + 4096);
    launch->blocks = (uint32_t)(limits->num_sms * (per_sm > 2 ? 2 : per_sm));
    weft__cuda_want(choice, "src/kernels/attention/attention_begin.cu", "weft_attention_begin",
                    WEFT__CUDA_VALUES(attention, none));
    weft__cuda_want(choice, "src/kernels/attention/attention_any.cu", "weft_attention_any",
                    WEFT__CUDA_VALUES(attention_any, c));
    plan_workspace((int64_t)c.WEFT_ROWS * (c.WEFT_V_DIM + 2), items, launch, choice);
    snprintf(choice->text, sizeof choice->text, " %d/%d heads of %d/%d, pages of %d, %u blocks%s",
             desc->num_q_heads, desc->kv.num_kv_heads, c.WEFT_HEAD_DIM, c.WEFT_V_DIM,
             desc->kv.page_size, launch->blocks, launch->whole_items ? ", items whole" : "");
    return WEFT_OK;
}

// --- plan and steps -------------------------------------------------------------------------------

static void plan_launch(const weft_attention_desc *desc, struct launch *launch)
{
    launch->num_q_heads = desc->num_q_heads, launch->num_kv_heads = desc->kv.num_kv_heads;
    launch->group_size = desc->num_q_heads / desc->kv.num_kv_heads;
    launch->mask = desc->mask, launch->window = desc->window;
    launch->window_right = desc->window_right, launch->local_chunk = desc->local_chunk;
    launch->ring_len = desc->ring_len;
    launch->scale = desc->scale, launch->softcap = desc->softcap;
    launch->whole_items = desc->flags & WEFT_ATTENTION_BATCH_INVARIANT || desc->num_splits == 1;
    int64_t rows_most = (int64_t)desc->max_q_tokens * launch->group_size;
    launch->slot_rows =
        rows_most < WEFT__ATTENTION_ROWS ? (int32_t)rows_most : WEFT__ATTENTION_ROWS;
}

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_attention_desc *desc = opaque_desc;
    struct launch *launch = choice->launch;
    struct weft__attention_constants none = {0}, constants = constants_of(desc);
    struct tile tile;
    int32_t stages;
    weft_status status;
    if (!weft__cuda_choose(&table, limits, desc->variant, serves, desc, choice, &status))
        return status;
    plan_launch(desc, launch);
    if (((const struct weft__attention_kernel *)(const void *)choice->row)->kv == 0)
        return plan_any(desc, limits, choice);
    int64_t items = items_most(desc, launch->group_size, WEFT__ATTENTION_ROWS);
    if (items > INT32_MAX / (desc->max_kv_len / KEYS + 2) ||
        !decode_shape(desc, limits, constants.WEFT_PARTS, launch, &stages)) {
        snprintf(
            choice->text, sizeof choice->text,
            "attention: more tiles of %d keys than 2^31, or more shared memory than this GPU has",
            KEYS);
        return WEFT_EUNSUPPORTED;
    }
    bool prefill = desc->max_q_tokens > desc->max_seqs && prefill_tile(&constants, limits, &tile);
    weft__cuda_want(choice, "src/kernels/attention/attention_begin.cu", "weft_attention_begin",
                    WEFT__CUDA_VALUES(attention, none));
    want_decode(constants, stages, choice);
    plan_workspace(weft__attention_slot_floats(desc->kv.head_dim, launch->slot_rows), items, launch,
                   choice);
    if (prefill) {
        launch->prefill_blocks = (uint32_t)items_most(desc, launch->group_size, 64 * tile.m);
        launch->prefill_shared_bytes =
            (uint32_t)prefill_bytes(desc->kv.head_dim, constants.WEFT_PARTS, tile);
        want_prefill(constants, tile, choice);
    }
    snprintf(choice->text, sizeof choice->text, " %d/%d heads of %d, pages of %d, %u blocks%s%s",
             desc->num_q_heads, desc->kv.num_kv_heads, desc->kv.head_dim, desc->kv.page_size,
             launch->blocks, launch->whole_items ? ", items whole" : "",
             prefill ? ", prefill" : "");
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

// Does a run want prefill? Decode serves every sequence where there seems to be none for it, so a recorded run
// stays right whatever it is launched with.
static bool prefills(const struct launch *launch, const weft_attention_args *args)
{
    uint64_t tokens = args->reserved[WEFT__CUDA_BATCH_TOKENS];
    return launch->prefill_blocks && (tokens == 0 || tokens > (uint64_t)args->num_seqs);
}

static struct weft__attention_device_args device_args(const struct launch *launch,
                                                      const weft_attention_args *args)
{
    return (struct weft__attention_device_args){
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
        .sinks = args->sinks,
        .alibi_slopes = args->alibi_slopes,
        .tree_parents = args->tree_parents,
        .mask_columns = args->mask_columns,
        .mask_bits = args->mask_bits,
        .mask_stride = args->mask_stride,
        .slots = args->workspace,
        .counters = (void *)((char *)args->workspace + launch->counters_offset),
        .num_seqs = args->num_seqs,
        .num_q_heads = launch->num_q_heads,
        .num_kv_heads = launch->num_kv_heads,
        .group_size = launch->group_size,
        .mask = (int32_t)launch->mask,
        .window = launch->window,
        .window_right = launch->window_right,
        .local_chunk = launch->local_chunk,
        .ring_len = launch->ring_len,
        .min_share = WARPS,
        .slot_rows = launch->slot_rows,
        .aligned = aligned(&args->pool.k) && aligned(&args->pool.v),
        .whole_items = launch->whole_items,
        .least_rows = 1,
        .most_rows = prefills(launch, args) ? FEW_ROWS : EVERY_ROW,
        .scale = launch->scale,
        .softcap = launch->softcap};
}

static struct weft__attention_any_plane any_plane(const weft_kv_plane *plane)
{
    return (struct weft__attention_any_plane){plane->scales,
                                              plane->scale_seq_stride,
                                              plane->scale_page_stride,
                                              plane->scale_head_stride,
                                              plane->scale_token_stride,
                                              plane->inner_stride};
}

static void any_step(const struct launch *launch, const weft_attention_args *args,
                     const struct weft__attention_device_args *device, struct weft__cuda_step *step)
{
    struct weft__attention_any_args any = {*device, any_plane(&args->pool.k),
                                           any_plane(&args->pool.v)};
    weft__cuda_step(step, ANY, launch->blocks, 1, WARPS * 32, &any, sizeof any);
    step->shared_bytes = launch->shared_bytes;
    step->overlap = 1;
}

static int32_t steps(const void *opaque_launch, const void *opaque_args,
                     struct weft__cuda_step *steps)
{
    const struct launch *launch = opaque_launch;
    const weft_attention_args *args = opaque_args;
    struct weft__attention_device_args device = device_args(launch, args);
    int32_t count = 0;
    if (!launch->whole_items) {
        struct weft__attention_begin_args begin = {device.counters, (int32_t)launch->blocks};
        weft__cuda_step(&steps[count], BEGIN, (launch->blocks + 255) / 256, 1, 256, &begin,
                        sizeof begin);
        steps[count++].overlap = 1;
    }
    if (launch->any) {
        any_step(launch, args, &device, &steps[count]);
        return count + 1;
    }
    weft__cuda_step(&steps[count], DECODE, launch->blocks, 1, WARPS * 32, &device, sizeof device);
    steps[count].shared_bytes = launch->shared_bytes;
    steps[count++].overlap = 1;
    if (prefills(launch, args)) {
        device.least_rows = FEW_ROWS + 1, device.most_rows = EVERY_ROW, device.whole_items = 1;
        weft__cuda_step(&steps[count], PREFILL, launch->prefill_blocks, 1, WARPS * 32, &device,
                        sizeof device);
        steps[count].shared_bytes = launch->prefill_shared_bytes;
        steps[count++].overlap = 1;
    }
    return count;
}

const struct weft__cuda_op weft__attention_cuda = {&table, sizeof(struct launch), plan, steps};
