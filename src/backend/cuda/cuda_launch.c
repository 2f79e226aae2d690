// SPDX-License-Identifier: MIT
// One launch of a compiled kernel.
#include <string.h>

#include "src/backend/cuda/cuda_backend.h"
#include "src/backend/cuda/cuda_context.h"

CUresult weft__cuda_write_map(const struct weft__cuda *cuda, const struct weft__cuda_matrix *m,
                              void *to)
{
    const bool piles = m->piles[0] > 0;
    const uint64_t dims[4] = {(uint64_t)m->cols, (uint64_t)m->rows, (uint64_t)m->piles[0],
                              (uint64_t)m->piles[1]};
    const uint64_t strides[3] = {(uint64_t)m->stride_bytes, (uint64_t)m->pile_stride_bytes[0],
                                 (uint64_t)m->pile_stride_bytes[1]};
    const uint32_t box[4] = {64, m->box_rows, m->box_matrices ? m->box_matrices : 1, 1},
                   steps[4] = {1, 1, 1, 1};
    // rows that lie apart are read 4 % slower by 256 bytes at a time (src/kernels/attention/NOTES.md)
    return cuda->driver->tensor_map(to, CU_TENSOR_MAP_UINT16, piles ? 4 : 2, (void *)m->base, dims,
                                    strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                    m->swizzled ? CU_TENSOR_MAP_SWIZZLE_128B
                                                : CU_TENSOR_MAP_SWIZZLE_NONE,
                                    CU_TENSOR_MAP_L2_128B, CU_TENSOR_MAP_FILL_ZEROS);
}

CUresult weft__cuda_launch_step(struct weft__cuda *cuda, const struct weft__cuda_pipeline *pipeline,
                                struct weft__cuda_step *step, CUstream stream)
{
    CUlaunchAttribute attributes[3];
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
    if (step->cooperative)
        attributes[config.num_attributes++] =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    for (int i = 0; i < WEFT__CUDA_MAX_MATRICES && step->matrices[i].base; i++) {
        CUresult result =
            weft__cuda_write_map(cuda, &step->matrices[i], step->args + step->matrices[i].at);
        if (result != CUDA_SUCCESS)
            return result;
    }
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
