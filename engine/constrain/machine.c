// SPDX-License-Identifier: MIT
#include "engine/constrain/machine.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

enum {
    MAX_ITEMS = 1 << 13, // of a state
    FEW_ITEMS = 32,      // that are sorted by moving them
    LEADS = 1 << 10,
    SEEN = 1 << 15, // slots for what a state comes from
    MAX_SEEN = 1 << 14,
    MAX_ALL_ITEMS = 1 << 20,
    MAX_STACKS = 1 << 19,
    MAX_STATES = 1 << 17,
    MAX_NEXT = 1 << 23, // entries of all states
};

static bool grow(machine *m, void *array, size_t *room, size_t wanted, size_t size, size_t most)
{
    bool fine = wanted <= most && engine_grow(array, room, wanted, size);
    m->failed = m->failed || !fine;
    return fine;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

// --- the index ----------------------------------------------------------------------------------------

static uint64_t hash_stack(const machine_stack *stack)
{
    return mix(mix(1, stack->parent), stack->node);
}

static uint64_t hash_items(const machine_item *items, uint32_t count, bool ends)
{
    uint64_t hash = mix(2, ends);
    for (uint32_t i = 0; i < count; i++)
        hash = mix(hash, (uint64_t)items[i].node << 32 | items[i].stack);
    return hash;
}

static uint64_t hash_of(const machine *m, const machine_index *index, uint32_t number)
{
    if (index == &m->stack_index)
        return hash_stack(&m->stacks[number]);
    const machine_state *state = &m->states[number];
    return hash_items(m->items + state->first, state->count, state->ends);
}

static void put(const machine *m, machine_index *index, uint32_t number)
{
    uint32_t slot = (uint32_t)hash_of(m, index, number) & index->mask;
    while (index->slots[slot])
        slot = (slot + 1) & index->mask;
    index->slots[slot] = number + 1;
}

// Enters a new number; the index is never more than half full.
static bool enter(machine *m, machine_index *index, uint32_t number)
{
    if (!index->slots || number + 1 > index->mask / 2) {
        size_t slots = index->slots ? 2 * ((size_t)index->mask + 1) : 1024;
        uint32_t *larger = engine_alloc(slots, sizeof *larger);
        if (!larger) {
            m->failed = true;
            return false;
        }
        free(index->slots);
        *index = (machine_index){larger, (uint32_t)slots - 1};
        for (uint32_t i = 0; i < number; i++)
            put(m, index, i);
    }
    put(m, index, number);
    return true;
}

// --- stacks and states --------------------------------------------------------------------------------

// The stack above `parent` that returns to a node; MACHINE_BOTTOM where it would be too deep.
static uint32_t push(machine *m, uint32_t parent, uint32_t node)
{
    machine_stack stack = {parent, node, m->stacks[parent].depth + 1};
    uint32_t slot = (uint32_t)hash_stack(&stack) & m->stack_index.mask;
    if (stack.depth > MACHINE_MAX_STACK)
        return MACHINE_BOTTOM;
    for (uint32_t entry; (entry = m->stack_index.slots[slot]);
         slot = (slot + 1) & m->stack_index.mask) {
        const machine_stack *other = &m->stacks[entry - 1];
        if (other->parent == parent && other->node == node && entry > 1)
            return entry - 1;
    }
    if (!grow(m, &m->stacks, &m->stack_room, (size_t)m->stack_count + 1, sizeof stack, MAX_STACKS))
        return MACHINE_BOTTOM;
    m->stacks[m->stack_count] = stack;
    return enter(m, &m->stack_index, m->stack_count) ? m->stack_count++ : MACHINE_BOTTOM;
}

static bool add_state(machine *m)
{
    size_t classes = m->g->class_count, states = (size_t)m->state_count + 1;
    if (!grow(m, &m->items, &m->item_room, (size_t)m->item_count + m->found_count, sizeof *m->items,
              MAX_ALL_ITEMS) ||
        !grow(m, &m->states, &m->state_room, states, sizeof *m->states, MAX_STATES) ||
        !grow(m, &m->next, &m->next_room, states * classes, sizeof *m->next, MAX_NEXT))
        return false;
    if (m->found_count > 0)
        memcpy(m->items + m->item_count, m->found, m->found_count * sizeof *m->found);
    m->states[m->state_count] = (machine_state){m->item_count, m->found_count, m->ends};
    memset(m->next + (size_t)m->state_count * classes, 0xFF, classes * sizeof *m->next);
    if (!enter(m, &m->state_index, m->state_count))
        return false;
    m->item_count += m->found_count;
    m->state_count++;
    return true;
}

static int by_stack(const void *a, const void *b)
{
    const machine_item *x = a, *y = b;
    if (x->stack != y->stack)
        return x->stack < y->stack ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static void sort_items(machine_item *items, uint32_t count)
{
    if (count > FEW_ITEMS) {
        qsort(items, count, sizeof *items, by_stack);
        return;
    }
    for (uint32_t i = 1; i < count; i++) {
        machine_item item = items[i];
        uint32_t at = i;
        for (; at > 0 && by_stack(&item, &items[at - 1]) < 0; at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

// The number of the state that has just been worked out.
static uint32_t number_state(machine *m)
{
    if (m->failed)
        return MACHINE_DEAD;
    sort_items(m->found, m->found_count);
    uint32_t slot = (uint32_t)hash_items(m->found, m->found_count, m->ends) & m->state_index.mask;
    for (uint32_t entry; (entry = m->state_index.slots[slot]);
         slot = (slot + 1) & m->state_index.mask) {
        const machine_state *other = &m->states[entry - 1];
        if (other->count == m->found_count && other->ends == m->ends &&
            memcmp(m->items + other->first, m->found, m->found_count * sizeof *m->found) == 0)
            return entry - 1;
    }
    return add_state(m) ? m->state_count - 1 : MACHINE_DEAD;
}

// --- working out --------------------------------------------------------------------------------------

static void begin_state(machine *m)
{
    m->found_count = m->todo_count = m->seen_count = 0;
    m->ends = false;
    if (++m->round == 0) {
        memset(m->seen_round, 0, SEEN * sizeof *m->seen_round);
        m->round = 1;
    }
}

// Once for every node in every stack.
static void reach(machine *m, uint32_t node, uint32_t stack)
{
    uint32_t slot = (uint32_t)mix(mix(3, node), stack) & (SEEN - 1);
    for (; m->seen_round[slot] == m->round; slot = (slot + 1) & (SEEN - 1))
        if (m->seen[slot].node == node && m->seen[slot].stack == stack)
            return;
    if (++m->seen_count > MAX_SEEN) {
        m->failed = true;
        return;
    }
    m->seen_round[slot] = m->round;
    m->seen[slot] = m->todo[m->todo_count++] = (machine_item){node, stack};
}

static void find_byte(machine *m, machine_item item)
{
    if (m->found_count == MAX_ITEMS)
        m->failed = true;
    else
        m->found[m->found_count++] = item;
}

static void call(machine *m, const grammar_node *node, uint32_t stack)
{
    if (m->g->nodes[node->next].kind != GRAMMAR_END) { // else it returns to where this rule does
        stack = push(m, stack, node->next);
        if (stack == MACHINE_BOTTOM)
            return;
    }
    reach(m, m->g->entries[node->other], stack);
}

// From what has been reached to the bytes that can come next.
static void follow(machine *m)
{
    while (m->todo_count > 0 && !m->failed) {
        machine_item item = m->todo[--m->todo_count];
        const grammar_node *node = &m->g->nodes[item.node];
        switch ((grammar_kind)node->kind) {
        case GRAMMAR_BYTES: find_byte(m, item); break;
        case GRAMMAR_SPLIT:
            reach(m, node->next, item.stack);
            reach(m, node->other, item.stack);
            break;
        case GRAMMAR_CALL: call(m, node, item.stack); break;
        case GRAMMAR_END:
            if (item.stack == MACHINE_BOTTOM)
                m->ends = true;
            else
                reach(m, m->stacks[item.stack].node, m->stacks[item.stack].parent);
            break;
        case GRAMMAR_DEAD: break;
        }
    }
}

// Bytes of a place mostly fit one of its ways alone, and what many of them lead to is the same.
uint32_t machine_start(machine *m, uint32_t node, uint32_t stack)
{
    machine_lead *lead = &m->leads[mix(mix(4, node), stack) & (LEADS - 1)];
    if (m->failed)
        return MACHINE_DEAD;
    if (lead->to != MACHINE_UNKNOWN && lead->from.node == node && lead->from.stack == stack)
        return lead->to;
    begin_state(m);
    reach(m, node, stack);
    follow(m);
    uint32_t to = number_state(m);
    if (!m->failed)
        *lead = (machine_lead){{node, stack}, to};
    return to;
}

static bool fits(const machine *m, machine_item item, uint8_t byte)
{
    return byte >= m->g->nodes[item.node].low && byte <= m->g->nodes[item.node].high;
}

static uint32_t work_out(machine *m, const machine_state of, uint8_t byte)
{
    const machine_item *items = m->items + of.first;
    uint32_t fitting = 0, last = 0;
    for (uint32_t i = 0; i < of.count; i++)
        if (fits(m, items[i], byte)) {
            last = i;
            fitting++;
        }
    if (fitting == 1)
        return machine_start(m, m->g->nodes[items[last].node].next, items[last].stack);
    begin_state(m);
    for (uint32_t i = 0; i < of.count && !m->failed; i++)
        if (fits(m, items[i], byte))
            reach(m, m->g->nodes[items[i].node].next, items[i].stack);
    follow(m);
    return number_state(m);
}

uint32_t machine_work_out(machine *m, uint32_t state, uint8_t byte)
{
    if (m->failed)
        return MACHINE_DEAD;
    uint32_t to = work_out(m, m->states[state], byte);
    if (!m->failed)
        m->next[(size_t)state * m->g->class_count + m->g->classes[byte]] = to;
    return to;
}

// --- opening, sweeping --------------------------------------------------------------------------------

// The empty tables with what has a fixed number: the bottom, the dead state.
static bool begin_tables(machine *m)
{
    if (!grow(m, &m->stacks, &m->stack_room, 1, sizeof *m->stacks, MAX_STACKS) ||
        !grow(m, &m->items, &m->item_room, 1, sizeof *m->items, MAX_ALL_ITEMS)) // a place for them
        return false;
    m->stacks[0] = (machine_stack){0};
    m->stack_count = 1;
    m->found_count = 0;
    m->ends = false;
    return enter(m, &m->stack_index, 0) && add_state(m);
}

static void forget_leads(machine *m)
{
    memset(m->leads, 0xFF, LEADS * sizeof *m->leads);
}

bool machine_open(machine *m, const grammar *g)
{
    m->g = g;
    m->found = engine_alloc(MAX_ITEMS, sizeof *m->found);
    m->todo = engine_alloc(MAX_SEEN, sizeof *m->todo);
    m->seen = engine_alloc(SEEN, sizeof *m->seen);
    m->seen_round = engine_alloc(SEEN, sizeof *m->seen_round);
    m->leads = engine_alloc(LEADS, sizeof *m->leads);
    if (!m->found || !m->todo || !m->seen || !m->seen_round || !m->leads)
        return false;
    forget_leads(m);
    return begin_tables(m);
}

static void free_tables(machine *m)
{
    free(m->items);
    free(m->stacks);
    free(m->states);
    free(m->next);
    free(m->stack_index.slots);
    free(m->state_index.slots);
}

void machine_free(machine *m)
{
    free_tables(m);
    free(m->found);
    free(m->todo);
    free(m->seen);
    free(m->seen_round);
    free(m->leads);
    *m = (machine){0};
}

size_t machine_bytes(const machine *m)
{
    return m->item_room * sizeof *m->items + m->stack_room * sizeof *m->stacks +
           m->state_room * sizeof *m->states + m->next_room * sizeof *m->next;
}

// The number that a stack has in the other machine.
static uint32_t move_stack(machine *to, const machine *from, uint32_t stack)
{
    uint32_t path[MACHINE_MAX_STACK], depth = 0, moved = MACHINE_BOTTOM;
    for (; stack != MACHINE_BOTTOM; stack = from->stacks[stack].parent)
        path[depth++] = from->stacks[stack].node;
    while (depth > 0)
        moved = push(to, moved, path[--depth]);
    return moved;
}

static uint32_t move_state(machine *to, const machine *from, uint32_t number)
{
    const machine_state *state = &from->states[number];
    to->found_count = state->count;
    to->ends = state->ends;
    for (uint32_t i = 0; i < state->count; i++) {
        machine_item item = from->items[state->first + i];
        to->found[i] = (machine_item){item.node, move_stack(to, from, item.stack)};
    }
    return number_state(to);
}

bool machine_sweep(machine *m, uint32_t **live, size_t count)
{
    machine swept = {.g = m->g, .found = m->found};
    uint32_t *numbers = engine_alloc(count, sizeof *numbers);
    bool fine = numbers && begin_tables(&swept);
    for (size_t i = 0; fine && i < count; i++) {
        numbers[i] = move_state(&swept, m, *live[i]);
        fine = !swept.failed;
    }
    if (fine) {
        for (size_t i = 0; i < count; i++)
            *live[i] = numbers[i];
        swept.todo = m->todo;
        swept.seen = m->seen;
        swept.seen_round = m->seen_round;
        swept.round = m->round;
        swept.leads = m->leads;
        forget_leads(&swept);
        free_tables(m);
        *m = swept;
    } else
        free_tables(&swept);
    free(numbers);
    return fine;
}
