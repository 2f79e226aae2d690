// SPDX-License-Identifier: MIT
// From messages to a script, family by family.

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/chat/chat_data.h"

static void add(chat_script *s, chat_part_kind kind, chat_span text)
{
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? s->capacity * 2 : 32;
        chat_part *parts = engine_realloc(s->parts, capacity, sizeof *parts);
        if (!parts) {
            s->failed = true;
            return;
        }
        s->parts = parts;
        s->capacity = capacity;
    }
    s->parts[s->count++] = (chat_part){kind, s->text.size_bytes, text.size_bytes};
    s->failed |= !tokenizer_text_append(&s->text, text.data, text.size_bytes);
}

static void add_text(chat_script *s, const char *text)
{
    add(s, CHAT_PART_TEXT, chat_span_of(text));
}

static void add_mark(chat_script *s, const char *text)
{
    add(s, CHAT_PART_MARK, chat_span_of(text));
}

static bool has_role(const chat_message *message, const char *role)
{
    return strcmp(message->role, role) == 0;
}

static chat_span content_of(const chat_message *message, bool trims)
{
    chat_span content = {message->content, message->content_bytes};
    return trims ? chat_trim(content) : content;
}

static bool check_roles(const chat_message *messages, size_t count, engine_error *err)
{
    if (count == 0)
        return engine_fail(err, "chat: the conversation is empty; it needs a message");
    for (size_t i = 0; i < count; i++) {
        const char *role = messages[i].role;
        if (!role || (strcmp(role, "system") != 0 && strcmp(role, "user") != 0 &&
                      strcmp(role, "assistant") != 0))
            return engine_fail(err,
                               "chat: message %zu has the role \"%.32s\"; roles are system, user "
                               "and assistant",
                               i, role ? role : "");
        if (!messages[i].content && messages[i].content_bytes > 0)
            return engine_fail(err, "chat: message %zu has no content", i);
    }
    return true;
}

// --- ChatML -----------------------------------------------------------------------------------------

static void open_turn(chat_script *s, const char *role)
{
    add_mark(s, "<|im_start|>");
    add_text(s, role);
    add_text(s, "\n");
}

static void close_turn(chat_script *s)
{
    add_mark(s, "<|im_end|>");
    add_text(s, "\n");
}

// The place of the last message that the user asked, rather than a tool's answer in the user's name.
static size_t last_question(const chat_message *messages, size_t count)
{
    static const char open[] = "<tool_response>", close[] = "</tool_response>";
    for (size_t i = count; i-- > 0;) {
        chat_span content = content_of(&messages[i], false);
        size_t end = chat_find_last(content, close);
        bool answer = chat_find(content, open) == 0 && end != SIZE_MAX &&
                      end + strlen(close) == content.size_bytes;
        if (has_role(&messages[i], "user") && !answer)
            return i;
    }
    return count - 1;
}

// A reply of a model that thinks aloud: what it thought stays only after the last question.
static void write_thoughtful_reply(chat_script *s, chat_span content, bool after_question,
                                   bool is_last)
{
    chat_span thought = {"", 0};
    size_t end = chat_find(content, "</think>");
    if (end != SIZE_MAX) {
        size_t reply = chat_find_last(content, "</think>") + strlen("</think>");
        thought = chat_trim_lines_right((chat_span){content.data, end});
        size_t start = chat_find_last(thought, "<think>");
        if (start != SIZE_MAX) {
            start += strlen("<think>");
            thought = (chat_span){thought.data + start, thought.size_bytes - start};
        }
        thought = chat_trim_lines_left(thought);
        content =
            chat_trim_lines_left((chat_span){content.data + reply, content.size_bytes - reply});
    }
    if (after_question && (is_last || thought.size_bytes > 0)) {
        add_text(s, "<think>\n");
        add(s, CHAT_PART_TEXT, chat_trim_lines_right(thought));
        add_text(s, "\n</think>\n\n");
        content = chat_trim_lines_left(content);
    }
    add(s, CHAT_PART_TEXT, content);
}

static void write_chatml(const chat_template *t, const chat_message *messages, size_t count,
                         const chat_options *options, chat_script *s)
{
    size_t question = last_question(messages, count);
    if (t->default_system && !has_role(&messages[0], "system")) {
        open_turn(s, "system");
        add_text(s, t->default_system);
        close_turn(s);
    }
    for (size_t i = 0; i < count; i++) {
        chat_span content = content_of(&messages[i], t->trims);
        open_turn(s, messages[i].role);
        if (t->drops_thinking && has_role(&messages[i], "assistant"))
            write_thoughtful_reply(s, content, i > question, i + 1 == count);
        else
            add(s, CHAT_PART_TEXT, content);
        close_turn(s);
    }
    if (!options->add_generation_prompt)
        return;
    open_turn(s, "assistant");
    if (t->opens_thinking)
        add_text(s, "<think>\n");
    else if (t->toggles_thinking && options->thinking == CHAT_THINKING_OFF)
        add_text(s, "<think>\n\n</think>\n\n");
}

// --- Llama 3 ----------------------------------------------------------------------------------------

static void write_header(chat_script *s, const char *role)
{
    add_mark(s, "<|start_header_id|>");
    add_text(s, role);
    add_mark(s, "<|end_header_id|>");
    add_text(s, "\n\n");
}

static void write_llama3(const chat_template *t, const chat_message *messages, size_t count,
                         const chat_options *options, chat_script *s)
{
    size_t first = 0;
    if (t->knowledge_date) {
        write_header(s, "system");
        add_text(s, "Cutting Knowledge Date: ");
        add_text(s, t->knowledge_date);
        add_text(s, "\nToday Date: ");
        add_text(s, options->date ? options->date : t->default_date);
        add_text(s, "\n\n");
        if (has_role(&messages[0], "system"))
            add(s, CHAT_PART_TEXT, content_of(&messages[first++], t->trims));
        add_mark(s, "<|eot_id|>");
    }
    for (size_t i = first; i < count; i++) {
        write_header(s, messages[i].role);
        add(s, CHAT_PART_TEXT, content_of(&messages[i], t->trims));
        add_mark(s, "<|eot_id|>");
    }
    if (options->add_generation_prompt)
        write_header(s, "assistant");
}

// --- [INST] -----------------------------------------------------------------------------------------

// A literal with its [INST] or [/INST], which some vocabularies have as a control token.
static void add_literal(chat_script *s, const char *literal, const char *mark)
{
    chat_span span = chat_span_of(literal);
    size_t at = chat_find(span, mark);
    size_t end = at + strlen(mark);
    add(s, CHAT_PART_TEXT, (chat_span){literal, at});
    add_mark(s, mark);
    add(s, CHAT_PART_TEXT, (chat_span){literal + end, span.size_bytes - end});
}

static void write_user_turn(const chat_template *t, const chat_message *message,
                            const chat_message *system, chat_script *s)
{
    chat_span content = content_of(message, t->trims);
    if (t->bos_each_turn)
        add(s, CHAT_PART_BOS, (chat_span){"", 0});
    add_literal(s, t->user_open, "[INST]");
    if (system && t->system == CHAT_SYSTEM_TAGS) {
        // What is trimmed is the sum of both, so the content keeps its beginning.
        chat_span whole = content_of(message, false);
        size_t lead = content.size_bytes > 0 ? (size_t)(content.data - whole.data) : 0;
        add_text(s, "<<SYS>>\n");
        add(s, CHAT_PART_TEXT, content_of(system, false));
        add_text(s, content.size_bytes > 0 || !t->trims ? "\n<</SYS>>\n\n" : "\n<</SYS>>");
        content = (chat_span){content.data - lead, content.size_bytes + lead};
    } else if (system) {
        add(s, CHAT_PART_TEXT, content_of(system, false));
        add_text(s, "\n\n");
    }
    add(s, CHAT_PART_TEXT, content);
    add_literal(s, t->user_close, "[/INST]");
}

static bool write_inst(const chat_template *t, const chat_message *messages, size_t count,
                       chat_script *s, engine_error *err)
{
    const chat_message *system = has_role(&messages[0], "system") ? &messages[0] : NULL;
    size_t first = system ? 1 : 0;
    if (system && t->system == CHAT_SYSTEM_NONE)
        return engine_fail(err,
                           "chat: the %s template has no place for a system message; put it into "
                           "the first user message",
                           t->name);
    if (first == count)
        return engine_fail(
            err, "chat: the %s template needs a user message after the system message", t->name);
    for (size_t i = first; i < count; i++) {
        const char *expected = (i - first) % 2 == 0 ? "user" : "assistant";
        if (!has_role(&messages[i], expected))
            return engine_fail(err,
                               "chat: message %zu has the role \"%.32s\" where the %s template "
                               "needs \"%s\"; roles alternate, user first",
                               i, messages[i].role, t->name, expected);
    }
    for (size_t i = first; i < count; i++) {
        if ((i - first) % 2 == 0) {
            bool here = t->system == CHAT_SYSTEM_LAST ? i + 1 == count : i == first;
            write_user_turn(t, &messages[i], here ? system : NULL, s);
            continue;
        }
        add_text(s, t->reply_open);
        add(s, CHAT_PART_TEXT, content_of(&messages[i], t->trims_reply));
        add_text(s, t->reply_close);
        add(s, CHAT_PART_EOS, (chat_span){"", 0});
        add_text(s, t->reply_end);
    }
    return true;
}

bool chat_write(const chat_template *t, const chat_message *messages, size_t message_count,
                const chat_options *options, chat_script *script, engine_error *err)
{
    if (!check_roles(messages, message_count, err))
        return false;
    if (t->begins_with_bos)
        add(script, CHAT_PART_BOS, (chat_span){"", 0});
    if (t->family == CHAT_CHATML)
        write_chatml(t, messages, message_count, options, script);
    else if (t->family == CHAT_HEADER)
        write_llama3(t, messages, message_count, options, script);
    else if (!write_inst(t, messages, message_count, script, err))
        return false;
    return !script->failed || engine_fail(err, "chat: not enough memory for the conversation");
}

void chat_script_free(chat_script *script)
{
    tokenizer_text_free(&script->text);
    free(script->parts);
    *script = (chat_script){0};
}
