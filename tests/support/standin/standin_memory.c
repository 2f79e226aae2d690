// SPDX-License-Identifier: MIT
// Memory: all of it is the host's, and each piece knows what it is called.
#include <stdlib.h>

#include "tests/support/standin/standin_inside.h"

// Memory that was given out.
struct area {
    char *base;
    size_t bytes;
    bool pinned;
    struct area *next;
};
static struct area *areas;

static struct area *area_of(uint64_t pointer)
{
    for (struct area *area = areas; area; area = area->next)
        if (pointer >= (uint64_t)(uintptr_t)area->base &&
            pointer < (uint64_t)(uintptr_t)area->base + area->bytes)
            return area;
    return NULL;
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    *total = standin.memory_bytes;
    *available = standin.memory_bytes - standin.used_bytes;
    return CUDA_SUCCESS;
}

static CUresult allocate(void **out, size_t bytes, bool pinned)
{
    if (standin.lost)
        return standin.lost;
    if (!standin_has_context())
        return NO_CONTEXT;
    pthread_mutex_lock(&standin_lock);
    bool full = !pinned && standin.used_bytes + bytes > standin.memory_bytes;
    standin.allocations++;
    if (full || (standin.fail_alloc > 0 && --standin.fail_alloc == 0)) {
        pthread_mutex_unlock(&standin_lock);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct area *area = malloc(sizeof *area);
    *area = (struct area){aligned_alloc(512, (bytes + 511) / 512 * 512), bytes, pinned, areas};
    areas = area;
    standin.live_allocations++;
    standin.used_bytes += pinned ? 0 : bytes;
    *out = area->base;
    pthread_mutex_unlock(&standin_lock);
    return CUDA_SUCCESS;
}

static CUresult release(void *pointer)
{
    pthread_mutex_lock(&standin_lock);
    for (struct area **link = &areas; *link; link = &(*link)->next) {
        struct area *area = *link;
        if (area->base != pointer)
            continue;
        *link = area->next;
        standin.live_allocations--;
        standin.frees++;
        standin.used_bytes -= area->pinned ? 0 : area->bytes;
        free(area->base);
        free(area);
        pthread_mutex_unlock(&standin_lock);
        return CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&standin_lock);
    return INVALID_VALUE;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    void *out = NULL;
    CUresult result = allocate(&out, bytes, false);
    if (result == CUDA_SUCCESS)
        *pointer = (CUdeviceptr)(uintptr_t)out;
    return result;
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    return release((void *)(uintptr_t)pointer);
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    return allocate(pointer, bytes, true);
}

CUresult cuMemFreeHost(void *pointer)
{
    return release(pointer);
}

CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    (void)memory;
    (void)bytes;
    (void)flags;
    return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *memory)
{
    (void)memory;
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttributes(unsigned count, const int *attributes, void **values,
                                CUdeviceptr pointer)
{
    if (count != 1 || attributes[0] != CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
        return INVALID_VALUE;
    pthread_mutex_lock(&standin_lock);
    struct area *area = area_of(pointer);
    *(unsigned *)values[0] = !area ? 0 : area->pinned ? CU_MEMORYTYPE_HOST : 2;
    pthread_mutex_unlock(&standin_lock);
    return CUDA_SUCCESS;
}
