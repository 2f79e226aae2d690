// SPDX-License-Identifier: MIT
// The functions that every template knows.
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <time.h>

#include "engine/chat/jinja/jinja_run.h"

// As a method whose object is undefined.
#define FUNCTION(name)                                                                             \
    static jinja_value name(jinja_run *run, jinja_value object, const jinja_arguments *given)

FUNCTION(g_range)
{
    enum { MOST = 100000 };
    (void)object;
    bool two = given->count > 1;
    int64_t start = two ? jinja_argument_int(run, given, 0, "", 0) : 0;
    int64_t stop = jinja_argument_int(run, given, two ? 1 : 0, "", 0);
    int64_t step = jinja_argument_int(run, given, 2, "", 1);
    jinja_value list = jinja_new_list(run->box);
    if (step == 0 || step > MOST || step < -MOST || start > INT32_MAX || start < -INT32_MAX)
        return jinja_refuse(run->box, "a range cannot be counted so");
    for (int64_t i = start; (step > 0 ? i < stop : i > stop) && !run->box->failed; i += step) {
        if (list.list->count >= MOST)
            return jinja_refuse(run->box, "a range has more than %d numbers", MOST);
        jinja_append(run->box, list, jinja_int(i));
    }
    return list;
}

static jinja_value dict_of(jinja_run *run, const jinja_arguments *given)
{
    jinja_value dict = jinja_new_dict(run->box);
    if (given->count == 1 && given->items[0].kind == JINJA_DICT)
        for (size_t i = 0; i < given->items[0].dict->count && !run->box->failed; i++)
            jinja_put(run->box, dict.dict, given->items[0].dict->entries[i].key,
                      given->items[0].dict->entries[i].value);
    for (size_t i = 0; given->named && i < given->named->count && !run->box->failed; i++)
        jinja_put(run->box, dict.dict, given->named->entries[i].key,
                  given->named->entries[i].value);
    return dict;
}

FUNCTION(g_dict)
{
    (void)object;
    return dict_of(run, given);
}

FUNCTION(g_namespace)
{
    (void)object;
    jinja_value dict = dict_of(run, given);
    if (dict.kind == JINJA_DICT)
        dict.dict->is_namespace = true;
    return dict;
}

FUNCTION(g_raise)
{
    (void)object;
    jinja_text text = jinja_as_text(run->box, jinja_argument(run, given, 0, "message"));
    return jinja_refuse(run->box, "%.*s", (int)(text.size_bytes < 400 ? text.size_bytes : 400),
                        text.data);
}

FUNCTION(g_strftime)
{
    (void)object;
    char text[256], format[128];
    jinja_value wanted = jinja_argument(run, given, 0, "format");
    if (wanted.kind != JINJA_TEXT || wanted.text->size_bytes >= sizeof format)
        return jinja_refuse(run->box, "strftime_now needs a short format");
    if (run->box->time_text)
        return jinja_text_from(run->box, 0, run->box->time_text, strlen(run->box->time_text));
    memcpy(format, wanted.text->data, wanted.text->size_bytes);
    format[wanted.text->size_bytes] = 0;
    time_t now = time(NULL);
    struct tm parts;
    if (!localtime_r(&now, &parts))
        return (jinja_value){.kind = JINJA_UNDEFINED};
    return jinja_text_from(run->box, 0, text, strftime(text, sizeof text, format, &parts));
}

void jinja_add_globals(jinja_run *run, jinja_dict_data *names)
{
    static const struct {
        const char *name;
        jinja_method_fn *function;
    } functions[] = {{"range", g_range},
                     {"dict", g_dict},
                     {"namespace", g_namespace},
                     {"raise_exception", g_raise},
                     {"strftime_now", g_strftime}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        jinja_put(run->box, names, jinja_literal(run->box, functions[i].name),
                  jinja_new_callable(run, (jinja_callable){.method = functions[i].function}));
}
