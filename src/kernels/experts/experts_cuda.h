// SPDX-License-Identifier: MIT
// Packing of experts' weights on CUDA: as linear_cuda.h has it for a layer. The rows of all experts are one matrix.
#ifndef WEFT_KERNELS_EXPERTS_CUDA_H
#define WEFT_KERNELS_EXPERTS_CUDA_H

#include "src/kernels/linear/linear_pack_cuda.h"

int64_t weft__experts_cuda_packed_bytes(const void *launch, int32_t part);
void weft__experts_cuda_pack(const void *launch, int32_t part, const struct weft__linear_slab *slab,
                             struct weft__cuda_step *step);

#endif
