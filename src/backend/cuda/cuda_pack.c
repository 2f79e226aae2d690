// SPDX-License-Identifier: MIT
// Weights from the host into the layout of the device's kernels: slabs of rows go through the pinned ring into
// memory of the device, where a kernel puts them in order.
#include <weft/experts.h>

#include "src/backend/cuda/cuda_backend.h"
#include "src/backend/cuda/cuda_context.h"
#include "src/base/checked.h"
#include "src/kernels/experts/experts_cuda.h"
#include "src/kernels/linear/linear_cuda.h"
#include "src/plan/plan.h"
#include "src/plan/plan_linear.h"

int64_t weft__cuda_rounded_row_bytes(const weft_context *context, int64_t cols)
{
    (void)context;
    return cols <= INT64_MAX / 128 ? weft__linear_rounded_stride(cols) : 0;
}

int64_t weft__cuda_packed_bytes(const weft_plan *plan, int32_t part)
{
    const void *launch = weft__cuda_own_launch(plan);
    return plan->op == WEFT__OP_experts ? weft__experts_cuda_packed_bytes(launch, part)
                                        : weft__linear_cuda_packed_bytes(launch, part);
}

// The rows of a part, of all experts if it has such; of scales and biases that go into its tiles.
struct matrix {
    int64_t rows, row_bytes, scale_bytes;
};

static struct matrix matrix_of(const weft_plan *plan, int32_t part)
{
    if (plan->op == WEFT__OP_experts) {
        const weft_experts_desc *desc = plan->desc;
        const int64_t cols = part == WEFT_EXPERTS_DOWN ? desc->inner : desc->cols;
        return (struct matrix){desc->experts * desc->parts[part].rows,
                               weft_dtype_row_bytes(desc->parts[part].weight_dtype, cols), 0};
    }
    const weft_linear_desc *desc = plan->desc;
    const weft_linear_part *of = &desc->parts[part];
    const int64_t row_bytes = weft_dtype_row_bytes(of->weight_dtype, desc->cols);
    return (struct matrix){of->rows, row_bytes,
                           weft__plan_linear_planes(of) ? desc->cols / of->scale_cols * 2 : 0};
}

static void pack_slab(const weft_plan *plan, int32_t part, const struct weft__linear_slab *slab,
                      struct weft__cuda_step *step)
{
    const void *launch = weft__cuda_own_launch(plan);
    if (plan->op == WEFT__OP_experts)
        weft__experts_cuda_pack(launch, part, slab, step);
    else
        weft__linear_cuda_pack(launch, part, slab, step);
}

// The slab's memory, at least `bytes` of it, no longer in use by other streams; its lock is held.
static weft_status open_slab(weft_context *context, size_t bytes, CUstream stream)
{
    struct weft__cuda *cuda = weft__cuda_of(context);
    struct weft__cuda_packing *packing = &cuda->packing;
    CUresult result = CUDA_SUCCESS;
    if (packing->bytes < bytes) {
        if (packing->slab)
            weft__cuda_free(context, packing->slab);
        packing->slab = NULL;
        packing->bytes = 0;
        weft_status status =
            weft__cuda_allocate(context, WEFT_MEMORY_DEVICE, bytes, &packing->slab);
        if (status != WEFT_OK)
            return status;
        packing->bytes = bytes;
    }
    if (!packing->done)
        result = cuda->driver->event_create(&packing->done, CU_EVENT_DISABLE_TIMING);
    else
        result = cuda->driver->stream_wait(stream, packing->done, 0);
    return result == CUDA_SUCCESS ? WEFT_OK : weft__cuda_fail(context, result, "packing weights");
}

// Rows of the host, close together, into the device's memory.
static weft_status copy_rows(weft_context *context, char *to, const char *from, int64_t rows,
                             int64_t row_bytes, int64_t stride, weft_stream *stream)
{
    if (stride == row_bytes)
        return weft__cuda_copy(context, to, from, (size_t)(rows * row_bytes), stream);
    weft_status status = WEFT_OK;
    for (int64_t row = 0; row < rows && status == WEFT_OK; row++)
        status = weft__cuda_copy(context, to + row * row_bytes, from + row * stride,
                                 (size_t)row_bytes, stream);
    return status;
}

// Fills the slab with rows from `row` on: codes, then scales, then biases.
static weft_status fill_slab(weft_context *context, const weft_linear_pack_args *args,
                             const struct matrix *matrix, int64_t row, struct weft__linear_slab *to)
{
    char *at = weft__cuda_of(context)->packing.slab;
    const void **planes[] = {&to->scales, &to->biases};
    const char *from[] = {args->scales, args->biases};
    const int64_t stride = args->scale_stride * 2, rows = to->rows;
    to->from = at;
    to->stride_bytes = matrix->row_bytes;
    to->scales_stride_bytes = matrix->scale_bytes;
    weft_status status =
        copy_rows(context, at, (const char *)args->weight + row * args->weight_stride_bytes, rows,
                  matrix->row_bytes, args->weight_stride_bytes, args->stream);
    at += weft__align_up(rows * matrix->row_bytes, 256);
    for (int i = 0; i < 2 && matrix->scale_bytes && status == WEFT_OK; i++) {
        if (!from[i])
            continue;
        *planes[i] = at;
        status = copy_rows(context, at, from[i] + row * stride, rows, matrix->scale_bytes, stride,
                           args->stream);
        at += weft__align_up(rows * matrix->scale_bytes, 256);
    }
    return status;
}

static weft_status pack_slabs(const weft_plan *plan, const weft_linear_pack_args *args,
                              struct matrix matrix, int64_t rows_a_slab)
{
    weft_context *context = plan->context;
    struct weft__cuda *cuda = weft__cuda_of(context);
    const int64_t rows = matrix.rows, row_bytes = matrix.row_bytes;
    const size_t total = (size_t)(rows * row_bytes);
    CUstream stream = weft__cuda_stream_of(cuda, args->stream);
    for (int64_t row = 0; row < rows; row += rows_a_slab) {
        int64_t here = rows - row < rows_a_slab ? rows - row : rows_a_slab;
        struct weft__linear_slab slab = {
            .first_row = (int32_t)row, .rows = (int32_t)here, .packed = args->packed};
        struct weft__cuda_step step;
        const struct weft__cuda_pipeline *pipeline;
        weft_status status = fill_slab(context, args, &matrix, row, &slab);
        pack_slab(plan, args->part, &slab, &step);
        if (status == WEFT_OK)
            status = weft__cuda_pipeline_of(plan, step.kernel, &pipeline);
        if (status != WEFT_OK)
            return status;
        CUresult result = weft__cuda_launch_step(cuda, pipeline, &step, stream);
        if (result != CUDA_SUCCESS)
            return weft__cuda_fail(context, result, pipeline->name);
        if (args->progress)
            args->progress(args->user, (size_t)(row + here) * (size_t)row_bytes, total);
    }
    // Runs may ask for weights before the launch before them has ended: they must not follow this one closely.
    CUresult result = cuda->driver->fill((CUdeviceptr)(uintptr_t)cuda->packing.slab, 0, 1, stream);
    if (result == CUDA_SUCCESS)
        result = cuda->driver->event_record(cuda->packing.done, stream);
    return result == CUDA_SUCCESS ? WEFT_OK : weft__cuda_fail(context, result, "packing weights");
}

weft_status weft__cuda_pack(const weft_plan *plan, const weft_linear_pack_args *args)
{
    weft_context *context = plan->context;
    struct weft__cuda *cuda = weft__cuda_of(context);
    const struct matrix matrix = matrix_of(plan, args->part);
    int64_t rows = WEFT__CUDA_STAGING_BYTES / matrix.row_bytes / WEFT__LINEAR_TILE_ROWS;
    rows = WEFT__LINEAR_TILE_ROWS * (rows ? rows : 1);
    pthread_mutex_lock(&cuda->packing.lock);
    bool entered = weft__cuda_enter(cuda);
    weft_status status =
        open_slab(context, (size_t)(rows * (matrix.row_bytes + 2 * matrix.scale_bytes)) + 512,
                  weft__cuda_stream_of(cuda, args->stream));
    if (status == WEFT_OK)
        status = pack_slabs(plan, args, matrix, rows);
    weft__cuda_leave(cuda, entered);
    pthread_mutex_unlock(&cuda->packing.lock);
    return status;
}
