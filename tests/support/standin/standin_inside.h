// SPDX-License-Identifier: MIT
// What the files of the stand-in share.
#pragma once

#include <pthread.h>
#include <string.h>

#include "src/backend/cuda/cuda_driver.h"
#include "tests/support/emulator/emulator.h"
#include "tests/support/standin/standin.h"

#define EXPORT __attribute__((visibility("default")))

extern struct standin standin;

// One lock over everything: what is tested is weft.
extern pthread_mutex_t standin_lock;

// Is a context current on this thread?
bool standin_has_context(void);

// The name of the function that a module was asked for.
const char *standin_function_name(CUfunction function);

// Does the emulator run what is launched (STANDIN_RUN)?
bool standin_runs(void);
void standin_function_run(CUfunction function, struct emulator_launch *launch);

// A product that cuBLASLt was asked for: what each matrix is (words of its layout), where it lies.
struct standin_product {
    uint64_t a_layout[4], b_layout[4], c_layout[4], d_layout[4];
    const void *a, *b, *c;
    void *d, *workspace;
    float alpha, beta;
};
void standin_multiply(const struct standin_product *product);
CUresult standin_submit_product(CUstream stream, const struct standin_product *product);

// Machine code of the stand-in is this word and the text's name.
#define STANDIN_MAGIC "STANDIN:"

enum {
    INVALID_VALUE = 1,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    NO_CONTEXT = 201,
    NOT_FOUND = 500,
};

// The prototypes of the driver's table are those of the functions.
#define DECLARE(member, symbol, parameters) EXPORT CUresult symbol parameters;
WEFT__CUDA_DRIVER_MAP(DECLARE)
#undef DECLARE
#define DECLARE(member, symbol, parameters) EXPORT int symbol parameters;
WEFT__NVRTC_MAP(DECLARE)
#undef DECLARE
