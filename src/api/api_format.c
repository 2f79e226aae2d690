// SPDX-License-Identifier: MIT
#include <weft/format.h>

#include "src/api/api.h"
#include "src/formats/row.h"

static weft_status check_row(weft_dtype dtype, const void *from, int64_t cols, const void *to)
{
    if (!from || !to)
        return WEFT_EINVAL;
    if (weft_dtype_block_elems(dtype) == 0)
        return WEFT_EUNSUPPORTED;
    return weft_dtype_row_bytes(dtype, cols) < 0 ? WEFT_EINVAL : WEFT_OK;
}

weft_status weft_dequantize_row(weft_dtype dtype, const void *row, int64_t cols, float *y)
{
    WEFT__TRY(check_row(dtype, row, cols, y));
    weft__row_decoder(dtype)(row, cols, y);
    return WEFT_OK;
}

weft_status weft_quantize_row(weft_dtype dtype, const float *x, int64_t cols, void *row)
{
    WEFT__TRY(check_row(dtype, x, cols, row));
    weft__row_encoder(dtype)(x, cols, row);
    return WEFT_OK;
}

weft_status weft_quantize_row_search(weft_dtype dtype, const float *x, const float *importance,
                                     int64_t cols, void *row)
{
    WEFT__TRY(check_row(dtype, x, cols, row));
    weft__row_searcher(dtype)(x, importance, cols, row);
    return WEFT_OK;
}

weft_status weft_dequantize_planes(const weft_row_planes *user_row, int64_t cols, float *y)
{
    weft_row_planes row;
    if (!weft__api_read(&row, WEFT__KNOWN(&row), user_row))
        return WEFT_EINVAL;
    WEFT__TRY(check_row(row.dtype, row.data, cols, y));
    if (row.scale_dtype == WEFT_DTYPE_NONE)
        row.scale_dtype = WEFT_F32;
    if (row.scale_dtype != WEFT_F32 && row.scale_dtype != WEFT_F16 && row.scale_dtype != WEFT_BF16)
        return WEFT_EINVAL;
    if (row.scale_elems < 0)
        return WEFT_EINVAL;
    int32_t block = weft_dtype_block_elems(row.dtype);
    if (row.scale_elems == 0)
        row.scale_elems = block > 1 || cols == 0 ? block : cols;
    struct weft__row_planes planes = {row.scales, row.biases, row.scale_dtype, row.scale_elems,
                                      row.global_scale == 0 ? 1 : row.global_scale};
    weft__row_decoder(row.dtype)(row.data, cols, y);
    weft__row_apply_planes(&planes, cols, y);
    return WEFT_OK;
}
