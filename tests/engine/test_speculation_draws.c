// SPDX-License-Identifier: MIT
// Sampled text with guesses has the distribution of sampled text without: the tokens behind a prompt, drawn
// with other seeds than the plain ones, held against those by chi-square, for trees and chains, prompt lookup
// and a draft of another mind.
#include <math.h>
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
#include "tests/support/scratch.h"

#ifdef WEFT_TEST_SLOW
enum { DRAWS = 20, SLOW = 1 };
#else
enum { DRAWS = 300, SLOW = 0 };
#endif
enum { TOKENS = 5, LEAST = 10, CONTEXT = 128 };

static engine_model *model, *other;
static engine_worker *worker, *drafts;
static engine_session *session;
static tokenizer_ids prompt;
static char path[SCRATCH_PATH_BYTES];

// Counts of each token at each place behind the prompt.
typedef struct sample {
    int32_t *counts; // [TOKENS][vocab]
    int32_t vocab;
    int64_t guessed, accepted;
} sample;

static sample plain;

static engine_worker *open_one(engine_model *of)
{
    const engine_options options = {.threads = 1, .context_tokens = CONTEXT, .chunk_tokens = 64};
    return open_worker_of(of, &options, NULL);
}

static sample draw(uint64_t first_seed, const engine_speculation *speculation)
{
    engine_model_info info;
    engine_error err = {""};
    engine_model_describe(model, &info);
    sample s = {.vocab = info.vocab};
    s.counts = calloc((size_t)TOKENS * (size_t)s.vocab, sizeof *s.counts);
    for (uint64_t n = 0; n < DRAWS; n++) {
        const engine_generation wish = {
            .max_tokens = TOKENS,
            .sampling = {.params = {.temperature = 1, .seed = first_seed + n}},
            .ignore_end = true,
            .speculation = speculation};
        engine_result result;
        if (!engine_generate(session, prompt.ids, (int32_t)prompt.count, &wish, &result, &err))
            fail_msg("%s", err.text);
        const int32_t *ids = engine_session_tokens(session) + prompt.count;
        int32_t there = engine_session_length(session) - (int32_t)prompt.count;
        for (int32_t i = 0; i < there; i++)
            s.counts[(size_t)i * (size_t)s.vocab + (size_t)ids[i]]++;
        s.guessed += result.guessed_tokens;
        s.accepted += result.accepted_tokens;
    }
    return s;
}

static int open_all(void **state)
{
    static const char text[] = "Tom had a red ball and a blue ball. Sue had a red ball and a blue "
                               "cap. Tom had";
    const quantize_options rough = {.mix = "q2_k", .pure = true, .again = true, .threads = 1};
    engine_error err = {""};
    (void)state;
    scratch_file(path, NULL, 0);
    model = demo_model_open(text, &prompt);
    if (!engine_quantize("models/demo.gguf", path, &rough, &err))
        print_error("%s\n", err.text);
    other = engine_model_open(path, &err);
    worker = model ? open_one(model) : NULL;
    drafts = other ? open_one(other) : NULL;
    session = worker ? engine_session_open(worker, &err) : NULL;
    if (!session || !drafts)
        return -1;
    plain = draw(1, NULL);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    free(plain.counts);
    engine_session_close(session);
    engine_worker_close(drafts);
    engine_worker_close(worker);
    engine_model_close(other);
    engine_model_close(model);
    tokenizer_ids_free(&prompt);
    scratch_remove(path);
    return 0;
}

// Of two samples of one size, and how many degrees of freedom it has; tokens that are rare share a cell with those that follow.
static double chi_square(const int32_t *a, const int32_t *b, int32_t vocab, int32_t *freedom)
{
    double sum = 0, rest[2] = {0};
    *freedom = -1;
    for (int32_t id = 0; id < vocab; id++) {
        if (a[id] + b[id] < LEAST) {
            rest[0] += a[id];
            rest[1] += b[id];
            if (rest[0] + rest[1] < LEAST)
                continue;
            sum += pow(rest[0] - rest[1], 2) / (rest[0] + rest[1]);
            ++*freedom;
            rest[0] = rest[1] = 0;
            continue;
        }
        sum += pow(a[id] - b[id], 2) / (a[id] + b[id]);
        ++*freedom;
    }
    if (rest[0] + rest[1] > 0) {
        sum += pow(rest[0] - rest[1], 2) / (rest[0] + rest[1]);
        ++*freedom;
    }
    return sum;
}

// What one sample in five thousand exceeds (Wilson and Hilferty).
static double most_of(int32_t freedom)
{
    double ninth = 2.0 / (9 * freedom);
    return freedom * pow(1 - ninth + 3.54 * sqrt(ninth), 3);
}

static void check(uint64_t first_seed, const engine_speculation *speculation)
{
    sample s = draw(first_seed, speculation);
    print_message("%lld of %lld guesses were right\n", (long long)s.accepted, (long long)s.guessed);
    assert_true(SLOW || (s.accepted > DRAWS / 20 && s.guessed - s.accepted > DRAWS / 10));
    for (int32_t i = 0; i < TOKENS - 1; i++) { // the last token is not evaluated
        size_t row = (size_t)i * (size_t)s.vocab;
        int32_t freedom;
        double square = chi_square(plain.counts + row, s.counts + row, s.vocab, &freedom);
        print_message("token %d: chi-square %.1f, %d degrees of freedom, at most %.1f\n", i + 1,
                      square, freedom, most_of(freedom));
        assert_true(freedom > 0 || SLOW);
        assert_true(SLOW || square < most_of(freedom)); // a few draws tell nothing
    }
    free(s.counts);
}

static void lookup_in_trees(void **state)
{
    (void)state;
    check(100001, &(engine_speculation){.lookup = true, .always = true});
}

static void lookup_in_chains(void **state)
{
    (void)state;
    check(200001, &(engine_speculation){.lookup = true, .always = true, .chains = true});
}

static void a_draft_in_trees(void **state)
{
    (void)state;
    check(300001, &(engine_speculation){.draft = drafts, .most = 6, .always = true});
}

static void a_draft_in_chains(void **state)
{
    (void)state;
    check(400001,
          &(engine_speculation){.draft = drafts, .most = 3, .always = true, .chains = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookup_in_trees),
        cmocka_unit_test(lookup_in_chains),
        cmocka_unit_test(a_draft_in_trees),
        cmocka_unit_test(a_draft_in_chains),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
