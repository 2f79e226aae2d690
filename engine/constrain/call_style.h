// SPDX-License-Identifier: MIT
#ifndef ENGINE_CONSTRAIN_CALL_STYLE_H
#define ENGINE_CONSTRAIN_CALL_STYLE_H

// How a model family writes function calls and thoughts, which its chat template shows. Data: a grammar is made of it
// (call_grammar.h), and the server takes answers apart by it. Texts may have names of special tokens inside.

#include <stdbool.h>
#include <stddef.h>

struct json_t;

typedef enum call_body {
    CALL_OBJECT, // {"name": NAME, "arguments": {...}}
    CALL_NAMED,  // NAME separator {...}
    CALL_TAGGED, // NAME separator, then for each argument key_open KEY key_close VALUE value_close
} call_body;

typedef struct call_style {
    const char *name;
    call_body body;
    bool list;              // objects in brackets, with commas between
    bool marks_each;        // the mark stands in front of each call, not once
    const char *mark;       // "": none, a call is an answer that begins with {
    const char *other_mark; // that may stand in front as well; NULL: none
    const char *open;       // behind the mark, in front of each call
    const char *close;      // behind each
    const char *end;        // behind all
    // CALL_OBJECT: names of its members
    const char *id_key, *name_key, *arguments_key; // id_key may be NULL
    // else
    const char *id_mark;   // behind the name may stand this and letters or digits; NULL: nothing
    const char *separator; // "": the name ends where a key or the call's end begins
    const char *key_open, *key_close, *value_close;
} call_style;

// The marks round sections of thinking, and what stands in front of an answer that is text (NULL: nothing).
typedef struct thought_style {
    const char *open, *close, *lead;
} thought_style;

// The style that a template shows, or NULL.
const call_style *call_style_of(const char *chat_template, size_t bytes);

// Is this the name of a token that marks are made of? Both may be NULL.
bool style_has(const call_style *style, const thought_style *thoughts, const char *name,
               size_t bytes);

// The function of this name in a list of tools as OpenAI's interface has it, or NULL.
const struct json_t *call_function(const struct json_t *tools, const char *name, size_t bytes);

// Is this argument of a tagged call a string, which is then written as it is? Others are written as JSON.
bool call_argument_is_text(const struct json_t *function, const char *name, size_t bytes);

// Those that a template knows, or NULL.
const thought_style *thought_style_of(const char *chat_template, size_t bytes);

#endif
