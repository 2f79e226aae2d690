// SPDX-License-Identifier: MIT
// The text of the SIMD kernels of kv, for any vector width: an ISA file includes its vocabulary, then
// this, then names the functions.
#ifndef WEFT_KERNELS_KV_STORE_H
#define WEFT_KERNELS_KV_STORE_H

#include "src/kernels/kv/kv_kernel.h"

#define KV_STORE(name, elem, store, store_n)                                                       \
    weft__kv_store_fn name;                                                                        \
    void name(const float *x, void *y, int32_t count, weft_dtype dtype)                            \
    {                                                                                              \
        (void)dtype;                                                                               \
        elem *to = y;                                                                              \
        int32_t i = 0;                                                                             \
        for (; i + VF32_LANES <= count; i += VF32_LANES)                                           \
            store(to + i, vf32_load(x + i));                                                       \
        if (i < count)                                                                             \
            store_n(to + i, vf32_load_n(x + i, count - i), count - i);                             \
    }

#define KV_STORES(isa)                                                                             \
    KV_STORE(weft__kv_F16_##isa, uint16_t, vf32_store_f16, vf32_store_f16_n)                       \
    KV_STORE(weft__kv_BF16_##isa, uint16_t, vf32_store_bf16, vf32_store_bf16_n)

#endif
