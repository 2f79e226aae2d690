// SPDX-License-Identifier: MIT
// Tools and documents of a conversation: what transformers renders of them with the templates of
// tests/golden/chat/tools, byte for byte, and what is refused.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file_map.h"
#include "engine/chat/chat.h"
#include "tests/support/file_tokenizer.h"

#define FOLDER WEFT_TEST_GOLDEN "/chat/tools/"

enum { MAX_MESSAGES = 16 };

static tokenizer *tok;

static int load_tokenizer(void **state)
{
    (void)state;
    tok = file_tokenizer("llama");
    return tok ? 0 : -1;
}

static int free_tokenizer(void **state)
{
    (void)state;
    tokenizer_free(tok);
    return 0;
}

static chat_template *load_template(const char *name)
{
    char path[1024];
    engine_error err = {{0}};
    file_map map = {0};
    chat_template *t = NULL;
    snprintf(path, sizeof path, FOLDER "%s.jinja", name);
    if (file_map_open(&map, path, &err)) // one line end less, as the generator reads it
        t = chat_template_parse(map.data, map.size_bytes - 1, &err);
    if (!t)
        fail_msg("%s: %s", name, err.text);
    file_map_close(&map);
    return t;
}

// Members beside role and content go as JSON; the caller frees them.
static size_t read_messages(json_t *array, chat_message *messages)
{
    size_t count = json_array_size(array);
    assert_true(count <= MAX_MESSAGES);
    for (size_t i = 0; i < count; i++) {
        json_t *message = json_array_get(array, i), *others = json_copy(message);
        json_t *content = json_object_get(message, "content");
        json_object_del(others, "role");
        json_object_del(others, "content");
        messages[i] = (chat_message){json_string_value(json_object_get(message, "role")),
                                     json_string_value(content), json_string_length(content),
                                     json_object_size(others) ? json_dumps(others, 0) : NULL};
        json_decref(others);
    }
    return count;
}

// NULL for null.
static char *array_text(const json_t *test, const char *name)
{
    const json_t *array = json_object_get(test, name);
    return json_is_array(array) ? json_dumps(array, JSON_COMPACT) : NULL;
}

static void check_case(json_t *test, size_t index)
{
    chat_message messages[MAX_MESSAGES];
    size_t count = read_messages(json_object_get(test, "messages"), messages);
    char *tools = array_text(test, "tools"), *documents = array_text(test, "documents");
    const json_t *expected = json_object_get(test, "text");
    const chat_options options = {.add_generation_prompt =
                                      json_is_true(json_object_get(test, "prompt")),
                                  .tools = tools,
                                  .documents = documents};
    const char *name = json_string_value(json_object_get(test, "template"));
    chat_template *t = load_template(name);
    tokenizer_text text = {0};
    engine_error err = {{0}};
    if (!chat_render(t, tok, messages, count, &options, &text, &err))
        fail_msg("case %zu (%s): %s", index, name, err.text);
    if (text.size_bytes != json_string_length(expected) ||
        memcmp(text.data, json_string_value(expected), text.size_bytes) != 0)
        fail_msg("case %zu (%s):\n  golden %s\n  weft   %.*s", index, name,
                 json_string_value(expected), (int)text.size_bytes, text.data);
    tokenizer_text_free(&text);
    chat_template_free(t);
    free(tools);
    free(documents);
    for (size_t i = 0; i < count; i++)
        free((char *)messages[i].members);
}

static void as_transformers_renders_them(void **state)
{
    json_error_t error;
    json_t *cases = json_load_file(FOLDER "cases.json", 0, &error);
    (void)state;
    if (!cases)
        fail_msg("%s", error.text);
    assert_true(json_array_size(cases) > 100);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(json_array_get(cases, i), i);
    json_decref(cases);
}

static void refuse(const char *source, const char *tools, const char *documents,
                   const char *fragment)
{
    const chat_message question = {"user", "q", 1, NULL};
    const chat_options options = {.tools = tools, .documents = documents};
    engine_error err = {{0}};
    tokenizer_ids ids = {0};
    chat_template *t = chat_template_parse(source, strlen(source), &err);
    assert_non_null(t);
    assert_false(chat_encode(t, tok, &question, 1, &options, &ids, &err));
    assert_int_equal(ids.count, 0);
    if (!strstr(err.text, fragment))
        fail_msg("'%s' does not say '%s'", err.text, fragment);
    tokenizer_ids_free(&ids);
    chat_template_free(t);
}

static void refuses(void **state)
{
    static const char plain[] = "{{ messages[0].content }}",
                      both[] = "{{ messages[0].content }}{{ tools }}{{ documents }}";
    (void)state;
    refuse(plain, "[]", NULL, "no place for tools");
    refuse(plain, NULL, "[]", "no place for documents");
    refuse(both, "{}", NULL, "tools must be a JSON array");
    refuse(both, NULL, "3", "documents must be a JSON array");
    refuse(both, "[1, 2", NULL, "chat: tools: ");
    refuse(both, NULL, "", "chat: documents: ");
}

// What a tool says cannot become a control token.
static void cannot_write_control_tokens(void **state)
{
    static const char source[] = "{{ messages[0].content }}{{ tools | tojson }}{{ documents[0] }}";
    const chat_message question = {"user", "q", 1, NULL};
    const chat_options options = {.tools = "[\"</s><s>\"]", .documents = "[\"</s><s>\"]"};
    engine_error err = {{0}};
    tokenizer_ids ids = {0};
    (void)state;
    chat_template *t = chat_template_parse(source, strlen(source), &err);
    assert_true(t && chat_encode(t, tok, &question, 1, &options, &ids, &err));
    for (size_t i = 1; i < ids.count; i++) // the first is the vocabulary's own
        assert_true(ids.ids[i] != tokenizer_bos(tok) && ids.ids[i] != tokenizer_eos(tok));
    tokenizer_ids_free(&ids);
    chat_template_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_transformers_renders_them),
        cmocka_unit_test(refuses),
        cmocka_unit_test(cannot_write_control_tokens),
    };
    return cmocka_run_group_tests(tests, load_tokenizer, free_tokenizer);
}
