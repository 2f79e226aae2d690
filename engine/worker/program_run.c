// SPDX-License-Identifier: MIT
#include <math.h>
#include <string.h>

#include "engine/worker/program_steps.h"

// Those of a pass whose new tokens are trees.
static weft_status run_tree(const program_step *step)
{
    weft_attention_args args = step->args.attention;
    args.tree_parents = step->trees->parents;
    return weft_attention_run(step->tree, &args);
}

weft_status program_run_step(program_step *step, int32_t tokens)
{
    switch (step->kind) {
    case STEP_EMBEDDING:
        step->args.embedding.tokens = tokens;
        return weft_embedding_run(step->plan, &step->args.embedding);
    case STEP_NORM:
        step->args.norm.rows = tokens * step->rows_per_token;
        return weft_norm_run(step->plan, &step->args.norm);
    case STEP_LINEAR:
        step->args.linear.batch = tokens;
        return weft_linear_run(step->plan, &step->args.linear);
    case STEP_APPEND:
        step->args.append.tokens = tokens;
        return weft_kv_append_run(step->plan, &step->args.append);
    case STEP_ATTENTION:
        if (step->trees->now)
            return run_tree(step);
        return step->cascade && step->cascades->now
                   ? program_run_cascade(step, tokens)
                   : weft_attention_run(step->plan, &step->args.attention);
    case STEP_ACTIVATION:
        step->args.activation.rows = tokens * step->rows_per_token;
        return weft_activation_run(step->plan, &step->args.activation);
    case STEP_SAMPLE:
        step->args.sample.rows = tokens;
        return weft_sample_run(step->plan, &step->args.sample);
    case STEP_ROUTE:
        step->args.route.rows = tokens;
        return weft_route_run(step->plan, &step->args.route);
    case STEP_EXPERTS:
        step->args.experts.batch = tokens;
        return weft_experts_run(step->plan, &step->args.experts);
    case STEP_ROUND: break; // no step of its own: a part of others
    }
    return WEFT_EINVAL;
}

bool program_run_list(model_program *program, step_list *list, int32_t tokens, engine_error *err)
{
    for (int32_t i = 0; i < list->count; i++)
        if (program_run_step(&list->steps[i], tokens) != WEFT_OK)
            return engine_fail(err, "the forward pass failed: %s",
                               weft_error_text(program->context));
    program->counts.runs += list->count;
    return true;
}

static int64_t one_launches(const weft_program *recorded)
{
    weft_program_info info = {.size = sizeof info};
    return recorded && weft_program_describe(recorded, &info) == WEFT_OK ? info.one_launches : 0;
}

program_counts model_program_counts(const model_program *program)
{
    program_counts counts = program->counts;
    const int32_t recorded = 2 * (program->bounds.max_seqs + 1);
    for (int32_t i = 0; i < recorded; i++)
        counts.one_launches += one_launches(program->decoders ? program->decoders[i] : NULL) +
                               one_launches(program->links ? program->links[i] : NULL);
    return counts;
}

// Waits for all that the device was given.
static weft_status wait_for(model_program *program)
{
    program->counts.waits++;
    program->inputs_given = false;
    return weft_stream_synchronize(program->context, NULL);
}

bool program_upload(model_program *program, int32_t *to, const int32_t *from, int32_t count,
                    engine_error *err)
{
    program->inputs_given = true;
    return weft_copy(program->context, to, from, (size_t)count * sizeof *to, NULL) == WEFT_OK ||
           engine_fail(err, "the forward pass failed: %s", weft_error_text(program->context));
}

bool model_program_wait(model_program *program, engine_error *err)
{
    return wait_for(program) == WEFT_OK ||
           engine_fail(err, "the device failed: %s", weft_error_text(program->context));
}

bool model_program_free_inputs(model_program *program, engine_error *err)
{
    return !program->inputs_given || model_program_wait(program, err);
}

bool program_set_batch(model_program *program, int32_t seqs, const int32_t *capacities,
                       engine_error *err)
{
    const program_inputs *in = &program->inputs;
    const weft_batch_args args = {.size = sizeof args,
                                  .num_seqs = seqs,
                                  .cu_q_lens = in->cu_q_lens,
                                  .kv_lens = in->kv_lens,
                                  .kv_capacities = capacities,
                                  .page_table = in->page_table,
                                  .page_table_stride = program->bounds.max_seq_pages,
                                  .positions = program->trees.now ? program->trees.positions : NULL,
                                  .num_pages = page_pool_pages(program->pool)};
    program->cascades.now = false;
    program->inputs_given = true;
    return weft_batch_set(program->batch, &args) == WEFT_OK ||
           engine_fail(err, "the forward pass failed: %s", weft_error_text(program->context));
}

bool model_program_forward(model_program *program, int32_t tokens, int32_t seqs, engine_error *err)
{
    program->tokens = tokens;
    program->counts.passes++;
    program->counts.attention_runs += program->config->layers;
    return program_upload(program, program->ids, program->inputs.ids, tokens, err) &&
           (!program->types ||
            program_upload(program, program->types, program->inputs.types, tokens, err)) &&
           program_set_batch(program, seqs, NULL, err) &&
           program_run_list(program, &program->layers, tokens, err);
}

bool model_program_takes_trees(const model_program *program)
{
    return !program->trees.none;
}

// A token stands behind those that it follows.
static void find_positions(model_program *program, int32_t seqs)
{
    const program_inputs *in = &program->inputs;
    for (int32_t s = 0; s < seqs; s++) {
        int32_t first = in->cu_q_lens[s], count = in->cu_q_lens[s + 1] - first;
        const int32_t *parents = in->parents + first;
        int32_t *positions = program->trees.positions + first;
        for (int32_t i = 0; i < count; i++)
            positions[i] = parents[i] < 0 ? in->kv_lens[s] - count : positions[parents[i]] + 1;
    }
}

bool model_program_forward_trees(model_program *program, int32_t tokens, int32_t seqs,
                                 engine_error *err)
{
    find_positions(program, seqs);
    program->trees.now = true;
    bool fine = model_program_forward(program, tokens, seqs, err);
    program->trees.now = false;
    return fine;
}

bool model_program_states(model_program *program, float *to, int32_t rows, engine_error *err)
{
    size_t bytes = (size_t)rows * (size_t)program->config->embedding_dim * sizeof *to;
    bool normed = program->states.count > 0;
    const float *from = program->buffers[normed ? MODEL_BUFFER_BRANCH : MODEL_BUFFER_HIDDEN];
    if (!program_run_list(program, &program->states, rows, err))
        return false;
    return program_read_back(program, to, from, bytes) == WEFT_OK ||
           engine_fail(err, "states of tokens cannot be read: %s",
                       weft_error_text(program->context));
}

// Of every step that reads the stream: with adapters the first is not the only one.
bool program_run_head(model_program *program, const float *x, int32_t count, engine_error *err)
{
    const float *hidden = program->buffers[MODEL_BUFFER_HIDDEN];
    const float *gathered = program->buffers[MODEL_BUFFER_GATHERED];
    for (int32_t i = 0; i < program->head.count; i++) {
        program_step *step = &program->head.steps[i];
        if (step->kind == STEP_NORM)
            step->args.norm.x = x;
        else if (step->kind == STEP_LINEAR &&
                 (step->args.linear.x == hidden || step->args.linear.x == gathered))
            step->args.linear.x = x;
    }
    return program_run_list(program, &program->head, count, err);
}

// Are they all tokens of the last pass, in order?
static bool wants_all(const model_program *program, int32_t count)
{
    bool all = count == program->tokens;
    for (int32_t i = 0; i < count && all; i++)
        all = program->inputs.rows[i] == i;
    return all;
}

bool model_program_head(model_program *program, int32_t count, engine_error *err)
{
    if (wants_all(program, count))
        return program_run_head(program, program->buffers[MODEL_BUFFER_HIDDEN], count, err);
    return program_upload(program, program->rows, program->inputs.rows, count, err) &&
           program_run_list(program, &program->gather, count, err) &&
           program_run_head(program, program->buffers[MODEL_BUFFER_GATHERED], count, err);
}

weft_status program_read_back(model_program *program, void *to, const void *from, size_t bytes)
{
    weft_status status = weft_copy(program->context, to, from, bytes, NULL);
    return status == WEFT_OK ? wait_for(program) : status;
}

bool model_program_read_logits(model_program *program, float *to, const float *from, int32_t rows,
                               engine_error *err)
{
    size_t bytes = (size_t)rows * (size_t)program->config->vocab * sizeof *to;
    return program_read_back(program, to, from, bytes) == WEFT_OK ||
           engine_fail(err, "logits cannot be read: %s", weft_error_text(program->context));
}

bool program_not_finite(engine_error *err)
{
    return engine_fail(err, "the logits of this model are not finite numbers: its file is damaged "
                            "or was converted badly, get another");
}

// The sampler takes NaN for impossible and chooses such a token only if there is no other. It says so where it notes the token: behind a
// history, which those without one are given room for. False if one has a history, for what is behind that is not the program's.
static bool note_tokens(model_program *program, const weft_sample_params *params, int32_t rows)
{
    for (int32_t i = 0; i < rows; i++) {
        if (params[i].history)
            return false;
        program->params[i] = params[i];
        program->params[i].history = program->sampled + program->bounds.max_seqs + i;
    }
    return true;
}

static bool were_finite(const model_program *program, int32_t rows, engine_error *err)
{
    const int32_t *noted = program->sampled_copy + program->bounds.max_seqs;
    for (int32_t i = 0; i < rows; i++)
        if (noted[i] < 0)
            return program_not_finite(err);
    return true;
}

// By the logits themselves. All rows are waited for at once.
static bool are_finite(model_program *program, const float *logits, int32_t rows,
                       const int32_t *tokens, engine_error *err)
{
    const size_t vocab = (size_t)program->config->vocab;
    weft_status status = WEFT_OK;
    for (int32_t i = 0; status == WEFT_OK && i < rows; i++)
        status = weft_copy(program->context, &program->picked[i],
                           logits + (size_t)i * vocab + tokens[i], sizeof *program->picked, NULL);
    if (status != WEFT_OK || wait_for(program) != WEFT_OK)
        return engine_fail(err, "sampling failed: %s", weft_error_text(program->context));
    for (int32_t i = 0; i < rows; i++)
        if (!isfinite(program->picked[i]))
            return program_not_finite(err);
    return true;
}

bool model_program_sample(model_program *program, const float *logits, int32_t rows,
                          const weft_sample_params *params, int32_t *tokens, engine_error *err)
{
    program_step *step = &program->sample.steps[0];
    const bool noted = note_tokens(program, params, rows);
    const int32_t copied = rows + (noted ? program->bounds.max_seqs : 0);
    step->args.sample.logits = logits;
    step->args.sample.params = noted ? program->params : params;
    step->args.sample.next = noted ? program->undrawn : NULL;
    step->args.sample.tokens = program->sampled;
    step->args.sample.logprobs = NULL;
    program->counts.runs++;
    if (program_run_step(step, rows) != WEFT_OK ||
        program_read_back(program, program->sampled_copy, program->sampled,
                          (size_t)copied * sizeof *tokens) != WEFT_OK)
        return engine_fail(err, "sampling failed: %s", weft_error_text(program->context));
    memcpy(tokens, program->sampled_copy, (size_t)rows * sizeof *tokens);
    return noted ? were_finite(program, rows, err) : are_finite(program, logits, rows, tokens, err);
}

const program_inputs *model_program_inputs(model_program *program)
{
    return &program->inputs;
}

int32_t model_program_head_rows(const model_program *program)
{
    return program->head_rows;
}

float *model_program_logits(const model_program *program)
{
    return program->logits;
}
