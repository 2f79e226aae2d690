// SPDX-License-Identifier: MIT
#include "engine/session/session.h"

bool session_constrain(engine_session *session, constraint_cursor *cursor, engine_error *err)
{
    const engine_worker *worker = session->worker;
    int32_t vocab = worker->model->config.vocab;
    if (!engine_session_logits(session))
        return engine_fail(err, "logits cannot be read");
    float *logits = session->shown ? session->shown : session->logits; // where the host sees them
    if (!constraint_apply(cursor, logits, vocab, err))
        return false;
    if (logits == session->logits)
        return true;
    return weft_copy(worker->context, session->logits, logits, (size_t)vocab * sizeof *logits,
                     NULL) == WEFT_OK ||
           engine_fail(err, "logits cannot be copied: %s", weft_error_text(worker->context));
}
