// SPDX-License-Identifier: MIT
// weft bench attention: queries over a paged KV cache against the memory and the arithmetic.
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench_attention.h"

static const char help[] =
    "usage: weft bench attention [options]\n"
    "\n"
    "Measures attention of BATCH sequences, each with S queries over L keys in a paged KV cache\n"
    "whose pages are in random order. One query is a step of generation: its time is that of\n"
    "reading the cache. Many are a prompt.\n"
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
    "  --tokens-first      pages of [page][kv_heads][dim] instead of [kv_heads][page][dim]\n"
    "  --shared P          the first P keys, whole pages, are one prefix of all sequences, which\n"
    "                      is read once\n"
    "  --mask M            causal (default), full, tree (a chain of draft tokens) or window:W\n"
    "                      (causal, the last W keys)\n"
    "  --sinks             a learned sink per head\n"
    "  --alibi             linear biases per head\n"
    "  --softcap C         scores become C * tanh(score / C)\n"
    "  --splits N,...      chunks that a sequence is split in; auto (default)\n"
    "  --tile-rows R,...   queries times heads of a tile; default the kernel's own\n"
    "  --tile-heads N,...  query heads of a KV head that share a tile and read its keys once: a\n"
    "                      divisor of their number, 1 = each for itself; default all of them (of\n"
    "                      the CPU)\n"
    "  --stages N          1 = no keys are asked for ahead, 2 = the next block is (of the CPU)\n"
    "  --precise           weights by an exponential in double (of the CPU); the row says by how\n"
    "                      much a result differs from the fast one's at most\n"
    "  --variants          every kernel that serves, with chunks of keys and in one pass, in\n"
    "                      turns: which is fastest at each length (of the CPU)\n" BENCH_COLD_HELP
        BENCH_HELP "\n"
    "Bytes are those of the keys and values that some query sees, read once, and of queries and\n"
    "results. Operations are counted for the pairs that the mask lets through.\n"
    "\n"
    "Examples:\n"
    "  weft bench attention --kv-len 1024,4096,16384 --heads 32 --kv-heads 8 --head-dim 128\n"
    "  weft bench attention --q-len 512 --kv-len 512,4096 --kv-dtype bf16 --json\n"
    "  weft bench attention --kv-len 16384 --splits 1,2,4,8,16\n"
    "  weft bench attention --batch 64 --kv-len 4160 --shared 4096\n";

static const bench_column columns[] = {
    {"kv_dtype", "kv", -4, 0, 0},
    {"batch", "batch", 5, 0, 0},
    {"q_len", "q_len", 5, 0, 0},
    {"kv_len", "kv_len", 7, 0, 0},
    {"heads", "heads", 5, 0, 0},
    {"kv_heads", "kv", 4, 0, 0},
    {"head_dim", "dim", 4, 0, 0},
    {"splits", "splits", 6, 0, 0},
    {"tile_rows", "tile", 4, 0, 0},
    {"tile_heads", "heads", 5, 0, 0},
    {"tasks", "tasks", 5, 0, 0},
    {"busy", "% busy", 6, 0, 100},
    {"mask", "mask", -10, 0, 0},
    {"variant", "kernel", -26, 0, 0},
    {"difference", "1e-6 off", 8, 2, 1000000},
    {"us_median", "us median", 10, 1, 0},
    {"us_min", "us min", 10, 1, 0},
    BENCH_FIGURES,
    {0},
};

// Of --variants.
static const bench_column variant_columns[] = {
    {"kv_dtype", "kv", -4, 0, 0},
    {"batch", "batch", 5, 0, 0},
    {"q_len", "q_len", 5, 0, 0},
    {"kv_len", "kv_len", 7, 0, 0},
    {"head_dim", "dim", 4, 0, 0},
    {"splits", "splits", 6, 0, 0},
    {"variant", "kernel", -26, 0, 0},
    {"us_median", "us median", 10, 1, 0},
    {"slower", "slower", 7, 3, 0},
    {"gbps", "GB/s", 6, 1, 0},
    {"gflops", "GFLOP/s", 8, 1, 0},
    {"roof_fraction", "% roof", 6, 1, 100},
    {0},
};

static bool take_mask(void *to, const char *text)
{
    attention_request *wish = to;
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
    attention_request *wish = to;
    wish->splits = (bench_list){{0}, 1};
    return strcmp(text, "auto") == 0 ||
           bench_parse_list(wish->run.self, "--splits", text, 1, 65536, &wish->splits);
}

static const bench_option options[] = {
    {"dtype", BENCH_DTYPE, .offset = offsetof(attention_request, dtype)},
    {"kv-dtype", BENCH_FORMATS, .offset = offsetof(attention_request, kv_dtypes)},
    {"batch", BENCH_LIST, .offset = offsetof(attention_request, batches), .low = 1, .high = 65536},
    {"q-len", BENCH_LIST, .offset = offsetof(attention_request, q_lens), .low = 1, .high = 1 << 20},
    {"kv-len", BENCH_LIST, .offset = offsetof(attention_request, kv_lens), .low = 1,
     .high = 1 << 24},
    {"heads", BENCH_LIST, .offset = offsetof(attention_request, heads), .low = 1, .high = 4096},
    {"kv-heads", BENCH_INT, .offset = offsetof(attention_request, kv_heads), .low = 1,
     .high = 4096},
    {"head-dim", BENCH_INT, .offset = offsetof(attention_request, head_dim), .low = 1,
     .high = 4096},
    {"page-size", BENCH_INT, .offset = offsetof(attention_request, page_size), .low = 1,
     .high = 65536},
    {"q-lens", BENCH_LIST, .offset = offsetof(attention_request, ragged_q_lens), .low = 1,
     .high = 1 << 20},
    {"kv-lens", BENCH_LIST, .offset = offsetof(attention_request, ragged_kv_lens), .low = 1,
     .high = 1 << 24},
    {"tokens-first", BENCH_FLAG, .offset = offsetof(attention_request, tokens_first)},
    {"shared", BENCH_INT, .offset = offsetof(attention_request, shared), .low = 1, .high = 1 << 24},
    {"sinks", BENCH_FLAG, .offset = offsetof(attention_request, sinks)},
    {"alibi", BENCH_FLAG, .offset = offsetof(attention_request, alibi)},
    {"softcap", BENCH_INT, .offset = offsetof(attention_request, softcap), .low = 1, .high = 10000},
    {"mask", .kind = BENCH_OTHER, .take = take_mask},
    {"splits", .kind = BENCH_OTHER, .take = take_splits},
    {"tile-rows", BENCH_LIST, .offset = offsetof(attention_request, tile_rows), .low = 1,
     .high = 4096},
    {"tile-heads", BENCH_LIST, .offset = offsetof(attention_request, tile_heads), .low = 1,
     .high = 4096},
    {"stages", BENCH_INT, .offset = offsetof(attention_request, stages), .low = 1, .high = 2},
    {"precise", BENCH_FLAG, .offset = offsetof(attention_request, precise)},
    {"variants", BENCH_FLAG, .offset = offsetof(attention_request, variants)},
    {0},
};

static const char *mask_name(const attention_request *wish, char text[32])
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

// Keys that some query of a sequence sees, and the pairs of query and key; of all sequences.
static double seen_keys(const attention_problem *p)
{
    double keys = 0;
    for (int32_t s = 0; s < p->batch; s++) {
        double window =
            p->wish->window ? (double)p->wish->window + attention_q_len(p, s) - 1 : 1e18;
        keys += smaller(attention_kv_len(p, s), window);
    }
    return keys - (double)p->wish->shared * (p->batch - 1);
}

static double pairs_of(const attention_problem *p, int32_t s)
{
    double pairs = 0;
    int32_t q_len = attention_q_len(p, s), kv_len = attention_kv_len(p, s);
    for (int32_t i = 0; i < q_len; i++) {
        double keys = p->wish->mask == WEFT_MASK_FULL ? kv_len : kv_len - q_len + i + 1;
        pairs += p->wish->window ? smaller(keys, p->wish->window) : keys;
    }
    return pairs;
}

static double seen_pairs(const attention_problem *p)
{
    double pairs = 0;
    for (int32_t s = 0; s < p->batch; s++)
        pairs += pairs_of(p, s);
    return pairs;
}

// How many pieces the work has, and how many of the workers have one.
static void add_tasks(json_t *row, const attention_problem *p)
{
    const attention_request *wish = p->wish;
    weft_plan_info info = {.size = sizeof info};
    int32_t workers = weft_context_threads(wish->run.context);
    json_object_set_new(row, "tile_heads", json_integer(p->tile_heads));
    json_object_set_new(row, "stages", json_integer(wish->stages));
    if (weft_plan_query(p->plan, &info) != WEFT_OK || info.tasks < 1 || workers < 1)
        return;
    double busy = info.tasks < workers ? (double)info.tasks / workers : 1;
    json_object_set_new(row, "tasks", json_integer(info.tasks));
    json_object_set_new(row, "busy", json_real(busy));
}

// Results over the first copy of the cache, as numbers.
static bool results_of(attention_problem *p, float *results, int64_t count)
{
    bench *run = &p->wish->run;
    p->args.pool.k.data = run->memory;
    p->args.pool.v.data = run->memory + p->pool_bytes;
    return (weft_attention_run(p->plan, &p->args) == WEFT_OK &&
            weft_dequantize_row(p->wish->dtype, p->out, count, results) == WEFT_OK) ||
           bench_error(run);
}

// The largest difference of a result from that of the fast exponential.
static bool add_difference(json_t *row, attention_problem *p)
{
    attention_request *wish = p->wish;
    attention_problem fast = {.wish = wish,
                              .kv_dtype = p->kv_dtype,
                              .batch = p->batch,
                              .q_len = p->q_len,
                              .kv_len = p->kv_len,
                              .heads = p->heads,
                              .splits = p->splits,
                              .tile_rows = p->tile_rows,
                              .tile_heads = p->tile_heads};
    const int64_t count = (int64_t)p->queries * p->heads * wish->head_dim;
    float *results = malloc(2 * (size_t)count * sizeof *results);
    double far = 0;
    wish->precise = false;
    bool fine = results && attention_make_ready(&fast) && results_of(p, results, count) &&
                results_of(&fast, results + count, count);
    wish->precise = true;
    for (int64_t i = 0; fine && i < count; i++)
        far = fmax(far, fabs((double)results[i] - (double)results[count + i]));
    if (fine)
        json_object_set_new(row, "difference", json_real(far));
    attention_drop(&fast);
    free(results);
    return fine;
}

// Instructions that the nearer roof is one of.
static bench_products products_of(const bench_kernel *kernel)
{
    if (strncmp(kernel->name, "attention_int8_avx512", 21) == 0)
        return BENCH_INT16;
    return strcmp(kernel->isa, "avx512bf16") == 0 ? BENCH_BF16 : BENCH_F32;
}

// What scores go through, where they do.
static void add_scores(json_t *row, const attention_request *wish)
{
    if (wish->sinks)
        json_object_set_new(row, "sinks", json_true());
    if (wish->alibi)
        json_object_set_new(row, "alibi", json_true());
    if (wish->softcap)
        json_object_set_new(row, "softcap", json_integer(wish->softcap));
}

// slower: than the fastest of --variants, 0 where it was measured alone.
static bool print_row(attention_problem *p, const bench_time *time, const bench_roof *roof,
                      double slower)
{
    attention_request *wish = p->wish;
    char mask[32];
    bench_kernel kernel = bench_kernel_of(&wish->run, p->plan);
    double queries =
        2.0 * p->queries * p->heads * wish->head_dim * attention_elem_bytes(wish->dtype);
    double cache =
        2.0 * seen_keys(p) * wish->kv_heads * wish->head_dim * attention_elem_bytes(p->kv_dtype);
    double flops = 4.0 * seen_pairs(p) * p->heads * wish->head_dim;
    json_t *row = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:i, s:s, "
        "s:i, s:b, s:i, s:I, s:i}",
        "op", "attention", "device", bench_device_name(&wish->run), "isa", kernel.isa, "variant",
        kernel.name, "plan", weft_plan_describe(p->plan), "dtype", weft_dtype_name(wish->dtype),
        "kv_dtype", weft_dtype_name(p->kv_dtype), "batch", p->batch, "q_len", p->q_len, "kv_len",
        p->kv_len, "heads", p->heads, "kv_heads", wish->kv_heads, "head_dim", wish->head_dim,
        "page_size", wish->page_size, "tokens_first", wish->tokens_first, "shared", wish->shared,
        "mask", mask_name(wish, mask), "splits", p->splits, "cold", !wish->run.hot, "threads",
        weft_context_threads(wish->run.context), "working_set_bytes",
        (json_int_t)(p->copies * p->stride_bytes), "tile_rows", p->tile_rows);
    if (row) {
        add_scores(row, wish);
        add_tasks(row, p);
    }
    if (row && wish->precise && !add_difference(row, p)) {
        json_decref(row);
        return false;
    }
    if (row && slower > 0)
        json_object_set_new(row, "slower", json_real(slower));
    if (row)
        bench_add_figures(row, time, cache + queries, flops, roof->gbps,
                          bench_roof_gflops(&wish->run, roof, products_of(&kernel)));
    return bench_print(&wish->run, row, slower > 0 ? variant_columns : columns);
}

static bool measure(attention_problem *p)
{
    attention_request *wish = p->wish;
    bench_time time;
    bench_roof roof;
    return attention_make_ready(p) &&
           bench_measure_under(&wish->run, weft_plan_describe(p->plan), attention_run_once, p,
                               &time, &roof) &&
           print_row(p, &time, &roof, 0);
}

// The kernels that serve a problem here, the reference apart: each as the lengths ask, and in one pass.
static int32_t list_variants(attention_request *wish, const attention_problem *like,
                             attention_problem list[BENCH_MAX_RACERS])
{
    int32_t count = 0;
    weft_kernel_info info;
    for (int32_t n = 0; weft_kernel_at(wish->run.context, n, &info); n++) {
        if (strcmp(info.op, "attention") != 0 || !info.usable || strcmp(info.isa, "ref") == 0)
            continue;
        for (int32_t splits = 0; splits <= 1 && count < BENCH_MAX_RACERS; splits++) {
            attention_problem *p = &list[count];
            *p = *like;
            p->splits = splits;
            wish->run.variant = info.name;
            if (!attention_serves(p))
                break;
            if (!attention_make_ready(p))
                goto failed;
            count++;
        }
    }
    wish->run.variant = NULL;
    return count;
failed:
    for (int32_t i = 0; i <= count; i++)
        attention_drop(&list[i]);
    wish->run.variant = NULL;
    return 0;
}

static bool race_variants(attention_request *wish, const attention_problem *like)
{
    attention_problem list[BENCH_MAX_RACERS];
    void *users[BENCH_MAX_RACERS];
    double us[BENCH_MAX_RACERS], best = 0;
    bench_roof roof = {0};
    int32_t count = list_variants(wish, like, list);
    for (int32_t i = 0; i < count; i++)
        users[i] = &list[i];
    bool fine = count > 0 && bench_raise_roof(&wish->run, &roof) &&
                bench_race(&wish->run, weft_plan_describe(list[0].plan), attention_run_once, users,
                           count, us) &&
                bench_raise_roof(&wish->run, &roof);
    for (int32_t i = 0; fine && i < count; i++)
        best = i == 0 || us[i] < best ? us[i] : best;
    for (int32_t i = 0; fine && i < count; i++)
        fine = print_row(&list[i], &(bench_time){us[i], us[i], 1}, &roof, us[i] / best);
    for (int32_t i = 0; i < count; i++)
        attention_drop(&list[i]);
    return fine;
}

static int32_t take(int32_t *at, const bench_list *list)
{
    int32_t value = list->values[*at % list->count];
    *at /= list->count;
    return value;
}

// Every combination of the lists; the last ones change fastest.
static bool measure_all(attention_request *wish)
{
    int32_t all = wish->kv_dtypes.count * wish->batches.count * wish->q_lens.count *
                  wish->kv_lens.count * wish->heads.count * wish->splits.count *
                  wish->tile_rows.count * wish->tile_heads.count;
    bool fine = bench_begin(&wish->run);
    for (int32_t i = 0; fine && i < all; i++) {
        int32_t at = i;
        attention_problem p = {.wish = wish};
        p.tile_heads = take(&at, &wish->tile_heads);
        p.tile_rows = take(&at, &wish->tile_rows);
        p.splits = take(&at, &wish->splits);
        p.heads = take(&at, &wish->heads);
        p.kv_len = take(&at, &wish->kv_lens);
        p.q_len = take(&at, &wish->q_lens);
        p.batch = take(&at, &wish->batches);
        p.kv_dtype = wish->kv_dtypes.values[at];
        fine = wish->variants ? race_variants(wish, &p) : measure(&p);
        attention_drop(&p);
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
static bool settle_ragged(attention_request *wish)
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

// A prefix is whole pages, behind which every sequence has keys of its own, and every query sees all of it.
static bool settle_shared(const attention_request *wish)
{
    const cli_command *self = wish->run.self;
    if (!wish->shared)
        return true;
    if (wish->variants || wish->precise || wish->alibi || wish->window ||
        wish->mask == WEFT_MASK_TREE) {
        cli_bad_usage(self, "--shared goes with masks causal and full, and with neither --alibi, "
                            "--variants nor --precise");
        return false;
    }
    if (wish->shared % wish->page_size != 0) {
        cli_bad_usage(self, "--shared must be whole pages: a multiple of %d", wish->page_size);
        return false;
    }
    for (int32_t i = 0; i < wish->kv_lens.count + wish->ragged_kv_lens.count; i++) {
        const int32_t kv_len = i < wish->kv_lens.count
                                   ? wish->kv_lens.values[i]
                                   : wish->ragged_kv_lens.values[i - wish->kv_lens.count];
        if (kv_len <= wish->shared) {
            cli_bad_usage(self, "--kv-len %d: a sequence has the %d shared keys and its own",
                          kv_len, wish->shared);
            return false;
        }
    }
    return true;
}

static int attention_main(const cli_command *self, int argc, char **argv)
{
    attention_request wish = {.run = bench_default(self),
                              .dtype = WEFT_F32,
                              .kv_dtypes = {{WEFT_F16}, 1},
                              .batches = {{1}, 1},
                              .q_lens = {{1}, 1},
                              .kv_lens = {{4096}, 1},
                              .heads = {{32}, 1},
                              .splits = {{0}, 1},
                              .tile_rows = {{0}, 1},
                              .tile_heads = {{0}, 1},
                              .kv_heads = 8,
                              .head_dim = 128,
                              .page_size = 64};
    int status = bench_parse(&wish.run, options, argc, argv);
    if (status >= 0)
        return status;
    if (wish.variants && (wish.run.variant || wish.run.options.device != WEFT_DEVICE_CPU))
        return cli_bad_usage(self, "--variants goes with neither --variant nor a GPU");
    if (!settle_ragged(&wish) || !settle_shared(&wish))
        return CLI_USAGE;
    return measure_all(&wish) ? CLI_DONE : CLI_FAILED;
}

const cli_command bench_attention = {
    "bench attention", "attention over a paged KV cache", {help}, attention_main};
