// SPDX-License-Identifier: MIT
// What a loop of many tokens costs and gives: no memory is taken between the first and the last token, and
// one call gives what as many calls give.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tests/support/open_worker.h"

#ifdef WEFT_TEST_SLOW
enum { TOKENS = 24, MOST = 130 };
#else
enum { TOKENS = 48, MOST = 400 };
#endif
enum { CONTEXT = 512 };

#ifdef __has_feature
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

// Every allocation of the program, on all threads, comes by here. Sanitizers have functions of their own.
static atomic_long allocations;

#if defined(__GLIBC__) && !SANITIZED
#define COUNTS_ALLOCATIONS 1
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes)
{
    allocations++;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    allocations++;
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    allocations++;
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    allocations++;
    return __libc_memalign(alignment, bytes);
}
#else
#define COUNTS_ALLOCATIONS 0
#endif

static engine_worker *worker;
static tokenizer_ids prompt;

static int open_all(void **state)
{
    (void)state;
    static const char text[] = "Once upon a time there was";
    engine_error err = {""};
    const engine_options options = {.threads = 2, .context_tokens = CONTEXT, .max_sessions = 2};
    worker = open_worker(WEFT_TEST_GOLDEN "/../../models/demo.gguf", &options, &err);
    bool fine = worker && tokenizer_encode(engine_model_tokenizer(engine_worker_model(worker)),
                                           text, strlen(text), 0, &prompt, &err);
    if (!fine)
        print_error("%s\n", err.text);
    return fine ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    tokenizer_ids_free(&prompt);
    close_worker(worker);
    return 0;
}

typedef struct counter {
    long first, last; // allocations at the first and at the last token
    int32_t calls;
} counter;

static bool count(void *user, const char *text, size_t bytes)
{
    counter *c = user;
    (void)text, (void)bytes;
    c->last = atomic_load(&allocations);
    if (c->calls++ == 0)
        c->first = c->last;
    return true;
}

static void takes_no_memory_between_tokens(void **state)
{
    (void)state;
    if (!COUNTS_ALLOCATIONS)
        skip();
    engine_error err = {""};
    const float temperatures[] = {0, 0.8f};
    const char *const stops[] = {"a text that does not appear", NULL};
    for (size_t i = 0; i < 2; i++) {
        engine_session *session = must_open_session(worker);
        counter c = {0};
        engine_result result;
        engine_generation wish = {
            .max_tokens = TOKENS, .ignore_end = true, .stops = stops, .write = count, .user = &c};
        wish.sampling.params.temperature = temperatures[i];
        wish.sampling.params.repetition_penalty = 1.1f;
        if (!engine_generate(session, prompt.ids, (int32_t)prompt.count, &wish, &result, &err))
            fail_msg("%s", err.text);
        assert_true(c.calls >= TOKENS);
        assert_true(c.first > 0); // it does count
        assert_int_equal(c.last - c.first, 0);
        engine_session_close(session);
    }
}

static void one_call_gives_what_many_give(void **state)
{
    (void)state;
    engine_error err = {""};
    const float temperatures[] = {0, 1.2f};
    for (size_t i = 0; i < 2; i++) {
        engine_session *at_once = must_open_session(worker), *singly = must_open_session(worker);
        engine_result result;
        engine_sampling sampling = {.params.temperature = temperatures[i], .params.seed = 5};
        engine_generation wish = {.max_tokens = TOKENS, .ignore_end = true, .sampling = sampling};
        if (!engine_generate(at_once, prompt.ids, (int32_t)prompt.count, &wish, &result, &err) ||
            !engine_session_sync(singly, prompt.ids, (int32_t)prompt.count, NULL, NULL, &err))
            fail_msg("%s", err.text);
        assert_int_equal(result.generated_tokens, TOKENS);
        while (engine_session_length(singly) < engine_session_length(at_once)) {
            int32_t token;
            sampling.params.step = (uint64_t)engine_session_length(singly);
            engine_feed feed = {.session = singly, .ids = &token, .count = 1};
            if (!engine_sample(singly, &sampling, &token, &err) ||
                !engine_eval(worker, &feed, 1, NULL, NULL, &err))
                fail_msg("%s", err.text);
        }
        assert_memory_equal(engine_session_tokens(singly), engine_session_tokens(at_once),
                            (size_t)engine_session_length(singly) * sizeof(int32_t));
        engine_session_close(at_once);
        engine_session_close(singly);
    }
}

static engine_worker_info counts(void)
{
    engine_worker_info info;
    engine_worker_describe(worker, &info);
    return info;
}

// One run of attention per layer and pass: for a token, for a prompt, for many tokens.
static void counts_what_it_runs(void **state)
{
    (void)state;
    engine_error err = {""};
    engine_model_info model;
    engine_model_describe(engine_worker_model(worker), &model);
    engine_session *session = must_open_session(worker);
    engine_worker_info before = counts(), after;
    int32_t ids[101] = {0};
    engine_feed feed = {.session = session, .ids = ids, .count = 100};
    assert_true(engine_eval(worker, &feed, 1, NULL, NULL, &err));
    after = counts();
    assert_int_equal(after.passes - before.passes, 1);
    assert_int_equal(after.attention_runs - before.attention_runs, model.layers);
    feed.count = 1;
    before = after;
    assert_true(engine_eval(worker, &feed, 1, NULL, NULL, &err));
    after = counts();
    int64_t runs = after.runs - before.runs;
    engine_generation wish = {.max_tokens = TOKENS, .ignore_end = true};
    engine_result result;
    before = after;
    assert_true(engine_generate(session, ids, 101, &wish, &result, &err));
    after = counts();
    assert_int_equal(after.passes - before.passes, TOKENS - 1);
    assert_int_equal(after.attention_runs - before.attention_runs, (TOKENS - 1) * model.layers);
    // Every pass is the same runs, and every token one more: that of the sampler.
    assert_int_equal(after.runs - before.runs, (TOKENS - 1) * runs + TOKENS);
    engine_session_close(session);
}

typedef struct listener {
    char text[4096];
    size_t bytes;
    int32_t calls, most_calls; // 0: any number
} listener;

static bool listen(void *user, const char *text, size_t bytes)
{
    listener *l = user;
    assert_true(l->bytes + bytes < sizeof l->text);
    memcpy(l->text + l->bytes, text, bytes);
    l->bytes += bytes;
    return ++l->calls != l->most_calls;
}

// Two generations one after the other, the second behind the first: all that can be seen of them.
typedef struct outcome {
    listener first, second;
    engine_result results[2];
    int32_t length, tokens[CONTEXT];
} outcome;

static outcome generate_twice(engine_worker *of, engine_generation wish, int32_t most_calls)
{
    engine_error err = {""};
    outcome o = {.first.most_calls = most_calls};
    engine_session *session = engine_session_open(of, &err);
    assert_non_null(session);
    wish.write = listen;
    wish.user = &o.first;
    if (!engine_generate(session, prompt.ids, (int32_t)prompt.count, &wish, &o.results[0], &err))
        fail_msg("%s", err.text);
    int32_t ids[CONTEXT], count = engine_session_length(session);
    memcpy(ids, engine_session_tokens(session), (size_t)count * sizeof *ids);
    wish.user = &o.second;
    wish.max_tokens = 5;
    if (!engine_generate(session, ids, count, &wish, &o.results[1], &err))
        fail_msg("%s", err.text);
    o.length = engine_session_length(session);
    memcpy(o.tokens, engine_session_tokens(session), (size_t)o.length * sizeof *o.tokens);
    engine_session_close(session);
    return o;
}

static void expect_same(const outcome *a, const outcome *b)
{
    assert_string_equal(a->first.text, b->first.text);
    assert_string_equal(a->second.text, b->second.text);
    assert_int_equal(a->results[0].finish, b->results[0].finish);
    assert_int_equal(a->results[0].generated_tokens, b->results[0].generated_tokens);
    assert_int_equal(a->results[1].generated_tokens, b->results[1].generated_tokens);
    assert_int_equal(a->length, b->length);
    assert_memory_equal(a->tokens, b->tokens, (size_t)a->length * sizeof *a->tokens);
}

enum { KINDS = 7 };

// What the device is asked for in chains: most_calls as in listener.
typedef struct chained_wish {
    engine_generation wish;
    char stop[2];
    const char *stops[2];
    int32_t most_calls;
} chained_wish;

static void make_wish(int kind, chained_wish *made)
{
    engine_generation *wish = &made->wish;
    *made = (chained_wish){.wish = {.max_tokens = 40, .ignore_end = true}};
    if (kind == 1 || kind == 2)
        wish->sampling.params = (weft_sample_params){.temperature = 1.1f, .top_k = 40};
    if (kind == 2)
        wish->sampling = (engine_sampling){
            {.temperature = 0.9f, .repetition_penalty = 1.3f, .presence_penalty = 0.2f},
            .penalty_window = 20};
    if (kind == 3) {
        outcome all = generate_twice(worker, *wish, 0);
        made->stop[0] = all.first.text[all.first.bytes / 2];
        made->stops[0] = made->stop;
        wish->stops = made->stops;
    }
    if (kind == 4)
        made->most_calls = 9;
    if (kind == 5)
        wish->max_tokens = 1;
    if (kind == 6)
        *wish = (engine_generation){.max_tokens = MOST};
}

// However many tokens the device chooses in one submission, and wherever the text ends within one.
static void chains_give_what_single_steps_give(void **state)
{
    (void)state;
    const int32_t lengths[] = {2, 7, 64};
    chained_wish wishes[KINDS];
    static outcome singly[KINDS];
    for (int kind = 0; kind < KINDS; kind++) {
        make_wish(kind, &wishes[kind]);
        singly[kind] = generate_twice(worker, wishes[kind].wish, wishes[kind].most_calls);
    }
    for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++) {
        engine_error err = {""};
        engine_options options = {
            .threads = 2, .context_tokens = CONTEXT, .max_sessions = 2, .chain_tokens = lengths[n]};
        engine_worker *chained =
            open_worker_of((engine_model *)engine_worker_model(worker), &options, &err);
        if (!chained)
            fail_msg("%s", err.text);
        for (int kind = 0; kind < KINDS; kind++) {
            outcome at_once = generate_twice(chained, wishes[kind].wish, wishes[kind].most_calls);
            expect_same(&singly[kind], &at_once);
        }
        engine_worker_close(chained);
    }
}

typedef struct tokens_told {
    listener text;
    int32_t ids[8], count;
} tokens_told;

static bool hear_token(void *user, const engine_token *token)
{
    tokens_told *told = user;
    assert_true(told->count < 8);
    told->ids[told->count++] = token->id;
    listen(&told->text, token->text, token->text_bytes);
    return true;
}

// Special tokens among them, which have no text; and what is held back for a stop string comes with the end.
static void tells_of_every_token(void **state)
{
    (void)state;
    engine_error err = {""};
    const tokenizer *t = engine_model_tokenizer(engine_worker_model(worker));
    const char *const stops[] = {"there was nobody", NULL};
    int32_t forced[5] = {prompt.ids[0], tokenizer_eos(t)};
    for (size_t i = 0; i < 3; i++)
        forced[2 + i] = prompt.ids[prompt.count - 3 + i];
    tokens_told told = {.count = 0};
    engine_generation wish = {.max_tokens = 5,
                              .ignore_end = true,
                              .stops = stops,
                              .forced = forced,
                              .token = hear_token,
                              .user = &told};
    engine_session *session = must_open_session(worker);
    engine_result result;
    if (!engine_generate(session, prompt.ids, (int32_t)prompt.count, &wish, &result, &err))
        fail_msg("%s", err.text);
    tokenizer_text whole = {0};
    assert_true(tokenizer_decode(t, forced, 5, 0, &whole, &err));
    assert_int_equal(told.count, 6);
    assert_memory_equal(told.ids, forced, sizeof forced);
    assert_int_equal(told.ids[5], TOKENIZER_NONE);
    assert_int_equal(told.text.bytes, whole.size_bytes);
    assert_memory_equal(told.text.text, whole.data, whole.size_bytes);
    tokenizer_text_free(&whole);
    engine_session_close(session);
}

// The logits behind the prompt, of a worker that puts runs together or not.
static void logits_of(bool separate, bool exact, float *logits)
{
    engine_error err = {""};
    const engine_model *model = engine_worker_model(worker);
    engine_model_info info;
    engine_model_describe(model, &info);
    engine_options options = {.threads = 2,
                              .context_tokens = CONTEXT,
                              .kv_dtype = WEFT_F32,
                              .exact = exact,
                              .separate = separate};
    engine_worker *made = open_worker_of((engine_model *)model, &options, &err);
    engine_session *session = made ? engine_session_open(made, &err) : NULL;
    if (!session ||
        !engine_session_sync(session, prompt.ids, (int32_t)prompt.count, NULL, NULL, &err))
        fail_msg("%s", err.text);
    memcpy(logits, engine_session_logits(session), (size_t)info.vocab * sizeof *logits);
    engine_session_close(session);
    engine_worker_close(made);
}

// Exact, only the order of roundings of f32 differs; otherwise activations are rounded to 8 bits at
// places that differ a little.
static void runs_put_together_give_what_separate_ones_give(void **state)
{
    (void)state;
    engine_model_info info;
    engine_model_describe(engine_worker_model(worker), &info);
    float *together = malloc((size_t)info.vocab * sizeof *together);
    float *apart = malloc((size_t)info.vocab * sizeof *apart);
    assert_true(together && apart);
    for (int exact = 0; exact < 2; exact++) {
        float largest = 0, worst = 0;
        logits_of(false, exact, together);
        logits_of(true, exact, apart);
        for (int32_t i = 0; i < info.vocab; i++) {
            largest = fmaxf(largest, fabsf(apart[i]));
            worst = fmaxf(worst, fabsf(together[i] - apart[i]));
        }
        print_message("%s: off by %.2g of the largest logit\n", exact ? "exact" : "rounded",
                      (double)(worst / largest));
        assert_true(worst <= (exact ? 1e-4f : 0.03f) * largest);
    }
    free(together);
    free(apart);
}

// A chain begins with the penalties of its first token, and writes over nobody's logits.
static void chains_leave_others_alone(void **state)
{
    (void)state;
    engine_error err = {""};
    const engine_options options = {.threads = 2, .context_tokens = 64, .max_sessions = 2};
    engine_worker *both =
        open_worker_of((engine_model *)engine_worker_model(worker), &options, &err);
    engine_session *one = both ? engine_session_open(both, &err) : NULL;
    engine_session *other = both ? engine_session_open(both, &err) : NULL;
    engine_model_info info;
    engine_model_describe(engine_worker_model(worker), &info);
    size_t bytes = (size_t)info.vocab * sizeof(float);
    float *before = malloc(bytes);
    assert_true(one && other && before);
    engine_feed first = {.session = one, .ids = prompt.ids, .count = 3};
    engine_feed second = {.session = other, .ids = prompt.ids, .count = 5};
    assert_true(engine_eval(both, &first, 1, NULL, NULL, &err) &&
                engine_eval(both, &second, 1, NULL, NULL, &err));
    memcpy(before, engine_session_logits(other), bytes);
    // Nothing is as likely as the one token in the window, again.
    const engine_sampling again = {{.presence_penalty = -1e6f}, .penalty_window = 1};
    engine_draw draw = {.session = one, .sampling = &again, .token = 17};
    int32_t tokens[9] = {0};
    if (!engine_decode(both, &draw, 1, 9, tokens, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < 9; i++)
        assert_int_equal(tokens[i], 17);
    assert_memory_equal(before, engine_session_logits(other), bytes);
    free(before);
    engine_session_close(one);
    engine_session_close(other);
    engine_worker_close(both);
}

static void chains_fill_the_context(void **state)
{
    (void)state;
    engine_error err = {""};
    const int32_t lengths[] = {1, 5, 64};
    for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++) {
        engine_options options = {.threads = 2, .context_tokens = 40, .chain_tokens = lengths[n]};
        engine_worker *small =
            open_worker_of((engine_model *)engine_worker_model(worker), &options, &err);
        engine_session *session = small ? engine_session_open(small, &err) : NULL;
        assert_non_null(session);
        engine_generation wish = {.ignore_end = true};
        engine_result result;
        if (!engine_generate(session, prompt.ids, (int32_t)prompt.count, &wish, &result, &err))
            fail_msg("%s", err.text);
        assert_int_equal(result.finish, ENGINE_FINISH_CONTEXT);
        assert_int_equal(engine_session_length(session), 40);
        assert_int_equal(result.generated_tokens, 40 - (int32_t)prompt.count + 1);
        engine_session_close(session);
        engine_worker_close(small);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_no_memory_between_tokens),
        cmocka_unit_test(one_call_gives_what_many_give),
        cmocka_unit_test(counts_what_it_runs),
        cmocka_unit_test(chains_give_what_single_steps_give),
        cmocka_unit_test(chains_fill_the_context),
        cmocka_unit_test(chains_leave_others_alone),
        cmocka_unit_test(tells_of_every_token),
        cmocka_unit_test(runs_put_together_give_what_separate_ones_give),
    };
    return cmocka_run_group_tests_name("generate", tests, open_all, close_all);
}
