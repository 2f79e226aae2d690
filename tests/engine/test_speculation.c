// SPDX-License-Identifier: MIT
// Guessing tokens ahead never changes a text.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tests/support/demo_model.h"
#include "tests/support/open_worker.h"

#ifdef WEFT_TEST_SLOW
enum { SEEDS = 4, THREADS = 1, MOST = 40 };
#else
enum { SEEDS = 16, THREADS = 2, MOST = 80 };
#endif
enum { CONTEXT = 320 };

// --- texts --------------------------------------------------------------------------------------------

static engine_model *model;
static engine_worker *worker, *drafts;
static engine_session *session;
static tokenizer_ids prompt;

static engine_worker *open_worker_for(int32_t sessions, bool invariant)
{
    engine_options options = {.threads = THREADS,
                              .context_tokens = CONTEXT,
                              .chunk_tokens = 48,
                              .max_sessions = sessions,
                              .invariant = invariant};
    return open_worker_of(model, &options, NULL);
}

// What a seed says without guesses, in MOST tokens or, with `full`, until the context is full; written once.
typedef struct plain_text {
    bool written;
    tokenizer_text text;
    engine_result result;
    int32_t length; // of the timeline then
} plain_text;

static plain_text plain_texts[SEEDS][2];

static int open_all(void **state)
{
    static const char text[] =
        "Tom had a red ball and a blue ball. Tom had a red ball and a blue ball. Tom had a";
    (void)state;
    model = demo_model_open(text, &prompt);
    worker = model ? open_worker_for(8, true) : NULL;
    drafts = worker ? open_worker_for(8, true) : NULL;
    session = drafts ? engine_session_open(worker, NULL) : NULL;
    return session ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    for (int32_t n = 0; n < 2 * SEEDS; n++)
        tokenizer_text_free(&plain_texts[n / 2][n % 2].text);
    tokenizer_ids_free(&prompt);
    engine_session_close(session);
    engine_worker_close(drafts);
    engine_worker_close(worker);
    engine_model_close(model);
    return 0;
}

static engine_sampling sampling_of(int32_t seed)
{
    return (engine_sampling){.params = {.temperature = seed == 0  ? 0
                                                       : seed % 3 ? 0.6f
                                                                  : 1.2f,
                                        .top_p = 0.95f,
                                        .frequency_penalty = seed % 4 == 1 ? 0.7f : 0,
                                        .seed = (uint64_t)seed}};
}

static engine_result text_of(int32_t seed, int32_t tokens, const engine_speculation *speculation,
                             tokenizer_text *text)
{
    static const char *const stops[] = {"never", "dog", NULL};
    engine_generation wish = {.max_tokens = tokens,
                              .sampling = sampling_of(seed),
                              .stops = seed % 5 == 4 ? stops : NULL,
                              .ignore_end = seed % 2 == 0,
                              .speculation = speculation,
                              .write = keep_text,
                              .user = text};
    engine_result result;
    engine_error err = {""};
    engine_session_truncate(session, seed % 7);
    if (!engine_generate(session, prompt.ids, (int32_t)prompt.count, &wish, &result, &err))
        fail_msg("%s", err.text);
    return result;
}

static const plain_text *plain_text_of(int32_t seed, bool full)
{
    plain_text *plain = &plain_texts[seed][full];
    if (!plain->written) {
        plain->result = text_of(seed, full ? 0 : MOST, NULL, &plain->text);
        plain->length = engine_session_length(session);
        plain->written = true;
    }
    return plain;
}

static void check_same_texts(const engine_speculation *speculation, bool must_help)
{
    int32_t accepted = 0, guessed = 0;
    for (int32_t seed = 0; seed < SEEDS; seed++) {
        tokenizer_text guesses = {0};
        bool full = seed % 6 == 5;
        const plain_text *a = plain_text_of(seed, full);
        engine_result b = text_of(seed, full ? 0 : MOST, speculation, &guesses);
        assert_int_equal(a->result.finish, b.finish);
        assert_int_equal(a->result.generated_tokens, b.generated_tokens);
        assert_int_equal(a->length, engine_session_length(session));
        assert_int_equal(a->text.size_bytes, guesses.size_bytes);
        if (guesses.size_bytes > 0)
            assert_memory_equal(a->text.data, guesses.data, guesses.size_bytes);
        accepted += b.accepted_tokens;
        guessed += b.guessed_tokens;
        assert_true(b.accepted_tokens <= b.guessed_tokens);
        tokenizer_text_free(&guesses);
    }
    assert_true(!must_help || accepted > SEEDS);
    assert_true(guessed > 0);
    engine_session_truncate(session, 0);
    engine_worker_info info;
    engine_worker_describe(worker, &info);
    assert_int_equal(info.free_pages, info.pool_pages);
}

static void lookup_changes_no_text(void **state)
{
    (void)state;
    check_same_texts(&(engine_speculation){.lookup = true, .always = true}, true);
    check_same_texts(&(engine_speculation){.lookup = true, .most = 1, .always = true}, true);
    check_same_texts(&(engine_speculation){.lookup = true}, false);
}

static void a_draft_changes_no_text(void **state)
{
    (void)state;
    assert_true(engine_speculation_fits(model, model, NULL));
    check_same_texts(&(engine_speculation){.draft = drafts, .most = 4, .always = true}, true);
    check_same_texts(&(engine_speculation){.lookup = true, .draft = drafts}, false);
    engine_worker_info info;
    engine_worker_describe(drafts, &info);
    assert_int_equal(info.free_pages, info.pool_pages);
}

// A model that draws with the same seed guesses all of its own tokens.
static void a_draft_of_one_mind_is_always_right(void **state)
{
    (void)state;
    tokenizer_text text = {0};
    engine_result result =
        text_of(2, 41, &(engine_speculation){.draft = drafts, .most = 4, .always = true}, &text);
    assert_int_equal(result.guessed_tokens, result.accepted_tokens);
    assert_int_equal(result.accepted_tokens, 32); // of 40 behind the first, four of every five
    tokenizer_text_free(&text);
}

static void other_vocabularies_are_refused(void **state)
{
    (void)state;
    engine_error err = {""};
    engine_model *other = engine_model_synthesise("llama-3.2-1b", "q9_9", NULL, NULL);
    assert_null(other);
    other = engine_model_outline("llama-3.2-1b", "q4_0", &err);
    assert_non_null(other);
    assert_false(engine_speculation_fits(model, other, &err));
    assert_non_null(strstr(err.text, "vocabulary"));
    engine_model_close(other);
}

// --- many at once -------------------------------------------------------------------------------------

typedef struct asked {
    tokenizer_text text;
    bool ended;
} asked;

static bool take_token(void *user, const engine_token *token)
{
    return tokenizer_text_append(&((asked *)user)->text, token->text, token->text_bytes);
}

static void take_end(void *user, const engine_request_result *result)
{
    ((asked *)user)->ended = result->finish != ENGINE_FINISH_ERROR;
}

static void run_scheduler(int32_t slots, int32_t pool_tokens, const engine_speculation *speculation)
{
    engine_options options = {.threads = THREADS,
                              .context_tokens = CONTEXT,
                              .chunk_tokens = 48,
                              .max_sessions = slots,
                              .pool_tokens = pool_tokens,
                              .keep_prefixes = true,
                              .invariant = true};
    engine_error err = {""};
    engine_worker *many = open_worker_of(model, &options, &err);
    engine_scheduler *scheduler = engine_scheduler_open(many, 0, &err);
    asked all[SEEDS] = {{{0}, false}};
    engine_scheduler_speculate(scheduler, speculation);
    for (int32_t seed = 0; seed < SEEDS; seed++) {
        engine_request_wish wish = {.prompt = prompt.ids,
                                    .prompt_tokens = (int32_t)prompt.count,
                                    .max_tokens = MOST,
                                    .sampling = sampling_of(seed),
                                    .ignore_end = seed % 2 == 0,
                                    .owner = (uint64_t)seed % 3,
                                    .token = take_token,
                                    .end = take_end,
                                    .user = &all[seed]};
        assert_non_null(engine_scheduler_submit(scheduler, &wish, &err));
    }
    while (engine_scheduler_step(scheduler))
        ;
    engine_scheduler_info info;
    engine_worker_info left;
    engine_scheduler_describe(scheduler, &info);
    engine_worker_describe(many, &left);
    assert_true(info.guessed_tokens > 0 && info.accepted_tokens > 0);
    assert_int_equal(left.free_pages, left.pool_pages);
    for (int32_t seed = 0; seed < SEEDS; seed++) {
        if (seed % 5 != 4) { // those have stop strings
            const tokenizer_text *alone = &plain_text_of(seed, false)->text;
            assert_true(all[seed].ended);
            assert_int_equal(alone->size_bytes, all[seed].text.size_bytes);
            assert_memory_equal(alone->data, all[seed].text.data, alone->size_bytes);
        }
        tokenizer_text_free(&all[seed].text);
    }
    engine_scheduler_close(scheduler);
    engine_worker_close(many);
}

static void requests_are_speculated_for(void **state)
{
    (void)state;
    run_scheduler(8, 0, &(engine_speculation){.lookup = true, .always = true});
    run_scheduler(8, 0, &(engine_speculation){.draft = drafts, .most = 3, .always = true});
}

static void short_pools_stand_guesses(void **state)
{
    (void)state;
    run_scheduler(6, 4 * 128, &(engine_speculation){.lookup = true, .always = true});
}

// --- what is refused ----------------------------------------------------------------------------------

static void bad_guesses_are_refused(void **state)
{
    (void)state;
    int32_t ids[64] = {1};
    engine_error err = {""};
    for (int i = 0; i < 64; i++)
        ids[i] = 5 + i;
    engine_session_truncate(session, 0);
    const int32_t parents[] = {-1, 1}, forks[] = {-1, -1};
    engine_feed bad[] = {
        {.session = session, .ids = ids, .count = 3, .guesses = 2, .parents = parents},
        {.session = session, .ids = ids, .count = 3, .guesses = 2, .parents = forks}, // invariant
        {.session = session, .ids = ids, .count = 2, .guesses = 2},
        {.session = session, .ids = ids, .count = 2, .guesses = -1},
        {.session = session, .ids = ids, .count = 60, .guesses = 50},
        {.session = session, .ids = ids, .count = 40, .guesses = 30}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(engine_pass(worker, &bad[i], 1, NULL, &err));
        assert_non_null(strstr(err.text, "guesses"));
        assert_int_equal(engine_session_length(session), 0);
    }
    assert_false(engine_session_accept(session, ids[0]));
    // More than a pass holds: the guesses come with the last piece.
    engine_feed feed = {.session = session, .ids = ids, .count = 60, .guesses = 13};
    bool more;
    assert_true(engine_pass(worker, &feed, 1, &more, &err) && more);
    assert_int_equal(feed.done, 46);
    assert_false(engine_session_accept(session, ids[47]));
    assert_true(engine_pass(worker, &feed, 1, &more, &err) && !more);
    assert_int_equal(engine_session_length(session), 47);
    assert_false(engine_session_accept(session, ids[48]));
    assert_true(engine_session_accept(session, ids[47]));
    engine_session_reject(session);
    assert_false(engine_session_accept(session, ids[48]));
    assert_int_equal(engine_session_length(session), 48);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookup_changes_no_text),
        cmocka_unit_test(a_draft_changes_no_text),
        cmocka_unit_test(a_draft_of_one_mind_is_always_right),
        cmocka_unit_test(other_vocabularies_are_refused),
        cmocka_unit_test(requests_are_speculated_for),
        cmocka_unit_test(short_pools_stand_guesses),
        cmocka_unit_test(bad_guesses_are_refused),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
