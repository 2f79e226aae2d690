// SPDX-License-Identifier: MIT
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

// A model for many users over HTTP, as OpenAI's interface has it. One thread runs forward passes (runner.h); those
// of libmicrohttpd read requests, tokenize them, and write what has come, whenever a reader takes it.

#include "engine/engine.h"

typedef struct server_model {
    const char *name, *path; // as requests and answers name it; its file
} server_model;

typedef struct server_options {
    const server_model *models; // [model_count]; the first is loaded at the start
    int32_t model_count;
    // That loaded models may take together; 0: as they need. One is always loaded.
    int64_t memory_bytes;
    const engine_options *engine; // of all models
    const char *host;             // an address to listen on; NULL: 127.0.0.1
    int32_t port;                 // 0: any that is free
    const char *key_file;         // one key per line; NULL: nobody is asked for one
    const char *origin;           // of pages that may use it from elsewhere, or "*"; NULL: none
    // Where pages that models remember are kept while they are away; NULL: nowhere.
    const char *cache_folder;
    int32_t max_waiting; // requests in the queue; 0: 256
    int32_t max_connections;
    int32_t max_body_bytes;
    int32_t idle_seconds;    // that a connection may do nothing
    int32_t request_seconds; // after which an answer is cut off; 0: never
    int32_t grace_seconds;   // that answers are given to end when the server is told to
    bool embedding;          // texts to vectors is all that is served
    // Called when it listens, with the port.
    void (*ready)(void *user, int port);
    // Called when a model has been loaded, before it is used; says how its texts are to be speculated for. NULL: none.
    bool (*opened)(void *user, const engine_model *model, const engine_worker *worker,
                   const engine_speculation **speculation, engine_error *err);
    // Called when a model cannot be loaded that was asked for, or its kept pages are passed over or cannot be written.
    // NULL: nobody is told.
    void (*warn)(void *user, const char *name, const engine_error *err);
    void *user;
} server_options;

// Is there a server in this build?
bool server_available(void);

// Serves until SIGTERM or SIGINT, then finishes what runs and refuses what comes; a second signal ends that. False if
// it could not begin.
bool server_run(const server_options *options, engine_error *err);

#endif
