// SPDX-License-Identifier: MIT
#include "src/kernels/cuda/launch.h"

#include <stdio.h>

const struct weft__kernel *weft__cuda_choose(const struct weft__kernel_table *table,
                                             const struct weft__cuda_limits *limits,
                                             const char *variant, weft__cuda_serves_fn *serves,
                                             const void *desc, struct weft__cuda_choice *choice,
                                             weft_status *status)
{
    bool named = false;
    for (int32_t i = 0; i < table->count; i++) {
        const struct weft__kernel *row =
            (const void *)((const char *)table->rows + (size_t)i * (size_t)table->row_bytes);
        // what a library makes is a plan's own choice beside its kernels, or has its name
        if (variant ? strcmp(variant, row->name) != 0 : row->level == WEFT__CUDA_cublaslt)
            continue;
        named = true;
        if (weft__cuda_fits(limits, row) && (!serves || serves(row, desc))) {
            choice->row = row;
            return row;
        }
    }
    *status = variant ? WEFT_EVARIANT : WEFT_EUNSUPPORTED;
    if (variant && !named)
        snprintf(choice->text, sizeof choice->text,
                 "no %s kernel is called '%.64s': `weft info --kernels` lists them", table->op,
                 variant);
    else if (variant)
        snprintf(choice->text, sizeof choice->text,
                 "%s kernel '%.64s' does not serve this problem or needs another GPU than sm_%d",
                 table->op, variant, limits->sm);
    else
        snprintf(choice->text, sizeof choice->text, "no %s kernel for this problem on cuda sm_%d",
                 table->op, limits->sm);
    return NULL;
}
