// SPDX-License-Identifier: MIT
// What runs ask of a batch.
#ifndef WEFT_API_BATCH_H
#define WEFT_API_BATCH_H

#include "src/api/api.h"
#include "src/plan/plan_batch.h"

// WEFT_OK if the batch was made for this plan and its pages are of a pool of num_pages.
weft_status weft__api_take_batch(const weft_plan *plan, const weft_batch *batch, int64_t num_pages);

#endif
