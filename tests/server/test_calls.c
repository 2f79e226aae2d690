// SPDX-License-Identifier: MIT
// Answers taken apart: thoughts, text and the calls of every family, in whatever pieces they come; and the grammar of
// such an answer has the same texts.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "tests/support/file_tokenizer.h"

static tokenizer *tok;
static token_trie *trie;

static int load(void **state)
{
    (void)state;
    tok = file_tokenizer("llama");
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

static const char TOOLS[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"find\", \"parameters\": {\"type\": "
    "\"object\", \"properties\": {\"what\": {\"type\": \"string\"}, \"most\": {\"type\": "
    "\"integer\"}, \"kind\": {\"type\": \"string\", \"enum\": [\"fox\", \"owl\"]}}, \"required\": "
    "[\"what\"], \"additionalProperties\": false}}}, {\"type\": \"function\", \"function\": "
    "{\"name\": \"stop-it\", \"parameters\": {\"type\": \"object\", \"properties\": {}, "
    "\"additionalProperties\": false}}}]";

// --- taking apart -------------------------------------------------------------------------------------

typedef struct story {
    char text[2000];
    answer_part last;
    bool any;
} story;

// Parts as <kind:text>, pieces of one put together.
static void tell(void *user, answer_part part, const char *text, size_t bytes)
{
    static const char *const names[] = {"thought", "text", "call", "arguments"};
    story *s = user;
    size_t size = strlen(s->text);
    bool same = s->any && s->last == part && part != PART_CALL;
    if (same)
        s->text[--size] = '\0';
    else
        size += (size_t)snprintf(s->text + size, sizeof s->text - size, "<%s:", names[part]);
    snprintf(s->text + size, sizeof s->text - size, "%.*s>", (int)bytes, text);
    s->last = part;
    s->any = true;
}

typedef struct answer {
    const char *template;
    bool thinks; // it begins inside of thoughts
    const char *text, *told;
} answer;

static void check_pieces(const answer *a, size_t piece)
{
    json_t *tools = json_loads(TOOLS, 0, NULL);
    story s = {.any = false};
    answer_parts parts = {.thoughts = thought_style_of(a->template, strlen(a->template)),
                          .thinks = thought_style_of(a->template, strlen(a->template)) != NULL,
                          .calls = {.style = call_style_of(a->template, strlen(a->template)),
                                    .tools = tools,
                                    .say = tell,
                                    .user = &s}};
    if (a->thinks)
        answer_parts_think(&parts);
    for (size_t at = 0, size = strlen(a->text); at < size; at += piece)
        answer_parts_add(&parts, a->text + at, piece < size - at ? piece : size - at);
    answer_parts_end(&parts);
    if (strcmp(s.text, a->told) != 0)
        fail_msg("%s in pieces of %zu:\n%s\n%s", a->text, piece, s.text, a->told);
    assert_false(parts.no_memory);
    answer_parts_free(&parts);
    json_decref(tools);
}

static constraint *form_of(const answer *a, bool must, bool one)
{
    engine_error err = {{0}};
    size_t size = strlen(a->template);
    answer_form form = {.style = call_style_of(a->template, size),
                        .tools = TOOLS,
                        .must_call = must,
                        .one_call = one,
                        .thought = thought_style_of(a->template, size)};
    form.thoughts = a->thinks      ? ANSWER_THINKS
                    : form.thought ? ANSWER_MAY_THINK
                                   : ANSWER_NO_THOUGHTS;
    assert_non_null(form.style);
    grammar *g = answer_grammar(&form, tok, NULL, &err);
    constraint *c = g ? constraint_open(g, trie, &err) : NULL;
    if (!c)
        fail_msg("%s: %s", a->template, err.text);
    return c;
}

static bool fits(const answer *a, bool must, bool one)
{
    constraint *c = form_of(a, must, one);
    bool fine = constraint_matches(c, a->text, strlen(a->text));
    constraint_close(c);
    return fine;
}

static void check(const answer *answers, size_t count)
{
    for (const answer *a = answers; a < answers + count; a++) {
        for (size_t piece = 1; piece < 6; piece++)
            check_pieces(a, piece);
        check_pieces(a, strlen(a->text));
        const char *first = strstr(a->told, "<call:");
        if (!fits(a, false, false))
            fail_msg("does not fit its grammar: %s", a->text);
        bool text = strstr(a->told, "<text:") != NULL;
        if (fits(a, true, false) != (first && !text))
            fail_msg("where it must call: %s", a->text);
        if (first && fits(a, false, true) != !strstr(first + 1, "<call:"))
            fail_msg("where it may call once: %s", a->text);
    }
}

#define CHECK(...)                                                                                 \
    check((const answer[]){__VA_ARGS__}, sizeof((const answer[]){__VA_ARGS__}) / sizeof(answer))

#define FOX      "{\"what\": \"a {fox}\\\"\"}"
#define FOX_TOLD "<call:find><arguments:" FOX ">"

static void objects(void **state)
{
    (void)state;
    static const char hermes[] = "<tool_call> </tool_call>", old[] = "[TOOL_CALLS]",
                      granite[] = "<|tool_call|>", command[] = "<|START_ACTION|>";
    CHECK({hermes, false,
           "Let me see. <tool_call>\n{\"name\": \"find\", \"arguments\": " FOX "}\n</tool_call>",
           "<text:Let me see.>" FOX_TOLD},
          {hermes, false,
           "<tool_call>{\"name\": \"stop-it\", \"arguments\": "
           "{}}</tool_call>\n<tool_call>\n{\"name\": "
           "\"find\", \"arguments\": " FOX "}\n</tool_call>",
           "<call:stop-it><arguments:{}>" FOX_TOLD},
          {hermes, false, "a < b and <tool_c", "<text:a < b and <tool_c>"},
          {old, false,
           "[TOOL_CALLS] [{\"name\": \"find\", \"arguments\": " FOX "}, {\"name\": \"stop-it\", "
           "\"arguments\": {}}]",
           FOX_TOLD "<call:stop-it><arguments:{}>"},
          {granite, false, "<|tool_call|>[{\"name\": \"stop-it\", \"arguments\": {}}]",
           "<call:stop-it><arguments:{}>"},
          {command, false,
           "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"find\", "
           "\"parameters\": " FOX "}\n]<|END_ACTION|>",
           FOX_TOLD});
}

static void names(void **state)
{
    (void)state;
    static const char mistral[] = "[TOOL_CALLS] [ARGS]", functionary[] = "<function= </function>",
                      r1[] = "<｜tool▁calls▁begin｜>```json", v3[] = "<｜tool▁calls▁begin｜>",
                      kimi[] = "<|tool_calls_section_begin|><|tool_call_argument_begin|>";
    CHECK(
        {mistral, false, "Yes.[TOOL_CALLS]find[ARGS]" FOX "[TOOL_CALLS]stop-it[ARGS]{}",
         "<text:Yes.>" FOX_TOLD "<call:stop-it><arguments:{}>"},
        {mistral, false, "[TOOL_CALLS]find[CALL_ID]a1B2c3D4e[ARGS]" FOX, FOX_TOLD},
        {functionary, false, "<function=find>" FOX "</function>", FOX_TOLD},
        {r1, false,
         "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>find\n```json\n" FOX
         "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>stop-it\n```json\n{}"
         "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
         FOX_TOLD "<call:stop-it><arguments:{}>"},
        {v3, false,
         "So: <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>find<｜tool▁sep｜>" FOX
         "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
         "<text:So:>" FOX_TOLD},
        {kimi, false,
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.find:0"
         "<|tool_call_argument_begin|>" FOX "<|tool_call_end|><|tool_call_begin|>"
         "functions.stop-it:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
         "<|tool_calls_section_end|>",
         FOX_TOLD "<call:stop-it><arguments:{}>"});
}

static void tags(void **state)
{
    (void)state;
    static const char coder[] = "<tool_call> <function= <parameter=",
                      seed[] = "<seed:tool_call> <function= <parameter=",
                      glm[] = "<tool_call> <arg_key> <arg_value>",
                      tight[] = "<tool_call><arg_key></arg_key><arg_value>";
    CHECK(
        {coder, false,
         "I look.\n\n<tool_call>\n<function=find>\n<parameter=what>\na \"red\"\nfox < "
         "3</p\n</parameter>\n"
         "<parameter=most>\n12\n</parameter>\n<parameter=kind>\nowl\n</parameter>\n</function>\n"
         "</tool_call>\n<tool_call>\n<function=stop-it>\n</function>\n</tool_call>",
         "<text:I look.><call:find><arguments:{\"what\": \"a \\\"red\\\"\\nfox < 3</p\", \"most\": "
         "12, \"kind\": \"owl\"}><call:stop-it><arguments:{}>"},
        {seed, false,
         "<seed:tool_call>\n<function=find>\n<parameter=what>a fox</parameter>\n</function>\n"
         "</seed:tool_call>",
         "<call:find><arguments:{\"what\": \"a fox\"}>"},
        {glm, false,
         "<tool_call>find\n<arg_key>what</arg_key>\n<arg_value>tab\there</arg_value>\n"
         "<arg_key>most</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
         "<call:find><arguments:{\"what\": \"tab\\u0009here\", \"most\": 3}>"},
        {glm, false, "<tool_call>stop-it\n</tool_call>", "<call:stop-it><arguments:{}>"},
        {tight, false,
         "<tool_call>find<arg_key>what</arg_key><arg_value>a < b</arg_value><arg_key>most</arg_key>"
         "<arg_value>3</arg_value></tool_call><tool_call>stop-it</tool_call>",
         "<call:find><arguments:{\"what\": \"a < b\", \"most\": 3}><call:stop-it><arguments:{}>"});
}

static void thoughts(void **state)
{
    (void)state;
    static const char think[] = "<think> <tool_call>", magistral[] = "[THINK][TOOL_CALLS][ARGS]";
    CHECK({think, true, "I think < so.\n</think>\n\nYes.", "<thought:I think < so.><text:Yes.>"},
          {think, true, "\n</think>Yes.", "<text:Yes.>"},
          {think, false,
           "<think>\nWell\n</think>\n\n<tool_call>{\"name\": \"stop-it\", \"arguments\": "
           "{}}</tool_call>",
           "<thought:Well><call:stop-it><arguments:{}>"},
          {think, false, "No <think> here.", "<text:No <think> here.>"},
          {magistral, false, "[THINK]Hm.[/THINK]Yes.", "<thought:Hm.><text:Yes.>"});
}

// An answer in channels: thoughts, then the text or a call.
static void channels(void **state)
{
    (void)state;
    static const char oss[] =
        "<|channel|>analysis<|message|> <|channel|>commentary functions. <|call|>";
    CHECK({oss, false,
           "<|channel|>analysis<|message|>Well.<|end|><|start|>assistant<|channel|>final<|message|>"
           "Yes <|.",
           "<thought:Well.><text:Yes <|.>"},
          {oss, false, "<|channel|>final<|message|>Yes.", "<text:Yes.>"},
          {oss, false,
           "<|channel|>analysis<|message|>Well.<|end|><|start|>assistant<|channel|>commentary "
           "to=functions.find <|constrain|>json<|message|>" FOX,
           "<thought:Well.>" FOX_TOLD},
          {oss, false, "<|channel|>commentary to=functions.stop-it <|constrain|>json<|message|>{}",
           "<call:stop-it><arguments:{}>"});
}

// More thoughts may follow the first ones, as long as nothing was said; no grammar asks for them.
static void thinks_again(void **state)
{
    (void)state;
    static const char think[] = "<think>", oss[] = "<|channel|>analysis<|message|>";
    const answer values[] = {
        {oss, false,
         "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>analysis<|message|>"
         "Two.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
         "<thought:One.\n\nTwo.><text:Yes.>"},
        {think, true, "One.</think>\n<think>Two.</think>\nYes. <think>",
         "<thought:One.\n\nTwo.><text:Yes. <think>>"},
        {think, true, "</think>\n<think>Two.</think>Yes.", "<thought:Two.><text:Yes.>"},
        {think, true, "One.</think>\n<thi", "<thought:One.><text:<thi>"}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (size_t piece = 1; piece < 12; piece++)
            check_pieces(&values[i], piece);
}

// Without a mark a call is an answer that begins with a brace; other such answers are text.
static void bare(void **state)
{
    (void)state;
    static const char llama[] = "<|python_tag|>";
    CHECK({llama, false, "{\"name\": \"find\", \"parameters\": " FOX "}", FOX_TOLD},
          {llama, false, "<|python_tag|>{\"name\": \"stop-it\", \"parameters\": {}}",
           "<call:stop-it><arguments:{}>"},
          {llama, false, "It is {so}.", "<text:It is {so}.>"});
    const answer values[] = {{llama, false, "{\"age\": 3, \"name\": \"find\"}",
                              "<text:{\"age\": 3, \"name\": \"find\"}>"},
                             {llama, false, "{\"name\": \"Bob\", \"age\": {\"a\": 1}} ",
                              "<text:{\"name\": \"Bob\", \"age\": {\"a\": 1}} >"},
                             {llama, false, "{}", "<text:{}>"},
                             {llama, false, "{\"na", "<text:{\"na>"},
                             {llama, false, "{\"name\": \"find\", \"par", "<call:find>"},
                             {llama, false, "{\"name\": \"find\", \"parameters\": {\"wh",
                              "<call:find><arguments:{\"wh>"}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (size_t piece = 1; piece < 8; piece++)
            check_pieces(&values[i], piece);
}

// --- what is asked for --------------------------------------------------------------------------------

static grammar *ask(const char *template, const char *parameters, bool strict, engine_error *note,
                    engine_error *err)
{
    char tools[1000];
    snprintf(tools, sizeof tools,
             "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": %s, "
             "\"parameters\": %s}}]",
             strict ? "true" : "false", parameters);
    const answer_form form = {.style = call_style_of(template, strlen(template)), .tools = tools};
    return answer_grammar(&form, tok, note, err);
}

// What is not served is refused where it is promised, and said where it is not.
static void unserved(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"<tool_call>", "{\"properties\": {\"a\": {\"not\": {}}}}", "'not'"},
        {"[TOOL_CALLS][ARGS]", "{\"properties\": {\"a\": {\"uniqueItems\": true}}}", "uniqueItems"},
        {"<tool_call><arg_key><arg_value>",
         "{\"properties\": {\"a\": {\"type\": \"string\", \"pattern\": \"a\"}}}", "'pattern'"},
        {"<tool_call><arg_key><arg_value>", "{\"properties\": {\"a\": {\"not\": {}}}}", "'not'"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        engine_error note = {""}, err = {""};
        grammar *g = ask(cases[i][0], cases[i][1], false, &note, &err);
        assert_non_null(g);
        grammar_free(g);
        if (!strstr(note.text, cases[i][2]) || !strstr(note.text, "tools[0].function.parameters"))
            fail_msg("%s is not said: %s", cases[i][2], note.text);
        assert_null(ask(cases[i][0], cases[i][1], true, &note, &err));
        assert_non_null(strstr(err.text, cases[i][2]));
        note.text[0] = '\0';
        g = ask(cases[i][0], "{\"properties\": {\"a\": {\"type\": \"string\"}}}", false, &note,
                &err);
        assert_true(g && !*note.text);
        grammar_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(objects),      cmocka_unit_test(names),
                                       cmocka_unit_test(tags),         cmocka_unit_test(thoughts),
                                       cmocka_unit_test(bare),         cmocka_unit_test(channels),
                                       cmocka_unit_test(thinks_again), cmocka_unit_test(unserved)};
    return cmocka_run_group_tests(tests, load, unload);
}
