// SPDX-License-Identifier: MIT
// A rule that begins with itself would be called without end. Rules are taken away whose beginnings call only
// rules that are taken away; what is left goes round in a circle.
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/constrain/builder.h"

enum { MAX_VISITS = 1 << 24 };

// Who calls a rule at its beginning: a list of edges, numbered from 1 on.
typedef struct searched_rule {
    uint32_t callers; // the first edge; 0: none
    uint32_t calls;   // how many it calls so
    bool empty;       // it matches the empty text
} searched_rule;

typedef struct search_edge {
    uint32_t caller, next;
} search_edge;

typedef struct search {
    grammar_builder *b;
    const grammar *g;
    searched_rule *rules;
    uint32_t *stamp; // [nodes], of the last visit
    uint32_t *todo;  // [nodes or rules, whichever are more]
    uint32_t round;
    size_t visits;
    bool (*call)(struct search *s, uint32_t from, uint32_t to);
    search_edge *edges; // [nodes]: a node calls one rule
    uint32_t edge_count;
} search;

static void visit(search *s, uint32_t node, uint32_t *count)
{
    if (s->stamp[node] == s->round)
        return;
    s->stamp[node] = s->round;
    s->todo[(*count)++] = node;
    s->visits++;
}

// Goes through what a rule may begin with; tells whether it may be empty.
static bool explore(search *s, uint32_t rule)
{
    uint32_t count = 0;
    bool ends = false;
    s->round++;
    visit(s, s->g->entries[rule], &count);
    while (count > 0) {
        const grammar_node *node = &s->g->nodes[s->todo[--count]];
        ends = ends || node->kind == GRAMMAR_END;
        if (node->kind == GRAMMAR_SPLIT)
            visit(s, node->other, &count);
        if (node->kind == GRAMMAR_CALL && s->call && !s->call(s, rule, node->other))
            return ends;
        if (node->kind == GRAMMAR_SPLIT ||
            (node->kind == GRAMMAR_CALL && s->rules[node->other].empty))
            visit(s, node->next, &count);
    }
    return ends;
}

static bool find_empty(search *s)
{
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = s->g->rule_count; i > 0;
             i--) { // those that are called come later, mostly
            if (s->rules[i - 1].empty || !explore(s, i - 1))
                continue;
            s->rules[i - 1].empty = more = true;
        }
        if (s->visits > MAX_VISITS) {
            grammar_fail(s->b,
                         "the grammar is too intricate: its rules need too long to be told apart");
            return false;
        }
    }
    return true;
}

static bool note_call(search *s, uint32_t from, uint32_t to)
{
    if (s->edge_count == s->g->node_count) {
        grammar_fail(s->b, "the grammar has too many calls");
        return false;
    }
    s->edges[s->edge_count] = (search_edge){from, s->rules[to].callers};
    s->rules[to].callers = ++s->edge_count;
    s->rules[from].calls++;
    return true;
}

static bool take_away(search *s)
{
    uint32_t rules = s->g->rule_count, count = 0, taken = 0;
    for (uint32_t i = 0; i < rules; i++)
        if (s->rules[i].calls == 0)
            s->todo[count++] = i;
    while (count > 0) {
        uint32_t rule = s->todo[--count];
        taken++;
        const search_edge *edge;
        for (uint32_t n = s->rules[rule].callers; n; n = edge->next) {
            edge = &s->edges[n - 1];
            if (--s->rules[edge->caller].calls == 0)
                s->todo[count++] = edge->caller;
        }
    }
    for (uint32_t i = 0; taken < rules && i < rules; i++)
        if (s->rules[i].calls > 0) {
            const builder_rule *rule = &s->b->rules[i];
            grammar_fail(s->b,
                         "the rule '%.*s' begins with itself, or with a rule that does: let "
                         "something come before",
                         (int)rule->name_bytes, s->b->bytes + rule->name);
            return false;
        }
    return true;
}

static bool check(search *s)
{
    if (!find_empty(s))
        return false;
    s->call = note_call;
    for (uint32_t i = 0; i < s->g->rule_count && !s->b->failed; i++)
        explore(s, i);
    return !s->b->failed && take_away(s);
}

bool grammar_check_recursion(grammar_builder *b)
{
    const grammar *g = b->made;
    size_t rules = g->rule_count, nodes = g->node_count, most = nodes > rules ? nodes : rules;
    search s = {.b = b, .g = g};
    s.rules = engine_alloc(rules, sizeof *s.rules);
    s.stamp = engine_alloc(nodes, sizeof *s.stamp);
    s.todo = engine_alloc(most, sizeof *s.todo);
    s.edges = engine_alloc(nodes, sizeof *s.edges);
    bool fine = s.rules && s.stamp && s.todo && s.edges;
    if (!fine)
        grammar_fail(b, "not enough memory for a grammar");
    fine = fine && check(&s);
    free(s.rules);
    free(s.stamp);
    free(s.todo);
    free(s.edges);
    return fine;
}
