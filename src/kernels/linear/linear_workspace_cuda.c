// SPDX-License-Identifier: MIT
// The workspace of linear layers on CUDA (drawn in linear_cuda.h).
#include "src/base/checked.h"
#include "src/kernels/linear/linear_cuda.h"

// Places follow one another, or -1 once they do not fit.
static int64_t take(int64_t *at, int64_t count, int64_t bytes)
{
    int64_t offset = *at, size;
    if (offset < 0 || !weft__mul_i64(count, bytes, &size) || size > INT64_MAX / 4 - offset)
        return *at = -1;
    *at = weft__align_up(offset + size, 256);
    return offset;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// Where f32 products of parts stay before they are finished. What the library leaves of a vocabulary would be as much as
// that is worth: such a run has them in Y, or kernels of our own.
static void lay_out_staged(const weft_linear_desc *desc, struct weft__linear_cuda_launch *launch,
                           int64_t *at)
{
    bool wanted[WEFT_LINEAR_MAX_PARTS] = {false};
    int64_t sums[WEFT_LINEAR_MAX_PARTS] = {0};
    for (int32_t s = 0; s < launch->num_sets; s++)
        for (int32_t i = 0; i < launch->sets[s].num_parts; i++) {
            const struct weft__linear_set *set = &launch->sets[s];
            wanted[set->parts[i]] = weft__linear_blas_stages(&set->blas, i, desc->y_dtype);
            sums[set->parts[i]] = weft__linear_slice_sums(&set->slices, desc->max_batch);
        }
    for (int32_t p = 0; p < desc->num_parts; p++) {
        const bool fits =
            desc->parts[p].rows <= WEFT__LINEAR_MOST_STAGED / 4 / (int64_t)desc->max_batch;
        const int64_t rows = launch->finishes || (wanted[p] && fits) ? desc->max_batch : 0;
        if (larger(rows, sums[p]))
            launch->parts[p].staged = take(at, larger(rows, sums[p]) * 4, desc->parts[p].rows);
    }
}

bool weft__linear_cuda_lay_out(const weft_linear_desc *desc,
                               struct weft__linear_cuda_launch *launch, size_t *bytes)
{
    int64_t at = 0, batch = desc->max_batch;
    if (launch->ready >= 0)
        launch->ready_offset = take(&at, batch * 4, launch->ready_stride);
    if (launch->round >= 0)
        launch->rounded_offset = take(&at, batch, weft__linear_rounded_stride(desc->cols));
    lay_out_staged(desc, launch, &at);
    int64_t gemm = 0;
    for (int32_t s = 0; s < launch->num_sets; s++) {
        if (launch->sets[s].gemm.min_batch)
            gemm = larger(gemm, weft__linear_gemm_workspace(batch, desc->cols));
        if (launch->sets[s].blas.least_batch)
            gemm = larger(gemm, weft__linear_blas_workspace(batch, desc->cols));
    }
    int64_t widened = 0;
    for (int32_t p = 0; p < desc->num_parts; p++)
        if (launch->parts[p].blas.least_batch) {
            gemm = larger(gemm, weft__linear_blas_workspace(batch, desc->cols));
            widened =
                larger(widened, weft__linear_blas_slab_bytes(&launch->parts[p].blas, desc->cols));
        }
    if (gemm)
        launch->gemm_offset = take(&at, 1, gemm);
    if (widened)
        launch->widened_offset = take(&at, 1, widened);
    *bytes = (size_t)at;
    return at >= 0;
}
