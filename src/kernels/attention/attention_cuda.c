// SPDX-License-Identifier: MIT
// Attention on CUDA: which kernels a plan has. attention_steps_cuda.c says how they are launched.
//
// A run is up to three launches: counters to zero, decode for sequences of few rows (queries times the query heads of
// a KV head), prefill for the others. Plans with no more queries than sequences have decode alone.
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

#include "src/kernels/attention/attention_plan_cuda.h"

enum { WEFT_ANY = WEFT_DTYPE_NONE }; // of rows that read every format

struct cuda_row {
    struct weft__attention_kernel kernel;
    const char *single; // its function of attention_single.cu, or NULL
};

static const struct cuda_row rows[] = {
#define X(format, cuda_level)                                                                      \
    {.kernel = {.base = {"attention", "attention_" WEFT__NAME_##format "_" #cuda_level,            \
                         WEFT__CUDA_##cuda_level},                                                 \
                .kv = (weft_dtype)WEFT_##format,                                                   \
                .tile_rows = WEFT__ATTENTION_ROWS,                                                 \
                .every_mask = true,                                                                \
                .narrow_queries = WEFT__CUDA_##cuda_level == WEFT__CUDA_sm90a,                     \
                .narrow_weights = (weft_dtype)WEFT_##format != WEFT_DTYPE_NONE}},
#define SINGLE(function, format, cuda_level)                                                       \
    {.kernel = {.base = {"attention",                                                              \
                         "attention_" #function "_" WEFT__NAME_##format "_" #cuda_level,           \
                         WEFT__CUDA_##cuda_level},                                                 \
                .kv = (weft_dtype)WEFT_##format,                                                   \
                .tile_rows = 1,                                                                    \
                .every_mask = true},                                                               \
     .single = "weft_attention_" #function},
#include "src/kernels/attention/attention_cuda.def"
#undef X
#undef SINGLE
};
static const struct weft__kernel_table table = {"attention", rows, sizeof rows[0],
                                                sizeof rows / sizeof rows[0]};

// Queries that enter as they are: in the cache's own format, or in what its bytes become.
static bool is_narrow(weft_dtype q_dtype, const weft_kv_layout *kv)
{
    return q_dtype == (weft__attention_is_byte(kv) ? WEFT_BF16 : kv->dtype);
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
    return several && narrow && plain && !weft__attention_is_byte(kv) && kv->head_dim <= 128 ? 2
                                                                                             : 1;
}

// What the kernels are compiled for, the shapes of tiles apart.
static struct weft__attention_constants constants_of(const weft_attention_desc *desc)
{
    weft_dtype q_dtype = weft__attention_narrows(desc) ? desc->kv.dtype : desc->q_dtype;
    int32_t parts = is_narrow(q_dtype, &desc->kv) ? 1 : 3;
    return (struct weft__attention_constants){
        .WEFT_HEAD_DIM = desc->kv.head_dim,
        .WEFT_CACHE = (int32_t)desc->kv.dtype,
        .WEFT_SCALED = weft__attention_is_scaled(&desc->kv),
        .WEFT_CODES = weft__attention_has_codes(&desc->kv, parts),
        .WEFT_KV_DTYPE = !weft__attention_is_byte(&desc->kv) ? (int32_t)desc->kv.dtype
                         : weft__attention_has_codes(&desc->kv, parts) && parts == 1 ? WEFT_F16
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
    bool plain =
        (kv->v_dtype == 0 || kv->v_dtype == kv->dtype) &&
        (kv->v_dim == 0 || kv->v_dim == kv->head_dim) &&
        (kv->inner == 0 || kv->inner == kv->head_dim) &&
        (kv->v_inner == 0 || kv->v_inner == kv->head_dim) &&
        (weft__attention_is_byte(kv) ? kv->head_dim % 16 == 0 : !weft__attention_is_scaled(kv));
    if (!kernel->kv)
        return true;
    if (kernel->kv != kv->dtype || !plain || desc->flags & WEFT_ATTENTION_MASK_VALUE)
        return false;
    if (kernel->base.level == WEFT__CUDA_sm90a && !desc->variant)
        return weft__attention_wgmma_serves(desc);
    return own->single ? weft__attention_single_serves(own->single, desc) : kv->head_dim <= 256;
}

// What a dot product is multiplied by before it meets the soft-cap (attention_mask.cuh): finite, so that 0 stays 0.
static float cap_unit_of(const weft_attention_desc *desc)
{
    const double unit = desc->softcap > 0 ? sqrt(8) * desc->scale / desc->softcap : 0;
    return (float)fmax(-FLT_MAX, fmin(unit, FLT_MAX));
}

static void plan_launch(const weft_attention_desc *desc, struct weft__attention_cuda_launch *launch)
{
    static atomic_uint plans;
    launch->number = atomic_fetch_add(&plans, 1) + 1;
    launch->num_q_heads = desc->num_q_heads, launch->num_kv_heads = desc->kv.num_kv_heads;
    launch->group_size = desc->num_q_heads / desc->kv.num_kv_heads;
    launch->mask = desc->mask, launch->window = desc->window;
    launch->window_right = desc->window_right, launch->local_chunk = desc->local_chunk;
    launch->ring_len = desc->ring_len;
    launch->scale = desc->scale, launch->softcap = desc->softcap;
    launch->cap_unit = cap_unit_of(desc);
    launch->mask_value = desc->mask_value;
    launch->elem_bytes = weft__attention_is_byte(&desc->kv) ? 1 : 2;
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
             launch->blocks, weft__attention_division_text(launch, WEFT__ATTENTION_KEYS, division),
             prefill, choice->fuses ? ", single tokens with append" : "");
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
    weft_status status =
        weft__attention_plan_items(desc, items, WEFT__ATTENTION_KEYS, launch, choice);
    if (status != WEFT_OK)
        return status;
    if (!weft__attention_decode_shape(desc, limits, constants.WEFT_PARTS, launch, &stages)) {
        if (!desc->variant)
            return plan_any(desc, limits, choice);
        snprintf(choice->text, sizeof choice->text,
                 "attention: more shared memory than this GPU has");
        return WEFT_EUNSUPPORTED;
    }
    launch->end_tiles =
        weft__attention_tiles_of(desc, WEFT__ATTENTION_KEYS, launch->thresholds.end_bytes);
    launch->handed_tiles =
        weft__attention_tiles_of(desc, WEFT__ATTENTION_KEYS, launch->thresholds.merge_bytes);
    choice->narrow = weft__attention_narrows(desc);
    constants.WEFT_STAGES = stages, constants.WEFT_KEYS = WEFT__ATTENTION_KEYS;
    constants.WEFT_M = launch->few_rows / WEFT__ATTENTION_ROWS;
    constants.WEFT_HANDED = launch->handed = !weft__attention_in_chunks(launch) &&
                                             constants.WEFT_M == 1 &&
                                             desc->kv.head_dim <= WEFT__ATTENTION_HANDED_DIM;
    int32_t *const copied =
        weft__attention_has_boxes(desc, limits) ? &launch->boxes : &launch->copied_rows;
    weft__attention_want_decode(constants,
                                weft__attention_has_boxes(desc, limits)  ? 1
                                : weft__attention_has_rows(desc, limits) ? 2
                                                                         : 0,
                                choice, copied);
    weft__attention_plan_cluster(desc, limits, constants, choice);
    weft__attention_plan_abreast(desc, limits, constants, choice);
    launch->filled = weft__attention_want_filled(desc, limits, constants, choice);
    // In chunks, decode has sequences of few rows alone where there is prefill: an item a KV head.
    if (weft__attention_plan_prefill(desc, limits, &constants, choice))
        items = (int64_t)desc->max_seqs * launch->num_kv_heads;
    status = weft__attention_plan_workspace(
        weft__attention_slot_floats(desc->kv.head_dim, launch->slot_rows), items, launch, choice);
    if (status == WEFT_OK && desc->flags & WEFT_ATTENTION_APPEND)
        status = weft__attention_plan_append(desc, limits, &constants, choice);
    if (status == WEFT_OK)
        describe(desc, choice);
    return status;
}

// The row that the machine's table names, where it serves; else the first that does.
static bool choose(const weft_attention_desc *desc, const struct weft__cuda_limits *limits,
                   struct weft__cuda_choice *choice, weft_status *status)
{
    const weft_tuning *const tuned = choice->attention;
    if (tuned && *tuned->kernel &&
        weft__cuda_choose(&table, limits, tuned->kernel, serves, desc, choice, status))
        return true;
    return weft__cuda_choose(&table, limits, desc->variant, serves, desc, choice, status) != NULL;
}

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    weft_attention_desc own = *(const weft_attention_desc *)opaque_desc;
    const weft_attention_desc *const desc = &own;
    const struct weft__attention_constants none = {0};
    struct weft__attention_cuda_launch *const launch = choice->launch;
    weft_status status;
    if (choice->attention && own.tile_rows == 0)
        own.tile_rows = choice->attention->tile_rows;
    if (!choose(desc, limits, choice, &status))
        return status;
    plan_launch(desc, launch);
    launch->thresholds = weft__attention_thresholds_of(choice);
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
