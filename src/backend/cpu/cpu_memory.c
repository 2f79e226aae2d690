// SPDX-License-Identifier: MIT
// The door for devices on the CPU: memory is the host's, copies are done when they return, streams are
// names and events are the time of day.
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#include "src/backend/cpu/cpu.h"
#include "src/backend/cpu/cpu_device.h"

struct event {
    weft_event base;
    int64_t ns;
};

bool weft__cpu_is_host(const weft_context *context, const void *pointer)
{
    (void)context;
    (void)pointer;
    return true;
}

// What lies before memory that is handed out: the allocator promises 64 bytes of alignment, the door 256.
enum { ALIGN = 256, HUGE_PAGE = 2 << 20 };

// Weights and caches are read from end to end: with large pages that costs fewer misses of the TLB. Only
// advice, so whether it is taken does not matter.
static void advise_huge_pages(void *memory, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    uintptr_t at = ((uintptr_t)memory + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    if (bytes >= 2 * (size_t)HUGE_PAGE)
        madvise((void *)at, (bytes - (at - (uintptr_t)memory)) / HUGE_PAGE * HUGE_PAGE,
                MADV_HUGEPAGE);
#endif
}

weft_status weft__cpu_allocate(weft_context *context, weft_memory_kind kind, size_t bytes,
                               void **out)
{
    (void)kind;
    void *base = NULL;
    if (bytes <= SIZE_MAX - ALIGN)
        base = context->allocator.allocate(context->allocator.user, bytes + ALIGN);
    if (!base)
        return weft__fail(context, WEFT_ENOMEM, "no memory for %zu bytes", bytes);
    uintptr_t at = ((uintptr_t)base + ALIGN) / ALIGN * ALIGN; // 64 to 256 bytes behind the base
    memcpy((void *)(at - sizeof base), &base, sizeof base);
    advise_huge_pages((void *)at, bytes);
    *out = (void *)at;
    return WEFT_OK;
}

void weft__cpu_release(weft_context *context, void *memory)
{
    void *base;
    memcpy(&base, (unsigned char *)memory - sizeof base, sizeof base);
    context->allocator.release(context->allocator.user, base);
}

weft_status weft__cpu_copy(weft_context *context, void *to, const void *from, size_t bytes,
                           weft_stream *stream)
{
    (void)context;
    (void)stream;
    memcpy(to, from, bytes);
    return WEFT_OK;
}

weft_status weft__cpu_fill(weft_context *context, void *to, unsigned char byte, size_t bytes,
                           weft_stream *stream)
{
    (void)context;
    (void)stream;
    memset(to, byte, bytes);
    return WEFT_OK;
}

static void *allocate_handle(weft_context *context, size_t bytes)
{
    void *handle = context->allocator.allocate(context->allocator.user, bytes);
    if (handle)
        memset(handle, 0, bytes);
    else
        weft__fail(context, WEFT_ENOMEM, "no memory for a stream or event");
    return handle;
}

weft_status weft__cpu_stream_create(weft_context *context, weft_stream **out)
{
    weft_stream *stream = allocate_handle(context, sizeof *stream);
    if (!stream)
        return WEFT_ENOMEM;
    stream->context = context;
    *out = stream;
    return WEFT_OK;
}

weft_status weft__cpu_stream_wrap(weft_context *context, void *native, weft_stream **out)
{
    (void)native;
    (void)out;
    return weft__fail(context, WEFT_EUNSUPPORTED, "the CPU has no streams of its own to wrap");
}

void weft__cpu_stream_destroy(weft_stream *stream)
{
    stream->context->allocator.release(stream->context->allocator.user, stream);
}

weft_status weft__cpu_stream_synchronize(weft_context *context, weft_stream *stream)
{
    (void)context;
    (void)stream;
    return WEFT_OK;
}

weft_status weft__cpu_event_create(weft_context *context, weft_event **out)
{
    struct event *event = allocate_handle(context, sizeof *event);
    if (!event)
        return WEFT_ENOMEM;
    event->base.context = context;
    *out = &event->base;
    return WEFT_OK;
}

void weft__cpu_event_destroy(weft_event *event)
{
    event->context->allocator.release(event->context->allocator.user, event);
}

weft_status weft__cpu_event_record(weft_event *event, weft_stream *stream)
{
    struct timespec now;
    (void)stream;
    clock_gettime(CLOCK_MONOTONIC, &now);
    ((struct event *)event)->ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    return WEFT_OK;
}

weft_status weft__cpu_event_wait(weft_event *event, weft_stream *stream)
{
    (void)event;
    (void)stream;
    return WEFT_OK;
}

weft_status weft__cpu_event_synchronize(weft_event *event)
{
    (void)event;
    return WEFT_OK;
}

weft_status weft__cpu_event_elapsed_us(weft_event *begin, weft_event *end, double *us)
{
    *us = (double)(((struct event *)end)->ns - ((struct event *)begin)->ns) / 1000;
    return WEFT_OK;
}
