// SPDX-License-Identifier: MIT
// Problems whose plans between them ask for a sample of every CUDA kernel.
#ifndef WEFT_TESTS_CUDA_SAMPLES_H
#define WEFT_TESTS_CUDA_SAMPLES_H

#include <stdbool.h>

#include "src/backend/backend.h"

struct cuda_sample {
    char name[96];
    enum weft__op op;
    const void *desc; // settled, as plan->desc; valid until the next call
    bool seldom;      // compiled only where WEFT_TEST_ALL_KERNELS is set: one of many of its kind
    bool optional;    // may be unsupported on some devices
    int32_t sm;       // planned for devices of this compute capability alone, 0: for all
};

int cuda_num_samples(void);
struct cuda_sample cuda_sample(int n);

#endif
