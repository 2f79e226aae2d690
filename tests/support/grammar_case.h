// SPDX-License-Identifier: MIT
// What tests of grammars share: a real vocabulary, and constraints over it. Those that cannot be opened fail the test.
#ifndef WEFT_TESTS_SUPPORT_GRAMMAR_CASE_H
#define WEFT_TESTS_SUPPORT_GRAMMAR_CASE_H

#include "engine/constrain/constraint.h"

extern tokenizer *grammar_tok;
extern token_trie *grammar_trie;

// Of a group of tests.
int grammar_load(void **state);
int grammar_unload(void **state);

constraint *grammar_of_gbnf(const char *text);
constraint *grammar_of_schema(const char *text);

#endif
