// SPDX-License-Identifier: MIT
#include "src/backend/cpu/cpu_rows.h"
#include "src/kernels/norm/norm_kernel.h"

static void run(const void *opaque, int64_t row0, int64_t row1, int32_t thread)
{
    const struct weft__cpu_run *work = opaque;
    const struct weft__norm_launch *launch = work->launch;
    (void)thread;
    launch->kernel->run(launch, work->args, row0, row1);
}

weft__submit_fn weft__cpu_submit_norm;
weft_status weft__cpu_submit_norm(const weft_context *context, const void *opaque_launch,
                                  const void *opaque_args)
{
    const struct weft__norm_launch *launch = opaque_launch;
    const weft_norm_args *args = opaque_args;
    weft__cpu_spread_rows(context, args->rows, launch->rows_per_task, run,
                          &(struct weft__cpu_run){launch, args});
    return WEFT_OK;
}
