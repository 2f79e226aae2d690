// SPDX-License-Identifier: MIT
// weft tune linear: from how many rows of X panels serve, and how long a task is.
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench_linear.h"
#include "cli/tune/tune.h"
#include "cli/tune/tune_linear.h"

static const char help[] =
    "usage: weft tune linear [options]\n"
    "\n"
    "Measures, on this machine, the sizes that plans of linear layers choose by, holds every\n"
    "candidate against the reference kernel before it counts, and writes what is best to a table\n"
    "that plans read from then on (weft info --kernels shows it).\n"
    "\n"
    "  few_batch           rows of X up to which kernels for a few serve; more go to panels\n"
    "  task_bytes          weights of a task, one row of X\n"
    "  tasks_per_thread    64 rows of X\n"
    "  kernel              on a GPU, instead: the kernel for one row of X\n"
    "\n"
    "Columns: what a candidate costs in microseconds (of few_batch: the times at 2 to 8 rows\n"
    "over the best of each, added up), that of the library's own value over it, and its worst\n"
    "error over its bound. A candidate is chosen if it is more than a thirtieth faster than the\n"
    "library's own.\n"
    "\n"
    "  --format F,...      formats of W, or all (default q4_0,q8_0,q4_k,q6_k,f16,bf16)\n"
    "  --shapes NxK,...    rows and columns of W (default those of a 1B and an 8B model)\n"
    "  --out FILE          the table (default the machine's own, as include/weft/tuning.h says);\n"
    "                      entries that it has for other problems stay\n"
    "  --threads T         threads; default one per core\n"
    "  --device D          cpu (default), cuda or cuda:N\n"
    "  --seconds S         time for each candidate; default 0.3\n"
    "  --working-set MIB   memory to rotate over\n"
    "  --json              one JSON object per candidate\n";

enum { MAX_SHAPES = 32 };

typedef struct request {
    linear_request linear; // of one problem; its run is that of the command
    const char *out;
    int32_t rows[MAX_SHAPES], cols[MAX_SHAPES], shapes;
    weft_context *judge; // whose reference kernels are asked: the CPU's
    tune_findings findings;
} request;

static bool take_shapes(void *to, const char *text)
{
    request *wish = to;
    int used = 0;
    for (wish->shapes = 0; *text && wish->shapes < MAX_SHAPES; wish->shapes++, text += used) {
        int32_t *rows = &wish->rows[wish->shapes], *cols = &wish->cols[wish->shapes];
        if (sscanf(text, "%9dx%9d%n", rows, cols, &used) != 2 || *rows < 1 || *cols < 1)
            break;
        used += text[used] == ',';
    }
    if (*text || !wish->shapes)
        cli_bad_usage(wish->linear.run.self, "--shapes must be rows and columns such as "
                                             "4096x14336,2048x2048");
    return !*text && wish->shapes;
}

static const bench_option options[] = {
    {"format", BENCH_FORMATS, .offset = offsetof(request, linear.formats)},
    {"shapes", .kind = BENCH_OTHER, .take = take_shapes},
    {"out", BENCH_TEXT, .offset = offsetof(request, out)},
    {0},
};

// A problem of `batch` rows of X as a candidate does it, checked.
static bool make_problem(request *wish, const char *weights, weft_dtype format, int32_t batch,
                         tune_candidate *candidate, linear_problem *p)
{
    *p = (linear_problem){
        .wish = &wish->linear, .weights = weights, .format = format, .batch = batch};
    return tune_apply(&wish->linear.run, candidate) && linear_make_ready(p) &&
           tune_linear_check(p, wish->judge, &candidate->worst);
}

// Times the candidates at one number of rows of X.
static bool race(request *wish, const char *weights, weft_dtype format, int32_t batch,
                 tune_candidate candidates[], int32_t count)
{
    linear_problem problems[TUNE_MAX_CANDIDATES] = {0};
    void *users[TUNE_MAX_CANDIDATES];
    double us[TUNE_MAX_CANDIDATES];
    bool fine = true;
    int32_t made = 0;
    for (; fine && made < count; made++) {
        fine = make_problem(wish, weights, format, batch, &candidates[made], &problems[made]);
        users[made] = &problems[made];
    }
    fine = fine && bench_race(&wish->linear.run, weft_plan_describe(problems[0].plan),
                              linear_run_once, users, count, us);
    for (int32_t i = 0; fine && i < count; i++)
        candidates[i].cost = us[i];
    for (int32_t i = 0; i < made; i++)
        linear_drop(&problems[i]);
    return fine;
}

// The rows of X from which panels serve where nobody says: 0 if the machine has kernels of one kind alone.
static bool own_threshold(request *wish, weft_dtype format, int32_t *few)
{
    char first[96] = "";
    weft_tuning_clear(wish->linear.run.context);
    *few = 0;
    for (int32_t batch = 1; batch <= 9; batch++) {
        const weft_linear_desc desc = {.size = sizeof desc,
                                       .weight_dtype = format,
                                       .max_batch = batch,
                                       .rows = wish->linear.rows,
                                       .cols = wish->linear.cols};
        weft_plan *plan = NULL;
        if (weft_linear_plan(wish->linear.run.context, &desc, &plan) != WEFT_OK)
            return bench_error(&wish->linear.run);
        bench_kernel kernel = bench_kernel_of(&wish->linear.run, plan);
        weft_plan_destroy(plan);
        if (batch == 1)
            snprintf(first, sizeof first, "%s", kernel.name);
        if (strcmp(first, kernel.name) != 0) {
            *few = batch - 1;
            return true;
        }
    }
    return true;
}

enum { BATCHES = 6 };
static const int32_t batches[BATCHES] = {2, 3, 4, 5, 6, 8};

// What a threshold costs: the times at every number of rows over the best of each, added up.
static void weigh_threshold(tune_candidate *candidate, tune_candidate ways[BATCHES][2])
{
    candidate->cost = candidate->worst = 0;
    for (int i = 0; i < BATCHES; i++) {
        const tune_candidate *way = &ways[i][batches[i] > candidate->entry.few_batch];
        candidate->cost += way->cost / fmin(ways[i][0].cost, ways[i][1].cost);
        candidate->worst = way->worst <= candidate->worst ? candidate->worst : way->worst;
    }
}

static bool tune_threshold(request *wish, const char *weights, weft_dtype format,
                           const char *problem, weft_tuning *entry)
{
    tune_candidate ways[BATCHES][2], candidates[BATCHES + 1];
    int32_t own;
    if (!own_threshold(wish, format, &own))
        return false;
    if (!own)
        return true;
    for (int i = 0; i < BATCHES; i++) {
        for (int panels = 0; panels < 2; panels++)
            ways[i][panels] =
                (tune_candidate){.entry = {.op = WEFT_TUNING_LINEAR, .few_batch = panels ? 1 : 8}};
        if (!race(wish, weights, format, batches[i], ways[i], 2))
            return false;
    }
    for (int i = 0; i <= BATCHES; i++) {
        int32_t few = i ? batches[i - 1] : 1;
        candidates[i] = (tune_candidate){.entry = {.op = WEFT_TUNING_LINEAR, .few_batch = few},
                                         .is_default = few == own};
        snprintf(candidates[i].label, sizeof candidates[i].label, "few_batch=%d", few);
        weigh_threshold(&candidates[i], ways);
    }
    const tune_candidate *best = tune_best(candidates, BATCHES + 1);
    entry->few_batch = best ? best->entry.few_batch : 0;
    return tune_print(&wish->linear.run, "tune linear", problem, candidates, BATCHES + 1);
}

// One member of an entry, with its candidates; the library's own is that which tuning says without entries.
typedef struct choice {
    const char *name;
    size_t offset;
    int32_t batch, count, values[6];
} choice;

static bool tune_choice(request *wish, const char *weights, weft_dtype format, const char *problem,
                        const choice *what, weft_tuning *entry)
{
    tune_candidate candidates[TUNE_MAX_CANDIDATES];
    const weft_tuning any = {.size = sizeof any, .op = WEFT_TUNING_LINEAR};
    weft_tuning own = {.size = sizeof own};
    weft_tuning_clear(wish->linear.run.context);
    weft_tuning_choose(wish->linear.run.context, &any, &own);
    for (int32_t i = 0; i < what->count; i++) {
        candidates[i] = (tune_candidate){.entry = {.op = WEFT_TUNING_LINEAR}};
        memcpy((char *)&candidates[i].entry + what->offset, &what->values[i], sizeof(int32_t));
        candidates[i].is_default =
            memcmp((char *)&own + what->offset, &what->values[i], sizeof(int32_t)) == 0;
        snprintf(candidates[i].label, sizeof candidates[i].label, "%s=%d", what->name,
                 what->values[i]);
    }
    if (!race(wish, weights, format, what->batch, candidates, what->count))
        return false;
    const tune_candidate *best = tune_best(candidates, what->count);
    if (best)
        memcpy((char *)entry + what->offset, (const char *)&best->entry + what->offset,
               sizeof(int32_t));
    return tune_print(&wish->linear.run, "tune linear", problem, candidates, what->count);
}

// On a GPU: the kernel itself, among those that compute alike. The first is the library's own.
static int32_t list_kernels(const request *wish, weft_dtype format, tune_candidate candidates[])
{
    static const char *const shapes[] = {"", "standard_", "large_", "wide_"};
    const char *acts = weft_dtype_block_elems(format) > 1 ? "q8" : "f32";
    int32_t count = 0;
    for (int i = 0; i < 4; i++) {
        char name[64];
        weft_kernel_info info;
        snprintf(name, sizeof name, "linear_%s_%s_%ssm80", weft_dtype_name(format), acts,
                 shapes[i]);
        for (int32_t n = 0; weft_kernel_at(wish->linear.run.context, n, &info); n++)
            if (info.usable && strcmp(info.name, name) == 0) {
                tune_candidate *next = &candidates[count++];
                *next = (tune_candidate){.entry = {.op = WEFT_TUNING_LINEAR}, .is_default = i == 0};
                snprintf(next->entry.kernel, sizeof next->entry.kernel, "%s", name);
                snprintf(next->label, sizeof next->label, "%s",
                         i ? shapes[i] : weft_dtype_name(format));
            }
    }
    return count;
}

static bool tune_kernel(request *wish, const char *weights, weft_dtype format, const char *problem,
                        weft_tuning *entry)
{
    tune_candidate candidates[TUNE_MAX_CANDIDATES];
    const int32_t count = list_kernels(wish, format, candidates);
    if (count < 2 || !race(wish, weights, format, 1, candidates, count))
        return count < 2;
    const tune_candidate *best = tune_best(candidates, count);
    if (best)
        memcpy(entry->kernel, best->entry.kernel, sizeof entry->kernel);
    return tune_print(&wish->linear.run, "tune linear", problem, candidates, count) &&
           (!best || tune_keep(&wish->linear.run, &wish->findings, entry));
}

static bool tune_problem(request *wish, weft_dtype format)
{
    static const choice choices[] = {
        {"task_bytes",
         offsetof(weft_tuning, task_bytes),
         1,
         5,
         {49152, 98304, 196608, 393216, 786432}},
        {"tasks_per_thread", offsetof(weft_tuning, tasks_per_thread), 64, 4, {2, 4, 8, 16}},
    };
    char problem[64];
    linear_request *linear = &wish->linear;
    weft_tuning entry = {
        .op = WEFT_TUNING_LINEAR, .dtype = format, .rows = linear->rows, .cols = linear->cols};
    if (linear->cols % weft_dtype_block_elems(format) != 0)
        return true; // such a matrix does not exist
    snprintf(problem, sizeof problem, "%s %dx%d", weft_dtype_name(format), linear->rows,
             linear->cols);
    char *weights = linear_make_weights(linear, format);
    if (wish->judge) {
        bool done = weights && tune_kernel(wish, weights, format, problem, &entry);
        free(weights);
        return done;
    }
    bool fine = weights && tune_threshold(wish, weights, format, problem, &entry);
    for (int i = 0; fine && i < 2; i++)
        fine = tune_choice(wish, weights, format, problem, &choices[i], &entry);
    free(weights);
    return fine && tune_keep(&linear->run, &wish->findings, &entry);
}

static int tune_linear_main(const cli_command *self, int argc, char **argv)
{
    static request wish;
    wish = (request){
        .linear = {.run = bench_default(self),
                   .formats = {{WEFT_Q4_0, WEFT_Q8_0, WEFT_Q4_K, WEFT_Q6_K, WEFT_F16, WEFT_BF16},
                               6}},
        .rows = {2048, 512, 8192, 2048, 128256, 4096, 14336, 4096},
        .cols = {2048, 2048, 2048, 8192, 2048, 4096, 4096, 14336},
        .shapes = 8};
    wish.linear.run.seconds = 0.3f;
    int status = tune_parse(&wish.linear.run, options, argc, argv);
    if (status >= 0)
        return status;
    bool fine = bench_begin(&wish.linear.run);
    if (fine && wish.linear.run.options.device != WEFT_DEVICE_CPU)
        fine = weft_context_create(NULL, &wish.judge) == WEFT_OK;
    for (int32_t f = 0; fine && f < wish.linear.formats.count; f++)
        for (int32_t s = 0; fine && s < wish.shapes; s++) {
            wish.linear.rows = wish.rows[s];
            wish.linear.cols = wish.cols[s];
            fine = tune_problem(&wish, wish.linear.formats.values[f]);
        }
    status = fine ? tune_write(&wish.linear.run, &wish.findings, wish.out) : CLI_FAILED;
    weft_context_destroy(wish.judge);
    bench_end(&wish.linear.run);
    return status;
}

const cli_command tune_linear = {"tune linear", "linear layers", {help}, tune_linear_main};
