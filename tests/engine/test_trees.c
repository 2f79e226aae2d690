// SPDX-License-Identifier: MIT
// Guesses that are a tree: a pass that verifies several ways on says of each what the text alone would have
// said, and what a way that was taken leaves in the cache is what the text alone would have left there,
// whatever the cache and the model.
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
#include "tests/support/golden_model.h"
#include "tests/support/open_worker.h"

#ifdef WEFT_TEST_SLOW
enum { SEEDS = 1, DRAWS = 30, MOST = 10, SLOW = 1 };
#else
enum { SEEDS = 4, DRAWS = 1200, MOST = 48, SLOW = 0 };
#endif
enum { BEFORE = 61, BEHIND = 8, CONTEXT = 160 };

// --- models and caches ----------------------------------------------------------------------------------

typedef struct tree_case {
    const char *model; // below tests/golden/models/
    weft_dtype keys, values;
    double most; // of the difference of logits, over their length
} tree_case;

static engine_worker *worker_of(engine_model *model, weft_dtype keys, weft_dtype values)
{
    engine_error err = {""};
    engine_options options = {.threads = 1,
                              .context_tokens = CONTEXT,
                              .chunk_tokens = 96,
                              .max_sessions = 3,
                              .kv_dtype = keys,
                              .v_dtype = values,
                              .exact = true};
    engine_worker *worker = open_worker_of(model, &options, &err);
    if (!worker)
        fail_msg("%s", err.text);
    return worker;
}

static void check_near(const float *a, const float *b, int32_t vocab, double most,
                       const char *where)
{
    double squares = 0, length = 0;
    assert_non_null(a);
    for (int32_t i = 0; i < vocab; i++) {
        squares += pow((double)a[i] - b[i], 2);
        length += pow(b[i], 2);
    }
    if (!(sqrt(squares / length) <= most))
        fail_msg("%s: logits are %g of their length away", where, sqrt(squares / length));
}

// The text is in the second branch: behind BEFORE tokens and one more, three tokens that are wrong, then three that are
// right, each with a wrong one beside it. Their slots lie on both sides of the end of a page.
static void take_branch(engine_worker *worker, engine_session *session, const int32_t *text,
                        const float *plain, int32_t vocab, double most)
{
    static const int32_t parents[] = {-1, 0, 1, -1, 0, 3, 3, 6, 6, -1};
    const int32_t *right = text + BEFORE + 1;
    int32_t wrong = (right[0] + 1) % vocab;
    engine_error err = {""};
    int32_t ids[] = {text[BEFORE],
                     wrong,
                     right[1],
                     right[2],
                     right[0],
                     right[1],
                     (right[1] + 1) % vocab,
                     right[1],
                     (right[2] + 1) % vocab,
                     right[2],
                     (right[0] + 2) % vocab};
    engine_session *other = engine_session_open(worker, &err);
    assert_true(engine_session_sync(other, text, 9, NULL, NULL, &err));
    engine_feed feeds[] = {
        {.session = other, .ids = text + 9, .count = 1},
        {.session = session, .ids = ids, .count = 11, .guesses = 10, .parents = parents}};
    if (!engine_session_sync(session, text, BEFORE, NULL, NULL, &err) ||
        !engine_pass(worker, feeds, 2, NULL, &err))
        fail_msg("%s", err.text);
    check_near(engine_session_logits(other), plain + 9 * vocab, vocab, most, "beside a tree");
    for (int32_t i = 0; i < 3; i++) {
        check_near(engine_session_logits(session), plain + (BEFORE + i) * vocab, vocab, most,
                   "in a tree");
        assert_false(engine_session_accept(session, (right[i] + 7) % vocab));
        assert_true(engine_session_accept(session, right[i]));
        assert_int_equal(engine_session_length(session), BEFORE + 2 + i);
        assert_int_equal(engine_session_tokens(session)[BEFORE + 1 + i], right[i]);
    }
    check_near(engine_session_logits(session), plain + (BEFORE + 3) * vocab, vocab, most, "a leaf");
    assert_false(engine_session_accept(session, right[3]));
    engine_session_reject(session);
    engine_session_close(other);
}

static void check_case(engine_model *model, const tree_case *c)
{
    engine_error err = {""};
    engine_model_info info;
    engine_model_describe(model, &info);
    size_t vocab = (size_t)info.vocab, tokens = BEFORE + 4 + BEHIND;
    engine_worker *worker = worker_of(model, c->keys, c->values);
    engine_session *session = engine_session_open(worker, &err);
    int32_t text[BEFORE + 4 + BEHIND];
    float *plain = malloc(tokens * vocab * sizeof *plain);
    for (size_t i = 0; i < tokens; i++)
        text[i] = (int32_t)((i * i * 7 + i * 13 + 3) % vocab);
    assert_true(engine_worker_takes_trees(worker));
    engine_feed all = {.session = session, .ids = text, .count = (int32_t)tokens, .logits = plain};
    assert_true(engine_eval(worker, &all, 1, NULL, NULL, &err));
    engine_session_truncate(session, 0);
    take_branch(worker, session, text, plain, info.vocab, c->most);
    // Whoever reads the branch afterwards.
    assert_true(engine_session_sync(session, text, (int32_t)tokens, NULL, NULL, &err));
    check_near(engine_session_logits(session), plain + (tokens - 1) * vocab, info.vocab, c->most,
               "behind a tree");
    free(plain);
    engine_session_close(session);
    engine_worker_info left;
    engine_worker_describe(worker, &left);
    assert_int_equal(left.free_pages, left.pool_pages);
    engine_worker_close(worker);
}

// Where all is slow, the last cases stand for the others.
static void caches_hold_what_was_taken(void **state)
{
    (void)state;
    static const tree_case cases[] = {
        {NULL, WEFT_F32, WEFT_F32, 1e-4},     {NULL, WEFT_F16, WEFT_F16, 2e-3},
        {NULL, WEFT_BF16, WEFT_F16, 1e-2},    {NULL, WEFT_FP8_E4M3, WEFT_F32, 5e-2},
        {NULL, WEFT_Q5_1, WEFT_IQ4_NL, 5e-2}, {NULL, WEFT_INT8, WEFT_INT8, 2e-2},
        {NULL, WEFT_Q8_0, WEFT_Q4_0, 5e-2}};
    engine_model *model = demo_model_open(NULL, NULL);
    assert_non_null(model);
    for (size_t i = SLOW ? 6 : 0; i < sizeof cases / sizeof *cases; i++)
        check_case(model, &cases[i]);
    engine_model_close(model);
}

// Windows, soft-caps, sinks, values within keys, tables of positions, heads and norms of every kind.
static void families_take_trees(void **state)
{
    (void)state;
    static const tree_case cases[] = {{"llama_f32", WEFT_F32, WEFT_F32, 1e-4},
                                      {"gemma2_f32", WEFT_F32, WEFT_F32, 1e-4},
                                      {"mistral_f32", WEFT_F32, WEFT_F32, 1e-4},
                                      {"phi2_f32", WEFT_F32, WEFT_F32, 1e-4},
                                      {"cohere2_f32", WEFT_F32, WEFT_F32, 1e-4},
                                      {"deepseek2lite_f32", WEFT_F32, WEFT_F32, 1e-4},
                                      {"gpt2_f32", WEFT_F32, WEFT_F32, 1e-4},
                                      {"gptoss_f32", WEFT_F32, WEFT_F32, 1e-4},
                                      {"gemma3_f32", WEFT_F32, WEFT_F32, 1e-4},
                                      {"deepseek2lite_f32", WEFT_INT8, WEFT_INT8, 5e-2}};
    for (size_t i = SLOW ? 7 : 0; i < sizeof cases / sizeof *cases; i++) {
        golden_written written;
        engine_error err = {""};
        char name[64];
        snprintf(name, sizeof name, "models/%s.safetensors", cases[i].model);
        assert_true(golden_model_open(&written, name));
        engine_model *model = engine_model_open(written.path, &err);
        if (!model)
            fail_msg("%s", err.text);
        check_case(model, &cases[i]);
        engine_model_close(model);
        golden_model_close(&written);
    }
}

// --- the same distribution ------------------------------------------------------------------------------

static double weights_of(const float *logits, int32_t vocab, double *p)
{
    double sum = 0;
    for (int32_t i = 0; i < vocab; i++)
        sum += p[i] = exp(logits[i]);
    for (int32_t i = 0; i < vocab; i++)
        p[i] /= sum;
    return sum;
}

static int32_t likeliest(double *p, int32_t vocab, double *was)
{
    int32_t best = 0;
    for (int32_t i = 1; i < vocab; i++)
        best = p[i] > p[best] ? i : best;
    *was = p[best];
    p[best] = 0; // not again
    return best;
}

enum { WAYS = 3, CELLS = WAYS * (WAYS + 1) + 1 };

// Three likely tokens, and behind each the three that are likely there: cells are the pairs, a guessed first
// with any other second, and any other first.
typedef struct pairs {
    int32_t tokens[WAYS + WAYS * WAYS], parents[WAYS + WAYS * WAYS];
    double p[CELLS];
} pairs;

static void find_pairs(engine_session *session, const int32_t *text, int32_t count, int32_t vocab,
                       pairs *all)
{
    engine_error err = {""};
    double *p = malloc((size_t)vocab * sizeof *p), first[WAYS], second;
    int32_t ids[CONTEXT];
    memcpy(ids, text, (size_t)count * sizeof *ids);
    assert_true(engine_session_sync(session, text, count, NULL, NULL, &err));
    weights_of(engine_session_logits(session), vocab, p);
    all->p[CELLS - 1] = 1;
    for (int32_t a = 0; a < WAYS; a++) {
        all->tokens[a] = likeliest(p, vocab, &first[a]);
        all->parents[a] = -1;
        all->p[CELLS - 1] -= first[a];
    }
    for (int32_t a = 0; a < WAYS; a++) {
        ids[count] = all->tokens[a];
        assert_true(engine_session_sync(session, ids, count + 1, NULL, NULL, &err));
        weights_of(engine_session_logits(session), vocab, p);
        double rest = 1;
        for (int32_t b = 0; b < WAYS; b++) {
            int32_t n = WAYS + a * WAYS + b;
            all->tokens[n] = likeliest(p, vocab, &second);
            all->parents[n] = a;
            all->p[a * (WAYS + 1) + b] = first[a] * second;
            rest -= second;
        }
        all->p[a * (WAYS + 1) + WAYS] = first[a] * rest;
    }
    free(p);
}

static int32_t draw_at(engine_session *session, uint64_t seed, uint64_t step)
{
    engine_error err = {""};
    engine_sampling sampling = {.params = {.temperature = 1, .seed = seed, .step = step}};
    int32_t token;
    if (!engine_sample(session, &sampling, &token, &err))
        fail_msg("%s", err.text);
    return token;
}

// The cell of a pair that is drawn through the tree: the second token of a first that was guessed.
static int32_t draw_pair(engine_worker *worker, engine_session *session, int32_t last,
                         const pairs *all, uint64_t seed)
{
    engine_error err = {""};
    int32_t ids[1 + WAYS + WAYS * WAYS] = {last}, at = engine_session_length(session);
    memcpy(ids + 1, all->tokens, sizeof all->tokens);
    engine_feed feed = {.session = session,
                        .ids = ids,
                        .count = 1 + WAYS + WAYS * WAYS,
                        .guesses = WAYS + WAYS * WAYS,
                        .parents = all->parents};
    assert_true(engine_pass(worker, &feed, 1, NULL, &err));
    int32_t first = draw_at(session, seed, 1), a = 0, b = 0, cell = CELLS - 1;
    while (a < WAYS && all->tokens[a] != first)
        a++;
    assert_int_equal(engine_session_accept(session, first), a < WAYS);
    if (a < WAYS) {
        int32_t second = draw_at(session, seed, 2);
        while (b < WAYS && all->tokens[WAYS + a * WAYS + b] != second)
            b++;
        assert_int_equal(engine_session_accept(session, second), b < WAYS);
        cell = a * (WAYS + 1) + b;
    }
    engine_session_truncate(session, at);
    return cell;
}

static void draws_follow_the_models_probabilities(void **state)
{
    (void)state;
    golden_written written;
    engine_error err = {""};
    engine_model_info info;
    int32_t text[12], seen[CELLS] = {0};
    double square = 0;
    pairs all;
    assert_true(golden_model_open(&written, "models/llama_f32.safetensors"));
    engine_model *model = engine_model_open(written.path, &err);
    assert_non_null(model);
    engine_model_describe(model, &info);
    engine_worker *worker = worker_of(model, WEFT_F32, WEFT_F32);
    engine_session *session = engine_session_open(worker, &err);
    for (int32_t i = 0; i < 12; i++)
        text[i] = (i * 31 + 5) % info.vocab;
    find_pairs(session, text, 12, info.vocab, &all);
    engine_session_truncate(session, 11);
    for (int32_t n = 0; n < DRAWS; n++)
        seen[draw_pair(worker, session, text[11], &all, (uint64_t)n)]++;
    for (int c = 0; c < CELLS; c++)
        square += pow(seen[c] - all.p[c] * DRAWS, 2) / (all.p[c] * DRAWS);
    // Twelve degrees of freedom: one in a thousand. A few draws tell nothing.
    assert_true(all.p[CELLS - 1] < 0.9 && (SLOW || square < 32.9));
    engine_session_close(session);
    engine_worker_close(worker);
    engine_model_close(model);
    golden_model_close(&written);
}

// --- texts ----------------------------------------------------------------------------------------------

static engine_result write_text(engine_session *session, const tokenizer_ids *prompt, int32_t seed,
                                const engine_speculation *speculation, tokenizer_text *text)
{
    engine_generation wish = {
        .max_tokens = MOST,
        .sampling = {.params = {.temperature = seed == 0  ? 0
                                               : seed % 3 ? 0.7f
                                                          : 1.2f,
                                .top_p = 0.95f,
                                .repetition_penalty = seed % 4 == 1 ? 1.1f : 0,
                                .seed = (uint64_t)seed}},
        .ignore_end = true,
        .speculation = speculation,
        .write = keep_text,
        .user = text};
    engine_result result;
    engine_error err = {""};
    engine_session_truncate(session, 0);
    if (!engine_generate(session, prompt->ids, (int32_t)prompt->count, &wish, &result, &err))
        fail_msg("%s", err.text);
    return result;
}

static void trees_change_no_text(void **state)
{
    static const char text[] = "Tom had a red ball and a blue ball. Tom had a red cap and a blue "
                               "ball. Tom had a green ball and a red ball. Tom had a";
    tokenizer_ids prompt = {0};
    engine_error err = {""};
    int32_t accepted[4] = {0}, guessed[4] = {0};
    (void)state;
    engine_model *model = demo_model_open(text, &prompt);
    engine_worker *worker = worker_of(model, WEFT_F32, WEFT_F32);
    engine_worker *drafts = worker_of(model, WEFT_Q4_0, WEFT_Q4_0); // of nearly one mind
    engine_session *session = engine_session_open(worker, &err);
    const engine_speculation wishes[] = {{.lookup = true, .always = true},
                                         {.lookup = true, .always = true, .chains = true},
                                         {.draft = drafts, .most = 6, .always = true},
                                         {.lookup = true, .draft = drafts}};
    for (int32_t seed = 0; seed < SEEDS; seed++) {
        tokenizer_text plain = {0};
        write_text(session, &prompt, seed, NULL, &plain);
        for (int n = 0; n < 4; n++) {
            tokenizer_text other = {0};
            engine_result result = write_text(session, &prompt, seed, &wishes[n], &other);
            accepted[n] += result.accepted_tokens;
            guessed[n] += result.guessed_tokens;
            assert_int_equal(plain.size_bytes, other.size_bytes);
            assert_memory_equal(plain.data, other.data, plain.size_bytes);
            tokenizer_text_free(&other);
        }
        tokenizer_text_free(&plain);
    }
    for (int n = 0; n < 4; n++) { // a short text may have nothing to look up
        assert_true(accepted[n] <= guessed[n] && (guessed[n] > 0 || (SLOW && n != 2)));
        assert_true(accepted[n] > 0 || SLOW);
    }
    engine_session_close(session);
    engine_worker_close(drafts);
    engine_worker_close(worker);
    engine_model_close(model);
    tokenizer_ids_free(&prompt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caches_hold_what_was_taken),
        cmocka_unit_test(families_take_trees),
        cmocka_unit_test(draws_follow_the_models_probabilities),
        cmocka_unit_test(trees_change_no_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
