// SPDX-License-Identifier: MIT
#include "engine/constrain/answer_form.h"

#include <jansson.h>

#include "engine/constrain/call_grammar.h"
#include "engine/constrain/schema_build.h"

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
    grammar_expr first = GRAMMAR_CHOICE(b, grammar_byte(b, 0, '{' - 1),
                                        grammar_byte(b, '{' + 1, GRAMMAR_SPECIAL - 1));
    return grammar_optional(b, GRAMMAR_SEQUENCE(b, first, anything(work)));
}

// Without the thoughts. `call` is the rule of a call, if there are tools.
static grammar_expr answer(form_work *work, bool tools, uint32_t call)
{
    const answer_form *form = work->form;
    grammar_builder *b = work->b;
    const char *lead = form->thought && form->thought->lead ? form->thought->lead : "";
    if (!tools)
        return GRAMMAR_SEQUENCE(b, form_text(work, lead),
                                form->schema ? value(work) : anything(work));
    if (form->must_call)
        return form_calls(work, call);
    if (*form->style->mark && !*lead && !form->schema)
        return form_until(work, form->style->mark, form_calls_behind(work, call), true);
    grammar_expr text = form->schema ? value(work) : *lead ? anything(work) : plain_text(work);
    return GRAMMAR_CHOICE(b, form_calls(work, call),
                          GRAMMAR_SEQUENCE(b, form_text(work, lead), text));
}

static grammar_expr whole_answer(form_work *work, const json_t *list)
{
    const answer_form *form = work->form;
    grammar_builder *b = work->b;
    bool tools = form->style && list;
    uint32_t call = tools ? form_any_call(work, list) : 0;
    grammar_expr rest = answer(work, tools, call);
    if (form->thoughts == ANSWER_NO_THOUGHTS)
        return rest;
    // The rest may end without a word: it stands in the outermost rule, twice.
    grammar_expr behind = GRAMMAR_SEQUENCE(b, form_gap(work), rest);
    grammar_expr thinking = form_until(work, form->thought->close, behind, false);
    if (form->thoughts == ANSWER_THINKS)
        return thinking;
    return GRAMMAR_CHOICE(b, GRAMMAR_SEQUENCE(b, form_text(work, form->thought->open), thinking),
                          answer(work, tools, call));
}

grammar *answer_grammar(const answer_form *form, const tokenizer *t, engine_error *note,
                        engine_error *err)
{
    form_work work = {.form = form, .t = t, .b = grammar_begin(err), .note = note};
    json_t *tools = form->tools ? json_loads(form->tools, 0, NULL) : NULL;
    grammar *g = NULL;
    if (work.b)
        g = grammar_finish(work.b, grammar_make_rule(work.b, whole_answer(&work, tools)), err);
    json_decref(tools);
    return g;
}
