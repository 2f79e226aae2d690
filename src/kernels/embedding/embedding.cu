// SPDX-License-Identifier: MIT
// Rows of a table in any format: a warp decodes 32 format blocks of one token's row, a lane each, with the
// decoders of src/formats/ themselves, and writes them side by side.
//
// Constants: FORMAT (weft_dtype), ELEMS (of a format block), BYTES (likewise), Y_DTYPE
#define _Static_assert static_assert
#include "src/formats/formats.h"
#include "src/formats/iq_grids.c"
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/embedding/embedding_device.h"

DEVICE void decode(const void *block, float *y)
{
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    if (FORMAT == value)                                                                           \
        weft__decode_##ID(block, y);
#include <weft/formats.def>
#undef WEFT_FORMAT
}

extern "C" __global__ void __launch_bounds__(32)
    weft_embedding(const struct weft__embedding_device_args args)
{
    // A lane's elements, one more apart than there are: neighbours fall into different banks.
    __shared__ float decoded[32 * (ELEMS + 1)];
    int64_t first = blockIdx.x * (int64_t)WARP, token = blockIdx.y;
    int64_t left = args.row_blocks - first;
    int32_t blocks = left < WARP ? (int32_t)left : WARP;
    wait_for_previous();
    let_next_start();
    int64_t id = args.ids[token];
    bool known = id >= 0 && id < args.rows; // ids of a device were never seen by the host
    const char *row = (const char *)args.table + (known ? id : 0) * args.table_stride_bytes;
    if (threadIdx.x < blocks)
        decode(row + (first + threadIdx.x) * BYTES, decoded + threadIdx.x * (ELEMS + 1));
    __syncwarp();
    for (int32_t i = threadIdx.x; i < blocks * ELEMS; i += WARP) {
        float y = known ? decoded[i / ELEMS * (ELEMS + 1) + i % ELEMS] : 0;
        int64_t at = token * args.y_stride + first * ELEMS + i;
        float before = args.residual ? element<Y_DTYPE>(args.residual, at) : 0;
        set_element<Y_DTYPE>(args.y, at, y * args.scale + before);
    }
}
