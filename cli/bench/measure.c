// SPDX-License-Identifier: MIT
// The clock and the ceilings.
#include <stdlib.h>

#include "cli/bench/bench.h"

enum { MAX_RUNS = 50000, MIN_RUNS = 3, ROUNDS = 4 };

typedef struct samples {
    double us[MAX_RUNS];
    int32_t count;
} samples;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool collect(samples *taken, double seconds, int32_t at_least, bench_body *body, void *user)
{
    double begin = cli_now_seconds(), before = begin;
    for (int32_t runs = 0; taken->count < MAX_RUNS; runs++) {
        if (runs >= at_least && before - begin >= seconds)
            break;
        if (!body(user))
            return false;
        double now = cli_now_seconds();
        taken->us[taken->count++] = (now - before) * 1e6;
        before = now;
    }
    return true;
}

bench_time bench_summary(double *us, int32_t runs)
{
    qsort(us, (size_t)runs, sizeof *us, by_value);
    return (bench_time){(us[(runs - 1) / 2] + us[runs / 2]) / 2, us[0], runs};
}

bool bench_measure(double seconds, bench_body *body, void *user, bench_time *time)
{
    static samples taken;
    taken.count = 0;
    if (!body(user) || !collect(&taken, seconds, MIN_RUNS, body, user))
        return false;
    *time = bench_summary(taken.us, taken.count);
    return true;
}

bool bench_measure_under(bench *run, const char *what, bench_body *body, void *user,
                         bench_time *time, bench_roof *roof)
{
    static samples taken;
    taken.count = 0;
    *roof = (bench_roof){0};
    if (!body(user))
        return bench_error(run);
    for (int round = 0; round < ROUNDS; round++) {
        bench_progress(run, "measuring %s, %d of %d", what, round + 1, ROUNDS);
        if (!bench_raise_roof(run, roof))
            return false;
        if (!collect(&taken, (double)run->seconds / ROUNDS, 1, body, user))
            return bench_error(run);
    }
    *time = bench_summary(taken.us, taken.count);
    return bench_raise_roof(run, roof);
}

// A read is a slice of the memory, as long as a large matrix, so that on a shared machine it is disturbed
// as often as what it is compared with; the slices take turns.
enum { SLICE_BYTES = 32 << 20 };

typedef struct probe {
    bench *run;
    weft_probe_args args;
    double products; // of a run, as its chains counted them
} probe;

static bool run_probe(void *user)
{
    probe *p = user;
    weft_probe_result result;
    p->args.memory = p->run->memory + bench_next_copy(p->run, p->args.bytes) * p->args.bytes;
    if (weft_probe_run(p->run->context, &p->args, &result) != WEFT_OK)
        return false;
    p->products = (double)result.value;
    return true;
}

bool bench_probe(bench *run, weft_probe_kind kind, const char *variant, double seconds,
                 bench_time *time, double *amount)
{
    // Steps: some hundred microseconds, long against starting the threads.
    int64_t slice = run->hot || run->memory_bytes < SLICE_BYTES ? run->memory_bytes : SLICE_BYTES;
    probe p = {.run = run,
               .args = {.size = sizeof p.args,
                        .kind = kind,
                        .bytes = slice,
                        .steps = 1 << 16,
                        .variant = variant}};
    if (!bench_measure(seconds, run_probe, &p, time))
        return bench_error(run);
    *amount = kind == WEFT_PROBE_READ ? (double)slice : 2 * p.products;
    return true;
}

static bool raise(bench *run, weft_probe_kind kind, double seconds, double *giga_per_second)
{
    bench_time time = {0};
    double amount = 0;
    if (!bench_probe(run, kind, NULL, seconds, &time, &amount))
        return false;
    // Arithmetic cannot be faster than it is; a read can, where a part of the memory is still in a cache,
    // so the typical one counts.
    double us = kind == WEFT_PROBE_READ ? time.us_median : time.us_min;
    double reached = amount / us * 1e-3;
    if (reached > *giga_per_second)
        *giga_per_second = reached;
    return true;
}

bool bench_raise_roof(bench *run, bench_roof *roof)
{
    double seconds = (double)run->seconds / 8;
    return raise(run, WEFT_PROBE_READ, seconds, &roof->gbps) &&
           raise(run, WEFT_PROBE_FMA_F32, seconds / 8, &roof->fma_gflops) &&
           raise(run, WEFT_PROBE_DOT_I8, seconds / 8, &roof->dot_gflops);
}
