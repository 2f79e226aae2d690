// SPDX-License-Identifier: MIT
// Rotates tokens: cos and sin of a token's position serve all its heads.
#include <stdio.h>

#include "src/backend/cpu/cpu_rows.h"
#include "src/kernels/element.h"
#include "src/kernels/rope/rope_kernel.h"

static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct weft__rope_kernel *kernel = (const void *)row;
    const weft_rope_desc *desc = opaque_desc;
    return kernel->style == desc->rope.style;
}

weft__prepare_fn weft__cpu_prepare_rope;
weft_status weft__cpu_prepare_rope(weft_plan *plan)
{
    const weft_rope_desc *desc = plan->desc;
    weft_status status =
        weft__plan_launch(plan, sizeof(struct weft__rope_launch), desc->variant, serves);
    if (status != WEFT_OK)
        return status;
    struct weft__rope_launch *launch = plan->launch;
    weft__rope_frequencies_make(&desc->rope, desc->head_dim, &launch->frequencies);
    launch->num_heads = desc->num_heads;
    launch->head_dim = desc->head_dim;
    launch->dtype = desc->dtype;
    launch->rows_per_task =
        weft__plan_rows_per_task((int64_t)desc->num_heads * launch->frequencies.rotary_dim);
    snprintf(plan->description, sizeof plan->description,
             "rope %d heads of %d, %d rotary, tokens<=%d: %s", desc->num_heads, desc->head_dim,
             launch->frequencies.rotary_dim, desc->max_tokens, launch->kernel->base.name);
    int64_t token = (int64_t)desc->num_heads * launch->frequencies.rotary_dim;
    int64_t bytes = weft__plan_bytes(desc->dtype, desc->max_tokens, token);
    weft__cpu_rows_info(plan, &launch->kernel->base, desc->max_tokens, launch->rows_per_task,
                        bytes + (int64_t)4 * desc->max_tokens, bytes);
    return WEFT_OK;
}

// A head of another format becomes f32 and back, as far as it is rotated.
static void rotate(const struct weft__rope_launch *launch, void *head, const float *cosines,
                   const float *sines)
{
    float wide[WEFT__ROPE_MAX_DIM];
    int32_t dim = launch->frequencies.rotary_dim;
    if (launch->dtype == WEFT_F32) {
        launch->kernel->rotate(head, head, cosines, sines, dim);
        return;
    }
    weft__elements_widen(head, launch->dtype, dim, wide);
    launch->kernel->rotate(wide, wide, cosines, sines, dim);
    weft__elements_narrow(wide, dim, head, launch->dtype);
}

static void run(const void *opaque, int64_t token0, int64_t token1, int32_t thread)
{
    const struct weft__cpu_run *work = opaque;
    const struct weft__rope_launch *launch = work->launch;
    const weft_rope_args *args = work->args;
    float cosines[WEFT__ROPE_MAX_PAIRS], sines[WEFT__ROPE_MAX_PAIRS];
    (void)thread;
    for (int64_t token = token0; token < token1; token++) {
        weft__rope_angles(&launch->frequencies, args->positions[token], cosines, sines);
        for (int64_t i = 0; i < launch->num_heads; i++) {
            int64_t at = token * args->token_stride + i * launch->head_dim;
            rotate(launch, weft__element_to(args->x, launch->dtype, at), cosines, sines);
        }
    }
}

weft__submit_fn weft__cpu_submit_rope;
weft_status weft__cpu_submit_rope(const weft_plan *plan, const void *opaque_args,
                                  weft_stream *stream)
{
    const struct weft__rope_launch *launch = plan->launch;
    const weft_rope_args *args = opaque_args;
    (void)stream;
    weft__cpu_spread_rows(plan->context, args->tokens, launch->rows_per_task, run,
                          &(struct weft__cpu_run){launch, args});
    return WEFT_OK;
}
