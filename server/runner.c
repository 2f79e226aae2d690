// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "server/runner.h"

#include "server/constraints.h"
#include "server/runner_embed.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { GONE_AT_ONCE = 64 };

// A connection that is told of every token of a fast model costs more than the token, and nobody reads that fast: it is
// told so often, and all together are so many times a second.
static const double told_seconds = 0.04, told_a_second = 800;

struct server_runner {
    engine_worker *worker;
    engine_scheduler *scheduler;
    int32_t request_seconds;
    void (*wake)(void *connection);
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t news;
    // Guarded by the lock:
    server_job *inbox;
    bool draining, stopping;
    metrics metrics;
    engine_scheduler_info scheduler_info; // as they were after the last pass
    engine_worker_info worker_info;
    int32_t jobs; // in the inbox or running
    bool ended;   // the thread
    // The thread's own:
    server_job *running, *embedding;
    int32_t streams; // of those that run, when they were told last
    int watch;       // of the connections of those that run: which were closed
    token_trie *trie;
    server_constraints *constraints;
};

double runner_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void runner_lock(server_runner *runner)
{
    pthread_mutex_lock(&runner->lock);
}

void runner_unlock(server_runner *runner)
{
    pthread_mutex_unlock(&runner->lock);
}

// --- jobs, with the lock held -------------------------------------------------------------------------

static void wake(const server_runner *runner, server_job *job)
{
    void *connection = job->suspended;
    job->suspended = NULL;
    if (connection)
        runner->wake(connection);
}

void runner_release(server_runner *runner, server_job *job)
{
    (void)runner;
    if (--job->holders == 0)
        job_free(job);
}

bool runner_submit(server_runner *runner, server_job *job)
{
    if (runner->draining || runner->stopping)
        return false;
    job->runner = runner;
    job->holders++;
    job->next = NULL;
    server_job **last = &runner->inbox;
    while (*last)
        last = &(*last)->next;
    *last = job;
    runner->jobs++;
    pthread_cond_signal(&runner->news);
    return true;
}

// Once its connection is no longer its own, it is not looked at: the number may be another's soon.
static void stop_watching(server_runner *runner, server_job *job)
{
    if (job->watched)
        epoll_ctl(runner->watch, EPOLL_CTL_DEL, job->socket, NULL);
    job->watched = false;
}

void runner_part(server_runner *runner, server_job *job, bool gone)
{
    stop_watching(runner, job);
    job->socket = -1;
    job->suspended = NULL;
    job->gone = job->gone || gone;
    runner_release(runner, job);
}

// All of its choices have ended.
static void complete(server_runner *runner, server_job *job)
{
    metrics *m = &runner->metrics;
    *(job->gone ? &m->cancelled : job->error.status ? &m->failed : &m->finished) += 1;
    metrics_observe(&m->whole, runner_now() - job->arrived);
    if (!job->gone && !job->error.status && job->no_memory)
        api_fail(&job->error, 500, NULL, "not enough memory for the answer");
    if (!job->gone)
        job_write_done(job);
    if (!job->error.status && job->no_memory && !job->wish.stream)
        api_fail(&job->error, 500, NULL, "not enough memory for the answer");
    job->begun = job->done = true;
    wake(runner, job);
}

// --- what the scheduler says --------------------------------------------------------------------------

static bool take_token(void *user, const engine_token *token)
{
    server_choice *choice = user;
    server_job *job = choice->job;
    server_runner *runner = job->runner;
    double now = runner_now();
    runner_lock(runner);
    if (!job->begun)
        metrics_observe(&runner->metrics.first_token, now - job->arrived);
    if (choice->last_token > 0 && token->id != TOKENIZER_NONE)
        metrics_observe(&runner->metrics.per_token, now - choice->last_token);
    choice->last_token = now;
    job_write_token(choice, token);
    job->begun = true;
    job->untold = job->wish.stream;
    bool go_on = !job->gone && !job->no_memory;
    runner_unlock(runner);
    return go_on;
}

static void take_end(void *user, const engine_request_result *result)
{
    server_choice *choice = user;
    server_job *job = choice->job;
    server_runner *runner = job->runner;
    runner_lock(runner);
    choice->request = NULL;
    choice->finish = result->finish;
    choice->generated = result->generated_tokens;
    choice->cached = result->cached_tokens;
    if (result->error && !job->error.status)
        api_fail(&job->error, 500, NULL, "%s", result->error);
    if (!job->gone && !result->error)
        job_write_end(choice);
    if (--job->left == 0)
        complete(runner, job);
    runner_unlock(runner);
}

// --- the thread ---------------------------------------------------------------------------------------

static void cancel(server_job *job)
{
    for (int32_t i = 0; i < job->wish.best_of; i++)
        if (job->choices[i].request)
            engine_request_cancel(job->choices[i].request);
}

static engine_request *submit_choice(server_runner *runner, server_job *job, int32_t i,
                                     engine_error *err)
{
    const api_wish *wish = &job->wish;
    engine_request_wish asked = {.prompt = job->ids.ids,
                                 .prompt_tokens = (int32_t)job->ids.count,
                                 .max_tokens = wish->max_tokens,
                                 .sampling = wish->sampling,
                                 .stops = wish->stops,
                                 .ignore_end = wish->ignore_end,
                                 .constraint = job->constraint,
                                 .biases = wish->biases,
                                 .bias_count = wish->bias_count,
                                 .logprobs = wish->logprobs || wish->best_of > wish->choices,
                                 .top_logprobs = wish->top_logprobs,
                                 .owner = job->owner,
                                 .token = take_token,
                                 .end = take_end,
                                 .user = &job->choices[i]};
    asked.sampling.params.seed += (uint64_t)i;
    asked.fork_of = i > 0 ? job->choices[0].request : NULL;
    asked.sampling.shaping = &wish->shaping;
    return engine_scheduler_submit(runner->scheduler, &asked, err);
}

// Finds or makes what its answers keep to.
static bool constrain(server_runner *runner, server_job *job)
{
    engine_error err = {""};
    grammar *g = job->wish.grammar;
    if (!g)
        return true;
    job->wish.grammar = NULL;
    job->constraint = constraints_take(runner->constraints, job->wish.grammar_key, g, &err);
    return job->constraint ||
           api_fail(&job->error, 400, job->wish.form.tools ? "tools" : "response_format", "%s",
                    err.text);
}

static void refuse(server_runner *runner, server_job *job)
{
    job->begun = job->done = true;
    wake(runner, job);
    runner->jobs--;
    constraints_give_back(runner->constraints, job->constraint);
    runner_release(runner, job);
}

// Each is told of once.
static void watch(server_runner *runner, server_job *job)
{
    struct epoll_event closed = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = job};
    job->watched =
        job->socket >= 0 && epoll_ctl(runner->watch, EPOLL_CTL_ADD, job->socket, &closed) == 0;
}

// Takes a job in, or refuses it with the reason.
static void begin(server_runner *runner, server_job *job)
{
    engine_error err = {""};
    if (job->embedding.count > 0) {
        job->next = runner->embedding;
        runner->embedding = job;
        runner->metrics.accepted++;
        return;
    }
    if (!constrain(runner, job)) {
        refuse(runner, job);
        return;
    }
    bool busy = false;
    for (job->left = 0; job->left < job->wish.best_of; job->left++) {
        busy = engine_scheduler_busy(runner->scheduler);
        server_choice *choice = &job->choices[job->left];
        choice->request = busy ? NULL : submit_choice(runner, job, job->left, &err);
        if (!choice->request)
            break;
    }
    if (job->left == job->wish.best_of) {
        runner->metrics.accepted++;
        job->next = runner->running;
        runner->running = job;
        watch(runner, job);
        return;
    }
    if (busy) {
        api_fail(&job->error, 503, NULL, "the server is busy: try again later");
        job->error.code = "busy";
    } else {
        api_fail(&job->error, 400, job->wish.chat ? "messages" : "prompt", "%s", err.text);
        job->error.code = "context_length_exceeded";
    }
    if (job->left == 0) {
        refuse(runner, job);
        return;
    }
    job->next = runner->running; // the choices that were taken must end first
    runner->running = job;
    cancel(job);
}

static void lose(server_job *job)
{
    if (job->done || job->gone)
        return;
    job->gone = true;
    cancel(job);
}

// Which clients have closed their connection? A pass asks for all at once, not for each.
static void look_for_the_gone(server_runner *runner)
{
    struct epoll_event closed[GONE_AT_ONCE];
    int count;
    for (server_job *job = runner->running; job; job = job->next)
        if (job->socket < 0)
            lose(job);
    do {
        count = epoll_wait(runner->watch, closed, GONE_AT_ONCE, 0);
        for (int i = 0; i < count; i++)
            lose(closed[i].data.ptr);
    } while (count == GONE_AT_ONCE);
}

static void end_the_old(server_runner *runner)
{
    double now = runner_now();
    for (server_job *job = runner->running; job; job = job->next)
        if (runner->stopping ||
            (runner->request_seconds > 0 && now - job->arrived > runner->request_seconds))
            cancel(job);
}

static void forget_the_done(server_runner *runner)
{
    for (server_job **at = &runner->running; *at;) {
        server_job *job = *at;
        if (!job->done) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        runner->jobs--;
        stop_watching(runner, job);
        constraints_give_back(runner->constraints, job->constraint);
        runner_release(runner, job);
    }
}

// With the lock held: takes in what has come; false when the thread is to end.
static bool prepare(server_runner *runner)
{
    forget_the_done(runner);
    engine_scheduler_describe(runner->scheduler, &runner->scheduler_info);
    engine_worker_describe(runner->worker, &runner->worker_info);
    while (!runner->inbox && !runner->running && !runner->stopping)
        pthread_cond_wait(&runner->news, &runner->lock);
    while (runner->inbox) {
        server_job *job = runner->inbox;
        runner->inbox = job->next;
        begin(runner, job);
    }
    look_for_the_gone(runner);
    end_the_old(runner);
    return runner->running || runner->embedding || !runner->stopping;
}

// What has gathered; who went away meanwhile is told nothing.
static void embed(server_runner *runner)
{
    runner_embed(runner->worker, runner->embedding);
    runner_lock(runner);
    while (runner->embedding) {
        server_job *job = runner->embedding;
        runner->embedding = job->next;
        complete(runner, job);
        runner->jobs--;
        runner_release(runner, job);
    }
    runner_unlock(runner);
}

// What a step has made goes out together, so that a guess that was right is not held back until the next.
static void tell(server_runner *runner)
{
    const double now = runner_now(), all = runner->streams / told_a_second,
                 apart = all > told_seconds ? all : told_seconds;
    runner->streams = 0;
    runner_lock(runner);
    for (server_job *job = runner->running; job; job = job->next) {
        runner->streams += job->wish.stream;
        if (job->untold && now - job->woken >= apart) {
            job->untold = false, job->woken = now;
            wake(runner, job);
        }
    }
    runner_unlock(runner);
}

static void *run(void *opaque)
{
    server_runner *runner = opaque;
    while (true) {
        runner_lock(runner);
        bool go_on = prepare(runner);
        runner_unlock(runner);
        if (!go_on)
            return NULL;
        if (runner->embedding)
            embed(runner);
        if (runner->running) {
            engine_scheduler_step(runner->scheduler);
            tell(runner);
        }
    }
}

// --- from outside -------------------------------------------------------------------------------------

server_runner *runner_start(engine_worker *worker, const server_options *options,
                            const engine_speculation *speculation,
                            void (*wake_connection)(void *connection), engine_error *err)
{
    server_runner *runner = calloc(1, sizeof *runner);
    if (!runner) {
        engine_fail(err, "not enough memory for the server");
        return NULL;
    }
    runner->watch = epoll_create1(EPOLL_CLOEXEC);
    runner->worker = worker;
    runner->request_seconds = options->request_seconds;
    runner->wake = wake_connection;
    runner->trie = token_trie_make(engine_model_tokenizer(engine_worker_model(worker)), err);
    runner->constraints = runner->trie ? constraints_make(runner->trie) : NULL;
    if (runner->watch < 0)
        engine_fail(err, "connections cannot be watched");
    else if (runner->constraints)
        runner->scheduler = engine_scheduler_open(worker, options->max_waiting, err);
    else if (runner->trie)
        engine_fail(err, "not enough memory for the server");
    if (runner->scheduler)
        engine_scheduler_speculate(runner->scheduler, speculation);
    pthread_mutex_init(&runner->lock, NULL);
    pthread_cond_init(&runner->news, NULL);
    if (runner->scheduler && pthread_create(&runner->thread, NULL, run, runner) == 0)
        return runner;
    if (runner->scheduler)
        engine_fail(err, "a thread cannot be started");
    runner_free(runner);
    return NULL;
}

bool runner_drain(server_runner *runner)
{
    runner_lock(runner);
    runner->draining = true;
    bool idle = runner->jobs == 0;
    runner_unlock(runner);
    return idle;
}

void runner_stop(server_runner *runner)
{
    if (!runner || runner->ended)
        return;
    runner_lock(runner);
    runner->draining = runner->stopping = true;
    pthread_cond_signal(&runner->news);
    runner_unlock(runner);
    pthread_join(runner->thread, NULL);
    runner->ended = true;
}

void runner_free(server_runner *runner)
{
    if (!runner)
        return;
    engine_scheduler_close(runner->scheduler);
    constraints_free(runner->constraints);
    token_trie_free(runner->trie);
    if (runner->watch >= 0)
        close(runner->watch);
    pthread_mutex_destroy(&runner->lock);
    pthread_cond_destroy(&runner->news);
    free(runner);
}

void runner_describe(server_runner *runner, metrics *counted, engine_scheduler_info *scheduler,
                     engine_worker_info *worker)
{
    runner_lock(runner);
    metrics_add(counted, &runner->metrics);
    metrics_add_scheduler(scheduler, &runner->scheduler_info);
    metrics_add_worker(worker, &runner->worker_info);
    runner_unlock(runner);
}
