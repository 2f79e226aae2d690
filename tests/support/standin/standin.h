// SPDX-License-Identifier: MIT
// A stand-in for the CUDA driver, NVRTC and cuBLASLt: the entry points that weft opens, on memory of the host. Kernels
// are compiled to a name and launched into a log, products likewise; copies and fills are done; streams, events
// and graphs keep order. Tests load it through WEFT_CUDA_DRIVER, WEFT_CUDA_NVRTC and WEFT_CUDA_CUBLASLT and
// steer it through `standin`.
#ifndef WEFT_TESTS_STANDIN_H
#define WEFT_TESTS_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STANDIN_MOST_LAUNCHES = 1024 };

struct standin_launch {
    char function[64];
    uint32_t grid[3], block[3], shared_bytes;
    bool overlaps; // may start before the launch before it has ended
    void *stream;
    _Alignas(64) unsigned char args[1024]; // the beginning of the argument struct
};

struct standin {
    // What the machine is.
    int devices, sm;
    size_t memory_bytes;
    // What goes wrong.
    int fail_init;      // result of cuInit
    int64_t fail_alloc; // the n-th allocation from now (1 = the next) has no memory; 0 = none
    int lost;           // result of everything that touches the device
    bool fail_compile;  // NVRTC refuses the text
    bool blas_fails_create, blas_finds_nothing; // cuBLASLt
    // The n-th product from now (1 = the next) is refused, and all behind it; 0 = none.
    int64_t blas_fails;
    // What happened.
    int64_t allocations, live_allocations, frees, copies, fills, synchronisations, compiles, loads;
    int64_t blas_asked, live_blas;
    int64_t live_modules, live_streams, live_events, live_graphs, graph_launches, retained;
    size_t used_bytes;
    int num_launches;
    struct standin_launch launches[STANDIN_MOST_LAUNCHES];
};

#endif
