// SPDX-License-Identifier: MIT
// Filters of values and texts; those of lists stand in jinja_item_filters.c. Source: the list of builtin filters of
// Jinja 3.1; tojson is that of transformers.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/chat/jinja/jinja_run.h"
#include "engine/chat/jinja/jinja_words.h"

#define FILTER(name)                                                                               \
    static jinja_value name(jinja_run *run, jinja_value input, const jinja_arguments *given)

FILTER(f_default)
{
    bool empty_too = jinja_truth(jinja_argument(run, given, 1, "boolean"));
    bool missing = input.kind == JINJA_UNDEFINED || (empty_too && !jinja_truth(input));
    jinja_value fallback = jinja_argument(run, given, 0, "default_value");
    if (!missing)
        return input;
    return fallback.kind == JINJA_UNDEFINED ? jinja_literal(run->box, "") : fallback;
}

FILTER(f_length)
{
    (void)given;
    if (input.kind == JINJA_TEXT)
        return jinja_int((int64_t)jinja_characters(*input.text));
    if (input.kind == JINJA_LIST)
        return jinja_int((int64_t)input.list->count);
    if (input.kind == JINJA_DICT)
        return jinja_int((int64_t)input.dict->count);
    if (input.kind == JINJA_UNDEFINED)
        return jinja_int(0);
    return jinja_refuse(run->box, "a %s has no length", jinja_type_name(input));
}

FILTER(f_string)
{
    (void)given;
    return jinja_of_text(run->box, jinja_as_text(run->box, input));
}

FILTER(f_tojson)
{
    jinja_writer writer = {.box = run->box};
    int64_t indent = jinja_argument_int(run, given, 1, "indent", -1);
    bool ascii = jinja_truth(jinja_argument(run, given, 0, "ensure_ascii"));
    jinja_write_json(&writer, input, indent < 0 ? -1 : indent > 32 ? 32 : (int)indent, ascii);
    return jinja_of_text(run->box, jinja_written(&writer));
}

FILTER(f_trim)
{
    jinja_value set = jinja_argument(run, given, 0, "chars");
    return jinja_of_text(run->box,
                         jinja_strip(jinja_as_text(run->box, input),
                                     set.kind == JINJA_TEXT ? set.text : NULL, true, true));
}

FILTER(f_int)
{
    int64_t fallback = jinja_argument_int(run, given, 0, "default", 0);
    if (input.kind == JINJA_FLOAT)
        return fabs(input.real) < 9e18 ? jinja_int((int64_t)input.real) : jinja_int(fallback);
    if (input.kind == JINJA_INT || input.kind == JINJA_BOOL)
        return jinja_int(input.kind == JINJA_BOOL ? input.boolean : input.integer);
    char digits[64], *end;
    jinja_text text = jinja_strip(jinja_as_text(run->box, input), NULL, true, true);
    if (input.kind != JINJA_TEXT || text.size_bytes == 0 || text.size_bytes >= sizeof digits)
        return jinja_int(fallback);
    memcpy(digits, text.data, text.size_bytes);
    digits[text.size_bytes] = 0;
    long long whole = strtoll(digits, &end, 10);
    if (!*end)
        return jinja_int(whole);
    double real = strtod(digits, &end);
    return jinja_int(*end || !(fabs(real) < 9e18) ? fallback : (int64_t)real);
}

FILTER(f_float)
{
    jinja_value fallback = jinja_argument(run, given, 0, "default");
    if (jinja_is_number(input))
        return jinja_float(jinja_number(input));
    char digits[64], *end;
    jinja_text text = jinja_strip(jinja_as_text(run->box, input), NULL, true, true);
    if (text.size_bytes > 0 && text.size_bytes < sizeof digits) {
        memcpy(digits, text.data, text.size_bytes);
        digits[text.size_bytes] = 0;
        double real = strtod(digits, &end);
        if (!*end)
            return jinja_float(real);
    }
    return jinja_is_number(fallback) ? fallback : jinja_float(0);
}

FILTER(f_abs)
{
    (void)given;
    if (input.kind == JINJA_FLOAT)
        return jinja_float(fabs(input.real));
    if (!jinja_is_number(input) || input.integer == INT64_MIN)
        return jinja_refuse(run->box, "a %s has no magnitude", jinja_type_name(input));
    int64_t whole = input.kind == JINJA_BOOL ? input.boolean : input.integer;
    return jinja_int(whole < 0 ? -whole : whole);
}

FILTER(f_round)
{
    int64_t digits = jinja_argument_int(run, given, 0, "precision", 0);
    if (!jinja_is_number(input) || digits < 0 || digits > 15)
        return jinja_refuse(run->box, "a %s cannot be rounded so", jinja_type_name(input));
    double scale = pow(10, (double)digits);
    return jinja_float(nearbyint(jinja_number(input) * scale) / scale);
}

// --- text -------------------------------------------------------------------------------------------------

FILTER(f_lower)
{
    (void)given;
    return jinja_lower(run, jinja_as_text(run->box, input));
}

FILTER(f_upper)
{
    (void)given;
    return jinja_upper(run, jinja_as_text(run->box, input));
}

FILTER(f_capitalize)
{
    (void)given;
    return jinja_capitalize(run, jinja_as_text(run->box, input));
}

FILTER(f_title)
{
    (void)given;
    return jinja_title(run, jinja_as_text(run->box, input));
}

FILTER(f_replace)
{
    jinja_value from = jinja_argument(run, given, 0, "old"),
                to = jinja_argument(run, given, 1, "new");
    if (from.kind != JINJA_TEXT || to.kind != JINJA_TEXT)
        return jinja_refuse(run->box, "replace needs two texts");
    return jinja_replace(run, jinja_as_text(run->box, input), *from.text, *to.text,
                         jinja_argument_int(run, given, 2, "count", -1));
}

// Lines behind the first (or all, with first=true) begin with blanks; empty ones only if asked for.
FILTER(f_indent)
{
    jinja_writer writer = {.box = run->box};
    jinja_value width = jinja_argument(run, given, 0, "width");
    jinja_text text = jinja_as_text(run->box, input), feed = {.data = "\n", .size_bytes = 1};
    int64_t blanks = width.kind == JINJA_INT ? width.integer : 4;
    bool first = jinja_truth(jinja_argument(run, given, 1, "first"));
    bool empty_too = jinja_truth(jinja_argument(run, given, 2, "blank"));
    for (size_t at = 0, line = 0; at <= text.size_bytes && !run->box->failed; line++) {
        size_t end = jinja_seek(text, feed, at);
        end = end == SIZE_MAX ? text.size_bytes : end;
        if (line)
            jinja_write_own(&writer, "\n");
        if (line ? empty_too || end > at : first) {
            if (width.kind == JINJA_TEXT)
                jinja_write(&writer, *width.text);
            for (int64_t i = 0; width.kind != JINJA_TEXT && i < blanks && !run->box->failed; i++)
                jinja_write_own(&writer, " ");
        }
        jinja_write(&writer, jinja_part(text, at, end - at));
        at = end + 1;
    }
    return jinja_of_text(run->box, jinja_written(&writer));
}

jinja_text jinja_escape(jinja_run *run, jinja_text text)
{
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    static const char marks[] = "&<>\"'";
    jinja_writer writer = {.box = run->box};
    if (text.safe)
        return text;
    for (size_t i = 0; i < text.size_bytes && !run->box->failed; i++) {
        const char *mark = text.data[i] ? strchr(marks, text.data[i]) : NULL;
        if (mark)
            jinja_write_own(&writer, names[mark - marks]);
        else
            jinja_write(&writer, jinja_part(text, i, 1));
    }
    text = jinja_written(&writer);
    text.safe = true;
    return text;
}

FILTER(f_escape)
{
    (void)given;
    return jinja_of_text(run->box, jinja_escape(run, jinja_as_text(run->box, input)));
}

FILTER(f_safe)
{
    jinja_text text = jinja_as_text(run->box, input);
    (void)given;
    text.safe = true;
    return jinja_of_text(run->box, text);
}

static const struct {
    const char *name;
    jinja_filter_fn *function;
} filters[] = {
    {"abs", f_abs},         {"capitalize", f_capitalize}, {"count", f_length},
    {"d", f_default},       {"default", f_default},       {"e", f_escape},
    {"escape", f_escape},   {"float", f_float},           {"indent", f_indent},
    {"int", f_int},         {"length", f_length},         {"lower", f_lower},
    {"replace", f_replace}, {"round", f_round},           {"safe", f_safe},
    {"string", f_string},   {"title", f_title},           {"tojson", f_tojson},
    {"trim", f_trim},       {"upper", f_upper},
};

jinja_filter_fn *jinja_value_filter_find(jinja_text name)
{
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (jinja_text_is(name, filters[i].name))
            return filters[i].function;
    return NULL;
}
