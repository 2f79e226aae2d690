// SPDX-License-Identifier: MIT
// The contract of softmax kernels: rows [row0, row1) of a run whose arguments have been checked and
// whose strides have been settled. Serial and in place.
#ifndef WEFT_KERNELS_SOFTMAX_KERNEL_H
#define WEFT_KERNELS_SOFTMAX_KERNEL_H

#include <math.h>

#include <weft/softmax.h>

#include "src/kernels/kernel.h"

struct weft__softmax_launch;

typedef void weft__softmax_fn(const struct weft__softmax_launch *launch,
                              const weft_softmax_args *args, int64_t row0, int64_t row1);

// What becomes an exponent: z = (x * half + shift) * scale.
struct weft__softmax_exponent {
    float half, shift, scale;
};

// A piece of a row in three passes, between which the pieces' results are put together: the largest
// sign * x; the exponentials, which f32 leaves in x, and their sum; these times the inverse of all sums.
struct weft__softmax_passes {
    float (*largest)(const void *x, weft_dtype dtype, int64_t dim, float sign);
    double (*sum)(void *x, weft_dtype dtype, int64_t dim, struct weft__softmax_exponent exponent);
    void (*finish)(void *x, weft_dtype dtype, int64_t dim, struct weft__softmax_exponent exponent,
                   float inverse);
};

struct weft__softmax_kernel {
    struct weft__kernel base;
    weft__softmax_fn *run;
    const struct weft__softmax_passes *passes; // of NULL where run does whole rows only
};

enum { WEFT__SOFTMAX_MAX_PIECES = 64 };

// Elements of a piece: of the length of a row alone, so that sums are made in one order.
static inline int64_t weft__softmax_piece(int64_t dim)
{
    const int64_t least = 4096, unit = 64;
    int64_t share = (dim - 1) / WEFT__SOFTMAX_MAX_PIECES + 1;
    return share <= least ? least : (share + unit - 1) / unit * unit;
}

// z = scale * (x - m) with the element m whose product is the largest: the difference is rounded to its
// own size, so that rows far from 0 keep their precision, and products that exceed f32 do not arise. A
// small scale may bring back a difference that exceeds f32: then half of it is taken.
static inline struct weft__softmax_exponent weft__softmax_exponent(float largest, float scale)
{
    float sign = scale < 0 ? -1 : 1, half = fabsf(scale) < 1 ? 0.5f : 1, most = largest * sign;
    if (largest == -INFINITY)
        most = 0; // every exponential is 0, and so is every result
    return (struct weft__softmax_exponent){half, -most * half, scale / half};
}

// What a plan decides.
struct weft__softmax_launch {
    const struct weft__softmax_kernel *kernel;
    int64_t dim;
    float scale;
    weft_dtype dtype; // f32 but for the reference
    int64_t rows_per_task;
};

#endif
