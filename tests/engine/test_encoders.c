// SPDX-License-Identifier: MIT
// Encoders against transformers: three texts as one ragged batch and apart, states of their tokens and what
// is made of these. tests/golden/models/encoders.py says where the models come from.
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

// Where programs run slowly, two stand for all: positions and a score, and rope with windows.
#ifdef WEFT_TEST_SLOW
static const char *const names[] = {"xlmr", "modernbert"};
#else
static const char *const names[] = {"bert", "xlmr",     "nomic",    "modernbert", "modernrank",
                                    "jina", "jinacode", "eurobert", "nomicmoe"};
#endif
enum { NAME_COUNT = sizeof names / sizeof names[0], TEXTS = 3 };

typedef struct subject {
    const char *name;
    golden *file;
    char path[SCRATCH_PATH_BYTES];
    engine_model *model;
    engine_text texts[TEXTS];
    int32_t tokens, dim;
    float bound;        // on |difference| of states
    float bound_of_one; // the same of one stored position, if that is more
    int64_t one;
    float rms;     // on the root of its mean square; 0: none
    float *states; // [tokens][dim]
    golden *ties;  // has the states that a token may have as well; NULL: none may
} subject;

static int subject_open(void **state)
{
    subject *s = *state;
    char relative[64];
    engine_model_info info;
    engine_error err = {{0}};
    snprintf(relative, sizeof relative, "models/encoders/%s.safetensors", s->name);
    s->file = golden_open(relative);
    scratch_file(s->path, NULL, 0);
    if (!golden_model_write(s->file, s->path))
        return -1;
    s->model = engine_model_open(s->path, &err);
    if (!s->model)
        fail_msg("%s: %s", s->name, err.text);
    engine_model_describe(s->model, &info);
    s->dim = info.embedding_dim;
    s->tokens = (int32_t)golden_find(s->file, "model", "tokens")->elements;
    s->bound = 2e-5f * (float)golden_number(s->file, "model", "largest", 0);
    s->states = calloc((size_t)s->tokens * (size_t)s->dim, sizeof *s->states);
    const int32_t *ids = golden_data(s->file, "model", "tokens", GOLDEN_I32), *lengths, *seconds;
    lengths = golden_data(s->file, "model", "lengths", GOLDEN_I32);
    seconds = golden_data(s->file, "model", "seconds", GOLDEN_I32);
    for (int32_t n = 0, at = 0; n < TEXTS; at += lengths[n++])
        s->texts[n] = (engine_text){.ids = ids + at,
                                    .count = lengths[n],
                                    .second = seconds[n],
                                    .states = s->states + (size_t)at * (size_t)s->dim};
    return 0;
}

static int subject_close(void **state)
{
    subject *s = *state;
    engine_model_close(s->model);
    scratch_remove(s->path);
    golden_close(s->file);
    free(s->states);
    return 0;
}

static engine_worker *open_with(const subject *s, const engine_options *options)
{
    engine_error err = {{0}};
    engine_worker *worker = open_worker_of(s->model, options, &err);
    if (!worker)
        fail_msg("%s: %s", s->name, err.text);
    return worker;
}

static engine_worker *open_exact(const subject *s, int32_t sessions, int32_t chunk)
{
    return open_with(s, &(engine_options){.threads = 1,
                                          .max_sessions = sessions,
                                          .chunk_tokens = chunk,
                                          .kv_dtype = WEFT_F32,
                                          .exact = true});
}

static void embed(const subject *s, engine_worker *worker, const engine_embedding *options,
                  float *vectors)
{
    engine_error err = {{0}};
    if (!engine_embed(worker, s->texts, TEXTS, options, vectors, &err))
        fail_msg("%s: %s", s->name, err.text);
}

typedef struct difference {
    double largest, squares;
} difference;

static difference difference_of(const float *a, const float *b, int32_t count)
{
    difference d = {0};
    for (int32_t i = 0; i < count; i++) {
        const double one = fabs((double)a[i] - (double)b[i]);
        d.largest = one <= d.largest ? d.largest : isnan(one) ? INFINITY : one;
        d.squares += one * one;
    }
    return d;
}

// To the nearest of the states that the token at stored position p may have.
static difference difference_at(const subject *s, int64_t p, const float *state, const float *want)
{
    difference nearest = difference_of(state, want + p * s->dim, s->dim);
    const golden_tensor *ties = s->ties ? golden_find(s->ties, s->name, "ties") : NULL;
    for (int64_t n = 0; ties && n < ties->elements; n++) {
        const int32_t *at = golden_data(s->ties, s->name, "ties", GOLDEN_I32);
        const float *tied = golden_data(s->ties, s->name, "tied", GOLDEN_F32);
        difference other = difference_of(state, tied + n * s->dim, s->dim);
        if (at[n] == p && other.largest < nearest.largest)
            nearest = other;
    }
    return nearest;
}

static void expect_states(const subject *s, const char *how)
{
    const int32_t *positions = golden_data(s->file, "model", "positions", GOLDEN_I32);
    const float *want = golden_data(s->file, "model", "states", GOLDEN_F32);
    int64_t count = golden_find(s->file, "model", "positions")->elements;
    difference all = {0};
    double share = 0; // of what is allowed
    for (int64_t p = 0; p < count; p++) {
        difference d = difference_at(s, p, s->states + (int64_t)positions[p] * s->dim, want);
        const float bound = p == s->one && s->bound_of_one > s->bound ? s->bound_of_one : s->bound;
        all.largest = d.largest > all.largest ? d.largest : all.largest;
        all.squares += d.squares;
        share = d.largest / (double)bound > share ? d.largest / (double)bound : share;
    }
    const double rms = sqrt(all.squares / (double)(count * s->dim));
    print_message("%s, %s: largest difference %.2g, %.2f of what is allowed; rms %.2g, allowed "
                  "%.2g\n",
                  s->name, how, all.largest, share, rms, (double)s->rms);
    if (!(share <= 1))
        fail_msg("%s, %s: states are off by %g, %g times what is allowed", s->name, how,
                 all.largest, share);
    if (s->rms > 0 && !(rms <= (double)s->rms))
        fail_msg("%s, %s: states are off by %g in the mean", s->name, how, rms);
}

static bool is_reranker(const subject *s)
{
    return golden_find(s->file, "model", "scores") != NULL;
}

// The vector that a way of pooling must give, from the states.
static void expect_pooled(const subject *s, engine_worker *worker, engine_pooling pooling)
{
    float *vectors = calloc(TEXTS * (size_t)s->dim, sizeof *vectors);
    embed(s, worker, &(engine_embedding){.pooling = pooling}, vectors);
    for (int n = 0; n < TEXTS; n++) {
        const engine_text *text = &s->texts[n];
        double want[1024] = {0}, square = 0;
        for (int32_t t = 0; t < text->count; t++)
            for (int32_t i = 0; i < s->dim; i++)
                if (pooling == ENGINE_POOLING_MEAN ||
                    t == (pooling == ENGINE_POOLING_LAST ? text->count - 1 : 0))
                    want[i] += (double)text->states[(int64_t)t * s->dim + i];
        for (int32_t i = 0; i < s->dim; i++)
            square += want[i] * want[i];
        for (int32_t i = 0; i < s->dim; i++)
            if (fabs(want[i] / sqrt(square) - (double)vectors[n * s->dim + i]) > 1e-6)
                fail_msg("%s: pooling %d of text %d differs", s->name, (int)pooling, n);
    }
    // Means that keep their length are those of the states.
    embed(s, worker, &(engine_embedding){.pooling = ENGINE_POOLING_MEAN, .keep_length = true},
          vectors);
    double mean = 0;
    for (int32_t t = 0; t < s->texts[0].count; t++)
        mean += (double)s->texts[0].states[(int64_t)t * s->dim];
    assert_true(fabs(mean / s->texts[0].count - (double)vectors[0]) < 1e-6);
    free(vectors);
}

static void expect_scores(const subject *s, engine_worker *worker)
{
    const float *want = golden_data(s->file, "model", "scores", GOLDEN_F32);
    float scores[TEXTS];
    assert_int_equal(engine_embedding_dim(s->model, ENGINE_POOLING_DEFAULT), 1);
    embed(s, worker, NULL, scores);
    for (int n = 0; n < TEXTS; n++)
        if (!(fabsf(scores[n] - want[n]) <= 2e-5f))
            fail_msg("%s: score %d is %g, not %g", s->name, n, (double)scores[n], (double)want[n]);
}

static void agrees_with_transformers(void **state)
{
    const subject *s = *state;
    float *vectors = calloc(TEXTS * (size_t)s->dim, sizeof *vectors);
    // All texts in one pass; one text a pass; a pass that holds the longest one alone.
    static const int32_t shapes[][2] = {{TEXTS, 256}, {1, 256}, {TEXTS, 200}};
    for (int i = 0; i < 3; i++) {
        engine_worker *worker = open_exact(s, shapes[i][0], shapes[i][1]);
        memset(s->states, 0, (size_t)s->tokens * (size_t)s->dim * sizeof *s->states);
        embed(s, worker, &(engine_embedding){.pooling = ENGINE_POOLING_MEAN}, vectors);
        expect_states(s, i == 0 ? "one batch" : i == 1 ? "one by one" : "two batches");
        engine_worker_close(worker);
    }
    engine_worker *worker = open_exact(s, TEXTS, 256);
    for (int pooling = ENGINE_POOLING_MEAN; pooling <= ENGINE_POOLING_LAST; pooling++)
        expect_pooled(s, worker, (engine_pooling)pooling);
    if (is_reranker(s))
        expect_scores(s, worker);
    engine_worker_close(worker);
    free(vectors);
}

// A vector is the mean of its text's states, so it may be off by what a plain evaluation's states are in the mean. That matters where
// experts tie alone: what is behind another choice of many tokens does not cancel as rounding does.
static double least_cosine(const subject *s, const engine_text *text, const golden *ties,
                           double rms)
{
    const double least = 0.9999;
    double square = 0;
    if (!golden_find(ties, s->name, "ties"))
        return least;
    for (int32_t i = 0; i < s->dim; i++) {
        double sum = 0;
        for (int32_t t = 0; t < text->count; t++)
            sum += (double)text->states[(int64_t)t * s->dim + i];
        square += sum / text->count * sum / text->count;
    }
    return fmin(least, 1 - rms * rms * s->dim / square / 2);
}

// Vectors have length 1.
static void expect_cosines(const subject *s, const float *exact, const float *vectors,
                           const golden *ties, double rms)
{
    for (int n = 0; n < TEXTS; n++) {
        double cosine = 0;
        for (int32_t i = 0; i < s->dim; i++)
            cosine += (double)exact[n * s->dim + i] * (double)vectors[n * s->dim + i];
        if (!(cosine >= least_cosine(s, &s->texts[n], ties, rms)))
            fail_msg("%s: the vector of text %d has a cosine of %.6f to the exact one", s->name, n,
                     cosine);
    }
}

// As programs run by default: norms and matrices in one run, and products and a cache of bf16 where the CPU has
// them. Where products are f32's (WEFT_CPU without bf16, a GPU) the cache is f16. States may be off by twice
// what a plain evaluation is that rounds what these round, at the most and in the mean; the token that it moves
// most has a bound of its own, and one whose experts rounding may change has either's states
// (tests/golden/models/encoders_rounded.py).
static void stays_close_by_default(void **state)
{
    const subject *s = *state;
    const char *level = getenv("WEFT_CPU"), *device = getenv("WEFT_TEST_DEVICE");
    const bool wide = level || (device && strcmp(device, "cuda") == 0);
    const engine_embedding mean = {.pooling = ENGINE_POOLING_MEAN};
    const size_t floats = TEXTS * (size_t)s->dim;
    float *exact = calloc(2 * floats, sizeof *exact), *vectors = exact + floats;
    golden *rounded = golden_open("models/encoders/rounded.safetensors");
    const double most = golden_number(rounded, s->name, wide ? "f16" : "bf16", 0);
    const double others = golden_number(rounded, s->name, wide ? "f16_others" : "bf16_others", 0);
    const double rms = golden_number(rounded, s->name, wide ? "f16_rms" : "bf16_rms", 0);
    assert_true(most >= others && others > rms && rms > 0);
    engine_worker *worker = open_exact(s, TEXTS, 256);
    embed(s, worker, &mean, exact);
    engine_worker_close(worker);
    for (int i = 0; i < 2; i++) {
        engine_options options = {.threads = 2,
                                  .max_sessions = TEXTS,
                                  .separate = i,
                                  .kv_dtype = wide ? WEFT_F16 : WEFT_DTYPE_NONE};
        worker = open_with(s, &options);
        embed(s, worker, &mean, vectors);
        engine_worker_close(worker);
        expect_cosines(s, exact, vectors, rounded, rms);
        expect_states(&(subject){.name = s->name,
                                 .file = s->file,
                                 .dim = s->dim,
                                 .states = s->states,
                                 .ties = rounded,
                                 .bound = 2 * (float)others,
                                 .bound_of_one = 2 * (float)most,
                                 .one = (int64_t)golden_number(rounded, s->name,
                                                               wide ? "f16_at" : "bf16_at", -1),
                                 .rms = 2 * (float)rms},
                      i ? "separate" : "by default");
    }
    golden_close(rounded);
    free(exact);
}

static void refuses(void **state)
{
    const subject *s = *state;
    engine_error err = {{0}};
    engine_worker *worker = open_exact(s, 1, 64);
    float vectors[1024], logits[1];
    engine_session *session = engine_session_open(worker, &err);
    engine_feed feed = {.session = session, .ids = s->texts[0].ids, .count = 1, .logits = logits};
    assert_false(engine_eval(worker, &feed, 1, NULL, NULL, &err));
    assert_non_null(strstr(err.text, "encoder"));
    assert_false(engine_embed(worker, &s->texts[2], 1, NULL, vectors, &err));
    assert_non_null(strstr(err.text, "sessions are open"));
    engine_session_close(session);
    assert_false(engine_embed(worker, s->texts, 1, NULL, vectors, &err));
    assert_non_null(strstr(err.text, "200 tokens, the model reads 64"));
    engine_text text = s->texts[2];
    text.count = 0;
    assert_false(engine_embed(worker, &text, 1, NULL, vectors, &err));
    assert_non_null(strstr(err.text, "empty"));
    int32_t wild = 1 << 30;
    text = (engine_text){.ids = &wild, .count = 1};
    assert_false(engine_embed(worker, &text, 1, NULL, vectors, &err));
    assert_non_null(strstr(err.text, "outside the vocabulary"));
    bool ranks = is_reranker(s);
    assert_int_equal(engine_embed(worker, &s->texts[2], 1,
                                  &(engine_embedding){.pooling = ENGINE_POOLING_RANK}, vectors,
                                  &err),
                     ranks);
    engine_worker_close(worker);
    if (strcmp(s->name, "bert") == 0) {
        assert_null(engine_worker_open(s->model, &(engine_options){.context_tokens = 257}, &err));
        assert_non_null(strstr(err.text, "positions for 256 tokens"));
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    static subject subjects[NAME_COUNT];
    struct CMUnitTest tests[3 * NAME_COUNT];
    static const CMUnitTestFunction functions[] = {agrees_with_transformers, stays_close_by_default,
                                                   refuses};
    static const char *const titles[] = {"", "_by_default", "_refuses"};
    static char text[3 * NAME_COUNT][64];
    for (size_t i = 0; i < 3 * NAME_COUNT; i++) {
        subject *s = &subjects[i / 3];
        s->name = names[i / 3];
        snprintf(text[i], sizeof text[i], "%s%s", s->name, titles[i % 3]);
        tests[i] = (struct CMUnitTest){.name = text[i],
                                       .test_func = functions[i % 3],
                                       .setup_func = subject_open,
                                       .teardown_func = subject_close,
                                       .initial_state = s};
    }
    return cmocka_run_group_tests_name("encoders", tests, NULL, NULL);
}
