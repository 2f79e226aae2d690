// SPDX-License-Identifier: MIT
// Steps of mixtures: who goes where, and the experts. An expert that all tokens go to with a weight of its
// own is a mixture of one.
#include "engine/worker/program_steps.h"

// The clamped gate of gpt-oss; files do not say these numbers.
static const float clamp_limit = 7, clamp_slope = 1.702f;

weft_linear_gate program_gate(const model_program *program)
{
    switch (program->config->function) {
    case WEFT_ACTIVATION_SILU: return WEFT_LINEAR_GATE_SILU;
    case WEFT_ACTIVATION_GELU: return WEFT_LINEAR_GATE_GELU;
    case WEFT_ACTIVATION_GELU_TANH: return WEFT_LINEAR_GATE_GELU_TANH;
    case WEFT_ACTIVATION_SOFTCAP: // of no block
    case WEFT_ACTIVATION_NONE: break;
    }
    return WEFT_LINEAR_GATE_NONE;
}

static weft_route_desc route_desc(const model_program *program, bool shared)
{
    const model_config *config = program->config;
    weft_route_desc desc = {.size = sizeof desc, .max_rows = program->bounds.max_tokens};
    if (shared) {
        desc.experts = desc.top_k = 1;
        desc.score = WEFT_ROUTE_SIGMOID;
        return desc;
    }
    desc.experts = config->experts;
    desc.top_k = config->experts_used;
    desc.scale = config->expert_scale;
    desc.groups = config->expert_groups;
    desc.top_groups = config->expert_top_groups;
    if (config->normalises_route)
        desc.flags |= WEFT_ROUTE_NORMALISE;
    if (config->sigmoid_route) {
        desc.score = WEFT_ROUTE_SIGMOID;
        if (config->expert_groups > 1 && config->experts > config->expert_groups)
            desc.group_best = 2;
    }
    return desc;
}

bool program_add_route(model_program *program, const model_tensor *tensors, const model_line *line,
                       engine_error *err)
{
    weft_route_desc desc = route_desc(program, line->parts[0].matrix == MODEL_SHARED_ROUTER);
    const model_tensor *choice = line->parts[0].bias ? &tensors[line->parts[0].bias] : NULL;
    const void *bias = NULL;
    program_step *step =
        program_add_step(program, &program->layers, STEP_ROUTE, &desc, sizeof desc, err);
    if (!step || !program_place_vector(program, choice, &bias, err))
        return false;
    step->args.route = (weft_route_args){.size = sizeof step->args.route,
                                         .logits = program->buffers[line->in],
                                         .bias = bias,
                                         .ids = program->routing.ids,
                                         .weights = program->routing.weights,
                                         .starts = program->routing.starts,
                                         .order = program->routing.order};
    return true;
}

static weft_experts_desc experts_desc(const model_program *program, const model_tensor *tensors,
                                      const model_line *line)
{
    const model_config *config = program->config;
    bool shared = line->parts[0].matrix == MODEL_SHARED_GATE;
    bool plain = !line->parts[WEFT_EXPERTS_UP].matrix;
    weft_experts_desc desc = {
        .size = sizeof desc,
        .flags =
            (program->bounds.exact ? WEFT_LINEAR_EXACT : 0u) |
            (program->bounds.invariant ? WEFT_LINEAR_BATCH_INVARIANT : 0u) |
            (plain ? WEFT_EXPERTS_PLAIN : 0u) |
            (config->architecture->traits & MODEL_WEIGHS_INPUT ? WEFT_EXPERTS_WEIGH_INPUT : 0u),
        .experts = shared ? 1 : config->experts,
        .top_k = shared ? 1 : config->experts_used,
        .max_batch = program->bounds.max_tokens,
        .gate = program_gate(program),
        .cols = config->embedding_dim,
        .inner = shared ? config->shared_dim : config->expert_dim,
        .norm = tensors[line->norm].data ? WEFT_LINEAR_NORM_RMS : WEFT_LINEAR_NORM_NONE,
        .norm_eps = config->norm_eps};
    if (config->architecture->traits & MODEL_CLAMPS_GATE) {
        desc.clamp_limit = clamp_limit;
        desc.clamp_slope = clamp_slope;
    }
    for (int i = 0; i < WEFT_EXPERTS_PARTS; i++) {
        const model_tensor *matrix = &tensors[line->parts[i].matrix];
        for (const model_adapter *at = matrix->adapters; at; at = at->next)
            desc.adapter_rank = at->rank > desc.adapter_rank ? at->rank : desc.adapter_rank;
        desc.parts[i] = (weft_linear_part){.weight_dtype = matrix->dtype,
                                           .scale_dtype = matrix->planes.scale_dtype,
                                           .scale_rows = matrix->planes.scale_rows,
                                           .scale_cols = matrix->planes.scale_cols};
    }
    return desc;
}

// Weights of all experts, packed where the device would have them so and, on the host, memory has room.
static bool place_weights(model_program *program, const weft_plan *plan, int p,
                          const model_tensor *matrix, weft_experts_part_args *part,
                          engine_error *err)
{
    const size_t bytes = weft_experts_packed_bytes(plan, p);
    const bool is_host = program->bounds.device == WEFT_DEVICE_CPU;
    if (!bytes || (is_host && !program->bounds.store))
        return program_place_vector(program, matrix, &part->weight, err) &&
               program_place_planes(program, matrix, &part->scales, &part->biases, err);
    void *to = program_carve(program, ARENA_WEIGHTS, bytes);
    const weft_linear_pack_args pack = {
        .size = sizeof pack, .part = p, .weight = matrix->data, .packed = to};
    part->packed = to;
    if (is_host && !to)
        packed_wish_add(&program->wish, matrix, weft_linear_packed_layout(plan, p));
    return !to || program->packed_found || weft_experts_pack(plan, &pack) == WEFT_OK ||
           engine_fail(err, "experts cannot be packed for the device: %s",
                       weft_error_text(program->context));
}

static bool place_part(model_program *program, const weft_plan *plan, int p,
                       const model_tensor *matrix, const model_tensor *bias,
                       weft_experts_part_args *part, engine_error *err)
{
    const void *bias_at = NULL;
    if (!place_weights(program, plan, p, matrix, part, err) ||
        !program_place_vector(program, bias, &bias_at, err))
        return false;
    part->bias = bias_at;
    return true;
}

// The adapters of a mixture: their matrices where the device reads, the list where the host does, as long as
// the step lives.
static bool add_adapters(model_program *program, const model_tensor *tensors,
                         const model_line *line, weft_experts_args *args, engine_error *err)
{
    int32_t count = 0;
    for (int i = 0; i < WEFT_EXPERTS_PARTS; i++)
        for (const model_adapter *at = tensors[line->parts[i].matrix].adapters; at; at = at->next)
            count++;
    weft_experts_adapter *list =
        count ? program_carve(program, ARENA_PINNED, (size_t)count * sizeof *list) : NULL;
    args->num_adapters = list ? count : 0;
    args->adapters = list;
    for (int i = 0; i < WEFT_EXPERTS_PARTS; i++)
        for (const model_adapter *at = tensors[line->parts[i].matrix].adapters; at; at = at->next) {
            const void *a = NULL, *b = NULL;
            if (!program_place_vector(program, &at->a, &a, err) ||
                !program_place_vector(program, &at->b, &b, err))
                return false;
            if (list)
                *list++ = (weft_experts_adapter){.place = (weft_experts_place)i,
                                                 .rank = at->rank,
                                                 .a_dtype = at->a.dtype,
                                                 .b_dtype = at->b.dtype,
                                                 .a = a,
                                                 .b = b,
                                                 .scale = at->scale};
        }
    return true;
}

bool program_experts_take(const model_program *program, const model_tensor *tensors,
                          const model_line *line, uint32_t flag)
{
    weft_experts_desc desc = experts_desc(program, tensors, line);
    weft_plan *plan = NULL;
    desc.flags |= flag;
    if (program->bounds.device == WEFT_DEVICE_CPU || desc.cols % 32 != 0)
        return false;
    const bool takes = weft_experts_plan(program->context, &desc, &plan) == WEFT_OK;
    weft_plan_destroy(plan);
    return takes;
}

bool program_add_experts(model_program *program, const model_tensor *tensors,
                         const model_line *line, const program_mixture *mixture, engine_error *err)
{
    weft_experts_desc desc = experts_desc(program, tensors, line);
    const void *norm = NULL, *next = NULL;
    desc.flags |=
        (mixture->x_rounded ? WEFT_LINEAR_X_ROUNDED : 0u) | (mixture->next ? WEFT_LINEAR_NEXT : 0u);
    program_step *step =
        program_add_step(program, &program->layers, STEP_EXPERTS, &desc, sizeof desc, err);
    // (the norm's weights are in a rounded x already)
    if (!step ||
        (!mixture->x_rounded && desc.norm &&
         !program_place_vector(program, &tensors[line->norm], &norm, err)) ||
        !program_place_vector(program, mixture->next, &next, err))
        return false;
    weft_experts_args *args = &step->args.experts;
    *args = (weft_experts_args){.size = sizeof *args,
                                .x = mixture->x,
                                .y = program->buffers[line->parts[WEFT_EXPERTS_DOWN].out],
                                .residual = program->buffers[line->base],
                                .starts = program->routing.starts,
                                .order = program->routing.order,
                                .weights = program->routing.weights,
                                .alpha = program->config->residual_scale,
                                .norm_weight = norm,
                                .next_weight = next,
                                .next = mixture->next_rounded,
                                .workspace = program->workspace,
                                .workspace_bytes = program->workspace_bytes};
    if (!add_adapters(program, tensors, line, args, err))
        return false;
    for (int i = 0; i < WEFT_EXPERTS_PARTS; i++)
        if (line->parts[i].matrix &&
            !place_part(program, step->plan, i, &tensors[line->parts[i].matrix],
                        line->parts[i].bias ? &tensors[line->parts[i].bias] : NULL, &args->parts[i],
                        err))
            return false;
    return true;
}
