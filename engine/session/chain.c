// SPDX-License-Identifier: MIT
#include "engine/session/chain.h"

#include <string.h>

// Logits will be made in the first row.
static bool clear_row(engine_session *session, engine_error *err)
{
    engine_session *owner = session->worker->logits_owner[0];
    session_drop_logits(session);
    return !owner || owner == session || session_save_logits(owner, err);
}

static void fill_inputs(const engine_session *session, const token_chain *chain, int32_t token)
{
    const program_inputs *in = model_program_inputs(session->worker->program);
    if (token >= 0)
        in->ids[0] = token;
    in->cu_q_lens[0] = 0;
    in->cu_q_lens[1] = 1;
    in->kv_lens[0] = chain->start + 1;
    in->kv_capacities[0] = chain->start + chain->steps;
    memcpy(in->page_table, session->page_table,
           (size_t)session->pages * sizeof *session->page_table);
}

bool chain_begin(engine_session *session, const engine_sampling *sampling, const token_chain *chain,
                 int32_t token, engine_error *err)
{
    weft_sample_params params = sampling->params;
    int32_t window = session_penalty_window(sampling);
    params.step = (uint64_t)chain->start + 1;
    const program_chain asked = {
        .seqs = 1,
        .steps = chain->steps,
        .slot = chain->slot,
        .go_on = token<0, .params = &params, .history = window> 0 ? &session->history : NULL,
        .lengths = &chain->start,
        .windows = &window};
    if (!session_reserve(session, chain->start + chain->steps, err) || !clear_row(session, err) ||
        (window > 0 && !session_show_history(session, err)))
        return false;
    fill_inputs(session, chain, token);
    return model_program_chain(session->worker->program, &asked, err);
}

bool chain_take(engine_session *session, const token_chain *chain, int32_t *tokens,
                engine_error *err)
{
    const program_chain asked = {.seqs = 1, .steps = chain->steps, .slot = chain->slot};
    return model_program_chain_tokens(session->worker->program, &asked, tokens, err);
}

void chain_end(engine_session *session)
{
    session_hold_logits(session, 0);
}
