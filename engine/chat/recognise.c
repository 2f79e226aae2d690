// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/chat/chat_data.h"

enum { MAX_TEMPLATE_BYTES = 1 << 17 }; // real ones have some kilobytes

static bool has(chat_span text, const char *needle)
{
    return chat_find(text, needle) != SIZE_MAX;
}

// What a template writes between two markers, with \n read as a line feed; NULL if the markers are not
// there or it ends a string literal in between. Memory that is short counts as not there.
static char *copy_between(chat_span text, const char *open, const char *close)
{
    size_t start = chat_find(text, open);
    if (start == SIZE_MAX)
        return NULL;
    start += strlen(open);
    chat_span rest = {text.data + start, text.size_bytes - start};
    size_t end = chat_find(rest, close);
    if (end == SIZE_MAX)
        return NULL;
    char *copy = engine_alloc(end + 1, 1);
    size_t count = 0;
    for (size_t i = 0; copy && i < end; i++) {
        char c = rest.data[i];
        if (c == '\'' || c == '"' || c == '{' || c == '}') {
            free(copy);
            return NULL;
        }
        bool escape = c == '\\' && i + 1 < end && rest.data[i + 1] == 'n';
        copy[count++] = escape ? '\n' : c;
        i += escape;
    }
    return copy;
}

// The same for every place where the opening marker stands, until one fits.
static char *copy_first_between(chat_span text, const char *open, const char *close)
{
    for (size_t at; (at = chat_find(text, open)) != SIZE_MAX;) {
        text = (chat_span){text.data + at, text.size_bytes - at};
        char *copy = copy_between(text, open, close);
        if (copy)
            return copy;
        text = (chat_span){text.data + 1, text.size_bytes - 1};
    }
    return NULL;
}

static bool has_any(chat_span text, const char *const *forms, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (has(text, forms[i]))
            return true;
    }
    return false;
}

static bool trims_content(chat_span text)
{
    static const char *const forms[] = {
        "content | trim",  "content|trim",      "content'] | trim",
        "content']|trim",  "content\"] | trim", "content\"]|trim",
        "content.strip()", "content'].strip()", "content\"].strip()",
    };
    return has_any(text, forms, sizeof forms / sizeof forms[0]);
}

// A turn ends with a line feed, in one of the ways to write that.
static bool ends_turns_with_a_line(chat_span text)
{
    static const char *const forms[] = {
        "<|im_end|>\\n",     "<|im_end|>\n",         "<|im_end|>' + '\\n", "<|im_end|>'+'\\n",
        "<|im_end|>' + '\n", "<|im_end|>\" + \"\\n", "<|im_end|>\"+\"\\n",
    };
    return has_any(text, forms, sizeof forms / sizeof forms[0]);
}

static bool read_chatml(chat_template *t, chat_span text)
{
    t->family = CHAT_CHATML;
    t->begins_with_bos = has(text, "bos_token");
    t->trims = trims_content(text);
    t->toggles_thinking = has(text, "enable_thinking");
    t->drops_thinking = has(text, "</think>") && has(text, "split(");
    t->opens_thinking = !t->toggles_thinking && (has(text, "<|im_start|>assistant\\n<think>\\n") ||
                                                 has(text, "<|im_start|>assistant\n<think>\n"));
    t->default_system = copy_first_between(text, "<|im_start|>system\\n", "<|im_end|>");
    if (!t->default_system)
        t->default_system = copy_first_between(text, "<|im_start|>system\n", "<|im_end|>");
    t->name = t->toggles_thinking ? "qwen3" : "chatml";
    // Others than Qwen3 have their own idea of the toggle.
    if (t->toggles_thinking &&
        !has(text, "enable_thinking is defined and enable_thinking is false"))
        return false;
    return ends_turns_with_a_line(text) && !has(text, "<|im_sep|>");
}

static bool read_header(chat_template *t, chat_span text)
{
    t->family = CHAT_HEADER;
    t->name = "llama-3";
    t->begins_with_bos = has(text, "bos_token");
    t->trims = trims_content(text);
    if (has(text, "Cutting Knowledge Date: ")) {
        t->name = "llama-3.1";
        t->knowledge_date = copy_between(text, "Cutting Knowledge Date: ", "\\n");
        t->default_date = copy_first_between(text, "date_string = \"", "\"");
        if (!t->default_date)
            t->default_date = engine_copy_text("26 Jul 2024", 11);
        if (!t->knowledge_date || !t->default_date)
            return false;
    }
    return has(text, "<|end_header_id|>") && has(text, "<|eot_id|>") && !has(text, "think");
}

static bool read_inst(chat_template *t, chat_span text)
{
    t->family = CHAT_INST;
    return !has(text, "[SYSTEM_PROMPT]") && chat_read_inst(t, text.data, text.size_bytes);
}

static bool read_any(chat_template *t, chat_span text)
{
    // Templates with macros belong to nobody's family.
    if (has(text, "{% macro") || has(text, "{%- macro"))
        return false;
    if (has(text, "<|im_start|>"))
        return read_chatml(t, text);
    if (has(text, "<|start_header_id|>"))
        return read_header(t, text);
    return has(text, "[INST]") && read_inst(t, text);
}

chat_template *chat_template_recognise(const char *text, size_t text_bytes, engine_error *err)
{
    if (text_bytes == 0) {
        engine_fail(err,
                    "the model has no chat template (tokenizer.chat_template); use --raw to send "
                    "the prompt as it is");
        return NULL;
    }
    chat_template *t = engine_alloc(1, sizeof *t);
    if (!t) {
        engine_fail(err, "chat template: not enough memory");
        return NULL;
    }
    if (text_bytes > MAX_TEMPLATE_BYTES || !read_any(t, (chat_span){text, text_bytes})) {
        engine_fail(err,
                    "the model's chat template is of a family that weft does not know (it knows "
                    "Llama 2, Mistral, Llama 3 and ChatML); use --raw to send the prompt as it is");
        chat_template_free(t);
        return NULL;
    }
    return t;
}

void chat_template_free(chat_template *t)
{
    if (!t)
        return;
    free(t->default_system);
    free(t->knowledge_date);
    free(t->default_date);
    free(t);
}
