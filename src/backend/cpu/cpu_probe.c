// SPDX-License-Identifier: MIT
#include <stdatomic.h>

#include "src/backend/cpu/cpu.h"
#include "src/base/checked.h"
#include "src/kernels/probe/probe_kernel.h"

// Less is not worth another thread.
enum { MIN_TASK_UNITS = 12 };

struct share {
    const struct weft__probe_kernel *kernel;
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
    atomic_fetch_add(&share->value, share->kernel->run(share->args, begin, end));
}

static bool serves(const struct weft__kernel *row, const void *opaque_args)
{
    const weft_probe_args *args = opaque_args;
    return ((const struct weft__probe_kernel *)row)->kind == args->kind;
}

// Nothing is kept: a probe chooses its kernel when it runs.
weft__prepare_fn weft__cpu_prepare_probe;
weft_status weft__cpu_prepare_probe(weft_plan *plan)
{
    (void)plan;
    return WEFT_OK;
}

// Memory is cut into a few tasks per thread, as in every other operation; arithmetic is done in full by
// each thread.
weft__submit_fn weft__cpu_submit_probe;
weft_status weft__cpu_submit_probe(const weft_plan *plan, const void *opaque_args,
                                   weft_stream *stream)
{
    const struct weft__probe_run *run = opaque_args;
    const weft_probe_args *args = plan->desc;
    weft_status status = WEFT_OK;
    (void)stream;
    if (args->kind == WEFT_PROBE_MMA_F16)
        return weft__fail(plan->context, WEFT_EUNSUPPORTED,
                          "probe: matrix products of f16 are measured on GPUs alone");
    struct share share = {.args = args,
                          .kernel = weft__plan_choose(plan, args->variant, serves, &status)};
    int64_t tasks = weft__cpu_of(plan->context)->threads;
    if (!share.kernel)
        return status;
    share.repeat = args->kind != WEFT_PROBE_READ;
    share.length = share.repeat ? args->steps : args->bytes;
    if (!share.repeat) {
        int64_t units = args->bytes / WEFT_PROBE_UNIT_BYTES;
        int64_t task_units = weft__ceil_div(units, 4 * tasks);
        task_units = task_units > MIN_TASK_UNITS ? task_units : MIN_TASK_UNITS;
        share.per_task = task_units * WEFT_PROBE_UNIT_BYTES;
        tasks = weft__ceil_div(args->bytes, share.per_task);
    }
    weft__cpu_parallel_for(plan->context, (int32_t)tasks, task, &share);
    *run->out =
        (weft_probe_result){.value = atomic_load(&share.value), .kernel = share.kernel->base.name};
    return WEFT_OK;
}
