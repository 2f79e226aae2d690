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
    "Measures, on this machine, the sizes that plans of attention choose by, holds every candidate "
    "against\n"
    "the reference kernel before it counts, and writes what is best to a table that plans read "
    "from then\n"
    "on (weft info --kernels shows it).\n"
    "\n"
    "  tile_rows           queries times heads of a tile: 256 queries over 1024 keys\n"
    "  block_keys          keys between two looks at the largest score: 1, 16 and 256 queries\n"
    "  least_chunk         keys that are worth a task: one query over 512, 2048 and 8192 keys\n"
    "  target_tasks        tasks that chunks are cut for: likewise\n"
    "\n"
    "Columns: what a candidate costs in microseconds per key, added up, that of the library's own "
    "value\n"
    "over it, and its worst error over its bound. A candidate is chosen if it is more than a "
    "thirtieth\n"
    "faster than the library's own.\n"
    "\n"
    "  --kv-dtype D,...    formats of the cache (default f16)\n"
    "  --heads H           query heads (default 32)\n"
    "  --kv-heads G        KV heads, a divisor of H (default 8)\n"
    "  --head-dims D,...   elements of a head (default 64,128)\n"
    "  --page-size P       keys per page (default 64)\n"
    "  --out FILE          the table (default the machine's own, as include/weft/tuning.h says);\n"
    "                      entries that it has for other problems stay\n"
    "  --threads T         threads; default one per core\n"
    "  --seconds S         time for each candidate; default 0.3\n"
    "  --working-set MIB   memory to rotate over\n"
    "  --json              one JSON object per candidate\n";

typedef struct request {
    attention_request attention;
    const char *out;
    int32_t heads;
    bench_list head_dims;
    tune_findings findings;
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
    {0},
};

// A batch that a candidate is measured on.
typedef struct batch_shape {
    int32_t q_len, kv_len;
} batch_shape;

static attention_problem problem_of(request *wish, weft_dtype kv_dtype, batch_shape shape)
{
    return (attention_problem){.wish = &wish->attention,
                               .kv_dtype = kv_dtype,
                               .batch = 1,
                               .q_len = shape.q_len,
                               .kv_len = shape.kv_len,
                               .heads = wish->heads};
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
    *out = fine ? malloc(*count * sizeof **out) : NULL;
    p.args.pool.k.data = run->memory;
    p.args.pool.v.data = run->memory + p.pool_bytes;
    fine = *out && (weft_attention_run(p.plan, &p.args) == WEFT_OK || bench_error(run));
    if (fine)
        memcpy(*out, p.out, *count * sizeof **out);
    attention_drop(&p);
    return fine;
}

// Some queries over several chunks, and one over many, as the context plans now, against the reference: values are
// at most 1, and so is what they are weighed to; f32 sums of some thousand terms are 1e-4 apart at the most.
static bool check(request *wish, weft_dtype kv_dtype, double *worst)
{
    static const batch_shape shapes[] = {{40, 300}, {1, 3000}};
    bool fine = true;
    *worst = 0;
    for (int s = 0; fine && s < 2; s++) {
        float *own = NULL, *reference = NULL;
        size_t count = 0;
        fine = results_of(wish, kv_dtype, shapes[s], NULL, &own, &count) &&
               results_of(wish, kv_dtype, shapes[s], "attention_any_ref", &reference, &count);
        for (size_t i = 0; fine && i < count; i++) {
            double off = fabs((double)own[i] - (double)reference[i]) / 1e-4;
            *worst = off <= *worst ? *worst : off; // keeps a NaN
        }
        free(own);
        free(reference);
    }
    return fine;
}

// Times the candidates on a batch; adds to what they have.
static bool race(request *wish, weft_dtype kv_dtype, batch_shape shape, tune_candidate candidates[],
                 int32_t count)
{
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
    fine = fine && bench_race(&wish->attention.run, weft_plan_describe(problems[0].plan),
                              attention_run_once, users, count, us);
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
    int32_t count, values[5];
    batch_shape shapes[3];
    int32_t num_shapes;
} choice;

static bool tune_choice(request *wish, weft_dtype kv_dtype, const char *problem, const choice *what,
                        weft_tuning *entry)
{
    tune_candidate candidates[TUNE_MAX_CANDIDATES];
    bool fine = true;
    for (int32_t i = 0; fine && i < what->count; i++) {
        candidates[i] = (tune_candidate){.entry = *entry, .is_default = i == 0};
        memcpy((char *)&candidates[i].entry + what->offset, &what->values[i], sizeof(int32_t));
        snprintf(candidates[i].label, sizeof candidates[i].label, "%s=%d", what->name,
                 what->values[i]);
        candidates[i].entry.kv_heads = candidates[i].entry.head_dim = 0; // for every batch here
        candidates[i].entry.page_size = 0;
        fine = tune_apply(&wish->attention.run, &candidates[i]) &&
               check(wish, kv_dtype, &candidates[i].worst);
    }
    for (int32_t s = 0; fine && s < what->num_shapes; s++)
        fine = race(wish, kv_dtype, what->shapes[s], candidates, what->count);
    if (!fine)
        return false;
    const tune_candidate *best = tune_best(candidates, what->count);
    if (best)
        memcpy((char *)entry + what->offset, (const char *)&best->entry + what->offset,
               sizeof(int32_t));
    return tune_print(&wish->attention.run, "tune attention", problem, candidates, what->count);
}

static bool tune_problem(request *wish, weft_dtype kv_dtype)
{
    static const choice choices[] = {
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
    const attention_request *a = &wish->attention;
    char problem[64];
    weft_tuning entry = {.op = WEFT_TUNING_ATTENTION,
                         .dtype = kv_dtype,
                         .kv_heads = a->kv_heads,
                         .head_dim = a->head_dim,
                         .page_size = a->page_size};
    snprintf(problem, sizeof problem, "%s %d/%d heads x %d, page %d", weft_dtype_name(kv_dtype),
             wish->heads, a->kv_heads, a->head_dim, a->page_size);
    bool fine = true;
    for (size_t i = 0; fine && i < sizeof choices / sizeof *choices; i++)
        fine = tune_choice(wish, kv_dtype, problem, &choices[i], &entry);
    return fine && tune_keep(&wish->attention.run, &wish->findings, &entry);
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
                     .head_dims = {{64, 128}, 2}};
    wish.attention.run.seconds = 0.3f;
    int status = bench_parse(&wish.attention.run, options, argc, argv);
    if (status >= 0)
        return status;
    if (wish.attention.run.options.device != WEFT_DEVICE_CPU)
        return cli_bad_usage(self, "plans of a GPU choose by no such table: leave --device out");
    bool fine = bench_begin(&wish.attention.run);
    for (int32_t d = 0; fine && d < wish.head_dims.count; d++)
        for (int32_t f = 0; fine && f < wish.attention.kv_dtypes.count; f++) {
            wish.attention.head_dim = wish.head_dims.values[d];
            fine = tune_problem(&wish, wish.attention.kv_dtypes.values[f]);
        }
    status = fine ? tune_write(&wish.attention.run, &wish.findings, wish.out) : CLI_FAILED;
    bench_end(&wish.attention.run);
    return status;
}

const cli_command tune_attention = {"tune attention", "attention", {help}, tune_attention_main};
