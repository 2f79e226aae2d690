// SPDX-License-Identifier: MIT
// Tokens of several sessions at once, in chains: the device works on one while the host reads another.
#include "engine/session/chain.h"

static bool check(const engine_worker *worker, const engine_draw *draws, int32_t count,
                  int32_t steps, engine_error *err)
{
    const engine_options *options = &worker->settings.options;
    int32_t vocab = worker->model->config.vocab;
    if (!session_admits(worker, count, 1, err))
        return false;
    for (int32_t i = 0; i < count; i++) {
        const engine_session *session = draws[i].session;
        if (!session_is_of(session, worker, err))
            return false;
        for (int32_t n = 0; n < i; n++)
            if (draws[n].session == session)
                return engine_fail(err, "a session occurs twice in one decoding");
        if (steps < 1 || steps > options->context_tokens - session->length)
            return engine_fail(err,
                               "%d tokens behind %d do not fit into the context of %d: ask for "
                               "fewer or choose a larger context (--ctx)",
                               steps, session->length, options->context_tokens);
        if (draws[i].token < 0 || draws[i].token >= vocab)
            return engine_fail(err, "token %d is outside the vocabulary: ids go from 0 to %d",
                               draws[i].token, vocab - 1);
    }
    return true;
}

// What a chain evaluated becomes part of the timelines, what it chose last the next chain's beginning.
static void append(const token_chain *chain, engine_draw *draws, const int32_t *tokens)
{
    for (int32_t i = 0; i < chain->count; i++)
        for (int32_t step = 0; step < chain->steps; step++) {
            draws[i].session->ids[draws[i].session->length++] = draws[i].token;
            draws[i].token = tokens[step * chain->count + i];
        }
}

static bool decode(engine_worker *worker, engine_draw *draws, int32_t count, int32_t steps,
                   int32_t *tokens, engine_error *err)
{
    int32_t most = worker->settings.options.chain_tokens, begun, done = 0;
    token_chain now = {draws, count, 0, steps < most ? steps : most, 0}, next;
    if (!chain_begin(worker, &now, err))
        return false;
    for (begun = now.steps; done < steps; now = next) {
        int32_t left = steps - begun;
        next = (token_chain){draws, count, now.steps, left < most ? left : most, 1 - now.slot};
        if (left > 0 && !chain_begin(worker, &next, err))
            return false;
        if (!chain_take(worker, &now, tokens + (size_t)done * (size_t)count, err))
            return false;
        append(&now, draws, tokens + (size_t)done * (size_t)count);
        done += now.steps;
        begun += next.steps;
    }
    chain_end(&now);
    return true;
}

bool engine_decode(engine_worker *worker, engine_draw *draws, int32_t count, int32_t steps,
                   int32_t *tokens, engine_error *err)
{
    if (!session_generates(worker, err) || !check(worker, draws, count, steps, err))
        return false;
    if (decode(worker, draws, count, steps, tokens, err))
        return true;
    for (int32_t i = 0; i < count; i++) {
        session_drop_logits(draws[i].session);
        session_trim(draws[i].session);
    }
    return false;
}
