// SPDX-License-Identifier: MIT
// What passes and the KV pool do for several sessions: order, budget, shared pages, logits that stay.
#define _XOPEN_SOURCE 700
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
#include "tests/support/golden_model.h"
#include "tests/support/open_worker.h"

enum { CONTEXT = 192, PAGE = 64, CHUNK = 32, SESSIONS = 4 };

static golden_written written;
static const int32_t *tokens;
static int32_t vocab;
static engine_worker *worker, *apart; // two of the same model; nothing but weights is shared
static float *expected;

static engine_worker *start(int32_t sessions, int32_t pool_tokens)
{
    engine_options options = {.threads = 2,
                              .context_tokens = CONTEXT,
                              .chunk_tokens = CHUNK,
                              .max_sessions = sessions,
                              .pool_tokens = pool_tokens,
                              .kv_dtype = WEFT_F32};
    engine_error err = {""};
    engine_worker *made = open_worker(written.path, &options, &err);
    if (!made)
        print_error("%s\n", err.text);
    return made;
}

static int write_model(void **state)
{
    (void)state;
    if (!golden_model_open(&written, "models/llama_f32.safetensors"))
        return -1;
    tokens = written.tokens;
    vocab = written.vocab;
    expected = malloc((size_t)vocab * sizeof *expected);
    worker = start(SESSIONS, 0);
    apart = start(1, 0);
    return expected && worker && apart ? 0 : -1;
}

static int remove_model(void **state)
{
    (void)state;
    close_worker(worker);
    close_worker(apart);
    free(expected);
    return golden_model_close(&written);
}

static void eval(engine_session *session, const int32_t *ids, int32_t count)
{
    engine_error err = {""};
    engine_feed feed = {.session = session, .ids = ids, .count = count};
    if (!engine_eval(worker, &feed, 1, NULL, NULL, &err))
        fail_msg("%s", err.text);
}

static int32_t free_pages(void)
{
    engine_worker_info info;
    engine_worker_describe(worker, &info);
    return info.free_pages;
}

// The session's logits are those of a timeline that was evaluated alone.
static void expect_logits(engine_session *session)
{
    engine_error err = {""};
    engine_session *alone = must_open_session(apart);
    if (!engine_session_sync(alone, engine_session_tokens(session), engine_session_length(session),
                             NULL, NULL, &err))
        fail_msg("%s", err.text);
    memcpy(expected, engine_session_logits(alone), (size_t)vocab * sizeof *expected);
    engine_session_close(alone);
    const float *logits = engine_session_logits(session);
    assert_non_null(logits);
    for (int32_t i = 0; i < vocab; i++)
        if (!(fabsf(logits[i] - expected[i]) <= 1e-4f))
            fail_msg("logit %d is %g, alone it is %g", i, (double)logits[i], (double)expected[i]);
}

static void decodes_do_not_wait_for_prompts(void **state)
{
    (void)state;
    engine_error err = {""};
    engine_session *talking[2] = {must_open_session(worker), must_open_session(worker)};
    engine_session *reading = must_open_session(worker);
    eval(talking[0], tokens, 10);
    eval(talking[1], tokens + 50, 20);
    bool more;
    engine_feed prompt = {.session = reading, .ids = tokens + 100, .count = 100};
    int32_t passes = 0;
    for (more = true; more; passes++) {
        engine_feed feeds[3] = {prompt,
                                {.session = talking[0], .ids = tokens + 10 + passes, .count = 1},
                                {.session = talking[1], .ids = tokens + 70 + passes, .count = 1}};
        if (!engine_pass(worker, feeds, 3, &more, &err))
            fail_msg("%s", err.text);
        assert_int_equal(feeds[1].done, 1); // every pass brings both a token further
        assert_int_equal(feeds[2].done, 1);
        int32_t room = CHUNK - 2, left = prompt.count - prompt.done;
        assert_int_equal(feeds[0].done - prompt.done, left < room ? left : room);
        prompt.done = feeds[0].done;
    }
    assert_int_equal(passes, 4); // 100 tokens in pieces of 30
    expect_logits(talking[0]);
    expect_logits(talking[1]);
    expect_logits(reading);
    engine_session_close(talking[0]);
    engine_session_close(talking[1]);
    engine_session_close(reading);
}

static void logits_stay_while_others_go_on(void **state)
{
    (void)state;
    engine_session *sessions[3];
    for (int i = 0; i < 3; i++) {
        sessions[i] = must_open_session(worker);
        eval(sessions[i], tokens + 30 * i, 20 + i);
    }
    for (int i = 0; i < 3; i++)
        expect_logits(sessions[i]);
    eval(sessions[1], tokens, 1);
    eval(sessions[2], tokens, 40);
    for (int i = 0; i < 3; i++)
        expect_logits(sessions[i]);
    for (int i = 0; i < 3; i++)
        engine_session_close(sessions[i]);
}

static void forks_share_pages(void **state)
{
    (void)state;
    engine_error err = {""};
    int32_t before = free_pages();
    engine_session *first = must_open_session(worker);
    eval(first, tokens, PAGE + 10);
    assert_int_equal(free_pages(), before - 2);
    engine_session *fork = engine_session_fork(first, &err);
    assert_non_null(fork);
    assert_int_equal(free_pages(), before - 2);
    expect_logits(fork);
    eval(fork, tokens + 200, 3); // the half-full page is copied, the full one is not
    assert_int_equal(free_pages(), before - 3);
    eval(first, tokens + 210, 5);
    assert_int_equal(free_pages(), before - 3); // nobody else holds it now
    expect_logits(fork);
    expect_logits(first);
    engine_session_close(first);
    assert_int_equal(free_pages(), before - 2);
    eval(fork, tokens, 1);
    expect_logits(fork);
    engine_session_close(fork);
    assert_int_equal(free_pages(), before);
}

static void equal_prefixes_share_pages(void **state)
{
    (void)state;
    engine_error err = {""};
    int32_t before = free_pages();
    engine_session *first = must_open_session(worker), *second = must_open_session(worker);
    eval(first, tokens, 2 * PAGE + 10);
    int32_t ids[CONTEXT];
    memcpy(ids, tokens, sizeof ids);
    ids[PAGE + 20] = (ids[PAGE + 20] + 1) % vocab;
    engine_generation wish = {.max_tokens = 1, .ignore_end = true};
    engine_result result;
    if (!engine_generate(second, ids, PAGE + 40, &wish, &result, &err))
        fail_msg("%s", err.text);
    assert_int_equal(result.prompt_tokens, 20); // what lies before the difference was there
    assert_int_equal(free_pages(), before - 3 - 1);
    expect_logits(second);
    expect_logits(first);
    engine_session_close(first);
    eval(second, tokens, 30);
    expect_logits(second);
    engine_session_close(second);
    assert_int_equal(free_pages(), before);
}

static void a_full_pool_is_refused(void **state)
{
    (void)state;
    engine_error err = {""};
    engine_worker *small = start(3, 2 * PAGE), *usual = worker;
    assert_non_null(small);
    worker = small;
    engine_session *first = must_open_session(small);
    eval(first, tokens, PAGE + 1);
    engine_session *fork = engine_session_fork(first, &err);
    engine_feed feed = {.session = fork, .ids = tokens, .count = 1};
    assert_non_null(fork);
    assert_false(engine_pass(small, &feed, 1, NULL, &err)); // no page for the copy
    assert_non_null(strstr(err.text, "the KV pool is full"));
    assert_int_equal(engine_session_length(fork), PAGE + 1);
    expect_logits(fork);
    engine_session_close(first);
    eval(fork, tokens, 1); // the page is its own now
    expect_logits(fork);
    engine_session_close(fork);
    worker = usual;
    close_worker(small);
}

static void samples_many_rows_as_one_by_one(void **state)
{
    (void)state;
    engine_error err = {""};
    engine_session *sessions[SESSIONS];
    engine_feed feeds[SESSIONS];
    engine_sampling sampling[SESSIONS];
    engine_draw draws[SESSIONS];
    for (int i = 0; i < SESSIONS; i++) {
        sessions[i] = must_open_session(worker);
        feeds[i] = (engine_feed){.session = sessions[i], .ids = tokens + 40 * i, .count = 5 + i};
        sampling[i] = (engine_sampling){.params.temperature = 0.7f * (float)i,
                                        .params.repetition_penalty = 1.2f,
                                        .params.seed = (uint64_t)i};
        draws[i] = (engine_draw){.session = sessions[i], .sampling = &sampling[i]};
    }
    assert_true(engine_eval(worker, feeds, SESSIONS, NULL, NULL, &err));
    eval(sessions[2], tokens, 3); // its logits lie elsewhere than those of the others
    if (!engine_sample_all(worker, draws, SESSIONS, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < SESSIONS; i++) {
        int32_t token;
        assert_true(engine_sample(sessions[i], &sampling[i], &token, &err));
        assert_int_equal(token, draws[i].token);
        engine_session_close(sessions[i]);
    }
}

static int64_t shared_passes(const engine_worker *of)
{
    engine_worker_info info;
    engine_worker_describe(of, &info);
    return info.shared_passes;
}

// A worker of sessions with room for prefixes that are worth sharing.
static engine_worker *start_forks(bool each_for_itself)
{
    engine_options options = {.threads = 2,
                              .context_tokens = 8 * PAGE,
                              .max_sessions = 6,
                              .chain_tokens = 8,
                              .kv_dtype = WEFT_F32,
                              .cascade_rows = each_for_itself ? -1 : 2};
    engine_error err = {""};
    engine_worker *made = open_worker(written.path, &options, &err);
    if (!made)
        fail_msg("%s", err.text);
    return made;
}

enum { PREFIX_A = 4 * PAGE + 10, PREFIX_B = 3 * PAGE + 64, FORKS = 6, NEXT = 5 };

// Two families of forks that take turns, and one session alone; single passes, then chains. Leaves the
// logits after every single pass.
static void go_on(engine_worker *of, float *logits, int32_t *chosen)
{
    engine_error err = {""};
    engine_session *sessions[FORKS];
    sessions[0] = must_open_session(of);
    sessions[1] = must_open_session(of);
    sessions[4] = must_open_session(of);
    const int32_t lengths[] = {PREFIX_A, PREFIX_B, 0, 0, 7};
    for (int32_t i = 0; i < 5; i++)
        for (int32_t at = 0; at < lengths[i]; at++) {
            int32_t id = tokens[(at * 7 + i * 31) % 200];
            engine_feed feed = {.session = sessions[i], .ids = &id, .count = 1};
            assert_true(engine_eval(of, &feed, 1, NULL, NULL, &err));
        }
    const int32_t parents[] = {0, 1, 0, 1, 4, 0};
    for (int32_t i = 0; i < FORKS; i++)
        if (i != parents[i])
            assert_non_null(sessions[i] = engine_session_fork(sessions[parents[i]], &err));
    int64_t before = shared_passes(of);
    engine_feed feeds[FORKS];
    for (int32_t step = 0; step < NEXT; step++) {
        for (int32_t i = 0; i < FORKS; i++)
            feeds[i] =
                (engine_feed){.session = sessions[i], .ids = tokens + 11 * i + step, .count = 1};
        if (!engine_eval(of, feeds, FORKS, NULL, NULL, &err))
            fail_msg("%s", err.text);
        for (int32_t i = 0; i < FORKS; i++)
            memcpy(logits + (size_t)(step * FORKS + i) * (size_t)vocab,
                   engine_session_logits(sessions[i]), (size_t)vocab * sizeof *logits);
    }
    int64_t single = shared_passes(of) - before;
    static const engine_sampling likeliest;
    engine_draw draws[FORKS];
    const int32_t order[] = {0, 2, 5, 1, 3, 4};
    for (int32_t i = 0; i < FORKS; i++)
        draws[i] = (engine_draw){sessions[order[i]], &likeliest, tokens[i]};
    if (!engine_decode(of, draws, FORKS, 20, chosen, &err))
        fail_msg("%s", err.text);
    assert_int_equal(single, of == worker ? NEXT : 0);
    assert_int_equal(shared_passes(of) - before, of == worker ? NEXT + 20 : 0);
    for (int32_t i = 0; i < FORKS; i++)
        engine_session_close(sessions[i]);
}

#define assert_refused(call, words)                                                                \
    do {                                                                                           \
        engine_error err = {""};                                                                   \
        assert_false(call);                                                                        \
        if (!strstr(err.text, words))                                                              \
            fail_msg("'%s' does not say '%s'", err.text, words);                                   \
    } while (0)

// Sessions of another worker, the same one twice, none, more than there may be: each call says so and does nothing.
static void wrong_sessions_are_refused(void **state)
{
    (void)state;
    engine_session *own = engine_session_open(worker, NULL),
                   *other = engine_session_open(apart, NULL);
    engine_session *both[2] = {own, other}, *twice[SESSIONS + 1];
    engine_feed feeds[2] = {{.session = own, .ids = tokens, .count = 4},
                            {.session = other, .ids = tokens, .count = 4}};
    bool more = false;
    eval(own, tokens, 4);
    for (int32_t i = 0; i <= SESSIONS; i++)
        twice[i] = own;
    assert_refused(engine_pass(worker, feeds, 2, &more, &err), "another worker");
    assert_refused(engine_profile_take(both, 2, 1, &err), "another worker");
    assert_refused(engine_profile_take(twice, 2, 1, &err), "twice");
    assert_refused(engine_profile_take(twice, SESSIONS + 1, 1, &err), "opened for 4");
    assert_refused(engine_profile_take(twice, 0, 1, &err), "at least one session");
    assert_refused(engine_profile_take(twice, 1, 0, &err), "one round");
    const engine_sampling sampling = {.params = {.temperature = 0}};
    engine_draw draws[2] = {{own, &sampling, 0}, {other, &sampling, 0}};
    int32_t chosen[2];
    assert_refused(engine_decode(worker, draws, 2, 1, chosen, &err), "another worker");
    draws[1].session = own;
    assert_refused(engine_decode(worker, draws, 2, 1, chosen, &err), "twice");
    assert_refused(engine_decode(worker, draws, 1, CONTEXT - 3, chosen, &err), "do not fit");
    assert_int_equal(engine_session_length(own), 4);
    engine_profile *profile = engine_profile_take(twice, 1, 1, NULL);
    assert_non_null(profile);
    free(profile);
    engine_session_close(own);
    engine_session_close(other);
}

// It writes rows of logits that are those of others, who are not in it.
static void a_profile_leaves_logits_of_others(void **state)
{
    (void)state;
    engine_session *sessions[2] = {engine_session_open(worker, NULL),
                                   engine_session_open(worker, NULL)};
    engine_feed feeds[2] = {{.session = sessions[0], .ids = tokens, .count = 4},
                            {.session = sessions[1], .ids = tokens + 4, .count = 4}};
    bool more = false;
    float *before = malloc((size_t)vocab * sizeof *before);
    assert_non_null(before);
    assert_true(engine_pass(worker, feeds, 2, &more, NULL));
    memcpy(before, engine_session_logits(sessions[0]), (size_t)vocab * sizeof *before);
    free(engine_profile_take(&sessions[1], 1, 1, NULL));
    assert_memory_equal(engine_session_logits(sessions[0]), before, (size_t)vocab * sizeof *before);
    assert_null(engine_session_logits(sessions[1]));
    engine_session_close(sessions[0]);
    engine_session_close(sessions[1]);
    free(before);
}

// What a device makes is waited for once, however many rows there are; once more for their logits where penalties want a history.
static void rows_are_drawn_together(void **state)
{
    (void)state;
    const engine_sampling sampling = {.params = {.temperature = 0}},
                          penalised = {.params = {.temperature = 0, .presence_penalty = 0.5f}};
    engine_session *sessions[SESSIONS];
    engine_feed feeds[SESSIONS];
    engine_draw draws[SESSIONS], alone;
    engine_worker_info before, after;
    for (int32_t i = 0; i < SESSIONS; i++) {
        sessions[i] = engine_session_open(worker, NULL);
        feeds[i] = (engine_feed){.session = sessions[i], .ids = tokens + i, .count = 3};
        draws[i] = (engine_draw){.session = sessions[i], .sampling = &sampling};
    }
    bool more = false;
    assert_true(engine_pass(worker, feeds, SESSIONS, &more, NULL) && !more);
    engine_worker_describe(worker, &before);
    assert_true(engine_sample_all(worker, draws, SESSIONS, NULL));
    engine_worker_describe(worker, &after);
    assert_int_equal(after.waits - before.waits, 1);
    draws[SESSIONS - 1].sampling = &penalised;
    assert_true(engine_sample_all(worker, draws, SESSIONS, NULL));
    engine_worker_describe(worker, &before);
    assert_int_equal(before.waits - after.waits, 2);
    draws[SESSIONS - 1].sampling = &sampling;
    assert_true(engine_sample_all(worker, draws, SESSIONS, NULL));
    for (int32_t i = 0; i < SESSIONS; i++) {
        alone = (engine_draw){.session = sessions[i], .sampling = &sampling};
        assert_true(engine_sample_all(worker, &alone, 1, NULL));
        assert_int_equal(alone.token, draws[i].token);
        engine_session_close(sessions[i]);
    }
}

static void shared_prefixes_are_read_once(void **state)
{
    (void)state;
    size_t count = (size_t)NEXT * FORKS * (size_t)vocab;
    float *shared = malloc(count * sizeof *shared), *alone = malloc(count * sizeof *alone);
    int32_t chosen[2][20 * FORKS];
    engine_worker *usual = worker, *each = start_forks(true);
    assert_true(shared && alone);
    worker = start_forks(false);
    go_on(worker, shared, chosen[0]);
    go_on(each, alone, chosen[1]);
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(shared[i] - alone[i]) <= 1e-4f))
            fail_msg("logit %zu is %g, of sessions each for itself %g", i, (double)shared[i],
                     (double)alone[i]);
    assert_memory_equal(chosen[0], chosen[1], sizeof chosen[0]);
    close_worker(worker);
    close_worker(each);
    worker = usual;
    free(shared);
    free(alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_do_not_wait_for_prompts),
        cmocka_unit_test(logits_stay_while_others_go_on),
        cmocka_unit_test(forks_share_pages),
        cmocka_unit_test(equal_prefixes_share_pages),
        cmocka_unit_test(a_full_pool_is_refused),
        cmocka_unit_test(samples_many_rows_as_one_by_one),
        cmocka_unit_test(wrong_sessions_are_refused),
        cmocka_unit_test(a_profile_leaves_logits_of_others),
        cmocka_unit_test(rows_are_drawn_together),
        cmocka_unit_test(shared_prefixes_are_read_once),
    };
    return cmocka_run_group_tests_name("passes", tests, write_model, remove_model);
}
