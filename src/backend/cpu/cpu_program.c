// SPDX-License-Identifier: MIT
// Programs of the CPU: a list of steps, each with a copy of its arguments, in blocks of memory.
//
//      block:  | next, used, size | step, arguments | step, arguments | ...
//
// A launch walks it; the threads of the pool stay awake from the first step to the last.
#include "src/backend/cpu/cpu.h"
#include "src/backend/cpu/cpu_device.h"
#include "src/base/memory.h"
#include "src/plan/plan_batch.h"

enum { BLOCK_BYTES = 16384 };

struct block {
    struct block *next;
    size_t used, size; // of the bytes that follow
    _Alignas(WEFT__ALIGN) unsigned char bytes[];
};

struct program {
    weft_program base;
    struct block *first, *last;
};

static size_t aligned(size_t bytes)
{
    return (bytes + WEFT__ALIGN - 1) / WEFT__ALIGN * WEFT__ALIGN;
}

weft_status weft__cpu_program_begin(weft_context *context, weft_program **out)
{
    struct program *program = context->allocator.allocate(context->allocator.user, sizeof *program);
    if (!program)
        return weft__fail(context, WEFT_ENOMEM, "no memory for a program");
    memset(program, 0, sizeof *program);
    *out = &program->base;
    return WEFT_OK;
}

// Room at the end of the list, or NULL.
static void *take(struct program *program, size_t bytes)
{
    const weft_allocator *allocator = &program->base.context->allocator;
    struct block *block = program->last;
    if (!block || block->size - block->used < bytes) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        block = allocator->allocate(allocator->user, sizeof *block + size);
        if (!block)
            return NULL;
        block->next = NULL;
        block->used = 0;
        block->size = size;
        if (program->last)
            program->last->next = block;
        else
            program->first = block;
        program->last = block;
    }
    void *at = block->bytes + block->used;
    block->used += bytes;
    return at;
}

weft_status weft__cpu_program_record(weft_program *base, const struct weft__step *step)
{
    struct program *program = (struct program *)base;
    size_t head = aligned(sizeof *step);
    struct weft__step *kept = take(program, head + aligned(step->args_bytes));
    if (!kept)
        return weft__fail(base->context, WEFT_ENOMEM, "no memory for another step of a program");
    *kept = *step;
    if (step->args) {
        kept->args = (unsigned char *)kept + head;
        memcpy((unsigned char *)kept + head, step->args, step->args_bytes);
    }
    return WEFT_OK;
}

weft_status weft__cpu_program_end(weft_program *base)
{
    (void)base;
    return WEFT_OK;
}

static weft_status do_step(weft_context *context, const struct weft__step *step,
                           weft_stream *stream)
{
    if (step->plan)
        return context->backend->submit[step->plan->op](step->plan, step->args, stream);
    if (step->batch) {
        weft__plan_batch_advance(step->batch);
        return context->backend->batch_advance(step->batch, stream);
    }
    if (step->from)
        return weft__cpu_copy(context, step->to, step->from, step->bytes, stream);
    return weft__cpu_fill(context, step->to, step->byte, step->bytes, stream);
}

static weft_status do_steps(const struct program *program, weft_stream *stream)
{
    weft_context *context = program->base.context;
    weft_status status = WEFT_OK;
    for (const struct block *block = program->first; block; block = block->next)
        for (size_t at = 0; at < block->used && status == WEFT_OK;) {
            const struct weft__step *step = (const void *)(block->bytes + at);
            status = do_step(context, step, stream);
            at += aligned(sizeof *step) + aligned(step->args_bytes);
        }
    return status;
}

weft_status weft__cpu_program_launch(weft_program *base, int32_t times, weft_stream *stream)
{
    struct weft__cpu_pool *pool = weft__cpu_of(base->context)->pool;
    weft_status status = WEFT_OK;
    if (pool)
        weft__cpu_pool_stay_awake(pool);
    for (int32_t i = 0; i < times && status == WEFT_OK; i++)
        status = do_steps((const struct program *)base, stream);
    if (pool)
        weft__cpu_pool_may_sleep(pool);
    return status;
}

void weft__cpu_program_destroy(weft_program *base)
{
    struct program *program = (struct program *)base;
    const weft_allocator *allocator = &base->context->allocator;
    for (struct block *block = program->first, *next; block; block = next) {
        next = block->next;
        allocator->release(allocator->user, block);
    }
    allocator->release(allocator->user, program);
}
