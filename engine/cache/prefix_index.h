// SPDX-License-Identifier: MIT
#ifndef ENGINE_CACHE_PREFIX_INDEX_H
#define ENGINE_CACHE_PREFIX_INDEX_H

// Full pages by their tokens. A page stands behind the page before it: its *link* is a number that no other
// page has had or will have, and it is found by its tokens and the link of the one before, which is found
// likewise, back to 0, the beginning of a text. Tokens are compared, not hashes alone, so what is found is what
// was asked for, whoever chose the tokens.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct prefix_index prefix_index;

// For pages 0 .. pages - 1 of page_tokens tokens each; NULL when memory is short.
prefix_index *prefix_index_create(int32_t pages, int32_t page_tokens);
void prefix_index_free(prefix_index *index); // may be NULL

// The page with these tokens behind `before`, and its link; -1 if there is none.
int32_t prefix_index_find(const prefix_index *index, uint64_t before, const int32_t *ids,
                          uint64_t *link);

// Enters a page that is not entered. If there is one with the same tokens in the same place, that one stays the
// only one. Returns the link of whichever is found from now on.
uint64_t prefix_index_add(prefix_index *index, int32_t page, uint64_t before, const int32_t *ids);

// What a page that is entered was entered with, and its link; false if it is not.
bool prefix_index_entry(const prefix_index *index, int32_t page, uint64_t *before, uint64_t *link,
                        const int32_t **ids);

bool prefix_index_has(const prefix_index *index, int32_t page);
void prefix_index_remove(prefix_index *index, int32_t page); // if it is entered

// Pages that are entered and that nobody holds, in the order in which they were let go.
void prefix_index_rest(prefix_index *index, int32_t page);
void prefix_index_wake(prefix_index *index, int32_t page);
int32_t prefix_index_resting(const prefix_index *index);
int32_t prefix_index_oldest(const prefix_index *index); // -1: none rests

#endif
