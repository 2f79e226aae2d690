// SPDX-License-Identifier: MIT
// A family's lines become steps. The lists are made twice by the same functions: first without buffers,
// which makes the plans and so tells how much workspace there must be, then with all addresses.
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/worker/program_steps.h"

enum { MIN_HEAD_ROWS = 16 };

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
    }
    return WEFT_EINVAL;
}

// The plan of a descriptor of `bytes` bytes, made when it is asked for the first time.
static const weft_plan *plan_for(model_program *program, step_kind kind, const void *desc,
                                 size_t bytes, engine_error *err)
{
    static const char *const names[] = {"the embedding", "a norm",    "a matrix",
                                        "the KV cache",  "attention", "the activation",
                                        "sampling"};
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

// Appends a step of which the caller fills in the arguments; NULL if that failed.
static program_step *add_step(model_program *program, step_list *list, step_kind kind,
                              const void *desc, size_t bytes, engine_error *err)
{
    const weft_plan *plan = plan_for(program, kind, desc, bytes, err);
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
    step->plan = plan;
    return step;
}

static bool add_embedding(model_program *program, step_list *list, const model_tensor *table,
                          const int32_t *ids, int32_t max_tokens, float *y, engine_error *err)
{
    weft_embedding_desc desc = {.size = sizeof desc,
                                .table_dtype = table->dtype,
                                .rows = table->rows,
                                .dim = table->cols,
                                .max_tokens = max_tokens};
    program_step *step = add_step(program, list, STEP_EMBEDDING, &desc, sizeof desc, err);
    if (step)
        step->args.embedding = (weft_embedding_args){
            .size = sizeof step->args.embedding, .table = table->data, .ids = ids, .y = y};
    return step != NULL;
}

// Rows of a vector's length; heads_per_token of them a token.
static bool add_norm(model_program *program, step_list *list, const model_tensor *weight,
                     int32_t heads_per_token, const float *x, float *y, engine_error *err)
{
    weft_norm_desc desc = {.size = sizeof desc,
                           .kind = WEFT_NORM_RMS,
                           .eps = program->config->norm_eps,
                           .dim = weight->cols,
                           .max_rows = program->bounds.max_tokens * heads_per_token};
    program_step *step = add_step(program, list, STEP_NORM, &desc, sizeof desc, err);
    if (!step)
        return false;
    step->rows_per_token = heads_per_token;
    step->args.norm =
        (weft_norm_args){.size = sizeof step->args.norm, .x = x, .y = y, .weight = weight->data};
    return true;
}

static bool add_matrix(model_program *program, step_list *list, const model_tensor *matrix,
                       const model_tensor *bias, int32_t max_batch, const float *x, float *y,
                       const float *residual, engine_error *err)
{
    weft_linear_desc desc = {.size = sizeof desc,
                             .flags = program->bounds.exact ? WEFT_LINEAR_EXACT : 0,
                             .weight_dtype = matrix->dtype,
                             .max_batch = max_batch,
                             .rows = matrix->rows,
                             .cols = matrix->cols};
    program_step *step = add_step(program, list, STEP_LINEAR, &desc, sizeof desc, err);
    if (step)
        step->args.linear = (weft_linear_args){.size = sizeof step->args.linear,
                                               .weight = matrix->data,
                                               .x = x,
                                               .y = y,
                                               .bias = bias ? bias->data : NULL,
                                               .residual = residual,
                                               .workspace = program->workspace,
                                               .workspace_bytes = program->workspace_bytes};
    return step != NULL;
}

static bool add_gate(model_program *program, step_list *list, float *gate, const float *up,
                     engine_error *err)
{
    weft_activation_desc desc = {.size = sizeof desc,
                                 .kind = program->config->architecture->activation,
                                 .dim = program->config->feed_forward_dim,
                                 .max_rows = program->bounds.max_tokens};
    program_step *step = add_step(program, list, STEP_ACTIVATION, &desc, sizeof desc, err);
    if (step)
        step->args.activation = (weft_activation_args){
            .size = sizeof step->args.activation, .x = gate, .up = up, .y = gate};
    return step != NULL;
}

static bool add_linear(model_program *program, const model_line *line, const model_tensor *tensors,
                       engine_error *err)
{
    step_list *list = &program->layers;
    const float *x = program->buffers[line->in];
    float *first = program->buffers[line->parts[0].out];
    if (line->norm) {
        float *normed = program->buffers[MODEL_BUFFER_NORMED];
        if (!add_norm(program, list, &tensors[line->norm], 1, x, normed, err))
            return false;
        x = normed;
    }
    for (int i = 0; i < MODEL_MAX_PARTS && line->parts[i].matrix; i++) {
        float *y = program->buffers[line->parts[i].out];
        if (!add_matrix(program, list, &tensors[line->parts[i].matrix],
                        &tensors[line->parts[i].bias], program->bounds.max_tokens, x, y,
                        line->residual ? y : NULL, err))
            return false;
    }
    return !line->gate || add_gate(program, list, first, program->buffers[line->parts[1].out], err);
}

static bool add_append(model_program *program, int32_t layer, engine_error *err)
{
    weft_kv_append_desc desc = {.size = sizeof desc,
                                .max_tokens = program->bounds.max_tokens,
                                .layout = program->kv,
                                .rope = &program->rope,
                                .num_q_heads = program->config->q_heads};
    program_step *step = add_step(program, &program->layers, STEP_APPEND, &desc, sizeof desc, err);
    if (step)
        step->args.append = (weft_kv_append_args){.size = sizeof step->args.append,
                                                  .pool = page_pool_layer(program->pool, layer),
                                                  .k = program->buffers[MODEL_BUFFER_K],
                                                  .v = program->buffers[MODEL_BUFFER_V],
                                                  .q = program->buffers[MODEL_BUFFER_Q],
                                                  .slots = program->inputs.slots,
                                                  .positions = program->inputs.positions};
    return step != NULL;
}

static bool add_attention(model_program *program, int32_t layer, engine_error *err)
{
    weft_attention_desc desc = {.size = sizeof desc,
                                .kv = program->kv,
                                .num_q_heads = program->config->q_heads,
                                .mask = WEFT_MASK_CAUSAL,
                                .window = program->config->window,
                                .max_seqs = program->bounds.max_seqs,
                                .max_q_tokens = program->bounds.max_tokens,
                                .max_kv_len = program->bounds.max_kv_len};
    program_step *step =
        add_step(program, &program->layers, STEP_ATTENTION, &desc, sizeof desc, err);
    if (step)
        step->args.attention =
            (weft_attention_args){.size = sizeof step->args.attention,
                                  .q = program->buffers[MODEL_BUFFER_Q],
                                  .out = program->buffers[MODEL_BUFFER_ATTENDED],
                                  .pool = page_pool_layer(program->pool, layer),
                                  .cu_q_lens = program->inputs.cu_q_lens,
                                  .kv_lens = program->inputs.kv_lens,
                                  .page_table = program->inputs.page_table,
                                  .page_table_stride = program->bounds.max_seq_pages,
                                  .workspace = program->workspace,
                                  .workspace_bytes = program->workspace_bytes};
    return step != NULL;
}

static bool add_line(model_program *program, int32_t layer, const model_line *line,
                     engine_error *err)
{
    const model_tensor *tensors = program->weights->layers[layer].tensors;
    float *in = program->buffers[line->in];
    switch (line->op) {
    case MODEL_LINEAR:
        return !tensors[line->parts[0].matrix].data || add_linear(program, line, tensors, err);
    case MODEL_HEAD_NORM: {
        const model_tensor *weight = &tensors[line->norm];
        int32_t heads =
            line->in == MODEL_BUFFER_Q ? program->config->q_heads : program->config->kv_heads;
        return !weight->data || add_norm(program, &program->layers, weight, heads, in, in, err);
    }
    case MODEL_APPEND: return add_append(program, layer, err);
    case MODEL_ATTENTION: return add_attention(program, layer, err);
    case MODEL_END: break;
    }
    return true;
}

// Rows of X are looked up as those of an embedding are.
static bool add_head(model_program *program, engine_error *err)
{
    const model_tensor *norm = &program->weights->globals[MODEL_GLOBAL_OUTPUT_NORM];
    const model_tensor x = {program->buffers[MODEL_BUFFER_HIDDEN], WEFT_F32,
                            program->bounds.max_tokens, program->config->embedding_dim};
    float *normed = program->buffers[MODEL_BUFFER_NORMED];
    return add_embedding(program, &program->gather, &x, program->rows, program->head_rows, normed,
                         err) &&
           add_norm(program, &program->head, norm, 1, normed, normed, err) &&
           add_matrix(program, &program->head, model_output_matrix(program->weights), NULL,
                      program->head_rows, normed, program->logits, NULL, err);
}

static bool add_sample(model_program *program, engine_error *err)
{
    weft_sample_desc desc = {
        .size = sizeof desc, .max_rows = program->bounds.max_seqs, .vocab = program->config->vocab};
    program_step *step = add_step(program, &program->sample, STEP_SAMPLE, &desc, sizeof desc, err);
    if (step)
        step->args.sample = (weft_sample_args){.size = sizeof step->args.sample,
                                               .tokens = program->sampled,
                                               .workspace = program->workspace,
                                               .workspace_bytes = program->workspace_bytes};
    return step != NULL;
}

static bool add_all(model_program *program, engine_error *err)
{
    const model_tensor *table = &program->weights->globals[MODEL_GLOBAL_EMBEDDING];
    program->layers.count = program->gather.count = 0;
    program->head.count = program->sample.count = 0;
    if (!add_embedding(program, &program->layers, table, program->inputs.ids,
                       program->bounds.max_tokens, program->buffers[MODEL_BUFFER_HIDDEN], err))
        return false;
    for (int32_t layer = 0; layer < program->config->layers; layer++)
        for (const model_line *line = program->config->architecture->lines; line->op; line++)
            if (!add_line(program, layer, line, err))
                return false;
    return add_head(program, err) && add_sample(program, err);
}

// Hands out `bytes` of the buffer memory, or only counts them while memory is NULL.
static void *carve(model_program *program, size_t *used, size_t bytes)
{
    void *at = program->memory ? (char *)program->memory + *used : NULL;
    *used += (bytes + 63) / 64 * 64;
    return at;
}

static size_t carve_all(model_program *program)
{
    static const model_extent extents[] = {
#define BUFFER_EXTENT(id, extent) MODEL_##extent,
        MODEL_BUFFERS(BUFFER_EXTENT)
#undef BUFFER_EXTENT
    };
    const program_bounds *bounds = &program->bounds;
    program_inputs *in = &program->inputs;
    size_t used = 0, tokens = (size_t)bounds->max_tokens, seqs = (size_t)bounds->max_seqs;
    for (int i = 0; i < MODEL_BUFFER_COUNT; i++) {
        size_t row = (size_t)model_extent_value(program->config, extents[i]);
        program->buffers[i] = carve(program, &used, tokens * row * sizeof(float));
    }
    program->logits =
        carve(program, &used,
              (size_t)program->head_rows * (size_t)program->config->vocab * sizeof(float));
    program->workspace = carve(program, &used, program->workspace_bytes);
    in->ids = carve(program, &used, tokens * sizeof *in->ids);
    in->positions = carve(program, &used, tokens * sizeof *in->positions);
    in->slots = carve(program, &used, tokens * sizeof *in->slots);
    in->cu_q_lens = carve(program, &used, (seqs + 1) * sizeof *in->cu_q_lens);
    in->kv_lens = carve(program, &used, seqs * sizeof *in->kv_lens);
    in->page_table =
        carve(program, &used, seqs * (size_t)bounds->max_seq_pages * sizeof *in->page_table);
    program->rows = carve(program, &used, (size_t)program->head_rows * sizeof *program->rows);
    program->sampled = carve(program, &used, seqs * sizeof *program->sampled);
    return used;
}

static bool allocate_buffers(model_program *program, engine_error *err)
{
    program->memory_bytes = carve_all(program);
    if (weft_memory_allocate(program->context, WEFT_MEMORY_DEVICE, program->memory_bytes,
                             &program->memory) != WEFT_OK)
        return engine_fail(err, "not enough memory for %zu MB of buffers: choose a smaller --chunk",
                           program->memory_bytes >> 20);
    carve_all(program);
    return true;
}

model_program *model_program_make(weft_context *context, const model_config *config,
                                  const model_weights *weights, const page_pool *pool,
                                  const weft_kv_layout *kv, const program_bounds *bounds,
                                  engine_error *err)
{
    model_program *program = engine_alloc(1, sizeof *program);
    if (!program) {
        engine_fail(err, "not enough memory for the model's program");
        return NULL;
    }
    program->context = context;
    program->config = config;
    program->weights = weights;
    program->pool = pool;
    program->kv = *kv;
    program->bounds = *bounds;
    program->rope = config->rope;
    program->rope.freq_factors = weights->globals[MODEL_GLOBAL_ROPE_FREQS].data;
    program->head_rows = bounds->max_seqs > MIN_HEAD_ROWS ? bounds->max_seqs : MIN_HEAD_ROWS;
    if (program->head_rows > bounds->max_tokens)
        program->head_rows = bounds->max_tokens;
    if (add_all(program, err) && allocate_buffers(program, err) && add_all(program, err))
        return program;
    model_program_free(program);
    return NULL;
}

void model_program_free(model_program *program)
{
    if (!program)
        return;
    for (int32_t i = 0; i < program->plan_count; i++)
        weft_plan_destroy(program->plans[i].plan);
    free(program->plans);
    free(program->layers.steps);
    free(program->gather.steps);
    free(program->head.steps);
    free(program->sample.steps);
    weft_memory_free(program->context, program->memory);
    free(program);
}

int64_t model_program_buffer_bytes(const model_program *program)
{
    return (int64_t)program->memory_bytes;
}

const char *model_program_plan_at(const model_program *program, int32_t n)
{
    return n >= 0 && n < program->plan_count ? weft_plan_describe(program->plans[n].plan) : NULL;
}
