// SPDX-License-Identifier: MIT
// The thread pool: every task once, never two at a time with one thread number, loop after loop.
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/thread_pool.h"

enum { MOST_TASKS = 200, MOST_THREADS = 8 };

typedef struct tally {
    _Atomic int32_t done[MOST_TASKS];
    _Atomic int32_t busy[MOST_THREADS];
    _Atomic bool shared_number;
    int32_t value; // written by the caller between loops, read by tasks
    _Atomic int32_t stale;
    int32_t expected;
} tally;

static void count_task(void *work, int32_t index, int32_t thread)
{
    tally *t = work;
    if (atomic_fetch_add(&t->busy[thread], 1) != 0)
        atomic_store(&t->shared_number, true);
    if (t->value != t->expected)
        atomic_fetch_add(&t->stale, 1);
    atomic_fetch_add(&t->done[index], 1);
    atomic_fetch_sub(&t->busy[thread], 1);
}

static void run_loops(int32_t threads, int32_t loops)
{
    engine_error err;
    thread_pool *pool = thread_pool_create(threads, &err);
    assert_non_null(pool);
    weft_executor executor = thread_pool_executor(pool);
    assert_int_equal(executor.threads, threads);
    for (int32_t n = 0; n < loops; n++) {
        tally t = {.value = n, .expected = n};
        int32_t count = n % MOST_TASKS;
        executor.parallel_for(executor.user, count, count_task, &t);
        for (int32_t i = 0; i < MOST_TASKS; i++)
            assert_int_equal(atomic_load(&t.done[i]), i < count);
        assert_false(atomic_load(&t.shared_number));
        assert_int_equal(atomic_load(&t.stale), 0);
    }
    thread_pool_free(pool);
}

static void does_every_task_once(void **state)
{
    (void)state;
    for (int32_t threads = 1; threads <= MOST_THREADS; threads++)
        run_loops(threads, 1000);
}

static void opens_and_closes(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++)
        run_loops(3, i % 3);
    thread_pool_free(NULL);
    thread_pool *pool = thread_pool_create(0, NULL);
    assert_non_null(pool);
    assert_true(thread_pool_executor(pool).threads >= 1);
    thread_pool_free(pool);
}

typedef struct masks {
    _Atomic int32_t here; // threads that are in their task
    _Atomic bool takes_interrupts[2];
} masks;

// Waits for the other thread, so that each does one of the two tasks.
static void look_at_mask(void *work, int32_t index, int32_t thread)
{
    masks *m = work;
    sigset_t blocked;
    (void)index;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    atomic_store(&m->takes_interrupts[thread], !sigismember(&blocked, SIGINT));
    atomic_fetch_add(&m->here, 1);
    while (atomic_load(&m->here) < 2)
        continue;
}

static void workers_take_no_signals(void **state)
{
    (void)state;
    thread_pool *pool = thread_pool_create(2, NULL);
    assert_non_null(pool);
    weft_executor executor = thread_pool_executor(pool);
    masks m = {0};
    executor.parallel_for(executor.user, 2, look_at_mask, &m);
    assert_true(atomic_load(&m.takes_interrupts[0]));
    assert_false(atomic_load(&m.takes_interrupts[1]));
    thread_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_every_task_once),
        cmocka_unit_test(opens_and_closes),
        cmocka_unit_test(workers_take_no_signals),
    };
    return cmocka_run_group_tests_name("thread_pool", tests, NULL, NULL);
}
