// SPDX-License-Identifier: MIT
// What Python would say of a value: truth, equality, order, str(), repr() and json.dumps().
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "engine/chat/jinja/jinja_box.h"

enum { MAX_NESTING = 64 };

bool jinja_is_number(jinja_value value)
{
    return value.kind == JINJA_INT || value.kind == JINJA_FLOAT || value.kind == JINJA_BOOL;
}

double jinja_number(jinja_value value)
{
    if (value.kind == JINJA_FLOAT)
        return value.real;
    return value.kind == JINJA_BOOL ? value.boolean : (double)value.integer;
}

bool jinja_truth(jinja_value value)
{
    switch (value.kind) {
    case JINJA_UNDEFINED:
    case JINJA_NONE: return false;
    case JINJA_BOOL: return value.boolean;
    case JINJA_INT: return value.integer != 0;
    case JINJA_FLOAT: return value.real != 0;
    case JINJA_TEXT: return value.text->size_bytes > 0;
    case JINJA_LIST: return value.list->count > 0;
    case JINJA_DICT: return value.dict->count > 0 || value.dict->is_namespace;
    case JINJA_CALLABLE:
    case JINJA_GENERATOR: return true;
    }
    return false;
}

const char *jinja_type_name(jinja_value value)
{
    static const char *const names[] = {"undefined", "None", "bool", "int",      "float",
                                        "str",       "list", "dict", "function", "generator"};
    return names[value.kind];
}

static bool equal(jinja_box *box, jinja_value a, jinja_value b, int depth)
{
    if (!jinja_step(box, 1) || depth > MAX_NESTING)
        return false;
    if (jinja_is_number(a) && jinja_is_number(b))
        return a.kind != JINJA_FLOAT && b.kind != JINJA_FLOAT
                   ? (a.kind == JINJA_BOOL ? a.boolean : a.integer) ==
                         (b.kind == JINJA_BOOL ? b.boolean : b.integer)
                   : jinja_number(a) == jinja_number(b);
    if (a.kind != b.kind)
        return false;
    if (a.kind == JINJA_TEXT)
        return jinja_step(box, a.text->size_bytes / 64) && jinja_same(*a.text, *b.text);
    if (a.kind == JINJA_LIST) {
        bool same = a.list->count == b.list->count && a.list->tuple == b.list->tuple;
        for (size_t i = 0; same && i < a.list->count; i++)
            same = equal(box, a.list->items[i], b.list->items[i], depth + 1);
        return same;
    }
    if (a.kind == JINJA_DICT) {
        bool same = a.dict == b.dict || a.dict->count == b.dict->count;
        for (size_t i = 0; same && a.dict != b.dict && i < a.dict->count; i++)
            same = jinja_has_key(box, b.dict, a.dict->entries[i].key) &&
                   equal(box, a.dict->entries[i].value,
                         jinja_find(box, b.dict, a.dict->entries[i].key), depth + 1);
        return same;
    }
    if (a.kind == JINJA_GENERATOR)
        return a.list == b.list;
    return a.kind != JINJA_CALLABLE || a.callable == b.callable;
}

bool jinja_equal(jinja_box *box, jinja_value a, jinja_value b)
{
    return equal(box, a, b, 0);
}

// --- dictionaries, whose keys are equal or not ------------------------------------------------------------

static jinja_entry *entry_of(jinja_box *box, const jinja_dict_data *dict, jinja_value key)
{
    for (size_t i = 0; i < dict->count && jinja_step(box, 1); i++)
        if (jinja_equal(box, dict->entries[i].key, key))
            return &dict->entries[i];
    return NULL;
}

jinja_value jinja_find(jinja_box *box, const jinja_dict_data *dict, jinja_value key)
{
    const jinja_entry *entry = entry_of(box, dict, key);
    return entry ? entry->value : (jinja_value){.kind = JINJA_UNDEFINED};
}

bool jinja_has_key(jinja_box *box, const jinja_dict_data *dict, jinja_value key)
{
    return entry_of(box, dict, key) != NULL;
}

void jinja_put(jinja_box *box, jinja_dict_data *dict, jinja_value key, jinja_value value)
{
    jinja_entry *entry = entry_of(box, dict, key);
    if (box->failed)
        return;
    if (entry) {
        entry->value = value;
        return;
    }
    if (dict->count == dict->capacity) {
        size_t capacity = dict->capacity ? 2 * dict->capacity : 8;
        jinja_entry *entries = jinja_take(box, capacity, sizeof *entries);
        if (!entries)
            return;
        if (dict->count)
            memcpy(entries, dict->entries, dict->count * sizeof *entries);
        dict->entries = entries;
        dict->capacity = capacity;
    }
    dict->entries[dict->count++] = (jinja_entry){key, value};
}

void jinja_set(jinja_box *box, jinja_value dict, const char *key, jinja_value value)
{
    if (dict.kind == JINJA_DICT)
        jinja_put(box, dict.dict, jinja_text_from(box, 0, key, strlen(key)), value);
}

// --- order ----------------------------------------------------------------------------------------------

static int compare(jinja_box *box, jinja_value a, jinja_value b, int depth)
{
    if (!jinja_step(box, 1) || depth > MAX_NESTING)
        return 0;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        double x = jinja_number(a), y = jinja_number(b);
        return x < y ? -1 : x > y;
    }
    if (a.kind == JINJA_TEXT && b.kind == JINJA_TEXT) {
        size_t shorter =
            a.text->size_bytes < b.text->size_bytes ? a.text->size_bytes : b.text->size_bytes;
        int order = memcmp(a.text->data, b.text->data, shorter);
        if (order == 0)
            order = a.text->size_bytes < b.text->size_bytes
                        ? -1
                        : a.text->size_bytes > b.text->size_bytes;
        return order < 0 ? -1 : order > 0;
    }
    if (a.kind == JINJA_LIST && b.kind == JINJA_LIST) {
        for (size_t i = 0; i < a.list->count && i < b.list->count; i++) {
            int order = compare(box, a.list->items[i], b.list->items[i], depth + 1);
            if (order != 0)
                return order;
        }
        return a.list->count < b.list->count ? -1 : a.list->count > b.list->count;
    }
    jinja_refuse(box, "the template orders a %s and a %s", jinja_type_name(a), jinja_type_name(b));
    return 0;
}

int jinja_compare(jinja_box *box, jinja_value a, jinja_value b)
{
    return compare(box, a, b, 0);
}

jinja_value jinja_items_of(jinja_box *box, jinja_value value)
{
    if (value.kind == JINJA_LIST)
        return value;
    jinja_value items = jinja_new_list(box);
    if (value.kind == JINJA_GENERATOR && items.kind == JINJA_LIST) {
        *items.list = *value.list;
        *value.list = (jinja_list){0};
    } else if (value.kind == JINJA_DICT) {
        for (size_t i = 0; i < value.dict->count; i++)
            jinja_append(box, items, value.dict->entries[i].key);
    } else if (value.kind == JINJA_TEXT) {
        size_t at = 0, next;
        for (; at < value.text->size_bytes && !box->failed; at = next) {
            for (next = at + 1; next < value.text->size_bytes &&
                                ((unsigned char)value.text->data[next] & 0xc0) == 0x80;)
                next++;
            jinja_append(box, items, jinja_of_text(box, jinja_part(*value.text, at, next - at)));
        }
    } else if (value.kind != JINJA_UNDEFINED) {
        jinja_refuse(box, "the template loops over a %s", jinja_type_name(value));
    }
    return items;
}

jinja_value jinja_generator(jinja_value list)
{
    if (list.kind == JINJA_LIST)
        list.kind = JINJA_GENERATOR;
    return list;
}

// --- numbers as Python writes them ------------------------------------------------------------------------

// The shortest decimal that reads back as the same number; Python switches to exponents at 1e16 and 1e-4.
static void print_float(jinja_writer *writer, double value)
{
    char text[64];
    if (isnan(value) || isinf(value)) {
        jinja_write_own(writer, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    int digits = 1;
    do
        snprintf(text, sizeof text, "%.*e", digits - 1, value);
    while (strtod(text, NULL) != value && digits++ < 17);
    int exponent = atoi(strchr(text, 'e') + 1);
    if (exponent >= 16 || exponent < -4) {
        snprintf(text, sizeof text, "%.*e", digits - 1, value);
    } else {
        int decimals = digits - 1 - exponent;
        snprintf(text, sizeof text, "%.*f", decimals > 0 ? decimals : 1, value);
    }
    jinja_write_own(writer, text);
}

static void print_number(jinja_writer *writer, jinja_value value)
{
    char text[32];
    if (value.kind == JINJA_FLOAT) {
        print_float(writer, value.real);
    } else {
        snprintf(text, sizeof text, "%lld", (long long)value.integer);
        jinja_write_own(writer, text);
    }
}

// --- str() and repr() -------------------------------------------------------------------------------------

static void quote(jinja_writer *writer, jinja_text text)
{
    jinja_text single = {.data = "'", .size_bytes = 1}, twofold = {.data = "\"", .size_bytes = 1};
    bool use_double =
        jinja_seek(text, single, 0) != SIZE_MAX && jinja_seek(text, twofold, 0) == SIZE_MAX;
    char mark = use_double ? '"' : '\'';
    jinja_write_bytes(writer, &mark, 1, false);
    for (size_t i = 0; i < text.size_bytes && !writer->box->failed; i++) {
        char c = text.data[i], escaped[8];
        if (c == '\n' || c == '\r' || c == '\t')
            snprintf(escaped, sizeof escaped, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (c == mark || c == '\\')
            snprintf(escaped, sizeof escaped, "\\%c", c);
        else if ((unsigned char)c < 32 || c == 127)
            snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned char)c);
        else {
            jinja_write(writer, jinja_part(text, i, 1));
            continue;
        }
        jinja_write_own(writer, escaped);
    }
    jinja_write_bytes(writer, &mark, 1, false);
}

static void print(jinja_writer *writer, jinja_value value, bool quoted, int depth);

static void print_list(jinja_writer *writer, const jinja_list *list, int depth)
{
    jinja_write_own(writer, list->tuple ? "(" : "[");
    for (size_t i = 0; i < list->count && !writer->box->failed; i++) {
        jinja_write_own(writer, i ? ", " : "");
        print(writer, list->items[i], true, depth + 1);
    }
    jinja_write_own(writer, !list->tuple ? "]" : list->count == 1 ? ",)" : ")");
}

static void print_dict(jinja_writer *writer, const jinja_dict_data *dict, int depth)
{
    jinja_write_own(writer, "{");
    for (size_t i = 0; i < dict->count && !writer->box->failed; i++) {
        jinja_write_own(writer, i ? ", " : "");
        print(writer, dict->entries[i].key, true, depth + 1);
        jinja_write_own(writer, ": ");
        print(writer, dict->entries[i].value, true, depth + 1);
    }
    jinja_write_own(writer, "}");
}

static void print(jinja_writer *writer, jinja_value value, bool quoted, int depth)
{
    if (depth > MAX_NESTING) {
        jinja_refuse(writer->box, "the template prints values nested deeper than %d", MAX_NESTING);
        return;
    }
    switch (value.kind) {
    case JINJA_UNDEFINED: break;
    case JINJA_NONE: jinja_write_own(writer, "None"); break;
    case JINJA_BOOL: jinja_write_own(writer, value.boolean ? "True" : "False"); break;
    case JINJA_INT:
    case JINJA_FLOAT: print_number(writer, value); break;
    case JINJA_TEXT:
        if (quoted)
            quote(writer, *value.text);
        else
            jinja_write(writer, *value.text);
        break;
    case JINJA_LIST: print_list(writer, value.list, depth); break;
    case JINJA_DICT: print_dict(writer, value.dict, depth); break;
    case JINJA_CALLABLE: jinja_write_own(writer, "<function>"); break;
    case JINJA_GENERATOR: // Jinja prints where it lies in memory
        jinja_refuse(writer->box, "the template prints a generator: it lacks `| list`");
        break;
    }
}

void jinja_print(jinja_writer *writer, jinja_value value)
{
    print(writer, value, false, 0);
}

jinja_text jinja_as_text(jinja_box *box, jinja_value value)
{
    jinja_writer writer = {.box = box};
    if (value.kind == JINJA_TEXT)
        return *value.text;
    jinja_print(&writer, value);
    return jinja_written(&writer);
}

// --- JSON -------------------------------------------------------------------------------------------------

typedef struct json_form {
    jinja_writer *writer;
    int indent; // negative: on one line
    bool ascii;
} json_form;

// A character beyond ASCII as \uhhhh, two of them above U+FFFF; the bytes that it takes.
static size_t json_escape(const json_form *form, jinja_text text, size_t at)
{
    char escaped[16];
    utf8proc_int32_t c;
    utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)text.data + at,
                                             (utf8proc_ssize_t)(text.size_bytes - at), &c);
    if (size < 1)
        c = 0xfffd;
    if (c < 0x10000)
        snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)c);
    else
        snprintf(escaped, sizeof escaped, "\\u%04x\\u%04x", 0xd7c0u + ((unsigned)c >> 10),
                 0xdc00u + ((unsigned)c & 0x3ff));
    jinja_write_own(form->writer, escaped);
    return size < 1 ? 1 : (size_t)size;
}

static void json_text(const json_form *form, jinja_text text)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    jinja_writer *writer = form->writer;
    jinja_write_own(writer, "\"");
    size_t done = 0;
    for (size_t i = 0; i < text.size_bytes && !writer->box->failed;) {
        char c = text.data[i], escaped[8];
        const char *known = c ? strchr(plain, c) : NULL;
        bool beyond = form->ascii && (unsigned char)c >= 128;
        if (!known && !beyond && (unsigned char)c >= 32) {
            i++;
            continue;
        }
        jinja_write(writer, jinja_part(text, done, i - done));
        if (beyond) {
            i += json_escape(form, text, i);
        } else {
            if (known)
                snprintf(escaped, sizeof escaped, "\\%c", letters[known - plain]);
            else
                snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned char)c);
            jinja_write_own(writer, escaped);
            i++;
        }
        done = i;
    }
    jinja_write(writer, jinja_part(text, done, text.size_bytes - done));
    jinja_write_own(writer, "\"");
}

static void json(const json_form *form, jinja_value value, int depth);

static void json_break(const json_form *form, int depth)
{
    if (form->indent < 0)
        return;
    jinja_write_own(form->writer, "\n");
    for (int i = 0; i < form->indent * depth && !form->writer->box->failed; i++)
        jinja_write_own(form->writer, " ");
}

static void json_key(const json_form *form, jinja_value key)
{
    if (key.kind == JINJA_BOOL)
        jinja_write_own(form->writer, key.boolean ? "\"true\"" : "\"false\"");
    else if (key.kind == JINJA_NONE)
        jinja_write_own(form->writer, "\"null\"");
    else
        json_text(form, jinja_as_text(form->writer->box, key));
    jinja_write_own(form->writer, ": ");
}

static void json_members(const json_form *form, jinja_value value, int depth)
{
    jinja_writer *writer = form->writer;
    bool list = value.kind == JINJA_LIST;
    size_t count = list ? value.list->count : value.dict->count;
    jinja_write_own(writer, list ? "[" : "{");
    for (size_t i = 0; i < count && !writer->box->failed; i++) {
        jinja_write_own(writer, i == 0 ? "" : form->indent < 0 ? ", " : ",");
        json_break(form, depth + 1);
        if (!list)
            json_key(form, value.dict->entries[i].key);
        json(form, list ? value.list->items[i] : value.dict->entries[i].value, depth + 1);
    }
    if (count)
        json_break(form, depth);
    jinja_write_own(writer, list ? "]" : "}");
}

static void json_float(jinja_writer *writer, double value)
{
    if (isfinite(value))
        print_float(writer, value);
    else
        jinja_write_own(writer, isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity");
}

static void json(const json_form *form, jinja_value value, int depth)
{
    jinja_writer *writer = form->writer;
    if (depth > MAX_NESTING) {
        jinja_refuse(writer->box, "the template writes JSON nested deeper than %d", MAX_NESTING);
        return;
    }
    switch (value.kind) {
    case JINJA_NONE: jinja_write_own(writer, "null"); break;
    case JINJA_BOOL: jinja_write_own(writer, value.boolean ? "true" : "false"); break;
    case JINJA_INT: print_number(writer, value); break;
    case JINJA_FLOAT: json_float(writer, value.real); break;
    case JINJA_TEXT: json_text(form, *value.text); break;
    case JINJA_LIST:
    case JINJA_DICT: json_members(form, value, depth); break;
    case JINJA_UNDEFINED:
    case JINJA_CALLABLE:
    case JINJA_GENERATOR:
        jinja_refuse(writer->box, "the template writes a %s as JSON", jinja_type_name(value));
    }
}

void jinja_write_json(jinja_writer *writer, jinja_value value, int indent, bool ascii)
{
    const json_form form = {writer, indent, ascii};
    json(&form, value, 0);
}
