// SPDX-License-Identifier: MIT
// Rows of a table in any format: a warp decodes 32 format blocks of one token's row, a lane each, with the
// decoders of src/formats/ themselves, and writes them side by side.
//
// Constants: FORMAT (weft_dtype), ELEMS (of a format block), BYTES (likewise), Y_DTYPE, SCALE_DTYPE (of scales
// and biases beside the table; 0: there are none)
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

// Element `col` of row `id`: code * scale + bias, each step rounded as on the CPU.
DEVICE float with_planes(const struct weft__embedding_device_args *args, float code, int64_t id,
                         int64_t col)
{
#if SCALE_DTYPE
    const int64_t at = id / args->scale_rows * args->scale_stride + col / args->scale_cols;
    if (args->scales)
        code *= element<SCALE_DTYPE>(args->scales, at);
    if (args->biases)
        code += element<SCALE_DTYPE>(args->biases, at);
#else
    (void)args, (void)id, (void)col;
#endif
    return code;
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
        float y = known ? with_planes(&args, decoded[i / ELEMS * (ELEMS + 1) + i % ELEMS], id,
                                      first * ELEMS + i)
                        : 0;
        int64_t at = token * args.y_stride + first * ELEMS + i;
        float before = args.residual ? element<Y_DTYPE>(args.residual, at) : 0;
        set_element<Y_DTYPE>(args.y, at, y * args.scale + before);
    }
}
