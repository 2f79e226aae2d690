// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L // strdup
#include "server/constraints.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT = 16 }; // that nobody uses

typedef struct entry {
    struct entry *next; // used less recently
    char *key;
    constraint *made;
    int users;
} entry;

struct server_constraints {
    const token_trie *trie;
    entry *first;
};

server_constraints *constraints_make(const token_trie *trie)
{
    server_constraints *all = calloc(1, sizeof *all);
    if (all)
        all->trie = trie;
    return all;
}

static void entry_free(entry *e)
{
    constraint_close(e->made);
    free(e->key);
    free(e);
}

void constraints_free(server_constraints *all)
{
    while (all && all->first) {
        entry *e = all->first;
        all->first = e->next;
        entry_free(e);
    }
    free(all);
}

static void let_go(server_constraints *all)
{
    int idle = 0;
    for (entry **at = &all->first; *at;) {
        entry *e = *at;
        idle += e->users == 0;
        if (e->users > 0 || idle <= KEPT) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        entry_free(e);
    }
}

static entry *find(server_constraints *all, const char *key)
{
    for (entry **at = &all->first; *at; at = &(*at)->next) {
        entry *e = *at;
        if (strcmp(e->key, key) != 0)
            continue;
        *at = e->next;
        return e;
    }
    return NULL;
}

static entry *make(const server_constraints *all, const char *key, grammar *g, engine_error *err)
{
    entry *e = all->trie ? calloc(1, sizeof *e) : NULL;
    if (e)
        e->key = strdup(key);
    if (!e || !e->key) {
        grammar_free(g);
        free(e);
        engine_fail(err,
                    all->trie ? "not enough memory for a grammar" : "the model has no tokenizer");
        return NULL;
    }
    e->made = constraint_open(g, all->trie, err);
    if (e->made)
        return e;
    entry_free(e);
    return NULL;
}

constraint *constraints_take(server_constraints *all, const char *key, grammar *g,
                             engine_error *err)
{
    entry *e = find(all, key);
    if (e)
        grammar_free(g);
    else
        e = make(all, key, g, err);
    if (!e)
        return NULL;
    e->next = all->first;
    all->first = e;
    e->users++;
    return e->made;
}

void constraints_give_back(server_constraints *all, const constraint *c)
{
    for (entry *e = c ? all->first : NULL; e; e = e->next)
        e->users -= e->made == c;
    if (c)
        let_go(all);
}
