// SPDX-License-Identifier: MIT
#include <string.h>

#include "engine/base/clock.h"
#include "engine/session/answer.h"
#include "engine/session/chain.h"
#include "engine/session/pass.h"
#include "engine/session/speculator.h"

const char *engine_finish_name(engine_finish finish)
{
    static const char *const names[] = {"length", "end", "stop", "context", "cancel", "error"};
    return (unsigned)finish < sizeof names / sizeof *names ? names[finish] : "unknown";
}

// A generation under way.
typedef struct generator {
    engine_session *session;
    const engine_generation *wish;
    engine_result *result;
    engine_draw draw; // of chains
    answer answer;
    speculator speculator;
    payoff_costs costs;
    float mirostat_mu;
    constraint_cursor *cursor; // NULL: the text is free
    bool done;
} generator;

static void end(generator *g, engine_finish finish)
{
    g->result->finish = finish;
    g->done = true;
}

// Hands on what has become certain with a token; none: with the end.
static void release(generator *g, int32_t token)
{
    const engine_generation *wish = g->wish;
    tokenizer_bytes text = answer_text(&g->answer);
    if (text.size_bytes > 0 || (token != TOKENIZER_NONE && !g->answer.filter.stopped)) {
        const engine_token told = {.id = token, .text = text.data, .text_bytes = text.size_bytes};
        if ((wish->write && !wish->write(wish->user, text.data, text.size_bytes)) ||
            (wish->token && !wish->token(wish->user, &told)))
            end(g, ENGINE_FINISH_CANCEL);
    }
    answer_written(&g->answer);
    if (g->answer.filter.stopped && !g->done)
        end(g, ENGINE_FINISH_STOP);
}

// Writes the text of a token that was chosen.
static bool take_token(generator *g, int32_t token, engine_error *err)
{
    const engine_worker *worker = g->session->worker;
    const tokenizer *t = worker->model->tokenizer;
    if (t && (!g->wish->ignore_end || g->cursor) && tokenizer_is_end(t, token)) {
        end(g, ENGINE_FINISH_END);
        return true;
    }
    if (g->cursor && !constraint_accept(g->cursor, token, err))
        return false;
    g->result->generated_tokens++;
    if (!answer_add(&g->answer, token, err))
        return false;
    release(g, token);
    if (!g->done && g->cursor && constraint_complete(g->cursor))
        end(g, ENGINE_FINISH_END);
    if (!g->done && g->wish->max_tokens > 0 && g->result->generated_tokens >= g->wish->max_tokens)
        end(g, ENGINE_FINISH_LENGTH);
    if (!g->done && g->session->length >= worker->settings.options.context_tokens)
        end(g, ENGINE_FINISH_CONTEXT);
    return true;
}

// Gives the device the next chain, if there are tokens to generate: behind `pending` that are under way.
static bool begin_chain(generator *g, int32_t token, int32_t pending, int32_t slot,
                        token_chain *chain, engine_error *err)
{
    const engine_options *options = &g->session->worker->settings.options;
    int32_t start = g->session->length + pending, steps = options->chain_tokens;
    int32_t wanted = g->wish->max_tokens - g->result->generated_tokens - pending;
    if (steps > options->context_tokens - start)
        steps = options->context_tokens - start;
    if (g->wish->max_tokens > 0 && steps > wanted)
        steps = wanted;
    g->draw = (engine_draw){g->session, &g->wish->sampling, token};
    *chain = (token_chain){&g->draw, 1, pending, steps, slot};
    return steps <= 0 || chain_begin(g->session->worker, chain, err);
}

// Adds what the chain evaluated to the timeline, and what it chose to the text, until that ends.
static bool take_chain(generator *g, const token_chain *chain, int32_t *token, engine_error *err)
{
    engine_session *session = g->session;
    int32_t *chosen = session->worker->chosen;
    if (!chain_take(session->worker, chain, chosen, err))
        return false;
    for (int32_t i = 0; i < chain->steps && !g->done; i++) {
        session->ids[session->length++] = *token;
        *token = chosen[i];
        if (!take_token(g, *token, err))
            return false;
    }
    return true;
}

// From `token` on, until the text ends. While the host deals with the tokens of a chain of several, the
// device works on the next one.
static bool decode(generator *g, int32_t token, engine_error *err)
{
    engine_session *session = g->session;
    bool several = session->worker->settings.options.chain_tokens > 1;
    token_chain now, next = {0};
    int32_t now_end;
    if (!begin_chain(g, token, 0, 0, &now, err))
        return false;
    while (true) {
        now_end = session->length + now.steps;
        next.steps = 0;
        if (several && !begin_chain(g, token, now.steps, 1 - now.slot, &next, err))
            return false;
        if (!take_chain(g, &now, &token, err))
            return false;
        if (g->done)
            break;
        if (!several && !begin_chain(g, token, 0, 1 - now.slot, &next, err))
            return false;
        now = next;
    }
    if (next.steps <= 0 && session->length == now_end)
        chain_end(&now);
    return true;
}

// How many tokens may be guessed behind one that is about to be evaluated.
static int32_t guess_room(const generator *g)
{
    const engine_worker *worker = g->session->worker;
    const engine_options *options = &worker->settings.options;
    int32_t most = options->context_tokens - g->session->length - 1, other;
    other = engine_guess_room(worker, 1);
    most = other < most ? other : most;
    most = options->chunk_tokens - 1 < most ? options->chunk_tokens - 1 : most;
    other = g->wish->max_tokens - g->result->generated_tokens - 1;
    return g->wish->max_tokens > 0 && other < most ? other : most;
}

static engine_sampling sampling_of(generator *g)
{
    engine_sampling sampling = g->wish->sampling;
    if (!sampling.mirostat_mu)
        sampling.mirostat_mu = &g->mirostat_mu;
    return sampling;
}

// Chooses the token behind the timeline.
static bool draw_token(generator *g, int32_t *token, engine_error *err)
{
    engine_sampling sampling = sampling_of(g);
    sampling.params.step = (uint64_t)g->session->length;
    if ((g->cursor && !session_constrain(g->session, g->cursor, &sampling, err)) ||
        !engine_sample(g->session, &sampling, token, err))
        return false;
    if (g->wish->forced)
        *token = g->wish->forced[g->result->generated_tokens];
    return true;
}

// Evaluates a token and guesses behind it, and draws what follows until that was not guessed.
static bool try_guesses(generator *g, int32_t *token, engine_error *err)
{
    engine_session *session = g->session;
    speculator *s = &g->speculator;
    int32_t ids[ENGINE_MAX_GUESSES + 1] = {*token};
    session->ids[session->length] = *token;
    int32_t made = speculator_guess(s, &g->costs, session->ids, session->length + 1, 1,
                                    guess_room(g), engine_worker_takes_trees(session->worker));
    memcpy(ids + 1, s->guesses.tokens, (size_t)made * sizeof *ids);
    engine_feed feed = {.session = session,
                        .ids = ids,
                        .count = 1 + made,
                        .guesses = made,
                        .parents = s->guesses.parents};
    // A device may still be at the pass when it is given; who draws waits for it.
    double started = engine_seconds();
    if (!engine_pass(session->worker, &feed, 1, NULL, err) || !draw_token(g, token, err))
        return false;
    payoff_time(&g->costs, 1 + made, engine_seconds() - started);
    while (true) {
        if (!take_token(g, *token, err))
            return false;
        if (!speculator_learn(s, *token) || g->done || !engine_session_accept(session, *token))
            break;
        if (!draw_token(g, token, err))
            return false;
    }
    engine_session_reject(session);
    return true;
}

static bool speculate(generator *g, int32_t token, engine_error *err)
{
    if (!speculator_begin(&g->speculator, g->wish->speculation, &g->wish->sampling,
                          g->session->worker->settings.options.context_tokens + 1))
        return engine_fail(err, "not enough memory for guesses");
    bool fine = true;
    while (fine && !g->done)
        fine = try_guesses(g, &token, err);
    g->result->guessed_tokens = (int32_t)g->speculator.guessed;
    g->result->accepted_tokens = (int32_t)g->speculator.accepted;
    return fine;
}

// Chains are drawn on the device by what the library's sampler knows, and without a look at the token before.
static bool step_by_step(const engine_generation *wish)
{
    return wish->speculation || wish->constraint || wish->forced ||
           (wish->sampling.shaping && engine_shaping_asks(wish->sampling.shaping));
}

static bool generate(generator *g, engine_error *err)
{
    double started = engine_seconds();
    engine_session *session = g->session;
    int32_t token;
    bool fine = draw_token(g, &token, err) && take_token(g, token, err);
    g->result->first_token_seconds = g->result->prompt_seconds + engine_seconds() - started;
    if (fine && !g->done)
        fine = step_by_step(g->wish) ? speculate(g, token, err) : decode(g, token, err);
    if (g->cursor)
        session_drop_logits(session); // they are masked
    session_trim(session);
    if (!fine)
        return false;
    g->result->generation_seconds = engine_seconds() - started;
    if (g->answer.filter.stopped || g->result->finish == ENGINE_FINISH_CANCEL)
        return true;
    if (!answer_finish(&g->answer, err))
        return false;
    release(g, TOKENIZER_NONE);
    return true;
}

bool engine_generate(engine_session *session, const int32_t *prompt, int32_t prompt_tokens,
                     const engine_generation *generation, engine_result *result, engine_error *err)
{
    memset(result, 0, sizeof *result);
    double started = engine_seconds();
    if (generation->max_tokens < 0)
        return engine_fail(err, "the number of tokens to generate must not be negative");
    if (!session_sync(session, prompt, prompt_tokens, generation->progress, generation->user,
                      &result->prompt_tokens, err))
        return false;
    result->prompt_seconds = engine_seconds() - started;
    generator g = {.session = session, .wish = generation, .result = result};
    const tokenizer *t = session->worker->model->tokenizer;
    if (generation->constraint) {
        g.cursor = constraint_begin(generation->constraint, err);
        if (!g.cursor)
            return false;
    }
    bool fine = answer_begin(&g.answer, t, generation->stops, err) && generate(&g, err);
    answer_free(&g.answer);
    speculator_end(&g.speculator);
    constraint_end(g.cursor);
    return fine;
}
