// SPDX-License-Identifier: MIT
#ifndef WEFT_PLAN_ATTENTION_H
#define WEFT_PLAN_ATTENTION_H

#include <weft/attention.h>

#include "src/kernels/attention/attention_work.h"
#include "src/plan/plan.h"
#include "src/plan/tuning.h"

// What a settled descriptor says of masks.
struct weft__attention_mask weft__plan_mask(const weft_attention_desc *desc);

// What the machine likes best for it; with WEFT_ATTENTION_BATCH_INVARIANT the library's values.
weft_tuning weft__plan_attention_tuning(const weft_context *context,
                                        const weft_attention_desc *desc, int32_t threads);

// Fills a launch whose kernel has been chosen from plan->desc: how tiles and keys are split for so many
// threads, and the plan's workspace_bytes.
weft_status weft__plan_attention(weft_plan *plan, struct weft__attention_launch *launch,
                                 int32_t threads);

#endif
