// SPDX-License-Identifier: MIT
/** Devices: what there is, memory, copies, streams and events.
 *
 *  One code path serves every device. A GPU works asynchronously: what is put on a *stream* happens in
 *  that order, some time later; an *event* marks a place in a stream that others wait for or measure. On
 *  the CPU all of it works and nothing is asynchronous: a call returns when its work is done, streams
 *  are names, and every pointer is one of the host.
 *
 *      weft_memory_allocate(ctx, WEFT_MEMORY_DEVICE, bytes, &weights);
 *      weft_copy(ctx, weights, file, bytes, NULL);              // starts
 *      weft_linear_run(plan, &(weft_linear_args){...});         // starts after it: the same stream
 *      weft_copy(ctx, logits_host, logits, logit_bytes, NULL);
 *      weft_stream_synchronize(ctx, NULL);                      // now logits_host may be read
 *
 *  What holds for every call of this header:
 *
 *  stream   one made for this context, or NULL: the context's own. Others are refused
 *  Threads  any, several at a time
 *  Errors   WEFT_EINVAL for NULL where nothing else is said, WEFT_EDEVICE with the driver's words when the
 *           device fails: also for work that an earlier call started. Text in weft_error_text(context)
 */
#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H

#include <stddef.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_context weft_context;

/** An order of work on a device. */
typedef struct weft_stream weft_stream;

/** A place in a stream. */
typedef struct weft_event weft_event;

typedef enum weft_device {
    WEFT_DEVICE_CPU = 0,
    WEFT_DEVICE_CUDA = 1,
} weft_device;

/** What a device is. `size` is set by the caller before the call. */
typedef struct weft_device_info {
    uint32_t size;
    int32_t cores;         /**< cores that this process may use, or streaming multiprocessors */
    int64_t memory_bytes;  /**< of the device, or of this machine */
    int64_t cache_bytes;   /**< the last cache: L2 of a GPU, L3 (or L2) of a CPU; 0 = not known */
    char name[96];         /**< e.g. "NVIDIA H200", "Intel(R) Xeon(R) Platinum 8481C" */
    char architecture[32]; /**< the best kernels' level: "avx512vnni", "neon", "sm_90" */
    char tier[32]; /**< class of devices whose thresholds kernels choose by; "" = there are none */
    uint64_t reserved[4];
} weft_device_info;

/** How many devices of that kind there are: 1 CPU; 0 for a device that this build or machine has not. */
WEFT_API int32_t weft_device_count(weft_device device);

/** Describes one of them.
 *
 *  Errors   WEFT_EINVAL for no such device or an `info` without its size, WEFT_EUNSUPPORTED for a device
 *           that this build or machine has not. weft_error_text(NULL) says what is missing
 */
WEFT_API weft_status weft_device_describe(weft_device device, int32_t index,
                                          weft_device_info *info);

typedef enum weft_memory_kind {
    WEFT_MEMORY_DEVICE = 0, /**< what kernels read and write; on the CPU: the host's */
    WEFT_MEMORY_PINNED = 1, /**< the host's, for copies to and from a device that do not wait */
} weft_memory_kind;

/** Memory for weights, caches and buffers, aligned to 256 bytes, its contents undefined. Kernels take any
 *  pointer that the device can read: on the CPU also malloc's, on a GPU also another library's.
 *
 *  Owner    the caller: weft_memory_free(), before the context goes
 *  Errors   WEFT_ENOMEM, saying how much there is; WEFT_EINVAL for an unknown kind
 */
WEFT_API weft_status weft_memory_allocate(weft_context *context, weft_memory_kind kind,
                                          size_t bytes, void **out);

/** Frees memory of weft_memory_allocate() when the work that was put on the context's streams before has
 *  been done. NULL is allowed. */
WEFT_API void weft_memory_free(weft_context *context, void *memory);

/** Copies bytes between any two places that the context can reach: host to device, device to host, device
 *  to device, host to host.
 *
 *  Alias    the two places must not overlap
 *  Owner    memory of the host that is not pinned is read before the call returns, and written when the
 *           stream has been waited for
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

/** A stream of its own, beside the context's.
 *
 *  Owner    the caller: weft_stream_destroy(), before the context goes
 *  Errors   WEFT_ENOMEM, WEFT_EDEVICE
 */
WEFT_API weft_status weft_stream_create(weft_context *context, weft_stream **out);

/** The same for a stream of the device's own interface (a CUstream or cudaStream_t), which stays the
 *  caller's.
 *
 *  Errors   WEFT_ENOMEM; WEFT_EUNSUPPORTED on the CPU, which has none
 */
WEFT_API weft_status weft_stream_wrap(weft_context *context, void *native, weft_stream **out);

/** Frees a stream when the work on it has been done. NULL is allowed. */
WEFT_API void weft_stream_destroy(weft_stream *stream);

/** Waits until the work that was put on the stream has been done.
 *
 *  Errors   WEFT_EDEVICE
 */
WEFT_API weft_status weft_stream_synchronize(weft_context *context, weft_stream *stream);

/** An event, not recorded yet.
 *
 *  Owner    the caller: weft_event_destroy(), before the context goes
 *  Errors   WEFT_ENOMEM, WEFT_EDEVICE
 */
WEFT_API weft_status weft_event_create(weft_context *context, weft_event **out);

/** Frees an event. NULL is allowed. */
WEFT_API void weft_event_destroy(weft_event *event);

/** Marks the end of what the stream has been given so far. An event may be recorded again.
 *
 *  Errors   WEFT_EDEVICE
 */
WEFT_API weft_status weft_event_record(weft_event *event, weft_stream *stream);

/** Lets what the stream is given from now on wait for the event; the host does not wait.
 *
 *  Errors   WEFT_EINVAL for an event that was never recorded
 */
WEFT_API weft_status weft_event_wait(weft_event *event, weft_stream *stream);

/** Waits for the event on the calling thread.
 *
 *  Errors   WEFT_EINVAL for an event that was never recorded, WEFT_EDEVICE
 */
WEFT_API weft_status weft_event_synchronize(weft_event *event);

/** Time between two events of one context, waiting for both.
 *
 *  Units    microseconds; half of one is what a GPU can tell
 *  Errors   WEFT_EINVAL for events that were never recorded or of different contexts, WEFT_EDEVICE
 */
WEFT_API weft_status weft_event_elapsed_us(weft_event *begin, weft_event *end, double *us);

#ifdef __cplusplus
}
#endif
#endif
