// SPDX-License-Identifier: MIT
// The answer is a list of items: thoughts, messages, calls. One is written at a time; what a stream tells of it is
// told as it grows.
#include <stdio.h>
#include <string.h>

#include "server/job_parts.h"
#include "server/response.h"

// What tells the kinds of items apart. A call has no content but arguments.
typedef struct item_kind {
    const char *type, *prefix; // of its id
    const char *content;       // type of its only part; NULL: arguments
    const char *delta, *done;  // events of the text
} item_kind;

static const item_kind kinds[] = {
    [PART_THOUGHT] = {"reasoning", "rs", "reasoning_text", "response.reasoning_text.delta",
                      "response.reasoning_text.done"},
    [PART_TEXT] = {"message", "msg", "output_text", "response.output_text.delta",
                   "response.output_text.done"},
    [PART_CALL] = {"function_call", "fc", NULL, "response.function_call_arguments.delta",
                   "response.function_call_arguments.done"},
};

static const item_kind *kind_of(const json_t *item)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    for (size_t i = 0; type && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].type, type) == 0)
            return &kinds[i];
    return NULL;
}

// --- events -------------------------------------------------------------------------------------------

// Takes the object over.
static void write_event(server_job *job, const char *type, json_t *object)
{
    char head[80];
    if (!job->wish.stream) {
        json_decref(object);
        return;
    }
    json_object_set_new(object, "type", json_string(type));
    json_object_set_new(object, "sequence_number", json_integer(job->output.events++));
    snprintf(head, sizeof head, "event: %s\n", type);
    if (!tokenizer_text_append(&job->out, head, strlen(head)))
        job->no_memory = true;
    job_write_event(job, object);
}

// What an event of the current item begins with.
static json_t *in_item(const server_job *job)
{
    const json_t *item = job->output.item;
    json_t *object = json_pack("{s:O, s:i}", "item_id", json_object_get(item, "id"), "output_index",
                               (int)json_array_size(job->output.items));
    if (kind_of(item)->content)
        json_object_set_new(object, "content_index", json_integer(0));
    return object;
}

static void write_item_event(server_job *job, const char *type)
{
    write_event(job, type,
                json_pack("{s:i, s:o}", "output_index", (int)json_array_size(job->output.items),
                          "item", json_deep_copy(job->output.item)));
}

// --- items --------------------------------------------------------------------------------------------

static json_t *text_of(const tokenizer_text *text)
{
    return json_stringn(text->data ? text->data : "", text->size_bytes);
}

static json_t *content_part(const item_kind *kind, const tokenizer_text *text)
{
    json_t *part = json_pack("{s:s, s:o}", "type", kind->content, "text", text_of(text));
    if (kind == &kinds[PART_TEXT]) {
        json_object_set_new(part, "annotations", json_array());
        json_object_set_new(part, "logprobs", json_array());
    }
    return part;
}

static void begin_item(server_choice *choice, answer_part part, const char *name, size_t bytes)
{
    server_job *job = choice->job;
    const item_kind *kind = &kinds[part];
    char id[64], call_id[10];
    size_t number = json_array_size(job->output.items);
    snprintf(id, sizeof id, "%s_%s", kind->prefix, job->id + strlen("resp_"));
    if (number > 0)
        snprintf(id + strlen(id), sizeof id - strlen(id), "-%zu", number);
    json_t *item =
        json_pack("{s:s, s:s, s:s}", "type", kind->type, "id", id, "status", "in_progress");
    if (kind->content)
        json_object_set_new(item, "content", json_array());
    if (part == PART_TEXT)
        json_object_set_new(item, "role", json_string("assistant"));
    if (part == PART_THOUGHT)
        json_object_set_new(item, "summary", json_array());
    if (part == PART_CALL) {
        parts_call_id(choice, call_id);
        json_object_set_new(item, "call_id", json_string(call_id));
        json_object_set_new(item, "name", json_stringn(name, bytes));
        json_object_set_new(item, "arguments", json_string(""));
    }
    job->output.item = item;
    choice->text.size_bytes = 0;
    write_item_event(job, "response.output_item.added");
    if (!kind->content)
        return;
    json_t *object = in_item(job);
    json_object_set_new(object, "part", content_part(kind, &choice->text));
    write_event(job, "response.content_part.added", object);
}

static void end_item(server_choice *choice, const char *status)
{
    server_job *job = choice->job;
    json_t *item = job->output.item, *object = item ? in_item(job) : NULL;
    const item_kind *kind = item ? kind_of(item) : NULL;
    if (!item)
        return;
    json_object_set_new(object, kind->content ? "text" : "arguments", text_of(&choice->text));
    if (kind == &kinds[PART_TEXT])
        json_object_set_new(object, "logprobs", json_array());
    if (!kind->content)
        json_object_set(object, "name", json_object_get(item, "name"));
    write_event(job, kind->done, object);
    if (kind->content) {
        json_t *part = content_part(kind, &choice->text);
        json_array_append(json_object_get(item, "content"), part);
        object = in_item(job);
        json_object_set_new(object, "part", part);
        write_event(job, "response.content_part.done", object);
    } else
        json_object_set_new(item, "arguments", text_of(&choice->text));
    json_object_set_new(item, "status", json_string(status));
    write_item_event(job, "response.output_item.done");
    job->output.item = NULL;
    json_array_append_new(job->output.items, item);
}

void response_write_part(server_choice *choice, answer_part part, const char *text, size_t bytes)
{
    server_job *job = choice->job;
    const item_kind *kind = kind_of(job->output.item);
    if (part == PART_CALL || (part != PART_ARGUMENTS && kind != &kinds[part])) {
        end_item(choice, "completed");
        begin_item(choice, part, text, bytes);
    }
    if (part == PART_CALL || bytes == 0)
        return;
    if (!tokenizer_text_append(&choice->text, text, bytes))
        job->no_memory = true;
    json_t *object = in_item(job);
    json_object_set_new(object, "delta", json_stringn(text, bytes));
    if (part == PART_TEXT)
        json_object_set_new(object, "logprobs", json_array());
    write_event(job, kind_of(job->output.item)->delta, object);
}

// --- the whole ----------------------------------------------------------------------------------------

static json_t *usage(const server_job *job)
{
    json_int_t prompt = (json_int_t)job->ids.count, generated = job->choices[0].generated;
    return json_pack("{s:I, s:{s:I}, s:I, s:{s:i}, s:I}", "input_tokens", prompt,
                     "input_tokens_details", "cached_tokens", (json_int_t)job->choices[0].cached,
                     "output_tokens", generated, "output_tokens_details", "reasoning_tokens", 0,
                     "total_tokens", prompt + generated);
}

// The tools and the choice among them, as they were asked for.
static void add_tools(const server_job *job, json_t *object)
{
    json_t *tools = json_array(), *tool, *choice = json_object_get(job->wish.root, "tool_choice");
    size_t n;
    json_array_foreach(json_object_get(job->wish.root, "tools"), n, tool)
    {
        json_t *told = json_copy(json_object_get(tool, "function"));
        json_object_set_new(told, "type", json_string("function"));
        json_array_append_new(tools, told);
    }
    json_object_set_new(object, "tools", tools);
    if (json_is_object(choice))
        choice = json_pack("{s:s, s:s}", "type", "function", "name", job->wish.form.only);
    else
        choice = choice ? json_incref(choice) : json_string("auto");
    json_object_set_new(object, "tool_choice", choice);
    json_object_set_new(object, "parallel_tool_calls", json_boolean(!job->wish.form.one_call));
}

// The form that was asked for, as this interface has it.
static json_t *format_of(const server_job *job)
{
    json_t *asked = json_object_get(job->wish.root, "response_format"),
           *named = json_object_get(asked, "json_schema");
    json_t *told = named                   ? json_copy(named)
                   : json_is_object(asked) ? json_copy(asked)
                                           : json_object();
    const char *type = json_string_value(json_object_get(asked, "type"));
    json_object_set_new(told, "type", json_string(type ? type : "text"));
    return told;
}

// status: "in_progress", "completed", "incomplete", "failed".
static json_t *response(const server_job *job, const char *status)
{
    bool ended = strcmp(status, "in_progress") != 0;
    bool cut = strcmp(status, "incomplete") == 0, failed = strcmp(status, "failed") == 0;
    const weft_sample_params *params = &job->wish.sampling.params;
    json_t *output = ended && !failed ? json_incref(job->output.items) : json_array();
    json_t *object =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:o, s:f, s:f, s:{s:o}}", "id", job->id, "object",
                  "response", "created_at", (json_int_t)job->created, "status", status, "model",
                  job->model_name, "output", output, "temperature", (double)params->temperature,
                  "top_p", (double)params->top_p, "text", "format", format_of(job));
    add_tools(job, object);
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

void response_write_begin(server_job *job)
{
    static const char *const events[] = {"response.created", "response.in_progress"};
    if (job->output.items)
        return;
    job->output.items = json_array();
    for (int i = 0; i < 2; i++)
        write_event(job, events[i], json_pack("{s:o}", "response", response(job, "in_progress")));
}

void response_write_done(server_job *job)
{
    server_choice *choice = &job->choices[0];
    bool whole = choice->finish == ENGINE_FINISH_END || choice->finish == ENGINE_FINISH_STOP;
    const char *status = job->error.status ? "failed" : whole ? "completed" : "incomplete";
    char name[40];
    response_write_begin(job);
    if (!job->error.status && !job->output.item && json_array_size(job->output.items) == 0)
        begin_item(choice, PART_TEXT, NULL, 0); // an empty answer is a message, too
    if (!job->error.status)
        end_item(choice, status);
    if (!job->wish.stream) {
        if (!job_write_json(job, response(job, status)))
            job->no_memory = true;
        return;
    }
    snprintf(name, sizeof name, "response.%s", status);
    write_event(job, name, json_pack("{s:o}", "response", response(job, status)));
}
