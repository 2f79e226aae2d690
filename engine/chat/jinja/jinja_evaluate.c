// SPDX-License-Identifier: MIT
// Expressions.
#include <math.h>
#include <string.h>

#include "engine/chat/jinja/jinja_run.h"

enum { MAX_DEPTH = 400 };

static const jinja_value UNDEFINED = {.kind = JINJA_UNDEFINED};

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

// Text and text; what is added to safe text is escaped.
static jinja_value add_texts(jinja_run *run, jinja_text a, jinja_text b)
{
    jinja_writer writer = {.box = run->box};
    bool safe = a.safe || b.safe;
    jinja_write(&writer, safe ? jinja_escape(run, a) : a);
    jinja_write(&writer, safe ? jinja_escape(run, b) : b);
    jinja_text text = jinja_written(&writer);
    text.safe = safe;
    return jinja_of_text(run->box, text);
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
    jinja_text all = jinja_written(&writer);
    all.safe = text.safe;
    return jinja_of_text(run->box, all);
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
        return add_texts(run, *a.text, *b.text);
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

jinja_value jinja_call(jinja_run *run, jinja_value callable, const jinja_arguments *given)
{
    if (run->box->failed)
        return UNDEFINED;
    if (callable.kind != JINJA_CALLABLE)
        return jinja_refuse(run->box, "a %s is called", jinja_type_name(callable));
    if (callable.callable->macro)
        return callable.callable->call(run, callable.callable, given);
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
