// SPDX-License-Identifier: MIT
// The launch that finishes products of others (linear_finish.cu).
#include "src/base/checked.h"
#include "src/kernels/linear/linear_steps_cuda.h"

static struct weft__linear_finish_part part_of(const struct weft__linear_run *run, int32_t p,
                                               const void *sums, int64_t stride)
{
    const weft_linear_part_args *part = &run->args->parts[p];
    const bool leaves = run->launch->flags & WEFT_LINEAR_Y_ROUNDED;
    return (struct weft__linear_finish_part){.sums = sums,
                                             .stride = stride,
                                             .bias = run->bias[p],
                                             .y = leaves ? NULL : part->y,
                                             .y_stride = part->y_stride,
                                             .rows = (int32_t)run->launch->parts[p].rows,
                                             .slices = run->slices[p]};
}

static struct weft__linear_finish_part staged_part(const struct weft__linear_run *run, int32_t p)
{
    return part_of(run, p, weft__linear_staged(run, p), run->launch->parts[p].rows);
}

// `count` parts, side by side, the largest of `rows` rows; of part p of the run the first.
static void add(struct weft__linear_run *run, int32_t p, struct weft__linear_finish_args *finish,
                int64_t rows, int32_t count, const void *residual)
{
    const struct weft__linear_cuda_launch *launch = run->launch;
    const weft_linear_args *args = run->args;
    const bool next = launch->flags & WEFT_LINEAR_NEXT;
    const bool leaves = launch->flags & WEFT_LINEAR_Y_ROUNDED;
    finish->scales = run->factors[p];
    finish->residual = residual;
    finish->rounded = next ? args->next : leaves ? args->parts[p].y : NULL;
    finish->next_weight = args->next_weight;
    finish->residual_stride = args->residual_stride;
    finish->batch = args->batch;
    finish->next_weight_plus = launch->flags & WEFT_LINEAR_NORM_PLUS_ONE ? 1.0f : 0.0f;
    const int64_t columns = 512; // of a block: four a thread
    struct weft__cuda_step *step = weft__cuda_step(
        &run->steps[run->count++], launch->finish, (uint32_t)weft__ceil_div(rows, columns),
        (uint32_t)args->batch, 128, finish, sizeof *finish);
    step->grid[2] = (uint32_t)count;
    step->overlap = 1;
}

void weft__linear_add_finish(struct weft__linear_run *run, int32_t p, const void *first,
                             int64_t stride, const void *residual)
{
    struct weft__linear_finish_args finish = {.part[0] = part_of(run, p, first, stride)};
    if (run->launch->gate)
        finish.part[1] = staged_part(run, 1);
    add(run, p, &finish, run->launch->parts[p].rows, 1, residual);
}

void weft__linear_add_finish_of(struct weft__linear_run *run, const int32_t *parts, int32_t count)
{
    struct weft__linear_finish_args finish = {.batch = 0};
    int64_t most = 0;
    for (int32_t i = 0; i < count; i++) {
        finish.part[i] = staged_part(run, parts[i]);
        most = run->launch->parts[parts[i]].rows > most ? run->launch->parts[parts[i]].rows : most;
    }
    if (count > 0)
        add(run, parts[0], &finish, most, count, run->args->residual);
}
