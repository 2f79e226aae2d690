// SPDX-License-Identifier: MIT
// Activations of other formats than f32.
#include <math.h>

#include "src/kernels/check.h"
#include "src/kernels/element.h"

weft_dtype check_dtype(struct check_case *c)
{
    return (weft_dtype)check_pick(c, 4, WEFT_F32, WEFT_F32, WEFT_F16, WEFT_BF16);
}

void check_round(weft_dtype dtype, float *x, int64_t count)
{
    const float most = 60000; // of f16; a problem has infinities only where it draws them
    for (int64_t i = 0; dtype != WEFT_F32 && i < count; i++) {
        if (dtype == WEFT_F16 && isfinite(x[i]))
            x[i] = fminf(fmaxf(x[i], -most), most);
        unsigned char half[4];
        weft__element_store(half, dtype, 0, x[i]);
        x[i] = weft__element_load(half, dtype, 0);
    }
}

void *check_narrow(struct check_case *c, weft_dtype dtype, const float *x, int64_t count)
{
    size_t bytes = dtype == WEFT_F32 ? 4 : 2;
    void *y = check_buffer(c, (size_t)count * bytes, bytes);
    weft__elements_narrow(x, count, y, dtype);
    return y;
}

float *check_widen(struct check_case *c, weft_dtype dtype, const void *x, int64_t count)
{
    float *y = check_room(c, (size_t)count * sizeof *y);
    weft__elements_widen(x, dtype, count, y);
    return y;
}

void check_close_as(struct check_case *c, weft_dtype dtype, double got, double want, double bound,
                    const char *what, int64_t at)
{
    double most = dtype == WEFT_F16 ? 65504 : 0x1.fep127; // finite numbers of the format
    if (dtype == WEFT_F16)
        bound += 0x1p-11 * (fabs(want) + bound) + 0x1p-25;
    if (dtype == WEFT_BF16)
        bound += 0x1p-8 * (fabs(want) + bound) + 0x1p-134;
    if (dtype != WEFT_F32 && isfinite(want) && isinf(got) && got * want > 0 &&
        fabs(want) + bound >= most)
        return;
    check_close(c, got, want, bound, what, at);
}
