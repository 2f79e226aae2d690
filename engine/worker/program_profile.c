// SPDX-License-Identifier: MIT
// Time by step: the decoding of one token of every sequence, run step by step with an event behind each.
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/engine.h"
#include "engine/worker/program_steps.h"

// Launches ahead of a timed round: caches are as they are in the middle of a text, and a device works on
// them while the host gives it the steps, so that no time between events is the host's.
enum { AHEAD_CPU = 1, AHEAD_DEVICE = 8 };

static bool failed(const model_program *program, engine_error *err)
{
    return engine_fail(err, "profiling failed: %s", weft_error_text(program->context));
}

static const program_plan *plan_of(const model_program *program, const program_step *step)
{
    int32_t i = 0;
    while (program->plans[i].plan != step->plan)
        i++;
    return &program->plans[i];
}

static int64_t linear_bytes(const weft_linear_desc *desc, int32_t tokens)
{
    const int64_t result = INT64_C(4) * tokens;
    int64_t bytes = desc->cols * result;
    if (desc->num_parts == 0)
        return bytes + desc->rows * (weft_dtype_row_bytes(desc->weight_dtype, desc->cols) + result);
    for (int32_t i = 0; i < desc->num_parts; i++) {
        const weft_linear_part *part = &desc->parts[i];
        bytes += part->rows * (weft_dtype_row_bytes(part->weight_dtype, desc->cols) + result);
    }
    return bytes;
}

// Experts that several tokens have in common are read once: those of one token at least.
static int64_t experts_bytes(const weft_experts_desc *desc, int32_t tokens)
{
    const weft_linear_part *parts = desc->parts;
    int64_t up = weft_dtype_row_bytes(parts[WEFT_EXPERTS_GATE].weight_dtype, desc->cols);
    if (!(desc->flags & WEFT_EXPERTS_PLAIN))
        up += weft_dtype_row_bytes(parts[WEFT_EXPERTS_UP].weight_dtype, desc->cols);
    int64_t down = weft_dtype_row_bytes(parts[WEFT_EXPERTS_DOWN].weight_dtype, desc->inner);
    return desc->top_k * (desc->inner * up + desc->cols * down) + desc->cols * INT64_C(12) * tokens;
}

static int64_t kv_bytes(const model_program *program, int64_t token, int32_t tokens)
{
    const int64_t window = program->config->window;
    int64_t keys = 0;
    for (int32_t i = 0; i < tokens; i++) {
        const int64_t kv_len = program->inputs.kv_lens[i];
        keys += window && window < kv_len ? window : kv_len;
    }
    return token * keys;
}

// What the step must move at least, of one token of each sequence: weights, cache, rows in and out.
static int64_t step_bytes(const model_program *program, const program_step *step, int32_t tokens)
{
    const program_plan *plan = plan_of(program, step);
    const weft_kv_layout *kv = &program->kv;
    int32_t values_at =
        program->config->latent.dim ? program->config->rope.rotary_dim : PAGE_POOL_APART;
    int64_t token = page_pool_page_bytes(kv, values_at) / kv->page_size;
    const int64_t q = (int64_t)tokens * program->config->q_heads * program->config->head_dim * 4;
    switch (step->kind) {
    case STEP_EMBEDDING:
        return tokens *
               (weft_dtype_row_bytes(plan->desc.embedding.table_dtype, plan->desc.embedding.dim) +
                plan->desc.embedding.dim * 4);
    case STEP_NORM: return plan->desc.norm.dim * step->rows_per_token * INT64_C(12) * tokens;
    case STEP_LINEAR: return linear_bytes(&plan->desc.linear, tokens);
    case STEP_APPEND: return 3 * token * tokens + 2 * q;
    case STEP_ATTENTION: return kv_bytes(program, token, tokens) + 2 * q;
    case STEP_ACTIVATION: return plan->desc.activation.dim * INT64_C(12) * tokens;
    case STEP_SAMPLE: return plan->desc.sample.vocab * INT64_C(4) * tokens;
    case STEP_ROUTE: return plan->desc.route.experts * INT64_C(4) * tokens;
    case STEP_EXPERTS: return experts_bytes(&plan->desc.experts, tokens);
    case STEP_ROUND: return plan->desc.round.cols * INT64_C(5) * tokens;
    }
    return 0;
}

typedef struct stopwatch {
    model_program *program;
    program_step **steps; // [count]
    weft_event **events;  // [count + 1]
    double *us;           // [count][rounds]
    int32_t count, rounds, seqs;
} stopwatch;

static void add_list(stopwatch *watch, step_list *list)
{
    for (int32_t i = 0; i < list->count; i++)
        watch->steps[watch->count++] = &list->steps[i];
}

static bool open_watch(stopwatch *watch, engine_error *err)
{
    model_program *program = watch->program;
    size_t most = (size_t)(program->layers.count + program->head.count + program->sample.count);
    watch->steps = engine_alloc(most, sizeof *watch->steps);
    watch->events = engine_alloc(most + 1, sizeof *watch->events);
    watch->us = engine_alloc(most * (size_t)watch->rounds, sizeof *watch->us);
    if (!watch->steps || !watch->events || !watch->us)
        return engine_fail(err, "not enough memory for a profile");
    add_list(watch, &program->layers);
    add_list(watch, &program->head);
    add_list(watch, &program->sample);
    for (int32_t i = 0; i <= watch->count; i++)
        if (weft_event_create(program->context, &watch->events[i]) != WEFT_OK)
            return failed(program, err);
    return true;
}

static void close_watch(stopwatch *watch)
{
    for (int32_t i = 0; watch->events && i <= watch->count; i++)
        weft_event_destroy(watch->events[i]);
    free(watch->steps);
    free(watch->events);
    free(watch->us);
}

static bool run_round(stopwatch *watch, int32_t round, engine_error *err)
{
    model_program *program = watch->program;
    int ahead = program->bounds.device == WEFT_DEVICE_CPU ? AHEAD_CPU : AHEAD_DEVICE;
    for (int i = 0; i < ahead; i++)
        if (!program_run_link(program, watch->seqs, err))
            return false;
    if (weft_event_record(watch->events[0], NULL) != WEFT_OK)
        return failed(program, err);
    for (int32_t i = 0; i < watch->count; i++)
        if (program_run_step(watch->steps[i], watch->seqs) != WEFT_OK ||
            weft_event_record(watch->events[i + 1], NULL) != WEFT_OK)
            return failed(program, err);
    for (int32_t i = 0; i < watch->count; i++)
        if (weft_event_elapsed_us(watch->events[i], watch->events[i + 1],
                                  &watch->us[(size_t)i * (size_t)watch->rounds + (size_t)round]) !=
            WEFT_OK)
            return failed(program, err);
    return true;
}

// A step at a time, as a chain runs it.
static bool time_whole(stopwatch *watch, double *us, engine_error *err)
{
    model_program *program = watch->program;
    weft_event **events = watch->events;
    if (!program_run_link(program, watch->seqs, err))
        return false;
    if (weft_event_record(events[0], NULL) != WEFT_OK)
        return failed(program, err);
    for (int32_t i = 0; i < watch->rounds; i++)
        if (!program_run_link(program, watch->seqs, err))
            return false;
    if (weft_event_record(events[1], NULL) != WEFT_OK ||
        weft_event_elapsed_us(events[0], events[1], us) != WEFT_OK)
        return failed(program, err);
    *us /= watch->rounds;
    return true;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static engine_profile *report(stopwatch *watch, double whole_us)
{
    static const char *const ops[] = {
        [STEP_EMBEDDING] = "embedding", [STEP_NORM] = "norm",
        [STEP_LINEAR] = "linear",       [STEP_APPEND] = "append",
        [STEP_ATTENTION] = "attention", [STEP_ACTIVATION] = "activation",
        [STEP_SAMPLE] = "sample",       [STEP_ROUTE] = "route",
        [STEP_EXPERTS] = "experts"};
    engine_profile *profile =
        engine_alloc(1, sizeof *profile + (size_t)watch->count * sizeof *profile->steps);
    if (!profile)
        return NULL;
    profile->whole_us = whole_us;
    profile->count = watch->count;
    for (int32_t i = 0; i < watch->count; i++) {
        const program_step *step = watch->steps[i];
        double *us = watch->us + (size_t)i * (size_t)watch->rounds;
        qsort(us, (size_t)watch->rounds, sizeof *us, by_value);
        profile->steps[i] =
            (engine_step_time){.op = ops[step->kind],
                               .plan = weft_plan_describe(step->plan),
                               .layer = step->layer,
                               .us = us[watch->rounds / 2],
                               .bytes = step_bytes(watch->program, step, watch->seqs)};
    }
    return profile;
}

engine_profile *model_program_profile(model_program *program, int32_t seqs, int32_t rounds,
                                      engine_error *err)
{
    stopwatch watch = {.program = program, .rounds = rounds, .seqs = seqs};
    engine_profile *profile = NULL;
    double whole_us = 0;
    bool fine = open_watch(&watch, err) && program_begin_links(program, seqs, err);
    for (int32_t i = 0; fine && i < rounds; i++)
        fine = run_round(&watch, i, err);
    if (fine && time_whole(&watch, &whole_us, err)) {
        profile = report(&watch, whole_us);
        if (!profile)
            engine_fail(err, "not enough memory for a profile");
    }
    close_watch(&watch);
    return profile;
}
