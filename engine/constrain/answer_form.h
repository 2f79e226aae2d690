// SPDX-License-Identifier: MIT
#ifndef ENGINE_CONSTRAIN_ANSWER_FORM_H
#define ENGINE_CONSTRAIN_ANSWER_FORM_H

// The form of a model's answers: how it writes function calls and thoughts, which its chat template shows; and the
// grammar of an answer that may or must call functions, or be a JSON value.

#include "engine/constrain/grammar.h"
#include "engine/tokenizer/tokenizer.h"

// How a family writes calls: an object {"name": ..., <arguments>: {...}}, or a list of such, behind a mark.
typedef struct call_style {
    const char *name;
    const char *mark;       // in front of calls; "": none, a call is an answer that begins with {
    const char *other_mark; // that may stand in front as well; NULL: none
    const char *close;      // behind each; "": none
    const char *arguments;  // the name of that member
    bool list;
} call_style;

// The style that a template shows, or NULL.
const call_style *call_style_of(const char *chat_template, size_t bytes);

// Does the template know sections of thinking, <think> to </think>?
bool template_thinks(const char *chat_template, size_t bytes);

typedef enum answer_thoughts {
    ANSWER_NO_THOUGHTS,
    ANSWER_MAY_THINK, // it may begin with a section of thinking
    ANSWER_THINKS,    // it begins inside of one
} answer_thoughts;

typedef struct answer_form {
    const call_style *style; // NULL: no calls
    const char *tools;       // a JSON array as the interface of OpenAI has it; NULL: none
    const char *only;        // the name of the one function that may be called; NULL: any
    bool must_call;          // else it may
    bool one_call;           // at most one
    const char *schema;      // of an answer without calls, JSON; NULL: any text
    answer_thoughts thoughts;
} answer_form;

// NULL with a reason, which names the place in the tools or the schema.
grammar *answer_grammar(const answer_form *form, const tokenizer *t, engine_error *err);

#endif
