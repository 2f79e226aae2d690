// SPDX-License-Identifier: MIT
// What expressions, filters, tests and methods do with values while a template runs.
#include <string.h>

#include "engine/chat/jinja/jinja_run.h"

static const jinja_value UNDEFINED = {.kind = JINJA_UNDEFINED};

jinja_value jinja_lookup(jinja_run *run, jinja_text name)
{
    jinja_text own = name;
    jinja_value key = {.kind = JINJA_TEXT, .text = &own};
    for (const jinja_frame *frame = run->frame; frame; frame = frame->outer)
        if (jinja_has_key(run->box, frame->names, key))
            return jinja_find(run->box, frame->names, key);
    return (jinja_value){.kind = JINJA_UNDEFINED};
}

jinja_value jinja_new_callable(jinja_run *run, jinja_callable callable)
{
    jinja_callable *kept = jinja_take(run->box, 1, sizeof *kept);
    if (!kept)
        return (jinja_value){.kind = JINJA_UNDEFINED};
    *kept = callable;
    return (jinja_value){.kind = JINJA_CALLABLE, .callable = kept};
}

jinja_value jinja_next(jinja_list *left)
{
    left->count--;
    return *left->items++;
}

// --- attributes, items, slices ------------------------------------------------------------------------------

static int64_t length_of(jinja_value object)
{
    if (object.kind == JINJA_TEXT)
        return (int64_t)jinja_characters(*object.text);
    return object.kind == JINJA_LIST ? (int64_t)object.list->count : 0;
}

static jinja_value element(jinja_run *run, jinja_value object, int64_t index)
{
    int64_t length = length_of(object);
    index += index < 0 ? length : 0;
    if (index < 0 || index >= length)
        return UNDEFINED;
    if (object.kind == JINJA_LIST)
        return object.list->items[index];
    size_t begin = jinja_character_at(*object.text, (size_t)index);
    size_t end = jinja_character_at(*object.text, (size_t)index + 1);
    jinja_step(run->box, object.text->size_bytes / 64);
    return jinja_of_text(run->box, jinja_part(*object.text, begin, end - begin));
}

// object[key], and object.name with a text for a key.
jinja_value jinja_attribute(jinja_run *run, jinja_value object, jinja_value key)
{
    if (object.kind == JINJA_UNDEFINED)
        return jinja_refuse(
            run->box, "'%.*s' of an undefined value",
            key.kind == JINJA_TEXT && key.text->size_bytes < 80 ? (int)key.text->size_bytes : 1,
            key.kind == JINJA_TEXT ? key.text->data : "?");
    if (object.kind == JINJA_DICT)
        return jinja_find(run->box, object.dict, key);
    if ((object.kind == JINJA_LIST || object.kind == JINJA_TEXT) &&
        (key.kind == JINJA_INT || key.kind == JINJA_BOOL))
        return element(run, object, key.kind == JINJA_BOOL ? key.boolean : key.integer);
    return UNDEFINED;
}

static int64_t bound(jinja_value value, int64_t fallback, int64_t length, int64_t low, int64_t high)
{
    if (value.kind != JINJA_INT)
        return fallback;
    int64_t at = value.integer < 0 ? value.integer + length : value.integer;
    return at < low ? low : at > high ? high : at;
}

// object[start:stop:step] as Python has it; missing bounds are undefined or none.
jinja_value jinja_slice(jinja_run *run, jinja_value object, const jinja_value bounds[3])
{
    int64_t step = bounds[2].kind == JINJA_INT ? bounds[2].integer : 1;
    if (object.kind != JINJA_TEXT && object.kind != JINJA_LIST)
        return jinja_refuse(run->box, "a %s is sliced", jinja_type_name(object));
    if (step == 0 || step < -INT32_MAX || step > INT32_MAX)
        return jinja_refuse(run->box, "a slice steps by %lld", (long long)step);
    int64_t length = length_of(object), low = step < 0 ? -1 : 0,
            high = step < 0 ? length - 1 : length;
    int64_t start = bound(bounds[0], step < 0 ? high : 0, length, low, high);
    int64_t stop = bound(bounds[1], step < 0 ? -1 : length, length, low, high);
    if (object.kind == JINJA_TEXT && step == 1) {
        size_t begin = jinja_character_at(*object.text, (size_t)start);
        size_t end = jinja_character_at(*object.text, (size_t)(stop > start ? stop : start));
        jinja_step(run->box, object.text->size_bytes / 64 + 1);
        return jinja_of_text(run->box, jinja_part(*object.text, begin, end - begin));
    }
    jinja_value items = jinja_items_of(run->box, object), picked = jinja_new_list(run->box);
    for (int64_t i = start; !run->box->failed && (step > 0 ? i < stop : i > stop); i += step)
        jinja_append(run->box, picked, items.list->items[i]);
    if (object.kind == JINJA_LIST || run->box->failed)
        return picked;
    jinja_writer writer = {.box = run->box};
    for (size_t i = 0; i < picked.list->count; i++)
        jinja_print(&writer, picked.list->items[i]);
    return jinja_of_text(run->box, jinja_written(&writer));
}

bool jinja_contains(jinja_run *run, jinja_value container, jinja_value item)
{
    if (container.kind == JINJA_TEXT && item.kind == JINJA_TEXT) {
        jinja_step(run->box, container.text->size_bytes / 16);
        return jinja_seek(*container.text, *item.text, 0) != SIZE_MAX;
    }
    if (container.kind == JINJA_DICT)
        return jinja_has_key(run->box, container.dict, item);
    if (container.kind == JINJA_LIST) {
        for (size_t i = 0; i < container.list->count && !run->box->failed; i++)
            if (jinja_equal(run->box, container.list->items[i], item))
                return true;
        return false;
    }
    if (container.kind == JINJA_GENERATOR) {
        while (container.list->count && !run->box->failed)
            if (jinja_equal(run->box, jinja_next(container.list), item))
                return true;
        return false;
    }
    if (container.kind != JINJA_UNDEFINED)
        jinja_refuse(run->box, "a %s is searched for in a %s", jinja_type_name(item),
                     jinja_type_name(container));
    return false;
}

// --- arguments ------------------------------------------------------------------------------------------------

jinja_value jinja_argument(jinja_run *run, const jinja_arguments *given, size_t n, const char *name)
{
    jinja_text text = {.data = name, .size_bytes = strlen(name)};
    if (n < given->count)
        return given->items[n];
    return given->named ? jinja_find(run->box, given->named,
                                     (jinja_value){.kind = JINJA_TEXT, .text = &text})
                        : UNDEFINED;
}

int64_t jinja_argument_int(jinja_run *run, const jinja_arguments *given, size_t n, const char *name,
                           int64_t fallback)
{
    jinja_value value = jinja_argument(run, given, n, name);
    return value.kind == JINJA_INT    ? value.integer
           : value.kind == JINJA_BOOL ? value.boolean
                                      : fallback;
}
