// SPDX-License-Identifier: MIT
#ifndef ENGINE_TOKENIZER_MERGES_H
#define ENGINE_TOKENIZER_MERGES_H

// Which two neighbouring pieces join to which third, and in what order: the rules of both kinds of BPE.
// Lower ranks are applied first, and of equal ranks the leftmost pair.

#include "engine/tokenizer/vocab.h"

typedef struct merge_rule {
    uint32_t left;
    uint32_t right;
    uint32_t rank;
    int32_t id; // of the joint piece; TOKENIZER_NONE marks a free slot
} merge_rule;

typedef struct merge_table {
    merge_rule *slots; // open addressing
    size_t mask;
    size_t count;
} merge_table;

// From the list of merges of a byte-level vocabulary: rank is the place in the list.
bool merges_from_list(merge_table *table, const vocab *v, const tokenizer_spec *spec,
                      engine_error *err);

// From the scores of a SentencePiece vocabulary: every split of a piece into two pieces is a rule, and
// pieces with higher scores have lower ranks, equal scores equal ranks.
bool merges_from_scores(merge_table *table, const vocab *v, const float *scores, engine_error *err);

void merges_free(merge_table *table);

// NULL if the two do not join.
const merge_rule *merges_find(const merge_table *table, int32_t left, int32_t right);

#endif
