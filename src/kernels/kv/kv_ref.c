// SPDX-License-Identifier: MIT
#include "src/formats/row.h"
#include "src/kernels/kv/kv_kernel.h"

weft__kv_store_fn weft__kv_ANY_ref;
void weft__kv_ANY_ref(const float *x, void *y, int32_t count, weft_dtype dtype)
{
    if (dtype == WEFT_F32)
        memcpy(y, x, (size_t)count * sizeof *x);
    else
        weft__row_encoder(dtype)(x, count, y);
}
