// SPDX-License-Identifier: MIT
#ifndef ENGINE_SCHEDULE_REQUEST_H
#define ENGINE_SCHEDULE_REQUEST_H

// A request: its timeline, its text, how it ends. Knows nothing of others.

#include "engine/session/answer.h"
#include "engine/session/session.h"
#include "engine/session/speculator.h"

struct engine_request {
    engine_request_wish wish; // prompt, stops and biases are the request's own
    int32_t *tokens;          // [room]: prompt, then what was generated
    int32_t count, room;
    char **stops;
    engine_bias *biases;
    engine_shaping shaping; // if the wish has one; its breakers are the request's own
    int32_t *breakers;
    float mirostat_mu;
    constraint_cursor *cursor; // NULL: its text is free
    engine_session *session;   // NULL: it waits
    answer answer;
    speculator speculator;
    int32_t guesses, right; // in this pass: made, and those of them that were drawn
    uint64_t arrival;
    int32_t user;   // in the scheduler's table
    int32_t forks;  // requests that wait for the end of its prompt: their wish.fork_of is this one
    bool resumes;   // it ran and was preempted
    bool gives_way; // it is to be preempted
    bool ended, cancelled;
    engine_request_result result;
    engine_error err;
    engine_logprob likeliest[ENGINE_MAX_LOGPROBS];
};

// Copies the wish; NULL when it cannot be met or memory is short.
engine_request *request_make(const engine_worker *worker, const engine_request_wish *wish,
                             engine_error *err);
void request_free(engine_request *request); // may be NULL

// Decides how it ends; the first call counts.
void request_end(engine_request *request, engine_finish finish);
void request_fail(engine_request *request, const engine_error *err);

// Adds biases to the session's logits: once after every token that was evaluated.
bool request_bias(engine_request *request, engine_error *err);

// Takes from them what its constraint does not let come next: behind the biases.
bool request_constrain(engine_request *request, engine_error *err);

// A token was chosen: it becomes part of timeline and text, or the end.
void request_take(engine_request *request, int32_t token);

// What is left of the text, and the word that it has ended.
void request_report_end(engine_request *request);

#endif
