// SPDX-License-Identifier: MIT
// A family's lines become steps.
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/worker/program_steps.h"

// Matrices of blocks round their input to 8 bits, unless exact; such an input can be made once, by
// whoever makes it.
static bool reads_rounded(const model_program *program, const model_tensor *tensors,
                          const model_line *line)
{
    if (program->bounds.exact || program->bounds.separate)
        return false;
    if (line->op == MODEL_MIX)
        return program_experts_take(program, tensors, line, WEFT_LINEAR_X_ROUNDED);
    if (line->op != MODEL_LINEAR)
        return false;
    for (int i = 0; i < MODEL_MAX_PARTS && line->parts[i].matrix; i++) {
        const model_tensor *matrix = &tensors[line->parts[i].matrix];
        if (!matrix->data || matrix->adapters || weft_dtype_block_elems(matrix->dtype) < 2 ||
            matrix->cols % 32 != 0)
            return false;
    }
    return true;
}

// Lines of matrices that the layer does not have.
static bool is_left_out(const model_program *program, int32_t layer, const model_line *line)
{
    const model_tensor *tensors = program->weights->layers[layer].tensors;
    return line->parts[0].matrix && !tensors[line->parts[0].matrix].data;
}

// The buffer that a line's result goes to.
static enum model_buffer written_by(const model_line *line)
{
    return line->parts[line->op == MODEL_MIX ? WEFT_EXPERTS_DOWN : 0].out;
}

// The line of this or the next layer that reads what `line` has written to `buffer`, rounded; *layer becomes its layer.
// NULL if none does before it is written again.
static const model_line *next_reader(const model_program *program, const model_line *line,
                                     enum model_buffer buffer, int32_t *layer)
{
    const model_line *first = program->config->architecture->lines;
    for (const model_line *at = line + 1;; at++) {
        if (at->op == MODEL_END) {
            if (++*layer == program->config->layers)
                return NULL;
            at = first;
        }
        if (is_left_out(program, *layer, at) || (at->op != MODEL_LINEAR && at->op != MODEL_MIX))
            continue;
        if (at->in == buffer &&
            reads_rounded(program, program->weights->layers[*layer].tensors, at))
            return at;
        // others read the stream as numbers, which it is as well
        if (written_by(at) == buffer || (at->in == buffer && buffer != MODEL_BUFFER_HIDDEN))
            return NULL;
    }
}

// The model's function on rows of the feed-forward block.
static bool add_function(model_program *program, step_list *list, float *x, const float *up,
                         engine_error *err)
{
    return program_add_activation(program, list,
                                  &(program_activation){.function = program->config->function,
                                                        .dim = program->config->feed_forward_dim,
                                                        .max_rows = program->bounds.max_tokens,
                                                        .x = x,
                                                        .up = up,
                                                        .y = x},
                                  err);
}

// NULL if the layer does not have it.
static const model_tensor *present(const model_tensor *tensors, enum model_layer_tensor id)
{
    return id && tensors[id].data ? &tensors[id] : NULL;
}

// With adapters, the gate follows what they add.
static bool add_adapted(model_program *program, step_list *list, const program_linear *fused,
                        engine_error *err)
{
    program_linear plain = *fused;
    float *up = program->buffers[MODEL_BUFFER_UP];
    if (fused->gate) {
        plain.gate = WEFT_LINEAR_GATE_NONE;
        plain.parts[1].y = up;
    }
    return program_add_linear(program, list, &plain, err) &&
           program_add_adapters(program, list, &plain, err) &&
           (!fused->gate || add_function(program, list, fused->parts[0].y, up, err));
}

// One run, or the norm, each matrix and the gate as runs of their own.
static bool add_fused(model_program *program, step_list *list, const program_linear *fused,
                      engine_error *err)
{
    float *normed = program->buffers[MODEL_BUFFER_NORMED], *up = program->buffers[MODEL_BUFFER_UP];
    if (!program->bounds.separate)
        return program_is_adapted(fused) ? add_adapted(program, list, fused, err)
                                         : program_add_linear(program, list, fused, err);
    program_linear alone = {.x = fused->x,
                            .residual = fused->residual,
                            .alpha = fused->alpha,
                            .max_batch = fused->max_batch};
    if (fused->norm) {
        const program_norm norm = {.kind = program->config->architecture->norm,
                                   .weight = fused->norm,
                                   .bias = fused->norm_bias,
                                   .rows_per_token = 1,
                                   .x = fused->x,
                                   .y = normed};
        if (!program_add_norm(program, list, &norm, err))
            return false;
        alone.x = normed;
    }
    for (int i = 0; i < MODEL_MAX_PARTS && fused->parts[i].matrix; i++) {
        alone.parts[0].matrix = fused->parts[i].matrix;
        alone.parts[0].bias = fused->parts[i].bias;
        alone.parts[0].y = fused->gate && i == 1 ? up : fused->parts[i].y;
        if (!program_add_linear(program, list, &alone, err) ||
            !program_add_adapters(program, list, &alone, err))
            return false;
    }
    return !fused->gate || add_function(program, list, fused->parts[0].y, up, err);
}

// The norm that a reader of rounded rows begins with, whose weights go into them.
static const model_tensor *next_norm(const model_program *program, const model_tensor *read_by,
                                     const model_line *reader)
{
    return program->config->architecture->norm == WEFT_NORM_RMS ? present(read_by, reader->norm)
                                                                : NULL;
}

// May a matrix before its function apply it? A GPU's do not.
static bool applies_function(const model_program *program, const program_linear *linear,
                             const model_line *line)
{
    const bool follows = line[1].op == MODEL_ACTIVATE && line[1].in == line->parts[0].out;
    return follows && program->bounds.device == WEFT_DEVICE_CPU && !program->bounds.separate &&
           !program_is_adapted(linear) && program_gate(program) != WEFT_LINEAR_GATE_NONE;
}

// The format of an encoder's rows between the matrices of a feed-forward block: what down rounds those of the longest texts to.
// Shorter ones, that of a few rows too, which down reads in f32, get the same.
static weft_dtype gated_dtype(const model_program *program, int32_t layer, const model_line *down)
{
    const program_bounds *bounds = &program->bounds;
    if (bounds->device != WEFT_DEVICE_CPU || !program->config->full_mask || bounds->invariant ||
        bounds->separate)
        return WEFT_F32;
    const model_tensor *tensors = program->weights->layers[layer].tensors;
    const program_linear linear = {.parts[0].matrix = &tensors[down->parts[0].matrix],
                                   .max_batch = bounds->max_tokens};
    const bool reads = down->op == MODEL_LINEAR && down->in == MODEL_BUFFER_GATED &&
                       !is_left_out(program, layer, down) && !program_is_adapted(&linear);
    return reads && program_linear_rounds_to(program, &linear) == WEFT_BF16 ? WEFT_BF16 : WEFT_F32;
}

static bool add_linear(model_program *program, int32_t layer, const model_line *line,
                       engine_error *err)
{
    const model_tensor *tensors = program->weights->layers[layer].tensors;
    int32_t next_layer = layer;
    const model_line *reader = next_reader(program, line, line->parts[0].out, &next_layer);
    const model_tensor *read_by = reader ? program->weights->layers[next_layer].tensors : NULL;
    enum model_buffer out = line->parts[0].out;
    program_linear linear = {.x = program->buffers[line->in],
                             .norm = present(tensors, line->norm),
                             .norm_bias = present(tensors, line->norm_bias),
                             .residual = line->residual ? program->buffers[line->base] : NULL,
                             .alpha = line->residual ? program->config->residual_scale : 0,
                             .max_batch = program->bounds.max_tokens};
    // What the first line reads comes from the embedding.
    linear.x_rounded = program->rounded_now[line->in] &&
                       program->rounded_for[line->in] == linear.norm &&
                       reads_rounded(program, tensors, line);
    if (linear.x_rounded)
        linear.x = program->rounded[line->in];
    if (line->in == MODEL_BUFFER_GATED)
        linear.x_dtype = program->gated_dtype;
    for (int i = 0; i < MODEL_MAX_PARTS && line->parts[i].matrix; i++) {
        linear.parts[i].matrix = &tensors[line->parts[i].matrix];
        linear.parts[i].bias = line->parts[i].bias ? &tensors[line->parts[i].bias] : NULL;
        linear.parts[i].y = program->buffers[line->parts[i].out];
    }
    const bool rounds = reader && !program_is_adapted(&linear); // adapters add to y afterwards
    program->activated = applies_function(program, &linear, line);
    if (out == MODEL_BUFFER_GATED)
        program->gated_dtype = WEFT_F32;
    if (line->gate || program->activated) {
        const model_line *behind = line + (line->gate ? 1 : 2);
        linear.gate = program_gate(program);
        if (!program_is_adapted(&linear))
            linear.y_dtype = program->gated_dtype = gated_dtype(program, layer, behind);
        // by itself a function is not worth lines of rounded rows that tasks share
        linear.y_rounded = line->gate && rounds && !present(read_by, reader->norm);
        if (linear.y_rounded)
            linear.parts[0].y = program->rounded[out];
    }
    if (line->residual && rounds) {
        linear.next = next_norm(program, read_by, reader);
        linear.next_rounded = linear.next ? program->rounded[out] : NULL;
    }
    program->rounded_now[out] = linear.y_rounded || linear.next;
    program->rounded_for[out] = linear.next;
    return add_fused(program, &program->layers, &linear, err);
}

// Appends and attends in one run, where the device gains by it, and rounds for a next matrix that wants it.
static bool add_attention(model_program *program, int32_t layer, const model_line *line,
                          engine_error *err)
{
    const model_line *reader = next_reader(program, line, MODEL_BUFFER_ATTENDED, &layer);
    bool rounds = program_layer_appends(program, program->layer) && reader;
    program->rounded_now[MODEL_BUFFER_ATTENDED] = rounds;
    program->rounded_for[MODEL_BUFFER_ATTENDED] = NULL;
    return program_add_attention(program, program->layer, rounds, err);
}

static bool add_experts(model_program *program, int32_t layer, const model_line *line,
                        engine_error *err)
{
    const model_tensor *tensors = program->weights->layers[layer].tensors;
    const enum model_buffer out = written_by(line);
    const model_line *reader = next_reader(program, line, out, &layer);
    const model_tensor *read_by = reader ? program->weights->layers[layer].tensors : NULL;
    program_mixture mixture = {.x = program->buffers[line->in]};
    mixture.x_rounded = program->rounded_now[line->in] &&
                        program->rounded_for[line->in] == &tensors[line->norm] &&
                        reads_rounded(program, tensors, line);
    if (mixture.x_rounded)
        mixture.x = program->rounded[line->in];
    if (reader && program_experts_take(program, tensors, line, WEFT_LINEAR_NEXT))
        mixture.next = next_norm(program, read_by, reader);
    mixture.next_rounded = mixture.next ? program->rounded[out] : NULL;
    program->rounded_now[out] = mixture.next;
    program->rounded_for[out] = mixture.next;
    return program_add_experts(program, tensors, line, &mixture, err);
}

static bool add_units(model_program *program, int32_t layer, const model_line *line,
                      engine_error *err)
{
    const model_config *config = program->config;
    float *in = program->buffers[line->in];
    const model_tensor none = {.cols = config->head_dim};
    const program_norm norm = {.weight = &none,
                               .rows_per_token =
                                   line->in == MODEL_BUFFER_Q ? config->q_heads : config->kv_heads,
                               .x = in,
                               .y = in};
    return !config->unit_heads || !model_config_layer(config, layer, program->ropes).rope ||
           program_add_norm(program, &program->layers, &norm, err);
}

// The bias is a table of one row, which every token looks up.
static bool add_bias(model_program *program, const model_line *line, const model_tensor *bias,
                     engine_error *err)
{
    program_embedding embedding = {.table = bias,
                                   .max_tokens = program->bounds.max_tokens,
                                   .y = program->buffers[line->in],
                                   .adds = true};
    const void *ids = NULL;
    if (!bias)
        return true;
    if (!program->zeros)
        program->zeros = engine_alloc((size_t)program->bounds.max_tokens, sizeof *program->zeros);
    if (!program->zeros)
        return engine_fail(err, "not enough memory for the model's program");
    program->rounded_now[line->in] = false;
    if (!program_place(program, program->zeros,
                       (size_t)program->bounds.max_tokens * sizeof *program->zeros, &ids, err) ||
        !program_place_vector(program, bias, &embedding.rows, err))
        return false;
    embedding.ids = ids;
    return program_add_embedding(program, &program->layers, &embedding, err);
}

// The norm of every head of queries or keys, where the layer has one.
static bool add_head_norm(model_program *program, const model_tensor *tensors,
                          const model_line *line, engine_error *err)
{
    const model_config *config = program->config;
    const model_tensor *weight = present(tensors, line->norm);
    if (!weight)
        return true;
    const int32_t heads = line->in == MODEL_BUFFER_Q ? config->q_heads : config->kv_heads;
    const int64_t width = (int64_t)heads * config->head_dim;
    const model_tensor *bias = present(tensors, line->norm_bias);
    const program_norm norm = {.kind = bias ? config->architecture->norm : WEFT_NORM_RMS,
                               .weight = weight,
                               .bias = bias,
                               .rows_per_token = (int32_t)(width / weight->cols),
                               .x = program->buffers[line->in],
                               .y = program->buffers[line->in]};
    return program_add_norm(program, &program->layers, &norm, err);
}

// The norm of a token's row: in place, or added to the residual stream.
static bool add_row_norm(model_program *program, const model_tensor *tensors,
                         const model_line *line, engine_error *err)
{
    const bool added = line->op == MODEL_ADD_NORM;
    const enum model_buffer out = added ? MODEL_BUFFER_HIDDEN : line->in;
    const program_norm norm = {.kind = program->config->architecture->norm,
                               .weight = &tensors[line->norm],
                               .bias = added ? present(tensors, line->norm_bias)
                                             : &tensors[line->norm_bias],
                               .rows_per_token = 1,
                               .x = program->buffers[line->in],
                               .residual = added ? program->buffers[out] : NULL,
                               .y = program->buffers[out]};
    program->rounded_now[out] = false;
    return program_add_norm(program, &program->layers, &norm, err);
}

static bool add_line(model_program *program, int32_t layer, const model_line *line,
                     engine_error *err)
{
    const model_tensor *tensors = program->weights->layers[layer].tensors;
    if (is_left_out(program, layer, line))
        return true;
    switch (line->op) {
    case MODEL_LINEAR: return add_linear(program, layer, line, err);
    case MODEL_HEAD_NORM: return add_head_norm(program, tensors, line, err);
    case MODEL_HEAD_UNIT: return add_units(program, layer, line, err);
    case MODEL_ADD_NORM:
    case MODEL_NORM: return add_row_norm(program, tensors, line, err);
    case MODEL_ACTIVATE:
        return program->activated ||
               add_function(program, &program->layers, program->buffers[line->in], NULL, err);
    case MODEL_APPEND:
        return program_layer_appends(program, layer) || program_add_append(program, layer, err);
    case MODEL_ATTENTION: return add_attention(program, layer, line, err);
    case MODEL_ABSORB: return program_add_absorb(program, tensors, line, err);
    case MODEL_EXPAND:
        program->rounded_now[MODEL_BUFFER_ATTENDED] = false;
        return program_add_expand(program, tensors, line, err);
    case MODEL_ROUTE: return program_add_route(program, tensors, line, err);
    case MODEL_MIX: return add_experts(program, layer, line, err);
    case MODEL_ADD_BIAS: return add_bias(program, line, present(tensors, line->parts[0].bias), err);
    case MODEL_END: break;
    }
    return true;
}

// What the layers leave, behind the last norm.
static bool add_states(model_program *program, engine_error *err)
{
    const model_tensor *globals = program->weights->globals;
    const program_norm norm = {.kind = program->config->architecture->norm,
                               .weight = &globals[MODEL_GLOBAL_OUTPUT_NORM],
                               .bias = &globals[MODEL_GLOBAL_OUTPUT_NORM_BIAS],
                               .rows_per_token = 1,
                               .x = program->buffers[MODEL_BUFFER_HIDDEN],
                               .y = program->buffers[MODEL_BUFFER_BRANCH]};
    return !norm.weight->data || program_add_norm(program, &program->states, &norm, err);
}

// Rows of HIDDEN are looked up as those of an embedding are.
static bool add_head(model_program *program, engine_error *err)
{
    const model_tensor hidden = {.data = program->buffers[MODEL_BUFFER_HIDDEN],
                                 .dtype = WEFT_F32,
                                 .rows = program->bounds.max_tokens,
                                 .cols = program->config->embedding_dim};
    float *gathered = program->buffers[MODEL_BUFFER_GATHERED];
    const model_config *config = program->config;
    const model_tensor *globals = program->weights->globals;
    const program_linear linear = {.x = gathered,
                                   .norm = &globals[MODEL_GLOBAL_OUTPUT_NORM],
                                   .norm_bias = &globals[MODEL_GLOBAL_OUTPUT_NORM_BIAS],
                                   .parts = {{model_output_matrix(program->weights),
                                              &globals[MODEL_GLOBAL_OUTPUT_BIAS], program->logits}},
                                   .alpha = config->logit_scale,
                                   .max_batch = program->head_rows};
    const program_activation cap = {.function = WEFT_ACTIVATION_SOFTCAP,
                                    .cap = config->logit_softcap,
                                    .dim = config->vocab,
                                    .max_rows = program->head_rows,
                                    .x = program->logits,
                                    .y = program->logits};
    const program_embedding gather = {.table = &hidden,
                                      .rows = hidden.data,
                                      .ids = program->rows,
                                      .max_tokens = program->head_rows,
                                      .y = gathered};
    return program_add_embedding(program, &program->gather, &gather, err) &&
           add_fused(program, &program->head, &linear, err) &&
           (config->logit_softcap == 0 ||
            program_add_activation(program, &program->head, &cap, err));
}

// Rows of a table that the model may not have, by ids of the tokens.
static bool add_table(model_program *program, enum model_global_tensor id, const int32_t *ids,
                      engine_error *err)
{
    const model_tensor *table = &program->weights->globals[id];
    bool first = id == MODEL_GLOBAL_EMBEDDING;
    program_embedding embedding = {.table = table,
                                   .ids = ids,
                                   .max_tokens = program->bounds.max_tokens,
                                   .scale = first ? program->config->embedding_scale : 0,
                                   .y = program->buffers[MODEL_BUFFER_HIDDEN],
                                   .adds = !first};
    if (!table->data)
        return true;
    size_t bytes = (size_t)weft_dtype_row_bytes(table->dtype, table->cols) * (size_t)table->rows;
    return program_place(program, table->data, bytes, &embedding.rows, err) &&
           program_add_embedding(program, &program->layers, &embedding, err);
}

// From tokens to the stream.
static bool add_input(model_program *program, engine_error *err)
{
    const model_tensor *globals = program->weights->globals;
    float *stream = program->buffers[MODEL_BUFFER_HIDDEN];
    const program_norm norm = {.kind = program->config->architecture->norm,
                               .weight = &globals[MODEL_GLOBAL_EMBEDDING_NORM],
                               .bias = &globals[MODEL_GLOBAL_EMBEDDING_NORM_BIAS],
                               .rows_per_token = 1,
                               .x = stream,
                               .y = stream};
    return add_table(program, MODEL_GLOBAL_EMBEDDING, program->ids, err) &&
           program_add_embedding_adapters(program, stream, err) &&
           add_table(program, MODEL_GLOBAL_POSITIONS, weft_batch_positions(program->batch), err) &&
           add_table(program, MODEL_GLOBAL_TOKEN_TYPES, program->types, err) &&
           (!norm.weight->data || program_add_norm(program, &program->layers, &norm, err));
}

bool program_add_all(model_program *program, engine_error *err)
{
    memset(program->rounded_now, 0, sizeof program->rounded_now);
    program->layers.count = program->gather.count = 0;
    program->head.count = program->sample.count = program->states.count = 0;
    program->layer = -1;
    if (!add_input(program, err))
        return false;
    for (int32_t layer = 0; layer < program->config->layers; layer++)
        for (const model_line *line = program->config->architecture->lines; line->op; line++) {
            program->layer = layer;
            if (!add_line(program, layer, line, err))
                return false;
        }
    program->layer = program->config->layers;
    return add_states(program, err) &&
           (program->config->full_mask ||
            (add_head(program, err) && program_add_sample(program, err)));
}
