// SPDX-License-Identifier: MIT
// Expressions become nodes, from behind: what follows is known when a part is made.
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/constrain/builder.h"

enum { MAX_WORK = 1 << 21, NONE = -1 };

static uint32_t byte_node(grammar_builder *b, uint8_t low, uint8_t high, uint32_t next)
{
    return grammar_node_make(
        b, (grammar_node){.kind = GRAMMAR_BYTES, .low = low, .high = high, .next = next});
}

static uint32_t split_node(grammar_builder *b, uint32_t next, uint32_t other)
{
    return grammar_node_make(b,
                             (grammar_node){.kind = GRAMMAR_SPLIT, .next = next, .other = other});
}

static uint32_t assemble(grammar_builder *b, grammar_expr expr, uint32_t next, int depth);

static uint32_t assemble_choice(grammar_builder *b, const expression *e, uint32_t next, int depth)
{
    int64_t ways = NONE;
    for (grammar_expr part = e->last, before; part && !b->failed; part = before) {
        before = b->expressions[part].before;
        uint32_t way = assemble(b, part, next, depth);
        ways = ways == NONE ? way : split_node(b, way, (uint32_t)ways);
    }
    return ways == NONE ? grammar_node_make(b, (grammar_node){.kind = GRAMMAR_DEAD})
                        : (uint32_t)ways;
}

static uint32_t assemble_repeat(grammar_builder *b, const expression *e, uint32_t next, int depth)
{
    uint32_t entry = next;
    if (e->most < 0) {
        uint32_t loop = split_node(b, next, next);
        uint32_t body = assemble(b, e->last, loop, depth);
        if (b->failed)
            return next;
        b->made->nodes[loop].next = body;
        entry = loop;
    }
    for (int32_t i = e->least; i < e->most && !b->failed; i++)
        entry = split_node(b, assemble(b, e->last, entry, depth), next);
    for (int32_t i = 0; i < e->least && !b->failed; i++)
        entry = assemble(b, e->last, entry, depth);
    return entry;
}

// Where matching the mark goes on after `seen` of its bytes and another byte.
static uint32_t mark_step(const uint8_t *mark, const uint32_t *border, uint32_t seen, uint8_t byte)
{
    while (seen > 0 && mark[seen] != byte)
        seen = border[seen];
    return mark[seen] == byte ? seen + 1 : 0;
}

// border[n]: the longest end of the first n bytes, not all of them, that the mark also begins with.
static void find_borders(const uint8_t *mark, uint32_t count, uint32_t *border)
{
    border[0] = border[1] = 0;
    for (uint32_t n = 1; n < count; n++) {
        uint32_t seen = border[n];
        while (seen > 0 && mark[seen] != mark[n])
            seen = border[seen];
        border[n + 1] = mark[seen] == mark[n] ? seen + 1 : 0;
    }
}

// The ways on from one place of the search, bytes that lead to the same place together.
static uint32_t until_ways(grammar_builder *b, const uint8_t *mark, uint32_t count,
                           const uint32_t *border, uint32_t seen, const uint32_t *places,
                           uint32_t behind)
{
    int64_t ways = NONE;
    for (unsigned low = 0, high; low < 256 && !b->failed; low = high + 1) {
        uint32_t to = mark_step(mark, border, seen, (uint8_t)low);
        for (high = low; high < 255 && mark_step(mark, border, seen, (uint8_t)(high + 1)) == to;)
            high++;
        uint32_t way = byte_node(b, (uint8_t)low, (uint8_t)high, to == count ? behind : places[to]);
        ways = ways == NONE ? way : split_node(b, way, (uint32_t)ways);
    }
    return (uint32_t)ways;
}

static uint32_t assemble_until(grammar_builder *b, const expression *e, uint32_t next, int depth)
{
    uint8_t mark[80];
    uint32_t border[81], places[80], count = e->count;
    bool may_end = e->least;
    uint32_t behind = assemble(b, e->last, next, depth);
    memcpy(mark, b->bytes + e->from, count);
    find_borders(mark, count, border);
    for (uint32_t i = 0; i < count; i++) // to be told later where they lead
        places[i] = split_node(b, GRAMMAR_END_NODE, GRAMMAR_END_NODE);
    for (uint32_t i = 0; i < count && !b->failed; i++) {
        uint32_t ways = until_ways(b, mark, count, border, i, places, behind);
        if (b->failed)
            break;
        b->made->nodes[places[i]].next = ways;
        b->made->nodes[places[i]].other = may_end ? GRAMMAR_END_NODE : ways;
    }
    return places[0];
}

static uint32_t assemble(grammar_builder *b, grammar_expr expr, uint32_t next, int depth)
{
    const expression e = b->expressions[expr];
    if (b->failed)
        return next;
    if (depth > GRAMMAR_MAX_DEPTH || ++b->work > MAX_WORK) {
        grammar_fail(b, "the grammar is too large: parts are nested too deeply or too often");
        return next;
    }
    switch ((expression_kind)e.kind) {
    case EXPRESSION_TEXT:
        for (uint32_t i = e.count; i > 0; i--) {
            uint8_t byte = (uint8_t)b->bytes[e.from + i - 1];
            next = byte_node(b, byte, byte, next);
        }
        return next;
    case EXPRESSION_BYTE: return byte_node(b, (uint8_t)e.from, (uint8_t)e.count, next);
    case EXPRESSION_CLASS: return grammar_class_node(b, b->ranges + e.from, e.count, next);
    case EXPRESSION_SEQUENCE:
        for (grammar_expr part = e.last, before; part; part = before) {
            before = b->expressions[part].before;
            next = assemble(b, part, next, depth + 1);
        }
        return next;
    case EXPRESSION_CHOICE: return assemble_choice(b, &e, next, depth + 1);
    case EXPRESSION_REPEAT: return assemble_repeat(b, &e, next, depth + 1);
    case EXPRESSION_CALL:
        return grammar_node_make(
            b, (grammar_node){.kind = GRAMMAR_CALL, .next = next, .other = e.from});
    case EXPRESSION_UNTIL: return assemble_until(b, &e, next, depth + 1);
    case EXPRESSION_EMPTY: break;
    }
    return next;
}

// Bytes between which no node makes a difference.
static void find_classes(grammar *g)
{
    bool begins[257] = {true};
    for (uint32_t i = 0; i < g->node_count; i++)
        if (g->nodes[i].kind == GRAMMAR_BYTES)
            begins[g->nodes[i].low] = begins[g->nodes[i].high + 1] = true;
    uint32_t count = 0;
    for (int byte = 0; byte < 256; byte++) {
        count += byte > 0 && begins[byte];
        g->classes[byte] = (uint8_t)count;
    }
    g->class_count = count + 1;
}

void grammar_assemble(grammar_builder *b)
{
    grammar *g = b->made;
    g->entries = engine_alloc(b->rule_count, sizeof *g->entries);
    g->rule_count = b->rule_count;
    if (!g->entries)
        grammar_fail(b, "not enough memory for a grammar");
    grammar_node_make(b, (grammar_node){.kind = GRAMMAR_END});
    for (uint32_t i = 0; i < b->rule_count && !b->failed; i++)
        g->entries[i] = assemble(b, b->rules[i].expression, GRAMMAR_END_NODE, 0);
    if (!b->failed)
        find_classes(g);
}
