// SPDX-License-Identifier: MIT
// Grammars (the first byte is even) and schemas (odd) of strangers. What is taken is run: along a path of tokens that
// its own masks choose, which must never be refused; nothing may take long or much memory.
#include <stdlib.h>
#include <string.h>

#include "engine/constrain/constraint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { STEPS = 24 };

static void check(bool promise)
{
    if (!promise)
        abort();
}

// A vocabulary of all bytes that JSON is made of, and some longer pieces.
static const token_trie *vocabulary(void)
{
    static token_trie *trie;
    static char bytes[0x60];
    static tokenizer_bytes pieces[0x60 + 16];
    static const char *const longer[] = {"true", "\":", "\",\"", "}}", "aa",
                                         "a\"",  " \"", "],[",   "12", "</s>"};
    size_t count = 0;
    if (trie)
        return trie;
    for (; count < 0x5F; count++) {
        bytes[count] = (char)(0x20 + count);
        pieces[count] = (tokenizer_bytes){bytes + count, 1};
    }
    pieces[0] = (tokenizer_bytes){"\304\240", 2}; // how a byte-level vocabulary writes a space
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++)
        if (!strchr(longer[i], ' '))
            pieces[count++] = (tokenizer_bytes){longer[i], strlen(longer[i])};
    tokenizer_spec spec = tokenizer_spec_default(TOKENIZER_BYTE_LEVEL);
    spec.pre = "gpt-2";
    spec.pieces = pieces;
    spec.piece_count = count;
    tokenizer *t = tokenizer_create(&spec, NULL);
    trie = t ? token_trie_make(t, NULL) : NULL;
    check(trie != NULL);
    return trie;
}

// The next token of a path: the first that can come from a place on that the input says.
static int32_t choose(const float *logits, int32_t vocab, unsigned from)
{
    for (int32_t i = 0; i < vocab; i++) {
        int32_t id = (int32_t)((from + (unsigned)i) % (unsigned)vocab);
        if (logits[id] == 0)
            return id;
    }
    return -1;
}

static void run(constraint *c, const token_trie *trie, const uint8_t *data, size_t size_bytes)
{
    constraint_cursor *cursor = constraint_begin(c, NULL);
    float logits[256];
    engine_error err;
    check(trie->vocab <= 256 && cursor);
    for (size_t i = 0; i < STEPS && i < size_bytes; i++) {
        memset(logits, 0, sizeof logits);
        if (!constraint_apply(cursor, logits, trie->vocab, &err))
            break;
        int32_t id = choose(logits, trie->vocab, data[size_bytes - 1 - i]);
        check(id >= 0);
        if (tokenizer_is_end(trie->tokenizer, id)) {
            check(constraint_may_end(cursor));
            break;
        }
        check(constraint_allows(cursor, id));
        if (!constraint_accept(cursor, id, &err)) {
            check(strstr(err.text, "ambiguous") != NULL);
            break;
        }
    }
    constraint_end(cursor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    engine_error err = {""};
    if (size_bytes < 1)
        return 0;
    const char *text = (const char *)data + 1;
    const token_trie *trie = vocabulary();
    grammar *g = data[0] & 1 ? schema_parse(text, size_bytes - 1, &err)
                             : gbnf_parse(text, size_bytes - 1, &err);
    constraint *c = g ? constraint_open(g, trie, &err) : NULL;
    if (c)
        run(c, trie, data, size_bytes);
    else
        check(err.text[0] && !strchr(err.text, '\n'));
    constraint_close(c);
    return 0;
}
