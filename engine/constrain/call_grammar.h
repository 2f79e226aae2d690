// SPDX-License-Identifier: MIT
#ifndef ENGINE_CONSTRAIN_CALL_GRAMMAR_H
#define ENGINE_CONSTRAIN_CALL_GRAMMAR_H

// Calls as parts of the grammar of an answer.

#include "engine/constrain/answer_form.h"

typedef struct form_work {
    const answer_form *form;
    const tokenizer *t;
    grammar_builder *b;
    engine_error *note;
} form_work;

// A text in which names of special tokens are those tokens.
grammar_expr form_text(form_work *work, const char *text);

// Any text up to a mark, of which a special token may be the first part and no other; as grammar_until. What begins
// with that token is the mark.
grammar_expr form_until(form_work *work, const char *mark, grammar_expr behind, bool may_end);

// Between marks: nothing, a space, or up to two ends of lines.
grammar_expr form_gap(form_work *work);

// The rule of a call of any function that may be called.
uint32_t form_any_call(form_work *work, const struct json_t *tools);

// All calls of an answer, `call` being that rule; without or with the mark in front.
grammar_expr form_calls_behind(form_work *work, uint32_t call);
grammar_expr form_calls(form_work *work, uint32_t call);

#endif
