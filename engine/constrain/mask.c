// SPDX-License-Identifier: MIT
#include "engine/constrain/mask.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

enum {
    MAX_PART_BYTES = 32 << 20,
    MAX_MASKS = 512,
    SPARSE = 16,
    MAX_EXITS = 512, // of a part
    WIDE = 32,       // nodes of a branch that is worth knowing the stretch it stands in
};

struct mask_part {
    bool leaky;     // it has too many exits, and else nothing
    uint64_t *bits; // [words]; NULL: `tokens`
    uint32_t token_count, exit_count;
    uint32_t list[]; // tokens, then exits
};

// How far the text goes on from a node of the tree.
struct mask_step {
    uint32_t state;
    char_run stretch; // of it
    bool asked;       // it is known
    char_run taken;   // with what goes on within this, all tokens are in the mask already
};

bool mask_open(mask_table *t, const token_trie *trie, machine *m)
{
    t->trie = trie;
    t->machine = m;
    t->words = ((size_t)trie->vocab + 63) / 64;
    t->parts = engine_alloc(m->g->node_count, sizeof(mask_part *));
    t->path = engine_alloc((size_t)trie->deepest + 1, sizeof *t->path);
    stretch_open(&t->stretches, m);
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
    stretch_forget(&t->stretches);
}

static void free_runs(mask_table *t)
{
    for (size_t i = 0; i < t->run_count; i++)
        free(t->runs[i].bits);
    t->run_count = 0;
}

void mask_free(mask_table *t)
{
    mask_forget_states(t);
    free_parts(t);
    free_runs(t);
    stretch_free(&t->stretches);
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

// Of the nodes first .. last - 1.
static void set_tokens(const token_trie *trie, uint32_t first, uint32_t last, uint64_t *bits)
{
    for (uint32_t i = trie->nodes[first].token; i < trie->nodes[last].token; i++)
        set_bit(bits, trie->ids[i]);
}

static bool note(mask_table *t, uint32_t value)
{
    if (!engine_grow(&t->list, &t->list_room, t->list_count + 1, sizeof *t->list))
        return false;
    t->list[t->list_count++] = value;
    return true;
}

// --- walking ------------------------------------------------------------------------------------------

// A bit by token, 64 of them. Eight bytes of 0 or 1 become bits of the uppermost by one multiplication.
static uint64_t within(const char_run *runs, char_run run)
{
    uint8_t is[64];
    uint64_t word = 0;
    for (int i = 0; i < 64; i++)
        is[i] = (uint8_t)char_run_within(runs[i], run);
    for (int i = 0; i < 64; i += 8) {
        uint64_t eight;
        memcpy(&eight, is + i, sizeof eight);
        word |= (eight * 0x0102040810204080u >> 56) << i;
    }
    return word;
}

static const uint64_t *tokens_of(mask_table *t, char_run run)
{
    for (size_t i = 0; i < t->run_count; i++)
        if (t->runs[i].run == run)
            return t->runs[i].bits;
    uint64_t *bits = engine_alloc(t->words, sizeof *bits);
    if (!bits)
        return NULL;
    for (size_t w = 0; w < t->words; w++)
        bits[w] = within(t->trie->runs + w * 64, run);
    if (t->run_count == MASK_MAX_RUNS)
        free_runs(t);
    t->runs[t->run_count++] = (mask_run){run, bits};
    return bits;
}

// A pass over the vocabulary is worth it.
static bool has_many_tokens(char_run run)
{
    return (char_run_kinds(run) & CHAR_KINDS_WORDS) && char_run_length(run) > 1;
}

// From the root what lies within the state's stretch goes into the mask at once.
static bool begin_walk(mask_table *t, uint32_t from, uint32_t state, bool inside, uint64_t *bits)
{
    mask_step *step = &t->path[t->trie->nodes[from].depth];
    *step = (mask_step){.state = state};
    if (from > 0)
        return true;
    step->asked = true;
    step->stretch = stretch_of(&t->stretches, state, inside);
    if (!has_many_tokens(step->stretch))
        return true;
    const uint64_t *tokens = tokens_of(t, step->stretch);
    for (size_t w = 0; tokens && w < t->words; w++)
        bits[w] |= tokens[w];
    step->taken = step->stretch;
    return tokens != NULL;
}

// Could a stretch that is not known yet have it, and is that worth finding out?
static bool worth_asking(const token_node *node, uint32_t n)
{
    return node->end - n >= WIDE && !(char_run_kinds(node->run) >> CHAR_KIND_OTHER) &&
           char_run_length(node->run) <= STRETCH_LONGEST;
}

// Does all that begins with a node's bytes lie within the stretch of the place in front of it? Then it is in the mask.
static bool take_branch(mask_table *t, mask_step *before, uint32_t n, bool inside, uint64_t *bits)
{
    const token_node *node = &t->trie->nodes[n];
    if (before->taken && char_run_within(node->run, before->taken))
        return true;
    if (!before->asked &&
        (stretch_known(&t->stretches, before->state, inside) || worth_asking(node, n))) {
        before->stretch = stretch_of(&t->stretches, before->state, inside);
        before->asked = true;
    }
    if (!before->stretch || !char_run_within(node->run, before->stretch))
        return false;
    set_tokens(t->trie, n, node->end, bits);
    return true;
}

// What is left of a run behind a character.
static char_run behind(char_run run, uint32_t kind)
{
    uint32_t length = char_run_length(run);
    if (!(char_run_kinds(run) >> kind & 1) || length < 2)
        return 0;
    return length == CHAR_RUN_LONG ? run : char_run_make(char_run_kinds(run), length - 1);
}

// Walks the tree below a node, behind whose bytes the text stands in `state`; tokens become bits. With `inside`, the
// state began at the bottom of a stack: where it ends the rule has been left, which is noted in the list and no token.
static bool walk(mask_table *t, uint32_t from, uint32_t state, bool inside, uint64_t *bits)
{
    const token_node *nodes = t->trie->nodes;
    machine *m = t->machine;
    if (!begin_walk(t, from, state, inside, bits))
        return false;
    for (uint32_t n = from + 1, end = nodes[from].end; n < end && !m->failed;) {
        const token_node *node = &nodes[n];
        mask_step *before = &t->path[node->depth - 1];
        if (take_branch(t, before, n, inside, bits)) {
            n = node->end;
            continue;
        }
        uint32_t to = machine_step(m, before->state, node->byte);
        const machine_state *reached = &m->states[to];
        if (inside && reached->ends && (t->list_count == MAX_EXITS || !note(t, n)))
            return false;
        if (to == MACHINE_DEAD || (inside && reached->count == 0)) {
            n = node->end;
            continue;
        }
        t->path[node->depth] = (mask_step){.state = to, .taken = behind(before->taken, node->kind)};
        set_tokens(t->trie, n, n + 1, bits);
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

static mask_part *leak(mask_table *t)
{
    mask_part *part = engine_alloc(1, sizeof *part);
    if (part)
        part->leaky = true;
    t->part_bytes += sizeof *part;
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
    else if (bits && t->list_count == MAX_EXITS && !t->machine->failed)
        t->parts[node] = leak(t);
    if (!t->parts[node] || !t->parts[node]->bits)
        free(bits);
    return t->parts[node];
}

// --- behind a rule ------------------------------------------------------------------------------------

// Adds what goes on in `state` behind the bytes of a node of the tree.
static bool walk_behind(mask_table *t, uint32_t exit, uint32_t state, uint64_t *bits)
{
    set_tokens(t->trie, exit, exit + 1, bits);
    return walk(t, exit, state, false, bits);
}

static void add_part(const mask_table *t, const mask_part *part, uint64_t *bits)
{
    for (size_t w = 0; part->bits && w < t->words; w++)
        bits[w] |= part->bits[w];
    for (uint32_t i = 0; i < part->token_count; i++)
        set_bit(bits, (int32_t)part->list[i]);
}

// *leaky: nothing was added, as the part says nothing.
static bool add_item(mask_table *t, machine_item item, uint64_t *bits, bool *leaky)
{
    machine *m = t->machine;
    const mask_part *part = part_of(t, item.node);
    if (!part)
        return false;
    *leaky = part->leaky;
    add_part(t, part, bits);
    const uint32_t *exits = part->list + part->token_count;
    if (part->exit_count == 0)
        return true;
    if (item.stack == MACHINE_BOTTOM) { // the end of all
        for (uint32_t i = 0; i < part->exit_count; i++)
            set_tokens(t->trie, exits[i], exits[i] + 1, bits);
        return true;
    }
    const machine_stack stack = m->stacks[item.stack];
    uint32_t next = machine_start(m, stack.node, stack.parent);
    if (next == MACHINE_DEAD)
        return !m->failed;
    for (uint32_t i = 0; i < part->exit_count; i++)
        if (!walk_behind(t, exits[i], next, bits))
            return false;
    return true;
}

// Part by part; where a rule can be left nearly everywhere, as one with all that is behind it.
static bool add_state(mask_table *t, uint32_t state, uint64_t *bits)
{
    const machine_state of = t->machine->states[state];
    char_run stretch = stretch_of(&t->stretches, state, false);
    bool leaky = false;
    if (has_many_tokens(stretch))
        return walk(t, 0, state, false, bits);
    for (uint32_t i = 0; i < of.count && !leaky; i++)
        if (!add_item(t, t->machine->items[of.first + i], bits, &leaky))
            return false;
    return !leaky || walk(t, 0, state, false, bits);
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
    if (mask_is_known(t, state))
        return t->masks[state];
    uint64_t *bits = make_room(t, state) ? engine_alloc(t->words, sizeof *bits) : NULL;
    if (!bits || !add_state(t, state, bits)) {
        free(bits);
        return NULL;
    }
    t->masks[state] = bits;
    t->mask_count++;
    return bits;
}
