// SPDX-License-Identifier: MIT
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "server/api_tools.h"
#include "server/http/exchange.h"
#include "server/page.h"
#include "server/response.h"

typedef struct MHD_Connection http_connection;

// --- generation ---------------------------------------------------------------------------------------

// What the answer keeps to, and whether it is taken apart.
static bool shape_answer(const served_model *served, api_wish *wish, const tokenizer_ids *ids,
                         api_error *error)
{
    bool channels = served->thoughts && served->thoughts->lead;
    bool off = wish->thinking == CHAT_THINKING_OFF && !channels; // these are there in any case
    wish->form.thoughts =
        off ? ANSWER_NO_THOUGHTS
            : answer_thoughts_of(served->thoughts, engine_model_tokenizer(served->model), ids);
    wish->form.thought = served->thoughts;
    wish->split = wish->form.thoughts != ANSWER_NO_THOUGHTS || wish->form.tools;
    return api_make_grammar(wish, served->style, engine_model_tokenizer(served->model), error);
}

static bool encode(exchange *x, api_wish *wish, tokenizer_ids *ids, api_error *error)
{
    const served_model *served = x->served;
    const tokenizer *t = engine_model_tokenizer(served->model);
    engine_error err = {""};
    const chat_options options = {
        .add_generation_prompt = true, .thinking = wish->thinking, .tools = wish->form.tools};
    bool fine = true;
    if (x->server->options->embedding)
        return api_fail(error, 400, NULL, "the server was started for embeddings alone");
    if (wish->chat && !served->template)
        return api_fail(error, 400, NULL, "%s", served->no_template.text);
    if (wish->chat)
        fine = chat_encode(served->template, t, wish->messages, wish->message_count, &options, ids,
                           &err);
    else if (wish->prompt)
        fine =
            tokenizer_encode(t, wish->prompt, wish->prompt_bytes, TOKENIZER_ADD_SPECIAL, ids, &err);
    if (!fine)
        return api_fail(error, 400, wish->chat ? "messages" : "prompt", "%s", err.text);
    if (ids->count == 0)
        return api_fail(error, 400, wish->chat ? "messages" : "prompt", "the prompt is empty");
    if (ids->count > INT32_MAX)
        return api_fail(error, 400, wish->chat ? "messages" : "prompt", "the prompt is too long");
    return !wish->chat || shape_answer(served, wish, ids, error);
}

static void draw_seed(uint64_t *seed)
{
    if (getrandom(seed, sizeof *seed, 0) != sizeof *seed)
        *seed = (uint64_t)(runner_now() * 1e9);
}

static void fill_in(exchange *x, http_connection *connection)
{
    server_job *job = x->job;
    server_state *server = x->server;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    job->socket = info ? info->connect_fd : -1;
    job->holders = 1;
    job->owner = x->owner;
    job->arrived = runner_now();
    job->created = (int64_t)time(NULL);
    job->model_name = x->served->name;
    job->tokenizer = engine_model_tokenizer(x->served->model);
    const char *kind = job->wish.response ? "resp_" : job->wish.chat ? "chatcmpl-" : "cmpl-";
    snprintf(job->id, sizeof job->id, "%s%llx-%llx", kind, (unsigned long long)server->started,
             atomic_fetch_add(&server->serial, 1ULL));
    if (!job->wish.has_seed)
        draw_seed(&job->wish.sampling.params.seed);
    engine_shaping *shaping = &job->wish.shaping;
    if (shaping->dry_multiplier > 0) {
        job->breakers =
            engine_dry_breakers(x->served->model, *job->wish.breakers ? job->wish.breakers : NULL,
                                &shaping->dry_breaker_count);
        shaping->dry_breakers = job->breakers;
    }
}

// The connection waits until the job has something to say.
static enum MHD_Result submit(exchange *x, http_connection *connection)
{
    api_error error = {0};
    fill_in(x, connection);
    server_runner *runner = x->served->runner;
    runner_lock(runner);
    bool taken = runner_submit(runner, x->job);
    if (taken) {
        x->job->suspended = connection;
        MHD_suspend_connection(connection);
    }
    runner_unlock(runner);
    if (taken)
        return MHD_YES;
    api_fail(&error, 503, NULL, "the server is about to end: it takes no more requests");
    return answer_error(x, connection, &error);
}

typedef enum form { FORM_TEXT, FORM_CHAT, FORM_RESPONSE } wish_form;

static enum MHD_Result generate(exchange *x, http_connection *connection, wish_form form)
{
    api_error error = {0};
    api_wish wish;
    tokenizer_ids ids = {0};
    const char *body = x->body.data ? x->body.data : "";
    size_t bytes = x->body.size_bytes;
    int32_t vocab = x->served->vocab;
    bool fine = form == FORM_RESPONSE
                    ? response_read(&wish, body, bytes, vocab, &error)
                    : api_read_wish(&wish, form == FORM_CHAT, body, bytes, vocab, &error);
    if (fine && wish.ids.count > 0) {
        ids = wish.ids;
        wish.ids = (tokenizer_ids){0};
    }
    fine = fine && encode(x, &wish, &ids, &error);
    if (fine) {
        x->job = job_make(&wish);
        fine = x->job || api_fail(&error, 500, NULL, "not enough memory for the request");
    }
    if (!fine) {
        tokenizer_ids_free(&ids);
        api_wish_free(&wish);
        return answer_error(x, connection, &error);
    }
    x->job->ids = ids;
    return submit(x, connection);
}

static enum MHD_Result chat_completions(exchange *x, http_connection *connection)
{
    return generate(x, connection, FORM_CHAT);
}

static enum MHD_Result completions(exchange *x, http_connection *connection)
{
    return generate(x, connection, FORM_TEXT);
}

static enum MHD_Result responses(exchange *x, http_connection *connection)
{
    return generate(x, connection, FORM_RESPONSE);
}

enum MHD_Result exchange_go_on(exchange *x, http_connection *connection)
{
    server_job *job = x->job;
    runner_lock(x->served->runner);
    api_error error = job->error;
    bool ready = job->done || (job->wish.stream && job->begun);
    if (!ready) { // woken for nothing
        job->suspended = connection;
        MHD_suspend_connection(connection);
    }
    runner_unlock(x->served->runner);
    if (!ready)
        return MHD_YES;
    if (error.status)
        return answer_error(x, connection, &error);
    if (job->wish.stream)
        return answer_stream(x, connection);
    return answer_bytes(x, connection, MHD_HTTP_OK, "application/json",
                        job->out.data ? job->out.data : "", job->out.size_bytes);
}

// --- vectors ------------------------------------------------------------------------------------------

static bool make_embedding(exchange *x, embedding *e, api_error *error)
{
    const served_model *served = x->served;
    if (!x->server->options->embedding)
        return api_fail(error, 400, NULL,
                        "the server was not started for embeddings (weft serve --embedding)");
    if (!embedding_read(e, x->body.data ? x->body.data : "", x->body.size_bytes, served->vocab,
                        error) ||
        !embedding_encode(e, engine_model_tokenizer(served->model), served->longest_text, error))
        return false;
    e->dim = engine_embedding_dim(served->model, ENGINE_POOLING_DEFAULT);
    if (e->dimensions > 0 && e->dimensions != e->dim)
        return api_fail(error, 400, "dimensions", "'dimensions' can only be %d, the model's",
                        e->dim);
    e->vectors = calloc((size_t)e->count * (size_t)e->dim, sizeof *e->vectors);
    return e->vectors || api_fail(error, 500, NULL, "not enough memory for the answer");
}

static enum MHD_Result embeddings(exchange *x, http_connection *connection)
{
    api_error error = {0};
    api_wish none = {0};
    embedding wanted = {0};
    bool fine = make_embedding(x, &wanted, &error);
    x->job = fine ? job_make(&none) : NULL;
    if (!x->job) {
        embedding_free(&wanted);
        if (fine)
            api_fail(&error, 500, NULL, "not enough memory for the request");
        return answer_error(x, connection, &error);
    }
    x->job->embedding = wanted;
    return submit(x, connection);
}

// --- what is known at once ----------------------------------------------------------------------------

static enum MHD_Result health(exchange *x, http_connection *connection)
{
    return answer_json(x, connection, json_pack("{s:s}", "status", "ok"));
}

static json_t *describe_model(const server_state *server, const served_model *served)
{
    engine_model_info info;
    json_t *object = json_pack("{s:s, s:s, s:I, s:s, s:b}", "id", served->name, "object", "model",
                               "created", (json_int_t)server->started, "owned_by", "weft", "loaded",
                               served->state == SERVED_LOADED);
    if (served->state != SERVED_LOADED)
        return object;
    engine_model_describe(served->model, &info);
    json_object_set_new(object, "meta",
                        json_pack("{s:s, s:I, s:i, s:i}", "architecture", info.architecture,
                                  "parameters", (json_int_t)info.parameters, "trained_context",
                                  info.trained_context, "vocab", info.vocab));
    return object;
}

static enum MHD_Result models(exchange *x, http_connection *connection)
{
    server_models *all = x->server->models;
    json_t *list = json_array();
    models_lock(all);
    for (int32_t n = 0; n < models_count(all); n++)
        json_array_append_new(list, describe_model(x->server, models_at(all, n)));
    models_unlock(all);
    return answer_json(x, connection, json_pack("{s:s, s:o}", "object", "list", "data", list));
}

static enum MHD_Result tokenize(exchange *x, http_connection *connection)
{
    api_error error;
    api_text text;
    tokenizer_ids ids = {0};
    engine_error err = {""};
    json_t *list = json_array();
    bool fine =
        api_read_tokenize(&text, x->body.data ? x->body.data : "", x->body.size_bytes, &error);
    if (fine && !tokenizer_encode(engine_model_tokenizer(x->served->model), text.text,
                                  text.text_bytes, text.flags, &ids, &err))
        fine = api_fail(&error, 400, "content", "%s", err.text);
    for (size_t i = 0; i < ids.count; i++)
        json_array_append_new(list, json_integer(ids.ids[i]));
    tokenizer_ids_free(&ids);
    api_text_free(&text);
    if (fine)
        return answer_json(x, connection, json_pack("{s:o}", "tokens", list));
    json_decref(list);
    return answer_error(x, connection, &error);
}

static enum MHD_Result detokenize(exchange *x, http_connection *connection)
{
    api_error error;
    api_text text;
    tokenizer_text content = {0};
    engine_error err = {""};
    bool fine = api_read_detokenize(&text, x->body.data ? x->body.data : "", x->body.size_bytes,
                                    x->served->vocab, &error);
    if (fine && !tokenizer_decode(engine_model_tokenizer(x->served->model), text.ids.ids,
                                  text.ids.count, TOKENIZER_SHOW_SPECIAL, &content, &err))
        fine = api_fail(&error, 400, "tokens", "%s", err.text);
    api_text_free(&text);
    json_t *object = json_pack("{s:o}", "content",
                               json_stringn(content.data ? content.data : "", content.size_bytes));
    tokenizer_text_free(&content);
    if (fine)
        return answer_json(x, connection, object);
    json_decref(object);
    return answer_error(x, connection, &error);
}

static enum MHD_Result metrics_page(exchange *x, http_connection *connection)
{
    tokenizer_text text = {0};
    enum MHD_Result result = MHD_NO;
    server_state *server = x->server;
    metrics counted;
    engine_scheduler_info scheduler;
    engine_worker_info worker;
    models_describe(server->models, &counted, &scheduler, &worker);
    counted.refused += atomic_load(&server->refused);
    if (metrics_write(&counted, &scheduler, &worker, atomic_load(&server->connections), &text))
        result = answer_bytes(x, connection, MHD_HTTP_OK, "text/plain; version=0.0.4", text.data,
                              text.size_bytes);
    tokenizer_text_free(&text);
    return result;
}

static enum MHD_Result page(exchange *x, http_connection *connection)
{
    return answer_bytes(x, connection, MHD_HTTP_OK, "text/html; charset=utf-8", server_page,
                        server_page_bytes);
}

const server_route server_routes[] = {
    {"GET", "/", true, false, page},
    {"GET", "/health", true, false, health},
    {"GET", "/v1/models", false, false, models},
    {"GET", "/metrics", false, false, metrics_page},
    {"POST", "/v1/chat/completions", false, true, chat_completions},
    {"POST", "/v1/completions", false, true, completions},
    {"POST", "/v1/responses", false, true, responses},
    {"POST", "/v1/embeddings", false, true, embeddings},
    {"POST", "/tokenize", false, true, tokenize},
    {"POST", "/detokenize", false, true, detokenize},
};
const int server_route_count = sizeof server_routes / sizeof *server_routes;
