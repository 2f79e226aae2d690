// SPDX-License-Identifier: MIT
// Attention on CUDA: which kernels, and how they are launched.
//
// A run is up to three launches: counters to zero, decode for sequences of few rows (queries times the query heads of
// a KV head), prefill for the others. Plans with no more queries than sequences have decode alone.
#include <stdio.h>

#include "src/kernels/attention/attention_cuda.h"

enum {
    KV_ANY = 0,
    KV_F32 = WEFT_F32,
    KV_F16 = WEFT_F16,
    KV_BF16 = WEFT_BF16,
    KV_INT8 = WEFT_INT8,
    KV_FP8_E4M3 = WEFT_FP8_E4M3,
    KV_FP8_E5M2 = WEFT_FP8_E5M2
};
#define WEFT__NAME_ANY      "any"
#define WEFT__NAME_INT8     "int8"
#define WEFT__NAME_FP8_E4M3 "fp8_e4m3"
#define WEFT__NAME_FP8_E5M2 "fp8_e5m2"

struct cuda_row {
    struct weft__attention_kernel kernel;
    const char *single; // its function of attention_single.cu, or NULL
};

static const struct cuda_row rows[] = {
#define X(format, cuda_level)                                                                      \
    {.kernel = {.base = {"attention", "attention_" WEFT__NAME_##format "_" #cuda_level,            \
                         WEFT__CUDA_##cuda_level},                                                 \
                .kv = (weft_dtype)KV_##format,                                                     \
                .tile_rows = WEFT__ATTENTION_ROWS,                                                 \
                .every_mask = true,                                                                \
                .narrow_weights = KV_##format != KV_ANY}},
#define SINGLE(function, format, cuda_level)                                                       \
    {.kernel = {.base = {"attention",                                                              \
                         "attention_" #function "_" WEFT__NAME_##format "_" #cuda_level,           \
                         WEFT__CUDA_##cuda_level},                                                 \
                .kv = (weft_dtype)KV_##format,                                                     \
                .tile_rows = 1,                                                                    \
                .every_mask = true},                                                               \
     .single = "weft_attention_" #function},
#include "src/kernels/attention/attention_cuda.def"
#undef X
#undef SINGLE
};
static const struct weft__kernel_table table = {"attention", rows, sizeof rows[0],
                                                sizeof rows / sizeof rows[0]};

#define CONSTANTS(X)                                                                               \
    X(WEFT_HEAD_DIM)                                                                               \
    X(WEFT_CACHE)                                                                                  \
    X(WEFT_SCALED)                                                                                 \
    X(WEFT_KV_DTYPE)                                                                               \
    X(WEFT_X_DTYPE)                                                                                \
    X(WEFT_Y_DTYPE)                                                                                \
    X(WEFT_PARTS)                                                                                  \
    X(WEFT_STAGES)                                                                                 \
    X(WEFT_KEYS)                                                                                   \
    X(WEFT_PAGE)                                                                                   \
    X(WEFT_SOFTCAP)                                                                                \
    X(WEFT_ALIBI)                                                                                  \
    X(WEFT_RING)                                                                                   \
    X(WEFT_SCATTER)                                                                                \
    X(WEFT_SPARSE)                                                                                 \
    X(WEFT_M)                                                                                      \
    X(WEFT_BLOCKS) X(WEFT_APPEND) X(WEFT_ROPE) X(WEFT_ROTARY) X(WEFT_ROUNDED) X(WEFT_SPLITS)
WEFT__CUDA_CONSTANTS(attention, CONSTANTS)

enum {
    KEYS = 16, // of a tile of decode
    WARPS = WEFT__ATTENTION_WARPS,
    FEW_ROWS = 16,     // sequences of at most so many are decode's, others prefill's
    TOKEN_WARPS = 8,   // of a block of attention_token.cu
    TOKEN_SPLITS = 8,  // blocks of a cluster at most; half of it at least
    TOKEN_BLOCKS = 32, // that it takes to read
    TOKEN_KEYS = 4096, // more than so many keys as fast as memory gives them
    EVERY_ROW = 0x7fffffff,
};

// Are queries rounded to the format of the cache on their way through append?
static bool narrows(const weft_attention_desc *desc)
{
    return desc->flags & WEFT_ATTENTION_NARROW_QUERIES &&
           (desc->kv.dtype == WEFT_F16 || desc->kv.dtype == WEFT_BF16);
}

// A cache of one byte an element: tensor cores get it as bf16.
static bool is_byte(const weft_kv_layout *kv)
{
    return weft_dtype_block_bytes(kv->dtype) == 1;
}

static bool is_scaled(const weft_kv_layout *kv)
{
    return kv->scaling != WEFT_KV_SCALING_NONE || kv->v_scaling != WEFT_KV_SCALING_NONE;
}

// What the kernels are compiled for, the shapes of tiles apart.
static struct weft__attention_constants constants_of(const weft_attention_desc *desc)
{
    weft_dtype q_dtype = narrows(desc) ? desc->kv.dtype : desc->q_dtype;
    return (struct weft__attention_constants){
        .WEFT_HEAD_DIM = desc->kv.head_dim,
        .WEFT_CACHE = (int32_t)desc->kv.dtype,
        .WEFT_SCALED = is_scaled(&desc->kv),
        .WEFT_KV_DTYPE = is_byte(&desc->kv) ? WEFT_BF16 : (int32_t)desc->kv.dtype,
        .WEFT_X_DTYPE = (int32_t)q_dtype,
        .WEFT_Y_DTYPE = (int32_t)desc->out_dtype,
        .WEFT_PARTS = q_dtype == desc->kv.dtype && !is_byte(&desc->kv) ? 1 : 3,
        .WEFT_PAGE = desc->kv.page_size,
        .WEFT_SOFTCAP = desc->softcap != 0,
        .WEFT_ALIBI = (desc->flags & WEFT_ATTENTION_ALIBI) != 0,
        .WEFT_RING = desc->ring_len > 0,
        .WEFT_SCATTER = weft__attention_scatters(desc),
        .WEFT_SPARSE = weft__attention_sparse_kinds(desc)};
}

static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct cuda_row *own = (const void *)row;
    const struct weft__attention_kernel *kernel = &own->kernel;
    const weft_attention_desc *desc = opaque_desc;
    const weft_kv_layout *kv = &desc->kv;
    bool plain = (kv->v_dtype == 0 || kv->v_dtype == kv->dtype) &&
                 (kv->v_dim == 0 || kv->v_dim == kv->head_dim) &&
                 (kv->inner == 0 || kv->inner == kv->head_dim) &&
                 (kv->v_inner == 0 || kv->v_inner == kv->head_dim) &&
                 (is_byte(kv) ? kv->head_dim % 16 == 0 : !is_scaled(kv));
    if (!kernel->kv)
        return true;
    if (kernel->kv != kv->dtype || !plain || desc->flags & WEFT_ATTENTION_MASK_VALUE)
        return false;
    return own->single ? weft__attention_single_serves(own->single, desc) : kv->head_dim <= 256;
}

// --- decode ---------------------------------------------------------------------------------------

static int64_t row_bytes(int32_t head_dim)
{
    return weft__attention_padded_dim(head_dim) * 2 + 16;
}

// Tiles of keys and values: `stages` as the cache has them, with their scales, and one of bytes widened.
static int64_t tiles_bytes(const weft_kv_layout *kv, int32_t keys, int32_t stages)
{
    int64_t row = row_bytes(kv->head_dim), raw = is_byte(kv) ? kv->head_dim : row;
    return stages * (2 * keys * raw + (is_scaled(kv) ? 8 * keys : 0)) +
           (is_byte(kv) ? 2 * keys * row : 0);
}

// Shared memory of a block: rings of its warps, queries in parts, states of the rows.
static int64_t decode_bytes(const weft_kv_layout *kv, int32_t parts, int32_t stages,
                            int32_t rows_used)
{
    return WARPS * tiles_bytes(kv, KEYS, stages) +
           parts * WEFT__ATTENTION_ROWS * row_bytes(kv->head_dim) + 4 * WEFT__ATTENTION_ROWS +
           WARPS * rows_used * (weft__attention_padded_dim(kv->head_dim) + 4) * 4;
}

// Ring and blocks: as many bytes under way as an SM can hold with two blocks on it.
static bool decode_shape(const weft_attention_desc *desc, const struct weft__cuda_limits *limits,
                         int32_t parts, struct weft__attention_cuda_launch *launch, int32_t *stages)
{
    for (int32_t per_sm = 2; per_sm >= 1; per_sm--)
        for (*stages = 3; *stages >= 1; --*stages) {
            int64_t shared = decode_bytes(&desc->kv, parts, *stages, launch->slot_rows);
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

static int64_t prefill_bytes(const weft_kv_layout *kv, int32_t parts, struct tile tile)
{
    int64_t tile_rows = 64 * tile.m;
    return tiles_bytes(kv, tile.keys, 2) + parts * tile_rows * row_bytes(kv->head_dim) +
           4 * tile_rows;
}

// The largest tile whose sums, scores and queries fit; measured in NOTES.md.
static bool prefill_tile(const weft_kv_layout *kv, const struct weft__attention_constants *c,
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
        if (prefill_bytes(kv, c->WEFT_PARTS, *tile) + 1024 <= limits->shared_per_block)
            return true;
    return false;
}

static int32_t want_prefill(struct weft__attention_constants constants, struct tile tile,
                            struct weft__cuda_choice *choice)
{
    constants.WEFT_M = tile.m, constants.WEFT_KEYS = tile.keys, constants.WEFT_BLOCKS = tile.blocks;
    return weft__cuda_want(choice, "src/kernels/attention/attention_prefill.cu",
                           "weft_attention_prefill", WEFT__CUDA_VALUES(attention, constants));
}

// --- append, attention and rounding in one launch -------------------------------------------------

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
    const int64_t row = row_bytes(desc->kv.head_dim);
    const int64_t pieces = (int64_t)group_size * (desc->kv.head_dim / 32) + TOKEN_SPLITS;
    return TOKEN_WARPS * stages * 2 * KEYS * row + WEFT__ATTENTION_ROWS * (row + 4) + 2 * row +
           rotary_dim / 2 * 8 + pieces * (32 + 2) * 4;
}

// A cluster a KV head of a sequence, as many blocks as SMs are there for; where those would be few, long contexts
// are better off with decode, which divides them among all SMs.
static void plan_token(const weft_attention_desc *desc, const struct weft__cuda_limits *limits,
                       struct weft__attention_constants constants, struct weft__cuda_choice *choice)
{
    struct weft__attention_cuda_launch *launch = choice->launch;
    const int64_t clusters = (int64_t)desc->max_seqs * launch->num_kv_heads;
    const bool plain = !constants.WEFT_ALIBI && !constants.WEFT_RING && !launch->whole_items &&
                       narrows(desc) && desc->kv.head_dim % 32 == 0 && desc->kv.head_dim <= 128;
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
        launch->token_splits = splits, launch->token_shared_bytes = (uint32_t)shared;
        launch->token =
            weft__cuda_want(choice, "src/kernels/attention/attention_token.cu",
                            "weft_attention_token", WEFT__CUDA_VALUES(attention, constants));
    }
}

static weft_status plan_append(const weft_attention_desc *desc,
                               const struct weft__cuda_limits *limits,
                               const struct weft__attention_constants *decode, int32_t stages,
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
    constants.WEFT_STAGES = stages, constants.WEFT_KEYS = KEYS;
    constants.WEFT_APPEND = 1;
    constants.WEFT_ROPE = desc->rope ? (int32_t)desc->rope->style + 1 : 0;
    constants.WEFT_ROTARY = launch->frequencies.rotary_dim;
    constants.WEFT_ROUNDED = (desc->flags & WEFT_ATTENTION_OUT_ROUNDED) != 0;
    launch->append =
        weft__cuda_want(choice, "src/kernels/attention/attention_decode.cu",
                        "weft_attention_decode", WEFT__CUDA_VALUES(attention, constants));
    plan_token(desc, limits, constants, choice);
    choice->kernels[launch->append].lazy = launch->token != 0; // for caches that lie anyhow
    choice->fuses = true;
    return WEFT_OK;
}

// --- plan and steps -------------------------------------------------------------------------------

static void plan_launch(const weft_attention_desc *desc, struct weft__attention_cuda_launch *launch)
{
    launch->num_q_heads = desc->num_q_heads, launch->num_kv_heads = desc->kv.num_kv_heads;
    launch->group_size = desc->num_q_heads / desc->kv.num_kv_heads;
    launch->mask = desc->mask, launch->window = desc->window;
    launch->window_right = desc->window_right, launch->local_chunk = desc->local_chunk;
    launch->ring_len = desc->ring_len;
    launch->scale = desc->scale, launch->softcap = desc->softcap;
    launch->mask_value = desc->mask_value;
    launch->elem_bytes = is_byte(&desc->kv) ? 1 : 2;
    launch->sparse = (struct weft__attention_device_sparse){
        .queries = desc->sparse_queries,
        .keys = desc->sparse_keys,
        .own_lists = (desc->flags & WEFT_ATTENTION_SPARSE_HEADS) != 0,
        .block = desc->sparse_block,
        .local = desc->sparse_local,
        .stride = desc->sparse_stride,
        .head_step = desc->sparse_head_step,
        .rank = desc->sparse_rank};
    launch->whole_items = desc->flags & WEFT_ATTENTION_BATCH_INVARIANT || desc->num_splits == 1;
    int64_t rows_most = (int64_t)desc->max_q_tokens * launch->group_size;
    launch->slot_rows =
        rows_most < WEFT__ATTENTION_ROWS ? (int32_t)rows_most : WEFT__ATTENTION_ROWS;
}

// Tiles of tensor cores are more than this GPU's shared memory holds.
static weft_status plan_any(const weft_attention_desc *desc, const struct weft__cuda_limits *limits,
                            struct weft__cuda_choice *choice)
{
    const struct cuda_row *row = rows;
    while (row->kernel.kv != 0)
        row++;
    choice->row = &row->kernel.base;
    choice->narrow = false;
    return weft__attention_any_plan(desc, limits, choice);
}

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_attention_desc *desc = opaque_desc;
    struct weft__attention_cuda_launch *launch = choice->launch;
    struct weft__attention_constants none = {0}, constants = constants_of(desc);
    struct tile tile;
    int32_t stages;
    weft_status status;
    if (!weft__cuda_choose(&table, limits, desc->variant, serves, desc, choice, &status))
        return status;
    plan_launch(desc, launch);
    weft__cuda_want(choice, "src/kernels/attention/attention_begin.cu", "weft_attention_begin",
                    WEFT__CUDA_VALUES(attention, none));
    const struct cuda_row *row = (const void *)choice->row;
    if (row->single) {
        weft__attention_single_plan(desc, row->single, choice);
        return WEFT_OK;
    }
    if (row->kernel.kv == 0)
        return weft__attention_any_plan(desc, limits, choice);
    choice->narrow = narrows(desc);
    int64_t items = weft__attention_items_most(desc, launch->group_size, WEFT__ATTENTION_ROWS);
    status = weft__attention_plan_items(desc, items, KEYS, launch, choice);
    if (status != WEFT_OK)
        return status;
    if (!decode_shape(desc, limits, constants.WEFT_PARTS, launch, &stages)) {
        if (!desc->variant)
            return plan_any(desc, limits, choice);
        snprintf(choice->text, sizeof choice->text,
                 "attention: more shared memory than this GPU has");
        return WEFT_EUNSUPPORTED;
    }
    bool prefill =
        desc->max_q_tokens > desc->max_seqs && prefill_tile(&desc->kv, &constants, limits, &tile);
    want_decode(constants, stages, choice);
    weft__attention_plan_workspace(
        weft__attention_slot_floats(desc->kv.head_dim, launch->slot_rows), items, launch, choice);
    if (prefill) {
        launch->prefill_blocks =
            (uint32_t)weft__attention_items_most(desc, launch->group_size, 64 * tile.m);
        launch->prefill_shared_bytes =
            (uint32_t)prefill_bytes(&desc->kv, constants.WEFT_PARTS, tile);
        launch->prefill = want_prefill(constants, tile, choice);
    }
    if (desc->flags & WEFT_ATTENTION_APPEND) {
        status = plan_append(desc, limits, &constants, stages, choice);
        if (status != WEFT_OK)
            return status;
    }
    snprintf(choice->text, sizeof choice->text, " %d/%d heads of %d, pages of %d, %u blocks%s%s%s",
             desc->num_q_heads, desc->kv.num_kv_heads, desc->kv.head_dim, desc->kv.page_size,
             launch->blocks, launch->whole_items ? ", items whole" : "", prefill ? ", prefill" : "",
             choice->fuses ? ", single tokens with append" : "");
    return WEFT_OK;
}

static struct weft__attention_device_plane plane_of(const weft_kv_plane *plane)
{
    return (struct weft__attention_device_plane){plane->data, plane->page_stride,
                                                 plane->head_stride, plane->token_stride};
}

static struct weft__attention_device_scales scales_of(const weft_kv_plane *plane)
{
    return (struct weft__attention_device_scales){
        plane->scales, plane->scale_seq_stride, plane->scale_page_stride, plane->scale_head_stride,
        plane->scale_token_stride};
}

// Do all rows of a plane begin at multiples of 16 bytes?
static bool aligned(const weft_kv_plane *plane, int32_t elem_bytes)
{
    return (uintptr_t)plane->data % 16 == 0 &&
           (plane->page_stride | plane->head_stride | plane->token_stride) % (16 / elem_bytes) == 0;
}

// Does a run want prefill? Decode serves every sequence where there seems to be none for it, so a recorded run
// stays right whatever it is launched with.
static bool prefills(const struct weft__attention_cuda_launch *launch,
                     const struct weft__attention_args *run)
{
    return launch->prefill_blocks &&
           (run->batch_tokens == 0 || run->batch_tokens > run->base.num_seqs);
}

static struct weft__attention_device_args
device_args(const struct weft__attention_cuda_launch *launch,
            const struct weft__attention_args *run)
{
    const weft_attention_args *args = &run->base;
    struct weft__attention_device_sparse sparse = launch->sparse;
    sparse.blocks = args->sparse_blocks;
    sparse.starts = args->sparse_starts, sparse.first = args->sparse_first;
    return (struct weft__attention_device_args){
        .q = args->q,
        .q_token_stride = args->q_token_stride,
        .q_head_stride = args->q_head_stride,
        .q_scales = args->q_scales,
        .q_scale_token_stride = args->q_scale_token_stride,
        .q_scale_head_stride = args->q_scale_head_stride,
        .out = args->out,
        .out_token_stride = args->out_token_stride,
        .out_head_stride = args->out_head_stride,
        .lse = args->lse,
        .k = plane_of(&args->pool.k),
        .v = plane_of(&args->pool.v),
        .k_scales = scales_of(&args->pool.k),
        .v_scales = scales_of(&args->pool.v),
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
        .counters = run->counters ? run->counters
                                  : (void *)((char *)args->workspace + launch->counters_offset),
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
        .aligned = aligned(&args->pool.k, launch->elem_bytes) &&
                   aligned(&args->pool.v, launch->elem_bytes),
        .whole_items = launch->whole_items,
        .least_rows = 1,
        .most_rows = prefills(launch, run) ? FEW_ROWS : EVERY_ROW,
        .scale = launch->scale,
        .softcap = launch->softcap,
        .mask_value = launch->mask_value,
        .sparse = sparse,
        .new_k = run->k,
        .new_v = run->v,
        .new_k_stride = run->k_token_stride,
        .new_v_stride = run->v_token_stride,
        .turns = launch->turns,
        .turn_factor = launch->frequencies.attention_factor};
}

static int32_t steps(const void *opaque_launch, const void *opaque_args,
                     struct weft__cuda_step *steps)
{
    const struct weft__attention_cuda_launch *launch = opaque_launch;
    const struct weft__attention_args *run = opaque_args;
    struct weft__attention_device_args device = device_args(launch, run);
    int32_t count = 0;
    if (!launch->whole_items && !run->counters) {
        struct weft__attention_begin_args begin = {device.counters, (int32_t)launch->blocks};
        weft__cuda_step(&steps[count], WEFT__ATTENTION_BEGIN, (launch->blocks + 255) / 256, 1, 256,
                        &begin, sizeof begin);
        steps[count++].overlap = 1;
    }
    if (launch->single_threads) {
        weft__attention_single_step(launch, &device, &steps[count]);
        return count + 1;
    }
    if (launch->any) {
        weft__attention_any_step(launch, &run->base, &device, &steps[count]);
        return count + 1;
    }
    if (run->k && launch->token && device.aligned) {
        weft__cuda_step(&steps[count], launch->token,
                        (uint32_t)(launch->num_kv_heads * launch->token_splits),
                        (uint32_t)device.num_seqs, TOKEN_WARPS * 32, &device, sizeof device);
        steps[count].shared_bytes = launch->token_shared_bytes;
        steps[count].cluster = (uint32_t)launch->token_splits;
        steps[count++].overlap = 1;
        return count;
    }
    // With the new keys come queries that are not rotated yet: there is one of each sequence.
    weft__cuda_step(&steps[count], run->k ? launch->append : WEFT__ATTENTION_DECODE, launch->blocks,
                    1, WARPS * 32, &device, sizeof device);
    steps[count].shared_bytes = launch->shared_bytes;
    steps[count++].overlap = 1;
    if (!run->k && prefills(launch, run)) {
        device.least_rows = FEW_ROWS + 1, device.most_rows = EVERY_ROW, device.whole_items = 1;
        weft__cuda_step(&steps[count], launch->prefill, launch->prefill_blocks, 1, WARPS * 32,
                        &device, sizeof device);
        steps[count].shared_bytes = launch->prefill_shared_bytes;
        steps[count++].overlap = 1;
    }
    return count;
}

const struct weft__cuda_op weft__attention_cuda = {
    &table, sizeof(struct weft__attention_cuda_launch), plan, steps};
