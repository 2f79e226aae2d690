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
#include "src/kernels/experts/experts_problem.h"

static const double apart = 0.04; // of rounded products that need not agree to the bit

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

// Packs the weights of parts that lie as in a file.
static void pack_linear(struct check_case *c, const weft_plan *plan, int32_t parts,
                        weft_linear_args *args)
{
    for (int32_t n = 0; n < parts && !c->failed; n++) {
        const weft_linear_pack_args how = {
            .size = sizeof how,
            .part = n,
            .weight = args->parts[n].weight,
            .packed = check_buffer(c, weft_linear_packed_bytes(plan, n), 64)};
        check_ok(c, weft_linear_pack(plan, &how), "pack of a product");
        args->parts[n].packed = how.packed;
        args->parts[n].weight = NULL;
    }
}

static void run_linear(struct check_case *c, const weft_linear_desc *desc, bool packed,
                       weft_linear_args *args)
{
    weft_plan *plan = NULL;
    weft_context *context = c->reference ? c->reference : c->context;
    if (check_ok(c, weft_linear_plan(context, desc, &plan), "plan of a product")) {
        args->workspace_bytes = weft_plan_workspace_bytes(plan);
        args->workspace = check_buffer(c, args->workspace_bytes, 64);
        if (packed)
            pack_linear(c, plan, desc->num_parts, args);
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
    run_linear(c, &inner, p->packed, &args);
    for (int64_t i = 0; apart_function && i < d->inner; i++)
        h[i] = (float)(weighed ? function_of_weighed(p, e, i, weight, h[i], up[i])
                               : function(d, h[i], plain ? 1 : up[i]));
    args = (weft_linear_args){
        .size = sizeof args, .batch = 1, .x = h, .parts = {part_of(p, 2, e, result)}};
    run_linear(c, &down, p->packed, &args);
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
        if (args->parts[n].weight &&
            (!weft_experts_packed_bytes(plan, n) || args->parts[n].expert_stride_bytes))
            return false;
    for (int n = 0; n < WEFT_EXPERTS_PARTS; n++) {
        weft_experts_part_args *part = &args->parts[n];
        if (!part->weight)
            continue;
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
    struct problem p = weft__experts_problem_draw(c);
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
    p.packed = packed && !c->reference;
    weft_plan_destroy(plan);
    check_gaps(c, &p);
    for (int32_t token = 0; token < p.args.batch && !c->failed; token++)
        check_token(c, &p, token);
    if (!c->failed)
        check_bytes(c, &p, *read - 5);
}
