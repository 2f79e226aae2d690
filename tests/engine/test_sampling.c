// SPDX-License-Identifier: MIT
// What the engine hands to the sampler: the tokens that penalties count, and the number of the draw.
#define _XOPEN_SOURCE 700
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

enum { CONTEXT = 160, USUAL_WINDOW = 64, GENERATED = 16 };

typedef struct subject {
    golden_written golden;
    const int32_t *tokens;
    engine_model *model;
    engine_worker *worker;
    engine_session *session;
} subject;

static int open_subject(void **state)
{
    static subject s;
    engine_error err = {{0}};
    if (!golden_model_open(&s.golden, "models/llama_f32.safetensors"))
        return -1;
    s.tokens = s.golden.tokens;
    s.model = engine_model_open(s.golden.path, &err);
    const engine_options options = {.threads = 1, .context_tokens = CONTEXT};
    s.worker = s.model ? engine_worker_open(s.model, &options, &err) : NULL;
    s.session = s.worker ? engine_session_open(s.worker, &err) : NULL;
    *state = &s;
    return s.session ? 0 : -1;
}

static int close_subject(void **state)
{
    subject *s = *state;
    engine_session_close(s->session);
    engine_worker_close(s->worker);
    engine_model_close(s->model);
    return golden_model_close(&s->golden);
}

static int32_t sample(const subject *s, const engine_sampling *sampling)
{
    int32_t token = -1;
    engine_error err = {{0}};
    if (!engine_sample(s->session, sampling, &token, &err))
        fail_msg("%s", err.text);
    return token;
}

static int32_t likeliest_behind(const subject *s, const int32_t *ids, int32_t count)
{
    engine_error err = {{0}};
    if (!engine_session_sync(s->session, ids, count, NULL, NULL, &err))
        fail_msg("%s", err.text);
    return sample(s, &(engine_sampling){.penalty_window = 1});
}

// Makes a timeline of `count` tokens whose likeliest continuation occurs in it once, `distance` tokens from
// the end (1: the last token), and returns that token.
static int32_t timeline_with_echo(const subject *s, int32_t *ids, int32_t count, int32_t distance)
{
    for (int32_t start = 0; start + count <= 300; start++) {
        memcpy(ids, s->tokens + start, (size_t)count * sizeof *ids);
        for (int round = 0; round < 4; round++) {
            int32_t token = likeliest_behind(s, ids, count), times = 0;
            for (int32_t i = 0; i < count; i++)
                times += ids[i] == token;
            if (times == 1 && ids[count - distance] == token)
                return token;
            if (times > (ids[count - distance] == token))
                break;
            ids[count - distance] = token;
        }
    }
    fail_msg("no timeline has its continuation %d tokens from its end", distance);
    return -1;
}

static void expect_window(const subject *s, int32_t window, int32_t reach)
{
    const engine_sampling sampling = {.params.presence_penalty = 1e6f, .penalty_window = window};
    int32_t ids[CONTEXT], count = reach + 4;
    int32_t token = timeline_with_echo(s, ids, count, reach);
    assert_int_not_equal(sample(s, &sampling), token); // the farthest that counts
    token = timeline_with_echo(s, ids, count, reach + 1);
    assert_int_equal(sample(s, &sampling), token); // the next one does not
}

// Penalties count the last penalty_window tokens, all of them and no more; 64 where nothing is said.
static void penalties_count_their_window(void **state)
{
    expect_window(*state, 1, 1);
    expect_window(*state, 2, 2);
    expect_window(*state, 7, 7);
    expect_window(*state, 0, USUAL_WINDOW);
    // A window longer than the timeline is all of it.
    int32_t ids[CONTEXT];
    int32_t token = timeline_with_echo(*state, ids, 8, 8);
    const engine_sampling all = {.params.presence_penalty = 1e6f, .penalty_window = 1000};
    assert_int_not_equal(sample(*state, &all), token);
}

// Every token of a generation is a draw of its own, numbered by its position.
static void draws_are_numbered(void **state)
{
    const subject *s = *state;
    engine_error err = {{0}};
    engine_sampling sampling = {.params = {.temperature = 3, .seed = 5}};
    engine_generation wish = {.max_tokens = GENERATED, .sampling = sampling, .ignore_end = true};
    engine_result result;
    int32_t expected[GENERATED];
    likeliest_behind(s, s->tokens, 20);
    for (int32_t i = 0; i < GENERATED; i++) {
        sampling.params.step = (uint64_t)engine_session_length(s->session);
        expected[i] = sample(s, &sampling);
        engine_feed feed = {.session = s->session, .ids = &expected[i], .count = 1};
        assert_true(engine_eval(s->worker, &feed, 1, NULL, NULL, &err));
    }
    if (!engine_generate(s->session, s->tokens, 20, &wish, &result, &err))
        fail_msg("%s", err.text);
    // The last token is drawn and not evaluated.
    assert_int_equal(engine_session_length(s->session), 20 + GENERATED - 1);
    assert_memory_equal(engine_session_tokens(s->session) + 20, expected,
                        (GENERATED - 1) * sizeof *expected);
    // With one number for all draws the tokens would be others.
    bool differs = false;
    likeliest_behind(s, s->tokens, 20);
    for (int32_t i = 0; i < GENERATED - 1; i++) {
        sampling.params.step = 20;
        int32_t token = sample(s, &sampling);
        differs = differs || token != expected[i];
        engine_feed feed = {.session = s->session, .ids = &expected[i], .count = 1};
        assert_true(engine_eval(s->worker, &feed, 1, NULL, NULL, &err));
    }
    assert_true(differs);
}

// The end token ends a generation and is not part of it, unless the caller wants to go on.
static void ends_at_the_end(void **state)
{
    const subject *s = *state;
    const tokenizer *t = engine_model_tokenizer(s->model);
    engine_error err = {{0}};
    engine_result result;
    for (uint64_t seed = 0; seed < 50; seed++) {
        engine_generation wish = {.sampling.params = {.temperature = 3, .seed = seed},
                                  .ignore_end = true};
        int32_t end = 20;
        assert_true(engine_generate(s->session, s->tokens, 20, &wish, &result, &err));
        assert_int_equal(result.finish, ENGINE_FINISH_CONTEXT);
        while (end < CONTEXT && !tokenizer_is_end(t, engine_session_tokens(s->session)[end]))
            end++;
        if (end == CONTEXT)
            continue;
        wish.ignore_end = false;
        assert_true(engine_generate(s->session, s->tokens, 20, &wish, &result, &err));
        assert_int_equal(result.finish, ENGINE_FINISH_END);
        assert_int_equal(result.generated_tokens, end - 20);
        assert_int_equal(engine_session_length(s->session), end);
        return;
    }
    fail_msg("no generation meets the end token");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(penalties_count_their_window),
        cmocka_unit_test(draws_are_numbered),
        cmocka_unit_test(ends_at_the_end),
    };
    return cmocka_run_group_tests_name("sampling", tests, open_subject, close_subject);
}
