// SPDX-License-Identifier: MIT
// Routing in plain C, scores in f64.
#include <math.h>

#include "src/kernels/element.h"
#include "src/kernels/route/route_kernel.h"

// Is value a before value b, which has the larger number?
static bool is_less(double a, double b)
{
    return isnan(a) ? !isnan(b) : a < b;
}

// The `count` largest of n values, best first; of equal ones the lower number. Values that are taken are
// marked in `taken`, and those marked before are left out.
static void best_of(const double *value, int32_t n, int32_t count, bool *taken, int32_t *out)
{
    for (int32_t k = 0; k < count; k++) {
        int32_t best = -1;
        for (int32_t i = 0; i < n; i++)
            if (!taken[i] && (best < 0 || is_less(value[best], value[i])))
                best = i;
        taken[best] = true;
        out[k] = best;
    }
}

static void scores(const weft_route_desc *desc, const float *logits, double *score)
{
    double largest = -INFINITY, sum = 0;
    for (int32_t e = 0; e < desc->experts; e++) {
        score[e] = (double)logits[e];
        if (desc->score == WEFT_ROUTE_SIGMOID)
            score[e] = 1 / (1 + exp(-score[e]));
        else if (!(score[e] <= largest))
            largest = isnan(largest) ? largest : score[e];
    }
    if (desc->score == WEFT_ROUTE_SIGMOID)
        return;
    for (int32_t e = 0; e < desc->experts; e++)
        sum += score[e] = exp(score[e] - largest);
    for (int32_t e = 0; e < desc->experts; e++)
        score[e] /= sum;
}

// Marks the experts of all groups but the best.
static void close_groups(const weft_route_desc *desc, const double *value, bool *taken)
{
    double worth[WEFT_ROUTE_MAX_EXPERTS];
    bool open[WEFT_ROUTE_MAX_EXPERTS] = {false}, used[WEFT_ROUTE_MAX_EXPERTS];
    int32_t best[WEFT_ROUTE_MAX_EXPERTS], size = desc->experts / desc->groups;
    for (int32_t g = 0; g < desc->groups; g++) {
        memset(used, 0, (size_t)size * sizeof *used);
        best_of(value + (int64_t)g * size, size, desc->group_best, used, best);
        worth[g] = 0;
        for (int32_t i = 0; i < desc->group_best; i++)
            worth[g] += value[g * size + best[i]];
    }
    best_of(worth, desc->groups, desc->top_groups, open, best);
    for (int32_t e = 0; e < desc->experts; e++)
        taken[e] = !open[e / size];
}

static void route_row(const weft_route_desc *desc, const float *logits, const float *bias,
                      int32_t *ids, float *weights)
{
    double score[WEFT_ROUTE_MAX_EXPERTS], value[WEFT_ROUTE_MAX_EXPERTS], sum = 0;
    bool taken[WEFT_ROUTE_MAX_EXPERTS] = {false};
    bool by_logit = !bias && desc->group_best == 1;
    scores(desc, logits, score);
    for (int32_t e = 0; e < desc->experts; e++)
        value[e] = by_logit ? (double)logits[e] : score[e] + (bias ? (double)bias[e] : 0);
    if (desc->top_groups < desc->groups)
        close_groups(desc, value, taken);
    best_of(value, desc->experts, desc->top_k, taken, ids);
    for (int32_t k = 0; k < desc->top_k; k++)
        sum += score[ids[k]];
    if (!(desc->flags & WEFT_ROUTE_NORMALISE) || sum == 0)
        sum = 1;
    for (int32_t k = 0; k < desc->top_k; k++)
        weights[k] = (float)((double)desc->scale * score[ids[k]] / sum);
}

weft__route_fn weft__route_ref;
void weft__route_ref(const struct weft__route_launch *launch, const weft_route_args *args,
                     int64_t row0, int64_t row1)
{
    const weft_dtype dtype = launch->desc.logits_dtype;
    int32_t k = launch->desc.top_k;
    for (int64_t row = row0; row < row1; row++) {
        const void *from = weft__element_at(args->logits, dtype, row * args->logits_stride);
        float logits[WEFT_ROUTE_MAX_EXPERTS];
        weft__elements_widen(from, dtype, launch->desc.experts, logits);
        route_row(&launch->desc, logits, args->bias, args->ids + row * k, args->weights + row * k);
    }
}

void weft__route_sort(const weft_route_desc *desc, const weft_route_args *args)
{
    int64_t choices = (int64_t)args->rows * desc->top_k;
    int32_t *starts = args->starts;
    memset(starts, 0, (size_t)(desc->experts + 1) * sizeof *starts);
    for (int64_t i = 0; i < choices; i++)
        starts[args->ids[i] + 1]++;
    for (int32_t e = 0; e < desc->experts; e++)
        starts[e + 1] += starts[e];
    for (int64_t i = 0; i < choices; i++) // starts[e] moves to the expert's end
        args->order[starts[args->ids[i]]++] = (int32_t)i;
    memmove(starts + 1, starts, (size_t)desc->experts * sizeof *starts);
    starts[0] = 0;
}
