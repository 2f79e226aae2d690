// SPDX-License-Identifier: MIT
// A batch on the device: its arrays in one piece of memory, at places that stay the same, so that a recorded
// program reads what was set last. A run that takes a batch is given the device's arrays in the members
// that callers without one fill.
//
//      | cu_q_lens [seqs + 1] | kv_lens [seqs] | page_starts [seqs + 1] | capacities [seqs] | positions [tokens] |
//      | slots [tokens] | step | pages | counters | lines | handed |
//
// The step is a number that no other lengths and pages of the batch have had: sets count in its upper half, what the device does to them by itself in its lower one
// (kv_device.h). Lines hold what attention found for a step (attention_kept.cuh). Between runs the counters of attention are 0 and all bits of `handed` are set (attention_device.h), so runs
// that take a batch follow each other.
#include <string.h>

#include "src/backend/cuda/cuda_backend.h"
#include "src/backend/cuda/cuda_context.h"
#include "src/base/memory.h"
#include "src/kernels/attention/attention_device.h"
#include "src/kernels/kv/kv_device.h"
#include "src/plan/plan_batch.h"

// Of a run of attention, at most; on sm_90 a block may read eight KV heads.
enum { BLOCKS_PER_SM = 2, PLACES_PER_SM = 2, PLACES_PER_SM_90 = 8 };

struct device_batch {
    int32_t *memory; // on the device
    int32_t *staged; // the same in the host's memory
    // places
    int64_t kv_lens, page_starts, capacities, positions, slots, step, pages, counters, lines,
        handed;
    int64_t count;
    uint64_t sets;
    int64_t keys; // of all sequences of the last set, 0 where the host does not know
    struct weft__attention_mix mix;
    struct weft__cuda_pipeline *pipelines[WEFT__CUDA_BATCH_KERNELS];
};

enum { ADVANCE, SET_LENGTHS, SET_TOKENS };

const struct weft__cuda_kernel weft__cuda_batch_kernels[WEFT__CUDA_BATCH_KERNELS] = {
    [ADVANCE] = {.file = "src/kernels/kv/kv_advance.cu", .function = "weft_kv_advance"},
    [SET_LENGTHS] = {.file = "src/kernels/kv/kv_set.cu",
                     .function = "weft_kv_set_lengths",
                     .lazy = true},
    [SET_TOKENS] = {.file = "src/kernels/kv/kv_set.cu",
                    .function = "weft_kv_set_tokens",
                    .lazy = true},
};

weft_status weft__cuda_batch_open(weft_batch *batch)
{
    const weft_batch_desc *desc = &batch->desc;
    struct device_batch *own = weft__base_allocate(NULL, sizeof *own);
    if (!own)
        return weft__fail(batch->context, WEFT_ENOMEM, "no memory for a batch");
    memset(own, 0, sizeof *own);
    batch->device = own;
    own->kv_lens = (int64_t)desc->max_seqs + 1;
    own->page_starts = own->kv_lens + desc->max_seqs;
    own->capacities = own->page_starts + desc->max_seqs + 1;
    own->positions = own->capacities + desc->max_seqs;
    own->slots = own->positions + desc->max_q_tokens;
    own->step = (own->slots + desc->max_q_tokens + 1) / 2 * 2; // 8 bytes
    own->pages = own->step + 2;
    own->counters = own->pages + desc->max_pages;
    const struct weft__cuda_limits *limits = &weft__cuda_of(batch->context)->limits;
    const int64_t blocks = (int64_t)BLOCKS_PER_SM * limits->num_sms;
    const int64_t places =
        (int64_t)limits->num_sms * (limits->sm >= 90 ? PLACES_PER_SM_90 : PLACES_PER_SM);
    own->lines = (own->counters + blocks + 3) / 4 * 4; // 16 bytes
    own->handed = own->lines + blocks * WEFT__ATTENTION_LINE_WORDS * 2;
    own->count = own->handed + places * WEFT__ATTENTION_HANDED_FLOATS;
    own->staged = weft__base_allocate(NULL, (size_t)own->counters * sizeof(int32_t));
    if (!own->staged)
        return weft__fail(batch->context, WEFT_ENOMEM, "no memory for a batch of %lld numbers",
                          (long long)own->counters);
    memset(own->staged, 0, (size_t)own->counters * sizeof(int32_t));
    for (int32_t i = 0; i < WEFT__CUDA_BATCH_KERNELS; i++) {
        weft_status status = weft__cuda_pipeline_want(batch->context, &weft__cuda_batch_kernels[i],
                                                      &own->pipelines[i]);
        if (status != WEFT_OK)
            return status;
    }
    weft_status status =
        weft__cuda_allocate(batch->context, WEFT_MEMORY_DEVICE,
                            (size_t)own->count * sizeof(int32_t), (void **)&own->memory);
    if (status != WEFT_OK)
        return status;
    batch->device_positions = own->memory + own->positions;
    status = weft__cuda_fill(batch->context, own->memory, 0, (size_t)own->handed * sizeof(int32_t),
                             NULL);
    if (status == WEFT_OK)
        status = weft__cuda_fill(batch->context, own->memory + own->handed, 0xff,
                                 (size_t)(own->count - own->handed) * sizeof(int32_t), NULL);
    return status == WEFT_OK ? weft__cuda_stream_synchronize(batch->context, NULL) : status;
}

void weft__cuda_batch_close(weft_batch *batch)
{
    struct device_batch *own = batch->device;
    if (!own)
        return;
    if (own->memory)
        weft__cuda_free(batch->context, own->memory);
    weft__base_release(NULL, own->staged);
    weft__base_release(NULL, own);
}

static void put(struct device_batch *own, int64_t at, const int32_t *from, int64_t count)
{
    memcpy(own->staged + at, from, (size_t)count * sizeof *from);
}

static void lengths_note(struct device_batch *own, const int32_t *kv_lens, int64_t seqs)
{
    own->keys = 0;
    own->mix = (struct weft__attention_mix){0};
    for (int64_t s = 0; s < seqs; s++) {
        own->keys += kv_lens[s];
        if (kv_lens[s] > WEFT__ATTENTION_SHORT_KEYS) {
            own->mix.long_keys += kv_lens[s];
            continue;
        }
        own->mix.shorts++;
        if (kv_lens[s] > own->mix.short_most)
            own->mix.short_most = kv_lens[s];
    }
}

// One copy, of what is in use.
weft_status weft__cuda_batch_set(weft_batch *batch, weft_stream *stream)
{
    struct device_batch *own = batch->device;
    int64_t seqs = batch->num_seqs, pages = seqs ? batch->page_starts[seqs] : 0;
    lengths_note(own, batch->kv_lens, seqs);
    const uint64_t step = ++own->sets << 32;
    memcpy(own->staged + own->step, &step, sizeof step);
    if (seqs > 0) {
        put(own, 0, batch->cu_q_lens, seqs + 1);
        put(own, own->kv_lens, batch->kv_lens, seqs);
        put(own, own->page_starts, batch->page_starts, seqs + 1);
        put(own, own->capacities, batch->kv_capacities, seqs);
        put(own, own->positions, batch->positions, batch->num_tokens);
        put(own, own->slots, batch->slots, batch->num_tokens);
        put(own, own->pages, batch->pages, pages);
    }
    return weft__cuda_copy(batch->context, own->memory, own->staged,
                           (size_t)(own->pages + pages) * sizeof(int32_t), stream);
}

static uint64_t *step_of(const struct device_batch *own)
{
    return (uint64_t *)(void *)(own->memory + own->step);
}

enum { THREADS = 128 };

// From arrays of the device: two launches that read them (kv_set.cu).
weft_status weft__cuda_batch_take(weft_batch *batch, const weft_batch_args *args)
{
    struct device_batch *own = batch->device;
    lengths_note(own, NULL, 0);
    const struct weft__kv_set_args set = {.cu_q_lens = args->cu_q_lens,
                                          .kv_lens = args->kv_lens,
                                          .kv_capacities = args->kv_capacities,
                                          .seq_rows = args->seq_rows,
                                          .given_positions = args->positions,
                                          .given_slots = args->slots,
                                          .page_lists = args->page_indices ? args->page_indices
                                                                           : args->page_table,
                                          .list_starts = args->page_starts,
                                          .page_table_stride = args->page_table_stride,
                                          .own_cu_q_lens = own->memory,
                                          .own_kv_lens = own->memory + own->kv_lens,
                                          .capacities = own->memory + own->capacities,
                                          .page_starts = own->memory + own->page_starts,
                                          .pages = own->memory + own->pages,
                                          .positions = own->memory + own->positions,
                                          .slots = own->memory + own->slots,
                                          .step = step_of(own),
                                          .num_seqs = batch->num_seqs,
                                          .num_tokens = batch->num_tokens,
                                          .page_size = batch->desc.page_size,
                                          .ring_len = batch->ring_len,
                                          .max_kv_len = batch->desc.max_kv_len,
                                          .max_pages = batch->desc.max_pages};
    struct weft__cuda_step step;
    weft__cuda_step(&step, 0, 1, 1, 1024, &set, sizeof set);
    step.overlap = 1;
    weft_status status =
        weft__cuda_launch(batch->context, own->pipelines[SET_LENGTHS], &step, args->stream);
    if (status != WEFT_OK)
        return status;
    weft__cuda_step(&step, 0, (uint32_t)batch->num_seqs + 1, 1, THREADS, &set, sizeof set);
    step.overlap = 1;
    return weft__cuda_launch(batch->context, own->pipelines[SET_TOKENS], &step, args->stream);
}

weft_status weft__cuda_batch_advance(weft_batch *batch, weft_stream *stream)
{
    const struct device_batch *own = batch->device;
    const struct weft__kv_advance_args args = {.cu_q_lens = own->memory,
                                               .kv_lens = own->memory + own->kv_lens,
                                               .capacities = own->memory + own->capacities,
                                               .page_starts = own->memory + own->page_starts,
                                               .pages = own->memory + own->pages,
                                               .positions = own->memory + own->positions,
                                               .slots = own->memory + own->slots,
                                               .step = step_of(own),
                                               .num_seqs = batch->num_seqs,
                                               .page_size = batch->desc.page_size,
                                               .ring_len = batch->ring_len};
    struct weft__cuda_step step;
    if (batch->num_seqs == 0)
        return WEFT_OK;
    weft__cuda_step(&step, 0, (uint32_t)((batch->num_seqs + THREADS - 1) / THREADS), 1, THREADS,
                    &args, sizeof args);
    step.overlap = 1;
    return weft__cuda_launch(batch->context, own->pipelines[ADVANCE], &step, stream);
}

// Puts the device's arrays into a copy of a run's arguments.
static void resolve_kv(weft_kv_append_args *args)
{
    const struct device_batch *own = args->batch->device;
    args->slots = own->memory + own->slots;
    args->positions = own->memory + own->positions;
    args->batch = NULL;
}

static void resolve_attention(struct weft__attention_args *run)
{
    weft_attention_args *args = &run->base;
    const struct weft_batch *batch = args->batch;
    const struct device_batch *own = batch->device;
    run->batch_tokens = batch->num_tokens;
    run->batch_keys = own->keys;
    run->batch_mix = own->mix;
    run->batch_pages = batch->desc.max_pages;
    run->counters = (uint32_t *)(own->memory + own->counters);
    run->handed = (float *)(own->memory + own->handed);
    run->step = step_of(own);
    run->lines = (uint64_t *)(void *)(own->memory + own->lines);
    args->num_seqs = batch->num_seqs;
    args->cu_q_lens = own->memory;
    args->kv_lens = own->memory + own->kv_lens;
    args->page_starts = own->memory + own->page_starts;
    args->page_indices = own->memory + own->pages;
    args->page_table = NULL;
    args->seq_rows = NULL;
    args->batch = NULL;
}

bool weft__cuda_batch_changes(const weft_plan *plan, const void *args)
{
    const struct weft__attention_args *run = args;
    if (plan->op != WEFT__OP_attention || !run->base.batch)
        return false;
    struct weft__cuda *cuda = weft__cuda_of(plan->context);
    const weft_batch *last =
        run->k ? atomic_exchange(&cuda->appended, run->base.batch) : atomic_load(&cuda->appended);
    return last && last != run->base.batch;
}

const void *weft__cuda_resolve(const weft_plan *plan, const void *args, union weft__cuda_args *room)
{
    if (plan->op == WEFT__OP_kv && ((const weft_kv_append_args *)args)->batch) {
        memcpy(&room->kv, args, sizeof room->kv);
        resolve_kv(&room->kv);
        return &room->kv;
    }
    if (plan->op == WEFT__OP_attention && ((const weft_attention_args *)args)->batch) {
        memcpy(&room->attention, args, sizeof room->attention);
        resolve_attention(&room->attention);
        return &room->attention;
    }
    if (plan->op == WEFT__OP_sample) {
        struct weft__sample_cuda_args *sample = &room->sample;
        memcpy(&sample->base, args, sizeof sample->base);
        sample->device_reads_params =
            !weft__cuda_is_pageable(weft__cuda_of(plan->context), sample->base.params);
        return &room->sample;
    }
    return args;
}
