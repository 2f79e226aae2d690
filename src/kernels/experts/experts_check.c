// SPDX-License-Identifier: MIT
// Holds runs over experts against one of two oracles, by the products that take part.
//
//   exact       everything is worked out here in f64, from decoded weights
//   rounded     every choice is run by itself as linear layers of the same context (of a device: of the CPU), and added up
//               in f64. With WEFT_LINEAR_BATCH_INVARIANT only the sum may differ; otherwise a product's last bit may
//               put a number on the other side of a rounding step, and results agree to a few hundredths of the
//               largest terms. Devices round where weights are packed
//
// Bound of exact products: linear.h's, carried through the function (whose slope is below 1.3) and down.
#include <math.h>

#include "src/kernels/check.h"
#include "src/kernels/element.h"
#include "src/kernels/experts/experts_kernel.h"

static const double apart = 0.04; // of rounded products that need not agree to the bit

enum { MARK = 0x7a5a }; // in results of 16 bits: no number of the problem

struct problem {
    weft_experts_desc desc;
    weft_experts_args args;
    bool exact, gaps;                   // gaps: between experts
    bool adapted;                       // decoded is what weights and adapters are together
    float *decoded[WEFT_EXPERTS_PARTS]; // [experts][rows][cols]
    float *x, *residual;                // what they said before the run
    int32_t *ids;
};

static bool weighs_input(const weft_experts_desc *desc)
{
    return desc->flags & WEFT_EXPERTS_WEIGH_INPUT;
}

static bool has(const weft_experts_desc *desc, int part)
{
    return part != WEFT_EXPERTS_UP || !(desc->flags & WEFT_EXPERTS_PLAIN);
}

static weft_dtype draw_format(struct check_case *c)
{
    if (c->format)
        return c->format;
    return (weft_dtype)check_pick(c, 14, WEFT_F32, WEFT_F16, WEFT_BF16, WEFT_Q8_0, WEFT_Q4_0,
                                  WEFT_Q4_K, WEFT_Q6_K, WEFT_Q5_K, WEFT_Q3_K, WEFT_Q2_K, WEFT_Q5_1,
                                  WEFT_IQ4_NL, WEFT_IQ4_XS, WEFT_MXFP4);
}

static int64_t draw_cols(struct check_case *c, int32_t block)
{
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
    if (!c->reference && desc->clamp_limit == 0 && check_range(c, 0, 3) == 0) { // the CPU's
        desc->flags |= WEFT_EXPERTS_PLAIN;
        desc->parts[WEFT_EXPERTS_UP] = (weft_linear_part){0};
    }
    if (!c->reference && check_range(c, 0, 3) == 0) // likewise
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

static weft_dtype or_f32(weft_dtype dtype)
{
    return dtype ? dtype : WEFT_F32;
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

// Exact problems may have adapters, which the oracle merges. (Merged weights are no f32 any more: what that costs is below
// the bound of a product.)
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

static void check_gaps(struct check_case *c, const struct problem *p)
{
    int64_t stride = p->args.y_stride, cols = p->desc.cols;
    const uint16_t *y = p->args.y;
    if (or_f32(p->desc.y_dtype) == WEFT_F32)
        check_written_rows(c, p->args.y, p->args.batch, cols, stride, "y");
    else
        for (int64_t i = 0; i < (p->args.batch - 1) * stride && !c->failed; i++)
            if (i % stride >= cols && y[i] != MARK)
                check_fail(c, "y[%lld] lies between rows and was written", (long long)i);
}

static struct problem draw(struct check_case *c)
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
    if (p.desc.flags & WEFT_LINEAR_EXACT && !c->reference && check_range(c, 0, 2) == 0)
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

// Of plain experts up is 1.
static double function(const weft_experts_desc *desc, double gate, double up)
{
    double limit = (double)desc->clamp_limit, slope = (double)desc->clamp_slope;
    if (limit != 0)
        return fmin(gate, limit) / (1 + exp(-slope * fmin(gate, limit))) *
               (fmin(fmax(up, -limit), limit) + 1);
    if (desc->gate == WEFT_LINEAR_GATE_SILU)
        return gate / (1 + exp(-gate)) * up;
    if (desc->gate == WEFT_LINEAR_GATE_GELU)
        return 0.5 * gate * (1 + erf(gate * 0.70710678118654752)) * up;
    return 0.5 * gate * (1 + tanh(0.79788456080286536 * (gate + 0.044715 * gate * gate * gate))) *
           up;
}

// A product with one row of W, and how far it may be off when x is off by x_off.
static double product(const float *w, int64_t cols, const double *x, const double *x_off,
                      const float *bias, double *off)
{
    double sum = 0, sizes = 0, slack = 0;
    for (int64_t i = 0; i < cols; i++) {
        sum += (double)w[i] * x[i];
        sizes += fabs((double)w[i] * x[i]);
        slack += fabs((double)w[i]) * x_off[i];
    }
    sum += bias ? (double)*bias : 0;
    *off =
        slack + 0x1p-23 * (fmax(8, sqrt((double)cols)) + 8) * sizes + 0x1p-22 * fabs(sum) + 1e-30;
    return sum;
}

// x of a token, normed.
static void read_x(const struct problem *p, int32_t token, double *x, double *off)
{
    const float *from = p->x + token * p->args.x_stride;
    double square = 0, plus = p->desc.flags & WEFT_LINEAR_NORM_PLUS_ONE ? 1 : 0;
    for (int64_t i = 0; i < p->desc.cols; i++)
        square += (double)from[i] * (double)from[i];
    double scale = 1 / sqrt(square / (double)p->desc.cols + (double)p->desc.norm_eps);
    for (int64_t i = 0; i < p->desc.cols; i++) {
        x[i] = (double)from[i];
        if (p->desc.norm)
            x[i] *= scale * (p->args.norm_weight ? (double)p->args.norm_weight[i] + plus : 1);
        off[i] = p->desc.norm ? 0x1p-21 * fabs(x[i]) : 0;
    }
}

// What expert e makes of x, in f64.
static void expert_exactly(struct check_case *c, const struct problem *p, int32_t e,
                           const double *x, const double *x_off, double *y, double *y_off)
{
    int64_t inner = p->desc.inner, cols = p->desc.cols;
    const float *bias[WEFT_EXPERTS_PARTS];
    for (int n = 0; n < WEFT_EXPERTS_PARTS; n++)
        bias[n] = p->args.parts[n].bias;
    double *h = check_buffer(c, (size_t)inner * sizeof *h, 8);
    double *h_off = check_buffer(c, (size_t)inner * sizeof *h, 8);
    for (int64_t i = 0; i < inner; i++) {
        int64_t at = e * inner + i;
        double gate_off, up_off = 0, up = 1;
        double gate = product(p->decoded[0] + at * cols, cols, x, x_off,
                              bias[0] ? bias[0] + at : NULL, &gate_off);
        if (has(&p->desc, WEFT_EXPERTS_UP))
            up = product(p->decoded[1] + at * cols, cols, x, x_off, bias[1] ? bias[1] + at : NULL,
                         &up_off);
        double size = fabs(function(&p->desc, gate, 1)) + 1e-3;
        h[i] = function(&p->desc, gate, up);
        h_off[i] = (1.3 * gate_off + 0x1p-19 * (size + fmin(1, fabs(gate)))) * (fabs(up) + 1) * 2 +
                   size * up_off;
    }
    for (int64_t i = 0; i < cols; i++) {
        int64_t at = e * cols + i;
        y[i] = product(p->decoded[2] + at * inner, inner, h, h_off, bias[2] ? bias[2] + at : NULL,
                       &y_off[i]);
    }
}

static void run_linear(struct check_case *c, const weft_linear_desc *desc, weft_linear_args *args)
{
    weft_plan *plan = NULL;
    weft_context *context = c->reference ? c->reference : c->context;
    if (check_ok(c, weft_linear_plan(context, desc, &plan), "plan of a product")) {
        args->workspace_bytes = weft_plan_workspace_bytes(plan);
        args->workspace = check_buffer(c, args->workspace_bytes, 64);
        check_ok(c, weft_linear_run(plan, args), "product");
    }
    weft_plan_destroy(plan);
}

static weft_linear_part_args part_of(const struct problem *p, int n, int32_t e, float *y)
{
    const weft_experts_part_args *args = &p->args.parts[n];
    int64_t rows = n == WEFT_EXPERTS_DOWN ? p->desc.cols : p->desc.inner;
    int64_t cols = n == WEFT_EXPERTS_DOWN ? p->desc.inner : p->desc.cols;
    int64_t stride = args->expert_stride_bytes;
    if (stride == 0)
        stride = rows * weft_dtype_row_bytes(p->desc.parts[n].weight_dtype, cols);
    return (weft_linear_part_args){.weight = (const char *)args->weight + e * stride,
                                   .bias = args->bias ? args->bias + e * rows : NULL,
                                   .y = y};
}

// The function of products that came without their biases, of a row that is multiplied by `weight`.
static double function_of_weighed(const struct problem *p, int32_t e, int64_t i, double weight,
                                  double gate, double up)
{
    const float *gate_bias = p->args.parts[0].bias, *up_bias = p->args.parts[1].bias;
    int64_t at = e * p->desc.inner + i;
    gate = weight * gate + (gate_bias ? (double)gate_bias[at] : 0);
    up = has(&p->desc, WEFT_EXPERTS_UP) ? weight * up + (up_bias ? (double)up_bias[at] : 0) : 1;
    return function(&p->desc, gate, up);
}

// The same by linear layers for a single row.
static void expert_by_layers(struct check_case *c, const struct problem *p, int32_t e,
                             const float *x, double weight, double *y)
{
    const weft_experts_desc *d = &p->desc;
    bool plain = !has(d, WEFT_EXPERTS_UP), weighed = weighs_input(d);
    bool apart_function = d->clamp_limit != 0 || plain || weighed;
    const uint32_t flags = d->flags & ~(uint32_t)(WEFT_EXPERTS_PLAIN | WEFT_EXPERTS_WEIGH_INPUT);
    float *h = check_output(c, d->inner), *up = check_output(c, d->inner);
    float *result = check_output(c, d->cols);
    weft_linear_desc inner = {.size = sizeof inner,
                              .flags = flags,
                              .cols = d->cols,
                              .norm = d->norm,
                              .norm_eps = d->norm_eps,
                              .gate = apart_function ? WEFT_LINEAR_GATE_NONE : d->gate,
                              .num_parts = plain ? 1 : 2,
                              .parts = {d->parts[0], d->parts[1]}};
    weft_linear_desc down = {.size = sizeof down,
                             .flags = flags & ~(uint32_t)WEFT_LINEAR_NORM_PLUS_ONE,
                             .cols = d->inner,
                             .num_parts = 1,
                             .parts = {d->parts[2]}};
    inner.parts[0].rows = d->inner;
    inner.parts[1].rows = plain ? 0 : d->inner;
    down.parts[0].rows = d->cols;
    weft_linear_args args = {.size = sizeof args,
                             .batch = 1,
                             .x = x,
                             .norm_weight = p->args.norm_weight,
                             .parts = {part_of(p, 0, e, h)}};
    if (!plain)
        args.parts[1] = part_of(p, 1, e, up);
    if (weighed)
        args.parts[0].bias = args.parts[1].bias = NULL;
    run_linear(c, &inner, &args);
    for (int64_t i = 0; apart_function && i < d->inner; i++)
        h[i] = (float)(weighed ? function_of_weighed(p, e, i, weight, h[i], up[i])
                               : function(d, h[i], plain ? 1 : up[i]));
    args = (weft_linear_args){
        .size = sizeof args, .batch = 1, .x = h, .parts = {part_of(p, 2, e, result)}};
    run_linear(c, &down, &args);
    for (int64_t i = 0; i < d->cols; i++)
        y[i] = result[i];
}

static void check_token(struct check_case *c, const struct problem *p, int32_t token)
{
    int64_t cols = p->desc.cols;
    int32_t k = p->desc.top_k;
    size_t bytes = (size_t)cols * sizeof(double);
    double *x = check_buffer(c, bytes, 8), *x_off = check_buffer(c, bytes, 8);
    double *y = check_buffer(c, bytes, 8), *off = check_buffer(c, bytes, 8);
    double *want = check_buffer(c, bytes, 8), *bound = check_buffer(c, bytes, 8), largest = 0;
    bool weighed = weighs_input(&p->desc);
    bool agrees = p->desc.flags & WEFT_LINEAR_BATCH_INVARIANT && p->desc.clamp_limit == 0 &&
                  has(&p->desc, WEFT_EXPERTS_UP) && !weighed && !c->reference;
    double alpha = p->args.alpha != 0 ? (double)p->args.alpha : 1;
    memset(want, 0, bytes);
    memset(bound, 0, bytes);
    memset(off, 0, bytes);
    for (int32_t i = 0; i < k && !c->failed; i++) {
        int32_t e = p->ids[token * k + i];
        double own = (double)p->args.weights[token * k + i], weight = weighed ? alpha : alpha * own;
        read_x(p, token, x, x_off);
        for (int64_t j = 0; weighed && j < cols; j++) {
            x[j] *= own;
            x_off[j] = x_off[j] * own + 0x1p-23 * fabs(x[j]);
        }
        if (p->exact)
            expert_exactly(c, p, e, x, x_off, y, off);
        else
            expert_by_layers(c, p, e, p->x + token * p->args.x_stride, own, y);
        for (int64_t j = 0; j < cols; j++) {
            want[j] += weight * y[j];
            bound[j] += fabs(weight) * (off[j] + 0x1p-20 * fabs(y[j]));
            largest = fmax(largest, fabs(weight * y[j]));
        }
    }
    for (int64_t j = 0; j < cols && !c->failed; j++) {
        int64_t at = token * p->args.y_stride + j;
        double residual = p->residual ? (double)p->residual[at] : 0;
        bound[j] += 0x1p-22 * (fabs(residual) + fabs(want[j])) + 1e-30;
        if (!p->exact && !agrees)
            bound[j] += apart * largest;
        weft_dtype dtype = or_f32(p->desc.y_dtype);
        if (dtype != WEFT_F32)
            bound[j] +=
                (dtype == WEFT_F16 ? 0x1p-11 : 0x1p-8) * (fabs(want[j] + residual) + bound[j]) +
                0x1p-24;
        check_close(c, weft__element_load(p->args.y, dtype, at), want[j] + residual, bound[j], "y",
                    at);
    }
}

static void check_bytes(struct check_case *c, const struct problem *p, uint64_t read)
{
    uint64_t want = 0;
    for (int32_t e = 0; e < p->desc.experts; e++)
        for (int n = 0; n < WEFT_EXPERTS_PARTS && p->args.starts[e + 1] > p->args.starts[e]; n++) {
            bool down = n == WEFT_EXPERTS_DOWN;
            if (!has(&p->desc, n))
                continue;
            want += (uint64_t)(weft_dtype_row_bytes(p->desc.parts[n].weight_dtype,
                                                    down ? p->desc.inner : p->desc.cols) *
                               (down ? p->desc.cols : p->desc.inner));
        }
    if (read != want)
        check_fail(c, "%llu bytes of weights read, not %llu", (unsigned long long)read,
                   (unsigned long long)want);
}

// Packs what lies so that it can be packed.
static bool pack(struct check_case *c, const weft_plan *plan, weft_experts_args *args)
{
    for (int n = 0; n < WEFT_EXPERTS_PARTS; n++)
        if (!weft_experts_packed_bytes(plan, n) || args->parts[n].expert_stride_bytes)
            return false;
    for (int n = 0; n < WEFT_EXPERTS_PARTS; n++) {
        weft_experts_part_args *part = &args->parts[n];
        const weft_linear_pack_args how = {
            .size = sizeof how,
            .part = n,
            .weight = part->weight,
            .packed = check_buffer(c, weft_experts_packed_bytes(plan, n), 64)};
        check_ok(c, weft_experts_pack(plan, &how), "pack");
        part->packed = how.packed;
        part->weight = NULL;
    }
    return true;
}

check_fn weft__experts_check;
void weft__experts_check(struct check_case *c)
{
    weft_plan *plan = NULL;
    bool packed = false;
    struct problem p = draw(c);
    uint64_t *read = check_buffer(c, sizeof *read, sizeof *read);
    *read = 5;
    p.args.bytes_read = read;
    if (!c->failed && check_ok(c, weft_experts_plan(c->context, &p.desc, &plan), "plan")) {
        p.args.workspace_bytes = weft_plan_workspace_bytes(plan);
        p.args.workspace = check_buffer(c, p.args.workspace_bytes, 64);
        weft_experts_args args = p.args;
        packed = check_range(c, 0, 3) && pack(c, plan, &args);
        check_ok(c, weft_experts_run(plan, &args), "run");
    }
    p.exact = p.desc.flags & WEFT_LINEAR_EXACT || (c->reference && !packed);
    weft_plan_destroy(plan);
    check_gaps(c, &p);
    for (int32_t token = 0; token < p.args.batch && !c->failed; token++)
        check_token(c, &p, token);
    if (!c->failed)
        check_bytes(c, &p, *read - 5);
}
