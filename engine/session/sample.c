// SPDX-License-Identifier: MIT
// The sampler reads logits where passes left them; rows that lie one after the other are one call.
#include <math.h>

#include "engine/session/session.h"

static weft_sample_params settle(const engine_draw *draw)
{
    const engine_session *session = draw->session;
    weft_sample_params params = draw->sampling->params;
    int32_t window = draw->sampling->penalty_window > 0 ? draw->sampling->penalty_window : 64;
    if (window > session->length)
        window = session->length;
    params.history = session->ids + session->length - window;
    params.history_len = window;
    return params;
}

static bool sample_rows(engine_worker *worker, engine_draw *draws, int32_t count, engine_error *err)
{
    for (int32_t i = 0; i < count; i++)
        worker->sampler_params[i] = settle(&draws[i]);
    weft_sample_args args = {.size = sizeof args,
                             .rows = count,
                             .logits = draws[0].session->logits,
                             .params = worker->sampler_params,
                             .tokens = worker->sampled,
                             .workspace = worker->sampler_workspace,
                             .workspace_bytes = weft_plan_workspace_bytes(worker->sampler)};
    if (weft_sample_run(worker->sampler, &args) != WEFT_OK)
        return engine_fail(err, "sampling failed: %s", weft_error_text(worker->context));
    for (int32_t i = 0; i < count; i++) {
        draws[i].token = worker->sampled[i];
        // The sampler takes NaN for impossible and chooses such a token only if there is no other.
        if (!isfinite(draws[i].session->logits[draws[i].token]))
            return engine_fail(err, "the logits of this model are not finite numbers: its file is "
                                    "damaged or was converted badly, get another");
    }
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
