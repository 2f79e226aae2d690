// SPDX-License-Identifier: MIT
// The clock and the ceilings.
#include <math.h>
#include <stdlib.h>

#include "cli/bench/bench.h"

enum { MAX_RUNS = 50000, MIN_RUNS = 3, ROUNDS = 4, RECORDED = 32 };

typedef struct samples {
    double us[MAX_RUNS];
    int32_t count;
} samples;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// What is measured, and its clock: the host's, or the device's own round many runs that were recorded.
typedef struct stopwatch {
    bench *run;
    bench_body *body;
    void *user;
    weft_program *program; // RECORDED runs; NULL: the host's clock
    weft_event *begin, *end;
} stopwatch;

static bool record(stopwatch *watch)
{
    weft_context *context = watch->run->context;
    if (weft_program_begin(context, &watch->program) != WEFT_OK)
        return false;
    for (int i = 0; i < RECORDED; i++)
        if (!watch->body(watch->user))
            return false;
    return weft_program_end(watch->program) == WEFT_OK &&
           weft_event_create(context, &watch->begin) == WEFT_OK &&
           weft_event_create(context, &watch->end) == WEFT_OK;
}

// Runs the body once, which compiles what it needs, and on a device records it.
static bool start(stopwatch *watch)
{
    const bench *run = watch->run;
    return watch->body(watch->user) && weft_stream_synchronize(run->context, NULL) == WEFT_OK &&
           (run->options.device == WEFT_DEVICE_CPU || record(watch));
}

static void put_away(stopwatch *watch)
{
    weft_event_destroy(watch->begin);
    weft_event_destroy(watch->end);
    weft_program_destroy(watch->program);
}

static bool sample(const stopwatch *watch, double *us)
{
    double before = cli_now_seconds();
    if (!watch->program) {
        bool fine = watch->body(watch->user);
        *us = (cli_now_seconds() - before) * 1e6;
        return fine;
    }
    bool fine = weft_event_record(watch->begin, NULL) == WEFT_OK &&
                weft_program_launch(watch->program, NULL) == WEFT_OK &&
                weft_event_record(watch->end, NULL) == WEFT_OK &&
                weft_event_elapsed_us(watch->begin, watch->end, us) == WEFT_OK;
    *us /= RECORDED;
    return fine;
}

static bool collect(samples *taken, const stopwatch *watch, double seconds, int32_t at_least)
{
    double begin = cli_now_seconds();
    for (int32_t runs = 0; taken->count < MAX_RUNS; runs++) {
        if (runs >= at_least && cli_now_seconds() - begin >= seconds)
            break;
        if (!sample(watch, &taken->us[taken->count++]))
            return false;
    }
    return true;
}

bench_time bench_summary(double *us, int32_t runs)
{
    qsort(us, (size_t)runs, sizeof *us, by_value);
    return (bench_time){(us[(runs - 1) / 2] + us[runs / 2]) / 2, us[0], runs};
}

static bool measure_rounds(const stopwatch *watch, const char *what, samples *taken,
                           bench_roof *roof)
{
    bench *run = watch->run;
    for (int round = 0; round < ROUNDS; round++) {
        bench_progress(run, "measuring %s, %d of %d", what, round + 1, ROUNDS);
        if (!bench_raise_roof(run, roof))
            return false;
        if (!collect(taken, watch, (double)run->seconds / ROUNDS, 1))
            return bench_error(run);
    }
    return true;
}

bool bench_measure_under(bench *run, const char *what, bench_body *body, void *user,
                         bench_time *time, bench_roof *roof)
{
    static samples taken;
    stopwatch watch = {.run = run, .body = body, .user = user};
    taken.count = 0;
    *roof = (bench_roof){0};
    bool fine = start(&watch);
    fine = fine ? measure_rounds(&watch, what, &taken, roof) : bench_error(run);
    put_away(&watch);
    if (fine)
        *time = bench_summary(taken.us, taken.count);
    return fine && bench_raise_roof(run, roof);
}

// A read is a slice of the memory, as long as a large matrix, so that on a shared machine it is disturbed
// as often as what it is compared with; the slices take turns. A GPU reads one of those in the time that a
// kernel takes to start, which is 1 % of what reading 4 GiB takes.
enum { SLICE_BYTES = 32 << 20 };
static const int64_t DEVICE_SLICE_BYTES = 4ll << 30;

typedef struct probe {
    bench *run;
    weft_probe_args args;
    weft_probe_result result; // of the last run
    void *own_memory;         // not the run's; or NULL
} probe;

static bool run_probe(probe *p, double *us)
{
    if (!p->own_memory)
        p->args.memory = p->run->memory + bench_next_copy(p->run, p->args.bytes) * p->args.bytes;
    double before = cli_now_seconds();
    if (weft_probe_run(p->run->context, &p->args, &p->result) != WEFT_OK)
        return false;
    *us = p->result.device_us > 0 ? p->result.device_us : (cli_now_seconds() - before) * 1e6;
    return true;
}

// For about `seconds` and at least MIN_RUNS times, once beforehand unmeasured.
static bool measure_probe(probe *p, double seconds, bench_time *time)
{
    static samples taken;
    double us;
    taken.count = 0;
    if (!run_probe(p, &us))
        return false;
    double begin = cli_now_seconds();
    while (taken.count < MAX_RUNS &&
           (taken.count < MIN_RUNS || cli_now_seconds() - begin < seconds))
        if (!run_probe(p, &taken.us[taken.count++]))
            return false;
    *time = bench_summary(taken.us, taken.count);
    return true;
}

static int64_t slice_bytes(const bench *run)
{
    weft_device_info device = {.size = sizeof device};
    if (run->options.device == WEFT_DEVICE_CPU)
        return SLICE_BYTES;
    const bool told =
        weft_device_describe(run->options.device, run->options.device_index, &device) == WEFT_OK;
    return told && device.memory_bytes / 8 < DEVICE_SLICE_BYTES ? device.memory_bytes / 8
                                                                : DEVICE_SLICE_BYTES;
}

// Memory to read on a device, where the run's is less than a slice.
static bool take_memory(probe *p)
{
    bench *run = p->run;
    const int64_t bytes = slice_bytes(run) / WEFT_PROBE_UNIT_BYTES * (int64_t)WEFT_PROBE_UNIT_BYTES;
    if (p->args.kind != WEFT_PROBE_READ || run->hot || run->options.device == WEFT_DEVICE_CPU ||
        run->memory_bytes >= bytes)
        return true;
    p->args.memory = p->own_memory = bench_allocate(run, (size_t)bytes);
    if (p->own_memory)
        p->args.bytes = bytes;
    return p->own_memory &&
           (weft_fill(run->context, p->own_memory, 1, (size_t)p->args.bytes, NULL) == WEFT_OK ||
            bench_error(run));
}

bool bench_probe(bench *run, weft_probe_kind kind, const char *variant, double seconds,
                 bench_time *time, double *amount)
{
    // Steps: some hundred microseconds, long against starting the threads; a step of matrix products is longer.
    const int64_t most = slice_bytes(run);
    const int64_t slice = run->hot || run->memory_bytes < most ? run->memory_bytes : most;
    probe p = {.run = run,
               .args = {.size = sizeof p.args,
                        .kind = kind,
                        .bytes = slice,
                        .steps = kind == WEFT_PROBE_MMA_F16 ? 1 << 13 : 1 << 16,
                        .variant = variant}};
    bool fine = take_memory(&p) && (measure_probe(&p, seconds, time) || bench_error(run));
    if (p.own_memory)
        weft_memory_free(run->context, p.own_memory);
    *amount = kind == WEFT_PROBE_READ ? (double)p.args.bytes : 2 * (double)p.result.value;
    return fine;
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

double bench_roof_gflops(const bench *run, const bench_roof *roof, bench_products products)
{
    if (run->options.device != WEFT_DEVICE_CPU)
        return roof->mma_gflops;
    switch (products) {
    case BENCH_INT8: return roof->dot_gflops;
    case BENCH_INT16: return roof->dot_gflops / 2; // issued as often, half as many a vector
    case BENCH_BF16: return roof->bf16_gflops;
    case BENCH_F32: break;
    }
    return roof->fma_gflops;
}

bool bench_raise_roof(bench *run, bench_roof *roof)
{
    double seconds = (double)run->seconds / 8;
    if (run->options.device != WEFT_DEVICE_CPU)
        return raise(run, WEFT_PROBE_READ, seconds, &roof->gbps) &&
               raise(run, WEFT_PROBE_MMA_F16, seconds / 8, &roof->mma_gflops);
    return raise(run, WEFT_PROBE_READ, seconds, &roof->gbps) &&
           raise(run, WEFT_PROBE_FMA_F32, seconds / 8, &roof->fma_gflops) &&
           raise(run, WEFT_PROBE_DOT_I8, seconds / 8, &roof->dot_gflops) &&
           raise(run, WEFT_PROBE_DOT_BF16, seconds / 8, &roof->bf16_gflops);
}

enum { TURNS = 7 };

static bool take_turn(const stopwatch *watch, double seconds, double *us)
{
    enum { MOST = 4096 };
    static double taken[MOST];
    int32_t count = 0;
    double begin = cli_now_seconds();
    while (count < 3 || (count < MOST && cli_now_seconds() - begin < seconds))
        if (!sample(watch, &taken[count++]))
            return bench_error(watch->run);
    *us = bench_summary(taken, count).us_median;
    return true;
}

static bool take_turns(const stopwatch watches[], const char *what, int32_t count, double us[])
{
    bench *run = watches->run;
    double turns[BENCH_MAX_RACERS][TURNS];
    for (int32_t turn = 0; turn < TURNS; turn++) {
        bench_progress(run, "measuring %s, %d of %d", what, turn + 1, TURNS);
        for (int32_t n = 0; n < count; n++) {
            int32_t i = (n + turn) % count; // nobody always comes behind the same one
            if (watches[i].user &&
                !take_turn(&watches[i], (double)run->seconds / TURNS, &turns[i][turn]))
                return false;
        }
    }
    for (int32_t i = 0; i < count; i++)
        us[i] = watches[i].user ? bench_summary(turns[i], TURNS).us_median : INFINITY;
    return true;
}

bool bench_race(bench *run, const char *what, bench_body *body, void *const users[], int32_t count,
                double us[])
{
    stopwatch watches[BENCH_MAX_RACERS];
    bool fine = true;
    for (int32_t i = 0; i < count; i++)
        watches[i] = (stopwatch){.run = run, .body = body, .user = users[i]};
    for (int32_t i = 0; fine && i < count && run->options.device != WEFT_DEVICE_CPU; i++)
        fine = !users[i] || start(&watches[i]) || bench_error(run);
    fine = fine && take_turns(watches, what, count, us);
    for (int32_t i = 0; i < count; i++)
        put_away(&watches[i]);
    return fine;
}
