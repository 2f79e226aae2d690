// SPDX-License-Identifier: MIT
#include <string.h>

#include "src/backend/cuda/cuda_context.h"
#include "src/base/checked.h"
#include "src/base/memory.h"

// A part of a chunk, in order of address.
struct block {
    size_t offset, bytes;
    bool used;
    struct block *next;
};

struct weft__cuda_chunk {
    CUdeviceptr base;
    size_t bytes;
    bool alone; // made for one request
    struct block *blocks;
    struct weft__cuda_chunk *next;
};

struct weft__cuda_pinned {
    void *pointer;
    struct weft__cuda_pinned *next;
};

void weft__cuda_memory_open(struct weft__cuda *cuda)
{
    pthread_mutex_init(&cuda->pool.lock, NULL);
    pthread_mutex_init(&cuda->staging.lock, NULL);
    pthread_mutex_init(&cuda->packing.lock, NULL);
    weft__cuda_copiers_open(&cuda->staging.copiers);
    for (int i = 0; i < WEFT__CUDA_STAGING_SLOTS; i++)
        pthread_mutex_init(&cuda->staging.slots[i].lock, NULL);
}

static void free_chunk(struct weft__cuda *cuda, struct weft__cuda_chunk *chunk)
{
    cuda->driver->memory_free(chunk->base);
    cuda->pool.reserved_bytes -= (int64_t)chunk->bytes;
    while (chunk->blocks) {
        struct block *block = chunk->blocks;
        chunk->blocks = block->next;
        weft__base_release(NULL, block);
    }
    weft__base_release(NULL, chunk);
}

void weft__cuda_memory_close(struct weft__cuda *cuda)
{
    weft__cuda_copiers_close(&cuda->staging.copiers);
    for (int i = 0; i < WEFT__CUDA_STAGING_SLOTS; i++) {
        if (cuda->staging.slots[i].done)
            cuda->driver->event_destroy(cuda->staging.slots[i].done);
        if (cuda->staging.slots[i].buffer)
            cuda->driver->pinned_free(cuda->staging.slots[i].buffer);
        pthread_mutex_destroy(&cuda->staging.slots[i].lock);
    }
    if (cuda->packing.done)
        cuda->driver->event_destroy(cuda->packing.done);
    while (cuda->pool.chunks) {
        struct weft__cuda_chunk *chunk = cuda->pool.chunks;
        cuda->pool.chunks = chunk->next;
        free_chunk(cuda, chunk);
    }
    while (cuda->pool.pinned) {
        struct weft__cuda_pinned *pinned = cuda->pool.pinned;
        cuda->pool.pinned = pinned->next;
        cuda->driver->pinned_free(pinned->pointer);
        weft__base_release(NULL, pinned);
    }
    pthread_mutex_destroy(&cuda->staging.lock);
    pthread_mutex_destroy(&cuda->packing.lock);
    pthread_mutex_destroy(&cuda->pool.lock);
}

// The smallest free block that is large enough.
static struct block *best_fit(struct weft__cuda_pool *pool, size_t bytes,
                              struct weft__cuda_chunk **in)
{
    struct block *best = NULL;
    for (struct weft__cuda_chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        for (struct block *block = chunk->blocks; block; block = block->next)
            if (!block->used && block->bytes >= bytes && (!best || block->bytes < best->bytes)) {
                best = block;
                *in = chunk;
            }
    return best;
}

// A new chunk with one free block. CUDA_SUCCESS, or what the driver said.
static CUresult grow(struct weft__cuda *cuda, size_t bytes, bool alone)
{
    struct weft__cuda_chunk *chunk = weft__base_allocate(NULL, sizeof *chunk);
    struct block *block = weft__base_allocate(NULL, sizeof *block);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (chunk && block) {
        result = cuda->driver->memory_allocate(&chunk->base, bytes);
        atomic_fetch_add(&cuda->counters.allocations, 1);
    }
    if (result != CUDA_SUCCESS) {
        weft__base_release(NULL, chunk);
        weft__base_release(NULL, block);
        return result;
    }
    *block = (struct block){.bytes = bytes};
    chunk->bytes = bytes;
    chunk->alone = alone;
    chunk->blocks = block;
    chunk->next = cuda->pool.chunks;
    cuda->pool.chunks = chunk;
    cuda->pool.reserved_bytes += (int64_t)bytes;
    return CUDA_SUCCESS;
}

// Gives chunks that hold nothing back to the driver. Says whether there were any.
static bool trim(struct weft__cuda *cuda)
{
    bool any = false;
    for (struct weft__cuda_chunk **link = &cuda->pool.chunks; *link;) {
        struct weft__cuda_chunk *chunk = *link;
        if (chunk->blocks->used || chunk->blocks->next) {
            link = &chunk->next;
            continue;
        }
        *link = chunk->next;
        free_chunk(cuda, chunk);
        any = true;
    }
    return any;
}

// Room for `bytes`: a chunk of its own for much, a shared one for little; smaller ones and what lies idle
// when the device is nearly full.
static CUresult make_room(struct weft__cuda *cuda, size_t bytes)
{
    bool alone = bytes >= WEFT__CUDA_CHUNK_BYTES / 2;
    const size_t step = 2u << 20; // the driver's own granularity
    size_t rounded = (bytes + step - 1) / step * step;
    CUresult result = grow(cuda, alone ? rounded : WEFT__CUDA_CHUNK_BYTES, alone);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && trim(cuda))
        result = grow(cuda, alone ? rounded : WEFT__CUDA_CHUNK_BYTES, alone);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && !alone)
        result = grow(cuda, rounded, true);
    return result;
}

// Takes the first `bytes` of a free block; the rest stays a free block of its own.
static void take(struct block *block, size_t bytes, struct block *rest)
{
    block->used = true;
    if (!rest)
        return;
    *rest = (struct block){block->offset + bytes, block->bytes - bytes, false, block->next};
    block->bytes = bytes;
    block->next = rest;
}

static CUresult allocate_locked(struct weft__cuda *cuda, size_t bytes, void **out)
{
    struct weft__cuda_chunk *chunk = NULL;
    struct block *block = best_fit(&cuda->pool, bytes, &chunk), *rest = NULL;
    if (!block) {
        CUresult result = make_room(cuda, bytes);
        if (result != CUDA_SUCCESS)
            return result;
        block = best_fit(&cuda->pool, bytes, &chunk);
    }
    if (block->bytes > bytes) {
        rest = weft__base_allocate(NULL, sizeof *rest);
        if (!rest)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    take(block, bytes, rest);
    cuda->pool.used_bytes += (int64_t)block->bytes;
    *out = (void *)(uintptr_t)(chunk->base + block->offset);
    return CUDA_SUCCESS;
}

static weft_status allocate_device(weft_context *context, size_t bytes, void **out)
{
    struct weft__cuda *cuda = weft__cuda_of(context);
    if (bytes > SIZE_MAX / 2)
        return weft__fail(context, WEFT_ENOMEM, "%zu bytes are more than any device has", bytes);
    size_t rounded = bytes ? (bytes + WEFT__CUDA_MEMORY_ALIGN - 1) / WEFT__CUDA_MEMORY_ALIGN *
                                 WEFT__CUDA_MEMORY_ALIGN
                           : WEFT__CUDA_MEMORY_ALIGN;
    bool entered = weft__cuda_enter(cuda);
    pthread_mutex_lock(&cuda->pool.lock);
    CUresult result = allocate_locked(cuda, rounded, out);
    size_t available = 0, total = 0;
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        cuda->driver->memory_info(&available, &total);
    pthread_mutex_unlock(&cuda->pool.lock);
    weft__cuda_leave(cuda, entered);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return weft__fail(context, WEFT_ENOMEM,
                          "the GPU has no room for %zu MiB: %zu of %zu MiB are free; use a smaller "
                          "model, context or batch",
                          (rounded + (1 << 20) - 1) >> 20, available >> 20, total >> 20);
    return result == CUDA_SUCCESS ? WEFT_OK : weft__cuda_fail(context, result, "device memory");
}

static weft_status allocate_pinned(weft_context *context, size_t bytes, void **out)
{
    struct weft__cuda *cuda = weft__cuda_of(context);
    struct weft__cuda_pinned *pinned = weft__base_allocate(NULL, sizeof *pinned);
    if (!pinned)
        return weft__fail(context, WEFT_ENOMEM, "no memory to note a pinned buffer");
    bool entered = weft__cuda_enter(cuda);
    CUresult result = cuda->driver->pinned_allocate(&pinned->pointer, bytes ? bytes : 1,
                                                    CU_MEMHOSTALLOC_PORTABLE);
    atomic_fetch_add(&cuda->counters.allocations, 1);
    weft__cuda_leave(cuda, entered);
    if (result != CUDA_SUCCESS) {
        weft__base_release(NULL, pinned);
        return weft__cuda_fail(context, result, "pinned memory of the host");
    }
    pthread_mutex_lock(&cuda->pool.lock);
    pinned->next = cuda->pool.pinned;
    cuda->pool.pinned = pinned;
    *out = pinned->pointer;
    pthread_mutex_unlock(&cuda->pool.lock);
    return WEFT_OK;
}

weft_status weft__cuda_allocate(weft_context *context, weft_memory_kind kind, size_t bytes,
                                void **out)
{
    return kind == WEFT_MEMORY_PINNED ? allocate_pinned(context, bytes, out)
                                      : allocate_device(context, bytes, out);
}

// Makes one block of `block` and the free one behind it.
static void merge_next(struct block *block)
{
    struct block *next = block->next;
    if (block->used || !next || next->used)
        return;
    block->bytes += next->bytes;
    block->next = next->next;
    weft__base_release(NULL, next);
}

static bool release_block(struct weft__cuda *cuda, CUdeviceptr pointer)
{
    for (struct weft__cuda_chunk **link = &cuda->pool.chunks; *link; link = &(*link)->next) {
        struct weft__cuda_chunk *chunk = *link;
        if (pointer < chunk->base || pointer >= chunk->base + chunk->bytes)
            continue;
        struct block *before = NULL, *block = chunk->blocks;
        while (block && (chunk->base + block->offset != pointer || !block->used)) {
            before = block;
            block = block->next;
        }
        if (!block)
            return false;
        block->used = false;
        cuda->pool.used_bytes -= (int64_t)block->bytes;
        merge_next(block);
        if (before)
            merge_next(before);
        // What was left of a chunk made for one request may serve others too.
        if (chunk->alone && !chunk->blocks->used && !chunk->blocks->next) {
            *link = chunk->next;
            free_chunk(cuda, chunk);
        }
        return true;
    }
    return false;
}

static bool release_pinned(struct weft__cuda *cuda, const void *pointer)
{
    for (struct weft__cuda_pinned **link = &cuda->pool.pinned; *link; link = &(*link)->next) {
        struct weft__cuda_pinned *pinned = *link;
        if (pinned->pointer != pointer)
            continue;
        *link = pinned->next;
        cuda->driver->pinned_free(pinned->pointer);
        weft__base_release(NULL, pinned);
        return true;
    }
    return false;
}

// Work that was put on streams before may still use the memory: wait for it, once for a pointer.
void weft__cuda_free(weft_context *context, void *memory)
{
    struct weft__cuda *cuda = weft__cuda_of(context);
    bool entered = weft__cuda_enter(cuda);
    cuda->driver->context_synchronize();
    atomic_fetch_add(&cuda->counters.synchronisations, 1);
    pthread_mutex_lock(&cuda->pool.lock);
    if (!release_block(cuda, (CUdeviceptr)(uintptr_t)memory))
        release_pinned(cuda, memory);
    pthread_mutex_unlock(&cuda->pool.lock);
    weft__cuda_leave(cuda, entered);
}
