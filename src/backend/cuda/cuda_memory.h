// SPDX-License-Identifier: MIT
// Memory of a device: a pool of large chunks with a best-fit free list, and a ring of pinned buffers
// through which pageable memory reaches the device.
//
//      chunk   [ used | free      | used | free ]     blocks in order of address, neighbours merge
//
// A request of half a chunk or more gets a chunk of its own, which goes back to the driver when it is
// freed; small ones share chunks, which stay.
#ifndef WEFT_BACKEND_CUDA_MEMORY_H
#define WEFT_BACKEND_CUDA_MEMORY_H

#include <pthread.h>
#include <stdbool.h>

#include "src/backend/context.h"
#include "src/backend/cuda/cuda_copiers.h"
#include "src/backend/cuda/cuda_driver.h"

struct weft__cuda;
struct weft__cuda_chunk;

struct weft__cuda_pool {
    pthread_mutex_t lock;
    struct weft__cuda_chunk *chunks;
    struct weft__cuda_pinned *pinned; // what weft_memory_allocate() gave out of the host's memory
    int64_t reserved_bytes, used_bytes;
};

enum {
    WEFT__CUDA_MEMORY_ALIGN = 256,
    WEFT__CUDA_CHUNK_BYTES = 64 << 20,
    WEFT__CUDA_STAGING_SLOTS = 8,
    WEFT__CUDA_STAGING_BYTES = 8 << 20, // of a slot
};

// Slots are taken in turn, by any thread; a slot is free again when its event has happened.
struct weft__cuda_staging {
    struct weft__cuda_copiers copiers; // that fill them
    pthread_mutex_t lock;              // of next and of the first allocation
    int32_t next;
    struct {
        pthread_mutex_t lock;
        void *buffer;
        CUevent done;
    } slots[WEFT__CUDA_STAGING_SLOTS];
};

// Weights on their way into the layout of kernels (cuda_pack.c): a slab as a file has it, on the device.
struct weft__cuda_packing {
    pthread_mutex_t lock;
    void *slab;
    size_t bytes;
    CUevent done; // the last launch that read the slab
};

void weft__cuda_memory_open(struct weft__cuda *cuda);
void weft__cuda_memory_close(struct weft__cuda *cuda);

// The inside of <weft/device.h>: struct weft__backend says what each does.
weft_status weft__cuda_allocate(weft_context *context, weft_memory_kind kind, size_t bytes,
                                void **out);
void weft__cuda_free(weft_context *context, void *memory);
// Can the host read it? Is it memory that the device cannot?
bool weft__cuda_is_host(const struct weft__cuda *cuda, const void *pointer);
bool weft__cuda_is_pageable(const struct weft__cuda *cuda, const void *pointer);
weft_status weft__cuda_lend(weft_context *context, void *memory, size_t bytes);
void weft__cuda_take_back(weft_context *context, void *memory);
// Pageable memory of the host goes through the ring, a copy to it waits for the bytes.
weft_status weft__cuda_copy(weft_context *context, void *to, const void *from, size_t bytes,
                            weft_stream *stream);
weft_status weft__cuda_fill(weft_context *context, void *to, unsigned char byte, size_t bytes,
                            weft_stream *stream);

#endif
