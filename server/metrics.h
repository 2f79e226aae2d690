// SPDX-License-Identifier: MIT
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

// What Prometheus is told. Not safe for several threads.

#include "engine/engine.h"

enum { METRICS_BUCKETS = 14 };

typedef struct metrics_histogram {
    int64_t buckets[METRICS_BUCKETS + 1]; // the last: beyond all bounds
    double sum;
    int64_t count;
} metrics_histogram;

typedef struct metrics {
    int64_t accepted, refused, cancelled, failed, finished;
    metrics_histogram first_token, per_token, whole; // seconds
} metrics;

void metrics_observe(metrics_histogram *histogram, double seconds);

// Sums of what several have counted, as far as the page tells it.
void metrics_add(metrics *to, const metrics *more);
void metrics_add_scheduler(engine_scheduler_info *to, const engine_scheduler_info *more);
void metrics_add_worker(engine_worker_info *to, const engine_worker_info *more);

// Appends the page in the text format of Prometheus; false when memory is short.
bool metrics_write(const metrics *m, const engine_scheduler_info *scheduler,
                   const engine_worker_info *worker, int32_t connections, tokenizer_text *text);

#endif
