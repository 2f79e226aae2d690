// SPDX-License-Identifier: MIT
// The functions of the CUDA backend's table, by file.
#ifndef WEFT_BACKEND_CUDA_BACKEND_H
#define WEFT_BACKEND_CUDA_BACKEND_H

#include "src/backend/backend.h"
#include "src/backend/cuda/cuda_driver.h"
#include "src/kernels/cuda/launch.h"

// cuda_context.c
weft_status weft__cuda_open(weft_context *context, const weft_context_desc *desc);
void weft__cuda_close(weft_context *context);
void weft__cuda_limits(const struct weft__cuda_driver *driver, CUdevice device,
                       struct weft__cuda_limits *limits);

// cuda_run.c: all operations, through their struct weft__cuda_op
weft__prepare_fn weft__cuda_prepare;
weft__submit_fn weft__cuda_submit;
void weft__cuda_release_plan(weft_plan *plan);
const struct weft__cuda_op *
weft__cuda_op(enum weft__op op); // never NULL; its plan is, where there is none

// cuda_stream.c: as struct weft__backend wants them
weft_status weft__cuda_stream_create(weft_context *context, weft_stream **out);
weft_status weft__cuda_stream_wrap(weft_context *context, void *native, weft_stream **out);
void weft__cuda_stream_destroy(weft_stream *stream);
weft_status weft__cuda_stream_synchronize(weft_context *context, weft_stream *stream);
weft_status weft__cuda_event_create(weft_context *context, weft_event **out);
void weft__cuda_event_destroy(weft_event *event);
weft_status weft__cuda_event_record(weft_event *event, weft_stream *stream);
weft_status weft__cuda_event_wait(weft_event *event, weft_stream *stream);
weft_status weft__cuda_event_synchronize(weft_event *event);
weft_status weft__cuda_event_elapsed_us(weft_event *begin, weft_event *end, double *us);

#endif
