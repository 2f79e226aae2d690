// SPDX-License-Identifier: MIT
// A run of the sampler as the CUDA backend hands it on.
#ifndef WEFT_KERNELS_SAMPLE_CUDA_H
#define WEFT_KERNELS_SAMPLE_CUDA_H

#include <stdbool.h>

#include <weft/sample.h>

struct weft__sample_cuda_args {
    weft_sample_args base;
    bool
        device_reads_params; // they lie in its memory or in pinned memory; else they travel with the launches
};

#endif
