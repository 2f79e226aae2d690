// SPDX-License-Identifier: MIT
// When another process takes one of two cores, generation keeps its share of the speed: who waits for a
// thread that does not run must not wait for whole slices of the scheduler, step after step.
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine.h"

#define MODEL "models/demo.gguf"

enum { TOKENS = 100, ATTEMPTS = 6 };

// Of the speed of one thread, measured in the same company, so that a machine that is busy anyway does not
// matter. Two threads should be as fast at least; where every step of every layer waits for the scheduler
// they are a fifth at most.
static const double LEAST_SHARE = 0.6;

static double now_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// The first two processors that this process may use; false if there is but one.
static bool choose_two(int processors[2])
{
    cpu_set_t allowed;
    int count = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return false;
    for (int i = 0; i < CPU_SETSIZE && count < 2; i++)
        if (CPU_ISSET(i, &allowed))
            processors[count++] = i;
    return count == 2;
}

static void stay_on(const int *processors, int count)
{
    cpu_set_t wanted;
    CPU_ZERO(&wanted);
    for (int i = 0; i < count; i++)
        CPU_SET(processors[i], &wanted);
    assert_int_equal(sched_setaffinity(0, sizeof wanted, &wanted), 0);
}

// A process that does nothing else but use one processor.
static pid_t take_core(int processor)
{
    pid_t hog = fork();
    assert_true(hog >= 0);
    if (hog == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        cpu_set_t wanted;
        CPU_ZERO(&wanted);
        CPU_SET(processor, &wanted);
        sched_setaffinity(0, sizeof wanted, &wanted);
        for (volatile unsigned spin = 0;; spin++) {
        }
    }
    return hog;
}

static double seconds_of(engine_session *session)
{
    static const int32_t prompt[] = {1, 2, 3, 4};
    engine_generation wish = {.max_tokens = TOKENS, .ignore_end = true};
    engine_result result;
    engine_error err = {{0}};
    double begun = now_seconds();
    if (!engine_generate(session, prompt, 4, &wish, &result, &err))
        fail_msg("%s", err.text);
    return now_seconds() - begun;
}

static engine_session *open_session(engine_model *model, int32_t threads, engine_worker **worker)
{
    engine_error err = {{0}};
    *worker = engine_worker_open(model, &(engine_options){.threads = threads}, &err);
    engine_session *session = *worker ? engine_session_open(*worker, &err) : NULL;
    if (!session)
        fail_msg("%s", err.text);
    seconds_of(session); // warms up
    return session;
}

static void keeps_its_share(void **state)
{
    (void)state;
    int processors[2];
    engine_error err = {{0}};
    engine_worker *workers[2];
    engine_session *sessions[2];
    if (!choose_two(processors) || access(MODEL, R_OK) != 0)
        skip();
    stay_on(processors, 2);
    engine_model *model = engine_model_open(MODEL, &err);
    if (!model)
        fail_msg("%s", err.text);
    for (int i = 0; i < 2; i++)
        sessions[i] = open_session(model, i + 1, &workers[i]);
    double best = 0;
    pid_t hog = take_core(processors[1]);
    for (int attempt = 0; attempt < ATTEMPTS && best < LEAST_SHARE; attempt++) {
        double one = seconds_of(sessions[0]), two = seconds_of(sessions[1]);
        best = one / two > best ? one / two : best;
    }
    kill(hog, SIGKILL);
    waitpid(hog, NULL, 0);
    print_message("two threads are %.2f times as fast as one\n", best);
    assert_true(best >= LEAST_SHARE);
    for (int i = 0; i < 2; i++) {
        engine_session_close(sessions[i]);
        engine_worker_close(workers[i]);
    }
    engine_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keeps_its_share)};
    return cmocka_run_group_tests_name("shared_core", tests, NULL, NULL);
}
