// SPDX-License-Identifier: MIT
#include "engine/chat/answer_parts.h"

#include <string.h>

#include "engine/chat/held_text.h"

enum { BEGINNING, BEFORE_THOUGHTS, THINKING, BEHIND_THOUGHTS, LEAD, TEXT, CALLS };

static void say(answer_parts *p, answer_part part, const char *text, size_t bytes)
{
    if (bytes > 0)
        p->calls.say(p->calls.user, part, text, bytes);
}

answer_thoughts answer_thoughts_of(const thought_style *thoughts, const tokenizer *t,
                                   const tokenizer_ids *prompt)
{
    enum { TAIL = 8 }; // tokens
    size_t count = prompt->count < TAIL ? prompt->count : TAIL;
    tokenizer_text text = {0};
    answer_thoughts found = ANSWER_MAY_THINK;
    if (!thoughts)
        return ANSWER_NO_THOUGHTS;
    size_t size = strlen(thoughts->open);
    if (tokenizer_decode(t, prompt->ids + prompt->count - count, count, TOKENIZER_SHOW_SPECIAL,
                         &text, NULL)) {
        size_t end = held_without_blanks(&text, text.size_bytes);
        if (end >= size && memcmp(text.data + end - size, thoughts->open, size) == 0)
            found = ANSWER_THINKS;
    }
    tokenizer_text_free(&text);
    return found;
}

void answer_parts_think(answer_parts *parts)
{
    parts->section = BEFORE_THOUGHTS;
}

// Says what is held before `at`, but for blanks at its end; how many of these are left.
static size_t say_text(answer_parts *p, answer_part part, size_t at)
{
    size_t size = held_without_blanks(&p->held, at);
    say(p, part, p->held.data, size);
    p->any_text = p->any_text || size > 0;
    p->any_thought = p->any_thought || (size > 0 && part == PART_THOUGHT);
    held_drop(&p->held, size);
    return at - size;
}

// Thoughts up to the mark that closes them. Each of these returns whether the next section can go on.
static bool go_on_thinking(answer_parts *p)
{
    bool whole;
    size_t at = held_find(&p->held, p->thoughts->close, &whole);
    size_t left = say_text(p, PART_THOUGHT, at);
    if (!whole)
        return false;
    held_drop(&p->held, left + strlen(p->thoughts->close));
    p->section = BEHIND_THOUGHTS;
    return true;
}

// Blanks between sections are nobody's.
static bool go_on_to(answer_parts *p, int section)
{
    held_drop(&p->held, held_blanks(&p->held));
    if (p->held.size_bytes == 0)
        return false;
    p->section = (uint8_t)section;
    p->any_text = false;
    return true;
}

// Is a mark in front of what is held, behind `blanks`? *open: it may still come.
static bool begins_with(const answer_parts *p, size_t blanks, const char *mark, bool *open)
{
    size_t left = p->held.size_bytes - blanks, size = strlen(mark),
           there = left < size ? left : size;
    bool alike = memcmp(p->held.data + blanks, mark, there) == 0;
    *open = alike && there < size;
    return alike && there == size;
}

// Blanks and the mark that opens thoughts, or neither.
static bool go_on_beginning(answer_parts *p)
{
    bool open = false;
    size_t blanks = held_blanks(&p->held);
    if (p->thinks && begins_with(p, blanks, p->thoughts->open, &open)) {
        held_drop(&p->held, blanks + strlen(p->thoughts->open));
        if (p->any_thought)
            say(p, PART_THOUGHT, "\n\n", 2);
        p->section = BEFORE_THOUGHTS;
        return true;
    }
    p->section = open ? BEGINNING : LEAD;
    return !open;
}

// What may stand in front of an answer.
static bool go_on_lead(answer_parts *p)
{
    bool open = false;
    const char *lead = p->thoughts ? p->thoughts->lead : NULL;
    if (lead && begins_with(p, 0, lead, &open))
        held_drop(&p->held, strlen(lead));
    p->section = open ? LEAD : TEXT;
    return !open && p->held.size_bytes > 0;
}

static bool begins_call(const answer_parts *p)
{
    size_t at = held_blanks(&p->held);
    return !*p->calls.style->mark && !p->any_text && at < p->held.size_bytes &&
           p->held.data[at] == '{';
}

static bool begin_calls(answer_parts *p, size_t behind)
{
    held_drop(&p->held, behind);
    p->section = CALLS;
    call_parts_begin(&p->calls);
    return p->held.size_bytes > 0;
}

static bool go_on_text(answer_parts *p)
{
    bool whole;
    const call_style *style = p->calls.style;
    const char *mark = !style ? NULL : *style->mark ? style->mark : style->other_mark;
    if (style && begins_call(p))
        return begin_calls(p, 0);
    if (!style) {
        say(p, PART_TEXT, p->held.data, p->held.size_bytes);
        p->held.size_bytes = 0;
        return false;
    }
    if (!mark) {
        say_text(p, PART_TEXT, p->held.size_bytes);
        return false;
    }
    size_t left = say_text(p, PART_TEXT, held_find(&p->held, mark, &whole));
    return whole && begin_calls(p, left + strlen(mark));
}

static bool go_on_calls(answer_parts *p)
{
    if (call_parts_take(&p->calls, &p->held))
        return false;
    p->section = TEXT;
    p->any_text = true;
    return true;
}

static bool go_on(answer_parts *p)
{
    switch (p->section) {
    case BEGINNING: return go_on_beginning(p);
    case BEFORE_THOUGHTS: return go_on_to(p, THINKING);
    case THINKING: return go_on_thinking(p);
    case BEHIND_THOUGHTS: return go_on_to(p, BEGINNING); // there may be more of them
    case LEAD: return go_on_lead(p);
    case TEXT: return go_on_text(p);
    default: return go_on_calls(p);
    }
}

void answer_parts_add(answer_parts *p, const char *text, size_t bytes)
{
    if (bytes == 0)
        return;
    if (!tokenizer_text_append(&p->held, text, bytes)) {
        p->no_memory = true;
        return;
    }
    while (go_on(p))
        ;
    p->no_memory = p->no_memory || p->calls.no_memory;
}

void answer_parts_token(answer_parts *p, const tokenizer *t, int32_t token, const char *text,
                        size_t bytes)
{
    tokenizer_bytes name;
    answer_parts_add(p, text, bytes);
    if (token != TOKENIZER_NONE && tokenizer_is_special(t, token) &&
        tokenizer_piece(t, token, &name) &&
        style_has(p->calls.style, p->thoughts, name.data, name.size_bytes))
        answer_parts_add(p, name.data, name.size_bytes);
}

void answer_parts_end(answer_parts *p)
{
    bool text = p->section != CALLS || !call_parts_end(&p->calls, &p->held);
    if (text)
        say(p, p->section == THINKING ? PART_THOUGHT : PART_TEXT, p->held.data, p->held.size_bytes);
    p->held.size_bytes = 0;
}

void answer_parts_free(answer_parts *p)
{
    tokenizer_text_free(&p->held);
    call_parts_free(&p->calls);
}
