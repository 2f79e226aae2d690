// SPDX-License-Identifier: MIT
// The CUDA backend's table.
#include "src/backend/cuda/cuda_backend.h"

#include <pthread.h>
#include <stdio.h>

#include "src/backend/cuda/cuda_context.h"
#include "src/kernels/attention/attention_device.h"
#include "src/kernels/linear/linear_cuda_shape.h"

static bool fits(const weft_context *context, const struct weft__kernel *row)
{
    const char *why;
    struct weft__cuda *cuda = weft__cuda_of(context);
    return weft__cuda_fits(&cuda->limits, row) &&
           (row->level != WEFT__CUDA_cublaslt || weft__cuda_blas_usable(cuda, &why));
}

static const char *level_name(int32_t level)
{
    return level == WEFT__CUDA_sm90a      ? "sm_90a"
           : level == WEFT__CUDA_cublaslt ? "cublaslt"
                                          : "sm_80";
}

static const char *level(const weft_context *context)
{
    return level_name(weft__cuda_of(context)->limits.sm == 90 ? WEFT__CUDA_sm90a : WEFT__CUDA_sm80);
}

static int32_t threads(const weft_context *context)
{
    (void)context;
    return 1;
}

static int32_t count(void)
{
    const char *why;
    int number = 0;
    const struct weft__cuda_driver *driver = weft__cuda_driver(&why);
    return driver && driver->device_count(&number) == CUDA_SUCCESS ? number : 0;
}

static weft_status describe(int32_t index, weft_device_info *info)
{
    const char *why;
    const struct weft__cuda_driver *driver = weft__cuda_driver(&why);
    struct weft__cuda_limits limits;
    CUdevice device;
    size_t bytes = 0;
    if (!driver || driver->device_get(&device, index) != CUDA_SUCCESS ||
        driver->device_memory(&bytes, device) != CUDA_SUCCESS ||
        driver->device_name(info->name, sizeof info->name, device) != CUDA_SUCCESS)
        return WEFT_EDEVICE;
    weft__cuda_limits(driver, device, &limits);
    info->cores = limits.num_sms;
    info->memory_bytes = (int64_t)bytes;
    info->cache_bytes = limits.l2_bytes;
    snprintf(info->architecture, sizeof info->architecture, "sm_%d", limits.sm);
    snprintf(info->tier, sizeof info->tier, "%s", weft__linear_tier(&limits)->name);
    return WEFT_OK;
}

// Kernels of a GPU have shapes of their own: what can be chosen is the kernel, and for attention where shapes change.
static const char *tuning_fault(const weft_tuning *entry)
{
    if (entry->few_batch || entry->task_bytes || entry->tasks_per_thread)
        return "a GPU chooses linear layers by `kernel` alone";
    if (entry->block_keys || entry->least_chunk || entry->target_tasks)
        return "a GPU chooses attention by `kernel`, `tile_rows`, `few_keys` and `cluster_keys` "
               "alone";
    return entry->tile_rows && entry->tile_rows <= WEFT__ATTENTION_ROWS
               ? "tile_rows of a GPU are those of prompts, more than 16"
               : NULL;
}

static int32_t device_index(const weft_context *context)
{
    return weft__cuda_of(context)->index;
}

static bool is_host(const weft_context *context, const void *pointer)
{
    return weft__cuda_is_host(weft__cuda_of(context), pointer);
}

static struct weft__backend backend = {
    .name = "cuda",
    .release_plan = weft__cuda_release_plan,
    .open = weft__cuda_open,
    .close = weft__cuda_close,
    .fits = fits,
    .level_name = level_name,
    .level = level,
    .rounded_row_bytes = weft__cuda_rounded_row_bytes,
    .packed_bytes = weft__cuda_packed_bytes,
    .pack = weft__cuda_pack,
    .layout = "tiles",
    .threads = threads,
    .instance_at = weft__cuda_instance_at,
    .prewarm = weft__cuda_pipelines_finish,
    .tuning_fault = tuning_fault,
    .device_index = device_index,
    .count = count,
    .describe = describe,
    .is_host = is_host,
    .allocate = weft__cuda_allocate,
    .release = weft__cuda_free,
    .lend = weft__cuda_lend,
    .take_back = weft__cuda_take_back,
    .copy = weft__cuda_copy,
    .fill = weft__cuda_fill,
    .stream_create = weft__cuda_stream_create,
    .stream_wrap = weft__cuda_stream_wrap,
    .stream_destroy = weft__cuda_stream_destroy,
    .stream_synchronize = weft__cuda_stream_synchronize,
    .event_create = weft__cuda_event_create,
    .event_destroy = weft__cuda_event_destroy,
    .event_record = weft__cuda_event_record,
    .event_wait = weft__cuda_event_wait,
    .event_synchronize = weft__cuda_event_synchronize,
    .event_elapsed_us = weft__cuda_event_elapsed_us,
    .program_begin = weft__cuda_program_begin,
    .program_record = weft__cuda_program_record,
    .program_end = weft__cuda_program_end,
    .program_launch = weft__cuda_program_launch,
    .program_destroy = weft__cuda_program_destroy,
    .batch_open = weft__cuda_batch_open,
    .batch_set = weft__cuda_batch_set,
    .batch_take = weft__cuda_batch_take,
    .batch_advance = weft__cuda_batch_advance,
    .batch_close = weft__cuda_batch_close,
};

// Every operation goes the same way.
static void fill_operations(void)
{
    for (int op = 0; op < WEFT__OP_COUNT; op++) {
        backend.tables[op] = weft__cuda_op((enum weft__op)op)->table;
        backend.prepare[op] = weft__cuda_prepare;
        backend.submit[op] = weft__cuda_submit;
    }
    backend.submit[WEFT__OP_probe] = weft__cuda_submit_probe;
}

const struct weft__backend *weft__backend_cuda(const char **why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!weft__cuda_driver(why))
        return NULL;
    pthread_once(&once, fill_operations);
    return &backend;
}
