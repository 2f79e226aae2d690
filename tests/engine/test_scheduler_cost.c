// SPDX-License-Identifier: MIT
// What the scheduler costs beside the passes and draws that it asks for: processor time of its thread outside them,
// over the time that they take.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tests/support/demo_model.h"
#include "tests/support/step_cost.h"

enum { REQUESTS = 64, FIRST_STEPS = 8, STEPS = 60 };

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
    step_cost_begin();
    for (int n = 0; n < STEPS; n++)
        engine_scheduler_step(scheduler);
    int32_t count;
    double share = step_cost_share(step_costs(&count), STEPS);
    print_message("scheduling beside a step: %.2f %%\n", 100 * share);
    assert_int_equal(count, STEPS);
    assert_true(bytes > 0 && share > 0 && share < 0.02);
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
