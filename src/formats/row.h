// SPDX-License-Identifier: MIT
// Whole rows of any format: the library's definition of what a format means.
#ifndef WEFT_FORMATS_ROW_H
#define WEFT_FORMATS_ROW_H

#include <weft/types.h>

// Both take a packed row of `cols` elements, a whole number of blocks.
typedef void weft__row_decode_fn(const void *row, int64_t cols, float *y);
typedef void weft__row_encode_fn(const float *x, int64_t cols, void *row);

// NULL for a value that is no format.
weft__row_decode_fn *weft__row_decoder(weft_dtype dtype);

// Rounds to the nearest value that the format's own scale allows; nothing searches for better scales.
// Q8_0 and Q4_0 round as ggml's reference does, bit for bit. Values that are not finite give
// unspecified, but valid, blocks in the block formats.
weft__row_encode_fn *weft__row_encoder(weft_dtype dtype);

#endif
