// SPDX-License-Identifier: MIT
#include "server/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/job_parts.h"
#include "server/response.h"

static void say_part(void *user, answer_part part, const char *text, size_t bytes);

static void begin_parts(server_choice *choice)
{
    const api_wish *wish = &choice->job->wish;
    const answer_form *form = &wish->form;
    choice->parts = (answer_parts){.thoughts = form->thought,
                                   .thinks = form->thoughts != ANSWER_NO_THOUGHTS,
                                   .calls = {.style = form->tools ? form->style : NULL,
                                             .tools = json_object_get(wish->root, "tools"),
                                             .say = say_part,
                                             .user = choice}};
    if (form->thoughts == ANSWER_THINKS)
        answer_parts_think(&choice->parts);
}

server_job *job_make(api_wish *wish)
{
    server_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->choices = calloc((size_t)wish->best_of, sizeof *job->choices);
    if (!job->choices) {
        free(job);
        return NULL;
    }
    job->wish = *wish;
    *wish = (api_wish){0};
    for (int32_t i = 0; i < job->wish.best_of; i++) {
        job->choices[i] = (server_choice){.job = job, .index = i};
        if (job->wish.split)
            begin_parts(&job->choices[i]);
        if (job->wish.logprobs)
            job->choices[i].logprobs = json_array();
    }
    return job;
}

void job_free(server_job *job)
{
    if (!job)
        return;
    for (int32_t i = 0; i < job->wish.best_of; i++) {
        tokenizer_text_free(&job->choices[i].text);
        tokenizer_text_free(&job->choices[i].thoughts);
        tokenizer_text_free(&job->choices[i].arguments);
        answer_parts_free(&job->choices[i].parts);
        json_decref(job->choices[i].calls);
        json_decref(job->choices[i].logprobs);
        tokenizer_text_free(&job->choices[i].frame);
    }
    json_decref(job->output.items);
    json_decref(job->output.item);
    free(job->choices);
    free(job->breakers);
    api_wish_free(&job->wish);
    embedding_free(&job->embedding);
    tokenizer_ids_free(&job->ids);
    tokenizer_text_free(&job->out);
    free(job);
}

// --- logprobs -----------------------------------------------------------------------------------------

// A token as a string that JSON can have, for people; its bytes beside it are exact.
static json_t *token_text(const tokenizer *t, int32_t id)
{
    tokenizer_text text = {0};
    json_t *string = NULL;
    if (tokenizer_decode(t, &id, 1, TOKENIZER_SHOW_SPECIAL, &text, NULL))
        string = json_stringn(text.data ? text.data : "", text.size_bytes);
    tokenizer_text_free(&text);
    return string ? string : json_string("");
}

static json_t *token_bytes(const tokenizer *t, int32_t id)
{
    tokenizer_bytes piece = {"", 0};
    json_t *bytes = json_array();
    if (tokenizer_piece(t, id, &piece))
        for (size_t i = 0; i < piece.size_bytes; i++)
            json_array_append_new(bytes, json_integer((unsigned char)piece.data[i]));
    return bytes;
}

static json_t *token_logprob(const tokenizer *t, int32_t id, float logprob)
{
    return json_pack("{s:o, s:f, s:o}", "token", token_text(t, id), "logprob", (double)logprob,
                     "bytes", token_bytes(t, id));
}

static json_t *chat_logprob(const tokenizer *t, const engine_token *token)
{
    json_t *likeliest = json_array(), *one = token_logprob(t, token->id, token->logprob);
    for (int32_t i = 0; i < token->likeliest_count; i++)
        json_array_append_new(
            likeliest, token_logprob(t, token->likeliest[i].id, token->likeliest[i].logprob));
    json_object_set_new(one, "top_logprobs", likeliest);
    return one;
}

// For completions: one token's part of the four lists that they are told in.
static json_t *completion_logprob(server_choice *choice, const engine_token *token)
{
    const tokenizer *t = choice->job->tokenizer;
    json_t *text = token_text(t, token->id), *top = json_object();
    for (int32_t i = 0; i < token->likeliest_count; i++) {
        json_t *name = token_text(t, token->likeliest[i].id);
        json_object_setn_new(top, json_string_value(name), json_string_length(name),
                             json_real((double)token->likeliest[i].logprob));
        json_decref(name);
    }
    size_t offset = choice->text_offset;
    choice->text_offset += json_string_length(text);
    return json_pack("{s:o, s:f, s:o, s:I}", "token", text, "logprob", (double)token->logprob,
                     "top", top, "offset", (json_int_t)offset);
}

// Takes over the list of what token after token was said.
static json_t *logprobs_object(bool chat, json_t *list)
{
    if (!list)
        return json_null();
    if (chat)
        return json_pack("{s:o}", "content", list);
    json_t *tokens = json_array(), *values = json_array(), *tops = json_array(),
           *offsets = json_array(), *one;
    size_t n;
    json_array_foreach(list, n, one)
    {
        json_array_append(tokens, json_object_get(one, "token"));
        json_array_append(values, json_object_get(one, "logprob"));
        json_array_append(tops, json_object_get(one, "top"));
        json_array_append(offsets, json_object_get(one, "offset"));
    }
    json_decref(list);
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", values,
                     "top_logprobs", tops, "text_offset", offsets);
}

// --- objects ------------------------------------------------------------------------------------------

static const char *reason_of(const server_choice *choice)
{
    if (choice->finish != ENGINE_FINISH_END && choice->finish != ENGINE_FINISH_STOP)
        return "length";
    return choice->parts.calls.count > 0 ? "tool_calls" : "stop";
}

static json_t *head(const server_job *job, const char *chat_object, const char *object)
{
    return json_pack("{s:s, s:s, s:I, s:s}", "id", job->id, "object",
                     job->wish.chat ? chat_object : object, "created", (json_int_t)job->created,
                     "model", job->model_name);
}

static json_t *usage_object(const server_job *job)
{
    json_int_t prompt = (json_int_t)job->ids.count, generated = 0, cached = 0;
    for (int32_t i = 0; i < job->wish.best_of; i++)
        generated += job->choices[i].generated;
    cached = job->choices[0].cached;
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", prompt, "completion_tokens",
                     generated, "total_tokens", prompt + generated, "prompt_tokens_details",
                     "cached_tokens", cached);
}

// What a choice has to say in an event: `said` and logprobs are taken over; why it ended (none: NULL).
static void write_said(server_choice *choice, json_t *said, json_t *logprobs, const char *reason)
{
    server_job *job = choice->job;
    json_t *object = head(job, "chat.completion.chunk", "text_completion");
    json_object_set_new(said, "logprobs", logprobs_object(job->wish.chat, logprobs));
    json_object_set_new(said, "finish_reason", reason ? json_string(reason) : json_null());
    json_object_set_new(object, "choices", json_pack("[o]", said));
    if (job->wish.include_usage)
        json_object_set_new(object, "usage", json_null());
    job_write_event(job, object);
}

static void write_delta(server_choice *choice, json_t *delta, json_t *logprobs, const char *reason)
{
    json_t *said = json_pack("{s:i, s:o}", "index", choice->index, "delta", delta);
    write_said(choice, said, logprobs, reason);
}

// Text (none: NULL), logprobs (taken over), why it ended (none: NULL).
static void write_chunk(server_choice *choice, const char *role, const char *text, size_t bytes,
                        json_t *logprobs, const char *reason)
{
    if (!choice->job->wish.chat) {
        json_t *said = json_pack("{s:i, s:o}", "index", choice->index, "text",
                                 json_stringn(text ? text : "", text ? bytes : 0));
        write_said(choice, said, logprobs, reason);
        return;
    }
    json_t *delta = json_object();
    if (role)
        json_object_set_new(delta, "role", json_string(role));
    if (text)
        json_object_set_new(delta, "content", json_stringn(text, bytes));
    write_delta(choice, delta, logprobs, reason);
}

// The event that says "" is made once; of the others only the text.
static bool make_frame(server_choice *choice)
{
    server_job *job = choice->job;
    size_t begin = job->out.size_bytes;
    const char *nothing = job->wish.chat ? "\"content\":\"\"" : "\"text\":\"\"";
    write_chunk(choice, NULL, "", 0, NULL, NULL);
    bool fine =
        !job->no_memory &&
        tokenizer_text_append(&choice->frame, job->out.data + begin, job->out.size_bytes - begin) &&
        tokenizer_text_append(&choice->frame, "", 1);
    job->out.size_bytes = begin;
    const char *place = fine ? strstr(choice->frame.data, nothing) : NULL;
    if (place)
        choice->frame_at = (size_t)(place - choice->frame.data) + strlen(nothing) - 2;
    return place != NULL;
}

// What write_chunk writes of text alone.
static void write_text(server_choice *choice, const char *text, size_t bytes)
{
    server_job *job = choice->job;
    const tokenizer_text *frame = &choice->frame;
    bool framed = choice->frame_at > 0 || make_frame(choice);
    size_t behind = choice->frame_at + 2; // and a zero at the end
    if (!framed || !tokenizer_text_append(&job->out, frame->data, choice->frame_at) ||
        !job_write_string(job, text, bytes) ||
        !tokenizer_text_append(&job->out, frame->data + behind, frame->size_bytes - 1 - behind))
        job->no_memory = true;
}

// --- an answer in parts -------------------------------------------------------------------------------

static void say_part(void *user, answer_part part, const char *text, size_t bytes)
{
    server_choice *choice = user;
    if (choice->job->wish.response)
        response_write_part(choice, part, text, bytes);
    else if (choice->job->wish.stream)
        write_delta(choice, parts_delta(choice, part, text, bytes), NULL, NULL);
    else if (!parts_collect(choice, part, text, bytes))
        choice->job->no_memory = true;
}

static void add_parts(server_choice *choice, const engine_token *token)
{
    answer_parts_token(&choice->parts, choice->job->tokenizer, token->id, token->text,
                       token->text_bytes);
    choice->job->no_memory = choice->job->no_memory || choice->parts.no_memory;
}

void job_write_token(server_choice *choice, const engine_token *token)
{
    server_job *job = choice->job;
    bool chat = job->wish.chat;
    json_t *said = NULL;
    if (job->wish.response) {
        response_write_begin(job);
        if (job->wish.split)
            add_parts(choice, token);
        else
            say_part(choice, PART_TEXT, token->text, token->text_bytes);
        return;
    }
    if (token->id != TOKENIZER_NONE)
        choice->logprob += (double)token->logprob;
    if (choice->logprobs && token->id != TOKENIZER_NONE)
        said = chat ? chat_logprob(job->tokenizer, token) : completion_logprob(choice, token);
    if (!job->wish.stream) {
        if (said)
            json_array_append_new(choice->logprobs, said);
        if (job->wish.split)
            add_parts(choice, token);
        else if (!tokenizer_text_append(&choice->text, token->text, token->text_bytes))
            job->no_memory = true;
        return;
    }
    if (choice->generated++ == 0 && chat)
        write_chunk(choice, "assistant", "", 0, NULL, NULL);
    if (job->wish.split) {
        if (said)
            write_chunk(choice, NULL, NULL, 0, json_pack("[o]", said), NULL);
        add_parts(choice, token);
    } else if (said)
        write_chunk(choice, NULL, token->text, token->text_bytes, json_pack("[o]", said), NULL);
    else if (token->text_bytes > 0)
        write_text(choice, token->text, token->text_bytes);
}

void job_write_end(server_choice *choice)
{
    if (choice->job->wish.split)
        answer_parts_end(&choice->parts);
    if (choice->job->wish.stream && !choice->job->wish.response)
        write_chunk(choice, NULL, NULL, 0, NULL, reason_of(choice));
}

// The likeliest choice, by its tokens' mean, of those that were not told yet.
static server_choice *best_left(server_job *job)
{
    server_choice *best = NULL;
    double most = 0;
    for (int32_t i = 0; i < job->wish.best_of; i++) {
        server_choice *choice = &job->choices[i];
        double mean = choice->generated > 0 ? choice->logprob / choice->generated : 0;
        if (choice->told || (best && !(mean > most)))
            continue;
        best = choice;
        most = mean;
    }
    return best;
}

static void write_whole(server_job *job)
{
    json_t *object = head(job, "chat.completion", "text_completion"), *list = json_array();
    for (int32_t i = 0; i < job->wish.choices; i++) {
        bool all = job->wish.best_of == job->wish.choices;
        server_choice *choice = all ? &job->choices[i] : best_left(job);
        choice->told = true;
        json_t *text =
            json_stringn(choice->text.data ? choice->text.data : "", choice->text.size_bytes);
        if (job->wish.split) {
            json_decref(text);
            text = parts_message(choice);
        } else if (job->wish.chat)
            text = json_pack("{s:s, s:o}", "role", "assistant", "content", text);
        json_t *said =
            json_pack("{s:i, s:o}", "index", i, job->wish.chat ? "message" : "text", text);
        json_object_set_new(said, "logprobs", logprobs_object(job->wish.chat, choice->logprobs));
        choice->logprobs = NULL;
        json_object_set_new(said, "finish_reason", json_string(reason_of(choice)));
        json_array_append_new(list, said);
    }
    json_object_set_new(object, "choices", list);
    json_object_set_new(object, "usage", usage_object(job));
    if (!job_write_json(job, object))
        job->no_memory = true;
}

void job_write_done(server_job *job)
{
    static const char last[] = "data: [DONE]\n\n";
    if (job->wish.response) {
        response_write_done(job);
        return;
    }
    if (job->embedding.count > 0) {
        if (!job_write_json(job, embedding_answer(&job->embedding, job->model_name)))
            job->no_memory = true;
        return;
    }
    if (!job->wish.stream) {
        write_whole(job);
        return;
    }
    if (job->error.status) {
        char *text = job_error_text(&job->error);
        job_write_event(job, text ? json_loads(text, 0, NULL) : NULL);
        free(text);
    } else if (job->wish.include_usage) {
        json_t *object = head(job, "chat.completion.chunk", "text_completion");
        json_object_set_new(object, "choices", json_array());
        json_object_set_new(object, "usage", usage_object(job));
        job_write_event(job, object);
    }
    if (!tokenizer_text_append(&job->out, last, sizeof last - 1))
        job->no_memory = true;
}

char *job_error_text(const api_error *error)
{
    json_t *object =
        json_pack("{s:{s:s, s:s, s:o, s:o}}", "error", "message", error->message, "type",
                  error->type, "param", *error->param ? json_string(error->param) : json_null(),
                  "code", error->code ? json_string(error->code) : json_null());
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    return text;
}
