// SPDX-License-Identifier: MIT
#ifndef ENGINE_CONSTRAIN_ANSWER_FORM_H
#define ENGINE_CONSTRAIN_ANSWER_FORM_H

// The grammar of an answer that may or must call functions, or be a JSON value, and may begin with thoughts.

#include "engine/constrain/call_style.h"
#include "engine/constrain/grammar.h"
#include "engine/tokenizer/tokenizer.h"

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
    const thought_style *thought; // of the template; NULL: it knows none
} answer_form;

// NULL with a reason, which names the place in the tools or the schema. Functions that are not strict may have
// parameters that are not served: then these may be any, and the first reason comes in `note` (NULL: nobody asks).
grammar *answer_grammar(const answer_form *form, const tokenizer *t, engine_error *note,
                        engine_error *err);

#endif
