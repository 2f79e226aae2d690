// SPDX-License-Identifier: MIT
// Objects, arrays and strings.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/constrain/schema_build.h"

enum { MAX_MEMBERS = 4096 }; // of an object

bool schema_count(schema_work *work, const json_t *schema, const char *name, int32_t *count)
{
    const json_t *value = json_object_get(schema, name);
    if (!value)
        return true;
    double number = json_number_value(value);
    if (!json_is_number(value) || !(number >= 0 && number <= GRAMMAR_MAX_REPEAT) ||
        number != (int32_t)number)
        return schema_fail(work, "'%s' must be a whole number from 0 to %d", name,
                           GRAMMAR_MAX_REPEAT);
    *count = (int32_t)number;
    return true;
}

static bool check_order(schema_work *work, int32_t least, int32_t most, const char *what)
{
    return most < 0 || least <= most ||
           schema_fail(work, "at least %d and at most %d %s are none", least, most, what);
}

// --- objects ------------------------------------------------------------------------------------------

typedef struct member {
    uint32_t rule; // "name": value
    bool required;
} member;

typedef struct members {
    schema_work *work;
    const json_t *properties, *required;
    const json_t *others; // of all other names; NULL: there are none
    member *list;
    size_t count, room;
    uint32_t other, rest; // rules: another member; any number of them, each behind a comma
} members;

// A comma, then a member or an item.
static grammar_expr behind_comma(schema_work *work, uint32_t rule)
{
    grammar_builder *b = work->b;
    return GRAMMAR_SEQUENCE(b, grammar_word(b, ","), schema_blanks(work), grammar_call(b, rule));
}

static grammar_expr value_behind(schema_work *work, grammar_expr name, const json_t *schema)
{
    return GRAMMAR_SEQUENCE(work->b, name, grammar_word(work->b, ":"), schema_blanks(work),
                            schema_value(work, schema));
}

static bool is_required(const json_t *required, const char *name)
{
    const json_t *one;
    size_t n;
    json_array_foreach(required, n, one)
    {
        if (json_is_string(one) && strcmp(json_string_value(one), name) == 0)
            return true;
    }
    return false;
}

static void add_member(members *m, const char *name, const json_t *schema, bool required)
{
    schema_work *work = m->work;
    if (grammar_failed(work->b) || m->count == m->room)
        return;
    size_t mark = schema_enter(work, name);
    json_t *text = json_string(name);
    grammar_expr key = text ? schema_literal(work, text) : schema_fail(work, "not enough memory");
    uint32_t rule = grammar_make_rule(work->b, value_behind(work, key, schema));
    m->list[m->count++] = (member){rule, required};
    json_decref(text);
    schema_leave(work, mark);
}

static void add_members(members *m)
{
    const char *name;
    json_t *schema, *one;
    size_t n;
    json_object_foreach((json_t *)m->properties, name, schema)
    {
        add_member(m, name, schema, is_required(m->required, name));
    }
    json_array_foreach(m->required, n, one)
    {
        const char *wanted = json_string_value(one);
        if (!wanted)
            schema_fail(m->work, "'required' must be a list of names");
        else if (json_object_get(m->properties, wanted))
            continue;
        else if (!m->others)
            schema_fail(m->work, "'%.60s' is required and not among the properties", wanted);
        else
            add_member(m, wanted, m->others, true);
    }
}

// Names that are none of the members', without escapes: told apart character by character. names[count] are those
// that begin with what has been read, all of them `at` bytes.
static grammar_expr other_name(members *m, const char **names, size_t count, size_t at, int depth)
{
    static const code_range plain[] = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    grammar_builder *b = m->work->b;
    code_range taken[3 + 256] = {plain[0], plain[1], plain[2]};
    grammar_expr ways = grammar_choice(b);
    size_t taken_count = 3;
    bool ends = false, seen[256] = {false};
    if (depth > 200)
        return schema_fail(m->work, "names are too long beside 'additionalProperties'");
    for (size_t i = 0; i < count && !grammar_failed(b); i++) {
        unsigned char c = (unsigned char)names[i][at];
        ends = ends || !c;
        if (!c || seen[c])
            continue;
        if (c >= 0x80)
            return schema_fail(m->work, "names beside 'additionalProperties' must be ASCII");
        seen[c] = true;
        taken[taken_count++] = (code_range){c, c};
        const char **alike = engine_alloc(count, sizeof(char *));
        size_t alike_count = 0;
        for (size_t n = 0; alike && n < count; n++)
            if ((unsigned char)names[n][at] == c)
                alike[alike_count++] = names[n];
        bool escaped = c < 0x20 || c == '"' || c == '\\';
        if (!alike)
            schema_fail(m->work, "not enough memory");
        else if (!escaped)
            grammar_add(b, ways,
                        GRAMMAR_SEQUENCE(b, grammar_byte(b, c, c),
                                         other_name(m, alike, alike_count, at + 1, depth + 1)));
        free(alike);
    }
    if (!ends)
        grammar_add(b, ways, 0);
    grammar_expr first = grammar_class(b, taken, taken_count, true),
                 more = grammar_repeat(b, grammar_class(b, plain, 3, true), 0, -1);
    grammar_add(b, ways, GRAMMAR_SEQUENCE(b, first, more));
    return ways;
}

static grammar_expr quoted(schema_work *work, grammar_expr inner)
{
    return GRAMMAR_SEQUENCE(work->b, grammar_word(work->b, "\""), inner,
                            grammar_word(work->b, "\""));
}

static void add_others(members *m)
{
    grammar_builder *b = m->work->b;
    size_t count = 0, n, all = json_object_size(m->properties) + json_array_size(m->required);
    const char **names = engine_alloc(all, sizeof(char *)), *name;
    json_t *schema, *one;
    if (!names) {
        schema_fail(m->work, "not enough memory");
        return;
    }
    json_object_foreach((json_t *)m->properties, name, schema)
    {
        names[count++] = name;
    }
    json_array_foreach(m->required, n, one)
    {
        if (json_is_string(one))
            names[count++] = json_string_value(one);
    }
    size_t mark = schema_enter(m->work, "additionalProperties");
    grammar_expr key = quoted(m->work, other_name(m, names, count, 0, 0));
    m->other = grammar_make_rule(b, value_behind(m->work, key, m->others));
    m->rest = grammar_make_rule(b, grammar_repeat(b, behind_comma(m->work, m->other), 0, -1));
    schema_leave(m->work, mark);
    free(names);
}

// What stands behind a member: those from i on, each behind a comma.
static uint32_t make_rest(members *m, uint32_t *rests)
{
    grammar_builder *b = m->work->b;
    uint32_t rest = m->others ? m->rest : grammar_make_rule(b, 0);
    for (size_t i = m->count; i > 0; i--) {
        const member *one = &m->list[i - 1];
        grammar_expr part = behind_comma(m->work, one->rule);
        rests[i] = rest;
        part = one->required ? part : grammar_optional(b, part);
        rest = grammar_make_rule(b, GRAMMAR_SEQUENCE(b, part, grammar_call(b, rest)));
    }
    return rests[0] = rest;
}

// Any of the optional ones, or the first that is required, can come first.
static grammar_expr first_and_rest(members *m, const uint32_t *rests)
{
    grammar_builder *b = m->work->b;
    grammar_expr ways = grammar_choice(b);
    for (size_t i = 0; i < m->count; i++) {
        grammar_add(
            b, ways,
            GRAMMAR_SEQUENCE(b, grammar_call(b, m->list[i].rule), grammar_call(b, rests[i + 1])));
        if (m->list[i].required)
            return ways;
    }
    grammar_add(b, ways, 0);
    if (m->others)
        grammar_add(b, ways,
                    GRAMMAR_SEQUENCE(b, grammar_call(b, m->other), grammar_call(b, m->rest)));
    return ways;
}

static grammar_expr bracketed(schema_work *work, const char *open, grammar_expr inner,
                              const char *close)
{
    return GRAMMAR_SEQUENCE(work->b, grammar_word(work->b, open), schema_blanks(work), inner,
                            schema_blanks(work), grammar_word(work->b, close));
}

grammar_expr schema_object(schema_work *work, const json_t *schema)
{
    members m = {.work = work,
                 .properties = json_object_get(schema, "properties"),
                 .required = json_object_get(schema, "required"),
                 .others = json_object_get(schema, "additionalProperties")};
    if ((m.properties && !json_is_object(m.properties)) ||
        (m.required && !json_is_array(m.required)))
        return schema_fail(work, "'properties' must be an object, 'required' a list");
    m.room = json_object_size(m.properties) + json_array_size(m.required);
    if (m.room > MAX_MEMBERS)
        return schema_fail(work, "an object may have at most %d 'properties' and 'required'",
                           MAX_MEMBERS);
    if (!m.others && json_object_size(m.properties) == 0)
        m.others = json_true();
    if (json_is_false(m.others))
        m.others = NULL;
    if (json_is_true(m.others) && m.room == 0)
        return schema_call(work, SCHEMA_OBJECT);
    m.list = engine_alloc(m.room, sizeof *m.list);
    uint32_t *rests = engine_alloc(m.room + 1, sizeof *rests);
    if (!m.list || !rests)
        schema_fail(work, "not enough memory");
    else {
        add_members(&m);
        if (m.others)
            add_others(&m);
        make_rest(&m, rests);
    }
    grammar_expr whole =
        grammar_failed(work->b) ? 0 : bracketed(work, "{", first_and_rest(&m, rests), "}");
    free(m.list);
    free(rests);
    return whole;
}

// --- arrays -------------------------------------------------------------------------------------------

// Places from `at` on, of at least `least` and at most `most` in all; each in a rule of its own with those behind it.
static grammar_expr tuple(schema_work *work, const json_t *first, uint32_t rest, size_t at,
                          int32_t least)
{
    grammar_builder *b = work->b;
    grammar_expr whole = grammar_sequence(b);
    char step[40];
    if (at == json_array_size(first)) {
        grammar_add(b, whole, grammar_call(b, rest));
        return whole;
    }
    snprintf(step, sizeof step, "prefixItems/%zu", at);
    size_t mark = schema_enter(work, step);
    if (at > 0) {
        grammar_add(b, whole, grammar_word(b, ","));
        grammar_add(b, whole, schema_blanks(work));
    }
    grammar_add(b, whole, schema_value(work, json_array_get(first, at)));
    schema_leave(work, mark);
    grammar_add(b, whole, tuple(work, first, rest, at + 1, least));
    return (int32_t)at < least ? whole : grammar_optional(b, whole);
}

static uint32_t item_rule(schema_work *work, const json_t *items)
{
    size_t mark = schema_enter(work, "items");
    uint32_t rule = grammar_make_rule(work->b, items ? schema_value(work, items)
                                                     : schema_call(work, SCHEMA_VALUE));
    schema_leave(work, mark);
    return rule;
}

static int32_t less(int32_t count, int32_t by)
{
    return count < 0 ? -1 : count > by ? count - by : 0;
}

static grammar_expr fixed_array(schema_work *work, const json_t *schema, const json_t *first,
                                int32_t least, int32_t most)
{
    enum { MAX_FIRST = 100 };
    grammar_builder *b = work->b;
    const json_t *items = json_object_get(schema, "items");
    int32_t count = (int32_t)json_array_size(first);
    if (!json_is_array(first) || count == 0 || count > MAX_FIRST)
        return schema_fail(work, "'prefixItems' must be a list of 1 to %d schemas", MAX_FIRST);
    if (most >= 0 && most < count)
        return schema_fail(work, "'prefixItems' has more than 'maxItems'");
    if (json_is_false(items) && least > count)
        return schema_fail(work, "'minItems' is more than there can be");
    grammar_expr rest = json_is_false(items)
                            ? 0
                            : grammar_repeat(b, behind_comma(work, item_rule(work, items)),
                                             less(least, count), less(most, count));
    return bracketed(work, "[", tuple(work, first, grammar_make_rule(b, rest), 0, least), "]");
}

grammar_expr schema_array(schema_work *work, const json_t *schema)
{
    grammar_builder *b = work->b;
    const json_t *items = json_object_get(schema, "items"),
                 *first = json_object_get(schema, "prefixItems");
    int32_t least = 0, most = -1;
    if (!schema_count(work, schema, "minItems", &least) ||
        !schema_count(work, schema, "maxItems", &most) || !check_order(work, least, most, "items"))
        return 0;
    if (first)
        return fixed_array(work, schema, first, least, most);
    if (most == 0 || json_is_false(items))
        return least > 0 ? schema_fail(work, "'minItems' is more than there can be")
                         : bracketed(work, "[", 0, "]");
    if (!items && least == 0 && most < 0)
        return schema_call(work, SCHEMA_ARRAY);
    uint32_t item = item_rule(work, items);
    grammar_expr more = grammar_repeat(b, behind_comma(work, item), less(least, 1), less(most, 1));
    grammar_expr inner = GRAMMAR_SEQUENCE(b, grammar_call(b, item), more);
    return bracketed(work, "[", least > 0 ? inner : grammar_optional(b, inner), "]");
}

// --- strings ------------------------------------------------------------------------------------------

static const char *format_pattern(const char *format)
{
#define DAY                                                                                        \
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|"                                \
    "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|"                          \
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)"
#define HOUR  "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
#define TIME  HOUR ":[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-]" HOUR ")"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOST  LABEL "(?:\\." LABEL "){0,8}"
#define BYTE  "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define ATOM  "[A-Za-z0-9_+-]{1,32}"
#define GROUP "[0-9A-Fa-f]{1,4}"
    static const char *const known[][2] = {
        {"date", "^" DAY "$"},
        {"time", "^" TIME "$"},
        {"date-time", "^" DAY "T" TIME "$"},
        {"duration",
         "^P(?:[0-9]{1,9}W|[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?|[0-9]{1,9}M(?:[0-9]{1,9}D)?|"
         "[0-9]{1,9}D(?:T[0-9]{1,9}H)?|T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|"
         "[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S))$"},
        {"email", "^" ATOM "(?:\\." ATOM "){0,4}@" HOST "$"},
        {"hostname", "^" HOST "$"},
        {"ipv4", "^" BYTE "(?:\\." BYTE "){3}$"},
        {"ipv6",
         "^(?:(?:" GROUP ":){7}" GROUP "|::|" GROUP "::" GROUP "|" GROUP "(?::" GROUP "){1,5}::|"
         "::" GROUP "(?::" GROUP "){0,5})$"},
        {"uuid", "^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(format, known[i][0]) == 0)
            return known[i][1];
    return NULL;
}

grammar_expr schema_string(schema_work *work, const json_t *schema)
{
    grammar_builder *b = work->b;
    const json_t *pattern = json_object_get(schema, "pattern"),
                 *format = json_object_get(schema, "format");
    int32_t least = 0, most = -1;
    if (!schema_count(work, schema, "minLength", &least) ||
        !schema_count(work, schema, "maxLength", &most) ||
        !check_order(work, least, most, "characters"))
        return 0;
    if ((pattern && !json_is_string(pattern)) || (format && !json_is_string(format)))
        return schema_fail(work, "'pattern' and 'format' must be strings");
    const char *known = format ? format_pattern(json_string_value(format)) : NULL;
    if ((least > 0 || most >= 0) && (pattern || known))
        return schema_fail(work,
                           "'minLength' and 'maxLength' cannot stand beside 'pattern' or 'format'");
    if (pattern)
        return quoted(
            work, schema_pattern(work, json_string_value(pattern), json_string_length(pattern)));
    if (known)
        return quoted(work, schema_pattern(work, known, strlen(known)));
    if (least == 0 && most < 0)
        return schema_call(work, SCHEMA_STRING);
    return quoted(work, grammar_repeat(b, schema_call(work, SCHEMA_CHARACTER), least, most));
}
