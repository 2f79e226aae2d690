// SPDX-License-Identifier: MIT
// Experts on CUDA. Packed: x rounded (unless the plan is exact), gate with up and the function, down, and the sum over a
// token's choices, a launch each. As a file has them: x to f32, normed (`ready`), gate, up with the function, down, the
// sum; activations stay f32 then.
//
// Workspace: | x of tokens, rounded | h of places | results of choices |   or
//            | f32 rows of tokens, normed | gate of places | up of places | results of choices |
// and, of plans with adapters, behind either: | f32 rows of tokens, normed | h of places | what adapters add to each part |
#include <stdio.h>

#include "src/base/checked.h"
#include "src/kernels/cuda/launch.h"
#include "src/kernels/experts/experts_cuda.h"
#include "src/kernels/experts/experts_device.h"
#include "src/kernels/experts/experts_kernel.h"
#include "src/kernels/linear/linear_experts_cuda.h"

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

// The first kernels are the parts'.
enum { READY = WEFT_EXPERTS_PARTS, SUM, ROUND, ADAPT };

struct launch {
    weft_experts_desc desc;
    int64_t ready, gate, up, results;                      // in the workspace
    int64_t rounded, inner, tile_results;                  // likewise
    int64_t plain, plain_inner, added[WEFT_EXPERTS_PARTS]; // likewise, with adapters
    int64_t expert_bytes;                                  // of one expert's weights
    bool readies;                                          // x is made f32, and normed
    bool tiles, exact;                                     // may be packed; with x as numbers
    struct weft__linear_experts_product joined, down;      // on packed tiles
    int32_t many
        [WEFT_EXPERTS_PARTS]; // kernels of tiles of many places, of parts as a file has them; or -1
};

static bool has_planes(const weft_linear_part *part)
{
    return part->scale_cols > 0;
}

// What the weights of norms are stored less.
static float plus_of(const weft_experts_desc *desc)
{
    return desc->flags & WEFT_LINEAR_NORM_PLUS_ONE ? 1.0f : 0.0f;
}

static int64_t rows_of(const weft_experts_desc *desc, int p)
{
    return p == WEFT_EXPERTS_DOWN ? desc->cols : desc->inner;
}

static int64_t cols_of(const weft_experts_desc *desc, int p)
{
    return p == WEFT_EXPERTS_DOWN ? desc->inner : desc->cols;
}

static int32_t function_of(const weft_experts_desc *desc)
{
    return desc->clamp_limit != 0 ? WEFT__LINEAR_GATE_CLAMPED : (int32_t)desc->gate;
}

// Without a gate the function is of one product alone: there is no part of up.
static bool is_alone(const weft_experts_desc *desc)
{
    return desc->flags & WEFT_EXPERTS_PLAIN;
}

static bool lacks(const weft_experts_desc *desc, int p)
{
    return p == WEFT_EXPERTS_UP && is_alone(desc);
}

// The part whose product the function follows.
static bool functions(const weft_experts_desc *desc, int p)
{
    return p == (is_alone(desc) ? WEFT_EXPERTS_GATE : WEFT_EXPERTS_UP);
}

static bool weighs_input(const weft_experts_desc *desc)
{
    return desc->flags & WEFT_EXPERTS_WEIGH_INPUT;
}

// Are places of a run so many that a tile of them pays? On an H200 tiles lose with 16 for every expert and win by far with 128 (NOTES.md).
static bool has_many(const weft_experts_desc *desc, int32_t tokens)
{
    return (int64_t)tokens * desc->top_k >= (int64_t)desc->experts * (WEFT__EXPERTS_TILE * 3 / 8);
}

// Kernels of weights as a file has them, and those around products.
static void want_kernels(struct launch *launch, struct weft__cuda_choice *choice)
{
    const weft_experts_desc *desc = &launch->desc;
    struct weft__experts_constants of_part[WEFT_EXPERTS_PARTS];
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++) {
        // (a part that is not there has the kernel of the one before, and no launch)
        const weft_linear_part *part = &desc->parts[lacks(desc, p) ? WEFT_EXPERTS_GATE : p];
        of_part[p] = (struct weft__experts_constants){
            .FORMAT = (int32_t)part->weight_dtype,
            .ELEMS = weft_dtype_block_elems(part->weight_dtype),
            .BYTES = weft_dtype_block_bytes(part->weight_dtype),
            .SCALE_DTYPE = has_planes(part) ? (int32_t)part->scale_dtype : 0,
            .FUNCTION = functions(desc, p) ? function_of(desc) : 0,
            .ALONE = is_alone(desc),
            .WEIGHS = weighs_input(desc) && p != WEFT_EXPERTS_DOWN,
            .ADAPTS = desc->adapter_rank > 0};
        weft__cuda_want(choice, "src/kernels/experts/experts.cu", "weft_experts",
                        WEFT__CUDA_VALUES(experts, of_part[p]));
    }
    const struct weft__experts_ready_constants ready = {.WEFT_X_DTYPE = (int32_t)desc->x_dtype};
    weft__cuda_want(choice, "src/kernels/linear/linear_round.cu", "weft_linear_ready",
                    WEFT__CUDA_VALUES(experts_ready, ready));
    const struct weft__experts_sum_constants sum = {
        .TOP_K = desc->top_k, .Y_DTYPE = (int32_t)desc->y_dtype, .AS_THEY_ARE = weighs_input(desc)};
    weft__cuda_want(choice, "src/kernels/experts/experts_sum.cu", "weft_experts_sum",
                    WEFT__CUDA_VALUES(experts_sum, sum));
    weft__cuda_want(choice, "src/kernels/linear/linear_round.cu", "weft_linear_round",
                    WEFT__CUDA_VALUES(experts_ready, ready));
    const struct weft__experts_adapt_constants none = {0};
    if (desc->adapter_rank)
        weft__cuda_want(choice, "src/kernels/experts/experts_adapt.cu", "weft_experts_adapt",
                        WEFT__CUDA_VALUES(experts_adapt, none));
    const bool many =
        has_many(desc, desc->max_batch) && !(desc->flags & WEFT_LINEAR_BATCH_INVARIANT);
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++)
        launch->many[p] =
            many && !lacks(desc, p) && of_part[p].ELEMS == 1
                ? weft__cuda_want(choice, "src/kernels/experts/experts_tile.cu",
                                  "weft_experts_tile", WEFT__CUDA_VALUES(experts, of_part[p]))
                : -1;
}

// Weights that may be packed seldom lie as in a file.
static void choose_lazy(const struct launch *launch, struct weft__cuda_choice *choice)
{
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++) {
        choice->kernels[p].lazy = launch->tiles;
        if (launch->many[p] >= 0)
            choice->kernels[launch->many[p]].lazy = launch->tiles;
    }
    choice->kernels[READY].lazy = (launch->tiles && !launch->desc.adapter_rank) || !launch->readies;
    choice->kernels[ROUND].lazy = !launch->tiles || launch->exact;
}

// Kernels of packed weights, if there are such for every part: gate and up are one pass, and what they join leaves as down
// reads it.
static void plan_tiles(struct launch *launch, const struct weft__cuda_limits *limits,
                       struct weft__cuda_choice *choice)
{
    const weft_experts_desc *desc = &launch->desc;
    launch->exact = desc->flags & WEFT_LINEAR_EXACT;
    launch->tiles = (is_alone(desc) || desc->parts[WEFT_EXPERTS_GATE].weight_dtype ==
                                           desc->parts[WEFT_EXPERTS_UP].weight_dtype) &&
                    desc->inner % 32 == 0 && desc->cols % 16 == 0 &&
                    (int64_t)desc->experts * rows_of(desc, 0) <= INT32_MAX - 64 &&
                    (int64_t)desc->experts * desc->cols <= INT32_MAX - 64;
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++)
        launch->tiles =
            launch->tiles && !has_planes(&desc->parts[p]) &&
            (lacks(desc, p) || weft__linear_has_tiles(desc->parts[p].weight_dtype, launch->exact));
    struct weft__linear_experts_wish wish = {
        .format = desc->parts[WEFT_EXPERTS_GATE].weight_dtype,
        .x_dtype = launch->exact ? desc->x_dtype : WEFT_DTYPE_NONE,
        .rows = desc->inner,
        .cols = desc->cols,
        .experts = desc->experts,
        .top_k = desc->top_k,
        .max_tokens = desc->max_batch,
        .gate = function_of(desc),
        .alone = is_alone(desc),
        .exact = launch->exact,
        .rounds = !launch->exact,
        .weighs = weighs_input(desc),
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
static bool lay_out_workspace(struct launch *launch, size_t *bytes)
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
            launch->added[p] = take(&all, choices, rows_of(desc, p));
    }
    *bytes = (size_t)all;
    return all >= 0;
}

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_experts_desc *desc = opaque_desc;
    struct launch *launch = choice->launch;
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
        if (!lacks(desc, p))
            launch->expert_bytes +=
                weft_dtype_row_bytes(desc->parts[p].weight_dtype, cols_of(desc, p)) *
                rows_of(desc, p);
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
             is_alone(desc) ? "-" : weft_dtype_name(desc->parts[1].weight_dtype),
             weft_dtype_name(desc->parts[2].weight_dtype), (long long)desc->inner,
             (long long)desc->cols, desc->max_batch, launch->tiles ? ", may be packed" : "");
    return WEFT_OK;
}

static void add_ready(const struct launch *launch, const weft_experts_args *args, float *ready,
                      struct weft__cuda_step *step)
{
    const weft_experts_desc *desc = &launch->desc;
    const struct weft__linear_ready_args device = {.x = args->x,
                                                   .weight = args->norm_weight,
                                                   .y = ready,
                                                   .x_stride = args->x_stride,
                                                   .y_stride = desc->cols,
                                                   .cols = (int32_t)desc->cols,
                                                   .norm = (int32_t)desc->norm,
                                                   .eps = desc->norm_eps,
                                                   .weight_plus = plus_of(desc)};
    weft__cuda_step(step, READY, (uint32_t)args->batch, 1, 256, &device, sizeof device)->overlap =
        1;
}

static weft_dtype plain_dtype(weft_dtype dtype)
{
    return dtype ? dtype : WEFT_F32;
}

static struct weft__linear_experts experts_of(const struct launch *launch,
                                              const weft_experts_args *args, bool gather)
{
    const weft_experts_desc *desc = &launch->desc;
    return (struct weft__linear_experts){.starts = args->starts,
                                         .order = args->order,
                                         .experts = desc->experts,
                                         .top_k = desc->top_k,
                                         .choices = args->batch * desc->top_k,
                                         .gather = gather,
                                         .clamp_limit = desc->clamp_limit,
                                         .clamp_slope = desc->clamp_slope,
                                         .weights = args->weights};
}

static struct weft__experts_product_args product_of(const struct launch *launch,
                                                    const weft_experts_args *args, int p)
{
    const weft_experts_desc *desc = &launch->desc;
    const weft_experts_part_args *from = &args->parts[p];
    return (struct weft__experts_product_args){
        .weight = from->weight,
        .scales = from->scales,
        .biases = from->biases,
        .weight_stride_bytes = from->weight_stride_bytes,
        .expert_stride_bytes = from->expert_stride_bytes,
        .scale_stride = from->scale_stride,
        .expert_scale_stride = from->expert_scale_stride,
        .scale_cols = desc->parts[p].scale_cols ? (int32_t)desc->parts[p].scale_cols : 1,
        .scale_rows = desc->parts[p].scale_rows ? (int32_t)desc->parts[p].scale_rows : 1,
        .bias = from->bias,
        .rows = (int32_t)rows_of(desc, p),
        .cols = (int32_t)cols_of(desc, p),
        .to = experts_of(launch, args, p != WEFT_EXPERTS_DOWN)};
}

// What the adapters of a part add to its products with x, whose rows are tokens' or places'. Adds a launch, unless the part
// has none: NULL.
static const float *add_adapted(const struct launch *launch, const weft_experts_args *args, int p,
                                const float *x, int64_t x_stride, struct weft__cuda_step *steps,
                                int32_t *count)
{
    struct weft__experts_adapt_args device = {
        .x = x,
        .x_stride = x_stride,
        .y = (float *)(void *)((char *)args->workspace + launch->added[p]),
        .rows = (int32_t)rows_of(&launch->desc, p),
        .cols = (int32_t)cols_of(&launch->desc, p),
        .to = experts_of(launch, args, p != WEFT_EXPERTS_DOWN)};
    for (int32_t i = 0; i < args->num_adapters && i < WEFT__EXPERTS_ADAPTERS; i++) {
        const weft_experts_adapter *one = &args->adapters[i];
        if ((int)one->place == p)
            device.adapters[device.count++] =
                (struct weft__experts_adapter){.a = one->a,
                                               .b = one->b,
                                               .scale = one->scale,
                                               .rank = one->rank,
                                               .a_dtype = (int32_t)plain_dtype(one->a_dtype),
                                               .b_dtype = (int32_t)plain_dtype(one->b_dtype)};
    }
    if (device.count == 0)
        return NULL;
    weft__cuda_step(&steps[(*count)++], ADAPT, (uint32_t)device.to.choices, 1,
                    WEFT__EXPERTS_ADAPT_THREADS, &device, sizeof device)
        ->overlap = 1;
    return device.y;
}

// A product of weights as a file has them, of few places at a time or of many.
static void add_product(const struct launch *launch, int32_t tokens, int p,
                        const struct weft__experts_product_args *product,
                        struct weft__cuda_step *step)
{
    const weft_experts_desc *desc = &launch->desc;
    const bool many = launch->many[p] >= 0 && has_many(desc, tokens);
    const int32_t warps = WEFT__EXPERTS_WARPS(weft_dtype_block_elems(desc->parts[p].weight_dtype));
    const int32_t height = many ? WEFT__EXPERTS_TILE : warps;
    const int32_t columns = many ? WEFT__EXPERTS_TILE : WEFT__EXPERTS_COLUMNS;
    const int32_t choices = tokens * desc->top_k;
    const int32_t groups = choices < desc->experts ? choices : desc->experts;
    weft__cuda_step(
        step, many ? launch->many[p] : p, (uint32_t)(groups + (choices - groups) / columns),
        (uint32_t)((product->rows + height - 1) / height),
        many ? WEFT__EXPERTS_TILE_THREADS : (uint32_t)warps * 32, product, sizeof *product)
        ->overlap = 1;
}

// Products of weights as a file has them; returns how many launches.
static int32_t add_as_file(const struct launch *launch, const weft_experts_args *args,
                           struct weft__cuda_step *steps)
{
    const weft_experts_desc *desc = &launch->desc;
    char *room = args->workspace;
    float *ready = (float *)(room + launch->ready), *gate = (float *)(room + launch->gate);
    float *up = (float *)(room + launch->up), *results = (float *)(room + launch->results);
    int32_t count = 0;
    if (launch->readies)
        add_ready(launch, args, ready, &steps[count++]);
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++) {
        if (lacks(desc, p))
            continue;
        struct weft__experts_product_args product = product_of(launch, args, p);
        const bool down = p == WEFT_EXPERTS_DOWN;
        product.x = down ? up : launch->readies ? ready : args->x;
        product.x_stride = down ? desc->inner : launch->readies ? desc->cols : args->x_stride;
        product.gate = p == WEFT_EXPERTS_UP ? gate : NULL;
        product.y = down ? results : functions(desc, p) ? up : gate;
        product.to.adapted[0] =
            add_adapted(launch, args, p, product.x, product.x_stride, steps, &count);
        add_product(launch, args->batch, p, &product, &steps[count++]);
    }
    return count;
}

static struct weft__linear_device_part tile_part(const struct launch *launch,
                                                 const weft_experts_args *args, int p, void *y)
{
    const struct weft__linear_device_part part = {.weight = args->parts[p].packed,
                                                  .bias = args->parts[p].bias,
                                                  .y = y,
                                                  .y_stride = rows_of(&launch->desc, p),
                                                  .rows = (int32_t)rows_of(&launch->desc, p),
                                                  .alpha = 1};
    return part;
}

static void add_round(const struct launch *launch, const weft_experts_args *args, void *rounded,
                      struct weft__cuda_step *step)
{
    const weft_experts_desc *desc = &launch->desc;
    const struct weft__linear_round_args round = {.x = args->x,
                                                  .x_stride = args->x_stride,
                                                  .weight = args->norm_weight,
                                                  .rounded = rounded,
                                                  .batch = args->batch,
                                                  .cols = (int32_t)desc->cols,
                                                  .weight_plus = plus_of(desc)};
    weft__cuda_step(step, ROUND, (uint32_t)(((desc->cols + 63) / 64 * 2 + 7) / 8),
                    (uint32_t)args->batch, 256, &round, sizeof round)
        ->overlap = 1;
}

// Products of packed weights; returns how many launches.
static int32_t add_tiles(const struct launch *launch, const weft_experts_args *args,
                         struct weft__cuda_step *steps)
{
    const weft_experts_desc *desc = &launch->desc;
    char *room = args->workspace, *rounded = room + launch->rounded, *inner = room + launch->inner;
    int32_t count = 0;
    const bool ready = desc->flags & WEFT_LINEAR_X_ROUNDED, adapts = args->num_adapters > 0;
    float *plain = (float *)(void *)(room + launch->plain);
    float *h = launch->exact ? (float *)(void *)inner
               : adapts      ? (float *)(void *)(room + launch->plain_inner)
                             : NULL;
    if (!launch->exact && !ready)
        add_round(launch, args, rounded, &steps[count++]);
    if (adapts && launch->readies)
        add_ready(launch, args, plain, &steps[count++]);
    struct weft__linear_device_args joined = {
        .part = {tile_part(launch, args, WEFT_EXPERTS_GATE, h),
                 tile_part(launch, args, WEFT_EXPERTS_UP, NULL)},
        .x = launch->exact || ready ? args->x : rounded,
        .x_stride = args->x_stride,
        .norm_weight = args->norm_weight,
        .rounded = launch->exact ? NULL : inner,
        .cols = (int32_t)desc->cols,
        .num_parts = is_alone(desc) ? 1 : 2,
        .norm = desc->norm == WEFT_LINEAR_NORM_RMS,
        .norm_eps = desc->norm_eps,
        .norm_weight_plus = plus_of(desc),
        .experts = experts_of(launch, args, true)};
    for (int p = 0; adapts && p < WEFT_EXPERTS_DOWN && !lacks(desc, p); p++)
        joined.experts.adapted[p] =
            add_adapted(launch, args, p, launch->readies ? plain : args->x,
                        launch->readies ? desc->cols : args->x_stride, steps, &count);
    weft__linear_experts_step(&launch->joined, args->batch, &joined, &steps[count++]);
    struct weft__linear_device_args down = {
        .part = {tile_part(launch, args, WEFT_EXPERTS_DOWN, room + launch->tile_results)},
        .x = inner,
        .x_stride = desc->inner,
        .cols = (int32_t)desc->inner,
        .num_parts = 1,
        .experts = experts_of(launch, args, false)};
    if (adapts)
        down.experts.adapted[0] =
            add_adapted(launch, args, WEFT_EXPERTS_DOWN, h, desc->inner, steps, &count);
    weft__linear_experts_step(&launch->down, args->batch, &down, &steps[count++]);
    return count;
}

static int32_t steps(const void *opaque_launch, const void *opaque_args,
                     struct weft__cuda_step *steps)
{
    const struct launch *launch = opaque_launch;
    const weft_experts_desc *desc = &launch->desc;
    const weft_experts_args *args = opaque_args;
    const bool packed = args->parts[0].packed != NULL, next = desc->flags & WEFT_LINEAR_NEXT;
    const char *results =
        (const char *)args->workspace + (packed ? launch->tile_results : launch->results);
    int32_t count = packed ? add_tiles(launch, args, steps) : add_as_file(launch, args, steps);
    const struct weft__experts_sum_args sum = {.results = (const float *)(const void *)results,
                                               .weights = args->weights,
                                               .residual = args->residual,
                                               .y = args->y,
                                               .residual_stride = args->residual_stride,
                                               .y_stride = args->y_stride,
                                               .starts = args->starts,
                                               .bytes_read = args->bytes_read,
                                               .expert_bytes = (uint64_t)launch->expert_bytes,
                                               .rounded = next ? args->next : NULL,
                                               .next_weight = args->next_weight,
                                               .next_weight_plus = plus_of(desc),
                                               .experts = desc->experts,
                                               .cols = (int32_t)desc->cols,
                                               .alpha = args->alpha};
    weft__cuda_step(&steps[count++], SUM, ((uint32_t)desc->cols + 255) / 256, (uint32_t)args->batch,
                    256, &sum, sizeof sum)
        ->overlap = 1;
    return count;
}

int64_t weft__experts_cuda_packed_bytes(const void *opaque_launch, int32_t p)
{
    const struct launch *launch = opaque_launch;
    const weft_dtype format = launch->desc.parts[p].weight_dtype;
    return launch->tiles && !lacks(&launch->desc, p)
               ? weft__linear_packed_bytes(
                     launch->desc.experts * rows_of(&launch->desc, p), cols_of(&launch->desc, p),
                     weft__linear_tile_block_bytes(format), weft_dtype_block_elems(format))
               : 0;
}

void weft__experts_cuda_pack(const void *opaque_launch, int32_t p,
                             const struct weft__linear_slab *slab, struct weft__cuda_step *step)
{
    const struct launch *launch = opaque_launch;
    const struct weft__linear_experts_product *product =
        p == WEFT_EXPERTS_DOWN ? &launch->down : &launch->joined;
    weft__linear_pack_step(product->pack_kernel, cols_of(&launch->desc, p), slab, step);
}

const struct weft__cuda_op weft__experts_cuda = {&table, sizeof(struct launch), plan, steps};
