// SPDX-License-Identifier: MIT
// The CPU's side of <weft/device.h>, as struct weft__backend wants it.
#ifndef WEFT_BACKEND_CPU_DEVICE_H
#define WEFT_BACKEND_CPU_DEVICE_H

#include "src/backend/backend.h"

int32_t weft__cpu_count(void);
weft_status weft__cpu_describe(int32_t index, weft_device_info *info);

int64_t weft__cpu_packed_bytes(const weft_plan *plan, int32_t part);
weft_status weft__cpu_pack(const weft_plan *plan, const weft_linear_pack_args *args);
struct weft__codes_packer;
weft_status weft__cpu_pack_codes(const weft_plan *plan, const weft_linear_pack_args *args,
                                 const struct weft__codes_packer *packer); // 16 bits in 12

bool weft__cpu_is_host(const weft_context *context, const void *pointer);
weft_status weft__cpu_allocate(weft_context *context, weft_memory_kind kind, size_t bytes,
                               void **out);
void weft__cpu_release(weft_context *context, void *memory);
weft_status weft__cpu_copy(weft_context *context, void *to, const void *from, size_t bytes,
                           weft_stream *stream);
weft_status weft__cpu_fill(weft_context *context, void *to, unsigned char byte, size_t bytes,
                           weft_stream *stream);

weft_status weft__cpu_stream_create(weft_context *context, weft_stream **out);
weft_status weft__cpu_stream_wrap(weft_context *context, void *native, weft_stream **out);
void weft__cpu_stream_destroy(weft_stream *stream);
weft_status weft__cpu_stream_synchronize(weft_context *context, weft_stream *stream);

weft_status weft__cpu_event_create(weft_context *context, weft_event **out);
void weft__cpu_event_destroy(weft_event *event);
weft_status weft__cpu_event_record(weft_event *event, weft_stream *stream);
weft_status weft__cpu_event_wait(weft_event *event, weft_stream *stream);
weft_status weft__cpu_event_synchronize(weft_event *event);
weft_status weft__cpu_event_elapsed_us(weft_event *begin, weft_event *end, double *us);

weft_status weft__cpu_program_begin(weft_context *context, weft_program **out);
weft_status weft__cpu_program_record(weft_program *program, const struct weft__step *step);
weft_status weft__cpu_program_end(weft_program *program);
weft_status weft__cpu_program_launch(weft_program *program, weft_stream *stream);
void weft__cpu_program_destroy(weft_program *program);

#endif
