// SPDX-License-Identifier: MIT
#ifndef ENGINE_BASE_THREAD_POOL_H
#define ENGINE_BASE_THREAD_POOL_H

// Threads for the many short loops of token generation.
//
// A loop is over when its tasks are done, not when every thread has come by: on a machine that is busy
// with other things the calling thread simply does more of them. Waiting threads spin for about as long
// as the gap between two loops of a forward pass, then sleep.

#include <weft/context.h>

#include "engine/base/error.h"

typedef struct thread_pool thread_pool;

// A pool of `threads` threads, the calling one included; 0: one for each core that the process may use.
// NULL on failure.
thread_pool *thread_pool_create(int32_t threads, engine_error *err);
void thread_pool_free(thread_pool *pool); // may be NULL; no loop may be running

// The pool as the kernel library's executor. It must outlive the context. One thread at a time may run
// loops.
weft_executor thread_pool_executor(thread_pool *pool);

#endif
