// SPDX-License-Identifier: MIT
// Methods of texts and dicts. Lists have no methods: a template cannot change what it was given.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "engine/chat/jinja/jinja_run.h"
#include "engine/chat/jinja/jinja_words.h"

#define METHOD(name)                                                                               \
    static jinja_value name(jinja_run *run, jinja_value object, const jinja_arguments *given)

// --- texts ------------------------------------------------------------------------------------------------

static jinja_value strip(jinja_run *run, jinja_value object, const jinja_arguments *given,
                         bool left, bool right)
{
    jinja_value set = jinja_argument(run, given, 0, "chars");
    return jinja_of_text(
        run->box, jinja_strip(*object.text, set.kind == JINJA_TEXT ? set.text : NULL, left, right));
}

METHOD(m_strip)
{
    return strip(run, object, given, true, true);
}

METHOD(m_lstrip)
{
    return strip(run, object, given, true, false);
}

METHOD(m_rstrip)
{
    return strip(run, object, given, false, true);
}

METHOD(m_lower)
{
    (void)given;
    return jinja_lower(run, *object.text);
}

METHOD(m_upper)
{
    (void)given;
    return jinja_upper(run, *object.text);
}

METHOD(m_capitalize)
{
    (void)given;
    return jinja_capitalize(run, *object.text);
}

METHOD(m_title)
{
    (void)given;
    return jinja_title(run, *object.text);
}

METHOD(m_replace)
{
    jinja_value from = jinja_argument(run, given, 0, "old"),
                to = jinja_argument(run, given, 1, "new");
    if (from.kind != JINJA_TEXT || to.kind != JINJA_TEXT)
        return jinja_refuse(run->box, "replace needs two texts");
    return jinja_replace(run, *object.text, *from.text, *to.text,
                         jinja_argument_int(run, given, 2, "count", -1));
}

static bool has_end(jinja_text text, jinja_text part, bool at_start)
{
    if (part.size_bytes > text.size_bytes)
        return false;
    size_t at = at_start ? 0 : text.size_bytes - part.size_bytes;
    return jinja_same(jinja_part(text, at, part.size_bytes), part);
}

// The argument is a text or a tuple of them.
static jinja_value ends(jinja_run *run, jinja_value object, const jinja_arguments *given,
                        bool at_start)
{
    jinja_value part = jinja_argument(run, given, 0, "prefix");
    if (part.kind == JINJA_TEXT)
        return jinja_bool(has_end(*object.text, *part.text, at_start));
    if (part.kind != JINJA_LIST)
        return jinja_refuse(run->box, "startswith and endswith need a text");
    for (size_t i = 0; i < part.list->count; i++)
        if (part.list->items[i].kind == JINJA_TEXT &&
            has_end(*object.text, *part.list->items[i].text, at_start))
            return jinja_bool(true);
    return jinja_bool(false);
}

METHOD(m_startswith)
{
    return ends(run, object, given, true);
}

METHOD(m_endswith)
{
    return ends(run, object, given, false);
}

static jinja_value without(jinja_run *run, jinja_value object, const jinja_arguments *given,
                           bool at_start)
{
    jinja_value part = jinja_argument(run, given, 0, "prefix");
    if (part.kind != JINJA_TEXT || !has_end(*object.text, *part.text, at_start))
        return object;
    size_t size = object.text->size_bytes - part.text->size_bytes;
    return jinja_of_text(run->box,
                         jinja_part(*object.text, at_start ? part.text->size_bytes : 0, size));
}

METHOD(m_removeprefix)
{
    return without(run, object, given, true);
}

METHOD(m_removesuffix)
{
    return without(run, object, given, false);
}

// The last place of needle in text[0 .. end), SIZE_MAX if there is none.
static size_t seek_back(jinja_text text, jinja_text needle, size_t end)
{
    if (needle.size_bytes > end)
        return SIZE_MAX;
    for (size_t at = end - needle.size_bytes + 1; at-- > 0;)
        if (memcmp(text.data + at, needle.data, needle.size_bytes) == 0)
            return at;
    return SIZE_MAX;
}

static jinja_value find(jinja_run *run, jinja_value object, const jinja_arguments *given, bool back)
{
    jinja_value part = jinja_argument(run, given, 0, "sub");
    if (part.kind != JINJA_TEXT)
        return jinja_refuse(run->box, "find needs a text");
    jinja_step(run->box, object.text->size_bytes / 16);
    size_t at = back ? seek_back(*object.text, *part.text, object.text->size_bytes)
                     : jinja_seek(*object.text, *part.text, 0);
    return jinja_int(at == SIZE_MAX ? -1
                                    : (int64_t)jinja_characters(jinja_part(*object.text, 0, at)));
}

METHOD(m_find)
{
    return find(run, object, given, false);
}

METHOD(m_rfind)
{
    return find(run, object, given, true);
}

METHOD(m_count)
{
    jinja_value part = jinja_argument(run, given, 0, "sub");
    if (part.kind != JINJA_TEXT || part.text->size_bytes == 0)
        return jinja_refuse(run->box, "count needs a text");
    int64_t count = 0;
    for (size_t at = 0;
         (at = jinja_seek(*object.text, *part.text, at)) != SIZE_MAX && jinja_step(run->box, 1);
         at += part.text->size_bytes)
        count++;
    return jinja_int(count);
}

static void append_part(jinja_run *run, jinja_value list, jinja_text text, size_t from, size_t to)
{
    jinja_append(run->box, list, jinja_of_text(run->box, jinja_part(text, from, to - from)));
}

// By white space, at most `most` times (negative: always).
static jinja_value split_words(jinja_run *run, jinja_text text, int64_t most)
{
    jinja_value list = jinja_new_list(run->box);
    text = jinja_strip(text, NULL, true, false);
    while (text.size_bytes && !run->box->failed) {
        size_t end = 0;
        while (end < text.size_bytes && most != 0) {
            size_t next = end + jinja_character_at(jinja_part(text, end, text.size_bytes - end), 1);
            if (jinja_strip(jinja_part(text, end, next - end), NULL, true, false).size_bytes == 0)
                break;
            end = next;
        }
        jinja_step(run->box, text.size_bytes / 64);
        if (most == 0)
            end = text.size_bytes;
        append_part(run, list, text, 0, end);
        text = jinja_strip(jinja_part(text, end, text.size_bytes - end), NULL, true, false);
        most--;
    }
    return list;
}

METHOD(m_split)
{
    jinja_value by = jinja_argument(run, given, 0, "sep");
    int64_t most = jinja_argument_int(run, given, 1, "maxsplit", -1);
    jinja_text text = *object.text;
    if (by.kind != JINJA_TEXT)
        return split_words(run, text, most);
    if (by.text->size_bytes == 0)
        return jinja_refuse(run->box, "a text is split by nothing");
    jinja_value list = jinja_new_list(run->box);
    size_t at = 0;
    for (size_t found;
         most-- != 0 && (found = jinja_seek(text, *by.text, at)) != SIZE_MAX && !run->box->failed;
         at = found + by.text->size_bytes)
        append_part(run, list, text, at, found);
    append_part(run, list, text, at, text.size_bytes);
    return list;
}

METHOD(m_rsplit)
{
    jinja_value by = jinja_argument(run, given, 0, "sep");
    int64_t most = jinja_argument_int(run, given, 1, "maxsplit", -1);
    jinja_text text = *object.text;
    if (by.kind != JINJA_TEXT || by.text->size_bytes == 0 || most < 0)
        return m_split(run, object, given);
    jinja_value parts = jinja_new_list(run->box), list = jinja_new_list(run->box);
    size_t end = text.size_bytes;
    for (size_t found; most-- > 0 && (found = seek_back(text, *by.text, end)) != SIZE_MAX &&
                       jinja_step(run->box, text.size_bytes / 16);
         end = found)
        append_part(run, parts, text, found + by.text->size_bytes, end);
    append_part(run, list, text, 0, end);
    for (size_t i = parts.kind == JINJA_LIST ? parts.list->count : 0; i-- > 0;)
        jinja_append(run->box, list, parts.list->items[i]);
    return list;
}

METHOD(m_splitlines)
{
    jinja_value list = jinja_new_list(run->box);
    jinja_text text = *object.text;
    bool keep = jinja_truth(jinja_argument(run, given, 0, "keepends"));
    for (size_t at = 0; at < text.size_bytes && !run->box->failed;) {
        size_t end = at;
        while (end < text.size_bytes && text.data[end] != '\n' && text.data[end] != '\r')
            end++;
        size_t next = end + (end < text.size_bytes);
        next += next < text.size_bytes && text.data[end] == '\r' && text.data[next] == '\n';
        append_part(run, list, text, at, keep ? next : end);
        at = next;
    }
    return list;
}

METHOD(m_join)
{
    jinja_writer writer = {.box = run->box};
    jinja_value items = jinja_items_of(run->box, jinja_argument(run, given, 0, "iterable"));
    for (size_t i = 0; !run->box->failed && i < items.list->count; i++) {
        if (i)
            jinja_write(&writer, *object.text);
        jinja_print(&writer, items.list->items[i]);
    }
    return jinja_of_text(run->box, jinja_written(&writer));
}

// {}, {0} and {name}, without format specifications; {{ and }} are braces.
METHOD(m_format)
{
    jinja_writer writer = {.box = run->box};
    jinja_text text = *object.text;
    size_t next = 0;
    for (size_t at = 0; at < text.size_bytes && !run->box->failed;) {
        char c = text.data[at];
        bool twice = at + 1 < text.size_bytes && text.data[at + 1] == c;
        if ((c != '{' && c != '}') || twice) {
            jinja_write(&writer, jinja_part(text, at, 1));
            at += c == '{' || c == '}' ? 2 : 1;
            continue;
        }
        jinja_text close = {.data = "}", .size_bytes = 1};
        size_t end = jinja_seek(text, close, at);
        char name[64] = "";
        if (c == '}' || end == SIZE_MAX || end - at > sizeof name)
            return jinja_refuse(run->box, "a text to format has a brace alone");
        memcpy(name, text.data + at + 1, end - at - 1);
        name[end - at - 1] = 0;
        bool number = name[0] >= '0' && name[0] <= '9';
        size_t n = !name[0] ? next++ : number ? (size_t)atoi(name) : SIZE_MAX;
        if (strpbrk(name, ":!.[") || (n != SIZE_MAX && n >= given->count))
            return jinja_refuse(run->box, "a text cannot be formatted with {%s}", name);
        jinja_print(&writer, jinja_argument(run, given, n, name));
        at = end + 1;
    }
    return jinja_of_text(run->box, jinja_written(&writer));
}

static bool all_in(jinja_text text, bool digits, bool letters)
{
    for (size_t i = 0; i < text.size_bytes; i++) {
        char c = text.data[i];
        bool digit = c >= '0' && c <= '9';
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!(digits && digit) && !(letters && letter))
            return false;
    }
    return text.size_bytes > 0;
}

METHOD(m_isdigit)
{
    (void)run;
    (void)given;
    return jinja_bool(all_in(*object.text, true, false));
}

METHOD(m_isalpha)
{
    (void)run;
    (void)given;
    return jinja_bool(all_in(*object.text, false, true));
}

METHOD(m_isalnum)
{
    (void)run;
    (void)given;
    return jinja_bool(all_in(*object.text, true, true));
}

// --- dicts ------------------------------------------------------------------------------------------------

METHOD(m_items)
{
    (void)given;
    return jinja_dict_items(run, object);
}

METHOD(m_keys)
{
    (void)given;
    return jinja_items_of(run->box, object);
}

METHOD(m_values)
{
    (void)given;
    jinja_value list = jinja_new_list(run->box);
    for (size_t i = 0; i < object.dict->count && !run->box->failed; i++)
        jinja_append(run->box, list, object.dict->entries[i].value);
    return list;
}

METHOD(m_get)
{
    jinja_value key = jinja_argument(run, given, 0, "key");
    if (jinja_has_key(run->box, object.dict, key))
        return jinja_find(run->box, object.dict, key);
    jinja_value fallback = jinja_argument(run, given, 1, "default");
    return fallback.kind == JINJA_UNDEFINED ? jinja_none() : fallback;
}

typedef struct method {
    const char *name;
    jinja_method_fn *function;
} method;

static const method text_methods[] = {
    {"capitalize", m_capitalize},
    {"count", m_count},
    {"endswith", m_endswith},
    {"find", m_find},
    {"format", m_format},
    {"isalnum", m_isalnum},
    {"isalpha", m_isalpha},
    {"isdigit", m_isdigit},
    {"join", m_join},
    {"lower", m_lower},
    {"lstrip", m_lstrip},
    {"removeprefix", m_removeprefix},
    {"removesuffix", m_removesuffix},
    {"replace", m_replace},
    {"rfind", m_rfind},
    {"rsplit", m_rsplit},
    {"rstrip", m_rstrip},
    {"split", m_split},
    {"splitlines", m_splitlines},
    {"startswith", m_startswith},
    {"strip", m_strip},
    {"title", m_title},
    {"upper", m_upper},
};
static const method dict_methods[] = {
    {"get", m_get}, {"items", m_items}, {"keys", m_keys}, {"values", m_values}};

static jinja_method_fn *find_method(const method *methods, size_t count, jinja_text name)
{
    for (size_t i = 0; i < count; i++)
        if (jinja_text_is(name, methods[i].name))
            return methods[i].function;
    return NULL;
}

jinja_method_fn *jinja_method_find(jinja_value object, jinja_text name)
{
    if (object.kind == JINJA_TEXT)
        return find_method(text_methods, sizeof text_methods / sizeof *text_methods, name);
    if (object.kind == JINJA_DICT)
        return find_method(dict_methods, sizeof dict_methods / sizeof *dict_methods, name);
    return NULL;
}
