// SPDX-License-Identifier: MIT
#ifndef ENGINE_CONSTRAIN_BUILDER_H
#define ENGINE_CONSTRAIN_BUILDER_H

// What lies behind a builder; for the files that make grammars of expressions.

#include "engine/constrain/grammar.h"

typedef enum expression_kind {
    EXPRESSION_EMPTY,
    EXPRESSION_TEXT,  // bytes[from .. from + count)
    EXPRESSION_BYTE,  // from `from` to `count`
    EXPRESSION_CLASS, // ranges[from .. from + count), in order, apart from each other
    EXPRESSION_SEQUENCE,
    EXPRESSION_CHOICE,
    EXPRESSION_REPEAT, // of its only part
    EXPRESSION_CALL,   // of the rule `from`
    EXPRESSION_UNTIL,  // the mark bytes[from .. from + count), then its only part; least: may end
} expression_kind;

typedef struct expression {
    uint8_t kind;
    uint32_t from, count;
    int32_t least, most;
    uint32_t last;   // part of this one
    uint32_t before; // the part of the same list before this one
} expression;

typedef struct builder_rule {
    uint32_t name, name_bytes; // in bytes[]; none: 0 bytes
    grammar_expr expression;
    bool defined;
} builder_rule;

struct grammar_builder {
    expression *expressions;
    char *bytes;
    code_range *ranges;
    builder_rule *rules;
    uint32_t expression_count, byte_count, range_count, rule_count;
    size_t expression_room, byte_room, range_room, rule_room, node_room;
    grammar *made;
    size_t work;
    bool failed;
    engine_error err;
};

// Fills in b->made from the expressions of all rules.
void grammar_assemble(grammar_builder *b);

// A node of a character class behind which `next` stands.
uint32_t grammar_class_node(grammar_builder *b, const code_range *ranges, uint32_t count,
                            uint32_t next);

// A new node; GRAMMAR_END_NODE after a failure.
uint32_t grammar_node_make(grammar_builder *b, grammar_node node);

// Refuses grammars that begin rules with themselves.
bool grammar_check_recursion(grammar_builder *b);

#endif
