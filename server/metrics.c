// SPDX-License-Identifier: MIT
#include "server/metrics.h"

#include <stdio.h>

static const double bounds[METRICS_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                               0.25,  0.5,    1,     2.5,  5,     10,   60};

void metrics_observe(metrics_histogram *histogram, double seconds)
{
    int n = 0;
    while (n < METRICS_BUCKETS && seconds > bounds[n])
        n++;
    histogram->buckets[n]++;
    histogram->sum += seconds;
    histogram->count++;
}

static void add_histogram(metrics_histogram *to, const metrics_histogram *more)
{
    for (int n = 0; n <= METRICS_BUCKETS; n++)
        to->buckets[n] += more->buckets[n];
    to->sum += more->sum;
    to->count += more->count;
}

void metrics_add(metrics *to, const metrics *more)
{
    to->accepted += more->accepted;
    to->refused += more->refused;
    to->cancelled += more->cancelled;
    to->failed += more->failed;
    to->finished += more->finished;
    add_histogram(&to->first_token, &more->first_token);
    add_histogram(&to->per_token, &more->per_token);
    add_histogram(&to->whole, &more->whole);
}

void metrics_add_scheduler(engine_scheduler_info *to, const engine_scheduler_info *more)
{
    to->waiting += more->waiting;
    to->running += more->running;
    to->prompt_tokens += more->prompt_tokens;
    to->cached_tokens += more->cached_tokens;
    to->generated_tokens += more->generated_tokens;
    to->preemptions += more->preemptions;
    to->passes += more->passes;
    to->guessed_tokens += more->guessed_tokens;
    to->accepted_tokens += more->accepted_tokens;
}

void metrics_add_worker(engine_worker_info *to, const engine_worker_info *more)
{
    to->pool_pages += more->pool_pages;
    to->free_pages += more->free_pages;
    to->shared_pages += more->shared_pages;
    to->remembered_pages += more->remembered_pages;
}

static bool add(tokenizer_text *text, const char *line, int bytes)
{
    return bytes > 0 && tokenizer_text_append(text, line, (size_t)bytes);
}

static bool write_number(tokenizer_text *text, const char *name, const char *type, const char *help,
                         int64_t value)
{
    char line[400];
    return add(text, line,
               snprintf(line, sizeof line, "# HELP weft_%s %s\n# TYPE weft_%s %s\nweft_%s %lld\n",
                        name, help, name, type, name, (long long)value));
}

static bool write_histogram(tokenizer_text *text, const char *name, const char *help,
                            const metrics_histogram *h)
{
    char line[400];
    int64_t sum = 0;
    bool fine = add(text, line,
                    snprintf(line, sizeof line, "# HELP weft_%s %s\n# TYPE weft_%s histogram\n",
                             name, help, name));
    for (int n = 0; fine && n < METRICS_BUCKETS; n++) {
        sum += h->buckets[n];
        fine = add(text, line,
                   snprintf(line, sizeof line, "weft_%s_bucket{le=\"%g\"} %lld\n", name, bounds[n],
                            (long long)sum));
    }
    return fine &&
           add(text, line,
               snprintf(line, sizeof line,
                        "weft_%s_bucket{le=\"+Inf\"} %lld\nweft_%s_sum %.6f\nweft_%s_count "
                        "%lld\n",
                        name, (long long)h->count, name, h->sum, name, (long long)h->count));
}

bool metrics_write(const metrics *m, const engine_scheduler_info *s, const engine_worker_info *w,
                   int32_t connections, tokenizer_text *text)
{
    const struct {
        const char *name, *type, *help;
        int64_t value;
    } numbers[] = {
        {"requests_accepted_total", "counter", "Requests that were taken", m->accepted},
        {"requests_finished_total", "counter", "Requests that were answered", m->finished},
        {"requests_cancelled_total", "counter", "Requests whose client went away", m->cancelled},
        {"requests_refused_total", "counter", "Requests that were refused", m->refused},
        {"requests_failed_total", "counter", "Requests that the engine failed", m->failed},
        {"requests_running", "gauge", "Sequences that are being computed", s->running},
        {"requests_waiting", "gauge", "Sequences in the queue", s->waiting},
        {"connections", "gauge", "Open connections", connections},
        {"prompt_tokens_total", "counter", "Tokens of prompts that were computed",
         s->prompt_tokens},
        {"cached_tokens_total", "counter", "Tokens that were there already", s->cached_tokens},
        {"generated_tokens_total", "counter", "Tokens that were generated", s->generated_tokens},
        {"guessed_tokens_total", "counter", "Tokens that speculation guessed", s->guessed_tokens},
        {"accepted_tokens_total", "counter", "Guessed tokens that were right", s->accepted_tokens},
        {"passes_total", "counter", "Forward passes", s->passes},
        {"preemptions_total", "counter", "Sequences that gave their pages back", s->preemptions},
        {"pages", "gauge", "Pages of the KV pool", w->pool_pages},
        {"pages_used", "gauge", "Pages that sequences hold", w->pool_pages - w->free_pages},
        {"pages_shared", "gauge", "Pages that several sequences hold", w->shared_pages},
        {"pages_remembered", "gauge", "Free pages that are kept for equal prompts",
         w->remembered_pages},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!write_number(text, numbers[i].name, numbers[i].type, numbers[i].help,
                          numbers[i].value))
            return false;
    return write_histogram(text, "first_token_seconds", "From the request to its first token",
                           &m->first_token) &&
           write_histogram(text, "token_seconds", "From one token to the next", &m->per_token) &&
           write_histogram(text, "request_seconds", "From the request to its end", &m->whole);
}
