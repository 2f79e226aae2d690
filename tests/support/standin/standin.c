// SPDX-License-Identifier: MIT
#include "tests/support/standin/standin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/cuda/cuda_driver.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT struct standin standin;
struct standin standin = {.devices = 1, .sm = 90, .memory_bytes = (size_t)1 << 30};

enum { INVALID_VALUE = 1, INVALID_DEVICE = 101, INVALID_IMAGE = 200, NOT_FOUND = 500 };

// The prototypes of the driver's table are those of the functions.
#define DECLARE(member, symbol, parameters) EXPORT CUresult symbol parameters;
WEFT__CUDA_DRIVER_MAP(DECLARE)
#undef DECLARE
#define DECLARE(member, symbol, parameters) EXPORT int symbol parameters;
WEFT__NVRTC_MAP(DECLARE)
#undef DECLARE

struct CUctx_st {
    int device;
};
static struct CUctx_st primary[8];
static _Thread_local CUcontext stack[16];
static _Thread_local int depth;

// One lock over everything: what is tested is weft.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Work of a stream or a graph.
struct work {
    enum { COPY, FILL, LAUNCH } kind;
    void *to;
    const void *from;
    size_t bytes;
    unsigned char byte;
    struct standin_launch launch;
    struct work *next;
};
struct CUgraph_st {
    struct work *first, **last;
    size_t count;
};
struct CUgraphExec_st {
    CUgraph graph;
};
struct CUstream_st {
    CUgraph capture;
};
struct CUevent_st {
    bool recorded;
};
struct CUfunc_st {
    char name[64];
};
struct CUmod_st {
    struct CUfunc_st function;
};
struct nvrtcProgram_st {
    char text[256], options[4096];
};

// Memory that was given out.
struct area {
    char *base;
    size_t bytes;
    bool pinned;
    struct area *next;
};
static struct area *areas;

static struct area *area_of(uint64_t pointer)
{
    for (struct area *area = areas; area; area = area->next)
        if (pointer >= (uint64_t)(uintptr_t)area->base &&
            pointer < (uint64_t)(uintptr_t)area->base + area->bytes)
            return area;
    return NULL;
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
    snprintf(name, (size_t)bytes, "stand-in GPU %d", device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = standin.memory_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    (void)device;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 50 << 20; break;
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
        return 201;
    *context = stack[--depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    if (depth == 0)
        return 201;
    *device = stack[depth - 1]->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    standin.synchronisations++;
    return standin.lost;
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    *total = standin.memory_bytes;
    *available = standin.memory_bytes - standin.used_bytes;
    return CUDA_SUCCESS;
}

static CUresult allocate(void **out, size_t bytes, bool pinned)
{
    if (standin.lost)
        return standin.lost;
    if (depth == 0)
        return 201; // no context is current on this thread
    pthread_mutex_lock(&lock);
    bool full = !pinned && standin.used_bytes + bytes > standin.memory_bytes;
    standin.allocations++;
    if (full || (standin.fail_alloc > 0 && --standin.fail_alloc == 0)) {
        pthread_mutex_unlock(&lock);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct area *area = malloc(sizeof *area);
    *area = (struct area){aligned_alloc(512, (bytes + 511) / 512 * 512), bytes, pinned, areas};
    areas = area;
    standin.live_allocations++;
    standin.used_bytes += pinned ? 0 : bytes;
    *out = area->base;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static CUresult release(void *pointer)
{
    pthread_mutex_lock(&lock);
    for (struct area **link = &areas; *link; link = &(*link)->next) {
        struct area *area = *link;
        if (area->base != pointer)
            continue;
        *link = area->next;
        standin.live_allocations--;
        standin.frees++;
        standin.used_bytes -= area->pinned ? 0 : area->bytes;
        free(area->base);
        free(area);
        pthread_mutex_unlock(&lock);
        return CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return INVALID_VALUE;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    void *out = NULL;
    CUresult result = allocate(&out, bytes, false);
    if (result == CUDA_SUCCESS)
        *pointer = (CUdeviceptr)(uintptr_t)out;
    return result;
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    return release((void *)(uintptr_t)pointer);
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    return allocate(pointer, bytes, true);
}

CUresult cuMemFreeHost(void *pointer)
{
    return release(pointer);
}

CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    (void)memory;
    (void)bytes;
    (void)flags;
    return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *memory)
{
    (void)memory;
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttributes(unsigned count, const int *attributes, void **values,
                                CUdeviceptr pointer)
{
    if (count != 1 || attributes[0] != CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
        return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct area *area = area_of(pointer);
    *(unsigned *)values[0] = !area ? 0 : area->pinned ? CU_MEMORYTYPE_HOST : 2;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static void do_work(const struct work *work)
{
    switch (work->kind) {
    case COPY:
        memcpy(work->to, work->from, work->bytes);
        standin.copies++;
        break;
    case FILL:
        memset(work->to, work->byte, work->bytes);
        standin.fills++;
        break;
    default:
        if (standin.num_launches < STANDIN_MOST_LAUNCHES)
            standin.launches[standin.num_launches] = work->launch;
        standin.num_launches++;
    }
}

static CUresult submit(CUstream stream, struct work work)
{
    if (standin.lost)
        return standin.lost;
    pthread_mutex_lock(&lock);
    if (stream && stream->capture) {
        struct work *kept = malloc(sizeof *kept);
        *kept = work;
        kept->next = NULL;
        *stream->capture->last = kept;
        stream->capture->last = &kept->next;
        stream->capture->count++;
    } else {
        do_work(&work);
    }
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return submit(stream, (struct work){.kind = COPY,
                                        .to = (void *)(uintptr_t)to,
                                        .from = (void *)(uintptr_t)from,
                                        .bytes = bytes});
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream)
{
    return submit(
        stream,
        (struct work){.kind = FILL, .to = (void *)(uintptr_t)to, .byte = byte, .bytes = bytes});
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void)flags;
    *stream = calloc(1, sizeof **stream);
    standin.live_streams++;
    return standin.lost;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    free(stream);
    standin.live_streams--;
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    (void)stream;
    standin.synchronisations++;
    return standin.lost;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)stream;
    (void)event;
    (void)flags;
    return standin.lost;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    (void)mode;
    if (stream->capture)
        return 900;
    stream->capture = calloc(1, sizeof *stream->capture);
    stream->capture->last = &stream->capture->first;
    standin.live_graphs++;
    return standin.lost;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    if (!stream->capture)
        return 901;
    *graph = stream->capture;
    stream->capture = NULL;
    return standin.lost;
}

CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
    *status = stream && stream->capture;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof **event);
    standin.live_events++;
    return standin.lost;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    free(event);
    standin.live_events--;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    (void)stream;
    event->recorded = true;
    return standin.lost;
}

CUresult cuEventQuery(CUevent event)
{
    (void)event;
    return standin.lost;
}

CUresult cuEventSynchronize(CUevent event)
{
    (void)event;
    standin.synchronisations++;
    return standin.lost;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    *milliseconds = 0.5f;
    return start->recorded && end->recorded ? standin.lost : 400;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    *exec = malloc(sizeof **exec);
    (*exec)->graph = calloc(1, sizeof *graph);
    CUgraph copy = (*exec)->graph;
    copy->last = &copy->first;
    for (const struct work *work = graph->first; work; work = work->next) {
        struct work *kept = malloc(sizeof *kept);
        *kept = *work;
        kept->next = NULL;
        *copy->last = kept;
        copy->last = &kept->next;
        copy->count++;
    }
    standin.live_graphs++;
    return standin.lost;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    (void)stream;
    if (standin.lost)
        return standin.lost;
    pthread_mutex_lock(&lock);
    standin.graph_launches++;
    for (const struct work *work = exec->graph->first; work; work = work->next)
        do_work(work);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    while (graph->first) {
        struct work *work = graph->first;
        graph->first = work->next;
        free(work);
    }
    free(graph);
    standin.live_graphs--;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    (void)nodes;
    *count = graph->count;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    cuGraphDestroy(exec->graph);
    free(exec);
    return CUDA_SUCCESS;
}

// Machine code of the stand-in is this word and the text's name.
static const char magic[] = "STANDIN:";

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    if (standin.lost)
        return standin.lost;
    if (memcmp(image, magic, sizeof magic - 1) != 0)
        return INVALID_IMAGE;
    *module = calloc(1, sizeof **module);
    pthread_mutex_lock(&lock);
    standin.loads++;
    standin.live_modules++;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    free(module);
    standin.live_modules--;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    snprintf(module->function.name, sizeof module->function.name, "%s", name);
    *function = &module->function;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function)
{
    (void)function;
    *value = attribute == CU_FUNC_ATTRIBUTE_NUM_REGS                ? 40
             : attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
                                                                    : 0;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    (void)function;
    (void)attribute;
    return value < 0 ? INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters,
                          void **extra)
{
    struct work work = {.kind = LAUNCH};
    (void)extra;
    if (depth == 0)
        return 201;
    uint64_t threads = (uint64_t)config->block[0] * config->block[1] * config->block[2];
    if (!parameters || threads == 0 || threads > 1024 || config->grid[0] == 0 ||
        config->grid[1] == 0 || config->grid[2] == 0 || config->grid[1] > 65535 ||
        config->grid[2] > 65535 || config->shared_bytes > 232448)
        return INVALID_VALUE;
    memcpy(work.launch.function, function->name, sizeof work.launch.function);
    memcpy(work.launch.grid, config->grid, sizeof work.launch.grid);
    memcpy(work.launch.block, config->block, sizeof work.launch.block);
    work.launch.shared_bytes = config->shared_bytes;
    work.launch.stream = config->stream;
    memcpy(work.launch.args, parameters[0], sizeof work.launch.args);
    return submit(config->stream, work);
}

int nvrtcVersion(int *major, int *minor)
{
    *major = 99;
    *minor = 0;
    return 0;
}

int nvrtcGetNumSupportedArchs(int *count)
{
    *count = 3;
    return 0;
}

int nvrtcGetSupportedArchs(int *archs)
{
    archs[0] = 80;
    archs[1] = 90;
    archs[2] = 120;
    return 0;
}

int nvrtcCreateProgram(nvrtcProgram *program, const char *text, const char *name, int num_headers,
                       const char *const *headers, const char *const *header_names)
{
    (void)text;
    (void)num_headers;
    (void)headers;
    (void)header_names;
    *program = calloc(1, sizeof **program);
    snprintf((*program)->text, sizeof(*program)->text, "%s%s", magic, name);
    return 0;
}

int nvrtcDestroyProgram(nvrtcProgram *program)
{
    free(*program);
    return 0;
}

int nvrtcCompileProgram(nvrtcProgram program, int num_options, const char *const *options)
{
    (void)program;
    (void)num_options;
    (void)options;
    pthread_mutex_lock(&lock);
    standin.compiles++;
    pthread_mutex_unlock(&lock);
    return standin.fail_compile ? 6 : 0;
}

int nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes)
{
    *bytes = strlen(program->text) + 1;
    return 0;
}

int nvrtcGetCUBIN(nvrtcProgram program, char *cubin)
{
    strcpy(cubin, program->text);
    return 0;
}

int nvrtcGetPTXSize(nvrtcProgram program, size_t *bytes)
{
    return nvrtcGetCUBINSize(program, bytes);
}

int nvrtcGetPTX(nvrtcProgram program, char *ptx)
{
    return nvrtcGetCUBIN(program, ptx);
}

int nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes)
{
    (void)program;
    *bytes = standin.fail_compile ? sizeof "line 1: error of the stand-in" : 1;
    return 0;
}

int nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
    (void)program;
    strcpy(log, standin.fail_compile ? "line 1: error of the stand-in" : "");
    return 0;
}
