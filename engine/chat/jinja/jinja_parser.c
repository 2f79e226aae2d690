// SPDX-License-Identifier: MIT
// What both halves of the parser use: nodes and the next token.
#include <string.h>

#include "engine/chat/jinja/jinja_syntax.h"

jinja_node *jinja_new_node(jinja_parser *parser, jinja_node_kind kind)
{
    jinja_node *node = jinja_take(parser->box, 1, sizeof *node);
    if (!node)
        return NULL;
    node->kind = kind;
    node->line = parser->token->line;
    return node;
}

void jinja_add_node(jinja_parser *parser, jinja_nodes *nodes, jinja_node *node)
{
    if (nodes->count == nodes->capacity) {
        size_t capacity = nodes->capacity ? 2 * nodes->capacity : 4;
        jinja_node **items = jinja_take(parser->box, capacity, sizeof(jinja_node *));
        if (!items)
            return;
        if (nodes->count)
            memcpy(items, nodes->items, nodes->count * sizeof(jinja_node *));
        nodes->items = items;
        nodes->capacity = capacity;
    }
    nodes->items[nodes->count++] = node;
}

bool jinja_at(const jinja_parser *parser, jinja_token_kind kind, const char *text)
{
    return parser->token->kind == kind &&
           (!text || jinja_text_is(jinja_token_text(parser->token), text));
}

bool jinja_accept(jinja_parser *parser, jinja_token_kind kind, const char *text)
{
    if (parser->box->failed || !jinja_at(parser, kind, text))
        return false;
    parser->token++;
    return true;
}

void *jinja_unexpected(jinja_parser *parser, const char *wanted)
{
    const jinja_token *token = parser->token;
    bool ended = token->kind == JINJA_TOKEN_END;
    jinja_refuse(parser->box, "line %d: '%.*s' stands where %s should", token->line,
                 ended ? 15 : (int)(token->size_bytes < 40 ? token->size_bytes : 40),
                 ended ? "the end of text" : token->data, wanted);
    return NULL;
}

void jinja_expect(jinja_parser *parser, jinja_token_kind kind, const char *text)
{
    if (!parser->box->failed && !jinja_accept(parser, kind, text))
        jinja_unexpected(parser, text ? text : "the end of the tag");
}

jinja_text jinja_expect_name(jinja_parser *parser)
{
    jinja_text name = jinja_token_text(parser->token);
    if (!jinja_accept(parser, JINJA_TOKEN_NAME, NULL))
        jinja_unexpected(parser, "a name");
    return name;
}
