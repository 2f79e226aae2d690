// SPDX-License-Identifier: MIT
#include "engine/session/session.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

static int32_t pages_for(int32_t tokens)
{
    return (tokens + ENGINE_PAGE_TOKENS - 1) / ENGINE_PAGE_TOKENS;
}

// Tokens of a full timeline, and the one that a chain chooses when it is full.
static size_t timeline_room(const engine_worker *worker)
{
    return (size_t)worker->settings.options.context_tokens + 1;
}

static bool open_logits(engine_session *session)
{
    const engine_worker *worker = session->worker;
    size_t vocab = (size_t)worker->model->config.vocab;
    void *saved;
    if (weft_memory_allocate(worker->context, WEFT_MEMORY_DEVICE, vocab * sizeof(float), &saved) !=
        WEFT_OK)
        return false;
    session->saved = saved;
    session->history = session->ids;
    if (worker->settings.options.device == WEFT_DEVICE_CPU)
        return true;
    session->history = NULL;
    session->shown = engine_alloc(vocab, sizeof *session->shown);
    void *history;
    size_t bytes = timeline_room(worker) * sizeof *session->history;
    if (!session->shown ||
        weft_memory_allocate(worker->context, WEFT_MEMORY_DEVICE, bytes, &history) != WEFT_OK)
        return false;
    session->history = history;
    return true;
}

engine_session *engine_session_open(engine_worker *worker, engine_error *err)
{
    const worker_settings *settings = &worker->settings;
    if (worker->open_sessions == settings->options.max_sessions) {
        engine_fail(err, "the model was opened for %d sessions and all are open: close one",
                    settings->options.max_sessions);
        return NULL;
    }
    engine_session *session = engine_alloc(1, sizeof *session);
    if (session) {
        session->worker = worker;
        session->logits_row = -1;
        session->ids = engine_alloc(timeline_room(worker), sizeof *session->ids);
        session->page_table =
            engine_alloc((size_t)settings->pages_per_session, sizeof *session->page_table);
        while (worker->sessions[session->slot])
            session->slot++;
        worker->sessions[session->slot] = session;
        worker->open_sessions++;
        if (session->ids && session->page_table && open_logits(session))
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
    engine_session_truncate(session, 0);
    session_drop_logits(session);
    session->worker->sessions[session->slot] = NULL;
    session->worker->open_sessions--;
    if (session->history != session->ids)
        weft_memory_free(session->worker->context, session->history);
    free(session->ids);
    free(session->page_table);
    weft_memory_free(session->worker->context, session->saved);
    free(session->shown);
    free(session);
}

bool session_generates(const engine_worker *worker, engine_error *err)
{
    return !worker->model->config.full_mask ||
           engine_fail(err, "the model is an encoder: it gives embeddings (weft embed), not text");
}

bool session_admits(const engine_worker *worker, int32_t count, int32_t least, engine_error *err)
{
    const int32_t most = worker->settings.options.max_sessions;
    return (count >= least && count <= most) ||
           engine_fail(err, "%d sessions at once, but the model was opened for %d", count, most);
}

bool session_is_of(const engine_session *session, const engine_worker *worker, engine_error *err)
{
    return session->worker == worker || engine_fail(err, "a session belongs to another worker");
}

int32_t engine_session_length(const engine_session *session)
{
    return session->length;
}

const int32_t *engine_session_tokens(const engine_session *session)
{
    return session->ids;
}

// --- pages --------------------------------------------------------------------------------------------

void session_trim(engine_session *session)
{
    while (session->pages > pages_for(session->length))
        page_pool_give(session->worker->pool, session->page_table[--session->pages]);
}

void session_enter_pages(engine_session *session)
{
    page_pool *pool = session->worker->pool;
    for (; session->entered < session->length / ENGINE_PAGE_TOKENS; session->entered++)
        session->link = page_pool_enter(pool, session->page_table[session->entered], session->link,
                                        session->ids + session->entered * ENGINE_PAGE_TOKENS);
}

void engine_session_truncate(engine_session *session, int32_t length)
{
    if (length < 0)
        length = 0;
    engine_session_reject(session);
    if (length < session->length) {
        session_enter_pages(session);
        session->entered = 0;
        session->link = 0;
        session->length = length;
        session_drop_logits(session);
        if (session->history_length > length)
            session->history_length = length;
    }
    session_trim(session);
}

bool session_reserve(engine_session *session, int32_t length, engine_error *err)
{
    page_pool *pool = session->worker->pool;
    int32_t last = session->length / ENGINE_PAGE_TOKENS; // the page of the next token
    bool copy = length > session->length && last < session->pages &&
                page_pool_shared(pool, session->page_table[last]);
    if (pages_for(length) - session->pages + copy > page_pool_free_pages(pool))
        return engine_fail(err, "the KV pool is full: close a session or open the model for more");
    if (copy) {
        int32_t page = page_pool_take(pool);
        if (!page_pool_copy(pool, session->page_table[last], page, err)) {
            page_pool_give(pool, page);
            return false;
        }
        page_pool_give(pool, session->page_table[last]);
        session->page_table[last] = page;
    }
    if (length > session->length && last < session->pages)
        page_pool_forget(pool, session->page_table[last]);
    while (session->pages < pages_for(length))
        session->page_table[session->pages++] = page_pool_take(pool);
    return true;
}

// Makes the first `length` tokens of `from` those of the session; the first `common` are so already.
static void share_tokens(engine_session *session, const engine_session *from, int32_t common,
                         int32_t length)
{
    page_pool *pool = session->worker->pool;
    engine_session_truncate(session, common / ENGINE_PAGE_TOKENS * ENGINE_PAGE_TOKENS);
    session_drop_logits(session);
    for (; session->pages < pages_for(length); session->pages++) {
        session->page_table[session->pages] = from->page_table[session->pages];
        page_pool_share(pool, session->page_table[session->pages]);
    }
    memcpy(session->ids, from->ids, (size_t)length * sizeof *session->ids);
    session->length = length;
}

static bool copy_logits(const engine_session *session, float *to, engine_error *err)
{
    const engine_worker *worker = session->worker;
    size_t bytes = (size_t)worker->model->config.vocab * sizeof *to;
    return weft_copy(worker->context, to, session->logits, bytes, NULL) == WEFT_OK ||
           engine_fail(err, "logits cannot be copied: %s", weft_error_text(worker->context));
}

engine_session *engine_session_fork(engine_session *session, engine_error *err)
{
    engine_session *fork = engine_session_open(session->worker, err);
    if (!fork)
        return NULL;
    share_tokens(fork, session, 0, session->length);
    if (!session->logits || copy_logits(session, fork->saved, err)) {
        fork->logits = session->logits ? fork->saved : NULL;
        return fork;
    }
    engine_session_close(fork);
    return NULL;
}

// --- prefixes -----------------------------------------------------------------------------------------

static int32_t common_prefix(const engine_session *session, const int32_t *ids, int32_t count)
{
    int32_t common = 0;
    while (common < session->length && common < count && session->ids[common] == ids[common])
        common++;
    return common;
}

int32_t engine_session_common(const engine_session *session, const int32_t *ids, int32_t count)
{
    int32_t common = common_prefix(session, ids, count);
    bool logits_there = common == session->length && session->logits;
    return common == count && common > 0 && !logits_there ? common - 1 : common;
}

// How many tokens before the last one the pool remembers, in full pages.
static int32_t remembered_prefix(const engine_worker *worker, const int32_t *ids, int32_t count)
{
    int32_t length = 0;
    uint64_t link = 0;
    while (length + ENGINE_PAGE_TOKENS < count &&
           page_pool_find(worker->pool, link, ids + length, &link) >= 0)
        length += ENGINE_PAGE_TOKENS;
    return length;
}

// Makes `length` remembered tokens those of the session; the first `common` are so already.
static void share_remembered(engine_session *session, const int32_t *ids, int32_t common,
                             int32_t length)
{
    page_pool *pool = session->worker->pool;
    uint64_t link = 0;
    engine_session_truncate(session, common / ENGINE_PAGE_TOKENS * ENGINE_PAGE_TOKENS);
    session_drop_logits(session);
    for (int32_t at = 0; at < length; at += ENGINE_PAGE_TOKENS) {
        int32_t page = page_pool_find(pool, link, ids + at, &link);
        if (at < session->length)
            continue;
        session->page_table[session->pages++] = page;
        page_pool_share(pool, page);
    }
    memcpy(session->ids, ids, (size_t)length * sizeof *ids);
    session->length = length;
}

int32_t session_reuse(engine_session *session, const int32_t *ids, int32_t count)
{
    const engine_worker *worker = session->worker;
    int32_t common = engine_session_common(session, ids, count);
    // Less than a page more is not worth the copy of a page that sharing may lead to.
    int32_t most = common + ENGINE_PAGE_TOKENS - 1;
    const engine_session *best = NULL;
    for (int32_t n = 0; common < count && n < worker->settings.options.max_sessions; n++) {
        const engine_session *other = worker->sessions[n];
        int32_t shared = other && other != session ? common_prefix(other, ids, count - 1) : 0;
        if (shared > most) {
            most = shared;
            best = other;
        }
    }
    int32_t remembered = remembered_prefix(worker, ids, count);
    if (remembered > common && remembered >= most - (best ? 0 : ENGINE_PAGE_TOKENS - 1)) {
        share_remembered(session, ids, common, remembered);
        return remembered;
    }
    if (!best) {
        engine_session_truncate(session, common);
        return common;
    }
    share_tokens(session, best, common, most);
    return most;
}

// --- history --------------------------------------------------------------------------------------------

int32_t session_penalty_window(const engine_sampling *sampling)
{
    const weft_sample_params *params = &sampling->params;
    bool repetition = params->repetition_penalty != 0 && params->repetition_penalty != 1;
    if (!repetition && params->frequency_penalty == 0 && params->presence_penalty == 0)
        return 0;
    return sampling->penalty_window > 0 ? sampling->penalty_window : 64;
}

bool session_show_history(engine_session *session, engine_error *err)
{
    int32_t from = session->history_length;
    session->history_length = session->length;
    if (session->history == session->ids || from >= session->length)
        return true;
    return weft_copy(session->worker->context, session->history + from, session->ids + from,
                     (size_t)(session->length - from) * sizeof *session->ids, NULL) == WEFT_OK ||
           engine_fail(err, "the history cannot be copied: %s",
                       weft_error_text(session->worker->context));
}

// --- logits -------------------------------------------------------------------------------------------

const float *engine_session_logits(engine_session *session)
{
    if (!session->logits || !session->shown)
        return session->logits;
    return model_program_read_logits(session->worker->program, session->shown, session->logits, 1,
                                     NULL)
               ? session->shown
               : NULL;
}

// The rows of logits of all guesses but that of the timeline's last token are free.
static void forget_guesses(engine_session *session)
{
    session_guesses *guesses = &session->guesses;
    for (int32_t i = 0; guesses->count > 0 && i <= guesses->count; i++)
        if (guesses->row + i != session->logits_row)
            session->worker->logits_owner[guesses->row + i] = NULL;
    guesses->count = 0;
}

void engine_session_reject(engine_session *session)
{
    forget_guesses(session);
    session_trim(session);
}

// Where the key at a position lies in the pool.
static int32_t slot_of(const engine_session *session, int32_t position)
{
    return session->page_table[position / ENGINE_PAGE_TOKENS] * ENGINE_PAGE_TOKENS +
           position % ENGINE_PAGE_TOKENS;
}

// Guesses of the first branch lie where their tokens belong, others are copied there: over guesses that the
// path to them has left aside, as it is not longer than their numbers.
static bool settle_guess(engine_session *session, int32_t guess)
{
    int32_t from = session->guesses.first + guess, to = session->length;
    return from == to || page_pool_copy_slot(session->worker->pool, slot_of(session, from),
                                             slot_of(session, to), NULL);
}

bool engine_session_accept(engine_session *session, int32_t token)
{
    session_guesses *guesses = &session->guesses;
    int32_t next = guesses->at + 1;
    while (next < guesses->count &&
           (guesses->parents[next] != guesses->at || guesses->tokens[next] != token))
        next++;
    if (next >= guesses->count || !settle_guess(session, next))
        return false;
    size_t vocab = (size_t)session->worker->model->config.vocab;
    guesses->at = next;
    session->logits_row = guesses->row + 1 + next;
    session->logits =
        model_program_logits(session->worker->program) + (size_t)session->logits_row * vocab;
    session->ids[session->length++] = token;
    session_enter_pages(session);
    return true;
}

void session_drop_logits(engine_session *session)
{
    forget_guesses(session);
    if (session->logits_row >= 0)
        session->worker->logits_owner[session->logits_row] = NULL;
    session->logits_row = -1;
    session->logits = NULL;
}

void session_hold_logits(engine_session *session, int32_t row)
{
    const engine_worker *worker = session->worker;
    session->logits_row = row;
    session->logits =
        model_program_logits(worker->program) + (size_t)row * (size_t)worker->model->config.vocab;
    worker->logits_owner[row] = session;
}

void session_hold_guess(engine_session *session)
{
    session_guesses *guesses = &session->guesses;
    guesses->row = session->logits_row;
    session->worker->logits_owner[guesses->row + ++guesses->count] = session;
}

bool session_save_logits(engine_session *session, engine_error *err)
{
    if (!copy_logits(session, session->saved, err))
        return false;
    session_drop_logits(session);
    session->logits = session->saved;
    return true;
}
