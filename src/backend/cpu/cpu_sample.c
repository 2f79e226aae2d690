// SPDX-License-Identifier: MIT
// Samples rows; each thread has its own planes of the workspace.
#include <math.h>
#include <stdio.h>

#include "src/backend/cpu/cpu_rows.h"
#include "src/base/checked.h"
#include "src/base/memory.h"
#include "src/kernels/element.h"
#include "src/kernels/sample/sample_kernel.h"

static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    (void)row;
    (void)opaque_desc;
    return true;
}

weft__prepare_fn weft__cpu_prepare_sample;
weft_status weft__cpu_prepare_sample(weft_plan *plan)
{
    const weft_sample_desc *desc = plan->desc;
    weft_status status =
        weft__plan_launch(plan, sizeof(struct weft__sample_launch), desc->variant, serves);
    if (status != WEFT_OK)
        return status;
    struct weft__sample_launch *launch = plan->launch;
    int64_t threads = weft__cpu_of(plan->context)->threads;
    launch->vocab = desc->vocab;
    launch->logits_dtype = desc->logits_dtype;
    launch->plane_bytes = weft__align_up((int64_t)desc->vocab * 4, WEFT__ALIGN);
    launch->rows_per_task = weft__plan_rows_per_task(desc->vocab);
    plan->workspace_bytes = (size_t)(WEFT__SAMPLE_PLANES * launch->plane_bytes * threads);
    snprintf(plan->description, sizeof plan->description, "sample vocab %d rows<=%d: %s",
             desc->vocab, desc->max_rows, launch->kernel->base.name);
    weft__cpu_rows_info(plan, &launch->kernel->base, desc->max_rows, launch->rows_per_task,
                        weft__plan_bytes(desc->logits_dtype, desc->max_rows, desc->vocab),
                        (int64_t)8 * desc->max_rows);
    return WEFT_OK;
}

static void run(const void *opaque, int64_t row0, int64_t row1, int32_t thread)
{
    const struct weft__cpu_run *work = opaque;
    const struct weft__sample_launch *launch = work->launch;
    const weft_sample_args *args = work->args;
    int64_t plane = launch->plane_bytes;
    char *own = (char *)args->workspace + WEFT__SAMPLE_PLANES * plane * thread;
    const struct weft__sample_scratch scratch = {.logits = (void *)own,
                                                 .weights = (void *)(own + plane),
                                                 .ids = (void *)(own + 2 * plane),
                                                 .counts = (void *)(own + 3 * plane)};
    weft_dtype dtype = launch->logits_dtype;
    for (int64_t row = row0; row < row1; row++) {
        const void *logits = weft__element_at(args->logits, dtype, row * args->logits_stride);
        if (dtype != WEFT_F32) {
            weft__elements_widen(logits, dtype, launch->vocab, scratch.logits);
            logits = scratch.logits;
        }
        launch->kernel->run(launch->vocab, &args->params[row], logits, &scratch, &args->tokens[row],
                            args->logprobs ? &args->logprobs[row] : NULL);
        if (args->next)
            weft__sample_next(
                &args->params[row], args->tokens[row],
                isfinite(weft__element_load(args->logits, dtype,
                                            row * args->logits_stride + args->tokens[row])),
                &args->next[row]);
    }
}

weft__submit_fn weft__cpu_submit_sample;
weft_status weft__cpu_submit_sample(const weft_plan *plan, const void *opaque_args,
                                    weft_stream *stream)
{
    const struct weft__sample_launch *launch = plan->launch;
    const weft_sample_args *args = opaque_args;
    (void)stream;
    weft__cpu_spread_rows(plan->context, args->rows, launch->rows_per_task, run,
                          &(struct weft__cpu_run){launch, args});
    return WEFT_OK;
}
