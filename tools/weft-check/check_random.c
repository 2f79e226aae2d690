// SPDX-License-Identifier: MIT
// Random problems: numbers, lengths that sit on the edges of tiles, hostile values, valid blocks.
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "src/base/half.h"
#include "tools/weft-check/check.h"

// splitmix64 (Steele, Lea and Flood 2014)
uint64_t check_bits(struct check_case *c)
{
    uint64_t z = c->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t check_range(struct check_case *c, int64_t low, int64_t high)
{
    uint64_t span = (uint64_t)(high - low) + 1;
    return low + (int64_t)(span ? check_bits(c) % span : check_bits(c));
}

float check_uniform(struct check_case *c, float low, float high)
{
    return low + (high - low) * (float)(check_bits(c) >> 40) * 0x1p-24f;
}

float check_normal(struct check_case *c)
{
    float u = check_uniform(c, 0x1p-24f, 1), v = check_uniform(c, 0, 6.2831853f);
    return sqrtf(-2 * logf(u)) * cosf(v);
}

int64_t check_pick(struct check_case *c, int n, ...)
{
    int64_t chosen = 0, wanted = check_range(c, 0, n - 1);
    va_list numbers;
    va_start(numbers, n);
    for (int i = 0; i <= wanted; i++)
        chosen = va_arg(numbers, int);
    va_end(numbers);
    return chosen;
}

int64_t check_length(struct check_case *c, int64_t most, int64_t tile)
{
    int64_t length;
    switch (check_range(c, 0, 4)) {
    case 0: length = 1; break;
    case 1: length = check_range(c, 1, 2 * tile + 1); break;
    case 2:
    case 3: length = tile * check_range(c, 1, most / tile + 1) + check_range(c, -1, 1); break;
    default: length = check_range(c, 1, most); break;
    }
    return length < 1 ? 1 : length > most ? most : length;
}

void check_fill(struct check_case *c, float *x, int64_t count)
{
    enum { NORMAL, ONE_SIGN, ONE_HOT, TINY, WIDE, ZERO, STYLES };
    int64_t style = check_range(c, 0, 3 * STYLES); // mostly NORMAL
    int64_t hot = check_range(c, 0, count > 0 ? count - 1 : 0);
    for (int64_t i = 0; i < count; i++)
        switch (style) {
        case ONE_SIGN: x[i] = fabsf(check_normal(c)); break;
        case ONE_HOT: x[i] = i == hot ? 100 : 0; break;
        case TINY: x[i] = check_normal(c) * 0x1p-130f; break;
        case WIDE: x[i] = ldexpf(check_normal(c), (int)check_range(c, -12, 8)); break;
        case ZERO: x[i] = check_bits(c) & 1 ? 0.0f : -0.0f; break;
        default: x[i] = check_normal(c); break;
        }
}

// A finite f16 scale: mostly of the size that trained models have, now and then 0, subnormal or large.
static uint16_t random_scale(struct check_case *c)
{
    switch (check_range(c, 0, 15)) {
    case 0: return 0;
    case 1: return (uint16_t)check_range(c, 1, 0x3ff);
    case 2: return weft__f16_from_f32(check_uniform(c, -100, 100));
    default: return weft__f16_from_f32(check_normal(c) * 0.02f);
    }
}

static void fill_plain(struct check_case *c, weft_dtype dtype, void *out, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float value = check_normal(c);
        if (dtype == WEFT_F32)
            memcpy((char *)out + 4 * i, &value, 4);
        uint16_t half = dtype == WEFT_F16 ? weft__f16_from_f32(value) : weft__bf16_from_f32(value);
        if (dtype != WEFT_F32)
            memcpy((char *)out + 2 * i, &half, 2);
    }
}

void check_fill_blocks(struct check_case *c, weft_dtype dtype, void *blocks, int64_t count)
{
    // Where a block keeps its f16 scales.
    int first = 0, second = -1;
    if (weft_dtype_block_elems(dtype) == 1) {
        fill_plain(c, dtype, blocks, count);
        return;
    }
    if (dtype == WEFT_Q4_K)
        second = 2;
    if (dtype == WEFT_Q6_K)
        first = 208;
    unsigned char *block = blocks;
    int64_t bytes = weft_dtype_block_bytes(dtype);
    for (int64_t n = count / weft_dtype_block_elems(dtype); n > 0; n--, block += bytes) {
        for (int64_t i = 0; i < bytes; i++)
            block[i] = (unsigned char)check_bits(c);
        uint16_t scale = random_scale(c);
        memcpy(block + first, &scale, sizeof scale);
        scale = random_scale(c);
        if (second >= 0)
            memcpy(block + second, &scale, sizeof scale);
    }
}
