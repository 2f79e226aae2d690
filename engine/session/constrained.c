// SPDX-License-Identifier: MIT
#include "engine/session/session.h"

// Of how many of the likeliest tokens it draws; 0: of all, or it is not the logits alone that say which those are.
static int32_t draws_from(const engine_sampling *sampling)
{
    if (!sampling || session_penalty_window(sampling) > 0 ||
        (sampling->shaping && engine_shaping_asks(sampling->shaping)))
        return 0;
    return sampling->params.temperature > 0 ? sampling->params.top_k : 1;
}

bool session_constrain(engine_session *session, constraint_cursor *cursor,
                       const engine_sampling *sampling, engine_error *err)
{
    const engine_worker *worker = session->worker;
    int32_t vocab = worker->model->config.vocab;
    if (!engine_session_logits(session))
        return engine_fail(err, "logits cannot be read");
    float *logits = session->shown ? session->shown : session->logits; // where the host sees them
    if (!constraint_apply_likeliest(cursor, logits, vocab, draws_from(sampling), err))
        return false;
    if (logits == session->logits)
        return true;
    return weft_copy(worker->context, session->logits, logits, (size_t)vocab * sizeof *logits,
                     NULL) == WEFT_OK ||
           engine_fail(err, "logits cannot be copied: %s", weft_error_text(worker->context));
}
