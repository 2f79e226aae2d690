// SPDX-License-Identifier: MIT
#include "src/backend/cpu/cpu_batch.h"

#include "src/backend/cpu/cpu.h"
#include "src/base/checked.h"
#include "src/base/memory.h"
#include "src/kernels/kv/kv_kernel.h"

const struct weft__cpu_batch_part *weft__cpu_batch_part(const weft_batch *batch,
                                                        const weft_plan *plan)
{
    const struct weft__cpu_batch_part *parts = batch->device;
    return &parts[weft__plan_batch_find(batch, plan)];
}

struct weft__attention_lengths weft__cpu_batch_lengths(const weft_batch *batch)
{
    return (struct weft__attention_lengths){batch->num_seqs, batch->cu_q_lens, batch->kv_lens,
                                            batch->has_starts ? batch->kv_starts : NULL};
}

static const struct weft__rope_frequencies *rotation_of(const weft_plan *plan)
{
    const struct weft__kv_launch *launch = plan->launch;
    return plan->op == WEFT__OP_kv && launch->rope ? &launch->frequencies : NULL;
}

// Do two plans turn alike? The style says which elements turn together, not by how much.
static bool same_turns(const struct weft__rope_frequencies *a,
                       const struct weft__rope_frequencies *b)
{
    return a->rotary_dim == b->rotary_dim && a->attention_factor == b->attention_factor &&
           memcmp(a->turns, b->turns, (size_t)(a->rotary_dim / 2) * sizeof *a->turns) == 0;
}

// Shares memory out; memory NULL only adds the bytes up.
static size_t lay_out(const weft_batch *batch, struct weft__cpu_batch_part *parts,
                      unsigned char *memory)
{
    size_t used = (size_t)weft__align_up(
        (batch->num_plans + 1) * (int64_t)sizeof(struct weft__cpu_batch_part), WEFT__ALIGN);
    for (int32_t i = 0; i < batch->num_plans; i++) {
        const struct weft__rope_frequencies *turns = rotation_of(batch->plans[i]);
        int32_t same = i;
        for (int32_t j = 0; j < i && turns && same == i; j++) {
            const struct weft__rope_frequencies *other = rotation_of(batch->plans[j]);
            same = other && same_turns(turns, other) ? j : i;
        }
        size_t bytes = 0;
        if (batch->plans[i]->op == WEFT__OP_attention)
            bytes = (size_t)(batch->desc.max_seqs + 1) * sizeof *parts->work;
        else if (turns && same == i)
            bytes = (size_t)batch->desc.max_q_tokens * (size_t)turns->rotary_dim * sizeof(float);
        if (memory) {
            struct weft__cpu_batch_part *part = &parts[i];
            void *mine = memory + used;
            part->work = batch->plans[i]->op == WEFT__OP_attention ? mine : NULL;
            part->frequencies = turns;
            part->first = turns && same == i;
            part->cosines = !turns ? NULL : part->first ? mine : parts[same].cosines;
            part->sines = !turns ? NULL
                                 : part->cosines +
                                       (int64_t)batch->desc.max_q_tokens * (turns->rotary_dim / 2);
        }
        used += (bytes + WEFT__ALIGN - 1) / WEFT__ALIGN * WEFT__ALIGN;
    }
    return used;
}

weft_status weft__cpu_batch_open(weft_batch *batch)
{
    weft_context *context = batch->context;
    size_t bytes = lay_out(batch, NULL, NULL);
    batch->device = context->allocator.allocate(context->allocator.user, bytes);
    if (!batch->device)
        return weft__fail(context, WEFT_ENOMEM, "no memory for a batch of %zu bytes", bytes);
    memset(batch->device, 0, bytes);
    lay_out(batch, batch->device, batch->device);
    return WEFT_OK;
}

void weft__cpu_batch_close(weft_batch *batch)
{
    if (batch->device)
        batch->context->allocator.release(batch->context->allocator.user, batch->device);
}

weft_status weft__cpu_batch_set(weft_batch *batch, weft_stream *stream)
{
    struct weft__cpu_batch_part *parts = batch->device;
    const struct weft__attention_lengths lengths = weft__cpu_batch_lengths(batch);
    (void)stream;
    for (int32_t i = 0; i < batch->num_plans; i++) {
        struct weft__cpu_batch_part *part = &parts[i];
        if (part->work)
            part->totals = weft__attention_divide(batch->plans[i]->launch, &lengths, part->work);
        for (int64_t t = 0; t < batch->num_tokens && part->first; t++) {
            int64_t at = t * (part->frequencies->rotary_dim / 2);
            weft__rope_angles(part->frequencies, batch->positions[t], part->cosines + at,
                              part->sines + at);
        }
    }
    return WEFT_OK;
}
