// SPDX-License-Identifier: MIT
#include "src/plan/plan_linear.h"

#include "src/base/checked.h"

struct weft__linear_split weft__plan_linear_split(int64_t rows, int64_t row_bytes, int64_t few_step,
                                                  int64_t many_step, int32_t threads,
                                                  const weft_tuning *tuned)
{
    // Batches reuse what they decode: larger tasks.
    int64_t share = weft__ceil_div(rows, threads);
    int64_t few = weft__ceil_div(tuned->task_bytes, row_bytes),
            many = weft__ceil_div(share, tuned->tasks_per_thread);
    // A thread that began its last task late keeps all others waiting: none is more than a sixth of a share.
    const int64_t most = weft__ceil_div(share, 6);
    few = few < most ? few : most;
    return (struct weft__linear_split){weft__ceil_div(few, few_step) * few_step,
                                       weft__ceil_div(many, many_step) * many_step};
}

int64_t weft__plan_linear_x_row(const weft_linear_desc *desc)
{
    return desc->x_gate ? 2 * desc->cols : desc->cols; // fits: a plan has room for rows in f32
}

bool weft__plan_linear_planes(const weft_linear_part *part)
{
    weft_dtype dtype = part->weight_dtype;
    return dtype == WEFT_INT8 || dtype == WEFT_FP8_E4M3 || dtype == WEFT_FP8_E5M2 ||
           (dtype >= WEFT_MLX_Q2_G32 && dtype <= WEFT_MLX_Q8_G128) || part->scale_cols;
}

bool weft__plan_linear_packed(const weft_linear_part *part, int64_t cols,
                              struct weft__linear_packed *out)
{
    const int64_t align = 256;
    int64_t bytes, elems = 0;
    *out =
        (struct weft__linear_packed){.row_bytes = weft_dtype_row_bytes(part->weight_dtype, cols)};
    if (!weft__mul_i64(out->row_bytes, part->rows, &bytes) || bytes > INT64_MAX / 4)
        return false;
    if (weft__plan_linear_planes(part)) {
        out->scale_row = weft__ceil_div(cols, part->scale_cols);
        if (!weft__mul_i64(out->scale_row, weft__ceil_div(part->rows, part->scale_rows), &elems) ||
            elems > INT64_MAX / 64)
            return false;
    }
    int64_t plane = elems * (part->scale_dtype == WEFT_F32 ? 4 : 2);
    out->scales = weft__align_up(bytes, align);
    out->biases = weft__align_up(out->scales + plane, align);
    out->bytes = elems ? weft__align_up(out->biases + plane, align) : bytes;
    return true;
}

bool weft__plan_linear_alone(int64_t bytes, int32_t batch, int32_t threads)
{
    const int64_t alone_bytes = 48 * 1024;
    return threads == 1 || bytes <= alone_bytes / batch;
}
