// SPDX-License-Identifier: MIT
// From tokens to expressions, weakest first: choice, or, and, not, comparison, sum, ~, product, power,
// sign, and what stands behind a value: attributes, items, calls, filters, tests.
#include <stdlib.h>
#include <string.h>

#include "engine/chat/jinja/jinja_syntax.h"

enum { MAX_DEPTH = 200, MAX_TREE_DEPTH = 300 };

static jinja_node *parse_sum(jinja_parser *parser);
static jinja_node *parse_sign(jinja_parser *parser, bool with_filters);

static jinja_node *pair(jinja_parser *parser, jinja_node_kind kind, const char *operator,
                        jinja_node * a, jinja_node *b)
{
    jinja_node *node = jinja_new_node(parser, kind);
    if (!node)
        return NULL;
    node->text = (jinja_text){.data = operator, .size_bytes = strlen(operator)};
    node->a = a;
    node->b = b;
    node->depth = 1 + (a ? a->depth : 0);
    if (b && b->depth >= node->depth)
        node->depth = b->depth + 1;
    if (node->depth > MAX_TREE_DEPTH)
        return jinja_unexpected(parser, "a shorter expression");
    return node;
}

static jinja_node *value_node(jinja_parser *parser, jinja_value value)
{
    jinja_node *node = jinja_new_node(parser, JINJA_NODE_VALUE);
    if (node)
        node->value = value;
    return node;
}

// The operator among `operators` that stands here, taken; NULL if there is none.
static const char *accept_operator(jinja_parser *parser, const char *const *operators)
{
    for (; *operators; operators++)
        if (jinja_accept(parser, JINJA_TOKEN_OPERATOR, *operators))
            return *operators;
    return NULL;
}

// --- arguments and parameters -----------------------------------------------------------------------------

// NAME = expression, or an expression.
static jinja_node *parse_argument(jinja_parser *parser)
{
    const jinja_token *next = parser->token + 1;
    if (!jinja_at(parser, JINJA_TOKEN_NAME, NULL) || next->kind != JINJA_TOKEN_OPERATOR ||
        next->size_bytes != 1 || next->data[0] != '=')
        return jinja_parse_expression(parser);
    jinja_node *node = jinja_new_node(parser, JINJA_NODE_NAMED);
    if (!node)
        return NULL;
    node->text = jinja_expect_name(parser);
    parser->token++;
    node->a = jinja_parse_expression(parser);
    return node;
}

// Arguments up to the bracket that closes them; the opening one has been taken.
static void parse_arguments(jinja_parser *parser, jinja_nodes *list)
{
    while (!parser->box->failed && !jinja_accept(parser, JINJA_TOKEN_OPERATOR, ")")) {
        jinja_add_node(parser, list, parse_argument(parser));
        if (!jinja_at(parser, JINJA_TOKEN_OPERATOR, ")"))
            jinja_expect(parser, JINJA_TOKEN_OPERATOR, ",");
    }
}

void jinja_parse_parameters(jinja_parser *parser, jinja_nodes *parameters)
{
    while (!parser->box->failed && !jinja_accept(parser, JINJA_TOKEN_OPERATOR, ")")) {
        jinja_node *node = jinja_new_node(parser, JINJA_NODE_NAMED);
        if (!node)
            return;
        node->text = jinja_expect_name(parser);
        if (jinja_accept(parser, JINJA_TOKEN_OPERATOR, "="))
            node->a = jinja_parse_expression(parser);
        jinja_add_node(parser, parameters, node);
        if (!jinja_at(parser, JINJA_TOKEN_OPERATOR, ")"))
            jinja_expect(parser, JINJA_TOKEN_OPERATOR, ",");
    }
}

// --- values -------------------------------------------------------------------------------------------------

static jinja_node *parse_list(jinja_parser *parser)
{
    jinja_node *node = jinja_new_node(parser, JINJA_NODE_LIST);
    while (node && !parser->box->failed && !jinja_accept(parser, JINJA_TOKEN_OPERATOR, "]")) {
        jinja_add_node(parser, &node->list, jinja_parse_expression(parser));
        if (!jinja_at(parser, JINJA_TOKEN_OPERATOR, "]"))
            jinja_expect(parser, JINJA_TOKEN_OPERATOR, ",");
    }
    return node;
}

static jinja_node *parse_dict(jinja_parser *parser)
{
    jinja_node *node = jinja_new_node(parser, JINJA_NODE_DICT);
    while (node && !parser->box->failed && !jinja_accept(parser, JINJA_TOKEN_OPERATOR, "}")) {
        jinja_add_node(parser, &node->list, jinja_parse_expression(parser));
        jinja_expect(parser, JINJA_TOKEN_OPERATOR, ":");
        jinja_add_node(parser, &node->list, jinja_parse_expression(parser));
        if (!jinja_at(parser, JINJA_TOKEN_OPERATOR, "}"))
            jinja_expect(parser, JINJA_TOKEN_OPERATOR, ",");
    }
    return node;
}

static jinja_node *parse_number(jinja_parser *parser, bool real)
{
    char digits[64];
    size_t count = 0;
    for (size_t i = 0; i < parser->token->size_bytes && count + 1 < sizeof digits; i++)
        if (parser->token->data[i] != '_')
            digits[count++] = parser->token->data[i];
    digits[count] = 0;
    parser->token++;
    return value_node(parser, real ? jinja_float(strtod(digits, NULL))
                                   : jinja_int(strtoll(digits, NULL, 10)));
}

// Literals that stand side by side are one.
static jinja_node *parse_literal(jinja_parser *parser)
{
    jinja_writer writer = {.box = parser->box};
    const jinja_token *first = parser->token;
    while (jinja_at(parser, JINJA_TOKEN_TEXT, NULL)) {
        jinja_write_bytes(&writer, parser->token->data, parser->token->size_bytes, false);
        parser->token++;
    }
    jinja_text text = {.data = first->data, .size_bytes = first->size_bytes};
    if (parser->token != first + 1) {
        text = jinja_written(&writer);
        text.origin = NULL;
    }
    return value_node(parser, jinja_of_text(parser->box, text));
}

static jinja_node *parse_name(jinja_parser *parser)
{
    static const struct {
        const char *name;
        jinja_kind kind;
        bool value;
    } constants[] = {{"true", JINJA_BOOL, true},   {"True", JINJA_BOOL, true},
                     {"false", JINJA_BOOL, false}, {"False", JINJA_BOOL, false},
                     {"none", JINJA_NONE, false},  {"None", JINJA_NONE, false}};
    jinja_node *node = jinja_new_node(parser, JINJA_NODE_NAME);
    if (!node)
        return NULL;
    node->text = jinja_expect_name(parser);
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (jinja_text_is(node->text, constants[i].name))
            return value_node(parser, constants[i].kind == JINJA_BOOL
                                          ? jinja_bool(constants[i].value)
                                          : jinja_none());
    return node;
}

static jinja_node *parse_primary(jinja_parser *parser)
{
    if (parser->box->failed)
        return NULL;
    if (jinja_at(parser, JINJA_TOKEN_NAME, NULL))
        return parse_name(parser);
    if (jinja_at(parser, JINJA_TOKEN_TEXT, NULL))
        return parse_literal(parser);
    if (jinja_at(parser, JINJA_TOKEN_INT, NULL))
        return parse_number(parser, false);
    if (jinja_at(parser, JINJA_TOKEN_FLOAT, NULL))
        return parse_number(parser, true);
    if (jinja_accept(parser, JINJA_TOKEN_OPERATOR, "["))
        return parse_list(parser);
    if (jinja_accept(parser, JINJA_TOKEN_OPERATOR, "{"))
        return parse_dict(parser);
    if (!jinja_accept(parser, JINJA_TOKEN_OPERATOR, "("))
        return jinja_unexpected(parser, "a value");
    if (jinja_accept(parser, JINJA_TOKEN_OPERATOR, ")"))
        return jinja_new_node(parser, JINJA_NODE_TUPLE);
    jinja_node *node = jinja_parse_tuple(parser, true);
    jinja_expect(parser, JINJA_TOKEN_OPERATOR, ")");
    return node;
}

// --- what stands behind a value -----------------------------------------------------------------------------

// [index], [start:stop:step]; the opening bracket has been taken.
static jinja_node *parse_item(jinja_parser *parser, jinja_node *object)
{
    jinja_node *parts[3] = {NULL, NULL, NULL};
    int part = 0;
    bool slice = false;
    while (!parser->box->failed && !jinja_accept(parser, JINJA_TOKEN_OPERATOR, "]")) {
        if (jinja_accept(parser, JINJA_TOKEN_OPERATOR, ":")) {
            slice = true;
            if (++part == 3)
                return jinja_unexpected(parser, "]");
        } else {
            parts[part] = jinja_parse_expression(parser);
        }
    }
    if (!slice && !parts[0])
        return jinja_unexpected(parser, "an index");
    if (!slice)
        return pair(parser, JINJA_NODE_ITEM, "", object, parts[0]);
    jinja_node *node = pair(parser, JINJA_NODE_SLICE, "", object, NULL);
    for (part = 0; node && part < 3; part++)
        jinja_add_node(parser, &node->list, parts[part]);
    return node;
}

// .name, [..] and (..), as many as there are.
static jinja_node *parse_tail(jinja_parser *parser, jinja_node *node)
{
    while (!parser->box->failed) {
        if (jinja_accept(parser, JINJA_TOKEN_OPERATOR, ".")) {
            if (jinja_at(parser, JINJA_TOKEN_INT, NULL)) {
                node = pair(parser, JINJA_NODE_ITEM, "", node, parse_number(parser, false));
                continue;
            }
            jinja_node *attribute = pair(parser, JINJA_NODE_ATTRIBUTE, "", node, NULL);
            if (!attribute)
                return NULL;
            attribute->text = jinja_expect_name(parser);
            node = attribute;
        } else if (jinja_accept(parser, JINJA_TOKEN_OPERATOR, "[")) {
            node = parse_item(parser, node);
        } else if (jinja_accept(parser, JINJA_TOKEN_OPERATOR, "(")) {
            node = pair(parser, JINJA_NODE_CALL, "", node, NULL);
            if (node)
                parse_arguments(parser, &node->list);
        } else {
            break;
        }
    }
    return node;
}

jinja_node *jinja_parse_postfix(jinja_parser *parser)
{
    return parse_tail(parser, parse_primary(parser));
}

jinja_node *jinja_parse_filter(jinja_parser *parser, jinja_node *node)
{
    jinja_node *filter = pair(parser, JINJA_NODE_FILTER, "", node, NULL);
    if (!filter)
        return NULL;
    filter->text = jinja_expect_name(parser);
    if (jinja_accept(parser, JINJA_TOKEN_OPERATOR, "("))
        parse_arguments(parser, &filter->list);
    return filter;
}

jinja_node *jinja_parse_filters(jinja_parser *parser, jinja_node *node)
{
    while (jinja_accept(parser, JINJA_TOKEN_OPERATOR, "|"))
        node = jinja_parse_filter(parser, node);
    return node;
}

// Does a value stand here that a test takes without brackets: `is divisibleby 3`?
static bool bare_argument(const jinja_parser *parser)
{
    static const char *const words[] = {"else", "or", "and", "is", "if", "not", "in"};
    jinja_token_kind kind = parser->token->kind;
    if (kind == JINJA_TOKEN_TEXT || kind == JINJA_TOKEN_INT || kind == JINJA_TOKEN_FLOAT)
        return true;
    if (kind == JINJA_TOKEN_OPERATOR)
        return jinja_at(parser, kind, "[") || jinja_at(parser, kind, "{");
    if (kind != JINJA_TOKEN_NAME)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (jinja_at(parser, kind, words[i]))
            return false;
    return true;
}

// Behind `is`.
static jinja_node *parse_test(jinja_parser *parser, jinja_node *node)
{
    bool negated = jinja_accept(parser, JINJA_TOKEN_NAME, "not");
    jinja_node *test = pair(parser, JINJA_NODE_TEST, "", node, NULL);
    if (!test)
        return NULL;
    test->text = jinja_expect_name(parser);
    if (jinja_accept(parser, JINJA_TOKEN_OPERATOR, "("))
        parse_arguments(parser, &test->list);
    else if (bare_argument(parser))
        jinja_add_node(parser, &test->list, jinja_parse_postfix(parser));
    return negated ? pair(parser, JINJA_NODE_NOT, "", test, NULL) : test;
}

static jinja_node *parse_filtered(jinja_parser *parser, jinja_node *node)
{
    while (!parser->box->failed) {
        if (jinja_at(parser, JINJA_TOKEN_OPERATOR, "|"))
            node = parse_tail(parser, jinja_parse_filters(parser, node));
        else if (jinja_accept(parser, JINJA_TOKEN_NAME, "is"))
            node = parse_test(parser, node);
        else
            break;
    }
    return node;
}

// --- operators ----------------------------------------------------------------------------------------------

static jinja_node *parse_sign(jinja_parser *parser, bool with_filters)
{
    jinja_node *node;
    if (jinja_accept(parser, JINJA_TOKEN_OPERATOR, "-")) {
        if (++parser->depth > MAX_DEPTH)
            return jinja_unexpected(parser, "less nesting");
        node = pair(parser, JINJA_NODE_NEGATE, "", parse_sign(parser, false), NULL);
        parser->depth--;
    } else if (jinja_accept(parser, JINJA_TOKEN_OPERATOR, "+")) {
        node = jinja_parse_postfix(parser);
    } else {
        node = jinja_parse_postfix(parser);
    }
    return with_filters ? parse_filtered(parser, node) : node;
}

static jinja_node *parse_power(jinja_parser *parser)
{
    jinja_node *node = parse_sign(parser, true);
    while (jinja_accept(parser, JINJA_TOKEN_OPERATOR, "**"))
        node = pair(parser, JINJA_NODE_BINARY, "**", node, parse_sign(parser, true));
    return node;
}

static jinja_node *parse_product(jinja_parser *parser)
{
    static const char *const operators[] = {"//", "*", "/", "%", NULL};
    jinja_node *node = parse_power(parser);
    for (const char *o; (o = accept_operator(parser, operators));)
        node = pair(parser, JINJA_NODE_BINARY, o, node, parse_power(parser));
    return node;
}

static jinja_node *parse_joined(jinja_parser *parser)
{
    jinja_node *node = parse_product(parser);
    while (jinja_accept(parser, JINJA_TOKEN_OPERATOR, "~"))
        node = pair(parser, JINJA_NODE_BINARY, "~", node, parse_product(parser));
    return node;
}

static jinja_node *parse_sum(jinja_parser *parser)
{
    static const char *const operators[] = {"+", "-", NULL};
    jinja_node *node = parse_joined(parser);
    for (const char *o; (o = accept_operator(parser, operators));)
        node = pair(parser, JINJA_NODE_BINARY, o, node, parse_joined(parser));
    return node;
}

static bool accept_not_in(jinja_parser *parser)
{
    const jinja_token *next = parser->token + 1;
    if (!jinja_at(parser, JINJA_TOKEN_NAME, "not") || next->kind != JINJA_TOKEN_NAME ||
        next->size_bytes != 2 || memcmp(next->data, "in", 2) != 0)
        return false;
    parser->token += 2;
    return true;
}

// a < b < c means a < b and b < c.
static jinja_node *parse_comparison(jinja_parser *parser)
{
    static const char *const operators[] = {"==", "!=", "<=", ">=", "<", ">", NULL};
    jinja_node *left = parse_sum(parser), *node = left;
    for (bool first = true; !parser->box->failed; first = false) {
        const char *o = accept_operator(parser, operators);
        bool negated = false;
        if (!o && jinja_accept(parser, JINJA_TOKEN_NAME, "in"))
            o = "in";
        if (!o && (negated = accept_not_in(parser)))
            o = "in";
        if (!o)
            break;
        jinja_node *right = parse_sum(parser);
        jinja_node *one = pair(parser, JINJA_NODE_BINARY, o, left, right);
        one = negated ? pair(parser, JINJA_NODE_NOT, "", one, NULL) : one;
        node = first ? one : pair(parser, JINJA_NODE_AND, "", node, one);
        left = right;
    }
    return node;
}

static jinja_node *parse_not(jinja_parser *parser)
{
    if (!jinja_accept(parser, JINJA_TOKEN_NAME, "not"))
        return parse_comparison(parser);
    if (++parser->depth > MAX_DEPTH)
        return jinja_unexpected(parser, "less nesting");
    jinja_node *node = pair(parser, JINJA_NODE_NOT, "", parse_not(parser), NULL);
    parser->depth--;
    return node;
}

static jinja_node *parse_and(jinja_parser *parser)
{
    jinja_node *node = parse_not(parser);
    while (jinja_accept(parser, JINJA_TOKEN_NAME, "and"))
        node = pair(parser, JINJA_NODE_AND, "", node, parse_not(parser));
    return node;
}

static jinja_node *parse_or(jinja_parser *parser)
{
    jinja_node *node = parse_and(parser);
    while (jinja_accept(parser, JINJA_TOKEN_NAME, "or"))
        node = pair(parser, JINJA_NODE_OR, "", node, parse_and(parser));
    return node;
}

jinja_node *jinja_parse_expression(jinja_parser *parser)
{
    if (++parser->depth > MAX_DEPTH)
        return jinja_unexpected(parser, "less nesting");
    jinja_node *node = parse_or(parser);
    while (jinja_accept(parser, JINJA_TOKEN_NAME, "if")) {
        jinja_node *choice = pair(parser, JINJA_NODE_CHOICE, "", parse_or(parser), node);
        if (choice && jinja_accept(parser, JINJA_TOKEN_NAME, "else"))
            jinja_add_node(parser, &choice->list, jinja_parse_expression(parser));
        node = choice;
    }
    parser->depth--;
    return node;
}

jinja_node *jinja_parse_tuple(jinja_parser *parser, bool with_choice)
{
    jinja_node *first = with_choice ? jinja_parse_expression(parser) : parse_or(parser);
    if (!jinja_at(parser, JINJA_TOKEN_OPERATOR, ","))
        return first;
    jinja_node *tuple = jinja_new_node(parser, JINJA_NODE_TUPLE);
    if (!tuple)
        return NULL;
    jinja_add_node(parser, &tuple->list, first);
    while (jinja_accept(parser, JINJA_TOKEN_OPERATOR, ",")) {
        if (jinja_at(parser, JINJA_TOKEN_OPERATOR, ")") ||
            jinja_at(parser, JINJA_TOKEN_BLOCK_CLOSE, NULL) ||
            jinja_at(parser, JINJA_TOKEN_PRINT_CLOSE, NULL))
            break;
        jinja_add_node(parser, &tuple->list,
                       with_choice ? jinja_parse_expression(parser) : parse_or(parser));
    }
    return tuple;
}

// One target: a name, a member of a namespace, or names in brackets.
static jinja_node *parse_one_target(jinja_parser *parser)
{
    if (jinja_accept(parser, JINJA_TOKEN_OPERATOR, "(")) {
        jinja_node *inner = jinja_parse_target(parser);
        jinja_expect(parser, JINJA_TOKEN_OPERATOR, ")");
        return inner;
    }
    jinja_node *node = jinja_new_node(parser, JINJA_NODE_NAME);
    if (!node)
        return NULL;
    node->text = jinja_expect_name(parser);
    if (!jinja_accept(parser, JINJA_TOKEN_OPERATOR, "."))
        return node;
    jinja_node *member = pair(parser, JINJA_NODE_ATTRIBUTE, "", node, NULL);
    if (member)
        member->text = jinja_expect_name(parser);
    return member;
}

jinja_node *jinja_parse_target(jinja_parser *parser)
{
    if (++parser->depth > MAX_DEPTH)
        return jinja_unexpected(parser, "less nesting");
    jinja_node *first = parse_one_target(parser);
    parser->depth--;
    if (!jinja_at(parser, JINJA_TOKEN_OPERATOR, ","))
        return first;
    jinja_node *tuple = jinja_new_node(parser, JINJA_NODE_TUPLE);
    if (!tuple)
        return NULL;
    jinja_add_node(parser, &tuple->list, first);
    while (jinja_accept(parser, JINJA_TOKEN_OPERATOR, ","))
        jinja_add_node(parser, &tuple->list, parse_one_target(parser));
    return tuple;
}
