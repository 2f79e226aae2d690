// SPDX-License-Identifier: MIT
// Programs whose layers are one launch (src/kernels/token/): what is recorded is kept as well, and looked at
// when the recording ends. WEFT_PROGRAM=persistent asks for it, graph refuses it; else it is there where it was
// measured to be faster (token_devices.def), and a launch of the program takes it for texts that are no longer
// than that. What cannot be run so stays a graph of its launches, and the log says why.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/cuda/cuda_backend.h"
#include "src/backend/cuda/cuda_context.h"
#include "src/base/memory.h"
#include "src/kernels/attention/attention_kernel.h"
#include "src/kernels/token/token_kernel.h"
#include "src/plan/plan.h"
#include "src/plan/plan_batch.h"

enum { MOST_STEPS = 5 * WEFT__TOKEN_MOST_LAYERS + 16, MOST_LAUNCHES = 3 }; // launches: of a step

struct weft__cuda_token {
    struct weft__step steps[MOST_STEPS]; // args are copies
    int32_t num_steps;
    bool asked_for;
    struct weft__token_plan plan;
    int64_t most_keys;              // up to which it is faster; 0: always taken
    const struct weft_batch *batch; // which says how long the text is; or NULL
    struct weft__cuda_pipeline *pipeline;
    void *layers, *words; // on the device
};

struct weft__cuda_token *weft__cuda_token_begin(const weft_context *context)
{
    const char *wish = getenv("WEFT_PROGRAM");
    const bool asked_for = wish && strcmp(wish, "persistent") == 0;
    const bool refused = wish && strcmp(wish, "graph") == 0;
    if (refused || (!asked_for && weft__token_most_keys(weft__cuda_of(context)->name, 0, 0) == 0))
        return NULL;
    struct weft__cuda_token *token = weft__base_allocate(NULL, sizeof *token);
    if (token) {
        memset(token, 0, sizeof *token);
        token->asked_for = asked_for;
    }
    return token;
}

bool weft__cuda_token_record(struct weft__cuda_token *token, const struct weft__step *step)
{
    if (token->num_steps == MOST_STEPS)
        return false;
    struct weft__step *own = &token->steps[token->num_steps];
    *own = *step;
    if (step->args) {
        void *copy = weft__base_allocate(NULL, step->args_bytes);
        if (!copy)
            return false;
        own->args = memcpy(copy, step->args, step->args_bytes);
    }
    token->num_steps++;
    return true;
}

void weft__cuda_token_end(weft_context *context, struct weft__cuda_token *token)
{
    if (!token)
        return;
    for (int32_t i = 0; i < token->num_steps; i++)
        weft__base_release(NULL, (void *)token->steps[i].args);
    if (token->layers)
        weft__cuda_free(context, token->layers);
    if (token->words)
        weft__cuda_free(context, token->words);
    weft__base_release(NULL, token);
}

static void say(weft_context *context, const char *what)
{
    char line[600];
    snprintf(line, sizeof line, "program: layers stay launches of their own: %s", what);
    if (context->log)
        context->log(context->log_user, line);
}

// What a step launches, two launches at most, behind one that rounds X; products of a library are something else.
static bool see(const struct weft__step *step, struct weft__cuda_step launch[MOST_LAUNCHES],
                struct weft__token_seen *seen)
{
    struct weft__cuda_step *steps = weft__base_allocate(NULL, WEFT__CUDA_MAX_STEPS * sizeof *steps);
    if (!steps)
        return false;
    int32_t count = step->plan ? weft__cuda_steps_of(step->plan, step->args, steps) : 0;
    for (int32_t i = 0; i < count; i++)
        if (count > MOST_LAUNCHES || steps[i].product)
            count = 0;
    for (int32_t i = 0; i < count; i++)
        launch[i] = steps[i];
    if (count > 1 && strcmp(weft__cuda_kernel_of(step->plan, launch->kernel)->function,
                            "weft_linear_round") == 0) {
        seen->round = (const void *)launch->args;
        launch++, count--;
    }
    if (count == 1 || count == 2) {
        seen->kernel = weft__cuda_kernel_of(step->plan, launch->kernel);
        seen->args = launch->args;
        seen->matrices = launch->matrices;
        seen->grid_y = launch->grid[1];
    }
    if (count == 2) {
        seen->more_kernel = weft__cuda_kernel_of(step->plan, launch[1].kernel);
        seen->more_args = launch[1].args;
    }
    weft__base_release(NULL, steps);
    return true;
}

// Where it was not asked for: for texts of some length? If the program's never become longer nothing is left to choose.
static bool is_faster(weft_context *context, struct weft__cuda_token *token)
{
    const struct weft__token_plan *plan = &token->plan;
    const int64_t most =
        weft__token_most_keys(weft__cuda_of(context)->name, plan->format, plan->uneven);
    if (token->asked_for)
        return true;
    const struct weft__attention_args *run = token->steps[plan->first].args;
    const struct weft_batch *batch = run->base.batch;
    // page lists of a batch do not say how long they may become
    const int64_t room = batch ? batch->desc.max_kv_len : plan->most_keys;
    token->batch = batch;
    token->most_keys = room > most ? most : 0;
    if (most > 0 && room > 0 && (batch || room <= most))
        return true;
    say(context, "one launch is not measured to be faster here");
    return false;
}

bool weft__cuda_token_is_always(const struct weft__cuda_token *token)
{
    return token->most_keys == 0;
}

bool weft__cuda_token_is_faster(const struct weft__cuda_token *token)
{
    const struct weft_batch *batch = token->batch;
    if (token->most_keys == 0)
        return true;
    int64_t longest = batch->on_device ? batch->desc.max_kv_len : 0;
    for (int32_t i = 0; !batch->on_device && i < batch->num_seqs; i++)
        longest = batch->kv_capacities[i] > longest ? batch->kv_capacities[i] : longest;
    return longest <= token->most_keys;
}

static bool look(weft_context *context, struct weft__cuda_token *token)
{
    const size_t count = (size_t)token->num_steps;
    struct weft__cuda_step *launches =
        weft__base_allocate(NULL, MOST_LAUNCHES * count * sizeof *launches);
    struct weft__token_seen *seen = weft__base_allocate(NULL, count * sizeof *seen);
    bool fine = launches && seen;
    if (fine)
        memset(seen, 0, count * sizeof *seen);
    for (size_t i = 0; fine && i < count; i++)
        fine = see(&token->steps[i], &launches[MOST_LAUNCHES * i], &seen[i]);
    if (fine &&
        !weft__token_find(seen, token->num_steps, &weft__cuda_of(context)->limits, &token->plan)) {
        say(context, token->plan.why);
        fine = false;
    }
    fine = fine && is_faster(context, token);
    weft__base_release(NULL, launches);
    weft__base_release(NULL, seen);
    return fine;
}

static bool write_maps(weft_context *context, struct weft__token_plan *plan)
{
    const struct weft__cuda *cuda = weft__cuda_of(context);
    for (int32_t l = 0; l < plan->args.num_layers; l++) {
        struct weft__token_layer *layer = &plan->layers[l];
        if (weft__cuda_write_map(cuda, &plan->maps[l][0], layer->k_map) != CUDA_SUCCESS ||
            weft__cuda_write_map(cuda, &plan->maps[l][1], layer->v_map) != CUDA_SUCCESS)
            return false;
        for (int32_t i = 0; i < WEFT__TOKEN_MAPS; i++)
            if (plan->weights[l][i].base &&
                weft__cuda_write_map(cuda, &plan->weights[l][i], layer->maps[i]) != CUDA_SUCCESS)
                return false;
    }
    return true;
}

bool weft__cuda_token_find(weft_context *context, struct weft__cuda_token *token)
{
    struct weft__token_plan *plan = &token->plan;
    const size_t table = sizeof(struct weft__token_layer);
    if (token->num_steps == 0 || !look(context, token))
        return false;
    if (!write_maps(context, plan)) {
        say(context, "keys, values or weights have no tensor maps");
        return false;
    }
    const size_t bytes = (size_t)plan->args.num_layers * table;
    if (weft__cuda_pipeline_want(context, &plan->kernel, &token->pipeline) == WEFT_OK &&
        weft__cuda_pipeline_wait(context, token->pipeline) == WEFT_OK &&
        weft__cuda_allocate(context, WEFT_MEMORY_DEVICE, bytes, &token->layers) == WEFT_OK &&
        weft__cuda_allocate(context, WEFT_MEMORY_DEVICE, (size_t)plan->words_bytes,
                            &token->words) == WEFT_OK &&
        weft__cuda_copy(context, token->layers, plan->layers, bytes, NULL) == WEFT_OK &&
        weft__cuda_fill(context, token->words, 0, (size_t)plan->words_bytes, NULL) == WEFT_OK &&
        weft__cuda_stream_synchronize(context, NULL) == WEFT_OK)
        return true;
    say(context, context->error);
    return false;
}

weft_status weft__cuda_token_submit(weft_context *context, struct weft__cuda_token *token,
                                    weft__cuda_submit_step_fn *submit, weft_program *program,
                                    weft_stream *stream)
{
    const struct weft__token_plan *plan = &token->plan;
    struct weft__cuda_step step;
    weft__token_step(plan, token->layers, token->words, &step);
    for (int32_t i = 0; i < token->num_steps; i++) {
        const struct weft__step *own = &token->steps[i];
        weft_status status;
        if (i > plan->first && i < plan->first + plan->count)
            continue;
        if (i == plan->first)
            status = weft__cuda_launch(context, token->pipeline, &step, stream);
        else if (plan->begins && i == plan->first - 1) // what rounds X
            status = weft__cuda_submit_part(own->plan, own->args, 0, 1, stream);
        else if (plan->finds && i == plan->first + plan->count) // but for the largest logits
            status = weft__cuda_submit_part(own->plan, own->args, 1, WEFT__CUDA_MAX_STEPS, stream);
        else
            status = submit(program, own);
        if (status != WEFT_OK) {
            say(context, context->error);
            return status;
        }
    }
    return WEFT_OK;
}
