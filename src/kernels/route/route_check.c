// SPDX-License-Identifier: MIT
// Holds routing against what is worked out here, in long arithmetic and by ordering all experts.
//
// A choice that is worth less than another by no more than the rounding of scores is as good: where the
// values of two experts (or groups) are so near, only their being chosen by nearness is asked. Without bias
// and with groups worth their best expert, choices are those of the logits, ties included.
#include <math.h>
#include <stdlib.h>

#include "src/kernels/check.h"
#include "src/kernels/element.h"
#include "src/kernels/route/route_kernel.h"

static const double slack = 1e-5;

struct problem {
    weft_route_desc desc;
    weft_route_args args;
    const float *logits; // what they say
    bool by_logit;
};

static void draw_desc(struct check_case *c, weft_route_desc *desc)
{
    int32_t size = (int32_t)check_length(c, 40, 8);
    desc->size = sizeof *desc;
    desc->groups = (int32_t)check_pick(c, 5, 1, 1, 2, 4, 8);
    desc->experts = desc->groups * size;
    desc->top_groups = (int32_t)check_range(c, 1, desc->groups);
    desc->group_best = size > 1 ? (int32_t)check_range(c, 1, 2) : 1;
    desc->top_k = (int32_t)check_range(c, 1, desc->top_groups * size);
    if (desc->top_k > 8 && check_range(c, 0, 3))
        desc->top_k = (int32_t)check_range(c, 1, 8);
    desc->max_rows = (int32_t)check_length(c, 70, 8);
    desc->score = check_range(c, 0, 1) ? WEFT_ROUTE_SIGMOID : WEFT_ROUTE_SOFTMAX;
    desc->flags = check_range(c, 0, 1) ? WEFT_ROUTE_NORMALISE : 0;
    desc->scale = check_range(c, 0, 1) ? 0 : check_uniform(c, -3, 3);
}

static float *draw_floats(struct check_case *c, int64_t count, int64_t odd, bool steps)
{
    float *x = check_buffer(c, (size_t)count * sizeof *x, sizeof *x);
    for (int64_t i = 0; i < count; i++) {
        x[i] = 3 * check_normal(c);
        if (steps)
            x[i] = rintf(x[i]);
        if (odd == 0 && check_range(c, 0, 9) == 0)
            x[i] = check_range(c, 0, 1) ? -INFINITY : check_range(c, 0, 1) ? NAN : INFINITY;
    }
    return x;
}

// Logits of the format of the plan; x becomes what they say.
static const void *given(struct check_case *c, const struct problem *p, float *x, int64_t count)
{
    weft_dtype dtype = p->desc.logits_dtype ? p->desc.logits_dtype : WEFT_F32;
    size_t elem = (size_t)weft_dtype_block_bytes(dtype);
    void *logits = check_buffer(c, (size_t)count * elem, elem);
    weft__elements_narrow(x, count, logits, dtype);
    weft__elements_widen(logits, dtype, count, x);
    return logits;
}

static struct problem draw(struct check_case *c)
{
    struct problem p = {.args = {.size = sizeof p.args}};
    draw_desc(c, &p.desc);
    p.args.rows = p.desc.max_rows;
    p.args.logits_stride = p.desc.experts + check_range(c, 0, 3);
    int64_t count = (p.args.rows - 1) * p.args.logits_stride + p.desc.experts;
    float *logits = draw_floats(c, count, check_range(c, 0, 7), check_range(c, 0, 2) == 0);
    p.desc.logits_dtype =
        (weft_dtype)check_pick(c, 4, WEFT_DTYPE_NONE, WEFT_F32, WEFT_F16, WEFT_BF16);
    p.args.logits = given(c, &p, logits, count);
    p.logits = logits;
    if (check_range(c, 0, 2) == 0)
        p.args.bias = draw_floats(c, p.desc.experts, 1, false);
    p.by_logit = !p.args.bias && p.desc.group_best == 1;
    int64_t choices = (int64_t)p.args.rows * p.desc.top_k;
    p.args.ids = check_buffer(c, (size_t)choices * sizeof(int32_t), 4);
    p.args.weights = check_output(c, choices);
    if (check_range(c, 0, 3)) {
        p.args.starts = check_buffer(c, (size_t)(p.desc.experts + 1) * sizeof(int32_t), 4);
        p.args.order = check_buffer(c, (size_t)choices * sizeof(int32_t), 4);
    }
    check_note(c, "%d of %d experts, %d of %d groups by %d, rows %d score %d flags %u bias %d",
               p.desc.top_k, p.desc.experts, p.desc.top_groups, p.desc.groups, p.desc.group_best,
               p.args.rows, (int)p.desc.score, p.desc.flags, p.args.bias != NULL);
    return p;
}

struct item {
    double value;
    int32_t number;
};

static int best_first(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    bool x_nan = isnan(x->value), y_nan = isnan(y->value);
    if (x_nan != y_nan)
        return x_nan ? 1 : -1;
    if (!x_nan && x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return x->number < y->number ? -1 : 1;
}

static double *score_row(struct check_case *c, const struct problem *p, const float *logits)
{
    int32_t n = p->desc.experts;
    double *score = check_buffer(c, (size_t)n * sizeof *score, 8), top = -INFINITY, sum = 0;
    for (int32_t e = 0; e < n; e++)
        top = isnan(logits[e]) || isnan(top) ? (double)NAN : fmax(top, (double)logits[e]);
    for (int32_t e = 0; e < n; e++)
        sum += exp((double)logits[e] - top);
    for (int32_t e = 0; e < n; e++)
        score[e] = p->desc.score == WEFT_ROUTE_SIGMOID ? 1 / (1 + exp(-(double)logits[e]))
                                                       : exp((double)logits[e] - top) / sum;
    return score;
}

// The best `kept` of n items come first. False if the last of them and the next are as good as equal.
static bool cut(const struct problem *p, struct item *items, int32_t n, int32_t kept)
{
    qsort(items, (size_t)n, sizeof *items, best_first);
    if (kept == n || p->by_logit)
        return true;
    return !(items[kept - 1].value - items[kept].value < slack * (1 + fabs(items[kept].value)));
}

// The row's choice in items, best first; false if roundings decide.
static bool choose(struct check_case *c, const struct problem *p, const float *logits,
                   const double *score, struct item *items)
{
    const weft_route_desc *desc = &p->desc;
    int32_t size = desc->experts / desc->groups, left = 0;
    struct item *groups = check_buffer(c, (size_t)desc->groups * sizeof *groups, 8);
    bool sure = true;
    for (int32_t g = 0; g < desc->groups; g++) {
        for (int32_t i = 0; i < size; i++) {
            int32_t e = g * size + i;
            double bias = p->args.bias ? (double)p->args.bias[e] : 0;
            items[i] = (struct item){p->by_logit ? (double)logits[e] : score[e] + bias, e};
        }
        qsort(items, (size_t)size, sizeof *items, best_first);
        groups[g] = (struct item){items[0].value, g};
        if (desc->group_best == 2)
            groups[g].value += items[1].value;
    }
    sure = cut(p, groups, desc->groups, desc->top_groups);
    for (int32_t g = 0; g < desc->top_groups; g++)
        for (int32_t i = 0; i < size; i++, left++) {
            int32_t e = groups[g].number * size + i;
            double bias = p->args.bias ? (double)p->args.bias[e] : 0;
            items[left] = (struct item){p->by_logit ? (double)logits[e] : score[e] + bias, e};
        }
    return cut(p, items, left, desc->top_k) && sure;
}

static void check_row(struct check_case *c, const struct problem *p, int32_t row)
{
    int32_t n = p->desc.experts, k = p->desc.top_k;
    const int32_t *ids = p->args.ids + (int64_t)row * k;
    const float *weights = p->args.weights + (int64_t)row * k;
    const float *logits = p->logits + row * p->args.logits_stride;
    struct item *items = check_buffer(c, (size_t)n * sizeof *items, 8);
    bool *seen = check_buffer(c, (size_t)n, 1);
    memset(seen, 0, (size_t)n);
    const double *score = score_row(c, p, logits);
    bool sure = choose(c, p, logits, score, items);
    double sum = 0, scale = p->desc.scale != 0 ? (double)p->desc.scale : 1;
    for (int32_t i = 0; i < k && !c->failed; i++) {
        if (ids[i] < 0 || ids[i] >= n || seen[ids[i]])
            check_fail(c, "row %d: choice %d is %d", row, i, ids[i]);
        else
            seen[ids[i]] = true;
        if (!c->failed && p->by_logit && ids[i] != items[i].number)
            check_fail(c, "row %d: choice %d is %d, not %d", row, i, ids[i], items[i].number);
    }
    for (int32_t i = 0; sure && i < k && !c->failed; i++)
        if (!seen[items[i].number])
            check_fail(c, "row %d: expert %d is not chosen", row, items[i].number);
    for (int32_t i = 0; i < k && !c->failed; i++)
        sum += score[ids[i]];
    if (!(p->desc.flags & WEFT_ROUTE_NORMALISE) || sum == 0)
        sum = 1;
    for (int32_t i = 0; i < k && !c->failed; i++) {
        double want = scale * score[ids[i]] / sum;
        check_close(c, weights[i], want, 0x1p-20 * fabs(want) + 1e-40, "weights", i);
    }
}

static void check_lists(struct check_case *c, const struct problem *p)
{
    const int32_t *starts = p->args.starts, *order = p->args.order;
    int32_t choices = p->args.rows * p->desc.top_k;
    if (starts[0] != 0 || starts[p->desc.experts] != choices)
        check_fail(c, "starts go from %d to %d, not 0 to %d", starts[0], starts[p->desc.experts],
                   choices);
    for (int32_t e = 0; e < p->desc.experts && !c->failed; e++) {
        if (starts[e + 1] < starts[e])
            check_fail(c, "expert %d starts behind its end", e);
        for (int32_t i = starts[e]; i < starts[e + 1] && !c->failed; i++)
            if (order[i] < 0 || order[i] >= choices || p->args.ids[order[i]] != e ||
                (i > starts[e] && order[i] <= order[i - 1]))
                check_fail(c, "order[%d] = %d, of expert %d", i, order[i], e);
    }
}

check_fn weft__route_check;
void weft__route_check(struct check_case *c)
{
    if (c->format) {
        check_skip(c);
        return;
    }
    weft_plan *plan = NULL;
    struct problem p = draw(c);
    p.desc.variant = c->kernel->name;
    if (check_ok(c, weft_route_plan(c->context, &p.desc, &plan), "plan"))
        check_ok(c, weft_route_run(plan, &p.args), "run");
    weft_plan_destroy(plan);
    check_written(c, p.args.weights, (int64_t)p.args.rows * p.desc.top_k, "weights");
    for (int32_t row = 0; row < p.args.rows && !c->failed; row++)
        check_row(c, &p, row);
    if (p.args.starts && !c->failed)
        check_lists(c, &p);
}
