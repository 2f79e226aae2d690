// SPDX-License-Identifier: MIT
#include "server/job_parts.h"

#include <stdio.h>
#include <string.h>

void parts_call_id(const server_choice *choice, char id[10])
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    uint64_t hash = 1469598103934665603u;
    for (const char *at = choice->job->id; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    hash = (hash ^ (uint64_t)choice->index) * 1099511628211u;
    hash = (hash ^ (uint64_t)choice->parts.calls.count) * 1099511628211u;
    hash ^= hash >> 31;
    for (int i = 0; i < 9; i++, hash /= 36)
        id[i] = digits[hash % 36];
    id[9] = '\0';
}

static json_t *new_call(const server_choice *choice, const char *name, size_t bytes)
{
    char id[10];
    parts_call_id(choice, id);
    return json_pack("{s:s, s:s, s:{s:o, s:s}}", "id", id, "type", "function", "function", "name",
                     json_stringn(name, bytes), "arguments", "");
}

json_t *parts_delta(const server_choice *choice, answer_part part, const char *text, size_t bytes)
{
    json_t *call;
    if (part == PART_THOUGHT || part == PART_TEXT)
        return json_pack("{s:o}", part == PART_TEXT ? "content" : "reasoning_content",
                         json_stringn(text, bytes));
    if (part == PART_CALL)
        call = new_call(choice, text, bytes);
    else
        call = json_pack("{s:{s:o}}", "function", "arguments", json_stringn(text, bytes));
    json_object_set_new(call, "index", json_integer(choice->parts.calls.count - 1));
    return json_pack("{s:[o]}", "tool_calls", call);
}

// Gives the last call its arguments, if they are not there yet.
static bool end_call(server_choice *choice)
{
    tokenizer_text *text = &choice->arguments;
    json_t *call = json_array_get(choice->calls, json_array_size(choice->calls) - 1);
    if (text->size_bytes == 0)
        return true;
    bool fine = json_object_set_new(json_object_get(call, "function"), "arguments",
                                    json_stringn(text->data, text->size_bytes)) == 0;
    text->size_bytes = 0;
    return fine;
}

bool parts_collect(server_choice *choice, answer_part part, const char *text, size_t bytes)
{
    if (part == PART_THOUGHT)
        return tokenizer_text_append(&choice->thoughts, text, bytes);
    if (part == PART_TEXT)
        return tokenizer_text_append(&choice->text, text, bytes);
    if (!choice->calls)
        choice->calls = json_array();
    if (part == PART_ARGUMENTS)
        return tokenizer_text_append(&choice->arguments, text, bytes);
    return end_call(choice) &&
           json_array_append_new(choice->calls, new_call(choice, text, bytes)) == 0;
}

static json_t *text_of(const tokenizer_text *text)
{
    return text->size_bytes > 0 ? json_stringn(text->data, text->size_bytes) : NULL;
}

json_t *parts_message(server_choice *choice)
{
    if (!end_call(choice))
        choice->job->no_memory = true;
    json_t *message = json_pack("{s:s}", "role", "assistant"), *content = text_of(&choice->text),
           *thoughts = text_of(&choice->thoughts);
    if (!content)
        content = choice->calls ? json_null() : json_string("");
    json_object_set_new(message, "content", content);
    if (thoughts)
        json_object_set_new(message, "reasoning_content", thoughts);
    if (choice->calls)
        json_object_set(message, "tool_calls", choice->calls);
    return message;
}
