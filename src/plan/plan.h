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

// One function per operation: desc -> *launch (already zeroed), *workspace_bytes, description. The
// api layer has checked desc. Returns WEFT_EVARIANT or WEFT_EUNSUPPORTED with a text if no kernel fits.

// The text for a variant that does not exist or that this machine cannot run.
weft_status weft__plan_no_kernel(weft_context *context, enum weft__op op, const char *variant);

#endif
