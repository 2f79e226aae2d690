// SPDX-License-Identifier: MIT
#ifndef TESTS_SUPPORT_OPEN_WORKER_H
#define TESTS_SUPPORT_OPEN_WORKER_H

#include "engine/engine.h"

// A worker of a model: on the device that WEFT_TEST_DEVICE names (cpu, cuda), where the options say nothing of it.
engine_worker *open_worker_of(engine_model *model, const engine_options *options,
                              engine_error *err);

// A model with one worker of its own; NULL on failure.
engine_worker *open_worker(const char *path, const engine_options *options, engine_error *err);

// Closes both. NULL is allowed.
void close_worker(engine_worker *worker);

#endif
