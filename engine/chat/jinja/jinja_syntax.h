// SPDX-License-Identifier: MIT
#ifndef ENGINE_CHAT_JINJA_JINJA_SYNTAX_H
#define ENGINE_CHAT_JINJA_JINJA_SYNTAX_H

// Tokens and the tree that a template becomes.

#include "engine/chat/jinja/jinja_box.h"

typedef enum jinja_token_kind {
    JINJA_TOKEN_END,
    JINJA_TOKEN_DATA,        // text between tags
    JINJA_TOKEN_PRINT_OPEN,  // {{
    JINJA_TOKEN_PRINT_CLOSE, // }}
    JINJA_TOKEN_BLOCK_OPEN,  // {%
    JINJA_TOKEN_BLOCK_CLOSE, // %}
    JINJA_TOKEN_NAME,
    JINJA_TOKEN_TEXT, // a string literal, its escapes resolved
    JINJA_TOKEN_INT,
    JINJA_TOKEN_FLOAT,
    JINJA_TOKEN_OPERATOR,
} jinja_token_kind;

typedef struct jinja_token {
    jinja_token_kind kind;
    int32_t line;
    const char *data;
    size_t size_bytes;
} jinja_token;

typedef struct jinja_tokens {
    jinja_token *items;
    size_t count, capacity;
} jinja_tokens;

// Takes a template apart; what it makes lives in the box. False when the box has failed.
bool jinja_scan(jinja_box *box, const char *text, size_t size_bytes, jinja_tokens *tokens);

typedef enum jinja_node_kind {
    // statements
    JINJA_NODE_DATA,         // text
    JINJA_NODE_PRINT,        // a
    JINJA_NODE_IF,           // a: condition, body, other
    JINJA_NODE_FOR,          // target, a: items, b: condition or NULL, body, other
    JINJA_NODE_SET,          // target, a: value, or body if that is NULL (b: filters of the body)
    JINJA_NODE_MACRO,        // text: name, parameters, body
    JINJA_NODE_CALL_BLOCK,   // a: the call, parameters, body
    JINJA_NODE_FILTER_BLOCK, // a: filters over a JINJA_NODE_BODY, body
    JINJA_NODE_SCOPE,        // body
    JINJA_NODE_BREAK,
    JINJA_NODE_CONTINUE,
    // expressions
    JINJA_NODE_VALUE,     // value
    JINJA_NODE_NAME,      // text
    JINJA_NODE_LIST,      // list
    JINJA_NODE_TUPLE,     // list
    JINJA_NODE_DICT,      // list: key, value, key, value
    JINJA_NODE_ATTRIBUTE, // a, text
    JINJA_NODE_ITEM,      // a, b
    JINJA_NODE_SLICE,     // list: object, start, stop, step; NULL where missing
    JINJA_NODE_CALL,      // a, list: arguments
    JINJA_NODE_FILTER,    // a, text, list: arguments
    JINJA_NODE_TEST,      // a, text, list: arguments
    JINJA_NODE_NOT,       // a
    JINJA_NODE_NEGATE,    // a
    JINJA_NODE_AND,       // a, b
    JINJA_NODE_OR,        // a, b
    JINJA_NODE_CHOICE,    // a: condition, b, other_expression in list[0] or none
    JINJA_NODE_BINARY,    // text: operator, a, b
    JINJA_NODE_NAMED,     // text = a, in lists of arguments and parameters
    JINJA_NODE_BODY,      // what a filter block gathered
} jinja_node_kind;

typedef struct jinja_node jinja_node;

typedef struct jinja_nodes {
    jinja_node **items;
    size_t count, capacity;
} jinja_nodes;

struct jinja_node {
    jinja_node_kind kind;
    int32_t line;
    int32_t depth; // of the tree of expressions below
    jinja_text text;
    jinja_value value;
    jinja_node *a, *b, *target;
    jinja_nodes list, parameters, body, other;
};

struct jinja_program {
    jinja_box *box;
    jinja_nodes body;
};

// Reads the tokens of a template into program->body.
bool jinja_read(jinja_box *box, const jinja_tokens *tokens, jinja_nodes *body);

// For the halves of the parser: jinja_parse.c has statements, jinja_parse_expression.c expressions.
typedef struct jinja_parser {
    jinja_box *box;
    const jinja_token *token; // the next one
    int depth;
} jinja_parser;

static inline jinja_text jinja_token_text(const jinja_token *token)
{
    return (jinja_text){.data = token->data, .size_bytes = token->size_bytes};
}

jinja_node *jinja_new_node(jinja_parser *parser, jinja_node_kind kind);
void jinja_add_node(jinja_parser *parser, jinja_nodes *nodes, jinja_node *node);
bool jinja_at(const jinja_parser *parser, jinja_token_kind kind, const char *text);
bool jinja_accept(jinja_parser *parser, jinja_token_kind kind, const char *text);
void jinja_expect(jinja_parser *parser, jinja_token_kind kind, const char *text);
jinja_text jinja_expect_name(jinja_parser *parser);
void *jinja_unexpected(jinja_parser *parser, const char *wanted);

jinja_node *jinja_parse_expression(jinja_parser *parser);
jinja_node *jinja_parse_tuple(jinja_parser *parser,
                              bool with_choice);      // a, b, ... or one expression
jinja_node *jinja_parse_target(jinja_parser *parser); // what set and for assign to
jinja_node *jinja_parse_postfix(jinja_parser *parser);
jinja_node *jinja_parse_filter(jinja_parser *parser, jinja_node *node);  // name and arguments
jinja_node *jinja_parse_filters(jinja_parser *parser, jinja_node *node); // any number, with bars
void jinja_parse_parameters(jinja_parser *parser, jinja_nodes *parameters);

#endif
