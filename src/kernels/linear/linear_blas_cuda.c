// SPDX-License-Identifier: MIT
#include "src/kernels/linear/linear_blas_cuda.h"

#include "src/kernels/linear/linear_cuda.h"

#define CONSTANTS(X) X(WEFT_BRAIN) X(WEFT_TERMS) X(WEFT_PLAIN) X(WEFT_X_DTYPE)
WEFT__CUDA_CONSTANTS(linear_blas, CONSTANTS)

enum { SLAB_BYTES = 32 << 20 }; // of f16, which stay in the second cache

// What the library is to write of a part: Y where it can.
static weft_dtype result_of(const weft_linear_desc *desc, const struct weft__linear_blas *blas,
                            const struct weft__linear_blas_wish *wish)
{
    const bool factors = !blas->brain && !blas->x_as_is;
    const weft_dtype format = blas->brain ? WEFT_BF16 : WEFT_F16;
    return !wish->follows && !factors && desc->y_dtype == format ? format : WEFT_F32;
}

static bool serves(const weft_linear_desc *desc, const struct weft__linear_blas_wish *wish)
{
    return (wish->slabs || wish->format == WEFT_BF16 || wish->format == WEFT_F16) &&
           !(desc->flags & (WEFT_LINEAR_EXACT | WEFT_LINEAR_BATCH_INVARIANT)) &&
           desc->cols % 8 == 0 && desc->cols <= WEFT__LINEAR_BLAS_COLS;
}

static void add_product(const weft_linear_desc *desc, const struct weft__linear_blas_wish *wish,
                        int32_t i, struct weft__cuda_choice *choice, struct weft__linear_blas *blas)
{
    const int64_t rows = desc->parts[wish->parts[i]].rows;
    blas->result[i] = result_of(desc, blas, wish);
    struct weft__cuda_product *product = &choice->products[choice->num_products++];
    *product = (struct weft__cuda_product){.dtype = blas->brain ? WEFT_BF16 : WEFT_F16,
                                           .result = blas->result[i],
                                           .rows = rows,
                                           .cols = desc->cols,
                                           .least_batch = blas->least_batch,
                                           .most_batch = desc->max_batch,
                                           .needed = wish->named,
                                           .offer = &blas->offers[i]};
    if (!wish->slabs)
        return;
    int64_t slabs = (rows * desc->cols * 2 + SLAB_BYTES - 1) / SLAB_BYTES;
    slabs = slabs < wish->slabs ? slabs : wish->slabs;
    blas->slab_rows = (int32_t)(((rows + slabs - 1) / slabs + 15) / 16 * 16);
    if (blas->slab_rows > rows)
        blas->slab_rows = (int32_t)rows;
    product->rows = blas->slab_rows;
    product->last_rows = rows % blas->slab_rows;
}

bool weft__linear_blas_plan(const weft_linear_desc *desc, const struct weft__linear_blas_wish *wish,
                            struct weft__cuda_choice *choice, struct weft__linear_blas *blas)
{
    *blas = (struct weft__linear_blas){
        .brain = !wish->slabs && wish->format == WEFT_BF16,
        .x_as_is = wish->x_dtype == (int32_t)(wish->slabs ? WEFT_F16 : wish->format) &&
                   desc->norm == WEFT_LINEAR_NORM_NONE};
    // by name: any number
    const int32_t least = wish->named ? 1 : WEFT__LINEAR_GEMM_MIN_BATCH;
    if (!serves(desc, wish) || desc->max_batch < least ||
        choice->num_products + wish->num_parts > WEFT__CUDA_MAX_PRODUCTS)
        return false;
    blas->least_batch = least;
    blas->first_product = choice->num_products;
    for (int32_t i = 0; i < wish->num_parts; i++)
        add_product(desc, wish, i, choice, blas);
    const struct weft__linear_blas_constants of_x = {
        .WEFT_BRAIN = blas->brain, .WEFT_TERMS = 1, .WEFT_PLAIN = 2, .WEFT_X_DTYPE = wish->x_dtype};
    blas->x_kernel = weft__cuda_want(choice, "src/kernels/linear/linear_gemm_x.cu",
                                     "weft_linear_gemm_x", WEFT__CUDA_VALUES(linear_blas, of_x));
    choice->kernels[blas->x_kernel].lazy = blas->x_as_is;
    return true;
}

bool weft__linear_blas_plan_set(const weft_linear_desc *desc, struct weft__cuda_choice *choice,
                                struct weft__linear_set *set)
{
    const struct weft__linear_cuda_launch *launch = choice->launch;
    const bool follows = desc->gate || weft__linear_rounds_y(desc);
    if (set->matter.block_elems != 1 || (desc->variant && !set->named_blas) ||
        (follows && !launch->whole))
        return false;
    return weft__linear_blas_plan(
        desc,
        &(struct weft__linear_blas_wish){.format = desc->parts[set->parts[0]].weight_dtype,
                                         .x_dtype = weft__linear_numbers_dtype(launch),
                                         .named = set->named_blas,
                                         .follows = follows,
                                         .parts = set->parts,
                                         .num_parts = set->num_parts},
        choice, &set->blas);
}
