// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "src/backend/cpu/cpu_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "src/backend/cpu/cpu_cores.h"

enum {
    IDLE_SPINS = 2000, // of a worker without a loop, about 0.1 ms, before it sleeps
    DONE_SPINS = 4000, // of the caller while others finish their last task, before it yields
};

// The loop that runs, in one word so that claiming a task is one addition:
//
//      63              32 31              0
//      | number of tasks | tasks claimed  |
//
// A task is claimed by raising the count, which was its index; beyond the number there is none. A thread
// that comes late from an earlier loop claims a task of this one. task and work may be read only by who
// has claimed a task: the loop cannot end, nor the next begin, before that task is done.
//
// A caller counts the tasks that it does itself: `unfinished` is the workers' to lower, and the line is
// touched once by each of them.
//
// Lines: what a waiting worker reads again and again is not written between two loops, so that it stays in
// its cache, and what comes with a loop lies beside its number.
//
// Who may start loops holds `owner`, a generation and a bit. The generation counts the forks on the way
// from the process that made the pool: what a child finds locked by a thread it does not have is free.
struct weft__cpu_pool {
    _Alignas(64) _Atomic uint64_t loop;
    weft_task_fn *task;
    void *work;
    _Alignas(64) _Atomic int32_t
        unfinished; // tasks of the loop, but for those that its caller has done
    _Alignas(64) _Atomic int32_t sleepers;
    _Atomic int32_t awake; // calls of weft__cpu_pool_stay_awake() without their may_sleep()
    _Atomic bool closing;
    _Alignas(64) _Atomic uint32_t owner; // generation << 1 | busy
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int32_t threads, started;
    bool tried; // to start them
    uint32_t generation;
    bool restricted;
    cpu_set_t cores;
    struct worker {
        struct weft__cpu_pool *pool;
        pthread_t thread;
        int32_t number;
    } workers[];
};

static _Atomic uint32_t forks; // that led to this process

static void count_fork(void)
{
    atomic_fetch_add(&forks, 1);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

static bool has_tasks(uint64_t loop)
{
    return (uint32_t)loop < (uint32_t)(loop >> 32);
}

// Does tasks of the current loop until none is left to claim. Returns how many.
static int32_t do_tasks(struct weft__cpu_pool *pool, int32_t thread)
{
    int32_t done = 0;
    uint64_t loop;
    while (has_tasks(loop = atomic_fetch_add(&pool->loop, 1))) {
        pool->task(pool->work, (int32_t)(uint32_t)loop, thread);
        done++;
        if (!has_tasks(loop + 1))
            break;
    }
    return done;
}

static bool is_wanted(struct weft__cpu_pool *pool)
{
    return has_tasks(atomic_load(&pool->loop)) || atomic_load(&pool->closing);
}

// Returns when there may be tasks, or when the pool closes.
static void wait_for_tasks(struct weft__cpu_pool *pool)
{
    for (int i = 0; i < IDLE_SPINS || atomic_load(&pool->awake) > 0; i++) {
        if (is_wanted(pool))
            return;
        if (i < IDLE_SPINS)
            weft__cpu_pause();
        else
            sched_yield(); // the caller may need this core
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (!is_wanted(pool))
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void *work_until_closed(void *opaque)
{
    struct worker *worker = opaque;
    while (!atomic_load(&worker->pool->closing)) {
        wait_for_tasks(worker->pool);
        int32_t done = do_tasks(worker->pool, worker->number);
        if (done > 0)
            atomic_fetch_sub(&worker->pool->unfinished, done);
    }
    return NULL;
}

static void wake_sleepers(struct weft__cpu_pool *pool)
{
    if (atomic_load(&pool->sleepers) == 0)
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

// Workers take no signals but those of their own faults: a handler then runs in a thread of the program,
// which may look at its flag without a lock.
static int start_worker(struct worker *worker, const pthread_attr_t *attributes)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int status = pthread_create(&worker->thread, attributes, work_until_closed, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

static void start_workers(struct weft__cpu_pool *pool)
{
    pthread_attr_t attributes;
    pool->tried = true;
    if (pthread_attr_init(&attributes) != 0)
        return;
    if (pool->restricted)
        pthread_attr_setaffinity_np(&attributes, sizeof pool->cores, &pool->cores);
    for (int32_t i = 0; i < pool->threads - 1; i++) {
        struct worker *worker = &pool->workers[i];
        *worker = (struct worker){.pool = pool, .number = i + 1};
        if (start_worker(worker, &attributes) != 0)
            break;
        pool->started++;
    }
    pthread_attr_destroy(&attributes);
}

static void forget_workers(struct weft__cpu_pool *pool, uint32_t generation)
{
    atomic_store(&pool->loop, 0);
    atomic_store(&pool->unfinished, 0);
    atomic_store(&pool->sleepers, 0);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->started = 0;
    pool->tried = false;
    pool->generation = generation;
}

// False if another thread of this process runs a loop.
static bool take(struct weft__cpu_pool *pool)
{
    uint32_t generation = atomic_load(&forks), owner = atomic_load(&pool->owner);
    if (owner == (generation << 1 | 1) ||
        !atomic_compare_exchange_strong(&pool->owner, &owner, generation << 1 | 1))
        return false;
    if (pool->generation != generation)
        forget_workers(pool, generation);
    if (!pool->tried)
        start_workers(pool);
    return true;
}

void weft__cpu_pool_parallel_for(void *user, int32_t count, weft_task_fn *task, void *work)
{
    struct weft__cpu_pool *pool = user;
    if (count <= 1 || pool->threads == 1 || !take(pool)) {
        for (int32_t i = 0; i < count; i++)
            task(work, i, 0);
        return;
    }
    pool->task = task;
    pool->work = work;
    atomic_store_explicit(&pool->unfinished, count, memory_order_relaxed);
    // The first task is the caller's: nobody else has to be asked for it.
    atomic_store(&pool->loop, (uint64_t)count << 32 | 1);
    wake_sleepers(pool);
    task(work, 0, 0);
    int32_t own = 1 + do_tasks(pool, 0);
    for (int spins = 0; atomic_load(&pool->unfinished) > own; spins++) {
        if (spins < DONE_SPINS)
            weft__cpu_pause();
        else
            sched_yield();
    }
    atomic_store_explicit(&pool->owner, pool->generation << 1, memory_order_release);
}

void weft__cpu_pool_stay_awake(struct weft__cpu_pool *pool)
{
    atomic_fetch_add(&pool->awake, 1);
}

void weft__cpu_pool_may_sleep(struct weft__cpu_pool *pool)
{
    atomic_fetch_sub(&pool->awake, 1);
}

struct weft__cpu_pool *weft__cpu_pool_open(const weft_allocator *allocator, int32_t threads,
                                           const struct weft__cpu_cores *cores)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    size_t bytes = sizeof(struct weft__cpu_pool) + (size_t)threads * sizeof(struct worker);
    struct weft__cpu_pool *pool = allocator->allocate(allocator->user, bytes);
    if (!pool)
        return NULL;
    pthread_once(&once, watch_forks);
    memset(pool, 0, bytes);
    forget_workers(pool, atomic_load(&forks));
    atomic_store(&pool->owner, pool->generation << 1);
    pool->threads = threads;
    if (cores && cores->restricted) {
        pool->restricted = true;
        pool->cores = cores->cores;
    }
    return pool;
}

void weft__cpu_pool_close(const weft_allocator *allocator, struct weft__cpu_pool *pool)
{
    if (!pool)
        return;
    if (pool->generation == atomic_load(&forks)) { // else there is nobody to wait for
        atomic_store(&pool->closing, true);
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
        for (int32_t i = 0; i < pool->started; i++)
            pthread_join(pool->workers[i].thread, NULL);
        pthread_cond_destroy(&pool->wake);
        pthread_mutex_destroy(&pool->lock);
    }
    allocator->release(allocator->user, pool);
}
