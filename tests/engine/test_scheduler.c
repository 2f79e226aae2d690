// SPDX-License-Identifier: MIT
// Many requests at once in one worker: each gives the text that it gives alone, whatever else runs, and whether
// it was preempted or its prefix was there.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tests/support/demo_model.h"
#include "tests/support/open_worker.h"

#ifdef WEFT_TEST_SLOW
enum { REQUESTS = 12, THREADS = 1 };
#else
enum { REQUESTS = 40, THREADS = 2 };
#endif
enum { CONTEXT = 320, PAGE = 64, SLOTS = 16, MOST = 100 };

static const char *const prompts[] = {
    "Once upon a time there was a fox",
    "The sun",
    "Tom and his sister went to the old house behind the hill. They looked through the window and "
    "saw "
    "a light. It moved from room to room. Nobody had lived there for a long time, so they were "
    "afraid. "
    "But Tom wanted to know who it was. He opened the door, and it made a noise. Inside there was "
    "a "
    "table with three cups on it and a loaf of bread that was still warm. His sister said: ",
    "It rained all day, and",
    "Lily had a red ball. She",
    "The king was old and tired, but his three daughters were not. The first could ride, the "
    "second could "
    "read, and the third could",
};
enum { PROMPTS = sizeof prompts / sizeof *prompts };

static engine_model *model;
static engine_worker *alone;
static tokenizer_ids ids[PROMPTS];
static char *expected[REQUESTS];
static engine_finish finishes[REQUESTS];

static engine_worker *open_for(int32_t sessions, int32_t pool_tokens)
{
    engine_options options = {.threads = THREADS,
                              .context_tokens = CONTEXT,
                              .chunk_tokens = 48,
                              .max_sessions = sessions,
                              .pool_tokens = pool_tokens,
                              .invariant = true};
    engine_error err = {""};
    engine_worker *worker = open_worker_of(model, &options, &err);
    if (!worker)
        print_error("%s\n", err.text);
    return worker;
}

static engine_sampling sampling_of(int32_t n)
{
    return (engine_sampling){.params = {.temperature = n % 4 ? 0.9f : 0,
                                        .top_p = 0.95f,
                                        .frequency_penalty = n % 3 ? 0 : 0.5f,
                                        .seed = (uint64_t)n + 1}};
}

// What each request gives when it runs alone.
static int open_all(void **state)
{
    (void)state;
    static const char *const stops[] = {"house", NULL};
    engine_error err = {""};
    model = demo_model_open(NULL, NULL);
    alone = model ? open_for(1, 0) : NULL;
    engine_session *session = alone ? engine_session_open(alone, &err) : NULL;
    if (!session)
        return -1;
    for (int i = 0; i < PROMPTS; i++)
        if (!tokenizer_encode(engine_model_tokenizer(model), prompts[i], strlen(prompts[i]),
                              TOKENIZER_ADD_SPECIAL, &ids[i], &err))
            return -1;
    for (int32_t n = 0; n < REQUESTS; n++) {
        tokenizer_text text = {0};
        engine_generation wish = {.max_tokens = MOST,
                                  .sampling = sampling_of(n),
                                  .stops = n % 5 == 0 ? stops : NULL,
                                  .write = keep_text,
                                  .user = &text};
        engine_result result;
        const tokenizer_ids *prompt = &ids[n % PROMPTS];
        engine_session_truncate(session, 0);
        if (!engine_generate(session, prompt->ids, (int32_t)prompt->count, &wish, &result, &err)) {
            print_error("%s\n", err.text);
            return -1;
        }
        expected[n] = text.data;
        finishes[n] = result.finish;
    }
    engine_session_close(session);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    for (int i = 0; i < PROMPTS; i++)
        tokenizer_ids_free(&ids[i]);
    for (int32_t n = 0; n < REQUESTS; n++)
        free(expected[n]);
    engine_worker_close(alone);
    engine_model_close(model);
    return 0;
}

// --- requests -----------------------------------------------------------------------------------------

typedef struct asked {
    tokenizer_text text;
    engine_request_result result;
    int32_t tokens, cancel_after;
    bool ended;
} asked;

static bool take_token(void *user, const engine_token *token)
{
    asked *a = user;
    a->tokens += token->id != TOKENIZER_NONE;
    return tokenizer_text_append(&a->text, token->text, token->text_bytes) &&
           (a->cancel_after == 0 || a->tokens < a->cancel_after);
}

static void take_end(void *user, const engine_request_result *result)
{
    asked *a = user;
    assert_false(a->ended);
    a->ended = true;
    a->result = *result;
}

static engine_request_wish wish_of(int32_t n, asked *a)
{
    static const char *const stops[] = {"house", NULL};
    return (engine_request_wish){.prompt = ids[n % PROMPTS].ids,
                                 .prompt_tokens = (int32_t)ids[n % PROMPTS].count,
                                 .max_tokens = MOST,
                                 .sampling = sampling_of(n),
                                 .stops = n % 5 == 0 ? stops : NULL,
                                 .owner = (uint64_t)n % 3,
                                 .token = take_token,
                                 .end = take_end,
                                 .user = a};
}

static engine_request *submit(engine_scheduler *s, const engine_request_wish *wish)
{
    engine_error err = {""};
    engine_request *request = engine_scheduler_submit(s, wish, &err);
    if (!request)
        fail_msg("%s", err.text);
    return request;
}

static engine_scheduler *schedule(engine_worker *worker, int32_t waiting)
{
    engine_error err = {""};
    engine_scheduler *s = engine_scheduler_open(worker, waiting, &err);
    if (!s)
        fail_msg("%s", err.text);
    return s;
}

static void expect_text(int32_t n, const asked *a)
{
    assert_true(a->ended);
    if (a->result.error)
        fail_msg("%s", a->result.error);
    assert_string_equal(a->text.data ? a->text.data : "", expected[n] ? expected[n] : "");
    assert_int_equal(a->result.finish, finishes[n]);
}

static void expect_all_free(engine_worker *worker)
{
    engine_worker_info info;
    engine_worker_describe(worker, &info);
    assert_int_equal(info.free_pages, info.pool_pages);
}

// Asks for all, some of them while others run already; returns how often one was preempted.
static int64_t run_all(engine_worker *worker)
{
    engine_scheduler *s = schedule(worker, 0);
    asked all[REQUESTS];
    memset(all, 0, sizeof all);
    int32_t sent = 0;
    for (bool more = true; more || sent < REQUESTS;) {
        for (int32_t n = sent + 3; sent < n && sent < REQUESTS; sent++) {
            engine_request_wish wish = wish_of(sent, &all[sent]);
            submit(s, &wish);
        }
        more = engine_scheduler_step(s);
    }
    engine_scheduler_info info;
    engine_scheduler_describe(s, &info);
    assert_int_equal(info.running + info.waiting, 0);
    int64_t generated = 0;
    for (int32_t n = 0; n < REQUESTS; n++) {
        expect_text(n, &all[n]);
        generated += all[n].result.generated_tokens;
        tokenizer_text_free(&all[n].text);
    }
    assert_int_equal(info.generated_tokens, generated);
    engine_scheduler_close(s);
    expect_all_free(worker);
    return info.preemptions;
}

static void text_does_not_depend_on_others(void **state)
{
    (void)state;
    engine_worker *worker = open_for(SLOTS, 0);
    assert_non_null(worker);
    assert_int_equal(run_all(worker), 0);
    engine_worker_close(worker);
}

static void text_does_not_depend_on_preemption(void **state)
{
    (void)state;
    engine_worker *worker = open_for(SLOTS, 5 * PAGE);
    assert_non_null(worker);
    assert_true(run_all(worker) > 0);
    engine_worker_close(worker);
}

static void equal_prompts_are_computed_once(void **state)
{
    (void)state;
    engine_worker *worker = open_for(SLOTS, 0);
    assert_non_null(worker);
    engine_scheduler *s = schedule(worker, 0);
    asked all[8];
    memset(all, 0, sizeof all);
    for (int32_t i = 0; i < 8; i++) {
        engine_request_wish wish = wish_of(2 + PROMPTS * (i % 2), &all[i]); // the long prompt
        submit(s, &wish);
    }
    while (engine_scheduler_step(s))
        ;
    engine_scheduler_info info;
    engine_scheduler_describe(s, &info);
    assert_true(ids[2].count > PAGE);
    assert_true(info.prompt_tokens < 2 * (int64_t)ids[2].count);
    for (int32_t i = 0; i < 8; i++) {
        expect_text(2 + PROMPTS * (i % 2), &all[i]);
        tokenizer_text_free(&all[i].text);
    }
    engine_scheduler_close(s);
    expect_all_free(worker);
    engine_worker_close(worker);
}

enum { FORKS = 8 };

// Asks for FORKS texts of one prompt; returns how many tokens of prompts were evaluated.
static int64_t run_forks(engine_worker *worker, int prompt, bool first_goes)
{
    engine_scheduler *s = schedule(worker, 0);
    asked all[FORKS];
    memset(all, 0, sizeof all);
    engine_request *first = NULL;
    for (int32_t i = 0; i < FORKS; i++) {
        int32_t n = prompt + PROMPTS * (i % (REQUESTS / PROMPTS));
        engine_request_wish wish = wish_of(n, &all[i]);
        wish.fork_of = first;
        engine_request *request = submit(s, &wish);
        first = first ? first : request;
    }
    if (first_goes)
        engine_request_cancel(first);
    while (engine_scheduler_step(s))
        ;
    engine_scheduler_info info;
    engine_scheduler_describe(s, &info);
    for (int32_t i = first_goes; i < FORKS; i++)
        expect_text(prompt + PROMPTS * (i % (REQUESTS / PROMPTS)), &all[i]);
    for (int32_t i = 0; i < FORKS; i++)
        tokenizer_text_free(&all[i].text);
    engine_scheduler_close(s);
    expect_all_free(worker);
    return info.prompt_tokens;
}

// Long, less than a page: nothing of it is computed a second time, and the texts are those of each alone.
static void forks_compute_a_prompt_once(void **state)
{
    (void)state;
    engine_worker *worker = open_for(SLOTS, 0);
    assert_non_null(worker);
    assert_true(ids[2].count % PAGE > 0 && ids[0].count < PAGE);
    assert_int_equal(run_forks(worker, 2, false), ids[2].count);
    assert_int_equal(run_forks(worker, 0, false), ids[0].count);
    engine_worker_close(worker);
}

// Too few places, too few pages, a first one that goes away before its prompt is done.
static void forks_go_on_by_themselves(void **state)
{
    (void)state;
    engine_worker *few = open_for(3, 0), *pages = open_for(SLOTS, 5 * PAGE);
    assert_true(few && pages);
    assert_true(run_forks(few, 2, false) >= (int64_t)ids[2].count);
    assert_true(run_forks(pages, 2, false) > (int64_t)ids[2].count);
    assert_true(run_forks(few, 2, true) < 2 * (int64_t)ids[2].count);
    engine_worker_close(few);
    engine_worker_close(pages);
}

// Who asks for a fork of a text that has begun, or of another prompt, is served all the same.
static void what_cannot_be_forked_begins_by_itself(void **state)
{
    (void)state;
    engine_worker *worker = open_for(SLOTS, 0);
    engine_scheduler *s = schedule(worker, 0);
    asked all[3];
    memset(all, 0, sizeof all);
    engine_request_wish wish = wish_of(0, &all[0]);
    engine_request *first = submit(s, &wish);
    wish = wish_of(1, &all[1]);
    wish.fork_of = first;
    submit(s, &wish);
    assert_true(engine_scheduler_step(s) && all[0].tokens == 1);
    wish = wish_of(PROMPTS, &all[2]);
    wish.fork_of = first;
    submit(s, &wish);
    while (engine_scheduler_step(s))
        ;
    for (int32_t i = 0; i < 3; i++) {
        expect_text(i == 2 ? PROMPTS : i, &all[i]);
        tokenizer_text_free(&all[i].text);
    }
    engine_scheduler_close(s);
    engine_worker_close(worker);
}

static void queues_have_an_end(void **state)
{
    (void)state;
    engine_worker *worker = open_for(1, 0);
    assert_non_null(worker);
    engine_scheduler *s = schedule(worker, 2);
    asked all[3];
    memset(all, 0, sizeof all);
    for (int32_t i = 0; i < 2; i++) {
        engine_request_wish wish = wish_of(i, &all[i]);
        assert_false(engine_scheduler_busy(s));
        submit(s, &wish);
    }
    engine_error err = {""};
    engine_request_wish wish = wish_of(2, &all[2]);
    assert_true(engine_scheduler_busy(s));
    assert_null(engine_scheduler_submit(s, &wish, &err));
    assert_non_null(strstr(err.text, "waiting"));
    assert_true(engine_scheduler_step(s)); // one of them runs: there is room again
    assert_false(engine_scheduler_busy(s));
    engine_scheduler_close(s);
    for (int32_t i = 0; i < 2; i++) {
        assert_true(all[i].ended);
        assert_int_equal(all[i].result.finish, ENGINE_FINISH_CANCEL);
        tokenizer_text_free(&all[i].text);
    }
    engine_worker_close(worker);
}

static void cancelled_ones_give_their_pages_back(void **state)
{
    (void)state;
    engine_worker *worker = open_for(4, 0);
    assert_non_null(worker);
    engine_scheduler *s = schedule(worker, 0);
    asked all[3];
    memset(all, 0, sizeof all);
    engine_request *requests[3];
    for (int32_t i = 0; i < 3; i++) {
        engine_request_wish wish = wish_of(i, &all[i]);
        wish.ignore_end = true;
        wish.max_tokens = 0;
        all[i].cancel_after = i == 2 ? 3 : 0; // by its callback
        requests[i] = submit(s, &wish);
    }
    for (int32_t n = 0; n < 12; n++)
        assert_true(engine_scheduler_step(s));
    assert_true(all[2].ended);
    assert_int_equal(all[2].tokens, 3);
    engine_request_cancel(requests[0]);
    assert_true(engine_scheduler_step(s)); // gone within one pass
    assert_true(all[0].ended);
    assert_int_equal(all[0].result.finish, ENGINE_FINISH_CANCEL);
    while (engine_scheduler_step(s))
        ;
    assert_int_equal(all[1].result.finish, ENGINE_FINISH_CONTEXT);
    assert_int_equal(all[1].result.prompt_tokens + all[1].result.generated_tokens, CONTEXT + 1);
    for (int32_t i = 0; i < 3; i++)
        tokenizer_text_free(&all[i].text);
    engine_scheduler_close(s);
    expect_all_free(worker);
    engine_worker_close(worker);
}

static void a_pool_that_is_too_small_ends_the_text(void **state)
{
    (void)state;
    engine_worker *worker = open_for(2, 2 * PAGE);
    assert_non_null(worker);
    engine_scheduler *s = schedule(worker, 0);
    asked all[2];
    memset(all, 0, sizeof all);
    for (int32_t i = 0; i < 2; i++) {
        engine_request_wish wish = wish_of(i, &all[i]);
        wish.ignore_end = true;
        wish.max_tokens = 0;
        wish.stops = NULL;
        submit(s, &wish);
    }
    while (engine_scheduler_step(s))
        ;
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(all[i].result.finish, ENGINE_FINISH_CONTEXT);
        assert_int_equal(all[i].result.prompt_tokens + all[i].result.generated_tokens,
                         2 * PAGE + 1);
        tokenizer_text_free(&all[i].text);
    }
    engine_scheduler_close(s);
    engine_worker_close(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_does_not_depend_on_others),
        cmocka_unit_test(text_does_not_depend_on_preemption),
        cmocka_unit_test(equal_prompts_are_computed_once),
        cmocka_unit_test(forks_compute_a_prompt_once),
        cmocka_unit_test(forks_go_on_by_themselves),
        cmocka_unit_test(what_cannot_be_forked_begins_by_itself),
        cmocka_unit_test(queues_have_an_end),
        cmocka_unit_test(cancelled_ones_give_their_pages_back),
        cmocka_unit_test(a_pool_that_is_too_small_ends_the_text),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
