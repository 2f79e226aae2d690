// SPDX-License-Identifier: MIT
#include "engine/session/draft.h"

#include <math.h>

#include "engine/base/clock.h"

static const double unlikely = 0.05; // not worth naming

void draft_begin(drafter *d, engine_worker *worker, const engine_sampling *sampling)
{
    *d = (drafter){.worker = worker, .sampling = *sampling};
    d->sampling.shaping = NULL;
    d->sampling.mirostat_mu = NULL;
}

void draft_end(drafter *d)
{
    engine_session_close(d->session);
    *d = (drafter){0};
}

static bool failed(drafter *d)
{
    d->worker = NULL;
    return false;
}

int32_t draft_follow(drafter *d, const int32_t *ids, int32_t count, int32_t most)
{
    int32_t room = d->worker->settings.options.context_tokens - count;
    if (room < 1 || most < 1)
        return 0;
    if (!d->session)
        d->session = engine_session_open(d->worker, NULL);
    if (!d->session)
        return failed(d);
    int32_t common = engine_session_common(d->session, ids, count);
    common = common < count - 1 ? common : count - 1;
    engine_session_truncate(d->session, common);
    engine_feed feed = {.session = d->session, .ids = ids + common, .count = count - 1 - common};
    if (feed.count > 0 && !engine_eval(d->worker, &feed, 1, NULL, NULL, NULL))
        return failed(d);
    return most < room ? most : room;
}

static void learn_seconds(drafter *d, double started, int32_t tokens)
{
    double one = (engine_seconds() - started) / tokens;
    d->seconds = d->seconds > 0 ? 0.9 * d->seconds + 0.1 * one : one;
}

// The likeliest tokens, and the sum of all weights beside a largest of 1.
static double find_likeliest(const float *logits, int32_t vocab, float heat, int32_t *best)
{
    double sum = 0;
    for (int n = 0; n < DRAFT_WAYS; n++)
        best[n] = -1;
    for (int32_t id = 0; id < vocab; id++) {
        int n = DRAFT_WAYS;
        while (n > 0 && !isnan(logits[id]) && (best[n - 1] < 0 || logits[id] > logits[best[n - 1]]))
            n--;
        for (int m = DRAFT_WAYS - 1; m > n; m--)
            best[m] = best[m - 1];
        if (n < DRAFT_WAYS)
            best[n] = id;
    }
    for (int32_t id = 0; id < vocab && best[0] >= 0; id++) {
        float below = (logits[id] - logits[best[0]]) / heat;
        sum += below > -20 ? expf(below) : 0;
    }
    return sum;
}

static void name_likely(const drafter *d, const float *logits, int32_t drawn, draft_step *step)
{
    int32_t best[DRAFT_WAYS], vocab = d->worker->model->config.vocab;
    float heat = d->sampling.params.temperature > 0 ? d->sampling.params.temperature : 1;
    double all = find_likeliest(logits, vocab, heat, best), left = 1;
    step->count = 0;
    for (int n = -1; n < DRAFT_WAYS && step->count < DRAFT_WAYS && all > 0; n++) {
        int32_t token = n < 0 ? drawn : best[n];
        if (token < 0 || (n >= 0 && token == drawn))
            continue;
        double likely = expf((logits[token] - logits[best[0]]) / heat) / all;
        if (n >= 0 && likely < unlikely)
            return;
        step->tokens[step->count] = token;
        step->likely[step->count++] = left > likely ? likely / left : 1;
        left -= likely;
    }
}

bool draft_ask(drafter *d, int32_t token, draft_step *step)
{
    double started = engine_seconds();
    engine_feed feed = {.session = d->session, .ids = &token, .count = 1};
    engine_draw draw = {.session = d->session, .sampling = &d->sampling};
    if (!engine_pass(d->worker, &feed, 1, NULL, NULL))
        return failed(d);
    d->sampling.params.step = (uint64_t)d->session->length;
    const float *logits = engine_session_logits(d->session);
    if (!logits || !engine_sample_all(d->worker, &draw, 1, NULL))
        return failed(d);
    name_likely(d, logits, draw.token, step);
    learn_seconds(d, started, 1);
    return step->count > 0 || failed(d);
}

bool draft_chain(drafter *d, int32_t token, int32_t count, int32_t *tokens)
{
    double started = engine_seconds();
    engine_draw draw = {d->session, &d->sampling, token};
    if (!engine_decode(d->worker, &draw, 1, count, tokens, NULL))
        return failed(d);
    learn_seconds(d, started, count);
    return true;
}
