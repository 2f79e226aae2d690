// SPDX-License-Identifier: MIT
// One launch of a compiled kernel.
#include <string.h>

#include "src/backend/cuda/cuda_backend.h"
#include "src/backend/cuda/cuda_context.h"

CUresult weft__cuda_launch_step(struct weft__cuda *cuda, const struct weft__cuda_pipeline *pipeline,
                                struct weft__cuda_step *step, CUstream stream)
{
    CUlaunchAttribute attributes[2];
    CUlaunchConfig config = {
        .shared_bytes = step->shared_bytes, .stream = stream, .attributes = attributes};
    memcpy(config.grid, step->grid, sizeof config.grid);
    memcpy(config.block, step->block, sizeof config.block);
    if (step->cluster)
        attributes[config.num_attributes++] = (CUlaunchAttribute){
            .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.cluster = {step->cluster, 1, 1}};
    if (step->overlap && cuda->limits.sm >= 90)
        attributes[config.num_attributes++] = (CUlaunchAttribute){
            .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value.overlap = 1};
    void *parameters[1] = {step->args};
    atomic_fetch_add_explicit(&cuda->counters.launches, 1, memory_order_relaxed);
    return cuda->driver->launch(&config, pipeline->function, parameters, NULL);
}

weft_status weft__cuda_pipeline_ready(weft_context *context, struct weft__cuda_pipeline *pipeline)
{
    return atomic_load_explicit(&pipeline->state, memory_order_acquire) == WEFT__PIPELINE_READY
               ? WEFT_OK
               : weft__cuda_pipeline_wait(context, pipeline);
}

weft_status weft__cuda_launch(weft_context *context, struct weft__cuda_pipeline *pipeline,
                              struct weft__cuda_step *step, weft_stream *stream)
{
    struct weft__cuda *cuda = weft__cuda_of(context);
    weft_status status = weft__cuda_pipeline_ready(context, pipeline);
    if (status != WEFT_OK)
        return status;
    bool entered = weft__cuda_enter(cuda);
    CUresult result =
        weft__cuda_launch_step(cuda, pipeline, step, weft__cuda_stream_of(cuda, stream));
    weft__cuda_leave(cuda, entered);
    return result == CUDA_SUCCESS ? WEFT_OK : weft__cuda_fail(context, result, pipeline->name);
}
