// SPDX-License-Identifier: MIT
// For differential_test.py: a line {"schema": ...} or {"grammar": "..."} with "texts": [...] is answered with a line:
// a list that says which texts fit, or {"error": "..."}.
#define _POSIX_C_SOURCE 200809L // getline
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "engine/constrain/constraint.h"

static constraint *open_one(const json_t *wish, const token_trie *trie, engine_error *err)
{
    const json_t *text = json_object_get(wish, "grammar");
    grammar *g = NULL;
    if (json_is_string(text))
        g = gbnf_parse(json_string_value(text), json_string_length(text), err);
    else {
        char *schema = json_dumps(json_object_get(wish, "schema"), JSON_ENCODE_ANY);
        if (schema)
            g = schema_parse(schema, strlen(schema), err);
        free(schema);
    }
    return g ? constraint_open(g, trie, err) : NULL;
}

static json_t *answer(const json_t *wish, const token_trie *trie)
{
    engine_error err = {""};
    constraint *c = open_one(wish, trie, &err);
    if (!c)
        return json_pack("{s:s}", "error", err.text);
    json_t *list = json_array(), *text;
    size_t n;
    json_array_foreach(json_object_get(wish, "texts"), n, text)
    {
        bool fits = constraint_matches(c, json_string_value(text), json_string_length(text));
        json_array_append_new(list, json_boolean(fits));
    }
    constraint_close(c);
    return list;
}

static bool serve(const token_trie *trie)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        json_t *wish = json_loads(line, JSON_DECODE_ANY, NULL), *said = answer(wish, trie);
        if (json_dumpf(said, stdout, JSON_COMPACT | JSON_ENCODE_ANY) != 0)
            return false;
        putchar('\n');
        fflush(stdout);
        json_decref(said);
        json_decref(wish);
    }
    free(line);
    return true;
}

int main(void)
{
    static const tokenizer_bytes pieces[] = {{"a", 1}};
    engine_error err = {""};
    tokenizer_spec spec = tokenizer_spec_default(TOKENIZER_BYTE_LEVEL);
    spec.pre = "gpt-2";
    spec.pieces = pieces;
    spec.piece_count = 1;
    tokenizer *t = tokenizer_create(&spec, &err);
    token_trie *trie = t ? token_trie_make(t, &err) : NULL;
    bool fine = trie && serve(trie);
    if (!fine)
        fprintf(stderr, "match: %s\n", err.text);
    token_trie_free(trie);
    tokenizer_free(t);
    return fine ? 0 : 1;
}
