// SPDX-License-Identifier: MIT
#include "engine/constrain/mask.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

enum { MAX_PART_BYTES = 32 << 20, MAX_MASKS = 512, SPARSE = 16 };

struct mask_part {
    uint64_t *bits; // [words]; NULL: `tokens`
    uint32_t token_count, exit_count;
    uint32_t list[]; // tokens, then exits
};

bool mask_open(mask_table *t, const token_trie *trie, machine *m)
{
    t->trie = trie;
    t->machine = m;
    t->words = ((size_t)trie->vocab + 63) / 64;
    t->parts = engine_alloc(m->g->node_count, sizeof(mask_part *));
    t->path = engine_alloc((size_t)trie->deepest + 1, sizeof *t->path);
    return t->parts && t->path;
}

static void free_parts(mask_table *t)
{
    for (uint32_t i = 0; t->parts && i < t->machine->g->node_count; i++) {
        if (t->parts[i])
            free(t->parts[i]->bits);
        free(t->parts[i]);
        t->parts[i] = NULL;
    }
    t->part_bytes = 0;
}

void mask_forget_states(mask_table *t)
{
    for (size_t i = 0; i < t->mask_room; i++) {
        free(t->masks[i]);
        t->masks[i] = NULL;
    }
    t->mask_count = 0;
}

void mask_free(mask_table *t)
{
    mask_forget_states(t);
    free_parts(t);
    free(t->masks);
    free(t->parts);
    free(t->path);
    free(t->list);
    *t = (mask_table){0};
}

static void set_bit(uint64_t *bits, int32_t id)
{
    bits[id / 64] |= (uint64_t)1 << (id % 64);
}

static void set_tokens(const token_trie *trie, uint32_t node, uint64_t *bits)
{
    for (uint32_t i = trie->nodes[node].token; i < trie->nodes[node + 1].token; i++)
        set_bit(bits, trie->ids[i]);
}

static bool note(mask_table *t, uint32_t value)
{
    if (t->list_count == t->list_room) {
        size_t room = t->list_room ? 2 * t->list_room : 1024;
        uint32_t *larger = engine_realloc(t->list, room, sizeof *larger);
        if (!larger)
            return false;
        t->list = larger;
        t->list_room = room;
    }
    t->list[t->list_count++] = value;
    return true;
}

// --- inside a rule ------------------------------------------------------------------------------------

// Walks the whole tree from a way at the bottom of a stack; tokens become bits, exits the list.
static bool walk_rule(mask_table *t, uint32_t state, uint64_t *bits, uint32_t *tokens)
{
    const token_node *nodes = t->trie->nodes;
    machine *m = t->machine;
    t->list_count = 0;
    *tokens = 0;
    t->path[0] = state;
    for (uint32_t n = 1; n < t->trie->node_count && !m->failed;) {
        uint32_t depth = nodes[n].depth, to = machine_step(m, t->path[depth - 1], nodes[n].byte);
        const machine_state *reached = &m->states[to];
        if (reached->ends && !note(t, n))
            return false;
        if (reached->count == 0) {
            n = nodes[n].end;
            continue;
        }
        t->path[depth] = to;
        *tokens += nodes[n + 1].token - nodes[n].token;
        set_tokens(t->trie, n, bits);
        n++;
    }
    return !m->failed;
}

// A part of few tokens keeps them as a list.
static mask_part *pack(mask_table *t, uint64_t *bits, uint32_t tokens)
{
    uint32_t exits = (uint32_t)t->list_count, listed = 0;
    bool sparse = tokens < t->words * 2 / SPARSE * 8;
    size_t count = (sparse ? tokens : 0) + (size_t)exits;
    mask_part *part = engine_alloc(1, sizeof *part + count * sizeof *part->list);
    if (!part)
        return NULL;
    part->bits = sparse ? NULL : bits;
    part->exit_count = exits;
    part->token_count = sparse ? tokens : 0;
    for (size_t w = 0; sparse && w < t->words; w++)
        for (uint64_t word = bits[w]; word; word &= word - 1)
            part->list[listed++] = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(word);
    if (exits > 0)
        memcpy(part->list + part->token_count, t->list, exits * sizeof *t->list);
    t->part_bytes += sizeof *part + count * sizeof *part->list + (sparse ? 0 : t->words * 8);
    return part;
}

static const mask_part *part_of(mask_table *t, uint32_t node)
{
    if (t->parts[node])
        return t->parts[node];
    uint64_t *bits = engine_alloc(t->words, sizeof *bits);
    uint32_t start = machine_start(t->machine, node, MACHINE_BOTTOM), tokens;
    if (bits && walk_rule(t, start, bits, &tokens))
        t->parts[node] = pack(t, bits, tokens);
    if (!t->parts[node] || !t->parts[node]->bits)
        free(bits);
    return t->parts[node];
}

// --- behind a rule ------------------------------------------------------------------------------------

// Adds what goes on in `state` behind the bytes of a node of the tree.
static bool walk_behind(mask_table *t, uint32_t exit, uint32_t state, uint64_t *bits)
{
    const token_node *nodes = t->trie->nodes;
    machine *m = t->machine;
    set_tokens(t->trie, exit, bits);
    t->path[nodes[exit].depth] = state;
    for (uint32_t n = exit + 1, end = nodes[exit].end; n < end && !m->failed;) {
        uint32_t depth = nodes[n].depth, to = machine_step(m, t->path[depth - 1], nodes[n].byte);
        if (to == MACHINE_DEAD) {
            n = nodes[n].end;
            continue;
        }
        t->path[depth] = to;
        set_tokens(t->trie, n, bits);
        n++;
    }
    return !m->failed;
}

static void add_part(const mask_table *t, const mask_part *part, uint64_t *bits)
{
    for (size_t w = 0; part->bits && w < t->words; w++)
        bits[w] |= part->bits[w];
    for (uint32_t i = 0; i < part->token_count; i++)
        set_bit(bits, (int32_t)part->list[i]);
}

static bool add_item(mask_table *t, machine_item item, uint64_t *bits)
{
    machine *m = t->machine;
    const mask_part *part = part_of(t, item.node);
    if (!part)
        return false;
    add_part(t, part, bits);
    const uint32_t *exits = part->list + part->token_count;
    if (part->exit_count == 0)
        return true;
    if (item.stack == MACHINE_BOTTOM) { // the end of all
        for (uint32_t i = 0; i < part->exit_count; i++)
            set_tokens(t->trie, exits[i], bits);
        return true;
    }
    const machine_stack stack = m->stacks[item.stack];
    uint32_t behind = machine_start(m, stack.node, stack.parent);
    if (behind == MACHINE_DEAD)
        return !m->failed;
    for (uint32_t i = 0; i < part->exit_count; i++)
        if (!walk_behind(t, exits[i], behind, bits))
            return false;
    return true;
}

static bool make_room(mask_table *t, uint32_t state)
{
    if (t->mask_count >= MAX_MASKS)
        mask_forget_states(t);
    if (t->part_bytes > MAX_PART_BYTES)
        free_parts(t);
    if (state < t->mask_room)
        return true;
    size_t room = 2 * (size_t)state + 64;
    uint64_t **masks = engine_realloc(t->masks, room, sizeof *masks);
    if (!masks)
        return false;
    memset(masks + t->mask_room, 0, (room - t->mask_room) * sizeof *masks);
    t->masks = masks;
    t->mask_room = room;
    return true;
}

const uint64_t *mask_of(mask_table *t, uint32_t state)
{
    machine *m = t->machine;
    if (state < t->mask_room && t->masks[state])
        return t->masks[state];
    uint64_t *bits = make_room(t, state) ? engine_alloc(t->words, sizeof *bits) : NULL;
    const machine_state of = m->states[state];
    bool fine = bits != NULL;
    for (uint32_t i = 0; fine && i < of.count; i++)
        fine = add_item(t, m->items[of.first + i], bits);
    if (!fine) {
        free(bits);
        return NULL;
    }
    t->masks[state] = bits;
    t->mask_count++;
    return bits;
}
