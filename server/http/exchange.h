// SPDX-License-Identifier: MIT
#ifndef SERVER_HTTP_EXCHANGE_H
#define SERVER_HTTP_EXCHANGE_H

// A request and its answer on a connection.

#include <stdatomic.h>

#include <microhttpd.h>

#include "server/keys.h"
#include "server/models.h"
#include "server/server.h"

typedef struct server_state {
    const server_options *options;
    server_models *models;
    server_keys *keys; // NULL: nobody is asked for one
    int64_t started;
    atomic_llong refused; // requests
    atomic_int connections;
    atomic_llong body_bytes; // that all connections hold together
    atomic_ullong serial;    // of answers
} server_state;

typedef struct server_route server_route;

typedef struct exchange {
    server_state *server;
    const server_route *route; // NULL: `error` or a preflight
    api_error error;           // found before the body was read
    tokenizer_text body;
    bool too_long, counted;
    uint64_t owner;
    served_model *served; // that the request asks for; NULL: not known yet, or none
    waiter waiter;
    server_job *job;
    bool answered;
} exchange;

// Answers; status 0 in `error` means no error.
enum MHD_Result answer_bytes(exchange *x, struct MHD_Connection *connection, int status,
                             const char *type, const void *data, size_t bytes);
enum MHD_Result answer_json(exchange *x, struct MHD_Connection *connection, json_t *object);
enum MHD_Result answer_error(exchange *x, struct MHD_Connection *connection,
                             const api_error *error);

// An answer whose text comes as the job writes it, which holds the job.
enum MHD_Result answer_stream(exchange *x, struct MHD_Connection *connection);

// The routes. `run` is called when the body is there.
struct server_route {
    const char *method, *path;
    bool open;  // without a key
    bool model; // it needs one
    enum MHD_Result (*run)(exchange *x, struct MHD_Connection *connection);
};

extern const server_route server_routes[];
extern const int server_route_count;

// A generation goes on when its job has something to say.
enum MHD_Result exchange_go_on(exchange *x, struct MHD_Connection *connection);

#endif
