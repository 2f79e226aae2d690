// SPDX-License-Identifier: MIT
// weft tune attention: queries of a tile, keys of a block, and from how many keys on a sequence is done in chunks.
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench_attention.h"
#include "cli/tune/tune.h"

static const char help[] =
    "usage: weft tune attention [options]\n"
    "\n"
    "Measures, on this machine, the sizes that plans of attention choose by, holds every\n"
    "candidate against the reference kernel before it counts, and writes what is best to a table\n"
    "that plans read from then on (weft info --kernels shows it).\n"
    "\n"
    "  tile_rows           queries times heads of a tile: 256 queries over 1024 keys\n"
    "  block_keys          keys between two looks at the largest score: 1, 16 and 256 queries\n"
    "  least_chunk         keys that are worth a task: one query over 512, 2048 and 8192 keys\n"
    "  target_tasks        tasks that chunks are cut for: likewise\n"
    "\n"
    "On a GPU, with queries of the cache's format, instead:\n"
    "\n"
    "  kernel              256 and 4096 queries\n"
    "  tile_rows           likewise\n"
    "  few_keys            one query over 1024 to 8192 keys: up to where two launches share the\n"
    "                      device\n"
    "  cluster_keys        one query over 8192 to 131072 keys: up to where clusters read them\n"
    "\n"
    "Columns: what a candidate costs in microseconds per key, added up, that of the library's\n"
    "own value over it, and its worst error over its bound. A candidate is chosen if it is more\n"
    "than a thirtieth faster than the library's own.\n"
    "\n"
    "  --kv-dtype D,...    formats of the cache (default f16)\n"
    "  --heads H           query heads (default 32)\n"
    "  --kv-heads G        KV heads, a divisor of H (default 8)\n"
    "  --head-dims D,...   elements of a head (default 64,128)\n"
    "  --page-size P       keys per page (default 64)\n"
    "  --out FILE          the table (default the machine's own, as include/weft/tuning.h says);\n"
    "                      entries that it has for other problems stay\n"
    "  --budget SECONDS    time for everything (default 600): what it does not suffice for is\n"
    "                      left out and said, the rest is written\n"
    "  --threads T         threads; default one per core\n"
    "  --device D          cpu (default), cuda or cuda:N\n"
    "  --seconds S         time for each candidate; default 0.3\n"
    "  --working-set MIB   memory to rotate over\n"
    "  --json              one JSON object per candidate\n";

// A batch that candidates are proven or measured on.
typedef struct batch_shape {
    int32_t q_len, kv_len;
} batch_shape;

// Some queries over several chunks, and one over many, the last on a GPU alone.
static const batch_shape proofs[] = {{40, 300}, {1, 3000}, {1, 20000}};
enum { PROOFS = sizeof proofs / sizeof *proofs };

typedef struct request {
    attention_request attention;
    const char *out;
    int32_t heads, budget;
    bench_list head_dims;
    tune_findings findings;
    double begin;             // when the budget began to be spent
    float *reference[PROOFS]; // what the kernel that takes everything gives, of the problem at hand
    size_t reference_count[PROOFS];
    int32_t decided, left_out; // choices
} request;

static const bench_option options[] = {
    {"kv-dtype", BENCH_FORMATS, .offset = offsetof(request, attention.kv_dtypes)},
    {"heads", BENCH_INT, .offset = offsetof(request, heads), .low = 1, .high = 4096},
    {"kv-heads", BENCH_INT, .offset = offsetof(request, attention.kv_heads), .low = 1,
     .high = 4096},
    {"head-dims", BENCH_LIST, .offset = offsetof(request, head_dims), .low = 1, .high = 1024},
    {"page-size", BENCH_INT, .offset = offsetof(request, attention.page_size), .low = 1,
     .high = 65536},
    {"out", BENCH_TEXT, .offset = offsetof(request, out)},
    {"budget", BENCH_INT, .offset = offsetof(request, budget), .low = 1, .high = 1 << 20},
    {0},
};

static attention_problem problem_of(request *wish, weft_dtype kv_dtype, batch_shape shape)
{
    return (attention_problem){.wish = &wish->attention,
                               .kv_dtype = kv_dtype,
                               .batch = 1,
                               .q_len = shape.q_len,
                               .kv_len = shape.kv_len,
                               .heads = wish->heads};
}

static bool on_device(const request *wish)
{
    return wish->attention.run.options.device != WEFT_DEVICE_CPU;
}

// A new copy of a problem's results, on the host, as floats. NULL with a message.
static float *fetch(const attention_problem *p, size_t count)
{
    const bench *run = &p->wish->run;
    const weft_dtype dtype = p->wish->dtype;
    const size_t bytes = count * (size_t)weft_dtype_block_bytes(dtype);
    void *raw = malloc(bytes);
    float *out = malloc(count * sizeof *out);
    bool fine = raw && out;
    if (!fine)
        cli_failed(run->self, "no memory for the results");
    fine = fine && ((weft_copy(run->context, raw, p->out, bytes, NULL) == WEFT_OK &&
                     weft_stream_synchronize(run->context, NULL) == WEFT_OK &&
                     weft_dequantize_row(dtype, raw, (int64_t)count, out) == WEFT_OK) ||
                    bench_error(run));
    free(raw);
    if (fine)
        return out;
    free(out);
    return NULL;
}

// Results of the first copy of the cache.
static bool results_of(request *wish, weft_dtype kv_dtype, batch_shape shape, const char *variant,
                       float **out, size_t *count)
{
    attention_problem p = problem_of(wish, kv_dtype, shape);
    bench *run = &wish->attention.run;
    run->variant = variant;
    bool fine = attention_make_ready(&p);
    run->variant = NULL;
    *count = (size_t)p.queries * (size_t)p.heads * (size_t)wish->attention.head_dim;
    p.args.pool.k.data = run->memory;
    p.args.pool.v.data = run->memory + p.pool_bytes;
    fine = fine && (weft_attention_run(p.plan, &p.args) == WEFT_OK || bench_error(run));
    *out = fine ? fetch(&p, *count) : NULL;
    attention_drop(&p);
    return *out != NULL;
}

// How far two results may be apart: values are at most 1, and so is what they are weighed to. f32 sums of some thousand
// terms differ by 1e-4 at the most, 16 bits round weights and results.
static double bound_of(weft_dtype dtype)
{
    return dtype == WEFT_BF16 ? 1e-2 : dtype == WEFT_F16 ? 2e-3 : 1e-4;
}

static int32_t proofs_of(const request *wish)
{
    return on_device(wish) ? PROOFS : PROOFS - 1;
}

static void drop_references(request *wish)
{
    for (int i = 0; i < PROOFS; i++) {
        free(wish->reference[i]);
        wish->reference[i] = NULL;
    }
}

// Once for all candidates of a problem, as nothing of the table changes it.
static bool make_references(request *wish, weft_dtype kv_dtype)
{
    const char *const plain = on_device(wish) ? "attention_any_sm80" : "attention_any_ref";
    bool fine = true;
    weft_tuning_clear(wish->attention.run.context);
    for (int32_t i = 0; fine && i < proofs_of(wish); i++) {
        bench_progress(&wish->attention.run, "computing the reference of %d keys",
                       proofs[i].kv_len);
        fine = results_of(wish, kv_dtype, proofs[i], plain, &wish->reference[i],
                          &wish->reference_count[i]);
    }
    return fine;
}

// As the context plans now, against the references.
static bool check(request *wish, weft_dtype kv_dtype, double *worst)
{
    const double bound = bound_of(wish->attention.dtype);
    bool fine = true;
    *worst = 0;
    for (int32_t s = 0; fine && s < proofs_of(wish); s++) {
        float *own = NULL;
        size_t count = 0;
        fine = results_of(wish, kv_dtype, proofs[s], NULL, &own, &count);
        for (size_t i = 0; fine && i < count; i++) {
            double off = fabs((double)own[i] - (double)wish->reference[s][i]) / bound;
            *worst = off <= *worst ? *worst : off; // keeps a NaN
        }
        free(own);
    }
    return fine;
}

// Does the budget suffice for `seconds` more?
static bool has_time(const request *wish, double seconds)
{
    return cli_now_seconds() - wish->begin + seconds <= wish->budget;
}

// Times the candidates on a batch; adds to what they have.
static bool race(request *wish, weft_dtype kv_dtype, batch_shape shape, tune_candidate candidates[],
                 int32_t count)
{
    char what[96];
    attention_problem problems[TUNE_MAX_CANDIDATES];
    void *users[TUNE_MAX_CANDIDATES];
    double us[TUNE_MAX_CANDIDATES];
    bool fine = true;
    int32_t made = 0;
    for (; fine && made < count; made++) {
        problems[made] = problem_of(wish, kv_dtype, shape);
        fine = tune_apply(&wish->attention.run, &candidates[made]) &&
               attention_make_ready(&problems[made]);
        users[made] = &problems[made];
    }
    snprintf(what, sizeof what, "%s and others: %d x %d, %.0f s of %d spent", candidates[0].label,
             shape.q_len, shape.kv_len, cli_now_seconds() - wish->begin, wish->budget);
    fine = fine && bench_race(&wish->attention.run, what, attention_run_once, users, count, us);
    for (int32_t i = 0; fine && i < count; i++)
        candidates[i].cost += us[i] / shape.kv_len; // of a key, so that every batch counts
    for (int32_t i = 0; i < made; i++)
        attention_drop(&problems[i]);
    return fine;
}

// Members of an entry that are tried together, each with the library's own value first.
typedef struct choice {
    const char *name;
    size_t offset;
    int32_t count, values[6]; // 0: what the library has for the device
    batch_shape shapes[4];
    int32_t num_shapes;
} choice;

// Proves the candidates and times them on the batches. *done: the budget sufficed.
static bool prove_and_race(request *wish, weft_dtype kv_dtype, const batch_shape shapes[],
                           int32_t num_shapes, tune_candidate candidates[], int32_t count,
                           bool *done)
{
    const double each = (double)count * (double)wish->attention.run.seconds; // of a race
    bool fine = true;
    *done = has_time(wish, num_shapes * each);
    for (int32_t i = 0; fine && *done && i < count; i++) {
        weft_tuning *entry = &candidates[i].entry;
        entry->kv_heads = entry->head_dim = entry->page_size = 0; // for every batch here
        bench_progress(&wish->attention.run, "proving %s, %d of %d, %.0f s of %d spent",
                       candidates[i].label, i + 1, count, cli_now_seconds() - wish->begin,
                       wish->budget);
        fine = tune_apply(&wish->attention.run, &candidates[i]) &&
               check(wish, kv_dtype, &candidates[i].worst);
        *done = has_time(wish, num_shapes * each);
    }
    for (int32_t s = 0; fine && *done && s < num_shapes; s++) {
        fine = race(wish, kv_dtype, shapes[s], candidates, count);
        *done = has_time(wish, (num_shapes - 1 - s) * each);
    }
    return fine;
}

// What was measured of a choice, or that the budget did not suffice. *best: the one to take, or NULL.
static bool try_all(request *wish, weft_dtype kv_dtype, const char *problem, const char *name,
                    const batch_shape shapes[], int32_t num_shapes, tune_candidate candidates[],
                    int32_t count, const tune_candidate **best)
{
    bool done = false;
    const bool fine = prove_and_race(wish, kv_dtype, shapes, num_shapes, candidates, count, &done);
    *best = fine && done ? tune_best(candidates, count) : NULL;
    if (!fine)
        return false;
    wish->decided += done, wish->left_out += !done;
    if (done)
        return tune_print(&wish->attention.run, "tune attention", problem, candidates, count);
    return tune_print_left_out(&wish->attention.run, "tune attention", problem, name);
}

static bool tune_choice(request *wish, weft_dtype kv_dtype, const char *problem, const choice *what,
                        weft_tuning *entry)
{
    tune_candidate candidates[TUNE_MAX_CANDIDATES];
    const tune_candidate *best;
    for (int32_t i = 0; i < what->count; i++) {
        candidates[i] = (tune_candidate){.entry = *entry, .is_default = i == 0};
        memcpy((char *)&candidates[i].entry + what->offset, &what->values[i], sizeof(int32_t));
        if (what->values[i])
            snprintf(candidates[i].label, sizeof candidates[i].label, "%s=%d", what->name,
                     what->values[i]);
        else
            snprintf(candidates[i].label, sizeof candidates[i].label, "%s: own", what->name);
    }
    if (!try_all(wish, kv_dtype, problem, what->name, what->shapes, what->num_shapes, candidates,
                 what->count, &best))
        return false;
    if (best)
        memcpy((char *)entry + what->offset, (const char *)&best->entry + what->offset,
               sizeof(int32_t));
    return true;
}

// The kernels of a GPU for caches of this format, the library's choice first.
static bool tune_kernel(request *wish, weft_dtype kv_dtype, const char *problem, weft_tuning *entry)
{
    static const batch_shape shapes[] = {{256, 1024}, {4096, 4096}};
    static const char *const levels[] = {"sm90a", "sm80"};
    tune_candidate candidates[3] = {{.entry = *entry, .is_default = true, .label = "kernel: own"}};
    const tune_candidate *best;
    int32_t count = 1;
    for (int32_t i = 0; i < 2; i++) {
        weft_kernel_info info;
        char name[64];
        snprintf(name, sizeof name, "attention_%s_%s", weft_dtype_name(kv_dtype), levels[i]);
        for (int32_t n = 0; weft_kernel_at(wish->attention.run.context, n, &info); n++)
            if (info.usable && strcmp(info.name, name) == 0) {
                tune_candidate *next = &candidates[count++];
                *next = (tune_candidate){.entry = *entry};
                snprintf(next->entry.kernel, sizeof next->entry.kernel, "%s", name);
                snprintf(next->label, sizeof next->label, "%s", levels[i]);
            }
    }
    if (count < 3) // there is no choice
        return true;
    if (!try_all(wish, kv_dtype, problem, "kernel", shapes, 2, candidates, count, &best))
        return false;
    if (best)
        memcpy(entry->kernel, best->entry.kernel, sizeof entry->kernel);
    return true;
}

static const choice cpu_choices[] = {
    {"tile_rows", offsetof(weft_tuning, tile_rows), 4, {96, 24, 48, 192}, {{256, 1024}}, 1},
    {"block_keys",
     offsetof(weft_tuning, block_keys),
     4,
     {64, 16, 32, 48},
     {{1, 2048}, {16, 1024}, {256, 1024}},
     3},
    {"least_chunk",
     offsetof(weft_tuning, least_chunk),
     5,
     {1024, 256, 512, 2048, 4096},
     {{1, 512}, {1, 2048}, {1, 8192}},
     3},
    {"target_tasks",
     offsetof(weft_tuning, target_tasks),
     4,
     {64, 16, 32, 128},
     {{1, 2048}, {1, 8192}},
     2},
};
static const choice gpu_choices[] = {
    {"tile_rows",
     offsetof(weft_tuning, tile_rows),
     3,
     {0, 64, 128},
     {{256, 1024}, {4096, 4096}},
     2},
    {"few_keys",
     offsetof(weft_tuning, few_keys),
     6,
     {0, 512, 1024, 2048, 4096, 8192},
     {{1, 1024}, {1, 2048}, {1, 4096}, {1, 8192}},
     4},
    {"cluster_keys",
     offsetof(weft_tuning, cluster_keys),
     6,
     {0, 4096, 8192, 16384, 32768, 131072},
     {{1, 8192}, {1, 16384}, {1, 32768}, {1, 131072}},
     4},
};
enum {
    CPU_CHOICES = sizeof cpu_choices / sizeof *cpu_choices,
    GPU_CHOICES = sizeof gpu_choices / sizeof *gpu_choices,
};

static bool tune_problem(request *wish, weft_dtype kv_dtype)
{
    const bool device = on_device(wish);
    const choice *const choices = device ? gpu_choices : cpu_choices;
    const int32_t count = device ? GPU_CHOICES : CPU_CHOICES;
    const attention_request *a = &wish->attention;
    char problem[64];
    weft_tuning entry = {.op = WEFT_TUNING_ATTENTION,
                         .dtype = kv_dtype,
                         .kv_heads = a->kv_heads,
                         .head_dim = a->head_dim,
                         .page_size = a->page_size};
    snprintf(problem, sizeof problem, "%s %d/%d heads x %d, page %d", weft_dtype_name(kv_dtype),
             wish->heads, a->kv_heads, a->head_dim, a->page_size);
    if (device)
        wish->attention.dtype = kv_dtype == WEFT_F16 ? WEFT_F16 : WEFT_BF16;
    const int32_t decided = wish->decided;
    bool fine = (!has_time(wish, 0) || make_references(wish, kv_dtype)) &&
                (!device || tune_kernel(wish, kv_dtype, problem, &entry));
    for (int32_t i = 0; fine && i < count; i++)
        fine = tune_choice(wish, kv_dtype, problem, &choices[i], &entry);
    drop_references(wish);
    // An entry that says nothing would go before what the file says.
    return fine &&
           (wish->decided == decided || tune_keep(&wish->attention.run, &wish->findings, &entry));
}

static int tune_attention_main(const cli_command *self, int argc, char **argv)
{
    static request wish;
    wish = (request){.attention = {.run = bench_default(self),
                                   .dtype = WEFT_F32,
                                   .kv_dtypes = {{WEFT_F16}, 1},
                                   .kv_heads = 8,
                                   .page_size = 64},
                     .heads = 32,
                     .budget = 600,
                     .head_dims = {{64, 128}, 2}};
    wish.attention.run.seconds = 0.3f;
    int status = tune_parse(&wish.attention.run, options, argc, argv);
    if (status >= 0)
        return status;
    bool fine = bench_begin(&wish.attention.run);
    wish.begin = cli_now_seconds();
    for (int32_t d = 0; fine && d < wish.head_dims.count; d++)
        for (int32_t f = 0; fine && f < wish.attention.kv_dtypes.count; f++) {
            wish.attention.head_dim = wish.head_dims.values[d];
            fine = tune_problem(&wish, wish.attention.kv_dtypes.values[f]);
        }
    status = fine ? tune_write(&wish.attention.run, &wish.findings, wish.out) : CLI_FAILED;
    if (fine && wish.left_out && !wish.attention.run.json)
        printf("left out: %d choices, for the budget of %d s is spent; --budget gives more\n",
               wish.left_out, wish.budget);
    bench_end(&wish.attention.run);
    return status;
}

const cli_command tune_attention = {"tune attention", "attention", {help}, tune_attention_main};
