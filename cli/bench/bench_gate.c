// SPDX-License-Identifier: MIT
// weft bench linear --gate: an MLP of gate, up and down, with the function between them applied in three places:
//
//   product   behind the product of gate and up, whose result is rounded there
//   loading   as down loads its rows of X (x_gate): both factors are stored
//   apart     by an operation of its own
#include <stdlib.h>

#include "cli/bench/bench_linear.h"

enum { PRODUCT, LOADING, APART, PLACES };
enum { GATE, UP, DOWN, MATRICES };

static const bench_column columns[] = {LINEAR_RACE_COLUMNS({"place", "function at", -11, 0, 0})};

typedef struct mlp {
    linear_request *wish;
    weft_dtype format;
    int32_t batch;
    bool rounds;                                 // the format's kernels round their activations
    int64_t offset[MATRICES + 1], stride_bytes;  // of a copy of the matrices; the last: its end
    weft_plan *front[2], *middle, *down[PLACES]; // front: with the gate behind it, and without
    float *x, *y;
    void *between, *activated,
        *workspace; // gate and up, rounded or [batch][2 cols]; the function of those
    size_t workspace_bytes;
} mlp;

// A place where the function is applied.
typedef struct way {
    mlp *of;
    int place;
} way;

static weft_linear_desc front_of(const mlp *m, bool gate)
{
    const weft_linear_part part = {.weight_dtype = m->format, .rows = m->wish->cols};
    return (weft_linear_desc){
        .size = sizeof(weft_linear_desc),
        .flags = gate && m->rounds ? WEFT_LINEAR_Y_ROUNDED : 0,
        .max_batch = m->batch,
        .cols = m->wish->rows,
        .gate = gate ? WEFT_LINEAR_GATE_SILU : WEFT_LINEAR_GATE_NONE,
        .num_parts = 2,
        .parts = {part, part},
    };
}

static weft_linear_desc down_of(const mlp *m, int place)
{
    return (weft_linear_desc){
        .size = sizeof(weft_linear_desc),
        .flags = place == PRODUCT && m->rounds ? WEFT_LINEAR_X_ROUNDED : 0,
        .weight_dtype = m->format,
        .max_batch = m->batch,
        .rows = m->wish->rows,
        .cols = m->wish->cols,
        .x_gate = place == LOADING ? WEFT_LINEAR_GATE_SILU : WEFT_LINEAR_GATE_NONE,
    };
}

static bool plan_linear(mlp *m, weft_linear_desc desc, weft_plan **plan)
{
    if (weft_linear_plan(m->wish->run.context, &desc, plan) != WEFT_OK)
        return bench_error(&m->wish->run);
    if (weft_plan_workspace_bytes(*plan) > m->workspace_bytes)
        m->workspace_bytes = weft_plan_workspace_bytes(*plan);
    return true;
}

static bool make_plans(mlp *m)
{
    const weft_activation_desc function = {.size = sizeof function,
                                           .kind = WEFT_ACTIVATION_SILU,
                                           .dim = m->wish->cols,
                                           .max_rows = m->batch};
    bool fine = plan_linear(m, front_of(m, true), &m->front[0]) &&
                plan_linear(m, front_of(m, false), &m->front[1]);
    for (int place = 0; fine && place < PLACES; place++)
        fine = plan_linear(m, down_of(m, place), &m->down[place]);
    if (fine && weft_activation_plan(m->wish->run.context, &function, &m->middle) != WEFT_OK)
        fine = bench_error(&m->wish->run);
    return fine;
}

// All copies of the three matrices, packed as the plans read them.
static bool fill_matrices(mlp *m, const char *down, const char *front)
{
    bench *run = &m->wish->run;
    int64_t at = 0;
    for (int i = 0; i < MATRICES; i++) {
        m->offset[i] = at;
        const size_t bytes =
            weft_linear_packed_bytes(i == DOWN ? m->down[APART] : m->front[1], i == UP);
        at += (int64_t)((bytes + 63) / 64 * 64);
    }
    m->offset[MATRICES] = at;
    if (!bench_reserve(run, bench_working_set(run, at)))
        return false;
    const int32_t copies = bench_copies(run, at, &m->stride_bytes);
    bench_progress(run, "writing weights");
    for (int i = 0; i < MATRICES; i++) {
        const weft_linear_pack_args pack = {.size = sizeof pack,
                                            .part = i == UP,
                                            .weight = i == DOWN ? down : front,
                                            .packed = run->memory + m->offset[i]};
        if (weft_linear_pack(i == DOWN ? m->down[APART] : m->front[1], &pack) != WEFT_OK)
            return bench_error(run);
    }
    for (int64_t copy = 1; copy < copies; copy++)
        if (!bench_put(run, run->memory + copy * m->stride_bytes, run->memory, at))
            return false;
    return true;
}

static bool make_buffers(mlp *m)
{
    bench *run = &m->wish->run;
    const size_t x = (size_t)m->batch * (size_t)m->wish->rows,
                 wide = (size_t)m->batch * (size_t)m->wish->cols;
    const size_t rounded = weft_rounded_bytes(run->context, m->batch, m->wish->cols);
    const size_t factors = 2 * wide * sizeof(float);
    uint32_t state = 1;
    m->x = bench_allocate(run, x * sizeof *m->x);
    m->y = bench_allocate(run, x * sizeof *m->y);
    m->between = bench_allocate(run, rounded > factors ? rounded : factors);
    m->activated = bench_allocate(run, wide * sizeof(float));
    m->workspace = bench_allocate(run, m->workspace_bytes + 64);
    if (!m->x || !m->y || !m->between || !m->activated || !m->workspace)
        return false;
    for (size_t i = 0; i < x; i++)
        m->x[i] = bench_value(&state);
    return true;
}

static bool run_front(const mlp *m, int place, const char *copy)
{
    const int64_t cols = m->wish->cols;
    weft_linear_args args = {.size = sizeof args,
                             .batch = m->batch,
                             .x = m->x,
                             .workspace = m->workspace,
                             .workspace_bytes = m->workspace_bytes};
    for (int i = 0; i < 2; i++)
        args.parts[i].packed = copy + m->offset[i];
    args.parts[GATE].y = m->between;
    if (place != PRODUCT) {
        args.parts[UP].y = (float *)m->between + cols;
        args.parts[GATE].y_stride = args.parts[UP].y_stride = 2 * cols;
    }
    return weft_linear_run(m->front[place != PRODUCT], &args) == WEFT_OK;
}

static bool run_middle(const mlp *m)
{
    const int64_t cols = m->wish->cols;
    const weft_activation_args args = {.size = sizeof args,
                                       .rows = m->batch,
                                       .x = m->between,
                                       .x_stride = 2 * cols,
                                       .up = (const float *)m->between + cols,
                                       .up_stride = 2 * cols,
                                       .y = m->activated};
    return weft_activation_run(m->middle, &args) == WEFT_OK;
}

static bool run_way(void *user)
{
    const way *w = user;
    const mlp *m = w->of;
    bench *run = &m->wish->run;
    const char *copy = run->memory + bench_next_copy(run, m->stride_bytes) * m->stride_bytes;
    const weft_linear_args down = {.size = sizeof down,
                                   .batch = m->batch,
                                   .packed = copy + m->offset[DOWN],
                                   .x = w->place == APART ? m->activated : m->between,
                                   .y = m->y,
                                   .workspace = m->workspace,
                                   .workspace_bytes = m->workspace_bytes};
    return run_front(m, w->place, copy) && (w->place != APART || run_middle(m)) &&
           weft_linear_run(m->down[w->place], &down) == WEFT_OK;
}

static bool print_way(const mlp *m, int place, const double us[], const bench_roof *roof)
{
    static const char *const names[PLACES] = {"product", "loading", "apart"};
    bench *run = &m->wish->run;
    const bench_kernel kernel = bench_kernel_of(run, m->down[place]);
    const bench_time time = {us[place], us[place], 1};
    const double flops = 6.0 * m->batch * m->wish->rows * m->wish->cols;
    json_t *row = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:i, s:s, s:f}", "op", "mlp", "device",
        bench_device_name(run), "isa", kernel.isa, "plan", weft_plan_describe(m->down[place]),
        "format", weft_dtype_name(m->format), "rows", m->wish->rows, "cols", m->wish->cols, "batch",
        m->batch, "cold", !run->hot, "threads", weft_context_threads(run->context), "place",
        names[place], "slower", us[place] / us[PRODUCT]);
    if (row)
        bench_add_figures(row, &time, (double)m->offset[MATRICES], flops, roof->gbps,
                          bench_roof_gflops(run, roof, linear_products(&kernel, m->format)));
    return bench_print(run, row, columns);
}

static void drop(mlp *m)
{
    weft_context *context = m->wish->run.context;
    void *const buffers[] = {m->x, m->y, m->between, m->activated, m->workspace};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        weft_memory_free(context, buffers[i]);
    for (int i = 0; i < 2; i++)
        weft_plan_destroy(m->front[i]);
    for (int place = 0; place < PLACES; place++)
        weft_plan_destroy(m->down[place]);
    weft_plan_destroy(m->middle);
}

bool linear_gate(linear_request *wish, const char *weights, weft_dtype format, int32_t batch)
{
    mlp m = {.wish = wish,
             .format = format,
             .batch = batch,
             .rounds = weft_dtype_block_elems(format) > 1 && wish->cols % 32 == 0};
    linear_request turned = *wish;
    turned.rows = wish->cols;
    turned.cols = wish->rows;
    char *front = linear_make_weights(&turned, format);
    way ways[PLACES];
    void *users[PLACES];
    double us[BENCH_MAX_RACERS] = {0};
    bench_roof roof = {0};
    for (int place = 0; place < PLACES; place++) {
        ways[place] = (way){&m, place};
        users[place] = &ways[place];
    }
    bool fine =
        front && make_plans(&m) && fill_matrices(&m, weights, front) && make_buffers(&m) &&
        bench_raise_roof(&wish->run, &roof) &&
        bench_race(&wish->run, weft_plan_describe(m.front[0]), run_way, users, PLACES, us) &&
        bench_raise_roof(&wish->run, &roof);
    for (int place = 0; fine && place < PLACES; place++)
        fine = print_way(&m, place, us, &roof);
    drop(&m);
    free(front);
    return fine;
}
