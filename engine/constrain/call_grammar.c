// SPDX-License-Identifier: MIT
#include "engine/constrain/call_grammar.h"

#include <stdio.h>
#include <string.h>

#include "engine/constrain/schema_build.h"

enum { MAX_TOOLS = 128, MAX_ID = 32 };

// --- texts --------------------------------------------------------------------------------------------

static bool is_control(const form_work *work, const char *mark, size_t bytes)
{
    int32_t id = tokenizer_find_special(work->t, mark, bytes);
    return id != TOKENIZER_NONE && tokenizer_is_special(work->t, id);
}

// The size of the special token's name that a text begins with; 0: with none.
static size_t leading_token(const form_work *work, const char *text)
{
    const char closing[] = {*text == '<' ? '>' : ']', '\0'};
    if (*text != '<' && *text != '[')
        return 0;
    for (const char *end = text; (end = strstr(end, closing)); end++)
        if (is_control(work, text, (size_t)(end + 1 - text)))
            return (size_t)(end + 1 - text);
    return 0;
}

grammar_expr form_text(form_work *work, const char *text)
{
    grammar_expr whole = grammar_sequence(work->b);
    while (*text) {
        size_t plain = 0, token = 0;
        while (text[plain] && !(token = leading_token(work, text + plain)))
            plain++;
        grammar_add(work->b, whole, grammar_text(work->b, text, plain));
        if (token)
            grammar_add(work->b, whole, grammar_special(work->b, text + plain, token));
        text += plain + token;
    }
    return whole;
}

grammar_expr form_until(form_work *work, const char *mark, grammar_expr behind, bool may_end)
{
    size_t token = leading_token(work, mark);
    if (token == 0)
        return grammar_until(work->b, mark, strlen(mark), false, behind, may_end);
    grammar_expr rest = GRAMMAR_SEQUENCE(work->b, form_text(work, mark + token), behind);
    return grammar_until(work->b, mark, token, true, rest, may_end);
}

grammar_expr form_gap(form_work *work)
{
    grammar_builder *b = work->b;
    return GRAMMAR_CHOICE(b, grammar_repeat(b, grammar_word(b, "\n"), 0, 2), grammar_word(b, " "));
}

// Inside of an object: nothing, a space, or a line's end with indentation.
static grammar_expr blank(form_work *work)
{
    grammar_builder *b = work->b;
    grammar_expr indentation = grammar_repeat(b, grammar_word(b, " "), 0, 8);
    grammar_expr line = GRAMMAR_SEQUENCE(b, grammar_word(b, "\n"), indentation);
    return grammar_optional(b, GRAMMAR_CHOICE(b, grammar_word(b, " "), line));
}

static grammar_expr quoted(form_work *work, const char *text)
{
    grammar_builder *b = work->b;
    return GRAMMAR_SEQUENCE(b, grammar_word(b, "\""), grammar_word(b, text), grammar_word(b, "\""));
}

// Letters and digits.
static grammar_expr id_text(form_work *work)
{
    static const code_range letters[] = {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
    return grammar_repeat(work->b, grammar_class(work->b, letters, 3, false), 1, MAX_ID);
}

// --- arguments ----------------------------------------------------------------------------------------

static bool is_strict(const json_t *function)
{
    return json_is_true(json_object_get(function, "strict"));
}

// Is a schema served? Else the first reason is noted.
static bool is_served(form_work *work, const json_t *schema, const char *place)
{
    engine_error why = {""};
    grammar_builder *trial = grammar_begin(&why);
    grammar *g =
        trial ? grammar_finish(trial, grammar_make_rule(trial, schema_add(trial, schema, place)),
                               &why)
              : NULL;
    bool fine = g != NULL;
    grammar_free(g);
    if (!fine && work->note && !*work->note->text)
        *work->note = why;
    return fine;
}

// What is valid for the arguments; any object where the schema is not served and nobody insists.
static grammar_expr arguments_of(form_work *work, const json_t *function, const char *place)
{
    const json_t *schema = json_object_get(function, "parameters");
    if (json_object_size(schema) > 0 && (is_strict(function) || is_served(work, schema, place)))
        return schema_add(work->b, schema, place);
    json_t *any = json_pack("{s:s}", "type", "object");
    grammar_expr whole = schema_add(work->b, any, place);
    json_decref(any);
    return whole;
}

// What a string may be where it is written without quotation marks: one of a list, or any text. Rules for its
// characters are not served there.
static grammar_expr text_value(form_work *work, const json_t *schema, bool strict,
                               const char *place)
{
    static const char *const rules[] = {"pattern", "format", "minLength", "maxLength"};
    const call_style *style = work->form->style;
    grammar_builder *b = work->b;
    const json_t *list = json_object_get(schema, "enum"), *one;
    size_t n;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (!json_object_get(schema, rules[i]))
            continue;
        if (strict)
            return grammar_fail(b, "%s: '%s' is not served as this model writes strings", place,
                                rules[i]);
        if (work->note && !*work->note->text)
            engine_fail(work->note, "%s: '%s' is not served as this model writes strings", place,
                        rules[i]);
    }
    if (json_array_size(list) == 0)
        return form_until(work, style->value_close, 0, false);
    grammar_expr ways = grammar_choice(b);
    json_array_foreach(list, n, one)
    {
        if (json_is_string(one))
            grammar_add(b, ways, grammar_text(b, json_string_value(one), json_string_length(one)));
    }
    return GRAMMAR_SEQUENCE(b, ways, form_text(work, style->value_close));
}

// An argument with a name that is given; the value ends with what closes it.
static grammar_expr tagged_argument(form_work *work, const char *name, grammar_expr value)
{
    const call_style *style = work->form->style;
    grammar_builder *b = work->b;
    return GRAMMAR_SEQUENCE(b, form_text(work, style->key_open), grammar_word(b, name),
                            form_text(work, style->key_close), value);
}

// Arguments of any name, as texts.
static grammar_expr any_arguments(form_work *work)
{
    static const code_range no[] = {{0, 0x1F}, {'<', '<'}, {'>', '>'}, {'"', '"'}, {'\\', '\\'}};
    const call_style *style = work->form->style;
    grammar_builder *b = work->b;
    grammar_expr name = grammar_repeat(b, grammar_class(b, no, 5, true), 1, 64);
    grammar_expr one = GRAMMAR_SEQUENCE(b, form_text(work, style->key_open), name,
                                        form_text(work, style->key_close),
                                        form_until(work, style->value_close, 0, false));
    return grammar_repeat(b, one, 0, -1);
}

static bool is_required(const json_t *schema, const char *name)
{
    const json_t *one;
    size_t n;
    json_array_foreach(json_object_get(schema, "required"), n, one)
    {
        if (json_is_string(one) && strcmp(json_string_value(one), name) == 0)
            return true;
    }
    return false;
}

// The value of an argument that is no string, as JSON; any value where its schema is not served.
static grammar_expr json_value(form_work *work, const json_t *parameters, const json_t *schema,
                               bool strict, const char *place)
{
    static const char *const beside[] = {"$defs", "definitions"}; // what it may refer to
    json_t *whole = json_is_object(schema) ? json_copy((json_t *)schema) : json_object();
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        if (json_object_get(parameters, beside[i]))
            json_object_set(whole, beside[i], json_object_get(parameters, beside[i]));
    grammar_expr value = strict || is_served(work, whole, place)
                             ? schema_add(work->b, whole, place)
                             : schema_add(work->b, json_true(), place);
    json_decref(whole);
    return GRAMMAR_SEQUENCE(work->b, value, form_text(work, work->form->style->value_close));
}

static grammar_expr tagged_arguments(form_work *work, const json_t *function, const char *place)
{
    enum { MAX_ARGUMENTS = 256 };
    const json_t *schema = json_object_get(function, "parameters");
    json_t *properties = json_object_get(schema, "properties"), *one;
    grammar_builder *b = work->b;
    grammar_expr whole = grammar_sequence(b);
    const char *name;
    bool strict = is_strict(function);
    if (json_object_size(properties) == 0)
        return json_is_false(json_object_get(schema, "additionalProperties")) ? whole
                                                                              : any_arguments(work);
    if (json_object_size(properties) > MAX_ARGUMENTS ||
        json_array_size(json_object_get(schema, "required")) > MAX_ARGUMENTS)
        return grammar_fail(b, "%s: at most %d arguments are served", place, MAX_ARGUMENTS);
    json_object_foreach(properties, name, one)
    {
        char where[160];
        if (strpbrk(name, "<>\n"))
            return grammar_fail(b, "%s: a name of an argument has <, > or a line's end", place);
        snprintf(where, sizeof where, "%.80s/%.60s", place, name);
        grammar_expr value = call_argument_is_text(function, name, strlen(name))
                                 ? text_value(work, one, strict, where)
                                 : json_value(work, schema, one, strict, where);
        value = tagged_argument(work, name, value);
        grammar_add(b, whole, is_required(schema, name) ? value : grammar_optional(b, value));
    }
    return whole;
}

// --- calls --------------------------------------------------------------------------------------------

static grammar_expr object_call(form_work *work, const char *name, grammar_expr arguments)
{
    const call_style *style = work->form->style;
    grammar_builder *b = work->b;
    grammar_expr id = 0;
    if (style->id_key)
        id = GRAMMAR_SEQUENCE(b, quoted(work, style->id_key), grammar_word(b, ":"), blank(work),
                              grammar_word(b, "\""), id_text(work), grammar_word(b, "\","),
                              blank(work));
    return GRAMMAR_SEQUENCE(b, grammar_word(b, "{"), blank(work), id, quoted(work, style->name_key),
                            grammar_word(b, ":"), blank(work), quoted(work, name),
                            grammar_word(b, ","), blank(work), quoted(work, style->arguments_key),
                            grammar_word(b, ":"), blank(work), arguments, blank(work),
                            grammar_word(b, "}"));
}

static grammar_expr named_call(form_work *work, const char *name, grammar_expr arguments)
{
    const call_style *style = work->form->style;
    grammar_builder *b = work->b;
    grammar_expr id = 0;
    if (style->id_mark)
        id = grammar_optional(b,
                              GRAMMAR_SEQUENCE(b, form_text(work, style->id_mark), id_text(work)));
    return GRAMMAR_SEQUENCE(b, grammar_word(b, name), id, form_text(work, style->separator),
                            arguments);
}

static grammar_expr call_of(form_work *work, const json_t *function, size_t n)
{
    const char *name = json_string_value(json_object_get(function, "name"));
    char place[64];
    snprintf(place, sizeof place, "tools[%zu].function.parameters", n);
    switch (work->form->style->body) {
    case CALL_OBJECT: return object_call(work, name, arguments_of(work, function, place));
    case CALL_NAMED: return named_call(work, name, arguments_of(work, function, place));
    case CALL_TAGGED: return named_call(work, name, tagged_arguments(work, function, place));
    }
    return 0;
}

uint32_t form_any_call(form_work *work, const json_t *tools)
{
    grammar_expr ways = grammar_choice(work->b);
    const json_t *tool;
    size_t n, count = 0;
    if (!json_is_array(tools) || json_array_size(tools) > MAX_TOOLS)
        grammar_fail(work->b, "tools: they must be a list of at most %d functions", MAX_TOOLS);
    json_array_foreach(tools, n, tool)
    {
        const json_t *function = json_object_get(tool, "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        if (grammar_failed(work->b) || !name ||
            (work->form->only && strcmp(name, work->form->only) != 0))
            continue;
        grammar_add(work->b, ways, call_of(work, function, n));
        count++;
    }
    if (count == 0)
        grammar_fail(work->b, "tools: none of them can be called");
    return grammar_make_rule(work->b, ways);
}

static grammar_expr listed_calls(form_work *work, uint32_t call, int32_t more)
{
    grammar_builder *b = work->b;
    grammar_expr next =
        GRAMMAR_SEQUENCE(b, grammar_word(b, ","), blank(work), grammar_call(b, call));
    return GRAMMAR_SEQUENCE(b, grammar_word(b, "["), blank(work), grammar_call(b, call),
                            grammar_repeat(b, next, 0, more), blank(work), grammar_word(b, "]"));
}

// One call, the mark in front of the first one left out; behind an object, a gap before what closes it.
static grammar_expr single_call(form_work *work, uint32_t call, bool first)
{
    const call_style *style = work->form->style;
    grammar_builder *b = work->b;
    bool object = style->body == CALL_OBJECT;
    grammar_expr mark = !first && style->marks_each ? form_text(work, style->mark) : 0;
    return GRAMMAR_SEQUENCE(b, mark, object ? form_gap(work) : 0, form_text(work, style->open),
                            grammar_call(b, call), object && *style->close ? form_gap(work) : 0,
                            form_text(work, style->close));
}

grammar_expr form_calls_behind(form_work *work, uint32_t call)
{
    const call_style *style = work->form->style;
    grammar_builder *b = work->b;
    bool alone = work->form->one_call || (!style->list && !*style->close && !style->marks_each);
    grammar_expr whole;
    if (style->list)
        whole = GRAMMAR_SEQUENCE(b, form_gap(work), listed_calls(work, call, alone ? 0 : -1));
    else
        whole = single_call(work, call, true);
    if (!style->list && !alone)
        whole = GRAMMAR_SEQUENCE(
            b, whole,
            grammar_repeat(b, GRAMMAR_SEQUENCE(b, form_gap(work), single_call(work, call, false)),
                           0, -1));
    if (!*style->end)
        return whole;
    return GRAMMAR_SEQUENCE(b, whole, form_gap(work), form_text(work, style->end));
}

grammar_expr form_calls(form_work *work, uint32_t call)
{
    const call_style *style = work->form->style;
    grammar_builder *b = work->b;
    grammar_expr mark = 0;
    if (*style->mark)
        mark = form_text(work, style->mark);
    else if (style->other_mark)
        mark = grammar_optional(b, form_text(work, style->other_mark));
    return GRAMMAR_SEQUENCE(b, mark, form_calls_behind(work, call));
}
