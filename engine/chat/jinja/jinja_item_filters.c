// SPDX-License-Identifier: MIT
// Filters of lists and dicts. Source: as jinja_filters.c.
#include "engine/chat/jinja/jinja_run.h"
#include "engine/chat/jinja/jinja_words.h"

#define FILTER(name)                                                                               \
    static jinja_value name(jinja_run *run, jinja_value input, const jinja_arguments *given)

static const jinja_value UNDEFINED = {.kind = JINJA_UNDEFINED};

FILTER(f_list)
{
    (void)given;
    jinja_value items = jinja_items_of(run->box, input), copy = jinja_new_list(run->box);
    for (size_t i = 0; !run->box->failed && i < items.list->count; i++)
        jinja_append(run->box, copy, items.list->items[i]);
    return copy;
}

FILTER(f_items)
{
    (void)given;
    if (input.kind == JINJA_UNDEFINED)
        return jinja_generator(jinja_new_list(run->box));
    if (input.kind != JINJA_DICT)
        return jinja_refuse(run->box, "a %s has no items", jinja_type_name(input));
    return jinja_generator(jinja_dict_items(run, input));
}

FILTER(f_first)
{
    (void)given;
    if (input.kind == JINJA_GENERATOR)
        return input.list->count ? jinja_next(input.list) : UNDEFINED;
    jinja_value items = jinja_items_of(run->box, input);
    return run->box->failed || items.list->count == 0 ? UNDEFINED : items.list->items[0];
}

FILTER(f_last)
{
    (void)given;
    if (input.kind == JINJA_GENERATOR)
        return jinja_refuse(run->box, "a generator has no last item: it lacks `| list`");
    jinja_value items = jinja_items_of(run->box, input);
    return run->box->failed || items.list->count == 0 ? UNDEFINED
                                                      : items.list->items[items.list->count - 1];
}

FILTER(f_reverse)
{
    (void)given;
    jinja_value bounds[3] = {UNDEFINED, UNDEFINED, jinja_int(-1)};
    if (input.kind == JINJA_TEXT)
        return jinja_slice(run, input, bounds);
    jinja_value back = jinja_slice(run, jinja_items_of(run->box, input), bounds);
    return input.kind == JINJA_GENERATOR ? back : jinja_generator(back);
}

// item.a.b for a text "a.b" or an index.
static jinja_value dig(jinja_run *run, jinja_value item, jinja_value path)
{
    if (path.kind != JINJA_TEXT)
        return jinja_attribute(run, item, path);
    jinja_text dot = {.data = ".", .size_bytes = 1}, text = *path.text;
    for (size_t at = 0; at <= text.size_bytes && !run->box->failed;) {
        size_t end = jinja_seek(text, dot, at);
        end = end == SIZE_MAX ? text.size_bytes : end;
        item = jinja_attribute(run, item, jinja_of_text(run->box, jinja_part(text, at, end - at)));
        at = end + 1;
    }
    return item;
}

FILTER(f_join)
{
    jinja_writer writer = {.box = run->box};
    jinja_value glue = jinja_argument(run, given, 0, "d");
    jinja_value attribute = jinja_argument(run, given, 1, "attribute");
    jinja_value items = jinja_items_of(run->box, input);
    for (size_t i = 0; !run->box->failed && i < items.list->count; i++) {
        jinja_value item = items.list->items[i];
        if (i && glue.kind == JINJA_TEXT)
            jinja_write(&writer, *glue.text);
        jinja_print(&writer, attribute.kind == JINJA_UNDEFINED ? item : dig(run, item, attribute));
    }
    return jinja_of_text(run->box, jinja_written(&writer));
}

FILTER(f_sum)
{
    jinja_value attribute = jinja_argument(run, given, 0, "attribute");
    jinja_value items = jinja_items_of(run->box, input);
    double real = 0;
    int64_t whole = 0;
    bool is_real = false;
    for (size_t i = 0; !run->box->failed && i < items.list->count; i++) {
        jinja_value item = items.list->items[i];
        item = attribute.kind == JINJA_UNDEFINED ? item : dig(run, item, attribute);
        if (!jinja_is_number(item))
            return jinja_refuse(run->box, "a %s is summed", jinja_type_name(item));
        is_real = is_real || item.kind == JINJA_FLOAT;
        real += jinja_number(item);
        if (item.kind == JINJA_INT && __builtin_add_overflow(whole, item.integer, &whole))
            return jinja_refuse(run->box, "a sum is too large");
    }
    return is_real ? jinja_float(real) : jinja_int(whole);
}

// What is compared of an item: an attribute, without regard to case unless asked for.
static jinja_value sort_key(jinja_run *run, jinja_value item, jinja_value attribute, bool with_case)
{
    if (attribute.kind != JINJA_UNDEFINED)
        item = dig(run, item, attribute);
    return item.kind == JINJA_TEXT && !with_case ? jinja_lower(run, *item.text) : item;
}

// By insertion: equal items keep their order.
static void sort_items(jinja_run *run, jinja_value *items, jinja_value *keys, size_t count,
                       bool down)
{
    for (size_t i = 1; i < count && !run->box->failed; i++)
        for (size_t j = i; j > 0 && !run->box->failed; j--) {
            int order = jinja_compare(run->box, keys[j - 1], keys[j]);
            if (down ? order >= 0 : order <= 0)
                break;
            jinja_value item = items[j], key = keys[j];
            items[j] = items[j - 1];
            keys[j] = keys[j - 1];
            items[j - 1] = item;
            keys[j - 1] = key;
        }
}

static jinja_value sorted(jinja_run *run, jinja_value items, jinja_value attribute, bool down,
                          bool with_case)
{
    jinja_value copy = f_list(run, items, &(jinja_arguments){0}), keys = jinja_new_list(run->box);
    for (size_t i = 0; !run->box->failed && i < copy.list->count; i++)
        jinja_append(run->box, keys, sort_key(run, copy.list->items[i], attribute, with_case));
    if (!run->box->failed)
        sort_items(run, copy.list->items, keys.list->items, copy.list->count, down);
    return copy;
}

FILTER(f_sort)
{
    bool down = jinja_truth(jinja_argument(run, given, 0, "reverse"));
    bool with_case = jinja_truth(jinja_argument(run, given, 1, "case_sensitive"));
    return sorted(run, jinja_items_of(run->box, input), jinja_argument(run, given, 2, "attribute"),
                  down, with_case);
}

FILTER(f_dictsort)
{
    bool with_case = jinja_truth(jinja_argument(run, given, 0, "case_sensitive"));
    jinja_value by = jinja_argument(run, given, 1, "by");
    bool by_value = by.kind == JINJA_TEXT && jinja_text_is(*by.text, "value");
    bool down = jinja_truth(jinja_argument(run, given, 2, "reverse"));
    return sorted(run, f_items(run, input, given), jinja_int(by_value), down, with_case);
}

FILTER(f_unique)
{
    jinja_value attribute = jinja_argument(run, given, 1, "attribute");
    bool with_case = jinja_truth(jinja_argument(run, given, 0, "case_sensitive"));
    jinja_value items = jinja_items_of(run->box, input);
    jinja_value seen = jinja_new_list(run->box), kept = jinja_new_list(run->box);
    for (size_t i = 0; !run->box->failed && i < items.list->count; i++) {
        jinja_value key = sort_key(run, items.list->items[i], attribute, with_case);
        if (jinja_contains(run, seen, key))
            continue;
        jinja_append(run->box, seen, key);
        jinja_append(run->box, kept, items.list->items[i]);
    }
    return jinja_generator(kept);
}

static jinja_value extreme(jinja_run *run, jinja_value input, const jinja_arguments *given,
                           int sign)
{
    jinja_value attribute = jinja_argument(run, given, 1, "attribute"), best = UNDEFINED,
                best_key = best;
    jinja_value items = jinja_items_of(run->box, input);
    for (size_t i = 0; !run->box->failed && i < items.list->count; i++) {
        jinja_value key = sort_key(run, items.list->items[i], attribute, false);
        if (i == 0 || jinja_compare(run->box, key, best_key) * sign > 0) {
            best = items.list->items[i];
            best_key = key;
        }
    }
    return best;
}

FILTER(f_max)
{
    return extreme(run, input, given, 1);
}

FILTER(f_min)
{
    return extreme(run, input, given, -1);
}

// Filters that pick take none and the like for nothing.
static jinja_value items_if_any(jinja_run *run, jinja_value input)
{
    return jinja_truth(input) ? jinja_items_of(run->box, input) : jinja_new_list(run->box);
}

// What is given behind the first ones, which are used.
static jinja_arguments behind(const jinja_arguments *given, size_t used)
{
    jinja_arguments rest = {.named = given->named};
    if (given->count > used) {
        rest.items = given->items + used;
        rest.count = given->count - used;
    }
    return rest;
}

FILTER(f_map)
{
    jinja_value items = items_if_any(run, input), mapped = jinja_new_list(run->box);
    jinja_value attribute = jinja_argument(run, given, SIZE_MAX, "attribute");
    jinja_value fallback = jinja_argument(run, given, SIZE_MAX, "default");
    jinja_value name = jinja_argument(run, given, 0, "filter");
    jinja_filter_fn *function = name.kind == JINJA_TEXT ? jinja_filter_find(*name.text) : NULL;
    if (attribute.kind == JINJA_UNDEFINED && !function)
        return jinja_refuse(run->box, "map needs an attribute or the name of a filter");
    jinja_arguments rest = behind(given, 1);
    for (size_t i = 0; !run->box->failed && i < items.list->count; i++) {
        jinja_value item = items.list->items[i];
        item = attribute.kind != JINJA_UNDEFINED ? dig(run, item, attribute)
                                                 : function(run, item, &rest);
        jinja_append(run->box, mapped, item.kind == JINJA_UNDEFINED ? fallback : item);
    }
    return jinja_generator(mapped);
}

// select, reject, selectattr, rejectattr: items (or an attribute of them) for which a test holds or not.
static jinja_value pick(jinja_run *run, jinja_value input, const jinja_arguments *given,
                        bool by_attribute, bool wanted)
{
    jinja_value items = items_if_any(run, input), kept = jinja_new_list(run->box);
    size_t skip = by_attribute ? 1 : 0;
    if (given->count < skip)
        return jinja_refuse(run->box, "selectattr needs an attribute");
    jinja_value name = given->count > skip ? given->items[skip] : UNDEFINED;
    jinja_arguments rest = behind(given, skip + 1);
    for (size_t i = 0; !run->box->failed && i < items.list->count; i++) {
        jinja_value item = items.list->items[i];
        jinja_value value = by_attribute ? dig(run, item, given->items[0]) : item;
        if (name.kind == JINJA_TEXT)
            value = jinja_apply_test(run, *name.text, value, &rest, 0);
        if (jinja_truth(value) == wanted)
            jinja_append(run->box, kept, item);
    }
    return jinja_generator(kept);
}

FILTER(f_select)
{
    return pick(run, input, given, false, true);
}

FILTER(f_reject)
{
    return pick(run, input, given, false, false);
}

FILTER(f_selectattr)
{
    return pick(run, input, given, true, true);
}

FILTER(f_rejectattr)
{
    return pick(run, input, given, true, false);
}

static const struct {
    const char *name;
    jinja_filter_fn *function;
} filters[] = {
    {"dictsort", f_dictsort},
    {"first", f_first},
    {"items", f_items},
    {"join", f_join},
    {"last", f_last},
    {"list", f_list},
    {"map", f_map},
    {"max", f_max},
    {"min", f_min},
    {"reject", f_reject},
    {"rejectattr", f_rejectattr},
    {"reverse", f_reverse},
    {"select", f_select},
    {"selectattr", f_selectattr},
    {"sort", f_sort},
    {"sum", f_sum},
    {"unique", f_unique},
};

jinja_filter_fn *jinja_filter_find(jinja_text name)
{
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (jinja_text_is(name, filters[i].name))
            return filters[i].function;
    return jinja_value_filter_find(name);
}
