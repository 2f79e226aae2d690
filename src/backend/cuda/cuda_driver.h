// SPDX-License-Identifier: MIT
// The entry points of the CUDA driver, NVRTC and cuBLASLt that weft uses, declared here and opened with
// dlopen: no toolkit is needed to build, and none of the libraries to start.
//
// Source: the CUDA driver API and NVRTC references of NVIDIA; values are part of their ABI.
#ifndef WEFT_BACKEND_CUDA_DRIVER_H
#define WEFT_BACKEND_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_NOT_READY = 600,
};
enum {
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};
enum {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
};
enum {
    CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
    CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
};
enum { CU_STREAM_NON_BLOCKING = 1, CU_EVENT_DEFAULT = 0, CU_EVENT_DISABLE_TIMING = 2 };
enum { CU_STREAM_CAPTURE_MODE_RELAXED = 2 };
enum { CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2, CU_MEMORYTYPE_HOST = 1 };
enum { CU_MEMHOSTALLOC_PORTABLE = 1 };
enum {
    CU_TENSOR_MAP_UINT16 = 1,
    CU_TENSOR_MAP_INTERLEAVE_NONE = 0,
    CU_TENSOR_MAP_SWIZZLE_NONE = 0,
    CU_TENSOR_MAP_SWIZZLE_128B = 3,
    CU_TENSOR_MAP_L2_128B = 2,
    CU_TENSOR_MAP_FILL_ZEROS = 0,
};

typedef struct CUlaunchAttribute {
    int32_t id;
    char reserved[4];
    union {
        char pad[64];
        struct {
            uint32_t x, y, z;
        } cluster;
        int32_t overlap, cooperative;
    } value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
    uint32_t grid[3], block[3];
    uint32_t shared_bytes;
    CUstream stream;
    CUlaunchAttribute *attributes;
    uint32_t num_attributes;
} CUlaunchConfig;

// X(member, symbol, parameters): functions of libcuda, all returning CUresult.
#define WEFT__CUDA_DRIVER_MAP(X)                                                                   \
    X(init, cuInit, (unsigned flags))                                                              \
    X(driver_version, cuDriverGetVersion, (int *version))                                          \
    X(error_name, cuGetErrorName, (CUresult error, const char **text))                             \
    X(error_string, cuGetErrorString, (CUresult error, const char **text))                         \
    X(device_count, cuDeviceGetCount, (int *count))                                                \
    X(device_get, cuDeviceGet, (CUdevice * device, int index))                                     \
    X(device_name, cuDeviceGetName, (char *name, int bytes, CUdevice device))                      \
    X(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                       \
    X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))        \
    X(primary_retain, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))            \
    X(primary_release, cuDevicePrimaryCtxRelease_v2, (CUdevice device))                            \
    X(context_current, cuCtxGetCurrent, (CUcontext * context))                                     \
    X(context_push, cuCtxPushCurrent_v2, (CUcontext context))                                      \
    X(context_pop, cuCtxPopCurrent_v2, (CUcontext * context))                                      \
    X(context_device, cuCtxGetDevice, (CUdevice * device))                                         \
    X(context_synchronize, cuCtxSynchronize, (void))                                               \
    X(memory_info, cuMemGetInfo_v2, (size_t * available, size_t * total))                          \
    X(memory_allocate, cuMemAlloc_v2, (CUdeviceptr * pointer, size_t bytes))                       \
    X(memory_free, cuMemFree_v2, (CUdeviceptr pointer))                                            \
    X(pinned_allocate, cuMemHostAlloc, (void **pointer, size_t bytes, unsigned flags))             \
    X(pinned_free, cuMemFreeHost, (void *pointer))                                                 \
    X(host_register, cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags))           \
    X(host_unregister, cuMemHostUnregister, (void *memory))                                        \
    X(pointer_attributes, cuPointerGetAttributes,                                                  \
      (unsigned count, const int *attributes, void **values, CUdeviceptr pointer))                 \
    X(copy, cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))      \
    X(fill, cuMemsetD8Async, (CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream))  \
    X(stream_create, cuStreamCreate, (CUstream * stream, unsigned flags))                          \
    X(stream_destroy, cuStreamDestroy_v2, (CUstream stream))                                       \
    X(stream_synchronize, cuStreamSynchronize, (CUstream stream))                                  \
    X(stream_wait, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))            \
    X(capture_begin, cuStreamBeginCapture_v2, (CUstream stream, int mode))                         \
    X(capture_end, cuStreamEndCapture, (CUstream stream, CUgraph * graph))                         \
    X(capturing, cuStreamIsCapturing, (CUstream stream, int *status))                              \
    X(event_create, cuEventCreate, (CUevent * event, unsigned flags))                              \
    X(event_destroy, cuEventDestroy_v2, (CUevent event))                                           \
    X(event_record, cuEventRecord, (CUevent event, CUstream stream))                               \
    X(event_query, cuEventQuery, (CUevent event))                                                  \
    X(event_synchronize, cuEventSynchronize, (CUevent event))                                      \
    X(event_elapsed, cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))        \
    X(graph_instantiate, cuGraphInstantiateWithFlags,                                              \
      (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                               \
    X(graph_launch, cuGraphLaunch, (CUgraphExec exec, CUstream stream))                            \
    X(graph_destroy, cuGraphDestroy, (CUgraph graph))                                              \
    X(graph_nodes, cuGraphGetNodes, (CUgraph graph, CUgraphNode * nodes, size_t * count))          \
    X(exec_destroy, cuGraphExecDestroy, (CUgraphExec exec))                                        \
    X(module_load, cuModuleLoadData, (CUmodule * module, const void *image))                       \
    X(module_unload, cuModuleUnload, (CUmodule module))                                            \
    X(module_function, cuModuleGetFunction,                                                        \
      (CUfunction * function, CUmodule module, const char *name))                                  \
    X(function_get, cuFuncGetAttribute, (int *value, int attribute, CUfunction function))          \
    X(function_set, cuFuncSetAttribute, (CUfunction function, int attribute, int value))           \
    X(tensor_map, cuTensorMapEncodeTiled,                                                          \
      (void *map, int type, uint32_t rank, void *base, const uint64_t *dims,                       \
       const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,        \
       int swizzle, int promotion, int fill))                                                      \
    X(launch, cuLaunchKernelEx,                                                                    \
      (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra))

struct weft__cuda_driver {
#define WEFT__CUDA_MEMBER(member, symbol, parameters) CUresult(*member) parameters;
    WEFT__CUDA_DRIVER_MAP(WEFT__CUDA_MEMBER)
};

typedef struct nvrtcProgram_st *nvrtcProgram;

// X(member, symbol, parameters): functions of NVRTC, all returning 0 for success.
#define WEFT__NVRTC_MAP(X)                                                                         \
    X(version, nvrtcVersion, (int *major, int *minor))                                             \
    X(num_archs, nvrtcGetNumSupportedArchs, (int *count))                                          \
    X(archs, nvrtcGetSupportedArchs, (int *archs))                                                 \
    X(create, nvrtcCreateProgram,                                                                  \
      (nvrtcProgram * program, const char *text, const char *name, int num_headers,                \
       const char *const *headers, const char *const *header_names))                               \
    X(destroy, nvrtcDestroyProgram, (nvrtcProgram * program))                                      \
    X(compile, nvrtcCompileProgram,                                                                \
      (nvrtcProgram program, int num_options, const char *const *options))                         \
    X(cubin_bytes, nvrtcGetCUBINSize, (nvrtcProgram program, size_t * bytes))                      \
    X(cubin, nvrtcGetCUBIN, (nvrtcProgram program, char *cubin))                                   \
    X(ptx_bytes, nvrtcGetPTXSize, (nvrtcProgram program, size_t * bytes))                          \
    X(ptx, nvrtcGetPTX, (nvrtcProgram program, char *ptx))                                         \
    X(log_bytes, nvrtcGetProgramLogSize, (nvrtcProgram program, size_t * bytes))                   \
    X(log, nvrtcGetProgramLog, (nvrtcProgram program, char *log))

struct weft__nvrtc {
#define WEFT__NVRTC_MEMBER(member, symbol, parameters) int(*member) parameters;
    WEFT__NVRTC_MAP(WEFT__NVRTC_MEMBER)
};

// The driver, opened and initialised once per process; NULL when something is missing, *why then one
// line that names it. A driver once opened stays. WEFT_CUDA_DRIVER names another file than
// libcuda.so.1, WEFT_CUDA_NVRTC another than libnvrtc.so (for tests).
const struct weft__cuda_driver *weft__cuda_driver(const char **why);
const struct weft__nvrtc *weft__nvrtc(const char **why);

#endif
