// SPDX-License-Identifier: MIT
#include "server/response.h"

#include <stdio.h>
#include <string.h>

#include "server/api_fields.h"

// --- reading ------------------------------------------------------------------------------------------

// The parts of a message's content as chat/completions has them.
static json_t *content_of(const json_t *content, const char *where, api_error *error)
{
    size_t n;
    const json_t *part;
    if (json_is_string(content))
        return json_deep_copy(content);
    json_t *parts = json_array();
    json_array_foreach(content, n, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *text = json_object_get(part, "text");
        bool known = type && (strcmp(type, "input_text") == 0 || strcmp(type, "output_text") == 0 ||
                              strcmp(type, "text") == 0);
        if (!known || !json_is_string(text)) {
            json_decref(parts);
            parts = NULL;
            break;
        }
        json_array_append_new(parts, json_pack("{s:s, s:O}", "type", "text", "text", text));
    }
    if (!json_is_array(content) || !parts) {
        json_decref(parts);
        api_fail(error, 400, where, "'%s' must be a string or parts of the type \"input_text\"",
                 where);
        return NULL;
    }
    return parts;
}

static bool add_item(json_t *messages, const json_t *item, size_t n, api_error *error)
{
    char where[64];
    const char *type = json_string_value(json_object_get(item, "type"));
    json_t *role = json_object_get(item, "role");
    snprintf(where, sizeof where, "input[%zu]", n);
    if (!json_is_object(item) || (type && strcmp(type, "message") != 0) || !json_is_string(role))
        return api_fail(error, 400, where, "'%s' must be a message with a role", where);
    snprintf(where, sizeof where, "input[%zu].content", n);
    json_t *content = content_of(json_object_get(item, "content"), where, error);
    if (!content)
        return false;
    const char *name = json_string_value(role);
    json_t *told = strcmp(name, "developer") == 0 ? json_string("system") : json_incref(role);
    return json_array_append_new(messages,
                                 json_pack("{s:o, s:o}", "role", told, "content", content)) == 0 ||
           api_fail(error, 500, NULL, "not enough memory for the request");
}

static bool add_messages(json_t *messages, const json_t *root, api_error *error)
{
    json_t *input = field_get(root, "input"), *instructions = field_get(root, "instructions"), *one;
    size_t n;
    if (instructions && !json_is_string(instructions))
        return api_fail(error, 400, "instructions", "'instructions' must be a string");
    if (instructions)
        json_array_append_new(messages,
                              json_pack("{s:s, s:O}", "role", "system", "content", instructions));
    if (json_is_string(input)) {
        json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "user", "content", input));
        return true;
    }
    if (!json_is_array(input) || json_array_size(input) == 0 ||
        json_array_size(input) > API_MAX_MESSAGES)
        return api_fail(error, 400, "input", "'input' must be a string or a list of messages");
    json_array_foreach(input, n, one)
    {
        if (!add_item(messages, one, n, error))
            return false;
    }
    return true;
}

// {"format": {"type": "json_schema", "name", "schema", "strict"}} is chat/completions' response_format.
static void add_format(json_t *chat, const json_t *root)
{
    json_t *format = json_object_get(json_object_get(root, "text"), "format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!format || json_is_null(format))
        return;
    json_t *told = json_copy(format);
    if (type && strcmp(type, "json_schema") == 0) {
        json_object_del(told, "type");
        told = json_pack("{s:s, s:o}", "type", "json_schema", "json_schema", told);
    }
    json_object_set_new(chat, "response_format", told);
}

// What would need a memory of answers, which there is none of.
static bool refuse_stored(const json_t *root, api_error *error)
{
    static const char *const unserved[] = {"previous_response_id", "conversation", "prompt",
                                           "background"};
    for (size_t i = 0; i < sizeof unserved / sizeof *unserved; i++) {
        const json_t *field = field_get(root, unserved[i]);
        if (field && !json_is_false(field))
            return api_fail(error, 400, unserved[i], "'%s' is not served: leave it out",
                            unserved[i]);
    }
    return true;
}

static json_t *chat_of(json_t *root, api_error *error)
{
    static const char *const changed[] = {"input",         "instructions", "max_output_tokens",
                                          "text",          "top_logprobs", "tool_choice",
                                          "stream_options"};
    json_t *messages = json_array(), *chat = json_copy(root);
    if (!messages || !chat || !refuse_stored(root, error) || !add_messages(messages, root, error)) {
        if (!error->status)
            api_fail(error, 500, NULL, "not enough memory for the request");
        json_decref(messages);
        json_decref(chat);
        return NULL;
    }
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++)
        json_object_del(chat, changed[i]);
    json_object_set_new(chat, "messages", messages);
    if (field_get(root, "max_output_tokens"))
        json_object_set(chat, "max_tokens", json_object_get(root, "max_output_tokens"));
    json_object_set_new(chat, "n", json_integer(1));
    json_object_set_new(chat, "logprobs", json_false());
    add_format(chat, root);
    return chat;
}

bool response_read(api_wish *wish, const char *body, size_t bytes, int32_t vocab, api_error *error)
{
    *wish = (api_wish){0};
    *error = (api_error){0};
    json_t *root = field_body(body, bytes, error);
    json_t *chat = root ? chat_of(root, error) : NULL;
    json_decref(root);
    if (!chat)
        return false;
    if (!api_read_wish_of(wish, true, chat, vocab, error)) {
        if (strcmp(error->param, "max_tokens") == 0)
            snprintf(error->param, sizeof error->param, "max_output_tokens");
        return false;
    }
    wish->response = true;
    return true;
}

// --- writing ------------------------------------------------------------------------------------------

static json_t *content_part(const server_choice *choice)
{
    json_t *text =
        json_stringn(choice->text.data ? choice->text.data : "", choice->text.size_bytes);
    return json_pack("{s:s, s:o, s:[], s:[]}", "type", "output_text", "text", text, "annotations",
                     "logprobs");
}

static json_t *message(const server_job *job, const char *status, bool with_text)
{
    char id[64];
    snprintf(id, sizeof id, "msg_%s", job->id + strlen("resp_"));
    json_t *content = json_array();
    if (with_text)
        json_array_append_new(content, content_part(&job->choices[0]));
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "type", "message", "id", id, "status", status,
                     "role", "assistant", "content", content);
}

static json_t *usage(const server_job *job)
{
    json_int_t prompt = (json_int_t)job->ids.count, generated = job->choices[0].generated;
    return json_pack("{s:I, s:{s:I}, s:I, s:{s:i}, s:I}", "input_tokens", prompt,
                     "input_tokens_details", "cached_tokens", (json_int_t)job->choices[0].cached,
                     "output_tokens", generated, "output_tokens_details", "reasoning_tokens", 0,
                     "total_tokens", prompt + generated);
}

// status: "in_progress", "completed", "incomplete", "failed".
static json_t *response(const server_job *job, const char *status)
{
    bool ended = strcmp(status, "in_progress") != 0;
    bool cut = strcmp(status, "incomplete") == 0, failed = strcmp(status, "failed") == 0;
    const weft_sample_params *params = &job->wish.sampling.params;
    json_t *output = json_array();
    if (ended && !failed)
        json_array_append_new(output, message(job, status, true));
    json_t *object =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:o, s:[], s:s, s:b, s:f, s:f, s:{s:{s:s}}}", "id",
                  job->id, "object", "response", "created_at", (json_int_t)job->created, "status",
                  status, "model", job->model_name, "output", output, "tools", "tool_choice",
                  "auto", "parallel_tool_calls", 0, "temperature", (double)params->temperature,
                  "top_p", (double)params->top_p, "text", "format", "type", "text");
    json_object_set_new(object, "usage", ended ? usage(job) : json_null());
    json_object_set_new(object, "max_output_tokens",
                        job->wish.max_tokens > 0 ? json_integer(job->wish.max_tokens)
                                                 : json_null());
    json_object_set_new(
        object, "error",
        failed ? json_pack("{s:s, s:s}", "code", "server_error", "message", job->error.message)
               : json_null());
    json_object_set_new(object, "incomplete_details",
                        cut ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null());
    json_object_set_new(object, "instructions", json_null());
    json_object_set_new(object, "metadata", json_object());
    return object;
}

// Takes the object over.
static void write_event(server_job *job, const char *type, json_t *object)
{
    char head[80];
    json_object_set_new(object, "type", json_string(type));
    json_object_set_new(object, "sequence_number", json_integer(job->events++));
    snprintf(head, sizeof head, "event: %s\n", type);
    if (!tokenizer_text_append(&job->out, head, strlen(head)))
        job->no_memory = true;
    job_write_event(job, object);
}

static json_t *in_item(const server_job *job)
{
    char id[64];
    snprintf(id, sizeof id, "msg_%s", job->id + strlen("resp_"));
    return json_pack("{s:s, s:i, s:i}", "item_id", id, "output_index", 0, "content_index", 0);
}

static void write_begin(server_job *job)
{
    server_choice empty = {.job = job};
    write_event(job, "response.created",
                json_pack("{s:o}", "response", response(job, "in_progress")));
    write_event(job, "response.in_progress",
                json_pack("{s:o}", "response", response(job, "in_progress")));
    write_event(
        job, "response.output_item.added",
        json_pack("{s:i, s:o}", "output_index", 0, "item", message(job, "in_progress", false)));
    json_t *part = in_item(job);
    json_object_set_new(part, "part", content_part(&empty));
    write_event(job, "response.content_part.added", part);
}

void response_write_token(server_choice *choice, const engine_token *token)
{
    server_job *job = choice->job;
    if (job->wish.stream && job->events == 0)
        write_begin(job);
    if (!tokenizer_text_append(&choice->text, token->text, token->text_bytes))
        job->no_memory = true;
    if (!job->wish.stream || token->text_bytes == 0)
        return;
    json_t *object = in_item(job);
    json_object_set_new(object, "delta", json_stringn(token->text, token->text_bytes));
    json_object_set_new(object, "logprobs", json_array());
    write_event(job, "response.output_text.delta", object);
}

static void write_end(server_job *job, const char *status)
{
    json_t *part = content_part(&job->choices[0]), *object = in_item(job);
    json_object_set(object, "text", json_object_get(part, "text"));
    json_object_set_new(object, "logprobs", json_array());
    write_event(job, "response.output_text.done", object);
    object = in_item(job);
    json_object_set_new(object, "part", part);
    write_event(job, "response.content_part.done", object);
    write_event(job, "response.output_item.done",
                json_pack("{s:i, s:o}", "output_index", 0, "item", message(job, status, true)));
}

void response_write_done(server_job *job)
{
    engine_finish finish = job->choices[0].finish;
    bool whole = finish == ENGINE_FINISH_END || finish == ENGINE_FINISH_STOP;
    const char *status = job->error.status ? "failed" : whole ? "completed" : "incomplete";
    char name[40];
    if (!job->wish.stream) {
        if (!job_write_json(job, response(job, status)))
            job->no_memory = true;
        return;
    }
    if (job->events == 0)
        write_begin(job);
    if (!job->error.status)
        write_end(job, status);
    snprintf(name, sizeof name, "response.%s", status);
    write_event(job, name, json_pack("{s:o}", "response", response(job, status)));
}
