// SPDX-License-Identifier: MIT
// The thread pool: every task once, never two at a time with one thread number, all threads at work,
// asleep or not, in children of fork too.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "src/backend/cpu/cpu_cores.h"
#include "src/backend/cpu/cpu_pool.h"
#include "src/base/memory.h"

enum { MOST_TASKS = 200, MOST_THREADS = 8 };

static const weft_allocator c_library = {.allocate = weft__base_allocate,
                                         .release = weft__base_release};

static struct weft__cpu_pool *open_pool(int32_t threads)
{
    struct weft__cpu_pool *pool = weft__cpu_pool_open(&c_library, threads, NULL);
    assert_non_null(pool);
    return pool;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

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

static void run_loops(struct weft__cpu_pool *pool, int32_t loops)
{
    for (int32_t n = 0; n < loops; n++) {
        tally t = {.value = n, .expected = n};
        int32_t count = n % MOST_TASKS;
        weft__cpu_pool_parallel_for(pool, count, count_task, &t);
        for (int32_t i = 0; i < MOST_TASKS; i++)
            assert_int_equal(atomic_load(&t.done[i]), i < count);
        assert_false(atomic_load(&t.shared_number));
        assert_int_equal(atomic_load(&t.stale), 0);
    }
}

static void does_every_task_once(void **state)
{
    (void)state;
    for (int32_t threads = 1; threads <= MOST_THREADS; threads++) {
        struct weft__cpu_pool *pool = open_pool(threads);
        run_loops(pool, 1000);
        weft__cpu_pool_close(&c_library, pool);
    }
}

static void opens_and_closes(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct weft__cpu_pool *pool = open_pool(3);
        run_loops(pool, i % 3);
        weft__cpu_pool_close(&c_library, pool);
    }
    weft__cpu_pool_close(&c_library, NULL);
}

// As many tasks as threads, each of which waits until all have begun: only if every thread takes one do
// they all see each other.
typedef struct meeting {
    int32_t wanted;
    _Atomic int32_t here, met;
    _Atomic uint32_t numbers; // a bit for each thread that came
} meeting;

static void meet(void *work, int32_t index, int32_t thread)
{
    meeting *m = work;
    double deadline = now() + 20;
    (void)index;
    atomic_fetch_or(&m->numbers, 1u << thread);
    atomic_fetch_add(&m->here, 1);
    while (atomic_load(&m->here) < m->wanted && now() < deadline)
        sched_yield();
    atomic_fetch_add(&m->met, atomic_load(&m->here) == m->wanted);
}

static bool all_meet(struct weft__cpu_pool *pool, int32_t threads)
{
    meeting m = {.wanted = threads};
    weft__cpu_pool_parallel_for(pool, threads, meet, &m);
    return atomic_load(&m.met) == threads && atomic_load(&m.numbers) == (1u << threads) - 1;
}

static void every_thread_works(void **state)
{
    (void)state;
    for (int32_t threads = 2; threads <= MOST_THREADS; threads++) {
        struct weft__cpu_pool *pool = open_pool(threads);
        for (int n = 0; n < 20; n++)
            assert_true(all_meet(pool, threads));
        weft__cpu_pool_close(&c_library, pool);
    }
}

static void sleepers_are_woken(void **state)
{
    (void)state;
    struct weft__cpu_pool *pool = open_pool(4);
    for (int n = 0; n < 3; n++) {
        assert_true(all_meet(pool, 4));
        nanosleep(&(struct timespec){.tv_nsec = 100000000},
                  NULL); // a thousand times their spinning
    }
    weft__cpu_pool_stay_awake(pool);
    assert_true(all_meet(pool, 4));
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_true(all_meet(pool, 4));
    weft__cpu_pool_may_sleep(pool);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_true(all_meet(pool, 4));
    weft__cpu_pool_close(&c_library, pool);
}

typedef struct nest {
    struct weft__cpu_pool *pool;
    _Atomic int32_t inner;
} nest;

static void count_inner(void *work, int32_t index, int32_t thread)
{
    nest *n = work;
    (void)index;
    assert_int_equal(thread, 0); // alone
    atomic_fetch_add(&n->inner, 1);
}

static void call_back(void *work, int32_t index, int32_t thread)
{
    nest *n = work;
    (void)index;
    (void)thread;
    weft__cpu_pool_parallel_for(n->pool, 5, count_inner, n);
}

static void *keep_calling(void *opaque)
{
    for (int i = 0; i < 300; i++) {
        tally t = {0};
        weft__cpu_pool_parallel_for(opaque, 20, count_task, &t);
        for (int32_t k = 0; k < 20; k++)
            if (atomic_load(&t.done[k]) != 1)
                return opaque;
    }
    return NULL;
}

static void a_busy_pool_is_no_obstacle(void **state)
{
    (void)state;
    nest n = {.pool = open_pool(3)};
    pthread_t callers[3];
    void *failed;
    weft__cpu_pool_parallel_for(n.pool, 10, call_back, &n);
    assert_int_equal(atomic_load(&n.inner), 50);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, keep_calling, n.pool), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(callers[i], &failed);
        assert_null(failed);
    }
    weft__cpu_pool_close(&c_library, n.pool);
}

static int wait_for(pid_t child)
{
    int status = -1;
    for (int i = 0; i < 3000 && waitpid(child, &status, WNOHANG) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    if (status == -1) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void *keep_busy(void *opaque)
{
    struct weft__cpu_pool *pool = opaque;
    for (int i = 0; i < 2000; i++) {
        tally t = {0};
        weft__cpu_pool_parallel_for(pool, 50, count_task, &t);
    }
    return NULL;
}

// The child's threads start anew, also if another thread of the parent was in a loop just then.
static void children_have_threads_of_their_own(void **state)
{
    (void)state;
#ifdef WEFT_TEST_EMULATOR
    skip(); // qemu-user dies when a forked child of several threads starts one
#endif
    struct weft__cpu_pool *pool = open_pool(3);
    assert_true(all_meet(pool, 3));
    for (int busy = 0; busy < 2; busy++) {
        pthread_t other;
        if (busy)
            assert_int_equal(pthread_create(&other, NULL, keep_busy, pool), 0);
        pid_t child = fork();
        if (child == 0) {
            bool good = all_meet(pool, 3) && all_meet(pool, 3);
            weft__cpu_pool_close(&c_library, pool);
            _exit(good ? 7 : 1);
        }
        assert_int_equal(wait_for(child), 7);
        child = fork(); // one that only closes
        if (child == 0) {
            weft__cpu_pool_close(&c_library, pool);
            _exit(7);
        }
        assert_int_equal(wait_for(child), 7);
        if (busy)
            pthread_join(other, NULL);
    }
    assert_true(all_meet(pool, 3));
    weft__cpu_pool_close(&c_library, pool);
}

typedef struct masks {
    _Atomic int32_t here; // threads that are in their task
    _Atomic bool takes_interrupts[2];
    _Atomic int32_t cores[2];
} masks;

// Waits for the other thread, so that each does one of the two tasks.
static void look_at_mask(void *work, int32_t index, int32_t thread)
{
    masks *m = work;
    sigset_t blocked;
    cpu_set_t cores;
    (void)index;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    atomic_store(&m->takes_interrupts[thread], !sigismember(&blocked, SIGINT));
    sched_getaffinity(0, sizeof cores, &cores);
    atomic_store(&m->cores[thread], CPU_COUNT(&cores));
    atomic_fetch_add(&m->here, 1);
    while (atomic_load(&m->here) < 2)
        sched_yield();
}

static void workers_take_no_signals(void **state)
{
    (void)state;
    struct weft__cpu_pool *pool = open_pool(2);
    masks m = {0};
    weft__cpu_pool_parallel_for(pool, 2, look_at_mask, &m);
    assert_true(atomic_load(&m.takes_interrupts[0]));
    assert_false(atomic_load(&m.takes_interrupts[1]));
    weft__cpu_pool_close(&c_library, pool);
}

static void workers_stay_on_their_cores(void **state)
{
    (void)state;
    struct weft__cpu_cores cores = {.count = 2, .restricted = true};
    cpu_set_t allowed;
    masks m = {0};
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&cores.cores) == 0; i++)
        if (CPU_ISSET(i, &allowed))
            CPU_SET(i, &cores.cores);
    struct weft__cpu_pool *pool = weft__cpu_pool_open(&c_library, 2, &cores);
    weft__cpu_pool_parallel_for(pool, 2, look_at_mask, &m);
    assert_int_equal(atomic_load(&m.cores[1]), 1);
    assert_int_equal(atomic_load(&m.cores[0]), CPU_COUNT(&allowed)); // the caller's are its own
    weft__cpu_pool_close(&c_library, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_every_task_once),
        cmocka_unit_test(opens_and_closes),
        cmocka_unit_test(every_thread_works),
        cmocka_unit_test(sleepers_are_woken),
        cmocka_unit_test(a_busy_pool_is_no_obstacle),
        cmocka_unit_test(children_have_threads_of_their_own),
        cmocka_unit_test(workers_take_no_signals),
        cmocka_unit_test(workers_stay_on_their_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
