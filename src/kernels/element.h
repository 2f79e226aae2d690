// SPDX-License-Identifier: MIT
// Elements of activations: f32, f16 or bf16, which one said at run time. Kernels that are written for f32
// read and write other formats through these, a few at a time.
#ifndef WEFT_KERNELS_ELEMENT_H
#define WEFT_KERNELS_ELEMENT_H

#include <weft/types.h>

#include "src/base/half.h"

// Where element i lies.
static inline const void *weft__element_at(const void *x, weft_dtype dtype, int64_t i)
{
    return (const char *)x + i * (dtype == WEFT_F32 ? 4 : 2);
}

static inline void *weft__element_to(void *y, weft_dtype dtype, int64_t i)
{
    return (char *)y + i * (dtype == WEFT_F32 ? 4 : 2);
}

static inline float weft__element_load(const void *x, weft_dtype dtype, int64_t i)
{
    if (dtype == WEFT_F32)
        return ((const float *)x)[i];
    uint16_t half = ((const uint16_t *)x)[i];
    return dtype == WEFT_F16 ? weft__f16_to_f32(half) : weft__bf16_to_f32(half);
}

// Rounds to nearest even.
static inline void weft__element_store(void *y, weft_dtype dtype, int64_t i, float value)
{
    if (dtype == WEFT_F32)
        ((float *)y)[i] = value;
    else
        ((uint16_t *)y)[i] =
            dtype == WEFT_F16 ? weft__f16_from_f32(value) : weft__bf16_from_f32(value);
}

static inline void weft__elements_widen(const void *x, weft_dtype dtype, int64_t count, float *y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = weft__element_load(x, dtype, i);
}

static inline void weft__elements_narrow(const float *x, int64_t count, void *y, weft_dtype dtype)
{
    for (int64_t i = 0; i < count; i++)
        weft__element_store(y, dtype, i, x[i]);
}

#endif
