// SPDX-License-Identifier: MIT
// What the CPU keeps of a batch: attention divided into work, cos and sin of its positions.
#ifndef WEFT_BACKEND_CPU_BATCH_H
#define WEFT_BACKEND_CPU_BATCH_H

#include "src/kernels/attention/attention_work.h"
#include "src/plan/plan_batch.h"

// Of one plan of the batch.
struct weft__cpu_batch_part {
    struct weft__attention_work *work; // attention: [max_seqs + 1]
    struct weft__attention_totals totals;
    const struct weft__rope_frequencies *frequencies; // append with a rotation
    float *cosines, *sines;                           // [max_q_tokens][rotary_dim / 2]
    bool first;                                       // of the plans with this rotation
};

weft_status weft__cpu_batch_open(weft_batch *batch);
weft_status weft__cpu_batch_set(weft_batch *batch, weft_stream *stream);
void weft__cpu_batch_close(weft_batch *batch);

// The part of a plan that is one of the batch's.
const struct weft__cpu_batch_part *weft__cpu_batch_part(const weft_batch *batch,
                                                        const weft_plan *plan);

// The lengths of a batch as attention reads them.
struct weft__attention_lengths weft__cpu_batch_lengths(const weft_batch *batch);

#endif
