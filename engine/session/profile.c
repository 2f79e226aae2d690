// SPDX-License-Identifier: MIT
#include <string.h>

#include "engine/session/session.h"

static bool check(engine_session *const *sessions, int32_t count, int32_t rounds, engine_error *err)
{
    if (count < 1 || rounds < 1)
        return engine_fail(err, "a profile needs at least one session and one round");
    const engine_worker *worker = sessions[0]->worker;
    if (!session_generates(worker, err) || !session_admits(worker, count, 1, err))
        return false;
    for (int32_t i = 0; i < count; i++) {
        if (!session_is_of(sessions[i], worker, err))
            return false;
        for (int32_t n = 0; n < i; n++)
            if (sessions[n] == sessions[i])
                return engine_fail(err, "a session occurs twice in one profile");
        if (sessions[i]->length + 1 > worker->settings.options.context_tokens)
            return engine_fail(err, "the context is full: a profile decodes one token more");
    }
    return true;
}

static bool fill_in(engine_session *session, int32_t i, engine_error *err)
{
    engine_worker *worker = session->worker;
    const program_inputs *in = model_program_inputs(worker->program);
    const int32_t next = session->length + 1;
    if (!session_reserve(session, next, err))
        return false;
    in->ids[i] = 0;
    in->cu_q_lens[i + 1] = i + 1;
    in->kv_lens[i] = in->kv_capacities[i] = next;
    memcpy(in->page_table + (size_t)i * (size_t)worker->settings.pages_per_session,
           session->page_table, (size_t)session->pages * sizeof *session->page_table);
    return true;
}

engine_profile *engine_profile_take(engine_session *const *sessions, int32_t count, int32_t rounds,
                                    engine_error *err)
{
    if (!check(sessions, count, rounds, err))
        return NULL;
    engine_worker *worker = sessions[0]->worker;
    bool fine = true;
    for (int32_t i = 0; i < count; i++)
        session_drop_logits(sessions[i]);
    for (int32_t i = 0; fine && i < count; i++)
        fine = !worker->logits_owner[i] || session_save_logits(worker->logits_owner[i], err);
    fine = fine && model_program_wait(worker->program, err);
    model_program_inputs(worker->program)->cu_q_lens[0] = 0;
    for (int32_t i = 0; fine && i < count; i++)
        fine = fill_in(sessions[i], i, err);
    engine_profile *profile =
        fine ? model_program_profile(worker->program, count, rounds, err) : NULL;
    for (int32_t i = 0; i < count; i++)
        session_trim(sessions[i]);
    return profile;
}
