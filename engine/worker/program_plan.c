// SPDX-License-Identifier: MIT
// Plans, one for all equal descriptors, and the steps that run them.
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/worker/program_steps.h"

static weft_status make_plan(weft_context *context, step_kind kind, const void *desc,
                             weft_plan **plan)
{
    switch (kind) {
    case STEP_EMBEDDING: return weft_embedding_plan(context, desc, plan);
    case STEP_NORM: return weft_norm_plan(context, desc, plan);
    case STEP_LINEAR: return weft_linear_plan(context, desc, plan);
    case STEP_APPEND: return weft_kv_append_plan(context, desc, plan);
    case STEP_ATTENTION: return weft_attention_plan(context, desc, plan);
    case STEP_ACTIVATION: return weft_activation_plan(context, desc, plan);
    case STEP_SAMPLE: return weft_sample_plan(context, desc, plan);
    case STEP_ROUTE: return weft_route_plan(context, desc, plan);
    case STEP_EXPERTS: return weft_experts_plan(context, desc, plan);
    case STEP_ROUND: return weft_round_plan(context, desc, plan);
    }
    return WEFT_EINVAL;
}

const weft_plan *program_plan_for(model_program *program, step_kind kind, const void *desc,
                                  size_t bytes, engine_error *err)
{
    static const char *const names[] = {"the embedding",
                                        "a norm",
                                        "a matrix",
                                        "the KV cache",
                                        "attention",
                                        "the activation",
                                        "sampling",
                                        "the choice of experts",
                                        "a mixture of experts",
                                        "rounding"};
    for (int32_t i = 0; i < program->plan_count; i++)
        if (program->plans[i].kind == kind && memcmp(&program->plans[i].desc, desc, bytes) == 0)
            return program->plans[i].plan;
    program_plan *plans =
        engine_realloc(program->plans, (size_t)program->plan_count + 1, sizeof *plans);
    if (!plans) {
        engine_fail(err, "not enough memory for the model's plans");
        return NULL;
    }
    program->plans = plans;
    program_plan *made = &plans[program->plan_count];
    *made = (program_plan){.kind = kind};
    memcpy(&made->desc, desc, bytes);
    if (make_plan(program->context, kind, desc, &made->plan) != WEFT_OK) {
        engine_fail(err, "%s cannot be planned: %s", names[kind],
                    weft_error_text(program->context));
        return NULL;
    }
    program->plan_count++;
    size_t need = weft_plan_workspace_bytes(made->plan);
    if (need > program->workspace_bytes)
        program->workspace_bytes = need;
    return made->plan;
}

program_step *program_add_step(model_program *program, step_list *list, step_kind kind,
                               const void *desc, size_t bytes, engine_error *err)
{
    const weft_plan *plan = program_plan_for(program, kind, desc, bytes, err);
    if (!plan)
        return NULL;
    if (list->count == list->room) {
        int32_t room = list->room ? 2 * list->room : 8;
        program_step *steps = engine_realloc(list->steps, (size_t)room, sizeof *steps);
        if (!steps) {
            engine_fail(err, "not enough memory for the model's steps");
            return NULL;
        }
        list->steps = steps;
        list->room = room;
    }
    program_step *step = &list->steps[list->count++];
    memset(step, 0, sizeof *step);
    step->kind = kind;
    step->rows_per_token = 1;
    step->layer = program->layer;
    step->plan = plan;
    return step;
}
