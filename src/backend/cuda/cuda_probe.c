// SPDX-License-Identifier: MIT
// Probes: the only operation without a plan that is kept, and the only one that waits.
#include <string.h>

#include "src/backend/cuda/cuda_backend.h"
#include "src/backend/cuda/cuda_context.h"
#include "src/kernels/probe/probe_device.h"
#include "src/kernels/probe/probe_kernel.h"
#include "src/plan/plan.h"

// The kernel between two events.
static weft_status run_timed(weft_plan *plan, const struct weft__probe_device_args *args,
                             weft_event *events[2], double *us)
{
    weft_context *context = plan->context;
    // Compiled before the clock starts; the submit says what went wrong with it.
    (void)weft__cuda_pipelines_finish(context, NULL, NULL);
    weft_status status = weft__cuda_event_record(events[0], NULL);
    if (status == WEFT_OK)
        status = weft__cuda_submit(plan, args, NULL);
    if (status == WEFT_OK)
        status = weft__cuda_event_record(events[1], NULL);
    return status == WEFT_OK ? weft__cuda_event_elapsed_us(events[0], events[1], us) : status;
}

static weft_status run_between(weft_plan *plan, const struct weft__probe_device_args *args,
                               double *us)
{
    weft_event *events[2] = {NULL, NULL};
    weft_status status = weft__cuda_event_create(plan->context, &events[0]);
    if (status == WEFT_OK)
        status = weft__cuda_event_create(plan->context, &events[1]);
    if (status == WEFT_OK)
        status = run_timed(plan, args, events, us);
    for (int i = 0; i < 2; i++)
        if (events[i])
            weft__cuda_event_destroy(events[i]);
    return status;
}

static weft_status run_once(weft_plan *plan, const weft_probe_args *args, uint64_t *pinned,
                            void *value, double *us)
{
    weft_context *context = plan->context;
    struct weft__probe_device_args device = {.memory = args->memory,
                                             .bytes = args->bytes,
                                             .steps = args->steps,
                                             .value = value,
                                             .one = 1,
                                             .units = 0x01010101};
    weft_status status = weft__cuda_fill(context, value, 0, sizeof *pinned, NULL);
    if (status == WEFT_OK)
        status = run_between(plan, &device, us);
    if (status == WEFT_OK)
        status = weft__cuda_copy(context, pinned, value, sizeof *pinned, NULL);
    return status == WEFT_OK ? weft__cuda_stream_synchronize(context, NULL) : status;
}

weft_status weft__cuda_submit_probe(const weft_plan *call, const void *opaque_run,
                                    weft_stream *stream)
{
    const struct weft__probe_run *run = opaque_run;
    weft_context *context = call->context;
    weft_plan plan = {.context = context, .op = WEFT__OP_probe, .desc = call->desc};
    void *value = NULL;
    uint64_t result = 0;
    double us = 0;
    (void)stream;
    weft_status status = weft__cuda_prepare(&plan);
    if (status == WEFT_OK)
        status = weft__cuda_allocate(context, WEFT_MEMORY_DEVICE, sizeof result, &value);
    if (status == WEFT_OK)
        status = run_once(&plan, call->desc, &result, value, &us);
    if (status == WEFT_OK)
        *run->out =
            (weft_probe_result){.value = result, .kernel = plan.info.kernel, .device_us = us};
    if (value)
        weft__cuda_free(context, value);
    weft__cuda_release_plan(&plan);
    if (plan.launch)
        context->allocator.release(context->allocator.user, plan.launch);
    return status;
}
