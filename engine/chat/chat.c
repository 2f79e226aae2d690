// SPDX-License-Identifier: MIT
#include "engine/chat/chat.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/chat/jinja/jinja_box.h"
#include "engine/chat/jinja/jinja_json.h"
#include "engine/gguf/gguf.h"

struct chat_template {
    jinja_program *program;
    const call_style *calls;
    const thought_style *thoughts;
};

static const chat_options DEFAULTS = {0};

chat_template *chat_template_parse(const char *text, size_t text_bytes, engine_error *err)
{
    static const char advice[] = "use --raw to send the prompt as it is";
    if (text_bytes == 0) {
        engine_fail(err, "the model has no chat template: %s", advice);
        return NULL;
    }
    engine_error why = {""};
    jinja_program *program = jinja_parse(text, text_bytes, &why);
    if (program && !jinja_mentions(program, "messages")) {
        engine_fail(&why, "the template never looks at the messages");
        jinja_program_free(program);
        program = NULL;
    }
    chat_template *t = program ? engine_alloc(1, sizeof *t) : NULL;
    if (!t) {
        engine_fail(err, "chat: %.380s; %s", program ? "not enough memory" : why.text, advice);
        jinja_program_free(program);
        return NULL;
    }
    *t = (chat_template){program, call_style_of(text, text_bytes),
                         thought_style_of(text, text_bytes)};
    return t;
}

const call_style *chat_template_calls(const chat_template *t)
{
    return t ? t->calls : NULL;
}

const thought_style *chat_template_thoughts(const chat_template *t)
{
    return t ? t->thoughts : NULL;
}

chat_template *chat_template_from_gguf(const gguf_file *file, engine_error *err)
{
    static const char key[] = "tokenizer.chat_template";
    gguf_string text = {"", 0};
    gguf_lookup lookup = gguf_get_string(file, key, &text);
    if (!gguf_wanted(file, lookup, key, "a string", err))
        return NULL;
    return chat_template_parse(text.data, text.size_bytes, err);
}

void chat_template_free(chat_template *t)
{
    if (!t)
        return;
    jinja_program_free(t->program);
    free(t);
}

// --- what the template is given -------------------------------------------------------------------------

// Where a byte of the rendered text comes from: 0 is the template, then the contents of the messages (the
// last number stands for all that are left), and whatever else is not the template's.
enum { LAST_SOURCE = 254, OTHERS = 255 };

static unsigned char source_of(size_t message)
{
    return (unsigned char)(message + 1 < LAST_SOURCE ? message + 1 : LAST_SOURCE);
}

// The name of a role may be part of a control token ("<|user|>"), so known ones count as the template's.
static jinja_value role_text(jinja_box *box, const char *role)
{
    static const char *const known[] = {"system", "developer", "user",    "assistant",
                                        "tool",   "function",  "ipython", "model"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(role, known[i]) == 0)
            return jinja_text_from(box, 0, role, strlen(role));
    return jinja_text_from(box, OTHERS, role, strlen(role));
}

static bool add_message(jinja_box *box, jinja_value list, unsigned char source,
                        const chat_message *message, engine_error *err)
{
    jinja_value one = jinja_new_dict(box);
    if (!message->role || !message->content)
        return engine_fail(err, "chat: a message has no %s", message->role ? "content" : "role");
    jinja_set(box, one, "role", role_text(box, message->role));
    jinja_set(box, one, "content",
              jinja_text_from(box, source, message->content, message->content_bytes));
    if (message->members && !jinja_add_json(box, OTHERS, one, message->members, err))
        return engine_fail_in(err, "chat: the members of a message");
    jinja_append(box, list, one);
    return true;
}

// A special token's name; undefined if the vocabulary has none.
static void add_token(jinja_box *box, jinja_value values, const char *name, const tokenizer *tok,
                      int32_t id)
{
    tokenizer_bytes piece;
    if (id != TOKENIZER_NONE && tokenizer_piece(tok, id, &piece))
        jinja_set(box, values, name, jinja_text_from(box, 0, piece.data, piece.size_bytes));
}

// A JSON array under a name that the template reads; none without one.
static bool add_array(jinja_box *box, jinja_value values, const char *name, const char *json,
                      engine_error *err)
{
    jinja_value array = jinja_none();
    if (json && !jinja_from_json(box, OTHERS, json, &array, err)) {
        engine_fail_in(err, name);
        return engine_fail_in(err, "chat");
    }
    if (json && array.kind != JINJA_LIST)
        return engine_fail(err, "chat: the %s must be a JSON array", name);
    jinja_set(box, values, name, array);
    return true;
}

static bool add_values(jinja_box *box, jinja_value values, const tokenizer *tok,
                       const chat_message *messages, size_t message_count,
                       const chat_options *options, engine_error *err)
{
    jinja_value list = jinja_new_list(box);
    for (size_t i = 0; i < message_count; i++)
        if (!add_message(box, list, source_of(i), &messages[i], err))
            return false;
    jinja_set(box, values, "messages", list);
    jinja_set(box, values, "add_generation_prompt", jinja_bool(options->add_generation_prompt));
    add_token(box, values, "bos_token", tok, tokenizer_bos(tok));
    add_token(box, values, "eos_token", tok, tokenizer_eos(tok));
    if (options->thinking != CHAT_THINKING_DEFAULT)
        jinja_set(box, values, "enable_thinking",
                  jinja_bool(options->thinking == CHAT_THINKING_ON));
    if (options->date)
        jinja_set(box, values, "date_string",
                  jinja_text_from(box, 0, options->date, strlen(options->date)));
    return add_array(box, values, "tools", options->tools, err) &&
           add_array(box, values, "documents", options->documents, err);
}

// --- what it must not lose ------------------------------------------------------------------------------

// Some templates pass over messages that they have no place for. Whoever wrote one would not know.
static bool check_nothing_lost(jinja_text text, const chat_message *messages, size_t message_count,
                               engine_error *err)
{
    bool seen[256] = {false};
    for (size_t i = 0; i < text.size_bytes; i++)
        seen[text.origin ? text.origin[i] : text.source] = true;
    for (size_t i = 0; i < message_count; i++) {
        const char *role = messages[i].role;
        jinja_text content = {.data = messages[i].content, .size_bytes = messages[i].content_bytes};
        bool empty = jinja_strip(content, NULL, true, true).size_bytes == 0;
        bool asked = strcmp(role, "system") == 0 || strcmp(role, "user") == 0;
        if (asked && !empty && !seen[source_of(i)])
            return engine_fail(err,
                               "chat: the model's template has no place for message %zu (\"%s\"); "
                               "leave it out or use --raw",
                               i + 1, role);
    }
    return true;
}

// Renders into the box.
static bool render(const chat_template *t, jinja_box *box, const tokenizer *tok,
                   const chat_message *messages, size_t message_count, const chat_options *options,
                   jinja_text *text, engine_error *err)
{
    engine_error why = {""};
    if (!box)
        return engine_fail(err, "chat: not enough memory for the conversation");
    if (message_count == 0)
        return engine_fail(err, "chat: the conversation is empty");
    const char *unread = options->tools && !jinja_mentions(t->program, "tools") ? "tools"
                         : options->documents && !jinja_mentions(t->program, "documents")
                             ? "documents"
                             : NULL;
    if (unread)
        return engine_fail(err, "chat: the model's template has no place for %s; leave them out",
                           unread);
    jinja_value values = jinja_new_dict(box);
    if (!add_values(box, values, tok, messages, message_count, options, err))
        return false;
    if (jinja_render(t->program, box, values, text, &why))
        return check_nothing_lost(*text, messages, message_count, err);
    bool wants_bos = jinja_mentions(t->program, "bos_token");
    if (wants_bos && tokenizer_bos(tok) == TOKENIZER_NONE)
        return engine_fail(err,
                           "chat: the template may need a bos token and the vocabulary has "
                           "none (%.300s); use --raw to send the prompt as it is",
                           why.text);
    return engine_fail(err, "chat: %s", why.text);
}

// --- ids ------------------------------------------------------------------------------------------------

static bool is_foreign(jinja_text text, size_t at)
{
    return text.origin ? text.origin[at] : text.source;
}

// The first control token from `at` on that the template alone has written; TOKENIZER_NONE if none is left.
static int32_t next_control(const tokenizer *tok, jinja_text text, size_t at, size_t *start,
                            size_t *size_bytes)
{
    while (at < text.size_bytes) {
        while (at < text.size_bytes && is_foreign(text, at))
            at++;
        size_t end = at;
        while (end < text.size_bytes && !is_foreign(text, end))
            end++;
        int32_t id = tokenizer_next_special(tok, text.data, end, at, start, size_bytes);
        if (id != TOKENIZER_NONE)
            return id;
        at = end;
    }
    *start = text.size_bytes;
    return TOKENIZER_NONE;
}

// Plain text stands together between two control tokens, and is encoded together: so the ids are those of
// the whole rendered text, but for what only looks like a control token. Where the template writes a space
// behind a control token ("[INST] "), that is the space that SentencePiece puts in front of text, as the
// models saw it.
static bool encode(jinja_text text, const tokenizer *tok, tokenizer_ids *ids, engine_error *err)
{
    size_t start, size_bytes = 0;
    int32_t id = next_control(tok, text, 0, &start, &size_bytes);
    bool has_bos = id != TOKENIZER_NONE && start == 0 && id == tokenizer_bos(tok);
    bool fine = !tokenizer_adds_bos(tok) || has_bos || tokenizer_ids_push(ids, tokenizer_bos(tok));
    for (size_t plain = 0; fine;) {
        if (!tokenizer_encode(tok, text.data + plain, start - plain, TOKENIZER_SPACE_IS_PREFIX, ids,
                              err))
            return false;
        if (id == TOKENIZER_NONE)
            return true;
        fine = tokenizer_ids_push(ids, id);
        plain = start + size_bytes;
        id = next_control(tok, text, plain, &start, &size_bytes);
    }
    return engine_fail(err, "chat: not enough memory for the conversation");
}

bool chat_encode(const chat_template *t, const tokenizer *tok, const chat_message *messages,
                 size_t message_count, const chat_options *options, tokenizer_ids *ids,
                 engine_error *err)
{
    jinja_box *box = jinja_box_open(NULL);
    size_t count = ids->count;
    jinja_text text;
    bool fine =
        render(t, box, tok, messages, message_count, options ? options : &DEFAULTS, &text, err) &&
        encode(text, tok, ids, err);
    if (!fine)
        ids->count = count;
    jinja_box_close(box);
    return fine;
}

bool chat_render(const chat_template *t, const tokenizer *tok, const chat_message *messages,
                 size_t message_count, const chat_options *options, tokenizer_text *text,
                 engine_error *err)
{
    jinja_box *box = jinja_box_open(NULL);
    jinja_text rendered;
    bool fine =
        render(t, box, tok, messages, message_count, options ? options : &DEFAULTS, &rendered, err);
    if (fine && !tokenizer_text_append(text, rendered.data, rendered.size_bytes))
        fine = engine_fail(err, "chat: not enough memory for the conversation");
    jinja_box_close(box);
    return fine;
}
