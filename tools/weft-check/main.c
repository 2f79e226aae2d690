// SPDX-License-Identifier: MIT
// weft-check: holds every kernel of the library against the reference.
//
// It walks the kernel tables that plans choose from, instruction set by instruction set, so that a
// kernel is checked because it is dispatched, not because somebody remembered to list it.
#define _GNU_SOURCE
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/backend/backend.h"
#include "src/backend/cpu/cpu.h"
#include "src/kernels/check.h"
#include "tools/weft-check/bench.h"
#include "tools/weft-check/check_case.h"
#include "tools/weft-check/check_memory.h"

// An operation without a check links all the same, and fails.
#define DECLARE_CHECK(op) extern check_fn weft__##op##_check __attribute__((weak));
WEFT__OP_MAP(DECLARE_CHECK)

static check_fn *const checks[] = {
#define CHECK_OF(op) weft__##op##_check,
    WEFT__OP_MAP(CHECK_OF)};

struct options {
    const char *op, *isa, *variant, *backend;
    const struct weft__backend *table; // of that name
    weft_dtype format;
    int cases, part, parts;              // kernels of part 1..parts
    int lengths, each, problem, seconds; // problem: the only one of a case, or -1
    uint64_t seed;
    bool json, list, bench;
};

// Of a kernel: problems, and the cases that they were put in.
struct tally {
    const struct weft__kernel *row;
    check_fn *check;
    long passed, failed, cases;
    double worst, distance;
};

// The kernels that are checked.
struct tallies {
    struct tally *of;
    int count;
    long passed, failed;
};

static const char usage[] =
    "usage: weft-check [options]\n"
    "\n"
    "Holds every kernel against the plain C reference on random and hostile problems: odd shapes,\n"
    "part-filled pages, guard pages behind every buffer, canaries round every result. The verdict "
    "is\n"
    "per element: |result - reference| <= bound; `worst` is the largest error over its bound.\n"
    "A kernel that rounds its input is held against a reference that rounds likewise; `distance`\n"
    "tells how far from exact it comes (linear: |error| over sum |w||x|).\n"
    "\n"
    "  --op OP          only this operation: linear, attention, kv, norm, rope, ...\n"
    "  --backend B      cpu (default) or cuda, whose kernels are held against the CPU's reference\n"
    "  --format F       only problems of this weight or KV format, e.g. q4_k, bf16\n"
    "  --isa I          only kernels of this instruction set: ref, avx2, avx512, neon, ...\n"
    "  --variant V      only the kernel of this name\n"
    "  --cases N        problems per kernel (default 100)\n"
    "  --seconds S      instead of --cases: cases of all kernels in turn until S seconds are over\n"
    "  --lengths N      attention, linear: problems of a case, of one shape with other lengths, "
    "values\n"
    "                   and modes (default 1, of attention compiled for a shape 6)\n"
    "  --each N         attention: N problems of each of those modes, which share compiled "
    "kernels\n"
    "                   and differ in lengths, pages, values and splits (default 1)\n"
    "  --problem K      attention with --each: of a case the K-th problem alone, from 0; a "
    "failure\n"
    "                   prints it\n"
    "  --part K/N       only the K-th of N parts of the kernels, for several processes\n"
    "  --seed S         seed of the first problem (default: from the clock); a failure prints its\n"
    "                   own, replay it with --seed S --cases 1 --variant V\n"
    "  --list           list the kernels that would be checked\n"
    "  --bench          measure instead of checking: every kernel of linear and attention against "
    "the\n"
    "                   ceilings of this machine, as weft bench does\n"
    "  --json           one JSON object per kernel\n"
    "\n"
    "The last line is \"N passed, N failed\" (problems); the exit status is 0 only if none "
    "failed.\n";

static int bad_usage(const char *text, const char *detail)
{
    fprintf(stderr, "weft-check: %s%s; see weft-check --help\n", text, detail);
    return 2;
}

// FNV-1a. Every kernel draws problems of its own from a seed.
static uint64_t hash(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return h;
}

static bool wanted(const struct options *options, const struct weft__kernel *row)
{
    uint64_t part = (hash(row->name) >> 32) % (uint64_t)options->parts + 1;
    return part == (uint64_t)options->part && (!options->op || strcmp(options->op, row->op) == 0) &&
           (!options->variant || strcmp(options->variant, row->name) == 0) &&
           (!options->isa || strcmp(options->isa, options->table->level_name(row->level)) == 0);
}

static void print_failure(const struct options *options, const struct check_case *c)
{
    char which[96] = "";
    size_t used = 0;
    if (options->lengths)
        used += (size_t)snprintf(which, sizeof which, " --lengths %d", options->lengths);
    if (options->each)
        used += (size_t)snprintf(which + used, sizeof which - used, " --each %d", options->each);
    if (c->problem > 0)
        snprintf(which + used, sizeof which - used, " --problem %d", c->problem);
    printf("FAILED %s: %s\n       %s\n"
           "       replay: weft-check --backend %s --variant %s --seed %llu --cases 1%s\n",
           c->kernel->name, c->failure, c->note, options->backend, c->kernel->name,
           (unsigned long long)c->seed, which);
    fflush(stdout);
}

// `level` is that of the contexts, below 0 for that of the row.
static void print_kernel(const struct options *options, const struct tally *tally, int32_t level)
{
    const struct weft__kernel *row = tally->row;
    const char *isa = options->table->level_name(level < 0 ? row->level : level);
    if (options->json)
        printf("{\"op\":\"%s\",\"kernel\":\"%s\",\"isa\":\"%s\",\"cases\":%ld,\"passed\":%ld,"
               "\"failed\":%ld,\"worst\":%.4g,\"distance\":%.4g}\n",
               row->op, row->name, isa, tally->cases, tally->passed, tally->failed,
               isinf(tally->worst) ? 1e30 : tally->worst, tally->distance);
    else
        printf("%-11s %-40s %-11s %6ld cases  worst %8.4f  %s", row->op, row->name, isa,
               tally->passed + tally->failed, tally->worst, tally->failed ? "FAILED" : "ok");
    if (!options->json)
        printf(tally->distance > 0 ? "  distance %.2g\n" : "\n", tally->distance);
    fflush(stdout);
}

// Where kernels run, in turn, and where references do (NULL: at the same place).
struct places {
    weft_context *contexts[3], *reference;
    int32_t level; // of the contexts; -1: all of the device
};

// Checks one kernel on cases [first, first + cases) with contexts of 1, 2 and 3 threads in turn.
static void check_kernel(const struct options *options, struct tally *tally,
                         const struct places *at, int first, int cases)
{
    for (int i = first; i < first + cases; i++) {
        struct check_case c = {.context = at->contexts[(options->seed + (uint64_t)i) % 3],
                               .reference = at->reference,
                               .kernel = tally->row,
                               .format = options->format,
                               .seed = options->seed + (uint64_t)i,
                               .index = i,
                               .lengths = options->lengths,
                               .each = options->each,
                               .only = options->problem,
                               .problem = -1};
        c.state = c.seed * 0xd1342543de82ef95u ^ hash(tally->row->name);
        if (tally->check)
            check_case_run(&c, tally->check);
        else
            check_fail(&c, "the operation has no check");
        if (c.skipped && !c.failed)
            continue;
        if (c.failed && tally->failed < 3)
            print_failure(options, &c);
        tally->cases++;
        tally->failed += c.failed;
        tally->passed += (c.problems ? c.problems : 1) - c.failed;
        tally->worst = fmax(tally->worst, c.worst);
        tally->distance = fmax(tally->distance, c.distance);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// All kernels, one after the other, or in turn for some time: from one that follows from the seed, so that several
// processes do not begin with the same.
static void check_kernels(const struct options *options, const struct places *at,
                          struct tallies *all)
{
    const double end = now() + options->seconds;
    const int first = all->count ? (int)(options->seed % (uint64_t)all->count) : 0;
    for (int turn = first; options->seconds && all->count && now() < end; turn++)
        check_kernel(options, &all->of[turn % all->count], at, turn / all->count, 1);
    for (int i = 0; i < all->count; i++) {
        struct tally *tally = &all->of[i];
        if (!options->seconds)
            check_kernel(options, tally, at, 0, options->cases);
        if (tally->passed + tally->failed)
            print_kernel(options, tally, at->level);
        all->passed += tally->passed;
        all->failed += tally->failed;
    }
    check_memory_release();
}

// Contexts that may use no more than `level`.
static bool open_contexts(const char *level, weft_context *contexts[3])
{
    setenv("WEFT_CPU", level, 1);
    for (int i = 0; i < 3; i++) {
        weft_context_desc desc = {.size = sizeof desc, .threads = i + 1};
        if (weft_context_create(&desc, &contexts[i]) != WEFT_OK) {
            fprintf(stderr, "weft-check: %s\n", weft_error_text(NULL));
            return false;
        }
    }
    return true;
}

// One row of a table: lists it, measures it, or puts it down to be checked.
static bool take_row(const struct options *options, enum weft__op op,
                     const struct weft__kernel *row, struct tallies *all)
{
    if (options->list) {
        printf("%-11s %s\n", row->op, row->name);
        return true;
    }
    if (options->bench)
        return check_bench(row, options->json) == 0;
    struct tally *of = realloc(all->of, (size_t)(all->count + 1) * sizeof *of);
    if (!of)
        abort();
    all->of = of;
    all->of[all->count++] = (struct tally){.row = row, .check = checks[op]};
    return true;
}

// Experts run the kernels of linear, which have levels that experts' own kernels do not have.
static bool is_best_of_experts(const struct weft__backend *backend, enum weft__op op,
                               const struct weft__kernel *row, const weft_context *context)
{
    const struct weft__kernel_table *table = backend->tables[op];
    const char *first = table->rows;
    while (!backend->fits(context, (const void *)first))
        first += table->row_bytes;
    return op == WEFT__OP_experts && (const void *)first == (const void *)row;
}

// All rows of the backend of that level (-1: all that the context can run).
static bool check_rows(const struct options *options, const struct places *at,
                       struct tallies *total)
{
    const struct weft__backend *backend = options->table;
    struct tallies all = {0};
    bool done = true;
    for (int op = 0; op < WEFT__OP_COUNT; op++) {
        const struct weft__kernel_table *table = backend->tables[op];
        for (int32_t i = 0; i < table->count && done; i++) {
            const struct weft__kernel *row =
                (const void *)((const char *)table->rows + (size_t)i * (size_t)table->row_bytes);
            bool meant = at->level < 0 ? backend->fits(at->contexts[0], row)
                                       : row->level == at->level ||
                                             is_best_of_experts(backend, (enum weft__op)op, row,
                                                                at->contexts[0]);
            if (meant && wanted(options, row))
                done = take_row(options, (enum weft__op)op, row, &all);
        }
    }
    check_kernels(options, at, &all);
    total->passed += all.passed;
    total->failed += all.failed;
    free(all.of);
    return done;
}

static bool check_level(const struct options *options, enum weft__isa isa, struct tallies *total)
{
    struct places at = {.level = (int32_t)isa};
    if (!open_contexts(weft__cpu_level_name((int32_t)isa), at.contexts))
        return false;
    bool done = check_rows(options, &at, total);
    for (int i = 0; i < 3; i++)
        weft_context_destroy(at.contexts[i]);
    return done;
}

static bool check_cpu(const struct options *options, struct tallies *total)
{
    uint32_t mask = weft__cpu_isa_mask();
    const char *limit = getenv("WEFT_CPU");
    if (limit && *limit)
        weft__cpu_lower(&mask, limit);
    for (enum weft__isa isa = 0; isa < WEFT__ISA_COUNT; isa++)
        if (mask >> isa & 1 && !check_level(options, isa, total))
            return false;
    return true;
}

static bool check_cuda(const struct options *options, struct tallies *total)
{
    weft_context_desc desc = {.size = sizeof desc, .device = WEFT_DEVICE_CUDA};
    struct places at = {.level = -1};
    if (weft_context_create(NULL, &at.reference) != WEFT_OK ||
        weft_context_create(&desc, &at.contexts[0]) != WEFT_OK) {
        fprintf(stderr, "weft-check: %s\n", weft_error_text(NULL));
        weft_context_destroy(at.reference);
        return false;
    }
    at.contexts[1] = at.contexts[2] = at.contexts[0];
    bool done = check_rows(options, &at, total);
    weft_context_destroy(at.contexts[0]);
    weft_context_destroy(at.reference);
    return done;
}

// Returns -1 to go on, or an exit status.
static int parse_option(int option, struct options *options)
{
    switch (option) {
    case 'o': options->op = optarg; return -1;
    case 'b': options->backend = optarg; return -1;
    case 'i': options->isa = optarg; return -1;
    case 'v': options->variant = optarg; return -1;
    case 'j': options->json = true; return -1;
    case 'l': options->list = true; return -1;
    case 'm': options->bench = true; return -1;
    case 's': options->seed = strtoull(optarg, NULL, 0); return -1;
    case 'n':
        options->cases = atoi(optarg);
        return options->cases > 0 ? -1 : bad_usage("--cases must be positive: ", optarg);
    case 'k':
        options->lengths = atoi(optarg);
        return options->lengths > 0 ? -1 : bad_usage("--lengths must be positive: ", optarg);
    case 'e':
        options->each = atoi(optarg);
        return options->each > 0 ? -1 : bad_usage("--each must be positive: ", optarg);
    case 'q':
        options->problem = atoi(optarg);
        return options->problem >= 0 ? -1 : bad_usage("--problem is a number from 0: ", optarg);
    case 't':
        options->seconds = atoi(optarg);
        return options->seconds > 0 ? -1 : bad_usage("--seconds must be positive: ", optarg);
    case 'p':
        if (sscanf(optarg, "%d/%d", &options->part, &options->parts) == 2 && options->part >= 1 &&
            options->part <= options->parts)
            return -1;
        return bad_usage("--part wants K/N with 1 <= K <= N: ", optarg);
    case 'f':
        options->format = weft_dtype_parse(optarg);
        return options->format ? -1 : bad_usage("unknown format ", optarg);
    case 'h': fputs(usage, stdout); return 0;
    default: return bad_usage("unknown option", "");
    }
}

// What the options ask of each other, and the backend; -1, or an exit status.
static int settle_options(struct options *options)
{
    if (options->problem >= 0 && !options->each)
        return bad_usage("--problem wants --each, of whose problems it is one", "");
    const bool is_cuda = strcmp(options->backend, "cuda") == 0;
    if (!is_cuda && strcmp(options->backend, "cpu") != 0)
        return bad_usage("unknown backend ", options->backend);
    const char *why = "";
    options->table = is_cuda ? weft__backend_cuda(&why) : &weft__backend_cpu;
    if (!options->table) {
        fprintf(stderr, "weft-check: %s\n", why);
        return 1;
    }
    uint32_t every = ~0u;
    const char *limit = getenv("WEFT_CPU");
    if (limit && *limit && weft__cpu_lower(&every, limit))
        return bad_usage("unknown instruction set in WEFT_CPU: ", limit);
    return -1;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {{"op", 1, 0, 'o'},
                                                 {"backend", 1, 0, 'b'},
                                                 {"format", 1, 0, 'f'},
                                                 {"isa", 1, 0, 'i'},
                                                 {"variant", 1, 0, 'v'},
                                                 {"cases", 1, 0, 'n'},
                                                 {"seed", 1, 0, 's'},
                                                 {"json", 0, 0, 'j'},
                                                 {"bench", 0, 0, 'm'},
                                                 {"list", 0, 0, 'l'},
                                                 {"help", 0, 0, 'h'},
                                                 {"part", 1, 0, 'p'},
                                                 {"lengths", 1, 0, 'k'},
                                                 {"seconds", 1, 0, 't'},
                                                 {"each", 1, 0, 'e'},
                                                 {"problem", 1, 0, 'q'},
                                                 {0}};
    struct options options = {.cases = 100,
                              .part = 1,
                              .parts = 1,
                              .problem = -1,
                              .backend = "cpu",
                              .seed = (uint64_t)time(NULL)};
    struct tallies total = {0};
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        int status = parse_option(option, &options);
        if (status >= 0)
            return status;
    }
    if (optind < argc)
        return bad_usage("unexpected argument ", argv[optind]);
    const int status = settle_options(&options);
    if (status >= 0)
        return status;
    check_catch_crashes();
    if (!(options.table == &weft__backend_cpu ? check_cpu : check_cuda)(&options, &total))
        return 1;
    if (options.list || options.bench)
        return 0;
    printf("%ld passed, %ld failed\n", total.passed, total.failed);
    if (total.passed + total.failed == 0)
        return bad_usage("nothing to check: no kernel matches", "");
    return total.failed ? 1 : 0;
}
