// SPDX-License-Identifier: MIT
// The nearest points of the lattices of iq_grids.h.
#ifndef WEFT_FORMATS_LATTICE_H
#define WEFT_FORMATS_LATTICE_H

#include "src/formats/encode.h"

struct weft__lattice {
    const uint16_t *codes; // one per point: a field of bits for each coordinate
    int count;
    int coordinates;    // 8 or 4
    int levels;         // that a coordinate can have: 3 or 8
    const float *level; // what a field stands for, in rising order
};

extern const struct weft__lattice weft__iq2_xxs_lattice, weft__iq2_xs_lattice, weft__iq2_s_lattice,
    weft__iq3_xxs_lattice, weft__iq3_s_lattice, weft__iq1_lattice;

// The point for which the sum of weights (x / scale - shift - point)^2 is least; its coordinates plus the
// shift go to `point`.
int weft__lattice_nearest(const struct weft__lattice *lattice, const float *x, const float *weights,
                          float inverse, float shift, float *point);

// The scale under which the nearest points of `elems` numbers fit best.
float weft__lattice_scale(const struct weft__lattice *lattice, const float *x, const float *weights,
                          int elems, float shift);

#endif
