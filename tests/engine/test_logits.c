// SPDX-License-Identifier: MIT
// Whole models against transformers: logits of a prompt of 300 tokens however it is cut, and 64 greedy
// tokens. tests/golden/README.md says where the models come from.
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

static const char *const names[] = {
    "llama_f32",        "llama_f16",         "llama_bf16",         "llama_q8_0",
    "llama_q4_0",       "llama_q4_k",        "llama_q6_k",         "llama_mixed",
    "llama3_f32",       "llama3_f16",        "llama3_mixed",       "mistral_f32",
    "mistral_bf16",     "mistral_q8_0",      "qwen2_f32",          "qwen2_f16",
    "qwen2_q4_k",       "qwen3_f32",         "qwen3_bf16",         "qwen3_mixed",
    "linear_f32",       "yarn_f32",          "yarnkeys_f32",       "llama3keys_f32",
    "gemma_f32",        "gemma2_f32",        "gemma3_f32",         "phi3_f32",
    "phi3long_f32",     "phi2_f32",          "cohere_f32",         "cohere2_f32",
    "starcoder2_f32",   "gptneox_f32",       "falcon_f32",         "stablelm_f32",
    "olmo2_f32",        "smollm3_f32",       "granite_f32",        "phi3_mixed",
    "cohere_mixed",     "glm4_mixed",        "glm4_f32",           "mixtral_f32",
    "mixtral_mixed",    "qwen2moe_f32",      "qwen3moe_f32",       "qwen3moe_mixed",
    "olmoe_f32",        "dots1_f32",         "gptoss_f32",         "gptoss_mxfp4",
    "deepseek2old_f32", "deepseek2lite_f32", "deepseek2lite_q8_0", "deepseek2_f32",
    "deepseek3_f32",    "deepseek3_q4_0",    "gpt2_f32",           "falcon40b_f32",
    "neoxrows_f32",     "minicpm_f32",       "minicpmkeys_f32",    "exaone_f32",
    "exaone4_f32",      "exaone4small_f32",  "llama4_f32",         "llama4large_f32",
    "chatglm_f32",
};
enum { NUM_NAMES = sizeof names / sizeof names[0] };

typedef struct subject {
    const char *name;
    golden *file;
    char path[SCRATCH_PATH_BYTES];
    int32_t num_tokens, prompt, greedy, vocab;
    const int32_t *tokens; // the prompt, then what greedy decoding adds
    float bound;           // on |difference| of logits
    float worst;           // largest difference from transformers so far
    float *first, *logits; // [num_tokens][vocab]: of the first run, of this run
} subject;

// How a timeline is cut into forward passes.
static const struct {
    const char *name;
    int32_t chunk, feed; // tokens per pass, tokens per call
} cuts[] = {
    {"one piece", 512, INT32_MAX},   {"chunks of 7", 7, INT32_MAX}, {"token by token", 512, 1},
    {"chunks of 64", 64, INT32_MAX}, {"chunks of 1", 1, INT32_MAX},
};
// Where all is slow: the first ones, and no texts, whose passes are those of the tokens one by one.
#ifdef WEFT_TEST_SLOW
enum { NUM_CUTS = 3, GENERATES = 0 };
#else
enum { NUM_CUTS = sizeof cuts / sizeof cuts[0], GENERATES = 1 };
#endif

static int subject_open(void **state)
{
    subject *s = *state;
    char relative[64];
    snprintf(relative, sizeof relative, "models/%s.safetensors", s->name);
    s->file = golden_open(relative);
    scratch_file(s->path, NULL, 0);
    if (!golden_model_write(s->file, s->path))
        return -1;
    s->num_tokens = (int32_t)golden_find(s->file, "model", "tokens")->elements;
    s->tokens = golden_data(s->file, "model", "tokens", GOLDEN_I32);
    s->prompt = (int32_t)golden_number(s->file, "model", "prompt", 0);
    s->greedy = (int32_t)golden_number(s->file, "model", "greedy", 0);
    s->vocab = (int32_t)golden_number(s->file, "model", "vocab", 0);
    bool half = strstr(s->name, "f16") != NULL;
    s->bound = (half ? 5e-3f : 1e-3f) * (float)golden_number(s->file, "model", "max_abs_logit", 0);
    size_t elements = (size_t)s->num_tokens * (size_t)s->vocab;
    s->first = calloc(elements, sizeof *s->first);
    s->logits = calloc(elements, sizeof *s->logits);
    return s->first && s->logits ? 0 : -1;
}

static int subject_close(void **state)
{
    subject *s = *state;
    scratch_remove(s->path);
    golden_close(s->file);
    free(s->first);
    free(s->logits);
    return 0;
}

static engine_worker *open_with(const subject *s, const engine_options *options)
{
    engine_error err = {{0}};
    engine_worker *worker = open_worker(s->path, options, &err);
    if (!worker) {
        fail_msg("%s: %s", s->name, err.text);
    }
    return worker;
}

// Activations stay f32: what rounding costs is looked at apart. Half-precision weights have a cache like
// them.
static engine_worker *worker_for(const subject *s, int32_t chunk, int32_t sessions)
{
    bool half = strstr(s->name, "f16") != NULL;
    engine_options options = {.threads =
                                  1, // small matrices: splitting them costs more than it gains
                              .chunk_tokens = chunk,
                              .max_sessions = sessions,
                              .kv_dtype = half ? WEFT_F16 : WEFT_F32,
                              .exact = true};
    return open_with(s, &options);
}

static void eval(engine_worker *worker, engine_feed *feeds, int32_t count)
{
    engine_error err = {{0}};
    if (!engine_eval(worker, feeds, count, NULL, NULL, &err)) {
        fail_msg("%s", err.text);
    }
}

static float distance(const float *a, const float *b, int64_t elements)
{
    float largest = 0;
    for (int64_t i = 0; i < elements; i++) {
        float d = fabsf(a[i] - b[i]);
        if (!(d <= largest)) { // a NaN is as far away as can be
            largest = isnan(d) ? INFINITY : d;
        }
    }
    return largest;
}

static void expect_golden(subject *s, const char *how)
{
    float d = golden_model_distance(s->file, s->logits);
    s->worst = d > s->worst ? d : s->worst;
    if (!(d <= s->bound)) {
        fail_msg("%s, %s: logits are off by %g, more than %g", s->name, how, (double)d,
                 (double)s->bound);
    }
    int32_t wrong = golden_model_wrong_choice(s->file, s->logits);
    if (wrong >= 0) {
        fail_msg("%s, %s: greedy token %d differs", s->name, how, wrong);
    }
}

// Fills s->logits, the tokens fed `feed` at a time; closes the worker.
static void run(subject *s, engine_worker *worker, int32_t feed)
{
    engine_session *session = must_open_session(worker);
    for (int32_t done = 0; done < s->num_tokens;) {
        int32_t left = s->num_tokens - done;
        engine_feed next = {.session = session,
                            .ids = s->tokens + done,
                            .count = left < feed ? left : feed,
                            .logits = s->logits + (int64_t)done * s->vocab};
        eval(worker, &next, 1);
        done += next.count;
    }
    engine_session_close(session);
    close_worker(worker);
}

static void agrees_however_cut(void **state)
{
    subject *s = *state;
    int64_t elements = (int64_t)s->num_tokens * s->vocab;
    for (size_t c = 0; c < NUM_CUTS; c++) {
        run(s, worker_for(s, cuts[c].chunk, 1), cuts[c].feed);
        expect_golden(s, cuts[c].name);
        if (c == 0) {
            memcpy(s->first, s->logits, (size_t)elements * sizeof *s->first);
        }
        float d = distance(s->first, s->logits, elements);
        if (!(d <= s->bound)) {
            fail_msg("%s: %s and %s differ by %g", s->name, cuts[0].name, cuts[c].name, (double)d);
        }
    }
}

// Three timelines of the same tokens, fed unevenly: prefill and decode in one pass.
static void agrees_in_a_batch(void **state)
{
    static const int32_t feeds[][3] = {{80, 37, 99}, {1, 5, 1}, {70, 1, 1}, {1, 0, 30}};
    subject *s = *state;
    engine_worker *worker = worker_for(s, 64, 3);
    engine_session *sessions[3];
    for (int i = 0; i < 3; i++) {
        sessions[i] = must_open_session(worker);
    }
    for (size_t round = 0; round < sizeof feeds / sizeof feeds[0]; round++) {
        engine_feed batch[3];
        int32_t count = 0;
        for (int i = 0; i < 3; i++) {
            int32_t done = engine_session_length(sessions[i]);
            if (feeds[round][i] > 0) {
                batch[count++] = (engine_feed){
                    .session = sessions[i], .ids = s->tokens + done, .count = feeds[round][i]};
            }
        }
        eval(worker, batch, count);
        for (int i = 0; i < 3; i++) {
            int32_t last = engine_session_length(sessions[i]) - 1;
            float d = distance(engine_session_logits(sessions[i]),
                               s->first + (int64_t)last * s->vocab, s->vocab);
            if (!(d <= s->bound)) {
                fail_msg("%s: sequence %d of the batch is off by %g after token %d", s->name, i,
                         (double)d, last);
            }
        }
    }
    for (int i = 0; i < 3; i++) {
        engine_session_close(sessions[i]);
    }
    close_worker(worker);
}

static void generates_greedily(void **state)
{
    subject *s = *state;
    engine_worker *worker = worker_for(s, 512, 1);
    engine_session *session = must_open_session(worker);
    engine_generation generation = {.max_tokens = s->greedy, .ignore_end = true};
    engine_result result;
    engine_error err = {{0}};
    if (!engine_generate(session, s->tokens, s->prompt, &generation, &result, &err)) {
        fail_msg("%s: %s", s->name, err.text);
    }
    assert_int_equal(result.finish, ENGINE_FINISH_LENGTH);
    assert_int_equal(result.generated_tokens, s->greedy);
    // The last token need not be evaluated to be known; all others must be in the timeline.
    assert_in_range(engine_session_length(session), s->num_tokens - 1, s->num_tokens);
    assert_memory_equal(engine_session_tokens(session), s->tokens,
                        (size_t)engine_session_length(session) * sizeof *s->tokens);
    engine_session_close(session);
    close_worker(worker);
}

// As programs run by default: activations in 8 bits against quantised weights, in bf16 against many rows of 16
// bits where the CPU multiplies them, half-precision cache. What
// that costs is a matter of quality; the bound only tells it from a mistake.
static void stays_close_by_default(void **state)
{
    subject *s = *state;
    run(s, open_with(s, NULL), INT32_MAX);
    float d = golden_model_distance(s->file, s->logits) /
              (float)golden_number(s->file, "model", "max_abs_logit", 0);
    print_message("%s: by default off by %.2g of the largest logit\n", s->name, (double)d);
    assert_true(d <= 0.05f);
}

static void agrees_with_transformers(void **state)
{
    const subject *s = *state;
    agrees_however_cut(state);
    print_message("%s: largest difference %.2g, allowed %.2g\n", s->name, (double)s->worst,
                  (double)s->bound);
    agrees_in_a_batch(state);
    if (GENERATES)
        generates_greedily(state);
    stays_close_by_default(state);
}

// An argument such as "qwen*" chooses models.
int main(int argc, char **argv)
{
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    static subject subjects[NUM_NAMES];
    struct CMUnitTest tests[NUM_NAMES];
    for (size_t i = 0; i < NUM_NAMES; i++) {
        subjects[i].name = names[i];
        tests[i] = (struct CMUnitTest){.name = names[i],
                                       .test_func = agrees_with_transformers,
                                       .setup_func = subject_open,
                                       .teardown_func = subject_close,
                                       .initial_state = &subjects[i]};
    }
    return cmocka_run_group_tests_name("logits", tests, NULL, NULL);
}
