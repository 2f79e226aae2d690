// SPDX-License-Identifier: MIT
// Regular expressions as grammars of the strings of JSON in which they are found: what a schema's `pattern` says.
// ECMAScript's syntax as far as it is regular: alternatives, groups, classes, \d \w \s and their opposites, escapes,
// quantifiers, ^ and $ at the ends of an alternative. A character that JSON escapes is written with its escape, and
// of control characters only those that have a short one are among what a class leaves over.
#include <stdio.h>
#include <string.h>

#include "engine/constrain/scan.h"
#include "engine/constrain/schema_build.h"

enum { MAX_PARENTHESES = 50, MAX_RANGES = 1024 };

typedef struct pattern_reader {
    schema_work *work;
    grammar_builder *b;
    scanner in;
    int depth;
} pattern_reader;

typedef struct character_set {
    code_range ranges[MAX_RANGES];
    size_t count;
    bool others;
} character_set;

static grammar_expr fail_at(pattern_reader *r, const char *what)
{
    return schema_fail(r->work, "'pattern', character %zu: %s", r->in.at, what);
}

static int peek(const pattern_reader *r)
{
    return scan_peek(&r->in);
}

static bool take(pattern_reader *r, const char *word)
{
    return scan_take(&r->in, word);
}

// --- characters ---------------------------------------------------------------------------------------

static void add_range(character_set *set, uint32_t first, uint32_t last)
{
    if (set->count < MAX_RANGES)
        set->ranges[set->count++] = (code_range){first, last};
}

// The control characters that JSON can write shortly, and the two that end or escape.
static const char SHORT[] = "\"\\\b\f\n\r\t", LETTERS[] = "\"\\bfnrt";

static bool has(const character_set *set, uint32_t code)
{
    for (size_t i = 0; i < set->count; i++)
        if (code >= set->ranges[i].first && code <= set->ranges[i].last)
            return !set->others;
    return set->others;
}

// One character of the set, as JSON writes it.
static grammar_expr character(pattern_reader *r, character_set *set)
{
    grammar_builder *b = r->b;
    grammar_expr ways = grammar_choice(b);
    char text[8];
    for (uint32_t code = 0; code < 0x60 && !grammar_failed(b); code++) {
        const char *at = code ? strchr(SHORT, (int)code) : NULL;
        if (!has(set, code) || (!at && (code >= 0x20 || set->others)))
            continue;
        if (at)
            snprintf(text, sizeof text, "\\%c", LETTERS[at - SHORT]);
        else
            snprintf(text, sizeof text, "\\u%04x", (unsigned)code);
        grammar_add(b, ways, grammar_word(b, text));
    }
    if (set->count > MAX_RANGES - 4)
        return fail_at(r, "a class has too many characters");
    code_range plain[MAX_RANGES + 8];
    size_t count = 0;
    static const code_range ordinary[] = {{0x20, '!'}, {'#', '['}, {']', GRAMMAR_LAST_CODE}};
    if (set->others) { // all but the set, and but what is escaped
        static const code_range escaped[] = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
        memcpy(plain, set->ranges, set->count * sizeof *plain);
        memcpy(plain + set->count, escaped, sizeof escaped);
        grammar_add(b, ways, grammar_class(b, plain, set->count + 3, true));
        return ways;
    }
    for (size_t i = 0; i < set->count; i++)
        for (int n = 0; n < 3; n++) {
            uint32_t first = set->ranges[i].first, last = set->ranges[i].last;
            first = first > ordinary[n].first ? first : ordinary[n].first;
            last = last < ordinary[n].last ? last : ordinary[n].last;
            if (first <= last && count < MAX_RANGES + 8)
                plain[count++] = (code_range){first, last};
        }
    if (count > MAX_RANGES)
        return fail_at(r, "a class has too many characters");
    grammar_add(b, ways, grammar_class(b, plain, count, false));
    return ways;
}

static void add_others(character_set *set, const code_range *ranges, size_t count)
{
    uint32_t next = 0;
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].first > next)
            add_range(set, next, ranges[i].first - 1);
        next = ranges[i].last + 1;
    }
    add_range(set, next, GRAMMAR_LAST_CODE);
}

// \d \w \s and their opposites; false: it is none of them.
static bool add_kind(character_set *set, int letter)
{
    static const code_range digits[] = {{'0', '9'}},
                            words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                            spaces[] = {{'\t', '\r'}, {' ', ' '}};
    const code_range *ranges = NULL;
    size_t count = 0;
    switch (letter | 0x20) {
    case 'd': ranges = digits, count = 1; break;
    case 'w': ranges = words, count = 4; break;
    case 's': ranges = spaces, count = 2; break;
    default: return false;
    }
    if (letter & 0x20)
        for (size_t i = 0; i < count; i++)
            add_range(set, ranges[i].first, ranges[i].last);
    else
        add_others(set, ranges, count);
    return true;
}

static bool take_hex(pattern_reader *r, int digits, uint32_t *code)
{
    if (!scan_hex(&r->in, digits, code))
        return fail_at(r, "an escape lacks hexadecimal digits");
    return (*code < 0xD800 || *code > 0xDFFF) || fail_at(r, "an escape is half a character");
}

// Behind a backslash: a character, or a kind (*is_kind), which is added to the set.
static bool take_escape(pattern_reader *r, character_set *set, uint32_t *code, bool *is_kind)
{
    static const char letters[] = "nrtfv0", codes[] = {'\n', '\r', '\t', '\f', '\v', 0};
    int c = peek(r);
    *is_kind = c > 0 && strchr("dwsDWS", c) && add_kind(set, c);
    if (c < 0)
        return fail_at(r, "an escape is not complete");
    r->in.at++;
    if (*is_kind)
        return true;
    const char *at = strchr(letters, c);
    if (at) {
        *code = (uint32_t)codes[at - letters];
        return true;
    }
    if (c == 'x' || c == 'u')
        return take_hex(r, c == 'x' ? 2 : 4, code);
    *code = (uint32_t)c;
    if (c < 0x80 && strchr("^$\\.*+?()[]{}|/-\"'!#%&,:;<=>@_`~ ", c))
        return true;
    return fail_at(r, "this escape is not served");
}

static bool take_plain(pattern_reader *r, uint32_t *code)
{
    return scan_character(&r->in, code) || fail_at(r, "it is not complete");
}

static bool take_class_member(pattern_reader *r, character_set *set, uint32_t *code, bool *is_kind)
{
    *is_kind = false;
    if (!take(r, "\\"))
        return take_plain(r, code);
    if (peek(r) != 'b')
        return take_escape(r, set, code, is_kind);
    r->in.at++;
    *code = '\b';
    return true;
}

static grammar_expr parse_class(pattern_reader *r)
{
    character_set set = {.count = 0};
    set.others = take(r, "^");
    while (!take(r, "]")) {
        uint32_t first, last;
        bool is_kind, ends_kind = false;
        if (!take_class_member(r, &set, &first, &is_kind))
            return 0;
        last = first;
        bool range = !is_kind && peek(r) == '-' && r->in.at + 1 < r->in.bytes &&
                     r->in.text[r->in.at + 1] != ']';
        r->in.at += range;
        if (range && !take_class_member(r, &set, &last, &ends_kind))
            return 0;
        if (range && (ends_kind || last < first))
            return fail_at(r, "a range of characters is none");
        if (!is_kind)
            add_range(&set, first, last);
    }
    return character(r, &set);
}

// --- expressions --------------------------------------------------------------------------------------

static grammar_expr parse_ways(pattern_reader *r, bool outermost);

static grammar_expr parse_group(pattern_reader *r)
{
    if (++r->depth > MAX_PARENTHESES)
        return fail_at(r, "too many parentheses inside each other");
    if (take(r, "?") && !take(r, ":")) {
        if (!take(r, "<") || peek(r) == '=' || peek(r) == '!')
            return fail_at(r, "looking ahead or behind is not served");
        while (peek(r) > 0 && peek(r) != '>')
            r->in.at++;
        take(r, ">");
    }
    grammar_expr inner = parse_ways(r, false);
    r->depth--;
    if (!take(r, ")") && !grammar_failed(r->b))
        return fail_at(r, "a parenthesis is not closed");
    return inner;
}

static grammar_expr parse_atom(pattern_reader *r)
{
    character_set set = {.count = 0};
    uint32_t code = 0;
    bool is_kind = false;
    if (take(r, "("))
        return parse_group(r);
    if (take(r, "["))
        return parse_class(r);
    if (take(r, ".")) {
        set.others = true;
        add_range(&set, '\n', '\n');
        add_range(&set, '\r', '\r');
        add_range(&set, 0x2028, 0x2029);
        return character(r, &set);
    }
    if (peek(r) > 0 && strchr("*+?{}^$", peek(r)))
        return fail_at(
            r, "^ and $ stand at the ends, quantifiers behind something; others are escaped");
    bool fine = take(r, "\\") ? take_escape(r, &set, &code, &is_kind) : take_plain(r, &code);
    if (!fine)
        return 0;
    if (!is_kind)
        add_range(&set, code, code);
    return character(r, &set);
}

static grammar_expr parse_times(pattern_reader *r, grammar_expr atom)
{
    int32_t least, most;
    if (!scan_number(&r->in, GRAMMAR_MAX_REPEAT, &least))
        return fail_at(r, "a quantifier is written {3}, {2,} or {2,5}");
    most = least;
    if (take(r, ",") && !scan_number(&r->in, GRAMMAR_MAX_REPEAT, &most))
        most = -1;
    if (!take(r, "}"))
        return fail_at(r, "a quantifier is written {3}, {2,} or {2,5}");
    return grammar_repeat(r->b, atom, least, most);
}

static grammar_expr parse_quantified(pattern_reader *r)
{
    grammar_expr atom = parse_atom(r);
    bool quantified = true;
    if (grammar_failed(r->b))
        return 0;
    if (take(r, "*"))
        atom = grammar_repeat(r->b, atom, 0, -1);
    else if (take(r, "+"))
        atom = grammar_repeat(r->b, atom, 1, -1);
    else if (take(r, "?"))
        atom = grammar_optional(r->b, atom);
    else if (take(r, "{"))
        atom = parse_times(r, atom);
    else
        quantified = false;
    if (quantified)
        take(r, "?"); // as little as possible: the same strings
    return atom;
}

static grammar_expr anything(pattern_reader *r)
{
    return grammar_repeat(r->b, schema_call(r->work, SCHEMA_CHARACTER), 0, -1);
}

static grammar_expr parse_way(pattern_reader *r, bool outermost)
{
    grammar_expr whole = grammar_sequence(r->b);
    bool begins = take(r, "^"), ends = false;
    if (begins && !outermost)
        return fail_at(r, "^ inside parentheses is not served");
    if (outermost && !begins)
        grammar_add(r->b, whole, anything(r));
    while (!grammar_failed(r->b) && peek(r) >= 0 && peek(r) != '|' && peek(r) != ')' && !ends) {
        ends = outermost && take(r, "$");
        if (!ends)
            grammar_add(r->b, whole, parse_quantified(r));
    }
    if (outermost && !ends)
        grammar_add(r->b, whole, anything(r));
    return whole;
}

static grammar_expr parse_ways(pattern_reader *r, bool outermost)
{
    grammar_expr ways = grammar_choice(r->b);
    do
        grammar_add(r->b, ways, parse_way(r, outermost));
    while (!grammar_failed(r->b) && take(r, "|"));
    return ways;
}

grammar_expr schema_pattern(schema_work *work, const char *pattern, size_t bytes)
{
    pattern_reader r = {.work = work, .b = work->b, .in = {.text = pattern, .bytes = bytes}};
    grammar_expr ways = parse_ways(&r, true);
    if (r.in.at < bytes && !grammar_failed(work->b))
        return fail_at(&r, "a parenthesis or $ stands where it cannot");
    return ways;
}
