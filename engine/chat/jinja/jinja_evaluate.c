// SPDX-License-Identifier: MIT
// Expressions.
#include <math.h>
#include <string.h>

#include "engine/chat/jinja/jinja_run.h"

enum { MAX_DEPTH = 400 };

static const jinja_value UNDEFINED = {.kind = JINJA_UNDEFINED};

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
    if (container.kind != JINJA_UNDEFINED)
        jinja_refuse(run->box, "a %s is searched for in a %s", jinja_type_name(item),
                     jinja_type_name(container));
    return false;
}

// --- operators ----------------------------------------------------------------------------------------------

static jinja_value bad_operands(jinja_run *run, const jinja_node *node, jinja_value a,
                                jinja_value b)
{
    return jinja_refuse(run->box, "line %d: '%.*s' of a %s and a %s", node->line,
                        (int)node->text.size_bytes, node->text.data, jinja_type_name(a),
                        jinja_type_name(b));
}

static jinja_value join(jinja_run *run, jinja_value a, jinja_value b)
{
    jinja_writer writer = {.box = run->box};
    jinja_print(&writer, a);
    jinja_print(&writer, b);
    return jinja_of_text(run->box, jinja_written(&writer));
}

static jinja_value join_lists(jinja_run *run, const jinja_list *a, const jinja_list *b)
{
    jinja_value all = jinja_new_list(run->box);
    for (size_t i = 0; i < a->count; i++)
        jinja_append(run->box, all, a->items[i]);
    for (size_t i = 0; i < b->count; i++)
        jinja_append(run->box, all, b->items[i]);
    return all;
}

static int64_t as_int(jinja_value value)
{
    return value.kind == JINJA_BOOL ? value.boolean : value.integer;
}

static jinja_value whole_arithmetic(jinja_run *run, const jinja_node *node, int64_t x, int64_t y)
{
    int64_t result = 0;
    bool overflow = false;
    char o = node->text.data[0];
    if (o == '+')
        overflow = __builtin_add_overflow(x, y, &result);
    else if (o == '-')
        overflow = __builtin_sub_overflow(x, y, &result);
    else if (o == '*')
        overflow = __builtin_mul_overflow(x, y, &result);
    else if (y == 0)
        return jinja_refuse(run->box, "line %d: division by zero", node->line);
    else if (y == -1)
        overflow = o == '/' && __builtin_sub_overflow(0, x, &result);
    else if (o == '/')
        result = x / y - (x % y != 0 && (x < 0) != (y < 0));
    else
        result = x % y + (x % y != 0 && (x < 0) != (y < 0) ? y : 0);
    return overflow ? jinja_refuse(run->box, "line %d: a number is too large", node->line)
                    : jinja_int(result);
}

static jinja_value arithmetic(jinja_run *run, const jinja_node *node, jinja_value a, jinja_value b)
{
    bool real = a.kind == JINJA_FLOAT || b.kind == JINJA_FLOAT;
    bool divide = jinja_text_is(node->text, "/"), power = jinja_text_is(node->text, "**");
    if (!real && !divide && !power)
        return whole_arithmetic(run, node, as_int(a), as_int(b));
    double x = jinja_number(a), y = jinja_number(b), result;
    char o = node->text.data[0];
    if (power) {
        result = pow(x, y);
        if (!real && y >= 0 && fabs(result) < 9e15)
            return jinja_int((int64_t)result);
    } else if ((o == '/' || o == '%') && y == 0) {
        return jinja_refuse(run->box, "line %d: division by zero", node->line);
    } else {
        result = o == '+'   ? x + y
                 : o == '-' ? x - y
                 : o == '*' ? x * y
                 : o == '%' ? x - floor(x / y) * y
                 : divide   ? x / y
                            : floor(x / y);
    }
    return jinja_float(result);
}

// Text times a number.
static jinja_value repeat(jinja_run *run, jinja_text text, int64_t times)
{
    jinja_writer writer = {.box = run->box};
    for (int64_t i = 0; i < times && !run->box->failed; i++)
        jinja_write(&writer, text);
    return jinja_of_text(run->box, jinja_written(&writer));
}

static jinja_value binary(jinja_run *run, const jinja_node *node)
{
    jinja_value a = jinja_evaluate(run, node->a), b = jinja_evaluate(run, node->b);
    jinja_text o = node->text;
    if (run->box->failed)
        return UNDEFINED;
    if (jinja_text_is(o, "=="))
        return jinja_bool(jinja_equal(run->box, a, b));
    if (jinja_text_is(o, "!="))
        return jinja_bool(!jinja_equal(run->box, a, b));
    if (jinja_text_is(o, "in"))
        return jinja_bool(jinja_contains(run, b, a));
    if (o.data[0] == '<' || o.data[0] == '>') {
        int order = jinja_compare(run->box, a, b);
        order = o.data[0] == '<' ? -order : order;
        return jinja_bool(o.size_bytes == 2 ? order >= 0 : order > 0);
    }
    if (o.data[0] == '~')
        return join(run, a, b);
    if (jinja_is_number(a) && jinja_is_number(b))
        return arithmetic(run, node, a, b);
    if (o.data[0] == '+' && a.kind == JINJA_TEXT && b.kind == JINJA_TEXT)
        return join(run, a, b);
    if (o.data[0] == '+' && a.kind == JINJA_LIST && b.kind == JINJA_LIST)
        return join_lists(run, a.list, b.list);
    if (jinja_text_is(o, "*") && a.kind == JINJA_TEXT && b.kind == JINJA_INT)
        return repeat(run, *a.text, b.integer);
    return bad_operands(run, node, a, b);
}

// --- calls ----------------------------------------------------------------------------------------------------

static jinja_arguments evaluate_arguments(jinja_run *run, const jinja_nodes *list)
{
    jinja_arguments given = {0};
    jinja_value items = jinja_new_list(run->box), named = jinja_new_dict(run->box);
    for (size_t i = 0; i < list->count && !run->box->failed; i++) {
        const jinja_node *node = list->items[i];
        if (node->kind == JINJA_NODE_NAMED)
            jinja_put(run->box, named.dict, jinja_of_text(run->box, node->text),
                      jinja_evaluate(run, node->a));
        else
            jinja_append(run->box, items, jinja_evaluate(run, node));
    }
    if (!run->box->failed)
        given = (jinja_arguments){items.list->items, items.list->count, named.dict};
    return given;
}

jinja_value jinja_argument(jinja_run *run, const jinja_arguments *given, size_t n, const char *name)
{
    jinja_text text = {name, NULL, strlen(name), 0};
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

jinja_value jinja_call(jinja_run *run, jinja_value callable, const jinja_arguments *given)
{
    if (run->box->failed)
        return UNDEFINED;
    if (callable.kind != JINJA_CALLABLE)
        return jinja_refuse(run->box, "a %s is called", jinja_type_name(callable));
    if (callable.callable->macro)
        return jinja_call_macro(run, callable.callable, given);
    return callable.callable->method(run, callable.callable->object, given);
}

static jinja_value call(jinja_run *run, const jinja_node *node)
{
    const jinja_node *what = node->a;
    if (what->kind == JINJA_NODE_ATTRIBUTE) {
        jinja_value object = jinja_evaluate(run, what->a);
        jinja_method_fn *method = jinja_method_find(object, what->text);
        jinja_arguments given = evaluate_arguments(run, &node->list);
        if (run->box->failed)
            return UNDEFINED;
        if (method)
            return method(run, object, &given);
        jinja_value member = jinja_attribute(run, object, jinja_of_text(run->box, what->text));
        if (member.kind == JINJA_CALLABLE)
            return jinja_call(run, member, &given);
        return jinja_refuse(run->box, "line %d: a %s has no method '%.*s'", node->line,
                            jinja_type_name(object), (int)what->text.size_bytes, what->text.data);
    }
    jinja_value callable = jinja_evaluate(run, what);
    if (callable.kind != JINJA_CALLABLE && what->kind == JINJA_NODE_NAME)
        return jinja_refuse(run->box, "line %d: there is no function '%.*s'", node->line,
                            (int)what->text.size_bytes, what->text.data);
    jinja_arguments given = evaluate_arguments(run, &node->list);
    return jinja_call(run, callable, &given);
}

static jinja_value filter(jinja_run *run, const jinja_node *node)
{
    jinja_value input = jinja_evaluate(run, node->a);
    jinja_filter_fn *function = jinja_filter_find(node->text);
    jinja_arguments given = evaluate_arguments(run, &node->list);
    if (!function)
        return jinja_refuse(run->box, "line %d: there is no filter '%.*s'", node->line,
                            (int)node->text.size_bytes, node->text.data);
    return run->box->failed ? UNDEFINED : function(run, input, &given);
}

jinja_value jinja_apply_test(jinja_run *run, jinja_text name, jinja_value input,
                             const jinja_arguments *given, int32_t line)
{
    jinja_test_fn *function = jinja_test_find(name);
    if (!function)
        return jinja_refuse(run->box, "line %d: there is no test '%.*s'", line,
                            (int)name.size_bytes, name.data);
    return run->box->failed ? UNDEFINED : jinja_bool(function(run, input, given));
}

static jinja_value test(jinja_run *run, const jinja_node *node)
{
    jinja_value input = jinja_evaluate(run, node->a);
    jinja_arguments given = evaluate_arguments(run, &node->list);
    return jinja_apply_test(run, node->text, input, &given, node->line);
}

// --- the rest -------------------------------------------------------------------------------------------------

static jinja_value collect(jinja_run *run, const jinja_node *node)
{
    jinja_value list = jinja_new_list(run->box);
    for (size_t i = 0; i < node->list.count && !run->box->failed; i++)
        jinja_append(run->box, list, jinja_evaluate(run, node->list.items[i]));
    if (list.kind == JINJA_LIST)
        list.list->tuple = node->kind == JINJA_NODE_TUPLE;
    return list;
}

static jinja_value collect_dict(jinja_run *run, const jinja_node *node)
{
    jinja_value dict = jinja_new_dict(run->box);
    for (size_t i = 0; i + 1 < node->list.count && !run->box->failed; i += 2) {
        jinja_value key = jinja_evaluate(run, node->list.items[i]);
        jinja_put(run->box, dict.dict, key, jinja_evaluate(run, node->list.items[i + 1]));
    }
    return dict;
}

static jinja_value slice(jinja_run *run, const jinja_node *node)
{
    jinja_value object = jinja_evaluate(run, node->a), bounds[3];
    for (int i = 0; i < 3; i++)
        bounds[i] = node->list.items[i] ? jinja_evaluate(run, node->list.items[i]) : UNDEFINED;
    return run->box->failed ? UNDEFINED : jinja_slice(run, object, bounds);
}

static jinja_value negate(jinja_run *run, const jinja_node *node)
{
    jinja_value value = jinja_evaluate(run, node->a);
    if (value.kind == JINJA_FLOAT)
        return jinja_float(-value.real);
    if (!jinja_is_number(value) || as_int(value) == INT64_MIN)
        return jinja_refuse(run->box, "line %d: a %s has no negative", node->line,
                            jinja_type_name(value));
    return jinja_int(-as_int(value));
}

static jinja_value choose(jinja_run *run, const jinja_node *node)
{
    if (jinja_truth(jinja_evaluate(run, node->a)))
        return jinja_evaluate(run, node->b);
    return node->list.count ? jinja_evaluate(run, node->list.items[0]) : UNDEFINED;
}

static jinja_value either(jinja_run *run, const jinja_node *node)
{
    jinja_value first = jinja_evaluate(run, node->a);
    bool decided = jinja_truth(first) == (node->kind == JINJA_NODE_OR);
    return decided ? first : jinja_evaluate(run, node->b);
}

static jinja_value member(jinja_run *run, const jinja_node *node)
{
    jinja_value object = jinja_evaluate(run, node->a);
    jinja_value key = node->kind == JINJA_NODE_ITEM ? jinja_evaluate(run, node->b)
                                                    : jinja_of_text(run->box, node->text);
    if (run->box->failed)
        return UNDEFINED;
    jinja_value found = jinja_attribute(run, object, key);
    jinja_method_fn *method = found.kind == JINJA_UNDEFINED && node->kind == JINJA_NODE_ATTRIBUTE
                                  ? jinja_method_find(object, node->text)
                                  : NULL;
    return method ? jinja_new_callable(run, (jinja_callable){.method = method, .object = object})
                  : found;
}

static jinja_value evaluate(jinja_run *run, const jinja_node *node)
{
    switch (node->kind) {
    case JINJA_NODE_VALUE: return node->value;
    case JINJA_NODE_NAME: return jinja_lookup(run, node->text);
    case JINJA_NODE_LIST:
    case JINJA_NODE_TUPLE: return collect(run, node);
    case JINJA_NODE_DICT: return collect_dict(run, node);
    case JINJA_NODE_ATTRIBUTE:
    case JINJA_NODE_ITEM: return member(run, node);
    case JINJA_NODE_SLICE: return slice(run, node);
    case JINJA_NODE_CALL: return call(run, node);
    case JINJA_NODE_FILTER: return filter(run, node);
    case JINJA_NODE_TEST: return test(run, node);
    case JINJA_NODE_NOT: return jinja_bool(!jinja_truth(jinja_evaluate(run, node->a)));
    case JINJA_NODE_NEGATE: return negate(run, node);
    case JINJA_NODE_AND:
    case JINJA_NODE_OR: return either(run, node);
    case JINJA_NODE_CHOICE: return choose(run, node);
    case JINJA_NODE_BINARY: return binary(run, node);
    case JINJA_NODE_BODY: return run->gathered;
    default: return jinja_refuse(run->box, "line %d: no value stands here", node->line);
    }
}

jinja_value jinja_evaluate(jinja_run *run, const jinja_node *node)
{
    if (!node || !jinja_step(run->box, 1))
        return UNDEFINED;
    if (++run->depth > MAX_DEPTH)
        return jinja_refuse(run->box, "line %d: the template nests too deeply", node->line);
    jinja_value value = evaluate(run, node);
    run->depth--;
    return run->box->failed ? UNDEFINED : value;
}
