// SPDX-License-Identifier: MIT
// Merging attention states, in double.
#include <math.h>

#include "src/kernels/element.h"
#include "src/kernels/merge/merge_kernel.h"

static void merge_row(const struct weft__merge_launch *launch, const weft_merge_args *args,
                      int64_t row)
{
    double largest = -INFINITY, sum = 0, y[WEFT__MERGE_MAX_DIM] = {0};
    const float *lse = args->lse + row;
    for (int32_t s = 0; s < args->num_states; s++)
        largest = fmax(largest, lse[s * args->lse_state_stride]);
    for (int32_t s = 0; s < args->num_states; s++) {
        double own = lse[s * args->lse_state_stride];
        int64_t at = weft__merge_x_at(launch, args, row, s);
        if (own == -INFINITY)
            continue;
        double weight = own == largest ? 1 : exp(own - largest);
        sum += weight;
        for (int32_t i = 0; i < launch->dim; i++)
            y[i] += weight * weft__element_load(args->x, launch->dtype, at + i);
    }
    int64_t to = weft__merge_out_at(launch, args, row);
    for (int32_t i = 0; i < launch->dim; i++)
        weft__element_store(args->out, launch->out_dtype, to + i,
                            sum == 0 ? 0 : (float)(y[i] / sum));
    if (args->out_lse)
        args->out_lse[row] = sum == 0 ? -INFINITY : (float)(largest + log(sum));
}

weft__merge_fn weft__merge_ref;
void weft__merge_ref(const struct weft__merge_launch *launch, const weft_merge_args *args,
                     int64_t row0, int64_t row1)
{
    for (int64_t row = row0; row < row1; row++)
        merge_row(launch, args, row);
}
