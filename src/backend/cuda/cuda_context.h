// SPDX-License-Identifier: MIT
// The state of a CUDA context of weft: which device, which driver context, its streams, memory and
// kernels. Everything in src/backend/cuda/ may look inside; nothing above does.
#ifndef WEFT_BACKEND_CUDA_CONTEXT_H
#define WEFT_BACKEND_CUDA_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include "src/backend/context.h"
#include "src/backend/cuda/cuda_blaslt.h"
#include "src/backend/cuda/cuda_driver.h"
#include "src/backend/cuda/cuda_memory.h"
#include "src/backend/cuda/pipeline.h"
#include "src/kernels/cuda/launch.h"

// What a program that claims to allocate nothing and to wait for nothing can be held to.
struct weft__cuda_counters {
    _Atomic int64_t allocations;      // calls of the driver that reserve memory
    _Atomic int64_t synchronisations; // times the host waited for the device
    _Atomic int64_t launches, graph_launches;
};

struct weft__cuda {
    const struct weft__cuda_driver *driver;
    CUdevice device;
    int32_t index; // among weft_device_count()
    char name[64];
    CUcontext handle;
    bool retained; // the primary context, released at the end; else the caller's own
    struct weft__cuda_limits limits;
    CUstream compute, copy;
    bool owns_compute;
    struct weft__cuda_pool pool;
    struct weft__cuda_staging staging;
    struct weft__cuda_packing packing;
    struct weft__cuda_pipelines pipelines;
    struct weft__cuda_blas blas;
    struct weft__cuda_counters counters;
    _Atomic(const weft_batch *) appended; // whose attention appended last; only compared
};

static inline struct weft__cuda *weft__cuda_of(const weft_context *context)
{
    return context->device;
}

// Words a failed call of the driver: WEFT_ENOMEM or WEFT_EDEVICE. `what` says what was being done.
weft_status weft__cuda_fail(weft_context *context, CUresult result, const char *what);

// Makes the driver context current on this thread and says whether it was not before; leave() puts the
// caller's back.
static inline bool weft__cuda_enter(const struct weft__cuda *cuda)
{
    CUcontext current = NULL;
    if (cuda->driver->context_current(&current) == CUDA_SUCCESS && current == cuda->handle)
        return false;
    return cuda->driver->context_push(cuda->handle) == CUDA_SUCCESS;
}

// A stream of weft: the base, then the driver's. NULL is the context's own.
struct weft__cuda_stream {
    weft_stream base;
    CUstream handle;
    bool owned;
};

static inline CUstream weft__cuda_stream_of(const struct weft__cuda *cuda,
                                            const weft_stream *stream)
{
    return stream ? ((const struct weft__cuda_stream *)(const void *)stream)->handle
                  : cuda->compute;
}

static inline void weft__cuda_leave(const struct weft__cuda *cuda, bool entered)
{
    CUcontext gone;
    if (entered)
        cuda->driver->context_pop(&gone);
}

#endif
