// SPDX-License-Identifier: MIT
// Sessions: prefixes that are reused, timelines that are cut, contexts that fill up, generation that
// ends for every reason it can.
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

enum { CONTEXT = 96, PROMPT = 80, CHUNK = 32 };

static golden_written written;
static const int32_t *tokens;
static int32_t vocab;

static int write_model(void **state)
{
    (void)state;
    if (!golden_model_open(&written, "models/llama_f32.safetensors"))
        return -1;
    tokens = written.tokens;
    vocab = written.vocab;
    return 0;
}

static int remove_model(void **state)
{
    (void)state;
    return golden_model_close(&written);
}

static engine_options options_for(int32_t sessions)
{
    return (engine_options){.threads = 2,
                            .context_tokens = CONTEXT,
                            .chunk_tokens = CHUNK,
                            .max_sessions = sessions,
                            .kv_dtype = WEFT_F32};
}

static engine_worker *worker_for(int32_t sessions)
{
    engine_options options = options_for(sessions);
    engine_error err = {""};
    engine_worker *worker = open_worker(written.path, &options, &err);
    if (!worker)
        fail_msg("%s", err.text);
    return worker;
}

// One that runs the same model, with a pool of its own: nothing is shared but the weights.
static engine_worker *second_worker(const engine_worker *worker)
{
    engine_options options = options_for(1);
    engine_error err = {""};
    engine_worker *second =
        open_worker_of((engine_model *)engine_worker_model(worker), &options, &err);
    if (!second)
        fail_msg("%s", err.text);
    return second;
}

static void sync_to(engine_session *session, const int32_t *ids, int32_t count)
{
    engine_error err = {""};
    if (!engine_session_sync(session, ids, count, NULL, NULL, &err))
        fail_msg("%s", err.text);
    assert_int_equal(engine_session_length(session), count);
    assert_memory_equal(engine_session_tokens(session), ids, (size_t)count * sizeof *ids);
}

static void expect_same_logits(engine_session *a, engine_session *b)
{
    const float *x = engine_session_logits(a), *y = engine_session_logits(b);
    assert_non_null(x);
    assert_non_null(y);
    for (int32_t i = 0; i < vocab; i++)
        if (!(fabsf(x[i] - y[i]) <= 1e-4f))
            fail_msg("logit %d is %g in one session, %g in the other", i, (double)x[i],
                     (double)y[i]);
}

static void reuses_a_common_prefix(void **state)
{
    (void)state;
    engine_worker *worker = worker_for(1), *apart = second_worker(worker);
    engine_session *used = must_open_session(worker), *fresh = must_open_session(apart);
    int32_t other[PROMPT];
    memcpy(other, tokens, sizeof other);
    for (int32_t i = 50; i < PROMPT; i++)
        other[i] = (tokens[i] + 1) % vocab;
    sync_to(used, tokens, PROMPT);
    assert_int_equal(engine_session_common(used, other, PROMPT), 50);
    sync_to(used, other, PROMPT);
    sync_to(fresh, other, PROMPT);
    expect_same_logits(used, fresh);
    assert_int_equal(engine_session_common(used, other, PROMPT), PROMPT); // nothing to evaluate
    sync_to(used, other, 20);                                             // back to a beginning
    sync_to(fresh, other, 20);
    expect_same_logits(used, fresh);
    engine_session_close(used);
    engine_session_close(fresh);
    engine_worker_close(apart);
    close_worker(worker);
}

static void forgets_what_is_truncated(void **state)
{
    (void)state;
    engine_worker *worker = worker_for(1), *apart = second_worker(worker);
    engine_session *session = must_open_session(worker), *fresh = must_open_session(apart);
    for (int round = 0; round < 20; round++) { // pages must come back, or the pool runs dry
        sync_to(session, tokens, PROMPT);
        engine_session_truncate(session, round % PROMPT);
        assert_null(engine_session_logits(session));
        assert_int_equal(engine_session_length(session), round % PROMPT);
    }
    sync_to(session, tokens, PROMPT);
    sync_to(fresh, tokens, PROMPT);
    expect_same_logits(session, fresh);
    engine_session_close(session);
    engine_session_close(fresh);
    engine_worker_close(apart);
    close_worker(worker);
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    engine_worker *worker = worker_for(1);
    engine_session *session = must_open_session(worker);
    engine_error err = {""};
    sync_to(session, tokens, 10);
    assert_false(engine_session_sync(session, tokens, CONTEXT + 1, NULL, NULL, &err));
    assert_non_null(strstr(err.text, "--ctx"));
    assert_int_equal(engine_session_length(session), 10);
    engine_feed twice[2] = {{.session = session, .ids = tokens, .count = 1},
                            {.session = session, .ids = tokens, .count = 1}};
    assert_false(engine_eval(worker, twice, 2, NULL, NULL, &err));
    assert_null(engine_session_open(worker, &err));
    assert_int_equal(engine_session_length(session), 10);
    assert_non_null(engine_session_logits(session));
    engine_session_close(session);
    close_worker(worker);
}

// What a generation wrote, and when it is to be stopped.
typedef struct listener {
    char text[4096];
    size_t bytes, most;
    int32_t progress_calls;
} listener;

static bool listen(void *user, const char *text, size_t bytes)
{
    listener *l = user;
    assert_true(l->bytes + bytes < sizeof l->text);
    memcpy(l->text + l->bytes, text, bytes);
    l->bytes += bytes;
    l->text[l->bytes] = 0;
    return l->most == 0 || l->bytes < l->most;
}

static bool count_progress(void *user, int32_t done_tokens, int32_t all_tokens)
{
    listener *l = user;
    assert_in_range(done_tokens, 1, all_tokens);
    l->progress_calls++;
    return true;
}

static engine_result generate(engine_session *session, engine_generation wish, listener *l)
{
    engine_result result;
    engine_error err = {""};
    memset(l->text, 0, sizeof l->text);
    l->bytes = 0;
    wish.write = listen;
    wish.progress = count_progress;
    wish.user = l;
    if (!engine_generate(session, tokens, PROMPT, &wish, &result, &err))
        fail_msg("%s", err.text);
    return result;
}

static void ends_when_the_context_is_full(void **state)
{
    (void)state;
    engine_worker *worker = worker_for(1);
    engine_session *session = must_open_session(worker);
    listener l = {.most = 0};
    engine_result result = generate(session, (engine_generation){.ignore_end = true}, &l);
    assert_int_equal(result.finish, ENGINE_FINISH_CONTEXT);
    assert_int_equal(engine_session_length(session), CONTEXT);
    assert_int_equal(result.generated_tokens, CONTEXT - PROMPT + 1);
    assert_int_equal(result.prompt_tokens, PROMPT);
    assert_int_equal(l.progress_calls, (PROMPT + 31) / 32);
    engine_session_close(session);
    close_worker(worker);
}

static void ends_for_the_reason_it_says(void **state)
{
    (void)state;
    engine_worker *worker = worker_for(1);
    engine_session *session = must_open_session(worker);
    listener all = {.most = 0}, l = {.most = 0};
    engine_generation wish = {.max_tokens = 8, .ignore_end = true};
    assert_int_equal(generate(session, wish, &all).finish, ENGINE_FINISH_LENGTH);
    assert_true(all.bytes >= 4);

    const char stop[] = {all.text[all.bytes / 2], 0};
    wish.stops = (const char *const[]){stop, NULL};
    engine_result result = generate(session, wish, &l);
    assert_int_equal(result.finish, ENGINE_FINISH_STOP);
    assert_true(l.bytes <= all.bytes / 2);
    assert_memory_equal(l.text, all.text, l.bytes);
    assert_null(strstr(l.text, stop));
    assert_true(result.prompt_tokens <= 1); // the prompt was there already

    wish.stops = NULL;
    l.most = 1;
    assert_int_equal(generate(session, wish, &l).finish, ENGINE_FINISH_CANCEL);
    engine_session_close(session);
    close_worker(worker);
}

static bool refuse_text(void *user, const char *text, size_t bytes)
{
    (void)user, (void)text, (void)bytes;
    return false;
}

// The caller is asked after every token, also while all text is held back.
static void ends_when_nothing_is_written(void **state)
{
    (void)state;
    engine_worker *worker = worker_for(1);
    engine_session *session = must_open_session(worker);
    listener all = {.most = 0};
    engine_generation wish = {.max_tokens = 8, .ignore_end = true};
    generate(session, wish, &all);
    char stop[sizeof all.text + 1];
    snprintf(stop, sizeof stop, "%s#", all.text);
    wish.stops = (const char *const[]){stop, NULL};
    wish.write = refuse_text;
    engine_result result;
    engine_error err = {""};
    assert_true(engine_generate(session, tokens, PROMPT, &wish, &result, &err));
    assert_int_equal(result.finish, ENGINE_FINISH_CANCEL);
    assert_int_equal(result.generated_tokens, 1);
    engine_session_close(session);
    close_worker(worker);
}

static void repeats_with_its_seed(void **state)
{
    (void)state;
    engine_worker *worker = worker_for(1);
    engine_session *session = must_open_session(worker);
    listener first = {.most = 0}, again = {.most = 0}, other = {.most = 0};
    engine_generation wish = {.max_tokens = 12, .ignore_end = true};
    wish.sampling.params.temperature = 2;
    wish.sampling.params.seed = 11;
    generate(session, wish, &first);
    generate(session, wish, &again);
    assert_string_equal(first.text, again.text);
    wish.sampling.params.seed = 12;
    generate(session, wish, &other);
    assert_string_not_equal(first.text, other.text);
    engine_session_close(session);
    close_worker(worker);
}

static bool stop_at_once(void *user, int32_t done_tokens, int32_t all_tokens)
{
    (void)user;
    return done_tokens >= all_tokens;
}

static void stops_between_passes(void **state)
{
    (void)state;
    engine_worker *worker = worker_for(1);
    engine_session *session = must_open_session(worker);
    engine_error err = {""};
    assert_false(engine_session_sync(session, tokens, PROMPT, stop_at_once, NULL, &err));
    assert_string_equal(err.text, "stopped");
    assert_null(engine_session_logits(session));
    sync_to(session, tokens, PROMPT); // what was evaluated is kept, the rest follows
    engine_session_close(session);
    close_worker(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reuses_a_common_prefix),
        cmocka_unit_test(forgets_what_is_truncated),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(ends_when_the_context_is_full),
        cmocka_unit_test(ends_for_the_reason_it_says),
        cmocka_unit_test(ends_when_nothing_is_written),
        cmocka_unit_test(repeats_with_its_seed),
        cmocka_unit_test(stops_between_passes),
    };
    return cmocka_run_group_tests_name("session", tests, write_model, remove_model);
}
