// SPDX-License-Identifier: MIT
#include "src/formats/lattice.h"

#define X(code) code,
static const uint16_t iq2_xxs_codes[] = {
#include "src/formats/iq2_xxs_grid.def"
};
static const uint16_t iq2_xs_codes[] = {
#include "src/formats/iq2_xs_grid.def"
};
static const uint16_t iq2_s_codes[] = {
#include "src/formats/iq2_s_grid.def"
};
static const uint16_t iq3_xxs_codes[] = {
#include "src/formats/iq3_xxs_grid.def"
};
static const uint16_t iq3_s_codes[] = {
#include "src/formats/iq3_s_grid.def"
};
static const uint16_t iq1_codes[] = {
#include "src/formats/iq1_grid.def"
};
#undef X

static const float iq2_levels[3] = {8, 25, 43};
static const float iq3_xxs_levels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
static const float iq3_s_levels[8] = {1, 3, 5, 7, 9, 11, 13, 15};
static const float iq1_levels[3] = {-1, 0, 1};

#define LATTICE(codes, coordinates, level)                                                         \
    {                                                                                              \
        codes, sizeof(codes) / sizeof *(codes), coordinates, sizeof(level) / sizeof *(level),      \
            level                                                                                  \
    }
const struct weft__lattice weft__iq2_xxs_lattice = LATTICE(iq2_xxs_codes, 8, iq2_levels);
const struct weft__lattice weft__iq2_xs_lattice = LATTICE(iq2_xs_codes, 8, iq2_levels);
const struct weft__lattice weft__iq2_s_lattice = LATTICE(iq2_s_codes, 8, iq2_levels);
const struct weft__lattice weft__iq3_xxs_lattice = LATTICE(iq3_xxs_codes, 4, iq3_xxs_levels);
const struct weft__lattice weft__iq3_s_lattice = LATTICE(iq3_s_codes, 4, iq3_s_levels);
const struct weft__lattice weft__iq1_lattice = LATTICE(iq1_codes, 8, iq1_levels);

// A code is two bytes, each with the fields of half of the coordinates. What every value of a byte costs
// is summed up once; a point's cost is then the sum of two.
struct costs {
    float byte[2][256];
};

static void sum_costs8(const float cost[8][8], struct costs *sums)
{
    for (int half = 0; half < 2; half++) {
        const float(*c)[8] = cost + 4 * half;
        for (int d = 0; d < 3; d++)
            for (int e = 0; e < 3; e++) {
                float high = c[3][d] + c[2][e];
                for (int f = 0; f < 3; f++)
                    for (int g = 0; g < 3; g++)
                        sums->byte[half][d << 6 | e << 4 | f << 2 | g] = high + (c[1][f] + c[0][g]);
            }
    }
}

static void sum_costs4(const float cost[8][8], struct costs *sums)
{
    for (int half = 0; half < 2; half++)
        for (int d = 0; d < 8; d++)
            for (int e = 0; e < 8; e++)
                sums->byte[half][d << 4 | e] = cost[2 * half + 1][d] + cost[2 * half][e];
}

int weft__lattice_nearest(const struct weft__lattice *lattice, const float *x, const float *weights,
                          float inverse, float shift, float *point)
{
    float cost[8][8];
    struct costs sums;
    int coordinates = lattice->coordinates, bits = 16 / coordinates;
    for (int j = 0; j < coordinates; j++)
        for (int level = 0; level < lattice->levels; level++) {
            float off = x[j] * inverse - shift - lattice->level[level];
            cost[j][level] = (weights ? weights[j] : 1) * off * off;
        }
    if (coordinates == 8)
        sum_costs8((const float(*)[8])cost, &sums);
    else
        sum_costs4((const float(*)[8])cost, &sums);
    int best = 0;
    float least = INFINITY;
    for (int n = 0; n < lattice->count; n++) {
        unsigned code = lattice->codes[n];
        float sum = sums.byte[0][code & 255] + sums.byte[1][code >> 8];
        if (sum < least) {
            least = sum;
            best = n;
        }
    }
    for (int j = 0; j < coordinates; j++)
        point[j] = lattice->level[lattice->codes[best] >> bits * j & ((1 << bits) - 1)] + shift;
    return best;
}

float weft__lattice_scale(const struct weft__lattice *lattice, const float *x, const float *weights,
                          int elems, float shift)
{
    float largest = weft__largest_magnitude(x, elems), best = 0, most = -1;
    float top = lattice->level[lattice->levels - 1] + fabsf(shift);
    if (!(largest > 1e-30f))
        return 0;
    // The largest number anywhere from well within the lattice to far beyond it: with few levels it pays to
    // cut what is rare.
    for (int n = 0; n <= 9; n++) {
        float inverse = top * (0.8f + 0.11f * (float)n) / largest, xq = 0, qq = 0;
        for (int i = 0; i < elems; i += lattice->coordinates) {
            float point[8];
            weft__lattice_nearest(lattice, x + i, weights + i, inverse, shift, point);
            for (int j = 0; j < lattice->coordinates; j++) {
                xq += weights[i + j] * x[i + j] * point[j];
                qq += weights[i + j] * point[j] * point[j];
            }
        }
        if (xq > 0 && xq * xq > most * qq) {
            most = xq * xq / qq;
            best = xq / qq;
        }
    }
    return best;
}
