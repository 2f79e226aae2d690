// SPDX-License-Identifier: MIT
// What the scheduler costs beside the passes and draws that it asks for: processor time of its thread outside them,
// over the time that they take.
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tests/support/demo_model.h"

enum { REQUESTS = 64, FIRST_STEPS = 8, STEPS = 60 };

static double seconds_of(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// The linker puts these in the place of what the scheduler calls.
static double outside, inside, left_at;

static double enter(void)
{
    outside += left_at > 0 ? seconds_of(CLOCK_THREAD_CPUTIME_ID) - left_at : 0;
    return seconds_of(CLOCK_MONOTONIC);
}

static void leave(double entered_at)
{
    inside += seconds_of(CLOCK_MONOTONIC) - entered_at;
    left_at = seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

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

static bool take_token(void *user, const engine_token *token)
{
    *(size_t *)user += token->text_bytes;
    return true;
}

static void costs_little_beside_a_step(void **state)
{
    (void)state;
    engine_error err = {""};
    tokenizer_ids prompt = {0};
    size_t bytes = 0;
    const engine_options options = {
        .threads = 2, .context_tokens = 256, .max_sessions = REQUESTS, .keep_prefixes = true};
    engine_model *model = demo_model_open("Once upon a time there was a", &prompt);
    engine_worker *worker = engine_worker_open(model, &options, &err);
    engine_scheduler *scheduler = engine_scheduler_open(worker, 0, &err);
    for (int n = 0; n < REQUESTS; n++) {
        const engine_request_wish wish = {
            .prompt = prompt.ids,
            .prompt_tokens = (int32_t)prompt.count,
            .sampling.params = {.temperature = 0.8f, .top_k = 40, .seed = (uint64_t)n},
            .ignore_end = true,
            .owner = (uint64_t)n,
            .token = take_token,
            .user = &bytes};
        assert_non_null(engine_scheduler_submit(scheduler, &wish, &err));
    }
    for (int n = 0; n < FIRST_STEPS; n++)
        engine_scheduler_step(scheduler);
    outside = inside = left_at = 0;
    for (int n = 0; n < STEPS; n++)
        engine_scheduler_step(scheduler);
    print_message("%.0f us of scheduling beside a step of %.0f us: %.2f %%\n",
                  outside / STEPS * 1e6, inside / STEPS * 1e6, 100 * outside / inside);
    assert_true(bytes > 0 && inside > 0);
    assert_true(outside < 0.02 * inside);
    engine_scheduler_close(scheduler);
    engine_worker_close(worker);
    tokenizer_ids_free(&prompt);
    engine_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(costs_little_beside_a_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
