// SPDX-License-Identifier: MIT
#include <string.h>

#include "engine/session/session.h"

engine_profile *engine_profile_take(engine_session *session, int32_t rounds, engine_error *err)
{
    engine_worker *worker = session->worker;
    const program_inputs *in = model_program_inputs(worker->program);
    int32_t next = session->length + 1;
    if (!session_generates(worker, err))
        return NULL;
    if (rounds < 1 || next > worker->settings.options.context_tokens) {
        engine_fail(err, rounds < 1 ? "a profile needs at least one round"
                                    : "the context is full: a profile decodes one token more");
        return NULL;
    }
    session_drop_logits(session);
    if ((worker->logits_owner[0] && !session_save_logits(worker->logits_owner[0], err)) ||
        !model_program_wait(worker->program, err) || !session_reserve(session, next, err))
        return NULL;
    in->ids[0] = 0;
    in->cu_q_lens[0] = 0;
    in->cu_q_lens[1] = 1;
    in->kv_lens[0] = in->kv_capacities[0] = next;
    memcpy(in->page_table, session->page_table,
           (size_t)session->pages * sizeof *session->page_table);
    engine_profile *profile = model_program_profile(worker->program, rounds, err);
    session_trim(session);
    return profile;
}
