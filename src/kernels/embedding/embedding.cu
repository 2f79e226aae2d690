// SPDX-License-Identifier: MIT
// Rows of a table in any format: a warp decodes 32 format blocks of one token's row, or parts of them, a lane each, with the
// decoders of src/formats/ themselves, and writes them side by side.
//
// Constants: FORMAT (weft_dtype), ELEMS (of a format block), BYTES (likewise), PARTS (of a format block, that lanes have), Y_DTYPE,
// SCALE_DTYPE (of scales and biases beside the table; 0: there are none)
#define _Static_assert static_assert
#include "src/formats/formats.h"
#include "src/formats/iq_grids.c"
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/embedding/embedding_device.h"

enum { LANE_ELEMS = ELEMS / PARTS };

#if PARTS >                                                                                        \
    1 // whoever decodes a token waits for it: a lane has 32 elements of such a block, not 256

DEVICE void decode(const uint8_t *row, int64_t part, float *y)
{
    const void *block = row + part / PARTS * BYTES;
    const int32_t j = (int32_t)(part % PARTS);
    static_assert(LANE_ELEMS == 32, "groups of a block");
#if FORMAT == 48
    weft__q4_k_decode_32((const struct weft__q4_k *)block, j, y);
#elif FORMAT == 49
    weft__q5_k_decode_32((const struct weft__q5_k *)block, j, y);
#else
    static_assert(FORMAT == 50, "a format whose blocks have parts (embedding_cuda.c)");
    weft__q6_k_decode_32((const struct weft__q6_k *)block, j, y);
#endif
}

#else

DEVICE void decode(const uint8_t *row, int64_t part, float *y)
{
    const void *block = row + part * BYTES;
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    if (FORMAT == value)                                                                           \
        weft__decode_##ID(block, y);
#include <weft/formats.def>
#undef WEFT_FORMAT
}

#endif

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
    __shared__ float decoded[32 * (LANE_ELEMS + 1)];
    int64_t first = blockIdx.x * (int64_t)WARP, token = blockIdx.y;
    int64_t left = args.row_blocks * PARTS - first;
    int32_t parts = left < WARP ? (int32_t)left : WARP;
    wait_for_previous();
    let_next_start();
    int64_t id = args.ids[token];
    bool known = id >= 0 && id < args.rows; // ids of a device were never seen by the host
    const uint8_t *row = (const uint8_t *)args.table + (known ? id : 0) * args.table_stride_bytes;
    if (threadIdx.x < parts)
        decode(row, first + threadIdx.x, decoded + threadIdx.x * (LANE_ELEMS + 1));
    __syncwarp();
    for (int32_t i = threadIdx.x; i < parts * LANE_ELEMS; i += WARP) {
        float y =
            known ? with_planes(&args, decoded[i / LANE_ELEMS * (LANE_ELEMS + 1) + i % LANE_ELEMS],
                                id, first * LANE_ELEMS + i)
                  : 0;
        int64_t at = token * args.y_stride + first * LANE_ELEMS + i;
        float before = args.residual ? element<Y_DTYPE>(args.residual, at) : 0;
        set_element<Y_DTYPE>(args.y, at, y * args.scale + before);
    }
}
