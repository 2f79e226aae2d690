// SPDX-License-Identifier: MIT
// The default executor: threads for the many short loops of token generation.
//
// A loop is over when its tasks are done, not when every thread has come by: on a machine that is busy
// with other things the calling thread simply does more of them. Waiting threads spin for about as long
// as the gap between two loops of a forward pass, then sleep.
//
// Threads start with the first loop that has work for them; if the system gives fewer, fewer work. A
// caller that finds the pool busy (another thread of the host, or a task that calls back) does its loop
// alone. In a child after fork, where the threads do not exist, they start again.
#ifndef WEFT_BACKEND_CPU_POOL_H
#define WEFT_BACKEND_CPU_POOL_H

#include <weft/context.h>

struct weft__cpu_pool;
struct weft__cpu_cores;

// A pool of `threads` threads, the calling one included; kept on the cores if these are not NULL. NULL
// if there is no memory.
struct weft__cpu_pool *weft__cpu_pool_open(const weft_allocator *allocator, int32_t threads,
                                           const struct weft__cpu_cores *cores);

// No loop may be running. NULL is allowed.
void weft__cpu_pool_close(const weft_allocator *allocator, struct weft__cpu_pool *pool);

// An executor's parallel_for; user is the pool.
void weft__cpu_pool_parallel_for(void *user, int32_t count, weft_task_fn *task, void *work);

// Between these two, waiting threads do not sleep. They nest.
void weft__cpu_pool_stay_awake(struct weft__cpu_pool *pool);
void weft__cpu_pool_may_sleep(struct weft__cpu_pool *pool);

// What a thread does that waits for another a moment longer.
static inline void weft__cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
