// SPDX-License-Identifier: MIT
#include <stdatomic.h>

#include "src/backend/context.h"
#include "src/base/checked.h"
#include "src/kernels/probe/probe_kernel.h"

// Less is not worth another thread.
enum { MIN_TASK_UNITS = 12 };

struct share {
    const struct weft__probe_launch *launch;
    const weft_probe_args *args;
    int64_t length, per_task;
    bool repeat; // every task does all of it
    _Atomic uint64_t value;
};

static void task(void *opaque, int32_t index, int32_t thread)
{
    struct share *share = opaque;
    int64_t begin = share->repeat ? 0 : index * share->per_task;
    int64_t end = share->repeat ? share->length : begin + share->per_task;
    (void)thread;
    end = end < share->length ? end : share->length;
    atomic_fetch_add(&share->value, share->launch->kernel->run(share->args, begin, end));
}

// Memory is cut into a few tasks per thread, as in every other operation; arithmetic is done in full by
// each thread.
weft__submit_fn weft__cpu_submit_probe;
weft_status weft__cpu_submit_probe(const weft_context *context, const void *opaque_launch,
                                   const void *opaque_args)
{
    const struct weft__probe_launch *launch = opaque_launch;
    const weft_probe_args *args = opaque_args;
    struct share share = {.launch = launch, .args = args};
    int64_t tasks = context->threads;
    share.repeat = args->kind != WEFT_PROBE_READ;
    share.length = share.repeat ? args->steps : args->bytes;
    if (!share.repeat) {
        int64_t units = args->bytes / WEFT_PROBE_UNIT_BYTES;
        int64_t task_units = weft__ceil_div(units, 4 * tasks);
        task_units = task_units > MIN_TASK_UNITS ? task_units : MIN_TASK_UNITS;
        share.per_task = task_units * WEFT_PROBE_UNIT_BYTES;
        tasks = weft__ceil_div(args->bytes, share.per_task);
    }
    weft__parallel_for(context, (int32_t)tasks, task, &share);
    *launch->value = atomic_load(&share.value);
    return WEFT_OK;
}
