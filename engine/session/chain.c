// SPDX-License-Identifier: MIT
#include "engine/session/chain.h"

#include <string.h>

// Logits will be made in the first rows.
static bool clear_rows(const engine_worker *worker, const token_chain *chain, engine_error *err)
{
    for (int32_t i = 0; i < chain->count; i++)
        session_drop_logits(chain->draws[i].session);
    for (int32_t row = 0; row < chain->count; row++)
        if (worker->logits_owner[row] && !session_save_logits(worker->logits_owner[row], err))
            return false;
    return true;
}

// The token that a chain begins with is in the timeline on the device then. It is shown anew if the chain fails and
// another one takes its place.
static bool show_first(engine_session *session, int32_t token, engine_error *err)
{
    session->ids[session->length++] = token;
    bool shown = session_show_history(session, err);
    session->history_length = --session->length;
    return shown;
}

static bool fill_in(engine_worker *worker, const token_chain *chain, int32_t i, engine_error *err)
{
    const program_inputs *in = model_program_inputs(worker->program);
    const chain_room *room = &worker->chains;
    const engine_draw *draw = &chain->draws[i];
    engine_session *session = draw->session;
    int32_t start = session->length + chain->pending;
    if (!session_reserve(session, start + chain->steps, err) ||
        (chain->pending == 0 && !show_first(session, draw->token, err)))
        return false;
    room->params[i] = draw->sampling->params;
    room->params[i].step = (uint64_t)start + 1;
    room->histories[i] = session->history;
    room->lengths[i] = start;
    room->windows[i] = session_penalty_window(draw->sampling);
    in->ids[i] = draw->token;
    in->cu_q_lens[i + 1] = i + 1;
    in->kv_lens[i] = start + 1;
    in->kv_capacities[i] = start + chain->steps;
    memcpy(in->page_table + (size_t)i * (size_t)worker->settings.pages_per_session,
           session->page_table, (size_t)session->pages * sizeof *session->page_table);
    return true;
}

bool chain_begin(engine_worker *worker, const token_chain *chain, engine_error *err)
{
    const chain_room *room = &worker->chains;
    const program_chain asked = {.seqs = chain->count,
                                 .steps = chain->steps,
                                 .slot = chain->slot,
                                 .go_on = chain->pending > 0,
                                 .params = room->params,
                                 .history = room->histories,
                                 .lengths = room->lengths,
                                 .windows = room->windows};
    if (!clear_rows(worker, chain, err))
        return false;
    model_program_inputs(worker->program)->cu_q_lens[0] = 0;
    for (int32_t i = 0; i < chain->count; i++)
        if (!fill_in(worker, chain, i, err))
            return false;
    return model_program_chain(worker->program, &asked, err);
}

bool chain_take(engine_worker *worker, const token_chain *chain, int32_t *tokens, engine_error *err)
{
    const program_chain asked = {.seqs = chain->count, .steps = chain->steps, .slot = chain->slot};
    return model_program_chain_tokens(worker->program, &asked, tokens, err);
}

void chain_end(const token_chain *chain)
{
    for (int32_t i = 0; i < chain->count; i++)
        session_hold_logits(chain->draws[i].session, i);
}
