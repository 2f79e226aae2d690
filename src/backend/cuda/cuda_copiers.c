// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include "src/backend/cuda/cuda_copiers.h"

#include <string.h>
#include <unistd.h>

// Takes pieces until none is left; the lock is held before and after.
static void take_pieces(struct weft__cuda_copiers *c)
{
    while (c->next < c->bytes) {
        const size_t at = c->next, left = c->bytes - at;
        const size_t piece = left < WEFT__CUDA_COPY_PIECE ? left : WEFT__CUDA_COPY_PIECE;
        char *to = c->to + at;
        const char *from = c->from + at;
        c->next += piece;
        pthread_mutex_unlock(&c->lock);
        memcpy(to, from, piece);
        pthread_mutex_lock(&c->lock);
        c->left -= piece;
    }
    if (c->left == 0)
        pthread_cond_signal(&c->end);
}

static void *help(void *opaque)
{
    struct weft__cuda_copiers *c = opaque;
    pthread_mutex_lock(&c->lock);
    while (!c->stop) {
        take_pieces(c);
        if (!c->stop && c->next >= c->bytes)
            pthread_cond_wait(&c->begin, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

// As many as there are cores beside the caller's; where none can be made the caller copies alone.
static void make_threads(struct weft__cuda_copiers *c)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    c->tried = true;
    while (c->num_threads < WEFT__CUDA_MOST_COPIERS && c->num_threads + 1 < cores &&
           pthread_create(&c->threads[c->num_threads], NULL, help, c) == 0)
        c->num_threads++;
}

void weft__cuda_copiers_open(struct weft__cuda_copiers *c)
{
    pthread_mutex_init(&c->use, NULL);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->begin, NULL);
    pthread_cond_init(&c->end, NULL);
}

void weft__cuda_copiers_close(struct weft__cuda_copiers *c)
{
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_broadcast(&c->begin);
    pthread_mutex_unlock(&c->lock);
    for (int32_t i = 0; i < c->num_threads; i++)
        pthread_join(c->threads[i], NULL);
    pthread_cond_destroy(&c->begin);
    pthread_cond_destroy(&c->end);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->use);
}

void weft__cuda_copiers_copy(struct weft__cuda_copiers *c, void *to, const void *from, size_t bytes)
{
    if (bytes < WEFT__CUDA_COPY_ALONE || pthread_mutex_trylock(&c->use) != 0) {
        memcpy(to, from, bytes);
        return;
    }
    pthread_mutex_lock(&c->lock);
    if (!c->tried)
        make_threads(c);
    c->to = to, c->from = from;
    c->next = 0, c->bytes = c->left = bytes;
    pthread_cond_broadcast(&c->begin);
    take_pieces(c);
    while (c->left > 0)
        pthread_cond_wait(&c->end, &c->lock);
    c->bytes = c->next = 0;
    pthread_mutex_unlock(&c->lock);
    pthread_mutex_unlock(&c->use);
}
