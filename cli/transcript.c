// SPDX-License-Identifier: MIT
#include "cli/transcript.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

bool cli_transcript_add(cli_transcript *t, const char *role, const char *content, size_t bytes)
{
    if (t->count == t->room) {
        size_t room = t->room ? 2 * t->room : 16;
        chat_message *larger = realloc(t->messages, room * sizeof *larger);
        if (!larger)
            return false;
        t->messages = larger;
        t->room = room;
    }
    char *copy = malloc(bytes + 1);
    if (!copy)
        return false;
    memcpy(copy, content, bytes);
    copy[bytes] = 0;
    t->messages[t->count++] = (chat_message){role, copy, bytes, NULL};
    return true;
}

bool cli_transcript_answer(cli_transcript *t, const tokenizer_text *text,
                           const tokenizer_text *thoughts)
{
    bool any = text->size_bytes > 0;
    if (!cli_transcript_add(t, "assistant", any ? text->data : "", text->size_bytes))
        return false;
    if (thoughts->size_bytes == 0)
        return true;
    json_t *members =
        json_pack("{s:s%}", "reasoning_content", thoughts->data, thoughts->size_bytes);
    char *written = members ? json_dumps(members, JSON_COMPACT) : NULL;
    json_decref(members);
    t->messages[t->count - 1].members = written;
    if (!written)
        cli_transcript_remove_last(t);
    return written;
}

static void free_message(chat_message *message)
{
    free((char *)message->content);
    free((char *)message->members);
}

void cli_transcript_remove_last(cli_transcript *t)
{
    if (t->count > 0)
        free_message(&t->messages[--t->count]);
}

void cli_transcript_free(cli_transcript *t)
{
    while (t->count > 0)
        cli_transcript_remove_last(t);
    free(t->messages);
    *t = (cli_transcript){0};
}

// Messages of the system stay whatever is dropped.
static size_t first_turn(const cli_transcript *t)
{
    return t->count > 0 && strcmp(t->messages[0].role, "system") == 0 ? 1 : 0;
}

static bool encode_text(const cli_transcript_form *form, const chat_message *messages, size_t count,
                        tokenizer_ids *ids, engine_error *err)
{
    tokenizer_text text = {0};
    bool fine = true;
    for (size_t i = 0; i < count && fine; i++)
        fine = tokenizer_text_append(&text, messages[i].content, messages[i].content_bytes) &&
               tokenizer_text_append(&text, "\n", 1);
    fine = fine ? tokenizer_encode(form->tokenizer, text.data, text.size_bytes,
                                   TOKENIZER_ADD_SPECIAL, ids, err)
                : engine_fail(err, "out of memory");
    tokenizer_text_free(&text);
    return fine;
}

// The conversation without its messages [first_turn, from), in place of what is in ids.
static bool encode_from(const cli_transcript *t, const cli_transcript_form *form, size_t from,
                        tokenizer_ids *ids, engine_error *err)
{
    size_t system = first_turn(t), count = system + t->count - from;
    chat_message *messages = malloc((count + 1) * sizeof *messages);
    if (!messages)
        return engine_fail(err, "out of memory");
    memcpy(messages, t->messages, system * sizeof *messages);
    memcpy(messages + system, t->messages + from, (t->count - from) * sizeof *messages);
    ids->count = 0;
    bool fine = form->template ? chat_encode(form->template, form->tokenizer, messages, count,
                                             &form->options, ids, err)
                               : encode_text(form, messages, count, ids, err);
    free(messages);
    return fine;
}

static void drop(cli_transcript *t, size_t from)
{
    size_t first = first_turn(t);
    for (size_t i = first; i < from; i++)
        free_message(&t->messages[i]);
    memmove(t->messages + first, t->messages + from, (t->count - from) * sizeof *t->messages);
    t->count -= from - first;
}

bool cli_transcript_fit(cli_transcript *t, const cli_transcript_form *form, size_t wanted,
                        size_t most, tokenizer_ids *ids, int *dropped_turns, engine_error *err)
{
    size_t from = first_turn(t);
    for (*dropped_turns = 0;; (*dropped_turns)++, from += 2) {
        bool last = wanted == CLI_TRANSCRIPT_KEEP || from + 2 >= t->count;
        if (!encode_from(t, form, from, ids, err))
            return false;
        size_t goal = *dropped_turns == 0 ? wanted : wanted / 3 * 2;
        if (ids->count <= (last ? most : goal))
            break;
        if (last)
            return engine_fail(err,
                               "the conversation takes %zu tokens, the context holds %zu: shorten "
                               "the message, /reset, or start with a larger --ctx",
                               ids->count, most);
    }
    drop(t, from);
    return true;
}
