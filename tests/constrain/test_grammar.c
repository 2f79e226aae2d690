// SPDX-License-Identifier: MIT
// Grammars and schemas: which texts fit, what is refused, what strangers cannot make them cost.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/grammar_case.h"

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
    check_texts(grammar_of_gbnf("# a remark\nroot ::= greeting \" \" name # another\ngreeting ::= "
                                "\"hello\" | \"good\"\n"
                                "  | \"bye\"\nname ::= [A-Z] [a-z]* (\"-\" [A-Z] [a-z]*)?\n"),
                FIT("hello World", "good X", "bye Anna-Maria"),
                FIT("hello", "hello world", "bye Anna-", ""));
    check_texts(grammar_of_gbnf("root ::= \"\\x41\\u00e9\\U0001F600\\\"\\\\\\n\" [\\]\\-a]"),
                FIT("A\303\251\360\237\230\200\"\\\n]", "A\303\251\360\237\230\200\"\\\n-"),
                FIT("A\303\251\360\237\230\200\"\\\nb"));
    check_texts(grammar_of_gbnf("root ::= \"\""), FIT(""), FIT("a"));
}

static void test_repetitions(void **state)
{
    (void)state;
    check_texts(
        grammar_of_gbnf("root ::= \"a\"{2,3} \"b\"{2} \"c\"{0,1} \"d\"{1,} \"e\"? \"f\"* \"g\"+"),
        FIT("aabbdg", "aaabbcddeffgg"),
        FIT("abbdg", "aaaabbdg", "aabbbdg", "aabbccdg", "aabbg", "aabbdee", "aabbd"));
    check_texts(grammar_of_gbnf("root ::= (\"\"*)* \"a\"{,2}"), FIT("", "a", "aa"), FIT("aaa"));
    check_texts(grammar_of_gbnf("root ::= (\n  \"a\" |\n  \"b\"\n)+"), FIT("abba"), FIT("", "abc"));
}

static void test_characters(void **state)
{
    (void)state;
    check_texts(grammar_of_gbnf("root ::= [^\\x00-\\x1F\"] ."),
                FIT("ab", "\303\251\360\237\230\200", "\357\277\277\n", "~\177"),
                FIT("\"a", "\na", "a", "a\200", "\355\240\200a", "a\364\220\200\200", "\300\200a",
                    "ab\377"));
    check_texts(grammar_of_gbnf("root ::= [\303\200-\340\240\200]"),
                FIT("\303\200", "\340\240\200", "\337\277"), FIT("\302\277", "\340\240\201", "a"));
    check_texts(grammar_of_gbnf("root ::= [a-]+"), FIT("a-a"), FIT("b"));
}

static void test_recursion(void **state)
{
    (void)state;
    check_texts(grammar_of_gbnf("root ::= \"(\" root? \")\" root?"), FIT("()", "(())()", "((()))"),
                FIT("", "(", "())"));
    check_texts(grammar_of_gbnf("root ::= \"a\" root | \"b\""), FIT("b", "aaaab"), FIT("a"));
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
        grammar_of_schema("true"),
        FIT("null", "[1, -2.5e+3, {\"a\": []}]", "\"\\ud83d\\ude00\\n\"", "{\n  \"a\": 1\n}"),
        FIT("", "nul", "01", "[1,]", "\"\\ud83d\"", "\"\n\"", "{a: 1}", "[1}"));
    check_texts(grammar_of_schema("{\"type\": [\"integer\", \"null\"]}"), FIT("0", "-7", "null"),
                FIT("1.0", "-", "007", "true"));
    check_texts(grammar_of_schema("{\"enum\": [\"a\\\"b\", 1.5, null, [1, {\"b\": 2}]]}"),
                FIT("\"a\\\"b\"", "1.5", "null", "[1,{\"b\":2}]"), FIT("\"a\"", "1"));
    check_texts(grammar_of_schema("{\"anyOf\": [{\"const\": 3}, {\"type\": \"boolean\"}]}"),
                FIT("3", "true"), FIT("4", "33"));
}

static void test_objects(void **state)
{
    (void)state;
    const char *const open = "{\"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": "
                             "\"null\"}, \"ac\": true}, \"required\": [\"b\"]%s}";
    char text[400];
    snprintf(text, sizeof text, open, ", \"additionalProperties\": false");
    check_texts(grammar_of_schema(text),
                FIT("{\"a\": 1, \"b\": null}", "{\"b\":null}", "{\"b\": null, \"ac\": []}",
                    "{\"a\":1,\"b\":null,\"ac\":2}"),
                FIT("{}", "{\"a\": 1}", "{\"b\": null, \"a\": 1}", "{\"b\": null,}",
                    "{\"b\": null, \"x\": 1}", "{\"b\": null \"ac\": 1}"));
    snprintf(text, sizeof text, open, ", \"additionalProperties\": {\"type\": \"boolean\"}");
    check_texts(
        grammar_of_schema(text),
        FIT("{\"b\": null, \"x\": true, \"\": false}", "{\"b\": null, \"ac\": 1, \"acd\": true}"),
        FIT("{\"b\": null, \"a\": true}", "{\"b\": null, \"x\": 1}", "{\"x\": true, \"b\": null}"));
    check_texts(grammar_of_schema(
                    "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"null\"}, \"b\": "
                    "{\"type\": \"null\"}}, \"additionalProperties\": {\"type\": \"null\"}}"),
                FIT("{}", "{\"a\":null}", "{\"b\":null}", "{\"c\":null}",
                    "{\"a\":null,\"c\":null,\"d\":null}"),
                FIT("{\"b\":null,\"a\":null}", "{,\"a\":null}"));
}

static void test_arrays_and_references(void **state)
{
    (void)state;
    check_texts(
        grammar_of_schema("{\"type\": \"array\", \"items\": {\"type\": \"null\"}, \"minItems\": 2, "
                          "\"maxItems\": 3}"),
        FIT("[null, null]", "[null,null,null]"), FIT("[]", "[null]", "[null,null,null,null]"));
    check_texts(grammar_of_schema("{\"type\": \"array\", \"maxItems\": 1}"), FIT("[]", "[{}]"),
                FIT("[1,2]"));
    check_texts(
        grammar_of_schema("{\"prefixItems\": [{\"type\": \"null\"}, {\"const\": 1}], \"items\": "
                          "{\"const\": 2}, \"minItems\": 1, \"maxItems\": 3}"),
        FIT("[null]", "[null,1]", "[null,1,2]"), FIT("[]", "[1]", "[null,2]", "[null,1,2,2]"));
    check_texts(grammar_of_schema(
                    "{\"$defs\": {\"tree\": {\"type\": \"object\", \"properties\": {\"v\": "
                    "{\"type\": \"integer\"}, \"kids\": {\"type\": \"array\", "
                    "\"items\": {\"$ref\": \"#/$defs/tree\"}}}, \"required\": [\"v\", \"kids\"], "
                    "\"additionalProperties\": false}}, \"$ref\": \"#/$defs/tree\"}"),
                FIT("{\"v\": 1, \"kids\": [{\"v\": 2, \"kids\": []}]}"),
                FIT("{\"v\": 1, \"kids\": [{}]}"));
}

static void test_strings(void **state)
{
    (void)state;
    check_texts(grammar_of_schema("{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}"),
                FIT("\"ab\"", "\"\303\251\\n\360\237\230\200\""), FIT("\"a\"", "\"abcd\""));
    check_texts(
        grammar_of_schema("{\"type\": \"string\", \"pattern\": \"^[a-c]+\\\\d{2}(x|\\\"y)?$\"}"),
        FIT("\"ab12\"", "\"c00x\"", "\"c00\\\"y\""), FIT("\"12\"", "\"a1\"", "\"a12 \""));
    check_texts(grammar_of_schema("{\"type\": \"string\", \"pattern\": \"b|^c|d$\"}"),
                FIT("\"abc\"", "\"cx\"", "\"xd\""), FIT("\"ac\"", "\"dx\"", "\"\""));
    check_texts(grammar_of_schema("{\"format\": \"date\"}"),
                FIT("\"2024-02-29\"", "\"1999-12-31\""), FIT("\"2023-02-29\"", "\"2024-13-01\""));
}

static void test_numbers(void **state)
{
    (void)state;
    check_texts(grammar_of_schema("{\"type\": \"integer\", \"minimum\": -5, \"maximum\": 120}"),
                FIT("-5", "0", "99", "120", "7"), FIT("-6", "-0", "121", "999", "1000", "00"));
    check_texts(
        grammar_of_schema("{\"type\": \"number\", \"exclusiveMinimum\": 0.5, \"maximum\": 2.25}"),
        FIT("0.50001", "1", "2.25", "2.2500", "2"), FIT("0.5", "0.50", "2.2501", "3", "0", "-1"));
    check_texts(grammar_of_schema("{\"type\": \"integer\", \"multipleOf\": 7}"),
                FIT("0", "49", "-14"), FIT("1", "48"));
    check_texts(grammar_of_schema("{\"type\": \"number\", \"multipleOf\": 0.25, \"minimum\": 0}"),
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_and_names), cmocka_unit_test(test_repetitions),
        cmocka_unit_test(test_characters),      cmocka_unit_test(test_recursion),
        cmocka_unit_test(test_refusals),        cmocka_unit_test(test_types),
        cmocka_unit_test(test_objects),         cmocka_unit_test(test_arrays_and_references),
        cmocka_unit_test(test_strings),         cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_schema_refusals), cmocka_unit_test(test_many_members),
    };
    return cmocka_run_group_tests(tests, grammar_load, grammar_unload);
}
