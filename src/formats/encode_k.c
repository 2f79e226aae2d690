// SPDX-License-Identifier: MIT
// K-quants and ternary formats: blocks of 256.
//
// Scales of groups are chosen first, as real numbers; then they are rounded to what the format has for
// them, and every element takes the number that is nearest under the rounded scales.
#include "src/formats/encode.h"

// Groups span [-low, largest] with low >= 0, in `high` steps.
struct spans {
    float step[16], low[16];
    float d, dmin; // of which the groups' steps and lows become multiples 0..most
};

static void measure(struct spans *s, const float *x, int groups, int high, int most)
{
    int elems = 256 / groups;
    for (int j = 0; j < groups; j++) {
        float low = 0, top = x[j * elems];
        for (int i = 0; i < elems; i++) {
            low = fminf(low, x[j * elems + i]);
            top = fmaxf(top, x[j * elems + i]);
        }
        s->low[j] = -low;
        s->step[j] = fmaxf(top - low, 0) / (float)high;
    }
    s->d = weft__largest_magnitude(s->step, groups) / (float)most;
    s->dmin = weft__largest_magnitude(s->low, groups) / (float)most;
}

static void search(struct spans *s, const float *x, const float *weights, int groups, int high,
                   int most)
{
    float group_weights[16];
    int elems = 256 / groups;
    for (int j = 0; j < groups; j++) {
        weft__search_span(x + j * elems, weights + j * elems, elems, high, 0, &s->step[j],
                          &s->low[j]);
        s->low[j] = -s->low[j];
        group_weights[j] = weft__sum(weights + j * elems, elems);
    }
    s->d = weft__search_unsigned(s->step, group_weights, groups, most);
    s->dmin = weft__search_unsigned(s->low, group_weights, groups, most);
}

static struct spans choose(const float *x, const float *weights, int groups, int high, int most)
{
    struct spans s;
    if (weights)
        search(&s, x, weights, groups, high, most);
    else
        measure(&s, x, groups, high, most);
    return s;
}

// The numbers of n elements that share a scale and a minimum.
static void round_span(const float *x, int n, float scale, float minimum, int most, uint8_t *q)
{
    float inverse = weft__inverse(scale);
    for (int i = 0; i < n; i++)
        q[i] = (uint8_t)weft__nearest((x[i] + minimum) * inverse, 0, most);
}

void weft__encode_Q2_K(const float *x, const float *weights, void *out)
{
    struct weft__q2_k *block = out;
    struct spans s = choose(x, weights, 16, 3, 15);
    memset(block, 0, sizeof *block);
    block->d = weft__f16_from_f32(s.d);
    block->dmin = weft__f16_from_f32(s.dmin);
    float d = weft__f16_to_f32(block->d), dmin = weft__f16_to_f32(block->dmin);
    uint8_t q[256];
    for (int j = 0; j < 16; j++) {
        int sc = weft__nearest(s.step[j] * weft__inverse(d), 0, 15);
        int m = weft__nearest(s.low[j] * weft__inverse(dmin), 0, 15);
        block->scales[j] = (uint8_t)(sc | m << 4);
        round_span(x + 16 * j, 16, d * (float)sc, dmin * (float)m, 3, q + 16 * j);
    }
    for (int i = 0; i < 256; i++) {
        uint8_t *byte = &block->q[32 * (i / 128) + i % 32];
        *byte = (uint8_t)(*byte | q[i] << 2 * (i % 128 / 32));
    }
}

static void put_scale_min(uint8_t scales[12], int j, int sc, int m)
{
    if (j < 4) {
        scales[j] = (uint8_t)(scales[j] | sc);
        scales[j + 4] = (uint8_t)(scales[j + 4] | m);
    } else {
        scales[j + 4] = (uint8_t)((sc & 15) | (m & 15) << 4);
        scales[j - 4] = (uint8_t)(scales[j - 4] | (sc >> 4) << 6);
        scales[j] = (uint8_t)(scales[j] | (m >> 4) << 6);
    }
}

// What Q4_K and Q5_K share: d, dmin, 6-bit scales and the numbers.
static void round_k(const float *x, const float *weights, int most, uint16_t *d16, uint16_t *dmin16,
                    uint8_t scales[12], uint8_t q[256])
{
    struct spans s = choose(x, weights, 8, most, 63);
    *d16 = weft__f16_from_f32(s.d);
    *dmin16 = weft__f16_from_f32(s.dmin);
    float d = weft__f16_to_f32(*d16), dmin = weft__f16_to_f32(*dmin16);
    for (int j = 0; j < 8; j++) {
        int sc = weft__nearest(s.step[j] * weft__inverse(d), 0, 63);
        int m = weft__nearest(s.low[j] * weft__inverse(dmin), 0, 63);
        put_scale_min(scales, j, sc, m);
        round_span(x + 32 * j, 32, d * (float)sc, dmin * (float)m, most, q + 32 * j);
    }
}

static void put_nibble(uint8_t q[128], int i, int value)
{
    uint8_t *byte = &q[32 * (i / 64) + i % 32];
    *byte = (uint8_t)(*byte | (i & 32 ? value << 4 : value));
}

void weft__encode_Q4_K(const float *x, const float *weights, void *out)
{
    struct weft__q4_k *block = out;
    uint8_t q[256];
    memset(block, 0, sizeof *block);
    round_k(x, weights, 15, &block->d, &block->dmin, block->scales, q);
    for (int i = 0; i < 256; i++)
        put_nibble(block->q, i, q[i]);
}

void weft__encode_Q5_K(const float *x, const float *weights, void *out)
{
    struct weft__q5_k *block = out;
    uint8_t q[256];
    memset(block, 0, sizeof *block);
    round_k(x, weights, 31, &block->d, &block->dmin, block->scales, q);
    for (int i = 0; i < 256; i++) {
        put_nibble(block->q, i, q[i] & 15);
        block->qh[i % 32] = (uint8_t)(block->qh[i % 32] | (q[i] >> 4) << i / 32);
    }
}

// Scales of the 16 groups of 16, and the d of which they become multiples in [lowest, -lowest - 1]. A
// group's value of largest magnitude becomes `low`, the largest scale `lowest`.
static float scale_groups(const float *x, const float *weights, int low, int high, int lowest,
                          float scale[16])
{
    float group_weights[16];
    if (!weights) {
        for (int k = 0; k < 16; k++)
            scale[k] = weft__largest_signed(x + 16 * k, 16) / (float)low;
        return weft__largest_signed(scale, 16) / (float)lowest;
    }
    for (int k = 0; k < 16; k++) {
        scale[k] = weft__search_scale(x + 16 * k, weights + 16 * k, 16, low, high);
        group_weights[k] = weft__sum(weights + 16 * k, 16);
    }
    return weft__search_scale(scale, group_weights, 16, lowest, -lowest - 1);
}

// Each group's value of largest magnitude becomes -4 of its scale; the block's largest scale becomes -32.
void weft__encode_Q3_K(const float *x, const float *weights, void *out)
{
    struct weft__q3_k *block = out;
    float scale[16];
    memset(block, 0, sizeof *block);
    block->d = weft__f16_from_f32(scale_groups(x, weights, -4, 3, -32, scale));
    float d = weft__f16_to_f32(block->d);
    for (int k = 0; k < 16; k++) {
        int sc = weft__nearest(scale[k] * weft__inverse(d), -32, 31) + 32;
        uint8_t *low = &block->scales[k % 8], *high = &block->scales[8 + k % 4];
        *low = (uint8_t)(*low | (sc & 15) << (k < 8 ? 0 : 4));
        *high = (uint8_t)(*high | (sc >> 4) << 2 * (k / 4));
        float inverse = weft__inverse(d * (float)(sc - 32));
        for (int i = 16 * k; i < 16 * k + 16; i++) {
            int q = weft__nearest(x[i] * inverse, -4, 3) + 4;
            uint8_t *byte = &block->q[32 * (i / 128) + i % 32];
            *byte = (uint8_t)(*byte | (q & 3) << 2 * (i % 128 / 32));
            block->hmask[i % 32] = (uint8_t)(block->hmask[i % 32] | (q >> 2) << i / 32);
        }
    }
}

// Likewise with -32 and -128 when searched for; else max |x| / 31 and 127, which cuts nothing.
void weft__encode_Q6_K(const float *x, const float *weights, void *out)
{
    struct weft__q6_k *block = out;
    float scale[16];
    memset(block, 0, sizeof *block);
    float fitted = scale_groups(x, weights, -32, 31, -128, scale);
    for (int k = 0; !weights && k < 16; k++)
        scale[k] = weft__largest_magnitude(x + 16 * k, 16) / 31;
    if (!weights)
        fitted = weft__largest_magnitude(scale, 16) / 127;
    block->d = weft__f16_from_f32(fitted);
    float d = weft__f16_to_f32(block->d);
    for (int k = 0; k < 16; k++)
        block->sc[k] = (int8_t)weft__nearest(scale[k] * weft__inverse(d), -128, 127);
    for (int i = 0; i < 256; i++) {
        int q = weft__nearest(x[i] * weft__inverse(d * (float)block->sc[i / 16]), -32, 31) + 32;
        int n = i / 128, g = i % 128 / 32, l = i % 32;
        uint8_t *low = &block->ql[64 * n + 32 * (g & 1) + l], *high = &block->qh[32 * n + l];
        *low = (uint8_t)(*low | (g < 2 ? q & 15 : (q & 15) << 4));
        *high = (uint8_t)(*high | (q >> 4) << 2 * g);
    }
}

// Ternary formats hold weights that were trained to be ternary: there is nothing to search.

// The digit 0..2 of a ternary format under the scale max |x|.
static int ternary(float x, float inverse)
{
    return weft__nearest(roundf(x * inverse), -1, 1) + 1;
}

void weft__encode_TQ2_0(const float *x, const float *weights, void *out)
{
    (void)weights;
    struct weft__tq2_0 *block = out;
    float d = weft__largest_magnitude(x, 256), inverse = weft__inverse(d);
    memset(block, 0, sizeof *block);
    block->d = weft__f16_from_f32(d);
    for (int i = 0; i < 256; i++) {
        uint8_t *byte = &block->q[32 * (i / 128) + i % 32];
        *byte = (uint8_t)(*byte | ternary(x[i], inverse) << 2 * (i % 128 / 32));
    }
}

// `count` digits, `stride` elements apart, as the fraction that tq1_0.h describes, rounded up.
static uint8_t ternary_byte(const float *x, int count, int stride, float inverse)
{
    int sum = 0;
    for (int n = 0; n < 5; n++)
        sum = 3 * sum + (n < count ? ternary(x[n * stride], inverse) : 0);
    return (uint8_t)((sum * 256 + 242) / 243);
}

void weft__encode_TQ1_0(const float *x, const float *weights, void *out)
{
    (void)weights;
    struct weft__tq1_0 *block = out;
    float d = weft__largest_magnitude(x, 256), inverse = weft__inverse(d);
    block->d = weft__f16_from_f32(d);
    for (int l = 0; l < 32; l++)
        block->q[l] = ternary_byte(x + l, 5, 32, inverse);
    for (int l = 0; l < 16; l++)
        block->q[32 + l] = ternary_byte(x + 160 + l, 5, 16, inverse);
    for (int l = 0; l < 4; l++)
        block->qh[l] = ternary_byte(x + 240 + l, 4, 4, inverse);
}
