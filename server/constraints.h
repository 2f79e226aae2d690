// SPDX-License-Identifier: MIT
#ifndef SERVER_CONSTRAINTS_H
#define SERVER_CONSTRAINTS_H

// Constraints that requests have used, so that who asks with the same schema again finds its masks. For the engine's
// thread. Those nobody uses are let go of, the least recently used ones first.

#include "engine/engine.h"

typedef struct server_constraints server_constraints;

// trie may be NULL: then there are none.
server_constraints *constraints_make(const token_trie *trie);
void constraints_free(server_constraints *all); // may be NULL

// The constraint under a key; else one of the grammar, which is the callee's in any case. NULL with a reason.
constraint *constraints_take(server_constraints *all, const char *key, grammar *g,
                             engine_error *err);
void constraints_give_back(server_constraints *all, const constraint *c); // NULL is allowed

#endif
