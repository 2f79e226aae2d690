// SPDX-License-Identifier: MIT
// What the parts of schemas have in common: places for errors, rules, values as they stand.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/constrain/schema_build.h"

// --- the place ----------------------------------------------------------------------------------------

grammar_expr schema_fail(schema_work *work, const char *format, ...)
{
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return grammar_fail(work->b, "schema: at %s: %s", *work->place ? work->place : "its root",
                        text);
}

size_t schema_enter(schema_work *work, const char *name)
{
    size_t mark = strlen(work->place);
    snprintf(work->place + mark, sizeof work->place - mark, "/%s", name);
    return mark;
}

void schema_leave(schema_work *work, size_t mark)
{
    work->place[mark] = '\0';
}

// --- what schemas share -------------------------------------------------------------------------------

static grammar_expr of_ranges(grammar_builder *b, const char *pairs)
{
    code_range ranges[8];
    size_t count = 0;
    for (; pairs[0]; pairs += 2)
        ranges[count++] = (code_range){(unsigned char)pairs[0], (unsigned char)pairs[1]};
    return grammar_class(b, ranges, count, false);
}

static grammar_expr hex(grammar_builder *b)
{
    return of_ranges(b, "09afAF");
}

// No space, one, or a line's end with indentation.
static grammar_expr make_blanks(schema_work *work)
{
    enum { MAX_INDENTATION = 40 };
    grammar_builder *b = work->b;
    grammar_expr indentation = grammar_repeat(b, of_ranges(b, "  \t\t"), 0, MAX_INDENTATION);
    return grammar_optional(
        b, GRAMMAR_CHOICE(b, grammar_word(b, " "),
                          GRAMMAR_SEQUENCE(b, grammar_word(b, "\n"), indentation)));
}

// Surrogates come in pairs, so that every string is one of characters.
static grammar_expr make_character(schema_work *work)
{
    static const code_range no[] = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    grammar_builder *b = work->b;
    grammar_expr plain = grammar_class(b, no, 3, true);
    grammar_expr one =
        GRAMMAR_SEQUENCE(b, of_ranges(b, "09acefACEF"), grammar_repeat(b, hex(b), 3, 3));
    grammar_expr low =
        GRAMMAR_SEQUENCE(b, of_ranges(b, "ddDD"), of_ranges(b, "07"), hex(b), hex(b));
    grammar_expr pair = GRAMMAR_SEQUENCE(b, of_ranges(b, "ddDD"), of_ranges(b, "89abAB"), hex(b),
                                         hex(b), grammar_word(b, "\\u"), of_ranges(b, "ddDD"),
                                         of_ranges(b, "cfCF"), hex(b), hex(b));
    grammar_expr coded =
        GRAMMAR_SEQUENCE(b, grammar_word(b, "u"), GRAMMAR_CHOICE(b, one, low, pair));
    grammar_expr letter = of_ranges(b, "\"\"\\\\//bbffnnrrtt");
    return GRAMMAR_CHOICE(
        b, plain, GRAMMAR_SEQUENCE(b, grammar_word(b, "\\"), GRAMMAR_CHOICE(b, letter, coded)));
}

static grammar_expr make_string(schema_work *work)
{
    grammar_builder *b = work->b;
    grammar_expr inner = grammar_repeat(b, schema_call(work, SCHEMA_CHARACTER), 0, -1);
    return GRAMMAR_SEQUENCE(b, grammar_word(b, "\""), inner, grammar_word(b, "\""));
}

static grammar_expr make_integer(schema_work *work)
{
    grammar_builder *b = work->b;
    grammar_expr several =
        GRAMMAR_SEQUENCE(b, of_ranges(b, "19"), grammar_repeat(b, of_ranges(b, "09"), 0, -1));
    return GRAMMAR_SEQUENCE(b, grammar_optional(b, grammar_word(b, "-")),
                            GRAMMAR_CHOICE(b, grammar_word(b, "0"), several));
}

static grammar_expr make_number(schema_work *work)
{
    grammar_builder *b = work->b;
    grammar_expr fraction =
        GRAMMAR_SEQUENCE(b, grammar_word(b, "."), grammar_repeat(b, of_ranges(b, "09"), 1, -1));
    grammar_expr power =
        GRAMMAR_SEQUENCE(b, of_ranges(b, "eeEE"), grammar_optional(b, of_ranges(b, "++--")),
                         grammar_repeat(b, of_ranges(b, "09"), 1, 3));
    return GRAMMAR_SEQUENCE(b, schema_call(work, SCHEMA_INTEGER), grammar_optional(b, fraction),
                            grammar_optional(b, power));
}

static grammar_expr make_value(schema_work *work)
{
    grammar_builder *b = work->b;
    return GRAMMAR_CHOICE(b, schema_call(work, SCHEMA_STRING), schema_call(work, SCHEMA_NUMBER),
                          schema_call(work, SCHEMA_OBJECT), schema_call(work, SCHEMA_ARRAY),
                          grammar_word(b, "true"), grammar_word(b, "false"),
                          grammar_word(b, "null"));
}

// In brackets, with commas between.
static grammar_expr make_list(schema_work *work, const char *open, uint32_t member,
                              const char *close)
{
    grammar_builder *b = work->b;
    grammar_expr more =
        GRAMMAR_SEQUENCE(b, grammar_word(b, ","), schema_blanks(work), grammar_call(b, member));
    grammar_expr members =
        GRAMMAR_SEQUENCE(b, grammar_call(b, member), grammar_repeat(b, more, 0, -1));
    return GRAMMAR_SEQUENCE(b, grammar_word(b, open), schema_blanks(work),
                            grammar_optional(b, GRAMMAR_SEQUENCE(b, members, schema_blanks(work))),
                            grammar_word(b, close));
}

static grammar_expr make_object(schema_work *work)
{
    grammar_builder *b = work->b;
    uint32_t member = grammar_make_rule(
        b, GRAMMAR_SEQUENCE(b, schema_call(work, SCHEMA_STRING), grammar_word(b, ":"),
                            schema_blanks(work), schema_call(work, SCHEMA_VALUE)));
    return make_list(work, "{", member, "}");
}

static grammar_expr make_array(schema_work *work)
{
    return make_list(work, "[", grammar_make_rule(work->b, schema_call(work, SCHEMA_VALUE)), "]");
}

grammar_expr schema_call(schema_work *work, schema_rule rule)
{
    static grammar_expr (*const make[SCHEMA_RULES])(schema_work *) = {
        make_blanks,  make_character, make_string, make_number,
        make_integer, make_value,     make_object, make_array};
    if (!work->shared[rule]) {
        uint32_t made = grammar_new_rule(work->b, NULL, 0); // before it calls itself
        work->shared[rule] = made + 1;
        grammar_define(work->b, made, make[rule](work));
    }
    return grammar_call(work->b, work->shared[rule] - 1);
}

grammar_expr schema_blanks(schema_work *work)
{
    return schema_call(work, SCHEMA_BLANKS);
}

// --- values that are given ----------------------------------------------------------------------------

// A real number as shortly as it is still the same.
static void print_real(double value, char text[40])
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, 40, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
}

grammar_expr schema_literal(schema_work *work, const json_t *value)
{
    char real[40], *text;
    if (json_is_real(value)) {
        print_real(json_real_value(value), real);
        return grammar_word(work->b, real);
    }
    text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    grammar_expr literal =
        text ? grammar_word(work->b, text) : schema_fail(work, "a value is none");
    free(text);
    return literal;
}

grammar_expr schema_either(schema_work *work, grammar_expr one, grammar_expr other)
{
    return GRAMMAR_CHOICE(work->b, one, other);
}
