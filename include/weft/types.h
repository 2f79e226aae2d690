// SPDX-License-Identifier: MIT
/** Element formats and tensors.
 *
 *  A weft_dtype says how numbers are stored: plain elements (f32, bf16, ...) or blocks of quantised
 *  elements (q4_0, q4_k, ...). A plain format is a block of one element, so one set of queries
 *  serves both.
 */
#ifndef WEFT_TYPES_H
#define WEFT_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What formats.def lists. Values are never reused. */
typedef enum weft_dtype {
    WEFT_DTYPE_NONE = 0,
#define WEFT_FORMAT(id, value, name, block_elems, block_bytes) WEFT_##id = value,
#include "formats.def"
#undef WEFT_FORMAT
} weft_dtype;

/** Short lower-case name such as "q4_k"; NULL for a value that is not a format. */
WEFT_API const char *weft_dtype_name(weft_dtype dtype);

/** The format of that name (lower case, as weft_dtype_name() writes it), or WEFT_DTYPE_NONE. */
WEFT_API weft_dtype weft_dtype_parse(const char *name);

/** The n-th format in order of value, n = 0, 1, ...; WEFT_DTYPE_NONE past the last. */
WEFT_API weft_dtype weft_dtype_at(int32_t n);

/** Elements in one block: 1 for plain formats, 32 to 256 for quantised ones, 0 for an unknown format. */
WEFT_API int32_t weft_dtype_block_elems(weft_dtype dtype);

/** Bytes of one block, 0 for an unknown format. */
WEFT_API int32_t weft_dtype_block_bytes(weft_dtype dtype);

/** Bytes of a packed row of `cols` elements.
 *
 *  Formula  cols / block_elems * block_bytes
 *  Errors   returns -1 when cols is negative or not a multiple of the block, or on overflow
 */
WEFT_API int64_t weft_dtype_row_bytes(weft_dtype dtype, int64_t cols);

#define WEFT_MAX_RANK 5

/** A view of somebody's memory: nothing is owned, nothing is copied.
 *
 *  Units    shape and stride in elements, outermost dimension first. Block formats count elements
 *           too: their innermost stride is 1, the others are whole blocks
 *  Owner    the caller, for as long as a call that was given the tensor runs
 */
typedef struct weft_tensor {
    void *data;
    weft_dtype dtype;
    int32_t rank;
    int64_t shape[WEFT_MAX_RANK];
    int64_t stride[WEFT_MAX_RANK];
    weft_device device;   /**< whose memory: pinned memory is the CPU's */
    int32_t device_index; /**< which of that kind */
    uint64_t reserved[2];
} weft_tensor;

/** Describes packed row-major memory of the CPU; set `device` and `device_index` for other memory.
 *
 *  Errors   WEFT_EINVAL for rank outside 1..WEFT_MAX_RANK, a negative extent, or a last extent that
 *           is not a whole number of blocks; WEFT_EOVERFLOW if the bytes do not fit in 63 bits
 */
WEFT_API weft_status weft_tensor_packed(weft_dtype dtype, int32_t rank, const int64_t *shape,
                                        void *data, weft_tensor *out);

/** Bytes from the first element that the view can reach to one past the last; -1 for a bad tensor. */
WEFT_API int64_t weft_tensor_span_bytes(const weft_tensor *tensor);

/** A tensor as DLPack hands it out (PyTorch, JAX, NumPy, CuPy: `__dlpack__`).
 *
 *  `dltensor` points to a DLTensor of DLPack 0.8 or 1.x, the first member of a DLManagedTensor. The
 *  memory stays the producer's: call its deleter when weft is done with the view.
 *
 *  Source   https://dmlc.github.io/dlpack/latest/c_api.html
 *  Device   kDLCPU and kDLCUDAHost are the CPU's memory, kDLCUDA and kDLCUDAManaged that of CUDA device
 *           `device_id`
 *  Errors   WEFT_EINVAL for NULL or rank outside 1..WEFT_MAX_RANK; WEFT_EUNSUPPORTED for another
 *           device, or an element type other than f32, f16 and bf16 with one lane
 */
WEFT_API weft_status weft_tensor_from_dlpack(const void *dltensor, weft_tensor *out);

#ifdef __cplusplus
}
#endif
#endif
