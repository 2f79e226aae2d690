// SPDX-License-Identifier: MIT
// Random problems of experts: shapes, formats, routes, adapters.
#include <math.h>

#include "src/kernels/check.h"
#include "src/kernels/element.h"
#include "src/kernels/experts/experts_kernel.h"
#include "src/kernels/experts/experts_problem.h"

static weft_dtype draw_format(struct check_case *c)
{
    if (c->format)
        return c->format;
    return (weft_dtype)check_pick(c, 18, WEFT_F32, WEFT_F16, WEFT_BF16, WEFT_Q8_0, WEFT_Q4_0,
                                  WEFT_Q4_K, WEFT_Q6_K, WEFT_Q5_K, WEFT_Q3_K, WEFT_Q2_K, WEFT_Q5_1,
                                  WEFT_IQ4_NL, WEFT_IQ4_XS, WEFT_MXFP4, WEFT_IQ2_XXS, WEFT_IQ3_S,
                                  WEFT_IQ1_M, WEFT_TQ2_0);
}

static int64_t draw_cols(struct check_case *c, int32_t block)
{
    if (block > 1 && check_range(c, 0, 2) == 0) // whole chunks of packed weights
        return 256 * check_range(c, 1, 2);
    return block == 1 ? check_length(c, 150, 16) : block * check_range(c, 1, block < 256 ? 5 : 1);
}

static void draw_desc(struct check_case *c, weft_experts_desc *desc)
{
    int32_t blocks[WEFT_EXPERTS_PARTS];
    bool all_plain = true;
    *desc = (weft_experts_desc){.size = sizeof *desc, .variant = c->kernel->name};
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++) {
        desc->parts[p].weight_dtype =
            p && check_range(c, 0, 1) ? desc->parts[0].weight_dtype : draw_format(c);
        blocks[p] = weft_dtype_block_elems(desc->parts[p].weight_dtype);
        all_plain = all_plain && blocks[p] == 1;
    }
    desc->experts = (int32_t)check_range(c, 1, 6);
    desc->top_k = (int32_t)check_range(c, 1, desc->experts < 3 ? desc->experts : 3);
    desc->max_batch = (int32_t)check_pick(c, 4, 1, 1, check_range(c, 2, 9), check_range(c, 10, 40));
    desc->cols = draw_cols(c, blocks[0] > blocks[1] ? blocks[0] : blocks[1]);
    desc->inner = draw_cols(c, blocks[2]);
    desc->gate = (weft_linear_gate)check_range(c, 1, 3);
    if (check_range(c, 0, 3) == 0) {
        desc->gate = WEFT_LINEAR_GATE_SILU;
        desc->clamp_limit = check_uniform(c, 0.2f, 3);
        desc->clamp_slope = check_uniform(c, 1, 2);
    }
    if (check_range(c, 0, 1)) {
        desc->norm = WEFT_LINEAR_NORM_RMS;
        desc->norm_eps = 1e-5f;
        desc->flags |= check_range(c, 0, 1) ? WEFT_LINEAR_NORM_PLUS_ONE : 0;
    }
    desc->flags |= check_range(c, 0, 1) ? WEFT_LINEAR_BATCH_INVARIANT : 0;
    if (desc->clamp_limit == 0 && check_range(c, 0, 3) == 0) {
        desc->flags |= WEFT_EXPERTS_PLAIN;
        desc->parts[WEFT_EXPERTS_UP] = (weft_linear_part){0};
    }
    if (check_range(c, 0, 3) == 0)
        desc->flags |= WEFT_EXPERTS_WEIGH_INPUT;
    desc->x_dtype = (weft_dtype)check_pick(c, 4, WEFT_DTYPE_NONE, WEFT_F32, WEFT_F16, WEFT_BF16);
    desc->y_dtype = (weft_dtype)check_pick(c, 4, WEFT_DTYPE_NONE, WEFT_F32, WEFT_F16, WEFT_BF16);
    if (all_plain || check_range(c, 0, 2) == 0)
        desc->flags |= WEFT_LINEAR_EXACT;
}

static float *draw_floats(struct check_case *c, int64_t count, float size)
{
    float *x = check_buffer(c, (size_t)count * sizeof *x, sizeof *x);
    for (int64_t i = 0; i < count; i++)
        x[i] = size * check_normal(c);
    return x;
}

// Weights of one part, all experts; what lies between experts is never read.
static void draw_part(struct check_case *c, struct problem *p, int n)
{
    const weft_experts_desc *desc = &p->desc;
    weft_experts_part_args *args = &p->args.parts[n];
    int64_t rows = n == WEFT_EXPERTS_DOWN ? desc->cols : desc->inner;
    int64_t cols = n == WEFT_EXPERTS_DOWN ? desc->inner : desc->cols;
    weft_dtype dtype = desc->parts[n].weight_dtype;
    int64_t row = weft_dtype_row_bytes(dtype, cols), gap = p->gaps ? row * check_range(c, 0, 1) : 0;
    int64_t stride = row * rows + gap;
    size_t bytes = (size_t)(stride * desc->experts - gap);
    unsigned char *weight = check_buffer(c, bytes, 4);
    float *decoded = check_buffer(c, (size_t)(desc->experts * rows * cols) * sizeof *decoded, 4);
    float *wanted = draw_floats(c, cols, 1);
    args->weight = weight;
    args->expert_stride_bytes = gap ? stride : 0;
    p->decoded[n] = decoded;
    for (int64_t i = 0; i < desc->experts * rows; i++) {
        unsigned char *at = weight + i / rows * stride + i % rows * row;
        for (int64_t k = 0; k < cols; k++)
            wanted[k] = check_normal(c) / sqrtf((float)cols);
        check_ok(c, weft_quantize_row(dtype, wanted, cols, at), "quantize");
        weft_dequantize_row(dtype, at, cols, decoded + i * cols);
    }
    if (check_range(c, 0, 2) == 0)
        args->bias = draw_floats(c, desc->experts * rows, 0.5f);
}

// `x` in a format; x becomes what that says.
static void *given(struct check_case *c, weft_dtype dtype, float *x, int64_t count)
{
    size_t elem = (size_t)weft_dtype_block_bytes(dtype);
    void *to = check_buffer(c, (size_t)count * elem, elem);
    weft__elements_narrow(x, count, to, dtype);
    weft__elements_widen(to, dtype, count, x);
    return to;
}

// Exact problems may have adapters, which the oracle merges. (Merged weights are no f32 any more: what that
// costs is below the bound of a product.)
static void draw_adapters(struct check_case *c, struct problem *p)
{
    const weft_experts_desc *desc = &p->desc;
    int32_t count = (int32_t)check_range(c, 1, 3), most = (int32_t)check_range(c, 1, 9);
    weft_experts_adapter *list = check_buffer(c, (size_t)count * sizeof *list, 8);
    p->desc.adapter_rank = most;
    p->adapted = true;
    for (int32_t i = 0; i < count; i++) {
        const int n = (int)check_pick(c, 3, 0, 2, has(desc, 1) ? 1 : 0);
        const int64_t rows = n == WEFT_EXPERTS_DOWN ? desc->cols : desc->inner;
        const int64_t cols = n == WEFT_EXPERTS_DOWN ? desc->inner : desc->cols;
        const int32_t rank = (int32_t)check_range(c, 1, most);
        const weft_dtype dtype = (weft_dtype)check_pick(c, 3, WEFT_F32, WEFT_F16, WEFT_BF16);
        float *a = draw_floats(c, desc->experts * rank * cols, 1 / sqrtf((float)cols));
        float *b = draw_floats(c, desc->experts * rank * rows, 1 / sqrtf((float)rank));
        list[i] = (weft_experts_adapter){.place = (weft_experts_place)n,
                                         .rank = rank,
                                         .a_dtype = dtype,
                                         .a = given(c, dtype, a, desc->experts * rank * cols),
                                         .b = given(c, WEFT_F32, b, desc->experts * rank * rows),
                                         .scale = check_uniform(c, -2, 2)};
        for (int64_t at = 0; at < desc->experts * rows * cols; at++) {
            int64_t e = at / (rows * cols), row = at / cols, col = at % cols;
            double sum = 0;
            for (int32_t r = 0; r < rank; r++)
                sum += (double)b[row * rank + r] * (double)a[(e * rank + r) * cols + col];
            p->decoded[n][at] += (float)((double)list[i].scale * sum);
        }
    }
    p->args.adapters = list;
    p->args.num_adapters = count;
}

static void route(struct check_case *c, struct problem *p)
{
    const weft_experts_desc *desc = &p->desc;
    int64_t tokens = desc->max_batch, choices = tokens * desc->top_k;
    weft_plan *plan = NULL;
    const weft_route_desc route = {.size = sizeof route,
                                   .experts = desc->experts,
                                   .top_k = desc->top_k,
                                   .max_rows = desc->max_batch};
    float *weights = check_output(c, choices);
    int32_t *starts = check_buffer(c, (size_t)(desc->experts + 1) * sizeof *starts, 4);
    int32_t *order = check_buffer(c, (size_t)choices * sizeof *order, 4);
    p->ids = check_buffer(c, (size_t)choices * sizeof *p->ids, 4);
    const weft_route_args args = {.size = sizeof args,
                                  .rows = desc->max_batch,
                                  .logits = draw_floats(c, tokens * desc->experts, 1),
                                  .ids = p->ids,
                                  .weights = weights,
                                  .starts = starts,
                                  .order = order};
    if (check_ok(c, weft_route_plan(c->context, &route, &plan), "plan of the route"))
        check_ok(c, weft_route_run(plan, &args), "route");
    weft_plan_destroy(plan);
    p->args.starts = starts;
    p->args.order = order;
    p->args.weights = weights;
}

// Room for results; 16 bits are marked, as floats are by whoever gives them out.
static void *output(struct check_case *c, weft_dtype dtype, int64_t elems)
{
    if (dtype == WEFT_F32)
        return check_output(c, elems);
    uint16_t *y = check_buffer(c, (size_t)elems * sizeof *y, sizeof *y);
    for (int64_t i = 0; i < elems; i++)
        y[i] = MARK;
    return y;
}

struct problem weft__experts_problem_draw(struct check_case *c)
{
    struct problem p = {.args = {.size = sizeof p.args}, .gaps = check_range(c, 0, 1)};
    weft_experts_args *args = &p.args;
    draw_desc(c, &p.desc);
    int64_t cols = p.desc.cols;
    args->batch = p.desc.max_batch;
    args->alpha = check_range(c, 0, 2) ? 0 : check_uniform(c, -2, 2);
    args->x_stride = cols + check_range(c, 0, 3);
    int64_t x_elems = (args->batch - 1) * args->x_stride + cols;
    weft_dtype y_dtype = or_f32(p.desc.y_dtype);
    p.x = draw_floats(c, x_elems, 1);
    args->x = given(c, or_f32(p.desc.x_dtype), p.x, x_elems);
    args->y_stride = cols + check_range(c, 0, 3);
    int64_t elems = (args->batch - 1) * args->y_stride + cols;
    args->y = output(c, y_dtype, elems);
    if (check_range(c, 0, 1)) {
        p.residual = draw_floats(c, elems, 1);
        args->residual = given(c, y_dtype, p.residual, elems);
        args->residual_stride = args->y_stride;
        if (check_range(c, 0, 1)) { // in its place
            for (int64_t m = 0; m < args->batch; m++)
                weft__elements_narrow(p.residual + m * args->y_stride, cols,
                                      weft__element_to(args->y, y_dtype, m * args->y_stride),
                                      y_dtype);
            args->residual = args->y;
        }
    }
    if (p.desc.norm && check_range(c, 0, 2))
        args->norm_weight = draw_floats(c, cols, 1);
    for (int n = 0; n < WEFT_EXPERTS_PARTS; n++)
        if (has(&p.desc, n))
            draw_part(c, &p, n);
    if (p.desc.flags & WEFT_LINEAR_EXACT && check_range(c, 0, 2) == 0)
        draw_adapters(c, &p);
    route(c, &p);
    check_note(
        c, "%d of %d experts, %s to %s, %s %s %s, %lldx%lld, batch %d, flags 0x%x gate %d clamp %g",
        p.desc.top_k, p.desc.experts, weft_dtype_name(or_f32(p.desc.x_dtype)),
        weft_dtype_name(y_dtype), weft_dtype_name(p.desc.parts[0].weight_dtype),
        weft_dtype_name(p.desc.parts[1].weight_dtype),
        weft_dtype_name(p.desc.parts[2].weight_dtype), (long long)p.desc.inner, (long long)cols,
        args->batch, p.desc.flags, (int)p.desc.gate, (double)p.desc.clamp_limit);
    return p;
}
