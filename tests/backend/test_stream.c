// SPDX-License-Identifier: MIT
// Loops whose tasks are neighbours: every task once, own share from the front, others' from the back.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "src/backend/cpu/cpu_stream.h"

enum { MOST_TASKS = 200 };

typedef struct tally {
    _Atomic int32_t done[MOST_TASKS];
    int32_t order[MOST_TASKS], count; // of a host that does one after the other
} tally;

static void count_task(void *work, int32_t index, int32_t thread)
{
    tally *t = work;
    (void)thread;
    atomic_fetch_add(&t->done[index], 1);
}

static void every_task_once(void **state)
{
    static const int32_t threads[] = {1, 2, 3, 7, 20}, counts[] = {0, 1, 2, 3, 16, 17, 199, 200};
    (void)state;
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        const weft_context_desc desc = {.size = sizeof desc, .threads = threads[i]};
        weft_context *context;
        assert_int_equal(weft_context_create(&desc, &context), WEFT_OK);
        for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++) {
            tally t;
            memset(&t, 0, sizeof t);
            weft__cpu_stream_for(context, counts[n], count_task, &t);
            for (int32_t task = 0; task < MOST_TASKS; task++)
                assert_int_equal(t.done[task], task < counts[n]);
        }
        weft_context_destroy(context);
    }
}

static void note_order(void *work, int32_t index, int32_t thread)
{
    tally *t = work;
    assert_int_equal(thread, 1);
    t->order[t->count++] = index;
}

// A host whose second thread does all.
static void one_after_the_other(void *user, int32_t count, weft_task_fn *task, void *work)
{
    (void)user;
    for (int32_t i = 0; i < count; i++)
        task(work, i, 1);
}

static void own_share_first(void **state)
{
    static const int32_t expected[] = {5, 6, 7, 8, 9, 4, 3, 2, 1, 0};
    const weft_executor host = {.threads = 2, .parallel_for = one_after_the_other};
    const weft_context_desc desc = {.size = sizeof desc, .executor = &host};
    weft_context *context;
    tally t = {.count = 0};
    (void)state;
    assert_int_equal(weft_context_create(&desc, &context), WEFT_OK);
    weft__cpu_stream_for(context, 10, note_order, &t);
    assert_int_equal(t.count, 10);
    assert_memory_equal(t.order, expected, sizeof expected);
    weft_context_destroy(context);
}

typedef struct stages {
    int32_t first_count;
    _Atomic int32_t begun, early, first[MOST_TASKS], then[MOST_TASKS];
} stages;

static void first_task(void *work, int32_t index, int32_t thread)
{
    stages *s = work;
    (void)thread;
    atomic_fetch_add(&s->begun, 1);
    atomic_fetch_add(&s->first[index], 1);
}

// One of the second stage may wait for all of the first: they have been begun, by threads that are at them.
static void then_task(void *work, int32_t index, int32_t thread)
{
    stages *s = work;
    (void)thread;
    for (int64_t spins = 0; atomic_load(&s->begun) < s->first_count; spins++)
        if (spins > 4000000000) {
            atomic_fetch_add(&s->early, 1);
            break;
        }
    atomic_fetch_add(&s->then[index], 1);
}

static void the_second_stage_may_wait_for_the_first(void **state)
{
    static const int32_t counts[][2] = {{0, 3}, {3, 0}, {1, 1}, {5, 9}, {96, 88}, {200, 2}};
    const weft_executor host = {.threads = 3, .parallel_for = one_after_the_other};
    (void)state;
    for (int32_t threads = 0; threads < 8; threads += threads + 1) { // none: the host's
        const weft_context_desc desc = {
            .size = sizeof desc, .threads = threads, .executor = threads ? NULL : &host};
        weft_context *context;
        assert_int_equal(weft_context_create(&desc, &context), WEFT_OK);
        for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++) {
            stages s;
            memset(&s, 0, sizeof s);
            s.first_count = counts[n][0];
            weft__cpu_stream_for_both(context, counts[n][0], first_task, counts[n][1], then_task,
                                      &s);
            assert_int_equal(s.early, 0);
            for (int32_t i = 0; i < MOST_TASKS; i++) {
                assert_int_equal(s.first[i], i < counts[n][0]);
                assert_int_equal(s.then[i], i < counts[n][1]);
            }
        }
        weft_context_destroy(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_once),
        cmocka_unit_test(own_share_first),
        cmocka_unit_test(the_second_stage_may_wait_for_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
