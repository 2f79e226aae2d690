// SPDX-License-Identifier: MIT
#include "engine/chat/call_parts.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "engine/chat/held_text.h"

// What comes next: of objects always OUTSIDE or INSIDE; of others the rest.
enum { OUTSIDE, INSIDE, OPENING, NAME, ID, ARGUMENTS, KEY_OR_END, KEY, VALUE, MARK };
enum { VALUE_NONE, VALUE_ID, VALUE_NAME, VALUE_ARGUMENTS };

static void append(call_parts *c, tokenizer_text *to, const char *text, size_t bytes)
{
    c->no_memory = !tokenizer_text_append(to, text, bytes) || c->no_memory;
}

static void say_arguments(call_parts *c, const char *text, size_t bytes)
{
    if (bytes > 0)
        c->say(c->user, PART_ARGUMENTS, text, bytes);
}

static void say_call(call_parts *c, const char *name, size_t bytes)
{
    c->function = call_function(c->tools, name, bytes);
    c->any_argument = false;
    c->count++;
    c->say(c->user, PART_CALL, name, bytes);
}

static void say_out(call_parts *c)
{
    say_arguments(c, c->out.data, c->out.size_bytes);
    c->out.size_bytes = 0;
}

void call_parts_begin(call_parts *c)
{
    if (c->style->body == CALL_OBJECT)
        c->step = OUTSIDE;
    else
        c->step = *c->style->open ? OPENING : NAME;
    c->scanned = 0;
}

// --- objects ------------------------------------------------------------------------------------------

static bool is_word(const call_parts *c, const char *name)
{
    return name && c->word.size_bytes == strlen(name) &&
           memcmp(c->word.data, name, c->word.size_bytes) == 0;
}

// False: no call has such a member in front of its name.
static bool end_key(call_parts *c)
{
    const call_style *style = c->style;
    c->value = c->word.size_bytes == 0            ? VALUE_NONE
               : is_word(c, style->name_key)      ? VALUE_NAME
               : is_word(c, style->id_key)        ? VALUE_ID
               : is_word(c, style->arguments_key) ? VALUE_ARGUMENTS
                                                  : VALUE_NONE;
    c->word.size_bytes = 0;
    c->is_key = false;
    return c->is_call || c->value == VALUE_NAME || c->value == VALUE_ID;
}

// False: it was a name that no function has.
static bool end_value(call_parts *c)
{
    bool named = c->value == VALUE_NAME && !c->is_call;
    if (named) {
        if (c->word.size_bytes == 0 || !call_function(c->tools, c->word.data, c->word.size_bytes))
            return false;
        c->is_call = true;
        say_call(c, c->word.data, c->word.size_bytes);
    }
    if (c->value == VALUE_ARGUMENTS)
        say_out(c);
    c->value = VALUE_NONE;
    c->word.size_bytes = 0;
    c->is_key = true;
    return true;
}

// A byte inside of a string; at depth 1 it belongs to a key or a name.
static void take_string_byte(call_parts *c, char byte)
{
    bool ends = byte == '"' && !c->escaped;
    c->escaped = byte == '\\' && !c->escaped;
    c->in_string = !ends;
    if (!ends && c->depth == 1 && (c->is_key || c->value == VALUE_NAME))
        append(c, &c->word, &byte, 1);
}

// A byte of an object that is no part of a string. False: it is no call.
static bool take_plain_byte(call_parts *c, char byte)
{
    bool opens = byte == '{' || byte == '[', closes = byte == '}' || byte == ']';
    if (c->depth == 1 && (byte == ',' || closes)) {
        c->depth -= closes;
        return end_value(c) && (c->depth > 0 || c->is_call);
    }
    if (c->depth == 1 && byte == ':' && c->is_key)
        return end_key(c);
    c->in_string = byte == '"';
    c->depth += opens - closes;
    return true;
}

static bool take_object_byte(call_parts *c, char byte)
{
    bool inside = c->value == VALUE_ARGUMENTS;
    bool blank = c->depth == 1 && !c->in_string && held_is_blank(byte);
    bool fine = true;
    if (c->in_string)
        take_string_byte(c, byte);
    else
        fine = take_plain_byte(c, byte);
    if (inside && c->value == VALUE_ARGUMENTS && !blank)
        append(c, &c->out, &byte, 1);
    return fine;
}

// Outside of objects stand marks, commas and the brackets of a list: they say nothing. An object is held until its
// function is known.
static bool take_objects(call_parts *c, tokenizer_text *held)
{
    while (c->scanned < held->size_bytes) {
        char byte = held->data[c->scanned++];
        if (c->step == INSIDE) {
            if (!take_object_byte(c, byte))
                return false;
            c->step = c->depth > 0 ? INSIDE : OUTSIDE;
        } else if (byte == '{') {
            held_drop(held, c->scanned - 1);
            c->scanned = 1;
            c->step = INSIDE;
            c->depth = 1;
            c->is_key = true;
            c->in_string = c->escaped = c->is_call = false;
            c->value = VALUE_NONE;
            c->word.size_bytes = 0;
        }
    }
    say_out(c);
    if (c->step == OUTSIDE || c->is_call) {
        held->size_bytes = 0;
        c->scanned = 0;
    }
    return true;
}

// --- names with arguments -----------------------------------------------------------------------------

static bool end_call(call_parts *c)
{
    c->step = c->style->marks_each ? MARK : OPENING;
    return true;
}

// Each of these takes a step, if what is held says enough for one.

// Up to a mark, which says nothing.
static bool pass(tokenizer_text *held, const char *mark)
{
    bool whole;
    size_t at = held_find(held, mark, &whole);
    held_drop(held, whole ? at + strlen(mark) : at);
    return whole;
}

// Where a name ends and what is behind it begins; false if neither is there yet.
static bool find_name_end(const call_style *style, const tokenizer_text *held, size_t *end,
                          size_t *behind)
{
    bool opens, closes;
    if (*style->separator) {
        *end = held_find(held, style->separator, &closes);
        *behind = *end + strlen(style->separator);
        return closes;
    }
    size_t key = held_find(held, style->key_open, &opens),
           close = held_find(held, style->close, &closes);
    *end = *behind = key < close ? key : close;
    return key < close ? opens : closes;
}

static bool take_name(call_parts *c, tokenizer_text *held)
{
    const call_style *style = c->style;
    bool has_id = false;
    size_t end, behind, id = held->size_bytes;
    bool ends = find_name_end(style, held, &end, &behind);
    if (style->id_mark)
        id = held_find(held, style->id_mark, &has_id);
    has_id = has_id && id < end;
    if (!has_id && (!ends || id < end))
        return false;
    size_t size = has_id ? id : end, blanks = held_blanks(held);
    size_t bytes = held_without_blanks(held, size);
    say_call(c, held->data + (blanks < bytes ? blanks : bytes),
             blanks < bytes ? bytes - blanks : 0);
    held_drop(held, has_id ? id + strlen(style->id_mark) : behind);
    c->step = has_id ? ID : style->body == CALL_TAGGED ? KEY_OR_END : ARGUMENTS;
    c->depth = 0;
    c->in_string = c->escaped = false;
    return true;
}

// A byte of JSON; true if with it the value is whole.
static bool ends_json(call_parts *c, char byte)
{
    if (c->in_string) {
        c->in_string = byte != '"' || c->escaped;
        c->escaped = byte == '\\' && !c->escaped;
        return false;
    }
    c->in_string = byte == '"';
    c->depth += (byte == '{' || byte == '[') - (byte == '}' || byte == ']');
    return c->depth <= 0;
}

static bool take_arguments(call_parts *c, tokenizer_text *held)
{
    size_t at = 0;
    bool ends = false;
    if (c->depth == 0)
        held_drop(held, held_blanks(held));
    if (c->depth == 0 && held->size_bytes > 0 && *held->data != '{')
        return end_call(c);
    while (at < held->size_bytes && !ends)
        ends = ends_json(c, held->data[at++]);
    say_arguments(c, held->data, at);
    held_drop(held, at);
    return ends && end_call(c);
}

// --- tagged arguments ---------------------------------------------------------------------------------

static bool take_key_or_end(call_parts *c, tokenizer_text *held)
{
    bool opens, closes;
    size_t key = held_find(held, c->style->key_open, &opens),
           end = held_find(held, c->style->close, &closes);
    if (opens && key < end) {
        held_drop(held, key + strlen(c->style->key_open));
        c->step = KEY;
        return true;
    }
    if (!closes || key < end)
        return false;
    held_drop(held, end + strlen(c->style->close));
    if (c->any_argument)
        say_arguments(c, "}", 1);
    else
        say_arguments(c, "{}", 2);
    return end_call(c);
}

// Text as a part of a string of JSON.
static void add_escaped(call_parts *c, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)text[i];
        char code[8];
        if (byte == '"' || byte == '\\')
            append(c, &c->out, "\\", 1);
        if (byte >= 0x20)
            append(c, &c->out, text + i, 1);
        else if (byte == '\n')
            append(c, &c->out, "\\n", 2);
        else
            append(c, &c->out, code, (size_t)snprintf(code, sizeof code, "\\u%04x", byte));
    }
}

static bool take_key(call_parts *c, tokenizer_text *held)
{
    bool whole;
    size_t end = held_find(held, c->style->key_close, &whole);
    if (!whole)
        return false;
    append(c, &c->out, c->any_argument ? ", \"" : "{\"", c->any_argument ? 3 : 2);
    add_escaped(c, held->data, end);
    c->is_text = call_argument_is_text(c->function, held->data, end);
    append(c, &c->out, c->is_text ? "\": \"" : "\": ", c->is_text ? 4 : 3);
    held_drop(held, end + strlen(c->style->key_close));
    c->any_argument = true;
    c->step = VALUE;
    say_out(c);
    return true;
}

static bool take_value(call_parts *c, tokenizer_text *held)
{
    bool whole;
    size_t end = held_find(held, c->style->value_close, &whole);
    if (c->is_text)
        add_escaped(c, held->data, end);
    else
        append(c, &c->out, held->data, end);
    if (whole && c->is_text)
        append(c, &c->out, "\"", 1);
    say_out(c);
    held_drop(held, whole ? end + strlen(c->style->value_close) : end);
    c->step = whole ? KEY_OR_END : VALUE;
    return whole;
}

// --- all ----------------------------------------------------------------------------------------------

static bool take_step(call_parts *c, tokenizer_text *held)
{
    const call_style *style = c->style;
    switch (c->step) {
    case OPENING:
        if (!pass(held, style->open))
            return false;
        c->step = NAME;
        return true;
    case NAME: return take_name(c, held);
    case ID:
        if (!pass(held, style->separator))
            return false;
        c->step = ARGUMENTS;
        return true;
    case ARGUMENTS: return take_arguments(c, held);
    case KEY_OR_END: return take_key_or_end(c, held);
    case KEY: return take_key(c, held);
    case VALUE: return take_value(c, held);
    default: // MARK
        if (!pass(held, style->mark))
            return false;
        c->step = *style->open ? OPENING : NAME;
        return true;
    }
}

bool call_parts_take(call_parts *c, tokenizer_text *held)
{
    if (c->style->body == CALL_OBJECT)
        return take_objects(c, held);
    while (held->size_bytes > 0 && take_step(c, held))
        ;
    return true;
}

bool call_parts_end(call_parts *c, tokenizer_text *held)
{
    if (c->style->body == CALL_OBJECT)
        return c->step == OUTSIDE || c->is_call;
    if (c->step == VALUE) { // which was cut off
        (c->is_text ? add_escaped(c, held->data, held->size_bytes)
                    : append(c, &c->out, held->data, held->size_bytes));
        say_out(c);
    }
    held->size_bytes = 0;
    return true;
}

void call_parts_free(call_parts *c)
{
    tokenizer_text_free(&c->word);
    tokenizer_text_free(&c->out);
}
