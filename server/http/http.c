// SPDX-License-Identifier: MIT
// Connections: who may ask, how much may be sent, what becomes of those that break off; the life of the server.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/http/exchange.h"

enum {
    THREADS = 4,
    HEADER_BYTES = 32768,
    ALL_BODIES_BYTES = 1 << 28, // of all connections together
};

// --- a request's head ---------------------------------------------------------------------------------

// A page from elsewhere says so; browsers send its origin with every request that could do harm.
static bool may_ask(const exchange *x, struct MHD_Connection *connection)
{
    const char *allowed = x->server->options->origin;
    const char *origin =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN);
    const char *host =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    if (!origin || (allowed && (strcmp(allowed, "*") == 0 || strcmp(allowed, origin) == 0)))
        return true;
    const char *name = strstr(origin, "://");
    return name && host && strcmp(name + 3, host) == 0;
}

static uint64_t address_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    uint64_t hash = 1469598103934665603u;
    if (!info || !info->client_addr)
        return 0;
    bool six = info->client_addr->sa_family == AF_INET6;
    const void *in6 = &((const struct sockaddr_in6 *)(const void *)info->client_addr)->sin6_addr;
    const void *in4 = &((const struct sockaddr_in *)(const void *)info->client_addr)->sin_addr;
    const unsigned char *bytes = six ? in6 : in4;
    for (int i = 0; i < (six ? 16 : 4); i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

static void find_route(exchange *x, const char *method, const char *path)
{
    bool known = false;
    for (int i = 0; i < server_route_count && !x->route; i++) {
        const server_route *route = &server_routes[i];
        bool here = strcmp(route->path, path) == 0;
        known = known || here;
        bool head = strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0;
        if (here && (head || strcmp(route->method, method) == 0))
            x->route = route;
    }
    if (!x->route && strcmp(method, "OPTIONS") != 0)
        api_fail(&x->error, known ? 405 : 404, NULL,
                 known ? "%s is not served by %s" : "%s %s is not served here",
                 known ? path : method, known ? method : path);
}

static void check_head(exchange *x, struct MHD_Connection *connection, const char *method,
                       const char *path)
{
    const server_state *server = x->server;
    find_route(x, method, path);
    if (x->error.status)
        return;
    if (!may_ask(x, connection)) {
        api_fail(&x->error, 403, NULL, "pages of another origin are not served (--cors)");
        return;
    }
    x->owner = address_of(connection);
    if (!server->keys || !x->route || x->route->open)
        return;
    int key =
        server_keys_find(server->keys, MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                                                   MHD_HTTP_HEADER_AUTHORIZATION));
    x->owner = (uint64_t)key;
    if (key == 0) {
        api_fail(&x->error, 401, NULL, "a valid key is needed: Authorization: Bearer KEY");
        x->error.code = "invalid_api_key";
    }
}

// Bytes of the body, as far as the client says.
static uint64_t announced(struct MHD_Connection *connection)
{
    const char *length =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length ? strtoull(length, NULL, 10) : 0;
}

static void refuse_length(exchange *x)
{
    api_fail(&x->error, 413, NULL, "the body is longer than %d bytes",
             x->server->options->max_body_bytes);
}

// --- its body -----------------------------------------------------------------------------------------

static void take_body(exchange *x, const char *data, size_t bytes)
{
    server_state *server = x->server;
    if (x->error.status)
        return;
    if (x->body.size_bytes + bytes > (size_t)server->options->max_body_bytes)
        refuse_length(x);
    else if (atomic_fetch_add(&server->body_bytes, (long long)bytes) + (long long)bytes >
             ALL_BODIES_BYTES) {
        atomic_fetch_sub(&server->body_bytes, (long long)bytes);
        api_fail(&x->error, 503, NULL, "the server is busy: try again later");
    } else if (!tokenizer_text_append(&x->body, data, bytes)) {
        atomic_fetch_sub(&server->body_bytes, (long long)bytes);
        api_fail(&x->error, 500, NULL, "not enough memory for the body");
    }
}

static void drop_body(exchange *x)
{
    atomic_fetch_sub(&x->server->body_bytes, (long long)x->body.size_bytes);
    tokenizer_text_free(&x->body);
}

// --- what libmicrohttpd calls -------------------------------------------------------------------------

// Which model a body names; NULL: none, or it is no such body, which its route says better.
static char *named_model(const exchange *x)
{
    json_t *root =
        json_loadb(x->body.data ? x->body.data : "", x->body.size_bytes, JSON_ALLOW_NUL, NULL);
    const char *name = json_string_value(json_object_get(root, "model"));
    char *copy = name ? strdup(name) : NULL;
    json_decref(root);
    return copy;
}

static bool find_model(exchange *x, api_error *error)
{
    server_models *models = x->server->models;
    char *name = models_count(models) > 1 ? named_model(x) : NULL;
    x->served = models_find(models, name);
    if (!x->served) {
        if (name)
            api_fail(error, 404, "model", "there is no model '%.80s' (GET /v1/models)", name);
        else
            api_fail(error, 400, "model", "'model' must name one of several (GET /v1/models)");
        error->code = name ? "model_not_found" : NULL;
    }
    free(name);
    return x->served != NULL;
}

// Takes the model that is asked for. False: the connection waits for it, or there is an error.
static bool take_model(exchange *x, struct MHD_Connection *connection, api_error *error)
{
    server_models *models = x->server->models;
    if (!x->served && !find_model(x, error))
        return false;
    models_lock(models);
    bool taken = models_take(models, x->served, &x->waiter, connection);
    bool failed = x->waiter.state == WAITER_FAILED;
    if (x->waiter.state == WAITER_WAITS)
        MHD_suspend_connection(connection);
    models_unlock(models);
    if (failed)
        api_fail(error, 503, "model", "the model '%s' cannot be loaded now", x->served->name);
    return taken;
}

static enum MHD_Result respond(exchange *x, struct MHD_Connection *connection)
{
    if (x->error.status)
        return answer_error(x, connection, &x->error);
    if (!x->route) // OPTIONS
        return answer_bytes(x, connection, MHD_HTTP_NO_CONTENT, "text/plain", "", 0);
    if (x->job)
        return exchange_go_on(x, connection);
    api_error error = {0};
    if (x->route->model && !take_model(x, connection, &error))
        return error.status ? answer_error(x, connection, &error) : MHD_YES;
    enum MHD_Result result = x->route->run(x, connection);
    drop_body(x);
    return result;
}

static enum MHD_Result handle(void *opaque, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *data,
                              size_t *bytes, void **state)
{
    exchange *x = *state;
    (void)version;
    if (!x) {
        x = *state = calloc(1, sizeof *x);
        if (!x)
            return MHD_NO;
        x->server = opaque;
        check_head(x, connection, method, path);
        uint64_t bytes_to_come = announced(connection),
                 most = (uint64_t)x->server->options->max_body_bytes;
        if (bytes_to_come > most && !x->error.status)
            refuse_length(x);
        // Clients seldom look for an answer before they have sent all, so what is not far too much is read.
        return bytes_to_come > 8 * most ? respond(x, connection) : MHD_YES;
    }
    if (*bytes > 0) {
        take_body(x, data, *bytes);
        *bytes = 0;
        return MHD_YES;
    }
    return x->answered ? MHD_YES : respond(x, connection);
}

// Before the socket is closed.
static void completed(void *opaque, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode code)
{
    exchange *x = *state;
    (void)opaque, (void)connection;
    if (!x)
        return;
    drop_body(x);
    if (x->job) {
        server_runner *runner = x->served->runner;
        runner_lock(runner);
        runner_part(runner, x->job, code != MHD_REQUEST_TERMINATED_COMPLETED_OK);
        runner_unlock(runner);
    }
    if (x->served)
        models_give_back(x->server->models, x->served, &x->waiter);
    free(x);
    *state = NULL;
}

static void notify(void *opaque, struct MHD_Connection *connection, void **context,
                   enum MHD_ConnectionNotificationCode code)
{
    server_state *server = opaque;
    (void)connection, (void)context;
    atomic_fetch_add(&server->connections, code == MHD_CONNECTION_NOTIFY_STARTED ? 1 : -1);
}

static void resume(void *connection)
{
    MHD_resume_connection(connection);
}

// --- the server ---------------------------------------------------------------------------------------

static bool read_address(const server_options *options, struct sockaddr_storage *address,
                         engine_error *err)
{
    const char *host = options->host ? options->host : "127.0.0.1";
    struct sockaddr_in *four = (struct sockaddr_in *)(void *)address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)address;
    memset(address, 0, sizeof *address);
    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)options->port);
        return true;
    }
    if (inet_pton(AF_INET6, host, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons((uint16_t)options->port);
        return true;
    }
    return engine_fail(err, "'%s' is no address: give one such as 127.0.0.1, 0.0.0.0 or ::1", host);
}

static struct MHD_Daemon *listen_on(server_state *server, engine_error *err)
{
    const server_options *options = server->options;
    struct sockaddr_storage address;
    if (!read_address(options, &address, err))
        return NULL;
    unsigned flags = MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                     (address.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0u);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        flags, (uint16_t)options->port, NULL, NULL, handle, server, MHD_OPTION_SOCK_ADDR, &address,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)options->max_connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)options->idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES,
        MHD_OPTION_NOTIFY_COMPLETED, completed, NULL, MHD_OPTION_NOTIFY_CONNECTION, notify, server,
        MHD_OPTION_END);
    if (!daemon)
        engine_fail(err,
                    "cannot listen on port %d: %s; choose another port or address (--port, --host)",
                    options->port, errno ? strerror(errno) : "another program may have it");
    return daemon;
}

// A fifth of a second passes, or a signal comes.
static bool signalled(const sigset_t *signals)
{
    const struct timespec moment = {0, 200000000};
    return sigtimedwait(signals, NULL, &moment) > 0;
}

// Until a signal; then until all is answered, the grace is over, or another signal comes.
static void wait_for_the_end(server_state *server, const sigset_t *signals)
{
    while (!signalled(signals))
        ;
    double until = runner_now() + server->options->grace_seconds;
    while (!models_drain(server->models) && runner_now() < until && !signalled(signals))
        ;
    // Whoever has been told the end still has to take it.
    for (int n = 0; n < 10 && atomic_load(&server->connections) > 0; n++)
        if (signalled(signals))
            break;
}

bool server_available(void)
{
    return true;
}

bool server_run(const server_options *options, engine_error *err)
{
    server_state server = {.options = options, .started = (int64_t)time(NULL)};
#ifdef __GLIBC__
    // One thread takes what another gives back: with a heap for each, all of them grow for hours.
    mallopt(M_ARENA_MAX, 1);
#endif
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, &before); // threads begin with it blocked
    signal(SIGPIPE, SIG_IGN);
    struct MHD_Daemon *daemon = NULL;
    if (options->key_file)
        server.keys = server_keys_read(options->key_file, err);
    if (server.keys || !options->key_file)
        server.models = models_open(options, resume, err);
    if (server.models)
        daemon = listen_on(&server, err);
    if (daemon) {
        const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
        if (options->ready)
            options->ready(options->user, info ? info->port : options->port);
        wait_for_the_end(&server, &signals);
    }
    models_stop(server.models);
    if (daemon)
        MHD_stop_daemon(daemon);
    models_free(server.models);
    server_keys_free(server.keys);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon != NULL;
}
