// SPDX-License-Identifier: MIT
// What a request may wish of the scheduler besides a text: log probabilities and biases; and wishes that are refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tests/support/demo_model.h"
#include "tests/support/open_worker.h"

enum { CONTEXT = 320, MOST = 8 };

static engine_model *model;
static engine_worker *worker;
static tokenizer_ids prompt;

static int open_all(void **state)
{
    (void)state;
    static const char text[] = "Once upon a time there was a fox";
    engine_options options = {.context_tokens = CONTEXT, .max_sessions = 1, .invariant = true};
    engine_error err = {""};
    model = demo_model_open(NULL, NULL);
    worker = model ? open_worker_of(model, &options, &err) : NULL;
    return worker && tokenizer_encode(engine_model_tokenizer(model), text, sizeof text - 1,
                                      TOKENIZER_ADD_SPECIAL, &prompt, &err)
               ? 0
               : -1;
}

static int close_all(void **state)
{
    (void)state;
    tokenizer_ids_free(&prompt);
    engine_worker_close(worker);
    engine_model_close(model);
    return 0;
}

static engine_scheduler *schedule(void)
{
    engine_error err = {""};
    engine_scheduler *s = engine_scheduler_open(worker, 0, &err);
    if (!s)
        fail_msg("%s", err.text);
    return s;
}

static void serve(engine_scheduler *s, const engine_request_wish *wish)
{
    engine_error err = {""};
    if (!engine_scheduler_submit(s, wish, &err))
        fail_msg("%s", err.text);
    while (engine_scheduler_step(s))
        ;
}

typedef struct watched {
    int32_t ids[MOST];
    int32_t count;
    int32_t forbidden;
} watched;

static bool watch_token(void *user, const engine_token *token)
{
    watched *w = user;
    if (token->id == TOKENIZER_NONE)
        return true;
    double sum = 0;
    assert_int_equal(token->likeliest_count, 5);
    assert_int_equal(token->likeliest[0].id, token->id); // greedy
    assert_true(fabsf(token->likeliest[0].logprob - token->logprob) <= 1e-6f);
    for (int i = 0; i < 5; i++) {
        assert_true(i == 0 || token->likeliest[i].logprob <= token->likeliest[i - 1].logprob);
        assert_int_not_equal(token->likeliest[i].id, w->forbidden);
        sum += exp((double)token->likeliest[i].logprob);
    }
    assert_true(sum > 0 && sum < 1.0 + 1e-6);
    w->ids[w->count++] = token->id;
    return true;
}

static void biases_and_logprobs(void **state)
{
    (void)state;
    engine_scheduler *s = schedule();
    watched first = {.forbidden = -1}, second = {.forbidden = -1};
    engine_request_wish wish = {.prompt = prompt.ids,
                                .prompt_tokens = (int32_t)prompt.count,
                                .max_tokens = MOST,
                                .ignore_end = true,
                                .logprobs = true,
                                .top_logprobs = 5,
                                .token = watch_token,
                                .user = &first};
    serve(s, &wish);
    assert_int_equal(first.count, MOST);
    second.forbidden = first.ids[0];
    engine_bias bias = {first.ids[0], -100};
    wish.biases = &bias;
    wish.bias_count = 1;
    wish.user = &second;
    serve(s, &wish);
    assert_int_not_equal(second.ids[0], first.ids[0]);
    engine_scheduler_close(s);
}

static void bad_wishes_are_refused(void **state)
{
    (void)state;
    engine_scheduler *s = schedule();
    engine_error err = {""};
    int32_t long_prompt[CONTEXT + 1] = {0}, wrong[] = {1 << 30};
    engine_bias bias = {-1, 1};
    const struct {
        engine_request_wish wish;
        const char *words;
    } cases[] = {
        {{.prompt = long_prompt, .prompt_tokens = 0}, "empty"},
        {{.prompt = long_prompt, .prompt_tokens = CONTEXT + 1}, "larger context (--ctx)"},
        {{.prompt = wrong, .prompt_tokens = 1}, "outside the vocabulary"},
        {{.prompt = long_prompt, .prompt_tokens = 1, .max_tokens = -1}, "out of range"},
        {{.prompt = long_prompt, .prompt_tokens = 1, .top_logprobs = ENGINE_MAX_LOGPROBS + 1},
         "out of range"},
        {{.prompt = long_prompt, .prompt_tokens = 1, .biases = &bias, .bias_count = 1}, "bias"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err.text[0] = '\0';
        assert_null(engine_scheduler_submit(s, &cases[i].wish, &err));
        if (!strstr(err.text, cases[i].words))
            fail_msg("'%s' does not say '%s'", err.text, cases[i].words);
    }
    assert_false(engine_scheduler_step(s));
    engine_scheduler_close(s);
    assert_null(engine_scheduler_open(worker, -1, &err));
}

// Where the pool holds less than the context, a larger context would not help.
static void prompts_beyond_the_pool_are_refused(void **state)
{
    (void)state;
    enum { POOL = 64 };
    const engine_options options = {.context_tokens = CONTEXT, .pool_tokens = POOL};
    engine_error err = {""};
    int32_t long_prompt[POOL + 1] = {0};
    const engine_request_wish wish = {.prompt = long_prompt, .prompt_tokens = POOL + 1};
    engine_worker *small = open_worker_of(model, &options, &err);
    assert_non_null(small);
    engine_scheduler *s = engine_scheduler_open(small, 0, &err);
    assert_non_null(s);
    assert_null(engine_scheduler_submit(s, &wish, &err));
    assert_non_null(strstr(err.text, "the KV pool holds 64: shorten it or choose a larger one"));
    engine_scheduler_close(s);
    engine_worker_close(small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(biases_and_logprobs),
        cmocka_unit_test(bad_wishes_are_refused),
        cmocka_unit_test(prompts_beyond_the_pool_are_refused),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
