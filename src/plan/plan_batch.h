// SPDX-License-Identifier: MIT
// A batch: copies of what was set, in the host's memory, and what a backend makes of them.
#ifndef WEFT_PLAN_BATCH_H
#define WEFT_PLAN_BATCH_H

#include <weft/batch.h>

#include "src/plan/plan.h"

struct weft_batch {
    weft_context *context;
    weft_batch_desc desc;          // settled
    const weft_plan *const *plans; // copied
    int32_t num_plans, ring_len;   // ring_len: that of all attention plans

    // The last set. page_starts has num_seqs + 1 entries.
    int32_t num_seqs, num_tokens;
    int64_t num_pages; // every page number is below
    bool can_advance;  // positions and slots are those that follow from the lengths
    bool on_device;    // set from arrays of the device: the host's below say nothing
    int32_t *cu_q_lens, *kv_lens, *kv_capacities, *page_starts, *pages;
    int32_t *kv_starts; // 0 where none were given
    bool has_starts;
    int32_t *positions, *slots;      // [num_tokens]; those of tokens of no sequence are 0 and -1
    const int32_t *device_positions; // the same where the device reads them

    void *device; // the backend's own
};

// Positions and slots of all tokens from lengths and pages.
void weft__plan_batch_derive(struct weft_batch *batch);

// Positions and slots of the tokens that are no sequence's.
void weft__plan_batch_fill(struct weft_batch *batch);

// Every sequence with one query is one token further, unless it has reached its capacity.
void weft__plan_batch_advance(struct weft_batch *batch);

// The slot of key t of a sequence.
int32_t weft__plan_batch_slot(const struct weft_batch *batch, int32_t seq, int32_t t);

// The number of a plan among the batch's, -1 if it is none of them.
int32_t weft__plan_batch_find(const struct weft_batch *batch, const weft_plan *plan);

#endif
