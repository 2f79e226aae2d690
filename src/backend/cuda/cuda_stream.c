// SPDX-License-Identifier: MIT
// Streams and events of <weft/device.h> on the driver's.
#include "src/backend/cuda/cuda_backend.h"
#include "src/backend/cuda/cuda_context.h"
#include "src/base/memory.h"

struct event {
    weft_event base;
    CUevent handle;
};

static CUevent handle_of(const weft_event *event)
{
    return ((const struct event *)(const void *)event)->handle;
}

static weft_status no_memory(weft_context *context)
{
    return weft__fail(context, WEFT_ENOMEM, "no memory for a stream or event");
}

static weft_status new_stream(weft_context *context, CUstream handle, bool owned, weft_stream **out)
{
    struct weft__cuda_stream *stream = weft__base_allocate(NULL, sizeof *stream);
    if (!stream)
        return no_memory(context);
    *stream = (struct weft__cuda_stream){{context}, handle, owned};
    *out = &stream->base;
    return WEFT_OK;
}

weft_status weft__cuda_stream_create(weft_context *context, weft_stream **out)
{
    struct weft__cuda *cuda = weft__cuda_of(context);
    CUstream handle = NULL;
    bool entered = weft__cuda_enter(cuda);
    CUresult result = cuda->driver->stream_create(&handle, CU_STREAM_NON_BLOCKING);
    weft_status status = result == CUDA_SUCCESS
                             ? new_stream(context, handle, true, out)
                             : weft__cuda_fail(context, result, "opening a stream");
    if (result == CUDA_SUCCESS && status != WEFT_OK)
        cuda->driver->stream_destroy(handle);
    weft__cuda_leave(cuda, entered);
    return status;
}

weft_status weft__cuda_stream_wrap(weft_context *context, void *native, weft_stream **out)
{
    return new_stream(context, native, false, out);
}

void weft__cuda_stream_destroy(weft_stream *base)
{
    struct weft__cuda_stream *stream = (void *)base;
    const struct weft__cuda *cuda = weft__cuda_of(base->context);
    bool entered = weft__cuda_enter(cuda);
    if (stream->owned) {
        cuda->driver->stream_synchronize(stream->handle);
        cuda->driver->stream_destroy(stream->handle);
    }
    weft__cuda_leave(cuda, entered);
    weft__base_release(NULL, stream);
}

weft_status weft__cuda_stream_synchronize(weft_context *context, weft_stream *stream)
{
    struct weft__cuda *cuda = weft__cuda_of(context);
    bool entered = weft__cuda_enter(cuda);
    atomic_fetch_add(&cuda->counters.synchronisations, 1);
    CUresult result = cuda->driver->stream_synchronize(weft__cuda_stream_of(cuda, stream));
    weft__cuda_leave(cuda, entered);
    return result == CUDA_SUCCESS ? WEFT_OK : weft__cuda_fail(context, result, "work on a stream");
}

weft_status weft__cuda_event_create(weft_context *context, weft_event **out)
{
    struct weft__cuda *cuda = weft__cuda_of(context);
    struct event *event = weft__base_allocate(NULL, sizeof *event);
    if (!event)
        return no_memory(context);
    *event = (struct event){.base = {.context = context}};
    bool entered = weft__cuda_enter(cuda);
    CUresult result = cuda->driver->event_create(&event->handle, CU_EVENT_DEFAULT);
    weft__cuda_leave(cuda, entered);
    if (result != CUDA_SUCCESS) {
        weft__base_release(NULL, event);
        return weft__cuda_fail(context, result, "making an event");
    }
    *out = &event->base;
    return WEFT_OK;
}

void weft__cuda_event_destroy(weft_event *event)
{
    const struct weft__cuda *cuda = weft__cuda_of(event->context);
    bool entered = weft__cuda_enter(cuda);
    cuda->driver->event_destroy(handle_of(event));
    weft__cuda_leave(cuda, entered);
    weft__base_release(NULL, event);
}

weft_status weft__cuda_event_record(weft_event *event, weft_stream *stream)
{
    const struct weft__cuda *cuda = weft__cuda_of(event->context);
    bool entered = weft__cuda_enter(cuda);
    CUresult result =
        cuda->driver->event_record(handle_of(event), weft__cuda_stream_of(cuda, stream));
    weft__cuda_leave(cuda, entered);
    return result == CUDA_SUCCESS ? WEFT_OK
                                  : weft__cuda_fail(event->context, result, "recording an event");
}

weft_status weft__cuda_event_wait(weft_event *event, weft_stream *stream)
{
    const struct weft__cuda *cuda = weft__cuda_of(event->context);
    bool entered = weft__cuda_enter(cuda);
    CUresult result =
        cuda->driver->stream_wait(weft__cuda_stream_of(cuda, stream), handle_of(event), 0);
    weft__cuda_leave(cuda, entered);
    return result == CUDA_SUCCESS ? WEFT_OK
                                  : weft__cuda_fail(event->context, result, "waiting for an event");
}

weft_status weft__cuda_event_synchronize(weft_event *event)
{
    struct weft__cuda *cuda = weft__cuda_of(event->context);
    bool entered = weft__cuda_enter(cuda);
    atomic_fetch_add(&cuda->counters.synchronisations, 1);
    CUresult result = cuda->driver->event_synchronize(handle_of(event));
    weft__cuda_leave(cuda, entered);
    return result == CUDA_SUCCESS ? WEFT_OK
                                  : weft__cuda_fail(event->context, result, "work before an event");
}

weft_status weft__cuda_event_elapsed_us(weft_event *begin, weft_event *end, double *us)
{
    const struct weft__cuda *cuda = weft__cuda_of(begin->context);
    float milliseconds = 0;
    weft_status status = weft__cuda_event_synchronize(begin);
    if (status == WEFT_OK)
        status = weft__cuda_event_synchronize(end);
    if (status != WEFT_OK)
        return status;
    bool entered = weft__cuda_enter(cuda);
    CUresult result = cuda->driver->event_elapsed(&milliseconds, handle_of(begin), handle_of(end));
    weft__cuda_leave(cuda, entered);
    if (result != CUDA_SUCCESS)
        return weft__cuda_fail(begin->context, result, "the time between events");
    *us = (double)milliseconds * 1000;
    return WEFT_OK;
}
