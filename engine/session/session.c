// SPDX-License-Identifier: MIT
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/session/session_state.h"

engine_session *engine_session_open(engine_model *model, engine_error *err)
{
    if (model->open_sessions == model->options.max_sessions) {
        engine_fail(err, "the model was opened for %d sessions and all are open: close one",
                    model->options.max_sessions);
        return NULL;
    }
    engine_session *session = engine_alloc(1, sizeof *session);
    if (session) {
        session->model = model;
        session->ids = engine_alloc((size_t)model->options.context_tokens, sizeof *session->ids);
        session->page_table =
            engine_alloc((size_t)model->pages_per_session, sizeof *session->page_table);
        session->logits = engine_alloc((size_t)model->config.vocab, sizeof *session->logits);
        model->open_sessions++;
        if (session->ids && session->page_table && session->logits)
            return session;
    }
    engine_session_close(session);
    engine_fail(err, "not enough memory for a session");
    return NULL;
}

void engine_session_close(engine_session *session)
{
    if (!session)
        return;
    if (session->page_table)
        engine_session_truncate(session, 0);
    session->model->open_sessions--;
    free(session->ids);
    free(session->page_table);
    free(session->logits);
    free(session);
}

int32_t engine_session_length(const engine_session *session)
{
    return session->length;
}

const int32_t *engine_session_tokens(const engine_session *session)
{
    return session->ids;
}

void engine_session_truncate(engine_session *session, int32_t length)
{
    if (length < 0)
        length = 0;
    int32_t needed = (length + ENGINE_PAGE_TOKENS - 1) / ENGINE_PAGE_TOKENS;
    while (session->pages > needed)
        page_pool_give(session->model->pool, session->page_table[--session->pages]);
    if (length < session->length) {
        session->length = length;
        session->has_logits = false;
    }
}

bool session_reserve(engine_session *session, int32_t length)
{
    int32_t needed = (length + ENGINE_PAGE_TOKENS - 1) / ENGINE_PAGE_TOKENS;
    if (needed - session->pages > page_pool_free_pages(session->model->pool))
        return false;
    while (session->pages < needed)
        session->page_table[session->pages++] = page_pool_take(session->model->pool);
    return true;
}

const float *engine_session_logits(const engine_session *session)
{
    return session->has_logits ? session->logits : NULL;
}

int32_t engine_session_common(const engine_session *session, const int32_t *ids, int32_t count)
{
    int32_t common = 0;
    while (common < session->length && common < count && session->ids[common] == ids[common])
        common++;
    bool logits_there = common == session->length && session->has_logits;
    return common == count && common > 0 && !logits_there ? common - 1 : common;
}

bool engine_session_sync(engine_session *session, const int32_t *ids, int32_t count,
                         engine_progress_fn *progress, void *user, engine_error *err)
{
    if (count < 1)
        return engine_fail(err, "the prompt is empty: give at least one token");
    if (count > session->model->options.context_tokens)
        return engine_fail(err,
                           "the prompt has %d tokens, the context holds %d: shorten it or choose a "
                           "larger context (--ctx)",
                           count, session->model->options.context_tokens);
    int32_t common = engine_session_common(session, ids, count);
    if (common == count)
        return true;
    engine_session_truncate(session, common);
    engine_feed feed = {.session = session, .ids = ids + common, .count = count - common};
    return engine_eval(session->model, &feed, 1, progress, user, err);
}

bool engine_sample(engine_session *session, const engine_sampling *sampling, int32_t *token,
                   engine_error *err)
{
    engine_model *model = session->model;
    if (!session->has_logits)
        return engine_fail(err, "there is nothing to sample from: evaluate a token first");
    weft_sample_params params = sampling->params;
    int32_t window = sampling->penalty_window > 0 ? sampling->penalty_window : 64;
    if (window > session->length)
        window = session->length;
    params.history = session->ids + session->length - window;
    params.history_len = window;
    weft_sample_args args = {.size = sizeof args,
                             .rows = 1,
                             .logits = session->logits,
                             .params = &params,
                             .tokens = token,
                             .workspace = model->sampler_workspace,
                             .workspace_bytes = weft_plan_workspace_bytes(model->sampler)};
    if (weft_sample_run(model->sampler, &args) != WEFT_OK)
        return engine_fail(err, "sampling failed: %s", weft_error_text(model->context));
    // The sampler takes NaN for impossible and chooses such a token only if there is no other.
    if (isfinite(session->logits[*token]))
        return true;
    return engine_fail(err,
                       "the logits of this model are not finite numbers: its file is damaged or "
                       "was converted badly, get another");
}
