// SPDX-License-Identifier: MIT
// Plans: a problem, checked, with the kernel that will solve it. Arithmetic only; nothing here knows
// an instruction set beyond the bit that selects a table row.
#ifndef WEFT_PLAN_PLAN_H
#define WEFT_PLAN_PLAN_H

#include "src/backend/context.h"

struct weft_plan {
    weft_context *context;
    enum weft__op op;
    size_t workspace_bytes;
    char description[256];
    void *launch; // struct weft__<op>_launch, in the same allocation
};

// Allocates a plan with `launch_bytes` of zeroed launch behind it.
weft_status weft__plan_create(weft_context *context, enum weft__op op, size_t launch_bytes,
                              weft_plan **out);

// One function per operation, weft__plan_<op>: desc (the operation's own type) -> *launch (already
// zeroed), *workspace_bytes, description. The api layer has checked desc. Returns WEFT_EVARIANT or
// WEFT_EUNSUPPORTED with a text if no kernel fits.
typedef weft_status weft__plan_fn(weft_plan *plan, const void *desc);

// The first row of the operation's table that serves `desc` and fits the context and `variant`. NULL
// after weft__plan_no_kernel() has worded why there is none, *status then its result.
typedef bool weft__plan_serves_fn(const struct weft__kernel *row, const void *desc);
const void *weft__plan_choose(const weft_plan *plan, const char *variant,
                              weft__plan_serves_fn *serves, const void *desc, weft_status *status);

// How many rows of `dim` elements make a task that is worth handing to another thread.
int64_t weft__plan_rows_per_task(int64_t dim);

// The text for a variant that does not exist or that this machine cannot run.
weft_status weft__plan_no_kernel(weft_context *context, enum weft__op op, const char *variant);

#endif
