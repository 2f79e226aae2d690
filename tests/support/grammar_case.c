// SPDX-License-Identifier: MIT
#include "tests/support/grammar_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "tests/support/file_tokenizer.h"

tokenizer *grammar_tok;
token_trie *grammar_trie;

int grammar_load(void **state)
{
    (void)state;
    grammar_tok = file_tokenizer("llama-bpe");
    grammar_trie = grammar_tok ? token_trie_make(grammar_tok, NULL) : NULL;
    return grammar_trie ? 0 : -1;
}

int grammar_unload(void **state)
{
    (void)state;
    token_trie_free(grammar_trie);
    tokenizer_free(grammar_tok);
    return 0;
}

static constraint *open_constraint(grammar *g, engine_error *err)
{
    constraint *c = g ? constraint_open(g, grammar_trie, err) : NULL;
    if (!c)
        fail_msg("%s", err->text);
    return c;
}

constraint *grammar_of_gbnf(const char *text)
{
    engine_error err = {{0}};
    return open_constraint(gbnf_parse(text, strlen(text), &err), &err);
}

constraint *grammar_of_schema(const char *text)
{
    engine_error err = {{0}};
    return open_constraint(schema_parse(text, strlen(text), &err), &err);
}
