// SPDX-License-Identifier: MIT
// Grammars and schemas: which texts fit, what is refused, what strangers cannot make them cost; and masks, token by
// token against following the token's bytes.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/constrain/constraint.h"
#include "engine/constrain/machine.h"
#include "tests/support/file_tokenizer.h"
#include "tests/support/made_up_vocabulary.h"

static tokenizer *tok;
static token_trie *trie;

static int load(void **state)
{
    (void)state;
    tok = file_tokenizer("llama-bpe");
    trie = tok ? token_trie_make(tok, NULL) : NULL;
    return trie ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    token_trie_free(trie);
    tokenizer_free(tok);
    return 0;
}

static constraint *open_constraint(grammar *g, engine_error *err)
{
    constraint *c = g ? constraint_open(g, trie, err) : NULL;
    if (!c)
        fail_msg("%s", err->text);
    return c;
}

static constraint *of_gbnf(const char *text)
{
    engine_error err = {{0}};
    return open_constraint(gbnf_parse(text, strlen(text), &err), &err);
}

static constraint *of_schema(const char *text)
{
    engine_error err = {{0}};
    return open_constraint(schema_parse(text, strlen(text), &err), &err);
}

// Lists of texts that end with NULL: those that fit, then those that do not.
static void check_texts(constraint *c, const char *const *fit, const char *const *others)
{
    for (; *fit; fit++)
        if (!constraint_matches(c, *fit, strlen(*fit)))
            fail_msg("does not fit: %s", *fit);
    for (; *others; others++)
        if (constraint_matches(c, *others, strlen(*others)))
            fail_msg("fits: %s", *others);
    constraint_close(c);
}

#define FIT(...)                                                                                   \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static void test_texts_and_names(void **state)
{
    (void)state;
    check_texts(of_gbnf("# a remark\nroot ::= greeting \" \" name # another\ngreeting ::= "
                        "\"hello\" | \"good\"\n"
                        "  | \"bye\"\nname ::= [A-Z] [a-z]* (\"-\" [A-Z] [a-z]*)?\n"),
                FIT("hello World", "good X", "bye Anna-Maria"),
                FIT("hello", "hello world", "bye Anna-", ""));
    check_texts(of_gbnf("root ::= \"\\x41\\u00e9\\U0001F600\\\"\\\\\\n\" [\\]\\-a]"),
                FIT("A\303\251\360\237\230\200\"\\\n]", "A\303\251\360\237\230\200\"\\\n-"),
                FIT("A\303\251\360\237\230\200\"\\\nb"));
    check_texts(of_gbnf("root ::= \"\""), FIT(""), FIT("a"));
}

static void test_repetitions(void **state)
{
    (void)state;
    check_texts(of_gbnf("root ::= \"a\"{2,3} \"b\"{2} \"c\"{0,1} \"d\"{1,} \"e\"? \"f\"* \"g\"+"),
                FIT("aabbdg", "aaabbcddeffgg"),
                FIT("abbdg", "aaaabbdg", "aabbbdg", "aabbccdg", "aabbg", "aabbdee", "aabbd"));
    check_texts(of_gbnf("root ::= (\"\"*)* \"a\"{,2}"), FIT("", "a", "aa"), FIT("aaa"));
    check_texts(of_gbnf("root ::= (\n  \"a\" |\n  \"b\"\n)+"), FIT("abba"), FIT("", "abc"));
}

static void test_characters(void **state)
{
    (void)state;
    check_texts(of_gbnf("root ::= [^\\x00-\\x1F\"] ."),
                FIT("ab", "\303\251\360\237\230\200", "\357\277\277\n", "~\177"),
                FIT("\"a", "\na", "a", "a\200", "\355\240\200a", "a\364\220\200\200", "\300\200a",
                    "ab\377"));
    check_texts(of_gbnf("root ::= [\303\200-\340\240\200]"),
                FIT("\303\200", "\340\240\200", "\337\277"), FIT("\302\277", "\340\240\201", "a"));
    check_texts(of_gbnf("root ::= [a-]+"), FIT("a-a"), FIT("b"));
}

static void test_recursion(void **state)
{
    (void)state;
    check_texts(of_gbnf("root ::= \"(\" root? \")\" root?"), FIT("()", "(())()", "((()))"),
                FIT("", "(", "())"));
    check_texts(of_gbnf("root ::= \"a\" root | \"b\""), FIT("b", "aaaab"), FIT("a"));
}

static void expect_refusal(const char *text, const char *word)
{
    engine_error err = {{0}};
    grammar *g = gbnf_parse(text, strlen(text), &err);
    if (g)
        fail_msg("not refused: %.60s", text);
    if (!strstr(err.text, word))
        fail_msg("'%s' is not in: %s", word, err.text);
}

static void test_refusals(void **state)
{
    (void)state;
    expect_refusal("", "root");
    expect_refusal("a ::= \"b\"", "root");
    expect_refusal("root ::= other", "'other'");
    expect_refusal("root ::= \"a\"\n\nroot ::= \"b\"", "line 3");
    expect_refusal("root ::= root \"a\" | \"b\"", "begins with itself");
    expect_refusal("root ::= a\na ::= \"\"* b\nb ::= \"x\"? a", "begins with itself");
    expect_refusal("root ::= \"a", "not closed");
    expect_refusal("root ::= (\"a\"", "not closed");
    expect_refusal("root ::= \"a\")", "not opened");
    expect_refusal("root ::= [z-a]", "backwards");
    expect_refusal("root ::= \"\\q\"", "escape");
    expect_refusal("root ::= \"\\", "escape");
    expect_refusal("root ::= \"\\uD800\"", "no character");
    expect_refusal("root ::= \"a\"{3,2}", "at least 3");
    expect_refusal("root ::= \"a\"{1000001}", "too long");
    expect_refusal("root ::= (((\"a\"{1000}){1000}){1000})", "too large");
    expect_refusal("root ::= (((\"\"{100000}){100000}){100000})", "too large");
    expect_refusal("root = \"a\"", "::=");
    expect_refusal("root ::= \"\377\"", "UTF-8");
    char *deep = calloc(1, 4096);
    memcpy(deep, "root ::= ", 9);
    memset(deep + 9, '(', 4000);
    expect_refusal(deep, "parentheses");
    free(deep);
}

// --- schemas ------------------------------------------------------------------------------------------

static void test_types(void **state)
{
    (void)state;
    check_texts(
        of_schema("true"),
        FIT("null", "[1, -2.5e+3, {\"a\": []}]", "\"\\ud83d\\ude00\\n\"", "{\n  \"a\": 1\n}"),
        FIT("", "nul", "01", "[1,]", "\"\\ud83d\"", "\"\n\"", "{a: 1}", "[1}"));
    check_texts(of_schema("{\"type\": [\"integer\", \"null\"]}"), FIT("0", "-7", "null"),
                FIT("1.0", "-", "007", "true"));
    check_texts(of_schema("{\"enum\": [\"a\\\"b\", 1.5, null, [1, {\"b\": 2}]]}"),
                FIT("\"a\\\"b\"", "1.5", "null", "[1,{\"b\":2}]"), FIT("\"a\"", "1"));
    check_texts(of_schema("{\"anyOf\": [{\"const\": 3}, {\"type\": \"boolean\"}]}"),
                FIT("3", "true"), FIT("4", "33"));
}

static void test_objects(void **state)
{
    (void)state;
    const char *const open = "{\"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": "
                             "\"null\"}, \"ac\": true}, \"required\": [\"b\"]%s}";
    char text[400];
    snprintf(text, sizeof text, open, ", \"additionalProperties\": false");
    check_texts(of_schema(text),
                FIT("{\"a\": 1, \"b\": null}", "{\"b\":null}", "{\"b\": null, \"ac\": []}",
                    "{\"a\":1,\"b\":null,\"ac\":2}"),
                FIT("{}", "{\"a\": 1}", "{\"b\": null, \"a\": 1}", "{\"b\": null,}",
                    "{\"b\": null, \"x\": 1}", "{\"b\": null \"ac\": 1}"));
    snprintf(text, sizeof text, open, ", \"additionalProperties\": {\"type\": \"boolean\"}");
    check_texts(
        of_schema(text),
        FIT("{\"b\": null, \"x\": true, \"\": false}", "{\"b\": null, \"ac\": 1, \"acd\": true}"),
        FIT("{\"b\": null, \"a\": true}", "{\"b\": null, \"x\": 1}", "{\"x\": true, \"b\": null}"));
    check_texts(
        of_schema("{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"null\"}, \"b\": "
                  "{\"type\": \"null\"}}, \"additionalProperties\": {\"type\": \"null\"}}"),
        FIT("{}", "{\"a\":null}", "{\"b\":null}", "{\"c\":null}",
            "{\"a\":null,\"c\":null,\"d\":null}"),
        FIT("{\"b\":null,\"a\":null}", "{,\"a\":null}"));
}

static void test_arrays_and_references(void **state)
{
    (void)state;
    check_texts(of_schema("{\"type\": \"array\", \"items\": {\"type\": \"null\"}, \"minItems\": 2, "
                          "\"maxItems\": 3}"),
                FIT("[null, null]", "[null,null,null]"),
                FIT("[]", "[null]", "[null,null,null,null]"));
    check_texts(of_schema("{\"type\": \"array\", \"maxItems\": 1}"), FIT("[]", "[{}]"),
                FIT("[1,2]"));
    check_texts(of_schema("{\"prefixItems\": [{\"type\": \"null\"}, {\"const\": 1}], \"items\": "
                          "{\"const\": 2}, \"minItems\": 1, \"maxItems\": 3}"),
                FIT("[null]", "[null,1]", "[null,1,2]"),
                FIT("[]", "[1]", "[null,2]", "[null,1,2,2]"));
    check_texts(
        of_schema("{\"$defs\": {\"tree\": {\"type\": \"object\", \"properties\": {\"v\": "
                  "{\"type\": \"integer\"}, \"kids\": {\"type\": \"array\", "
                  "\"items\": {\"$ref\": \"#/$defs/tree\"}}}, \"required\": [\"v\", \"kids\"], "
                  "\"additionalProperties\": false}}, \"$ref\": \"#/$defs/tree\"}"),
        FIT("{\"v\": 1, \"kids\": [{\"v\": 2, \"kids\": []}]}"), FIT("{\"v\": 1, \"kids\": [{}]}"));
}

static void test_strings(void **state)
{
    (void)state;
    check_texts(of_schema("{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}"),
                FIT("\"ab\"", "\"\303\251\\n\360\237\230\200\""), FIT("\"a\"", "\"abcd\""));
    check_texts(of_schema("{\"type\": \"string\", \"pattern\": \"^[a-c]+\\\\d{2}(x|\\\"y)?$\"}"),
                FIT("\"ab12\"", "\"c00x\"", "\"c00\\\"y\""), FIT("\"12\"", "\"a1\"", "\"a12 \""));
    check_texts(of_schema("{\"type\": \"string\", \"pattern\": \"b|^c|d$\"}"),
                FIT("\"abc\"", "\"cx\"", "\"xd\""), FIT("\"ac\"", "\"dx\"", "\"\""));
    check_texts(of_schema("{\"format\": \"date\"}"), FIT("\"2024-02-29\"", "\"1999-12-31\""),
                FIT("\"2023-02-29\"", "\"2024-13-01\""));
}

static void test_numbers(void **state)
{
    (void)state;
    check_texts(of_schema("{\"type\": \"integer\", \"minimum\": -5, \"maximum\": 120}"),
                FIT("-5", "0", "99", "120", "7"), FIT("-6", "-0", "121", "999", "1000", "00"));
    check_texts(of_schema("{\"type\": \"number\", \"exclusiveMinimum\": 0.5, \"maximum\": 2.25}"),
                FIT("0.50001", "1", "2.25", "2.2500", "2"),
                FIT("0.5", "0.50", "2.2501", "3", "0", "-1"));
    check_texts(of_schema("{\"type\": \"integer\", \"multipleOf\": 7}"), FIT("0", "49", "-14"),
                FIT("1", "48"));
    check_texts(of_schema("{\"type\": \"number\", \"multipleOf\": 0.25, \"minimum\": 0}"),
                FIT("0", "1.5", "3.75"), FIT("0.3", "1.251", "-1"));
}

static void expect_schema_refusal(const char *text, const char *word)
{
    engine_error err = {{0}};
    grammar *g = schema_parse(text, strlen(text), &err);
    if (g)
        fail_msg("not refused: %.60s", text);
    if (!strstr(err.text, word))
        fail_msg("'%s' is not in: %s", word, err.text);
}

static void test_schema_refusals(void **state)
{
    (void)state;
    expect_schema_refusal("{", "not JSON");
    expect_schema_refusal("{\"type\": \"text\"}", "'text' is unknown");
    expect_schema_refusal("{\"properties\": {\"a\": {\"not\": {}}}}", "/a: 'not'");
    expect_schema_refusal("{\"$ref\": \"#/$defs/x\"}", "$ref");
    expect_schema_refusal("{\"$ref\": \"#\"}", "begins with itself");
    expect_schema_refusal("{\"required\": [\"a\"], \"additionalProperties\": false}",
                          "'a' is required");
    expect_schema_refusal("{\"minimum\": 3, \"maximum\": 2}", "no number");
    expect_schema_refusal("{\"pattern\": \"(?=a)\"}", "looking ahead");
    expect_schema_refusal("{\"pattern\": \"(a\"}", "not closed");
    expect_schema_refusal("{\"pattern\": \"a)\"}", "cannot");
    expect_schema_refusal("{\"pattern\": \"\\\\1\"}", "not served");
    expect_schema_refusal("{\"minLength\": 3, \"maxLength\": 2}", "characters");
    expect_schema_refusal("{\"enum\": []}", "enum");
    expect_schema_refusal("{\"multipleOf\": 0}", "multipleOf");
    expect_schema_refusal("{\"enum\": [1], \"type\": []}", "'type'");
}

// Every name is looked for among the others: so many would take a stranger's minutes.
static void test_many_members(void **state)
{
    (void)state;
    enum { NAMES = 4100, ROOM = 16 * NAMES };
    char *text = malloc(ROOM);
    int size = snprintf(text, ROOM, "{\"required\": [\"a\"");
    for (int n = 0; n < NAMES; n++)
        size += snprintf(text + size, (size_t)(ROOM - size), ", \"%d\"", n);
    snprintf(text + size, (size_t)(ROOM - size), "]}");
    expect_schema_refusal(text, "at most 4096");
    free(text);
}

// --- masks --------------------------------------------------------------------------------------------

// At every place of a text each token's bit says what following its bytes says.
static void check_masks(constraint *c, const char *text)
{
    tokenizer_ids ids = {0};
    engine_error err = {{0}};
    constraint_cursor *cursor = constraint_begin(c, &err);
    assert_true(tokenizer_encode(tok, text, strlen(text), 0, &ids, &err));
    for (size_t i = 0; i <= ids.count; i++) {
        for (int32_t id = 0; id < trie->vocab; id++) {
            bool allowed = constraint_allows(cursor, id), possible = false;
            if (tokenizer_is_end(tok, id))
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
    check_masks(of_schema("{\"type\": \"object\"}"),
                "{\"name\": [\"caf\303\251 \\n\", -1.5e3, {\"a\": {}}], \"b\": true}");
    check_masks(of_gbnf("root ::= (\"the \" [a-z]{1,5} \" \"?)* \"end\""), "the quick the fox end");
    check_masks(of_gbnf("root ::= .{0,20}"), "any text \360\237\230\200 at");
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
    tokenizer *few = tok;
    token_trie *of_few = trie;
    (void)state;
    tok = made_up_vocabulary(SHORT + LONG, make_piece, NULL);
    assert_non_null(tok);
    trie = token_trie_make(tok, NULL);
    assert_non_null(trie);
    check_masks(of_gbnf("root ::= [^\"]* \"\\\"\""), "aAb\303\251\n,\"");
    check_masks(of_gbnf("root ::= line (\"\\n\" line)*\nline ::= [^\\n0]*"), "ab\n\303\251\"a\n");
    check_masks(of_gbnf("root ::= [a-z]{0,7} \",\" [^0]{2,33} \"0\""), "ab,\346\227\245A0");
    check_masks(of_gbnf("root ::= [^\303\251]{0,9} \"\303\251\""), "A\346\227\245\303\251");
    check_masks(of_gbnf("root ::= ([ab] | \"0\" \"\303\251\"?)* [A,]+"), "a0\303\251bAA");
    check_masks(of_gbnf("root ::= [^a] | [^\\n]{3} | [a-z]* [0-9]"), "aaaa0");
    check_masks(of_gbnf("root ::= [a-zA-Z]{3} \"b\""), "aAbb");
    check_masks(of_gbnf("root ::= (\"a\" [^\"]{1,3} | [b-z] [^\"]*) \"\\\"\""), "ba,\"");
    check_masks(
        of_gbnf("root ::= line \"\\n\" line\nline ::= (\"a\" | \"b\" \"b\"? | [A0] | [,\\\"] | "
                "\"\303\251\" | \"\346\227\245\")*"),
        "ab\nA");
    check_masks(of_schema("{\"type\": \"string\", \"maxLength\": 5}"), "\"aA\303\251\"");
    token_trie_free(trie);
    tokenizer_free(tok);
    trie = of_few;
    tok = few;
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
    int32_t vocab = trie->vocab + 1;
    uint32_t random = 1;
    float *given = malloc((size_t)vocab * sizeof *given);
    tokenizer_ids ids = {0};
    engine_error err = {{0}};
    assert_true(tokenizer_encode(tok, text, sizeof text - 1, 0, &ids, &err));
    for (int32_t most = 1; most < 80; most += most < 4 ? 1 : 19) {
        constraint *c = of_gbnf("root ::= (\"the \" [a-z]{1,5} \" \"?)* \"end\"");
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
    constraint *c = of_gbnf("root ::= \"yes\" | \"yes!\"");
    engine_error err = {{0}};
    constraint_cursor *cursor = constraint_begin(c, &err);
    int32_t vocab = trie->vocab + 3;
    float *logits = calloc((size_t)vocab, sizeof *logits);
    tokenizer_ids ids = {0};
    assert_true(tokenizer_encode(tok, "yes!", 4, 0, &ids, &err));
    assert_true(constraint_apply(cursor, logits, vocab, &err));
    for (int32_t id = 0; id < vocab; id++)
        assert_true((logits[id] == 0) == (id < trie->vocab && constraint_allows(cursor, id)));
    assert_true(isinf(logits[vocab - 1]));
    assert_false(constraint_may_end(cursor));
    for (size_t i = 0; i < ids.count; i++)
        assert_true(constraint_accept(cursor, ids.ids[i], &err));
    assert_true(constraint_complete(cursor));
    memset(logits, 0, (size_t)vocab * sizeof *logits);
    assert_true(constraint_apply(cursor, logits, vocab, &err));
    for (int32_t id = 0; id < vocab; id++)
        assert_true((logits[id] == 0) == (id < trie->vocab && tokenizer_is_end(tok, id)));
    assert_false(constraint_accept(cursor, ids.ids[0], &err));
    tokenizer_ids_free(&ids);
    constraint_end(cursor);
    constraint_close(c);
    free(logits);
}

static void test_special_tokens(void **state)
{
    (void)state;
    int32_t mark = tokenizer_find_special(tok, "<|start_header_id|>", 19);
    assert_true(mark >= 0);
    constraint *c = of_gbnf("root ::= <|start_header_id|> \"a\"");
    engine_error err = {{0}};
    constraint_cursor *cursor = constraint_begin(c, &err);
    for (int32_t id = 0; id < trie->vocab; id++)
        if (constraint_allows(cursor, id) != (id == mark))
            fail_msg("token %d, and the mark is %d", id, mark);
    assert_true(constraint_accept(cursor, mark, &err));
    assert_false(constraint_allows(cursor, mark));
    constraint_end(cursor);
    constraint_close(c);
    c = of_gbnf("root ::= .*");
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
    constraint *c = of_gbnf("root ::= \"(\" root \")\" | \"x\"");
    memset(text, '(', sizeof text);
    assert_false(constraint_matches(c, text, sizeof text));
    constraint_close(c);
    for (int i = 0; i < 20; i++)
        at += sprintf(at, "r%d ::= r%d \"a\" | r%d \"b\"\n", i, i + 1, i + 1);
    sprintf(at, "r20 ::= \"x\"\nroot ::= r0");
    engine_error err = {{0}};
    assert_null(constraint_open(gbnf_parse(text, strlen(text), &err), trie, &err));
    assert_non_null(strstr(err.text, "ambiguous"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_and_names), cmocka_unit_test(test_repetitions),
        cmocka_unit_test(test_characters),      cmocka_unit_test(test_recursion),
        cmocka_unit_test(test_refusals),        cmocka_unit_test(test_types),
        cmocka_unit_test(test_objects),         cmocka_unit_test(test_arrays_and_references),
        cmocka_unit_test(test_strings),         cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_schema_refusals), cmocka_unit_test(test_many_members),
        cmocka_unit_test(test_masks),           cmocka_unit_test(test_masks_of_stretches),
        cmocka_unit_test(test_likeliest),       cmocka_unit_test(test_apply),
        cmocka_unit_test(test_special_tokens),  cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_bounds)};
    return cmocka_run_group_tests(tests, load, unload);
}
