// SPDX-License-Identifier: MIT
// --grammar and --json-schema.
#include <string.h>

#include "cli/cli.h"

bool cli_constraint_open(cli_constraint *c, const cli_sampling *sampling, const engine_model *model,
                         engine_error *err)
{
    const char *schema = sampling->schema, *text = schema ? schema : sampling->grammar;
    if (!text)
        return true;
    grammar *g =
        schema ? schema_parse(schema, strlen(schema), err) : gbnf_parse(text, strlen(text), err);
    if (!g)
        return false;
    c->trie = token_trie_make(engine_model_tokenizer(model), err);
    if (c->trie)
        c->made = constraint_open(g, c->trie, err);
    else
        grammar_free(g);
    return c->made != NULL;
}

void cli_constraint_close(cli_constraint *c)
{
    constraint_close(c->made);
    token_trie_free(c->trie);
    *c = (cli_constraint){0};
}
