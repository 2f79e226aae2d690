// SPDX-License-Identifier: MIT
#include "engine/constrain/call_style.h"

#include <string.h>

#include <jansson.h>

static bool mentions(const char *text, size_t bytes, const char *word)
{
    size_t size = strlen(word);
    for (size_t i = 0; i + size <= bytes; i++)
        if (text[i] == word[0] && memcmp(text + i, word, size) == 0)
            return true;
    return false;
}

#define OBJECT(name, arguments) .body = CALL_OBJECT, .name_key = name, .arguments_key = arguments
#define TAGGED(opening, behind_key, behind_value)                                                  \
    .body = CALL_TAGGED, .key_open = opening, .key_close = behind_key, .value_close = behind_value

// What a template must and must not have for a style; the first that fits counts.
static const struct {
    const char *has[3], *lacks[3];
    call_style style;
} known[] = {
    {{"<|channel|>commentary", "functions.", "<|call|>"},
     {NULL},
     {"channels", .body = CALL_NAMED, .mark = "<|channel|>commentary to=functions.", .open = "",
      .separator = " <|constrain|>json<|message|>", .close = "", .end = ""}},
    {{"<tool_call>", "<function=", "<parameter="},
     {NULL},
     {"qwen-coder", TAGGED("<parameter=", ">\n", "\n</parameter>\n"), .marks_each = true,
      .mark = "<tool_call>", .open = "\n<function=", .separator = ">\n",
      .close = "</function>\n</tool_call>", .end = ""}},
    {{"<seed:tool_call>", "<function=", "<parameter="},
     {NULL},
     {"seed", TAGGED("<parameter=", ">", "</parameter>\n"), .marks_each = true,
      .mark = "<seed:tool_call>", .open = "\n<function=", .separator = ">\n",
      .close = "</function>\n</seed:tool_call>", .end = ""}},
    {{"<tool_call>", "<arg_key>", "</arg_key><arg_value>"},
     {NULL},
     {"glm-4.7", TAGGED("<arg_key>", "</arg_key><arg_value>", "</arg_value>"), .marks_each = true,
      .mark = "<tool_call>", .open = "", .separator = "", .close = "</tool_call>", .end = ""}},
    {{"<tool_call>", "<arg_key>", "<arg_value>"},
     {NULL},
     {"glm", TAGGED("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n"), .marks_each = true,
      .mark = "<tool_call>", .open = "", .separator = "\n", .close = "</tool_call>", .end = ""}},
    {{"<tool_call>"},
     {"<function=", "<arg_key>", "ns_token"},
     {"hermes", OBJECT("name", "arguments"), .marks_each = true, .mark = "<tool_call>", .open = "",
      .close = "</tool_call>", .end = ""}},
    {{"[TOOL_CALLS]", "[ARGS]"},
     {NULL},
     {"mistral-named", .body = CALL_NAMED, .marks_each = true, .mark = "[TOOL_CALLS]", .open = "",
      .id_mark = "[CALL_ID]", .separator = "[ARGS]", .close = "", .end = ""}},
    {{"[TOOL_CALLS]"},
     {NULL},
     {"mistral", OBJECT("name", "arguments"), .list = true, .mark = "[TOOL_CALLS]", .open = "",
      .close = "", .end = ""}},
    {{"<｜tool▁calls▁begin｜>", "```json"},
     {NULL},
     {"deepseek-r1", .body = CALL_NAMED, .mark = "<｜tool▁calls▁begin｜>",
      .open = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", .separator = "\n```json\n",
      .close = "\n```<｜tool▁call▁end｜>", .end = "<｜tool▁calls▁end｜>"}},
    {{"<｜tool▁calls▁begin｜>"},
     {NULL},
     {"deepseek", .body = CALL_NAMED, .mark = "<｜tool▁calls▁begin｜>",
      .open = "<｜tool▁call▁begin｜>", .separator = "<｜tool▁sep｜>",
      .close = "<｜tool▁call▁end｜>", .end = "<｜tool▁calls▁end｜>"}},
    {{"<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"},
     {NULL},
     {"kimi", .body = CALL_NAMED, .mark = "<|tool_calls_section_begin|>",
      .open = "<|tool_call_begin|>functions.", .id_mark = ":",
      .separator = "<|tool_call_argument_begin|>", .close = "<|tool_call_end|>",
      .end = "<|tool_calls_section_end|>"}},
    {{"<|START_ACTION|>"},
     {NULL},
     {"command", OBJECT("tool_name", "parameters"), .id_key = "tool_call_id", .list = true,
      .mark = "<|START_ACTION|>", .open = "", .close = "", .end = "<|END_ACTION|>"}},
    {{"<|tool_call|>"},
     {"<|tool_call_begin|>"},
     {"granite", OBJECT("name", "arguments"), .list = true, .mark = "<|tool_call|>", .open = "",
      .close = "", .end = ""}},
    {{"<function=", "</function>"},
     {"<parameter=", "<tool_call>"},
     {"functionary", .body = CALL_NAMED, .marks_each = true, .mark = "<function=", .open = "",
      .separator = ">", .close = "</function>", .end = ""}},
    {{"<|python_tag|>"},
     {"<function="},
     {"llama", OBJECT("name", "parameters"), .mark = "", .other_mark = "<|python_tag|>", .open = "",
      .close = "", .end = ""}},
    {{"\"parameters\": dictionary of argument name"},
     {"<function="},
     {"llama", OBJECT("name", "parameters"), .mark = "", .open = "", .close = "", .end = ""}},
};

const call_style *call_style_of(const char *chat_template, size_t bytes)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        bool fits = true;
        for (int n = 0; n < 3 && known[i].has[n]; n++)
            fits = fits && mentions(chat_template, bytes, known[i].has[n]);
        for (int n = 0; n < 3 && known[i].lacks[n]; n++)
            fits = fits && !mentions(chat_template, bytes, known[i].lacks[n]);
        if (fits)
            return &known[i].style;
    }
    return NULL;
}

bool style_has(const call_style *style, const thought_style *thoughts, const char *name,
               size_t bytes)
{
    static const call_style no_calls;
    static const thought_style no_thoughts;
    const call_style *c = style ? style : &no_calls;
    const thought_style *t = thoughts ? thoughts : &no_thoughts;
    const char *const texts[] = {
        c->mark,     c->other_mark, c->open,        c->close, c->end,   c->id_mark, c->separator,
        c->key_open, c->key_close,  c->value_close, t->open,  t->close, t->lead};
    char word[64];
    if (bytes == 0 || bytes >= sizeof word)
        return false;
    memcpy(word, name, bytes);
    word[bytes] = '\0';
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i] && strstr(texts[i], word))
            return true;
    return false;
}

const thought_style *thought_style_of(const char *chat_template, size_t bytes)
{
    static const thought_style styles[] = {{"<|channel|>analysis<|message|>",
                                            "<|end|><|start|>assistant",
                                            "<|channel|>final<|message|>"},
                                           {"<think>", "</think>", NULL},
                                           {"[THINK]", "[/THINK]", NULL},
                                           {"<|START_THINKING|>", "<|END_THINKING|>", NULL}};
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        if (mentions(chat_template, bytes, styles[i].open) ||
            mentions(chat_template, bytes, styles[i].close))
            return &styles[i];
    return NULL;
}

const json_t *call_function(const json_t *tools, const char *name, size_t bytes)
{
    const json_t *tool;
    size_t n;
    json_array_foreach(tools, n, tool)
    {
        const json_t *function = json_object_get(tool, "function"),
                     *own = json_object_get(function, "name");
        if (json_string_length(own) == bytes && bytes > 0 &&
            memcmp(json_string_value(own), name, bytes) == 0)
            return function;
    }
    return NULL;
}

bool call_argument_is_text(const json_t *function, const char *name, size_t bytes)
{
    const json_t *properties =
        json_object_get(json_object_get(function, "parameters"), "properties");
    const json_t *schema = json_object_getn(properties, name, bytes);
    const char *type = json_string_value(json_object_get(schema, "type"));
    return !schema || (type && strcmp(type, "string") == 0);
}
