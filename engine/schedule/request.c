// SPDX-License-Identifier: MIT
#include "engine/schedule/request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

// --- making -------------------------------------------------------------------------------------------

static bool check(const engine_worker *worker, const engine_request_wish *wish, engine_error *err)
{
    int32_t context = worker->settings.options.context_tokens, vocab = worker->model->config.vocab;
    int64_t pool = (int64_t)worker->settings.pool_pages * ENGINE_PAGE_TOKENS;
    if (wish->prompt_tokens < 1)
        return engine_fail(err, "the prompt is empty: give at least one token");
    if (wish->prompt_tokens > context || wish->prompt_tokens > pool)
        return engine_fail(err,
                           "the prompt has %d tokens, the %s holds %d: shorten it or choose a "
                           "larger %s",
                           wish->prompt_tokens, pool < context ? "KV pool" : "context",
                           pool < context ? (int32_t)pool : context,
                           pool < context ? "one (--pool)" : "context (--ctx)");
    if (wish->max_tokens < 0 || wish->top_logprobs < 0 || wish->top_logprobs > ENGINE_MAX_LOGPROBS)
        return engine_fail(err, "the number of tokens or of logprobs is out of range");
    for (int32_t i = 0; i < wish->prompt_tokens; i++)
        if (wish->prompt[i] < 0 || wish->prompt[i] >= vocab)
            return engine_fail(err, "token %d is outside the vocabulary: ids go from 0 to %d",
                               wish->prompt[i], vocab - 1);
    for (int32_t i = 0; i < wish->bias_count; i++)
        if (wish->biases[i].id < 0 || wish->biases[i].id >= vocab ||
            !isfinite(wish->biases[i].value))
            return engine_fail(err, "a bias of token %d is none: ids go from 0 to %d",
                               wish->biases[i].id, vocab - 1);
    return true;
}

static bool copy_stops(engine_request *request, const char *const *stops)
{
    size_t count = 0;
    while (stops && stops[count])
        count++;
    request->stops = engine_alloc(count + 1, sizeof *request->stops);
    for (size_t i = 0; request->stops && i < count; i++) {
        request->stops[i] = engine_copy_text(stops[i], strlen(stops[i]));
        if (!request->stops[i])
            return false;
    }
    return request->stops != NULL;
}

static bool copy_shaping(engine_request *request, const engine_shaping *shaping)
{
    request->wish.sampling.mirostat_mu = &request->mirostat_mu;
    if (!shaping)
        return true;
    request->shaping = *shaping;
    request->breakers = engine_alloc((size_t)shaping->dry_breaker_count, sizeof *request->breakers);
    if (!request->breakers)
        return false;
    if (shaping->dry_breaker_count > 0)
        memcpy(request->breakers, shaping->dry_breakers,
               (size_t)shaping->dry_breaker_count * sizeof *request->breakers);
    request->shaping.dry_breakers = request->breakers;
    request->wish.sampling.shaping = &request->shaping;
    return true;
}

static bool copy_wish(engine_request *request, const engine_worker *worker,
                      const engine_request_wish *wish)
{
    int32_t context = worker->settings.options.context_tokens;
    int64_t most = (int64_t)wish->prompt_tokens + wish->max_tokens;
    request->room = wish->max_tokens == 0 || most > context ? context : (int32_t)most;
    request->wish = *wish;
    request->tokens = engine_alloc((size_t)request->room + 1, sizeof *request->tokens);
    request->biases = engine_alloc((size_t)wish->bias_count, sizeof *request->biases);
    if (!request->tokens || !request->biases || !copy_stops(request, wish->stops) ||
        !copy_shaping(request, wish->sampling.shaping))
        return false;
    request->count = wish->prompt_tokens;
    memcpy(request->tokens, wish->prompt, (size_t)request->count * sizeof *request->tokens);
    if (wish->bias_count > 0)
        memcpy(request->biases, wish->biases, (size_t)wish->bias_count * sizeof *request->biases);
    request->wish.prompt = request->tokens;
    request->wish.biases = request->biases;
    request->wish.stops = (const char *const *)request->stops;
    if (wish->constraint && !(request->cursor = constraint_begin(wish->constraint, NULL)))
        return false;
    return answer_begin(&request->answer, worker->model->tokenizer, request->wish.stops, NULL);
}

engine_request *request_make(const engine_worker *worker, const engine_request_wish *wish,
                             engine_error *err)
{
    if (!check(worker, wish, err))
        return NULL;
    engine_request *request = engine_alloc(1, sizeof *request);
    if (request && copy_wish(request, worker, wish)) {
        request->result.prompt_tokens = wish->prompt_tokens;
        return request;
    }
    request_free(request);
    engine_fail(err, "not enough memory for a request");
    return NULL;
}

void request_free(engine_request *request)
{
    if (!request)
        return;
    for (size_t i = 0; request->stops && request->stops[i]; i++)
        free(request->stops[i]);
    engine_session_close(request->session);
    constraint_end(request->cursor);
    answer_free(&request->answer);
    speculator_end(&request->speculator);
    free(request->stops);
    free(request->biases);
    free(request->breakers);
    free(request->tokens);
    free(request);
}

// --- its end ------------------------------------------------------------------------------------------

void request_end(engine_request *request, engine_finish finish)
{
    if (request->ended)
        return;
    request->ended = true;
    request->result.finish = finish;
}

void request_fail(engine_request *request, const engine_error *err)
{
    if (request->ended)
        return;
    request->err = *err;
    request->result.error = request->err.text;
    request_end(request, ENGINE_FINISH_ERROR);
}

static void report(engine_request *request, engine_token *token)
{
    tokenizer_bytes text = answer_text(&request->answer);
    token->text = text.data;
    token->text_bytes = text.size_bytes;
    if (request->wish.token && !request->wish.token(request->wish.user, token))
        request_end(request, ENGINE_FINISH_CANCEL);
    answer_written(&request->answer);
}

void request_report_end(engine_request *request)
{
    engine_finish finish = request->result.finish;
    if (finish != ENGINE_FINISH_CANCEL && finish != ENGINE_FINISH_ERROR &&
        finish != ENGINE_FINISH_STOP && answer_finish(&request->answer, NULL)) {
        if (request->answer.filter.stopped)
            request->result.finish = ENGINE_FINISH_STOP;
        if (answer_text(&request->answer).size_bytes > 0)
            report(request, &(engine_token){.id = TOKENIZER_NONE});
    }
    if (request->wish.end)
        request->wish.end(request->wish.user, &request->result);
}

// --- tokens -------------------------------------------------------------------------------------------

bool request_bias(engine_request *request, engine_error *err)
{
    if (request->wish.bias_count == 0)
        return true;
    engine_session *session = request->session;
    const engine_worker *worker = session->worker;
    const float *logits = engine_session_logits(session);
    size_t bytes = (size_t)worker->model->config.vocab * sizeof *logits;
    float *copy = session->shown ? session->shown : session->logits;
    if (!logits)
        return engine_fail(err, "logits cannot be read");
    for (int32_t i = 0; i < request->wish.bias_count; i++)
        copy[request->biases[i].id] += request->biases[i].value;
    if (copy == session->logits)
        return true;
    return weft_copy(worker->context, session->logits, copy, bytes, NULL) == WEFT_OK ||
           engine_fail(err, "logits cannot be copied: %s", weft_error_text(worker->context));
}

bool request_constrain(engine_request *request, engine_error *err)
{
    // Logprobs are of all that can come next.
    const engine_sampling *sampling = request->wish.logprobs ? NULL : &request->wish.sampling;
    return !request->cursor || session_constrain(request->session, request->cursor, sampling, err);
}

// The likeliest tokens, and what is subtracted from a logit to make it a logprob.
static double measure(engine_request *request, const float *logits, int32_t vocab, int32_t *count)
{
    double largest = -INFINITY, sum = 0;
    int32_t wanted = request->wish.top_logprobs;
    engine_logprob *list = request->likeliest;
    *count = 0;
    for (int32_t id = 0; id < vocab; id++) {
        largest = logits[id] > largest ? logits[id] : largest;
        if (wanted == 0 || isnan(logits[id]) || logits[id] == -INFINITY ||
            (*count == wanted && !(logits[id] > list[wanted - 1].logprob)))
            continue;
        int32_t at = *count < wanted ? (*count)++ : wanted - 1;
        for (; at > 0 && logits[id] > list[at - 1].logprob; at--)
            list[at] = list[at - 1];
        list[at] = (engine_logprob){id, logits[id]};
    }
    for (int32_t id = 0; id < vocab; id++)
        sum += isnan(logits[id]) ? 0 : exp(logits[id] - largest);
    return largest + log(sum);
}

static void add_logprobs(engine_request *request, engine_token *token)
{
    engine_session *session = request->session;
    const float *logits = request->wish.logprobs ? engine_session_logits(session) : NULL;
    if (!logits)
        return;
    double all =
        measure(request, logits, session->worker->model->config.vocab, &token->likeliest_count);
    for (int32_t i = 0; i < token->likeliest_count; i++)
        request->likeliest[i].logprob = (float)(request->likeliest[i].logprob - all);
    token->logprob = (float)(logits[token->id] - all);
    token->likeliest = request->likeliest;
}

void request_take(engine_request *request, int32_t id)
{
    const engine_worker *worker = request->session->worker;
    const tokenizer *t = worker->model->tokenizer;
    engine_token token = {.id = id};
    engine_error err = {""};
    if (t && (!request->wish.ignore_end || request->cursor) && tokenizer_is_end(t, id)) {
        request_end(request, ENGINE_FINISH_END);
        return;
    }
    if (request->cursor && !constraint_accept(request->cursor, id, &err)) {
        request_fail(request, &err);
        return;
    }
    request->tokens[request->count++] = id;
    request->result.generated_tokens++;
    add_logprobs(request, &token);
    if (!answer_add(&request->answer, id, &err)) {
        request_fail(request, &err);
        return;
    }
    report(request, &token);
    if (request->answer.filter.stopped)
        request_end(request, ENGINE_FINISH_STOP);
    if (request->cursor && constraint_complete(request->cursor))
        request_end(request, ENGINE_FINISH_END);
    if (request->wish.max_tokens > 0 &&
        request->result.generated_tokens >= request->wish.max_tokens)
        request_end(request, ENGINE_FINISH_LENGTH);
    if (request->count > worker->settings.options.context_tokens)
        request_end(request, ENGINE_FINISH_CONTEXT);
}
