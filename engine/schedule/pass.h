// SPDX-License-Identifier: MIT
#ifndef ENGINE_SCHEDULE_PASS_H
#define ENGINE_SCHEDULE_PASS_H

// What a scheduler knows (scheduler.c), and the pass that it has chosen.

#include "engine/schedule/choose.h"
#include "engine/schedule/request.h"
#include "engine/schedule/users.h"

// Requests in order of arrival.
typedef struct request_list {
    engine_request **at;
    int32_t count;
} request_list;

struct engine_scheduler {
    engine_worker *worker;
    int32_t max_waiting, slots;
    request_list waiting, running;
    schedule_users users;
    schedule_entry
        *entries[2];      // [slots] of those that run, [max_waiting + slots] of those that wait
    engine_feed *feeds;   // [slots]
    engine_request **fed; // [slots], whose they are
    engine_draw *draws;   // [slots]
    uint64_t arrivals;
    bool speculates;
    engine_speculation speculation;
    payoff_costs costs;
    int32_t timed_rows; // of the pass under way, if it only decodes; 0: its time says nothing
    double pass_started;
    engine_scheduler_info info;
};

static inline int32_t scheduler_free_pages(const engine_scheduler *s)
{
    return page_pool_free_pages(s->worker->pool);
}

// Evaluates the first `feeds` of s->feeds, with guesses where they pay. False: nothing, and whoever was to be
// evaluated has failed.
bool scheduler_evaluate(engine_scheduler *s, int32_t feeds);

// Draws the next tokens of those of the first `feeds` whose timeline is complete. Whoever fails has ended.
void scheduler_draw(engine_scheduler *s, int32_t feeds);

#endif
