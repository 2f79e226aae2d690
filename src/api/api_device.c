// SPDX-License-Identifier: MIT
#include <weft/device.h>

#include "src/api/api.h"

int32_t weft_device_count(weft_device device)
{
    const struct weft__backend *backend;
    return weft__api_backend(device, &backend) == WEFT_OK ? backend->count() : 0;
}

weft_status weft_device_describe(weft_device device, int32_t index, weft_device_info *info)
{
    const struct weft__backend *backend;
    weft_device_info known;
    WEFT__TRY(weft__api_backend(device, &backend));
    if (!info || info->size < 8 || info->size > sizeof *info)
        return weft__api_fail(WEFT_EINVAL, "info is NULL or lacks its size (.size = sizeof info)");
    if (index < 0 || index >= backend->count())
        return weft__api_fail(WEFT_EINVAL, "there is no %s device %d: this machine has %d",
                              backend->name, index, backend->count());
    memset(&known, 0, sizeof known);
    known.size = info->size;
    WEFT__TRY(backend->describe(index, &known));
    memcpy(info, &known, known.size);
    return WEFT_OK;
}

weft_status weft_memory_allocate(weft_context *context, weft_memory_kind kind, size_t bytes,
                                 void **out)
{
    if (!context)
        return WEFT_EINVAL;
    if (!out)
        return weft__fail(context, WEFT_EINVAL, "memory: no place for the pointer: out is NULL");
    if ((unsigned)kind > WEFT_MEMORY_PINNED)
        return weft__fail(context, WEFT_EINVAL, "memory: kind %d is unknown", (int)kind);
    return context->backend->allocate(context, kind, bytes, out);
}

void weft_memory_free(weft_context *context, void *memory)
{
    if (context && memory)
        context->backend->release(context, memory);
}

weft_status weft_copy(weft_context *context, void *to, const void *from, size_t bytes,
                      weft_stream *stream)
{
    if (!context)
        return WEFT_EINVAL;
    WEFT__TRY(weft__api_stream(context, stream));
    if (bytes == 0)
        return WEFT_OK;
    if (!to || !from)
        return weft__fail(context, WEFT_EINVAL, "copy: to and from must not be NULL");
    weft_program *program = weft__api_recording(context);
    if (program)
        return weft__api_record(
            program, &(struct weft__step){.to = to, .from = from, .bytes = bytes}, stream);
    return context->backend->copy(context, to, from, bytes, stream);
}

weft_status weft_fill(weft_context *context, void *to, unsigned char byte, size_t bytes,
                      weft_stream *stream)
{
    if (!context)
        return WEFT_EINVAL;
    WEFT__TRY(weft__api_stream(context, stream));
    if (bytes == 0)
        return WEFT_OK;
    if (!to)
        return weft__fail(context, WEFT_EINVAL, "fill: to must not be NULL");
    weft_program *program = weft__api_recording(context);
    if (program)
        return weft__api_record(
            program, &(struct weft__step){.to = to, .byte = byte, .bytes = bytes}, stream);
    return context->backend->fill(context, to, byte, bytes, stream);
}

weft_status weft_stream_create(weft_context *context, weft_stream **out)
{
    if (!context)
        return WEFT_EINVAL;
    if (!out)
        return weft__fail(context, WEFT_EINVAL, "no place for the stream: out is NULL");
    return context->backend->stream_create(context, out);
}

weft_status weft_stream_wrap(weft_context *context, void *native, weft_stream **out)
{
    if (!context)
        return WEFT_EINVAL;
    if (!out)
        return weft__fail(context, WEFT_EINVAL, "no place for the stream: out is NULL");
    return context->backend->stream_wrap(context, native, out);
}

void weft_stream_destroy(weft_stream *stream)
{
    if (stream)
        stream->context->backend->stream_destroy(stream);
}

weft_status weft_stream_synchronize(weft_context *context, weft_stream *stream)
{
    if (!context)
        return WEFT_EINVAL;
    WEFT__TRY(weft__api_stream(context, stream));
    return context->backend->stream_synchronize(context, stream);
}

weft_status weft_event_create(weft_context *context, weft_event **out)
{
    if (!context)
        return WEFT_EINVAL;
    if (!out)
        return weft__fail(context, WEFT_EINVAL, "no place for the event: out is NULL");
    return context->backend->event_create(context, out);
}

void weft_event_destroy(weft_event *event)
{
    if (event)
        event->context->backend->event_destroy(event);
}

weft_status weft_event_record(weft_event *event, weft_stream *stream)
{
    if (!event)
        return WEFT_EINVAL;
    WEFT__TRY(weft__api_stream(event->context, stream));
    WEFT__TRY(event->context->backend->event_record(event, stream));
    event->recorded = true;
    return WEFT_OK;
}

static weft_status check_recorded(const weft_event *event)
{
    if (event->recorded)
        return WEFT_OK;
    return weft__fail(event->context, WEFT_EINVAL,
                      "the event was never recorded: call weft_event_record first");
}

weft_status weft_event_wait(weft_event *event, weft_stream *stream)
{
    if (!event)
        return WEFT_EINVAL;
    WEFT__TRY(weft__api_stream(event->context, stream));
    WEFT__TRY(check_recorded(event));
    return event->context->backend->event_wait(event, stream);
}

weft_status weft_event_synchronize(weft_event *event)
{
    if (!event)
        return WEFT_EINVAL;
    WEFT__TRY(check_recorded(event));
    return event->context->backend->event_synchronize(event);
}

weft_status weft_event_elapsed_us(weft_event *begin, weft_event *end, double *us)
{
    if (!begin || !end)
        return WEFT_EINVAL;
    if (!us)
        return weft__fail(begin->context, WEFT_EINVAL, "no place for the time: us is NULL");
    if (begin->context != end->context)
        return weft__fail(begin->context, WEFT_EINVAL, "the events are of different contexts");
    WEFT__TRY(check_recorded(begin));
    WEFT__TRY(check_recorded(end));
    return begin->context->backend->event_elapsed_us(begin, end, us);
}
