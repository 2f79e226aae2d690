// SPDX-License-Identifier: MIT
// Experts on CUDA: kernels, packing and the workspace of a plan. experts_steps_cuda.c launches them.
//
// Workspace: | x of tokens, rounded | h of places | results of choices |   or
//            | f32 rows of tokens, normed | gate of places | up of places | results of choices |
// and, of plans with adapters, behind either: | f32 rows of tokens, normed | h of places | what adapters add to each part |
#include <stdio.h>

#include "src/base/checked.h"
#include "src/kernels/cuda/launch.h"
#include "src/kernels/experts/experts_cuda.h"
#include "src/kernels/experts/experts_launch_cuda.h"

static const struct weft__kernel rows[] = {{"experts", "experts_sm80", WEFT__CUDA_sm80}};
static const struct weft__kernel_table table = {"experts", rows, sizeof rows[0], 1};

#define CONSTANTS(X)                                                                               \
    X(FORMAT) X(ELEMS) X(BYTES) X(SCALE_DTYPE) X(FUNCTION) X(ALONE) X(WEIGHS) X(ADAPTS)
WEFT__CUDA_CONSTANTS(experts, CONSTANTS)

#define READY_CONSTANTS(X) X(WEFT_X_DTYPE)
WEFT__CUDA_CONSTANTS(experts_ready, READY_CONSTANTS)

#define SUM_CONSTANTS(X) X(TOP_K) X(Y_DTYPE) X(AS_THEY_ARE)
WEFT__CUDA_CONSTANTS(experts_sum, SUM_CONSTANTS)

#define NO_CONSTANTS(X) X(WEFT_PLAIN)
WEFT__CUDA_CONSTANTS(experts_adapt, NO_CONSTANTS)

// Kernels of weights as a file has them, and those around products.
static void want_kernels(struct weft__experts_launch *launch, struct weft__cuda_choice *choice)
{
    const weft_experts_desc *desc = &launch->desc;
    struct weft__experts_constants of_part[WEFT_EXPERTS_PARTS];
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++) {
        // (a part that is not there has the kernel of the one before, and no launch)
        const weft_linear_part *part =
            &desc->parts[weft__experts_lacks(desc, p) ? WEFT_EXPERTS_GATE : p];
        of_part[p] = (struct weft__experts_constants){
            .FORMAT = (int32_t)part->weight_dtype,
            .ELEMS = weft_dtype_block_elems(part->weight_dtype),
            .BYTES = weft_dtype_block_bytes(part->weight_dtype),
            .SCALE_DTYPE = weft__experts_has_planes(part) ? (int32_t)part->scale_dtype : 0,
            .FUNCTION = weft__experts_functions(desc, p) ? weft__experts_function_of(desc) : 0,
            .ALONE = weft__experts_is_alone(desc),
            .WEIGHS = weft__experts_weighs_input(desc) && p != WEFT_EXPERTS_DOWN,
            .ADAPTS = desc->adapter_rank > 0};
        weft__cuda_want(choice, "src/kernels/experts/experts.cu", "weft_experts",
                        WEFT__CUDA_VALUES(experts, of_part[p]));
    }
    const struct weft__experts_ready_constants ready = {.WEFT_X_DTYPE = (int32_t)desc->x_dtype};
    weft__cuda_want(choice, "src/kernels/linear/linear_round.cu", "weft_linear_ready",
                    WEFT__CUDA_VALUES(experts_ready, ready));
    const struct weft__experts_sum_constants sum = {.TOP_K = desc->top_k,
                                                    .Y_DTYPE = (int32_t)desc->y_dtype,
                                                    .AS_THEY_ARE =
                                                        weft__experts_weighs_input(desc)};
    weft__cuda_want(choice, "src/kernels/experts/experts_sum.cu", "weft_experts_sum",
                    WEFT__CUDA_VALUES(experts_sum, sum));
    weft__cuda_want(choice, "src/kernels/linear/linear_round.cu", "weft_linear_round",
                    WEFT__CUDA_VALUES(experts_ready, ready));
    const struct weft__experts_adapt_constants none = {0};
    if (desc->adapter_rank)
        weft__cuda_want(choice, "src/kernels/experts/experts_adapt.cu", "weft_experts_adapt",
                        WEFT__CUDA_VALUES(experts_adapt, none));
    const bool many = weft__experts_has_many(desc, desc->max_batch) &&
                      !(desc->flags & WEFT_LINEAR_BATCH_INVARIANT);
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++)
        launch->many[p] =
            many && !weft__experts_lacks(desc, p) && of_part[p].ELEMS == 1
                ? weft__cuda_want(choice, "src/kernels/experts/experts_tile.cu",
                                  "weft_experts_tile", WEFT__CUDA_VALUES(experts, of_part[p]))
                : -1;
}

// Weights that may be packed seldom lie as in a file.
static void choose_lazy(const struct weft__experts_launch *launch, struct weft__cuda_choice *choice)
{
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++) {
        choice->kernels[p].lazy = launch->tiles;
        if (launch->many[p] >= 0)
            choice->kernels[launch->many[p]].lazy = launch->tiles;
    }
    choice->kernels[WEFT__EXPERTS_READY_KERNEL].lazy =
        (launch->tiles && !launch->desc.adapter_rank) || !launch->readies;
    choice->kernels[WEFT__EXPERTS_ROUND_KERNEL].lazy = !launch->tiles || launch->exact;
}

// Kernels of packed weights, if there are such for every part: gate and up are one pass, and what they join leaves as down
// reads it.
static void plan_tiles(struct weft__experts_launch *launch, const struct weft__cuda_limits *limits,
                       struct weft__cuda_choice *choice)
{
    const weft_experts_desc *desc = &launch->desc;
    launch->exact = desc->flags & WEFT_LINEAR_EXACT;
    launch->tiles =
        (weft__experts_is_alone(desc) || desc->parts[WEFT_EXPERTS_GATE].weight_dtype ==
                                             desc->parts[WEFT_EXPERTS_UP].weight_dtype) &&
        desc->inner % 32 == 0 && desc->cols % 16 == 0 &&
        (int64_t)desc->experts * weft__experts_rows_of(desc, 0) <= INT32_MAX - 64 &&
        (int64_t)desc->experts * desc->cols <= INT32_MAX - 64;
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++)
        launch->tiles = launch->tiles && !weft__experts_has_planes(&desc->parts[p]) &&
                        (weft__experts_lacks(desc, p) ||
                         weft__linear_has_tiles(desc->parts[p].weight_dtype, launch->exact));
    struct weft__linear_experts_wish wish = {
        .format = desc->parts[WEFT_EXPERTS_GATE].weight_dtype,
        .x_dtype = launch->exact ? desc->x_dtype : WEFT_DTYPE_NONE,
        .rows = desc->inner,
        .cols = desc->cols,
        .experts = desc->experts,
        .top_k = desc->top_k,
        .max_tokens = desc->max_batch,
        .gate = weft__experts_function_of(desc),
        .alone = weft__experts_is_alone(desc),
        .exact = launch->exact,
        .rounds = !launch->exact,
        .weighs = weft__experts_weighs_input(desc),
        .adapts = desc->adapter_rank > 0,
        .one_shape = desc->flags & WEFT_LINEAR_BATCH_INVARIANT};
    launch->tiles =
        launch->tiles && weft__linear_experts_plan(&wish, limits, choice, &launch->joined);
    wish.format = desc->parts[WEFT_EXPERTS_DOWN].weight_dtype;
    wish.x_dtype = launch->exact ? WEFT_F32 : WEFT_DTYPE_NONE;
    wish.rows = desc->cols;
    wish.cols = desc->inner;
    wish.gate = 0;
    wish.alone = wish.rounds = wish.weighs = false; // (it may adapt)
    launch->tiles =
        launch->tiles && weft__linear_experts_plan(&wish, limits, choice, &launch->down);
}

// Room for `count` rows of `cols` floats; -1 if it does not fit, then and from then on.
static int64_t take(int64_t *at, int64_t count, int64_t cols)
{
    int64_t offset = *at, size;
    if (offset < 0 || !weft__mul_i64(count, cols, &size) || size > INT64_MAX / 8 - offset)
        return *at = -1;
    *at = weft__align_up(offset + 4 * size, 256);
    return offset;
}

static weft_status refuse(struct weft__cuda_choice *choice, const char *why)
{
    snprintf(choice->text, sizeof choice->text, "experts: %s", why);
    return WEFT_EUNSUPPORTED;
}

// Where everything lies; false if it does not fit.
static bool lay_out_workspace(struct weft__experts_launch *launch, size_t *bytes)
{
    const weft_experts_desc *desc = &launch->desc;
    const int64_t choices = (int64_t)desc->max_batch * desc->top_k;
    int64_t at = 0, tiles = 0;
    launch->ready = take(&at, launch->readies ? desc->max_batch : 0, desc->cols);
    launch->gate = take(&at, choices, desc->inner);
    launch->up = take(&at, choices, desc->inner);
    launch->results = take(&at, choices, desc->cols);
    if (launch->tiles) { // rounded rows are shorter than rows of floats, but for their last bytes
        launch->rounded = take(&tiles, launch->exact ? 0 : desc->max_batch, desc->cols + 32);
        launch->inner = take(&tiles, choices, desc->inner + 32);
        launch->tile_results = take(&tiles, choices, desc->cols);
    }
    int64_t all = at < 0 || tiles < 0 ? -1 : at > tiles ? at : tiles;
    if (desc->adapter_rank) {
        launch->plain = take(&all, launch->readies ? desc->max_batch : 0, desc->cols);
        launch->plain_inner = take(&all, choices, desc->inner);
        for (int p = 0; p < WEFT_EXPERTS_PARTS; p++)
            launch->added[p] = take(&all, choices, weft__experts_rows_of(desc, p));
    }
    *bytes = (size_t)all;
    return all >= 0;
}

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_experts_desc *desc = opaque_desc;
    struct weft__experts_launch *launch = choice->launch;
    const int64_t most_rows = 65535 * WEFT__EXPERTS_WARPS(128); // the fewest
    weft_status status;
    if (!weft__cuda_choose(&table, limits, desc->variant, NULL, desc, choice, &status))
        return status;
    if (desc->adapter_rank && desc->flags & WEFT_LINEAR_X_ROUNDED)
        return refuse(choice, "a rounded x for adapters, which read numbers");
    if (desc->cols > most_rows || desc->inner > most_rows || desc->max_batch > 65535 / desc->top_k)
        return refuse(choice, "more rows than a launch has blocks");
    launch->desc = *desc;
    launch->readies = desc->norm != WEFT_LINEAR_NORM_NONE || desc->x_dtype != WEFT_F32;
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++)
        if (!weft__experts_lacks(desc, p))
            launch->expert_bytes +=
                weft_dtype_row_bytes(desc->parts[p].weight_dtype, weft__experts_cols_of(desc, p)) *
                weft__experts_rows_of(desc, p);
    want_kernels(launch, choice);
    plan_tiles(launch, limits, choice);
    if (desc->flags & WEFT_LINEAR_X_ROUNDED && !launch->tiles)
        return refuse(choice, "a rounded x for weights that cannot be packed");
    choose_lazy(launch, choice);
    if (!lay_out_workspace(launch, &choice->workspace_bytes)) {
        snprintf(choice->text, sizeof choice->text,
                 "experts: rows of max_batch * top_k do not fit");
        return WEFT_EOVERFLOW;
    }
    snprintf(choice->text, sizeof choice->text, " %d of %d, %s %s %s, %lldx%lld batch<=%d%s",
             desc->top_k, desc->experts, weft_dtype_name(desc->parts[0].weight_dtype),
             weft__experts_is_alone(desc) ? "-" : weft_dtype_name(desc->parts[1].weight_dtype),
             weft_dtype_name(desc->parts[2].weight_dtype), (long long)desc->inner,
             (long long)desc->cols, desc->max_batch, launch->tiles ? ", may be packed" : "");
    return WEFT_OK;
}

int64_t weft__experts_cuda_packed_bytes(const void *opaque_launch, int32_t p)
{
    const struct weft__experts_launch *launch = opaque_launch;
    const weft_dtype format = launch->desc.parts[p].weight_dtype;
    return launch->tiles && !weft__experts_lacks(&launch->desc, p)
               ? weft__linear_packed_bytes(
                     launch->desc.experts * weft__experts_rows_of(&launch->desc, p),
                     weft__experts_cols_of(&launch->desc, p), weft__linear_tile_block_bytes(format),
                     weft_dtype_block_elems(format))
               : 0;
}

void weft__experts_cuda_pack(const void *opaque_launch, int32_t p,
                             const struct weft__linear_slab *slab, struct weft__cuda_step *step)
{
    const struct weft__experts_launch *launch = opaque_launch;
    const struct weft__linear_experts_product *product =
        p == WEFT_EXPERTS_DOWN ? &launch->down : &launch->joined;
    weft__linear_pack_step(product->pack_kernel, weft__experts_cols_of(&launch->desc, p), slab,
                           step);
}

const struct weft__cuda_op weft__experts_cuda = {&table, sizeof(struct weft__experts_launch), plan,
                                                 weft__experts_cuda_steps};
