// SPDX-License-Identifier: MIT
// Whole rows of any format: the library's definition of what a format means.
#ifndef WEFT_FORMATS_ROW_H
#define WEFT_FORMATS_ROW_H

#include <weft/types.h>

// Both take a packed row of `cols` elements, a whole number of blocks. Of formats with scales in planes
// of their own (int8, fp8, mlx) they decode and encode the codes: the scale is 1, the bias 0.
typedef void weft__row_decode_fn(const void *row, int64_t cols, float *y);
typedef void weft__row_encode_fn(const float *x, int64_t cols, void *row);

// NULL for a value that is no format.
weft__row_decode_fn *weft__row_decoder(weft_dtype dtype);

// Bytes to which a row of blocks must be aligned; 0 for a value that is no format.
size_t weft__row_alignment(weft_dtype dtype);

// Rounds to the nearest value that the format's own scale allows; nothing searches for better scales.
// Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, TQ1_0 and TQ2_0 round as ggml's reference does, bit for bit.
// Values that are not finite give unspecified, but valid, blocks in the block formats.
weft__row_encode_fn *weft__row_encoder(weft_dtype dtype);

// Searches for scales under which the weighted sum of squared errors is small. importance: how much each
// column matters, or NULL. Formats without scales of their own round as above. NULL for no format.
typedef void weft__row_search_fn(const float *x, const float *importance, int64_t cols, void *row);
weft__row_search_fn *weft__row_searcher(weft_dtype dtype);

// What lies beside the codes of a row: element i becomes (y_i * scales[g] + biases[g]) * global_scale,
// g = i / scale_elems.
struct weft__row_planes {
    const void *scales;     // or NULL
    const void *biases;     // or NULL
    weft_dtype scale_dtype; // of both
    int64_t scale_elems;
    float global_scale;
};

void weft__row_apply_planes(const struct weft__row_planes *planes, int64_t cols, float *y);

#endif
