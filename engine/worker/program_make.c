// SPDX-License-Identifier: MIT
// A program is made and freed. Its lists of steps are made twice by the same functions: first without memory,
// which makes the plans and counts the bytes of weights, buffers and workspace, then with all addresses.
#include <stdlib.h>

#include "engine/base/alloc.h"
#include "engine/worker/program_steps.h"

enum { MIN_HEAD_ROWS = 16 };

// What layers read and write: a row for each token.
static void carve_rows(model_program *program)
{
    static const model_extent extents[] = {
#define BUFFER_EXTENT(id, extent) MODEL_##extent,
        MODEL_BUFFERS(BUFFER_EXTENT)
#undef BUFFER_EXTENT
    };
    const program_bounds *bounds = &program->bounds;
    const size_t tokens = (size_t)bounds->max_tokens;
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
    const size_t rank = (size_t)program->weights->adapter_rank;
    program->adapted = program_carve(program, ARENA_BUFFERS, tokens * rank * sizeof(float));
}

// Which experts the tokens of a layer go to.
static void carve_routing(model_program *program)
{
    const size_t tokens = (size_t)program->bounds.max_tokens;
    size_t choices = tokens * (size_t)program->config->experts_used;
    size_t experts = (size_t)program->config->experts;
    program->routing.ids = program_carve(program, ARENA_BUFFERS, choices * sizeof(int32_t));
    program->routing.order = program_carve(program, ARENA_BUFFERS, choices * sizeof(int32_t));
    program->routing.starts =
        program_carve(program, ARENA_BUFFERS, (experts + 1) * sizeof(int32_t));
    program->routing.weights = program_carve(program, ARENA_BUFFERS, choices * sizeof(float));
}

// What stays on the device from one pass to the next: ids, logits, draws, the workspace.
static void carve_ends(model_program *program)
{
    const program_bounds *bounds = &program->bounds;
    const size_t tokens = (size_t)bounds->max_tokens, seqs = (size_t)bounds->max_seqs;
    const size_t head_rows = (size_t)program->head_rows;
    const size_t vocab = program->config->full_mask ? 0 : (size_t)program->config->vocab;
    const size_t types = program->config->token_types ? tokens * sizeof *program->types : 0;
    const size_t draws = seqs * sizeof *program->draws;
    program->logits = program_carve(program, ARENA_BUFFERS, head_rows * vocab * sizeof(float));
    program->ids = program_carve(program, ARENA_BUFFERS, tokens * sizeof *program->ids);
    program->types = types ? program_carve(program, ARENA_BUFFERS, types) : NULL;
    program->rows = program_carve(program, ARENA_BUFFERS, head_rows * sizeof *program->rows);
    program->sampled = program_carve(program, ARENA_BUFFERS, 2 * seqs * sizeof *program->sampled);
    program->undrawn = program_carve(program, ARENA_BUFFERS, draws);
    program->draws = program_carve(program, ARENA_BUFFERS, draws);
    if (program_appends(program) && bounds->cascade_rows >= 0)
        program->cascades.queries = program_carve(
            program, ARENA_BUFFERS,
            seqs * (size_t)(program->config->q_heads * program->kv.head_dim) * sizeof(float));
    program->workspace = program_carve(program, ARENA_BUFFERS, program->workspace_bytes);
}

// What the host writes before a pass and reads behind it.
static void carve_inputs(model_program *program)
{
    const program_bounds *bounds = &program->bounds;
    program_inputs *in = &program->inputs;
    const size_t tokens = (size_t)bounds->max_tokens, seqs = (size_t)bounds->max_seqs;
    const size_t head_rows = (size_t)program->head_rows;
    const size_t types = program->config->token_types ? tokens * sizeof *program->types : 0;
    const size_t table = seqs * (size_t)bounds->max_seq_pages;
    const size_t chosen = 2 * (size_t)bounds->chain_tokens * seqs;
    in->ids = program_carve(program, ARENA_PINNED, tokens * sizeof *in->ids);
    in->types = types ? program_carve(program, ARENA_PINNED, types) : NULL;
    in->cu_q_lens = program_carve(program, ARENA_PINNED, (seqs + 1) * sizeof *in->cu_q_lens);
    in->kv_lens = program_carve(program, ARENA_PINNED, seqs * sizeof *in->kv_lens);
    in->kv_capacities = program_carve(program, ARENA_PINNED, seqs * sizeof *in->kv_capacities);
    program->chosen = program_carve(program, ARENA_PINNED, chosen * sizeof *program->chosen);
    in->page_table = program_carve(program, ARENA_PINNED, table * sizeof *in->page_table);
    program->sampled_copy =
        program_carve(program, ARENA_PINNED, 2 * seqs * sizeof *program->sampled_copy);
    program->picked = program_carve(program, ARENA_PINNED, seqs * sizeof *program->picked);
    in->rows = program_carve(program, ARENA_PINNED, head_rows * sizeof *in->rows);
    in->parents = program_carve(program, ARENA_PINNED, tokens * sizeof *in->parents);
    program->trees.parents = in->parents;
    program->trees.positions =
        program_carve(program, ARENA_PINNED, tokens * sizeof *program->trees.positions);
}

static void carve_buffers(model_program *program)
{
    carve_rows(program);
    carve_routing(program);
    carve_ends(program);
    carve_inputs(program);
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
    program->wish = program->bounds.packed;
    carve_buffers(program);
    return program_add_all(program, err);
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

// Packed matrices of the CPU, as a worker before has left them or to be laid out.
static bool take_packed(model_program *program, engine_error *err)
{
    program_arena *arena = &program->arenas[ARENA_WEIGHTS];
    if (program->bounds.device != WEFT_DEVICE_CPU || arena->bytes == 0)
        return true;
    program->wish.bytes = arena->bytes;
    program->packed =
        packed_take(program->bounds.store, &program->wish, &program->packed_found, err);
    arena->base = program->packed ? packed_data(program->packed) : NULL;
    return program->packed != NULL;
}

// All is laid out: who waits for it may go on.
static bool complete(model_program *program, engine_error *err)
{
    return !program->packed || program->packed_found ||
           packed_complete(program->bounds.store, program->packed, err);
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
        if (i == ARENA_WEIGHTS && !take_packed(program, err))
            return false;
        if (arena->bytes == 0 || arena->base)
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
        complete(program, err) && model_program_prepare(program, 1, err))
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
    free(program->zeros);
    free(program->slopes);
    drop_plans(program);
    free(program->plans);
    free(program->layers.steps);
    free(program->gather.steps);
    free(program->head.steps);
    free(program->states.steps);
    free(program->sample.steps);
    packed_release(program->bounds.store, program->packed);
    for (int i = program->packed ? ARENA_WEIGHTS + 1 : 0; i < ARENA_COUNT; i++)
        weft_memory_free(program->context, program->arenas[i].base);
    free(program);
}

int64_t model_program_buffer_bytes(const model_program *program)
{
    return (int64_t)(program->arenas[ARENA_BUFFERS].bytes + program->arenas[ARENA_PINNED].bytes);
}

int64_t model_program_packed_bytes(const model_program *program, bool *found)
{
    *found = program->packed_found;
    return program->packed ? (int64_t)program->arenas[ARENA_WEIGHTS].bytes : 0;
}

const char *model_program_plan_at(const model_program *program, int32_t n)
{
    return n >= 0 && n < program->plan_count ? weft_plan_describe(program->plans[n].plan) : NULL;
}
