// SPDX-License-Identifier: MIT
// Pipelines: kernels compiled for one device with one set of function constants.
//
//      want  -->  [memory] --> [disk cache] --> NVRTC --> module in the driver context --> ready
//
// A plan asks for its pipelines and goes on; threads of the backend compile in the background, many at
// once. Whoever needs a pipeline waits for it: weft__cuda_pipeline_wait() before the first launch, or
// weft__cuda_pipelines_finish() for all, with progress. A pipeline lives as long as its context.
#ifndef WEFT_BACKEND_CUDA_PIPELINE_H
#define WEFT_BACKEND_CUDA_PIPELINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "src/backend/cuda/cuda_driver.h"
#include "src/base/sha256.h"
#include "src/kernels/cuda/launch.h"

struct weft__cuda;

enum weft__pipeline_state {
    WEFT__PIPELINE_WAITING,
    WEFT__PIPELINE_COMPILING,
    WEFT__PIPELINE_READY,
    WEFT__PIPELINE_FAILED,
};

struct weft__cuda_pipeline {
    struct weft__cuda_kernel kernel;
    char name[192];    // function and the constants that are not 0: what logs and listings show
    _Atomic int state; // enum weft__pipeline_state; the members below are settled once it is READY
    CUmodule module;
    CUfunction function;
    int32_t registers, spill_bytes, shared_bytes, max_threads;
    bool from_disk;
    bool lazy;     // not compiled before somebody waits for it
    char why[512]; // of a failure
    struct weft__cuda_pipeline *next;
};

enum { WEFT__CUDA_MOST_COMPILERS = 16 };

struct weft__cuda_pipelines {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct weft__cuda_pipeline *first, **last;
    int32_t count, settled; // settled: ready or failed
    int32_t waiting;
    pthread_t compilers[WEFT__CUDA_MOST_COMPILERS];
    int32_t num_compilers;
    bool closing;
};

void weft__cuda_pipelines_open(struct weft__cuda *cuda);
void weft__cuda_pipelines_close(struct weft__cuda *cuda);

// The pipeline of a kernel; compiled in the background if it is new and not lazy. WEFT_ENOMEM only.
weft_status weft__cuda_pipeline_want(weft_context *context, const struct weft__cuda_kernel *kernel,
                                     struct weft__cuda_pipeline **out);

// Waits for one pipeline. WEFT_EDEVICE or WEFT_EUNSUPPORTED with the compiler's words on failure.
weft_status weft__cuda_pipeline_wait(weft_context *context, struct weft__cuda_pipeline *pipeline);

// Waits for all that have been asked for. progress(user, done, count) is called whenever one is done.
weft_status weft__cuda_pipelines_finish(weft_context *context, weft_progress_fn *progress,
                                        void *user);

// The n-th that has been asked for, once it is settled; false past the last.
bool weft__cuda_instance_at(weft_context *context, int32_t n, weft_instance_info *info);

// Machine code from NVRTC; also for devices that are not there (tests).
struct weft__cuda_image {
    char *data;
    size_t bytes;
};

// Compiles for an architecture ("sm_90a"; "compute_90" gives PTX). `log` receives the compiler's words.
// verbose: the log holds ptxas' report of registers, shared memory and spills. WEFT__base_release()
// frees image->data.
weft_status weft__cuda_compile(const struct weft__nvrtc *nvrtc,
                               const struct weft__cuda_kernel *kernel, const char *arch,
                               bool verbose, struct weft__cuda_image *image, char *log,
                               size_t log_bytes);

// The architecture to compile for: the device's own if the compiler knows it ("sm_90a"), a lesser one of
// its family, or PTX of the newest that the compiler knows.
void weft__cuda_arch(const struct weft__nvrtc *nvrtc, int32_t sm, char arch[16]);

// "function[NAME=value,...]" of the constants that are not 0.
void weft__cuda_kernel_name(const struct weft__cuda_kernel *kernel, char *name, size_t bytes);

// What decides the machine code: texts, function, constants, options, compiler, architecture.
void weft__cuda_kernel_key(const struct weft__nvrtc *nvrtc, const struct weft__cuda_kernel *kernel,
                           const char *arch, unsigned char key[WEFT__SHA256_BYTES]);

#endif
