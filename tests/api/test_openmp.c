// SPDX-License-Identifier: MIT
// The example of a host's executor: the same bits as with the library's own threads, in children of fork too.
#include <sys/wait.h>
#include <unistd.h>

#include "docs/examples/openmp_executor.h"
#include "tests/support/context_fixture.h"

enum { ROWS = 96, DIM = 1024 };

static void normalise(weft_context *context, float *y)
{
    static float x[ROWS * DIM];
    weft_plan *plan;
    for (int i = 0; i < ROWS * DIM; i++)
        x[i] = (float)(i % 1013) - 500;
    weft_norm_desc desc = {.size = sizeof desc, .eps = 1e-5f, .dim = DIM, .max_rows = ROWS};
    weft_norm_args args = {.size = sizeof args, .rows = ROWS, .x = x, .y = y};
    assert_int_equal(weft_norm_plan(context, &desc, &plan), WEFT_OK);
    assert_int_equal(weft_norm_run(plan, &args), WEFT_OK);
    weft_plan_destroy(plan);
}

static void openmp_does_the_work(void **state)
{
    static float own[ROWS * DIM], theirs[ROWS * DIM];
    weft_context *context;
    int threads = 3;
    weft_executor executor = {.user = &threads, .threads = threads, .parallel_for = openmp_for};
    weft_context_desc desc = {.size = sizeof desc, .executor = &executor};
    assert_int_equal(weft_context_create(&desc, &context), WEFT_OK);
    assert_int_equal(weft_context_threads(context), 3);
    normalise(context, theirs);
    normalise(*state, own);
    assert_memory_equal(own, theirs, sizeof own);
    weft_context_destroy(context);
}

// libgomp's threads are not in the child, and it would wait for them.
static void children_go_on_alone(void **state)
{
    static float before[ROWS * DIM], after[ROWS * DIM];
    weft_context *context;
    int threads = 3, status;
    weft_executor executor = {.user = &threads, .threads = threads, .parallel_for = openmp_for};
    weft_context_desc desc = {.size = sizeof desc, .executor = &executor};
    (void)state;
    assert_int_equal(weft_context_create(&desc, &context), WEFT_OK);
    normalise(context, before);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        normalise(context, after);
        bool same = memcmp(before, after, sizeof before) == 0;
        weft_context_destroy(context);
        _exit(same ? 7 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    normalise(context, after);
    assert_memory_equal(before, after, sizeof before);
    weft_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(openmp_does_the_work),
                                       cmocka_unit_test(children_go_on_alone)};
    return cmocka_run_group_tests(tests, open_context, close_context);
}
