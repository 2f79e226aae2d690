// SPDX-License-Identifier: MIT
// Arithmetic on sizes that says when the result does not fit.
#ifndef WEFT_BASE_CHECKED_H
#define WEFT_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool weft__mul_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool weft__add_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline int64_t weft__ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

// For small non-negative values: `multiple` is a power of two.
static inline int64_t weft__align_up(int64_t value, int64_t multiple)
{
    return (value + multiple - 1) & ~(multiple - 1);
}

// For numbers that only inform: a product that does not fit is a very large one.
static inline int64_t weft__mul_saturated(int64_t a, int64_t b)
{
    int64_t product;
    return weft__mul_i64(a, b, &product) ? product : INT64_MAX / 16;
}

#endif
