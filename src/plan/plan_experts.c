// SPDX-License-Identifier: MIT
#include "src/plan/plan_experts.h"

weft_linear_desc weft__plan_experts_inner(const weft_experts_desc *desc)
{
    weft_linear_desc inner = {
        .size = sizeof inner,
        .flags = desc->flags &
                 ~(uint32_t)(WEFT_LINEAR_NEXT | WEFT_EXPERTS_PLAIN | WEFT_EXPERTS_WEIGH_INPUT),
        .max_batch = desc->max_batch * desc->top_k,
        .cols = desc->cols,
        .num_parts = 2,
        .norm = desc->norm,
        .norm_eps = desc->norm_eps,
        .gate = desc->gate};
    for (int p = WEFT_EXPERTS_GATE; p <= WEFT_EXPERTS_UP; p++) {
        inner.parts[p] = desc->parts[desc->flags & WEFT_EXPERTS_PLAIN ? WEFT_EXPERTS_GATE : p];
        inner.parts[p].rows = desc->inner;
    }
    return inner;
}

weft_linear_desc weft__plan_experts_down(const weft_experts_desc *desc)
{
    weft_linear_desc down = {.size = sizeof down,
                             .flags = desc->flags &
                                      ~(uint32_t)(WEFT_LINEAR_NORM_PLUS_ONE |
                                                  WEFT_LINEAR_X_ROUNDED | WEFT_LINEAR_NEXT |
                                                  WEFT_EXPERTS_PLAIN | WEFT_EXPERTS_WEIGH_INPUT),
                             .max_batch = desc->max_batch * desc->top_k,
                             .cols = desc->inner,
                             .num_parts = 1};
    down.parts[0] = desc->parts[WEFT_EXPERTS_DOWN];
    down.parts[0].rows = desc->cols;
    return down;
}
