// SPDX-License-Identifier: MIT
// From expressions to a grammar.
#include "engine/constrain/builder.h"

static void check_defined(grammar_builder *b)
{
    for (uint32_t i = 0; i < b->rule_count && !b->failed; i++)
        if (!b->rules[i].defined)
            grammar_fail(b, "the rule '%.*s' is named but not defined", (int)b->rules[i].name_bytes,
                         b->bytes + b->rules[i].name);
}

grammar *grammar_finish(grammar_builder *b, uint32_t root, engine_error *err)
{
    grammar *made = NULL;
    if (!b)
        return NULL;
    check_defined(b);
    if (!b->failed) {
        grammar_assemble(b);
        b->made->root = root;
    }
    if (!b->failed && grammar_check_recursion(b)) {
        made = b->made;
        b->made = NULL;
    } else
        engine_fail(err, "%s", b->err.text);
    grammar_abandon(b);
    return made;
}
