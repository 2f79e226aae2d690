// SPDX-License-Identifier: MIT
// Copies, fills and launches, done at once or kept by the graph that a stream captures; streams, events, graphs.
#include <stdio.h>
#include <stdlib.h>

#include "src/kernels/cuda/launch.h"
#include "tests/support/standin/standin_inside.h"

// Work of a stream or a graph.
struct work {
    enum { COPY, FILL, LAUNCH, PRODUCT } kind;
    void *to;
    const void *from;
    size_t bytes;
    unsigned char byte;
    struct standin_launch launch;
    struct standin_product product;
    CUfunction function;
    uint32_t cluster;
    _Alignas(64) unsigned char args[WEFT__CUDA_MAX_ARGS];
    struct work *next;
};
struct CUgraph_st {
    struct work *first, **last;
    size_t count;
};
struct CUgraphExec_st {
    CUgraph graph;
};
struct CUstream_st {
    CUgraph capture;
};
struct CUevent_st {
    bool recorded;
};

static struct emulated_index index_of(const uint32_t v[3])
{
    return (struct emulated_index){v[0], v[1], v[2]};
}

static void run(const struct work *work)
{
    struct emulator_launch launch = {.grid = index_of(work->launch.grid),
                                     .block = index_of(work->launch.block),
                                     .shared_bytes = work->launch.shared_bytes,
                                     .cluster = work->cluster,
                                     .args = work->args};
    standin_function_run(work->function, &launch);
}

static void do_work(const struct work *work)
{
    switch (work->kind) {
    case COPY:
        memcpy(work->to, work->from, work->bytes);
        standin.copies++;
        break;
    case FILL:
        memset(work->to, work->byte, work->bytes);
        standin.fills++;
        break;
    default:
        if (standin.num_launches < STANDIN_MOST_LAUNCHES)
            standin.launches[standin.num_launches] = work->launch;
        standin.num_launches++;
        if (work->kind == PRODUCT && standin_runs())
            standin_multiply(&work->product);
        else if (standin_runs())
            run(work);
    }
}

static CUresult submit(CUstream stream, struct work work)
{
    if (standin.lost)
        return standin.lost;
    pthread_mutex_lock(&standin_lock);
    if (stream && stream->capture) {
        struct work *kept = malloc(sizeof *kept);
        *kept = work;
        kept->next = NULL;
        *stream->capture->last = kept;
        stream->capture->last = &kept->next;
        stream->capture->count++;
    } else {
        do_work(&work);
    }
    pthread_mutex_unlock(&standin_lock);
    return CUDA_SUCCESS;
}

CUresult standin_submit_product(CUstream stream, const struct standin_product *product)
{
    struct work work = {.kind = PRODUCT, .product = *product};
    snprintf(work.launch.function, sizeof work.launch.function, "cublaslt");
    work.launch.grid[0] = (uint32_t)product->d_layout[1],
    work.launch.grid[1] = (uint32_t)product->d_layout[2];
    work.launch.stream = stream;
    memcpy(work.launch.args, product, sizeof *product);
    return submit(stream, work);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return submit(stream, (struct work){.kind = COPY,
                                        .to = (void *)(uintptr_t)to,
                                        .from = (void *)(uintptr_t)from,
                                        .bytes = bytes});
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream)
{
    return submit(
        stream,
        (struct work){.kind = FILL, .to = (void *)(uintptr_t)to, .byte = byte, .bytes = bytes});
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void)flags;
    *stream = calloc(1, sizeof **stream);
    standin.live_streams++;
    return standin.lost;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    free(stream);
    standin.live_streams--;
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    (void)stream;
    standin.synchronisations++;
    return standin.lost;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)stream;
    (void)event;
    (void)flags;
    return standin.lost;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    (void)mode;
    if (stream->capture)
        return 900;
    stream->capture = calloc(1, sizeof *stream->capture);
    stream->capture->last = &stream->capture->first;
    standin.live_graphs++;
    return standin.lost;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    if (!stream->capture)
        return 901;
    *graph = stream->capture;
    stream->capture = NULL;
    return standin.lost;
}

CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
    *status = stream && stream->capture;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof **event);
    standin.live_events++;
    return standin.lost;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    free(event);
    standin.live_events--;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    (void)stream;
    event->recorded = true;
    return standin.lost;
}

CUresult cuEventQuery(CUevent event)
{
    (void)event;
    return standin.lost;
}

CUresult cuEventSynchronize(CUevent event)
{
    (void)event;
    standin.synchronisations++;
    return standin.lost;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    *milliseconds = 0.5f;
    return start->recorded && end->recorded ? standin.lost : 400;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    *exec = malloc(sizeof **exec);
    (*exec)->graph = calloc(1, sizeof *graph);
    CUgraph copy = (*exec)->graph;
    copy->last = &copy->first;
    for (const struct work *work = graph->first; work; work = work->next) {
        struct work *kept = malloc(sizeof *kept);
        *kept = *work;
        kept->next = NULL;
        *copy->last = kept;
        copy->last = &kept->next;
        copy->count++;
    }
    standin.live_graphs++;
    return standin.lost;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    (void)stream;
    if (standin.lost)
        return standin.lost;
    pthread_mutex_lock(&standin_lock);
    standin.graph_launches++;
    for (const struct work *work = exec->graph->first; work; work = work->next)
        do_work(work);
    pthread_mutex_unlock(&standin_lock);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    while (graph->first) {
        struct work *work = graph->first;
        graph->first = work->next;
        free(work);
    }
    free(graph);
    standin.live_graphs--;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    (void)nodes;
    *count = graph->count;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    cuGraphDestroy(exec->graph);
    free(exec);
    return CUDA_SUCCESS;
}

// What the reference of the driver asks of a map; the map itself is what the emulator reads (emulated_map).
CUresult cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *base,
                                const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                                const uint32_t *steps, int interleave, int swizzle, int promotion,
                                int fill)
{
    const uint32_t last[4] = {box[0], box[1], swizzle == CU_TENSOR_MAP_SWIZZLE_128B,
                              rank > 2 ? box[2] : 1};
    uint64_t first[8] = {(uint64_t)(uintptr_t)base, 1, 1, 1, 1};
    (void)interleave;
    (void)promotion;
    (void)fill;
    if ((uintptr_t)map % 64 != 0 || (uintptr_t)base % 16 != 0 || type != CU_TENSOR_MAP_UINT16 ||
        (rank != 2 && rank != 4) || (swizzle == CU_TENSOR_MAP_SWIZZLE_128B && box[0] * 2 > 128))
        return INVALID_VALUE;
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] == 0 || dims[i] > (uint64_t)1 << 32 || box[i] == 0 || box[i] > 256 ||
            (i >= 3 && box[i] != 1) || steps[i] != 1)
            return INVALID_VALUE;
        first[1 + i] = dims[i];
    }
    for (uint32_t i = 0; i + 1 < rank; i++) {
        if (strides[i] % 16 != 0 || strides[i] >= (uint64_t)1 << 40)
            return INVALID_VALUE;
        first[5 + i] = strides[i];
    }
    memset(map, 0, 128);
    memcpy(map, first, sizeof first);
    memcpy((char *)map + sizeof first, last, sizeof last);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters,
                          void **extra)
{
    struct work work = {.kind = LAUNCH, .function = function, .cluster = 1};
    (void)extra;
    if (!standin_has_context())
        return NO_CONTEXT;
    uint64_t threads = (uint64_t)config->block[0] * config->block[1] * config->block[2];
    if (!parameters || threads == 0 || threads > 1024 || config->grid[0] == 0 ||
        config->grid[1] == 0 || config->grid[2] == 0 || config->grid[1] > 65535 ||
        config->grid[2] > 65535 || config->shared_bytes > 232448)
        return INVALID_VALUE;
    snprintf(work.launch.function, sizeof work.launch.function, "%s",
             standin_function_name(function));
    memcpy(work.launch.grid, config->grid, sizeof work.launch.grid);
    memcpy(work.launch.block, config->block, sizeof work.launch.block);
    work.launch.shared_bytes = config->shared_bytes;
    for (unsigned i = 0; i < config->num_attributes; i++) {
        work.launch.overlaps |=
            config->attributes[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        if (config->attributes[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            work.cluster = config->attributes[i].value.cluster.x;
        // blocks that wait for one another run at the same time, as those of a cluster
        if (config->attributes[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            work.cluster = config->grid[0];
    }
    work.launch.stream = config->stream;
    memcpy(work.args, parameters[0], sizeof work.args);
    memcpy(work.launch.args, work.args, sizeof work.launch.args);
    return submit(config->stream, work);
}
