// SPDX-License-Identifier: MIT
#include "engine/constrain/answer_form.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "engine/constrain/schema_build.h"

enum { MAX_TOOLS = 128 };

typedef struct form_work {
    const answer_form *form;
    const tokenizer *t;
    grammar_builder *b;
} form_work;

// --- what a template shows ----------------------------------------------------------------------------

static bool mentions(const char *text, size_t bytes, const char *word)
{
    size_t size = strlen(word);
    for (size_t i = 0; i + size <= bytes; i++)
        if (text[i] == word[0] && memcmp(text + i, word, size) == 0)
            return true;
    return false;
}

const call_style *call_style_of(const char *chat_template, size_t bytes)
{
    // What a template must and must not have for a style; the first that fits counts.
    static const struct {
        const char *has, *lacks;
        call_style style;
    } known[] = {
        {"<tool_call>",
         "<function=",
         {"hermes", "<tool_call>", NULL, "</tool_call>", "arguments", false}},
        {"[TOOL_CALLS]", "[ARGS]", {"mistral", "[TOOL_CALLS]", NULL, "", "arguments", true}},
        {"<|tool_call|>",
         "<|tool_call_begin|>",
         {"granite", "<|tool_call|>", NULL, "", "arguments", true}},
        {"<|python_tag|>", "<function=", {"llama", "", "<|python_tag|>", "", "parameters", false}},
        {"\"parameters\": dictionary of argument name",
         "<function=",
         {"llama", "", NULL, "", "parameters", false}}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (mentions(chat_template, bytes, known[i].has) &&
            !mentions(chat_template, bytes, known[i].lacks))
            return &known[i].style;
    return NULL;
}

bool template_thinks(const char *chat_template, size_t bytes)
{
    return mentions(chat_template, bytes, "<think>") || mentions(chat_template, bytes, "</think>");
}

// --- parts --------------------------------------------------------------------------------------------

static bool is_control(const form_work *work, const char *mark)
{
    int32_t id = tokenizer_find_special(work->t, mark, strlen(mark));
    return id != TOKENIZER_NONE && tokenizer_is_special(work->t, id);
}

static grammar_expr mark_of(form_work *work, const char *mark)
{
    return is_control(work, mark) ? grammar_special(work->b, mark, strlen(mark))
                                  : grammar_word(work->b, mark);
}

static grammar_expr until(form_work *work, const char *mark, grammar_expr behind, bool may_end)
{
    return grammar_until(work->b, mark, strlen(mark), is_control(work, mark), behind, may_end);
}

// Between marks and calls: a space, or up to two ends of lines.
static grammar_expr gap(form_work *work)
{
    grammar_expr ways = grammar_choice(work->b);
    grammar_add(work->b, ways, grammar_repeat(work->b, grammar_word(work->b, "\n"), 0, 2));
    grammar_add(work->b, ways, grammar_word(work->b, " "));
    return ways;
}

// --- calls --------------------------------------------------------------------------------------------

// What is valid for the arguments; any object where the schema is not served and nobody insists.
static grammar_expr arguments_of(form_work *work, const json_t *function, size_t n)
{
    static const char any[] = "{\"type\": \"object\"}";
    const json_t *schema = json_object_get(function, "parameters");
    char place[64];
    snprintf(place, sizeof place, "tools[%zu].function.parameters", n);
    if (json_is_object(schema) && json_object_size(schema) > 0) {
        if (json_is_true(json_object_get(function, "strict")))
            return schema_add(work->b, schema, place);
        grammar_builder *trial = grammar_begin(NULL);
        bool fine = false;
        if (trial) {
            uint32_t rule = grammar_make_rule(trial, schema_add(trial, schema, place));
            grammar *g = grammar_finish(trial, rule, NULL);
            fine = g != NULL;
            grammar_free(g);
        }
        if (fine)
            return schema_add(work->b, schema, place);
    }
    json_t *object = json_loads(any, 0, NULL);
    grammar_expr whole = schema_add(work->b, object, place);
    json_decref(object);
    return whole;
}

static grammar_expr quoted_name(form_work *work, const char *name)
{
    grammar_builder *b = work->b;
    grammar_expr whole = grammar_sequence(b);
    grammar_add(b, whole, grammar_word(b, "\""));
    grammar_add(b, whole, grammar_word(b, name));
    grammar_add(b, whole, grammar_word(b, "\""));
    return whole;
}

static void add_blank(form_work *work, grammar_expr whole)
{
    grammar_expr ways = grammar_choice(work->b), line = grammar_sequence(work->b);
    grammar_add(work->b, line, grammar_word(work->b, "\n"));
    grammar_add(work->b, line, grammar_repeat(work->b, grammar_word(work->b, " "), 0, 8));
    grammar_add(work->b, ways, grammar_word(work->b, " "));
    grammar_add(work->b, ways, line);
    grammar_add(work->b, whole, grammar_optional(work->b, ways));
}

static grammar_expr call_of(form_work *work, const json_t *function, size_t n)
{
    grammar_builder *b = work->b;
    grammar_expr whole = grammar_sequence(b);
    grammar_add(b, whole, grammar_word(b, "{"));
    add_blank(work, whole);
    grammar_add(b, whole, grammar_word(b, "\"name\":"));
    add_blank(work, whole);
    grammar_add(b, whole, quoted_name(work, json_string_value(json_object_get(function, "name"))));
    grammar_add(b, whole, grammar_word(b, ","));
    add_blank(work, whole);
    grammar_add(b, whole, quoted_name(work, work->form->style->arguments));
    grammar_add(b, whole, grammar_word(b, ":"));
    add_blank(work, whole);
    grammar_add(b, whole, arguments_of(work, function, n));
    add_blank(work, whole);
    grammar_add(b, whole, grammar_word(b, "}"));
    return whole;
}

// A call of any function that may be called.
static uint32_t any_call(form_work *work, const json_t *tools)
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
        if (!name || (work->form->only && strcmp(name, work->form->only) != 0))
            continue;
        grammar_add(work->b, ways, call_of(work, function, n));
        count++;
    }
    if (count == 0)
        grammar_fail(work->b, "tools: none of them can be called");
    return grammar_make_rule(work->b, ways);
}

// Calls behind the mark: in a list, or each with a mark of its own.
static grammar_expr calls_behind(form_work *work, uint32_t call)
{
    const call_style *style = work->form->style;
    grammar_builder *b = work->b;
    grammar_expr whole = grammar_sequence(b), more = grammar_sequence(b);
    int32_t most = work->form->one_call ? 0 : -1;
    grammar_add(b, whole, gap(work));
    if (style->list) {
        grammar_add(b, whole, grammar_word(b, "["));
        grammar_add(b, whole, grammar_call(b, call));
        grammar_add(b, more, grammar_word(b, ","));
        add_blank(work, more);
        grammar_add(b, more, grammar_call(b, call));
        grammar_add(b, whole, grammar_repeat(b, more, 0, most));
        grammar_add(b, whole, grammar_word(b, "]"));
        return whole;
    }
    grammar_add(b, whole, grammar_call(b, call));
    if (!*style->close)
        return whole;
    grammar_add(b, whole, gap(work));
    grammar_add(b, whole, mark_of(work, style->close));
    grammar_add(b, more, gap(work));
    grammar_add(b, more, mark_of(work, style->mark));
    grammar_add(b, more, gap(work));
    grammar_add(b, more, grammar_call(b, call));
    grammar_add(b, more, gap(work));
    grammar_add(b, more, mark_of(work, style->close));
    grammar_add(b, whole, grammar_repeat(b, more, 0, most));
    return whole;
}

static grammar_expr calls(form_work *work, uint32_t call)
{
    const call_style *style = work->form->style;
    grammar_builder *b = work->b;
    grammar_expr whole = grammar_sequence(b);
    if (*style->mark)
        grammar_add(b, whole, mark_of(work, style->mark));
    else if (style->other_mark)
        grammar_add(b, whole, grammar_optional(b, mark_of(work, style->other_mark)));
    grammar_add(b, whole, calls_behind(work, call));
    return whole;
}

// --- answers ------------------------------------------------------------------------------------------

static grammar_expr anything(form_work *work)
{
    return grammar_repeat(work->b, grammar_byte(work->b, 0, 0xFF), 0, -1);
}

static grammar_expr value(form_work *work)
{
    json_error_t why;
    json_t *schema = json_loads(work->form->schema, JSON_DECODE_ANY, &why);
    if (!schema)
        return grammar_fail(work->b, "schema: it is not JSON: %.100s", why.text);
    grammar_expr whole = schema_add(work->b, schema, "");
    json_decref(schema);
    return whole;
}

// Text that does not begin as a call does.
static grammar_expr plain_text(form_work *work)
{
    grammar_builder *b = work->b;
    grammar_expr first = grammar_choice(b), whole = grammar_sequence(b);
    grammar_add(b, first, grammar_byte(b, 0, '{' - 1));
    grammar_add(b, first, grammar_byte(b, '{' + 1, GRAMMAR_SPECIAL - 1));
    grammar_add(b, whole, first);
    grammar_add(b, whole, anything(work));
    return grammar_optional(b, whole);
}

// Without the thoughts.
static grammar_expr answer(form_work *work, const json_t *tools)
{
    const answer_form *form = work->form;
    grammar_builder *b = work->b;
    if (!form->style || !tools)
        return form->schema ? value(work) : anything(work);
    uint32_t call = any_call(work, tools);
    if (form->must_call)
        return calls(work, call);
    if (*form->style->mark && !form->schema)
        return until(work, form->style->mark, calls_behind(work, call), true);
    grammar_expr ways = grammar_choice(b);
    grammar_add(b, ways, calls(work, call));
    grammar_add(b, ways, form->schema ? value(work) : plain_text(work));
    return ways;
}

static grammar_expr whole_answer(form_work *work, const json_t *tools)
{
    static const char opening[] = "<think>", closing[] = "</think>";
    grammar_builder *b = work->b;
    answer_thoughts thoughts = work->form->thoughts;
    grammar_expr rest = answer(work, tools), behind = grammar_sequence(b);
    if (thoughts == ANSWER_NO_THOUGHTS)
        return rest;
    // The rest may end without a word: it stands in the outermost rule, twice.
    grammar_add(b, behind, gap(work));
    grammar_add(b, behind, rest);
    grammar_expr thinking = until(work, closing, behind, false);
    if (thoughts == ANSWER_THINKS)
        return thinking;
    grammar_expr ways = grammar_choice(b), first = grammar_sequence(b);
    grammar_add(b, first, mark_of(work, opening));
    grammar_add(b, first, thinking);
    grammar_add(b, ways, first);
    grammar_add(b, ways, answer(work, tools));
    return ways;
}

grammar *answer_grammar(const answer_form *form, const tokenizer *t, engine_error *err)
{
    form_work work = {.form = form, .t = t, .b = grammar_begin(err)};
    json_t *tools = form->tools ? json_loads(form->tools, 0, NULL) : NULL;
    grammar *g = NULL;
    if (work.b)
        g = grammar_finish(work.b, grammar_make_rule(work.b, whole_answer(&work, tools)), err);
    json_decref(tools);
    return g;
}
