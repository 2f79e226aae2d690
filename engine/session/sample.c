// SPDX-License-Identifier: MIT
// The sampler reads logits where passes left them; rows that lie one after the other are one call.
#include "engine/session/session.h"

static weft_sample_params settle(const engine_draw *draw)
{
    const engine_session *session = draw->session;
    weft_sample_params params = draw->sampling->params;
    int32_t window = session_penalty_window(draw->sampling);
    if (window > session->length)
        window = session->length;
    params.history = window > 0 ? session->history + session->length - window : NULL;
    params.history_len = window;
    return params;
}

static bool sample_rows(engine_worker *worker, engine_draw *draws, int32_t count, engine_error *err)
{
    for (int32_t i = 0; i < count; i++) {
        worker->draw_params[i] = settle(&draws[i]);
        if (worker->draw_params[i].history && !session_show_history(draws[i].session, err))
            return false;
    }
    if (!model_program_sample(worker->program, draws[0].session->logits, count, worker->draw_params,
                              worker->drawn, err))
        return false;
    for (int32_t i = 0; i < count; i++)
        draws[i].token = worker->drawn[i];
    return true;
}

bool engine_sample_all(engine_worker *worker, engine_draw *draws, int32_t count, engine_error *err)
{
    size_t vocab = (size_t)worker->model->config.vocab;
    if (count < 0 || count > worker->settings.options.max_sessions)
        return engine_fail(err, "%d tokens at once, but the model was opened for %d sessions",
                           count, worker->settings.options.max_sessions);
    for (int32_t i = 0; i < count; i++) {
        if (draws[i].session->worker != worker)
            return engine_fail(err, "a session belongs to another worker");
        if (!draws[i].session->logits)
            return engine_fail(err, "there is nothing to sample from: evaluate a token first");
    }
    for (int32_t first = 0, rows; first < count; first += rows) {
        const float *logits = draws[first].session->logits;
        for (rows = 1; first + rows < count; rows++)
            if (draws[first + rows].session->logits != logits + (size_t)rows * vocab)
                break;
        if (!sample_rows(worker, draws + first, rows, err))
            return false;
    }
    return true;
}

bool engine_sample(engine_session *session, const engine_sampling *sampling, int32_t *token,
                   engine_error *err)
{
    engine_draw draw = {.session = session, .sampling = sampling};
    if (!engine_sample_all(session->worker, &draw, 1, err))
        return false;
    *token = draw.token;
    return true;
}
