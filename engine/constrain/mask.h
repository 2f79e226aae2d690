// SPDX-License-Identifier: MIT
#ifndef ENGINE_CONSTRAIN_MASK_H
#define ENGINE_CONSTRAIN_MASK_H

// Which tokens can come next. Most of a state's mask depends on where in its rule the text stands, and not on the
// calls round it: for each byte node there is, once it has been met, the set of tokens that stay inside its rule, and
// the *exits*, nodes of the tree of tokens behind whose bytes the rule has been left. From these alone the walk
// goes on in the state's own stack. Whole masks are kept per state.
//
// What lies within a stretch (stretch.h) is not walked: where one begins at the root of the tree, all tokens
// within it are found by what they are made of, in one pass over the vocabulary, and kept; further up whole
// branches of the tree are taken.

#include "engine/constrain/stretch.h"
#include "engine/constrain/token_trie.h"

typedef struct mask_part mask_part;
typedef struct mask_step mask_step;

// Tokens of a run.
typedef struct mask_run {
    char_run run;
    uint64_t *bits; // [words]
} mask_run;

enum { MASK_MAX_RUNS = 32 };

typedef struct mask_table {
    const token_trie *trie;
    machine *machine;
    mask_part **parts; // [nodes of the grammar]; NULL: not met yet
    uint64_t **masks;  // [mask_room], of states; NULL: not known
    mask_step *path;   // [deepest + 1], along a branch of the tree
    stretch_table stretches;
    mask_run runs[MASK_MAX_RUNS];
    uint32_t *list; // what is being gathered
    size_t mask_room, list_count, list_room;
    size_t part_bytes, mask_count, run_count;
    size_t words; // of a mask
} mask_table;

// Into a zeroed table, which must be freed on failure too.
bool mask_open(mask_table *t, const token_trie *trie, machine *m);
void mask_free(mask_table *t);

// Bit by token, [words], valid until the next call. NULL when memory is short or the machine fails.
const uint64_t *mask_of(mask_table *t, uint32_t state);

bool mask_is_known(const mask_table *t, uint32_t state);

// States have other numbers now.
void mask_forget_states(mask_table *t);

#endif
