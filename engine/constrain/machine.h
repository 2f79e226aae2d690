// SPDX-License-Identifier: MIT
#ifndef ENGINE_CONSTRAIN_MACHINE_H
#define ENGINE_CONSTRAIN_MACHINE_H

// Runs a grammar over bytes. A place in a text is a *state*: the set of ways in which the grammar can have come
// here. A way is an *item*: the byte node that is next and the *stack* of calls that it stands in. Stacks and states
// are kept once each and have numbers; where a state leads with a byte is worked out when it is first asked for.
//
// Stack 0 is the bottom. For a whole text that is its end; a way that began in the middle of a rule (mask.c) has
// left that rule there.
//
// States have limits; a machine that would exceed them has failed, until it is swept.

#include "engine/constrain/grammar.h"

enum { MACHINE_DEAD = 0, MACHINE_BOTTOM = 0, MACHINE_MAX_STACK = 512 };
#define MACHINE_UNKNOWN UINT32_MAX

typedef struct machine_item {
    uint32_t node, stack;
} machine_item;

typedef struct machine_stack {
    uint32_t parent, node; // that a return goes to
    uint32_t depth;
} machine_stack;

typedef struct machine_state {
    uint32_t first, count; // of the items
    bool ends;             // the text may end here
} machine_state;

// The state of one way, for a few of those that were asked for last; to: MACHINE_UNKNOWN where there is none.
typedef struct machine_lead {
    machine_item from;
    uint32_t to;
} machine_lead;

// Open addressing over hashes of what lies in an array; 0 is free, else the number + 1.
typedef struct machine_index {
    uint32_t *slots;
    uint32_t mask;
} machine_index;

typedef struct machine {
    const grammar *g;
    machine_item *items;
    machine_stack *stacks;
    machine_state *states;
    uint32_t *next; // [states][classes], MACHINE_UNKNOWN where nobody asked yet
    uint32_t item_count, stack_count, state_count;
    size_t item_room, stack_room, state_room, next_room;
    machine_index stack_index, state_index;
    machine_lead *leads;
    // of the state that is being worked out
    machine_item *found, *todo, *seen;
    uint32_t *seen_round;
    uint32_t found_count, todo_count, seen_count, round;
    bool ends;
    bool failed;
} machine;

// Into a zeroed machine, which must be freed on failure too. The grammar must outlive it.
bool machine_open(machine *m, const grammar *g);
void machine_free(machine *m);

// The state of one way. Like all that follow: MACHINE_DEAD where there is no way on, or the machine fails.
uint32_t machine_start(machine *m, uint32_t node, uint32_t stack);
uint32_t machine_work_out(machine *m, uint32_t state, uint8_t byte);

static inline uint32_t machine_step(machine *m, uint32_t state, uint8_t byte)
{
    uint32_t to = m->next[(size_t)state * m->g->class_count + m->g->classes[byte]];
    return to != MACHINE_UNKNOWN ? to : machine_work_out(m, state, byte);
}

size_t machine_bytes(const machine *m);

// Forgets all states but those in live[count], whose numbers it changes. On failure (memory) nothing has changed.
bool machine_sweep(machine *m, uint32_t **live, size_t count);

#endif
