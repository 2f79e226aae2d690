// SPDX-License-Identifier: MIT
// The driver's start, its devices and contexts.
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/standin/standin_inside.h"

EXPORT struct standin standin;
struct standin standin = {.devices = 1, .sm = 90, .memory_bytes = (size_t)1 << 30};

struct CUctx_st {
    int device;
};
static struct CUctx_st primary[8];
static _Thread_local CUcontext stack[16];
static _Thread_local int depth;

pthread_mutex_t standin_lock = PTHREAD_MUTEX_INITIALIZER;

bool standin_has_context(void)
{
    return depth > 0;
}

CUresult cuInit(unsigned flags)
{
    (void)flags;
    const char *devices = getenv("STANDIN_DEVICES"), *fail = getenv("STANDIN_FAIL_INIT");
    if (devices)
        standin.devices = atoi(devices);
    if (fail)
        standin.fail_init = atoi(fail);
    return standin.devices == 0 ? CUDA_ERROR_NO_DEVICE : standin.fail_init;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
    (void)error;
    *text = "STANDIN_ERROR";
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    *text = error == 700 ? "an illegal memory access was encountered" : "an error of the stand-in";
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    *count = standin.devices;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int index)
{
    if (index < 0 || index >= standin.devices)
        return INVALID_DEVICE;
    *device = index;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    const char *text = getenv("STANDIN_NAME");
    if (text)
        snprintf(name, (size_t)bytes, "%s", text);
    else
        snprintf(name, (size_t)bytes, "stand-in GPU %d", device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = standin.memory_bytes;
    return CUDA_SUCCESS;
}

// An H200's, or what the environment says: where all blocks of a launch run at the same time, few SMs are emulated.
static int standin_own(const char *name, int of_h200)
{
    const char *text = getenv(name);
    return text ? atoi(text) : of_h200;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    (void)device;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = standin_own("STANDIN_SMS", 132); break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = standin_own("STANDIN_L2", 50 << 20); break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = 2048; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = standin.sm / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = standin.sm % 10; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = 233472; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: *value = 65536; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 232448; break;
    default: return INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    primary[device].device = device;
    *context = &primary[device];
    standin.retained++;
    return standin.lost;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    (void)device;
    standin.retained--;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = depth ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    if (depth == 16)
        return INVALID_VALUE;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    if (depth == 0)
        return NO_CONTEXT;
    *context = stack[--depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    if (depth == 0)
        return NO_CONTEXT;
    *device = stack[depth - 1]->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    standin.synchronisations++;
    return standin.lost;
}
