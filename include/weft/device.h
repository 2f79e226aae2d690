// SPDX-License-Identifier: MIT
/** Devices: what there is, memory, copies, streams and events.
 *
 *  One code path serves every device. A GPU works asynchronously: work put on a *stream* happens later,
 *  in the order in which it was put there; an *event* marks a place in a stream, to wait for or to
 *  measure. On the CPU the same calls work, but nothing is asynchronous: a call returns when its work is
 *  done, streams are mere names, and every pointer is a host pointer.
 *
 *      weft_memory_allocate(ctx, WEFT_MEMORY_DEVICE, bytes, &weights);
 *      weft_copy(ctx, weights, file, bytes, NULL);              // starts
 *      weft_linear_run(plan, &(weft_linear_args){...});         // starts after it: the same stream
 *      weft_copy(ctx, logits_host, logits, logit_bytes, NULL);
 *      weft_stream_synchronize(ctx, NULL);                      // now logits_host may be read
 *
 *  What holds for every call of this header:
 *
 *  stream   a stream of this context, or NULL for the context's own; others are refused
 *  Threads  any, several at a time
 *  Errors   WEFT_EINVAL for NULL unless stated otherwise; WEFT_EDEVICE, with the driver's words, when
 *           the device fails, which may be the fault of work that an earlier call started. Text in
 *           weft_error_text(context)
 */
#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H

#include <stddef.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_context weft_context;

/** A queue of work on a device. */
typedef struct weft_stream weft_stream;

/** A place in a stream. */
typedef struct weft_event weft_event;

typedef enum weft_device {
    WEFT_DEVICE_CPU = 0,
    WEFT_DEVICE_CUDA = 1,
} weft_device;

/** Facts about a device. The caller sets `size` before the call. */
typedef struct weft_device_info {
    uint32_t size;
    int32_t cores;         /**< cores that this process may use, or streaming multiprocessors */
    int64_t memory_bytes;  /**< of the device, or of this machine */
    int64_t cache_bytes;   /**< last-level cache: L2 of a GPU, L3 (or L2) of a CPU; 0 = unknown */
    char name[96];         /**< e.g. "NVIDIA H200", "Intel(R) Xeon(R) Platinum 8481C" */
    char architecture[32]; /**< level of the best kernels: "avx512vnni", "neon", "sm_90" */
    char tier[32];         /**< class of devices whose thresholds plans use; "" = none */
    uint64_t reserved[4];
} weft_device_info;

/** Number of devices of that kind: 1 CPU; 0 for a kind that this build or machine lacks. */
WEFT_API int32_t weft_device_count(weft_device device);

/** Describes one of them.
 *
 *  Errors   WEFT_EINVAL if there is no such device or `info` lacks its size, WEFT_EUNSUPPORTED for a
 *           device that this build or machine lacks. weft_error_text(NULL) says what is missing
 */
WEFT_API weft_status weft_device_describe(weft_device device, int32_t index,
                                          weft_device_info *info);

typedef enum weft_memory_kind {
    WEFT_MEMORY_DEVICE = 0, /**< what kernels read and write; on the CPU: the host's */
    WEFT_MEMORY_PINNED = 1, /**< the host's, for asynchronous copies to and from a device */
} weft_memory_kind;

/** Allocates memory for weights, caches and buffers: aligned to 256 bytes, contents undefined. Kernels
 *  take any pointer that the device can read, so malloc's on the CPU, and another library's on a GPU.
 *
 *  Owner    the caller: weft_memory_free(), before the context goes
 *  Errors   WEFT_ENOMEM, whose text says how much there is; WEFT_EINVAL for an unknown kind
 */
WEFT_API weft_status weft_memory_allocate(weft_context *context, weft_memory_kind kind,
                                          size_t bytes, void **out);

/** Frees memory of weft_memory_allocate() once all work already put on the context's streams is done.
 *  NULL is allowed. */
WEFT_API void weft_memory_free(weft_context *context, void *memory);

/** Copies bytes between any two places that the context can reach: host to device, device to host, device
 *  to device, host to host.
 *
 *  Alias    the two places must not overlap
 *  Owner    host memory that is not pinned has been read when the call returns, and has been written
 *           when the stream has been waited for
 *  Errors   WEFT_EDEVICE
 */
WEFT_API weft_status weft_copy(weft_context *context, void *to, const void *from, size_t bytes,
                               weft_stream *stream);

/** Sets every byte of memory that the device can write.
 *
 *  Errors   WEFT_EDEVICE
 */
WEFT_API weft_status weft_fill(weft_context *context, void *to, unsigned char byte, size_t bytes,
                               weft_stream *stream);

/** Creates another stream beside the context's own.
 *
 *  Owner    the caller: weft_stream_destroy(), before the context goes
 *  Errors   WEFT_ENOMEM, WEFT_EDEVICE
 */
WEFT_API weft_status weft_stream_create(weft_context *context, weft_stream **out);

/** Wraps a native stream (a CUstream or cudaStream_t), which stays the caller's.
 *
 *  Errors   WEFT_ENOMEM; WEFT_EUNSUPPORTED on the CPU, which has no native streams
 */
WEFT_API weft_status weft_stream_wrap(weft_context *context, void *native, weft_stream **out);

/** Frees a stream once the work on it is done. NULL is allowed. */
WEFT_API void weft_stream_destroy(weft_stream *stream);

/** Waits until all work put on the stream so far is done.
 *
 *  Errors   WEFT_EDEVICE
 */
WEFT_API weft_status weft_stream_synchronize(weft_context *context, weft_stream *stream);

/** Creates an event, not yet recorded.
 *
 *  Owner    the caller: weft_event_destroy(), before the context goes
 *  Errors   WEFT_ENOMEM, WEFT_EDEVICE
 */
WEFT_API weft_status weft_event_create(weft_context *context, weft_event **out);

/** Frees an event. NULL is allowed. */
WEFT_API void weft_event_destroy(weft_event *event);

/** Marks the current end of the stream. An event may be recorded again.
 *
 *  Errors   WEFT_EDEVICE
 */
WEFT_API weft_status weft_event_record(weft_event *event, weft_stream *stream);

/** Makes later work of the stream wait for the event; the host does not wait.
 *
 *  Errors   WEFT_EINVAL for an event that was never recorded
 */
WEFT_API weft_status weft_event_wait(weft_event *event, weft_stream *stream);

/** Waits for the event on the calling thread.
 *
 *  Errors   WEFT_EINVAL for an event that was never recorded, WEFT_EDEVICE
 */
WEFT_API weft_status weft_event_synchronize(weft_event *event);

/** Time between two events of one context; waits for both.
 *
 *  Units    microseconds; a GPU resolves half of one
 *  Errors   WEFT_EINVAL for events that were never recorded or of different contexts, WEFT_EDEVICE
 */
WEFT_API weft_status weft_event_elapsed_us(weft_event *begin, weft_event *end, double *us);

#ifdef __cplusplus
}
#endif
#endif
