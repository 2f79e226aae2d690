// SPDX-License-Identifier: MIT
// A family's lines become steps. The lists are made twice by the same functions: first without memory,
// which makes the plans and counts the bytes of weights, buffers and workspace, then with all addresses.
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/worker/program_steps.h"

enum { MIN_HEAD_ROWS = 16 };

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

// The family's function on rows of the feed-forward block.
static bool add_function(model_program *program, step_list *list, float *x, const float *up,
                         engine_error *err)
{
    return program_add_activation(
        program, list,
        &(program_activation){.function = program->config->architecture->function,
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
                             .residual = line->residual,
                             .alpha = line->residual ? program->config->residual_scale : 0,
                             .max_batch = program->bounds.max_tokens};
    // What the first line reads comes from the embedding.
    linear.x_rounded = program->rounded_now[line->in] &&
                       program->rounded_for[line->in] == linear.norm &&
                       reads_rounded(program, tensors, line);
    if (linear.x_rounded)
        linear.x = program->rounded[line->in];
    for (int i = 0; i < MODEL_MAX_PARTS && line->parts[i].matrix; i++) {
        linear.parts[i].matrix = &tensors[line->parts[i].matrix];
        linear.parts[i].bias = line->parts[i].bias ? &tensors[line->parts[i].bias] : NULL;
        linear.parts[i].y = program->buffers[line->parts[i].out];
    }
    const bool rounds = reader && !program_is_adapted(&linear); // adapters add to y afterwards
    if (line->gate) {
        linear.gate = program_gate(program);
        linear.y_rounded = rounds && !present(read_by, reader->norm);
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
    bool rounds = program_appends(program) && reader;
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

static bool add_line(model_program *program, int32_t layer, const model_line *line,
                     engine_error *err)
{
    const model_tensor *tensors = program->weights->layers[layer].tensors;
    float *in = program->buffers[line->in];
    if (is_left_out(program, layer, line))
        return true;
    switch (line->op) {
    case MODEL_LINEAR: return add_linear(program, layer, line, err);
    case MODEL_HEAD_NORM: {
        const model_tensor *weight = present(tensors, line->norm);
        if (!weight)
            return true;
        int32_t q = program->config->q_heads, kv = program->config->kv_heads;
        int64_t width = (int64_t)(line->in == MODEL_BUFFER_Q ? q : kv) * program->config->head_dim;
        const program_norm norm = {
            .weight = weight, .rows_per_token = (int32_t)(width / weight->cols), .x = in, .y = in};
        return program_add_norm(program, &program->layers, &norm, err);
    }
    case MODEL_ADD_NORM: {
        float *stream = program->buffers[MODEL_BUFFER_HIDDEN];
        const program_norm norm = {.kind = program->config->architecture->norm,
                                   .weight = &tensors[line->norm],
                                   .rows_per_token = 1,
                                   .x = in,
                                   .residual = stream,
                                   .y = stream};
        program->rounded_now[MODEL_BUFFER_HIDDEN] = false;
        return program_add_norm(program, &program->layers, &norm, err);
    }
    case MODEL_NORM: {
        const program_norm norm = {.kind = program->config->architecture->norm,
                                   .weight = &tensors[line->norm],
                                   .bias = &tensors[line->norm_bias],
                                   .rows_per_token = 1,
                                   .x = in,
                                   .y = in};
        program->rounded_now[line->in] = false;
        return program_add_norm(program, &program->layers, &norm, err);
    }
    case MODEL_ACTIVATE: return add_function(program, &program->layers, in, NULL, err);
    case MODEL_APPEND: return program_appends(program) || program_add_append(program, layer, err);
    case MODEL_ATTENTION: return add_attention(program, layer, line, err);
    case MODEL_ABSORB: return program_add_absorb(program, tensors, line, err);
    case MODEL_EXPAND:
        program->rounded_now[MODEL_BUFFER_ATTENDED] = false;
        return program_add_expand(program, tensors, line, err);
    case MODEL_ROUTE: return program_add_route(program, tensors, line, err);
    case MODEL_MIX: return add_experts(program, layer, line, err);
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
           add_table(program, MODEL_GLOBAL_POSITIONS, weft_batch_positions(program->batch), err) &&
           add_table(program, MODEL_GLOBAL_TOKEN_TYPES, program->types, err) &&
           (!norm.weight->data || program_add_norm(program, &program->layers, &norm, err));
}

static bool add_all(model_program *program, engine_error *err)
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

static void carve_buffers(model_program *program)
{
    static const model_extent extents[] = {
#define BUFFER_EXTENT(id, extent) MODEL_##extent,
        MODEL_BUFFERS(BUFFER_EXTENT)
#undef BUFFER_EXTENT
    };
    const program_bounds *bounds = &program->bounds;
    program_inputs *in = &program->inputs;
    size_t tokens = (size_t)bounds->max_tokens, seqs = (size_t)bounds->max_seqs;
    size_t head_rows = (size_t)program->head_rows;
    size_t vocab = program->config->full_mask ? 0 : (size_t)program->config->vocab;
    size_t types = program->config->token_types ? tokens * sizeof *program->types : 0;
    size_t table = seqs * (size_t)bounds->max_seq_pages;
    size_t chosen = 2 * (size_t)bounds->chain_tokens * seqs;
    size_t draws = seqs * sizeof *program->draws;
    for (int i = 0; i < MODEL_BUFFER_COUNT; i++) {
        size_t row = (size_t)model_extent_value(program->config, extents[i]);
        bool wanted = bounds->separate || program->weights->adapter_rank > 0;
        if (!wanted && (i == MODEL_BUFFER_NORMED || i == MODEL_BUFFER_UP))
            continue;
        bool is_rounded = i == MODEL_BUFFER_HIDDEN || i == MODEL_BUFFER_GATED ||
                          (i == MODEL_BUFFER_ATTENDED && program_appends(program));
        program->buffers[i] = program_carve(program, ARENA_BUFFERS, tokens * row * sizeof(float));
        if (is_rounded)
            program->rounded[i] = program_carve(
                program, ARENA_BUFFERS,
                weft_rounded_bytes(program->context, bounds->max_tokens, (int64_t)row));
    }
    size_t rank = (size_t)program->weights->adapter_rank;
    program->adapted = program_carve(program, ARENA_BUFFERS, tokens * rank * sizeof(float));
    size_t choices = tokens * (size_t)program->config->experts_used;
    size_t experts = (size_t)program->config->experts;
    program->routing.ids = program_carve(program, ARENA_BUFFERS, choices * sizeof(int32_t));
    program->routing.order = program_carve(program, ARENA_BUFFERS, choices * sizeof(int32_t));
    program->routing.starts =
        program_carve(program, ARENA_BUFFERS, (experts + 1) * sizeof(int32_t));
    program->routing.weights = program_carve(program, ARENA_BUFFERS, choices * sizeof(float));
    program->logits = program_carve(program, ARENA_BUFFERS, head_rows * vocab * sizeof(float));
    program->ids = program_carve(program, ARENA_BUFFERS, tokens * sizeof *program->ids);
    program->types = types ? program_carve(program, ARENA_BUFFERS, types) : NULL;
    program->rows = program_carve(program, ARENA_BUFFERS, head_rows * sizeof *program->rows);
    program->sampled = program_carve(program, ARENA_BUFFERS, seqs * sizeof *program->sampled);
    program->draws = program_carve(program, ARENA_BUFFERS, draws);
    program->workspace = program_carve(program, ARENA_BUFFERS, program->workspace_bytes);
    in->ids = program_carve(program, ARENA_PINNED, tokens * sizeof *in->ids);
    in->types = types ? program_carve(program, ARENA_PINNED, types) : NULL;
    in->cu_q_lens = program_carve(program, ARENA_PINNED, (seqs + 1) * sizeof *in->cu_q_lens);
    in->kv_lens = program_carve(program, ARENA_PINNED, seqs * sizeof *in->kv_lens);
    in->kv_capacities = program_carve(program, ARENA_PINNED, seqs * sizeof *in->kv_capacities);
    program->chosen = program_carve(program, ARENA_PINNED, chosen * sizeof *program->chosen);
    in->page_table = program_carve(program, ARENA_PINNED, table * sizeof *in->page_table);
    in->rows = program_carve(program, ARENA_PINNED, head_rows * sizeof *in->rows);
}

static bool make_chains(model_program *program, engine_error *err)
{
    size_t seqs = (size_t)program->bounds.max_seqs;
    program->params = engine_alloc(seqs, sizeof *program->params);
    program->decoders = engine_alloc(2 * (seqs + 1), sizeof *program->decoders);
    program->links = engine_alloc(2 * (seqs + 1), sizeof *program->links);
    if (!program->params || !program->decoders || !program->links)
        return engine_fail(err, "not enough memory for the model's program");
    for (int i = 0; i < 2; i++)
        if (weft_event_create(program->context, &program->events[i]) != WEFT_OK)
            return engine_fail(err, "%s", weft_error_text(program->context));
    return true;
}

static bool lay_out(model_program *program, engine_error *err)
{
    for (int i = 0; i < ARENA_COUNT; i++)
        program->arenas[i].used = 0;
    carve_buffers(program);
    return add_all(program, err);
}

static void drop_plans(model_program *program)
{
    for (int32_t i = 0; i < program->plan_count; i++)
        weft_plan_destroy(program->plans[i].plan);
    program_drop_cascades(program);
    program->plan_count = 0;
    program->workspace_bytes = 0;
}

// Counts. A device that has no kernel for runs that are put together may have those for separate ones.
static bool count(model_program *program, engine_error *err)
{
    if (lay_out(program, err))
        return true;
    if (program->bounds.separate)
        return false;
    drop_plans(program);
    program->bounds.separate = true;
    return lay_out(program, err);
}

// As much as was counted, and the workspace, which became known while counting.
static bool allocate(model_program *program, engine_error *err)
{
    program->arenas[ARENA_BUFFERS].used += program->workspace_bytes + PROGRAM_ALIGN;
    for (int i = 0; i < ARENA_COUNT; i++) {
        program_arena *arena = &program->arenas[i];
        weft_memory_kind kind = i == ARENA_PINNED ? WEFT_MEMORY_PINNED : WEFT_MEMORY_DEVICE;
        void *base;
        arena->bytes = arena->used;
        if (arena->bytes == 0)
            continue;
        if (weft_memory_allocate(program->context, kind, arena->bytes, &base) != WEFT_OK)
            return engine_fail(err, "%zu MB of %s do not fit: %s; choose a smaller %s",
                               arena->bytes >> 20, i == ARENA_WEIGHTS ? "weights" : "buffers",
                               weft_error_text(program->context),
                               i == ARENA_WEIGHTS ? "model" : "--chunk");
        arena->base = base;
    }
    return true;
}

// What all layers share in a pass.
static bool make_batch(model_program *program, engine_error *err)
{
    const program_bounds *bounds = &program->bounds;
    const weft_plan **plans = engine_alloc((size_t)program->plan_count, sizeof *plans);
    weft_batch_desc desc = {.size = sizeof desc,
                            .max_seqs = bounds->max_seqs,
                            .max_q_tokens = bounds->max_tokens,
                            .max_kv_len = bounds->max_kv_len,
                            .page_size = program->kv.page_size,
                            .max_pages = bounds->max_seqs * bounds->max_seq_pages,
                            .plans = plans};
    if (!plans)
        return engine_fail(err, "not enough memory for the model's plans");
    for (int32_t i = 0; i < program->plan_count; i++)
        if (program->plans[i].kind == STEP_APPEND || program->plans[i].kind == STEP_ATTENTION)
            plans[desc.num_plans++] = program->plans[i].plan;
    weft_status status = weft_batch_create(program->context, &desc, &program->batch);
    free(plans);
    return status == WEFT_OK ||
           engine_fail(err, "batches cannot be made: %s", weft_error_text(program->context));
}

// What frequencies are divided by; some models have factors for long contexts and others for short ones.
static const float *freq_factors(const model_program *program)
{
    const model_tensor *globals = program->weights->globals;
    bool is_long = program->bounds.max_kv_len > program->config->rope.original_context;
    const float *by_length =
        globals[is_long ? MODEL_GLOBAL_ROPE_LONG : MODEL_GLOBAL_ROPE_SHORT].data;
    return by_length ? by_length : globals[MODEL_GLOBAL_ROPE_FREQS].data;
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
    program->ropes[0] = config->rope;
    program->ropes[1] = config->local_rope;
    program->ropes[0].freq_factors = program->ropes[1].freq_factors = freq_factors(program);
    program->head_rows = bounds->max_seqs > MIN_HEAD_ROWS ? bounds->max_seqs : MIN_HEAD_ROWS;
    if (program->head_rows > bounds->max_tokens)
        program->head_rows = bounds->max_tokens;
    if (count(program, err) && allocate(program, err) && make_batch(program, err) &&
        program_open_cascades(program, err) && make_chains(program, err) && lay_out(program, err) &&
        model_program_prepare(program, 1, err))
        return program;
    model_program_free(program);
    return NULL;
}

void model_program_free(model_program *program)
{
    if (!program)
        return;
    int32_t recorded = 2 * (program->bounds.max_seqs + 1);
    for (int32_t i = 0; program->decoders && i < recorded; i++)
        weft_program_destroy(program->decoders[i]);
    for (int32_t i = 0; program->links && i < recorded; i++)
        weft_program_destroy(program->links[i]);
    free(program->decoders);
    free(program->links);
    weft_event_destroy(program->events[0]);
    weft_event_destroy(program->events[1]);
    weft_batch_destroy(program->batch);
    program_close_cascades(program);
    free(program->params);
    drop_plans(program);
    free(program->plans);
    free(program->layers.steps);
    free(program->gather.steps);
    free(program->head.steps);
    free(program->states.steps);
    free(program->sample.steps);
    for (int i = 0; i < ARENA_COUNT; i++)
        weft_memory_free(program->context, program->arenas[i].base);
    free(program);
}

int64_t model_program_buffer_bytes(const model_program *program)
{
    return (int64_t)(program->arenas[ARENA_BUFFERS].bytes + program->arenas[ARENA_PINNED].bytes);
}

const char *model_program_plan_at(const model_program *program, int32_t n)
{
    return n >= 0 && n < program->plan_count ? weft_plan_describe(program->plans[n].plan) : NULL;
}
