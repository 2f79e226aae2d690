// SPDX-License-Identifier: MIT
// Samples rows; each thread has its own planes of the workspace.
#include "src/backend/cpu/cpu_rows.h"
#include "src/kernels/sample/sample_kernel.h"

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
    for (int64_t row = row0; row < row1; row++)
        launch->kernel->run(launch->vocab, &args->params[row],
                            args->logits + row * args->logits_stride, &scratch, &args->tokens[row],
                            args->logprobs ? &args->logprobs[row] : NULL);
}

weft__submit_fn weft__cpu_submit_sample;
weft_status weft__cpu_submit_sample(const weft_context *context, const void *opaque_launch,
                                    const void *opaque_args)
{
    const struct weft__sample_launch *launch = opaque_launch;
    const weft_sample_args *args = opaque_args;
    weft__cpu_spread_rows(context, args->rows, launch->rows_per_task, run,
                          &(struct weft__cpu_run){launch, args});
    return WEFT_OK;
}
