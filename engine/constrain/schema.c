// SPDX-License-Identifier: MIT
#include "engine/constrain/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/constrain/schema_build.h"

enum { MAX_NESTED = 64, MAX_REFERENCES = 4096, MAX_ENUM = 4096 };

// --- values that are given ----------------------------------------------------------------------------

static bool is_of_type(const json_t *value, const char *type)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return strcmp(type, "object") == 0;
    case JSON_ARRAY: return strcmp(type, "array") == 0;
    case JSON_STRING: return strcmp(type, "string") == 0;
    case JSON_INTEGER: return strcmp(type, "integer") == 0 || strcmp(type, "number") == 0;
    case JSON_REAL: return strcmp(type, "number") == 0;
    case JSON_TRUE:
    case JSON_FALSE: return strcmp(type, "boolean") == 0;
    case JSON_NULL: return strcmp(type, "null") == 0;
    }
    return false;
}

static bool fits_types(const json_t *value, const json_t *types)
{
    size_t n;
    const json_t *one;
    if (json_is_string(types))
        return is_of_type(value, json_string_value(types));
    if (!json_is_array(types))
        return true;
    json_array_foreach(types, n, one)
    {
        if (json_is_string(one) && is_of_type(value, json_string_value(one)))
            return true;
    }
    return false;
}

static bool check_types(schema_work *work, const json_t *types)
{
    return !types || json_is_string(types) ||
           (json_is_array(types) && json_array_size(types) > 0 && json_array_size(types) <= 7) ||
           schema_fail(work, "'type' must be the name of a type or a list of such");
}

static grammar_expr one_of_values(schema_work *work, const json_t *schema)
{
    const json_t *list = json_object_get(schema, "enum"), *value,
                 *types = json_object_get(schema, "type");
    grammar_expr ways = grammar_choice(work->b);
    size_t n, left = 0;
    if (!json_is_array(list) || json_array_size(list) > MAX_ENUM)
        return schema_fail(work, "'enum' must be a list of at most %d values", MAX_ENUM);
    if (!check_types(work, types))
        return 0;
    json_array_foreach(list, n, value)
    {
        if (!fits_types(value, types))
            continue;
        grammar_add(work->b, ways, schema_literal(work, value));
        left++;
    }
    return left ? ways : schema_fail(work, "no value of 'enum' has the type");
}

// --- references ---------------------------------------------------------------------------------------

// Decodes one step of a JSON pointer into name[].
static const char *pointer_step(const char *at, char *name, size_t room)
{
    size_t size = 0;
    while (*at && *at != '/' && size + 1 < room) {
        if (at[0] == '~' && (at[1] == '0' || at[1] == '1')) {
            name[size++] = at[1] == '0' ? '~' : '/';
            at += 2;
        } else
            name[size++] = *at++;
    }
    name[size] = '\0';
    return at;
}

static const json_t *point(const json_t *at, const char *pointer)
{
    char name[256], *end;
    while (at && *pointer == '/') {
        pointer = pointer_step(pointer + 1, name, sizeof name);
        if (json_is_array(at)) {
            long index = strtol(name, &end, 10);
            at = *name && !*end && index >= 0 ? json_array_get(at, (size_t)index) : NULL;
        } else
            at = json_object_get(at, name);
    }
    return *pointer ? NULL : at;
}

static bool remember(schema_work *work, const json_t *to, uint32_t rule)
{
    if (work->reference_count == MAX_REFERENCES ||
        !engine_grow(&work->references, &work->reference_room, work->reference_count + 1,
                     sizeof *work->references))
        return schema_fail(work, "there are too many references");
    work->references[work->reference_count++] = (schema_reference){to, rule};
    return true;
}

static grammar_expr reference(schema_work *work, const json_t *ref)
{
    const char *text = json_string_value(ref);
    const json_t *to = text && text[0] == '#' ? point(work->root, text + 1) : NULL;
    if (!to)
        return schema_fail(work,
                           "'$ref' must be the place of a schema in this one, as \"#/$defs/name\"");
    for (size_t i = 0; i < work->reference_count; i++)
        if (work->references[i].to == to)
            return grammar_call(work->b, work->references[i].rule);
    uint32_t rule = grammar_new_rule(work->b, text, strlen(text)); // before it refers to itself
    if (!remember(work, to, rule))
        return 0;
    grammar_define(work->b, rule, schema_value(work, to));
    return grammar_call(work->b, rule);
}

// --- schemas ------------------------------------------------------------------------------------------

static grammar_expr any_of(schema_work *work, const json_t *list, const char *name)
{
    grammar_expr ways = grammar_choice(work->b);
    const json_t *one;
    size_t n;
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > MAX_ENUM)
        return schema_fail(work, "'%s' must be a list of schemas that is not empty", name);
    json_array_foreach(list, n, one)
    {
        char step[40];
        snprintf(step, sizeof step, "%s/%zu", name, n);
        size_t mark = schema_enter(work, step);
        grammar_add(work->b, ways, schema_value(work, one));
        schema_leave(work, mark);
    }
    return ways;
}

static grammar_expr of_type(schema_work *work, const json_t *schema, const char *type)
{
    grammar_builder *b = work->b;
    if (strcmp(type, "object") == 0)
        return schema_object(work, schema);
    if (strcmp(type, "array") == 0)
        return schema_array(work, schema);
    if (strcmp(type, "string") == 0)
        return schema_string(work, schema);
    if (strcmp(type, "number") == 0 || strcmp(type, "integer") == 0)
        return schema_number(work, schema, type[0] == 'i');
    if (strcmp(type, "boolean") == 0)
        return schema_either(work, grammar_word(b, "true"), grammar_word(b, "false"));
    if (strcmp(type, "null") == 0)
        return grammar_word(b, "null");
    return schema_fail(work, "the type '%.40s' is unknown", type);
}

static grammar_expr of_types(schema_work *work, const json_t *schema, const json_t *types)
{
    grammar_expr ways = grammar_choice(work->b);
    const json_t *one;
    size_t n;
    if (json_is_string(types))
        return of_type(work, schema, json_string_value(types));
    if (!check_types(work, types))
        return 0;
    json_array_foreach(types, n, one)
    {
        if (!json_is_string(one))
            return schema_fail(work, "'type' must be the name of a type or a list of such");
        grammar_add(work->b, ways, of_type(work, schema, json_string_value(one)));
    }
    return ways;
}

// Where no type is given, what else is given tells.
static const char *guess_type(const json_t *schema)
{
    static const char *const tells[][2] = {{"properties", "object"},
                                           {"required", "object"},
                                           {"additionalProperties", "object"},
                                           {"items", "array"},
                                           {"prefixItems", "array"},
                                           {"minItems", "array"},
                                           {"maxItems", "array"},
                                           {"pattern", "string"},
                                           {"minLength", "string"},
                                           {"maxLength", "string"},
                                           {"format", "string"},
                                           {"minimum", "number"},
                                           {"maximum", "number"},
                                           {"multipleOf", "number"},
                                           {"exclusiveMinimum", "number"},
                                           {"exclusiveMaximum", "number"}};
    for (size_t i = 0; i < sizeof tells / sizeof *tells; i++)
        if (json_object_get(schema, tells[i][0]))
            return tells[i][1];
    return NULL;
}

// What changes what is valid and is not known.
static bool refuse_unknown(schema_work *work, const json_t *schema)
{
    static const char *const unknown[] = {"not",
                                          "if",
                                          "then",
                                          "else",
                                          "contains",
                                          "minContains",
                                          "maxContains",
                                          "patternProperties",
                                          "propertyNames",
                                          "dependencies",
                                          "dependentRequired",
                                          "dependentSchemas",
                                          "minProperties",
                                          "maxProperties",
                                          "unevaluatedItems",
                                          "unevaluatedProperties",
                                          "additionalItems",
                                          "$dynamicRef",
                                          "$recursiveRef"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        if (json_object_get(schema, unknown[i]))
            return schema_fail(work, "'%s' is not served: leave it out", unknown[i]);
    if (json_is_true(json_object_get(schema, "uniqueItems")))
        return schema_fail(work, "'uniqueItems' is not served: leave it out");
    return true;
}

// A way to say what is valid that leaves no room for others beside it.
static grammar_expr of_other(schema_work *work, const json_t *schema, bool *is)
{
    static const char *const exclusive[] = {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"};
    const char *which = NULL;
    for (size_t i = 0; i < sizeof exclusive / sizeof *exclusive; i++) {
        if (!json_object_get(schema, exclusive[i]))
            continue;
        if (which)
            return schema_fail(work, "'%s' and '%s' cannot stand together", which, exclusive[i]);
        which = exclusive[i];
    }
    *is = which != NULL;
    if (!which)
        return 0;
    const json_t *value = json_object_get(schema, which);
    if (strcmp(which, "enum") == 0)
        return one_of_values(work, schema);
    if (strcmp(which, "const") == 0)
        return schema_literal(work, value);
    if (guess_type(schema))
        return schema_fail(work, "'%s' cannot stand beside rules for one type", which);
    if (strcmp(which, "$ref") == 0)
        return reference(work, value);
    if (strcmp(which, "allOf") == 0 && json_array_size(value) != 1)
        return schema_fail(work, "'allOf' of several schemas is not served: write one");
    return any_of(work, value, which);
}

static grammar_expr value_of(schema_work *work, const json_t *schema)
{
    bool other = false;
    if (json_is_true(schema))
        return schema_call(work, SCHEMA_VALUE);
    if (!json_is_object(schema))
        return schema_fail(work, json_is_false(schema) ? "nothing is valid" : "this is no schema");
    if (!refuse_unknown(work, schema))
        return 0;
    grammar_expr value = of_other(work, schema, &other);
    if (other || grammar_failed(work->b))
        return value;
    const json_t *types = json_object_get(schema, "type");
    if (types)
        return of_types(work, schema, types);
    const char *type = guess_type(schema);
    return type ? of_type(work, schema, type) : schema_call(work, SCHEMA_VALUE);
}

static grammar_expr value(schema_work *work, const json_t *schema)
{
    if (grammar_failed(work->b))
        return 0;
    if (work->depth == MAX_NESTED)
        return schema_fail(work, "it is nested too deeply");
    work->depth++;
    grammar_expr whole = value_of(work, schema);
    work->depth--;
    return whole;
}

// --- from outside -------------------------------------------------------------------------------------

grammar_expr schema_add(grammar_builder *b, const json_t *schema, const char *place)
{
    schema_work work = {.b = b, .root = schema, .value = value};
    snprintf(work.place, sizeof work.place, "%s", place);
    grammar_expr whole = value(&work, schema);
    free(work.references);
    return whole;
}

grammar *schema_parse(const char *json, size_t bytes, engine_error *err)
{
    json_error_t why;
    if (bytes > GRAMMAR_MAX_TEXT_BYTES) {
        engine_fail(err, "schema: it is longer than %d bytes", GRAMMAR_MAX_TEXT_BYTES);
        return NULL;
    }
    json_t *root = json_loadb(json, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (!root) {
        engine_fail(err, "schema: it is not JSON: %.160s (line %d, column %d)", why.text, why.line,
                    why.column);
        return NULL;
    }
    grammar_builder *b = grammar_begin(err);
    grammar *g = b ? grammar_finish(b, grammar_make_rule(b, schema_add(b, root, "")), err) : NULL;
    json_decref(root);
    return g;
}
