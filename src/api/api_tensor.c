// SPDX-License-Identifier: MIT
#include <stdbool.h>
#include <string.h>

#include <weft/types.h>

#include "src/base/checked.h"

weft_status weft_tensor_packed(weft_dtype dtype, int32_t rank, const int64_t *shape, void *data,
                               weft_tensor *out)
{
    int32_t block = weft_dtype_block_elems(dtype);
    if (!out || !shape || block == 0 || rank < 1 || rank > WEFT_MAX_RANK ||
        shape[rank - 1] % block != 0)
        return WEFT_EINVAL;
    weft_tensor tensor = {.data = data, .dtype = dtype, .rank = rank};
    int64_t elems = 1, bytes;
    for (int32_t i = rank - 1; i >= 0; i--) {
        if (shape[i] < 0)
            return WEFT_EINVAL;
        tensor.shape[i] = shape[i];
        tensor.stride[i] = elems;
        if (!weft__mul_i64(elems, shape[i] > 0 ? shape[i] : 1, &elems))
            return WEFT_EOVERFLOW;
    }
    if (!weft__mul_i64(elems / block, weft_dtype_block_bytes(dtype), &bytes))
        return WEFT_EOVERFLOW;
    *out = tensor;
    return WEFT_OK;
}

int64_t weft_tensor_span_bytes(const weft_tensor *tensor)
{
    int32_t block = tensor ? weft_dtype_block_elems(tensor->dtype) : 0;
    if (block == 0 || tensor->rank < 1 || tensor->rank > WEFT_MAX_RANK)
        return -1;
    int64_t last = 0, bytes;
    for (int32_t i = 0; i < tensor->rank; i++) {
        int64_t reach;
        if (tensor->shape[i] < 0 || tensor->stride[i] < 0)
            return -1;
        if (tensor->shape[i] == 0)
            return 0;
        if (!weft__mul_i64(tensor->shape[i] - 1, tensor->stride[i], &reach) ||
            !weft__add_i64(last, reach, &last))
            return -1;
    }
    if (last == INT64_MAX)
        return -1;
    if (!weft__mul_i64(weft__ceil_div(last + 1, block), weft_dtype_block_bytes(tensor->dtype),
                       &bytes))
        return -1;
    return bytes;
}

// The parts of DLPack's ABI that are read here.
struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    const int64_t *shape;
    const int64_t *strides; // NULL: packed
    uint64_t byte_offset;
};

static weft_dtype dtype_of_dlpack(uint8_t code, uint8_t bits, uint16_t lanes)
{
    enum { DL_FLOAT = 2, DL_BFLOAT = 4 };
    if (lanes != 1)
        return WEFT_DTYPE_NONE;
    if (code == DL_FLOAT && bits == 32)
        return WEFT_F32;
    if (code == DL_FLOAT && bits == 16)
        return WEFT_F16;
    if (code == DL_BFLOAT && bits == 16)
        return WEFT_BF16;
    return WEFT_DTYPE_NONE;
}

static bool device_of_dlpack(int32_t type, weft_device *device)
{
    enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };
    *device = type == DL_CPU || type == DL_CUDA_HOST ? WEFT_DEVICE_CPU : WEFT_DEVICE_CUDA;
    return type == DL_CPU || type == DL_CUDA || type == DL_CUDA_HOST || type == DL_CUDA_MANAGED;
}

weft_status weft_tensor_from_dlpack(const void *dltensor, weft_tensor *out)
{
    const struct dl_tensor *from = dltensor;
    if (!from || !out || from->ndim < 1 || from->ndim > WEFT_MAX_RANK || !from->shape)
        return WEFT_EINVAL;
    weft_dtype dtype = dtype_of_dlpack(from->dtype.code, from->dtype.bits, from->dtype.lanes);
    weft_device device;
    if (!device_of_dlpack(from->device.type, &device) || dtype == WEFT_DTYPE_NONE)
        return WEFT_EUNSUPPORTED;
    weft_tensor tensor;
    weft_status status =
        weft_tensor_packed(dtype, from->ndim, from->shape,
                           (void *)((uintptr_t)from->data + from->byte_offset), &tensor);
    if (status != WEFT_OK)
        return status;
    for (int32_t i = 0; from->strides && i < from->ndim; i++)
        tensor.stride[i] = from->strides[i];
    tensor.device = device;
    tensor.device_index = device == WEFT_DEVICE_CPU ? 0 : from->device.id;
    *out = tensor;
    return WEFT_OK;
}
