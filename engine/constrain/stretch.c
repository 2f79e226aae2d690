// SPDX-License-Identifier: MIT
#include "engine/constrain/stretch.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

enum {
    MAX_ITEMS = 64
}; // of states that are asked: to try every character of others costs too much
static const uint32_t unknown = UINT32_MAX;

void stretch_open(stretch_table *t, machine *m)
{
    *t = (stretch_table){.machine = m};
}

void stretch_free(stretch_table *t)
{
    free(t->steps);
    for (int way = 0; way < STRETCH_WAYS; way++)
        free(t->run[way]);
    *t = (stretch_table){.machine = t->machine};
}

void stretch_forget(stretch_table *t)
{
    stretch_free(t);
}

static bool make_room(stretch_table *t, uint32_t state)
{
    size_t room = 2 * (size_t)state + 64;
    if (state < t->room)
        return true;
    stretch_step *steps = engine_realloc(t->steps, room, sizeof *steps);
    if (!steps)
        return false;
    t->steps = steps;
    for (int way = 0; way < STRETCH_WAYS; way++) {
        char_run *runs = engine_realloc(t->run[way], room, sizeof *runs);
        if (!runs)
            return false;
        t->run[way] = runs;
        memset(runs + t->room, 0xFF, (room - t->room) * sizeof *runs);
    }
    memset(t->steps + t->room, 0xFF, (room - t->room) * sizeof *steps);
    t->room = room;
    return true;
}

// --- one character ------------------------------------------------------------------------------------

// The bytes of whole characters above ASCII: behind the heads of each row stand those of another.
enum { DONE, TAIL_1, TAIL_2, TAIL_2_LATE, TAIL_2_EARLY, TAIL_3, TAIL_3_LATE, TAIL_3_EARLY, HEADS };

typedef struct byte_range {
    uint8_t at, low, high, then;
} byte_range;

static const byte_range ranges[] = {
    {HEADS, 0xC2, 0xDF, TAIL_1},        {HEADS, 0xE0, 0xE0, TAIL_2_LATE},
    {HEADS, 0xE1, 0xEC, TAIL_2},        {HEADS, 0xED, 0xED, TAIL_2_EARLY},
    {HEADS, 0xEE, 0xEF, TAIL_2},        {HEADS, 0xF0, 0xF0, TAIL_3_LATE},
    {HEADS, 0xF1, 0xF3, TAIL_3},        {HEADS, 0xF4, 0xF4, TAIL_3_EARLY},
    {TAIL_1, 0x80, 0xBF, DONE},         {TAIL_2, 0x80, 0xBF, TAIL_1},
    {TAIL_2_LATE, 0xA0, 0xBF, TAIL_1},  {TAIL_2_EARLY, 0x80, 0x9F, TAIL_1},
    {TAIL_3, 0x80, 0xBF, TAIL_2},       {TAIL_3_LATE, 0x90, 0xBF, TAIL_2},
    {TAIL_3_EARLY, 0x80, 0x8F, TAIL_2},
};

// Do all bytes of a range lead to the same state? *to it is.
static bool all_of(machine *m, uint32_t state, uint8_t low, uint8_t high, uint32_t *to)
{
    const uint8_t *classes = m->g->classes;
    *to = machine_step(m, state, low);
    for (unsigned byte = low + 1u; byte <= high; byte++)
        if (classes[byte] != classes[byte - 1] && machine_step(m, state, (uint8_t)byte) != *to)
            return false;
    return *to != MACHINE_DEAD;
}

static bool goes_on(const machine *m, uint32_t state)
{
    return m->states[state].count > 0 && !m->states[state].ends;
}

// Do all characters above ASCII, of which a head stands at `at`, lead to the same state? *to, unknown at first, it is.
static bool all_above(machine *m, uint32_t state, uint8_t at, uint32_t *to)
{
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        uint32_t next;
        if (ranges[i].at != at)
            continue;
        if (!all_of(m, state, ranges[i].low, ranges[i].high, &next))
            return false;
        if (ranges[i].then != DONE) {
            if (!goes_on(m, next) || !all_above(m, next, ranges[i].then, to))
                return false;
        } else if (*to == unknown)
            *to = next;
        else if (*to != next)
            return false;
    }
    return true;
}

// Where all characters of a kind lead; MACHINE_DEAD: not all to the same.
static uint32_t target_of(machine *m, uint32_t state, uint32_t kind)
{
    uint32_t to = unknown;
    if (kind == CHAR_KIND_ABOVE)
        return all_above(m, state, HEADS, &to) ? to : MACHINE_DEAD;
    const uint8_t *at = (const uint8_t *)char_kind_characters(kind);
    for (int before = -1; *at; before = m->g->classes[*at++]) {
        uint32_t next = m->g->classes[*at] == before ? to : machine_step(m, state, *at);
        if (next == MACHINE_DEAD || (to != unknown && to != next))
            return MACHINE_DEAD;
        to = next;
    }
    return to;
}

// Of several next states that of the most kinds.
static stretch_step work_out(machine *m, uint32_t state)
{
    uint32_t to[CHAR_KIND_OTHER];
    stretch_step step = {MACHINE_DEAD, 0};
    if (m->states[state].count > MAX_ITEMS)
        return step;
    for (uint32_t kind = 0; kind < CHAR_KIND_OTHER; kind++)
        to[kind] = target_of(m, state, kind);
    for (uint32_t kind = 0; kind < CHAR_KIND_OTHER; kind++) {
        uint32_t kinds = 0;
        for (uint32_t other = 0; other < CHAR_KIND_OTHER; other++)
            kinds |= (uint32_t)(to[other] == to[kind]) << other;
        if (to[kind] != MACHINE_DEAD && __builtin_popcount(kinds) > __builtin_popcount(step.kinds))
            step = (stretch_step){to[kind], kinds};
    }
    return step;
}

static stretch_step step_of(stretch_table *t, uint32_t state)
{
    if (!make_room(t, state))
        return (stretch_step){MACHINE_DEAD, 0};
    if (t->steps[state].next == unknown)
        t->steps[state] = work_out(t->machine, state);
    return t->steps[state];
}

// --- many ---------------------------------------------------------------------------------------------

static char_run follow(stretch_table *t, uint32_t state, bool inside)
{
    uint32_t length = 0, kinds = step_of(t, state).kinds;
    while (kinds && length < STRETCH_LONGEST) {
        stretch_step step = step_of(t, state);
        if ((kinds & ~step.kinds) || (inside && !goes_on(t->machine, step.next)))
            break;
        if (step.next == state)
            return char_run_make(kinds, CHAR_RUN_LONG);
        state = step.next;
        length++;
    }
    return length > 0 ? char_run_make(kinds, length) : 0;
}

char_run stretch_of(stretch_table *t, uint32_t state, bool inside)
{
    int way = inside ? STRETCH_INSIDE : STRETCH_ANY;
    if (!make_room(t, state))
        return 0;
    if (t->run[way][state] == unknown) {
        char_run run = follow(t, state, inside); // which may move the table
        t->run[way][state] = run;
    }
    return t->run[way][state];
}

bool stretch_known(const stretch_table *t, uint32_t state, bool inside)
{
    return state < t->room && t->run[inside ? STRETCH_INSIDE : STRETCH_ANY][state] != unknown;
}
