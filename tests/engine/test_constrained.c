// SPDX-License-Identifier: MIT
// Answers of the demo model that keep to a schema or a grammar: of one session and of many requests at once,
// greedy and sampled, with what they do beside free ones.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "tests/support/demo_model.h"
#include "tests/support/open_worker.h"

enum { REQUESTS = 5 };

static const char LETTERS[] = "root ::= [a-z ]{60}";

static const char SCHEMA[] =
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 12}, "
    "\"age\": "
    "{\"type\": \"integer\", \"minimum\": 1, \"maximum\": 99}, \"kind\": {\"enum\": [\"fox\", "
    "\"owl\"]}}, "
    "\"required\": [\"name\", \"age\", \"kind\"], \"additionalProperties\": false}";

static engine_model *model;
static engine_worker *worker;
static token_trie *trie;
static tokenizer_ids prompt;

static int load(void **state)
{
    engine_error err = {""};
    const engine_options options = {
        .threads = 1, .context_tokens = 256, .max_sessions = REQUESTS, .invariant = true};
    (void)state;
    model = demo_model_open("Once upon a time", &prompt);
    worker = model ? open_worker_of(model, &options, &err) : NULL;
    const tokenizer *t = worker ? engine_model_tokenizer(model) : NULL;
    trie = t ? token_trie_make(t, &err) : NULL;
    return trie ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    tokenizer_ids_free(&prompt);
    token_trie_free(trie);
    engine_worker_close(worker);
    engine_model_close(model);
    return 0;
}

static constraint *open_constraint(const char *schema, const char *gbnf)
{
    engine_error err = {""};
    grammar *g =
        schema ? schema_parse(schema, strlen(schema), &err) : gbnf_parse(gbnf, strlen(gbnf), &err);
    constraint *c = g ? constraint_open(g, trie, &err) : NULL;
    if (!c)
        fail_msg("%s", err.text);
    return c;
}

static weft_sample_params hot(float temperature, uint64_t seed)
{
    return (weft_sample_params){.temperature = temperature, .seed = seed};
}

// Behind `ids`, in a session that may have some of them.
static engine_result go_on(engine_session *session, const tokenizer_ids *ids, constraint *c,
                           weft_sample_params params, int32_t tokens, tokenizer_text *text)
{
    engine_error err = {""};
    engine_result result;
    const engine_generation wish = {.max_tokens = tokens,
                                    .sampling.params = params,
                                    .constraint = c,
                                    .ignore_end = true,
                                    .write = keep_text,
                                    .user = text};
    if (!engine_generate(session, ids->ids, (int32_t)ids->count, &wish, &result, &err))
        fail_msg("%s", err.text);
    return result;
}

static engine_result generate(constraint *c, weft_sample_params params, int32_t tokens,
                              tokenizer_text *text)
{
    engine_session *session = engine_session_open(worker, NULL);
    engine_result result = go_on(session, &prompt, c, params, tokens, text);
    engine_session_close(session);
    return result;
}

static void check_member(const tokenizer_text *text)
{
    json_t *object = json_loadb(text->data, text->size_bytes, 0, NULL);
    if (!object)
        fail_msg("this is no JSON: %s", text->data);
    json_int_t age = json_integer_value(json_object_get(object, "age"));
    assert_true(age >= 1 && age <= 99);
    assert_int_equal(json_object_size(object), 3);
    json_decref(object);
}

static void test_answers_are_valid(void **state)
{
    (void)state;
    constraint *c = open_constraint(SCHEMA, NULL);
    for (uint64_t seed = 0; seed < 12; seed++) {
        tokenizer_text text = {0};
        engine_result result = generate(c, hot(seed == 0 ? 0 : 1.5f, seed), 0, &text);
        assert_int_equal(result.finish, ENGINE_FINISH_END);
        check_member(&text);
        assert_true(constraint_matches(c, text.data, text.size_bytes));
        tokenizer_text_free(&text);
    }
    constraint_close(c);
}

// What is complete ends at once; what may go on ends where the model ends it or its tokens do.
static void test_ends(void **state)
{
    (void)state;
    tokenizer_text text = {0};
    constraint *c = open_constraint(NULL, "root ::= \"yes\"");
    engine_result result = generate(c, hot(1, 3), 50, &text);
    assert_int_equal(result.finish, ENGINE_FINISH_END);
    assert_int_equal(text.size_bytes, 3);
    assert_memory_equal(text.data, "yes", 3);
    constraint_close(c);
    text.size_bytes = 0;
    c = open_constraint(NULL, "root ::= [a-z]*");
    result = generate(c, hot(1, 3), 5, &text);
    assert_true(result.generated_tokens <= 5);
    for (size_t i = 0; i < text.size_bytes; i++)
        assert_in_range(text.data[i], 'a', 'z');
    constraint_close(c);
    tokenizer_text_free(&text);
}

// Who goes on where a constrained text ended finds the logits of the model there, not what the constraint left of them.
static void test_nothing_stays(void **state)
{
    (void)state;
    tokenizer_text text = {0}, free_text = {0};
    constraint *c = open_constraint(NULL, "root ::= \"yes\"");
    engine_session *session = engine_session_open(worker, NULL),
                   *other = engine_session_open(worker, NULL);
    go_on(session, &prompt, c, hot(0, 0), 8, &text);
    size_t count = (size_t)engine_session_length(session);
    int32_t *ids = malloc(count * sizeof *ids);
    memcpy(ids, engine_session_tokens(session), count * sizeof *ids);
    const tokenizer_ids all = {.ids = ids, .count = count};
    text.size_bytes = 0;
    go_on(session, &all, NULL, hot(0, 0), 8, &text);
    go_on(other, &all, NULL, hot(0, 0), 8, &free_text);
    assert_int_equal(free_text.size_bytes, text.size_bytes);
    assert_memory_equal(free_text.data, text.data, text.size_bytes);
    engine_session_close(session);
    engine_session_close(other);
    free(ids);
    tokenizer_text_free(&text);
    tokenizer_text_free(&free_text);
    constraint_close(c);
}

typedef struct reply {
    tokenizer_text text;
    engine_request_result result;
    bool failed;
} reply;

static bool take_token(void *user, const engine_token *token)
{
    reply *r = user;
    r->failed = r->failed || !isfinite(token->logprob);
    for (int32_t i = 0; i < token->likeliest_count; i++)
        r->failed = r->failed || !isfinite(token->likeliest[i].logprob);
    return tokenizer_text_append(&r->text, token->text, token->text_bytes);
}

static void take_end(void *user, const engine_request_result *result)
{
    ((reply *)user)->result = *result;
}

// Of all tokens, of the likeliest, of those that penalties make the likeliest, and the likeliest alone.
static weft_sample_params params_of(int i)
{
    weft_sample_params params = hot(i >= 3 ? 0 : 1.5f, (uint64_t)i);
    params.top_k = i == 1 ? 12 : 0;
    params.frequency_penalty = i == 3 ? 4 : 0;
    return params;
}

// Several requests share a constraint, one is free, all at once: each has the text that it has alone. Logprobs
// are of all that can come next; texts without them ask the likeliest alone where they can.
static void test_many_at_once(void **state)
{
    (void)state;
    engine_error err = {""};
    reply replies[REQUESTS] = {0};
    constraint *c = open_constraint(SCHEMA, NULL);
    constraint *letters = open_constraint(NULL, LETTERS);
    constraint *const of[REQUESTS] = {c, c, NULL, letters, c};
    engine_scheduler *s = engine_scheduler_open(worker, 0, &err);
    for (int i = 0; i < REQUESTS; i++) {
        const engine_request_wish wish = {.prompt = prompt.ids,
                                          .prompt_tokens = (int32_t)prompt.count,
                                          .max_tokens = 100,
                                          .sampling.params = params_of(i),
                                          .constraint = of[i],
                                          .ignore_end = true,
                                          .logprobs = true,
                                          .top_logprobs = 5,
                                          .token = take_token,
                                          .end = take_end,
                                          .user = &replies[i]};
        assert_non_null(engine_scheduler_submit(s, &wish, &err));
    }
    while (engine_scheduler_step(s))
        ;
    engine_scheduler_info info;
    engine_scheduler_describe(s, &info);
    engine_scheduler_close(s);
    int64_t generated = 0;
    for (int i = 0; i < REQUESTS; i++)
        generated += replies[i].result.generated_tokens;
    assert_int_equal(info.generated_tokens, generated);
    for (int i = 0; i < REQUESTS; i++) {
        tokenizer_text alone = {0};
        constraint *anew = i == 3 ? open_constraint(NULL, LETTERS)
                                  : open_constraint(SCHEMA, NULL); // with no mask made yet
        generate(of[i] ? anew : NULL, params_of(i), 100, &alone);
        constraint_close(anew);
        assert_false(replies[i].failed);
        assert_int_equal(replies[i].result.finish,
                         of[i] ? ENGINE_FINISH_END : ENGINE_FINISH_LENGTH);
        assert_int_equal(replies[i].text.size_bytes, alone.size_bytes);
        assert_memory_equal(replies[i].text.data, alone.data, alone.size_bytes);
        tokenizer_text_free(&alone);
        tokenizer_text_free(&replies[i].text);
    }
    constraint_close(c);
    constraint_close(letters);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_are_valid), cmocka_unit_test(test_ends),
        cmocka_unit_test(test_nothing_stays), cmocka_unit_test(test_many_at_once)};
    return cmocka_run_group_tests(tests, load, unload);
}
