// SPDX-License-Identifier: MIT
// Decoding without the host. A link of a chain is one program: the pass of a token of every sequence, the
// choice of the next, which becomes the next link's input and is noted in the timeline, and lengths,
// positions and draws moved on by one. A chain is that program launched again and again; then the piece of
// each timeline that it wrote goes to pinned memory, which the host reads when it has waited for the
// chain's event.
#include <string.h>

#include "engine/worker/program_steps.h"

static bool failed(const model_program *program, engine_error *err)
{
    return engine_fail(err, "decoding failed: %s", weft_error_text(program->context));
}

// What chains in a slot choose for a sequence.
static int32_t *chosen_at(const model_program *program, int32_t slot, int32_t seq)
{
    int64_t row = (int64_t)slot * program->bounds.max_seqs + seq;
    return program->chosen + row * program->bounds.chain_tokens;
}

// All layers and the head for one token of each sequence.
static bool run_decode(model_program *program, int32_t seqs, engine_error *err)
{
    return program_run_list(program, &program->layers, seqs, err) &&
           program_run_head(program, program->buffers[MODEL_BUFFER_HIDDEN], seqs, err);
}

// A batch of that many sequences of one token, all in the first page: what is recorded depends on the
// number alone.
static bool set_model_batch(model_program *program, int32_t seqs, engine_error *err)
{
    const program_inputs *in = &program->inputs;
    for (int32_t i = 0; i < seqs; i++) {
        in->cu_q_lens[i] = i;
        in->kv_lens[i] = 1;
        in->page_table[(size_t)i * (size_t)program->bounds.max_seq_pages] = 0;
    }
    in->cu_q_lens[seqs] = seqs;
    return program_set_batch(program, seqs, NULL, err);
}

// Where the program of that many sequences is, as the batch that is set wants it.
static weft_program **recorded(const model_program *program, weft_program **list, int32_t seqs)
{
    return &list[seqs + (program->cascades.now ? program->bounds.max_seqs + 1 : 0)];
}

static void count_pass(model_program *program)
{
    program->counts.passes++;
    program->counts.attention_runs += program->config->layers;
    program->counts.shared_passes += program->cascades.now;
}

typedef bool run_fn(model_program *program, int32_t seqs, engine_error *err);

// The sampler draws as a chain does; model_program_sample() points it to rows and draws of its caller.
static void draw_for_links(model_program *program)
{
    weft_sample_args *args = &program->sample.steps[0].args.sample;
    args->logits = program->logits;
    args->params = args->next = program->draws;
    args->tokens = program->ids;
    args->logprobs = NULL;
}

// Chooses a token for every sequence, into `ids`, and moves everything on to the next.
static bool choose(model_program *program, int32_t seqs, engine_error *err)
{
    draw_for_links(program);
    program->counts.runs++;
    return (program_run_step(&program->sample.steps[0], seqs) == WEFT_OK &&
            weft_batch_advance(program->batch, NULL) == WEFT_OK &&
            (!program->cascades.now ||
             weft_batch_advance(program->cascades.own, NULL) == WEFT_OK)) ||
           failed(program, err);
}

static bool run_link(model_program *program, int32_t seqs, engine_error *err)
{
    return run_decode(program, seqs, err) && choose(program, seqs, err);
}

// Records what `run` does for that many sequences; the batch is set to such.
static bool record(model_program *program, int32_t seqs, run_fn *run, weft_program **out,
                   int64_t *runs, engine_error *err)
{
    if (*out || program->cannot_record)
        return true;
    weft_program *made;
    weft_status status = weft_program_begin(program->context, &made);
    if (status == WEFT_EUNSUPPORTED) {
        program->cannot_record = true;
        return true;
    }
    if (status != WEFT_OK)
        return failed(program, err);
    int64_t before = program->counts.runs;
    bool fine = run(program, seqs, err);
    *runs = program->counts.runs - before;
    program->counts.runs = before;
    if (weft_program_end(made) == WEFT_OK && fine) {
        *out = made;
        return true;
    }
    weft_program_destroy(made);
    return fine ? failed(program, err) : false;
}

static bool record_decoder(model_program *program, int32_t seqs, engine_error *err)
{
    return record(program, seqs, run_decode, recorded(program, program->decoders, seqs),
                  &program->decoder_runs, err);
}

static bool record_link(model_program *program, int32_t seqs, engine_error *err)
{
    return record(program, seqs, run_link, recorded(program, program->links, seqs),
                  &program->link_runs, err);
}

bool model_program_prepare(model_program *program, int32_t seqs, engine_error *err)
{
    if (program->config->full_mask || program->cannot_record ||
        (program->decoders[seqs] && program->links[seqs]))
        return true;
    // What is recorded is checked as it is now: draws of the likeliest token.
    if (weft_fill(program->context, program->ids, 0, (size_t)seqs * sizeof *program->ids, NULL) !=
            WEFT_OK ||
        weft_fill(program->context, program->draws, 0, (size_t)seqs * sizeof *program->draws,
                  NULL) != WEFT_OK)
        return failed(program, err);
    return set_model_batch(program, seqs, err) && record_decoder(program, seqs, err) &&
           record_link(program, seqs, err);
}

// The token of every sequence, in `ids`, becomes logits in the first rows of the program's.
static bool decode(model_program *program, int32_t seqs, engine_error *err)
{
    count_pass(program);
    weft_program *made = *recorded(program, program->decoders, seqs);
    if (!made)
        return run_decode(program, seqs, err);
    program->counts.runs += program->decoder_runs;
    return weft_program_launch(made, NULL) == WEFT_OK || failed(program, err);
}

bool model_program_decode(model_program *program, int32_t seqs, engine_error *err)
{
    program->tokens = seqs;
    return program_upload(program, program->ids, program->inputs.ids, seqs, err) &&
           program_set_batch(program, seqs, NULL, err) &&
           program_share_prefixes(program, seqs, NULL, err) && record_decoder(program, seqs, err) &&
           decode(program, seqs, err);
}

// That many links, one after the other.
static bool run_links(model_program *program, int32_t seqs, int32_t count, engine_error *err)
{
    weft_program *made = *recorded(program, program->links, seqs);
    for (int32_t i = 0; i < count; i++) {
        count_pass(program);
        if (!made && !run_link(program, seqs, err))
            return false;
    }
    if (!made)
        return true;
    program->counts.runs += count * program->link_runs;
    return weft_program_repeat(made, count, NULL) == WEFT_OK || failed(program, err);
}

bool program_run_link(model_program *program, int32_t seqs, engine_error *err)
{
    return run_links(program, seqs, 1, err);
}

bool program_begin_links(model_program *program, int32_t seqs, engine_error *err)
{
    size_t bytes = (size_t)seqs * sizeof *program->draws;
    draw_for_links(program); // for whoever runs a link's steps one by one
    return program_upload(program, program->ids, program->inputs.ids, seqs, err) &&
           (weft_fill(program->context, program->draws, 0, bytes, NULL) == WEFT_OK ||
            failed(program, err)) &&
           program_set_batch(program, seqs, program->inputs.kv_capacities, err) &&
           record_link(program, seqs, err);
}

// Where each timeline goes on, and how its draws count it.
static bool set_draws(model_program *program, const program_chain *chain, engine_error *err)
{
    for (int32_t i = 0; i < chain->seqs; i++) {
        weft_sample_params *params = &program->params[i];
        // The window ends with the token that is evaluated first.
        int64_t length = chain->lengths[i] + 1, window = chain->windows[i];
        *params = chain->params[i];
        params->history_len = window < length ? window : length;
        params->history = chain->history[i] + length - params->history_len;
        params->history_room = window;
    }
    return weft_copy(program->context, program->draws, program->params,
                     (size_t)chain->seqs * sizeof *program->draws, NULL) == WEFT_OK ||
           failed(program, err);
}

bool model_program_chain(model_program *program, const program_chain *chain, engine_error *err)
{
    if (!chain->go_on &&
        (!program_upload(program, program->ids, program->inputs.ids, chain->seqs, err) ||
         !set_draws(program, chain, err)))
        return false;
    const int32_t *capacities = program->inputs.kv_capacities;
    if (!program_set_batch(program, chain->seqs, capacities, err) ||
        !program_share_prefixes(program, chain->seqs, capacities, err) ||
        !record_link(program, chain->seqs, err))
        return false;
    if (!run_links(program, chain->seqs, chain->steps, err))
        return false;
    for (int32_t i = 0; i < chain->seqs; i++)
        if (weft_copy(program->context, chosen_at(program, chain->slot, i),
                      chain->history[i] + chain->lengths[i] + 1,
                      (size_t)chain->steps * sizeof *program->chosen, NULL) != WEFT_OK)
            return failed(program, err);
    return weft_event_record(program->events[chain->slot], NULL) == WEFT_OK || failed(program, err);
}

bool model_program_chain_tokens(model_program *program, const program_chain *chain, int32_t *tokens,
                                engine_error *err)
{
    program->counts.waits++;
    if (weft_event_synchronize(program->events[chain->slot]) != WEFT_OK)
        return failed(program, err);
    for (int32_t step = 0; step < chain->steps; step++)
        for (int32_t i = 0; i < chain->seqs; i++) {
            int32_t token = chosen_at(program, chain->slot, i)[step];
            if (token < 0)
                return program_not_finite(err);
            tokens[step * chain->seqs + i] = token;
        }
    return true;
}
