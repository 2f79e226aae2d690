// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include <string.h>

#include "server/http/exchange.h"

// Where the answer does not keep to all that was asked for, says so.
static void add_note(const server_job *job, struct MHD_Response *response)
{
    char text[sizeof job->wish.note.text];
    memcpy(text, job->wish.note.text, sizeof text);
    for (char *at = text; *at; at++)
        if (*at < ' ' || *at > '~') // headers are ASCII
            *at = '?';
    if (*text)
        MHD_add_response_header(response, "Weft-Note", text);
}

static void add_headers(const exchange *x, struct MHD_Response *response, const char *type)
{
    const char *origin = x->server->options->origin;
    if (x->job)
        add_note(x->job, response);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (!origin)
        return;
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    MHD_add_response_header(response, "Access-Control-Allow-Headers",
                            "Authorization, Content-Type");
    MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    MHD_add_response_header(response, "Access-Control-Expose-Headers", "Weft-Note");
    MHD_add_response_header(response, "Access-Control-Max-Age", "600");
}

static enum MHD_Result queue(exchange *x, struct MHD_Connection *connection, int status,
                             struct MHD_Response *response)
{
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)status, response);
    MHD_destroy_response(response);
    x->answered = true;
    return result;
}

enum MHD_Result answer_bytes(exchange *x, struct MHD_Connection *connection, int status,
                             const char *type, const void *data, size_t bytes)
{
    static const char csp[] = "default-src 'none'; style-src 'unsafe-inline'; script-src "
                              "'unsafe-inline'; connect-src 'self'; img-src data:; base-uri "
                              "'none'; form-action 'none'; frame-ancestors 'none'";
    struct MHD_Response *response =
        MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)data, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    add_headers(x, response, type);
    if (strncmp(type, "text/html", 9) == 0)
        MHD_add_response_header(response, "Content-Security-Policy", csp);
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    return queue(x, connection, status, response);
}

static enum MHD_Result answer_text(exchange *x, struct MHD_Connection *connection, int status,
                                   char *text)
{
    static const char none[] = "{\"error\":{\"message\":\"not enough memory\",\"type\":"
                               "\"server_error\",\"param\":null,\"code\":null}}";
    enum MHD_Result result =
        answer_bytes(x, connection, text ? status : MHD_HTTP_INTERNAL_SERVER_ERROR,
                     "application/json", text ? text : none, strlen(text ? text : none));
    free(text);
    return result;
}

enum MHD_Result answer_json(exchange *x, struct MHD_Connection *connection, json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    return answer_text(x, connection, MHD_HTTP_OK, text);
}

enum MHD_Result answer_error(exchange *x, struct MHD_Connection *connection, const api_error *error)
{
    if (error->status != MHD_HTTP_INTERNAL_SERVER_ERROR)
        atomic_fetch_add(&x->server->refused, 1);
    return answer_text(x, connection, error->status, job_error_text(error));
}

// --- streams ------------------------------------------------------------------------------------------

typedef struct stream {
    server_models *models;
    served_model *served; // which the stream holds
    server_runner *runner;
    server_job *job;
    struct MHD_Connection *connection;
} stream;

// What is there, or the connection waits until there is more.
static ssize_t read_stream(void *opaque, uint64_t position, char *buffer, size_t most)
{
    stream *s = opaque;
    (void)position;
    runner_lock(s->runner);
    server_job *job = s->job;
    size_t there = job->out.size_bytes - job->out_taken;
    ssize_t result = 0;
    if (job->gone || job->no_memory)
        result = MHD_CONTENT_READER_END_WITH_ERROR;
    else if (there > 0) {
        there = there < most ? there : most;
        memcpy(buffer, job->out.data + job->out_taken, there);
        job->out_taken += there;
        if (job->out_taken == job->out.size_bytes)
            job->out.size_bytes = job->out_taken = 0;
        result = (ssize_t)there;
    } else if (job->done)
        result = MHD_CONTENT_READER_END_OF_STREAM;
    else {
        job->suspended = s->connection;
        MHD_suspend_connection(s->connection);
    }
    runner_unlock(s->runner);
    return result;
}

static void end_stream(void *opaque)
{
    stream *s = opaque;
    runner_lock(s->runner);
    runner_release(s->runner, s->job);
    runner_unlock(s->runner);
    models_let_go(s->models, s->served);
    free(s);
}

enum MHD_Result answer_stream(exchange *x, struct MHD_Connection *connection)
{
    stream *s = malloc(sizeof *s);
    if (!s)
        return MHD_NO;
    *s = (stream){x->server->models, x->served, x->served->runner, x->job, connection};
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, s, end_stream);
    if (!response) {
        free(s);
        return MHD_NO;
    }
    models_hold(s->models, s->served);
    runner_lock(s->runner);
    s->job->holders++;
    runner_unlock(s->runner);
    add_headers(x, response, "text/event-stream");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    return queue(x, connection, MHD_HTTP_OK, response);
}
