// SPDX-License-Identifier: MIT
// What is made of a text whose layers are one launch (WEFT_PROGRAM=persistent) is what the launches make of it,
// to the bit: texts that fork, that are cut, that share a beginning, with guesses, in chains. On a GPU by
// WEFT_TEST_DEVICE=cuda; a CPU has one way, which is then held against itself.
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/quantize/quantize.h"
#include "tests/support/open_worker.h"
#include "tests/support/scratch.h"

enum { VOCAB = 512, PROMPT = 300, CHAIN = 8, MOST_ROWS = 64 };

static engine_error err;

struct said {
    float logits[MOST_ROWS][VOCAB];
    int32_t tokens[4 * CHAIN];
    int32_t rows, chosen;
};

static void note(struct said *said, engine_session *session)
{
    assert_true(said->rows < MOST_ROWS);
    const float *logits = engine_session_logits(session);
    assert_non_null(logits);
    memcpy(said->logits[said->rows++], logits, sizeof said->logits[0]);
}

static void feed(engine_worker *worker, engine_session *session, int32_t first, int32_t count,
                 int32_t guesses)
{
    int32_t ids[PROMPT];
    for (int32_t i = 0; i < count; i++)
        ids[i] = (first + i * 37) % VOCAB;
    engine_feed feed = {.session = session, .ids = ids, .count = count, .guesses = guesses};
    if (!engine_eval(worker, &feed, 1, NULL, NULL, &err))
        fail_msg("%s", err.text);
}

static void steps(engine_worker *worker, engine_session *session, int32_t count, struct said *said)
{
    for (int32_t i = 0; i < count; i++) {
        feed(worker, session, 7 * i + engine_session_length(session), 1, 0);
        note(said, session);
    }
}

static void chain(engine_worker *worker, engine_session *session, float temperature,
                  struct said *said)
{
    const engine_sampling sampling = {.params = {.temperature = temperature, .seed = 5}};
    engine_draw draw = {session, &sampling, 3};
    assert_true(said->chosen + CHAIN <= 4 * CHAIN);
    if (!engine_decode(worker, &draw, 1, CHAIN, said->tokens + said->chosen, &err))
        fail_msg("%s", err.text);
    said->chosen += CHAIN;
}

static void speak(engine_worker *worker, struct said *said)
{
    engine_session *first = engine_session_open(worker, &err);
    assert_non_null(first);
    feed(worker, first, 11, PROMPT, 0);
    steps(worker, first, 3, said);
    engine_session *second = engine_session_fork(first, &err);
    assert_non_null(second);
    for (int32_t i = 0; i < 3; i++) { // by turns, behind pages that both have
        steps(worker, first, 1, said);
        feed(worker, second, 100 + i, 1, 0);
        note(said, second);
    }
    engine_session_truncate(first,
                            137); // in the middle of a page, of which the second has the rest
    steps(worker, first, 3, said);
    steps(worker, second, 1, said);
    chain(worker, first, 0, said);
    feed(worker, second, 9, 4, 3); // a token and three guesses
    note(said, second);
    assert_true(engine_session_accept(second, (9 + 37) % VOCAB));
    note(said, second);
    engine_session_reject(second);
    steps(worker, second, 3, said);
    chain(worker, second, 0.8f, said);
    int32_t ids[150];
    memcpy(ids, engine_session_tokens(second), sizeof ids);
    if (!engine_session_sync(first, ids, 150, NULL, NULL, &err)) // shares the second's pages
        fail_msg("%s", err.text);
    steps(worker, first, 2, said);
    engine_session_truncate(second, 1);
    steps(worker, second, 2, said); // few keys: most SMs have none
    engine_session_close(second);
    steps(worker, first, 1, said);
    engine_session_close(first);
}

static bool on_gpu(void)
{
    const char *device = getenv("WEFT_TEST_DEVICE");
    return device && strcmp(device, "cuda") == 0;
}

static void make(engine_model *model, const char *program, struct said *said)
{
    const engine_options options = {
        .max_sessions = 2, .context_tokens = 512, .chain_tokens = CHAIN / 2, .keep_prefixes = true};
    setenv("WEFT_PROGRAM", program, 1);
    engine_worker *worker = open_worker_of(model, &options, &err);
    if (!worker)
        fail_msg("%s", err.text);
    speak(worker, said);
    engine_worker_info info;
    engine_worker_describe(worker, &info);
    const bool may = on_gpu() && strstr(weft_context_isa(engine_worker_context(worker)), "90");
    if (may && strcmp(program, "persistent") == 0)
        assert_true(info.one_launches > said->rows / 2);
    else
        assert_true(info.one_launches == 0);
    engine_worker_close(worker);
    unsetenv("WEFT_PROGRAM");
}

static void same(const char *format)
{
    static struct said graph, one;
    char path[SCRATCH_PATH_BYTES];
    const quantize_options quantize = {.mix = format, .pure = true};
    memset(&graph, 0, sizeof graph);
    memset(&one, 0, sizeof one);
    scratch_file(path, NULL, 0);
    if (!engine_quantize_shape("emulated-heads", path, &quantize, &err))
        fail_msg("%s", err.text);
    engine_model *model = engine_model_open(path, &err);
    assert_non_null(model);
    make(model, "graph", &graph);
    make(model, "persistent", &one);
    assert_int_equal(graph.rows, one.rows);
    for (int32_t i = 0; i < graph.rows; i++)
        if (memcmp(graph.logits[i], one.logits[i], sizeof graph.logits[i]) != 0)
            fail_msg("%s: row %d differs", format, i);
    assert_memory_equal(graph.tokens, one.tokens, sizeof graph.tokens);
    assert_true(graph.logits[0][1] != graph.logits[1][1]);
    engine_model_close(model);
    scratch_remove(path);
}

static void texts_of_q4_0(void **state)
{
    (void)state;
    same("q4_0");
}

static void texts_of_q8_0(void **state)
{
    (void)state;
    if (!on_gpu()) // which of the CPU's ways it is does not matter
        skip();
    same("q8_0");
}

static void texts_of_bf16(void **state)
{
    (void)state;
    if (!on_gpu())
        skip();
    same("bf16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_of_q4_0),
        cmocka_unit_test(texts_of_q8_0),
        cmocka_unit_test(texts_of_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
