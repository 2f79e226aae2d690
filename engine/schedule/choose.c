// SPDX-License-Identifier: MIT
#include "engine/schedule/choose.h"

#include <stdlib.h>

// --- order --------------------------------------------------------------------------------------------

static int by_arrival(const schedule_entry *a, const schedule_entry *b)
{
    return (a->arrival > b->arrival) - (a->arrival < b->arrival);
}

static int importance(const void *left, const void *right)
{
    const schedule_entry *a = left, *b = right;
    if (a->priority != b->priority)
        return a->priority > b->priority ? -1 : 1;
    return by_arrival(a, b);
}

// Who is given something next.
static int turn(const schedule_entry *a, const schedule_entry *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority ? -1 : 1;
    if (a->resumes != b->resumes)
        return a->resumes ? -1 : 1;
    int64_t served[2] = {a->served + a->given, b->served + b->given};
    if (served[0] != served[1])
        return served[0] < served[1] ? -1 : 1;
    return by_arrival(a, b);
}

static int turn_of(const void *left, const void *right)
{
    return turn(left, right);
}

// --- pages --------------------------------------------------------------------------------------------

static int32_t pages_for(const schedule_limits *limits, int64_t tokens)
{
    return (int32_t)((tokens + limits->page_tokens - 1) / limits->page_tokens);
}

// That it must take to evaluate so many tokens.
static int32_t pages_to_take(const schedule_limits *limits, const schedule_entry *entry,
                             int32_t tokens)
{
    int32_t pages = pages_for(limits, (int64_t)entry->length + tokens) - entry->pages;
    return (pages > 0 ? pages : 0) + (entry->copies && tokens > 0);
}

// --- joining ------------------------------------------------------------------------------------------

// Of a user's entries each one that joins makes those behind it wait for a turn.
static void serve(schedule_entry *waiting, int32_t count, const schedule_entry *joins)
{
    int32_t user = joins->user, tokens = joins->count - joins->length;
    for (int32_t i = 0; i < count; i++)
        if (waiting[i].user == user)
            waiting[i].given += tokens;
}

static schedule_entry *next_to_join(schedule_entry *waiting, int32_t count)
{
    schedule_entry *next = NULL;
    for (int32_t i = 0; i < count; i++)
        if (!waiting[i].joins && !waiting[i].held && (!next || turn(&waiting[i], next) < 0))
            next = &waiting[i];
    return next;
}

void schedule_join(const schedule_limits *limits, const schedule_entry *running,
                   int32_t running_count, schedule_entry *waiting, int32_t waiting_count)
{
    int64_t pages = limits->free_pages;
    int32_t runs = running_count;
    for (int32_t i = 0; i < running_count; i++)
        pages -= pages_to_take(limits, &running[i], running[i].count - running[i].length) + 1;
    for (int32_t i = 0; i < waiting_count; i++) {
        waiting[i].joins = false;
        waiting[i].given = 0;
    }
    for (int32_t places = limits->places; places > 0; places--) {
        schedule_entry *next = next_to_join(waiting, waiting_count);
        if (!next)
            return;
        pages -= pages_for(limits, next->count) + 1;
        // Who does not fit holds up those behind it: else a long prompt would wait for ever.
        if (pages < 0 && runs > 0)
            return;
        next->joins = true;
        runs++;
        serve(waiting, waiting_count, next);
    }
}

// --- a pass -------------------------------------------------------------------------------------------

typedef struct filling {
    const schedule_limits *limits;
    schedule_entry *entries; // the most important first
    int32_t count, left;     // left: how many of them are not preempted, the first ones
    int32_t pages, budget;
} filling;

static bool decodes(const schedule_entry *entry)
{
    return entry->count - entry->length == 1;
}

static void preempt_last(filling *f)
{
    schedule_entry *last = &f->entries[--f->left];
    last->preempted = true;
    f->pages += last->own;
}

// Those before it have their pages, so only it and those behind it may be preempted.
static void give_token(filling *f, int32_t i)
{
    schedule_entry *entry = &f->entries[i];
    int32_t pages = pages_to_take(f->limits, entry, 1);
    while (pages > f->pages && f->left > i + 1)
        preempt_last(f);
    if (pages <= f->pages) {
        entry->tokens = 1;
        f->pages -= pages;
        f->budget--;
    } else if (i > 0)
        preempt_last(f);
    // Those that were preempted may have shared pages with each other: the next pass knows.
    else if (f->count == 1)
        entry->stuck = true;
}

// As long a piece as budget and pages allow.
static void give_piece(filling *f, schedule_entry *entry)
{
    int32_t tokens = entry->count - entry->length;
    if (tokens > f->budget)
        tokens = f->budget;
    if (pages_to_take(f->limits, entry, tokens) > f->pages) {
        int64_t room = (int64_t)(entry->pages + f->pages - entry->copies) * f->limits->page_tokens -
                       entry->length;
        if (entry->copies && f->pages == 0)
            room = 0;
        if (room < tokens)
            tokens = room > 0 ? (int32_t)room : 0;
    }
    entry->tokens = tokens;
    f->budget -= tokens;
    f->pages -= pages_to_take(f->limits, entry, tokens);
}

// Nobody could be given anything: all hold a part of the pool and wait for the rest.
static void make_room(filling *f)
{
    schedule_entry *last = &f->entries[0];
    for (int32_t i = 1; i < f->left; i++)
        if (importance(&f->entries[i], last) > 0)
            last = &f->entries[i];
    if (f->count == 1)
        last->stuck = true;
    else
        last->preempted = true;
}

void schedule_pass(const schedule_limits *limits, schedule_entry *running, int32_t count)
{
    filling f = {limits, running, count, count, limits->free_pages, limits->budget_tokens};
    qsort(running, (size_t)count, sizeof *running, importance);
    for (int32_t i = 0; i < count; i++) {
        running[i].preempted = running[i].stuck = false;
        running[i].tokens = 0;
    }
    for (int32_t i = 0; i < f.left; i++)
        if (decodes(&running[i]))
            give_token(&f, i);
    bool given = f.budget < limits->budget_tokens || f.left < count;
    qsort(running, (size_t)f.left, sizeof *running, turn_of);
    for (int32_t i = 0; i < f.left && f.budget > 0; i++)
        if (!decodes(&running[i]))
            give_piece(&f, &running[i]);
    if (count > 0 && !given && f.budget == limits->budget_tokens && !running[0].stuck)
        make_room(&f);
}
