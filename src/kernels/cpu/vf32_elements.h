// SPDX-License-Identifier: MIT
// Elements of f32, f16 and bf16 as vectors of f32: the first n lanes, the others are zero and are not stored. An ISA
// file includes this after its vocabulary.
#ifndef WEFT_KERNELS_CPU_VF32_ELEMENTS_H
#define WEFT_KERNELS_CPU_VF32_ELEMENTS_H

#include <weft/format.h>

static inline vf32 vf32_load_element(const void *x, weft_dtype dtype, int64_t i, int n)
{
    if (dtype == WEFT_F32)
        return vf32_load_n((const float *)x + i, n);
    const uint16_t *half = (const uint16_t *)x + i;
    return dtype == WEFT_F16 ? vf32_load_f16_n(half, n) : vf32_load_bf16_n(half, n);
}

static inline void vf32_store_element(void *y, weft_dtype dtype, int64_t i, vf32 value, int n)
{
    uint16_t *half = (uint16_t *)y + i;
    if (dtype == WEFT_F32)
        vf32_store_n((float *)y + i, value, n);
    else if (dtype == WEFT_F16)
        vf32_store_f16_n(half, value, n);
    else
        vf32_store_bf16_n(half, value, n);
}

#endif
