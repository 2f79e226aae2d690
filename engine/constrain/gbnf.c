// SPDX-License-Identifier: MIT
#include "engine/constrain/gbnf.h"

#include <string.h>

#include "engine/constrain/builder.h"
#include "engine/constrain/scan.h"

enum { MAX_GROUPS = 100, MAX_CLASS = 4096 };

typedef struct gbnf_reader {
    grammar_builder *b;
    scanner in;
    int groups; // that are open
} gbnf_reader;

static grammar_expr fail_at(gbnf_reader *r, const char *what)
{
    size_t line = 1;
    for (size_t i = 0; i < r->in.at && i < r->in.bytes; i++)
        line += r->in.text[i] == '\n';
    return grammar_fail(r->b, "line %zu: %s", line, what);
}

static int peek(const gbnf_reader *r)
{
    return scan_peek(&r->in);
}

static bool take(gbnf_reader *r, const char *word)
{
    return scan_take(&r->in, word);
}

static void skip_blanks(gbnf_reader *r, bool lines)
{
    for (int c; (c = peek(r)) >= 0; r->in.at++) {
        if (c == '#')
            while (r->in.at + 1 < r->in.bytes && r->in.text[r->in.at + 1] != '\n')
                r->in.at++;
        else if (c != ' ' && c != '\t' && c != '\r' && !(c == '\n' && lines))
            return;
    }
}

static bool is_name(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static size_t take_name(gbnf_reader *r)
{
    size_t from = r->in.at;
    while (is_name(peek(r)))
        r->in.at++;
    return r->in.at - from;
}

// --- characters ---------------------------------------------------------------------------------------

static bool take_hex(gbnf_reader *r, int digits, uint32_t *code)
{
    if (!scan_hex(&r->in, digits, code))
        return fail_at(r, "an escape lacks hexadecimal digits");
    bool fine = *code <= GRAMMAR_LAST_CODE && (*code < 0xD800 || *code > 0xDFFF);
    return fine || fail_at(r, "an escape is no character");
}

static bool take_escape(gbnf_reader *r, uint32_t *code)
{
    int c = peek(r);
    r->in.at += c >= 0;
    switch (c) {
    case 'n': *code = '\n'; return true;
    case 'r': *code = '\r'; return true;
    case 't': *code = '\t'; return true;
    case 'x': return take_hex(r, 2, code);
    case 'u': return take_hex(r, 4, code);
    case 'U': return take_hex(r, 8, code);
    default: break;
    }
    *code = (uint32_t)c;
    if (c > 0 && strchr("\"\\[]-^/", c))
        return true;
    return fail_at(r, "an unknown escape");
}

// A character of the text, which must be UTF-8.
static bool take_character(gbnf_reader *r, uint32_t *code)
{
    int c = peek(r);
    if (c < 0 || c == '\n')
        return fail_at(r, "a text or class is not closed on its line");
    if (take(r, "\\"))
        return take_escape(r, code);
    return scan_character(&r->in, code) || fail_at(r, "the grammar is not UTF-8");
}

static grammar_expr parse_text(gbnf_reader *r)
{
    grammar_expr whole = grammar_sequence(r->b);
    uint32_t code;
    while (!take(r, "\"")) {
        size_t from = r->in.at;
        bool escaped = peek(r) == '\\';
        if (!take_character(r, &code))
            return 0;
        while (!escaped && peek(r) >= 0x20 && peek(r) < 0x7F && peek(r) != '"' && peek(r) != '\\')
            r->in.at++;
        const code_range one = {code, code};
        grammar_add(r->b, whole,
                    escaped ? grammar_class(r->b, &one, 1, false)
                            : grammar_text(r->b, r->in.text + from, r->in.at - from));
    }
    return whole;
}

static grammar_expr parse_class(gbnf_reader *r)
{
    code_range ranges[MAX_CLASS];
    size_t count = 0;
    bool others = take(r, "^");
    while (!take(r, "]")) {
        code_range *range = &ranges[count++];
        if (!take_character(r, &range->first))
            return 0;
        range->last = range->first;
        if (peek(r) == '-' && r->in.at + 1 < r->in.bytes && r->in.text[r->in.at + 1] != ']') {
            r->in.at++;
            if (!take_character(r, &range->last))
                return 0;
        }
        if (range->last < range->first)
            return fail_at(r, "a range of characters goes backwards");
        if (count == MAX_CLASS)
            return fail_at(r, "a class has too many characters");
    }
    return grammar_class(r->b, ranges, count, others);
}

// <name>: a special token is written with its angle brackets, as vocabularies do.
static grammar_expr parse_special(gbnf_reader *r)
{
    size_t from = r->in.at - 1;
    while (peek(r) >= 0 && peek(r) != '\n' && peek(r) != '>')
        r->in.at++;
    if (!take(r, ">"))
        return fail_at(r, "the name of a special token is not closed with >");
    return grammar_special(r->b, r->in.text + from, r->in.at - from);
}

// --- expressions --------------------------------------------------------------------------------------

static grammar_expr parse_choice(gbnf_reader *r);

static grammar_expr parse_group(gbnf_reader *r)
{
    if (++r->groups > MAX_GROUPS)
        return fail_at(r, "too many parentheses inside each other");
    grammar_expr inner = parse_choice(r);
    r->groups--;
    skip_blanks(r, true);
    if (!take(r, ")") && !grammar_failed(r->b))
        return fail_at(r, "a parenthesis is not closed");
    return inner;
}

static grammar_expr parse_name(gbnf_reader *r)
{
    const char *name = r->in.text + r->in.at;
    size_t bytes = take_name(r);
    bool found;
    uint32_t rule = grammar_find_rule(r->b, name, bytes, &found);
    return grammar_call(r->b, found ? rule : grammar_new_rule(r->b, name, bytes));
}

// {3} {2,} {2,5} {,5}
static grammar_expr parse_times(gbnf_reader *r, grammar_expr part)
{
    int32_t least = 0, most;
    skip_blanks(r, false);
    bool any = scan_number(&r->in, GRAMMAR_MAX_REPEAT, &least);
    skip_blanks(r, false);
    most = least;
    if (take(r, ",")) {
        skip_blanks(r, false);
        if (!scan_number(&r->in, GRAMMAR_MAX_REPEAT, &most))
            most = -1;
        else
            any = true;
        skip_blanks(r, false);
    }
    if (!any || !take(r, "}"))
        return fail_at(r, "a repetition is written {3}, {2,} or {2,5}");
    return grammar_repeat(r->b, part, least, most);
}

static grammar_expr parse_repetition(gbnf_reader *r, grammar_expr part)
{
    for (int signs = 0; !grammar_failed(r->b); signs++) {
        if (signs == MAX_GROUPS)
            return fail_at(r, "too many signs of repetition behind each other");
        if (take(r, "*"))
            part = grammar_repeat(r->b, part, 0, -1);
        else if (take(r, "+"))
            part = grammar_repeat(r->b, part, 1, -1);
        else if (take(r, "?"))
            part = grammar_optional(r->b, part);
        else if (take(r, "{"))
            part = parse_times(r, part);
        else
            return part;
    }
    return part;
}

static grammar_expr parse_part(gbnf_reader *r)
{
    if (take(r, "\""))
        return parse_text(r);
    if (take(r, "["))
        return parse_class(r);
    if (take(r, "("))
        return parse_group(r);
    if (take(r, "<"))
        return parse_special(r);
    if (take(r, "."))
        return grammar_class(r->b, NULL, 0, true);
    if (is_name(peek(r)))
        return parse_name(r);
    return fail_at(r, "a text, a class, a name or a parenthesis is missing");
}

static bool ends_sequence(const gbnf_reader *r)
{
    int c = peek(r);
    return c < 0 || c == '|' || c == ')' || c == '\n';
}

static grammar_expr parse_sequence(gbnf_reader *r)
{
    grammar_expr whole = grammar_sequence(r->b);
    while (!grammar_failed(r->b)) {
        skip_blanks(r, r->groups > 0);
        if (ends_sequence(r))
            break;
        grammar_expr part = parse_part(r);
        skip_blanks(r, r->groups > 0);
        grammar_add(r->b, whole, parse_repetition(r, part));
    }
    return whole;
}

// Of a rule, the next line goes on where it begins with |.
static bool another_way(gbnf_reader *r)
{
    size_t from = r->in.at;
    skip_blanks(r, true);
    if (take(r, "|"))
        return true;
    r->in.at = from;
    return false;
}

static grammar_expr parse_choice(gbnf_reader *r)
{
    grammar_expr whole = grammar_choice(r->b);
    do
        grammar_add(r->b, whole, parse_sequence(r));
    while (!grammar_failed(r->b) && another_way(r));
    return whole;
}

static void parse_rule(gbnf_reader *r)
{
    const char *name = r->in.text + r->in.at;
    size_t bytes = take_name(r);
    bool found;
    uint32_t rule = grammar_find_rule(r->b, name, bytes, &found);
    skip_blanks(r, false);
    if (bytes == 0 || !take(r, "::=")) {
        fail_at(r, "a rule is written name ::= ...");
        return;
    }
    if (!found)
        rule = grammar_new_rule(r->b, name, bytes);
    else if (grammar_has_rule(r->b, rule)) {
        fail_at(r, "a rule is defined twice");
        return;
    }
    skip_blanks(r, true);
    grammar_expr whole = parse_choice(r);
    if (!grammar_failed(r->b) && peek(r) >= 0 && peek(r) != '\n')
        fail_at(r, "a parenthesis is closed that was not opened");
    grammar_define(r->b, rule, whole);
}

grammar *gbnf_parse(const char *text, size_t bytes, engine_error *err)
{
    gbnf_reader r = {.b = grammar_begin(err), .in = {.text = text, .bytes = bytes}};
    bool found;
    if (!r.b)
        return NULL;
    if (bytes > GRAMMAR_MAX_TEXT_BYTES)
        grammar_fail(r.b, "the grammar is longer than %d bytes", GRAMMAR_MAX_TEXT_BYTES);
    for (skip_blanks(&r, true); peek(&r) >= 0 && !grammar_failed(r.b); skip_blanks(&r, true))
        parse_rule(&r);
    uint32_t root = grammar_find_rule(r.b, "root", 4, &found);
    if (!found)
        grammar_fail(r.b, "the grammar has no rule 'root': that is what the whole text is");
    grammar *g = grammar_finish(r.b, root, err);
    if (!g)
        engine_fail_in(err, "grammar");
    return g;
}
