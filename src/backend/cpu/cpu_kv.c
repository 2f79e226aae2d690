// SPDX-License-Identifier: MIT
// Spreads the tokens that are appended to a KV cache over threads.
#include <stdio.h>

#include "src/backend/cpu/cpu.h"
#include "src/backend/cpu/cpu_batch.h"
#include "src/base/checked.h"
#include "src/kernels/kv/kv_kernel.h"

static bool serves(const struct weft__kernel *row, const void *desc)
{
    const struct weft__kv_kernel *kernel = (const void *)row;
    return !kernel->kv || kernel->kv == ((const weft_kv_append_desc *)desc)->layout.dtype;
}

// Rows that need no more than a forced one, so that forcing the reference forces all of it.
static uint32_t allowed(const weft_context *context, const struct weft__kv_kernel *kernel,
                        bool forced)
{
    uint32_t mask = weft__cpu_of(context)->isa_mask;
    return forced ? mask & ((2u << kernel->base.level) - 1) : mask;
}

// The best row for values: one that takes any format ends every search.
static const struct weft__kv_kernel *choose_values(const weft_context *context, uint32_t mask,
                                                   weft_dtype dtype)
{
    const struct weft__kernel_table *table = context->backend->tables[WEFT__OP_kv];
    const struct weft__kv_kernel *rows = table->rows;
    int32_t i = 0;
    while (i + 1 < table->count &&
           (!weft__cpu_fits(&rows[i].base, mask) || (rows[i].kv && rows[i].kv != dtype)))
        i++;
    return &rows[i];
}

static const struct weft__rope_kernel *choose_rotation(const weft_context *context, uint32_t mask,
                                                       weft_rope_style style)
{
    const struct weft__kernel_table *table = context->backend->tables[WEFT__OP_rope];
    const struct weft__rope_kernel *rows = table->rows;
    for (int32_t i = 0; i < table->count; i++)
        if (rows[i].style == style && weft__cpu_fits(&rows[i].base, mask))
            return &rows[i];
    return NULL;
}

static weft_status plan_rotation(weft_plan *plan, struct weft__kv_launch *launch,
                                 const weft_rope_params *params, uint32_t mask)
{
    weft__rope_frequencies_make(params, launch->layout.head_dim, &launch->frequencies);
    launch->rope = choose_rotation(plan->context, mask, launch->frequencies.style);
    if (!launch->rope)
        return weft__fail(plan->context, WEFT_EUNSUPPORTED, "kv: no kernel for this rotation");
    return WEFT_OK;
}

weft__prepare_fn weft__cpu_prepare_kv;
weft_status weft__cpu_prepare_kv(weft_plan *plan)
{
    const weft_kv_append_desc *desc = plan->desc;
    weft_status status =
        weft__plan_launch(plan, sizeof(struct weft__kv_launch), desc->variant, serves);
    if (status != WEFT_OK)
        return status;
    struct weft__kv_launch *launch = plan->launch;
    uint32_t mask = allowed(plan->context, launch->kernel, desc->variant != NULL);
    launch->v_kernel = choose_values(plan->context, mask, desc->layout.v_dtype);
    launch->layout = desc->layout;
    launch->num_q_heads = desc->num_q_heads;
    launch->x_dtype = desc->x_dtype;
    launch->q_out_dtype = desc->q_out_dtype;
    launch->q_growth_length = desc->q_growth_length;
    launch->q_growth = desc->q_growth;
    launch->rows_per_task = weft__plan_rows_per_task(
        ((int64_t)2 * desc->layout.num_kv_heads + desc->num_q_heads) * desc->layout.head_dim);
    if (desc->rope) {
        status = plan_rotation(plan, launch, desc->rope, mask);
        if (status != WEFT_OK)
            return status;
    }
    snprintf(plan->description, sizeof plan->description,
             "kv append %s %d heads x %d page %d tokens<=%d: %s%s%s",
             weft_dtype_name(desc->layout.dtype), desc->layout.num_kv_heads, desc->layout.head_dim,
             desc->layout.page_size, desc->max_tokens, launch->kernel->base.name,
             launch->rope ? " with " : "", launch->rope ? launch->rope->base.name : "");
    int64_t elems = (int64_t)2 * desc->layout.num_kv_heads * desc->layout.head_dim;
    int64_t tile =
        launch->rows_per_task < desc->max_tokens ? launch->rows_per_task : desc->max_tokens;
    plan->info = (weft_plan_info){
        .splits = 1,
        .tasks = weft__ceil_div(desc->max_tokens, launch->rows_per_task),
        .tile_rows = tile,
        .bytes_read = weft__plan_bytes(desc->x_dtype, desc->max_tokens, elems) +
                      weft__plan_bytes(WEFT_F32, desc->max_tokens, 1), // slots
        .bytes_written = weft__plan_bytes(desc->layout.dtype, desc->max_tokens, elems),
        .kernel = launch->kernel->base.name};
    return WEFT_OK;
}

struct work {
    const struct weft__kv_launch *launch;
    struct weft__kv_call call;
    int64_t tokens;
};

static void append_task(void *opaque, int32_t index, int32_t thread)
{
    const struct work *work = opaque;
    int64_t token0 = index * work->launch->rows_per_task;
    int64_t token1 = token0 + work->launch->rows_per_task;
    (void)thread;
    weft__kv_append(work->launch, &work->call, token0,
                    token1 < work->tokens ? token1 : work->tokens);
}

static struct weft__kv_target make_target(const weft_kv_plane *plane, weft_dtype dtype, int32_t dim,
                                          int32_t inner, weft_kv_scaling scaling,
                                          const struct weft__kv_kernel *kernel)
{
    return (struct weft__kv_target){
        .store = kernel->store,
        .data = plane->data,
        .dtype = dtype,
        .dim = dim,
        .inner = inner,
        .page_stride = plane->page_stride,
        .head_stride = plane->head_stride,
        .token_stride = plane->token_stride,
        .inner_stride = plane->inner_stride,
        .scaling = scaling,
        .scales = plane->scales,
        .scale_page_stride = plane->scale_page_stride,
        .scale_head_stride = plane->scale_head_stride,
        .scale_token_stride = plane->scale_token_stride,
    };
}

weft__submit_fn weft__cpu_submit_kv;
weft_status weft__cpu_submit_kv(const weft_plan *plan, const void *opaque_args, weft_stream *stream)
{
    const struct weft__kv_launch *launch = plan->launch;
    const weft_kv_append_args *args = opaque_args;
    (void)stream;
    const weft_kv_layout *layout = &launch->layout;
    struct work work = {
        .launch = launch,
        .call = {.targets = {make_target(&args->pool.k, layout->dtype, layout->head_dim,
                                         layout->inner, layout->scaling, launch->kernel),
                             make_target(&args->pool.v, layout->v_dtype, layout->v_dim,
                                         layout->v_inner, layout->v_scaling, launch->v_kernel)},
                 .k = args->k,
                 .v = args->v,
                 .k_token_stride = args->k_token_stride,
                 .v_token_stride = args->v_token_stride,
                 .q = args->q,
                 .q_token_stride = args->q_token_stride,
                 .q_out = args->q_out,
                 .q_out_token_stride = args->q_out_token_stride,
                 .slots = args->slots,
                 .positions = args->positions},
        .tokens = args->tokens,
    };
    if (args->batch) {
        const struct weft__cpu_batch_part *part = weft__cpu_batch_part(args->batch, plan);
        work.call.slots = args->batch->slots;
        work.call.positions = args->batch->positions;
        work.call.cosines = part->cosines;
        work.call.sines = part->sines;
    }
    weft__cpu_parallel_for(plan->context,
                           (int32_t)weft__ceil_div(args->tokens, launch->rows_per_task),
                           append_task, &work);
    return WEFT_OK;
}
