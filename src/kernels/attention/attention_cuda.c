// SPDX-License-Identifier: MIT
// Attention on CUDA: which kernels a plan has. attention_steps_cuda.c says how they are launched.
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
                .narrow_queries = WEFT__CUDA_##cuda_level == WEFT__CUDA_sm90a,                     \
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
    X(WEFT_CODES)                                                                                  \
    X(WEFT_BOXES)                                                                                  \
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
    X(WEFT_HANDED)                                                                                 \
    X(WEFT_BLOCKS) X(WEFT_APPEND) X(WEFT_ROPE) X(WEFT_ROTARY) X(WEFT_ROUNDED) X(WEFT_SPLITS)
WEFT__CUDA_CONSTANTS(attention, CONSTANTS)

enum {
    KEYS = 16, // of a tile of decode
    WARPS = WEFT__ATTENTION_WARPS,
    TOKEN_WARPS = WEFT__ATTENTION_TOKEN_WARPS,
    CLUSTER = WEFT__ATTENTION_CLUSTER,
    CLUSTER_KEYS = 4096,
    TOKEN_SPLITS = 8,  // blocks of a cluster at most; half of it at least
    TOKEN_BLOCKS = 32, // that it takes to read
    TOKEN_KEYS = 4096, // more than so many keys as fast as memory gives them
};

// A cache of one byte an element: tensor cores get it as bf16, or as f16 where codes are widened in registers.
static bool is_byte(const weft_kv_layout *kv)
{
    return weft_dtype_block_bytes(kv->dtype) == 1;
}

// Does decode widen codes in registers (attention_codes.cuh)? Queries in parts leave no room for heads of 256.
static bool has_codes(const weft_kv_layout *kv, int32_t parts)
{
    return is_byte(kv) &&
           (kv->head_dim == 64 || kv->head_dim == 128 || (kv->head_dim == 256 && parts == 1));
}

// Queries that enter as they are: in the cache's own format, or in what its bytes become.
static bool is_narrow(weft_dtype q_dtype, const weft_kv_layout *kv)
{
    return q_dtype == (is_byte(kv) ? WEFT_BF16 : kv->dtype);
}

static bool is_scaled(const weft_kv_layout *kv)
{
    return kv->scaling != WEFT_KV_SCALING_NONE || kv->v_scaling != WEFT_KV_SCALING_NONE;
}

// Sixteens of rows that decode takes at once: two where sequences may have several queries and registers allow it, which
// they do for keys that are asked for in steps (attention_ring.cuh) and without ALiBi.
static int32_t sixteens(const weft_attention_desc *desc)
{
    const weft_kv_layout *kv = &desc->kv;
    const bool several = desc->max_q_tokens > desc->max_seqs &&
                         (desc->tile_rows <= 1 || desc->tile_rows > WEFT__ATTENTION_ROWS);
    const bool narrow = (weft__attention_narrows(desc) ? kv->dtype : desc->q_dtype) == kv->dtype;
    const bool plain =
        kv->page_size % 16 == 0 && desc->ring_len == 0 && !(desc->flags & WEFT_ATTENTION_ALIBI);
    return several && narrow && plain && !is_byte(kv) && kv->head_dim <= 128 ? 2 : 1;
}

// What the kernels are compiled for, the shapes of tiles apart.
static struct weft__attention_constants constants_of(const weft_attention_desc *desc)
{
    weft_dtype q_dtype = weft__attention_narrows(desc) ? desc->kv.dtype : desc->q_dtype;
    int32_t parts = is_narrow(q_dtype, &desc->kv) ? 1 : 3;
    return (struct weft__attention_constants){
        .WEFT_HEAD_DIM = desc->kv.head_dim,
        .WEFT_CACHE = (int32_t)desc->kv.dtype,
        .WEFT_SCALED = is_scaled(&desc->kv),
        .WEFT_CODES = has_codes(&desc->kv, parts),
        .WEFT_KV_DTYPE = !is_byte(&desc->kv)                         ? (int32_t)desc->kv.dtype
                         : has_codes(&desc->kv, parts) && parts == 1 ? WEFT_F16
                                                                     : WEFT_BF16,
        .WEFT_X_DTYPE = (int32_t)q_dtype,
        .WEFT_Y_DTYPE = (int32_t)desc->out_dtype,
        .WEFT_PARTS = parts,
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
    if (kernel->base.level == WEFT__CUDA_sm90a && !desc->variant)
        return weft__attention_wgmma_serves(desc);
    return own->single ? weft__attention_single_serves(own->single, desc) : kv->head_dim <= 256;
}

// --- decode ---------------------------------------------------------------------------------------

static int64_t row_bytes(int32_t head_dim)
{
    return weft__attention_padded_dim(head_dim) * 2 + 16;
}

// Tiles of keys and values: `stages` as the cache has them, with their scales, and one of bytes `widened`.
static int64_t tiles_bytes(const weft_kv_layout *kv, int32_t keys, int32_t stages, bool widened)
{
    int64_t row = row_bytes(kv->head_dim), raw = is_byte(kv) ? kv->head_dim : row;
    return stages * (2 * keys * raw + (is_scaled(kv) ? 8 * keys : 0)) +
           (widened ? 2 * keys * row : 0);
}

// Do keys and values come in boxes (attention_boxes.cuh)?
static bool has_boxes(const weft_attention_desc *desc, const struct weft__cuda_limits *limits)
{
    return limits->sm >= 90 && !is_byte(&desc->kv) && desc->kv.head_dim % 64 == 0 &&
           desc->kv.page_size % KEYS == 0 && desc->ring_len == 0;
}

// Shared memory of a block: rings of its warps, of rows or of boxes with new keys and values beside them, queries in parts,
// states of the rows.
static int64_t decode_bytes(const weft_kv_layout *kv, int32_t parts, int32_t stages, int32_t m,
                            int32_t rows_used)
{
    const int32_t states = rows_used < WEFT__ATTENTION_ROWS ? rows_used : WEFT__ATTENTION_ROWS;
    const int64_t tiles = tiles_bytes(kv, KEYS, stages, is_byte(kv) && !has_codes(kv, parts));
    const int64_t boxes = stages * (4 * KEYS * kv->head_dim + 2 * row_bytes(kv->head_dim));
    return WARPS * (tiles > boxes || is_byte(kv) ? tiles : boxes) +
           m * WEFT__ATTENTION_ROWS * (parts * row_bytes(kv->head_dim) + 4) +
           WARPS * states * (weft__attention_padded_dim(kv->head_dim) + 4) * 4;
}

// Ring and blocks: as many bytes under way as an SM can hold with two blocks on it.
static bool decode_shape(const weft_attention_desc *desc, const struct weft__cuda_limits *limits,
                         int32_t parts, struct weft__attention_cuda_launch *launch, int32_t *stages)
{
    for (int32_t per_sm = 2; per_sm >= 1; per_sm--)
        for (*stages = 3; *stages >= 1; --*stages) {
            int64_t shared =
                decode_bytes(&desc->kv, parts, *stages, launch->few_rows / WEFT__ATTENTION_ROWS,
                             launch->slot_rows);
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

// The kernel, and that of boxes in *boxes if they serve; the first is then for caches that lie anyhow.
static int32_t want_decode(struct weft__attention_constants constants, bool has_boxes,
                           struct weft__cuda_choice *choice, int32_t *boxes)
{
    static const char file[] = "src/kernels/attention/attention_decode.cu",
                      function[] = "weft_attention_decode";
    const int32_t kernel =
        weft__cuda_want(choice, file, function, WEFT__CUDA_VALUES(attention, constants));
    constants.WEFT_BOXES = 1;
    if (has_boxes) {
        *boxes = weft__cuda_want(choice, file, function, WEFT__CUDA_VALUES(attention, constants));
        choice->kernels[kernel].lazy = true;
    }
    return kernel;
}

// Is one sequence read by clusters (attention_cluster.cu)? They share fewer SMs, so of few keys alone.
static bool wants_cluster(const weft_attention_desc *desc, const struct weft__cuda_limits *limits,
                          const struct weft__attention_cuda_launch *launch)
{
    const int32_t blocks = launch->num_kv_heads * CLUSTER;
    return limits->sm >= 90 && desc->kv.head_dim % 32 == 0 &&
           launch->few_rows == WEFT__ATTENTION_ROWS && !weft__attention_in_chunks(launch) &&
           blocks <= limits->num_sms && desc->max_kv_len <= CLUSTER_KEYS;
}

static void plan_cluster(const weft_attention_desc *desc, const struct weft__cuda_limits *limits,
                         struct weft__attention_constants constants,
                         struct weft__cuda_choice *choice)
{
    struct weft__attention_cuda_launch *launch = choice->launch;
    const int32_t pieces = launch->slot_rows * (desc->kv.head_dim / 32) + CLUSTER;
    const int64_t shared =
        decode_bytes(&desc->kv, constants.WEFT_PARTS, constants.WEFT_STAGES, 1, launch->slot_rows) +
        (int64_t)pieces * (32 + 2) * 4;
    // two blocks on an SM, for not every GPC has as many SMs as a cluster has blocks
    if (!wants_cluster(desc, limits, launch) || 2 * (shared + 2048) > limits->shared_per_sm)
        return;
    constants.WEFT_M = 1, constants.WEFT_SPLITS = CLUSTER;
    constants.WEFT_BOXES = has_boxes(desc, limits);
    launch->cluster_shared_bytes = (uint32_t)shared;
    launch->cluster =
        weft__cuda_want(choice, "src/kernels/attention/attention_cluster.cu",
                        "weft_attention_cluster", WEFT__CUDA_VALUES(attention, constants));
}

// --- prefill --------------------------------------------------------------------------------------

struct tile {
    int32_t m, keys, blocks; // 16 rows of a warp, keys, blocks on an SM
};

static int64_t prefill_bytes(const weft_kv_layout *kv, int32_t parts, struct tile tile)
{
    int64_t tile_rows = 64 * tile.m;
    return tiles_bytes(kv, tile.keys, 2, is_byte(kv)) +
           parts * tile_rows * row_bytes(kv->head_dim) + 4 * tile_rows;
}

// Does the descriptor ask for decode's rows, whatever the queries? (One row a tile, which batch-invariant plans of
// engines ask for, is nothing that tensor cores have.)
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
    bool scaled = is_byte(&desc->kv) && c->WEFT_SCALED; // registers
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
            has_boxes(desc, limits) && stages > 1; // states lie in the ring later
        launch->token_splits = splits, launch->token_shared_bytes = (uint32_t)shared;
        launch->token =
            weft__cuda_want(choice, "src/kernels/attention/attention_token.cu",
                            "weft_attention_token", WEFT__CUDA_VALUES(attention, constants));
    }
}

static weft_status plan_append(const weft_attention_desc *desc,
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
    launch->append = want_decode(constants, has_boxes(desc, limits), choice, &launch->append_boxes);
    plan_token(desc, limits, constants, choice);
    if (launch->token) // for caches that lie anyhow
        choice->kernels[launch->append].lazy = true;
    if (launch->token && launch->append_boxes)
        choice->kernels[launch->append_boxes].lazy = true;
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
    launch->head_dim = desc->kv.head_dim, launch->page_size = desc->kv.page_size;
    launch->sparse = (struct weft__attention_device_sparse){
        .queries = desc->sparse_queries,
        .keys = desc->sparse_keys,
        .own_lists = (desc->flags & WEFT_ATTENTION_SPARSE_HEADS) != 0,
        .block = desc->sparse_block,
        .local = desc->sparse_local,
        .stride = desc->sparse_stride,
        .head_step = desc->sparse_head_step,
        .rank = desc->sparse_rank};
    int64_t rows_most = (int64_t)desc->max_q_tokens * launch->group_size;
    launch->most_rows = rows_most < INT32_MAX ? (int32_t)rows_most : INT32_MAX;
    launch->few_rows = WEFT__ATTENTION_ROWS * sixteens(desc);
    launch->slot_rows = rows_most < launch->few_rows ? (int32_t)rows_most : launch->few_rows;
}

// Tiles of tensor cores are more than this GPU's shared memory holds.
static weft_status plan_any(const weft_attention_desc *desc, const struct weft__cuda_limits *limits,
                            struct weft__cuda_choice *choice)
{
    const struct cuda_row *row = rows;
    while (row->kernel.kv != 0)
        row++;
    choice->row = &row->kernel.base;
    return weft__attention_any_plan(desc, limits, choice);
}

// Rows of 64 or 128 for sequences of many queries, where they fit.
static bool plan_prefill(const weft_attention_desc *desc, const struct weft__cuda_limits *limits,
                         const struct weft__attention_constants *constants,
                         struct weft__cuda_choice *choice)
{
    struct weft__attention_cuda_launch *launch = choice->launch;
    struct tile tile;
    if (desc->max_q_tokens <= desc->max_seqs || wants_decode(desc) ||
        !prefill_tile(desc, constants, limits, &tile))
        return false;
    launch->prefill_rows = 64 * tile.m;
    launch->prefill_blocks =
        (uint32_t)weft__attention_items_most(desc, launch->group_size, launch->prefill_rows);
    launch->prefill_shared_bytes = (uint32_t)prefill_bytes(&desc->kv, constants->WEFT_PARTS, tile);
    launch->prefill = want_prefill(*constants, tile, choice);
    if (choice->row->level == WEFT__CUDA_sm90a)
        choice->kernels[launch->prefill].lazy = weft__attention_wgmma_plan(desc, limits, choice);
    return true;
}

static void describe(const weft_attention_desc *desc, struct weft__cuda_choice *choice)
{
    const struct weft__attention_cuda_launch *launch = choice->launch;
    char division[64], prefill[48] = "";
    if (launch->prefill_rows)
        snprintf(prefill, sizeof prefill, ", prefill of %d rows%s",
                 launch->wgmma ? launch->wgmma_rows : launch->prefill_rows,
                 launch->wgmma ? " by warpgroups" : "");
    snprintf(choice->text, sizeof choice->text, " %d/%d heads of %d, pages of %d, %u blocks%s%s%s",
             desc->num_q_heads, desc->kv.num_kv_heads, desc->kv.head_dim, desc->kv.page_size,
             launch->blocks, weft__attention_division_text(launch, KEYS, division), prefill,
             choice->fuses ? ", single tokens with append" : "");
}

// Kernels of tensor cores.
static weft_status plan_packed(const weft_attention_desc *desc,
                               const struct weft__cuda_limits *limits,
                               struct weft__cuda_choice *choice)
{
    struct weft__attention_cuda_launch *launch = choice->launch;
    struct weft__attention_constants constants = constants_of(desc);
    int32_t stages;
    int64_t items = weft__attention_items_most(desc, launch->group_size, launch->few_rows);
    weft_status status = weft__attention_plan_items(desc, items, KEYS, launch, choice);
    if (status != WEFT_OK)
        return status;
    if (!decode_shape(desc, limits, constants.WEFT_PARTS, launch, &stages)) {
        if (!desc->variant)
            return plan_any(desc, limits, choice);
        snprintf(choice->text, sizeof choice->text,
                 "attention: more shared memory than this GPU has");
        return WEFT_EUNSUPPORTED;
    }
    choice->narrow = weft__attention_narrows(desc);
    constants.WEFT_STAGES = stages, constants.WEFT_KEYS = KEYS;
    constants.WEFT_M = launch->few_rows / WEFT__ATTENTION_ROWS;
    constants.WEFT_HANDED = launch->handed = !weft__attention_in_chunks(launch) &&
                                             constants.WEFT_M == 1 &&
                                             desc->kv.head_dim <= WEFT__ATTENTION_HANDED_DIM;
    want_decode(constants, has_boxes(desc, limits), choice, &launch->boxes);
    plan_cluster(desc, limits, constants, choice);
    // In chunks, decode has sequences of few rows alone where there is prefill: an item a KV head.
    if (plan_prefill(desc, limits, &constants, choice))
        items = (int64_t)desc->max_seqs * launch->num_kv_heads;
    status = weft__attention_plan_workspace(
        weft__attention_slot_floats(desc->kv.head_dim, launch->slot_rows), items, launch, choice);
    if (status == WEFT_OK && desc->flags & WEFT_ATTENTION_APPEND)
        status = plan_append(desc, limits, &constants, choice);
    if (status == WEFT_OK)
        describe(desc, choice);
    return status;
}

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_attention_desc *desc = opaque_desc;
    const struct weft__attention_constants none = {0};
    weft_status status;
    if (!weft__cuda_choose(&table, limits, desc->variant, serves, desc, choice, &status))
        return status;
    plan_launch(desc, choice->launch);
    weft__cuda_want(choice, "src/kernels/attention/attention_begin.cu", "weft_attention_begin",
                    WEFT__CUDA_VALUES(attention, none));
    const struct cuda_row *row = (const void *)choice->row;
    if (row->kernel.kv == 0)
        return weft__attention_any_plan(desc, limits, choice);
    if (!row->single)
        return plan_packed(desc, limits, choice);
    weft__attention_single_plan(desc, row->single, choice);
    return WEFT_OK;
}

const struct weft__cuda_op weft__attention_cuda = {
    &table, sizeof(struct weft__attention_cuda_launch), plan, weft__attention_cuda_steps};
