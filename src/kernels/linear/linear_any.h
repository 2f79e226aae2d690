// SPDX-License-Identifier: MIT
// Kernels for any format. A format says once how 32 of its weights become bytes with scales
// (linear_groups.h); an instruction set turns pieces of rows into this form and multiplies them without
// knowing the format. Formats that won by it have kernels of their own (linear.def).
//
//      w[i] = scale[i / 16] * (q[i] - offset) - minimum[i / 16]      0 <= i < 256
//
// Bytes are unsigned. The offset is 128 for formats without minima, whose weights are signed, and 0 for
// those with.
#ifndef WEFT_KERNELS_LINEAR_ANY_H
#define WEFT_KERNELS_LINEAR_ANY_H

#include "src/kernels/linear/linear_kernel.h"

enum { WEFT__PIECE = 256 }; // columns

struct weft__piece {
    _Alignas(64) uint8_t q[WEFT__PIECE];
    float scale[WEFT__PIECE / 16], minimum[WEFT__PIECE / 16];
};

// What the kernels must know of a format.
enum weft__minima { WEFT__NO_MINIMA, WEFT__MINIMA_32, WEFT__MINIMA_16 };
struct weft__traits {
    bool sixteens; // a scale for each 16, else for each 32
    enum weft__minima minima;
    bool wide; // bytes above 127 although there is no offset
};

// Columns [k, k + n) of a row, n a multiple of 32, within one block of 256 or several smaller ones. Scales
// and minima past n become zero; bytes past n do not matter.
typedef void weft__expand_fn(const struct weft__linear_call *call, int64_t row, int64_t k, int n,
                             struct weft__piece *out);

struct weft__any_format {
    weft_dtype dtype;
    weft__expand_fn *expand; // NULL for plain formats
    struct weft__traits traits;
};

// The format of a call. Each instruction set of groups has its function.
const struct weft__any_format *weft__any_format_avx2(weft_dtype dtype);
const struct weft__any_format *weft__any_format_neon(weft_dtype dtype);

// Columns of a row that a piece may take from k on.
static inline int weft__piece_columns(const struct weft__linear_call *call, int64_t k)
{
    return call->cols - k < WEFT__PIECE ? (int)(call->cols - k) : WEFT__PIECE;
}

#endif
