// SPDX-License-Identifier: MIT
// Experts on CUDA. Packed: x rounded (unless the plan is exact), gate with up and the function, down, and the sum over a
// token's choices, a launch each. As a file has them: x to f32, normed (`ready`), gate, up with the function, down, the
// sum; activations stay f32 then.
#include "src/kernels/experts/experts_launch_cuda.h"

static void add_ready(const struct weft__experts_launch *launch, const weft_experts_args *args,
                      float *ready, struct weft__cuda_step *step)
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
                                                   .weight_plus = weft__experts_plus_of(desc)};
    weft__cuda_step(step, WEFT__EXPERTS_READY_KERNEL, (uint32_t)args->batch, 1, 256, &device,
                    sizeof device)
        ->overlap = 1;
}

static weft_dtype plain_dtype(weft_dtype dtype)
{
    return dtype ? dtype : WEFT_F32;
}

static struct weft__linear_experts experts_of(const struct weft__experts_launch *launch,
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

static struct weft__experts_product_args product_of(const struct weft__experts_launch *launch,
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
        .rows = (int32_t)weft__experts_rows_of(desc, p),
        .cols = (int32_t)weft__experts_cols_of(desc, p),
        .to = experts_of(launch, args, p != WEFT_EXPERTS_DOWN)};
}

// What the adapters of a part add to its products with x, whose rows are tokens' or places'. Adds a launch, unless the part
// has none: NULL.
static const float *add_adapted(const struct weft__experts_launch *launch,
                                const weft_experts_args *args, int p, const float *x,
                                int64_t x_stride, struct weft__cuda_step *steps, int32_t *count)
{
    struct weft__experts_adapt_args device = {
        .x = x,
        .x_stride = x_stride,
        .y = (float *)(void *)((char *)args->workspace + launch->added[p]),
        .rows = (int32_t)weft__experts_rows_of(&launch->desc, p),
        .cols = (int32_t)weft__experts_cols_of(&launch->desc, p),
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
    weft__cuda_step(&steps[(*count)++], WEFT__EXPERTS_ADAPT_KERNEL, (uint32_t)device.to.choices, 1,
                    WEFT__EXPERTS_ADAPT_THREADS, &device, sizeof device)
        ->overlap = 1;
    return device.y;
}

// A product of weights as a file has them, of few places at a time or of many.
static void add_product(const struct weft__experts_launch *launch, int32_t tokens, int p,
                        const struct weft__experts_product_args *product,
                        struct weft__cuda_step *step)
{
    const weft_experts_desc *desc = &launch->desc;
    const bool many = launch->many[p] >= 0 && weft__experts_has_many(desc, tokens);
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
static int32_t add_as_file(const struct weft__experts_launch *launch, const weft_experts_args *args,
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
        if (weft__experts_lacks(desc, p))
            continue;
        struct weft__experts_product_args product = product_of(launch, args, p);
        const bool down = p == WEFT_EXPERTS_DOWN;
        product.x = down ? up : launch->readies ? ready : args->x;
        product.x_stride = down ? desc->inner : launch->readies ? desc->cols : args->x_stride;
        product.gate = p == WEFT_EXPERTS_UP ? gate : NULL;
        product.y = down ? results : weft__experts_functions(desc, p) ? up : gate;
        product.to.adapted[0] =
            add_adapted(launch, args, p, product.x, product.x_stride, steps, &count);
        add_product(launch, args->batch, p, &product, &steps[count++]);
    }
    return count;
}

static struct weft__linear_device_part tile_part(const struct weft__experts_launch *launch,
                                                 const weft_experts_args *args, int p, void *y)
{
    const struct weft__linear_device_part part = {
        .weight = args->parts[p].packed,
        .bias = args->parts[p].bias,
        .y = y,
        .y_stride = weft__experts_rows_of(&launch->desc, p),
        .rows = (int32_t)weft__experts_rows_of(&launch->desc, p),
        .alpha = 1};
    return part;
}

static void add_round(const struct weft__experts_launch *launch, const weft_experts_args *args,
                      void *rounded, struct weft__cuda_step *step)
{
    const weft_experts_desc *desc = &launch->desc;
    const struct weft__linear_round_args round = {.x = args->x,
                                                  .x_stride = args->x_stride,
                                                  .weight = args->norm_weight,
                                                  .rounded = rounded,
                                                  .batch = args->batch,
                                                  .cols = (int32_t)desc->cols,
                                                  .weight_plus = weft__experts_plus_of(desc)};
    weft__cuda_step(step, WEFT__EXPERTS_ROUND_KERNEL,
                    (uint32_t)(((desc->cols + 63) / 64 * 2 + 7) / 8), (uint32_t)args->batch, 256,
                    &round, sizeof round)
        ->overlap = 1;
}

// Products of packed weights; returns how many launches.
static int32_t add_tiles(const struct weft__experts_launch *launch, const weft_experts_args *args,
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
        .num_parts = weft__experts_is_alone(desc) ? 1 : 2,
        .norm = desc->norm == WEFT_LINEAR_NORM_RMS,
        .norm_eps = desc->norm_eps,
        .norm_weight_plus = weft__experts_plus_of(desc),
        .experts = experts_of(launch, args, true)};
    for (int p = 0; adapts && p < WEFT_EXPERTS_DOWN && !weft__experts_lacks(desc, p); p++)
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

int32_t weft__experts_cuda_steps(const void *opaque_launch, const void *opaque_args,
                                 struct weft__cuda_step *steps)
{
    const struct weft__experts_launch *launch = opaque_launch;
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
                                               .next_weight_plus = weft__experts_plus_of(desc),
                                               .experts = desc->experts,
                                               .cols = (int32_t)desc->cols,
                                               .alpha = args->alpha};
    weft__cuda_step(&steps[count++], WEFT__EXPERTS_SUM_KERNEL, ((uint32_t)desc->cols + 255) / 256,
                    (uint32_t)args->batch, 256, &sum, sizeof sum)
        ->overlap = 1;
    return count;
}
