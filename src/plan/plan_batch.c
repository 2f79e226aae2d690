// SPDX-License-Identifier: MIT
#include "src/plan/plan_batch.h"

#include "src/kernels/kv/kv_device.h"

int32_t weft__plan_batch_slot(const struct weft_batch *batch, int32_t seq, int32_t t)
{
    return weft__kv_slot(batch->pages + batch->page_starts[seq], batch->desc.page_size,
                         batch->ring_len, t);
}

void weft__plan_batch_derive(struct weft_batch *batch)
{
    for (int32_t s = 0; s < batch->num_seqs; s++) {
        int32_t first = batch->cu_q_lens[s], q_len = batch->cu_q_lens[s + 1] - first;
        for (int32_t i = 0; i < q_len; i++) {
            int32_t t = batch->kv_lens[s] - q_len + i;
            batch->positions[first + i] = t;
            batch->slots[first + i] = weft__plan_batch_slot(batch, s, t);
        }
    }
}

void weft__plan_batch_fill(struct weft_batch *batch)
{
    int32_t known = batch->num_seqs ? batch->cu_q_lens[batch->num_seqs] : 0;
    for (int32_t i = known; i < batch->num_tokens; i++) {
        batch->positions[i] = 0;
        batch->slots[i] = -1;
    }
}

void weft__plan_batch_advance(struct weft_batch *batch)
{
    for (int32_t s = 0; s < batch->num_seqs; s++)
        if (batch->cu_q_lens[s + 1] - batch->cu_q_lens[s] == 1 &&
            batch->kv_lens[s] < batch->kv_capacities[s])
            batch->kv_lens[s]++;
    weft__plan_batch_derive(batch);
}

int32_t weft__plan_batch_find(const struct weft_batch *batch, const weft_plan *plan)
{
    for (int32_t i = 0; i < batch->num_plans; i++)
        if (batch->plans[i] == plan)
            return i;
    return -1;
}
