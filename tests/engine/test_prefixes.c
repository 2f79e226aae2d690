// SPDX-License-Identifier: MIT
// Pages that are found again by their tokens: what is found is what was asked for, pages that are written are not
// found, those let go first go first, and no logit ever differs, to the bit.
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/cache/prefix_index.h"
#include "engine/engine.h"
#include "tests/support/golden_model.h"
#include "tests/support/open_worker.h"

enum { CONTEXT = 256, PAGE = 64, SESSIONS = 3 };
#ifdef WEFT_TEST_SLOW
enum { TURNS = 20, THREADS = 1 };
#else
enum { TURNS = 150, THREADS = 2 };
#endif

static golden_written written;
static int32_t vocab;
static engine_worker *alone;

static engine_worker *start(int32_t pool_pages, bool keep)
{
    engine_options options = {.threads = THREADS,
                              .context_tokens = CONTEXT,
                              .chunk_tokens = 96,
                              .max_sessions = SESSIONS,
                              .pool_tokens = pool_pages * PAGE,
                              .keep_prefixes = keep,
                              .invariant = true,
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
    vocab = written.vocab;
    alone = start(8, false);
    return alone ? 0 : -1;
}

static int remove_model(void **state)
{
    (void)state;
    close_worker(alone);
    return golden_model_close(&written);
}

// --- the index ----------------------------------------------------------------------------------------

static void pages_are_found_by_their_tokens(void **state)
{
    (void)state;
    prefix_index *index = prefix_index_create(4, 2);
    const int32_t a[] = {1, 2}, b[] = {3, 4};
    uint64_t link = 0, other = 0;
    assert_non_null(index);
    uint64_t first = prefix_index_add(index, 0, 0, a),
             second = prefix_index_add(index, 1, first, b);
    assert_int_equal(prefix_index_find(index, 0, a, &link), 0);
    assert_true(link == first);
    assert_int_equal(prefix_index_find(index, link, b, &link), 1);
    assert_int_equal(prefix_index_find(index, 0, b, &other), -1); // not at the beginning
    assert_int_equal(prefix_index_find(index, second, a, &other), -1);
    assert_true(prefix_index_add(index, 2, 0, a) == first); // page 0 is found, 2 is not entered
    assert_false(prefix_index_has(index, 2));
    prefix_index_remove(index, 0);
    assert_int_equal(prefix_index_find(index, 0, a, &link), -1);
    assert_true(prefix_index_add(index, 0, 0, a) != first); // so what stood behind it is not found
    prefix_index_free(index);
}

static void pages_rest_in_order(void **state)
{
    (void)state;
    prefix_index *index = prefix_index_create(5, 1);
    for (int32_t i = 0; i < 5; i++) {
        prefix_index_add(index, i, 0, &i);
        prefix_index_rest(index, i);
    }
    prefix_index_wake(index, 2);
    prefix_index_wake(index, 0);
    prefix_index_wake(index, 4);
    prefix_index_rest(index, 2);
    assert_int_equal(prefix_index_resting(index), 3);
    const int32_t order[] = {1, 3, 2, -1};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(prefix_index_oldest(index), order[i]);
        if (order[i] >= 0)
            prefix_index_remove(index, order[i]);
    }
    assert_int_equal(prefix_index_resting(index), 0);
    prefix_index_free(index);
}

// --- timelines ----------------------------------------------------------------------------------------

// Makes the timeline equal to ids; returns how many tokens were evaluated.
static int32_t read_in(engine_session *session, const int32_t *ids, int32_t count)
{
    engine_error err = {""};
    engine_result result;
    engine_generation wish = {.max_tokens = 1, .ignore_end = true};
    if (!engine_generate(session, ids, count, &wish, &result, &err))
        fail_msg("%s", err.text);
    return result.prompt_tokens;
}

static void expect_logits(engine_session *session)
{
    engine_session *fresh = must_open_session(alone);
    int32_t count = engine_session_length(session);
    assert_int_equal(read_in(fresh, engine_session_tokens(session), count), count);
    const float *logits = engine_session_logits(session);
    assert_non_null(logits);
    assert_memory_equal(logits, engine_session_logits(fresh), (size_t)vocab * sizeof *logits);
    engine_session_close(fresh);
}

static engine_worker_info info_of(const engine_worker *worker)
{
    engine_worker_info info;
    engine_worker_describe(worker, &info);
    return info;
}

static void sessions_find_what_others_left(void **state)
{
    (void)state;
    engine_worker *worker = start(8, true);
    assert_non_null(worker);
    engine_session *first = must_open_session(worker);
    assert_int_equal(read_in(first, written.tokens, 150), 150);
    engine_session_close(first);
    assert_int_equal(info_of(worker).free_pages, 8);
    assert_int_equal(info_of(worker).remembered_pages, 2);
    engine_session *second = must_open_session(worker);
    assert_int_equal(read_in(second, written.tokens, 150), 150 - 2 * PAGE);
    expect_logits(second);
    engine_session *third = must_open_session(worker);
    assert_int_equal(read_in(third, written.tokens, 2 * PAGE), 1); // shared with one that lives
    expect_logits(third);
    assert_int_equal(info_of(worker).shared_pages, 1);
    engine_session_close(second);
    engine_session_close(third);
    assert_int_equal(info_of(worker).free_pages, 8);
    close_worker(worker);
}

// A session that has read the first tokens of the text; `other` are these but for one.
static engine_session *read_text(engine_worker *worker, int32_t *other, int32_t count, int32_t but)
{
    engine_session *session = must_open_session(worker);
    memcpy(other, written.tokens, (size_t)count * sizeof *other);
    other[but] = (other[but] + 1) % vocab;
    read_in(session, written.tokens, count);
    return session;
}

static void what_is_written_is_not_found(void **state)
{
    (void)state;
    engine_worker *worker = start(8, true);
    assert_non_null(worker);
    int32_t other[150];
    engine_session *session = read_text(worker, other, 150, 100);
    read_in(session, other, 150); // goes on in the middle of page 1
    expect_logits(session);
    read_in(session, written.tokens, 150);
    read_in(session, other, 104); // the same, and the page is not full when it is looked for
    engine_session *second = must_open_session(worker);
    assert_int_equal(read_in(second, written.tokens, 150), 150 - 100); // what both have in common
    expect_logits(second);
    engine_session_close(session);
    engine_session_close(second);
    close_worker(worker);
}

// Pages that a session goes on with stand where they stood, whatever it had behind them before.
static void what_was_kept_is_found_behind_the_same(void **state)
{
    (void)state;
    engine_worker *worker = start(8, true);
    assert_non_null(worker);
    int32_t other[150];
    engine_session *session = read_text(worker, other, 150, PAGE);
    assert_int_equal(read_in(session, other, 150), 150 - PAGE);
    engine_session_close(session);
    engine_session *second = must_open_session(worker);
    assert_int_equal(read_in(second, other, 150), 150 - 2 * PAGE);
    expect_logits(second);
    engine_session_close(second);
    close_worker(worker);
}

static void what_was_let_go_first_goes_first(void **state)
{
    (void)state;
    engine_worker *worker = start(4, true);
    assert_non_null(worker);
    engine_session *session = must_open_session(worker);
    read_in(session, written.tokens, 140); // two full pages
    engine_session_truncate(session, 0);
    assert_int_equal(info_of(worker).remembered_pages, 2);
    read_in(session, written.tokens + 150, 70);
    engine_session_truncate(session, 0);
    read_in(session, written.tokens + 230, 100); // takes two: the second page of the first goes
    engine_session_truncate(session, 0);
    assert_int_equal(read_in(session, written.tokens, 140), 140 - PAGE);
    expect_logits(session);
    engine_session_close(session);
    close_worker(worker);
}

// Timelines that are cut, forked and go on at random, of few beginnings, in a pool that is always short.
static void nothing_is_ever_wrong(void **state)
{
    (void)state;
    engine_worker *worker = start(7, true);
    assert_non_null(worker);
    engine_session *sessions[SESSIONS] = {0};
    int64_t evaluated = 0, all = 0;
    srandom(3);
    for (int n = 0; n < TURNS; n++) {
        int32_t ids[CONTEXT], count = 20 + (int32_t)(random() % 180);
        memcpy(ids, written.tokens, sizeof ids);
        for (int32_t cut = PAGE - 10; cut < CONTEXT; cut += 70)
            ids[cut] = (int32_t)(random() % 2);
        engine_session **session = &sessions[random() % SESSIONS];
        if (*session && random() % 3 == 0) {
            engine_session_close(*session);
            *session = NULL;
        }
        int32_t held = 0;
        for (int i = 0; i < SESSIONS; i++)
            held += sessions[i] && &sessions[i] != session
                        ? (engine_session_length(sessions[i]) + PAGE) / PAGE
                        : 0;
        if (held + (count + PAGE) / PAGE > 7)
            continue;
        if (!*session)
            *session = must_open_session(worker);
        evaluated += read_in(*session, ids, count);
        all += count;
        expect_logits(*session);
    }
    assert_true(evaluated < all / 4 * 3);
    for (int i = 0; i < SESSIONS; i++)
        engine_session_close(sessions[i]);
    assert_int_equal(info_of(worker).free_pages, 7);
    close_worker(worker);
}

static void requests_find_what_others_left(void **state)
{
    (void)state;
    engine_worker *worker = start(8, true);
    engine_error err = {""};
    engine_scheduler *s = engine_scheduler_open(worker, 0, &err);
    assert_non_null(s);
    engine_scheduler_info info;
    for (int i = 0; i < 3; i++) {
        engine_request_wish wish = {
            .prompt = written.tokens, .prompt_tokens = 200, .max_tokens = 2, .ignore_end = true};
        assert_non_null(engine_scheduler_submit(s, &wish, &err));
        while (engine_scheduler_step(s))
            ;
    }
    engine_scheduler_describe(s, &info);
    assert_int_equal(info.cached_tokens, 2 * 3 * PAGE);
    assert_int_equal(info.prompt_tokens, 200 + 2 * (200 - 3 * PAGE));
    engine_scheduler_close(s);
    close_worker(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_found_by_their_tokens),
        cmocka_unit_test(pages_rest_in_order),
        cmocka_unit_test(sessions_find_what_others_left),
        cmocka_unit_test(what_is_written_is_not_found),
        cmocka_unit_test(what_was_kept_is_found_behind_the_same),
        cmocka_unit_test(what_was_let_go_first_goes_first),
        cmocka_unit_test(nothing_is_ever_wrong),
        cmocka_unit_test(requests_find_what_others_left),
    };
    return cmocka_run_group_tests(tests, write_model, remove_model);
}
