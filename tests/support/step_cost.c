// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include "tests/support/step_cost.h"

#include <time.h>

#include "engine/engine.h"

static step_cost steps[STEP_COST_MOST + 1]; // the last is for what is not noted
static int32_t begun;                       // steps; the current one is the last of them
static double left_at;                      // 0: not yet

static double seconds_of_thread(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static step_cost *current(void)
{
    return &steps[begun <= STEP_COST_MOST ? begun - (begun > 0) : STEP_COST_MOST];
}

static double enter(void)
{
    double now = seconds_of_thread();
    current()->outside += left_at > 0 ? now - left_at : 0;
    return now;
}

static void leave(double entered_at)
{
    left_at = seconds_of_thread();
    current()->inside += left_at - entered_at;
}

// The linker puts these in the place of what the scheduler calls.
bool __real_engine_pass(engine_worker *worker, engine_feed *feeds, int32_t count, bool *more,
                        engine_error *err);
bool __wrap_engine_pass(engine_worker *worker, engine_feed *feeds, int32_t count, bool *more,
                        engine_error *err);
bool __real_engine_sample_all(engine_worker *worker, engine_draw *draws, int32_t count,
                              engine_error *err);
bool __wrap_engine_sample_all(engine_worker *worker, engine_draw *draws, int32_t count,
                              engine_error *err);

bool __wrap_engine_pass(engine_worker *worker, engine_feed *feeds, int32_t count, bool *more,
                        engine_error *err)
{
    begun += begun <= STEP_COST_MOST;
    double entered_at = enter();
    bool fine = __real_engine_pass(worker, feeds, count, more, err);
    leave(entered_at);
    return fine;
}

bool __wrap_engine_sample_all(engine_worker *worker, engine_draw *draws, int32_t count,
                              engine_error *err)
{
    double entered_at = enter();
    bool fine = __real_engine_sample_all(worker, draws, count, err);
    leave(entered_at);
    return fine;
}

void step_cost_begin(void)
{
    for (int32_t i = 0; i <= STEP_COST_MOST; i++)
        steps[i] = (step_cost){0};
    begun = 0;
    left_at = 0;
}

const step_cost *step_costs(int32_t *count)
{
    *count = begun < STEP_COST_MOST ? begun : STEP_COST_MOST;
    return steps;
}

double step_cost_share(const step_cost *first, int32_t count)
{
    double outside = 0, inside = 0;
    for (int32_t i = 0; i < count; i++) {
        outside += first[i].outside;
        inside += first[i].inside;
    }
    return inside > 0 ? outside / inside : 0;
}
