// SPDX-License-Identifier: MIT
// Shapes and launches of experts' products on packed tiles (linear_experts_cuda.h).
#include "src/kernels/linear/linear_experts_cuda.h"

#include "src/kernels/linear/linear_cuda.h"

WEFT__CUDA_CONSTANTS(linear_experts, WEFT__LINEAR_CONSTANTS)

bool weft__linear_has_tiles(weft_dtype format, bool exact)
{
#define X(ID, name, activations, level)                                                            \
    if (format == WEFT_##ID && (WEFT__ACTS_##activations == WEFT__ACTS_f32) == exact)              \
        return weft_dtype_block_elems(format) > 1;
#include "src/kernels/linear/linear_cuda.def"
#undef X
    return false;
}

// Rows of few tiles leave warps of a large team without work.
static void shrink_team(struct weft__linear_shape *shape, int64_t cols)
{
    const int64_t tiles = (cols + WEFT__LINEAR_TILE_COLS - 1) / WEFT__LINEAR_TILE_COLS;
    while (shape->split == 1 && !shape->pair && shape->team / 2 >= tiles)
        shape->team /= 2;
}

static void want_kernel(const struct weft__linear_experts_wish *wish,
                        const struct weft__linear_shape *shape, struct weft__cuda_choice *choice)
{
    const struct weft__linear_experts_constants constants = {
        .WEFT_FORMAT = (int32_t)wish->format,
        .WEFT_BATCH = shape->columns,
        .WEFT_EXACT = wish->exact,
        .WEFT_EXPERTS = 1 | (wish->weighs ? 2 : 0) | (wish->adapts ? 4 : 0),
        .WEFT_X_OUTSIDE = shape->x_outside,
        .WEFT_ALIGNED = 1,
        .WEFT_WARPS = shape->warps,
        .WEFT_TEAM = shape->team,
        .WEFT_STAGES = shape->stages,
        .WEFT_SPLIT = shape->split,
        .WEFT_GATE = wish->gate,
        .WEFT_ROUND = wish->rounds,
        .WEFT_PAIR = shape->pair,
        .WEFT_X_DTYPE = (int32_t)wish->x_dtype,
        .WEFT_Y_DTYPE = WEFT_F32,
        .WEFT_SCALE_DTYPE = WEFT_F16,
        .WEFT_BLOCKS = shape->blocks};
    const int32_t kernel =
        weft__cuda_want(choice, "src/kernels/linear/linear_few.cu", "weft_linear_few",
                        WEFT__CUDA_VALUES(linear_experts, constants));
    choice->kernels[kernel].lazy = shape->columns > 1 && !wish->one_shape;
}

bool weft__linear_experts_plan(const struct weft__linear_experts_wish *wish,
                               const struct weft__cuda_limits *limits,
                               struct weft__cuda_choice *choice,
                               struct weft__linear_experts_product *out)
{
    static const int32_t rounded[] = {1, 8, 16}, exact[] = {1, 4};
    const int32_t *columns = wish->exact ? exact : rounded, count = wish->exact ? 2 : 3;
    const struct weft__linear_matter matter = {.cols = wish->cols,
                                               .block_elems = weft_dtype_block_elems(wish->format),
                                               .block_bytes =
                                                   weft__linear_tile_block_bytes(wish->format),
                                               .grid_bytes = WEFT__LINEAR_GRID_BYTES(wish->format),
                                               .numbers = WEFT__LINEAR_SOME_NUMBERS(wish->format),
                                               .exact = wish->exact,
                                               .gate = wish->gate != 0,
                                               .rounds = wish->rounds,
                                               .experts = true,
                                               .groups = wish->rows / 16};
    *out = (struct weft__linear_experts_product){.limits = *limits,
                                                 .experts = wish->experts,
                                                 .top_k = wish->top_k,
                                                 .first_kernel = choice->num_kernels,
                                                 .groups = (int32_t)(wish->rows / 16)};
    out->rounds = wish->rounds;
    const int32_t first = wish->one_shape && wish->max_tokens > 1 ? 1 : 0;
    const int32_t last = wish->max_tokens == 1 ? 1 : wish->one_shape ? 2 : count;
    for (int32_t i = first; i < last; i++) {
        struct weft__linear_shape *shape = &out->shapes[out->num_shapes];
        if (!weft__linear_choose_shape(&matter, columns[i], limits, shape) ||
            (columns[i] == 16 && shape->split > 2))
            break;
        shrink_team(shape, wish->cols);
        want_kernel(wish, shape, choice);
        out->num_shapes++;
    }
    const struct weft__linear_experts_constants pack = {.WEFT_FORMAT = (int32_t)wish->format};
    out->pack_kernel = weft__cuda_want(choice, "src/kernels/linear/linear_pack.cu",
                                       "weft_linear_pack", WEFT__CUDA_VALUES(linear_experts, pack));
    choice->kernels[out->pack_kernel].lazy = true;
    return out->num_shapes > 0;
}

// A single token has one row for every expert it goes to; more have about tokens * top_k / experts.
static int32_t shape_of(const struct weft__linear_experts_product *product, int32_t tokens)
{
    const int64_t places =
        ((int64_t)tokens * product->top_k + product->experts - 1) / product->experts;
    int32_t which = tokens > 1 && product->num_shapes > 1 ? 1 : 0;
    while (which + 1 < product->num_shapes && places > product->shapes[which].columns)
        which++;
    return which;
}

// Blocks that a share gets: all of them fill the device once where weights are what takes time; with more rows of X
// four times, for shares differ then.
static uint32_t blocks_of(const struct weft__linear_experts_product *product,
                          const struct weft__linear_shape *shape, int32_t groups, uint32_t shares)
{
    const int32_t waves = shape->columns > 1 ? 4 : 1, unit = shape->pair ? 2 : shape->split;
    const int64_t room = (int64_t)product->limits.num_sms * shape->blocks * waves / unit;
    const int64_t units = shape->pair ? groups / 2 : groups;
    const int64_t fair = (room + shares - 1) / shares;
    return (uint32_t)((units < fair ? units : fair) * unit);
}

void weft__linear_experts_step(const struct weft__linear_experts_product *product, int32_t tokens,
                               struct weft__linear_device_args *args, struct weft__cuda_step *step)
{
    const int32_t which = shape_of(product, tokens);
    const struct weft__linear_shape *shape = &product->shapes[which];
    const int32_t choices = tokens * product->top_k;
    const int32_t taken = choices < product->experts ? choices : product->experts;
    const uint32_t shares = (uint32_t)(taken + (choices - taken) / shape->columns);
    args->num_groups = product->rounds && !shape->pair ? product->groups / 2 : product->groups;
    weft__cuda_step(step, product->first_kernel + which,
                    blocks_of(product, shape, args->num_groups, shares), shares,
                    (uint32_t)shape->warps * 32, args, sizeof *args);
    step->shared_bytes = (uint32_t)shape->shared_bytes;
    step->cluster = shape->pair ? 2 : shape->split > 1 ? (uint32_t)shape->split : 0;
    step->overlap = 1;
}
