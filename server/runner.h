// SPDX-License-Identifier: MIT
#ifndef SERVER_RUNNER_H
#define SERVER_RUNNER_H

// The one thread that runs forward passes. Others hand it jobs and read what comes of them; before each pass it
// takes new jobs in and lets go of those whose client has closed its connection.

#include "server/job.h"
#include "server/metrics.h"
#include "server/server.h"

typedef struct server_runner server_runner;

// speculation: for all requests; NULL: none. wake: called, with the lock held, to make a suspended connection go on.
server_runner *runner_start(engine_worker *worker, const server_options *options,
                            const engine_speculation *speculation, void (*wake)(void *connection),
                            engine_error *err);

// Refuses what comes from now on; true when nothing runs any more.
bool runner_drain(server_runner *runner);

// Ends what still runs, and the thread. Nothing is suspended afterwards, nor will be. NULL and a second time are
// allowed.
void runner_stop(server_runner *runner);
void runner_free(server_runner *runner);

void runner_lock(server_runner *runner);
void runner_unlock(server_runner *runner);

// With the lock held: hands a job over, which the caller still holds. False: the server is about to end.
bool runner_submit(server_runner *runner, server_job *job);

// With the lock held: the caller lets go of a job.
void runner_release(server_runner *runner, server_job *job);

// With the lock held: lets go of a job for its connection, which has no more to do with it. gone: it broke off.
void runner_part(server_runner *runner, server_job *job, bool gone);

// Adds what it has counted.
void runner_describe(server_runner *runner, metrics *counted, engine_scheduler_info *scheduler,
                     engine_worker_info *worker);

double runner_now(void); // seconds of a clock that only goes on

#endif
