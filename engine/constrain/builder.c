// SPDX-License-Identifier: MIT
// Expressions. Arrays grow as needed up to their limits; the first failure sticks.
#include "engine/constrain/builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

enum { MAX_EXPRESSIONS = 1 << 18, MAX_BYTES = 1 << 22, MAX_RANGES = 1 << 18, MAX_MARK = 64 };

grammar_builder *grammar_begin(engine_error *err)
{
    grammar_builder *b = engine_alloc(1, sizeof *b);
    if (b)
        b->made = engine_alloc(1, sizeof *b->made);
    if (b && b->made) {
        grammar_sequence(b); // number 0
        if (!b->failed)
            return b;
    }
    grammar_abandon(b);
    engine_fail(err, "not enough memory for a grammar");
    return NULL;
}

void grammar_abandon(grammar_builder *b)
{
    if (!b)
        return;
    grammar_free(b->made);
    free(b->expressions);
    free(b->bytes);
    free(b->ranges);
    free(b->rules);
    free(b);
}

void grammar_free(grammar *g)
{
    if (!g)
        return;
    free(g->nodes);
    free(g->entries);
    free(g);
}

bool grammar_failed(const grammar_builder *b)
{
    return b->failed;
}

grammar_expr grammar_fail(grammar_builder *b, const char *format, ...)
{
    char text[sizeof b->err.text];
    va_list arguments;
    if (b->failed)
        return 0;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    b->failed = true;
    engine_fail(&b->err, "%s", text);
    return 0;
}

// Room for `more` of an array's elements behind `count`.
static bool grow(grammar_builder *b, void *array, size_t *room, size_t count, size_t more,
                 size_t size, size_t most)
{
    if (b->failed)
        return false;
    if (more > most || count > most - more) {
        grammar_fail(b, "the grammar is too large");
        return false;
    }
    if (!engine_grow(array, room, count + more, size))
        grammar_fail(b, "not enough memory for a grammar");
    return !b->failed;
}

static grammar_expr add_expression(grammar_builder *b, expression one)
{
    if (!grow(b, &b->expressions, &b->expression_room, b->expression_count, 1, sizeof one,
              MAX_EXPRESSIONS))
        return 0;
    b->expressions[b->expression_count] = one;
    return b->expression_count++;
}

static bool add_bytes(grammar_builder *b, const char *text, size_t bytes, uint32_t *from)
{
    if (!grow(b, &b->bytes, &b->byte_room, b->byte_count, bytes + 1, 1, MAX_BYTES))
        return false;
    *from = b->byte_count;
    if (bytes > 0)
        memcpy(b->bytes + b->byte_count, text, bytes);
    b->byte_count += (uint32_t)bytes;
    return true;
}

grammar_expr grammar_text(grammar_builder *b, const char *text, size_t bytes)
{
    uint32_t from;
    if (bytes == 0 || !add_bytes(b, text, bytes, &from))
        return 0;
    return add_expression(
        b, (expression){.kind = EXPRESSION_TEXT, .from = from, .count = (uint32_t)bytes});
}

grammar_expr grammar_word(grammar_builder *b, const char *text)
{
    return grammar_text(b, text, strlen(text));
}

grammar_expr grammar_byte(grammar_builder *b, uint8_t low, uint8_t high)
{
    return add_expression(b, (expression){.kind = EXPRESSION_BYTE, .from = low, .count = high});
}

grammar_expr grammar_special(grammar_builder *b, const char *name, size_t bytes)
{
    grammar_expr whole = grammar_sequence(b);
    grammar_add(b, whole, grammar_byte(b, GRAMMAR_SPECIAL, GRAMMAR_SPECIAL));
    grammar_add(b, whole, grammar_text(b, name, bytes));
    grammar_add(b, whole, grammar_byte(b, GRAMMAR_SPECIAL_END, GRAMMAR_SPECIAL_END));
    return whole;
}

// --- characters ---------------------------------------------------------------------------------------

static int by_first(const void *a, const void *b)
{
    const code_range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

static void push_range(grammar_builder *b, uint32_t first, uint32_t last)
{
    if (first <= last)
        b->ranges[b->range_count++] = (code_range){first, last};
}

// Leaves out surrogates.
static void push_characters(grammar_builder *b, uint32_t first, uint32_t last)
{
    push_range(b, first, last < 0xD7FF ? last : 0xD7FF);
    push_range(b, first > 0xE000 ? first : 0xE000,
               last < GRAMMAR_LAST_CODE ? last : GRAMMAR_LAST_CODE);
}

grammar_expr grammar_class(grammar_builder *b, const code_range *ranges, size_t count, bool others)
{
    bool fine = grow(b, &b->ranges, &b->range_room, b->range_count, 2 * count + 2, sizeof *ranges,
                     MAX_RANGES);
    code_range *sorted = fine ? engine_alloc(count + 1, sizeof *sorted) : NULL;
    if (!sorted)
        return grammar_fail(b, "not enough memory for a grammar");
    if (count > 0)
        memcpy(sorted, ranges, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_first);
    uint32_t from = b->range_count, next = 0; // the first code that is not dealt with yet
    for (size_t i = 0; i < count; i++) {
        uint32_t first = sorted[i].first > next ? sorted[i].first : next, last = sorted[i].last;
        if (last < first)
            continue;
        if (!others)
            push_characters(b, first, last);
        else if (first > next)
            push_characters(b, next, first - 1);
        next = last + 1;
    }
    free(sorted);
    if (others && next <= GRAMMAR_LAST_CODE)
        push_characters(b, next, GRAMMAR_LAST_CODE);
    return add_expression(
        b, (expression){.kind = EXPRESSION_CLASS, .from = from, .count = b->range_count - from});
}

// --- lists --------------------------------------------------------------------------------------------

grammar_expr grammar_sequence(grammar_builder *b)
{
    return add_expression(b, (expression){.kind = EXPRESSION_SEQUENCE});
}

grammar_expr grammar_choice(grammar_builder *b)
{
    return add_expression(b, (expression){.kind = EXPRESSION_CHOICE});
}

// The empty text is nobody's part: a new one stands for it.
static grammar_expr part_of(grammar_builder *b, grammar_expr part)
{
    return part ? part : grammar_sequence(b);
}

void grammar_add(grammar_builder *b, grammar_expr list, grammar_expr part)
{
    part = part_of(b, part);
    if (b->failed)
        return;
    b->expressions[part].before = b->expressions[list].last;
    b->expressions[list].last = part;
}

grammar_expr grammar_add_all(grammar_builder *b, grammar_expr list, const grammar_expr *parts,
                             size_t count)
{
    for (size_t i = 0; i < count; i++)
        grammar_add(b, list, parts[i]);
    return list;
}

grammar_expr grammar_repeat(grammar_builder *b, grammar_expr part, int32_t least, int32_t most)
{
    if (least > GRAMMAR_MAX_REPEAT || most > GRAMMAR_MAX_REPEAT)
        return grammar_fail(b, "a repetition of more than %d times is too long",
                            GRAMMAR_MAX_REPEAT);
    if (most >= 0 && most < least)
        return grammar_fail(b, "a repetition of at least %d and at most %d times is none", least,
                            most);
    return add_expression(
        b, (expression){
               .kind = EXPRESSION_REPEAT, .least = least, .most = most, .last = part_of(b, part)});
}

grammar_expr grammar_optional(grammar_builder *b, grammar_expr part)
{
    return grammar_repeat(b, part, 0, 1);
}

grammar_expr grammar_until(grammar_builder *b, const char *mark, size_t bytes, bool special,
                           grammar_expr behind, bool may_end)
{
    char text[MAX_MARK + 2];
    size_t size = 0;
    uint32_t from;
    if (bytes == 0 || bytes > MAX_MARK)
        return grammar_fail(b, "a mark of %zu bytes is too long or empty", bytes);
    if (special)
        text[size++] = (char)GRAMMAR_SPECIAL;
    memcpy(text + size, mark, bytes);
    size += bytes;
    if (special)
        text[size++] = (char)GRAMMAR_SPECIAL_END;
    if (!add_bytes(b, text, size, &from))
        return 0;
    return add_expression(b, (expression){.kind = EXPRESSION_UNTIL,
                                          .from = from,
                                          .count = (uint32_t)size,
                                          .least = may_end,
                                          .last = part_of(b, behind)});
}

// --- rules --------------------------------------------------------------------------------------------

uint32_t grammar_new_rule(grammar_builder *b, const char *name, size_t name_bytes)
{
    builder_rule rule = {.name_bytes = (uint32_t)name_bytes};
    if (name_bytes > 0 && !add_bytes(b, name, name_bytes, &rule.name))
        return 0;
    if (!grow(b, &b->rules, &b->rule_room, b->rule_count, 1, sizeof *b->rules, GRAMMAR_MAX_RULES))
        return 0;
    b->rules[b->rule_count] = rule;
    return b->rule_count++;
}

uint32_t grammar_find_rule(const grammar_builder *b, const char *name, size_t name_bytes,
                           bool *found)
{
    *found = false;
    for (uint32_t i = 0; i < b->rule_count && !*found; i++) {
        const builder_rule *rule = &b->rules[i];
        *found = rule->name_bytes == name_bytes && name_bytes > 0 &&
                 memcmp(b->bytes + rule->name, name, name_bytes) == 0;
        if (*found)
            return i;
    }
    return 0;
}

bool grammar_has_rule(const grammar_builder *b, uint32_t rule)
{
    return rule < b->rule_count && b->rules[rule].defined;
}

void grammar_define(grammar_builder *b, uint32_t rule, grammar_expr whole)
{
    if (b->failed)
        return;
    b->rules[rule].expression = whole;
    b->rules[rule].defined = true;
}

grammar_expr grammar_call(grammar_builder *b, uint32_t rule)
{
    return add_expression(b, (expression){.kind = EXPRESSION_CALL, .from = rule});
}

uint32_t grammar_make_rule(grammar_builder *b, grammar_expr whole)
{
    uint32_t rule = grammar_new_rule(b, NULL, 0);
    grammar_define(b, rule, whole);
    return rule;
}

// --- nodes --------------------------------------------------------------------------------------------

uint32_t grammar_node_make(grammar_builder *b, grammar_node node)
{
    grammar *g = b->made;
    if (b->failed)
        return GRAMMAR_END_NODE;
    if (g->node_count == GRAMMAR_MAX_NODES) {
        grammar_fail(b, "the grammar is too large: its repetitions unfold to more than %d places",
                     GRAMMAR_MAX_NODES);
        return GRAMMAR_END_NODE;
    }
    if (!grow(b, &g->nodes, &b->node_room, g->node_count, 1, sizeof node, GRAMMAR_MAX_NODES))
        return GRAMMAR_END_NODE;
    g->nodes[g->node_count] = node;
    return g->node_count++;
}
