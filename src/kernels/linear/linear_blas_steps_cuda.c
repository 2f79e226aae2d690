// SPDX-License-Identifier: MIT
// Launches round products that cuBLASLt makes (linear_blas_cuda.h).
#include "src/kernels/linear/linear_steps_cuda.h"

// How the product of a part leaves.
enum way {
    NOT_AT_ALL, // kernels of our own
    DIRECT,     // as Y, the residual added; a bias follows
    IN_Y,       // in Y, and is finished there
    STAGED,     // in the workspace
};

static bool by_sixteen(const void *address, int64_t stride, weft_dtype dtype)
{
    const int64_t bytes = stride * (dtype == WEFT_F32 ? 4 : 2);
    return ((uint64_t)(uintptr_t)address | (uint64_t)bytes) % 16 == 0;
}

// May X be read as the caller has it?
static bool x_as_is(const struct weft__linear_run *run, const struct weft__linear_blas *blas)
{
    return blas->x_as_is && by_sixteen(run->numbers, run->numbers_stride, WEFT_BF16);
}

// Part p, the library's i-th.
static enum way way_of(const struct weft__linear_run *run, const struct weft__linear_blas *blas,
                       int32_t i, int32_t p, bool follows)
{
    const struct weft__linear_cuda_launch *launch = run->launch;
    const weft_linear_args *args = run->args;
    const weft_linear_part_args *part = &args->parts[p];
    const weft_dtype y = launch->y_dtype;
    const bool fits_y = by_sixteen(part->y, part->y_stride, y) && blas->result[i] == y;
    const bool factors = !blas->brain && !x_as_is(run, blas);
    const bool room = launch->parts[p].staged >= 0 && launch->parts[p].rows % 4 == 0 &&
                      blas->result[i] == WEFT_F32;
    if (!blas->least_batch || args->batch < blas->least_batch ||
        !atomic_load_explicit(&blas->offers[i].serves, memory_order_relaxed) ||
        (!blas->slab_rows && !by_sixteen(part->weight, part->weight_stride_bytes / 2, WEFT_BF16)))
        return NOT_AT_ALL;
    if (follows)
        return room ? STAGED : NOT_AT_ALL;
    if (fits_y && !factors && (!part->bias || y == WEFT_F32) &&
        (!args->residual || (by_sixteen(args->residual, args->residual_stride, y) &&
                             (args->residual == part->y || blas->offers[i].apart))))
        return DIRECT;
    if (fits_y && y == WEFT_F32 && args->residual != part->y)
        return IN_Y;
    return room ? STAGED : NOT_AT_ALL;
}

bool weft__linear_is_blas(const struct weft__linear_run *run, const struct weft__linear_set *set,
                          bool follows)
{
    bool all = true;
    for (int32_t i = 0; i < set->num_parts && all; i++)
        all = way_of(run, &set->blas, i, set->parts[i], follows) != NOT_AT_ALL;
    return all;
}

bool weft__linear_is_widened(const struct weft__linear_run *run, int32_t p, bool follows)
{
    return way_of(run, &run->launch->parts[p].blas, 0, p, follows) != NOT_AT_ALL;
}

static float *factors_of(const struct weft__linear_run *run)
{
    return (float *)(void *)(run->workspace + run->launch->gemm_offset);
}

static char *narrow_x(const struct weft__linear_run *run)
{
    return run->workspace + run->launch->gemm_offset + (run->args->batch + 63) / 64 * 256;
}

// X as the library reads it; nothing where the last products left it, or where it may stay as it is.
static void need_x(struct weft__linear_run *run, const struct weft__linear_blas *blas)
{
    const struct weft__linear_cuda_launch *launch = run->launch;
    const weft_linear_args *args = run->args;
    if (x_as_is(run, blas) || (run->blas_x && run->blas_x->brain == blas->brain))
        return;
    const struct weft__linear_gemm_x_args x = {.x = run->numbers,
                                               .x_stride = run->numbers_stride,
                                               .norm_weight = run->norm ? args->norm_weight : NULL,
                                               .pieces = narrow_x(run),
                                               .scales = factors_of(run),
                                               .batch = args->batch,
                                               .cols = (int32_t)launch->cols,
                                               .norm = run->norm,
                                               .norm_eps = launch->norm_eps,
                                               .norm_weight_plus = run->norm_plus};
    weft__cuda_step(&run->steps[run->count++], blas->x_kernel, (uint32_t)args->batch, 1, 256, &x,
                    sizeof x)
        ->overlap = 1;
    run->blas_x = blas, run->gemm_x = NULL;
}

// Products with weights that lie as in a file, some rows of W at a time.
static void add_slabs(struct weft__linear_run *run, const struct weft__linear_blas *blas, int32_t p,
                      struct weft__cuda_product_call call)
{
    const struct weft__linear_cuda_part *part = &run->launch->parts[p];
    const weft_linear_part_args *from = &run->args->parts[p];
    const int32_t rows = (int32_t)part->rows, cols = (int32_t)run->launch->cols;
    const int64_t bytes = blas->result[0] == WEFT_F32 ? 4 : 2;
    struct weft__linear_widen_args widen = {.weight = from->weight,
                                            .scales = from->scales,
                                            .biases = from->biases,
                                            .weight_stride_bytes = from->weight_stride_bytes,
                                            .scale_stride = from->scale_stride,
                                            .scale_cols = (int32_t)part->scale_cols,
                                            .scale_rows = (int32_t)part->scale_rows,
                                            .to = run->workspace + run->launch->widened_offset,
                                            .cols = cols};
    call.w = widen.to;
    call.w_stride = cols;
    for (; widen.first_row < rows; widen.first_row += blas->slab_rows) {
        const int32_t left = rows - widen.first_row;
        call.rows = left < blas->slab_rows ? left : blas->slab_rows;
        weft__cuda_step(&run->steps[run->count++], blas->widen_kernel,
                        weft__linear_widen_blocks(cols, part->block_elems), (uint32_t)call.rows,
                        32 * WEFT__LINEAR_WIDEN_WARPS(part->block_elems), &widen, sizeof widen)
            ->overlap = 1;
        weft__cuda_product_step(&run->steps[run->count++], blas->first_product, &call);
        call.y = (char *)call.y + call.rows * bytes;
        call.c = (const char *)call.c + call.rows * bytes;
    }
}

static void add_part(struct weft__linear_run *run, const struct weft__linear_blas *blas, int32_t i,
                     int32_t p, bool follows)
{
    const struct weft__linear_cuda_launch *launch = run->launch;
    const weft_linear_args *args = run->args;
    const weft_linear_part_args *part = &args->parts[p];
    const enum way way = way_of(run, blas, i, p, follows);
    const bool adds = way == DIRECT && args->residual, as_is = x_as_is(run, blas);
    struct weft__cuda_product_call call = {
        .w = part->weight,
        .w_stride = part->weight_stride_bytes / 2,
        .x = as_is ? run->numbers : narrow_x(run),
        .x_stride = as_is ? run->numbers_stride : weft__linear_blas_x_stride(launch->cols),
        .y = way == STAGED ? weft__linear_staged(run, p) : part->y,
        .y_stride = way == STAGED ? launch->parts[p].rows : part->y_stride,
        .alpha = weft__linear_alpha(run, p),
        .beta = adds ? 1.0f : 0.0f,
        .batch = args->batch,
        .workspace = run->workspace + blas->offers[i].workspace_at};
    call.c = adds ? args->residual : call.y;
    call.c_stride = adds ? args->residual_stride : call.y_stride;
    if (blas->slab_rows)
        add_slabs(run, blas, p, call);
    else
        weft__cuda_product_step(&run->steps[run->count++], blas->first_product + i, &call);
    run->factors[p] = blas->brain || as_is ? NULL : factors_of(run);
    run->bias[p] = part->bias;
    if (!follows && (way != DIRECT || part->bias))
        weft__linear_add_finish(run, p, call.y, call.y_stride,
                                way == DIRECT ? NULL : args->residual);
}

void weft__linear_add_blas(struct weft__linear_run *run, const struct weft__linear_set *set,
                           bool follows)
{
    need_x(run, &set->blas);
    for (int32_t i = 0; i < set->num_parts; i++)
        add_part(run, &set->blas, i, set->parts[i], follows);
}

void weft__linear_add_widened(struct weft__linear_run *run, int32_t p, bool follows)
{
    const struct weft__linear_blas *blas = &run->launch->parts[p].blas;
    need_x(run, blas);
    add_part(run, blas, 0, p, follows);
}
