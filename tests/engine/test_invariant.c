// SPDX-License-Identifier: MIT
// engine_options.invariant: the logits of a timeline are the same to the bit however its tokens are cut into passes,
// whatever else is in them, and whether a pass or a chain evaluates them.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tests/support/open_worker.h"

enum { CONTEXT = 256, TOKENS = 110, OTHERS = 2, MOST_CUTS = 6 };

static engine_worker *worker;
static int32_t vocab, tokens[OTHERS + 1][TOKENS];
static float *expected; // what the first evaluation gave
static bool is_expected;

static int open_all(void **state)
{
    (void)state;
    engine_error err = {""};
    const engine_options options = {.threads = 2,
                                    .context_tokens = CONTEXT,
                                    .max_sessions = OTHERS + 1,
                                    .chain_tokens = 4,
                                    .invariant = true};
    worker = open_worker(WEFT_TEST_GOLDEN "/../../models/demo.gguf", &options, &err);
    if (!worker) {
        print_error("%s\n", err.text);
        return -1;
    }
    engine_model_info info;
    engine_model_describe(engine_worker_model(worker), &info);
    vocab = info.vocab;
    for (int32_t s = 0; s <= OTHERS; s++)
        for (int32_t i = 0; i < TOKENS; i++)
            tokens[s][i] = 300 + (s * 977 + i * 131) % (vocab - 300);
    expected = calloc((size_t)vocab, sizeof *expected);
    return expected ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    free(expected);
    close_worker(worker);
    return 0;
}

// The first session's tokens in pieces, and beside each the next of the others', one token less each time.
static void evaluate(engine_session **sessions, int32_t count, const int32_t *cuts)
{
    engine_error err = {""};
    for (int32_t at = 0, i = 0; at < TOKENS; at += cuts[i++]) {
        engine_feed feeds[OTHERS + 1];
        for (int32_t s = 0; s < count; s++) {
            int32_t have = engine_session_length(sessions[s]),
                    size = s ? cuts[i] / (s + 1) : cuts[i];
            feeds[s] = (engine_feed){
                .session = sessions[s], .ids = tokens[s] + have, .count = size > 0 ? size : 1};
        }
        if (!engine_eval(worker, feeds, count, NULL, NULL, &err))
            fail_msg("%s", err.text);
    }
}

static void check_cuts(int32_t count, const int32_t *cuts)
{
    engine_error err = {""};
    engine_session *sessions[OTHERS + 1];
    for (int32_t s = 0; s < count; s++)
        assert_non_null(sessions[s] = engine_session_open(worker, &err));
    evaluate(sessions, count, cuts);
    const float *logits = engine_session_logits(sessions[0]);
    if (!is_expected)
        memcpy(expected, logits, (size_t)vocab * sizeof *logits);
    is_expected = true;
    int32_t different = 0;
    for (int32_t i = 0; i < vocab; i++)
        different += memcmp(&expected[i], &logits[i], sizeof *logits) != 0;
    for (int32_t s = 0; s < count; s++)
        engine_session_close(sessions[s]);
    if (different)
        fail_msg("%d of %d logits differ: %d sessions, %d tokens first", different, vocab, count,
                 cuts[0]);
}

static void passes_are_cut_anyhow(void **state)
{
    (void)state;
    static const int32_t cuts[][MOST_CUTS] = {
        {TOKENS}, {TOKENS - 1, 1}, {60, 50}, {1, 3, 1, 105}, {17, 33, 9, 51}};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        check_cuts(1, cuts[i]);
}

static void others_do_not_matter(void **state)
{
    (void)state;
    static const int32_t cuts[][MOST_CUTS] = {{TOKENS}, {64, 45, 1}};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        for (int32_t count = 2; count <= OTHERS + 1; count++)
            check_cuts(count, cuts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes_are_cut_anyhow),
                                       cmocka_unit_test(others_do_not_matter)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}
