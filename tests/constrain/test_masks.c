// SPDX-License-Identifier: MIT
// Masks of a constraint, token by token against following the token's bytes; how far its machine may go.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/constrain/machine.h"
#include "tests/support/grammar_case.h"
#include "tests/support/made_up_vocabulary.h"

// At every place of a text each token's bit says what following its bytes says.
static void check_masks(constraint *c, const char *text)
{
    tokenizer_ids ids = {0};
    engine_error err = {{0}};
    constraint_cursor *cursor = constraint_begin(c, &err);
    assert_true(tokenizer_encode(grammar_tok, text, strlen(text), 0, &ids, &err));
    for (size_t i = 0; i <= ids.count; i++) {
        for (int32_t id = 0; id < grammar_trie->vocab; id++) {
            bool allowed = constraint_allows(cursor, id), possible = false;
            if (tokenizer_is_end(grammar_tok, id))
                possible = constraint_may_end(cursor);
            else {
                constraint_cursor *other = constraint_begin(c, &err);
                for (size_t n = 0; n < i; n++)
                    assert_true(constraint_accept(other, ids.ids[n], &err));
                possible = constraint_accept(other, id, &err);
                constraint_end(other);
            }
            if (allowed != possible)
                fail_msg("token %d behind %zu of '%s': %d, not %d", id, i, text, allowed, possible);
        }
        if (i < ids.count && !constraint_accept(cursor, ids.ids[i], &err))
            fail_msg("token %zu of '%s': %s", i, text, err.text);
    }
    assert_true(constraint_may_end(cursor));
    constraint_end(cursor);
    tokenizer_ids_free(&ids);
    constraint_close(c);
}

static void test_masks(void **state)
{
    (void)state;
    check_masks(grammar_of_schema("{\"type\": \"object\"}"),
                "{\"name\": [\"caf\303\251 \\n\", -1.5e3, {\"a\": {}}], \"b\": true}");
    check_masks(grammar_of_gbnf("root ::= (\"the \" [a-z]{1,5} \" \"?)* \"end\""),
                "the quick the fox end");
    check_masks(grammar_of_gbnf("root ::= .{0,20}"), "any text \360\237\230\200 at");
}

enum { SHORT = 7380, LONG = 72 };

// All texts of up to four of a few characters, and long ones of one.
static size_t make_piece(uint32_t n, char *text)
{
    static const char *const characters[] = {"a",  "b",  "A",        "0",           ",",
                                             "\n", "\"", "\303\251", "\346\227\245"};
    size_t size = 0;
    if (n >= SHORT) {
        const char *one = n % 2 ? "a" : "\303\251";
        for (uint32_t i = 0; i < 5 + (n - SHORT) / 2; i++, size += strlen(one))
            memcpy(text + size, one, strlen(one));
        return size;
    }
    for (n++; n > 0; n = (n - 1) / 9) {
        const char *one = characters[(n - 1) % 9];
        memcpy(text + size, one, strlen(one));
        size += strlen(one);
    }
    return size;
}

// Places that take many characters alike: for ever, so many of them, all but some; with a rule that ends everywhere.
static void test_masks_of_stretches(void **state)
{
    tokenizer *few = grammar_tok;
    token_trie *of_few = grammar_trie;
    (void)state;
    grammar_tok = made_up_vocabulary(SHORT + LONG, make_piece, NULL);
    assert_non_null(grammar_tok);
    grammar_trie = token_trie_make(grammar_tok, NULL);
    assert_non_null(grammar_trie);
    check_masks(grammar_of_gbnf("root ::= [^\"]* \"\\\"\""), "aAb\303\251\n,\"");
    check_masks(grammar_of_gbnf("root ::= line (\"\\n\" line)*\nline ::= [^\\n0]*"),
                "ab\n\303\251\"a\n");
    check_masks(grammar_of_gbnf("root ::= [a-z]{0,7} \",\" [^0]{2,33} \"0\""), "ab,\346\227\245A0");
    check_masks(grammar_of_gbnf("root ::= [^\303\251]{0,9} \"\303\251\""), "A\346\227\245\303\251");
    check_masks(grammar_of_gbnf("root ::= ([ab] | \"0\" \"\303\251\"?)* [A,]+"), "a0\303\251bAA");
    check_masks(grammar_of_gbnf("root ::= [^a] | [^\\n]{3} | [a-z]* [0-9]"), "aaaa0");
    check_masks(grammar_of_gbnf("root ::= [a-zA-Z]{3} \"b\""), "aAbb");
    check_masks(grammar_of_gbnf("root ::= (\"a\" [^\"]{1,3} | [b-z] [^\"]*) \"\\\"\""), "ba,\"");
    check_masks(grammar_of_gbnf(
                    "root ::= line \"\\n\" line\nline ::= (\"a\" | \"b\" \"b\"? | [A0] | [,\\\"] | "
                    "\"\303\251\" | \"\346\227\245\")*"),
                "ab\nA");
    check_masks(grammar_of_schema("{\"type\": \"string\", \"maxLength\": 5}"), "\"aA\303\251\"");
    token_trie_free(grammar_trie);
    tokenizer_free(grammar_tok);
    grammar_trie = of_few;
    grammar_tok = few;
}

// What the likeliest alone leave of logits is what the mask leaves, and as many of them as are asked for.
static void check_likeliest(constraint_cursor *cursor, const float *given, int32_t vocab,
                            int32_t most)
{
    size_t bytes = (size_t)vocab * sizeof *given;
    float *whole = malloc(bytes), *likely = malloc(bytes);
    engine_error err = {{0}};
    memcpy(whole, given, bytes);
    memcpy(likely, given, bytes);
    assert_true(
        constraint_apply_likeliest(cursor, likely, vocab, most, &err)); // nothing is known yet
    assert_true(constraint_apply(cursor, whole, vocab, &err));
    for (int32_t id = 0; id < vocab; id++) {
        int32_t before = 0;
        for (int32_t other = 0; other < vocab && before < most; other++)
            before += whole[other] > whole[id];
        if (before < most || likely[id] > -INFINITY)
            assert_true(likely[id] == whole[id]);
    }
    free(whole);
    free(likely);
}

static void test_likeliest(void **state)
{
    (void)state;
    static const char text[] = "the quick the fox end";
    int32_t vocab = grammar_trie->vocab + 1;
    uint32_t random = 1;
    float *given = malloc((size_t)vocab * sizeof *given);
    tokenizer_ids ids = {0};
    engine_error err = {{0}};
    assert_true(tokenizer_encode(grammar_tok, text, sizeof text - 1, 0, &ids, &err));
    for (int32_t most = 1; most < 80; most += most < 4 ? 1 : 19) {
        constraint *c = grammar_of_gbnf("root ::= (\"the \" [a-z]{1,5} \" \"?)* \"end\"");
        constraint_cursor *cursor = constraint_begin(c, &err);
        for (size_t i = 0; i <= ids.count; i++) {
            for (int32_t id = 0; id < vocab; id++) {
                random = random * 1664525u + 1013904223u;
                given[id] = (float)(random >> 22); // many are equal
            }
            check_likeliest(cursor, given, vocab, most);
            if (i < ids.count)
                assert_true(constraint_accept(cursor, ids.ids[i], &err));
        }
        constraint_end(cursor);
        constraint_close(c);
    }
    free(given);
    tokenizer_ids_free(&ids);
}

static void test_apply(void **state)
{
    (void)state;
    constraint *c = grammar_of_gbnf("root ::= \"yes\" | \"yes!\"");
    engine_error err = {{0}};
    constraint_cursor *cursor = constraint_begin(c, &err);
    int32_t vocab = grammar_trie->vocab + 3;
    float *logits = calloc((size_t)vocab, sizeof *logits);
    tokenizer_ids ids = {0};
    assert_true(tokenizer_encode(grammar_tok, "yes!", 4, 0, &ids, &err));
    assert_true(constraint_apply(cursor, logits, vocab, &err));
    for (int32_t id = 0; id < vocab; id++)
        assert_true((logits[id] == 0) ==
                    (id < grammar_trie->vocab && constraint_allows(cursor, id)));
    assert_true(isinf(logits[vocab - 1]));
    assert_false(constraint_may_end(cursor));
    for (size_t i = 0; i < ids.count; i++)
        assert_true(constraint_accept(cursor, ids.ids[i], &err));
    assert_true(constraint_complete(cursor));
    memset(logits, 0, (size_t)vocab * sizeof *logits);
    assert_true(constraint_apply(cursor, logits, vocab, &err));
    for (int32_t id = 0; id < vocab; id++)
        assert_true((logits[id] == 0) ==
                    (id < grammar_trie->vocab && tokenizer_is_end(grammar_tok, id)));
    assert_false(constraint_accept(cursor, ids.ids[0], &err));
    tokenizer_ids_free(&ids);
    constraint_end(cursor);
    constraint_close(c);
    free(logits);
}

static void test_special_tokens(void **state)
{
    (void)state;
    int32_t mark = tokenizer_find_special(grammar_tok, "<|start_header_id|>", 19);
    assert_true(mark >= 0);
    constraint *c = grammar_of_gbnf("root ::= <|start_header_id|> \"a\"");
    engine_error err = {{0}};
    constraint_cursor *cursor = constraint_begin(c, &err);
    for (int32_t id = 0; id < grammar_trie->vocab; id++)
        if (constraint_allows(cursor, id) != (id == mark))
            fail_msg("token %d, and the mark is %d", id, mark);
    assert_true(constraint_accept(cursor, mark, &err));
    assert_false(constraint_allows(cursor, mark));
    constraint_end(cursor);
    constraint_close(c);
    c = grammar_of_gbnf("root ::= .*");
    cursor = constraint_begin(c, &err);
    assert_false(constraint_allows(cursor, mark));
    constraint_end(cursor);
    constraint_close(c);
}

// A sweep keeps where cursors stand.
static void test_sweep(void **state)
{
    (void)state;
    engine_error err = {{0}};
    static const char text[] = "root ::= \"(\" root? \")\" | [a-z]+";
    grammar *g = gbnf_parse(text, sizeof text - 1, &err);
    machine m = {0};
    assert_true(machine_open(&m, g));
    uint32_t at = machine_start(&m, g->entries[g->root], MACHINE_BOTTOM), start = at, other,
             *live[] = {&at, &start, &other};
    for (int i = 0; i < 100; i++)
        at = machine_step(&m, at, '(');
    other = machine_step(&m, machine_step(&m, start, 'x'), 'y');
    uint32_t before = m.state_count;
    assert_true(machine_sweep(&m, live, 3));
    assert_true(m.state_count < before && m.state_count <= 4);
    at = machine_step(&m, at, 'q');
    for (int i = 0; i < 99; i++)
        at = machine_step(&m, at, ')');
    assert_false(m.states[at].ends);
    at = machine_step(&m, at, ')');
    assert_true(m.states[at].ends);
    assert_int_equal(m.states[at].count, 0);
    assert_true(m.states[other].ends);
    machine_free(&m);
    grammar_free(g);
}

// Nesting has an end, and so has what a grammar may leave open.
static void test_bounds(void **state)
{
    (void)state;
    char text[2000], *at = text;
    constraint *c = grammar_of_gbnf("root ::= \"(\" root \")\" | \"x\"");
    memset(text, '(', sizeof text);
    assert_false(constraint_matches(c, text, sizeof text));
    constraint_close(c);
    for (int i = 0; i < 20; i++)
        at += sprintf(at, "r%d ::= r%d \"a\" | r%d \"b\"\n", i, i + 1, i + 1);
    sprintf(at, "r20 ::= \"x\"\nroot ::= r0");
    engine_error err = {{0}};
    assert_null(constraint_open(gbnf_parse(text, strlen(text), &err), grammar_trie, &err));
    assert_non_null(strstr(err.text, "ambiguous"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks),          cmocka_unit_test(test_masks_of_stretches),
        cmocka_unit_test(test_likeliest),      cmocka_unit_test(test_apply),
        cmocka_unit_test(test_special_tokens), cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, grammar_load, grammar_unload);
}
