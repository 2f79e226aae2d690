// SPDX-License-Identifier: MIT
// The context: what every layer of the library may know of where it runs.
#ifndef WEFT_BACKEND_CONTEXT_H
#define WEFT_BACKEND_CONTEXT_H

#include <stdatomic.h>

#include <weft/context.h>

#include "src/backend/backend.h"

struct weft__tunings;

struct weft_context {
    const struct weft__backend *backend;
    void *device; // the backend's own
    weft_allocator allocator;
    void (*log)(void *user, const char *line);
    void *log_user;
    weft_allocator host;            // the caller's; `allocator` counts what is asked of it
    _Atomic(const void *) recorder; // the thread that records a program, NULL: none does
    weft_program *recording;        // which it is; read by that thread alone
    struct weft__tunings *tunings;  // src/plan/tuning.h; NULL: none but the library's
    _Atomic int64_t runs, allocations;
    atomic_flag error_lock; // runs of several threads may fail at once
    char error[512];
};

// The first members of a backend's own streams and events.
struct weft_stream {
    weft_context *context;
};
struct weft_event {
    weft_context *context;
    bool recorded; // kept by the api
};

// The first members of a backend's own programs; kept by the api.
struct weft_program {
    weft_context *context;
    bool recording, ended;
    int32_t runs, copies;
    _Atomic int64_t launches,
        one_launches; // the latter of these: with one launch for a model's layers
};

// Keeps the sentence that explains a failure and returns `status`.
weft_status weft__fail(weft_context *context, weft_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
