// SPDX-License-Identifier: MIT
// Decoding without the host: a token that was chosen on the device is the next pass's input there. What
// was chosen also goes to pinned memory, which the host reads when it has waited for the chain's event.
#include <math.h>

#include "engine/worker/program_steps.h"

static bool failed(const model_program *program, engine_error *err)
{
    return engine_fail(err, "decoding failed: %s", weft_error_text(program->context));
}

static int32_t *chosen_at(const model_program *program, int32_t slot, int32_t step)
{
    int64_t row = (int64_t)slot * program->bounds.chain_tokens + step;
    return program->chosen + row * program->bounds.max_seqs;
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

bool program_record(model_program *program, int32_t seqs, engine_error *err)
{
    if (program->decoders[seqs] || program->cannot_record)
        return true;
    weft_program *made;
    weft_status status = weft_program_begin(program->context, &made);
    if (status == WEFT_EUNSUPPORTED) {
        program->cannot_record = true;
        return true;
    }
    if (status != WEFT_OK)
        return failed(program, err);
    int64_t runs = program->counts.runs;
    bool fine = run_decode(program, seqs, err);
    program->decoder_runs = program->counts.runs - runs;
    program->counts.runs = runs;
    if (weft_program_end(made) == WEFT_OK && fine) {
        program->decoders[seqs] = made;
        return true;
    }
    weft_program_destroy(made);
    return fine ? failed(program, err) : false;
}

bool model_program_prepare(model_program *program, int32_t seqs, engine_error *err)
{
    if (program->decoders[seqs] || program->cannot_record)
        return true;
    if (weft_fill(program->context, program->ids, 0, (size_t)seqs * sizeof *program->ids, NULL) !=
        WEFT_OK)
        return failed(program, err);
    return set_model_batch(program, seqs, err) && program_record(program, seqs, err);
}

// The token of every sequence, in `ids`, becomes logits in the first rows of the program's.
static bool decode(model_program *program, int32_t seqs, engine_error *err)
{
    program->counts.passes++;
    program->counts.attention_runs += program->config->layers;
    if (!program->decoders[seqs])
        return run_decode(program, seqs, err);
    program->counts.runs += program->decoder_runs;
    return weft_program_launch(program->decoders[seqs], NULL) == WEFT_OK || failed(program, err);
}

bool model_program_decode(model_program *program, int32_t seqs, engine_error *err)
{
    program->tokens = seqs;
    return program_upload(program, program->ids, program->inputs.ids, seqs, err) &&
           program_set_batch(program, seqs, NULL, err) && program_record(program, seqs, err) &&
           decode(program, seqs, err);
}

// Chooses a token for every sequence, into `ids`.
static bool choose(model_program *program, const program_chain *chain, int32_t step,
                   engine_error *err)
{
    program_step *sample = &program->sample.steps[0];
    int32_t *to = chosen_at(program, chain->slot, step);
    float *logprobs = program->logprobs + (to - program->chosen);
    size_t bytes = (size_t)chain->seqs * sizeof *to;
    for (int32_t i = 0; i < chain->seqs; i++) {
        program->params[i] = chain->params[i];
        program->params[i].step += (uint64_t)step;
        if (!chain->history)
            continue;
        // The window ends with the token that was evaluated last; it grows until it is full.
        int64_t length = chain->lengths[i] + step + 1;
        int64_t window = chain->windows[i] < length ? chain->windows[i] : length;
        program->params[i].history = chain->history[i] + length - window;
        program->params[i].history_len = window;
    }
    sample->args.sample.logits = program->logits;
    sample->args.sample.params = program->params;
    sample->args.sample.tokens = program->ids;
    sample->args.sample.logprobs = chain->steps > 1 ? program->sampled_logprobs : NULL;
    program->counts.runs++;
    if (program_run_step(sample, chain->seqs) != WEFT_OK ||
        weft_copy(program->context, to, program->ids, bytes, NULL) != WEFT_OK ||
        (chain->steps > 1 &&
         weft_copy(program->context, logprobs, program->sampled_logprobs, bytes, NULL) != WEFT_OK))
        return failed(program, err);
    return true;
}

// Notes the token that is about to be evaluated in each history, where the next draw counts it.
static bool note(model_program *program, const program_chain *chain, int32_t step,
                 engine_error *err)
{
    for (int32_t i = 0; chain->history && i < chain->seqs; i++)
        if (weft_copy(program->context, chain->history[i] + chain->lengths[i] + step,
                      program->ids + i, sizeof *program->ids, NULL) != WEFT_OK)
            return failed(program, err);
    return true;
}

bool model_program_chain(model_program *program, const program_chain *chain, engine_error *err)
{
    if (!chain->go_on &&
        !program_upload(program, program->ids, program->inputs.ids, chain->seqs, err))
        return false;
    if (!program_set_batch(program, chain->seqs, program->inputs.kv_capacities, err) ||
        !program_record(program, chain->seqs, err))
        return false;
    for (int32_t step = 0; step < chain->steps; step++) {
        if (step > 0 && weft_batch_advance(program->batch, NULL) != WEFT_OK)
            return failed(program, err);
        if (!note(program, chain, step, err) || !decode(program, chain->seqs, err) ||
            !choose(program, chain, step, err))
            return false;
    }
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
            const int32_t *at = chosen_at(program, chain->slot, step) + i;
            tokens[step * chain->seqs + i] = *at;
            // A single step asks for no probabilities, which would cost more than a look at the logit.
            float logit = chain->steps > 1 ? program->logprobs[at - program->chosen] : 0;
            if (chain->steps == 1 &&
                program_read_back(program, &logit,
                                  program->logits + (size_t)i * (size_t)program->config->vocab +
                                      *at,
                                  sizeof logit) != WEFT_OK)
                return failed(program, err);
            if (!isfinite(logit))
                return program_not_finite(err);
        }
    return true;
}
