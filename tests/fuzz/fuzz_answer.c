// SPDX-License-Identifier: MIT
// Answers of models, taken apart: the first byte chooses how the family writes calls, the second how the text is cut
// into pieces, which must make no difference. With the highest bit of the first byte, lists of tools by strangers.
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "engine/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { TOOLS = 0x80, THINKS = 0x40, STYLE = 0x0F };

static void check(bool promise)
{
    if (!promise)
        abort();
}

// What templates show.
static const char *const templates[16] = {
    "",
    "<tool_call><think>",
    "<tool_call><function=<parameter=<think>",
    "<seed:tool_call><function=<parameter=",
    "<tool_call><arg_key></arg_key><arg_value><think>",
    "[TOOL_CALLS][ARGS][THINK]",
    "[TOOL_CALLS]",
    "<｜tool▁calls▁begin｜>```json",
    "<｜tool▁calls▁begin｜><think>",
    "<|tool_calls_section_begin|><|tool_call_argument_begin|>",
    "<|START_ACTION|><|START_THINKING|>",
    "<|tool_call|>",
    "<function=</function>",
    "<|python_tag|>",
    "\"parameters\": dictionary of argument name",
    "<|channel|>analysis<|message|><|channel|>commentary functions.<|call|>"};

// --- taking apart -------------------------------------------------------------------------------------

// Each part as a letter and its text; pieces of one part put together.
typedef struct story {
    tokenizer_text text;
    answer_part last;
    bool any;
    int32_t calls;
} story;

static void tell(void *user, answer_part part, const char *text, size_t bytes)
{
    story *s = user;
    const char letter = "\001\002\003\004"[part];
    check(part != PART_ARGUMENTS || s->calls > 0);
    s->calls += part == PART_CALL;
    if (!s->any || s->last != part || part == PART_CALL)
        check(tokenizer_text_append(&s->text, &letter, 1));
    check(tokenizer_text_append(&s->text, text, bytes));
    s->last = part;
    s->any = true;
}

static story take_apart(const char *template, bool thinks, const json_t *tools, const char *text,
                        size_t bytes, size_t piece)
{
    story s = {.any = false};
    answer_parts parts = {.thoughts = thought_style_of(template, strlen(template)),
                          .thinks = thought_style_of(template, strlen(template)) != NULL,
                          .calls = {.style = call_style_of(template, strlen(template)),
                                    .tools = tools,
                                    .say = tell,
                                    .user = &s}};
    if (thinks && parts.thoughts)
        answer_parts_think(&parts);
    for (size_t at = 0; at < bytes; at += piece)
        answer_parts_add(&parts, text + at, piece < bytes - at ? piece : bytes - at);
    answer_parts_end(&parts);
    check(!parts.no_memory && s.calls == parts.calls.count);
    answer_parts_free(&parts);
    return s;
}

static void check_answer(uint8_t kind, uint8_t piece, const char *text, size_t bytes)
{
    static const char functions[] =
        "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": "
        "\"string\"}, \"b\": {\"type\": \"integer\"}}}}}, {\"function\": {\"name\": \"g\"}}]";
    static json_t *tools;
    const char *template = templates[kind & STYLE];
    if (!tools)
        tools = json_loads(functions, 0, NULL);
    story whole = take_apart(template, kind & THINKS, tools, text, bytes, bytes + 1),
          pieces = take_apart(template, kind & THINKS, tools, text, bytes, piece % 31u + 1);
    check(whole.text.size_bytes == pieces.text.size_bytes);
    check(whole.text.size_bytes == 0 ||
          memcmp(whole.text.data, pieces.text.data, whole.text.size_bytes) == 0);
    check(whole.text.size_bytes <= 8 * bytes + 64); // a byte becomes an escape at most
    tokenizer_text_free(&whole.text);
    tokenizer_text_free(&pieces.text);
}

// --- tools --------------------------------------------------------------------------------------------

static tokenizer *bytes_alone(void)
{
    static tokenizer *t;
    static tokenizer_bytes pieces[] = {{"a", 1}, {"b", 1}, {"</s>", 4}};
    if (!t) {
        tokenizer_spec spec = tokenizer_spec_default(TOKENIZER_BYTE_LEVEL);
        spec.pre = "gpt-2";
        spec.pieces = pieces;
        spec.piece_count = 3;
        t = tokenizer_create(&spec, NULL);
    }
    check(t != NULL);
    return t;
}

static void check_tools(uint8_t kind, uint8_t how, const char *text, size_t bytes)
{
    const char *template = templates[kind & STYLE];
    const call_style *style = call_style_of(template, strlen(template));
    char *tools = malloc(bytes + 1);
    engine_error note = {""}, err = {""};
    check(tools != NULL);
    memcpy(tools, text, bytes);
    tools[bytes] = '\0';
    const answer_form form = {
        .style = style, .tools = tools, .must_call = how & 1, .one_call = how & 2};
    grammar *g = style ? answer_grammar(&form, bytes_alone(), &note, &err) : NULL;
    check(!style || g || (*err.text && !strchr(err.text, '\n')));
    check(!strchr(note.text, '\n'));
    grammar_free(g);
    free(tools);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (size_bytes < 2)
        return 0;
    const char *text = (const char *)data + 2;
    if (data[0] & TOOLS)
        check_tools(data[0], data[1], text, size_bytes - 2);
    else
        check_answer(data[0], data[1], text, size_bytes - 2);
    return 0;
}
