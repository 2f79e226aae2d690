// SPDX-License-Identifier: MIT
// Plans: a problem, checked, with the launch that will solve it. What several backends share of making
// one is arithmetic and stands here; instruction sets, threads and devices are theirs alone.
#ifndef WEFT_PLAN_PLAN_H
#define WEFT_PLAN_PLAN_H

#include "src/backend/context.h"

struct weft_plan {
    weft_context *context;
    enum weft__op op;
    size_t workspace_bytes;
    char description[256];
    weft_plan_info info; // what the backend has to say; size and workspace_bytes are the api's
    // The operation's weft_<op>_desc, no zero left that means a default; arrays that it points to are
    // the plan's own.
    const void *desc;
    void *launch; // the backend's own; nothing above src/backend/<name>/ looks inside
    // Attention with what comes before and behind it as runs of their own (api_attention_parts.c), or NULL;
    // what they hand over lies in the workspace at these places.
    weft_plan *append, *round;
    size_t queries_offset, results_offset;
    bool narrow, fuses; // the backend's word: struct weft__cuda_choice
    bool reports;       // runs of attention can fill a weft_attention_report
};

// An array that a descriptor points to: `pointer` is the address of the member.
struct weft__plan_array {
    void *pointer;
    size_t bytes;
};

// Makes a plan with a copy of the settled descriptor. Each array is copied, and the member that pointed
// to it replaced, before the next: an array may lie in one that comes later.
weft_status weft__plan_create(weft_context *context, enum weft__op op, void *desc,
                              size_t desc_bytes, const struct weft__plan_array *arrays,
                              int32_t num_arrays, weft_plan **out);

// The first row of the operation's table that serves plan->desc, fits the context and bears the name
// `variant` (NULL: any), or NULL.
typedef bool weft__plan_serves_fn(const struct weft__kernel *row, const void *desc);
const void *weft__plan_find(const weft_plan *plan, const char *variant,
                            weft__plan_serves_fn *serves);

// The same; NULL after an error has been worded, *status then the result.
const void *weft__plan_choose(const weft_plan *plan, const char *variant,
                              weft__plan_serves_fn *serves, weft_status *status);

// The same for prepare functions: allocates a zeroed launch of `bytes` whose first member, a pointer,
// becomes the row.
weft_status weft__plan_launch(weft_plan *plan, size_t bytes, const char *variant,
                              weft__plan_serves_fn *serves);

// For plan->info: bytes of `rows` rows of `elems`; a very large number if they do not fit.
int64_t weft__plan_bytes(weft_dtype dtype, int64_t rows, int64_t elems);

// How many rows of `dim` elements make a task that is worth handing to another thread.
int64_t weft__plan_rows_per_task(int64_t dim);

#endif
