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
    if (!engine_grow(&t->list, &t->list_room, t->list_count + 1, sizeof *t->list))
        return false;
    t->list[t->list_count++] = value;
    return true;
}

// Walks the tree below a node, behind whose bytes the text stands in `state`; tokens become bits. With `inside`, the
// state began at the bottom of a stack: where it ends the rule has been left, which is noted in the list and no token.
static bool walk(mask_table *t, uint32_t from, uint32_t state, bool inside, uint64_t *bits)
{
    const token_node *nodes = t->trie->nodes;
    machine *m = t->machine;
    t->path[nodes[from].depth] = state;
    for (uint32_t n = from + 1, end = nodes[from].end; n < end && !m->failed;) {
        uint32_t depth = nodes[n].depth, to = machine_step(m, t->path[depth - 1], nodes[n].byte);
        const machine_state *reached = &m->states[to];
        if (inside && reached->ends && !note(t, n))
            return false;
        if (to == MACHINE_DEAD || (inside && reached->count == 0)) {
            n = nodes[n].end;
            continue;
        }
        t->path[depth] = to;
        set_tokens(t->trie, n, bits);
        n++;
    }
    return !m->failed;
}

// --- inside a rule ------------------------------------------------------------------------------------

// A part of few tokens keeps them as a list.
static mask_part *pack(mask_table *t, uint64_t *bits)
{
    uint32_t exits = (uint32_t)t->list_count, listed = 0, tokens = 0;
    for (size_t w = 0; w < t->words; w++)
        tokens += (uint32_t)__builtin_popcountll(bits[w]);
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
    uint32_t start = machine_start(t->machine, node, MACHINE_BOTTOM);
    t->list_count = 0;
    if (bits && walk(t, 0, start, true, bits))
        t->parts[node] = pack(t, bits);
    if (!t->parts[node] || !t->parts[node]->bits)
        free(bits);
    return t->parts[node];
}

// --- behind a rule ------------------------------------------------------------------------------------

// Adds what goes on in `state` behind the bytes of a node of the tree.
static bool walk_behind(mask_table *t, uint32_t exit, uint32_t state, uint64_t *bits)
{
    set_tokens(t->trie, exit, bits);
    return walk(t, exit, state, false, bits);
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

bool mask_is_known(const mask_table *t, uint32_t state)
{
    return state < t->mask_room && t->masks[state];
}

const uint64_t *mask_of(mask_table *t, uint32_t state)
{
    machine *m = t->machine;
    if (mask_is_known(t, state))
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
