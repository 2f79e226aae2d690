// SPDX-License-Identifier: MIT
#include "src/backend/cuda/cuda_context.h"

#include <stdio.h>
#include <string.h>

#include "src/backend/cuda/cuda_backend.h"
#include "src/base/memory.h"

enum { LEAST_SM = 80 };

static int attribute(const struct weft__cuda_driver *driver, CUdevice device, int which)
{
    int value = 0;
    driver->device_attribute(&value, which, device);
    return value;
}

void weft__cuda_limits(const struct weft__cuda_driver *driver, CUdevice device,
                       struct weft__cuda_limits *limits)
{
#define LIMIT(name) attribute(driver, device, CU_DEVICE_ATTRIBUTE_##name)
    limits->sm = 10 * LIMIT(COMPUTE_CAPABILITY_MAJOR) + LIMIT(COMPUTE_CAPABILITY_MINOR);
    limits->num_sms = LIMIT(MULTIPROCESSOR_COUNT);
    limits->shared_per_block = LIMIT(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    limits->shared_per_sm = LIMIT(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    limits->registers_per_sm = LIMIT(MAX_REGISTERS_PER_MULTIPROCESSOR);
    limits->threads_per_sm = LIMIT(MAX_THREADS_PER_MULTIPROCESSOR);
    limits->l2_bytes = LIMIT(L2_CACHE_SIZE);
#undef LIMIT
}

// The caller's own driver context if it names one, else the device's primary one: what PyTorch and the
// runtime API use too, so that pointers can be shared.
// Of a driver context of the caller's: which device it is of, whatever the descriptor says.
static CUresult caller_handle(struct weft__cuda *cuda, CUcontext handle, int count)
{
    const struct weft__cuda_driver *driver = cuda->driver;
    CUcontext gone;
    CUdevice device;
    cuda->handle = handle;
    CUresult result = driver->context_push(handle);
    if (result != CUDA_SUCCESS)
        return result;
    result = driver->context_device(&cuda->device);
    driver->context_pop(&gone);
    for (int i = 0; i < count; i++)
        if (driver->device_get(&device, i) == CUDA_SUCCESS && device == cuda->device)
            cuda->index = i;
    return result;
}

static weft_status choose_handle(weft_context *context, struct weft__cuda *cuda,
                                 const weft_context_desc *desc)
{
    const struct weft__cuda_driver *driver = cuda->driver;
    int count = 0;
    CUresult result = driver->device_count(&count);
    if (result != CUDA_SUCCESS)
        return weft__cuda_fail(context, result, "counting devices");
    if (desc->device_index < 0 || desc->device_index >= count)
        return weft__fail(context, count ? WEFT_EINVAL : WEFT_EUNSUPPORTED,
                          "there is no GPU %d: this machine has %d", desc->device_index, count);
    cuda->index = desc->device_index;
    if (desc->native_context) {
        result = caller_handle(cuda, desc->native_context, count);
    } else {
        result = driver->device_get(&cuda->device, desc->device_index);
        if (result == CUDA_SUCCESS)
            result = driver->primary_retain(&cuda->handle, cuda->device);
        cuda->retained = result == CUDA_SUCCESS;
    }
    return result == CUDA_SUCCESS ? WEFT_OK
                                  : weft__cuda_fail(context, result, "opening the device");
}

static weft_status open_streams(weft_context *context, struct weft__cuda *cuda,
                                const weft_context_desc *desc)
{
    bool entered = weft__cuda_enter(cuda);
    CUresult result = CUDA_SUCCESS;
    if (desc->native_stream) {
        cuda->compute = desc->native_stream;
    } else {
        result = cuda->driver->stream_create(&cuda->compute, CU_STREAM_NON_BLOCKING);
        cuda->owns_compute = result == CUDA_SUCCESS;
    }
    weft__cuda_leave(cuda, entered);
    return result == CUDA_SUCCESS ? WEFT_OK : weft__cuda_fail(context, result, "opening a stream");
}

weft_status weft__cuda_open(weft_context *context, const weft_context_desc *desc)
{
    const char *why, *compiler_why;
    struct weft__cuda *cuda = weft__base_allocate(NULL, sizeof *cuda);
    if (!cuda)
        return weft__fail(context, WEFT_ENOMEM, "no memory for a context");
    memset(cuda, 0, sizeof *cuda);
    context->device = cuda;
    cuda->driver = weft__cuda_driver(&why);
    weft__cuda_pipelines_open(cuda);
    weft__cuda_blas_open(cuda);
    weft__cuda_memory_open(cuda);
    if (!cuda->driver)
        return weft__fail(context, WEFT_EUNSUPPORTED, "%s", why);
    if (!weft__nvrtc(&compiler_why))
        return weft__fail(context, WEFT_EUNSUPPORTED, "%s", compiler_why);
    weft_status status = choose_handle(context, cuda, desc);
    if (status != WEFT_OK)
        return status;
    weft__cuda_limits(cuda->driver, cuda->device, &cuda->limits);
    if (cuda->driver->device_name(cuda->name, sizeof cuda->name, cuda->device) != CUDA_SUCCESS)
        cuda->name[0] = 0;
    if (cuda->limits.sm < LEAST_SM)
        return weft__fail(context, WEFT_EUNSUPPORTED,
                          "the GPU has compute capability %d.%d; weft needs 8.0 (Ampere) or newer",
                          cuda->limits.sm / 10, cuda->limits.sm % 10);
    return open_streams(context, cuda, desc);
}

void weft__cuda_close(weft_context *context)
{
    struct weft__cuda *cuda = context->device;
    if (!cuda)
        return;
    bool entered = cuda->handle && weft__cuda_enter(cuda);
    if (cuda->compute)
        cuda->driver->stream_synchronize(cuda->compute);
    weft__cuda_pipelines_close(cuda);
    weft__cuda_blas_close(cuda);
    weft__cuda_memory_close(cuda);
    if (cuda->owns_compute)
        cuda->driver->stream_destroy(cuda->compute);
    weft__cuda_leave(cuda, entered);
    if (cuda->retained)
        cuda->driver->primary_release(cuda->device);
    weft__base_release(NULL, cuda);
    context->device = NULL;
}
