// SPDX-License-Identifier: MIT
#include "server/response.h"

#include <stdio.h>
#include <string.h>

#include "server/api_fields.h"

// The parts of a message's content as chat/completions has them.
static json_t *content_of(const json_t *content, const char *where, api_error *error)
{
    size_t n;
    const json_t *part;
    if (json_is_string(content))
        return json_deep_copy(content);
    json_t *parts = json_array();
    json_array_foreach(content, n, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *text = json_object_get(part, "text");
        bool known = type && (strcmp(type, "input_text") == 0 || strcmp(type, "output_text") == 0 ||
                              strcmp(type, "text") == 0);
        if (!known || !json_is_string(text)) {
            json_decref(parts);
            parts = NULL;
            break;
        }
        json_array_append_new(parts, json_pack("{s:s, s:O}", "type", "text", "text", text));
    }
    if (!json_is_array(content) || !parts) {
        json_decref(parts);
        api_fail(error, 400, where, "'%s' must be a string or parts of the type \"input_text\"",
                 where);
        return NULL;
    }
    return parts;
}

static bool add_message(json_t *messages, const json_t *item, size_t n, api_error *error)
{
    char where[64];
    json_t *role = json_object_get(item, "role");
    snprintf(where, sizeof where, "input[%zu].content", n);
    json_t *content = content_of(json_object_get(item, "content"), where, error);
    if (!content)
        return false;
    const char *name = json_string_value(role);
    json_t *told = strcmp(name, "developer") == 0 ? json_string("system") : json_incref(role);
    return json_array_append_new(messages,
                                 json_pack("{s:o, s:o}", "role", told, "content", content)) == 0 ||
           api_fail(error, 500, NULL, "not enough memory for the request");
}

// A call of an earlier answer: of the same message as the call before it.
static bool add_call(json_t *messages, const json_t *item, size_t n, api_error *error)
{
    char where[64];
    json_t *id = json_object_get(item, "call_id"), *name = json_object_get(item, "name"),
           *arguments = json_object_get(item, "arguments");
    snprintf(where, sizeof where, "input[%zu]", n);
    if (!json_is_string(id) || !json_is_string(name) || !json_is_string(arguments))
        return api_fail(error, 400, where, "'%s' must have the strings call_id, name, arguments",
                        where);
    json_t *message = json_array_get(messages, json_array_size(messages) - 1),
           *calls = json_object_get(message, "tool_calls");
    if (!calls) {
        calls = json_array();
        message =
            json_pack("{s:s, s:s, s:O}", "role", "assistant", "content", "", "tool_calls", calls);
        json_array_append_new(messages, message);
        json_decref(calls);
    }
    json_t *call = json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id, "type", "function", "function",
                             "name", name, "arguments", arguments);
    return json_array_append_new(calls, call) == 0 ||
           api_fail(error, 500, NULL, "not enough memory for the request");
}

static bool add_output(json_t *messages, const json_t *item, size_t n, api_error *error)
{
    char where[64];
    json_t *id = json_object_get(item, "call_id");
    snprintf(where, sizeof where, "input[%zu].call_id", n);
    if (!json_is_string(id))
        return api_fail(error, 400, where, "'%s' must be a string", where);
    snprintf(where, sizeof where, "input[%zu].output", n);
    json_t *output = content_of(json_object_get(item, "output"), where, error);
    return output && (json_array_append_new(messages, json_pack("{s:s, s:O, s:o}", "role", "tool",
                                                                "tool_call_id", id, "content",
                                                                output)) == 0 ||
                      api_fail(error, 500, NULL, "not enough memory for the request"));
}

// Thoughts of earlier answers are passed over: templates leave them out.
static bool add_item(json_t *messages, const json_t *item, size_t n, api_error *error)
{
    char where[64];
    const char *type = json_string_value(json_object_get(item, "type"));
    snprintf(where, sizeof where, "input[%zu]", n);
    if (type && strcmp(type, "function_call") == 0)
        return add_call(messages, item, n, error);
    if (type && strcmp(type, "function_call_output") == 0)
        return add_output(messages, item, n, error);
    if (type && strcmp(type, "reasoning") == 0)
        return true;
    if (!json_is_object(item) || (type && strcmp(type, "message") != 0) ||
        !json_is_string(json_object_get(item, "role")))
        return api_fail(error, 400, where, "'%s' must be a message with a role", where);
    return add_message(messages, item, n, error);
}

static bool add_messages(json_t *messages, const json_t *root, api_error *error)
{
    json_t *input = field_get(root, "input"), *instructions = field_get(root, "instructions"), *one;
    size_t n;
    if (instructions && !json_is_string(instructions))
        return api_fail(error, 400, "instructions", "'instructions' must be a string");
    if (instructions)
        json_array_append_new(messages,
                              json_pack("{s:s, s:O}", "role", "system", "content", instructions));
    if (json_is_string(input)) {
        json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "user", "content", input));
        return true;
    }
    if (!json_is_array(input) || json_array_size(input) == 0 ||
        json_array_size(input) > API_MAX_MESSAGES)
        return api_fail(error, 400, "input", "'input' must be a string or a list of messages");
    json_array_foreach(input, n, one)
    {
        if (!add_item(messages, one, n, error))
            return false;
    }
    return true;
}

// {"format": {"type": "json_schema", "name", "schema", "strict"}} is chat/completions' response_format.
static void add_format(json_t *chat, const json_t *root)
{
    json_t *format = json_object_get(json_object_get(root, "text"), "format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!format || json_is_null(format))
        return;
    json_t *told = json_copy(format);
    if (type && strcmp(type, "json_schema") == 0) {
        json_object_del(told, "type");
        told = json_pack("{s:s, s:o}", "type", "json_schema", "json_schema", told);
    }
    json_object_set_new(chat, "response_format", told);
}

// {"type": "function", "name", ...} is chat/completions' {"type": "function", "function": {"name", ...}}. What has
// not that form is left as it is, to be refused there.
static json_t *function_of(json_t *told)
{
    const char *type = json_string_value(json_object_get(told, "type"));
    if (!type || strcmp(type, "function") != 0 || json_object_get(told, "function"))
        return json_incref(told);
    json_t *function = json_copy(told);
    json_object_del(function, "type");
    return json_pack("{s:s, s:o}", "type", "function", "function", function);
}

static void add_tools(json_t *chat, const json_t *root)
{
    json_t *tools = field_get(root, "tools"), *choice = field_get(root, "tool_choice"), *one;
    size_t n;
    if (json_is_array(tools)) {
        json_t *list = json_array();
        json_array_foreach(tools, n, one)
        {
            json_array_append_new(list, function_of(one));
        }
        json_object_set_new(chat, "tools", list);
    }
    if (json_is_object(choice))
        json_object_set_new(chat, "tool_choice", function_of(choice));
}

// What would need a memory of answers, which there is none of.
static bool refuse_stored(const json_t *root, api_error *error)
{
    static const char *const unserved[] = {"previous_response_id", "conversation", "prompt",
                                           "background"};
    for (size_t i = 0; i < sizeof unserved / sizeof *unserved; i++) {
        const json_t *field = field_get(root, unserved[i]);
        if (field && !json_is_false(field))
            return api_fail(error, 400, unserved[i], "'%s' is not served: leave it out",
                            unserved[i]);
    }
    return true;
}

static json_t *chat_of(json_t *root, api_error *error)
{
    static const char *const changed[] = {"input", "instructions", "max_output_tokens",
                                          "text",  "top_logprobs", "stream_options"};
    json_t *messages = json_array(), *chat = json_copy(root);
    if (!messages || !chat || !refuse_stored(root, error) || !add_messages(messages, root, error)) {
        if (!error->status)
            api_fail(error, 500, NULL, "not enough memory for the request");
        json_decref(messages);
        json_decref(chat);
        return NULL;
    }
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++)
        json_object_del(chat, changed[i]);
    json_object_set_new(chat, "messages", messages);
    if (field_get(root, "max_output_tokens"))
        json_object_set(chat, "max_tokens", json_object_get(root, "max_output_tokens"));
    json_object_set_new(chat, "n", json_integer(1));
    json_object_set_new(chat, "logprobs", json_false());
    add_format(chat, root);
    add_tools(chat, root);
    return chat;
}

bool response_read(api_wish *wish, const char *body, size_t bytes, int32_t vocab, api_error *error)
{
    *wish = (api_wish){0};
    *error = (api_error){0};
    json_t *root = field_body(body, bytes, error);
    json_t *chat = root ? chat_of(root, error) : NULL;
    json_decref(root);
    if (!chat)
        return false;
    if (!api_read_wish_of(wish, true, chat, vocab, error)) {
        if (strcmp(error->param, "max_tokens") == 0)
            snprintf(error->param, sizeof error->param, "max_output_tokens");
        return false;
    }
    wish->response = true;
    return true;
}
