// SPDX-License-Identifier: MIT
#include "server/answer_parts.h"

#include <stdlib.h>
#include <string.h>

enum { BEGINNING, THINKING, BEHIND_THOUGHTS, TEXT, CALLS };
enum { VALUE_NONE, VALUE_NAME, VALUE_ARGUMENTS };

static const char OPENING[] = "<think>", CLOSING[] = "</think>", BLANKS[] = " \t\r\n";

static bool is_blank(char c)
{
    return c && strchr(BLANKS, c);
}

static void say(answer_parts *p, answer_part part, const char *text, size_t bytes)
{
    if (bytes > 0 || part == PART_CALL)
        p->say(p->user, part, text, bytes);
}

static bool append(answer_parts *p, tokenizer_text *to, const char *text, size_t bytes)
{
    p->no_memory = !tokenizer_text_append(to, text, bytes) || p->no_memory;
    return !p->no_memory;
}

// Takes away what is held before `at`.
static void drop(answer_parts *p, size_t at)
{
    p->held.size_bytes -= at;
    if (p->held.size_bytes > 0)
        memmove(p->held.data, p->held.data + at, p->held.size_bytes);
}

void answer_parts_think(answer_parts *parts)
{
    parts->section = THINKING;
}

// --- calls --------------------------------------------------------------------------------------------

static void end_key(answer_parts *p)
{
    bool name = p->word.size_bytes == 4 && memcmp(p->word.data, "name", 4) == 0;
    bool arguments = p->word.size_bytes == strlen(p->style->arguments) && p->word.size_bytes > 0 &&
                     memcmp(p->word.data, p->style->arguments, p->word.size_bytes) == 0;
    p->value = name ? VALUE_NAME : arguments ? VALUE_ARGUMENTS : VALUE_NONE;
    p->word.size_bytes = 0;
}

static void end_value(answer_parts *p)
{
    if (p->value == VALUE_NAME) {
        p->calls++;
        say(p, PART_CALL, p->word.data ? p->word.data : "", p->word.size_bytes);
    }
    p->value = VALUE_NONE;
    p->word.size_bytes = 0;
    p->is_key = true;
}

// A byte inside of a string; at depth 1 it belongs to a key or a name.
static void take_string_byte(answer_parts *p, char c)
{
    bool ends = c == '"' && !p->escaped;
    p->escaped = c == '\\' && !p->escaped;
    p->in_string = !ends;
    if (!ends && p->depth == 1 && (p->is_key || p->value == VALUE_NAME))
        append(p, &p->word, &c, 1);
}

// A byte of a call that is no part of a string.
static void take_plain_byte(answer_parts *p, char c)
{
    bool opens = c == '{' || c == '[', closes = c == '}' || c == ']';
    if (p->depth == 1 && (c == ',' || closes)) {
        end_value(p);
        p->depth -= closes;
        return;
    }
    if (p->depth == 1 && c == ':' && p->is_key) {
        p->is_key = false;
        end_key(p);
        return;
    }
    p->in_string = c == '"';
    p->depth += opens - closes;
}

// Outside of objects stand marks, commas and the brackets of a list: they say nothing.
static void take_call_byte(answer_parts *p, char c)
{
    if (p->depth == 0) {
        p->depth = c == '{';
        p->is_key = true;
        p->in_string = p->escaped = false;
        return;
    }
    bool inside = p->value == VALUE_ARGUMENTS;
    bool blank = p->depth == 1 && !p->in_string && is_blank(c);
    if (p->in_string)
        take_string_byte(p, c);
    else
        take_plain_byte(p, c);
    if (inside && p->value == VALUE_ARGUMENTS && !blank)
        append(p, &p->held, &c, 1);
}

static void add_to_calls(answer_parts *p, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        bool inside = p->value == VALUE_ARGUMENTS;
        take_call_byte(p, text[i]);
        if (inside && p->value != VALUE_ARGUMENTS) {
            say(p, PART_ARGUMENTS, p->held.data, p->held.size_bytes);
            p->held.size_bytes = 0;
        }
    }
    say(p, PART_ARGUMENTS, p->held.data ? p->held.data : "", p->held.size_bytes);
    p->held.size_bytes = 0;
}

// --- text ---------------------------------------------------------------------------------------------

// The place of a mark in what is held, or of its beginning at the end (*whole is false); else the end.
static size_t find(const answer_parts *p, const char *mark, bool *whole)
{
    size_t size = strlen(mark), held = p->held.size_bytes;
    *whole = false;
    for (size_t at = 0; size > 0 && at < held; at++) {
        size_t there = held - at < size ? held - at : size;
        if (memcmp(p->held.data + at, mark, there) != 0)
            continue;
        *whole = there == size;
        return at;
    }
    return held;
}

static size_t without_blanks(const char *text, size_t bytes)
{
    while (bytes > 0 && is_blank(text[bytes - 1]))
        bytes--;
    return bytes;
}

static void begin_calls(answer_parts *p, size_t behind)
{
    tokenizer_text rest = p->held;
    p->section = CALLS;
    p->held = (tokenizer_text){0};
    if (rest.size_bytes > behind)
        add_to_calls(p, rest.data + behind, rest.size_bytes - behind);
    tokenizer_text_free(&rest);
}

// Says what is held before `at`, but for blanks at its end.
static size_t say_text(answer_parts *p, answer_part part, size_t at)
{
    size_t size = without_blanks(p->held.data, at);
    say(p, part, p->held.data, size);
    p->any_text = p->any_text || size > 0;
    drop(p, size);
    return at - size;
}

// Thoughts up to the mark that closes them. Each of these returns whether the next section can go on.
static bool go_on_thinking(answer_parts *p)
{
    bool whole;
    size_t at = find(p, CLOSING, &whole);
    size_t left = say_text(p, PART_THOUGHT, at);
    if (!whole)
        return false;
    drop(p, left + sizeof CLOSING - 1);
    p->section = BEHIND_THOUGHTS;
    return true;
}

static bool skip_blanks(answer_parts *p)
{
    size_t blanks = 0;
    while (blanks < p->held.size_bytes && is_blank(p->held.data[blanks]))
        blanks++;
    drop(p, blanks);
    return p->held.size_bytes > 0;
}

static bool go_on_behind_thoughts(answer_parts *p)
{
    if (!skip_blanks(p))
        return false;
    p->section = TEXT;
    p->any_text = false;
    return true;
}

// Blanks and the mark that opens thoughts, or neither.
static bool go_on_beginning(answer_parts *p)
{
    size_t blanks = 0, size = sizeof OPENING - 1;
    while (blanks < p->held.size_bytes && is_blank(p->held.data[blanks]))
        blanks++;
    size_t left = p->held.size_bytes - blanks, there = left < size ? left : size;
    if (p->thinks && left == 0)
        return false;
    bool alike = p->thinks && memcmp(p->held.data + blanks, OPENING, there) == 0;
    if (alike && there < size)
        return false;
    if (alike)
        drop(p, blanks + size);
    p->section = alike ? THINKING : TEXT;
    if (alike)
        skip_blanks(p);
    return p->held.size_bytes > 0;
}

static bool begins_call(const answer_parts *p)
{
    size_t at = 0;
    while (at < p->held.size_bytes && is_blank(p->held.data[at]))
        at++;
    return p->style && !*p->style->mark && !p->any_text && at < p->held.size_bytes &&
           p->held.data[at] == '{';
}

static bool go_on_text(answer_parts *p)
{
    bool whole;
    const call_style *style = p->style;
    if (begins_call(p)) {
        begin_calls(p, 0);
        return false;
    }
    const char *mark = !style              ? ""
                       : *style->mark      ? style->mark
                       : style->other_mark ? style->other_mark
                                           : "";
    if (!style) {
        say(p, PART_TEXT, p->held.data, p->held.size_bytes);
        drop(p, p->held.size_bytes);
        return false;
    }
    size_t left = say_text(p, PART_TEXT, find(p, mark, &whole));
    if (whole)
        begin_calls(p, left + strlen(mark));
    return false;
}

static bool go_on(answer_parts *p)
{
    switch (p->section) {
    case BEGINNING: return go_on_beginning(p);
    case THINKING: return go_on_thinking(p);
    case BEHIND_THOUGHTS: return go_on_behind_thoughts(p);
    case TEXT: return go_on_text(p);
    default: return false;
    }
}

void answer_parts_add(answer_parts *p, const char *text, size_t bytes)
{
    if (bytes == 0)
        return;
    if (p->section == CALLS) {
        add_to_calls(p, text, bytes);
        return;
    }
    if (!append(p, &p->held, text, bytes))
        return;
    while (go_on(p))
        ;
}

void answer_parts_end(answer_parts *p)
{
    if (p->held.size_bytes > 0 && p->section != CALLS)
        say(p, p->section == THINKING ? PART_THOUGHT : PART_TEXT, p->held.data, p->held.size_bytes);
    p->held.size_bytes = 0;
}

void answer_parts_free(answer_parts *p)
{
    tokenizer_text_free(&p->held);
    tokenizer_text_free(&p->word);
}
