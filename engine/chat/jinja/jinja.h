// SPDX-License-Identifier: MIT
#ifndef ENGINE_CHAT_JINJA_JINJA_H
#define ENGINE_CHAT_JINJA_JINJA_H

// The part of the Jinja language that chat templates are written in, rendered in a box: a template sees the
// values it is given and nothing else, and memory, steps and depth are bounded, for it comes from a file.
//
// Every byte knows whether the template wrote it or a value brought it in, and which: text of a message can
// so never become a control token, whatever a template does to it (jinja_text::origin).
//
//      jinja_box *box = jinja_box_open(NULL);
//      jinja_value values = jinja_dict(box);
//      jinja_set(box, values, "bos_token", jinja_text_from(box, 0, "<s>", 3));
//      jinja_render(program, box, values, &text, &err);
//      jinja_box_close(box);
//
// Source: the Jinja 3.1 template designer documentation; the environment is that of transformers
// (trim_blocks, lstrip_blocks, break and continue, `generation`, raise_exception, strftime_now, its tojson).

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"

// --- limits and memory --------------------------------------------------------------------------------

// All-zero is the default.
typedef struct jinja_limits {
    size_t memory_bytes;   // of all values and the result; 0: 64 MiB
    int64_t steps;         // nodes evaluated, items visited, bytes copied over 64; 0: 20 million
    const char *time_text; // what strftime_now() gives for every format; NULL: the clock
} jinja_limits;

// Values and what a rendering makes of them. Freed as one.
typedef struct jinja_box jinja_box;

jinja_box *jinja_box_open(const jinja_limits *limits); // NULL when memory is short
void jinja_box_close(jinja_box *box);                  // may be NULL

// --- values -------------------------------------------------------------------------------------------

typedef enum jinja_kind {
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_TEXT,
    JINJA_LIST,
    JINJA_DICT,
    JINJA_CALLABLE,
    JINJA_GENERATOR, // what map, select and the like give: visited once, without length or order
} jinja_kind;

// Text of UTF-8. origin says for each byte where it is from: 0 is the template itself, other numbers are
// what the caller gave its values. NULL: all bytes are from `source`.
typedef struct jinja_text {
    const char *data;
    const unsigned char *origin;
    size_t size_bytes;
    unsigned char source;
    bool safe; // came out of `safe` or `escape`: what is added to it with + is escaped
} jinja_text;

typedef struct jinja_list jinja_list;
typedef struct jinja_dict_data jinja_dict_data;
typedef struct jinja_callable jinja_callable;

typedef struct jinja_value {
    jinja_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        const jinja_text *text;
        jinja_list *list; // of a generator: what is left
        jinja_dict_data *dict;
        const jinja_callable *callable;
    };
} jinja_value;

// Made in the box; they copy their bytes. When memory is short they give an undefined value and the box
// remembers, so that the rendering fails.
jinja_value jinja_none(void);
jinja_value jinja_bool(bool value);
jinja_value jinja_int(int64_t value);
jinja_value jinja_float(double value);
jinja_value jinja_text_from(jinja_box *box, unsigned char source, const char *data,
                            size_t size_bytes);
jinja_value jinja_new_list(jinja_box *box);
jinja_value jinja_new_dict(jinja_box *box);
void jinja_append(jinja_box *box, jinja_value list, jinja_value item);
void jinja_set(jinja_box *box, jinja_value dict, const char *key, jinja_value value);

// --- programs -----------------------------------------------------------------------------------------

typedef struct jinja_program jinja_program;

// Reads a template. NULL with a text that names the line; the text is copied.
jinja_program *jinja_parse(const char *text, size_t size_bytes, engine_error *err);
void jinja_program_free(jinja_program *program); // may be NULL

// Does the template read a variable, attribute or key of that name anywhere?
bool jinja_mentions(const jinja_program *program, const char *name);

// Runs the program on a dict of values. *result lives in the box.
bool jinja_render(const jinja_program *program, jinja_box *box, jinja_value values,
                  jinja_text *result, engine_error *err);

#endif
