// SPDX-License-Identifier: MIT
#ifndef SERVER_MODELS_H
#define SERVER_MODELS_H

// The models that are served. The first is loaded at the start, others when they are asked for, by a thread of their
// own; where the memory that is given does not hold one more, those that nobody uses are put away, the least recently
// used ones first. Whoever asks for a model that is not there waits with its connection suspended.

#include "server/runner.h"

typedef struct served_model {
    char name[128];
    const char *path;
    // Once it is loaded, and as long as someone has taken it:
    engine_model *model;
    engine_worker *worker;
    server_runner *runner;
    chat_template *template; // NULL: the model has none, no_template says why
    engine_error no_template;
    const call_style *style;       // how its template writes calls; NULL: not known
    const thought_style *thoughts; // that the template knows; NULL: none
    int32_t vocab;
    int32_t longest_text; // in tokens, that becomes a vector
    // Guarded by the lock:
    enum {
        SERVED_AWAY,
        SERVED_WANTED,
        SERVED_LOADING,
        SERVED_LOADED,
        SERVED_LEAVING, // as loaded, but nobody gets it any more
        SERVED_CLOSING
    } state;
    int32_t users;
    uint64_t used;          // when, in order
    int64_t bytes;          // that it takes, or will
    struct waiter *waiters; // connections that want it
} served_model;

typedef struct server_models server_models;

// wake: called, with a lock held, to make a suspended connection go on.
server_models *models_open(const server_options *options, void (*wake)(void *connection),
                           engine_error *err);
// Refuses what comes from now on; true when nothing runs any more.
bool models_drain(server_models *models);
// Ends what still runs. Nothing is suspended afterwards, nor will be. Then all may be freed. NULL is allowed.
void models_stop(server_models *models);
void models_free(server_models *models);

void models_lock(server_models *models);
void models_unlock(server_models *models);

// The model of this name; of a server of one, that one, whatever the name. NULL: there is none.
served_model *models_find(server_models *models, const char *name);
int32_t models_count(const server_models *models);
served_model *models_at(server_models *models, int32_t n);

// What a connection waits with; it must stay where it is until the model was given back.
typedef struct waiter {
    struct waiter *next;
    void *connection;
    enum { WAITER_NEW, WAITER_WAITS, WAITER_HAS, WAITER_FAILED } state;
} waiter;

// With the lock held: takes a model for a connection. False: not now; if the waiter waits, the connection is to be
// suspended before the lock is let go of, and asks again when it goes on. Else it cannot be loaded.
bool models_take(server_models *models, served_model *served, waiter *one, void *connection);
// Without the lock. Also of one that still waits, or never asked.
void models_give_back(server_models *models, served_model *served, waiter *one);

// One more user of a model that is taken, and one less.
void models_hold(server_models *models, served_model *served);
void models_let_go(server_models *models, served_model *served);

// Adds what all models have counted, also those that were put away.
void models_describe(server_models *models, metrics *counted, engine_scheduler_info *scheduler,
                     engine_worker_info *worker);

#endif
