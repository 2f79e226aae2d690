// SPDX-License-Identifier: MIT
#ifndef ENGINE_SPECULATE_GUESS_TREE_H
#define ENGINE_SPECULATE_GUESS_TREE_H

// Guesses of what follows a text, several ways on where several are likely. A guess comes behind the one that it
// follows, and of those that follow the same one the likelier comes first. A chain is a tree too.

#include <stdbool.h>
#include <stdint.h>

#include "engine/speculate/payoff.h"

enum { GUESS_TREE_ROOM = 64 };

typedef struct guess_tree {
    int32_t count;
    int32_t tokens[GUESS_TREE_ROOM];
    int32_t parents[GUESS_TREE_ROOM]; // a guess before it; -1: the end of the text
    int32_t ranks[GUESS_TREE_ROOM];   // how many others come before it behind the same parent
    int32_t kinds[GUESS_TREE_ROOM];   // its maker's
    double right[GUESS_TREE_ROOM];    // how likely the way up to here is
} guess_tree;

// The guess `token` behind `parent`: the one that is there, or a new one of the kind. -1: the tree is full.
int32_t guess_tree_add(guess_tree *tree, int32_t parent, int32_t token, int32_t kind);

// The guess `token` behind `parent`; -1: there is none.
int32_t guess_tree_find(const guess_tree *tree, int32_t parent, int32_t token);

// The likeliest guesses, at most `most`, as long as they pay in `pass`, which they are added to; all do with
// NULL. Those that are the first ones all the way come first, in a row; kinds and ranks stay what they were.
void guess_tree_choose(const guess_tree *tree, payoff_pass *pass, int32_t most, guess_tree *chosen);

// Does each guess follow the one before it?
bool guess_tree_is_chain(const guess_tree *tree);

#endif
