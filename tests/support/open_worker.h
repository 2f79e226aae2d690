// SPDX-License-Identifier: MIT
#ifndef TESTS_SUPPORT_OPEN_WORKER_H
#define TESTS_SUPPORT_OPEN_WORKER_H

#include "engine/engine.h"

// A worker of a model: on the device that WEFT_TEST_DEVICE names (cpu, cuda), where the options say nothing of it.
engine_worker *open_worker_of(engine_model *model, const engine_options *options,
                              engine_error *err);

// A model with one worker of its own; NULL on failure.
engine_worker *open_worker(const char *path, const engine_options *options, engine_error *err);

// A session, with the given tokens in its timeline. Without one the cmocka test ends.
engine_session *must_open_session(engine_worker *worker);
engine_session *must_sync_session(engine_worker *worker, const int32_t *ids, int32_t count);

// Closes both. NULL is allowed.
void close_worker(engine_worker *worker);

#endif
