// SPDX-License-Identifier: MIT
/** Rows of numbers in any format of formats.def, decoded to f32 and encoded from it. */
#ifndef WEFT_FORMAT_H
#define WEFT_FORMAT_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Decodes one packed row of `cols` elements to f32: the library's definition of a format.
 *
 *  For formats with scales beside them (int8, fp8_*, mlx_*) it gives the codes as numbers: scale 1, bias 0.
 *
 *  Numerics bit-exact to the format's specification (src/formats/)
 *  Align    the row as its widest field: f32 4 bytes; fp8, int8, mxfp4, nvfp4 and mlx_* 1; others 2
 *  Errors   WEFT_EINVAL for NULL or cols that are not a whole number of blocks, WEFT_EUNSUPPORTED for the
 *           format
 */
WEFT_API weft_status weft_dequantize_row(weft_dtype dtype, const void *row, int64_t cols, float *y);

/** Encodes one row of f32; the inverse of weft_dequantize_row() up to the format's rounding. For
 *  tests and synthetic models: plain rounding, no search for better scales.
 *
 *  Numerics fp8 rounds to nearest even and saturates, infinity included
 *  Errors   as weft_dequantize_row()
 */
WEFT_API weft_status weft_quantize_row(weft_dtype dtype, const float *x, int64_t cols, void *row);

/** The same, searching for the scales that lose least: for writing files.
 *
 *  Formula  makes sum_i weight_i (x_i - y_i)^2 small, with weight_i = importance_i sqrt(2 mean(x^2) + x_i^2)
 *           and the mean over 256 columns
 *  Shapes   importance [cols], not negative, or NULL: 1. It says how much a column matters, as the mean of
 *           the squares of its activations
 *  Numerics formats without scales of their own (f32, f16, bf16, fp8, int8, mlx_*), q8_0 and the ternary
 *           ones round as weft_quantize_row() does
 *  Errors   as weft_dequantize_row()
 */
WEFT_API weft_status weft_quantize_row_search(weft_dtype dtype, const float *x,
                                              const float *importance, int64_t cols, void *row);

/** A row whose scales are stored beside its codes.
 *
 *  Formula  y[i] = (code[i] * scales[g] + biases[g]) * global_scale, g = i / scale_elems
 */
typedef struct weft_row_planes {
    uint32_t size;
    weft_dtype dtype;
    const void *data;       /**< the packed row of codes or blocks */
    const void *scales;     /**< one per scale_elems columns, or NULL: 1 */
    const void *biases;     /**< likewise, or NULL: 0 */
    weft_dtype scale_dtype; /**< of scales and biases: f32 (0), f16 or bf16 */
    float global_scale;     /**< of the whole tensor; 0 = 1 */
    int64_t scale_elems;    /**< columns per scale; 0: the format's block, or the row if plain */
    uint64_t reserved[4];
} weft_row_planes;

/** Decodes `cols` elements of a row with planes. Formats without planes may have them too.
 *
 *  Numerics the product, the sum and the second product are each rounded to f32
 *  Errors   WEFT_EINVAL for NULL, cols that are not a whole number of blocks, a negative scale_elems,
 *           another scale_dtype, reserved fields that are not 0; WEFT_EUNSUPPORTED for the format. y is
 *           untouched then
 */
WEFT_API weft_status weft_dequantize_planes(const weft_row_planes *row, int64_t cols, float *y);

#ifdef __cplusplus
}
#endif
#endif
