// SPDX-License-Identifier: MIT
#include "cli/bench/bench_linear.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool set_activations(linear_problem *p)
{
    uint32_t state = 1;
    size_t x_elems = (size_t)p->batch * (size_t)p->wish->cols;
    size_t y_elems = (size_t)p->batch * (size_t)p->wish->rows;
    if (!bench_fits(&p->wish->run, ((double)x_elems + (double)y_elems) * sizeof(float)))
        return false;
    bench *run = &p->wish->run;
    float *values = malloc(x_elems * sizeof *values);
    float *x = bench_allocate(run, x_elems * sizeof *x);
    float *y = bench_allocate(run, y_elems * sizeof *y);
    size_t workspace_bytes = weft_plan_workspace_bytes(p->plan);
    void *workspace = bench_allocate(run, workspace_bytes + 64);
    p->args = (weft_linear_args){.size = sizeof p->args,
                                 .batch = p->batch,
                                 .x = x,
                                 .y = y,
                                 .workspace = workspace,
                                 .workspace_bytes = workspace_bytes};
    for (size_t i = 0; values && i < x_elems; i++)
        values[i] = bench_value(&state);
    bool fine =
        values && x && y && workspace && bench_put(run, x, values, (int64_t)(x_elems * sizeof *x));
    if (!values)
        cli_failed(run->self, "no memory for %d rows of activations", p->batch);
    free(values);
    return fine;
}

// W on the host: some rows of real values, repeated.
char *linear_make_weights(const linear_request *wish, weft_dtype format)
{
    enum { DISTINCT = 16 };
    int64_t row_bytes = weft_dtype_row_bytes(format, wish->cols);
    int64_t bytes = wish->rows * row_bytes, used = 0;
    int32_t distinct = wish->rows < DISTINCT ? wish->rows : DISTINCT;
    uint32_t state = 7;
    if (!bench_fits(&wish->run, (double)bytes + (double)wish->cols * sizeof(float)))
        return NULL;
    float *values = malloc((size_t)wish->cols * sizeof *values);
    char *weights = malloc((size_t)bytes);
    if (!values || !weights) {
        free(values);
        free(weights);
        cli_failed(wish->run.self, "no memory for %lld bytes of weights", (long long)bytes);
        return NULL;
    }
    for (int32_t row = 0; row < distinct; row++, used += row_bytes) {
        for (int32_t col = 0; col < wish->cols; col++)
            values[col] = bench_value(&state);
        weft_quantize_row(format, values, wish->cols, weights + used);
    }
    free(values);
    while (used < bytes) {
        int64_t part = used < bytes - used ? used : bytes - used;
        memcpy(weights + used, weights, (size_t)part);
        used += part;
    }
    return weights;
}

// All copies of W, packed as the plan's device reads them, or as a file has them.
static bool fill_weights(linear_problem *p)
{
    enum { TURNS = 3 };
    linear_request *wish = p->wish;
    const weft_linear_pack_args pack = {
        .size = sizeof pack, .weight = p->weights, .packed = wish->run.memory};
    bool fine = true;
    bench_progress(&wish->run, "writing weights");
    if (wish->in_place)
        fine = bench_put(&wish->run, wish->run.memory, p->weights, p->weight_bytes);
    for (int turn = 0; fine && !wish->in_place && turn < TURNS; turn++) {
        const double before = cli_now_seconds();
        fine = (weft_linear_pack(p->plan, &pack) == WEFT_OK &&
                weft_stream_synchronize(wish->run.context, NULL) == WEFT_OK) ||
               bench_error(&wish->run);
        const double seconds = cli_now_seconds() - before;
        p->pack_seconds = turn && p->pack_seconds < seconds ? p->pack_seconds : seconds;
    }
    for (int64_t copy = 1; fine && copy < p->copies; copy++)
        fine = bench_put(&wish->run, (char *)wish->run.memory + copy * p->stride_bytes,
                         wish->run.memory, p->weight_bytes);
    return fine;
}

bool linear_run_once(void *user)
{
    linear_problem *p = user;
    const void *weights =
        p->wish->run.memory + bench_next_copy(&p->wish->run, p->stride_bytes) * p->stride_bytes;
    if (p->wish->in_place)
        p->args.weight = weights;
    else
        *(p->scaled ? &p->args.parts[0].packed : &p->args.packed) = weights;
    return weft_linear_run(p->plan, &p->args) == WEFT_OK;
}

bool linear_make_ready(linear_problem *p)
{
    linear_request *wish = p->wish;
    weft_linear_desc desc = {.size = sizeof desc,
                             .flags = wish->exact ? WEFT_LINEAR_EXACT : 0,
                             .weight_dtype = p->format,
                             .max_batch = p->batch,
                             .rows = wish->rows,
                             .cols = wish->cols,
                             .variant = wish->run.variant};
    p->scaled = wish->run.options.device != WEFT_DEVICE_CPU &&
                strncmp(weft_dtype_name(p->format), "mlx_", 4) == 0;
    if (p->scaled) {
        desc.parts[desc.num_parts++] = (weft_linear_part){
            .weight_dtype = p->format, .rows = wish->rows, .scale_dtype = WEFT_F16};
        desc.weight_dtype = WEFT_DTYPE_NONE;
        desc.rows = 0;
    }
    if (weft_linear_plan(wish->run.context, &desc, &p->plan) != WEFT_OK)
        return bench_error(&wish->run);
    p->weight_bytes = wish->in_place ? wish->rows * weft_dtype_row_bytes(p->format, wish->cols)
                                     : (int64_t)weft_linear_packed_bytes(p->plan, 0);
    // A list behind bf16 of 12 bits has room that is hardly used.
    const bool codes = p->format == WEFT_BF16 && weft_linear_packed_layout(p->plan, 0);
    p->read_bytes =
        codes && !wish->in_place ? (int64_t)wish->rows * wish->cols * 3 / 2 : p->weight_bytes;
    if (!bench_reserve(&wish->run, bench_working_set(&wish->run, p->weight_bytes + p->slack)))
        return false;
    p->copies = bench_copies(&wish->run, p->weight_bytes + p->slack, &p->stride_bytes);
    bool fine = fill_weights(p) && set_activations(p);
    if (p->scaled) {
        p->args.parts[0].y = p->args.y;
        p->args.y = NULL;
    }
    return fine;
}

bench_kernel linear_kernel_of(const linear_problem *p)
{
    const bench *run = &p->wish->run;
    weft_plan_info decided = {.size = sizeof decided};
    if (p->wish->in_place || weft_plan_query(p->plan, &decided) != WEFT_OK ||
        !decided.packed_kernel)
        return bench_kernel_of(run, p->plan);
    return bench_kernel_named(run, decided.packed_kernel);
}

void linear_drop(linear_problem *p)
{
    weft_plan_destroy(p->plan);
    weft_memory_free(p->wish->run.context, (void *)(uintptr_t)p->args.x);
    weft_memory_free(p->wish->run.context, p->scaled ? p->args.parts[0].y : p->args.y);
    weft_memory_free(p->wish->run.context, p->args.workspace);
    p->plan = NULL;
    p->args = (weft_linear_args){0};
}
