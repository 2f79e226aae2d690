// SPDX-License-Identifier: MIT
// Requests of many users in one worker: who waits, who runs, and whose tokens a pass gets, as choose.c says. The pass
// is pass.c's.
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/schedule/pass.h"

enum { DEFAULT_WAITING = 256, MAX_WAITING = 1 << 20 };

// --- lists --------------------------------------------------------------------------------------------

static void list_add(request_list *list, engine_request *request)
{
    list->at[list->count++] = request;
}

static void list_remove(request_list *list, const engine_request *request)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < list->count; i++)
        if (list->at[i] != request)
            list->at[kept++] = list->at[i];
    list->count = kept;
}

// --- opening, taking requests -------------------------------------------------------------------------

engine_scheduler *engine_scheduler_open(engine_worker *worker, int32_t max_waiting,
                                        engine_error *err)
{
    if (max_waiting < 0 || max_waiting > MAX_WAITING) {
        engine_fail(err, "the queue must be 0 (the default) to %d requests, not %d", MAX_WAITING,
                    max_waiting);
        return NULL;
    }
    engine_scheduler *s = engine_alloc(1, sizeof *s);
    if (s) {
        size_t slots = (size_t)worker->settings.options.max_sessions;
        s->worker = worker;
        s->slots = (int32_t)slots;
        s->max_waiting = max_waiting ? max_waiting : DEFAULT_WAITING;
        size_t all = (size_t)s->max_waiting + slots;
        s->users.room = (int32_t)all;
        s->users.list = engine_alloc(all, sizeof *s->users.list);
        s->waiting.at = engine_alloc(all, sizeof(engine_request *));
        s->running.at = engine_alloc(slots, sizeof(engine_request *));
        s->entries[0] = engine_alloc(slots, sizeof(schedule_entry));
        s->entries[1] = engine_alloc(all, sizeof(schedule_entry));
        s->feeds = engine_alloc(slots, sizeof *s->feeds);
        s->fed = engine_alloc(slots, sizeof(engine_request *));
        s->draws = engine_alloc(slots, sizeof *s->draws);
        if (s->users.list && s->waiting.at && s->running.at && s->entries[0] && s->entries[1] &&
            s->feeds && s->fed && s->draws)
            return s;
    }
    engine_scheduler_close(s);
    engine_fail(err, "not enough memory for a queue of requests");
    return NULL;
}

void engine_scheduler_speculate(engine_scheduler *s, const engine_speculation *speculation)
{
    s->speculates = speculation != NULL;
    if (speculation)
        s->speculation = *speculation;
}

bool engine_scheduler_busy(const engine_scheduler *s)
{
    return s->waiting.count >= s->max_waiting;
}

static bool can_fork(const engine_request *of, const engine_request *request)
{
    return of && !of->ended && of->result.generated_tokens == 0 && of->count == request->count &&
           memcmp(of->tokens, request->tokens, (size_t)of->count * sizeof *of->tokens) == 0;
}

engine_request *engine_scheduler_submit(engine_scheduler *s, const engine_request_wish *wish,
                                        engine_error *err)
{
    if (engine_scheduler_busy(s)) {
        engine_fail(err, "%d requests are waiting already: try again later", s->waiting.count);
        return NULL;
    }
    engine_request *request = request_make(s->worker, wish, err);
    if (!request)
        return NULL;
    if (s->speculates && !speculator_begin(&request->speculator, &s->speculation,
                                           &request->wish.sampling, request->room + 1)) {
        request_free(request);
        engine_fail(err, "not enough memory for guesses");
        return NULL;
    }
    if (!can_fork(request->wish.fork_of, request))
        request->wish.fork_of = NULL;
    else
        request->wish.fork_of->forks++;
    request->arrival = s->arrivals++;
    request->user = schedule_users_enter(&s->users, wish->owner);
    list_add(&s->waiting, request);
    return request;
}

void engine_request_cancel(engine_request *request)
{
    request->cancelled = true;
}

// Those that wait for its prompt do so no longer.
static void release_forks(engine_scheduler *s, engine_request *request)
{
    for (int32_t i = 0; request->forks > 0 && i < s->waiting.count; i++)
        if (s->waiting.at[i]->wish.fork_of == request) {
            s->waiting.at[i]->wish.fork_of = NULL;
            request->forks--;
        }
}

static void dismiss(engine_scheduler *s, request_list *list, engine_request *request)
{
    list_remove(list, request);
    release_forks(s, request);
    if (request->wish.fork_of)
        request->wish.fork_of->forks--;
    schedule_users_leave(&s->users, request->user);
    engine_session_close(request->session);
    request->session = NULL;
    request_report_end(request);
    request_free(request);
}

void engine_scheduler_close(engine_scheduler *s)
{
    if (!s)
        return;
    request_list *lists[] = {&s->running, &s->waiting};
    for (int n = 0; n < 2; n++)
        while (lists[n]->count > 0) {
            request_end(lists[n]->at[0], ENGINE_FINISH_CANCEL);
            dismiss(s, lists[n], lists[n]->at[0]);
        }
    free(s->users.list);
    free(s->waiting.at);
    free(s->running.at);
    free(s->entries[0]);
    free(s->entries[1]);
    free(s->feeds);
    free(s->fed);
    free(s->draws);
    free(s);
}

// Those that were cancelled, or have come to their end.
static void dismiss_ended(engine_scheduler *s, request_list *list)
{
    for (int32_t i = 0; i < list->count;) {
        engine_request *request = list->at[i];
        if (request->cancelled)
            request_end(request, ENGINE_FINISH_CANCEL);
        if (request->ended)
            dismiss(s, list, request);
        else
            i++;
    }
}

// --- what choose.c is told ----------------------------------------------------------------------------

static schedule_limits limits_of(const engine_scheduler *s)
{
    return (schedule_limits){.budget_tokens = s->worker->settings.options.chunk_tokens,
                             .places = s->slots - s->running.count,
                             .page_tokens = ENGINE_PAGE_TOKENS,
                             .free_pages = scheduler_free_pages(s)};
}

static schedule_entry entry_of(const engine_scheduler *s, const engine_request *request,
                               int32_t tag)
{
    const engine_session *session = request->session;
    schedule_entry entry = {.tag = tag,
                            .priority = request->wish.priority,
                            .arrival = request->arrival,
                            .served = s->users.list[request->user].served,
                            .user = request->user,
                            .count = request->count,
                            .resumes = request->resumes && !session};
    if (!session)
        return entry;
    const page_pool *pool = s->worker->pool;
    int32_t next = session->length / ENGINE_PAGE_TOKENS;
    entry.length = session->length;
    entry.pages = session->pages;
    entry.copies = next < session->pages && page_pool_shared(pool, session->page_table[next]);
    return entry;
}

static int32_t pages_of_its_own(const engine_session *session)
{
    int32_t own = 0;
    for (int32_t i = 0; i < session->pages; i++)
        own += !page_pool_shared(session->worker->pool, session->page_table[i]);
    return own;
}

static int32_t fill_running(engine_scheduler *s)
{
    // Looking through all pages pays only where some may have to be given back.
    const engine_options *options = &s->worker->settings.options;
    bool short_of_pages =
        scheduler_free_pages(s) < 2 * s->slots + options->chunk_tokens / ENGINE_PAGE_TOKENS + 1;
    for (int32_t i = 0; i < s->running.count; i++) {
        s->entries[0][i] = entry_of(s, s->running.at[i], i);
        if (short_of_pages)
            s->entries[0][i].own = pages_of_its_own(s->running.at[i]->session);
    }
    return s->running.count;
}

// --- joining ------------------------------------------------------------------------------------------

// Is another request about to evaluate tokens that this one begins with? Then it waits for them.
static bool is_held(const engine_scheduler *s, const engine_request *request)
{
    if (request->wish.fork_of)
        return true;
    for (int32_t i = 0; i < s->running.count; i++) {
        const engine_request *other = s->running.at[i];
        int32_t there = other->session->length, same = there;
        if (other->count - there < 2 || request->count <= there ||
            memcmp(other->tokens, request->tokens, (size_t)there * sizeof *request->tokens) != 0)
            continue;
        while (same < other->count && same < request->count - 1 &&
               other->tokens[same] == request->tokens[same])
            same++;
        int32_t shared_now = there < ENGINE_PAGE_TOKENS ? 0 : there; // less is not shared at all
        if (same - shared_now >= ENGINE_PAGE_TOKENS)
            return true;
    }
    return false;
}

// Its session is there, with `there` of its tokens.
static void enter(engine_scheduler *s, engine_request *request, int32_t there)
{
    list_remove(&s->waiting, request);
    list_add(&s->running, request);
    s->users.list[request->user].served += request->count - there;
    s->info.cached_tokens += there;
    if (!request->resumes)
        request->result.cached_tokens = there;
}

static void join(engine_scheduler *s, engine_request *request)
{
    engine_error err = {""};
    request->session = engine_session_open(s->worker, &err);
    if (!request->session) {
        request_fail(request, &err);
        dismiss(s, &s->waiting, request);
        return;
    }
    enter(s, request, session_reuse(request->session, request->tokens, request->count));
}

// One by one, as who joins first may hold up others that begin alike.
static bool join_next(engine_scheduler *s)
{
    schedule_limits limits = limits_of(s);
    int32_t waiting = s->waiting.count, running = fill_running(s);
    if (limits.places < 1 || waiting == 0)
        return false;
    limits.places = 1;
    for (int32_t i = 0; i < waiting; i++)
        s->entries[1][i] = entry_of(s, s->waiting.at[i], i);
    while (true) {
        schedule_join(&limits, s->entries[0], running, s->entries[1], waiting);
        schedule_entry *chosen = NULL;
        for (int32_t i = 0; i < waiting; i++)
            chosen = s->entries[1][i].joins ? &s->entries[1][i] : chosen;
        if (!chosen)
            return false;
        engine_request *request = s->waiting.at[chosen->tag];
        chosen->held = is_held(s, request);
        if (chosen->held)
            continue;
        join(s, request);
        return true;
    }
}

static engine_request *first_fork(const engine_scheduler *s, const engine_request *request)
{
    for (int32_t i = 0; i < s->waiting.count; i++)
        if (s->waiting.at[i]->wish.fork_of == request)
            return s->waiting.at[i];
    return NULL;
}

// Requests that waited for a prompt of s->fed that is complete now become forks of its timeline, behind
// s->feeds with nothing to evaluate. Returns how many there are with them.
static int32_t fork_prompts(engine_scheduler *s, int32_t feeds)
{
    int32_t all = feeds;
    for (int32_t i = 0; i < feeds; i++) {
        engine_request *request = s->fed[i], *fork;
        if (request->forks == 0 || request->session->length < request->count)
            continue;
        // Each of those that run may need a page for its next token.
        while (s->running.count < s->slots && scheduler_free_pages(s) > s->running.count &&
               (fork = first_fork(s, request))) {
            fork->session = engine_session_fork(request->session, NULL);
            if (!fork->session)
                break;
            fork->wish.fork_of = NULL;
            request->forks--;
            enter(s, fork, fork->count);
            s->feeds[all] = (engine_feed){.session = fork->session};
            s->fed[all++] = fork;
        }
        release_forks(s, request);
    }
    return all;
}

// --- choosing -----------------------------------------------------------------------------------------

static void preempt(engine_scheduler *s, engine_request *request)
{
    engine_session_close(request->session);
    request->session = NULL;
    request->resumes = true;
    request->gives_way = false;
    request->result.preemptions++;
    s->info.preemptions++;
    list_remove(&s->running, request);
    list_add(&s->waiting, request);
}

// Fills s->feeds; returns how many there are.
static int32_t choose(engine_scheduler *s)
{
    const schedule_limits limits = limits_of(s);
    int32_t count = fill_running(s), feeds = 0;
    schedule_entry *entries = s->entries[0];
    schedule_pass(&limits, entries, count);
    for (int32_t i = 0; i < count; i++) {
        engine_request *request = s->running.at[entries[i].tag];
        request->gives_way = entries[i].preempted;
        if (entries[i].stuck)
            request_end(request, ENGINE_FINISH_CONTEXT);
        if (entries[i].tokens == 0)
            continue;
        s->feeds[feeds] = (engine_feed){.session = request->session,
                                        .ids = request->tokens + request->session->length,
                                        .count = entries[i].tokens};
        s->fed[feeds++] = request;
    }
    for (int32_t i = count - 1; i >= 0; i--)
        if (s->running.at[i]->gives_way)
            preempt(s, s->running.at[i]);
    return feeds;
}

bool engine_scheduler_step(engine_scheduler *s)
{
    dismiss_ended(s, &s->waiting);
    dismiss_ended(s, &s->running);
    while (join_next(s))
        ;
    int32_t feeds = choose(s);
    if (scheduler_evaluate(s, feeds))
        scheduler_draw(s, fork_prompts(s, feeds));
    dismiss_ended(s, &s->running);
    return s->running.count > 0 || s->waiting.count > 0;
}

void engine_scheduler_describe(const engine_scheduler *s, engine_scheduler_info *info)
{
    *info = s->info;
    info->waiting = s->waiting.count;
    info->running = s->running.count;
}
