// SPDX-License-Identifier: MIT
// The functions of the CUDA backend's table, by file.
#ifndef WEFT_BACKEND_CUDA_BACKEND_H
#define WEFT_BACKEND_CUDA_BACKEND_H

#include <weft/linear.h>

#include "src/backend/backend.h"
#include "src/backend/cuda/cuda_driver.h"
#include "src/kernels/attention/attention_kernel.h"
#include "src/kernels/cuda/launch.h"
#include "src/kernels/sample/sample_cuda.h"

// cuda_context.c
weft_status weft__cuda_open(weft_context *context, const weft_context_desc *desc);
void weft__cuda_close(weft_context *context);
void weft__cuda_limits(const struct weft__cuda_driver *driver, CUdevice device,
                       struct weft__cuda_limits *limits);

// cuda_run.c: all operations, through their struct weft__cuda_op
weft__prepare_fn weft__cuda_prepare;
weft__submit_fn weft__cuda_submit;
// Of a run's launches those from `first` on, up to `end`.
weft_status weft__cuda_submit_part(const weft_plan *plan, const void *args, int32_t first,
                                   int32_t end, weft_stream *stream);
void weft__cuda_release_plan(weft_plan *plan);
// One launch of a pipeline, which is waited for if it is still being compiled.
struct weft__cuda_pipeline;
weft_status weft__cuda_launch(weft_context *context, struct weft__cuda_pipeline *pipeline,
                              struct weft__cuda_step *step, weft_stream *stream);
const struct weft__cuda_op *
weft__cuda_op(enum weft__op op); // never NULL; its plan is, where there is none

struct weft__cuda;
struct weft__cuda_pipeline;
// What the operation decided in its plan(), and one of the kernels that it asked for, compiled.
const void *weft__cuda_own_launch(const weft_plan *plan);
weft_status weft__cuda_pipeline_of(const weft_plan *plan, int32_t kernel,
                                   const struct weft__cuda_pipeline **out);
// cuda_launch.c: a launch; its kernel compiled first, if it is not yet
weft_status weft__cuda_pipeline_ready(weft_context *context, struct weft__cuda_pipeline *pipeline);
CUresult weft__cuda_launch_step(struct weft__cuda *cuda, const struct weft__cuda_pipeline *pipeline,
                                struct weft__cuda_step *step, CUstream stream);

// The tensor map of a matrix of 16-bit numbers: 128 bytes at a multiple of 64.
CUresult weft__cuda_write_map(const struct weft__cuda *cuda, const struct weft__cuda_matrix *m,
                              void *to);

// The launches of a run, as weft__cuda_submit() would make them; how many. The kernel that one is of, once it
// is compiled or before.
int32_t weft__cuda_steps_of(const weft_plan *plan, const void *args, struct weft__cuda_step *steps);
const struct weft__cuda_kernel *weft__cuda_kernel_of(const weft_plan *plan, int32_t kernel);

// cuda_pack.c: weights into the layout of the device's kernels
int64_t weft__cuda_packed_bytes(const weft_plan *plan, int32_t part);
weft_status weft__cuda_pack(const weft_plan *plan, const weft_linear_pack_args *args);
int64_t weft__cuda_rounded_row_bytes(const weft_context *context, int64_t cols);

// cuda_probe.c
weft__submit_fn weft__cuda_submit_probe;

// cuda_program.c
weft_status weft__cuda_program_begin(weft_context *context, weft_program **out);
weft_status weft__cuda_program_record(weft_program *program, const struct weft__step *step);
weft_status weft__cuda_program_end(weft_program *program);
weft_status weft__cuda_program_launch(weft_program *program, int32_t times, weft_stream *stream);
void weft__cuda_program_destroy(weft_program *program);

// cuda_token.c: programs whose layers are one launch
struct weft__cuda_token;
// NULL: not asked for and not measured to be faster here, or no memory
struct weft__cuda_token *weft__cuda_token_begin(const weft_context *context);
bool weft__cuda_token_record(struct weft__cuda_token *token, const struct weft__step *step);
bool weft__cuda_token_find(weft_context *context, struct weft__cuda_token *token);
// Does what was recorded again, on the stream, with the one launch in the place of many; `submit` does a step
// of the program.
typedef weft_status weft__cuda_submit_step_fn(weft_program *program, const struct weft__step *step);
weft_status weft__cuda_token_submit(weft_context *context, struct weft__cuda_token *token,
                                    weft__cuda_submit_step_fn *submit, weft_program *program,
                                    weft_stream *stream);
// Is it taken whatever the text? And for the text that the batch was set to last, with what it may become until
// the next set?
bool weft__cuda_token_is_always(const struct weft__cuda_token *token);
bool weft__cuda_token_is_faster(const struct weft__cuda_token *token);
void weft__cuda_token_end(weft_context *context, struct weft__cuda_token *token); // may be NULL

// cuda_batch.c
enum { WEFT__CUDA_BATCH_KERNELS = 3 };
extern const struct weft__cuda_kernel weft__cuda_batch_kernels[WEFT__CUDA_BATCH_KERNELS];
weft_status weft__cuda_batch_open(weft_batch *batch);
weft_status weft__cuda_batch_set(weft_batch *batch, weft_stream *stream);
weft_status weft__cuda_batch_take(weft_batch *batch, const weft_batch_args *args);
weft_status weft__cuda_batch_advance(weft_batch *batch, weft_stream *stream);
void weft__cuda_batch_close(weft_batch *batch);

// Arguments as operations of the device take them, in `room` where they differ: a batch's arrays in its
// place, and whether parameters of sampling can be read by the device.
union weft__cuda_args {
    weft_kv_append_args kv;
    struct weft__attention_args attention;
    struct weft__sample_cuda_args sample;
};
const void *weft__cuda_resolve(const weft_plan *plan, const void *args,
                               union weft__cuda_args *room);
// Does a run append after one of another batch? Its launch must not start before that one is done then: it
// reads the batch's keys without waiting, and between steps of one batch alone stands what moves it on.
bool weft__cuda_batch_changes(const weft_plan *plan, const void *args);

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
