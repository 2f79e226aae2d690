// SPDX-License-Identifier: MIT
#ifndef ENGINE_SESSION_SESSION_H
#define ENGINE_SESSION_SESSION_H

// A timeline: its tokens, its pages, where its logits are. Knows nothing of passes.

#include "engine/worker/worker.h"

// Guesses behind the timeline that a pass evaluated: a tree, whose nodes lie in the slots of the pages one after the
// other, and their logits in the rows behind that of the token before them.
typedef struct session_guesses {
    int32_t count; // 0: none
    int32_t at;    // the one that the timeline ends with; -1: the token before them
    int32_t first; // the position whose slot has the first
    int32_t row;   // of the token before them
    int32_t tokens[ENGINE_MAX_GUESSES];
    int32_t parents[ENGINE_MAX_GUESSES]; // as in engine_feed
} session_guesses;

struct engine_session {
    engine_worker *worker;
    int32_t slot;        // in worker->sessions
    int32_t length;      // tokens whose keys and values are in the pool
    int32_t pages;       // held
    int32_t entered;     // of these, the first ones, that the pool finds by their tokens
    uint64_t link;       // of the last of them
    int32_t *ids;        // [context_tokens + 1]
    int32_t *page_table; // [pages_per_session]
    int32_t *history;    // the ids where the device reads them: `ids`, or a copy
    int32_t history_length;
    int32_t logits_row; // of the program's logits; -1: none of them
    session_guesses guesses;
    float *logits; // after the last token: that row, or `saved`; NULL: there are none
    float *saved;  // [vocab], where they go when a pass needs the row that they were made in
    float *shown;  // [vocab], a copy on the host; NULL: the host reads `logits` where they are
};

// Refuses models that give no logits.
bool session_generates(const engine_worker *worker, engine_error *err);

// Refuses so many sessions at once: fewer than `least`, or more than the worker was opened for.
bool session_admits(const engine_worker *worker, int32_t count, int32_t least, engine_error *err);

// Refuses a session of another worker.
bool session_is_of(const engine_session *session, const engine_worker *worker, engine_error *err);

// Takes pages until the session can hold `length` tokens, and copies a shared page that the next token
// would be written to. If there are too few, nothing is taken.
bool session_reserve(engine_session *session, int32_t length, engine_error *err);

// Gives back the pages that its tokens do not need.
void session_trim(engine_session *session);

// Of a worker: what the numbers in its pages depend on.
uint64_t session_fingerprint(const engine_worker *worker);

// Lets a pool that remembers find the pages that are full.
void session_enter_pages(engine_session *session);

// Logits: forgotten; left by a pass in a row of the program's; moved out of that row.
void session_drop_logits(engine_session *session);
void session_hold_logits(engine_session *session, int32_t row);
void session_hold_guess(engine_session *session); // one more, in the row behind
bool session_save_logits(engine_session *session, engine_error *err);

// Takes from the logits what the constraint does not let come next; once after every token. With a sampling, what it
// would not draw anyway may go too.
bool session_constrain(engine_session *session, constraint_cursor *cursor,
                       const engine_sampling *sampling, engine_error *err);

// How many of the last tokens the penalties count; 0: there are no penalties.
int32_t session_penalty_window(const engine_sampling *sampling);

// Brings the timeline to `history`.
bool session_show_history(engine_session *session, engine_error *err);

// Cuts the timeline back to what it has in common with `ids`, or shares the pages of another session that
// has more of them, or those that the pool remembers. Returns how many of the ids need no evaluation; not all,
// unless logits are there.
int32_t session_reuse(engine_session *session, const int32_t *ids, int32_t count);

#endif
