// SPDX-License-Identifier: MIT
// Linear layers that are more than one matrix: a norm before, several parts, a gate after, each a launch of
// its own. Workspace:
//
//      | normed x [max_batch][cols] | gate's parts 2 x [max_batch][rows] | of the matrices, one after the other |
#include <stdio.h>
#include <string.h>

#include <weft/activation.h>
#include <weft/linear.h>
#include <weft/norm.h>

#include "src/backend/cuda/cuda_backend.h"
#include "src/base/checked.h"
#include "src/plan/plan.h"

struct composite {
    int32_t tag; // WEFT__CUDA_COMPOSITE, where other launches have the number of their pipelines
    weft_plan *norm, *parts[WEFT_LINEAR_MAX_PARTS], *activation; // NULL: none
    int64_t gate_offset, gate_bytes, matrix_offset;
    size_t matrix_bytes;
};

bool weft__cuda_is_composite(const weft_plan *plan)
{
    const weft_linear_desc *desc = plan->desc;
    return plan->op == WEFT__OP_linear &&
           (desc->num_parts > 1 || desc->norm || desc->gate || desc->rows == 0 ||
            desc->flags & WEFT_LINEAR_X_ROUNDED || desc->flags & WEFT_LINEAR_Y_ROUNDED ||
            desc->flags & WEFT_LINEAR_NEXT);
}

static weft_status add(weft_plan *plan, enum weft__op op, void *desc, size_t bytes, weft_plan **out)
{
    weft_status status = weft__plan_create(plan->context, op, desc, bytes, NULL, 0, out);
    return status == WEFT_OK ? weft__cuda_prepare(*out) : status;
}

static weft_status add_norm(weft_plan *plan, struct composite *own)
{
    const weft_linear_desc *desc = plan->desc;
    weft_norm_desc norm = {
        .size = sizeof norm,
        .flags = desc->flags & WEFT_LINEAR_NORM_PLUS_ONE ? WEFT_NORM_WEIGHT_PLUS_ONE : 0,
        .kind = desc->norm == WEFT_LINEAR_NORM_LAYER ? WEFT_NORM_LAYER : WEFT_NORM_RMS,
        .eps = desc->norm_eps,
        .dim = desc->cols,
        .max_rows = desc->max_batch,
        .x_dtype = desc->x_dtype,
        .y_dtype = WEFT_F32,
        .weight_dtype = WEFT_F32};
    return desc->norm ? add(plan, WEFT__OP_norm, &norm, sizeof norm, &own->norm) : WEFT_OK;
}

static weft_status add_parts(weft_plan *plan, struct composite *own)
{
    const weft_linear_desc *desc = plan->desc;
    for (int32_t p = 0; p < desc->num_parts; p++) {
        weft_linear_desc part = {.size = sizeof part,
                                 .flags = desc->flags &
                                          (WEFT_LINEAR_EXACT | WEFT_LINEAR_BATCH_INVARIANT),
                                 .weight_dtype = desc->parts[p].weight_dtype,
                                 .x_dtype = WEFT_F32,
                                 .y_dtype = WEFT_F32,
                                 .max_batch = desc->max_batch,
                                 .rows = desc->parts[p].rows,
                                 .cols = desc->cols,
                                 .variant = desc->variant,
                                 .num_parts = 1,
                                 .parts = {desc->parts[p]}};
        weft_status status = add(plan, WEFT__OP_linear, &part, sizeof part, &own->parts[p]);
        if (status != WEFT_OK)
            return status;
        if (own->parts[p]->workspace_bytes > own->matrix_bytes)
            own->matrix_bytes = own->parts[p]->workspace_bytes;
    }
    return WEFT_OK;
}

static weft_status add_gate(weft_plan *plan, struct composite *own)
{
    const weft_linear_desc *desc = plan->desc;
    weft_activation_desc gate = {.size = sizeof gate,
                                 .kind = desc->gate == WEFT_LINEAR_GATE_SILU ? WEFT_ACTIVATION_SILU
                                         : desc->gate == WEFT_LINEAR_GATE_GELU
                                             ? WEFT_ACTIVATION_GELU
                                             : WEFT_ACTIVATION_GELU_TANH,
                                 .dim = desc->parts[0].rows,
                                 .max_rows = desc->max_batch,
                                 .x_dtype = WEFT_F32,
                                 .y_dtype = WEFT_F32};
    return desc->gate ? add(plan, WEFT__OP_activation, &gate, sizeof gate, &own->activation)
                      : WEFT_OK;
}

static weft_status lay_out(weft_plan *plan, struct composite *own)
{
    const weft_linear_desc *desc = plan->desc;
    int64_t normed = 0, gate = 0;
    if ((desc->norm && !weft__mul_i64(desc->cols, desc->max_batch * INT64_C(4), &normed)) ||
        (desc->gate && !weft__mul_i64(desc->parts[0].rows, desc->max_batch * INT64_C(4), &gate)) ||
        normed > INT64_MAX / 8 || gate > INT64_MAX / 8)
        return weft__fail(plan->context, WEFT_EOVERFLOW, "linear: the workspace does not fit");
    own->gate_offset = weft__align_up(normed, 256);
    own->gate_bytes = weft__align_up(gate, 256);
    own->matrix_offset = own->gate_offset + 2 * own->gate_bytes;
    plan->workspace_bytes = (size_t)own->matrix_offset + own->matrix_bytes;
    return WEFT_OK;
}

weft_status weft__cuda_prepare_composite(weft_plan *plan)
{
    weft_context *context = plan->context;
    const weft_linear_desc *desc = plan->desc;
    if (desc->flags & (WEFT_LINEAR_X_ROUNDED | WEFT_LINEAR_Y_ROUNDED | WEFT_LINEAR_NEXT))
        return weft__fail(context, WEFT_EUNSUPPORTED,
                          "linear: rounded buffers are not taken on cuda: leave x and y in f32");
    if (desc->y_dtype != WEFT_F32 || (desc->x_dtype != WEFT_F32 && !desc->norm))
        return weft__fail(context, WEFT_EUNSUPPORTED,
                          "linear: parts, norms and gates take and give f32 on cuda");
    struct composite *own = context->allocator.allocate(context->allocator.user, sizeof *own);
    if (!own)
        return weft__fail(context, WEFT_ENOMEM, "no memory for a plan of %zu bytes", sizeof *own);
    memset(own, 0, sizeof *own);
    own->tag = WEFT__CUDA_COMPOSITE;
    plan->launch = own;
    weft_status status = add_norm(plan, own);
    if (status == WEFT_OK)
        status = add_parts(plan, own);
    if (status == WEFT_OK)
        status = add_gate(plan, own);
    if (status == WEFT_OK)
        status = lay_out(plan, own);
    if (status != WEFT_OK)
        return status;
    plan->info.kernel = own->parts[0]->info.kernel;
    snprintf(plan->description, sizeof plan->description, "linear of %d parts%s%s, first%.160s",
             desc->num_parts, desc->norm ? ", norm before" : "", desc->gate ? ", gate after" : "",
             own->parts[0]->description + strlen("linear"));
    return WEFT_OK;
}

static void destroy(weft_plan *plan)
{
    if (!plan)
        return;
    const weft_allocator *allocator = &plan->context->allocator;
    weft__cuda_release_plan(plan);
    if (plan->launch)
        allocator->release(allocator->user, plan->launch);
    allocator->release(allocator->user, plan);
}

void weft__cuda_release_composite(weft_plan *plan)
{
    struct composite *own = plan->launch;
    destroy(own->norm);
    for (int32_t p = 0; p < WEFT_LINEAR_MAX_PARTS; p++)
        destroy(own->parts[p]);
    destroy(own->activation);
}

static weft_status run_norm(const struct composite *own, const weft_linear_args *args,
                            weft_linear_args *part, weft_stream *stream)
{
    const weft_norm_desc *norm = own->norm->desc;
    const weft_norm_args run = {.size = sizeof run,
                                .rows = args->batch,
                                .x = args->x,
                                .x_stride = args->x_stride,
                                .y = args->workspace,
                                .y_stride = norm->dim,
                                .weight = args->norm_weight,
                                .bias = args->norm_bias};
    part->x = args->workspace;
    part->x_stride = norm->dim;
    return weft__cuda_submit(own->norm, &run, stream);
}

static weft_status run_gate(const struct composite *own, const weft_linear_args *args,
                            unsigned char *gate, weft_stream *stream)
{
    const weft_activation_desc *desc = own->activation->desc;
    const weft_activation_args run = {.size = sizeof run,
                                      .rows = args->batch,
                                      .x = (float *)(void *)gate,
                                      .x_stride = desc->dim,
                                      .up = (float *)(void *)(gate + own->gate_bytes),
                                      .up_stride = desc->dim,
                                      .y = args->parts[0].y,
                                      .y_stride = args->parts[0].y_stride};
    return weft__cuda_submit(own->activation, &run, stream);
}

weft_status weft__cuda_submit_composite(const weft_plan *plan, const weft_linear_args *args,
                                        weft_stream *stream)
{
    const weft_linear_desc *desc = plan->desc;
    const struct composite *own = plan->launch;
    unsigned char *workspace = args->workspace, *gate = workspace + own->gate_offset;
    weft_linear_args part = {.size = sizeof part,
                             .batch = args->batch,
                             .x = args->x,
                             .x_stride = args->x_stride,
                             .alpha = args->alpha,
                             .workspace = workspace + own->matrix_offset,
                             .workspace_bytes = own->matrix_bytes};
    weft_status status = WEFT_OK;
    if (desc->gate && args->residual)
        return weft__fail(plan->context, WEFT_EUNSUPPORTED,
                          "linear: a gate and a residual at once are not there on cuda");
    if (own->norm)
        status = run_norm(own, args, &part, stream);
    for (int32_t p = 0; p < desc->num_parts && status == WEFT_OK; p++) {
        const weft_linear_part_args *from = &args->parts[p];
        part.weight = from->weight;
        part.weight_stride_bytes = from->weight_stride_bytes;
        part.bias = from->bias;
        part.y = desc->gate ? (void *)(gate + p * own->gate_bytes) : from->y;
        part.y_stride = desc->gate ? desc->parts[p].rows : from->y_stride;
        part.residual = desc->num_parts == 1 ? args->residual : NULL;
        part.residual_stride = args->residual_stride;
        part.parts[0] = *from;
        part.parts[0].y = part.y;
        part.parts[0].y_stride = part.y_stride;
        status = weft__cuda_submit(own->parts[p], &part, stream);
    }
    return status == WEFT_OK && own->activation ? run_gate(own, args, gate, stream) : status;
}
