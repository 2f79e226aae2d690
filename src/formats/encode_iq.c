// SPDX-License-Identifier: MIT
// i-quants: scales of groups first, then, under the rounded scales, the nearest levels or points of the
// lattice. Where scales are searched for, the block's own is fitted once more to what came of it.
#include "src/formats/lattice.h"

// Each group's value of largest magnitude becomes the lowest level; the block's largest scale becomes
// -32.
void weft__encode_IQ4_XS(const float *x, const float *weights, void *out)
{
    struct weft__iq4_xs *block = out;
    float scale[8], group_weights[8];
    memset(block, 0, sizeof *block);
    for (int j = 0; j < 8; j++) {
        const float *at = x + 32 * j;
        scale[j] = weights ? weft__search_levels(at, weights + 32 * j, 32, weft__iq4_levels)
                           : weft__largest_signed(at, 32) / weft__iq4_levels[0];
        group_weights[j] = weights ? weft__sum(weights + 32 * j, 32) : 1;
    }
    float fitted = weights ? weft__search_scale(scale, group_weights, 8, -32, 31)
                           : weft__largest_signed(scale, 8) / -32;
    block->d = weft__f16_from_f32(fitted);
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

// The numbers of a block as the lattices of magnitudes see them.
struct magnitudes {
    float x[256];
    uint8_t signs[32]; // a bit for each of eight
};

// With `even`, the number of negative signs among eight is made even: the number that matters least changes
// sides and counts as negative.
static void split_signs(const float *x, const float *weights, int even, struct magnitudes *m)
{
    for (int l = 0; l < 32; l++) {
        unsigned signs = 0, negative = 0;
        int least = 8 * l;
        float least_cost = INFINITY;
        for (int i = 8 * l; i < 8 * l + 8; i++) {
            float cost = x[i] * x[i] * (weights ? weights[i] : 1);
            m->x[i] = fabsf(x[i]);
            if (x[i] < 0) {
                signs |= 1u << i % 8;
                negative++;
            }
            if (cost < least_cost) {
                least_cost = cost;
                least = i;
            }
        }
        if (even && negative % 2 != 0) {
            signs ^= 1u << least % 8;
            m->x[least] = -m->x[least];
        }
        m->signs[l] = (uint8_t)signs;
    }
}

// Scales of groups: d * (0.5 + code) * unit, code in 0..most.
struct group_scales {
    uint16_t d16;
    float d, unit;
    int code[16];
};

static float group_scale(const struct group_scales *s, int k)
{
    return s->d * (0.5f + (float)s->code[k]) * s->unit;
}

static void round_scales(struct group_scales *s, const float *wanted, int groups, int most, float d)
{
    s->d16 = weft__f16_from_f32(d);
    s->d = weft__f16_to_f32(s->d16);
    for (int k = 0; k < groups; k++)
        s->code[k] = weft__nearest(wanted[k] * weft__inverse(s->d * s->unit) - 0.5f, 0, most);
}

// The d under which the groups' scales lose least, by group weights; NULL: the largest scale fits.
static void settle_scales(struct group_scales *s, const float *wanted, const float *weights,
                          int groups, int most)
{
    float largest = weft__largest_magnitude(wanted, groups), least = INFINITY;
    float best = largest / ((0.5f + (float)most) * s->unit), first = best;
    for (int n = -4; weights && n <= 8; n++) {
        float error = 0;
        round_scales(s, wanted, groups, most, first * (1 + 0.02f * (float)n));
        for (int k = 0; k < groups; k++) {
            float off = group_scale(s, k) - wanted[k];
            error += weights[k] * off * off;
        }
        if (error < least) {
            least = error;
            best = first * (1 + 0.02f * (float)n);
        }
    }
    round_scales(s, wanted, groups, most, best);
}

static struct group_scales choose_scales(const struct weft__lattice *lattice, const float *x,
                                         const float *weights, int groups, float unit)
{
    struct group_scales s = {.unit = unit};
    float wanted[16], group_weights[16];
    int elems = 256 / groups;
    for (int k = 0; k < groups; k++) {
        const float *at = x + k * elems;
        wanted[k] = weights
                        ? weft__lattice_scale(lattice, at, weights + k * elems, elems, 0)
                        : weft__largest_magnitude(at, elems) / lattice->level[lattice->levels - 1];
        group_weights[k] = weights ? weft__sum(weights + k * elems, elems) : 1;
    }
    settle_scales(&s, wanted, weights ? group_weights : NULL, groups, 15);
    return s;
}

// The points of all 256 numbers under the settled scales, and d fitted to them.
static void choose_points(const struct weft__lattice *lattice, const float *x, const float *weights,
                          int groups, struct group_scales *s, int points[64])
{
    float y[256];
    int elems = 256 / groups;
    for (int i = 0; i < 256; i += lattice->coordinates) {
        float scale = group_scale(s, i / elems);
        points[i / lattice->coordinates] = weft__lattice_nearest(
            lattice, x + i, weights ? weights + i : NULL, weft__inverse(scale), 0, y + i);
        for (int j = i; j < i + lattice->coordinates; j++)
            y[j] *= scale;
    }
    if (weights)
        s->d16 = weft__f16_from_f32(s->d * weft__best_factor(x, weights, y, 256));
}

// All that an i-quant of magnitudes needs to be told.
struct encoded {
    struct magnitudes m;
    struct group_scales s;
    int points[64];
};

static void encode(const struct weft__lattice *lattice, const float *x, const float *weights,
                   int groups, float unit, int even, struct encoded *e)
{
    split_signs(x, weights, even, &e->m);
    e->s = choose_scales(lattice, e->m.x, weights, groups, unit);
    choose_points(lattice, e->m.x, weights, groups, &e->s, e->points);
}

// Four times seven signs and the scale of group j.
static uint32_t signs_and_scale(const struct encoded *e, int j)
{
    uint32_t word = (uint32_t)e->s.code[j] << 28;
    for (int l = 0; l < 4; l++)
        word |= (uint32_t)(e->m.signs[4 * j + l] & 127) << 7 * l;
    return word;
}

static void put_scales(const struct encoded *e, int groups, uint8_t *scales)
{
    for (int k = 0; k < groups; k += 2)
        scales[k / 2] = (uint8_t)(e->s.code[k] | e->s.code[k + 1] << 4);
}

void weft__encode_IQ2_XXS(const float *x, const float *weights, void *out)
{
    struct weft__iq2_xxs *block = out;
    struct encoded e;
    encode(&weft__iq2_xxs_lattice, x, weights, 8, 0.25f, 1, &e);
    block->d = e.s.d16;
    for (int j = 0; j < 8; j++) {
        uint32_t signs = signs_and_scale(&e, j);
        uint8_t point[4];
        for (int l = 0; l < 4; l++)
            point[l] = (uint8_t)e.points[4 * j + l];
        memcpy(block->q + 4 * j, point, sizeof point);
        memcpy(block->q + 4 * j + 2, &signs, sizeof signs);
    }
}

void weft__encode_IQ2_XS(const float *x, const float *weights, void *out)
{
    struct weft__iq2_xs *block = out;
    struct encoded e;
    encode(&weft__iq2_xs_lattice, x, weights, 16, 0.25f, 1, &e);
    block->d = e.s.d16;
    for (int l = 0; l < 32; l++)
        block->q[l] = (uint16_t)(e.points[l] | (e.m.signs[l] & 127) << 9);
    put_scales(&e, 16, block->scales);
}

void weft__encode_IQ2_S(const float *x, const float *weights, void *out)
{
    struct weft__iq2_s *block = out;
    struct encoded e;
    encode(&weft__iq2_s_lattice, x, weights, 16, 0.25f, 0, &e);
    memset(block, 0, sizeof *block);
    block->d = e.s.d16;
    for (int l = 0; l < 32; l++) {
        block->sign[l] = e.m.signs[l];
        block->q[l] = (uint8_t)e.points[l];
        block->qh[l / 4] = (uint8_t)(block->qh[l / 4] | (e.points[l] >> 8) << 2 * (l % 4));
    }
    put_scales(&e, 16, block->scales);
}

void weft__encode_IQ3_XXS(const float *x, const float *weights, void *out)
{
    struct weft__iq3_xxs *block = out;
    struct encoded e;
    encode(&weft__iq3_xxs_lattice, x, weights, 8, 0.5f, 1, &e);
    block->d = e.s.d16;
    for (int n = 0; n < 64; n++)
        block->q[n] = (uint8_t)e.points[n];
    for (int j = 0; j < 8; j++) {
        uint32_t signs = signs_and_scale(&e, j);
        memcpy(block->signs + 2 * j, &signs, sizeof signs);
    }
}

// Scales are d * (1 + 2 code) = d * (0.5 + code) * 2.
void weft__encode_IQ3_S(const float *x, const float *weights, void *out)
{
    struct weft__iq3_s *block = out;
    struct encoded e;
    encode(&weft__iq3_s_lattice, x, weights, 8, 2, 0, &e);
    memset(block, 0, sizeof *block);
    block->d = e.s.d16;
    for (int n = 0; n < 64; n++) {
        block->q[n] = (uint8_t)e.points[n];
        block->qh[n / 8] = (uint8_t)(block->qh[n / 8] | (e.points[n] >> 8) << n % 8);
    }
    memcpy(block->sign, e.m.signs, sizeof block->sign);
    put_scales(&e, 8, block->scales);
}

// --- ternary lattices: points of -1, 0, 1 with a shift of 1/8 up or down -------------------------------

struct shifted {
    struct group_scales s;
    int points[32];
    uint8_t negative[32]; // of each point: is it shifted down?
};

// Points of one run that shares a shift; the error under `scale`, and values in y.
static float run_points(const float *x, const float *weights, int points, float scale, float shift,
                        int *found, float *y)
{
    float error = 0, inverse = weft__inverse(scale);
    for (int p = 0; p < points; p++)
        found[p] =
            weft__lattice_nearest(&weft__iq1_lattice, x + 8 * p, weights ? weights + 8 * p : NULL,
                                  inverse, shift, y + 8 * p);
    for (int i = 0; i < 8 * points; i++) {
        y[i] *= scale;
        error += (weights ? weights[i] : 1) * (x[i] - y[i]) * (x[i] - y[i]);
    }
    return error;
}

// Chooses the better shift for every `run` points of group k under its settled scale.
static void choose_shifts(struct shifted *e, const float *x, const float *weights, int groups,
                          int run, float y[256])
{
    for (int first = 0; first < 32; first += run) {
        float scale = group_scale(&e->s, first * groups / 32), least = INFINITY;
        for (int down = 0; down < 2; down++) {
            int found[4];
            float values[32];
            float error = run_points(x + 8 * first, weights ? weights + 8 * first : NULL, run,
                                     scale, down ? -0.125f : 0.125f, found, values);
            if (!(error < least) && down)
                continue;
            least = error;
            memcpy(y + 8 * first, values, (size_t)run * 8 * sizeof *values);
            for (int p = 0; p < run; p++) {
                e->points[first + p] = found[p];
                e->negative[first + p] = (uint8_t)down;
            }
        }
    }
}

static void encode_shifted(const float *x, const float *weights, int groups, int run,
                           struct shifted *e)
{
    float wanted[16], group_weights[16], y[256];
    int elems = 256 / groups;
    e->s = (struct group_scales){.unit = 2};
    for (int k = 0; k < groups; k++) {
        const float *at = x + k * elems;
        wanted[k] = weights ? weft__lattice_scale(&weft__iq1_lattice, at, weights + k * elems,
                                                  elems, 0.125f)
                            : weft__largest_magnitude(at, elems) / 1.125f;
        group_weights[k] = weights ? weft__sum(weights + k * elems, elems) : 1;
    }
    settle_scales(&e->s, wanted, weights ? group_weights : NULL, groups, 7);
    choose_shifts(e, x, weights, groups, run, y);
    if (weights)
        e->s.d16 = weft__f16_from_f32(e->s.d * weft__best_factor(x, weights, y, 256));
}

void weft__encode_IQ1_S(const float *x, const float *weights, void *out)
{
    struct weft__iq1_s *block = out;
    struct shifted e;
    encode_shifted(x, weights, 8, 4, &e);
    block->d = e.s.d16;
    for (int j = 0; j < 8; j++) {
        int qh = e.s.code[j] << 12 | e.negative[4 * j] << 15;
        for (int l = 0; l < 4; l++) {
            block->q[4 * j + l] = (uint8_t)e.points[4 * j + l];
            qh |= (e.points[4 * j + l] >> 8) << 3 * l;
        }
        block->qh[j] = (uint16_t)qh;
    }
}

void weft__encode_IQ1_M(const float *x, const float *weights, void *out)
{
    struct weft__iq1_m *block = out;
    struct shifted e;
    encode_shifted(x, weights, 16, 1, &e);
    memset(block, 0, sizeof *block);
    for (int n = 0; n < 4; n++)
        block->scales[n] = (uint16_t)((e.s.d16 >> 4 * n & 15) << 12);
    for (int k = 0; k < 16; k++)
        block->scales[k / 4] = (uint16_t)(block->scales[k / 4] | e.s.code[k] << 3 * (k % 4));
    for (int l = 0; l < 32; l++) {
        int h = e.points[l] >> 8 | e.negative[l] << 3;
        block->q[l] = (uint8_t)e.points[l];
        block->qh[l / 2] = (uint8_t)(block->qh[l / 2] | h << 4 * (l & 1));
    }
}
