// SPDX-License-Identifier: MIT
#include "engine/speculate/guess_tree.h"

int32_t guess_tree_find(const guess_tree *tree, int32_t parent, int32_t token)
{
    for (int32_t i = parent + 1; i < tree->count; i++)
        if (tree->parents[i] == parent && tree->tokens[i] == token)
            return i;
    return -1;
}

int32_t guess_tree_add(guess_tree *tree, int32_t parent, int32_t token, int32_t kind)
{
    int32_t found = guess_tree_find(tree, parent, token), rank = 0;
    if (found >= 0 || tree->count == GUESS_TREE_ROOM)
        return found;
    for (int32_t i = parent + 1; i < tree->count; i++)
        rank += tree->parents[i] == parent;
    tree->tokens[tree->count] = token;
    tree->parents[tree->count] = parent;
    tree->ranks[tree->count] = rank;
    tree->kinds[tree->count] = kind;
    tree->right[tree->count] = 0;
    return tree->count++;
}

// Marks the guesses to take: places[i] becomes 0, those of others are -1.
static void mark(const guess_tree *tree, payoff_pass *pass, int32_t most, int32_t *places)
{
    for (int32_t i = 0; i < tree->count; i++)
        places[i] = -1;
    for (int32_t n = 0; n < most; n++) {
        int32_t best = -1;
        for (int32_t i = 0; i < tree->count; i++) {
            bool open = places[i] < 0 && (tree->parents[i] < 0 || places[tree->parents[i]] == 0);
            if (open && (best < 0 || tree->right[i] > tree->right[best]))
                best = i;
        }
        if (best < 0 || (pass && !payoff_add(pass, tree->right[best], 0)))
            return;
        places[best] = 0;
    }
}

static void copy(const guess_tree *from, int32_t i, int32_t *places, guess_tree *to)
{
    int32_t parent = from->parents[i] < 0 ? -1 : places[from->parents[i]];
    places[i] = guess_tree_add(to, parent, from->tokens[i], from->kinds[i]);
    to->ranks[places[i]] = from->ranks[i];
    to->right[places[i]] = from->right[i];
}

void guess_tree_choose(const guess_tree *tree, payoff_pass *pass, int32_t most, guess_tree *chosen)
{
    int32_t places[GUESS_TREE_ROOM], last = -1;
    bool first[GUESS_TREE_ROOM] = {false};
    mark(tree, pass, most, places);
    chosen->count = 0;
    for (int32_t i = 0; i < tree->count; i++)
        if (places[i] == 0 && tree->ranks[i] == 0 && tree->parents[i] == last) {
            first[i] = true;
            last = i;
            copy(tree, i, places, chosen);
        }
    for (int32_t i = 0; i < tree->count; i++)
        if (places[i] == 0 && !first[i])
            copy(tree, i, places, chosen);
}

bool guess_tree_is_chain(const guess_tree *tree)
{
    bool chain = true;
    for (int32_t i = 0; i < tree->count; i++)
        chain = chain && tree->parents[i] == i - 1;
    return chain;
}
