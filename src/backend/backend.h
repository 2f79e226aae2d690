// SPDX-License-Identifier: MIT
// The interface between the library and its devices. Whoever stands above knows neither an instruction
// set nor a thread nor a stream of a driver: a backend is this table, and its rooms src/backend/<name>/
// are the only ones that look inside a launch or a context's device.
//
// prepare[op] is given a plan whose descriptor is settled (src/plan/plan.h) and fills launch,
// workspace_bytes and description. submit[op] runs it on arguments that the api layer has checked and
// settled; it allocates nothing, waits for nothing and may be recorded by a graph of the device.
#ifndef WEFT_BACKEND_BACKEND_H
#define WEFT_BACKEND_BACKEND_H

#include <weft/batch.h>
#include <weft/linear.h>
#include <weft/program.h>
#include <weft/tuning.h>

#include "src/kernels/kernel.h"

// The operations, in the order of the tables of a backend.
#define WEFT__OP_MAP(X)                                                                            \
    X(linear)                                                                                      \
    X(round)                                                                                       \
    X(attention)                                                                                   \
    X(merge)                                                                                       \
    X(kv)                                                                                          \
    X(pages)                                                                                       \
    X(norm) X(rope) X(activation) X(softmax) X(embedding) X(sample) X(route) X(experts) X(probe)

enum weft__op {
#define WEFT__OP_ENUM(name) WEFT__OP_##name,
    WEFT__OP_MAP(WEFT__OP_ENUM)
#undef WEFT__OP_ENUM
        WEFT__OP_COUNT
};

typedef weft_status weft__prepare_fn(weft_plan *plan);

// args is the operation's own type; stream is never one of another context, NULL the context's own.
typedef weft_status weft__submit_fn(const weft_plan *plan, const void *args, weft_stream *stream);

// One thing that a program does: a run of a plan, a copy, (from NULL) a fill, or a batch's advance.
struct weft__step {
    const weft_plan *plan;
    const void *args; // one flat struct, settled; what it points to is the caller's
    size_t args_bytes;
    void *to;
    const void *from;
    size_t bytes;
    unsigned char byte;
    weft_batch *batch; // is taken one token further; NULL: one of the above
};

struct weft__backend {
    const char *name;
    // Kernels of every operation, best first.
    const struct weft__kernel_table *tables[WEFT__OP_COUNT];
    weft__prepare_fn *prepare[WEFT__OP_COUNT];
    weft__submit_fn *submit[WEFT__OP_COUNT];
    // Frees what a prepare made besides the launch itself; NULL: nothing. Also called for a plan whose
    // prepare failed.
    void (*release_plan)(weft_plan *plan);

    // Sets context->device from a descriptor whose members have been checked, or words an error.
    weft_status (*open)(weft_context *context, const weft_context_desc *desc);
    void (*close)(weft_context *context); // also after an open that failed

    // Can the context's device run this row?
    bool (*fits)(const weft_context *context, const struct weft__kernel *row);
    // Name of a row's level ("avx2", "sm_90a"), and of the best one the context may use.
    const char *(*level_name)(int32_t level);
    const char *(*level)(const weft_context *context);
    // A batch (src/plan/plan_batch.h): open makes batch->device for its bounds and plans; set and advance
    // bring it to the lengths, pages, positions and slots that the batch says now, take to those of arrays
    // that the host cannot read (NULL where it reads all), close frees it, also after an open that failed.
    // All NULL: there are none.
    bool batch_starts; // kv_starts are served
    weft_status (*batch_open)(weft_batch *batch);
    weft_status (*batch_set)(weft_batch *batch, weft_stream *stream);
    weft_status (*batch_take)(weft_batch *batch, const weft_batch_args *args);
    weft_status (*batch_advance)(weft_batch *batch, weft_stream *stream);
    void (*batch_close)(weft_batch *batch);

    // Instances of kernels (weft_instance_at, weft_prewarm). NULL: they come with the library.
    bool (*instance_at)(weft_context *context, int32_t n, weft_instance_info *info);
    weft_status (*prewarm)(weft_context *context, weft_progress_fn *progress, void *user);

    // Threads of the host that do the context's work.
    int32_t (*threads)(const weft_context *context);

    // Bytes of a row of a rounded buffer (weft/linear.h) of `cols` columns, 0 if they do not fit. NULL: the
    // device has no such buffers.
    int64_t (*rounded_row_bytes)(const weft_context *context, int64_t cols);

    // Packed weights of a part of a plan of linear or experts: their bytes where the device has a layout of its
    // own, else 0: they lie as in a file, which the api does by copies. pack() is given settled arguments.
    // NULL: none has.
    int64_t (*packed_bytes)(const weft_plan *plan, int32_t part);
    weft_status (*pack)(const weft_plan *plan, const weft_linear_pack_args *args);
    const char *layout; // its name

    // Entries of weft/tuning.h: NULL, or in words what of an entry means nothing to the device. NULL: it has none.
    const char *(*tuning_fault)(const weft_tuning *entry);
    int32_t (*device_index)(const weft_context *context); // NULL: 0

    // Without a context: how many devices there are; what one is (index is sound, info->size kept).
    int32_t (*count)(void);
    weft_status (*describe)(int32_t index, weft_device_info *info);

    // The rest is the inside of <weft/device.h>: arguments are not NULL, streams and events are of the
    // context, NULL streams its own. Failures word an error of the context.
    bool (*is_host)(const weft_context *context, const void *pointer); // may the host read it?
    weft_status (*allocate)(weft_context *context, weft_memory_kind kind, size_t bytes, void **out);
    void (*release)(weft_context *context, void *memory);
    // Lets the device reach memory of the host where it lies, whole pages of it. NULL: it does anyway.
    weft_status (*lend)(weft_context *context, void *memory, size_t bytes);
    void (*take_back)(weft_context *context, void *memory);
    weft_status (*copy)(weft_context *context, void *to, const void *from, size_t bytes,
                        weft_stream *stream);
    weft_status (*fill)(weft_context *context, void *to, unsigned char byte, size_t bytes,
                        weft_stream *stream);
    weft_status (*stream_create)(weft_context *context, weft_stream **out);
    weft_status (*stream_wrap)(weft_context *context, void *native, weft_stream **out);
    void (*stream_destroy)(weft_stream *stream);
    weft_status (*stream_synchronize)(weft_context *context, weft_stream *stream);
    weft_status (*event_create)(weft_context *context, weft_event **out);
    void (*event_destroy)(weft_event *event);
    weft_status (*event_record)(weft_event *event, weft_stream *stream);
    weft_status (*event_wait)(weft_event *event, weft_stream *stream);
    weft_status (*event_synchronize)(weft_event *event);
    weft_status (*event_elapsed_us)(weft_event *begin, weft_event *end, double *us);

    // Programs: begin allocates one, zeroed, that starts with a struct weft_program; record is given what
    // the api would have done, and keeps copies of the step and its arguments (or captures it on the
    // context's own stream). NULL for a device without programs.
    weft_status (*program_begin)(weft_context *context, weft_program **out);
    weft_status (*program_record)(weft_program *program, const struct weft__step *step);
    weft_status (*program_end)(weft_program *program);
    weft_status (*program_launch)(weft_program *program, int32_t times, weft_stream *stream);
    void (*program_destroy)(weft_program *program); // also of one that has not ended
};

extern const struct weft__backend weft__backend_cpu;

// The backend of a device, or NULL if this build or machine has none; *why then says what is missing.
const struct weft__backend *weft__backend_cuda(const char **why);

#endif
