// SPDX-License-Identifier: MIT
#ifndef SERVER_RUNNER_EMBED_H
#define SERVER_RUNNER_EMBED_H

#include "server/job.h"

// Fills in the vectors of all jobs in the list, or their errors.
void runner_embed(engine_worker *worker, server_job *jobs);

#endif
