// SPDX-License-Identifier: MIT
// weft bench linear --ablate: what the choices of a linear layer are worth.
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench_linear.h"

static const bench_column columns[] = {
    LINEAR_RACE_COLUMNS({"ablation", "without", -12, 0, 0}, {"variant", "kernel", -36, 0, 0})};

// A way to do the problem.
typedef struct way {
    const char *name;    // of what it lacks; "" nothing
    char variant[96];    // "": the best kernel
    int32_t few_batch;   // 0: as the machine likes best
    bool exact;          // activations stay f32
    bool as_in_file;     // weights begin where a file has them, not at a cache line
    bool one_by_one;     // a run for each row of X
    linear_request wish; // its own: variant and exact
    linear_problem p;
} way;

typedef struct ways {
    way list[BENCH_MAX_RACERS];
    int32_t count;
} ways;

static way *add(ways *all, const char *name)
{
    way *next = &all->list[all->count++];
    *next = (way){.name = name};
    return next;
}

// Adds the first kernel that runs here and whose name is linear_<format>_<acts>_<isa>; isa NULL: the best.
static void add_kernel(ways *all, const bench *run, weft_dtype format, const char *name,
                       const char *acts, const char *isa)
{
    char begin[96];
    weft_kernel_info info;
    int length = snprintf(begin, sizeof begin, "linear_%s_%s_", weft_dtype_name(format), acts);
    for (int32_t n = 0; weft_kernel_at(run->context, n, &info); n++)
        if (info.usable && strncmp(info.name, begin, (size_t)length) == 0 &&
            strcmp(info.name + length, info.isa) == 0 && (!isa || strcmp(info.isa, isa) == 0)) {
            snprintf(add(all, name)->variant, sizeof all->list[0].variant, "%s", info.name);
            return;
        }
}

// Adds the kernel of a GPU of that name, if there is one.
static void add_named(ways *all, const bench *run, weft_dtype format, const char *name,
                      const char *acts)
{
    char wanted[96];
    weft_kernel_info info;
    snprintf(wanted, sizeof wanted, "linear_%s_%s_sm80", weft_dtype_name(format), acts);
    for (int32_t n = 0; weft_kernel_at(run->context, n, &info); n++)
        if (info.usable && strcmp(info.name, wanted) == 0) {
            way *next = add(all, name);
            memcpy(next->variant, wanted, sizeof wanted);
            return;
        }
}

// Of a GPU: packed weights, rounded activations, many rows of X at once, blocks of many warps.
static void list_ways_of_gpu(ways *all, const linear_request *wish, weft_dtype format,
                             int32_t batch)
{
    const bool blocks = weft_dtype_block_elems(format) > 1;
    const bool scaled = strncmp(weft_dtype_name(format), "mlx_", 4) == 0; // planes of their own
    add(all, "");
    if (blocks && !scaled)
        add(all, "packing")->as_in_file = true;
    if (blocks)
        add(all, "rounding")->exact = true;
    if (batch > 1 && !scaled)
        add(all, "batching")->one_by_one = true;
    if (batch > 1)
        return;
    const char *acts = blocks ? "q8" : "f32";
    char shape[32];
    static const char *const shapes[][2] = {{"16 warps: 4", "standard"},
                                            {"16 warps: 8", "large"},
                                            {"own team", "wide"},
                                            {"own shape", "batched"}};
    for (int i = 0; i < 4; i++) {
        snprintf(shape, sizeof shape, "%s_%s", acts, shapes[i][1]);
        add_named(all, &wish->run, format, shapes[i][0], shape);
    }
}

static void list_ways(ways *all, const linear_request *wish, weft_dtype format, int32_t batch)
{
    enum { FEW = 8 };
    const bool blocks = weft_dtype_block_elems(format) > 1, few = batch <= FEW;
    const char *acts = blocks ? "q8" : "f32", *panel = blocks ? "q8_panel" : "f32_panel";
    add(all, "");
    add(all, "packing")->as_in_file = true; // and alignment
    if (few)
        add_kernel(all, &wish->run, format, "prefetch", "q8_nofetch", NULL);
    if (few) {
        add_kernel(all, &wish->run, format, "4 rows: 2", "q8_row2", NULL);
        add_kernel(all, &wish->run, format, "4 rows: 1", "q8_row1", NULL);
        add_kernel(all, &wish->run, format, "shift", "q8_masked", NULL);
    }
    if (blocks)
        add(all, "rounding")->exact = true;
    if (batch > 1)
        add(all, "batching")->one_by_one = true;
    if (batch > 1 && few)
        add(all, "tiles")->few_batch = 1;
    if (batch > 1 && few)
        add(all, "panels")->few_batch = FEW;
    if (!few)
        add_kernel(all, &wish->run, format, "panels", acts, NULL);
    add_kernel(all, &wish->run, format, "own format", few ? "q8_any" : "q8_panel_any", NULL);
    add_kernel(all, &wish->run, format, "AVX-512", few ? acts : panel, "avx2");
    if (batch <= 16)
        add_kernel(all, &wish->run, format, "vectors", acts, "ref");
}

static bool run_way(void *user)
{
    way *w = user;
    linear_problem *p = &w->p;
    int32_t batch = p->args.batch;
    if (!w->as_in_file && !w->one_by_one)
        return linear_run_once(p);
    weft_linear_args args = p->args;
    const char *copy =
        p->wish->run.memory + bench_next_copy(&p->wish->run, p->stride_bytes) * p->stride_bytes;
    args.packed = w->as_in_file ? NULL : copy;
    args.weight = w->as_in_file ? copy + p->slack : NULL;
    if (!w->one_by_one)
        return weft_linear_run(p->plan, &args) == WEFT_OK;
    args.batch = 1;
    for (int32_t m = 0; m < batch; m++) {
        args.x = (const float *)p->args.x + (int64_t)m * p->wish->cols;
        args.y = (float *)p->args.y + (int64_t)m * p->wish->rows;
        if (weft_linear_run(p->plan, &args) != WEFT_OK)
            return false;
    }
    return true;
}

// The memory is that of the first way: all have copies of one size.
static bool make_way(way *w, const linear_request *wish, const char *weights, weft_dtype format,
                     int32_t batch)
{
    weft_tuning entry = {.size = sizeof entry, .op = WEFT_TUNING_LINEAR, .few_batch = w->few_batch};
    w->wish = *wish;
    w->wish.run.variant = *w->variant ? w->variant : NULL;
    w->wish.exact = wish->exact || w->exact;
    w->p = (linear_problem){.wish = &w->wish,
                            .weights = weights,
                            .format = format,
                            .batch = batch,
                            .slack = weft_dtype_block_bytes(format)};
    if (w->few_batch && weft_tuning_add(wish->run.context, &entry) != WEFT_OK)
        return bench_error(&wish->run);
    bool fine = linear_make_ready(&w->p);
    if (w->few_batch)
        weft_tuning_clear(wish->run.context);
    return fine;
}

static bool print_way(const way *w, const way *best, double us, double best_us,
                      const bench_roof *roof, bench *run)
{
    const linear_problem *p = &w->p;
    bench_kernel kernel = w->as_in_file ? bench_kernel_of(run, p->plan) : linear_kernel_of(p);
    bench_time time = {us, us, 1};
    double activations = (double)p->batch * ((double)w->wish.rows + w->wish.cols) * sizeof(float);
    double flops = 2.0 * p->batch * w->wish.rows * w->wish.cols;
    json_t *row = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:b, s:i, s:s, s:f}", "op", "linear",
        "device", bench_device_name(run), "isa", kernel.isa, "variant", kernel.name, "plan",
        weft_plan_describe(p->plan), "format", weft_dtype_name(p->format), "rows", w->wish.rows,
        "cols", w->wish.cols, "batch", p->batch, "exact", w->wish.exact, "cold", !run->hot,
        "threads", weft_context_threads(run->context), "ablation", w == best ? "nothing" : w->name,
        "slower", us / best_us);
    if (row)
        bench_add_figures(row, &time, (double)p->weight_bytes + activations, flops, roof->gbps,
                          bench_roof_gflops(run, roof, linear_products(&kernel, p->format)));
    return bench_print(run, row, columns);
}

// The reference takes a thousand times as long: once is enough.
static bool time_once(way *w, double *us)
{
    double before = cli_now_seconds();
    bool fine = run_way(w);
    *us = (cli_now_seconds() - before) * 1e6;
    return fine || bench_error(&w->wish.run);
}

bool linear_ablate(linear_request *wish, const char *weights, weft_dtype format, int32_t batch)
{
    ways *all = calloc(1, sizeof *all);
    void *users[BENCH_MAX_RACERS] = {0};
    double us[BENCH_MAX_RACERS];
    bench_roof roof = {0};
    int32_t made = 0, slow = -1;
    bool fine = all != NULL;
    weft_tuning_clear(wish->run.context); // the library's own values
    const bool gpu = wish->run.options.device != WEFT_DEVICE_CPU;
    if (fine)
        (gpu ? list_ways_of_gpu : list_ways)(all, wish, format, batch);
    for (; fine && made < all->count; made++) {
        way *w = &all->list[made];
        fine = make_way(w, wish, weights, format, batch);
        wish->run.memory = w->wish.run.memory;
        wish->run.memory_bytes = w->wish.run.memory_bytes;
        slow = strcmp(w->name, "vectors") == 0 ? made : slow;
        users[made] = made == slow ? NULL : w;
    }
    fine =
        fine && bench_raise_roof(&wish->run, &roof) &&
        bench_race(&wish->run, weft_plan_describe(all->list[0].p.plan), run_way, users, made, us) &&
        (slow < 0 || time_once(&all->list[slow], &us[slow])) && bench_raise_roof(&wish->run, &roof);
    for (int32_t i = 0; fine && i < made; i++)
        fine = print_way(&all->list[i], &all->list[0], us[i], us[0], &roof, &wish->run);
    for (int32_t i = 0; i < made; i++)
        linear_drop(&all->list[i].p);
    free(all);
    return fine;
}
