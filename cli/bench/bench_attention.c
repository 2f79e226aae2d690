// SPDX-License-Identifier: MIT
// weft bench attention: queries over a paged KV cache against the memory and the arithmetic.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

static const char help[] =
    "usage: weft bench attention [options]\n"
    "\n"
    "Measures attention of BATCH sequences, each with S queries over L keys in a paged KV cache "
    "whose\n"
    "pages are in random order. One query is a step of generation: its time is that of reading "
    "the\n"
    "cache. Many are a prompt.\n"
    "\n"
    "  --dtype D           format of queries and results: f32 (default), f16 or bf16\n"
    "  --kv-dtype D,...    format of keys and values: f16 (default), bf16, f32, int8, fp8_e4m3,\n"
    "                      fp8_e5m2, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl\n"
    "  --batch B,...       sequences (default 1)\n"
    "  --q-len S,...       queries of a sequence (default 1)\n"
    "  --kv-len L,...      keys of a sequence, its queries' own included (default 4096)\n"
    "  --q-lens S,... --kv-lens L,...  one batch of sequences of these lengths instead\n"
    "  --heads H,...       query heads (default 32)\n"
    "  --kv-heads G        KV heads, a divisor of H (default 8)\n"
    "  --head-dim D        elements of a head (default 128)\n"
    "  --page-size P       keys per page (default 64)\n"
    "  --mask M            causal (default), full, tree (a chain of draft tokens) or window:W\n"
    "                      (causal, the last W keys)\n"
    "  --sinks             a learned sink per head\n"
    "  --alibi             linear biases per head\n"
    "  --splits N,...      chunks that a sequence is split in; auto (default)\n" BENCH_COLD_HELP
        BENCH_HELP "\n"
    "Bytes are those of the keys and values that some query sees, read once, and of queries and\n"
    "results. Operations are counted for the pairs that the mask lets through.\n"
    "\n"
    "Examples:\n"
    "  weft bench attention --kv-len 1024,4096,16384 --heads 32 --kv-heads 8 --head-dim 128\n"
    "  weft bench attention --q-len 512 --kv-len 512,4096 --kv-dtype bf16 --json\n"
    "  weft bench attention --kv-len 16384 --splits 1,2,4,8,16\n";

static const bench_column columns[] = {
    {"kv_dtype", "kv", -4, 0, 0},
    {"batch", "batch", 5, 0, 0},
    {"q_len", "q_len", 5, 0, 0},
    {"kv_len", "kv_len", 7, 0, 0},
    {"heads", "heads", 5, 0, 0},
    {"kv_heads", "kv", 4, 0, 0},
    {"head_dim", "dim", 4, 0, 0},
    {"splits", "splits", 6, 0, 0},
    {"mask", "mask", -10, 0, 0},
    {"variant", "kernel", -26, 0, 0},
    {"us_median", "us median", 10, 1, 0},
    {"us_min", "us min", 10, 1, 0},
    {"gbps", "GB/s", 6, 1, 0},
    {"gflops", "GFLOP/s", 8, 1, 0},
    {"roof_gbps", "roof", 6, 1, 0},
    {"roof_gflops", "roof", 8, 1, 0},
    {"roof_fraction", "% roof", 6, 1, 100},
    {"roof_fraction_best", "best", 6, 1, 100},
    {0},
};

typedef struct request {
    bench run;
    weft_dtype dtype;
    bench_formats kv_dtypes;
    bench_list batches, q_lens, kv_lens, heads, splits;
    bench_list ragged_q_lens, ragged_kv_lens; // of the sequences of one batch; empty: all are alike
    int32_t kv_heads, head_dim, page_size, window;
    weft_mask mask;
    bool sinks, alibi;
} request;

// One row of the result.
typedef struct problem {
    request *wish;
    weft_dtype kv_dtype;
    int32_t batch, q_len, kv_len, heads, splits, pages, copies;
    int64_t pool_bytes, stride_bytes; // of keys or values; of a copy of both
    weft_plan *plan;
    weft_attention_args args;
    void *q, *out;
    weft_batch
        *batch_of_runs; // lengths and pages, as an engine hands them over; NULL: with every run
    int32_t *numbers;   // cu_q_lens, kv_lens, page_table, tree_parents
    float *per_head;    // sinks, slopes
    int32_t queries;    // of all sequences
    void *workspace;
} problem;

static bool take_mask(void *to, const char *text)
{
    request *wish = to;
    const cli_command *self = wish->run.self;
    wish->window = 0;
    wish->mask = strcmp(text, "full") == 0   ? WEFT_MASK_FULL
                 : strcmp(text, "tree") == 0 ? WEFT_MASK_TREE
                                             : WEFT_MASK_CAUSAL;
    if (wish->mask != WEFT_MASK_CAUSAL || strcmp(text, "causal") == 0)
        return true;
    if (strncmp(text, "window:", 7) == 0)
        return cli_int32(self, "--mask window", text + 7, 1, INT32_MAX, &wish->window);
    cli_bad_usage(self, "--mask must be causal, full, tree or window:W, not '%s'", text);
    return false;
}

static bool take_splits(void *to, const char *text)
{
    request *wish = to;
    wish->splits = (bench_list){{0}, 1};
    return strcmp(text, "auto") == 0 ||
           bench_parse_list(wish->run.self, "--splits", text, 1, 65536, &wish->splits);
}

static const bench_option options[] = {
    {"dtype", BENCH_DTYPE, .offset = offsetof(request, dtype)},
    {"kv-dtype", BENCH_FORMATS, .offset = offsetof(request, kv_dtypes)},
    {"batch", BENCH_LIST, .offset = offsetof(request, batches), .low = 1, .high = 65536},
    {"q-len", BENCH_LIST, .offset = offsetof(request, q_lens), .low = 1, .high = 1 << 20},
    {"kv-len", BENCH_LIST, .offset = offsetof(request, kv_lens), .low = 1, .high = 1 << 24},
    {"heads", BENCH_LIST, .offset = offsetof(request, heads), .low = 1, .high = 4096},
    {"kv-heads", BENCH_INT, .offset = offsetof(request, kv_heads), .low = 1, .high = 4096},
    {"head-dim", BENCH_INT, .offset = offsetof(request, head_dim), .low = 1, .high = 4096},
    {"page-size", BENCH_INT, .offset = offsetof(request, page_size), .low = 1, .high = 65536},
    {"q-lens", BENCH_LIST, .offset = offsetof(request, ragged_q_lens), .low = 1, .high = 1 << 20},
    {"kv-lens", BENCH_LIST, .offset = offsetof(request, ragged_kv_lens), .low = 1, .high = 1 << 24},
    {"sinks", BENCH_FLAG, .offset = offsetof(request, sinks)},
    {"alibi", BENCH_FLAG, .offset = offsetof(request, alibi)},
    {"mask", .kind = BENCH_OTHER, .take = take_mask},
    {"splits", .kind = BENCH_OTHER, .take = take_splits},
    {0},
};

static const char *mask_name(const request *wish, char text[32])
{
    snprintf(text, 32, "window:%d", wish->window);
    return wish->window                   ? text
           : wish->mask == WEFT_MASK_FULL ? "full"
           : wish->mask == WEFT_MASK_TREE ? "tree"
                                          : "causal";
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static int32_t q_len_of(const problem *p, int32_t s)
{
    const bench_list *list = &p->wish->ragged_q_lens;
    return list->count ? list->values[s] : p->q_len;
}

static int32_t kv_len_of(const problem *p, int32_t s)
{
    const bench_list *list = &p->wish->ragged_kv_lens;
    return list->count ? list->values[s] : p->kv_len;
}

// Keys that some query of a sequence sees, and the pairs of query and key; of all sequences.
static double seen_keys(const problem *p)
{
    double keys = 0;
    for (int32_t s = 0; s < p->batch; s++) {
        double window = p->wish->window ? (double)p->wish->window + q_len_of(p, s) - 1 : 1e18;
        keys += smaller(kv_len_of(p, s), window);
    }
    return keys;
}

static double pairs_of(const problem *p, int32_t s)
{
    double pairs = 0;
    int32_t q_len = q_len_of(p, s), kv_len = kv_len_of(p, s);
    for (int32_t i = 0; i < q_len; i++) {
        double keys = p->wish->mask == WEFT_MASK_FULL ? kv_len : kv_len - q_len + i + 1;
        pairs += p->wish->window ? smaller(keys, p->wish->window) : keys;
    }
    return pairs;
}

static double seen_pairs(const problem *p)
{
    double pairs = 0;
    for (int32_t s = 0; s < p->batch; s++)
        pairs += pairs_of(p, s);
    return pairs;
}

static double elem_bytes(weft_dtype dtype)
{
    return (double)weft_dtype_block_bytes(dtype) / weft_dtype_block_elems(dtype);
}

// Values in [-1, 1) over the whole memory: pages differ, which is all that matters.
static bool fill_cache(problem *p)
{
    enum { PATTERN = 1 << 16 };
    bench *run = &p->wish->run;
    static float values[PATTERN];
    uint32_t state = 3;
    for (int32_t i = 0; i < PATTERN; i++)
        values[i] = bench_value(&state);
    int64_t pattern_bytes = weft_dtype_row_bytes(p->kv_dtype, PATTERN);
    char *pattern = malloc((size_t)pattern_bytes);
    if (!pattern || weft_quantize_row(p->kv_dtype, values, PATTERN, pattern) != WEFT_OK) {
        free(pattern);
        cli_failed(run->self, "no cache can be filled with %s", weft_dtype_name(p->kv_dtype));
        return false;
    }
    bool fine = true;
    for (int64_t at = 0; fine && at < run->memory_bytes; at += pattern_bytes) {
        int64_t left = run->memory_bytes - at;
        fine =
            bench_put(run, run->memory + at, pattern, left < pattern_bytes ? left : pattern_bytes);
    }
    free(pattern);
    return fine;
}

// The page of every key, in an order that a long-running server would have.
static void shuffle(int32_t *pages, int32_t count)
{
    uint32_t state = 11;
    for (int32_t i = 0; i < count; i++)
        pages[i] = i;
    for (int32_t i = count - 1; i > 0; i--) {
        state = state * 1664525u + 1013904223u;
        int32_t other = (int32_t)((uint64_t)state * (uint64_t)(i + 1) >> 32), page = pages[i];
        pages[i] = pages[other];
        pages[other] = page;
    }
}

static bool put_queries(problem *p, size_t elems)
{
    bench *run = &p->wish->run;
    uint32_t state = 5;
    int64_t bytes = (int64_t)elems * weft_dtype_block_bytes(p->wish->dtype);
    float *q = malloc(elems * sizeof *q);
    void *narrow = malloc((size_t)bytes);
    for (size_t i = 0; q && i < elems; i++)
        q[i] = bench_value(&state);
    bool fine = q && narrow;
    if (!fine)
        cli_failed(run->self, "no memory for the queries: measure a smaller --batch");
    fine = fine &&
           (weft_quantize_row(p->wish->dtype, q, (int64_t)elems, narrow) == WEFT_OK ||
            bench_error(run)) &&
           bench_put(run, p->q, narrow, bytes);
    free(q);
    free(narrow);
    return fine;
}

// `lens`: cu_q_lens, kv_lens, pages.
static bool make_batch(problem *p, const int32_t *lens)
{
    const request *wish = p->wish;
    const weft_plan *const plan = p->plan;
    const weft_batch_desc desc = {.size = sizeof desc,
                                  .max_seqs = p->batch,
                                  .max_q_tokens = p->queries,
                                  .max_kv_len = p->kv_len,
                                  .page_size = wish->page_size,
                                  .max_pages = p->pages,
                                  .plans = &plan,
                                  .num_plans = 1};
    const weft_batch_args args = {.size = sizeof args,
                                  .num_seqs = p->batch,
                                  .cu_q_lens = lens,
                                  .kv_lens = lens + p->batch + 1,
                                  .page_table = lens + 2 * p->batch + 1,
                                  .page_table_stride = p->pages / p->batch,
                                  .num_pages = p->pages};
    return (weft_batch_create(wish->run.context, &desc, &p->batch_of_runs) == WEFT_OK &&
            weft_batch_set(p->batch_of_runs, &args) == WEFT_OK) ||
           bench_error(&wish->run);
}

static bool set_queries(problem *p)
{
    const request *wish = p->wish;
    uint32_t state = 5;
    size_t elems = (size_t)p->queries * (size_t)p->heads * (size_t)wish->head_dim;
    int64_t elem = weft_dtype_block_bytes(wish->dtype);
    size_t workspace_bytes = weft_plan_workspace_bytes(p->plan);
    bench *run = &p->wish->run;
    if (!bench_fits(run, 2.0 * (double)elems * sizeof(float)))
        return false;
    size_t tables = (size_t)p->batch * 2 + 1 + (size_t)p->pages;
    size_t numbers = tables + (size_t)p->queries;
    p->q = bench_allocate(run, elems * (size_t)elem);
    p->out = bench_allocate(run, elems * (size_t)elem);
    p->workspace = bench_allocate(run, workspace_bytes + 64);
    p->numbers = bench_allocate(run, numbers * sizeof *p->numbers);
    p->per_head = bench_allocate(run, (size_t)p->heads * sizeof *p->per_head);
    float *q = malloc((size_t)p->heads * sizeof *q);
    int32_t *lens = malloc(numbers * sizeof *lens);
    bool fine = p->q && p->out && p->workspace && p->numbers && p->per_head && q && lens;
    if (!q || !lens)
        cli_failed(run->self, "no memory for the queries: measure a smaller --batch");
    if (!fine) {
        free(q);
        free(lens);
        return false;
    }
    int32_t *cu_q_lens = lens, *kv_lens = cu_q_lens + p->batch + 1;
    cu_q_lens[0] = 0;
    for (int32_t s = 0; s < p->batch; s++) {
        cu_q_lens[s + 1] = cu_q_lens[s] + q_len_of(p, s);
        kv_lens[s] = kv_len_of(p, s);
        for (int32_t i = 0; i < q_len_of(p, s); i++) // a chain: the costliest tree
            lens[tables + (size_t)cu_q_lens[s] + (size_t)i] = i - 1;
    }
    shuffle(kv_lens + p->batch, p->pages);
    for (int32_t i = 0; i < p->heads; i++)
        q[i] = bench_value(&state);
    fine = bench_put(run, p->per_head, q, (int64_t)((size_t)p->heads * sizeof *q)) &&
           bench_put(run, p->numbers, lens, (int64_t)(numbers * sizeof *lens)) &&
           put_queries(p, elems) && (wish->mask == WEFT_MASK_TREE || make_batch(p, lens));
    free(q);
    free(lens);
    cu_q_lens = p->numbers, kv_lens = cu_q_lens + p->batch + 1;
    p->args = (weft_attention_args){.size = sizeof p->args,
                                    .num_seqs = p->batch,
                                    .q = p->q,
                                    .out = p->out,
                                    .pool = {.num_pages = p->pages},
                                    .cu_q_lens = cu_q_lens,
                                    .kv_lens = kv_lens,
                                    .page_table = kv_lens + p->batch,
                                    .page_table_stride = p->pages / p->batch,
                                    .sinks = wish->sinks ? p->per_head : NULL,
                                    .alibi_slopes = wish->alibi ? p->per_head : NULL,
                                    .tree_parents =
                                        wish->mask == WEFT_MASK_TREE ? p->numbers + tables : NULL,
                                    .workspace = p->workspace,
                                    .workspace_bytes = workspace_bytes};
    if (p->batch_of_runs) {
        p->args.batch = p->batch_of_runs;
        p->args.num_seqs = 0;
        p->args.cu_q_lens = p->args.kv_lens = p->args.page_table = NULL;
        p->args.page_table_stride = 0;
    }
    return fine;
}

static bool run_once(void *user)
{
    problem *p = user;
    char *copy =
        p->wish->run.memory + bench_next_copy(&p->wish->run, p->stride_bytes) * p->stride_bytes;
    p->args.pool.k.data = copy;
    p->args.pool.v.data = copy + p->pool_bytes;
    return weft_attention_run(p->plan, &p->args) == WEFT_OK;
}

static bool print_row(problem *p, const bench_time *time, const bench_roof *roof)
{
    request *wish = p->wish;
    char mask[32];
    bench_kernel kernel = bench_kernel_of(&wish->run, p->plan);
    double queries = 2.0 * p->queries * p->heads * wish->head_dim * elem_bytes(wish->dtype);
    double cache = 2.0 * seen_keys(p) * wish->kv_heads * wish->head_dim * elem_bytes(p->kv_dtype);
    double flops = 4.0 * seen_pairs(p) * p->heads * wish->head_dim;
    json_t *row = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:i, s:b, "
        "s:i, s:I}",
        "op", "attention", "device", bench_device_name(&wish->run), "isa", kernel.isa, "variant",
        kernel.name, "plan", weft_plan_describe(p->plan), "dtype", weft_dtype_name(wish->dtype),
        "kv_dtype", weft_dtype_name(p->kv_dtype), "batch", p->batch, "q_len", p->q_len, "kv_len",
        p->kv_len, "heads", p->heads, "kv_heads", wish->kv_heads, "head_dim", wish->head_dim,
        "page_size", wish->page_size, "mask", mask_name(wish, mask), "splits", p->splits, "cold",
        !wish->run.hot, "threads", weft_context_threads(wish->run.context), "working_set_bytes",
        (json_int_t)(p->copies * p->stride_bytes));
    if (row)
        bench_add_figures(row, time, cache + queries, flops, roof->gbps,
                          bench_roof_gflops(&wish->run, roof, BENCH_F32));
    return bench_print(&wish->run, row, columns);
}

static weft_kv_layout kv_layout(const problem *p)
{
    const request *wish = p->wish;
    return (weft_kv_layout){.dtype = p->kv_dtype,
                            .num_kv_heads = wish->kv_heads,
                            .head_dim = wish->head_dim,
                            .page_size = wish->page_size};
}

static bool make_plan(problem *p)
{
    request *wish = p->wish;
    weft_attention_desc desc = {.size = sizeof desc,
                                .kv = kv_layout(p),
                                .q_dtype = wish->dtype,
                                .out_dtype = wish->dtype,
                                .num_q_heads = p->heads,
                                .mask = wish->mask,
                                .window = wish->window,
                                .max_seqs = p->batch,
                                .max_q_tokens = p->queries,
                                .flags = (wish->sinks ? WEFT_ATTENTION_SINKS : 0u) |
                                         (wish->alibi ? WEFT_ATTENTION_ALIBI : 0u),
                                .max_kv_len = p->kv_len,
                                .num_splits = p->splits,
                                .variant = wish->run.variant};
    return weft_attention_plan(wish->run.context, &desc, &p->plan) == WEFT_OK ||
           bench_error(&wish->run);
}

static bool measure(problem *p)
{
    request *wish = p->wish;
    bench_time time;
    bench_roof roof;
    weft_kv_layout layout = kv_layout(p);
    int64_t pages = (int64_t)((p->kv_len + wish->page_size - 1) / wish->page_size) * p->batch;
    if ((double)pages * (double)weft_kv_page_bytes(&layout) > 1e15 || pages > INT32_MAX ||
        p->queries == INT32_MAX) {
        cli_failed(wish->run.self, "the batch is too large: measure a smaller --batch or --kv-len");
        return false;
    }
    if (!make_plan(p))
        return false;
    p->pages = (int32_t)pages;
    p->pool_bytes = pages * weft_kv_page_bytes(&layout) / 2;
    if (!bench_reserve(&wish->run, bench_working_set(&wish->run, 2 * p->pool_bytes)))
        return false;
    p->copies = bench_copies(&wish->run, 2 * p->pool_bytes, &p->stride_bytes);
    return fill_cache(p) && set_queries(p) &&
           bench_measure_under(&wish->run, weft_plan_describe(p->plan), run_once, p, &time,
                               &roof) &&
           print_row(p, &time, &roof);
}

static int32_t take(int32_t *at, const bench_list *list)
{
    int32_t value = list->values[*at % list->count];
    *at /= list->count;
    return value;
}

// Every combination of the lists; the last ones change fastest.
static bool measure_all(request *wish)
{
    int32_t all = wish->kv_dtypes.count * wish->batches.count * wish->q_lens.count *
                  wish->kv_lens.count * wish->heads.count * wish->splits.count;
    bool fine = bench_begin(&wish->run);
    for (int32_t i = 0; fine && i < all; i++) {
        int32_t at = i;
        problem p = {.wish = wish};
        p.splits = take(&at, &wish->splits);
        p.heads = take(&at, &wish->heads);
        p.kv_len = take(&at, &wish->kv_lens);
        p.q_len = take(&at, &wish->q_lens);
        p.batch = take(&at, &wish->batches);
        p.kv_dtype = wish->kv_dtypes.values[at];
        int64_t queries = 0;
        for (int32_t s = 0; s < p.batch; s++)
            queries += q_len_of(&p, s);
        p.queries = queries > INT32_MAX ? INT32_MAX : (int32_t)queries;
        fine = measure(&p);
        weft_batch_destroy(p.batch_of_runs);
        weft_plan_destroy(p.plan);
        weft_memory_free(wish->run.context, p.q);
        weft_memory_free(wish->run.context, p.out);
        weft_memory_free(wish->run.context, p.numbers);
        weft_memory_free(wish->run.context, p.per_head);
        weft_memory_free(wish->run.context, p.workspace);
    }
    bench_end(&wish->run);
    return fine;
}

static int32_t largest(const bench_list *list)
{
    int32_t most = 0;
    for (int32_t i = 0; i < list->count; i++)
        most = list->values[i] > most ? list->values[i] : most;
    return most;
}

// Lists of a ragged batch are one row: as many sequences as they are long.
static bool settle_ragged(request *wish)
{
    bench_list *q_lens = &wish->ragged_q_lens, *kv_lens = &wish->ragged_kv_lens;
    if (!q_lens->count && !kv_lens->count)
        return true;
    for (int32_t i = 0; i < kv_lens->count && !q_lens->count; i++)
        q_lens->values[i] = 1;
    q_lens->count = q_lens->count ? q_lens->count : kv_lens->count;
    if (q_lens->count != kv_lens->count) {
        cli_bad_usage(wish->run.self, "--q-lens and --kv-lens must be as many: one of each for "
                                      "every sequence of the batch");
        return false;
    }
    for (int32_t i = 0; i < kv_lens->count; i++)
        if (wish->mask != WEFT_MASK_FULL && kv_lens->values[i] < q_lens->values[i]) {
            cli_bad_usage(wish->run.self, "--kv-lens: a sequence has %d keys for its %d queries",
                          kv_lens->values[i], q_lens->values[i]);
            return false;
        }
    wish->batches = (bench_list){{kv_lens->count}, 1};
    wish->q_lens = (bench_list){{largest(q_lens)}, 1};
    wish->kv_lens = (bench_list){{largest(kv_lens)}, 1};
    return true;
}

static int attention_main(const cli_command *self, int argc, char **argv)
{
    request wish = {.run = bench_default(self),
                    .dtype = WEFT_F32,
                    .kv_dtypes = {{WEFT_F16}, 1},
                    .batches = {{1}, 1},
                    .q_lens = {{1}, 1},
                    .kv_lens = {{4096}, 1},
                    .heads = {{32}, 1},
                    .splits = {{0}, 1},
                    .kv_heads = 8,
                    .head_dim = 128,
                    .page_size = 64};
    int status = bench_parse(&wish.run, options, argc, argv);
    if (status >= 0)
        return status;
    if (!settle_ragged(&wish))
        return CLI_USAGE;
    return measure_all(&wish) ? CLI_DONE : CLI_FAILED;
}

const cli_command bench_attention = {"bench attention", "attention over a paged KV cache", help,
                                     attention_main};
