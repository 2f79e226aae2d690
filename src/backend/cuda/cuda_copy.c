// SPDX-License-Identifier: MIT
#include <string.h>

#include "src/backend/cuda/cuda_context.h"

// Where a pointer lies. Memory that the driver has never heard of is pageable memory of the host.
enum place { PAGEABLE, PINNED, ON_DEVICE };

static enum place place_of(const struct weft__cuda *cuda, const void *pointer)
{
    const int attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    unsigned type = 0;
    void *value = &type;
    CUresult result =
        cuda->driver->pointer_attributes(1, &attribute, &value, (CUdeviceptr)(uintptr_t)pointer);
    if (result != CUDA_SUCCESS || type == 0)
        return PAGEABLE;
    return type == CU_MEMORYTYPE_HOST ? PINNED : ON_DEVICE;
}

bool weft__cuda_is_host(const struct weft__cuda *cuda, const void *pointer)
{
    bool entered = weft__cuda_enter(cuda);
    bool host = place_of(cuda, pointer) != ON_DEVICE;
    weft__cuda_leave(cuda, entered);
    return host;
}

bool weft__cuda_is_pageable(const struct weft__cuda *cuda, const void *pointer)
{
    bool entered = weft__cuda_enter(cuda);
    bool pageable = place_of(cuda, pointer) == PAGEABLE;
    weft__cuda_leave(cuda, entered);
    return pageable;
}

// Takes the next slot of the ring, its lock held, its buffer no longer in use.
static CUresult take_slot(struct weft__cuda *cuda, int32_t *out)
{
    struct weft__cuda_staging *staging = &cuda->staging;
    const struct weft__cuda_driver *driver = cuda->driver;
    pthread_mutex_lock(&staging->lock);
    int32_t slot = staging->next;
    staging->next = (slot + 1) % WEFT__CUDA_STAGING_SLOTS;
    pthread_mutex_unlock(&staging->lock);
    pthread_mutex_lock(&staging->slots[slot].lock);
    CUresult result = CUDA_SUCCESS;
    if (!staging->slots[slot].buffer) {
        atomic_fetch_add(&cuda->counters.allocations, 1);
        result = driver->pinned_allocate(&staging->slots[slot].buffer, WEFT__CUDA_STAGING_BYTES,
                                         CU_MEMHOSTALLOC_PORTABLE);
    }
    if (result == CUDA_SUCCESS && !staging->slots[slot].done)
        result = driver->event_create(&staging->slots[slot].done, CU_EVENT_DISABLE_TIMING);
    else if (result == CUDA_SUCCESS &&
             driver->event_query(staging->slots[slot].done) != CUDA_SUCCESS)
        result = driver->event_synchronize(staging->slots[slot].done);
    if (result != CUDA_SUCCESS)
        pthread_mutex_unlock(&staging->slots[slot].lock);
    *out = slot;
    return result;
}

// One slot's worth of a copy from or to pageable memory.
static CUresult stage(struct weft__cuda *cuda, char *to, const char *from, size_t bytes,
                      bool to_device, CUstream stream)
{
    const struct weft__cuda_driver *driver = cuda->driver;
    int32_t slot;
    CUresult result = take_slot(cuda, &slot);
    if (result != CUDA_SUCCESS)
        return result;
    void *buffer = cuda->staging.slots[slot].buffer;
    CUevent done = cuda->staging.slots[slot].done;
    if (to_device)
        weft__cuda_copiers_copy(&cuda->staging.copiers, buffer, from, bytes);
    result = to_device ? driver->copy((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)buffer,
                                      bytes, stream)
                       : driver->copy((CUdeviceptr)(uintptr_t)buffer, (CUdeviceptr)(uintptr_t)from,
                                      bytes, stream);
    if (result == CUDA_SUCCESS)
        result = driver->event_record(done, stream);
    if (result == CUDA_SUCCESS && !to_device) {
        atomic_fetch_add(&cuda->counters.synchronisations, 1);
        result = driver->event_synchronize(done);
        if (result == CUDA_SUCCESS)
            memcpy(to, buffer, bytes);
    }
    pthread_mutex_unlock(&cuda->staging.slots[slot].lock);
    return result;
}

static CUresult copy(struct weft__cuda *cuda, char *to, const char *from, size_t bytes,
                     CUstream stream, const char **what)
{
    enum place target = place_of(cuda, to), source = place_of(cuda, from);
    *what = "a copy";
    if (target == PAGEABLE && source == PAGEABLE) {
        memmove(to, from, bytes);
        return CUDA_SUCCESS;
    }
    if (target != PAGEABLE && source != PAGEABLE)
        return cuda->driver->copy((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes,
                                  stream);
    int capturing = 0;
    CUresult result = cuda->driver->capturing(stream, &capturing);
    if (result == CUDA_SUCCESS && capturing) {
        *what = "a copy of pageable memory in a program (use pinned memory)";
        return 900; // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    }
    for (size_t done = 0; done < bytes && result == CUDA_SUCCESS;) {
        size_t part =
            bytes - done < WEFT__CUDA_STAGING_BYTES ? bytes - done : WEFT__CUDA_STAGING_BYTES;
        result = stage(cuda, to + done, from + done, part, source == PAGEABLE, stream);
        done += part;
    }
    return result;
}

weft_status weft__cuda_copy(weft_context *context, void *to, const void *from, size_t bytes,
                            weft_stream *stream)
{
    struct weft__cuda *cuda = weft__cuda_of(context);
    const char *what;
    bool entered = weft__cuda_enter(cuda);
    CUresult result = copy(cuda, to, from, bytes, weft__cuda_stream_of(cuda, stream), &what);
    weft__cuda_leave(cuda, entered);
    return result == CUDA_SUCCESS ? WEFT_OK : weft__cuda_fail(context, result, what);
}

weft_status weft__cuda_fill(weft_context *context, void *to, unsigned char byte, size_t bytes,
                            weft_stream *stream)
{
    struct weft__cuda *cuda = weft__cuda_of(context);
    CUresult result = CUDA_SUCCESS;
    bool entered = weft__cuda_enter(cuda);
    if (place_of(cuda, to) == PAGEABLE)
        memset(to, byte, bytes);
    else
        result = cuda->driver->fill((CUdeviceptr)(uintptr_t)to, byte, bytes,
                                    weft__cuda_stream_of(cuda, stream));
    weft__cuda_leave(cuda, entered);
    return result == CUDA_SUCCESS ? WEFT_OK : weft__cuda_fail(context, result, "a fill");
}

weft_status weft__cuda_lend(weft_context *context, void *memory, size_t bytes)
{
    const struct weft__cuda *cuda = weft__cuda_of(context);
    bool entered = weft__cuda_enter(cuda);
    CUresult result = cuda->driver->host_register(memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
    weft__cuda_leave(cuda, entered);
    return result == CUDA_SUCCESS ? WEFT_OK
                                  : weft__cuda_fail(context, result, "registering host memory");
}

void weft__cuda_take_back(weft_context *context, void *memory)
{
    const struct weft__cuda *cuda = weft__cuda_of(context);
    bool entered = weft__cuda_enter(cuda);
    cuda->driver->host_unregister(memory);
    weft__cuda_leave(cuda, entered);
}
