// SPDX-License-Identifier: MIT
#include "engine/schedule/pass.h"

#include <string.h>

#include "engine/base/clock.h"

// --- guesses ------------------------------------------------------------------------------------------

// Adds guesses to the feeds of those that decode, in the rows, pages and tokens that the pass has left.
static void guess(engine_scheduler *s, int32_t feeds)
{
    int32_t budget = s->worker->settings.options.chunk_tokens, rows = feeds,
            pages = scheduler_free_pages(s);
    int32_t room = engine_guess_room(s->worker, feeds);
    // Pieces of prompts are long ways up for the mask of trees.
    bool branches = engine_worker_takes_trees(s->worker);
    for (int32_t i = 0; i < feeds; i++) {
        const engine_feed *feed = &s->feeds[i];
        branches = branches && feed->count == 1;
        budget -= feed->count;
        pages -= feed->count / ENGINE_PAGE_TOKENS + 2;
    }
    for (int32_t i = 0; s->speculates && i < feeds; i++) {
        engine_request *request = s->fed[i];
        const engine_session *session = request->session;
        int32_t left = request->room - request->count, most = budget < room ? budget : room;
        request->guesses = 0;
        if (s->feeds[i].count != 1 || session->length + 1 < request->count || pages < 1)
            continue;
        most = left < most ? left : most;
        request->guesses = speculator_guess(&request->speculator, &s->costs, request->tokens,
                                            request->count, rows, most, branches);
        memcpy(request->tokens + request->count, request->speculator.guesses.tokens,
               (size_t)request->guesses * sizeof *request->tokens);
        s->feeds[i].count += request->guesses;
        s->feeds[i].guesses = request->guesses;
        s->feeds[i].parents = request->speculator.guesses.parents;
        rows += request->guesses;
        room -= request->guesses;
        budget -= request->guesses;
        pages -= request->guesses > 0;
    }
}

// --- evaluating ---------------------------------------------------------------------------------------

// Passes that only decode are timed, as guesses are measured by what those take: until tokens are drawn, as who draws
// waits for the device.
static void begin_time(engine_scheduler *s, int32_t feeds)
{
    bool decodes = true;
    s->timed_rows = 0;
    for (int32_t i = 0; i < feeds; i++) {
        decodes = decodes && s->feeds[i].count - s->feeds[i].guesses == 1;
        s->timed_rows += s->feeds[i].count;
    }
    if (!decodes)
        s->timed_rows = 0;
    s->pass_started = engine_seconds();
}

static void end_time(engine_scheduler *s)
{
    if (s->timed_rows > 0)
        payoff_time(&s->costs, s->timed_rows, engine_seconds() - s->pass_started);
    s->timed_rows = 0;
}

static bool run_pass(engine_scheduler *s, int32_t feeds, engine_error *err)
{
    begin_time(s, feeds);
    if (!engine_pass(s->worker, s->feeds, feeds, NULL, err))
        return false;
    s->info.passes++;
    return true;
}

// --- drawing ------------------------------------------------------------------------------------------

// Of those whose timeline is complete the next token is drawn; returns how many.
static int32_t fill_draws(engine_scheduler *s, int32_t feeds)
{
    int32_t draws = 0;
    engine_error err = {""};
    for (int32_t i = 0; i < feeds; i++) {
        engine_request *request = s->fed[i];
        bool decodes = s->feeds[i].count - s->feeds[i].guesses == 1;
        if (!decodes || request->resumes)
            s->info.prompt_tokens += s->feeds[i].count;
        if (request->session->length < request->count)
            continue;
        if (!request_bias(request, &err) || !request_constrain(request, &err)) {
            request_fail(request, &err);
            continue;
        }
        request->wish.sampling.params.step = (uint64_t)request->count;
        s->fed[draws] = request;
        s->draws[draws++] =
            (engine_draw){.session = request->session, .sampling = &request->wish.sampling};
    }
    return draws;
}

// If one of them cannot be drawn, it alone fails.
static void draw_one_by_one(engine_scheduler *s, int32_t draws)
{
    for (int32_t i = 0; i < draws; i++) {
        engine_error err = {""};
        if (!engine_sample_all(s->worker, &s->draws[i], 1, &err))
            request_fail(s->fed[i], &err);
    }
}

static void take(engine_scheduler *s, engine_request *request, int32_t token)
{
    int32_t before = request->result.generated_tokens;
    request->resumes = false;
    s->users.list[request->user].served++;
    request_take(request, token);
    s->info.generated_tokens += request->result.generated_tokens - before;
}

// Guesses end with the first token that was none.
static void settle_guesses(engine_scheduler *s, engine_request *request)
{
    engine_session_reject(request->session);
    s->info.guessed_tokens += request->guesses;
    s->info.accepted_tokens += request->right;
    request->guesses = request->right = 0;
}

// Was the token that was drawn guessed? Then the logits behind it are there, and the next one can be drawn.
static bool goes_on(engine_scheduler *s, engine_request *request, int32_t token)
{
    engine_error err = {""};
    bool guessed = speculator_learn(&request->speculator, token);
    request->right += guessed;
    if (!guessed || request->ended || !engine_session_accept(request->session, token)) {
        settle_guesses(s, request);
        return false;
    }
    if (request_bias(request, &err) && request_constrain(request, &err))
        return true;
    request_fail(request, &err);
    return false;
}

// Draws the next token of each, then the one after it of those who had guessed it, and so on.
void scheduler_draw(engine_scheduler *s, int32_t feeds)
{
    int32_t draws = fill_draws(s, feeds);
    while (draws > 0) {
        int32_t left = 0;
        if (!engine_sample_all(s->worker, s->draws, draws, NULL))
            draw_one_by_one(s, draws);
        end_time(s);
        for (int32_t i = 0; i < draws; i++) {
            engine_request *request = s->fed[i];
            if (!request->ended)
                take(s, request, s->draws[i].token);
            if (!goes_on(s, request, s->draws[i].token))
                continue;
            request->wish.sampling.params.step = (uint64_t)request->count;
            s->fed[left] = request;
            s->draws[left++] = s->draws[i];
        }
        draws = left;
    }
}

bool scheduler_evaluate(engine_scheduler *s, int32_t feeds)
{
    engine_error err = {""};
    guess(s, feeds);
    if (feeds > 0 && run_pass(s, feeds, &err))
        return true;
    for (int32_t i = 0; i < feeds; i++)
        request_fail(s->fed[i], &err);
    return false;
}
