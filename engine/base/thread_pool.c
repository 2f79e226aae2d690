// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "engine/base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

enum {
    IDLE_SPINS = 2000, // of a worker without a loop, about 0.1 ms, before it sleeps
    DONE_SPINS = 4000, // of the caller while others finish their last task, before it yields
};

// The loop that runs, in one word so that claiming a task is one compare-and-swap:
//
//      63                32 31                 0
//      | number of the loop | tasks unclaimed  |
//
// A task is claimed by lowering the count; its index is the lowered count. The number makes the
// swap fail for a worker that comes late from an earlier loop. task and work may be read only by who
// has claimed a task: the loop cannot end, nor the next begin, before that task is done.
struct thread_pool {
    _Alignas(64) _Atomic uint64_t loop;
    _Alignas(64) _Atomic int32_t unfinished; // tasks of the loop
    _Alignas(64) _Atomic int32_t sleepers;
    _Atomic bool closing;
    weft_task_fn *task;
    void *work;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int32_t threads, started;
    struct worker {
        thread_pool *pool;
        pthread_t thread;
        int32_t number;
    } workers[];
};

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool has_tasks(uint64_t loop)
{
    return (uint32_t)loop != 0;
}

// Does tasks of the current loop until none is left to claim.
static void do_tasks(thread_pool *pool, int32_t thread)
{
    uint64_t loop = atomic_load(&pool->loop);
    while (has_tasks(loop)) {
        if (!atomic_compare_exchange_weak(&pool->loop, &loop, loop - 1))
            continue;
        pool->task(pool->work, (int32_t)((uint32_t)loop - 1), thread);
        atomic_fetch_sub(&pool->unfinished, 1);
        loop = atomic_load(&pool->loop);
    }
}

// Returns when there may be tasks, or when the pool closes.
static void wait_for_tasks(thread_pool *pool)
{
    for (int i = 0; i < IDLE_SPINS; i++) {
        if (has_tasks(atomic_load(&pool->loop)) || atomic_load(&pool->closing))
            return;
        pause_briefly();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (!has_tasks(atomic_load(&pool->loop)) && !atomic_load(&pool->closing))
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void *work_until_closed(void *opaque)
{
    struct worker *worker = opaque;
    while (!atomic_load(&worker->pool->closing)) {
        do_tasks(worker->pool, worker->number);
        wait_for_tasks(worker->pool);
    }
    return NULL;
}

static void wake_sleepers(thread_pool *pool)
{
    if (atomic_load(&pool->sleepers) == 0)
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

static void parallel_for(void *user, int32_t count, weft_task_fn *task, void *work)
{
    thread_pool *pool = user;
    if (count <= 1 || pool->started == 0) {
        for (int32_t i = 0; i < count; i++)
            task(work, i, 0);
        return;
    }
    uint64_t number = (atomic_load(&pool->loop) >> 32) + 1;
    pool->task = task;
    pool->work = work;
    atomic_store(&pool->unfinished, count);
    atomic_store(&pool->loop, number << 32 | (uint32_t)count);
    wake_sleepers(pool);
    do_tasks(pool, 0);
    for (int spins = 0; atomic_load(&pool->unfinished) > 0; spins++) {
        if (spins < DONE_SPINS)
            pause_briefly();
        else
            sched_yield();
    }
}

static int32_t usable_cores(void)
{
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

// Workers take no signals but those of their own faults: a handler then runs in a thread of the program,
// which may look at its flag without a lock.
static int start_worker(struct worker *worker)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int status = pthread_create(&worker->thread, NULL, work_until_closed, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

thread_pool *thread_pool_create(int32_t threads, engine_error *err)
{
    if (threads == 0)
        threads = usable_cores();
    size_t bytes = sizeof(thread_pool) + (size_t)threads * sizeof(struct worker);
    thread_pool *pool = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!pool) {
        engine_fail(err, "not enough memory for %d threads", threads);
        return NULL;
    }
    memset(pool, 0, bytes);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->threads = threads;
    for (int32_t i = 0; i < threads - 1; i++) {
        struct worker *worker = &pool->workers[i];
        *worker = (struct worker){.pool = pool, .number = i + 1};
        if (start_worker(worker) != 0) {
            thread_pool_free(pool);
            engine_fail(err, "the system allows only %d threads: choose fewer (--threads)", i + 1);
            return NULL;
        }
        pool->started++;
    }
    return pool;
}

void thread_pool_free(thread_pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->closing, true);
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int32_t i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

weft_executor thread_pool_executor(thread_pool *pool)
{
    return (weft_executor){.user = pool, .threads = pool->threads, .parallel_for = parallel_for};
}
