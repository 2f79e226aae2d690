// SPDX-License-Identifier: MIT
// A chain of tokens on the stand-in driver (tests/support/standin/): between the first and the last token there
// is nothing but launches of one graph. What the tokens are is shown where kernels run.
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "tests/support/standin/standin.h"

static struct standin *standin;

enum { STEPS = 100, CHAIN = 64, SESSIONS = 3 };

static engine_error err;

// Launches of attention since the stand-in's list was emptied.
static int attention_launches(void)
{
    int found = 0;
    assert_true(standin->num_launches <= STANDIN_MOST_LAUNCHES);
    for (int i = 0; i < standin->num_launches; i++)
        found += strncmp(standin->launches[i].function, "weft_attention_", 15) == 0;
    return found;
}

// One launch of attention a layer and token of a chain. A prompt of one pass is one run a layer: a launch for
// sequences of few rows and one for those of many, of which either may find nothing to do.
static void a_layer_has_one_launch_of_attention(void **state)
{
    enum { FEW = 8, PROMPT = 100 };
    (void)state;
    static const engine_sampling likeliest = {.params = {.temperature = 0}};
    const engine_options options = {.device = WEFT_DEVICE_CUDA, .max_sessions = 1};
    engine_model *model = engine_model_open(WEFT_TEST_GOLDEN "/../../models/demo.gguf", &err);
    engine_worker *worker = model ? engine_worker_open(model, &options, &err) : NULL;
    if (!worker)
        fail_msg("%s", err.text);
    engine_model_info info;
    engine_model_describe(model, &info);
    int32_t tokens[FEW], ids[PROMPT] = {0};
    engine_session *session = engine_session_open(worker, &err);
    engine_feed feed = {.session = session, .ids = ids, .count = PROMPT};
    engine_draw draw = {session, &likeliest, 5};
    standin->num_launches = 0;
    assert_true(engine_eval(worker, &feed, 1, NULL, NULL, &err));
    const int prompt = attention_launches();
    assert_true(engine_decode(worker, &draw, 1, FEW, tokens, &err)); // makes the graph
    standin->num_launches = 0;
    assert_true(engine_decode(worker, &draw, 1, FEW, tokens, &err));
    const int chain = attention_launches();
    assert_int_equal(chain, FEW * info.layers);
    assert_int_equal(prompt, 2 * info.layers);
    engine_session_close(session);
    engine_worker_close(worker);
    engine_model_close(model);
}

static void chains_are_launches_of_one_graph(void **state)
{
    (void)state;
    static int32_t tokens[STEPS * SESSIONS];
    static const engine_sampling drawn = {.params = {.temperature = 1, .top_p = 0.5f}};
    const engine_options options = {.device = WEFT_DEVICE_CUDA, .max_sessions = SESSIONS};
    engine_model *model = engine_model_open(WEFT_TEST_GOLDEN "/../../models/demo.gguf", &err);
    engine_worker *worker = model ? engine_worker_open(model, &options, &err) : NULL;
    if (!worker)
        fail_msg("%s", err.text);
    engine_draw draws[SESSIONS];
    for (int i = 0; i < SESSIONS; i++) {
        draws[i] = (engine_draw){engine_session_open(worker, &err), &drawn, 5};
        assert_non_null(draws[i].session);
    }
    // The first time the graph for three sessions is made, and the copies' staging memory.
    assert_true(engine_decode(worker, draws, SESSIONS, CHAIN, tokens, &err));
    struct standin before = *standin;
    assert_true(engine_decode(worker, draws, SESSIONS, STEPS, tokens, &err));
    assert_int_equal(standin->allocations, before.allocations);
    assert_int_equal(standin->graph_launches - before.graph_launches, STEPS);
    // The stand-in counts the kernels of a graph whenever it is launched: there are no others.
    assert_int_equal((standin->num_launches - before.num_launches) % STEPS, 0);
    // Waits: for each of the two chains, once.
    assert_int_equal(standin->synchronisations - before.synchronisations, 2);
    for (int i = 0; i < SESSIONS; i++) {
        assert_int_equal(engine_session_length(draws[i].session), CHAIN + STEPS);
        engine_session_close(draws[i].session);
    }
    engine_worker_close(worker);
    engine_model_close(model);
    assert_int_equal(standin->live_allocations, 0);
    assert_int_equal(standin->live_graphs, 0);
}

// Tokens of requests are drawn together: the device is waited for once a step, for the tokens, however many requests there are.
static void requests_wait_together(void **state)
{
    (void)state;
    enum { PROMPT = 4 };
    const engine_options options = {.device = WEFT_DEVICE_CUDA, .max_sessions = SESSIONS};
    const int32_t prompt[PROMPT] = {5, 6, 7, 8};
    const engine_request_wish wish = {
        .prompt = prompt, .prompt_tokens = PROMPT, .max_tokens = 32, .ignore_end = true};
    engine_model *model = engine_model_open(WEFT_TEST_GOLDEN "/../../models/demo.gguf", &err);
    engine_worker *worker = model ? engine_worker_open(model, &options, &err) : NULL;
    engine_scheduler *s = worker ? engine_scheduler_open(worker, 0, &err) : NULL;
    if (!s)
        fail_msg("%s", err.text);
    for (int i = 0; i < SESSIONS; i++)
        assert_non_null(engine_scheduler_submit(s, &wish, &err));
    for (int i = 0; i < 4; i++) // the last of these decode, as a graph that is there
        assert_true(engine_scheduler_step(s));
    engine_scheduler_info before, after;
    engine_scheduler_describe(s, &before);
    const int64_t waits = standin->synchronisations;
    assert_true(engine_scheduler_step(s));
    engine_scheduler_describe(s, &after);
    assert_int_equal(after.generated_tokens - before.generated_tokens, SESSIONS);
    assert_int_equal(standin->synchronisations - waits, 1);
    engine_scheduler_close(s);
    engine_worker_close(worker);
    engine_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chains_are_launches_of_one_graph),
                                       cmocka_unit_test(a_layer_has_one_launch_of_attention),
                                       cmocka_unit_test(requests_wait_together)};
    setenv("WEFT_CUDA_DRIVER", WEFT_TEST_STANDIN, 1);
    setenv("WEFT_CUDA_NVRTC", WEFT_TEST_STANDIN, 1);
    setenv("WEFT_CACHE_DIR", "/nowhere", 1);
    void *handle = dlopen(WEFT_TEST_STANDIN, RTLD_NOW);
    standin = handle ? dlsym(handle, "standin") : NULL;
    return standin ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
