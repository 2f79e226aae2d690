// SPDX-License-Identifier: MIT
#include "server/api_tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api_fields.h"

enum { MAX_TOOLS = 128, MAX_NAME = 64 };

static bool no_memory(api_error *error)
{
    return api_fail(error, 500, NULL, "not enough memory for the request");
}

// --- tools --------------------------------------------------------------------------------------------

static bool is_name(const json_t *value)
{
    const char *text = json_string_value(value);
    size_t size = text ? strlen(text) : 0;
    return size > 0 && size <= MAX_NAME && size == json_string_length(value) &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == size;
}

static bool check_tool(const json_t *list, size_t n, api_error *error)
{
    char where[64];
    const json_t *tool = json_array_get(list, n), *function = json_object_get(tool, "function");
    const char *type = json_string_value(json_object_get(tool, "type"));
    const json_t *name = json_object_get(function, "name"),
                 *parameters = field_get(function, "parameters");
    snprintf(where, sizeof where, "tools[%zu].type", n);
    if (!type || strcmp(type, "function") != 0)
        return api_fail(error, 400, where, "'%s' must be \"function\"", where);
    snprintf(where, sizeof where, "tools[%zu].function.name", n);
    if (!is_name(name))
        return api_fail(error, 400, where, "'%s' must be 1 to %d letters, digits, _ or -", where,
                        MAX_NAME);
    for (size_t i = 0; i < n; i++) {
        const json_t *other =
            json_object_get(json_object_get(json_array_get(list, i), "function"), "name");
        if (json_equal(other, name))
            return api_fail(error, 400, where, "'%s' is the name of two functions", where);
    }
    snprintf(where, sizeof where, "tools[%zu].function.parameters", n);
    return !parameters || json_is_object(parameters) ||
           api_fail(error, 400, where, "'%s' must be a JSON schema", where);
}

static bool read_tools(api_wish *wish, const json_t **tools, api_error *error)
{
    const json_t *list = field_get(wish->root, "tools");
    if (!list)
        return true;
    if (!json_is_array(list) || json_array_size(list) > MAX_TOOLS)
        return api_fail(error, 400, "tools", "'tools' must be a list of at most %d functions",
                        MAX_TOOLS);
    for (size_t n = 0; n < json_array_size(list); n++)
        if (!check_tool(list, n, error))
            return false;
    if (json_array_size(list) > 0)
        *tools = list;
    return true;
}

static const char *chosen_name(const json_t *choice)
{
    const char *type = json_string_value(json_object_get(choice, "type"));
    return type && strcmp(type, "function") == 0
               ? json_string_value(json_object_get(json_object_get(choice, "function"), "name"))
               : NULL;
}

static bool has_function(const json_t *tools, const char *wanted)
{
    const json_t *tool;
    size_t n;
    json_array_foreach(tools, n, tool)
    {
        const char *name =
            json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
        if (name && strcmp(name, wanted) == 0)
            return true;
    }
    return false;
}

// *none: the tools are not even shown.
static bool read_choice(api_wish *wish, const json_t *tools, bool *none, api_error *error)
{
    const json_t *choice = field_get(wish->root, "tool_choice");
    const char *word = json_string_value(choice);
    if (!choice || (word && strcmp(word, "auto") == 0))
        return true;
    if (word && strcmp(word, "none") == 0) {
        *none = true;
        return true;
    }
    if (!tools)
        return api_fail(error, 400, "tool_choice", "'tool_choice' needs 'tools'");
    wish->form.must_call = true;
    if (word && strcmp(word, "required") == 0)
        return true;
    wish->form.only = chosen_name(choice);
    wish->form.one_call = true;
    if (!wish->form.only)
        return api_fail(error, 400, "tool_choice",
                        "'tool_choice' must be \"none\", \"auto\", \"required\" or {\"type\": "
                        "\"function\", \"function\": {\"name\": ...}}");
    return has_function(tools, wish->form.only) ||
           api_fail(error, 400, "tool_choice",
                    "'tool_choice' names a function that is not among 'tools'");
}

// --- response_format ----------------------------------------------------------------------------------

static bool read_format(api_wish *wish, api_error *error)
{
    const json_t *format = field_get(wish->root, "response_format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!format || (type && strcmp(type, "text") == 0))
        return true;
    if (type && strcmp(type, "json_object") == 0) {
        wish->form.schema = "{\"type\": \"object\"}";
        return true;
    }
    if (!type || strcmp(type, "json_schema") != 0)
        return api_fail(
            error, 400, "response_format",
            "'response_format' must be of the type \"text\", \"json_object\" or \"json_schema\"");
    const json_t *named = json_object_get(format, "json_schema"),
                 *schema = json_object_get(named, "schema");
    if (!json_is_object(named) || !json_is_object(schema))
        return api_fail(error, 400, "response_format.json_schema.schema",
                        "'response_format.json_schema.schema' must be a JSON schema");
    wish->form.schema = wish->schema_text = json_dumps(schema, JSON_COMPACT);
    return wish->schema_text || no_memory(error);
}

bool api_read_form(api_wish *wish, api_error *error)
{
    const json_t *tools = NULL;
    bool none = false, parallel = true;
    if (!read_tools(wish, &tools, error) || !read_choice(wish, tools, &none, error) ||
        !field_bool(wish->root, "parallel_tool_calls", &parallel, error) ||
        !read_format(wish, error))
        return false;
    wish->form.one_call = wish->form.one_call || !parallel;
    if (!tools || none)
        return true;
    wish->form.tools = wish->tools_text = json_dumps(tools, JSON_COMPACT);
    return wish->tools_text || no_memory(error);
}

// --- what has been called -----------------------------------------------------------------------------

json_t *api_calls_for_template(const json_t *calls)
{
    json_t *copy = json_deep_copy(calls), *call;
    size_t n;
    json_array_foreach(copy, n, call)
    {
        json_t *function = json_object_get(call, "function");
        const char *text = json_string_value(json_object_get(function, "arguments"));
        json_t *object = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
        if (json_is_object(object))
            json_object_set(function, "arguments", object);
        json_decref(object);
    }
    return copy;
}

// --- the grammar --------------------------------------------------------------------------------------

// Which field a reason speaks of.
static const char *field_of(const char *reason)
{
    return strstr(reason, "tools") ? "tools" : "response_format";
}

static char *make_key(const answer_form *form)
{
    json_t *key =
        json_pack("[s?, s?, s?, s?, b, b, i]", form->style ? form->style->name : NULL, form->tools,
                  form->only, form->schema, form->must_call, form->one_call, (int)form->thoughts);
    char *text = key ? json_dumps(key, JSON_COMPACT) : NULL;
    json_decref(key);
    return text;
}

bool api_make_grammar(api_wish *wish, const call_style *style, const tokenizer *t, api_error *error)
{
    engine_error err = {""};
    answer_form *form = &wish->form;
    if (form->tools && !style)
        return api_fail(error, 400, "tools",
                        "how this model calls functions is not known: leave 'tools' out");
    if (!form->tools && !form->schema)
        return true;
    form->style = form->tools ? style : NULL;
    wish->grammar_key = make_key(form);
    wish->grammar = answer_grammar(form, t, &wish->note, &err);
    if (wish->grammar && wish->grammar_key)
        return true;
    return wish->grammar ? no_memory(error)
                         : api_fail(error, 400, field_of(err.text), "%s", err.text);
}
