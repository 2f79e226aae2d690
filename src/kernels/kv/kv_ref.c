// SPDX-License-Identifier: MIT
#include "src/base/half.h"
#include "src/kernels/kv/kv_kernel.h"

weft__kv_store_fn weft__kv_F32_ref;
void weft__kv_F32_ref(const float *x, void *y, int32_t count)
{
    memcpy(y, x, (size_t)count * sizeof *x);
}

weft__kv_store_fn weft__kv_F16_ref;
void weft__kv_F16_ref(const float *x, void *y, int32_t count)
{
    uint16_t *half = y;
    for (int32_t i = 0; i < count; i++)
        half[i] = weft__f16_from_f32(x[i]);
}

weft__kv_store_fn weft__kv_BF16_ref;
void weft__kv_BF16_ref(const float *x, void *y, int32_t count)
{
    uint16_t *half = y;
    for (int32_t i = 0; i < count; i++)
        half[i] = weft__bf16_from_f32(x[i]);
}
