// SPDX-License-Identifier: MIT
// The CPU backend: every operation's kernel table, the functions that plan and spread its work, and what
// a context keeps.
#define _GNU_SOURCE
#include <stdlib.h>

#include "src/backend/cpu/cpu.h"
#include "src/backend/cpu/cpu_batch.h"
#include "src/backend/cpu/cpu_cores.h"
#include "src/backend/cpu/cpu_device.h"

enum { MOST_THREADS = 1024 };

#define WEFT__OP_DECLARE(op)                                                                       \
    extern const struct weft__kernel_table weft__##op##_table;                                     \
    weft__prepare_fn weft__cpu_prepare_##op;                                                       \
    weft__submit_fn weft__cpu_submit_##op;
WEFT__OP_MAP(WEFT__OP_DECLARE)

static weft_status choose_isa(weft_context *context, uint32_t *mask)
{
    *mask = weft__cpu_isa_mask();
    const char *level = getenv("WEFT_CPU");
    const char *wrong = level && *level ? weft__cpu_lower(mask, level) : NULL;
    char known[128];
    if (wrong)
        return weft__fail(context, WEFT_EINVAL, "WEFT_CPU=%.64s is %s: use %s", level, wrong,
                          weft__cpu_levels(known, sizeof known));
    return WEFT_OK;
}

static weft_status open_pool(weft_context *context, struct weft__cpu *cpu, int32_t threads)
{
    struct weft__cpu_cores cores;
    weft__cpu_own_cores(&cores);
    cpu->threads = threads ? threads : cores.count < MOST_THREADS ? cores.count : MOST_THREADS;
    cpu->pool = weft__cpu_pool_open(&context->allocator, cpu->threads, threads ? NULL : &cores);
    if (!cpu->pool)
        return weft__fail(context, WEFT_ENOMEM, "no memory for %d threads", cpu->threads);
    cpu->executor = (weft_executor){
        .user = cpu->pool, .threads = cpu->threads, .parallel_for = weft__cpu_pool_parallel_for};
    return WEFT_OK;
}

static weft_status cpu_open(weft_context *context, const weft_context_desc *desc)
{
    uint32_t isa_mask;
    if (desc->native_context || desc->native_stream)
        return weft__fail(context, WEFT_EINVAL,
                          "native_context and native_stream are of a GPU: leave them NULL");
    weft_status status = choose_isa(context, &isa_mask);
    if (status != WEFT_OK)
        return status;
    struct weft__cpu *cpu = context->allocator.allocate(context->allocator.user, sizeof *cpu);
    if (!cpu)
        return weft__fail(context, WEFT_ENOMEM, "no memory for a context");
    *cpu = (struct weft__cpu){
        .isa_mask = isa_mask, .asks_far = weft__cpu_asks_far(), .asks_near = weft__cpu_asks_near()};
    context->device = cpu;
    if (desc->executor) {
        cpu->threads = desc->executor->threads;
        cpu->executor = *desc->executor;
        return WEFT_OK;
    }
    return open_pool(context, cpu, desc->threads);
}

static void cpu_close(weft_context *context)
{
    struct weft__cpu *cpu = context->device;
    if (!cpu)
        return;
    weft__cpu_pool_close(&context->allocator, cpu->pool);
    context->allocator.release(context->allocator.user, cpu);
}

static bool cpu_fits(const weft_context *context, const struct weft__kernel *row)
{
    return weft__cpu_fits(row, weft__cpu_of(context)->isa_mask);
}

static const char *cpu_level(const weft_context *context)
{
    return weft__cpu_isa_name(weft__cpu_of(context)->isa_mask);
}

static int32_t cpu_threads(const weft_context *context)
{
    return weft__cpu_of(context)->threads;
}

static const char *tuning_fault(const weft_tuning *entry)
{
    return entry->few_keys || entry->cluster_keys ? "few_keys and cluster_keys are a GPU's" : NULL;
}

const struct weft__backend weft__backend_cpu = {
    .name = "cpu",
    .tables =
        {
#define WEFT__OP_TABLE(op) &weft__##op##_table,
            WEFT__OP_MAP(WEFT__OP_TABLE)},
    .prepare =
        {
#define WEFT__OP_PREPARE(op) weft__cpu_prepare_##op,
            WEFT__OP_MAP(WEFT__OP_PREPARE)},
    .submit =
        {
#define WEFT__OP_SUBMIT(op) weft__cpu_submit_##op,
            WEFT__OP_MAP(WEFT__OP_SUBMIT)},
    .open = cpu_open,
    .close = cpu_close,
    .fits = cpu_fits,
    .level_name = weft__cpu_level_name,
    .level = cpu_level,
    .batch_open = weft__cpu_batch_open,
    .batch_starts = true,
    .batch_set = weft__cpu_batch_set,
    .batch_advance = weft__cpu_batch_set,
    .batch_close = weft__cpu_batch_close,
    .threads = cpu_threads,
    .rounded_row_bytes = weft__cpu_rounded_row_bytes,
    .packed_bytes = weft__cpu_packed_bytes,
    .pack = weft__cpu_pack,
    .layout = "panels of 16 rows",
    .count = weft__cpu_count,
    .tuning_fault = tuning_fault,
    .describe = weft__cpu_describe,
    .is_host = weft__cpu_is_host,
    .allocate = weft__cpu_allocate,
    .release = weft__cpu_release,
    .copy = weft__cpu_copy,
    .fill = weft__cpu_fill,
    .stream_create = weft__cpu_stream_create,
    .stream_wrap = weft__cpu_stream_wrap,
    .stream_destroy = weft__cpu_stream_destroy,
    .stream_synchronize = weft__cpu_stream_synchronize,
    .event_create = weft__cpu_event_create,
    .event_destroy = weft__cpu_event_destroy,
    .event_record = weft__cpu_event_record,
    .event_wait = weft__cpu_event_wait,
    .event_synchronize = weft__cpu_event_synchronize,
    .event_elapsed_us = weft__cpu_event_elapsed_us,
    .program_begin = weft__cpu_program_begin,
    .program_record = weft__cpu_program_record,
    .program_end = weft__cpu_program_end,
    .program_launch = weft__cpu_program_launch,
    .program_destroy = weft__cpu_program_destroy,
};
