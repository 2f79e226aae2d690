// SPDX-License-Identifier: MIT
// The interface between plans and devices. A plan holds a launch: plain data that says which kernel
// runs and how its work is split (struct weft__<op>_launch in src/kernels/<op>/<op>_kernel.h). A
// backend makes launches from descriptors (prepare) and runs them on arguments that the api layer has
// checked (submit).
#ifndef WEFT_BACKEND_BACKEND_H
#define WEFT_BACKEND_BACKEND_H

#include <weft/context.h>

#include "src/kernels/kernel.h"

// The operations, in the order of the tables of a backend.
#define WEFT__OP_MAP(X)                                                                            \
    X(linear)                                                                                      \
    X(attention) X(kv) X(norm) X(rope) X(activation) X(softmax) X(embedding) X(sample) X(probe)

enum weft__op {
#define WEFT__OP_ENUM(name) WEFT__OP_##name,
    WEFT__OP_MAP(WEFT__OP_ENUM)
#undef WEFT__OP_ENUM
        WEFT__OP_COUNT
};

// Runs a launch; launch and args are the operation's own types.
typedef weft_status weft__submit_fn(const weft_context *context, const void *launch,
                                    const void *args);

struct weft__backend {
    const char *name;
    // Kernels of every operation, best first.
    const struct weft__kernel_table *tables[WEFT__OP_COUNT];
    weft__submit_fn *submit[WEFT__OP_COUNT];
};

extern const struct weft__backend weft__backend_cpu;

// The backend of a device, or NULL if this build or machine has none; *why then says what is missing.
const struct weft__backend *weft__backend_cuda(const char **why);

#endif
