// SPDX-License-Identifier: MIT
#ifndef ENGINE_BASE_CHECKED_H
#define ENGINE_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Arithmetic on numbers that come from a file or a caller. True when *result holds the exact result;
// false when it does not fit, and then *result must not be used.

static inline bool checked_add(size_t a, size_t b, size_t *result)
{
    return !__builtin_add_overflow(a, b, result);
}

static inline bool checked_mul(size_t a, size_t b, size_t *result)
{
    return !__builtin_mul_overflow(a, b, result);
}

static inline bool checked_add_i64(int64_t a, int64_t b, int64_t *result)
{
    return !__builtin_add_overflow(a, b, result);
}

static inline bool checked_mul_i64(int64_t a, int64_t b, int64_t *result)
{
    return !__builtin_mul_overflow(a, b, result);
}

static inline bool is_power_of_two(size_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

// The next multiple of alignment, which is a power of two.
static inline bool checked_round_up(size_t value, size_t alignment, size_t *result)
{
    size_t mask = alignment - 1;
    if (__builtin_add_overflow(value, mask, result))
        return false;
    *result &= ~mask;
    return true;
}

// A 64-bit count or offset as a size_t: exact on 64-bit machines, checked on others.
static inline bool checked_size(uint64_t value, size_t *result)
{
    *result = (size_t)value;
    return (uint64_t)*result == value;
}

#endif
