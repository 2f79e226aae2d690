// SPDX-License-Identifier: MIT
// What the checks of linear share.
#ifndef WEFT_KERNELS_LINEAR_CHECK_H
#define WEFT_KERNELS_LINEAR_CHECK_H

#include "src/kernels/check.h"

// |w| of a block; where w is a product less a minimum, the sum of the magnitudes of both.
void weft__linear_magnitudes(weft_dtype dtype, const void *block, float *w);

// Of 16-bit weights and activations, over sum |w||x|: kernels of a GPU for packed or plain weights and tiles of a CPU for packed
// ones use them when X has many rows. 0: this run does not. weft__linear_wide_x() times sum |x| comes on top.
double weft__linear_wide_error(const struct weft__kernel *kernel, int32_t batch, uint32_t flags,
                               bool packed);
double weft__linear_wide_x(const struct weft__kernel *kernel);
#define WEFT__LINEAR_WIDE_F16 0x1p-9 // where weights become f16, which holds none from 65504 on

// Has a row a weight that linear.h excepts there? w: |w| of its columns as weft__linear_magnitudes() has it.
bool weft__linear_excepted(double wide, const float *w, int64_t cols);

// Columns come in whole numbers of this: of blocks, and of chunks where a kernel reads packed weights.
struct weft__linear_kernel;
int64_t weft__linear_check_block(const struct weft__linear_kernel *kernel);

// A case with all that stands round a matrix in a layer.
void weft__linear_layer_check(struct check_case *c);

#endif
