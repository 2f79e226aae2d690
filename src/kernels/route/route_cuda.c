// SPDX-License-Identifier: MIT
// Routing on CUDA: how its kernels are launched.
#include <stdbool.h>
#include <stdio.h>

#include <weft/route.h>

#include "src/kernels/cuda/launch.h"
#include "src/kernels/route/route_device.h"

static const struct weft__kernel rows[] = {{"route", "route_sm80", WEFT__CUDA_sm80}};
static const struct weft__kernel_table table = {"route", rows, sizeof rows[0], 1};

#define CONSTANTS(X) X(EXPERTS) X(X_DTYPE)
WEFT__CUDA_CONSTANTS(route, CONSTANTS)

enum { ROUTE, SORT };

struct launch {
    weft_route_desc desc;
};

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_route_desc *desc = opaque_desc;
    struct launch *launch = choice->launch;
    weft_status status;
    if (!weft__cuda_choose(&table, limits, desc->variant, NULL, desc, choice, &status))
        return status;
    const struct weft__route_constants constants = {.EXPERTS = desc->experts,
                                                    .X_DTYPE = (int32_t)desc->logits_dtype};
    weft__cuda_want(choice, "src/kernels/route/route.cu", "weft_route",
                    WEFT__CUDA_VALUES(route, constants));
    weft__cuda_want(choice, "src/kernels/route/route.cu", "weft_route_sort",
                    WEFT__CUDA_VALUES(route, constants));
    launch->desc = *desc;
    snprintf(choice->text, sizeof choice->text, " %s %d of %d experts, %d of %d groups, rows<=%d",
             desc->score == WEFT_ROUTE_SIGMOID ? "sigmoid" : "softmax", desc->top_k, desc->experts,
             desc->top_groups, desc->groups, desc->max_rows);
    return WEFT_OK;
}

static int32_t steps(const void *opaque_launch, const void *opaque_args,
                     struct weft__cuda_step *step)
{
    const weft_route_desc *desc = &((const struct launch *)opaque_launch)->desc;
    const weft_route_args *args = opaque_args;
    const bool single = args->rows == 1; // is sorted where it is routed
    const struct weft__route_device_args route = {.logits = args->logits,
                                                  .logits_stride = args->logits_stride,
                                                  .bias = args->bias,
                                                  .ids = args->ids,
                                                  .weights = args->weights,
                                                  .top_k = desc->top_k,
                                                  .groups = desc->groups,
                                                  .top_groups = desc->top_groups,
                                                  .group_best = desc->group_best,
                                                  .sigmoid = desc->score == WEFT_ROUTE_SIGMOID,
                                                  .normalise =
                                                      desc->flags & WEFT_ROUTE_NORMALISE ? 1 : 0,
                                                  .scale = desc->scale,
                                                  .starts = single ? args->starts : NULL,
                                                  .order = args->order};
    const struct weft__route_sort_args sort = {.ids = args->ids,
                                               .starts = args->starts,
                                               .order = args->order,
                                               .choices = args->rows * desc->top_k};
    int32_t count = 0;
    if (args->rows > 0)
        weft__cuda_step(&step[count++], ROUTE, (uint32_t)args->rows, 1, 32, &route, sizeof route)
            ->overlap = 1;
    if (args->starts && !single)
        weft__cuda_step(&step[count++], SORT, 1, 1, ((uint32_t)desc->experts + 31) / 32 * 32, &sort,
                        sizeof sort)
            ->overlap = 1;
    return count;
}

const struct weft__cuda_op weft__route_cuda = {&table, sizeof(struct launch), plan, steps};
