// SPDX-License-Identifier: MIT
// weft tune linear: is what a candidate computes right?
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/tune/tune_linear.h"

// The reference kernel that rounds as this one does: linear_<format>_<acts>_ref.
static void name_reference(const linear_problem *p, char name[96])
{
    bench_kernel kernel = bench_kernel_of(&p->wish->run, p->plan);
    const char *format = weft_dtype_name(p->format);
    size_t skip = strlen("linear_") + strlen(format) + 1;
    const char *acts = strlen(kernel.name) > skip ? kernel.name + skip : "f32";
    snprintf(name, 96, "linear_%s_%.*s_ref", format, (int)strcspn(acts, "_"), acts);
}

// What tiles of bf16 add to the error, over the sum of magnitudes: what linear.h says of packed blocks.
static double tiles_error(const linear_problem *p)
{
    weft_plan_info decided = {.size = sizeof decided};
    if (p->wish->in_place || weft_plan_query(p->plan, &decided) != WEFT_OK ||
        !decided.packed_bf16_batch || p->batch < decided.packed_bf16_batch)
        return 0;
    return p->format == WEFT_MXFP4 ? 0x1p-8 : 0x1p-7;
}

// Who says what is right, the input and what a candidate made of it.
struct sides {
    weft_context *context;
    const float *x, *y;
};

// The largest error over its bound in `rows` rows of W from r0 on: both sides may be as far from exact arithmetic as
// linear.h says, where a weight counts as much as the largest of its row, twice.
static bool compare_rows(const linear_problem *p, const struct sides *sides, const char *reference,
                         int64_t r0, int32_t rows, double *worst)
{
    linear_request *wish = p->wish;
    weft_context *context = sides->context;
    int64_t row_bytes = weft_dtype_row_bytes(p->format, wish->cols);
    const weft_linear_desc desc = {.size = sizeof desc,
                                   .weight_dtype = p->format,
                                   .max_batch = p->batch,
                                   .rows = rows,
                                   .cols = wish->cols,
                                   .variant = reference};
    weft_linear_args args = {.size = sizeof args, .batch = p->batch, .x = sides->x};
    weft_plan *plan = NULL;
    float *y = malloc(sizeof *y * (size_t)p->batch * (size_t)rows);
    float *w = malloc(sizeof *w * (size_t)wish->cols);
    bool fine = y && w && weft_linear_plan(context, &desc, &plan) == WEFT_OK;
    args.workspace_bytes = fine ? weft_plan_workspace_bytes(plan) : 0;
    args.workspace = NULL;
    fine = fine && weft_memory_allocate(context, WEFT_MEMORY_DEVICE, args.workspace_bytes + 64,
                                        &args.workspace) == WEFT_OK;
    args.weight = p->weights + r0 * row_bytes;
    args.y = y;
    fine = fine && weft_linear_run(plan, &args) == WEFT_OK;
    const double tiles = tiles_error(p);
    for (int32_t r = 0; fine && r < rows; r++) {
        float most = 0;
        weft_dequantize_row(p->format, p->weights + (r0 + r) * row_bytes, wish->cols, w);
        for (int32_t i = 0; i < wish->cols; i++)
            most = fmaxf(most, fabsf(w[i]));
        for (int32_t m = 0; m < p->batch; m++) {
            const float *x = sides->x + (int64_t)m * wish->cols;
            double sum = 0;
            for (int32_t i = 0; i < wish->cols; i++)
                sum += fabs((double)x[i]);
            double bound = (0x1p-21 * fmax(8, sqrt(wish->cols)) + tiles) * (double)most * sum;
            double off = fabs((double)y[(int64_t)m * rows + r] -
                              (double)sides->y[(int64_t)m * wish->rows + r0 + r]);
            *worst = off / bound <= *worst ? *worst : off / bound; // keeps a NaN
        }
    }
    weft_plan_destroy(plan);
    weft_memory_free(context, args.workspace);
    free(y);
    free(w);
    return fine || bench_error(&wish->run);
}

static bool compare_places(const linear_problem *p, const struct sides *sides, double *worst)
{
    enum { ROWS = 8 };
    char reference[96];
    int32_t all = p->wish->rows, rows = all < ROWS ? all : ROWS;
    const int64_t places[] = {0, (all - rows) / 2, all - rows};
    bool fine = true;
    *worst = 0;
    name_reference(p, reference);
    for (int i = 0; fine && i < 3; i++)
        fine = compare_rows(p, sides, reference, places[i], rows, worst);
    return fine;
}

// What a device has, on the host. NULL with a message.
static float *fetch(const linear_problem *p, const void *from, int64_t elems)
{
    weft_context *context = p->wish->run.context;
    float *to = malloc((size_t)elems * sizeof *to);
    if (to && weft_copy(context, to, from, (size_t)elems * sizeof *to, NULL) == WEFT_OK &&
        weft_stream_synchronize(context, NULL) == WEFT_OK)
        return to;
    free(to);
    bench_error(&p->wish->run);
    return NULL;
}

bool tune_linear_check(linear_problem *p, weft_context *judge, double *worst)
{
    if (!linear_run_once(p))
        return bench_error(&p->wish->run);
    if (!judge) {
        const struct sides here = {p->wish->run.context, p->args.x, p->args.y};
        return compare_places(p, &here, worst);
    }
    float *x = fetch(p, p->args.x, (int64_t)p->batch * p->wish->cols);
    float *y = x ? fetch(p, p->args.y, (int64_t)p->batch * p->wish->rows) : NULL;
    const struct sides there = {judge, x, y};
    bool fine = y && compare_places(p, &there, worst);
    free(x);
    free(y);
    return fine;
}
