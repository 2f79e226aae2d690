// SPDX-License-Identifier: MIT
// One step each: the descriptor, its plan, the arguments.
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/worker/program_steps.h"

void *program_carve(model_program *program, int arena, size_t bytes)
{
    program_arena *from = &program->arenas[arena];
    void *at = from->base ? from->base + from->used : NULL;
    from->used += (bytes + PROGRAM_ALIGN - 1) / PROGRAM_ALIGN * PROGRAM_ALIGN;
    return at;
}

bool program_place(model_program *program, const void *host, size_t bytes, const void **at,
                   engine_error *err)
{
    *at = host;
    if (program->bounds.device == WEFT_DEVICE_CPU)
        return true;
    void *to = program_carve(program, ARENA_WEIGHTS, bytes);
    *at = to;
    return !to || weft_copy(program->context, to, host, bytes, NULL) == WEFT_OK ||
           engine_fail(err, "weights cannot be copied to the device: %s",
                       weft_error_text(program->context));
}

static bool place_tensor(model_program *program, const model_tensor *tensor, const void **at,
                         engine_error *err)
{
    size_t bytes = (size_t)weft_dtype_row_bytes(tensor->dtype, tensor->cols) * (size_t)tensor->rows;
    return program_place(program, tensor->data, bytes, at, err);
}

bool program_place_planes(model_program *program, const model_tensor *tensor, const void **scales,
                          const void **biases, engine_error *err)
{
    const gguf_planes *planes = &tensor->planes;
    gguf_planes alone = *planes;
    alone.biases = NULL;
    size_t bytes = (size_t)gguf_planes_bytes(&alone, tensor->rows, tensor->cols);
    if (!bytes)
        return true;
    return program_place(program, planes->scales, bytes, scales, err) &&
           (!planes->biases || program_place(program, planes->biases, bytes, biases, err));
}

bool program_add_embedding(model_program *program, step_list *list,
                           const program_embedding *embedding, engine_error *err)
{
    const model_tensor *table = embedding->table;
    weft_embedding_desc desc = {.size = sizeof desc,
                                .table_dtype = table->dtype,
                                .rows = table->rows,
                                .dim = table->cols,
                                .max_tokens = embedding->max_tokens,
                                .scale = embedding->scale,
                                .scale_dtype = table->planes.scale_dtype,
                                .scale_rows = table->planes.scale_rows,
                                .scale_cols = table->planes.scale_cols};
    program_step *step = program_add_step(program, list, STEP_EMBEDDING, &desc, sizeof desc, err);
    if (!step)
        return false;
    weft_embedding_args *args = &step->args.embedding;
    *args = (weft_embedding_args){.size = sizeof *args,
                                  .table = embedding->rows,
                                  .ids = embedding->ids,
                                  .y = embedding->y,
                                  .residual = embedding->adds ? embedding->y : NULL};
    return program_place_planes(program, table, &args->scales, &args->biases, err);
}

bool program_place_vector(model_program *program, const model_tensor *vector, const void **at,
                          engine_error *err)
{
    return !vector || !vector->data || place_tensor(program, vector, at, err);
}

bool program_add_norm(model_program *program, step_list *list, const program_norm *norm,
                      engine_error *err)
{
    weft_norm_desc desc = {.size = sizeof desc,
                           .kind = norm->kind,
                           .eps = program->config->norm_eps,
                           .dim = norm->weight->cols,
                           .max_rows = program->bounds.max_tokens * norm->rows_per_token};
    const void *weight = NULL, *bias = NULL;
    program_step *step = program_add_step(program, list, STEP_NORM, &desc, sizeof desc, err);
    if (!step || !program_place_vector(program, norm->weight, &weight, err) ||
        !program_place_vector(program, norm->bias, &bias, err))
        return false;
    step->rows_per_token = norm->rows_per_token;
    step->args.norm = (weft_norm_args){.size = sizeof step->args.norm,
                                       .x = norm->x,
                                       .y = norm->y,
                                       .weight = weight,
                                       .bias = bias,
                                       .x_stride = norm->x_stride,
                                       .y_stride = norm->y_stride,
                                       .residual = norm->residual};
    return true;
}

static weft_linear_desc linear_desc(const model_program *program, const program_linear *linear)
{
    weft_linear_desc desc = {.size = sizeof desc,
                             .max_batch = linear->max_batch,
                             .cols = linear->parts[0].matrix->cols,
                             .x_dtype = linear->x_dtype,
                             .y_dtype = linear->y_dtype,
                             .gate = linear->gate};
    if (program->bounds.exact)
        desc.flags |= WEFT_LINEAR_EXACT;
    if (program->bounds.invariant)
        desc.flags |= WEFT_LINEAR_BATCH_INVARIANT;
    // An encoder's time goes into products, and its vectors are compared by cosines, which bf16 keeps. A router would
    // choose others.
    if (program->config->full_mask && linear->parts[0].matrix->rows != program->config->experts)
        desc.flags |= WEFT_LINEAR_F32_AS_BF16;
    if (linear->x_rounded)
        desc.flags |= WEFT_LINEAR_X_ROUNDED;
    if (linear->y_rounded)
        desc.flags |= WEFT_LINEAR_Y_ROUNDED;
    if (linear->next)
        desc.flags |= WEFT_LINEAR_NEXT;
    if (linear->norm) {
        desc.norm = program->config->architecture->norm == WEFT_NORM_LAYER ? WEFT_LINEAR_NORM_LAYER
                                                                           : WEFT_LINEAR_NORM_RMS;
        desc.norm_eps = program->config->norm_eps;
    }
    const model_tensor *first = linear->parts[0].matrix;
    if (!linear->parts[1].matrix && !first->planes.scales) {
        desc.weight_dtype = first->dtype;
        desc.rows = first->rows;
        return desc;
    }
    for (; desc.num_parts < MODEL_MAX_PARTS && linear->parts[desc.num_parts].matrix;
         desc.num_parts++) {
        const model_tensor *matrix = linear->parts[desc.num_parts].matrix;
        desc.parts[desc.num_parts] = (weft_linear_part){.weight_dtype = matrix->dtype,
                                                        .rows = matrix->rows,
                                                        .scale_dtype = matrix->planes.scale_dtype,
                                                        .scale_rows = matrix->planes.scale_rows,
                                                        .scale_cols = matrix->planes.scale_cols};
    }
    return desc;
}

weft_dtype program_linear_rounds_to(const model_program *program, const program_linear *linear)
{
    const weft_linear_desc desc = linear_desc(program, linear);
    weft_plan_info info = {.size = sizeof info};
    weft_plan *plan = NULL;
    if (weft_linear_plan(program->context, &desc, &plan) == WEFT_OK)
        weft_plan_query(plan, &info);
    weft_plan_destroy(plan);
    return info.rounds_x_to;
}

// A matrix and what lies beside it: packed for the device, or where it lies if the host reads it just as well there.
static bool place_matrix(model_program *program, const weft_plan *plan, int32_t i,
                         const model_tensor *matrix, weft_linear_part_args *part, engine_error *err)
{
    const gguf_planes *planes = &matrix->planes;
    const bool is_host = program->bounds.device == WEFT_DEVICE_CPU;
    const char *layout = weft_linear_packed_layout(plan, i);
    if (is_host && !(program->bounds.store && layout)) {
        part->weight = matrix->data;
        part->scales = planes->scales;
        part->biases = planes->biases;
        return true;
    }
    void *to = program_carve(program, ARENA_WEIGHTS, weft_linear_packed_bytes(plan, i));
    const weft_linear_pack_args pack = {.size = sizeof pack,
                                        .part = i,
                                        .weight = matrix->data,
                                        .scales = planes->scales,
                                        .biases = planes->biases,
                                        .packed = to};
    part->packed = to;
    if (is_host && matrix->dtype == WEFT_BF16)
        part->weight = matrix->data; // is read where they are not taken
    if (is_host && !to)
        packed_wish_add(&program->wish, matrix, layout);
    if (!to || program->packed_found)
        return true;
    const weft_status status = weft_linear_pack(plan, &pack);
    return status == WEFT_OK || (status == WEFT_EUNSUPPORTED && part->weight) ||
           engine_fail(err, "weights cannot be packed for the device: %s",
                       weft_error_text(program->context));
}

static bool set_part(model_program *program, const weft_plan *plan, weft_linear_args *args,
                     bool alone, int32_t i, const program_linear *linear, engine_error *err)
{
    const model_tensor *bias = linear->parts[i].bias;
    const void *bias_at = NULL;
    weft_linear_part_args part = {.y = linear->parts[i].y};
    if (!place_matrix(program, plan, i, linear->parts[i].matrix, &part, err) ||
        !program_place_vector(program, bias, &bias_at, err))
        return false;
    part.bias = bias_at;
    if (!alone) {
        args->parts[i] = part;
        return true;
    }
    args->weight = part.weight;
    args->packed = part.packed;
    args->y = part.y;
    args->bias = part.bias;
    return true;
}

bool program_add_linear(model_program *program, step_list *list, const program_linear *linear,
                        engine_error *err)
{
    weft_linear_desc desc = linear_desc(program, linear);
    program_step *step = program_add_step(program, list, STEP_LINEAR, &desc, sizeof desc, err);
    if (!step)
        return false;
    weft_linear_args *args = &step->args.linear;
    *args = (weft_linear_args){.size = sizeof *args,
                               .x = linear->x,
                               .x_stride = linear->x_stride,
                               .y_stride = linear->y_stride,
                               .residual = linear->residual,
                               .residual_stride = linear->residual ? linear->y_stride : 0,
                               .next = linear->next_rounded,
                               .alpha = linear->alpha,
                               .workspace = program->workspace,
                               .workspace_bytes = program->workspace_bytes};
    const void *at, *bias = NULL;
    // The norm's weights are in a rounded x already.
    if (linear->norm && !linear->x_rounded) {
        if (!place_tensor(program, linear->norm, &at, err) ||
            !program_place_vector(program, linear->norm_bias, &bias, err))
            return false;
        args->norm_weight = at;
        args->norm_bias = bias;
    }
    if (linear->next) {
        if (!place_tensor(program, linear->next, &at, err))
            return false;
        args->next_weight = at;
    }
    for (int32_t i = 0; i < MODEL_MAX_PARTS && linear->parts[i].matrix; i++)
        if (!set_part(program, step->plan, args, desc.num_parts == 0, i, linear, err))
            return false;
    return true;
}

bool program_add_activation(model_program *program, step_list *list,
                            const program_activation *activation, engine_error *err)
{
    weft_activation_desc desc = {.size = sizeof desc,
                                 .kind = activation->function,
                                 .cap = activation->cap,
                                 .dim = activation->dim,
                                 .max_rows = activation->max_rows};
    program_step *step = program_add_step(program, list, STEP_ACTIVATION, &desc, sizeof desc, err);
    if (!step)
        return false;
    if (activation->rows_per_token)
        step->rows_per_token = activation->rows_per_token;
    step->args.activation = (weft_activation_args){.size = sizeof step->args.activation,
                                                   .x = activation->x,
                                                   .x_stride = activation->x_stride,
                                                   .up = activation->up,
                                                   .y = activation->y,
                                                   .y_stride = activation->y_stride};
    return true;
}

static bool queries_grow(const model_program *program, const model_layer_rules *rules)
{
    return !rules->rope && program->config->q_growth_length;
}

bool program_add_append(model_program *program, int32_t layer, engine_error *err)
{
    model_layer_rules rules = model_config_layer(program->config, layer, program->ropes);
    weft_kv_append_desc desc = {.size = sizeof desc,
                                .max_tokens = program->bounds.max_tokens,
                                .layout = program->kv,
                                .rope = rules.rope,
                                .num_q_heads = program->config->q_heads};
    if (queries_grow(program, &rules)) {
        desc.q_growth_length = program->config->q_growth_length;
        desc.q_growth = program->config->q_growth;
    }
    program_step *step =
        program_add_step(program, &program->layers, STEP_APPEND, &desc, sizeof desc, err);
    if (step)
        step->args.append = (weft_kv_append_args){
            .size = sizeof step->args.append,
            .pool = page_pool_layer(program->pool, layer),
            .k = program->buffers[MODEL_BUFFER_K],
            .v = program->config->latent.dim ? NULL : program->buffers[MODEL_BUFFER_V],
            .q = program->buffers[MODEL_BUFFER_Q],
            .batch = program->batch};
    return step != NULL;
}

bool program_appends(const model_program *program)
{
    const program_bounds *bounds = &program->bounds;
    return !program->config->full_mask && bounds->device != WEFT_DEVICE_CPU && !bounds->exact &&
           !bounds->separate && program->config->latent.dim == 0;
}

bool program_layer_appends(const model_program *program, int32_t layer)
{
    model_layer_rules rules = model_config_layer(program->config, layer, program->ropes);
    return program_appends(program) && !queries_grow(program, &rules);
}

// Keys of a branch lie elsewhere than those of the text that it becomes, so that sums over them agree but for
// their order.
static bool could_have_trees(const model_program *program)
{
    return !program->bounds.invariant && !program->config->full_mask;
}

static bool add_tree(model_program *program, program_step *step, const weft_attention_desc *desc,
                     engine_error *err)
{
    weft_attention_desc tree = *desc;
    tree.mask = WEFT_MASK_TREE;
    step->trees = &program->trees;
    if (!could_have_trees(program) || !weft_attention_supported(program->context, &tree, NULL))
        program->trees.none = true;
    if (program->trees.none)
        return true;
    step->tree = program_plan_for(program, STEP_ATTENTION, &tree, sizeof tree, err);
    return step->tree != NULL;
}

// ALiBi's slopes: powers of 2^-(bias / n) for n heads, a power of two; heads beyond it have every second of
// those of 2 n.
static bool place_slopes(model_program *program, const void **at, engine_error *err)
{
    const int32_t heads = program->config->q_heads;
    const double bias = (double)program->config->alibi_bias;
    int32_t whole = 1;
    if (bias == 0)
        return true;
    if (!program->slopes)
        program->slopes = engine_alloc((size_t)heads, sizeof *program->slopes);
    if (!program->slopes)
        return engine_fail(err, "not enough memory for the model's program");
    while (whole <= heads / 2)
        whole *= 2;
    for (int32_t h = 0; h < heads; h++)
        program->slopes[h] = (float)(h < whole ? exp2(-bias * (h + 1) / whole)
                                               : exp2(-bias / 2 * (2 * (h - whole) + 1) / whole));
    return program_place(program, program->slopes, (size_t)heads * sizeof *program->slopes, at,
                         err);
}

static weft_attention_desc attention_desc(const model_program *program, int32_t layer, bool rounds)
{
    const model_tensor *sinks = &program->weights->layers[layer].tensors[MODEL_ATTN_SINKS];
    model_layer_rules rules = model_config_layer(program->config, layer, program->ropes);
    weft_attention_desc desc = {.size = sizeof desc,
                                .kv = program->kv,
                                .scale = program->config->attention_scale,
                                .softcap = program->config->attention_softcap,
                                .num_q_heads = program->config->q_heads,
                                .mask =
                                    program->config->full_mask ? WEFT_MASK_FULL : WEFT_MASK_CAUSAL,
                                .window = rules.window,
                                .window_right = rules.window_right,
                                .local_chunk = rules.chunk,
                                .max_seqs = program->bounds.max_seqs,
                                .max_q_tokens = program->bounds.max_tokens,
                                .max_kv_len = program->bounds.max_kv_len,
                                .variant = program->bounds.attention};
    if (sinks->rows > 0)
        desc.flags |= WEFT_ATTENTION_SINKS;
    if (program->config->alibi_bias != 0)
        desc.flags |= WEFT_ATTENTION_ALIBI;
    if (program->bounds.invariant) {
        // A tile is a token (or, where tiles have sixteen rows at least, of the kernel that serves a token) and
        // its keys are not split: what a token gives depends on its keys alone.
        desc.flags |= WEFT_ATTENTION_BATCH_INVARIANT;
        desc.num_splits = 1;
        desc.tile_rows = program->bounds.device == WEFT_DEVICE_CPU ? 1 : 16;
    }
    if (!program->bounds.exact)
        desc.flags |= WEFT_ATTENTION_NARROW_QUERIES;
    if (program_layer_appends(program, layer)) {
        desc.rope = rules.rope;
        desc.flags |= WEFT_ATTENTION_APPEND | (rounds ? WEFT_ATTENTION_OUT_ROUNDED : 0u);
    }
    return desc;
}

bool program_add_attention(model_program *program, int32_t layer, bool rounds, engine_error *err)
{
    const model_tensor *sinks = &program->weights->layers[layer].tensors[MODEL_ATTN_SINKS];
    const weft_attention_desc desc = attention_desc(program, layer, rounds);
    const void *sinks_at = NULL, *slopes_at = NULL;
    program_step *step =
        program_add_step(program, &program->layers, STEP_ATTENTION, &desc, sizeof desc, err);
    enum model_buffer out =
        program->config->latent.dim ? MODEL_BUFFER_LATENTS : MODEL_BUFFER_ATTENDED;
    if (!step || !program_add_cascade(program, step, &desc, program->buffers[out], err) ||
        !add_tree(program, step, &desc, err) ||
        !program_place_vector(program, sinks, &sinks_at, err) ||
        !place_slopes(program, &slopes_at, err))
        return false;
    weft_attention_args *args = &step->args.attention;
    *args = (weft_attention_args){.size = sizeof *args,
                                  .q = program->buffers[MODEL_BUFFER_Q],
                                  .out = rounds ? program->rounded[out] : program->buffers[out],
                                  .pool = page_pool_layer(program->pool, layer),
                                  .batch = program->batch,
                                  .sinks = sinks_at,
                                  .alibi_slopes = slopes_at,
                                  .workspace = program->workspace,
                                  .workspace_bytes = program->workspace_bytes};
    program->append = (weft_attention_append){.k = program->buffers[MODEL_BUFFER_K],
                                              .v = program->buffers[MODEL_BUFFER_V]};
    if (program_layer_appends(program, layer))
        args->append = &program->append;
    return true;
}

bool program_add_sample(model_program *program, engine_error *err)
{
    weft_sample_desc desc = {
        .size = sizeof desc, .max_rows = program->bounds.max_seqs, .vocab = program->config->vocab};
    program_step *step =
        program_add_step(program, &program->sample, STEP_SAMPLE, &desc, sizeof desc, err);
    if (step)
        step->args.sample = (weft_sample_args){.size = sizeof step->args.sample,
                                               .tokens = program->sampled,
                                               .workspace = program->workspace,
                                               .workspace_bytes = program->workspace_bytes};
    return step != NULL;
}
