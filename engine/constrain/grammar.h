// SPDX-License-Identifier: MIT
#ifndef ENGINE_CONSTRAIN_GRAMMAR_H
#define ENGINE_CONSTRAIN_GRAMMAR_H

// What a text may be: rules over bytes. A grammar is made of expressions by a builder, and then is a graph of
// nodes, one piece per rule; a rule that names another one calls it, so nesting takes a stack (machine.h).
//
// Whoever writes grammars and schemas is a stranger: expressions, nodes, repetitions and depth have limits, and
// what exceeds them is refused with a reason.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"

enum {
    GRAMMAR_MAX_TEXT_BYTES = 1 << 20, // of a grammar or a schema
    GRAMMAR_MAX_NODES = 1 << 18,
    GRAMMAR_MAX_RULES = 1 << 14,
    GRAMMAR_MAX_REPEAT = 100000,
    GRAMMAR_MAX_DEPTH = 256, // of expressions
    GRAMMAR_LAST_CODE = 0x10FFFF,
    // Bytes that no UTF-8 text has, around the name of a special token.
    GRAMMAR_SPECIAL = 0xFF,
    GRAMMAR_SPECIAL_END = 0xFE,
};

typedef enum grammar_kind {
    GRAMMAR_END,   // of a rule
    GRAMMAR_BYTES, // a byte from low to high, then `next`
    GRAMMAR_SPLIT, // `next` or `other`
    GRAMMAR_CALL,  // the rule `other`, then `next`
    GRAMMAR_DEAD,  // nothing matches
} grammar_kind;

typedef struct grammar_node {
    uint8_t kind, low, high;
    uint32_t next, other;
} grammar_node;

enum { GRAMMAR_END_NODE = 0 }; // there is one

typedef struct grammar {
    grammar_node *nodes;
    uint32_t *entries; // first node of each rule
    uint32_t node_count, rule_count, root;
    uint8_t classes[256]; // bytes that no node tells apart are of one class
    uint32_t class_count;
} grammar;

void grammar_free(grammar *g); // may be NULL

// --- building -----------------------------------------------------------------------------------------

// An expression may become part of one other. 0 is the empty text, and what comes of a failure: those stick, so
// that only grammar_finish need be asked.
typedef uint32_t grammar_expr;
typedef struct grammar_builder grammar_builder;

typedef struct code_range {
    uint32_t first, last;
} code_range;

grammar_builder *grammar_begin(engine_error *err);
void grammar_abandon(grammar_builder *b); // may be NULL

// The builder's nodes with `root` as what a whole text is; the builder is gone, also after a failure. Refused:
// rules without an expression, rules that begin with themselves.
grammar *grammar_finish(grammar_builder *b, uint32_t root, engine_error *err);

bool grammar_failed(const grammar_builder *b);
// The first failure counts; returns 0.
grammar_expr grammar_fail(grammar_builder *b, const char *format, ...) ENGINE_PRINTF(2, 3);

grammar_expr grammar_text(grammar_builder *b, const char *text, size_t bytes);
grammar_expr grammar_word(grammar_builder *b, const char *text); // NUL-terminated
// The special token of this name, never its name as text.
grammar_expr grammar_special(grammar_builder *b, const char *name, size_t bytes);
// One byte, whatever it means.
grammar_expr grammar_byte(grammar_builder *b, uint8_t low, uint8_t high);
// One character of these ranges, in any order, or of all others. Surrogates are no characters.
grammar_expr grammar_class(grammar_builder *b, const code_range *ranges, size_t count, bool others);
grammar_expr grammar_sequence(grammar_builder *b);
grammar_expr grammar_choice(grammar_builder *b); // without a way nothing matches
void grammar_add(grammar_builder *b, grammar_expr list, grammar_expr part);
// Adds several parts and returns the list.
grammar_expr grammar_add_all(grammar_builder *b, grammar_expr list, const grammar_expr *parts,
                             size_t count);
grammar_expr grammar_repeat(grammar_builder *b, grammar_expr part, int32_t least,
                            int32_t most); // most -1: any number
grammar_expr grammar_optional(grammar_builder *b, grammar_expr part);

// Parts behind each other; ways beside each other. The parts may be made in any order.
#define GRAMMAR_LIST(b, list, ...)                                                                 \
    grammar_add_all(b, list, (const grammar_expr[]){__VA_ARGS__},                                  \
                    sizeof((const grammar_expr[]){__VA_ARGS__}) / sizeof(grammar_expr))
#define GRAMMAR_SEQUENCE(b, ...) GRAMMAR_LIST(b, grammar_sequence(b), __VA_ARGS__)
#define GRAMMAR_CHOICE(b, ...)   GRAMMAR_LIST(b, grammar_choice(b), __VA_ARGS__)

// Rules are numbers. name (may be NULL) is for errors.
uint32_t grammar_new_rule(grammar_builder *b, const char *name, size_t name_bytes);
uint32_t grammar_find_rule(const grammar_builder *b, const char *name, size_t name_bytes,
                           bool *found);
bool grammar_has_rule(const grammar_builder *b, uint32_t rule); // is it defined?
void grammar_define(grammar_builder *b, uint32_t rule, grammar_expr whole);
grammar_expr grammar_call(grammar_builder *b, uint32_t rule);
// A new rule for an expression that is used in several places.
uint32_t grammar_make_rule(grammar_builder *b, grammar_expr whole);

// Any bytes in which `mark` (at most 64 bytes) does not occur, then the mark. With `may_end`, also such a text
// without it, and nothing behind: then the whole text ends. A mark of a special token is given as its name.
grammar_expr grammar_until(grammar_builder *b, const char *mark, size_t bytes, bool special,
                           grammar_expr behind, bool may_end);

#endif
