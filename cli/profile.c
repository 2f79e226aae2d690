// SPDX-License-Identifier: MIT
// weft profile: where the time of a token goes, operator by operator.
#define _POSIX_C_SOURCE 200809L
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

static const char help[] =
    "usage: weft profile MODEL [options]\n"
    "       weft profile --shape NAME [--format F] [options]\n"
    "\n"
    "Decodes a token again and again, step by step, and prints the time of each operator by\n"
    "the device's own clock, the bytes that it must move, and the share of the memory's\n"
    "bandwidth that it reached. The operators add up to the line 'sum'; 'token' is the time of a\n"
    "token when nothing lies between the steps, as generation runs it, and 'overlap' what that\n"
    "saves (or costs). On a GPU its line says whether the layers were one launch or launches.\n"
    "\n"
    "  --shape NAME        a known shape instead of a file (weft bench model --help lists them)\n"
    "  --format F          format of a shape's matrices, or a mix (q4_k_m); default q4_0\n"
    "  --depth D,...       tokens in the context; default 512. Of several, a second table says\n"
    "                      how the time and the share of every operator change from one to the\n"
    "                      next\n"
    "  --batch B           sequences, a token of each at a time (default 1)\n"
    "  --rounds N          times every step is measured; default 20\n"
    "  --layers            a row for every step of every layer, not one for all layers\n"
    "  --chart FILE        draws the shares of one depth into an SVG file, with gnuplot\n"
    "  --kv-dtype D        format of the KV cache: f16 (default), bf16 or f32\n"
    "  --exact             activations stay f32 against quantised weights\n" BENCH_HELP "\n"
    "Examples:\n"
    "  weft profile models/demo.gguf\n"
    "  weft profile --shape llama-3.2-1b --depth 128,1024,4096\n"
    "  weft profile --shape llama-3.1-8b --format q4_0 --batch 32 --device cuda --json\n";

static const bench_column columns[] = {
    {"what", "operator", -11, 0, 0},
    {"depth", "depth", 7, 0, 0},
    {"batch", "batch", 5, 0, 0},
    {"layer", "layer", 5, 0, 0},
    {"steps", "steps", 5, 0, 0},
    {"us", "us", 9, 1, 0},
    {"share", "% time", 6, 1, 100},
    {"bytes", "bytes", 11, 0, 0},
    {"gbps", "GB/s", 7, 1, 0},
    {"roof_fraction", "% roof", 6, 1, 100},
    {"floor_us", "floor us", 8, 1, 0},
    {"plan", "plan", -20, 0, 0},
    {0},
};

// Of several depths: operators, all their steps together.
static const bench_column depth_columns[] = {
    {"what", "operator", -11, 0, 0},
    {"depth", "depth", 7, 0, 0},
    {"us", "us", 9, 1, 0},
    {"share", "% time", 6, 1, 100},
    {"growth", "times the first", 15, 2, 0},
    {0},
};

enum { MOST_OPERATORS = 32, MAX_BATCH = 256 };

typedef struct operator_times {
    char what[24];
    double us[BENCH_MAX_LIST];
} operator_times;

typedef struct request {
    bench run;
    const char *shape, *path, *chart;
    const char *format;
    bench_list depths;
    int32_t at, rounds, batch; // at: the depth that is measured
    bool layers;
    operator_times operators[MOST_OPERATORS];
    int32_t num_operators;
} request;

static int32_t depth_of(const request *wish)
{
    return wish->depths.values[wish->at];
}

static const bench_option options[] = {
    {"shape", BENCH_TEXT, .offset = offsetof(request, shape)},
    {"format", BENCH_MADE_UP, .offset = offsetof(request, format)},
    {"depth", BENCH_LIST, .offset = offsetof(request, depths), .low = 1, .high = 1 << 24},
    {"batch", BENCH_INT, .offset = offsetof(request, batch), .low = 1, .high = MAX_BATCH},
    {"rounds", BENCH_INT, .offset = offsetof(request, rounds), .low = 1, .high = 10000},
    {"layers", BENCH_FLAG, .offset = offsetof(request, layers)},
    {"chart", BENCH_TEXT, .offset = offsetof(request, chart)},
    {"kv-dtype", .kind = BENCH_ENGINE, .engine_option = CLI_OPT_KV_DTYPE},
    {"exact", .kind = BENCH_ENGINE, .engine_option = CLI_OPT_EXACT},
    {0},
};

// A line of the table: one step, or all that share a plan.
typedef struct line {
    const char *what, *plan;
    int32_t layer, steps; // layer -1: of several
    double us;
    int64_t bytes;
    const char *layers; // of a whole token
} line;

typedef struct table {
    request *wish;
    line *lines;
    int32_t count;
    double roof_gbps, whole_us, sum_us;
    int64_t sum_bytes;
    const char *layers; // how a GPU was given those of the whole token, else NULL
} table;

static bool failed(const request *wish, const engine_error *err)
{
    cli_failed(wish->run.self, "%s", err->text[0] ? err->text : "out of memory");
    return false;
}

static void add_operator(request *wish, const engine_step_time *step)
{
    int32_t i = 0;
    while (i < wish->num_operators && strcmp(wish->operators[i].what, step->op) != 0)
        i++;
    if (i == MOST_OPERATORS)
        return;
    if (i == wish->num_operators)
        snprintf(wish->operators[wish->num_operators++].what, sizeof wish->operators[i].what, "%s",
                 step->op);
    wish->operators[i].us[wish->at] += step->us;
}

static void add(table *t, const engine_step_time *step)
{
    add_operator(t->wish, step);
    int32_t i = t->wish->layers ? t->count : 0;
    while (i < t->count && strcmp(t->lines[i].plan, step->plan) != 0)
        i++;
    if (i == t->count)
        t->lines[t->count++] = (line){
            .what = step->op, .plan = step->plan, .layer = t->wish->layers ? step->layer : -1};
    t->lines[i].steps++;
    t->lines[i].us += step->us;
    t->lines[i].bytes += step->bytes;
    t->sum_us += step->us;
    t->sum_bytes += step->bytes;
}

static bool print_line(const table *t, const line *l)
{
    bench *run = &t->wish->run;
    json_t *row =
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:f, s:f}", "op", "profile", "device",
                  bench_device_name(run), "what", l->what, "depth", depth_of(t->wish), "batch",
                  t->wish->batch, "steps", l->steps, "us", l->us, "share", l->us / t->sum_us);
    if (row && l->layer >= 0)
        json_object_set_new(row, "layer", json_integer(l->layer));
    if (row && l->bytes > 0) {
        double gbps = (double)l->bytes / l->us * 1e-3;
        json_object_set_new(row, "bytes", json_integer(l->bytes));
        json_object_set_new(row, "gbps", json_real(gbps));
        json_object_set_new(row, "roof_gbps", json_real(t->roof_gbps));
        json_object_set_new(row, "roof_fraction", json_real(gbps / t->roof_gbps));
        json_object_set_new(row, "floor_us", json_real((double)l->bytes / t->roof_gbps * 1e-3));
    }
    if (row && l->plan)
        json_object_set_new(row, "plan", json_string(l->plan));
    if (row && l->layers)
        json_object_set_new(row, t->wish->run.json ? "layers" : "plan", json_string(l->layers));
    return bench_print(run, row, columns);
}

static bool print_table(const table *t)
{
    const line sum = {"sum", NULL, -1, 0, t->sum_us, t->sum_bytes, NULL};
    const line overlap = {"overlap", NULL, -1, 0, t->whole_us - t->sum_us, 0, NULL};
    const line whole = {"token", NULL, -1, 0, t->whole_us, t->sum_bytes, t->layers};
    for (int32_t i = 0; i < t->count; i++)
        if (!print_line(t, &t->lines[i]))
            return false;
    return print_line(t, &sum) && print_line(t, &overlap) && print_line(t, &whole);
}

// Bars of the lines' times beside their floors.
static bool draw(const table *t)
{
    const request *wish = t->wish;
    FILE *plot = popen("gnuplot", "w");
    if (!plot)
        return cli_failed(wish->run.self, "gnuplot cannot be started: install it"), false;
    fprintf(plot, "set terminal svg size 900,%d\nset output '%s'\n", 120 + 22 * t->count,
            wish->chart);
    fprintf(plot,
            "set yrange [-1:%d] reverse\nset xlabel 'us of a token'\nset boxwidth 0.8\n"
            "set style fill solid\nset key top right\nset lmargin 28\n$d << E\n",
            t->count);
    for (int32_t i = 0; i < t->count; i++)
        fprintf(plot, "%d %g %g \"%s %.24s\"\n", i, t->lines[i].us,
                (double)t->lines[i].bytes / t->roof_gbps * 1e-3, t->lines[i].what,
                strcmp(t->lines[i].what, "linear") == 0 ? t->lines[i].plan + strlen("linear ")
                                                        : "");
    fprintf(plot,
            "E\nplot $d using ($2/2):1:($2/2):(0.4):ytic(4) with boxxyerror title 'measured', "
            "$d using ($3/2):1:($3/2):(0.2) with boxxyerror title 'bytes over bandwidth'\n");
    if (pclose(plot) == 0)
        return true;
    cli_failed(wish->run.self, "gnuplot did not draw %s: is it installed, and the folder there?",
               wish->chart);
    return false;
}

static bool tabulate(request *wish, const engine_worker *worker, const engine_profile *profile,
                     double roof_gbps)
{
    table t = {.wish = wish, .roof_gbps = roof_gbps, .whole_us = profile->whole_us};
    if (wish->run.options.device == WEFT_DEVICE_CUDA)
        t.layers = cli_layers_of(worker);
    t.lines = malloc((size_t)profile->count * sizeof *t.lines);
    if (!t.lines)
        return failed(wish, &(engine_error){{0}});
    for (int32_t i = 0; i < profile->count; i++)
        add(&t, &profile->steps[i]);
    bool fine = print_table(&t) && (!wish->chart || draw(&t));
    free(t.lines);
    return fine;
}

// Any tokens: what is in the context does not change the time.
static bool fill_context(const request *wish, engine_worker *worker, engine_session *session,
                         engine_error *err)
{
    engine_model_info info;
    engine_model_describe(engine_worker_model(worker), &info);
    const int32_t different = info.vocab < 97 ? info.vocab : 97;
    int32_t *ids = malloc((size_t)depth_of(wish) * sizeof *ids);
    for (int32_t i = 0; ids && i < depth_of(wish); i++)
        ids[i] = i % different;
    engine_feed feed = {.session = session, .ids = ids, .count = depth_of(wish)};
    bool fine = ids && engine_eval(worker, &feed, 1, NULL, NULL, err);
    free(ids);
    return fine || failed(wish, err);
}

// At the depth whose turn it is.
static bool profile_depth(request *wish, engine_worker *worker)
{
    engine_error err = {{0}};
    bench_roof roof = {0};
    engine_session *sessions[MAX_BATCH] = {0};
    engine_profile *profile = NULL;
    bool fine = true;
    for (int32_t i = 0; fine && i < wish->batch; i++) {
        sessions[i] = engine_session_open(worker, &err);
        fine = sessions[i] ? fill_context(wish, worker, sessions[i], &err) : failed(wish, &err);
    }
    fine = fine && bench_raise_roof(&wish->run, &roof);
    if (fine) {
        profile = engine_profile_take(sessions, wish->batch, wish->rounds, &err);
        fine = profile ? bench_raise_roof(&wish->run, &roof) : failed(wish, &err);
    }
    fine = fine && tabulate(wish, worker, profile, roof.gbps);
    free(profile);
    for (int32_t i = 0; i < wish->batch; i++)
        engine_session_close(sessions[i]);
    return fine;
}

// How the operators' times go with the depth.
static bool compare_depths(request *wish)
{
    const int32_t depths = wish->depths.count;
    double sums[BENCH_MAX_LIST] = {0};
    bool fine = true;
    for (int32_t i = 0; i < wish->num_operators; i++)
        for (int32_t d = 0; d < depths; d++)
            sums[d] += wish->operators[i].us[d];
    if (!wish->run.json)
        putchar('\n');
    wish->run.rows_printed = 0; // a table of its own
    for (int32_t i = 0; i < wish->num_operators && fine; i++)
        for (int32_t d = 0; d < depths && fine; d++) {
            const double us = wish->operators[i].us[d], first = wish->operators[i].us[0];
            json_t *row =
                json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:f}", "op", "profile depth", "device",
                          bench_device_name(&wish->run), "what", wish->operators[i].what, "depth",
                          wish->depths.values[d], "us", us, "share", us / sums[d], "growth",
                          first > 0 ? us / first : 0);
            fine = bench_print(&wish->run, row, depth_columns);
        }
    return fine;
}

static bool profile_model(request *wish, engine_model *model)
{
    engine_error err = {{0}};
    engine_worker *worker = engine_worker_open(model, &wish->run.options, &err);
    bool fine = worker || failed(wish, &err);
    for (wish->at = 0; fine && wish->at < wish->depths.count; wish->at++)
        fine = profile_depth(wish, worker);
    fine = fine && (wish->depths.count == 1 || compare_depths(wish));
    engine_worker_close(worker);
    return fine;
}

static bool execute(request *wish)
{
    engine_error err = {{0}};
    engine_model *model = NULL;
    bool fine = bench_begin(&wish->run) &&
                bench_reserve(&wish->run, bench_working_set(&wish->run, 1 << 20));
    if (fine) {
        model = wish->path
                    ? engine_model_open(wish->path, &err)
                    : engine_model_synthesise(wish->shape, wish->format, &wish->run.options, &err);
        fine = model ? profile_model(wish, model) : failed(wish, &err);
    }
    engine_model_close(model);
    bench_end(&wish->run);
    return fine;
}

static int profile_main(const cli_command *self, int argc, char **argv)
{
    request wish = {.run = bench_default(self), .depths = {{512}, 1}, .rounds = 20, .batch = 1};
    if (argc > 1 && argv[1][0] != '-') {
        wish.path = argv[1];
        argv++;
        argc--;
    }
    int status = bench_parse(&wish.run, options, argc, argv);
    if (status >= 0)
        return status;
    if (!wish.shape == !wish.path)
        return cli_bad_usage(self, "give either a MODEL file or --shape NAME");
    if (wish.run.hot || wish.run.variant)
        return cli_bad_usage(self, "--hot and --variant belong to single kernels (weft bench)");
    if (wish.path && wish.format)
        return cli_bad_usage(self, "--format belongs to --shape: a file has its own formats");
    if (wish.chart && wish.depths.count > 1)
        return cli_bad_usage(self, "--chart draws one --depth");
    if (!wish.format)
        wish.format = "q4_0";
    wish.run.options.max_sessions = wish.batch;
    for (int32_t d = 0; d < wish.depths.count; d++)
        if (wish.run.options.context_tokens <= wish.depths.values[d])
            wish.run.options.context_tokens = wish.depths.values[d] + 1;
    return execute(&wish) ? CLI_DONE : CLI_FAILED;
}

const cli_command cli_profile = {
    "profile", "the time of a token, operator by operator", {help}, profile_main};
