// SPDX-License-Identifier: MIT
// i-quants: scales of groups from their largest magnitude, then the nearest points of the lattice.
#include "src/formats/encode.h"

// Each group's value of largest magnitude becomes the lowest level; the block's largest scale becomes
// -32.
void weft__encode_IQ4_XS(const float *x, void *out)
{
    struct weft__iq4_xs *block = out;
    float scale[8];
    memset(block, 0, sizeof *block);
    for (int j = 0; j < 8; j++)
        scale[j] = weft__largest_signed(x + 32 * j, 32) / weft__iq4_levels[0];
    block->d = weft__f16_from_f32(weft__largest_signed(scale, 8) / -32);
    float d = weft__f16_to_f32(block->d);
    for (int j = 0; j < 8; j++) {
        int sc = weft__nearest(scale[j] * weft__inverse(d), -32, 31) + 32;
        block->scales_l[j / 2] = (uint8_t)(block->scales_l[j / 2] | (sc & 15) << 4 * (j & 1));
        block->scales_h = (uint16_t)(block->scales_h | (sc >> 4) << 2 * j);
        float inverse = weft__inverse(d * (float)(sc - 32));
        for (int l = 0; l < 16; l++) {
            const float *at = x + 32 * j + l;
            int low = weft__nearest_level(weft__iq4_levels, at[0] * inverse);
            int high = weft__nearest_level(weft__iq4_levels, at[16] * inverse);
            block->q[16 * j + l] = (uint8_t)(low | high << 4);
        }
    }
}

// The point nearest to `want`, whose coordinates are bytes of grid[n]; signed_bytes: -1, 0, 1.
static int nearest_point8(const uint64_t *grid, int count, const float want[8], int signed_bytes)
{
    int best = 0;
    float least = INFINITY;
    for (int n = 0; n < count; n++) {
        float distance = 0;
        for (int j = 0; j < 8; j++) {
            uint8_t byte = (uint8_t)(grid[n] >> 8 * j);
            float off = want[j] - (signed_bytes ? (float)(int8_t)byte : (float)byte);
            distance += off * off;
        }
        if (distance < least) {
            least = distance;
            best = n;
        }
    }
    return best;
}

static int nearest_point4(const uint32_t *grid, int count, const float want[4])
{
    int best = 0;
    float least = INFINITY;
    for (int n = 0; n < count; n++) {
        float distance = 0;
        for (int j = 0; j < 4; j++) {
            float off = want[j] - (float)(grid[n] >> 8 * j & 255);
            distance += off * off;
        }
        if (distance < least) {
            least = distance;
            best = n;
        }
    }
    return best;
}

// Signs of eight numbers as bits, and their magnitudes times `inverse`. With `even`, the number of
// negative signs is made even: the smallest magnitude changes sides and counts as negative.
static uint8_t split_signs(const float *x, float inverse, int even, float magnitude[8])
{
    unsigned signs = 0;
    int smallest = 0, negative = 0;
    for (int j = 0; j < 8; j++) {
        magnitude[j] = fabsf(x[j]) * inverse;
        if (x[j] < 0) {
            signs |= 1u << j;
            negative++;
        }
        smallest = magnitude[j] < magnitude[smallest] ? j : smallest;
    }
    if (even && negative % 2 != 0) {
        signs ^= 1u << smallest;
        magnitude[smallest] = -magnitude[smallest];
    }
    return (uint8_t)signs;
}

// Scales for `groups` groups that make the largest magnitude `top`: d and codes 0..most, of which a
// group's scale is d * (first + code) * unit.
struct group_scales {
    uint16_t d16;
    float d;
    int code[16];
};

static struct group_scales scale_groups(const float *x, int groups, float top, float first,
                                        int most, float unit)
{
    struct group_scales s;
    float wanted[16];
    int elems = 256 / groups;
    for (int k = 0; k < groups; k++)
        wanted[k] = weft__largest_magnitude(x + k * elems, elems) / top;
    s.d16 = weft__f16_from_f32(weft__largest_magnitude(wanted, groups) /
                               ((first + (float)most) * unit));
    s.d = weft__f16_to_f32(s.d16);
    for (int k = 0; k < groups; k++)
        s.code[k] = weft__nearest(wanted[k] * weft__inverse(s.d * unit) - first, 0, most);
    return s;
}

static float inverse_scale(const struct group_scales *s, int k, float first, float unit)
{
    return weft__inverse(s->d * (first + (float)s->code[k]) * unit);
}

void weft__encode_IQ2_XXS(const float *x, void *out)
{
    struct weft__iq2_xxs *block = out;
    struct group_scales s = scale_groups(x, 8, 43, 0.5f, 15, 0.25f);
    block->d = s.d16;
    for (int j = 0; j < 8; j++) {
        float magnitude[8], inverse = inverse_scale(&s, j, 0.5f, 0.25f);
        uint32_t signs = (uint32_t)s.code[j] << 28;
        uint8_t point[4];
        for (int l = 0; l < 4; l++) {
            uint32_t sign = split_signs(x + 32 * j + 8 * l, inverse, 1, magnitude);
            signs |= (sign & 127) << 7 * l;
            point[l] = (uint8_t)nearest_point8(weft__iq2_xxs_grid, 256, magnitude, 0);
        }
        memcpy(block->q + 4 * j, point, sizeof point);
        memcpy(block->q + 4 * j + 2, &signs, sizeof signs);
    }
}

void weft__encode_IQ2_XS(const float *x, void *out)
{
    struct weft__iq2_xs *block = out;
    struct group_scales s = scale_groups(x, 16, 43, 0.5f, 15, 0.25f);
    block->d = s.d16;
    for (int l = 0; l < 32; l++) {
        float magnitude[8];
        int sign = split_signs(x + 8 * l, inverse_scale(&s, l / 2, 0.5f, 0.25f), 1, magnitude);
        int point = nearest_point8(weft__iq2_xs_grid, 512, magnitude, 0);
        block->q[l] = (uint16_t)(point | (sign & 127) << 9);
    }
    for (int k = 0; k < 8; k++)
        block->scales[k] = (uint8_t)(s.code[2 * k] | s.code[2 * k + 1] << 4);
}

void weft__encode_IQ2_S(const float *x, void *out)
{
    struct weft__iq2_s *block = out;
    struct group_scales s = scale_groups(x, 16, 43, 0.5f, 15, 0.25f);
    memset(block, 0, sizeof *block);
    block->d = s.d16;
    for (int l = 0; l < 32; l++) {
        float magnitude[8], inverse = inverse_scale(&s, l / 2, 0.5f, 0.25f);
        block->sign[l] = split_signs(x + 8 * l, inverse, 0, magnitude);
        int point = nearest_point8(weft__iq2_s_grid, 1024, magnitude, 0);
        block->q[l] = (uint8_t)point;
        block->qh[l / 4] = (uint8_t)(block->qh[l / 4] | (point >> 8) << 2 * (l % 4));
    }
    for (int k = 0; k < 8; k++)
        block->scales[k] = (uint8_t)(s.code[2 * k] | s.code[2 * k + 1] << 4);
}

void weft__encode_IQ3_XXS(const float *x, void *out)
{
    struct weft__iq3_xxs *block = out;
    struct group_scales s = scale_groups(x, 8, 62, 0.5f, 15, 0.5f);
    block->d = s.d16;
    for (int j = 0; j < 8; j++) {
        float magnitude[8], inverse = inverse_scale(&s, j, 0.5f, 0.5f);
        uint32_t signs = (uint32_t)s.code[j] << 28;
        for (int l = 0; l < 4; l++) {
            uint32_t sign = split_signs(x + 32 * j + 8 * l, inverse, 1, magnitude);
            signs |= (sign & 127) << 7 * l;
            uint8_t *q = block->q + 8 * j + 2 * l;
            q[0] = (uint8_t)nearest_point4(weft__iq3_xxs_grid, 256, magnitude);
            q[1] = (uint8_t)nearest_point4(weft__iq3_xxs_grid, 256, magnitude + 4);
        }
        memcpy(block->signs + 2 * j, &signs, sizeof signs);
    }
}

// Scales are d * (1 + 2 code) = d * (0.5 + code) * 2.
void weft__encode_IQ3_S(const float *x, void *out)
{
    struct weft__iq3_s *block = out;
    struct group_scales s = scale_groups(x, 8, 15, 0.5f, 15, 2);
    memset(block, 0, sizeof *block);
    block->d = s.d16;
    for (int l = 0; l < 32; l++) {
        float magnitude[8];
        block->sign[l] = split_signs(x + 8 * l, inverse_scale(&s, l / 4, 0.5f, 2), 0, magnitude);
        for (int n = 2 * l; n < 2 * l + 2; n++) {
            int point = nearest_point4(weft__iq3_s_grid, 512, magnitude + 4 * (n & 1));
            block->q[n] = (uint8_t)point;
            block->qh[n / 8] = (uint8_t)(block->qh[n / 8] | (point >> 8) << n % 8);
        }
    }
    for (int k = 0; k < 4; k++)
        block->scales[k] = (uint8_t)(s.code[2 * k] | s.code[2 * k + 1] << 4);
}

// The better of both shifts for `points` points of eight: the point numbers and whether the shift is
// negative.
static int shifted_points(const float *x, int points, float inverse, int number[4])
{
    float least = INFINITY;
    int negative = 0;
    for (int minus = 0; minus < 2; minus++) {
        float error = 0, shift = minus ? -0.125f : 0.125f;
        int found[4];
        for (int p = 0; p < points; p++) {
            float want[8], got[8];
            for (int j = 0; j < 8; j++)
                want[j] = x[8 * p + j] * inverse - shift;
            found[p] = nearest_point8(weft__iq1_grid, 2048, want, 1);
            weft__iq_point3(weft__iq1_grid[found[p]], 0, 1, got);
            for (int j = 0; j < 8; j++)
                error += (want[j] - got[j]) * (want[j] - got[j]);
        }
        if (error < least || minus == 0) {
            least = error;
            negative = minus;
            memcpy(number, found, (size_t)points * sizeof *found);
        }
    }
    return negative;
}

void weft__encode_IQ1_S(const float *x, void *out)
{
    struct weft__iq1_s *block = out;
    struct group_scales s = scale_groups(x, 8, 1.125f, 0.5f, 7, 2);
    block->d = s.d16;
    for (int j = 0; j < 8; j++) {
        int number[4];
        int negative = shifted_points(x + 32 * j, 4, inverse_scale(&s, j, 0.5f, 2), number);
        int qh = s.code[j] << 12 | negative << 15;
        for (int l = 0; l < 4; l++) {
            block->q[4 * j + l] = (uint8_t)number[l];
            qh |= (number[l] >> 8) << 3 * l;
        }
        block->qh[j] = (uint16_t)qh;
    }
}

void weft__encode_IQ1_M(const float *x, void *out)
{
    struct weft__iq1_m *block = out;
    struct group_scales s = scale_groups(x, 16, 1.125f, 0.5f, 7, 2);
    memset(block, 0, sizeof *block);
    for (int n = 0; n < 4; n++)
        block->scales[n] = (uint16_t)((s.d16 >> 4 * n & 15) << 12);
    for (int k = 0; k < 16; k++) {
        uint16_t *scales = &block->scales[k / 4];
        *scales = (uint16_t)(*scales | s.code[k] << 3 * (k % 4));
        for (int half = 0; half < 2; half++) {
            int number[4], l = 2 * k + half;
            int negative = shifted_points(x + 8 * l, 1, inverse_scale(&s, k, 0.5f, 2), number);
            block->q[l] = (uint8_t)number[0];
            int h = number[0] >> 8 | negative << 3;
            block->qh[k] = (uint8_t)(block->qh[k] | h << 4 * half);
        }
    }
}
