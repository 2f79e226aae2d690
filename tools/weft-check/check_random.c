// SPDX-License-Identifier: MIT
// Random problems: numbers, lengths that sit on the edges of tiles, hostile values, valid blocks.
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "src/kernels/check.h"

static const uint64_t step = 0x9e3779b97f4a7c15u;

// splitmix64 (Steele, Lea and Flood 2014)
uint64_t check_bits(struct check_case *c)
{
    uint64_t z = c->state += step;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t check_derived(uint64_t shape, int32_t number)
{
    struct check_case of = {.state = shape ^ (uint64_t)(uint32_t)number * 0xd1342543de82ef95u};
    return check_bits(&of);
}

// Eight bytes a draw, though it counts as one a byte: what the seeds that people wrote down draw next stays.
void check_fill_bytes(struct check_case *c, unsigned char *data, size_t bytes)
{
    uint64_t next = c->state + bytes * step;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t bits = check_bits(c);
        memcpy(data + i, &bits, bytes - i < 8 ? bytes - i : 8);
    }
    c->state = next;
}

void check_skip_bytes(struct check_case *c, size_t bytes)
{
    c->state += bytes * step;
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

enum { AT_ONCE = 64 };

// ln u, u a normal number: u = 2^e m, m in [sqrt(1/2), sqrt(2)), and the series of artanh((m - 1) / (m + 1)).
static void logarithms(float x[AT_ONCE])
{
    for (int i = 0; i < AT_ONCE; i++) {
        int32_t bits, above;
        memcpy(&bits, &x[i], sizeof bits);
        above = bits - 0x3f3504f3;
        bits = (above & 0x7fffff) + 0x3f3504f3;
        float m;
        memcpy(&m, &bits, sizeof m);
        const float z = (m - 1) / (m + 1), zz = z * z;
        const float series = 2 + zz * (2 / 3.f + zz * (2 / 5.f + zz * (2 / 7.f + zz * (2 / 9.f))));
        x[i] = (float)(above >> 23) * 0.693147181f + z * series;
    }
}

// cos(2 pi t), t in [0, 1): the series of the sine of the distance from the nearer of 1/4 and 3/4.
static void cosines(float t[AT_ONCE])
{
    for (int i = 0; i < AT_ONCE; i++) {
        const float x = 6.28318531f * (fabsf(t[i] - 0.5f) - 0.25f), xx = x * x;
        t[i] = x * (1 - xx * (1 / 6.f - xx * (1 / 120.f - xx * (1 / 5040.f - xx / 362880))));
    }
}

void check_normals(struct check_case *c, float *x, int64_t count)
{
    float u[AT_ONCE], t[AT_ONCE];
    for (int64_t first = 0; first < count; first += AT_ONCE) {
        const int64_t some = count - first < AT_ONCE ? count - first : AT_ONCE;
        for (int i = 0; i < AT_ONCE; i++)
            u[i] = t[i] = 1;
        for (int64_t i = 0; i < some; i++) {
            u[i] = check_uniform(c, 0x1p-24f, 1);
            t[i] = check_uniform(c, 0, 1);
        }
        logarithms(u);
        cosines(t);
        for (int i = 0; i < AT_ONCE; i++)
            u[i] = sqrtf(-2 * u[i]) * t[i];
        memcpy(x + first, u, (size_t)some * sizeof *x);
    }
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
    if (style <= ONE_SIGN || style >= STYLES) {
        check_normals(c, x, count);
        for (int64_t i = 0; style == ONE_SIGN && i < count; i++)
            x[i] = fabsf(x[i]);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        switch (style) {
        case ONE_HOT: x[i] = i == hot ? 100 : 0; break;
        case TINY: x[i] = check_normal(c) * 0x1p-130f; break;
        case WIDE: x[i] = ldexpf(check_normal(c), (int)check_range(c, -12, 8)); break;
        default: x[i] = check_bits(c) & 1 ? 0.0f : -0.0f; break;
        }
}

// INFINITY if an element is not finite.
static float largest_magnitude(weft_dtype dtype, const void *block, int32_t elems)
{
    float y[256], largest = 0;
    weft_dequantize_row(dtype, block, elems, y);
    for (int32_t i = 0; i < elems; i++)
        largest = isfinite(y[i]) ? fmaxf(largest, fabsf(y[i])) : INFINITY;
    return largest;
}

// Random bytes, thrown again until their largest magnitude lies in [low, high]. Where that is rare the
// range widens: formats have scales of 5 to 8 bits of exponent, or none.
static void throw_block(struct check_case *c, weft_dtype dtype, unsigned char *block, float low,
                        float high)
{
    int32_t elems = weft_dtype_block_elems(dtype), bytes = weft_dtype_block_bytes(dtype);
    for (int32_t tries = 0;; tries++) {
        for (int32_t i = 0; i < bytes; i += 8) {
            uint64_t bits = check_bits(c);
            memcpy(block + i, &bits, (size_t)(bytes - i < 8 ? bytes - i : 8));
        }
        float largest = largest_magnitude(dtype, block, elems);
        if (largest >= low && largest <= high)
            return;
        high = tries > 16 && high < 1e5f ? high * 2 : high;
    }
}

// Mostly of the size that trained models have; now and then zero, subnormal scales, or large.
static void fill_block(struct check_case *c, weft_dtype dtype, unsigned char *block)
{
    switch (check_range(c, 0, 15)) {
    case 0: memset(block, 0, (size_t)weft_dtype_block_bytes(dtype)); break;
    case 1: throw_block(c, dtype, block, 0, 255 * 0x1p-14f); break;
    case 2: throw_block(c, dtype, block, 0, 1e4f); break;
    default: throw_block(c, dtype, block, 0x1p-5f, 8); break;
    }
}

void check_fill_blocks(struct check_case *c, weft_dtype dtype, void *blocks, int64_t count)
{
    unsigned char *block = blocks;
    int32_t elems = weft_dtype_block_elems(dtype), bytes = weft_dtype_block_bytes(dtype);
    for (int64_t i = 0; i < count; i += elems, block += bytes) {
        float value = check_normal(c);
        if (elems == 1 && bytes > 1)
            weft_quantize_row(dtype, &value, 1, block);
        else if (elems == 1) // all codes but NaN
            throw_block(c, dtype, block, 0, 1e5f);
        else
            fill_block(c, dtype, block);
    }
}
