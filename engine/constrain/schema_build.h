// SPDX-License-Identifier: MIT
#ifndef ENGINE_CONSTRAIN_SCHEMA_BUILD_H
#define ENGINE_CONSTRAIN_SCHEMA_BUILD_H

// A schema becoming part of a grammar; for the files that do it.

#include <jansson.h>

#include "engine/constrain/grammar.h"

// Rules that schemas share, made when they are first needed: rule + 1.
typedef enum schema_rule {
    SCHEMA_BLANKS,
    SCHEMA_CHARACTER, // of a string, maybe as an escape
    SCHEMA_STRING,
    SCHEMA_NUMBER,
    SCHEMA_INTEGER,
    SCHEMA_VALUE,
    SCHEMA_OBJECT,
    SCHEMA_ARRAY,
    SCHEMA_RULES,
} schema_rule;

typedef struct schema_reference {
    const json_t *to;
    uint32_t rule;
} schema_reference;

typedef struct schema_work {
    grammar_builder *b;
    const json_t *root; // that references point into
    uint32_t shared[SCHEMA_RULES];
    schema_reference *references;
    size_t reference_count, reference_room;
    int depth;
    grammar_expr (*value)(struct schema_work *work,
                          const json_t *schema); // what is valid for a schema
    char place[200];                             // in the schema, for errors
} schema_work;

// What is valid for a schema as a part of any grammar; references point into the schema. `place` is what errors
// call it.
grammar_expr schema_add(grammar_builder *b, const json_t *schema, const char *place);

// Fails with the place in front.
grammar_expr schema_fail(schema_work *work, const char *format, ...) ENGINE_PRINTF(2, 3);

// Steps into a part of the schema, and back out to the `mark` that it returned.
size_t schema_enter(schema_work *work, const char *name);
void schema_leave(schema_work *work, size_t mark);

static inline grammar_expr schema_value(schema_work *work, const json_t *schema)
{
    return work->value(work, schema);
}

grammar_expr schema_either(schema_work *work, grammar_expr one, grammar_expr other);

grammar_expr schema_call(schema_work *work, schema_rule rule);
grammar_expr schema_blanks(schema_work *work);

// A JSON text as it stands.
grammar_expr schema_literal(schema_work *work, const json_t *value);

// By type.
grammar_expr schema_object(schema_work *work, const json_t *schema);
grammar_expr schema_array(schema_work *work, const json_t *schema);
grammar_expr schema_string(schema_work *work, const json_t *schema);
grammar_expr schema_number(schema_work *work, const json_t *schema, bool integer);

// Inside quotation marks: the strings in which a regular expression is found (pattern.c).
grammar_expr schema_pattern(schema_work *work, const char *pattern, size_t bytes);

// A whole number at a name; false after a failure.
bool schema_count(schema_work *work, const json_t *schema, const char *name, int32_t *count);

#endif
