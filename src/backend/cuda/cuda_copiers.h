// SPDX-License-Identifier: MIT
// Threads that bring large pieces of the host's memory into pinned buffers together: one thread reads memory,
// and brings in the pages of a mapped file, several times slower than a link to a device takes it. They are
// made when first needed.
#ifndef WEFT_BACKEND_CUDA_COPIERS_H
#define WEFT_BACKEND_CUDA_COPIERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WEFT__CUDA_MOST_COPIERS = 8,
    WEFT__CUDA_COPY_PIECE = 256 << 10, // bytes that a thread takes at a time
    WEFT__CUDA_COPY_ALONE = 1 << 20,   // shorter copies are not worth waking them
};

struct weft__cuda_copiers {
    pthread_mutex_t use;  // held for the time of a copy
    pthread_mutex_t lock; // of what follows
    pthread_cond_t begin, end;
    pthread_t threads[WEFT__CUDA_MOST_COPIERS];
    int32_t num_threads;
    bool tried, stop;
    char *to;
    const char *from;
    size_t bytes, next, left; // next: byte that nobody has taken; left: bytes that have not arrived
};

void weft__cuda_copiers_open(struct weft__cuda_copiers *copiers);
void weft__cuda_copiers_close(struct weft__cuda_copiers *copiers);

// memcpy, by any thread.
void weft__cuda_copiers_copy(struct weft__cuda_copiers *copiers, void *to, const void *from,
                             size_t bytes);

#endif
